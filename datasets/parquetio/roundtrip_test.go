package parquetio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

func TestAwkwardRowsComeBackAsTheyWere(t *testing.T) {
	rows := awkward()
	got, err := read[datasets.Candidate](write(t, rows, parquetio.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	m := got[1].Messages
	if m[0].Content == nil || *m[0].Content != "" || m[2].Content != nil {
		t.Error("null and empty content are not told apart")
	}
	if got[0].Images == nil || got[0].Flags == nil || m[0].ToolCalls == nil || len(got[0].Images) != 0 {
		t.Error("a nil list should come back as an empty list that is not nil")
	}
}

func TestInvalidUTF8IsReplacedInTheFileAlone(t *testing.T) {
	bad := "a\xffb"
	rows := []datasets.Candidate{{
		SampleID: bad, Flags: []string{"ok", bad}, Extracted: &bad,
		Messages: []chat.Message{{Role: "assistant", Content: &bad, ToolCalls: []chat.ToolCall{{Arguments: bad}}}},
		Verdicts: []datasets.Verdict{{Extracted: &bad}},
	}}
	got, err := read[datasets.Candidate](write(t, rows, parquetio.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	const want = "a\uFFFDb"
	g := got[0]
	for what, s := range map[string]string{
		"id": g.SampleID, "flag": g.Flags[1], "extracted": *g.Extracted, "content": *g.Messages[0].Content,
		"arguments": g.Messages[0].ToolCalls[0].Arguments, "verdict": *g.Verdicts[0].Extracted,
	} {
		if s != want {
			t.Errorf("%s is %q, want %q", what, s, want)
		}
	}
	if rows[0].SampleID != bad || *rows[0].Messages[0].Content != bad || rows[0].Flags[1] != bad {
		t.Error("the caller's rows were changed")
	}
}

// Any row comes back equal, however the rows are cut and grouped.
func TestAnyRowsRoundTrip(t *testing.T) {
	text := rapid.OneOf(rapid.Just(""), rapid.String(), rapid.StringN(0, 300, 4000))
	maybe := rapid.Ptr(text, true)
	call := rapid.Custom(func(t *rapid.T) chat.ToolCall {
		return chat.ToolCall{ID: text.Draw(t, "id"), Type: "function", Name: text.Draw(t, "name"), Arguments: text.Draw(t, "arguments")}
	})
	message := rapid.Custom(func(t *rapid.T) chat.Message {
		return chat.Message{
			Role: rapid.SampledFrom([]string{"user", "assistant", "tool", ""}).Draw(t, "role"), Content: maybe.Draw(t, "content"),
			ReasoningContent: maybe.Draw(t, "reasoning"), ReasoningKind: maybe.Draw(t, "kind"), ToolCalls: rapid.SliceOfN(call, 0, 3).Draw(t, "calls"),
			ToolCallID: maybe.Draw(t, "call id"), Name: maybe.Draw(t, "name"), Train: rapid.Bool().Draw(t, "train"),
		}
	})
	row := rapid.Custom(func(t *rapid.T) datasets.Row {
		return datasets.Row{
			TaskID: text.Draw(t, "task"), PromptID: text.Draw(t, "prompt"), Teacher: text.Draw(t, "teacher"), Domain: text.Draw(t, "domain"),
			Messages: rapid.SliceOfN(message, 0, 4).Draw(t, "messages"), Tools: maybe.Draw(t, "tools"), Verdict: maybe.Draw(t, "verdict"),
			Score: rapid.Ptr(rapid.Float64(), true).Draw(t, "score"), CompletionTokens: rapid.Ptr(rapid.Int64(), true).Draw(t, "tokens"),
		}
	})
	rapid.Check(t, func(r *rapid.T) {
		rows := rapid.SliceOfN(row, 0, 20).Draw(r, "rows")
		options := parquetio.Options{RowGroupRows: rapid.IntRange(1, 30).Draw(r, "group"), RowGroupBytes: rapid.Int64Range(1, 5000).Draw(r, "bytes")}
		got, err := read[datasets.Row](write(t, rows, options))
		if err != nil {
			r.Fatal(err)
		}
		if diff := cmp.Diff(rows, got, cmpopts.EquateEmpty(), cmpopts.EquateNaNs()); diff != "" {
			r.Fatal(diff)
		}
	})
}

// A column that is declared an enum and is none outgrows its dictionary in the
// middle of a row group.
func TestADictionaryThatOverflowsLosesNothing(t *testing.T) {
	rows := many(6000)
	for i := range rows {
		own := strings.Repeat(rows[i].PromptID, 1+i%8)
		rows[i].Teacher, rows[i].Messages[i%2].Role = own, own
		if i%3 > 0 {
			rows[i].Verdict = &own
		}
	}
	got, err := read[datasets.Row](write(t, rows, parquetio.Options{RowGroupRows: 2500}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(rows, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestEveryTableRoundTripsAnEmptyFile(t *testing.T) {
	empty[datasets.Row](t)
	empty[datasets.Pair](t)
	empty[datasets.Candidate](t)
	empty[datasets.PromptRow](t)
}

func empty[T any](t *testing.T) {
	t.Helper()
	got, err := read[T](write[T](t, nil, parquetio.Options{}))
	if err != nil || len(got) != 0 {
		t.Errorf("%T: %d rows, %v", *new(T), len(got), err)
	}
}

func TestRowGroupsAreBoundedByRowsAndBytes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options parquetio.Options
		groups  int
	}{
		{"defaults", parquetio.Options{}, 1},
		{"rows", parquetio.Options{RowGroupRows: 300}, 4},
		{"bytes: a row is a group at least", parquetio.Options{RowGroupBytes: 1}, 1000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			data := write(t, many(1000), tc.options)
			info, err := parquetio.Inspect(bytes.NewReader(data), int64(len(data)))
			if err != nil {
				t.Fatal(err)
			}
			if info.RowGroups != tc.groups || info.Rows != 1000 {
				t.Errorf("%d row groups of %d rows, want %d", info.RowGroups, info.Rows, tc.groups)
			}
		})
	}
}

// Long texts must not be copied into statistics and footer.
func TestLongTextsStayOutOfTheFooter(t *testing.T) {
	rows := awkward()[1:2]
	for range 15 {
		rows = append(rows, rows[0])
	}
	data := write(t, rows, parquetio.Options{})
	footer := int(data[len(data)-8]) | int(data[len(data)-7])<<8 | int(data[len(data)-6])<<16 | int(data[len(data)-5])<<24
	// 66 MB of text that compresses well; its bounds would be 8 MB a page.
	if footer > 64<<10 || len(data) > 1<<20 {
		t.Errorf("a footer of %d bytes in a file of %d", footer, len(data))
	}
}

func TestSortedByHoldsTheCallerToIt(t *testing.T) {
	rows := many(3)
	rows[0], rows[2] = rows[2], rows[0]
	var buf bytes.Buffer
	w, err := parquetio.NewWriter[datasets.Row](&buf, parquetio.Options{SortedBy: "prompt_id"})
	if err != nil {
		t.Fatal(err)
	}
	err = w.Write(rows)
	if !errors.Is(err, parquetio.ErrUnsorted) {
		t.Fatalf("got %v, want ErrUnsorted", err)
	}
	if got := w.Close(); !errors.Is(got, parquetio.ErrUnsorted) {
		t.Errorf("Close after the error gives %v: a file that lacks rows must not look whole", got)
	}
	parquetio.Sorted(rows, func(r *datasets.Row) string { return r.PromptID })
	write(t, rows, parquetio.Options{SortedBy: "prompt_id"})
	if _, err := parquetio.NewWriter[datasets.Row](&buf, parquetio.Options{SortedBy: "messages"}); !errors.Is(err, parquetio.ErrSchema) {
		t.Errorf("sorted by a list: got %v, want ErrSchema", err)
	}
}

type failing struct{ after int }

var errDisk = errors.New("disk full")

func (f *failing) Write(p []byte) (int, error) {
	if f.after -= len(p); f.after < 0 {
		return 0, errDisk
	}
	return len(p), nil
}

func TestAWriteErrorIsKept(t *testing.T) {
	for _, after := range []int{0, 4, 10_000} {
		w, err := parquetio.NewWriter[datasets.Row](&failing{after}, parquetio.Options{RowGroupRows: 100})
		if err != nil {
			t.Fatal(err)
		}
		rows := many(2000)
		err = w.Write(rows)
		if err == nil {
			err = w.Close()
		}
		if !errors.Is(err, errDisk) {
			t.Errorf("after %d bytes: got %v, want the disk's error", after, err)
		}
		if err := w.Close(); !errors.Is(err, errDisk) {
			t.Errorf("after %d bytes: closing again gives %v", after, err)
		}
	}
}

// A table grows by nullable columns; what was written before reads as null.
func TestOlderAndNewerFilesAreRead(t *testing.T) {
	type inner struct {
		A string `parquet:"a"`
	}
	type old struct {
		ID   string  `parquet:"id"`
		List []inner `parquet:"list,list"`
	}
	type newInner struct {
		B *string `parquet:"b,optional"`
		A string  `parquet:"a"`
	}
	type grown struct {
		Score *float64   `parquet:"score,optional"`
		ID    string     `parquet:"id"`
		List  []newInner `parquet:"list,list"`
		Tags  []string   `parquet:"tags,list,optional"`
	}
	data := write(t, []old{{"x", []inner{{"1"}, {"2"}}}, {"y", nil}}, parquetio.Options{})
	got, err := read[grown](data)
	if err != nil {
		t.Fatal(err)
	}
	want := []grown{{ID: "x", List: []newInner{{A: "1"}, {A: "2"}}}, {ID: "y"}}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
	back, err := read[old](write(t, want, parquetio.Options{}))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]old{{"x", []inner{{"1"}, {"2"}}}, {"y", nil}}, back, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestAnotherSchemaIsRefused(t *testing.T) {
	type id struct {
		ID string `parquet:"id"`
	}
	type number struct {
		ID int64 `parquet:"id"`
	}
	type missing struct {
		ID   string `parquet:"id"`
		Name string `parquet:"name"`
	}
	type maybe struct {
		ID *string `parquet:"id,optional"`
	}
	text := write(t, []id{{"x"}}, parquetio.Options{})
	null := write(t, []maybe{{nil}}, parquetio.Options{})
	for name, got := range map[string]error{
		"type":    second(read[number](text)),
		"missing": second(read[missing](text)),
		"null":    second(read[id](null)),
	} {
		if !errors.Is(got, parquetio.ErrSchema) {
			t.Errorf("%s: got %v, want ErrSchema", name, got)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestFeaturesNameEveryColumn(t *testing.T) {
	data := write(t, awkward()[:1], parquetio.Options{})
	info, err := parquetio.Inspect(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var key struct {
		Info struct {
			Features map[string]json.RawMessage `json:"features"`
		} `json:"info"`
	}
	if err := json.Unmarshal([]byte(info.Metadata[parquetio.KeyFeatures]), &key); err != nil {
		t.Fatal(err)
	}
	for _, c := range info.Columns {
		if _, ok := key.Info.Features[c.Name]; !ok {
			t.Errorf("column %s has no feature", c.Name)
		}
	}
	if info.Metadata[parquetio.KeySchema] != parquetio.SchemaVersion || info.Metadata[parquetio.KeyFingerprint] != info.Fingerprint {
		t.Errorf("schema %q, fingerprint %q of columns %s", info.Metadata[parquetio.KeySchema], info.Metadata[parquetio.KeyFingerprint], info.Fingerprint)
	}
	if info.Fingerprint != parquetio.TableFingerprint(datasets.TableCandidates) {
		t.Error("the fingerprint of the file is not that of the declaration")
	}
	if yaml := parquetio.FeaturesYAML[datasets.Row]("  "); !strings.Contains(yaml, "  - name: messages\n    list:\n    - name: role\n      dtype: string\n") {
		t.Errorf("YAML features:\n%s", yaml)
	}
}

func TestCountReadsOneColumn(t *testing.T) {
	data := write(t, many(1000), parquetio.Options{RowGroupRows: 128})
	got, err := parquetio.Count(bytes.NewReader(data), int64(len(data)), "teacher")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]int64{"k3": 334, "r1": 333, "qwen": 333}, got); diff != "" {
		t.Error(diff)
	}
	for _, column := range []string{"messages", "completion_tokens", "nothing"} {
		if _, err := parquetio.Count(bytes.NewReader(data), int64(len(data)), column); !errors.Is(err, parquetio.ErrSchema) {
			t.Errorf("%s: got %v, want ErrSchema", column, err)
		}
	}
}

// Maps gives what the typed reader gives, by way of JSON.
func TestMapsAgreesWithTypedRows(t *testing.T) {
	rows := awkward()
	data := write(t, rows, parquetio.Options{})
	typed, err := read[datasets.Candidate](data)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for m, err := range parquetio.Maps(context.Background(), bytes.NewReader(data), int64(len(data))) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, m)
	}
	if len(got) != len(rows) {
		t.Fatalf("%d rows, want %d", len(got), len(rows))
	}
	for i := range typed {
		if diff := cmp.Diff(prune(asJSON(t, typed[i])), prune(asJSON(t, got[i]))); diff != "" {
			t.Errorf("row %d: %s", i, diff)
		}
	}
}

func asJSON(t *testing.T, v any) any {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var out any
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// prune drops nulls and empty lists, which omitempty drops from typed rows.
func prune(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e = prune(e); e == nil {
				delete(v, k)
			}
		}
		return v
	case []any:
		for i := range v {
			v[i] = prune(v[i])
		}
		if len(v) == 0 {
			return nil
		}
	}
	return v
}

func TestMapsStopsWithItsContext(t *testing.T) {
	data := write(t, many(2000), parquetio.Options{RowGroupRows: 100})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var rows int
	var last error
	for _, err := range parquetio.Maps(ctx, bytes.NewReader(data), int64(len(data))) {
		if last = err; err == nil {
			rows++
			cancel()
		}
	}
	if !errors.Is(last, context.Canceled) || rows > 256 {
		t.Errorf("%d rows and %v after the context ended", rows, last)
	}
}

func TestColumnsOfTables(t *testing.T) {
	for _, table := range parquetio.Tables() {
		for _, c := range table.Columns {
			if strings.Contains(c.Type, "null") || c.Type == "" {
				t.Errorf("%s.%s has type %q", table.Name, c.Name, c.Type)
			}
		}
	}
	c := parquetio.Columns[datasets.Row]()
	i := slices.IndexFunc(c, func(c parquetio.Column) bool { return c.Name == "messages" })
	const want = "list<struct{role: string, content: string?, reasoning_content: string?, reasoning_kind: string?, tool_calls: list<struct{id: string, type: string, name: string, arguments: string}>, tool_call_id: string?, name: string?, train: bool}>"
	if c[i].Type != want || c[i].Nullable {
		t.Errorf("messages is %s, nullable %t; want %s", c[i].Type, c[i].Nullable, want)
	}
}
