package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// filtered does what a plan says is to be done before the prompts are planned,
// each unit twice, as it is where a worker dies after its write, and plans them.
func (w *world) filtered(ref wire.BuildRef, plan wire.PlanOutput) wire.PlanOutput {
	w.t.Helper()
	if plan.Filter == nil {
		return plan
	}
	for _, phase := range plan.Filter.Phases {
		for unit := range phase.Units {
			for range 2 {
				w.filter(wire.FilterInput{BuildRef: ref, Key: plan.Filter.Key, Phase: phase.Name, Unit: unit})
			}
		}
	}
	return must[wire.PlanOutput](w, wire.ActivityPlanFiltered, wire.PlanFilteredInput{BuildRef: ref, Key: plan.Filter.Key})
}

func (w *world) filter(in wire.FilterInput) {
	w.t.Helper()
	if _, err := call[struct{}](w, wire.ActivityFilterPrompts, in); err != nil {
		w.t.Fatalf("%s %d: %v", in.Phase, in.Unit, err)
	}
}

// A filterCase plans rows of sources under a prompt_filter, here.
type filterCase struct {
	filter string
	rows   []map[string]any // of p.jsonl
	more   []map[string]any // of q.jsonl, at effort low
	evals  map[string]string
	splits string
}

func lines(rows []map[string]any) string {
	var b strings.Builder
	for _, r := range rows {
		text, _ := json.Marshal(r)
		b.Write(append(text, '\n'))
	}
	return b.String()
}

func (c *filterCase) recipe(t testing.TB) *recipe.Recipe {
	t.Helper()
	text := `name: p
prompts:
  - {path: p.jsonl, fields: {prompt: q, domain: domain, group: group, meta: meta}, efforts: [high]}
`
	if c.more != nil {
		text += "  - {path: q.jsonl, fields: {prompt: q, domain: domain, group: group, meta: meta}, efforts: [low]}\n"
	}
	text += "teachers: [{id: t, model: m, base_url: http://localhost/v1}]\nprompt_filter: " + c.filter + "\n"
	if c.splits != "" {
		text += "output: {splits: " + c.splits + "}\n"
	}
	return parsed(t, text)
}

// plan gives the plan and its tasks by prompt text and effort.
func (c *filterCase) plan(t testing.TB) (*Plan, map[string]*datasets.Task) {
	t.Helper()
	plan, tasks, err := c.try(t)
	if err != nil {
		t.Fatal(err)
	}
	return plan, tasks
}

func (c *filterCase) try(t testing.TB) (*Plan, map[string]*datasets.Task, error) {
	r := c.recipe(t)
	files := [][]sources.File{{textFile("p.jsonl", lines(c.rows))}}
	if c.more != nil {
		files = append(files, []sources.File{textFile("q.jsonl", lines(c.more))})
	}
	evals := make(EvalSets, len(r.PromptFilter))
	for i := range r.PromptFilter {
		if step := r.PromptFilter[i].Contamination; step != nil {
			for _, name := range step.Against {
				evals[i] = append(evals[i], evalSet{name, textFile(name, c.evals[name])})
			}
		}
	}
	dir := t.TempDir()
	ctx := context.Background()
	found, err := FilterHere(ctx, r, files, evals, ReadOptions(), dir, func(string) {})
	if err != nil {
		return nil, nil, err
	}
	tasks := map[string]*datasets.Task{}
	sink := func(_ context.Context, s Shard, list []datasets.Task) (Shard, error) {
		for i := range list {
			if (len(list[i].Route) == 0) != list[i].Dropped() {
				return s, fmt.Errorf("task %s is dropped: %v, and has the route %v", list[i].TaskID, list[i].Dropped(), list[i].Route)
			}
			tasks[list[i].Prompt.LastUser()+" @"+list[i].Effort] = &list[i]
		}
		return s, nil
	}
	plan, err := MakeFilteredPlan(ctx, r, files, ReadOptions(), found, dir, sink, func(string) {})
	return plan, tasks, err
}

