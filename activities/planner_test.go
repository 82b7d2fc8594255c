package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// textFile is a source in memory.
func textFile(name, text string) sources.File {
	return sources.File{Name: name, Size: int64(len(text)), Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(text)), nil
	}}
}

// A planned build is a plan with the tasks of its shards, as handed over.
type plannedBuild struct {
	*Plan
	tasks [][]datasets.Task // by index of the shard
}

// plan plans with prompts in memory up to spill bytes.
func plan(dir string, r *recipe.Recipe, spill int64, files ...[]sources.File) (*plannedBuild, error) {
	type place struct{ cell, seq int }
	shards := map[place][]datasets.Task{}
	sink := func(_ context.Context, s Shard, tasks []datasets.Task) (Shard, error) {
		at := place{s.Cell, s.Seq}
		if shards[at] != nil || s.Tasks != len(tasks) || s.Tasks == 0 {
			return s, fmt.Errorf("shard %+v of %d tasks", s, len(tasks))
		}
		shards[at] = slices.Clone(tasks)
		return s, nil
	}
	p := newPlanner(r, ReadOptions(), dir, sink, func(string) {})
	p.parts.most = spill
	defer p.close()
	made, err := p.make(context.Background(), files)
	if err != nil {
		return nil, err
	}
	b := &plannedBuild{Plan: made}
	for _, s := range made.Shards {
		b.tasks = append(b.tasks, shards[place{s.Cell, s.Seq}])
		delete(shards, place{s.Cell, s.Seq})
	}
	if len(shards) > 0 {
		return nil, fmt.Errorf("%d shards are not in the plan", len(shards))
	}
	return b, nil
}

const unbounded = 1 << 40

type promptRowIn struct {
	Question string `json:"question"`
	Domain   string `json:"domain"`
	Group    string `json:"group,omitempty"`
	Gold     string `json:"gold,omitempty"`
}

const planRecipe = `name: p
prompts:
  - {path: one.jsonl, efforts: [low, high], fields: {prompt: question, domain: domain, group: group, gold: gold}}
  - {path: two.jsonl, efforts: [high], fields: {prompt: question, domain: domain, group: group, gold: gold}}
teachers:
  - {id: every, model: m, base_url: http://localhost/v1}
  - {id: maths, model: m, base_url: http://localhost/v1, serves: [{domain: math}]}
  - {id: highs, model: m, base_url: http://localhost/v1, serves: [{effort: [high]}]}
output: {splits: {train: 0.5, test: 0.5}, seed: 3}
`

func jsonl(rows []promptRowIn) string {
	var b strings.Builder
	for _, r := range rows {
		text, _ := json.Marshal(r)
		b.Write(append(text, '\n'))
	}
	return b.String()
}

func TestPlanHoldsForAnyRows(t *testing.T) {
	r := parsed(t, planRecipe)
	dir := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.Custom(func(t *rapid.T) promptRowIn {
			return promptRowIn{
				Question: rapid.SampledFrom([]string{"1+1=", "2+2=", "why?", "<b>&\u2028\"é"}).Draw(t, "stem") + strings.Repeat("x", rapid.IntRange(0, 6).Draw(t, "tail")),
				Domain:   rapid.SampledFrom([]string{"math", "code"}).Draw(t, "domain"),
				Group:    rapid.SampledFrom([]string{"", "", "g1", "g2", "g3", "g4"}).Draw(t, "group"),
				Gold:     rapid.SampledFrom([]string{"", "2", "3"}).Draw(t, "gold"),
			}
		})
		one := rapid.SliceOfN(row, 1, 60).Draw(t, "one")
		two := rapid.SliceOfN(row, 1, 30).Draw(t, "two")
		files := [][]sources.File{{textFile("one.jsonl", jsonl(one))}, {textFile("two.jsonl", jsonl(two))}}
		whole, err := plan(dir, r, unbounded, files...)
		if err != nil {
			t.Fatal(err)
		}
		spilled, err := plan(dir, r, rapid.Int64Range(0, 20_000).Draw(t, "spill"), files...)
		if err != nil {
			t.Fatal(err)
		}
		if x, y := asJSON(whole), asJSON(spilled); x != y {
			t.Fatalf("the plan depends on memory:\n%s\n%s", x, y)
		}
		whole.check(t, r)
		want := expected(one, two)
		if got := whole.copies(); !maps.Equal(got, want) {
			t.Fatalf("tasks %v, want %v", got, want)
		}
		if got := whole.Duplicates; got != duplicates(one, two) {
			t.Fatalf("%d duplicates, want %d", got, duplicates(one, two))
		}
	})
}

