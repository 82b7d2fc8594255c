package dedup

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode"

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
		if outer, inner, ok := strings.Cut(field, "."); ok {
			row, _ = row[outer].(map[string]any)
			text, _ := row[inner].(string)
			out = append(out, text)
			continue
		}
		text, _ := row[field].(string)
		out = append(out, text)
	}
	if err := s.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestFinalsStayApart has the final answers of four models to GSM8K. A key that
// drops all punctuation makes one of 3.2 and 32, of -4 and 4.
func TestFinalsStayApart(t *testing.T) {
	groups := map[string]map[string]bool{}
	bare := map[string]map[string]bool{}
	n := 0
	add := func(m map[string]map[string]bool, key, final string) {
		if m[key] == nil {
			m[key] = map[string]bool{}
		}
		m[key][final] = true
	}
	for _, model := range []string{"175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"} {
		for _, text := range texts(t, testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"), model+".solution") {
			i := strings.LastIndex(text, "\nA: ")
			if i < 0 {
				continue
			}
			n++
			final := strings.TrimSpace(text[i+4:])
			add(groups, Normal(Prose, final), strings.ToLower(final))
			add(bare, strings.Map(func(r rune) rune {
				if unicode.IsPunct(r) {
					return -1
				}
				return r
			}, strings.ToLower(final)), final)
		}
	}
	if n < 5000 {
		t.Fatalf("%d final answers are read, want more than 5,000", n)
	}
	merged := 0
	for _, finals := range bare {
		if len(finals) > 1 {
			merged++
		}
	}
	if merged < 90 {
		t.Errorf("without punctuation %d groups of final answers are one, want about 97: the test proves nothing", merged)
	}
	for key, finals := range groups {
		if len(finals) > 1 {
			t.Errorf("%q stands for %v", key, slices.Collect(maps.Keys(finals)))
		}
	}
}
