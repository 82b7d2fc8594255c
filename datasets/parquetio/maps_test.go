package parquetio_test

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

func mapsOf(t *testing.T, data []byte) []map[string]any {
	t.Helper()
	var out []map[string]any
	for m, err := range parquetio.Maps(context.Background(), bytes.NewReader(data), int64(len(data))) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, m)
	}
	return out
}

// Files of others: every kind of column, as a JSON reader would give it.
func TestMapsReadsForeignColumns(t *testing.T) {
	type leafs struct {
		Bool    bool             `parquet:"bool"`
		Small   int32            `parquet:"small"`
		Large   uint64           `parquet:"large"`
		Half    float32          `parquet:"half"`
		Blob    []byte           `parquet:"blob"`
		Date    int32            `parquet:"date,date"`
		At      time.Time        `parquet:"at,timestamp(microsecond)"`
		Price   int64            `parquet:"price,decimal(2:18)"`
		ID      [16]byte         `parquet:"id,uuid"`
		Nothing *int64           `parquet:"nothing,optional"`
		Counts  map[string]int64 `parquet:"counts"`
		Bare    []string         `parquet:"bare"` // repeated, without a list around it
		Lists   [][]int64        `parquet:"lists,list" parquet-element:",list"`
	}
	at := time.Date(2026, 11, 30, 16, 45, 1, 123456000, time.UTC)
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[leafs](&buf)
	rows := []leafs{
		{
			Bool: true, Small: -7, Large: 1<<64 - 1, Half: 0.5, Blob: []byte{0xff, 0}, Date: 20787, At: at, Price: -5,
			ID: [16]byte{0: 0x12, 15: 0x34}, Counts: map[string]int64{"a": 1, "b": 2}, Bare: []string{"x", "y"}, Lists: [][]int64{{1, 2}, {}, {3}},
		},
		{Price: 12345, At: at, Blob: []byte("text"), Large: 3},
	}
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{
			"bool": true, "small": int64(-7), "large": uint64(1<<64 - 1), "half": 0.5, "blob": []byte{0xff, 0},
			"date": "2026-11-30", "at": "2026-11-30T16:45:01.123456Z", "price": "-0.05",
			"id": "12000000-0000-0000-0000-000000000034", "nothing": nil,
			"counts": map[string]any{"a": int64(1), "b": int64(2)}, "bare": []any{"x", "y"},
			"lists": []any{[]any{int64(1), int64(2)}, []any{}, []any{int64(3)}},
		},
		{
			"bool": false, "small": int64(0), "large": int64(3), "half": 0.0, "blob": "text",
			"date": "1970-01-01", "at": "2026-11-30T16:45:01.123456Z", "price": "123.45",
			"id": "00000000-0000-0000-0000-000000000000", "nothing": nil,
			"counts": map[string]any{}, "bare": []any{}, "lists": []any{},
		},
	}
	if diff := cmp.Diff(want, mapsOf(t, buf.Bytes())); diff != "" {
		t.Error(diff)
	}
}

// Null, empty and filled lists of optional structs stay apart.
func TestMapsTellsNullListsFromEmptyOnes(t *testing.T) {
	type inner struct {
		A *string  `parquet:"a,optional"`
		L []string `parquet:"l,list,optional"`
	}
	type outer struct {
		Items []*inner `parquet:"items,list,optional"`
		In    *inner   `parquet:"in,optional"`
	}
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[outer](&buf)
	rows := []outer{
		{},
		{Items: []*inner{}, In: &inner{}},
		{Items: []*inner{{A: ptr("x"), L: []string{}}, {L: []string{"p", "q"}}}, In: &inner{A: ptr(""), L: []string{"z"}}},
	}
	if _, err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{
		{"items": nil, "in": nil},
		{"items": []any{}, "in": map[string]any{"a": nil, "l": nil}},
		{
			"items": []any{map[string]any{"a": "x", "l": []any{}}, map[string]any{"a": nil, "l": []any{"p", "q"}}},
			"in":    map[string]any{"a": "", "l": []any{"z"}},
		},
	}
	if diff := cmp.Diff(want, mapsOf(t, buf.Bytes())); diff != "" {
		t.Error(diff)
	}
}