func row(q string, more ...any) map[string]any {
	out := map[string]any{"q": q, "domain": "chat"}
	for i := 0; i+1 < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

const (
	story  = "Write a short story about an old lighthouse keeper who finds a letter in a bottle on the beach after a storm and decides to answer it, although the writer must be long dead by now."
	retold = "Write a short story about an old lighthouse keeper who finds a letter in a bottle on the beach after a storm and decides to answer it, although the writer must be long dead by then."
	poem   = "Compose a poem on the first snow of the year."
	exam   = "A train leaves the station at noon and travels sixty miles in each hour; how far has it come when the clock strikes four in the afternoon?"
)

func TestWhatFiltersLeaveOut(t *testing.T) {
	eval := `{"question":` + fmt.Sprintf("%q", exam) + "}\n"
	for _, tc := range []struct {
		name string
		c    filterCase
		want map[string]string // of each task that something was found about: status, or flags
		of   map[string]string // prompt that a duplicate is of
	}{
		{
			name: "a duplicate",
			c:    filterCase{filter: "[duplicate]", rows: []map[string]any{row(poem), row(strings.ToUpper(poem) + "\n"), row(story), row(retold)}},
			want: map[string]string{strings.ToUpper(poem) + "\n": "duplicate"},
			of:   map[string]string{strings.ToUpper(poem) + "\n": poem},
		},
		{
			name: "case counts in code",
			c:    filterCase{filter: "[duplicate]", rows: []map[string]any{row(poem, "domain", "code"), row(strings.ToUpper(poem), "domain", "code")}},
			want: map[string]string{},
		},
		{
			name: "a near-duplicate",
			c:    filterCase{filter: "[near_duplicate]", rows: []map[string]any{row(story), row(poem), row(retold)}},
			want: map[string]string{retold: "duplicate"},
			of:   map[string]string{retold: story},
		},
		{
			name: "the first row stays, whatever its id",
			c:    filterCase{filter: "[near_duplicate]", rows: []map[string]any{row(retold), row(story)}},
			want: map[string]string{story: "duplicate"},
			of:   map[string]string{story: retold},
		},
		{
			name: "marked only",
			c:    filterCase{filter: "[{duplicate: {action: flag}}, {near_duplicate: {action: flag}}]", rows: []map[string]any{row(story), row(retold), row(story + " ")}},
			want: map[string]string{retold: "near_duplicate", story + " ": "duplicate"},
		},
		{
			name: "a copy of what resembles another",
			c:    filterCase{filter: "[duplicate, near_duplicate]", rows: []map[string]any{row(story), row(retold), row(retold + "  ")}},
			want: map[string]string{retold: "duplicate", retold + "  ": "duplicate"},
			of:   map[string]string{retold: story, retold + "  ": story},
		},
		{
			name: "where a condition holds",
			c: filterCase{filter: `[{duplicate: {}, when: domain == "chat"}]`, rows: []map[string]any{
				row(poem), row(poem + " "), row(story, "domain", "other"), row(story+" ", "domain", "other"),
			}},
			want: map[string]string{poem + " ": "duplicate"},
			of:   map[string]string{poem + " ": poem},
		},
		{
			name: "metadata in a condition",
			c: filterCase{filter: `[{duplicate: {when: 'get(meta, "level") == "easy"'}}]`, rows: []map[string]any{
				row(poem, "meta", map[string]any{"level": "easy"}), row(poem+" ", "meta", map[string]any{"level": "easy"}), row(poem+"  ", "meta", map[string]any{"level": "hard"}),
			}},
			want: map[string]string{poem + " ": "duplicate"},
		},
		{
			name: "an item of an evaluation set",
			c:    filterCase{filter: "[{contamination: {against: eval.jsonl, action: drop}}]", rows: []map[string]any{row("Solve this: " + exam), row(poem)}, evals: map[string]string{"eval.jsonl": eval}},
			want: map[string]string{"Solve this: " + exam: "contaminated"},
		},
		{
			name: "marked by default",
			c:    filterCase{filter: "[{contamination: {against: eval.jsonl}}]", rows: []map[string]any{row(exam), row(poem)}, evals: map[string]string{"eval.jsonl": eval}},
			want: map[string]string{exam: "contaminated flag"},
		},
		{
			name: "what is contaminated keeps no place",
			c: filterCase{filter: "[duplicate, near_duplicate, {contamination: {against: eval.jsonl, action: drop, share: 0.95}}]",
				rows: []map[string]any{row(exam), row(strings.Replace(exam, "has it come", "has that got", 1))}, evals: map[string]string{"eval.jsonl": eval}},
			want: map[string]string{exam: "contaminated"},
		},
		{
			name: "two evaluation sets, one marked and one dropped",
			c: filterCase{filter: "[{contamination: {against: eval.jsonl}}, {contamination: {against: other.jsonl, action: drop}}]",
				rows: []map[string]any{row(exam), row(story)}, evals: map[string]string{"eval.jsonl": eval, "other.jsonl": `{"text":` + fmt.Sprintf("%q", story) + "}\n"}},
			want: map[string]string{exam: "contaminated flag", story: "contaminated"},
		},
		{
			name: "answers of an evaluation set",
			c: filterCase{filter: "[{contamination: {against: eval.jsonl, fields: {question: q, answer: a}, action: drop}}]",
				rows: []map[string]any{row(story), row(poem)}, evals: map[string]string{"eval.jsonl": `{"q":"what is told here?","a":` + fmt.Sprintf("%q", story) + "}\n"}},
			want: map[string]string{story: "contaminated"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			plan, tasks := tc.c.plan(t)
			got := map[string]string{}
			ids := map[string]string{}
			for name, task := range tasks {
				ids[strings.TrimSuffix(name, " @high")] = task.PromptID
			}
			for name, task := range tasks {
				name = strings.TrimSuffix(name, " @high")
				if f := task.Findings; f != nil && (f.Status != "" || len(f.Flags) > 0) {
					got[name] = f.Status
					if f.Status == "" {
						got[name] = strings.Replace(strings.Join(f.Flags, " "), "contaminated", "contaminated flag", 1)
					}
					if of := tc.of[name]; of != "" && f.Of != ids[of] {
						t.Errorf("%q is of %s, want %s", name, f.Of, ids[of])
					}
				}
			}
			if !maps.Equal(got, tc.want) {
				t.Errorf("found %v, want %v", got, tc.want)
			}
			dropped := 0
			for _, status := range tc.want {
				if status == "duplicate" && !strings.Contains(tc.c.filter, "flag") || status == "contaminated" {
					dropped++
				}
			}
			if plan.Filtered.Dropped() != int64(dropped) || plan.Tasks != int64(len(tc.c.rows)) {
				t.Errorf("%d of %d tasks are left out, want %d of %d", plan.Filtered.Dropped(), plan.Tasks, dropped, len(tc.c.rows))
			}
		})
	}
}

// A recipe may ask the same questions at several efforts under several
// templates: no effort must lose them to another.
func TestAnEqualAtAnotherEffortStays(t *testing.T) {
	c := filterCase{
		filter: "[duplicate, near_duplicate]",
		rows:   []map[string]any{row(story), row(retold)},
		more:   []map[string]any{row(story + " "), row(retold + " ")},
	}
	plan, tasks := c.plan(t)
	for name, want := range map[string]string{story + " @high": "", retold + " @high": "duplicate", story + "  @low": "", retold + "  @low": ""} {
		f := tasks[name].Findings
		if f == nil || f.Status != want || f.Cluster != tasks[story+" @high"].PromptID {
			t.Errorf("%q: %+v, want status %q", name, f, want)
		}
	}
	if plan.Filtered.NearDuplicates != 1 || plan.Filtered.Flags[datasets.FlagDuplicate] != 2 {
		t.Errorf("counted %+v", plan.Filtered)
	}
}

// Prompts of a cluster share a split, and so do the groups that meet in it,
// whether they are left out or only marked.
func TestClustersShareASplit(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		variants := []string{story, retold, strings.Replace(story, "short", "brief", 1), strings.ToUpper(story), poem, poem + " ", exam, exam + "!"}
		var rows []map[string]any
		for i := range rapid.IntRange(1, 14).Draw(rt, "rows") {
			q := rapid.SampledFrom(variants).Draw(rt, fmt.Sprint("variant ", i))
			if rapid.Bool().Draw(rt, "space") {
				q += strings.Repeat(" ", i)
			}
			r := row(q)
			if g := rapid.SampledFrom([]string{"", "", "g1", "g2", "g3"}).Draw(rt, "group"); g != "" {
				r["group"] = g
			}
			rows = append(rows, r)
		}
		action := rapid.SampledFrom([]string{"drop", "flag"}).Draw(rt, "action")
		c := filterCase{filter: fmt.Sprintf("[{duplicate: {action: %s}}, {near_duplicate: {jaccard: 0.6, bands: 6, rows: 3, action: %s}}]", action, action), rows: rows, splits: "{train: 0.5, test: 0.5}"}
		_, tasks := c.plan(t)
		splits := map[string]string{}
		same := func(kind, name, split string) {
			if name == "" {
				return
			}
			if before, ok := splits[kind+name]; ok && before != split {
				rt.Fatalf("%s %q is in two splits, rows %v", kind, name, rows)
			}
			splits[kind+name] = split
		}
		for _, task := range tasks {
			same("group ", task.Group, task.Split)
			if task.Findings != nil {
				same("cluster ", task.Findings.Cluster, task.Split)
			}
		}
	})
}

