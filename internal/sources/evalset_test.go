package sources

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

func evalItems(t *testing.T, name, text string, fields recipe.EvalFields) ([]EvalItem, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := Find(dir, name)
	if err != nil {
		t.Fatal(err)
	}
	var out []EvalItem
	for item, err := range EvalItems(context.Background(), files[0], fields, Options{}) {
		if err != nil {
			return out, err
		}
		out = append(out, item)
	}
	return out, nil
}

func TestEvalItemsAreFoundWhereSetsKeepThem(t *testing.T) {
	for _, tc := range []struct {
		name, row        string
		fields           recipe.EvalFields
		question, answer string
	}{
		{"GSM8K", `{"question":"how many?","answer":"#### 3"}`, recipe.EvalFields{}, "how many?", ""},
		{"with its answer", `{"question":"how many?","answer":"#### 3"}`, recipe.EvalFields{Answer: "answer"}, "how many?", "#### 3"},
		{"MATH", `{"problem":"solve x"}`, recipe.EvalFields{}, "solve x", ""},
		{"HumanEval", `{"task_id":"1","prompt":"def f():"}`, recipe.EvalFields{}, "def f():", ""},
		{"a nested field", `{"doc":{"q":"where?"}}`, recipe.EvalFields{Question: "doc.q"}, "where?", ""},
		{"a conversation", `{"messages":[{"role":"system","content":"be kind"},{"role":"user","content":"one"},{"role":"assistant","content":"two"},{"role":"user","content":"three"}]}`, recipe.EvalFields{}, "one\nthree", ""},
		{"a conversation under prompt", `{"prompt":[{"role":"user","content":"one"}]}`, recipe.EvalFields{}, "one", ""},
		{"an answer that is a list", `{"question":"q","answers":["a","b"]}`, recipe.EvalFields{Answer: "answers"}, "q", `["a","b"]`},
		{"a null answer", `{"question":"q","a":null}`, recipe.EvalFields{Answer: "a"}, "q", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := evalItems(t, "set.jsonl", tc.row+"\n", tc.fields)
			want := EvalItem{Where: "set.jsonl:1", Question: tc.question, Answer: tc.answer}
			if err != nil || len(got) != 1 || got[0] != want {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

// What cannot be read would pass for clean, so it ends the reading.
func TestAnItemWithoutAQuestionIsAnError(t *testing.T) {
	for _, tc := range []struct {
		row    string
		fields recipe.EvalFields
		want   string
	}{
		{`{"id":1,"body":"x"}`, recipe.EvalFields{}, `set.jsonl:2: has none of the fields prompt, messages`},
		{`{"id":1,"body":"x"}`, recipe.EvalFields{Question: "q"}, `set.jsonl:2: has no field q; its fields are "body", "id"`},
		{`{"question":{"en":"x"}}`, recipe.EvalFields{}, `set.jsonl:2: field question is neither a text nor a conversation`},
		{`{"question":`, recipe.EvalFields{}, `set.jsonl:2: `},
	} {
		got, err := evalItems(t, "set.jsonl", `{"question":"fine","q":"fine"}`+"\n"+tc.row+"\n", tc.fields)
		var row *RowError
		if !errors.As(err, &row) || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", tc.row, err, tc.want)
		}
		if len(got) != 1 {
			t.Errorf("%s: %d items before it, want 1", tc.row, len(got))
		}
	}
}

// The name goes into published tables: it must not tell where the recipe lies.
func TestEvalSetNamesAreTheSameOnEveryMachine(t *testing.T) {
	dir := filepath.FromSlash("/home/somebody/recipes")
	at := func(p string) File { return File{Name: filepath.Base(p), Path: filepath.FromSlash(p)} }
	for _, tc := range []struct {
		pattern string
		file    File
		want    string
	}{
		{"test.jsonl", at("/home/somebody/recipes/test.jsonl"), "test.jsonl"},
		{"*.jsonl", at("/home/somebody/recipes/test.jsonl"), "test.jsonl"},
		{"./test.jsonl", at("/home/somebody/recipes/test.jsonl"), "test.jsonl"},
		{"eval/test.jsonl", at("/home/somebody/recipes/eval/test.jsonl"), "eval/test.jsonl"},
		{"eval/*.jsonl", at("/home/somebody/recipes/eval/test.jsonl"), "eval/test.jsonl"},
		{"eval/**/*.jsonl", at("/home/somebody/recipes/eval/gsm8k/test.jsonl"), "eval/gsm8k/test.jsonl"},
		{"eval/*/test.jsonl", at("/home/somebody/recipes/eval/gsm8k/test.jsonl"), "eval/gsm8k/test.jsonl"},
		{"eval", at("/home/somebody/recipes/eval/gsm8k/test.jsonl"), "eval/gsm8k/test.jsonl"},
		{"../eval/*.jsonl", at("/home/somebody/eval/test.jsonl"), "eval/test.jsonl"},
		{"../*.jsonl", at("/home/somebody/test.jsonl"), "test.jsonl"},
		{"/data/eval/*.jsonl", at("/data/eval/test.jsonl"), "eval/test.jsonl"},
		{"/data/eval/test.jsonl", at("/data/eval/test.jsonl"), "eval/test.jsonl"},
		{"/*.jsonl", at("/test.jsonl"), "test.jsonl"},
		{"s3://bucket/sets/gsm8k/*.jsonl", File{Name: "test.jsonl", Key: "s3://bucket/sets/gsm8k/test.jsonl"}, "gsm8k/test.jsonl"},
		{"s3://bucket/test.jsonl", File{Name: "test.jsonl", Key: "s3://bucket/test.jsonl"}, "test.jsonl"},
	} {
		if got := EvalSetName(dir, tc.pattern, tc.file); got != tc.want {
			t.Errorf("%s of %s is called %q, want %q", tc.file.Path+tc.file.Key, tc.pattern, got, tc.want)
		}
	}
}
