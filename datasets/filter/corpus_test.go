package filter

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

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

func TestMeasure(t *testing.T) {
	fs := append(chain(t), filterOf(t, "language", nil), filterOf(t, "pii", nil), filterOf(t, "repetition", map[string]any{"gopher": true}), filterOf(t, "identity", map[string]any{"assistant": true}))
	counts := map[string]int{}
	var dump strings.Builder
	for _, r := range alpacaeval(t) {
		in := answerTo("chat", r.Instruction, r.Output)
		for i, f := range fs {
			if reason := f.Reject(in); reason != "" {
				if i >= 9 {
					reason += "+"
				}
				counts[reason]++
				b, _ := json.Marshal(map[string]string{"reason": reason, "model": r.model, "q": r.Instruction, "a": r.Output})
				dump.Write(b)
				dump.WriteByte('\n')
			}
		}
	}
	os.WriteFile("/tmp/dwork/alpaca.jsonl", []byte(dump.String()), 0o644)
	t.Log("alpaca", counts)
	dump.Reset()
	counts = map[string]int{}
	for _, r := range gsm8k(t) {
		in := answerTo("math", r.Question, r.Solution)
		for i, f := range fs {
			if reason := f.Reject(in); reason != "" {
				if i >= 9 {
					reason += "+"
				}
				if r.Correct {
					reason += " correct"
				}
				counts[reason]++
				if i < 9 {
					b, _ := json.Marshal(map[string]string{"reason": reason, "a": r.Solution})
					dump.Write(b)
					dump.WriteByte('\n')
				}
			}
		}
	}
	t.Log("gsm8k", counts)
	os.WriteFile("/tmp/dwork/gsm.jsonl", []byte(dump.String()), 0o644)
	counts = map[string]int{}
	lines(t, "data/humaneval/HumanEval.jsonl.gz", func(row map[string]string) {
		in := answerTo("code", row["prompt"], row["prompt"]+row["canonical_solution"])
		for i, f := range fs {
			if reason := f.Reject(in); reason != "" {
				if i >= 9 {
					reason += "+"
				}
				counts[reason]++
			}
		}
	})
	t.Log("humaneval", counts)
}
