//go:build integration

package e2e

import (
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// TestLogprobsImagesAndTrajectories builds, with the program that users run, a
// dataset of everything that a conversation may hold: pictures from a folder
// and in the row, tools, whole recorded trajectories, and logprobs of a teacher
// that gives some.
func TestLogprobsImagesAndTrajectories(t *testing.T) {
	s := startSim(t, "-models", "synth", "-gsm8k", testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"))
	h := newHouse(t)
	dir := t.TempDir()
	pixel := "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	raw, _ := base64.StdEncoding.DecodeString(pixel)
	write(t, filepath.Join(dir, "data", "png", "one.png"), string(raw))
	const prompts = 40
	var questions, runs strings.Builder
	for i := range prompts {
		image := "png/one.png"
		if i%2 == 0 {
			image = "data:image/png;base64," + pixel
		}
		fmt.Fprintf(&questions, `{"messages":[{"role":"user","content":"Look at picture %d."}],"images":%q,"tools":[{"type":"function","function":{"name":"look"}}]}`+"\n", i, image)
		fmt.Fprintf(&runs, `{"messages":[{"role":"user","content":"Look at picture %d."},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"look","arguments":"{\"n\": %d}"}}]},{"role":"tool","tool_call_id":"c","content":"a pixel"},{"role":"assistant","content":"I think","train":false},{"role":"assistant","content":"It is one pixel."}]}`+"\n", i, i)
	}
	write(t, filepath.Join(dir, "data", "p.jsonl"), questions.String())
	write(t, filepath.Join(dir, "data", "runs.jsonl"), runs.String())
	recipe := write(t, filepath.Join(dir, "r.yaml"), fmt.Sprintf(`name: conversations
prompts: [{path: data/p.jsonl, fields: {messages: messages, images: images, tools: tools}}]
teachers:
  - {id: synth, base_url: %q, model: synth}
  - {id: agent, api: recorded, path: data/runs.jsonl, fields: {messages: messages}}
ask: {samples: 2}
merge: {policy: union}
logprobs: {top: 3}
`, s.url()))

	plan := h.run(0, "plan", recipe)
	if !strings.Contains(plan.stdout(), "teacher agent: recorded answers have no logprobs") {
		t.Errorf("plan does not say what it will not get:\n%s", plan.stdout())
	}
	r := h.build(recipe)
	if r.Tasks != prompts || r.Rows["train"] != 3*prompts { // two answers of one, one recording of the other
		t.Fatalf("%+v", r)
	}
	byID := map[string]datasets.Candidate{}
	for _, c := range h.candidates("conversations") {
		byID[c.SampleID] = c
		if len(c.Images) != 1 || c.Images[0].MediaType != "image/png" {
			t.Fatalf("images %v", c.Images)
		}
		if c.Teacher == "agent" && c.Error == nil && (len(c.Messages) != 5 || c.Messages[1].ToolCalls[0].Arguments == "" || !c.Messages[1].Train || c.Messages[2].Train || c.Messages[3].Train || !c.Messages[4].Train) {
			t.Fatalf("trajectory %+v", c.Messages)
		}
	}
	table := rows[datasets.LogprobRow](h, "conversations", datasets.TableLogprobs)
	if len(table) != 2*prompts {
		t.Fatalf("%d rows of logprobs", len(table))
	}
	for i := range table {
		row := &table[i]
		c := byID[row.SampleID]
		text := ""
		for _, b := range row.TokenBytes {
			text += string(*b)
		}
		if c.Teacher != "synth" || row.TopK != 3 || row.Gaps != 0 || len(row.TopLogprobs) != 3*int(row.Tokens) || text != c.Content() {
			t.Fatalf("%d tokens %q of %q", row.Tokens, text, c.Content())
		}
	}

	// The same again costs nothing and changes nothing.
	before := s.total()
	if again := h.build(recipe); !again.Unchanged || s.total().Requests != before.Requests {
		t.Errorf("%+v", again)
	}
	if before.PaidTwice != 0 {
		t.Errorf("%+v", before)
	}
	out := filepath.Join(dir, "logprobs")
	h.run(0, "export", "conversations", out, "--table", "logprobs")
	shown := h.run(0, "head", "conversations", "--table", "logprobs", "-n", "1")
	if !strings.Contains(shown.stdout(), "3 alternatives each") {
		t.Errorf("%s", shown.stdout())
	}
	// A view that holds text alone refuses rows with images.
	if p := h.run(1, "export", "conversations", filepath.Join(dir, "messages")); !strings.Contains(p.stderr(), "images") {
		t.Errorf("%s", p.stderr())
	}
	h.run(0, "verify", "conversations")
}
