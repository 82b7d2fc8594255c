package views_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/datasets/views/viewstest"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

var update = flag.Bool("update", false, "write the golden files anew")

// goldens are the views with the options that change their rows.
var goldens = []struct {
	name, view string
	opt        views.Options
}{
	{"messages", "messages", views.Options{}},
	{"messages-images-kwargs", "messages", views.Options{Images: views.ImagesColumn, Effort: views.EffortKwargs}},
	{"messages-inline-system", "messages", views.Options{Reasoning: views.ReasoningInline, ThinkTag: "reasoning", Effort: views.EffortSystem}},
	{"messages-thinking-object", "messages", views.Options{Reasoning: views.ReasoningThinking, ToolArgs: views.ToolArgsObject, Effort: views.EffortNone}},
	{"messages-drop", "messages", views.Options{Reasoning: views.ReasoningDrop}},
	{"prompt_completion", "prompt_completion", views.Options{}},
	{"prompt_completion-object", "prompt_completion", views.Options{ToolArgs: views.ToolArgsObject, Images: views.ImagesColumn}},
	{"preference", "preference", views.Options{}},
	{"preference-object", "preference", views.Options{ToolArgs: views.ToolArgsObject, Images: views.ImagesColumn, Effort: views.EffortKwargs}},
	{"sharegpt", "sharegpt", views.Options{}},
	{"sharegpt-history", "sharegpt", views.Options{MaskHistory: true, Images: views.ImagesColumn}},
	{"openai", "openai", views.Options{Images: views.ImagesColumn}},
	{"axolotl", "axolotl", views.Options{Images: views.ImagesColumn}},
	{"verl", "verl", views.Options{}},
	{"verl-images", "verl", views.Options{Images: views.ImagesColumn}},
	{"verl_rl", "verl_rl", views.Options{DataSource: "openai/gsm8k", Images: views.ImagesColumn}},
	{"ms-swift", "ms-swift", views.Options{Images: views.ImagesColumn}},
	{"ms-swift-kwargs", "ms-swift", views.Options{Effort: views.EffortKwargs, Reasoning: views.ReasoningDrop}},
}

// The rows of every view, and the refusal of those that it can't hold, are as
// the golden files have them.
func TestRowsOfEveryView(t *testing.T) {
	c, v, m := viewstest.Publish(t, mem.New("b"))
	for _, tc := range goldens {
		t.Run(tc.name, func(t *testing.T) {
			tc.opt.Version, tc.opt.Form = v, views.JSONL
			var got bytes.Buffer
			s, err := views.Open(c, m, tc.view, tc.opt)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Check(t.Context()); err != nil {
				if !errors.Is(err, views.ErrUnsupported) {
					t.Fatal(err)
				}
				fmt.Fprintf(&got, "# %s\n", strings.ReplaceAll(err.Error(), "; ", ";\n#   "))
			}
			tc.opt.LeaveOutUnfit = true
			if s, err = views.Open(c, m, tc.view, tc.opt); err != nil {
				t.Fatal(err)
			}
			n, err := s.WriteJSONL(t.Context(), &got)
			if err != nil {
				t.Fatal(err)
			}
			all := int64(0)
			for _, split := range s.Splits() {
				all += s.AtMost(split)
			}
			if left := s.LeftOut()[views.LeftOutUnfit]; tc.view != "verl_rl" && n+left != all {
				t.Errorf("%d rows and %d left out, of %d", n, left, all)
			}
			golden(t, tc.name, got.Bytes())
		})
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "golden", name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("-want +got, and -update where it is right:\n%s", diff)
	}
}

// Whatever a view does with it, each piece of reasoning stands exactly once in
// its row, or not at all where it is dropped; arguments are encoded once, and
// no object in them has a key that its teacher did not write.
func TestReasoningAndArgumentsStandOnce(t *testing.T) {
	c, v, m := viewstest.Publish(t, mem.New("b"))
	for _, tc := range goldens {
		if tc.view == "verl_rl" {
			continue
		}
		tc.opt.Version, tc.opt.Form, tc.opt.LeaveOutUnfit = v, views.JSONL, true
		s, err := views.Open(c, m, tc.view, tc.opt)
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if _, err := s.WriteJSONL(t.Context(), &got); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(got.String()) {
			checkLine(t, tc.name, s.Options.Reasoning, line)
		}
	}
}

func checkLine(t *testing.T, name, reasoning, line string) {
	t.Helper()
	var row any
	if err := json.Unmarshal([]byte(line), &row); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	texts := map[string]int{}
	count(row, texts)
	for asked, words := range map[string]string{
		"Bern and 0.1+0.2?": "two calls are needed", "1+1": "one and one", "q2": "as before", "数学": "и ещё раз", "What is this?": "I look", "вопрос p2": "one point",
	} {
		n, want := 0, 0
		for text, times := range texts {
			n += times * strings.Count(text, words)
			if strings.Contains(text, asked) {
				want = 1
			}
		}
		if reasoning == views.ReasoningDrop {
			want = 0
		}
		if n != want {
			t.Errorf("%s: reasoning %q stands %d times, want %d: %s", name, words, n, want, line)
		}
	}
	// The arguments of look_up: as an object, or in a text that is JSON of one.
	for text := range texts {
		if strings.Contains(text, `\"city\"`) && !strings.Contains(text, `"content"`) {
			t.Errorf("%s: arguments are encoded twice: %s", name, text)
		}
	}
	noStrangeKeys(t, name, row)
}

// count collects every text of a value.
func count(v any, texts map[string]int) {
	switch v := v.(type) {
	case string:
		texts[v]++
	case []any:
		for _, e := range v {
			count(e, texts)
		}
	case map[string]any:
		for _, e := range v {
			count(e, texts)
		}
	}
}

// noStrangeKeys holds every object of arguments to the keys of one tool.
func noStrangeKeys(t *testing.T, name string, v any) {
	t.Helper()
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			noStrangeKeys(t, name, e)
		}
	case map[string]any:
		if arguments, ok := v["arguments"].(map[string]any); ok {
			_, city := arguments["city"]
			_, terms := arguments["terms"]
			if city == terms {
				t.Errorf("%s: arguments %v have keys of another call", name, arguments)
			}
		}
		for _, e := range v {
			noStrangeKeys(t, name, e)
		}
	}
}