// A row that is added at the end takes nobody's place.
func TestAddedRowsDisplaceNobody(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var rows []map[string]any
	for i := range 60 {
		q := []string{story, poem, exam}[rng.IntN(3)]
		words := strings.Fields(q)
		words[rng.IntN(len(words))] = fmt.Sprintf("word%c", 'a'+rune(i%26))
		rows = append(rows, row(strings.Join(words, " ")))
	}
	filter := "[duplicate, {near_duplicate: {jaccard: 0.5}}]"
	few := filterCase{filter: filter, rows: rows[:50]}
	all := filterCase{filter: filter, rows: rows}
	_, before := few.plan(t)
	_, after := all.plan(t)
	asked := 0
	for name, task := range before {
		if !task.Dropped() {
			asked++
		}
		if task.Dropped() != after[name].Dropped() {
			t.Errorf("%q: left out %v, and %v with more rows", name, task.Dropped(), after[name].Dropped())
		}
	}
	if asked == len(before) || asked == 0 {
		t.Errorf("%d of %d are asked: nothing is tested", asked, len(before))
	}
}

func TestFiltersWarn(t *testing.T) {
	var rows []map[string]any
	for i := range 12 {
		rows = append(rows, row(poem+strings.Repeat(" ", i)))
	}
	c := filterCase{filter: "[duplicate, {near_duplicate: {max_cluster: 10, max_source_loss: 0.8}}]", rows: rows}
	plan, tasks := c.plan(t)
	want := []string{
		"11 of 12 prompts of prompts[0] (p.jsonl) say what an earlier prompt says, more than max_source_loss (0.8): look at some of them before you trust that",
		"12 prompts say the same, as prompt " + tasks[poem+" @high"].PromptID + " does, more than max_cluster (10): look at some of them before you trust that",
	}
	if !slices.Equal(plan.Filtered.Warnings, want) {
		t.Errorf("warnings %q, want %q", plan.Filtered.Warnings, want)
	}
	c.filter = "[duplicate, {near_duplicate: {max_cluster: 12, max_source_loss: 0.95}}]"
	if plan, _ := c.plan(t); len(plan.Filtered.Warnings) > 0 {
		t.Errorf("warnings %q, want none", plan.Filtered.Warnings)
	}
}