func asJSON(b *plannedBuild) string {
	text, _ := json.Marshal([]any{b.Plan, b.tasks})
	return string(text)
}

// expected is the copies of every task by question, domain and effort.
func expected(one, two []promptRowIn) map[string]int64 {
	out := map[string]int64{}
	for _, r := range one {
		out[r.Question+"|"+r.Domain+"|low"]++
		out[r.Question+"|"+r.Domain+"|high"]++
	}
	for _, r := range two {
		out[r.Question+"|"+r.Domain+"|high"]++
	}
	return out
}

// duplicates counts rows that bring no task of their own.
func duplicates(one, two []promptRowIn) (n int64) {
	seen := map[string]bool{}
	for _, r := range one {
		if seen[r.Question+"|"+r.Domain] {
			n++
		}
		seen[r.Question+"|"+r.Domain] = true
	}
	for _, r := range two {
		if seen[r.Question+"|"+r.Domain] {
			n++
		}
		seen[r.Question+"|"+r.Domain] = true
	}
	return n
}

func (b *plannedBuild) copies() map[string]int64 {
	out := map[string]int64{}
	for _, tasks := range b.tasks {
		for _, t := range tasks {
			out[t.Prompt.LastUser()+"|"+t.Domain+"|"+t.Effort] += t.Copies
		}
	}
	return out
}

// check holds a plan to its promises.
func (b *plannedBuild) check(t interface{ Fatalf(string, ...any) }, r *recipe.Recipe) {
	last := map[int]string{} // by cell, of tasks that are sorted by id
	next := map[int]int{}
	seen := map[string]bool{}
	split := map[string]string{} // of prompts and groups
	prompts := map[string]bool{}
	for i, s := range b.Shards {
		c := b.Cells[s.Cell]
		if s.Seq != next[s.Cell] || s.Tasks > ShardTasks || s.Shared != nil && len(s.Shared) != s.Tasks {
			t.Fatalf("shard %d is %+v", i, s)
		}
		next[s.Cell]++
		for _, task := range b.tasks[i] {
			if s.Shared == nil && task.TaskID <= last[s.Cell] || seen[task.TaskID] {
				t.Fatalf("task %s comes after %s or twice", task.TaskID, last[s.Cell])
			}
			if s.Shared == nil {
				last[s.Cell] = task.TaskID
			}
			seen[task.TaskID], prompts[task.PromptID] = true, true
			if task.Domain != c.Domain || task.Effort != c.Effort || !slices.Equal(task.Route, c.Teachers) {
				t.Fatalf("task %s is in cell %+v", task.TaskID, c)
			}
			keys := []string{"prompt " + task.PromptID}
			if task.Group != "" {
				keys = append(keys, "group "+task.Group)
			}
			for _, key := range keys {
				if split[key] == "" {
					split[key] = task.Split
				}
				if split[key] != task.Split {
					t.Fatalf("%s is in two splits", key)
				}
			}
		}
	}
	if b.Tasks != int64(len(seen)) || b.Prompts != int64(len(prompts)) {
		t.Fatalf("%d tasks of %d prompts, counted %d of %d", b.Tasks, b.Prompts, len(seen), len(prompts))
	}
	for i := range r.Teachers {
		b.checkBatches(t, r.Teachers[i].ID)
	}
}

