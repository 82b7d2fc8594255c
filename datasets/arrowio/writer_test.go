package arrowio_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets/arrowio"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

func ptr[T any](v T) *T { return &v }

// every has a column of each kind that a row may have.
type every struct {
	Text     string          `parquet:"text,dict"`
	Maybe    *string         `parquet:"maybe,optional"`
	Yes      bool            `parquet:"yes"`
	Number   int64           `parquet:"number"`
	Small    *int32          `parquet:"small,optional"`
	Float    float32         `parquet:"float"`
	Double   *float64        `parquet:"double,optional"`
	Bytes    []byte          `parquet:"bytes"`
	Token    []*[]byte       `parquet:"token,list"`
	When     time.Time       `parquet:"when"`
	Raw      json.RawMessage `parquet:"raw"`
	Turns    []turn          `parquet:"turns,list"`
	Flags    []string        `parquet:"flags,list,optional"`
	One      *turn           `parquet:"one,optional"`
	Internal string          `parquet:"-"`
	embedded
}

type embedded struct {
	ID string `parquet:"id"`
}

type turn struct {
	Role  string `parquet:"role"`
	Calls []call `parquet:"calls,list,optional"`
}

type call struct {
	Name *string `parquet:"name,optional"`
	Args string  `parquet:"args"`
}

func rows() []every {
	return []every{
		{},
		{
			Text: "数学 \U0001F600 \x00 \u2028", Maybe: ptr(""), Yes: true, Number: -1 << 63, Small: ptr(int32(0)), Float: -0.5, Double: ptr(1e300),
			Bytes: []byte{0, 255}, Token: []*[]byte{ptr([]byte("a")), nil, ptr([]byte{})}, When: time.Date(2026, 11, 30, 1, 2, 3, 4000, time.FixedZone("x", 3600)),
			Raw:   json.RawMessage(`{"a":null}`),
			Turns: []turn{{Role: "user"}, {Role: "assistant", Calls: []call{{Args: "{}"}, {Name: ptr("f"), Args: ""}}}, {Role: "x", Calls: []call{}}},
			Flags: []string{}, One: &turn{Role: "tool"}, embedded: embedded{ID: "i"},
		},
		{Text: "bad \xff byte", Turns: []turn{}, Flags: []string{"", "x"}},
	}
}

// stream writes rows and closes the stream.
func stream[T any](t *testing.T, rows []T, opt arrowio.Options) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := arrowio.NewWriter(&out, reflect.TypeFor[T](), opt)
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Rows() != int64(len(rows)) || w.Bytes() != int64(out.Len()) {
		t.Errorf("the writer tells of %d rows and %d bytes of %d and %d", w.Rows(), w.Bytes(), len(rows), out.Len())
	}
	return out.Bytes()
}

