package activities

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// spelled answers "42" with the logprobs of its two tokens.
func spelled(r teacherstest.Request) teacherstest.Reply {
	return teacherstest.Reply{Content: "42", Logprobs: teacherstest.Spell("42", 3)}
}

func TestLogprobsTable(t *testing.T) {
	server := teacherstest.New(t, spelled)
	w := newWorld(t)
	w.file("p.jsonl", sums(40))
	text := fmt.Sprintf(`name: d
prompts: [{path: p.jsonl, fields: {prompt: question}, efforts: [low, high]}]
teachers:
  - {id: a, model: m, base_url: %s, weights: org/m}
  - {id: b, model: m, base_url: %s, identity: b, serves: [{effort: low}]}
  - {id: c, model: kimi-k3, base_url: %s, identity: c, params: {logprobs: null, top_logprobs: null}}
ask: {route: all, samples: 2}
output: {splits: {train: 0.5, test: 0.5}}
logprobs: {top: 2}
`, server.URL, server.URL, server.URL)
	_, result := w.build(text)
	table := rows[datasets.LogprobRow](w, "d", datasets.TableLogprobs)
	// Route all: three teachers, two efforts, two samples, of which c asks for
	// no logprobs.
	if result.Candidates != 40*2*2*3 || len(table) != 40*2*2*2 {
		t.Fatalf("%d candidates, %d rows", result.Candidates, len(table))
	}
	samples := map[string]datasets.Candidate{}
	for _, c := range rows[datasets.Candidate](w, "d", datasets.TableCandidates) {
		samples[c.SampleID] = c
		if gap := slices.Contains(c.Flags, teachers.FlagLogprobGap); gap != (c.Teacher == "c") {
			t.Fatalf("teacher %s: flags %v", c.Teacher, c.Flags)
		}
	}
	last := ""
	for i := range table {
		r := &table[i]
		c, ok := samples[r.SampleID]
		if !ok || c.TaskID != r.TaskID || c.Teacher != r.Teacher || c.Split != r.Split || c.Selected != r.Selected || c.Accepted != r.Accepted {
			t.Fatalf("row %+v of candidate %+v", r, c)
		}
		delete(samples, r.SampleID)
		if r.TaskID < last {
			t.Fatalf("%s after %s", r.TaskID, last)
		}
		last = r.TaskID
		if r.Tokens != 2 || r.TopK != 2 || r.Gaps != 0 || !r.Complete || r.Source != datasets.LogprobsGenerated || len(r.Logprobs) != 2 || len(r.TopLogprobs) != 4 || len(r.TailLogmass) != 2 {
			t.Fatalf("row %+v", r)
		}
		if got := string(*r.TokenBytes[0]) + string(*r.TokenBytes[1]); got != c.Content() {
			t.Fatalf("tokens %q of the answer %q", got, c.Content())
		}
		if *r.Logprobs[1] != -0.1 || *r.TopLogprobs[3] != -2.6 || string(*r.TopTokenBytes[1]) != "5" || r.TokenIDs[0] != nil || len(r.TopTokenIDs) != 0 {
			t.Fatalf("row %+v", r)
		}
		want := math.Log(1 - math.Exp(-0.1) - math.Exp(-2.6))
		if got := float64(*r.TailLogmass[0]); math.Abs(got-want) > 1e-4 {
			t.Fatalf("tail %v, want %v", got, want)
		}
		if (r.Tokenizer != nil) != (r.Teacher == "a") {
			t.Fatalf("tokenizer %v of teacher %s", r.Tokenizer, r.Teacher)
		}
	}
	m := w.manifest("d")
	if m.SchemaFingerprint[datasets.TableLogprobs] == "" || len(m.TableFiles(datasets.TableLogprobs)) != 1 {
		t.Errorf("manifest: %v", m.SchemaFingerprint)
	}
	if report, err := w.a.Catalog.Verify(context.Background(), "d", func(catalog.Progress) {}); err != nil || len(report.Problems) > 0 {
		t.Errorf("verify: %+v %v", report, err)
	}

	// The same again asks nobody and publishes nothing.
	asked := server.Stats().Requests
	if out, _ := w.build(text); !out.Unchanged || server.Stats().Requests != asked {
		t.Errorf("%+v, %d requests more", out, server.Stats().Requests-asked)
	}
	// Without logprobs something else is asked: what was paid with them does
	// not serve.
	w.build(strings.Replace(text, "logprobs: {top: 2}\n", "", 1))
	if s := server.Stats(); s.Requests-asked != 40*2*2 { // both efforts ask the same, and c asked without before

		t.Errorf("%+v, %d before", s, asked)
	}
	if files := w.manifest("d").TableFiles(datasets.TableLogprobs); len(files) != 0 {
		t.Errorf("%d logprobs files without logprobs", len(files))
	}
}

