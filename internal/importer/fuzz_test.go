package importer_test

import (
	"os"
	"path/filepath"
	"testing"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/importer"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// FuzzRow: whatever a row is, it becomes a conversation that ends with the
// assistant's turn, in text that is UTF-8, or an error.
func FuzzRow(f *testing.F) {
	for _, seed := range []string{
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","tool_calls":[{"name":"f","arguments":{}}]}],"tools":"[{}]"}`,
		`{"conversations":[{"from":"human","value":"q"},{"from":"function_call","value":"<think>{</think>[{\"name\":\"f\"}]"},{"from":"observation","value":"1"},{"from":"gpt","value":"<think>r</think>a"}]}`,
		`{"instruction":"i","input":"j","output":"o","history":[["a","b"]]}`,
		`{"prompt":[{"role":"user","content":[{"type":"text","text":"x"}]}],"completion":"c","meta":"{\"a\":[1e400]}"}`,
		`{"messages":"[]"}`, `{"messages":[[]]}`, `{}`, `[]`, `{"prompt":null,"completion":{}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "x.jsonl")
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		src, err := importer.Open(t.Context(), sources.Finder{}, path, importer.Choice{})
		if err != nil {
			return
		}
		p, err := importer.Prepare(t.Context(), src, importer.Options{Dataset: "x", SplitThink: true, BadRows: -1, TempDir: t.TempDir()})
		if err != nil {
			return
		}
		c := p.Sample
		if len(c.Turns) == 0 || c.Turns[len(c.Turns)-1].Role != chat.RoleAssistant || len(c.Prompt.Messages) == 0 {
			t.Errorf("%+v", c)
		}
		for _, m := range append(c.Prompt.All(), c.Turns...) {
			if m.Content != nil && !utf8.ValidString(*m.Content) || m.ReasoningContent != nil && !utf8.ValidString(*m.ReasoningContent) {
				t.Errorf("%q", *m.Content)
			}
		}
		if _, err := p.Publish(t.Context(), catalog.Open(mem.New("store"))); err != nil {
			t.Error(err)
		}
		if _, err := p.WriteRecorded(t.Context(), filepath.Join(t.TempDir(), "out")); err != nil {
			t.Error(err)
		}
	})
}

// FuzzCard: whatever a README.md says, no file outside of its folder is read.
func FuzzCard(f *testing.F) {
	for _, seed := range []string{
		"---\nconfigs:\n- config_name: a\n  data_files: '*.jsonl'\n---\n", "---\nconfigs:\n- config_name: a\n  data_files:\n  - split: test\n    path: [../*, '**']\n---\n",
		"---\nlicense: [a, b]\nlanguage: en\n---\n", "---\n&a\n---\n", "---\nconfigs: 7\n---\n", "---\nconfigs:\n- config_name: a\n  data_files: {train: '[*', test: /etc/passwd}\n  default: true\n---\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, card string) {
		dir := t.TempDir()
		for name, text := range map[string]string{"README.md": card, "a.jsonl": `{"prompt":"q","completion":"a"}`} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		src, err := importer.Open(t.Context(), sources.Finder{}, dir, importer.Choice{})
		if err != nil {
			return
		}
		for _, file := range src.Files {
			if file.Path != "a.jsonl" {
				t.Errorf("%s is read", file.Path)
			}
		}
	})
}