func TestBadEvaluationSetsEndThePlan(t *testing.T) {
	for _, tc := range []struct{ eval, want string }{
		{`{"body":"x"}` + "\n", "prompt_filter[0].contamination: eval.jsonl:1: has none of the fields prompt, messages, question"},
		{`{"question":"?"}` + "\n", "prompt_filter[0].contamination: the evaluation sets hold no word to look for"},
		{`{"question":`, "prompt_filter[0].contamination: eval.jsonl:1: "},
	} {
		c := filterCase{filter: "[{contamination: {against: eval.jsonl}}]", rows: []map[string]any{row(poem)}, evals: map[string]string{"eval.jsonl": tc.eval}}
		_, _, err := c.try(t)
		if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.eval, err, tc.want)
		}
	}
	c := filterCase{filter: "[{contamination: {against: eval.jsonl}}]", rows: []map[string]any{row(exam)}, evals: map[string]string{"eval.jsonl": `{"question":"…"}` + "\n" + `{"question":"one item"}` + "\n"}}
	if plan, _ := c.plan(t); len(plan.Filtered.Warnings) != 1 || !strings.HasPrefix(plan.Filtered.Warnings[0], "1 text(s) of the evaluation sets") {
		t.Errorf("warnings %q", plan.Filtered.Warnings)
	}
}