func TestLogprobsOfVLLM(t *testing.T) {
	server := teacherstest.New(t, spelled)
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	w.build(askRecipe("d", server.URL, ", params: {return_tokens_as_token_ids: true, return_token_ids: true}") + "logprobs: {top: 2}\n")
	for _, r := range rows[datasets.LogprobRow](w, "d", datasets.TableLogprobs) {
		if *r.TokenIDs[0] != 1 || *r.TokenIDs[1] != 2 || string(*r.TokenBytes[1]) != "2" || *r.TopTokenIDs[3] != 1002 || len(r.TopTokenBytes) != 0 {
			t.Errorf("row %+v", r)
		}
	}
}

// What an endpoint leaves out stays null, in lists of the right lengths.
func TestLogprobsWithHoles(t *testing.T) {
	p := -1.0
	sure := 0.0
	server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "abcd", Logprobs: []teacherstest.Token{
			{Text: "a"}, {Text: "b", Logprob: &p},
			{Text: "c", Logprob: &p, Top: []teacherstest.Token{{Text: "c", Logprob: &sure}, {Text: "d"}}},
			{Text: "d", Logprob: &sure, Top: []teacherstest.Token{{Text: "d", Logprob: &sure}}},
		}}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(1))
	w.build(askRecipe("d", server.URL, "") + "logprobs: {top: 5}\n")
	r := rows[datasets.LogprobRow](w, "d", datasets.TableLogprobs)[0]
	null := func(list []*float32) string {
		out := ""
		for _, v := range list {
			if v == nil {
				out += "-"
			} else {
				out += "x"
			}
		}
		return out
	}
	if r.Tokens != 4 || r.TopK != 2 || r.Gaps != 1 || r.Complete || null(r.Logprobs) != "-xxx" || null(r.TopLogprobs) != "----x-x-" || null(r.TailLogmass) != "---x" {
		t.Errorf("%+v: %s %s %s", r, null(r.Logprobs), null(r.TopLogprobs), null(r.TailLogmass))
	}
	if got := *r.TailLogmass[3]; math.Abs(float64(got)+24*math.Ln2) > 1e-3 {
		t.Errorf("tail of a sure token: %v", got)
	}
	c := rows[datasets.Candidate](w, "d", datasets.TableCandidates)[0]
	if !slices.Contains(c.Flags, teachers.FlagLogprobGap) || !c.Accepted {
		t.Errorf("%+v", c)
	}
}

// The rows come in one order whatever the number of cells, each of which is a
// stream of its own.
func TestLogprobsOfManyCells(t *testing.T) {
	server := teacherstest.New(t, spelled)
	w := newWorld(t)
	var b strings.Builder
	for i := range 60 {
		fmt.Fprintf(&b, `{"question":"q%d","domain":"d%d"}`+"\n", i, i%2*i)
	}
	w.file("p.jsonl", b.String())
	text := fmt.Sprintf("name: d\nprompts: [{path: p.jsonl, fields: {prompt: question, domain: domain}}]\nteachers: [{id: t, model: m, base_url: %s}]\nlogprobs: {top: 1}\n", server.URL)
	r := w.start(text).ask()
	if r.plan.Shards < 3*logprobMergeFanIn {
		t.Fatalf("%d shards", r.plan.Shards)
	}
	r.refine()
	r.seal()
	table := rows[datasets.LogprobRow](w, "d", datasets.TableLogprobs)
	if len(table) != 60 || !slices.IsSortedFunc(table, func(a, b datasets.LogprobRow) int { return strings.Compare(a.TaskID, b.TaskID) }) {
		t.Errorf("%d rows", len(table))
	}
}

