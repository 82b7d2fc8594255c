package parquetio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/parquet-go/parquet-go"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// Every table is read column by column, and that gives what the library's
// assembly gives, over rows with every mixture of nulls, empty and full lists.
func TestColumnsGiveTheRowsThatTheLibraryGives(t *testing.T) {
	for seed := range uint64(2) {
		sameAsLibrary[datasets.Row](t, seed)
		sameAsLibrary[datasets.Candidate](t, seed)
		sameAsLibrary[datasets.Pair](t, seed)
		sameAsLibrary[datasets.PromptRow](t, seed)
		sameAsLibrary[datasets.Attempt](t, seed)
		sameAsLibrary[datasets.LogprobRow](t, seed)
		sameAsLibrary[datasets.JudgeRow](t, seed)
		sameAsLibrary[deep](t, seed)
	}
}

// embedding has the fields of another struct, whose name is nobody else's.
type embedding struct {
	ID string `parquet:"id"`
	innermost
	Last []embedded `parquet:"last,list"`
}

type embedded struct {
	innermost
	More *string `parquet:"more,optional"`
}

// The library reads a null in an embedded struct as a zero, so what was written
// is compared.
func TestEmbeddedStructsComeBack(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	rows := make([]embedding, 200)
	for i := range rows {
		fillValue(reflect.ValueOf(&rows[i]).Elem(), random, 0)
	}
	var buf bytes.Buffer
	w, err := NewWriter[embedding](&buf, Options{RowGroupRows: 70})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open[embedding](bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil || r.assembly == nil {
		t.Fatal(r, err)
	}
	if d := cmp.Diff(rows, collect(t, r), cmp.AllowUnexported(embedding{}, embedded{}), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%.3000s", d)
	}
}

// Fields of embedded structs are held to UTF-8, and count, as all others.
func TestEmbeddedStructsAreWalked(t *testing.T) {
	row := embedding{innermost: innermost{Kind: "bad \xff"}, Last: []embedded{{innermost: innermost{Kind: "\xfe" + strings.Repeat("x", 1000)}}}}
	var size int64
	if walkOf(reflect.TypeFor[embedding]())(unsafe.Pointer(&row), &size) || size < 1000 {
		t.Errorf("walked over %d bytes, and found all valid", size)
	}
	var buf bytes.Buffer
	w, err := NewWriter[embedding](&buf, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]embedding{row}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open[embedding](bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	got := collect(t, r)
	if len(got) != 1 || got[0].Kind != "bad \uFFFD" || !strings.HasPrefix(got[0].Last[0].Kind, "\uFFFDxxx") || row.Kind != "bad \xff" {
		t.Errorf("got %.100q", fmt.Sprint(got))
	}
}

// deep has what no table has: lists in lists, pointers to structs, bytes.
type deep struct {
	ID    string  `parquet:"id"`
	Inner *inner  `parquet:"inner,optional"`
	Many  []inner `parquet:"many,list,optional"`
	Raw   []byte  `parquet:"raw"`
	Small int32   `parquet:"small,delta"`
	Wide  float32 `parquet:"wide"`
}

type inner struct {
	Words []string   `parquet:"words,list"`
	Lists [][]int64  `parquet:"lists,list"`
	Flag  *bool      `parquet:"flag,optional"`
	Deep  *innermost `parquet:"deep,optional"`
	Half  []float32  `parquet:"half,list,optional"`
}

type innermost struct {
	Kind   string   `parquet:"kind,dict"`
	Number *float64 `parquet:"number,optional"`
}

func sameAsLibrary[T any](t *testing.T, seed uint64) {
	t.Helper()
	random := rand.New(rand.NewPCG(seed, 7))
	rows := make([]T, 150)
	for i := range rows {
		fillValue(reflect.ValueOf(&rows[i]).Elem(), random, 0)
	}
	var buf bytes.Buffer
	w, err := NewWriter[T](&buf, Options{RowGroupRows: 60})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open[T](bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if r.assembly == nil {
		t.Fatalf("%T is read by the library", rows[0])
	}
	ours := collect(t, r)
	r.assembly = nil
	theirs := collect(t, r)
	if d := cmp.Diff(theirs, ours); d != "" {
		t.Errorf("%T differs from what the library reads:\n%.3000s", rows[0], d)
	}
	if len(ours) != len(rows) {
		t.Errorf("%d rows of %d", len(ours), len(rows))
	}
}

func collect[T any](t *testing.T, r *Reader[T]) []T {
	t.Helper()
	var out []T
	for row, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

// fillValue fills v: a third of what may be absent is, lists have up to three
// elements, and texts are short, empty or longer than a few pages together.
func fillValue(v reflect.Value, random *rand.Rand, depth int) {
	switch v.Kind() {
	case reflect.Pointer:
		if random.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fillValue(v.Elem(), random, depth)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			v.SetBytes(fmt.Append([]byte{}, random.IntN(1000)))
			return
		}
		if random.IntN(3) == 0 {
			return
		}
		n := random.IntN(4)
		v.Set(reflect.MakeSlice(v.Type(), n, n))
		for i := range n {
			fillValue(v.Index(i), random, depth+1)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); written(f) {
				fillValue(v.Field(i), random, depth+1)
			}
		}
	case reflect.String:
		v.SetString(strings.Repeat(string(rune('a'+random.IntN(20))), random.IntN(4)*random.IntN(300)))
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int32, reflect.Int64:
		v.SetInt(int64(int32(random.Uint32())))
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(random.IntN(1000)) / 8)
	default:
		panic("a field of kind " + v.Kind().String())
	}
}

// A row that somebody keeps is not changed by what is read after it.
func TestRowsThatAreKeptStay(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	rows := make([]deep, 2000)
	for i := range rows {
		fillValue(reflect.ValueOf(&rows[i]).Elem(), random, 0)
	}
	var buf bytes.Buffer
	w, err := NewWriter[deep](&buf, Options{RowGroupRows: 700})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := OpenTrusted[deep](bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var seen [][]byte
	var kept []deep
	for row, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(row)
		if err != nil {
			t.Fatal(err)
		}
		seen, kept = append(seen, b), append(kept, row)
	}
	for i := range kept {
		b, err := json.Marshal(kept[i])
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, seen[i]) {
			t.Fatalf("row %d changed after it was read", i)
		}
	}
	if len(kept) != len(rows) {
		t.Errorf("%d rows of %d", len(kept), len(rows))
	}
}

