//go:build parquetbench

package parquetbench

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// An answer of a real model to a real instruction.
type answer struct {
	Instruction string `json:"instruction"`
	Output      string `json:"output"`
	Generator   string `json:"generator"`
	Dataset     string `json:"dataset"`
}

// corpus is n rows of train, sorted by prompt: real answers of eight models,
// every other one with another model's answer as its reasoning. The texts come
// again after some thousand rows, which is further back than a page's
// compression looks.
func corpus(t testing.TB, n int) []datasets.Row {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(testdata.Path(t, "data/alpacaeval"), "*.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var models [][]answer
	for _, file := range files {
		if filepath.Base(file) == "preferences.jsonl" {
			continue
		}
		models = append(models, answers(t, file))
	}
	rows := make([]datasets.Row, 0, n)
	for i := range n {
		of := models[i%len(models)]
		at := i / len(models) % len(of)
		a := of[at]
		task := identity("task", i/len(models))
		row := datasets.Row{
			TaskID: task + "/chat/high", PromptID: task, SampleID: identity("sample", i),
			Domain: a.Dataset, Effort: []string{"low", "high", "max"}[i%3], Teacher: a.Generator, TeacherModel: "lab/" + a.Generator,
			Messages: []chat.Message{
				{Role: chat.RoleUser, Content: &a.Instruction},
				{Role: chat.RoleAssistant, Content: &a.Output, Train: true},
			},
			CompletionTokens: ptr(int64(len(a.Output) / 4)), Licence: ptr("apache-2.0"),
		}
		if i%2 == 0 {
			other := models[(i+1)%len(models)]
			reasoning := other[min(at, len(other)-1)].Output
			row.Messages[1].ReasoningContent, row.Messages[1].ReasoningKind = &reasoning, ptr("raw")
		}
		if i%5 > 0 {
			row.Verdict, row.Score = ptr(datasets.Pass), ptr(float64(i%1000)/1000)
		}
		rows = append(rows, row)
	}
	return parquetSorted(rows)
}

func parquetSorted(rows []datasets.Row) []datasets.Row {
	parquetio.Sorted(rows, func(r *datasets.Row) string { return r.PromptID })
	return slices.Clip(rows)
}

func identity(kind string, i int) string {
	b, _ := json.Marshal([]any{kind, i}) // of a string and a number: never fails
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

func answers(t testing.TB, file string) []answer {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []answer
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var a answer
		if err := json.Unmarshal(in.Bytes(), &a); err != nil {
			t.Fatal(err)
		}
		out = append(out, a)
	}
	if err := in.Err(); err != nil || len(out) == 0 {
		t.Fatalf("%s: %d answers, %v", file, len(out), err)
	}
	return out
}

func ptr[T any](v T) *T { return &v }
