//go:build readers

package readers

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// hostile is text that tries to leave wherever it stands.
const hostile = "x\"\n---\nlicense: mit\n- &a *b {c} %d\u2028\u0085\x1b[31m: '数"

// A hubFolder is what datasets and huggingface_hub make of a folder.
type hubFolder struct {
	Splits map[string]int64 `json:"splits"`
	Card   map[string]any   `json:"card"`
	Rows   []map[string]any `json:"rows"`
	Logits [][][][2]any     `json:"logits"`
}

// TestTheHubReadsCards holds the cards of views to the readers that they are
// for: names, licences and texts of others are what they were, counts are held.
func TestTheHubReadsCards(t *testing.T) {
	needPyarrow(t)
	dir := t.TempDir()
	c := catalog.Open(mem.New("b"))
	prompt := datasets.PromptRow{
		TaskID: "p/math/high", PromptID: "p", Domain: "math", Effort: "high", Split: "train", Status: datasets.StatusClean, Route: []string{"k3"},
		Messages: []chat.Message{{Role: "user", Content: ptr("数?")}}, Copies: 1,
	}
	id := func(n int32) *int32 { return &n }
	p := func(v float32) *float32 { return &v }
	logits := datasets.LogprobRow{
		SampleID: "s", PromptID: "p", Split: "train", Teacher: "k3", Selected: true, Complete: true, Tokens: 2, TopK: 2,
		PromptTokenIDs: []int32{5, 6}, TokenizerSHA256: ptr("00"),
		TokenIDs: []*int32{id(70_000), id(1)}, TopTokenIDs: []*int32{id(70_000), id(3), id(1), id(2)},
		Logprobs: []*float32{p(-0.5), p(-1)}, TopLogprobs: []*float32{p(-0.5), p(-3.25), p(-2), p(-1)},
		TokenBytes: []*[]byte{nil, nil}, TailLogmass: []*float32{nil, nil},
	}
	m := catalog.Manifest{Dataset: "maths", BuildID: "b1", Tool: hostile, Teachers: []catalog.ManifestTeacher{{
		ID: "k3", Model: hostile, Terms: catalog.Terms{Licence: hostile, URL: "https://a/?b=\"c\"", Training: catalog.TrainingAllowed},
	}}}
	for table, path := range map[string]string{
		"train": write(t, dir, "rows", manyRows(30)), "test": write(t, dir, "held", manyRows(3)),
		"prompts": write(t, dir, "asked", []datasets.PromptRow{prompt}), "logprobs": write(t, dir, "logits", []datasets.LogprobRow{logits}),
	} {
		ref, err := c.Stage(t.Context(), "maths", "b1", table, table, 0, path)
		if err != nil {
			t.Fatal(err)
		}
		if table == "train" || table == "test" {
			ref.Teachers = map[string]int64{"k3": ref.Rows}
		}
		m.Files = append(m.Files, ref)
	}
	folders := map[string]string{}
	for _, view := range []string{views.ViewMessages, views.ViewPromptsRouted, views.ViewDistillKit} {
		for _, form := range []string{views.Parquet, views.JSONL} {
			o := views.Options{Form: form}
			if view == views.ViewDistillKit {
				o.Vocabulary = 131_073
			}
			if view == views.ViewPromptsRouted {
				o.Tag = views.TagAgentRef
			}
			folder := filepath.Join(dir, view+"-"+form)
			if _, err := views.Export(t.Context(), c, &m, view, views.Folder(folder), o); err != nil {
				t.Fatal(err)
			}
			folders[view+" "+form] = folder
		}
	}
	args := []string{"cards.py", filepath.Join(dir, "cache")}
	for _, folder := range folders {
		args = append(args, folder)
	}
	var got map[string]hubFolder
	python(t, &got, nil, args...)
	for name, folder := range folders {
		f := got[folder]
		var view, form string
		fmt.Sscan(name, &view, &form)
		want := map[string]int64{"train": 1}
		if view == views.ViewMessages {
			want = map[string]int64{"train": 30, "test": 3}
			if f.Card["license"] != "other" || f.Card["license_name"] != hostile || f.Card["license_link"] != "https://a/?b=\"c\"" {
				t.Errorf("%s: %v", name, f.Card)
			}
		}
		if diff := cmp.Diff(want, f.Splits); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		switch view {
		case views.ViewPromptsRouted:
			text, _ := json.Marshal([]any{f.Rows[0]["teacher"], f.Rows[0]["agent_ref"], f.Rows[0]["tools"], f.Rows[0]["prompt"].([]any)[0].(map[string]any)["content"]})
			if string(text) != `["k3",{"name":"k3","type":"responses_api_agents"},null,"数?"]` {
				t.Errorf("%s: %s", name, text)
			}
		case views.ViewDistillKit:
			text, _ := json.Marshal([]any{f.Rows[0]["input_ids"], f.Rows[0]["labels"], f.Logits[0][1:]})
			if string(text) != `[[5,6,70000],[-100,-100,70000],[[[70000,-0.5],[3,-3.25]],[[2,-1],[1,-2]]]]` {
				t.Errorf("%s: %s", name, text)
			}
		}
	}
}

