package filter

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// answerTo is an input of one answer to one question.
func answerTo(domain, question, answer string) *Input {
	return &Input{
		Candidate: &datasets.Candidate{Domain: domain, Messages: []chat.Message{{Role: chat.RoleAssistant, Content: &answer}}},
		Task:      &datasets.Task{Domain: domain, Prompt: chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &question}}}},
	}
}

// filterOf is a filter that must be good.
func filterOf(t testing.TB, name string, given map[string]any) Filter {
	t.Helper()
	f, err := New(name, given)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// chain is the filters that the documentation recommends, with their defaults.
func chain(t testing.TB) []Filter {
	var out []Filter
	for _, name := range []string{"finish", "refusal", "identity", "think", "control_tokens", "repetition"} {
		out = append(out, filterOf(t, name, nil))
	}
	return append(out, filterOf(t, "length", map[string]any{"max_tokens": 16000}))
}

// lines decodes a file of JSON lines.
func lines[T any](t testing.TB, name string, each func(T)) {
	t.Helper()
	f, err := os.Open(testdata.Path(t, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<24)
	for s.Scan() {
		var v T
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		each(v)
	}
	if s.Err() != nil {
		t.Fatal(s.Err())
	}
}

type gsm8kRow struct {
	Question string
	Solution string
	Teacher  string
	Correct  bool
}

// gsm8k are the recorded answers of four models.
func gsm8k(t testing.TB) []gsm8kRow {
	type labelled struct {
		Solution string `json:"solution"`
		Correct  bool   `json:"is_correct"`
	}
	var out []gsm8kRow
	lines(t, "data/gsm8k/example_model_solutions.jsonl", func(row map[string]json.RawMessage) {
		var question string
		_ = json.Unmarshal(row["question"], &question)
		for _, teacher := range []string{"6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification"} {
			var l labelled
			if err := json.Unmarshal(row[teacher], &l); err != nil {
				t.Fatal(err)
			}
			out = append(out, gsm8kRow{question, l.Solution, teacher, l.Correct})
		}
	})
	return out
}

var alpacaModels = []string{"Meta-Llama-3-70B-Instruct", "Qwen-14B-Chat", "alpaca-7b", "claude-2.1", "claude-3-opus-20240229", "gpt-3.5-turbo-1106", "gpt-4o-2024-05-13", "gpt4_1106_preview", "vicuna-13b"}

type alpacaRow struct {
	Instruction string `json:"instruction"`
	Output      string `json:"output"`
	model       string
}

// alpacaeval are nine models' answers to the same 805 instructions.
func alpacaeval(t testing.TB) []alpacaRow {
	var out []alpacaRow
	for _, model := range alpacaModels {
		lines(t, "data/alpacaeval/"+model+".jsonl", func(row alpacaRow) {
			row.model = model
			out = append(out, row)
		})
	}
	return out
}

// TestChainKeepsRightAnswers holds what the recommended chain does to answers
// that are known to be right: of GSM8K's at most 0.5 percent are rejected (none,
// as it stands), and of HumanEval's canonical solutions none.
func TestChainKeepsRightAnswers(t *testing.T) {
	filters := chain(t)
	correct, lost := 0, 0
	var loops []string
	for _, r := range gsm8k(t) {
		in := answerTo("math", r.Question, r.Solution)
		rejected := false
		for _, f := range filters {
			reason := f.Reject(in)
			rejected = rejected || reason != ""
			if reason == ReasonLoop && !r.Correct {
				loops = append(loops, r.Teacher+" "+r.Solution[len(r.Solution)-8:])
			}
		}
		if r.Correct {
			correct++
			if rejected {
				lost++
			}
		}
	}
	if correct != 2001 || lost != 0 {
		t.Errorf("of %d correct answers %d are rejected, want none of 2001", correct, lost)
	}
	want := []string{"175b_finetuning 33333333", "6b_finetuning 18181818", "175b_finetuning 18181818", "6b_finetuning 27272727"}
	if diff := cmp.Diff(want, loops); diff != "" {
		t.Errorf("the answers that loop to their end: %s", diff)
	}
	solutions := 0
	lines(t, "data/humaneval/HumanEval.jsonl.gz", func(row map[string]string) {
		solutions++
		for _, answer := range []string{row["canonical_solution"], row["prompt"] + row["canonical_solution"], "```python\n" + row["prompt"] + row["canonical_solution"] + "```"} {
			for _, f := range filters {
				if reason := f.Reject(answerTo("code", row["prompt"], answer)); reason != "" {
					t.Errorf("%s: %s", row["task_id"], reason)
				}
			}
		}
	})
	if solutions != 164 {
		t.Errorf("%d solutions, want 164", solutions)
	}
}

// TestGopherIsTooStrict holds the reason why Gopher's limits are off: of right
// answers they reject an eighth.
func TestGopherIsTooStrict(t *testing.T) {
	f := filterOf(t, "repetition", map[string]any{"gopher": true})
	n := 0
	for _, r := range gsm8k(t) {
		if r.Correct && f.Reject(answerTo("math", r.Question, r.Solution)) == ReasonGopher {
			n++
		}
	}
	if n != gopherOfGSM8K {
		t.Errorf("%d of 2001 correct answers break Gopher's limits, want %d", n, gopherOfGSM8K)
	}
}

const gopherOfGSM8K = 252

// TestCountsOnAlpacaEval holds how many of nine models' 7,245 answers each
// filter rejects, so that a change of a filter is seen. The answers behind the
// counts of refusal, identity, cutoff and language were read one by one; what
// was found is in docs/filters.md.
func TestCountsOnAlpacaEval(t *testing.T) {
	testdata.Heavy(t)
	filters := append(chain(t), filterOf(t, "empty", nil), filterOf(t, "language", nil), filterOf(t, "pii", nil), filterOf(t, "identity", map[string]any{"assistant": true, "cutoff": false}))
	counts := map[string]int{}
	rows := alpacaeval(t)
	for _, r := range rows {
		in := answerTo("chat", r.Instruction, r.Output)
		for i, f := range filters {
			if reason := f.Reject(in); reason != "" && (i < len(filters)-1 || reason == ReasonAssistant) {
				counts[reason]++
			}
		}
	}
	want := map[string]int{
		ReasonRefusal: 54, ReasonIdentity: 25, ReasonCutoff: 41, ReasonAssistant: 71, ReasonLanguage: 4,
		ReasonLoop: 2, ReasonSentences: 2, "pii:email": 5, "pii:phone": 1,
	}
	if diff := cmp.Diff(want, counts); diff != "" || len(rows) != 7245 {
		t.Errorf("counts of %d answers moved; read what is rejected now, and say so in docs/filters.md: %s", len(rows), diff)
	}
}