// checkBatches wants every task of a teacher in exactly one batch, and
// watermarks that tell how far it is through.
func (b *plannedBuild) checkBatches(t interface{ Fatalf(string, ...any) }, teacher string) {
	asked := map[string]int{}
	list := b.batches(teacher)
	for i, batch := range list {
		if n := batch.end - batch.start; n < 1 || n > b.BatchTasks[teacher] || (i > 0 && batch.shard < list[i-1].shard) {
			t.Fatalf("%s: batch %d is %+v", teacher, i, batch)
		}
		for _, task := range b.tasks[batch.shard][batch.start:batch.end] {
			asked[task.TaskID]++
		}
		// Shards below through hold nothing that a later batch asks, and the
		// shard at through is asked by a later one.
		if batch.through < batch.shard || (i+1 == len(list)) != (batch.through == len(b.Shards)) || (i+1 < len(list) && list[i+1].shard != batch.through) {
			t.Fatalf("%s: batch %d of shard %d is through %d", teacher, i, batch.shard, batch.through)
		}
	}
	var total int64
	for i, s := range b.Shards {
		serves := slices.Contains(b.Cells[s.Cell].Teachers, teacher)
		for _, task := range b.tasks[i] {
			want := 0
			if serves {
				want = 1
				total += int64(b.Samples)
			}
			if asked[task.TaskID] != want {
				t.Fatalf("%s is asked task %s %d times, want %d", teacher, task.TaskID, asked[task.TaskID], want)
			}
		}
	}
	if b.asks(teacher) != total {
		t.Fatalf("%s has %d asks, want %d", teacher, b.asks(teacher), total)
	}
}

// A prompt in two groups makes them one: else one of them would lie in both
// splits, and test prompts would be trained on.
func TestGroupsThatShareAPromptShareASplit(t *testing.T) {
	r := parsed(t, planRecipe)
	var chain []promptRowIn
	for i := range 40 { // g0-g1, g1-g2, …: one component
		chain = append(chain,
			promptRowIn{Question: fmt.Sprint("link ", i), Domain: "math", Group: fmt.Sprint("g", i)},
			promptRowIn{Question: fmt.Sprint("link ", i), Domain: "code", Group: fmt.Sprint("g", i+1)},
			promptRowIn{Question: fmt.Sprint("own ", i), Domain: "math", Group: fmt.Sprint("g", i)},
			promptRowIn{Question: fmt.Sprint("alone ", i), Domain: "math"})
	}
	b, err := plan(t.TempDir(), r, 1, []sources.File{textFile("one.jsonl", jsonl(chain))}, []sources.File{textFile("two.jsonl", jsonl(chain[:1]))})
	if err != nil {
		t.Fatal(err)
	}
	b.check(t, r)
	linked, alone := map[string]int{}, map[string]int{}
	for _, tasks := range b.tasks {
		for _, task := range tasks {
			if strings.HasPrefix(task.Prompt.LastUser(), "alone") {
				alone[task.Split]++
			} else {
				linked[task.Split]++
			}
		}
	}
	if len(linked) != 1 || len(alone) != 2 {
		t.Errorf("linked prompts are in %v, others in %v", linked, alone)
	}
}

func TestPlanKeepsTheFirstRow(t *testing.T) {
	r := parsed(t, planRecipe)
	one := []promptRowIn{{"1+1=", "math", "", "2"}, {"9+9=", "math", "", "18"}, {"1+1=", "math", "", "2"}}
	two := []promptRowIn{{"1+1=", "math", "", "3"}, {"1+1=", "code", "", "4"}}
	b, err := plan(t.TempDir(), r, 0, []sources.File{textFile("one.jsonl", jsonl(one))}, []sources.File{textFile("two.jsonl", jsonl(two))})
	if err != nil {
		t.Fatal(err)
	}
	if b.Prompts != 2 || b.Tasks != 5 || b.Duplicates != 2 || b.Conflicts != 1 {
		t.Errorf("%+v", b.Plan)
	}
	for _, tasks := range b.tasks {
		for _, task := range tasks {
			if task.Prompt.LastUser() == "1+1=" && task.Domain == "math" && (*task.Gold != "2" || task.Source != "one.jsonl:1") {
				t.Errorf("%+v", task)
			}
		}
	}
}