const filteredRecipe = `name: f
prompts: [{path: p.jsonl, efforts: [low, high], fields: {prompt: q, group: group}}]
teachers:
  - {id: a, api: recorded, path: p.jsonl, fields: {prompt: q, content: a}}
prompt_filter: [duplicate, near_duplicate, {contamination: {against: [eval/*.jsonl], action: drop}}]
output: {splits: {train: 0.6, test: 0.4}}
`

// filteredWorld holds some prompts with their answers and an evaluation set.
func filteredWorld(t testing.TB) *world {
	w := newWorld(t)
	var rows []map[string]any
	for i, q := range []string{story, retold, poem, poem + " ", exam, "Please: " + exam} {
		rows = append(rows, map[string]any{"q": q, "a": fmt.Sprint("answer ", i)})
	}
	for i := range 40 {
		rows = append(rows, map[string]any{"q": fmt.Sprintf("What is known of the number %d and of its square %d?", i, i*i), "a": "much"})
	}
	w.file("p.jsonl", lines(rows))
	w.folder("eval")
	w.file("eval/exam.jsonl", fmt.Sprintf(`{"question":%q}`+"\n", exam))
	return w
}

func TestBuildWithFilteredPrompts(t *testing.T) {
	w := filteredWorld(t)
	out, result := w.build(filteredRecipe)
	if out.Version != 1 || result.Tasks != 92 || result.Asks != 84 || result.Rows["train"]+result.Rows["test"] != 84 {
		t.Fatalf("version %d, %d tasks, %d asks, rows %v; want 1, 92, 84 and 84", out.Version, result.Tasks, result.Asks, result.Rows)
	}
	status := map[string]int{}
	prompts := map[string]datasets.PromptRow{}
	for _, p := range rows[datasets.PromptRow](w, "f", datasets.TablePrompts) {
		status[p.Status]++
		prompts[*p.Messages[0].Content] = p
		if dropped := p.Status != datasets.StatusClean; dropped != (len(p.Route) == 0) || dropped != (p.StatusOf != nil) {
			t.Errorf("%s: status %s of %v, route %v", p.TaskID, p.Status, p.StatusOf, p.Route)
		}
	}
	if want := map[string]int{"clean": 84, "duplicate": 4, "contaminated": 4}; !maps.Equal(status, want) {
		t.Errorf("statuses %v, want %v", status, want)
	}
	if p := prompts[retold]; *p.StatusOf != prompts[story].PromptID || *p.Cluster != *p.StatusOf || !(*p.Jaccard >= 0.8 && *p.Jaccard < 1) || p.Split != prompts[story].Split {
		t.Errorf("near-duplicate: %+v", p)
	}
	if p := prompts[poem+" "]; *p.StatusOf != prompts[poem].PromptID || *p.Jaccard != 1 {
		t.Errorf("duplicate: %+v", p)
	}
	if p := prompts[poem]; p.Cluster == nil || *p.Cluster != p.PromptID || p.Jaccard != nil {
		t.Errorf("what stands for a cluster: %+v", p)
	}
	p := prompts["Please: "+exam]
	if *p.StatusOf != "eval/exam.jsonl#exam.jsonl:1" || len(p.ContaminatedBy) != 1 {
		t.Fatalf("contaminated: %+v", p)
	}
	if c := p.ContaminatedBy[0]; c.Set != "eval/exam.jsonl" || c.Item != "exam.jsonl:1" || c.Part != "question" || c.Share != 1 || c.Ngram != 8 || len(c.Spans) != 1 || c.Spans[0].Text != strings.TrimSuffix(exam, "?") {
		t.Errorf("contaminant: %+v", c)
	}
	for _, c := range rows[datasets.Candidate](w, "f", datasets.TableCandidates) {
		of := prompts[*c.Messages[0].Content]
		if (c.PromptCluster == nil) != (of.Cluster == nil) || c.PromptCluster != nil && *c.PromptCluster != *of.Cluster {
			t.Errorf("candidate of %s has the cluster %v, its prompt %v", c.TaskID, c.PromptCluster, of.Cluster)
		}
	}
	manifest := w.manifest("f")
	if f := manifest.Counts.Filtered; f == nil || f.Duplicates != 2 || f.NearDuplicates != 2 || f.Contaminated != 4 || f.Sets["eval/exam.jsonl"] != 4 {
		t.Errorf("the manifest counts %+v", f)
	}
	if s := manifest.EvaluationSets; len(s) != 1 || s[0].Path != "eval/exam.jsonl" || len(s[0].SHA256) != 64 {
		t.Errorf("the manifest names the evaluation sets %+v", s)
	}
	if again, _ := w.build(filteredRecipe); !again.Unchanged {
		t.Errorf("the same build again: %+v", again)
	}
}

