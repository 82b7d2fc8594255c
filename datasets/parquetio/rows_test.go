package parquetio_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

func ptr[T any](v T) *T { return &v }

// awkward are candidates with what files get wrong: nulls beside empty
// strings, long texts, other scripts, lists in structs in lists.
func awkward() []datasets.Candidate {
	long := strings.Repeat("Let x be 7; then 3x = 21. ", 4<<20/26)
	return []datasets.Candidate{
		{SampleID: "00", TaskID: "t0", PromptID: "a", Domain: "math", Messages: []chat.Message{}},
		{
			SampleID: "01", TaskID: "t1", PromptID: "a", Domain: "math", Effort: "max", Teacher: "k3",
			ModelAnswered: ptr(""), ParamsAsked: `{"temperature":0.6}`, Tools: ptr(""), Score: ptr(0.0),
			Messages: []chat.Message{
				{Role: "system", Content: ptr("")},
				{Role: "user", Content: ptr("Что такое 7×3? 数学 \U0001F600 \x00 \u2028 é")},
				{Role: "assistant", Content: nil, ReasoningContent: &long, ReasoningKind: ptr("raw"), Train: true,
					ToolCalls: []chat.ToolCall{
						{ID: "c1", Type: "function", Name: "mul", Arguments: `{"a":7,"b":3}`},
						{ID: "", Type: "", Name: "", Arguments: ""},
					}},
				{Role: "tool", Content: ptr("21"), ToolCallID: ptr("c1"), Name: ptr("mul")},
				{Role: "assistant", Content: ptr("21"), Train: true},
			},
			Flags: []string{"", "a"}, RejectReasons: []string{"length"},
			Verdicts: []datasets.Verdict{
				{Verifier: "math", Version: "1", Verdict: "pass", Extracted: ptr("21"), Score: ptr(1.0)},
				{Verifier: "regex", Version: "1", Verdict: "unknown", Reason: "no text", Extracted: ptr("")},
			},
			Images:     []datasets.Image{{Digest: "d", MediaType: "image/png", Key: "k"}},
			CostMicros: ptr(int64(0)), LatencyMS: ptr(int64(1) << 62), Attempts: -1, ArgsValid: ptr(false),
			Verdict: ptr("pass"), Accepted: true,
		},
		{SampleID: "02", TaskID: "t2", PromptID: "b", Error: ptr("timeout"), ErrorText: ptr("no answer within 60m"),
			Messages: []chat.Message{{Role: "user", Content: ptr("hi")}}, Score: ptr(-1.5e-300), Meta: ptr(`{"n":null}`)},
	}
}

// many are n short rows in order of prompt_id.
func many(n int) []datasets.Row {
	rows := make([]datasets.Row, n)
	for i := range rows {
		id := fmt.Sprintf("%032x", i)
		rows[i] = datasets.Row{
			TaskID: id + "/math/high", PromptID: id, SampleID: fmt.Sprintf("%032x", i*7919), Domain: "math", Effort: "high",
			Teacher: []string{"k3", "r1", "qwen"}[i%3], TeacherModel: "kimi-k3",
			Messages: []chat.Message{
				{Role: "user", Content: ptr(fmt.Sprintf("What is %d times %d?", i, i+1))},
				{Role: "assistant", Content: ptr(fmt.Sprintf("It is %d.", i*(i+1))), ReasoningContent: ptr(strings.Repeat("carry the one, ", i%60)), Train: true},
			},
			Verdict: ptr("pass"), CompletionTokens: ptr(int64(i)),
		}
	}
	return rows
}

func write[T any](t testing.TB, rows []T, options parquetio.Options) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := parquetio.NewWriter[T](&buf, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if w.Rows() != int64(len(rows)) || w.Bytes() != int64(buf.Len()) {
		t.Fatalf("the writer counts %d rows and %d bytes, wrote %d and %d", w.Rows(), w.Bytes(), len(rows), buf.Len())
	}
	return buf.Bytes()
}

func read[T any](data []byte) ([]T, error) {
	r, err := parquetio.Open[T](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, err
	}
	out := []T{}
	for row, err := range r.All() {
		if err != nil {
			return out, err
		}
		out = append(out, row)
	}
	return out, nil
}
