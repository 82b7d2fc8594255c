package views_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func pairOf(task, chosen, rejected string) datasets.Pair {
	return datasets.Pair{
		TaskID: task, PromptID: task, ChosenTeacher: chosen, RejectedTeacher: rejected, Margin: ptr(0.5), CrossTeacher: chosen != rejected,
		Prompt:   []chat.Message{{Role: "system", Content: ptr("be brief")}, {Role: "user", Content: ptr("2+2 " + task)}},
		Chosen:   []chat.Message{{Role: "assistant", Content: ptr("4"), ReasoningContent: ptr("two and two"), Train: true}},
		Rejected: []chat.Message{{Role: "assistant", Content: ptr("5"), Train: true}},
	}
}

// withPairs is a version with pairs, and with train rows of k3.
func withPairs(t *testing.T, terms map[string]string, pairs map[string][]datasets.Pair) fixture {
	t.Helper()
	c := catalog.Open(mem.New("b"))
	m := catalog.Manifest{Dataset: "maths", BuildID: "20261130T130000Z-00000001", CreatedAt: catalogTime}
	for id, training := range terms {
		m.Teachers = append(m.Teachers, catalog.ManifestTeacher{ID: id, Model: id, Terms: catalog.Terms{Training: training}})
	}
	for _, split := range []string{"train", "test"} {
		if len(pairs[split]) == 0 {
			continue
		}
		path := filepath.Join(t.TempDir(), "f")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := parquetio.NewWriter[datasets.Pair](f, parquetio.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(w.Write(pairs[split]), w.Close(), f.Close()); err != nil {
			t.Fatal(err)
		}
		ref, err := c.Stage(t.Context(), "maths", m.BuildID, datasets.TablePairs, split, 0, path)
		if err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, ref)
	}
	v, err := c.Publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return fixture{c, v, &m}
}

func TestPreferenceView(t *testing.T) {
	f := withPairs(t, map[string]string{"k3": "allowed", "r1": "unknown"}, map[string][]datasets.Pair{
		"train": {pairOf("a", "k3", "r1"), pairOf("b", "k3", "k3")}, "test": {pairOf("c", "r1", "k3")},
	})
	dir := filepath.Join(t.TempDir(), "out")
	s, err := views.Export(t.Context(), f.c, f.m, views.ViewPreference, views.Folder(dir), views.Options{Version: f.v, Form: views.JSONL})
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows["train"] != 2 || s.Rows["test"] != 1 || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "teacher r1 (2 rows)") {
		t.Errorf("%+v", s)
	}
	text, err := os.ReadFile(filepath.Join(dir, "data", "train-00000-of-00001.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\n")
	want := `{"prompt":[{"role":"system","content":"be brief","reasoning_content":null,"tool_calls":null,"tool_call_id":null,"name":null,"train":null},` +
		`{"role":"user","content":"2+2 a","reasoning_content":null,"tool_calls":null,"tool_call_id":null,"name":null,"train":null}],` +
		`"chosen":[{"role":"assistant","content":"4","reasoning_content":"two and two","tool_calls":null,"tool_call_id":null,"name":null,"train":null}],` +
		`"rejected":[{"role":"assistant","content":"5","reasoning_content":null,"tool_calls":null,"tool_call_id":null,"name":null,"train":null}],` +
		`"tools":null,"margin":0.5,"cross_teacher":true,"effort":null}`
	if line != want {
		t.Errorf("got\n%s\nwant\n%s", line, want)
	}
	card, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"- name: chosen", "- name: cross_teacher", "View `preference`", "| k3 | k3 | 4 |", "| train | 2 |"} {
		if !strings.Contains(string(card), want) {
			t.Errorf("the card lacks %q:\n%s", want, card)
		}
	}
	again, err := views.Export(t.Context(), f.c, f.m, views.ViewPreference, views.Folder(dir), views.Options{Version: f.v, Form: views.JSONL})
	if err != nil || !again.Unchanged {
		t.Errorf("%+v %v", again, err)
	}
	parquet := filepath.Join(t.TempDir(), "p")
	if _, err := views.Export(t.Context(), f.c, f.m, views.ViewPreference, views.Folder(parquet), views.Options{Version: f.v}); err != nil {
		t.Fatal(err)
	}
	r := openParquet[views.Preference](t, filepath.Join(parquet, "data", "test-00000-of-00001.parquet"))
	if len(r) != 1 || *r[0].Chosen[0].Content != "4" || !r[0].CrossTeacher {
		t.Errorf("%+v", r)
	}
}

func openParquet[T any](t *testing.T, path string) (out []T) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, err := parquetio.Open[T](f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

// The terms of either side count, and what does not fit is refused.
func TestPreferenceViewRefuses(t *testing.T) {
	one := func(p datasets.Pair) map[string][]datasets.Pair { return map[string][]datasets.Pair{"train": {p}} }
	images := pairOf("a", "k3", "k3")
	images.Images = []datasets.Image{{Digest: "d"}}
	for _, tc := range []struct {
		name  string
		terms map[string]string
		pairs map[string][]datasets.Pair
		table bool
		want  error
		text  string
	}{
		{"the rejected teacher forbids", map[string]string{"k3": "allowed", "r1": "forbidden"}, one(pairOf("a", "k3", "r1")), false, views.ErrForbidden, "r1 (1 row"},
		{"in the table too", map[string]string{"k3": "allowed", "r1": "forbidden"}, one(pairOf("a", "r1", "k3")), true, views.ErrForbidden, "r1 (1 row"},
		{"images", map[string]string{"k3": "allowed"}, one(images), false, views.ErrUnsupported, "1 row: task a: it has 1 image;"},
		{"no pairs", map[string]string{"k3": "allowed"}, nil, false, nil, "has no preference pairs; its recipe has to ask for them"},
	} {
		f := withPairs(t, tc.terms, tc.pairs)
		dest := views.Folder(filepath.Join(t.TempDir(), "out"))
		_, err := views.Export(t.Context(), f.c, f.m, views.ViewPreference, dest, views.Options{Version: f.v})
		if tc.table {
			_, err = views.ExportTable(t.Context(), f.c, f.m, datasets.TablePairs, dest, views.Options{Version: f.v})
		}
		if err == nil || tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.text) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}