// TestDistillKitItself decompresses with DistillKit's own code, where
// STILLHOUSE_DISTILLKIT names a checkout of it and the interpreter has torch.
func TestDistillKitItself(t *testing.T) {
	checkout := os.Getenv("STILLHOUSE_DISTILLKIT")
	if checkout == "" {
		t.Skip("STILLHOUSE_DISTILLKIT names no checkout of DistillKit")
	}
	dir := t.TempDir()
	c := catalog.Open(mem.New("b"))
	random := rand.New(rand.NewPCG(1, 2))
	const tokens, k = 40, 7
	for _, vocabulary := range []int{50_257, 131_072, 131_073, 248_000} {
		row := datasets.LogprobRow{
			SampleID: "s", PromptID: "p", Split: "train", Selected: true, Complete: true, Tokens: tokens, TopK: k, PromptTokenIDs: []int32{1, 2, 3}, TokenizerSHA256: ptr("00"),
		}
		want := make([][][2]float64, tokens)
		for i := range tokens {
			row.TokenIDs, row.Logprobs, row.TokenBytes, row.TailLogmass = append(row.TokenIDs, ptr(int32(i))), append(row.Logprobs, ptr(float32(-1))), append(row.TokenBytes, nil), append(row.TailLogmass, nil)
			p := float32(0)
			for range k {
				p -= random.Float32()
				id := random.Int32N(int32(vocabulary))
				row.TopTokenIDs, row.TopLogprobs = append(row.TopTokenIDs, &id), append(row.TopLogprobs, ptr(p))
				want[i] = append(want[i], [2]float64{float64(id), float64(p)})
			}
		}
		name := fmt.Sprint(vocabulary)
		ref, err := c.Stage(t.Context(), "maths", "b"+name, "logprobs", "all", 0, write(t, dir, name, []datasets.LogprobRow{row}))
		if err != nil {
			t.Fatal(err)
		}
		m := catalog.Manifest{Dataset: "maths", BuildID: "b" + name, Files: []catalog.FileRef{ref}}
		folder := filepath.Join(dir, "logits-"+name)
		if _, err := views.Export(t.Context(), c, &m, views.ViewDistillKit, views.Folder(folder), views.Options{Vocabulary: vocabulary}); err != nil {
			t.Fatal(err)
		}
		var got [][][][2]float64
		python(t, &got, nil, "distillkit.py", checkout, folder)
		if diff := cmp.Diff(want, got[0][2:]); diff != "" { // behind the prompt
			t.Errorf("vocabulary %d: %s", vocabulary, diff)
		}
	}
}
