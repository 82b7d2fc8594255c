package dedup

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// TestRealPromptsStay looks for duplicates where people wrote different
// prompts.
func TestRealPromptsStay(t *testing.T) {
	for _, set := range []struct {
		file, field, domain string
		prompts             int
	}{
		{"data/gsm8k/test.jsonl", "question", "math", 1319},
		{"data/gsm8k/test.jsonl", "question", "chat", 1319},
		{"data/humaneval/HumanEval.jsonl.gz", "prompt", "code", 164},
		{"data/alpacaeval/alpaca-7b.jsonl", "instruction", "chat", 805},
	} {
		keys := map[Key]bool{}
		var documents []Document
		for i, text := range texts(t, testdata.Path(t, set.file), set.field) {
			keys[PromptKey(set.domain, prompt(text))] = true
			documents = append(documents, PromptDocument(uint64(i), set.domain, prompt(text)))
		}
		if len(documents) != set.prompts || len(keys) != set.prompts {
			t.Errorf("%s: %d prompts and %d keys, want %d", set.file, len(documents), len(keys), set.prompts)
		}
		if found, _ := nearDuplicates(t, NearOptions{}, documents); len(found) > 0 {
			for _, m := range found {
				t.Errorf("%s: %q is a near-duplicate of %q: %.3f", set.file, documents[m.Order].Text, documents[m.Of].Text, m.Jaccard)
			}
		}
	}
}

// texts reads one field of every row.
func texts(t testing.TB, path, field string) []string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var in io.Reader = f
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			t.Fatal(err)
		}
	}
	s := bufio.NewScanner(in)
	s.Buffer(nil, 1<<22)
	var out []string
	for s.Scan() {
		var row map[string]any
		if err := json.Unmarshal(s.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		text, _ := row[field].(string)
		out = append(out, text)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}