// folder makes a folder next to the recipes.
func (w *world) folder(name string) {
	w.t.Helper()
	if err := os.Mkdir(filepath.Join(w.dir, name), 0o700); err != nil {
		w.t.Fatal(err)
	}
}

// What a plan writes is the same wherever it runs, here or spread over workers.
func TestFiltersFindTheSameHereAndThere(t *testing.T) {
	w := filteredWorld(t)
	there := w.start(filteredRecipe)
	text := must2(w.a.planOf(context.Background(), there.ref, there.plan.Key))
	r := parsed(t, filteredRecipe)
	f := sources.Finder{Dir: w.dir}
	r.Dir = w.dir
	files, _, err := FindSources(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	evals, err := FindEvalSets(context.Background(), r, f)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	found, err := FilterHere(context.Background(), r, files, evals, ReadOptions(), dir, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	sink := func(_ context.Context, s Shard, _ []datasets.Task) (Shard, error) { return s, nil }
	here, err := MakeFilteredPlan(context.Background(), r, files, ReadOptions(), found, dir, sink, func(string) {})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := must2(json.Marshal([]any{here.Filtered, here.Cells})), must2(json.Marshal([]any{text.Filtered, text.Cells})); !bytes.Equal(got, want) {
		t.Errorf("here %s\nthere %s", got, want)
	}
}

// must2 is the value of a call that succeeds.
func must2[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (a *Activities) planOf(ctx context.Context, ref wire.BuildRef, key string) (*Plan, error) {
	_, plan, err := a.planned(ctx, ref, key)
	return plan, err
}

// A preview takes its sample of what the filters leave.
func TestPreviewIsOfWhatFiltersLeave(t *testing.T) {
	w := filteredWorld(t)
	r := w.startAs(filteredRecipe, func(ref *wire.BuildRef) { ref.Preview = 6 })
	plan := must2(w.a.planOf(context.Background(), r.ref, r.plan.Key))
	if plan.Tasks != 6 || len(r.plan.Teachers) != 1 || r.plan.Teachers[0].Asks != 6 {
		t.Errorf("%d tasks, teachers %+v; want 6 that are asked", plan.Tasks, r.plan.Teachers)
	}
}

// All prompts may be left out: the build ends and says so.
func TestABuildOfWhichNothingIsLeft(t *testing.T) {
	w := newWorld(t)
	w.folder("eval")
	w.file("p.jsonl", lines([]map[string]any{{"q": exam, "a": "240 miles"}}))
	w.file("eval/exam.jsonl", fmt.Sprintf(`{"question":%q}`+"\n", exam))
	out, result := w.build(filteredRecipe)
	if out.Version != 0 || result.Asks != 0 || result.Tasks != 2 || len(result.Gates) != 1 || !strings.Contains(result.Gates[0], "prompt_filter left out every task") {
		t.Errorf("version %d, %d asks, %d tasks, gates %q", out.Version, result.Asks, result.Tasks, result.Gates)
	}
}

// Whatever write fails, doing it again brings what an undisturbed plan brings.
func TestFiltersSurviveLostFiles(t *testing.T) {
	w := filteredWorld(t)
	ref := w.submit(filteredRecipe)
	plan := must[wire.PlanOutput](w, wire.ActivityPlan, ref)
	want := w.filtered(ref, plan)
	for _, stage := range []string{stageHits, stageSame, stageSigns, stagePairs, stageFound, stageAlarms} {
		var lost string
		for at, err := range w.bucket.List(context.Background(), workPrefix(ref.Dataset, ref.BuildID, stage), "") {
			if err != nil {
				t.Fatal(err)
			}
			lost = at.Key
			break
		}
		if lost == "" {
			t.Fatalf("%s holds nothing", stage)
		}
		if err := w.bucket.Delete(context.Background(), lost); err != nil {
			t.Fatal(err)
		}
		settle := wire.FilterInput{BuildRef: ref, Key: plan.Filter.Key, Phase: phaseSettle}
		_, err := call[struct{}](w, wire.ActivityFilterPrompts, settle)
		if stage == stageFound || stage == stageAlarms {
			if err != nil {
				t.Fatal(err)
			}
		} else if err == nil || !strings.Contains(err.Error(), "its file is gone") && !strings.Contains(err.Error(), "near duplicates") {
			t.Errorf("%s: settled without a file: %v", stage, err)
		}
		if got := w.filtered(ref, plan); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: planned %+v, want %+v", stage, got, want)
		}
	}
}

func TestFilterUnitsAreBounded(t *testing.T) {
	w := filteredWorld(t)
	ref := w.submit(filteredRecipe)
	plan := must[wire.PlanOutput](w, wire.ActivityPlan, ref)
	for _, in := range []wire.FilterInput{
		{Phase: "match", Unit: 7}, {Phase: "match", Unit: -1}, {Phase: "sign", Unit: 99}, {Phase: "band", Unit: 99}, {Phase: "none"},
	} {
		in.BuildRef, in.Key = ref, plan.Filter.Key
		if _, err := call[struct{}](w, wire.ActivityFilterPrompts, in); err == nil {
			t.Errorf("%s %d was done", in.Phase, in.Unit)
		}
	}
}
