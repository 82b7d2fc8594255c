//go:build readers

package readers

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/datasets/views/viewstest"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// Every view of a version with reasoning, tools, images, histories, nulls and
// other scripts, in both forms: what readers give is what was written. The
// names of options with JSON values hold the word object.
func TestEveryReaderReadsEveryView(t *testing.T) {
	python := os.Getenv("STILLHOUSE_PYTHON")
	if python == "" {
		missing(t, "STILLHOUSE_PYTHON")
	}
	c, v, m := viewstest.Publish(t, mem.New("b"))
	dir := t.TempDir()
	args := []string{"viewrows.py"}
	for name, o := range map[string]views.Options{
		"messages":                 {},
		"messages-images":          {Images: views.ImagesColumn, Effort: views.EffortKwargs},
		"messages-thinking-object": {Reasoning: views.ReasoningThinking, ToolArgs: views.ToolArgsObject},
		"prompt_completion":        {Reasoning: views.ReasoningInline},
		"prompt_completion-object": {ToolArgs: views.ToolArgsObject, Images: views.ImagesColumn},
		"preference-object":        {ToolArgs: views.ToolArgsObject},
		"sharegpt":                 {Images: views.ImagesColumn},
		"openai":                   {Images: views.ImagesColumn},
		"axolotl":                  {Images: views.ImagesColumn},
		"verl":                     {},
		"verl-images":              {Images: views.ImagesColumn},
		"verl_rl":                  {Images: views.ImagesColumn},
		"ms-swift":                 {Images: views.ImagesColumn, Effort: views.EffortKwargs},
	} {
		view := viewOf(t, name)
		for _, form := range []string{views.Parquet, views.JSONL} {
			o.Version, o.Form, o.LeaveOutUnfit = v, form, true
			folder := filepath.Join(dir, form, name)
			if _, err := views.Export(t.Context(), c, m, view, views.Folder(folder), o); err != nil {
				t.Fatal(err)
			}
			args = append(args, folder)
		}
	}
	cmd := exec.CommandContext(t.Context(), python, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var found map[string]map[string]string
	if err := json.Unmarshal(out, &found); err != nil {
		t.Fatalf("%v in %.500s", err, out)
	}
	if want := len(args) - 1; len(found) != want { // two splits of each pair of folders
		t.Errorf("%d findings, want %d", len(found), want)
	}
	for name, readers := range found {
		for reader, problem := range readers {
			if problem != "" {
				t.Errorf("%s by %s: %s", name, reader, problem)
			}
		}
	}
}

// viewOf is the view that a name starts with.
func viewOf(t *testing.T, name string) string {
	t.Helper()
	best := ""
	for _, view := range views.Names() {
		if len(view) > len(best) && len(name) >= len(view) && name[:len(view)] == view {
			best = view
		}
	}
	if best == "" {
		t.Fatalf("no view is called as %s starts", name)
	}
	return best
}