// What the library has to read: maps and times, and what others wrote.
func TestWhatIsLeftToTheLibrary(t *testing.T) {
	type withTime struct {
		At int64 `parquet:"at,timestamp(microsecond)"`
	}
	type withMap struct {
		M map[string]string `parquet:"m"`
	}
	for name, reads := range map[string]bool{
		"time": assembles[withTime](t), "map": assembles[withMap](t),
	} {
		if reads {
			t.Errorf("%s: is read column by column", name)
		}
	}
	if !assembles[innermost](t) {
		t.Error("a plain struct is left to the library")
	}
}

func assembles[T any](t *testing.T) bool {
	t.Helper()
	var buf bytes.Buffer
	w, err := NewWriter[T](&buf, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(make([]T, 2)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := Open[T](bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return r.assembly != nil
}

// A file that seems to be ours and has pages that contradict each other is an
// error. Levels of three columns of one list are exchanged here by writing
// other rows and taking their column.
func TestColumnsThatDifferInLengthAreDamage(t *testing.T) {
	rows := []deep{{Many: []inner{{}, {}}}, {Many: []inner{{}}}}
	c := columnReader{
		assembledColumn: &assembledColumn{define: 3, kind: valueKind{kind: reflect.Int32}, steps: []step{
			{offset: reflect.TypeFor[deep]().Field(2).Offset, define: 1, repeat: 1, typ: reflect.TypeFor[[]inner](), size: reflect.TypeFor[inner]().Size()},
		}},
		repeat: []byte{0, 1, 1, 0}, define: []byte{2, 2, 2, 2}, entries: 4, pages: noPages{},
	}
	_, err := c.nested(reflect.ValueOf(rows).UnsafePointer(), 2, reflect.TypeFor[deep]().Size())
	if err == nil || !strings.Contains(err.Error(), "differ in length") {
		t.Errorf("got %v", err)
	}
}

type noPages struct{}

func (noPages) ReadPage() (parquet.Page, error) { return nil, io.EOF }
func (noPages) SeekToRow(int64) error           { return nil }
func (noPages) Close() error                    { return nil }