// Shards whose tasks are ordered by what they share are no stream of a cell.
func TestLogprobsOfGroups(t *testing.T) {
	server := teacherstest.New(t, spelled)
	w := newWorld(t)
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, `{"question":"q%d","group":"g%d"}`+"\n", i, i%7)
	}
	w.file("p.jsonl", b.String())
	r := w.start(fmt.Sprintf("name: d\nprompts: [{path: p.jsonl, fields: {prompt: question, group: group}}]\nteachers: [{id: t, model: m, base_url: %s, params: {max_tokens: 64}}]\nlogprobs: {top: 1}\n", server.URL)).ask()
	r.refine()
	r.seal()
	table := rows[datasets.LogprobRow](w, "d", datasets.TableLogprobs)
	if len(table) != 50 || !slices.IsSortedFunc(table, func(a, b datasets.LogprobRow) int { return strings.Compare(a.TaskID, b.TaskID) }) {
		t.Errorf("%d rows", len(table))
	}
}

// Long answers are refined a few at a time, short ones as many as without
// logprobs.
func TestLogprobsAreRefinedWithinBounds(t *testing.T) {
	for _, tc := range []struct {
		teacher       string
		top           int
		lookup, chunk int
	}{
		{"params: {max_tokens: 100}", 5, lookupAnswers, refineChunk},
		{"params: {max_tokens: 30000}", 20, 1, 8},
		{"params: {max_tokens: 10}, params_by: {effort: {max: {max_tokens: 30000}}}", 20, 1, 8},
		{"epoch: 1", 20, 1, 8}, // without a cap
	} {
		rt, err := newRuntime(parsed(t, fmt.Sprintf("name: d\nprompts: [{path: p.jsonl, efforts: [max]}]\nteachers: [{id: t, model: m, base_url: http://localhost/v1, %s}]\nlogprobs: {top: %d}\n", tc.teacher, tc.top)), &Sources{})
		if err != nil {
			t.Fatal(err)
		}
		if l, c := rt.lookupAnswers(), rt.refineChunk(1); l != tc.lookup || c != tc.chunk {
			t.Errorf("%s: %d raw answers and %d tasks at once, want %d and %d", tc.teacher, l, c, tc.lookup, tc.chunk)
		}
	}
}

func TestLogprobsThatNobodyGives(t *testing.T) {
	const text = "name: d\nprompts: [{path: p.jsonl}]\nteachers: [{id: k, model: kimi-k3, base_url: \"https://api.moonshot.ai/v1\"}%s]\nlogprobs: {top: 30}\n"
	_, err := newRuntime(parsed(t, fmt.Sprintf(text, "")), &Sources{})
	if err == nil || !strings.Contains(err.Error(), "recipe.yaml:4:11: logprobs: no teacher of this recipe gives logprobs; remove it, or add a teacher") {
		t.Errorf("%v", err)
	}
	rt, err := newRuntime(parsed(t, fmt.Sprintf(text, ", {id: o, model: gpt-4.1, base_url: \"https://api.openai.com/v1\"}, {id: r, api: recorded, path: r.jsonl, fields: {content: a}}")), &Sources{})
	if err != nil {
		t.Fatal(err)
	}
	notes := rt.logprobNotes()
	want := []string{
		"teacher k: its endpoint gives no logprobs for kimi-k3; it is asked without, and has no rows in the logprobs table",
		"teacher o: such an endpoint gives at most 20 alternatives unless it was started for more; logprobs.top asks for 30",
		"teacher r: recorded answers have no logprobs; it has no rows in the logprobs table",
	}
	if !slices.Equal(notes, want) {
		t.Errorf("%q", notes)
	}
	if got := rt.teachers["o"].spec.Limits.MaxBytes; got != recipe.ByteSize(192<<20) {
		t.Errorf("max_bytes %s", got)
	}
	if p := rt.teachers["k"].params("default"); len(p) != 0 {
		t.Errorf("params %v", p)
	}
}
