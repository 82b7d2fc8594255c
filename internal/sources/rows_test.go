package sources

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"math"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// fileOf is a file that lives in memory.
func fileOf(name string, data []byte) File {
	return File{
		Name: name, Size: int64(len(data)),
		Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil },
		OpenAt: func(context.Context) (io.ReaderAt, func() error, error) {
			return bytes.NewReader(data), func() error { return nil }, nil
		},
	}
}

// listing reads a file as lines of a test's expectation: the row's place and
// JSON, or the error.
func listing(f File, o Options) []string {
	var out []string
	for row, err := range Rows(context.Background(), f, o) {
		if err != nil {
			out = append(out, "! "+err.Error())
			continue
		}
		out = append(out, row.Where+" "+string(appendJSON(nil, row.Values)))
	}
	return out
}

func TestRows(t *testing.T) {
	small := Options{MaxLine: 64}
	long := strings.Repeat("x", 100)
	for _, tc := range []struct {
		name, file, data string
		want             []string
	}{
		{"lines", "a.jsonl", "{\"a\":1}\n{\"a\":\"b\"}\n", []string{`a.jsonl:1 {"a":1}`, `a.jsonl:2 {"a":"b"}`}},
		{"no newline at the end", "a.ndjson", "{\"a\":1}\n{\"a\":2}", []string{`a.ndjson:1 {"a":1}`, `a.ndjson:2 {"a":2}`}},
		{"byte order mark, CRLF, blank lines", "a.jsonl", "\uFEFF{\"a\":1}\r\n\r\n  \n{\"a\":2}\r\n", []string{`a.jsonl:1 {"a":1}`, `a.jsonl:4 {"a":2}`}},
		{"numbers keep their digits", "a.jsonl", `{"a":12345678901234567890.10,"b":1e400,"c":-0}`, []string{`a.jsonl:1 {"a":12345678901234567890.10,"b":1e400,"c":-0}`}},
		{"a bad line does not end the file", "a.jsonl", "{\"a\":1\n{\"a\":2}\n", []string{`! a.jsonl:1: is not JSON: it ends too early`, `a.jsonl:2 {"a":2}`}},
		{"two values in a line", "a.jsonl", "{} {}\n", []string{`! a.jsonl:1: is not JSON: unexpected '{' at byte 4`}},
		{"a list is no row", "a.jsonl", "[1]\nnull\n", []string{`! a.jsonl:1: is a list, want an object with fields`, `! a.jsonl:2: is null, want an object with fields`}},
		{"bytes that are not UTF-8", "a.jsonl", "{\"a\":\"\xff\"}\n{\"a\":2}\n", []string{`! a.jsonl:1: holds bytes that are not UTF-8; save the file as UTF-8`, `a.jsonl:2 {"a":2}`}},
		{"half a surrogate pair", "a.jsonl", "{\"a\":\"\\ud83d\"}\n{\"a\":\"\\ud83d\\ude00\"}\n", []string{`! a.jsonl:1: is not JSON: half a surrogate pair at byte 12`, `a.jsonl:2 {"a":"😀"}`}},
		{"a line too long", "a.jsonl", "{\"a\":1}\n{\"a\":\"" + long + "\"}\n{\"a\":3}\n", []string{`a.jsonl:1 {"a":1}`, `! a.jsonl:2: the line is larger than 64 bytes; shorten it or split the file`, `a.jsonl:3 {"a":3}`}},
		{"the last line too long", "a.jsonl", "{\"a\":\"" + long, []string{`! a.jsonl:1: the line is larger than 64 bytes; shorten it or split the file`}},

		{"array", "a.json", "\uFEFF [ {\"a\": \"},]\\\"\"} ,\n {\"a\":[1,{}]} ]\n", []string{`a.json#1 {"a":"},]\""}`, `a.json#2 {"a":[1,{}]}`}},
		{"empty array", "a.json", "[ ]", nil},
		{"an object instead of an array", "a.json", `{"rows":[]}`, []string{`! read a.json: holds an object, want an array of rows; one object a line belongs in a .jsonl file`}},
		{"a text instead of an array", "a.json", `x`, []string{`! read a.json: is no JSON array of rows; start it with [`}},
		{"white space only", "a.json", " \n ", []string{`! read a.json: holds nothing but white space; fill it or remove it`}},
		{"an array cut off", "a.json", `[{"a":1},{"a":`, []string{`a.json#1 {"a":1}`, `! read a.json: the array ends too early, in row 2; the file may be cut off`}},
		{"a bad element", "a.json", `[{"a":1},nul,{"a":3}]`, []string{`a.json#1 {"a":1}`, `! a.json#2: is not JSON: unexpected 'n' at byte 1`, `a.json#3 {"a":3}`}},
		{"a comma too many", "a.json", `[{"a":1},]`, []string{`a.json#1 {"a":1}`, `! a.json#2: is not JSON: it ends too early`}},
		{"text after the array", "a.json", `[{"a":1}] x`, []string{`a.json#1 {"a":1}`, `! read a.json: 'x' follows the array; one array a file`}},
		{"an element too long", "a.json", `[{"a":"` + long + `"},{"a":2}]`, []string{`! a.json#1: the row is larger than 64 bytes; shorten it or split it`, `a.json#2 {"a":2}`}},

		{"records", "a.csv", "q,a\n1,\"x, \"\"y\"\"\"\n\"two\nlines\",b\r\n,\n", []string{`a.csv:2 {"a":"x, \"y\"","q":"1"}`, `a.csv:3 {"a":"b","q":"two\nlines"}`, `a.csv:5 {"a":"","q":""}`}},
		{"a column without a name", "a.csv", ",q\n0,x\n", []string{`a.csv:2 {"q":"x"}`}},
		{"too few values", "a.csv", "q,a\n1\n2,b\n", []string{`! a.csv:2: has 1 values, the header has 2 columns`, `a.csv:3 {"a":"b","q":"2"}`}},
		{"a bare quote", "a.csv", "q,a\nx\"y\",1\n2,b\n", []string{`! a.csv:2: a quote within a value; put the whole value in quotes and double the quotes in it`, `a.csv:3 {"a":"b","q":"2"}`}},
		{"text after a quote", "a.csv", "q\n\"a\"b\nc\n", []string{`! a.csv:2: text follows a closing quote; double the quotes within a value`, `a.csv:3 {"q":"c"}`}},
		{"a quote that never closes", "a.csv", "q\n\"a\nb\n", []string{`! a.csv:2: a quote is never closed`}},
		{"a quote that never closes in a large file", "a.csv", "q\n\"a\n" + strings.Repeat("line\n", 20), []string{`! a.csv:2: the record is larger than 64 bytes; its quote may never close`, `a.csv:16 {"q":"line"}`, `a.csv:17 {"q":"line"}`, `a.csv:18 {"q":"line"}`, `a.csv:19 {"q":"line"}`, `a.csv:20 {"q":"line"}`, `a.csv:21 {"q":"line"}`, `a.csv:22 {"q":"line"}`}},
		{"a column twice", "a.csv", "q,q\n1,2\n", []string{`! read a.csv: header: column "q" is there twice; rename one`}},

		{"no format", "a.txt", "x", []string{`! read a.txt: a.txt is of no known format; use one of ` + Formats}},
		{"no Parquet reader", "a.parquet", "PAR1", []string{`! read a.parquet: there is no reader for Parquet here; convert the file to .jsonl`}},
		{"not gzip", "a.jsonl.gz", "{}", []string{`! read a.jsonl.gz: is not gzip: unexpected EOF`}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, listing(fileOf(tc.file, []byte(tc.data)), small)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func gzipped(t testing.TB, data string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, data); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestRowsOfCompressedFiles(t *testing.T) {
	want := []string{`x.jsonl.gz:1 {"a":1}`, `x.jsonl.gz:2 {"a":2}`}
	whole := gzipped(t, "{\"a\":1}\n{\"a\":2}\n")
	if diff := cmp.Diff(want, listing(fileOf("x.jsonl.gz", whole), Options{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{`x.csv.gz:2 {"q":"1"}`}, listing(fileOf("x.csv.gz", gzipped(t, "q\n1\n")), Options{})); diff != "" {
		t.Error(diff)
	}
	got := listing(fileOf("x.jsonl.gz", whole[:len(whole)-9]), Options{})
	if last := got[len(got)-1]; !strings.HasPrefix(last, "! read x.jsonl.gz:") {
		t.Errorf("a file that is cut off ends with %q, want an error", last)
	}
}

// longLine is a file whose second line is more than n bytes long.
func longLine(first string, n int64) io.Reader {
	return io.MultiReader(strings.NewReader(first+"\n{\"a\":\""), io.LimitReader(xs{}, n), strings.NewReader("\"}\n{\"a\":3}\n"))
}

type xs struct{}

func (xs) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

func TestLongLineTakesNoMemory(t *testing.T) {
	for name, first := range map[string]string{"a.jsonl": `{"a":1}`, "a.csv": "a"} {
		f := fileOf(name, nil)
		f.Open = func(context.Context) (io.ReadCloser, error) { return io.NopCloser(longLine(first, 64<<20)), nil }
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := listing(f, Options{MaxLine: 1 << 20})
		runtime.ReadMemStats(&after)
		if spent := after.TotalAlloc - before.TotalAlloc; spent > 16<<20 {
			t.Errorf("%s: a line of 64 MiB took %d MiB", name, spent>>20)
		}
		if len(got) < 2 || !strings.Contains(strings.Join(got, "\n"), "line is larger than 1048576 bytes") {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestThirtyMegabyteLine(t *testing.T) {
	f := fileOf("a.jsonl", nil)
	f.Open = func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(longLine(`{"a":1}`, 30_000_000)), nil
	}
	want := []string{`a.jsonl:1 {"a":1}`, `! a.jsonl:2: the line is larger than 16777216 bytes; shorten it or split the file`, `a.jsonl:3 {"a":3}`}
	if diff := cmp.Diff(want, listing(f, Options{})); diff != "" {
		t.Error(diff)
	}
}

func TestRowsOfParquet(t *testing.T) {
	reader := func(ctx context.Context, r io.ReaderAt, size int64) iter.Seq2[map[string]any, error] {
		return func(yield func(map[string]any, error) bool) {
			rows := []map[string]any{
				{"i": int64(1 << 60), "f": 0.1, "f32": float32(0.1), "b": []byte("x"), "n": nil, "l": []any{int32(1)}, "m": map[string]any{"t": true}},
				{"nan": math.NaN()},
				{"bad": []byte{0xff}},
				{"odd": struct{}{}},
			}
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if yield(nil, &RowError{Reason: "page 2 is damaged"}) {
				yield(nil, errors.New("disk gone"))
			}
		}
	}
	want := []string{
		`a.parquet#1 {"b":"x","f":0.1,"f32":0.1,"i":1152921504606846976,"l":[1],"m":{"t":true},"n":null}`,
		`a.parquet#2 {"nan":null}`,
		`! a.parquet#3: holds bytes that are not UTF-8; save the file as UTF-8`,
		`! a.parquet#4: has a column of a type that is not read; convert the file to .jsonl`,
		`! a.parquet#5: page 2 is damaged`,
		`! read a.parquet: disk gone`,
	}
	if diff := cmp.Diff(want, listing(fileOf("a.parquet", []byte("PAR1")), Options{OpenParquet: reader})); diff != "" {
		t.Error(diff)
	}
}

// A dictionary holds a text once, whatever the number of rows that have it.
func TestRowsOfParquetAreBounded(t *testing.T) {
	long := strings.Repeat("x", 40)
	reader := func(context.Context, io.ReaderAt, int64) iter.Seq2[map[string]any, error] {
		return func(yield func(map[string]any, error) bool) {
			_ = yield(map[string]any{"q": long}, nil) && yield(map[string]any{"l": []any{long, map[string]any{"m": long}}}, nil) && yield(map[string]any{"q": "x"}, nil)
		}
	}
	want := []string{
		`a.parquet#1 {"q":"` + long + `"}`,
		`! a.parquet#2: the row is larger than 64 bytes; shorten it`,
		`a.parquet#3 {"q":"x"}`,
	}
	if diff := cmp.Diff(want, listing(fileOf("a.parquet", []byte("PAR1")), Options{OpenParquet: reader, MaxLine: 64})); diff != "" {
		t.Error(diff)
	}
}

func TestRowsStop(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	f := fileOf("a.jsonl", []byte("{}\n{}\n{}\n"))
	n := 0
	for _, err := range Rows(ctx, f, Options{}) {
		if n++; n == 1 {
			cancel()
			continue
		}
		if !errors.Is(err, context.Canceled) {
			t.Errorf("row %d: error %v, want canceled", n, err)
		}
	}
	if n != 2 {
		t.Errorf("%d rows after a cancel, want the error alone", n-1)
	}
	for range Rows(context.Background(), f, Options{}) {
		break
	}
}

func TestParseJSONDepth(t *testing.T) {
	deep := strings.Repeat("[", 1<<20)
	if _, err := parseJSON(deep); err == nil || !strings.Contains(err.Error(), "nested more than 128 deep") {
		t.Errorf("error %v, want one of depth", err)
	}
}

// reference reads JSON as the standard library does.
func reference(s string) (any, error) {
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more follows")
	}
	return v, nil
}

func FuzzParseJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1,-0.5e+3,true,null,"\u00e9\ud83d\ude00\n"]}`, ` [ ] `, `{"a":1,"a":2}`, `01`, `1.`, `"\x"`, "\"\n\"", `{"a" 1}`, `[1,]`, `"\ud800"`, `tru`, `-`, `{}x`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) {
			return
		}
		got, err := parseJSON(s)
		want, wantErr := reference(s)
		if err != nil {
			if wantErr == nil && !strings.Contains(err.Error(), "surrogate") && !strings.Contains(err.Error(), "nested") {
				t.Fatalf("parseJSON(%q): %v, encoding/json reads it", s, err)
			}
			return
		}
		if wantErr != nil {
			t.Fatalf("parseJSON(%q) reads what encoding/json does not: %v", s, wantErr)
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("parseJSON(%q) = %#v, want %#v", s, got, want)
		}
		again, err := parseJSON(string(appendJSON(nil, got)))
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%q does not come back from its own JSON: %#v, %v", s, again, err)
		}
	})
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n1,2\n", "a\n\"x\"\"y\"\n", "a,b\n\"1\n2\",3\r\n", "a\n\"", "a\nx\"y\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if !utf8.ValidString(s) || strings.Contains(s, "\r") || strings.HasPrefix(s, "\uFEFF") {
			return // ends of lines within quotes and marks are read apart
		}
		r := csv.NewReader(strings.NewReader(s))
		r.FieldsPerRecord = -1
		want, err := r.ReadAll()
		if err != nil {
			for range Rows(context.Background(), fileOf("a.csv", []byte(s)), Options{}) {
			}
			return
		}
		var got [][]string
		l := &lines{r: newReader(s), max: MaxLine}
		for {
			fields, _, err := record(l)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%q: %v, encoding/csv reads it", s, err)
			}
			if len(fields) == 1 && fields[0] == "" {
				continue // encoding/csv leaves blank lines out
			}
			got = append(got, fields)
		}
		for i := 0; i < len(want); i++ {
			if len(want[i]) == 1 && want[i][0] == "" {
				want = append(want[:i], want[i+1:]...)
				i--
			}
		}
		if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%q: got %q, want %q", s, got, want)
		}
	})
}

func FuzzRows(f *testing.F) {
	f.Add(byte(0), []byte("\uFEFF{\"a\":1}\r\n\n{\"b\":[{}]}\n{"))
	f.Add(byte(1), []byte(`[{"a":"]"},{},nul`))
	f.Add(byte(2), []byte("a,b\n1,\"2\n3\"\n"))
	names := []string{"a.jsonl", "a.json", "a.csv", "a.jsonl.gz"}
	f.Fuzz(func(t *testing.T, kind byte, data []byte) {
		file := fileOf(names[int(kind)%len(names)], data)
		n := 0
		for row, err := range Rows(context.Background(), file, Options{MaxLine: 1 << 10}) {
			if n++; n > len(data)+2 {
				t.Fatalf("%d rows of %d bytes", n, len(data))
			}
			if err == nil && (row.Where == "" || row.Values == nil) {
				t.Fatalf("row %d has no place or no values", n)
			}
		}
	})
}

var errConnection = errors.New("connection reset")

// A cutOff gives some bytes of a file and then fails.
type cutOff struct {
	data string
	left int
}

func (c *cutOff) Read(p []byte) (int, error) {
	if c.left == 0 {
		return 0, errConnection
	}
	n := copy(p, c.data[len(c.data)-c.left:])
	c.left -= n
	return n, nil
}

// A file at fault is refused for good; one whose bytes could not be had is
// tried again.
func TestAFaultOfTheFileIsNotThatOfTheWay(t *testing.T) {
	zipped := string(gzipped(t, strings.Repeat("{\"a\":1}\n", 100)))
	for _, tc := range []struct {
		name, file, data string
		lost             bool // the bytes end with an error
		opens            error
		fault            bool
	}{
		{name: "an object", file: "a.json", data: `{}`, fault: true},
		{name: "an array cut off", file: "a.json", data: `[{"a":1},`, fault: true},
		{name: "an array that was not read whole", file: "a.json", data: `[{"a":1},`, lost: true},
		{name: "lines that were not read whole", file: "a.jsonl", data: "{\"a\":1}\n", lost: true},
		{name: "not gzip", file: "a.jsonl.gz", data: "{}", fault: true},
		{name: "gzip cut off", file: "a.jsonl.gz", data: zipped[:len(zipped)-9], fault: true},
		{name: "gzip that was not read whole", file: "a.jsonl.gz", data: zipped[:len(zipped)-9], lost: true},
		{name: "two columns of a name", file: "a.csv", data: "q,q\n", fault: true},
		{name: "a file that does not open", file: "a.csv", opens: errConnection},
		{name: "a Parquet file that does not open", file: "a.parquet", opens: errConnection},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := File{Name: tc.file, Open: func(context.Context) (io.ReadCloser, error) {
				if tc.lost {
					return io.NopCloser(&cutOff{tc.data, len(tc.data)}), nil
				}
				return io.NopCloser(strings.NewReader(tc.data)), tc.opens
			}, OpenAt: func(context.Context) (io.ReaderAt, func() error, error) {
				return strings.NewReader(tc.data), func() error { return nil }, tc.opens
			}}
			var last error
			for _, err := range Rows(t.Context(), f, Options{OpenParquet: noRows}) {
				last = err
			}
			var fault *FileError
			if got := errors.As(last, &fault); last == nil || got != tc.fault || got == errors.Is(last, errConnection) {
				t.Errorf("%v: a fault of the file: %v, want %v", last, got, tc.fault)
			}
		})
	}
}

func noRows(context.Context, io.ReaderAt, int64) iter.Seq2[map[string]any, error] {
	return func(func(map[string]any, error) bool) {}
}
