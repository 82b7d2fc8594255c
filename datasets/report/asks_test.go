package report

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// Other programs rely on the columns. Where this fails, a column was changed:
// only nullable ones may be added.
func TestAskColumnsAreTheContract(t *testing.T) {
	got, err := json.MarshalIndent(map[string]any{
		"schema_version": parquetio.SchemaVersion,
		"tables":         []parquetio.Table{{Name: TableAsks, Fingerprint: parquetio.Fingerprint[Ask](), Columns: parquetio.Columns[Ask]()}},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join(testdata.Repository(t), "docs", "contract", "comparison-table.json"), append(got, '\n'))
}

// Every candidate is a row: answers, refusals, failures and those of a fallback.
func TestAskOfCandidates(t *testing.T) {
	whole := datasets.Candidate{
		TaskID: "p/math/high", PromptID: "p", SampleID: "s", AskID: "a", Domain: "math", Effort: "high", Split: "train", Teacher: "k3", ModelAsked: "kimi",
		Verdict: ref(datasets.Pass), Score: ref(0.5), Accepted: true, Selected: true, FinishReason: ref("stop"),
		CompletionTokens: ref(int64(7)), ReasoningTokens: ref(int64(3)), CostMicros: ref(int64(12)), LatencyMS: ref(int64(800)), TTFTMS: ref(int64(90)), Attempts: 2,
		Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text("question")}, {Role: chat.RoleAssistant, Content: chat.Text("four"), ReasoningContent: chat.Text("zwölf")}},
	}
	first := AskOf("maths", 3, &whole)
	if got := first; got.Dataset != "maths" || got.Version != 3 || !got.FirstHand || got.Truncated || got.Refused || *got.AnswerChars != 4 || *got.ReasoningChars != 5 || *got.Verdict != datasets.Pass || got.Attempts != 2 {
		t.Errorf("%+v", got)
	}
	cut := whole
	cut.FinishReason, cut.RejectReasons, cut.Flags = ref("length"), []string{"refusal:cannot"}, []string{datasets.FlagEscalated}
	if got := AskOf("maths", 3, &cut); !got.Truncated || !got.Refused || got.FirstHand {
		t.Errorf("%+v", got)
	}
	failed := datasets.Candidate{TaskID: "t", Error: ref("http_500"), FinishReason: ref("length"), Messages: whole.Messages[:1]}
	if got := AskOf("maths", 3, &failed); got.AnswerChars != nil || got.ReasoningChars != nil || got.Truncated || *got.Error != "http_500" {
		t.Errorf("%+v", got)
	}

	// And the rows come back from a file as they were.
	rows := []Ask{first, AskOf("maths", 3, &cut), AskOf("maths", 3, &failed)}
	var file bytes.Buffer
	w, err := parquetio.NewWriter[Ask](&file, parquetio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	r, err := parquetio.Open[Ask](bytes.NewReader(file.Bytes()), int64(file.Len()))
	if err != nil {
		t.Fatal(err)
	}
	var back []Ask
	for row, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		back = append(back, row)
	}
	for i := range rows {
		if rows[i].RejectReasons == nil {
			rows[i].RejectReasons = []string{} // as the file holds them
		}
		if rows[i].Flags == nil {
			rows[i].Flags = []string{}
		}
	}
	if diff := cmp.Diff(rows, back); diff != "" {
		t.Error(diff)
	}
}