func TestPlanErrors(t *testing.T) {
	const bad = "{\"question\":\"1+1=\"}\nnot JSON\n{\"question\":[]}\n{\"question\":\"2+2=\"}\n{}\n"
	simple := func(more string) string {
		return "name: p\nprompts: [{path: one.jsonl, " + more + "}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n"
	}
	for _, tc := range []struct {
		name, recipe, text string
		tasks              int64
		want               []string // of the error
	}{
		{"no bad row is allowed", simple("bad_rows: 0"), bad, 0, []string{"3 bad row(s)", "bad_rows allows 0", "one.jsonl:2", "one.jsonl:3", "one.jsonl:5"}},
		{"one too few is allowed", simple("bad_rows: 2"), bad, 0, []string{"bad_rows allows 2", "one.jsonl:2"}},
		{"as many are allowed", simple("bad_rows: 3"), bad, 2, nil},
		{"many bad rows end the reading", simple("bad_rows: 0"), strings.Repeat("x\n", 1000), 0, []string{"at least 5 bad row(s)", "one.jsonl:5"}},
		{"the limit counts good rows", simple("limit: 2, bad_rows: 2"), bad, 2, nil},
		{"what is behind the limit is not read", simple("limit: 1"), bad, 1, nil},
		{"no rows", simple("bad_rows: 0"), "\n\n", 0, []string{"no prompts", "one.jsonl"}},
		{"nobody serves a domain", strings.Replace(planRecipe, "  - {id: every, model: m, base_url: http://localhost/v1}\n", "", 1),
			jsonl([]promptRowIn{{"1+1=", "math", "", ""}, {"hello", "code", "", ""}}), 0, []string{"one.jsonl:2", `"code"`, `"low"`, "serves"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := parsed(t, tc.recipe)
			files := [][]sources.File{{textFile("one.jsonl", tc.text)}, {textFile("two.jsonl", "")}}
			b, err := plan(t.TempDir(), r, unbounded, files[:len(r.Prompts)]...)
			if tc.want == nil {
				if err != nil || b.Tasks != tc.tasks {
					t.Fatalf("%+v %v", b, err)
				}
				return
			}
			var fault *SourceError
			if !errors.As(err, &fault) {
				t.Fatalf("%T: %v", err, err)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q does not name %q", err, want)
				}
			}
		})
	}
}