// read gives the rows of a stream as JSON, and the rows of each batch.
func read(t *testing.T, data io.Reader) (schema *arrow.Schema, rows []map[string]any, batches []int64) {
	t.Helper()
	r, err := ipc.NewReader(data)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	for r.Next() {
		record := r.Record()
		text, err := record.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var some []map[string]any
		if err := json.Unmarshal(text, &some); err != nil {
			t.Fatal(err)
		}
		rows, batches = append(rows, some...), append(batches, record.NumRows())
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return r.Schema(), rows, batches
}

func TestRowsComeBackWithEveryNullAndEmptyValueApart(t *testing.T) {
	_, got, _ := read(t, bytes.NewReader(stream(t, rows(), arrowio.Options{})))
	zero := map[string]any{
		"text": "", "maybe": nil, "yes": false, "number": 0.0, "small": nil, "float": 0.0, "double": nil, "bytes": "", "token": []any{},
		"when": "0001-01-01 00:00:00Z", "raw": nil, "turns": []any{}, "flags": nil, "one": nil, "id": "",
	}
	full := map[string]any{
		"text": "数学 \U0001F600 \x00 \u2028", "maybe": "", "yes": true, "number": float64(-1 << 63), "small": 0.0, "float": -0.5, "double": 1e300,
		"bytes": "AP8=", "token": []any{"YQ==", nil, ""}, "when": "2026-11-30 00:02:03.000004Z", "raw": `{"a":null}`,
		"turns": []any{
			map[string]any{"role": "user", "calls": nil},
			map[string]any{"role": "assistant", "calls": []any{map[string]any{"name": nil, "args": "{}"}, map[string]any{"name": "f", "args": ""}}},
			map[string]any{"role": "x", "calls": []any{}},
		},
		"flags": []any{}, "one": map[string]any{"role": "tool", "calls": nil}, "id": "i",
	}
	bad := map[string]any{}
	for k, v := range zero {
		bad[k] = v
	}
	bad["text"], bad["flags"] = "bad \uFFFD byte", []any{"", "x"}
	if diff := cmp.Diff([]map[string]any{zero, full, bad}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheSchemaIsTheTypes(t *testing.T) {
	schema, _, _ := read(t, bytes.NewReader(stream(t, rows()[:0], arrowio.Options{Metadata: map[string]string{"b": "2", "a": "1"}})))
	want := strings.Join([]string{
		"text: utf8", "maybe: utf8", "yes: bool", "number: int64", "small: int32",
		"float: float32", "double: float64", "bytes: binary", "token: list<item: binary, nullable>",
		"when: timestamp[us, tz=UTC]", "raw: utf8",
		"turns: list<item: struct<role: utf8, calls: list<item: struct<name: utf8, args: utf8>, nullable>>, nullable>",
		"flags: list<item: utf8, nullable>", "one: struct<role: utf8, calls: list<item: struct<name: utf8, args: utf8>, nullable>>",
		"id: utf8",
	}, "\n")
	var got []string
	for _, f := range schema.Fields() {
		if !f.Nullable {
			t.Errorf("%s is not nullable", f.Name)
		}
		got = append(got, f.Name+": "+f.Type.String())
	}
	if diff := cmp.Diff(want, strings.Join(got, "\n")); diff != "" {
		t.Error(diff)
	}
	keys := schema.Metadata().Keys()
	if !slices.Equal(keys, []string{"huggingface", "a", "b"}) {
		t.Errorf("metadata %v", keys)
	}
	var declared struct {
		Info struct {
			Features map[string]any `json:"features"`
		} `json:"info"`
	}
	features, _ := schema.Metadata().GetValue("huggingface")
	if err := json.Unmarshal([]byte(features), &declared); err != nil || len(declared.Info.Features) != schema.NumFields() {
		t.Errorf("features %s, %v", features, err)
	}
}

type text struct {
	Body string `parquet:"body"`
}

func TestBatchesAreBoundedByRowsAndBytes(t *testing.T) {
	many := make([]text, 25)
	for i := range many {
		many[i].Body = strings.Repeat("x", 95) // 100 bytes with its offset and bit
	}
	many[7].Body = strings.Repeat("y", 5000)
	_, got, batches := read(t, bytes.NewReader(stream(t, many, arrowio.Options{BatchRows: 5, BatchBytes: 350})))
	if len(got) != len(many) || !slices.Equal(batches, []int64{3, 3, 1, 1, 3, 3, 3, 3, 3, 2}) {
		t.Errorf("%d rows in batches of %v", len(got), batches)
	}
	for i := range many {
		if got[i]["body"] != many[i].Body {
			t.Errorf("row %d is another", i)
		}
	}
	_, _, batches = read(t, bytes.NewReader(stream(t, many, arrowio.Options{BatchRows: 5})))
	if !slices.Equal(batches, []int64{5, 5, 5, 5, 5}) {
		t.Errorf("batches of %v", batches)
	}
	for _, opt := range []arrowio.Options{{BatchRows: -1}, {BatchBytes: -1}, {BatchBytes: 2 << 30}} {
		if _, err := arrowio.NewWriter(io.Discard, reflect.TypeFor[text](), opt); err == nil {
			t.Errorf("%+v is taken", opt)
		}
	}
}

// The buffers of one batch serve the next, so what is in an unset slot could
// be an earlier batch's.
func TestTheSameRowsAreTheSameBytes(t *testing.T) {
	var many []every
	for range 40 {
		many = append(many, rows()...)
	}
	opt := arrowio.Options{BatchRows: 7}
	if !bytes.Equal(stream(t, many, opt), stream(t, many, opt)) {
		t.Error("two streams of the same rows differ")
	}
	// What came before a batch has no part in it.
	last := func(before every) []byte {
		some := append(slices.Repeat([]every{before}, 7), many[:7]...)
		data := stream(t, some, opt)
		return data[len(data)-1000:]
	}
	if !bytes.Equal(last(every{}), last(rows()[1])) {
		t.Error("a batch depends on the one before it")
	}
}

// A reader takes a stream that ends between two messages for a whole one, so
// no part of ours may end there.
func TestNoPartOfAStreamLooksWhole(t *testing.T) {
	for _, n := range []int{0, 1, 3, 9} {
		var many []every
		for i := range n {
			many = append(many, rows()[i%3])
		}
		whole := stream(t, many, arrowio.Options{BatchRows: 2})
		var parts parts
		w, err := arrowio.NewWriter(&parts, reflect.TypeFor[every](), arrowio.Options{BatchRows: 2})
		if err != nil {
			t.Fatal(err)
		}
		for i := range many {
			if err := w.Write(&many[i]); err != nil {
				t.Fatal(err)
			}
		}
		// Whatever had gone out when the process died is refused.
		for _, size := range parts.ends {
			if rows, err := count(whole[:size]); err == nil {
				t.Errorf("%d rows: the first %d of %d bytes read as a whole stream of %d rows", n, size, len(whole), rows)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(parts.all, whole) {
			t.Errorf("%d rows: another stream", n)
		}
		if rows, err := count(whole); err != nil || rows != int64(n) {
			t.Errorf("the whole stream has %d rows of %d, %v", rows, n, err)
		}
	}
}

// count reads a stream as pyarrow does: at a message's edge, nothing more is
// the end.
func count(data []byte) (rows int64, err error) {
	r, err := ipc.NewReader(bytes.NewReader(data))
	if err != nil {
		return 0, err
	}
	defer r.Release()
	for r.Next() {
		rows += r.Record().NumRows()
	}
	return rows, r.Err()
}

// parts remembers where each write ended.
type parts struct {
	all  []byte
	ends []int
}

func (p *parts) Write(b []byte) (int, error) {
	p.all = append(p.all, b...)
	p.ends = append(p.ends, len(p.all))
	return len(b), nil
}

// full is a disk without room after so many bytes.
type full struct{ left int }

func (f *full) Write(b []byte) (int, error) {
	n := min(len(b), f.left)
	f.left -= n
	if n < len(b) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

func TestAFailedWriteIsTheErrorOfEverythingAfterIt(t *testing.T) {
	many := make([]text, 50)
	for i := range many {
		many[i].Body = strings.Repeat("x", 40_000)
	}
	size := len(stream(t, many, arrowio.Options{BatchRows: 3}))
	for left := 0; left < size; left += size / 37 {
		w, err := arrowio.NewWriter(&full{left: left}, reflect.TypeFor[text](), arrowio.Options{BatchRows: 3})
		if err != nil {
			t.Fatal(err)
		}
		for i := range many {
			if err = w.Write(&many[i]); err != nil {
				break
			}
		}
		closed := w.Close()
		if closed == nil || !strings.Contains(closed.Error(), "no space left") || err != nil && !errors.Is(closed, err) {
			t.Fatalf("with room for %d bytes: write %v, close %v", left, err, closed)
		}
		if again := w.Write(&many[0]); !errors.Is(again, closed) {
			t.Fatalf("after %v a write is %v", closed, again)
		}
	}
}

func TestTypesThatNoColumnHoldsAreRefused(t *testing.T) {
	type self struct {
		Next []self `parquet:"next,list"`
	}
	type twice struct {
		A string `parquet:"a"`
		B string `parquet:"a"`
	}
	for want, typ := range map[string]reflect.Type{
		"a row is a struct, not int":        reflect.TypeFor[int](),
		"a row is a struct, not <nil>":      nil,
		"Go type map[string]int":            reflect.TypeFor[struct{ M map[string]int }](),
		"Go type interface {}":              reflect.TypeFor[struct{ Any any }](),
		"field Any: list of interface {}":   reflect.TypeFor[struct{ Any []any }](),
		"a pointer to a pointer (**string)": reflect.TypeFor[struct{ P **string }](),
		"has no exported fields":            reflect.TypeFor[struct{ hidden int }](),
		"nested deeper than 32":             reflect.TypeFor[self](),
		"two fields a":                      reflect.TypeFor[twice](),
		"optional needs a pointer or a list, not string": reflect.TypeFor[struct {
			S string `parquet:"s,optional"`
		}](),
	} {
		_, err := arrowio.NewWriter(io.Discard, typ, arrowio.Options{})
		if !errors.Is(err, arrowio.ErrType) || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%v: %v, want %s", typ, err, want)
		}
	}
	w, err := arrowio.NewWriter(io.Discard, reflect.TypeFor[text](), arrowio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(text{}); !errors.Is(err, arrowio.ErrType) {
		t.Errorf("a row that is no pointer: %v", err)
	}
	w, _ = arrowio.NewWriter(io.Discard, reflect.TypeFor[text](), arrowio.Options{})
	if err := w.Write((*text)(nil)); !errors.Is(err, arrowio.ErrType) {
		t.Errorf("no row: %v", err)
	}
}

func TestAClosedStreamTakesNoRow(t *testing.T) {
	w, err := arrowio.NewWriter(io.Discard, reflect.TypeFor[text](), arrowio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil {
		t.Fatal(err)
	}
	if err := w.Write(&text{}); err == nil {
		t.Error("it took one")
	}
}

// More than 2 GiB of text in one stream, in values of 4 MB: the offsets of no
// batch overflow, and memory is that of a batch.
func TestAStreamOfMoreThanTwoGigabytes(t *testing.T) {
	testdata.Heavy(t)
	value := strings.Repeat("Let x be 7; then 3x = 21. ", 4<<20/26)
	const n = 540
	reader, writer := io.Pipe()
	go func() {
		w, err := arrowio.NewWriter(writer, reflect.TypeFor[text](), arrowio.Options{})
		for range n {
			if err == nil {
				err = w.Write(&text{Body: value})
			}
		}
		writer.CloseWithError(errors.Join(err, w.Close()))
	}()
	r, err := ipc.NewReader(reader)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Release()
	var rows, bytes int64
	for r.Next() {
		record := r.Record()
		rows += record.NumRows()
		column := record.Column(0).(interface{ Value(int) string })
		for i := range int(record.NumRows()) {
			v := column.Value(i)
			bytes += int64(len(v))
			if v != value {
				t.Fatal("another value")
			}
		}
	}
	if r.Err() != nil || rows != n || bytes != n*int64(len(value)) {
		t.Errorf("%d rows, %d bytes, %v", rows, bytes, r.Err())
	}
}
