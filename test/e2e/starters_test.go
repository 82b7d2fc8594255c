//go:build integration

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// TestStarters builds what init writes. Those that name an endpoint are pointed
// at the simulator, and nothing else in them is changed.
func TestStarters(t *testing.T) {
	s := startSim(t, "-models", "m", "-chunk", "400")
	for _, kind := range []string{"recorded", "demo", "openai", "anthropic", "vllm", "ollama"} {
		t.Run(kind, func(t *testing.T) {
			s := s.on(t)
			h := newHouse(t)
			dir := filepath.Join(t.TempDir(), "starter")
			h.run(0, "init", dir, "--for", kind)
			recipe := filepath.Join(dir, "recipe.yaml")
			text, err := os.ReadFile(recipe)
			if err != nil {
				t.Fatal(err)
			}
			if kind != "recorded" && kind != "demo" {
				write(t, recipe, pointAt(string(text), s.url(), "m"))
				// The simulator's answers are no numbers, so that nothing is
				// accepted: what counts is that each prompt was asked and kept.
				s.reset()
				h.more = []string{"OPENAI_API_KEY=k", "ANTHROPIC_API_KEY=k"}
				if r := h.run(3, "build", recipe, "--json", "--yes").result(); r.AnswersNew < 5 || int(r.AnswersNew) != s.total().Completed {
					t.Errorf("%s: %d answers new, and the endpoint gave %d", kind, r.AnswersNew, s.total().Completed)
				}
				return
			}
			if r := h.build(recipe); r.Version != 1 || r.Accepted == 0 {
				t.Errorf("%s: version %d, %d accepted", kind, r.Version, r.Accepted)
			}
		})
	}
}

// pointAt replaces the address and the model of a starter's one teacher.
func pointAt(recipe, url, model string) string {
	lines := strings.Split(recipe, "\n")
	for i, line := range lines {
		key := strings.TrimLeft(line, " -")
		indent := line[:len(line)-len(key)]
		switch {
		case strings.HasPrefix(key, "base_url:"):
			lines[i] = indent + "base_url: " + url
		case strings.HasPrefix(key, "model:"):
			lines[i] = indent + "model: " + model
		}
	}
	return strings.Join(lines, "\n")
}

// TestSourcesInAStore reads prompts from s3://, by a glob.
func TestSourcesInAStore(t *testing.T) {
	s := startSim(t, "-models", "m", "-chunk", "400")
	h := newHouse(t)
	h.serve()
	b, vars := h.store()
	for part := range 2 {
		var text strings.Builder
		for i := range 10 {
			fmt.Fprintf(&text, "{\"prompt\":\"part %d, question %d\"}\n", part, i)
		}
		key := fmt.Sprintf("inputs/prompts-%d.jsonl", part)
		if _, err := objstore.PutBytes(context.Background(), b, key, []byte(text.String()), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	recipe := write(t, filepath.Join(t.TempDir(), "recipe.yaml"), fmt.Sprintf(`
apiVersion: stillhouse/v1
name: remote-sources
prompts: [{path: "s3://%s/inputs/*.jsonl"}]
teachers: [{id: m, base_url: "%s", model: m}]
`, vars["STILLHOUSE_BUCKET"], s.url()))
	// The services read the source with the environment that they were started
	// with, so this build runs on services of its own, in another home.
	other := newHouse(t)
	other.more = awsVars(vars)
	if r := other.build(recipe); r.Tasks != 20 || r.AnswersNew != 20 {
		t.Errorf("%d tasks, %d answers, want 20 of each", r.Tasks, r.AnswersNew)
	}
}