func TestPlanCountsBadRowsAcrossSources(t *testing.T) {
	r := parsed(t, "name: p\nprompts: [{path: a.jsonl, bad_rows: 1}, {path: b.jsonl, bad_rows: 1}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
	b, err := plan(t.TempDir(), r, unbounded,
		[]sources.File{textFile("a.jsonl", "{\"question\":\"a\"}\n!\n")}, []sources.File{textFile("b.jsonl", "?\n{\"question\":\"b\"}\n")})
	if err != nil || b.BadRows != 2 || len(b.BadRowsSeen) != 2 || !strings.Contains(b.BadRowsSeen[1], "b.jsonl:1") {
		t.Errorf("%+v %v", b, err)
	}
}

// A label of rows that is taken for a domain must not cost memory without end.
func TestPlanBoundsCells(t *testing.T) {
	r := parsed(t, strings.Replace(planRecipe, "efforts: [low, high]", "efforts: [high]", 1))
	many := func(n int) string {
		var rows []promptRowIn
		for i := range n {
			rows = append(rows, promptRowIn{Question: fmt.Sprint("q", i), Domain: fmt.Sprint("d", i)})
		}
		return jsonl(rows)
	}
	two := []sources.File{textFile("two.jsonl", "")}
	b, err := plan(t.TempDir(), r, unbounded, []sources.File{textFile("one.jsonl", many(maxCells))}, two)
	if err != nil || len(b.Cells) != maxCells {
		t.Fatal(err)
	}
	b.check(t, r)
	var fault *SourceError
	if _, err = plan(t.TempDir(), r, unbounded, []sources.File{textFile("one.jsonl", many(maxCells+1))}, two); !errors.As(err, &fault) || !strings.Contains(err.Error(), "one.jsonl:") {
		t.Errorf("%v", err)
	}
}

// Large prompts in many cells make small shards, not more memory.
func TestPlanBoundsOpenShards(t *testing.T) {
	r := parsed(t, planRecipe)
	const rows, size, open = 900, 2 << 10, 1 << 20
	line := strings.Repeat("x", size)
	read := func() io.Reader {
		var readers []io.Reader
		for i := range rows {
			readers = append(readers, strings.NewReader(fmt.Sprintf(`{"question":"%d `, i)), strings.NewReader(line), strings.NewReader(`","domain":"math"}`+"\n"))
		}
		return io.MultiReader(readers...)
	}
	file := sources.File{Name: "one.jsonl", Open: func(context.Context) (io.ReadCloser, error) { return io.NopCloser(read()), nil }}
	var tasks, most int
	sink := func(_ context.Context, s Shard, list []datasets.Task) (Shard, error) {
		tasks += len(list)
		most = max(most, len(list))
		return s, nil
	}
	p := newPlanner(r, ReadOptions(), t.TempDir(), sink, func(string) {})
	p.most = open
	defer p.close()
	if _, err := p.make(context.Background(), [][]sources.File{{file}, {textFile("two.jsonl", "")}}); err != nil {
		t.Fatal(err)
	}
	if tasks != 2*rows || most > open/size+1 {
		t.Errorf("%d tasks in shards of up to %d", tasks, most)
	}
}

// The plan of many prompts takes no more memory than that of few.
func TestPlanMemoryIsFlat(t *testing.T) {
	testdata.Heavy(t)
	if testing.Short() {
		t.Skip("plans 40,000 prompts")
	}
	r := parsed(t, "name: p\nprompts: [{path: one.jsonl, fields: {group: group}}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
	const n = 40_000
	file := sources.File{Name: "one.jsonl", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(&numbered{n: n}), nil
	}}
	var peak, tasks uint64
	watch := func() {
		var m goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc)
	}
	sink := func(_ context.Context, s Shard, list []datasets.Task) (Shard, error) {
		if tasks += uint64(len(list)); s.Seq%16 == 0 {
			watch()
		}
		return s, nil
	}
	watch()
	base := peak
	p := newPlanner(r, ReadOptions(), t.TempDir(), sink, func(string) { watch() })
	p.parts.most = 8 << 20
	defer p.close()
	plan, err := p.make(context.Background(), [][]sources.File{{file}})
	if err != nil || plan.Tasks != n || tasks != n {
		t.Fatalf("%+v %v", plan, err)
	}
	// Held at once: 8 MiB of prompts, one partition, the open shard, and the
	// files' buffers. All prompts would be more than twice as much.
	if grew := int64(peak) - int64(base); grew > 24<<20 {
		t.Errorf("the heap grew by %d MiB", grew>>20)
	}
}

// numbered reads as n rows of about 80 bytes.
type numbered struct {
	n, i int
	rest []byte
}

func (r *numbered) Read(p []byte) (int, error) {
	if len(r.rest) == 0 {
		if r.i == r.n {
			return 0, io.EOF
		}
		r.rest = fmt.Appendf(r.rest[:0], `{"question":"%d %s","group":"g%d"}`+"\n", r.i, bytes.Repeat([]byte("word "), 8), r.i/10)
		r.i++
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

func BenchmarkPlan(b *testing.B) {
	r := parsed(b, "name: p\nprompts: [{path: one.jsonl}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
	const n = 20_000
	file := sources.File{Name: "one.jsonl", Open: func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(&numbered{n: n}), nil
	}}
	for b.Loop() {
		if _, err := plan(b.TempDir(), r, spillBytes, []sources.File{file}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "prompts/s")
}
