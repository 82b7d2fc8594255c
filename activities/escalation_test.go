package activities

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// escalate refines as a build does: shards of which tasks go on to another
// teacher are refined again once that one is asked.
func (r *run) escalate() wire.RefineCounts {
	r.w.t.Helper()
	for _, f := range r.plan.Fallbacks {
		if f.Recorded {
			must[wire.ImportOutput](r.w, wire.ActivityImport, wire.ImportInput{BuildRef: r.ref, Teacher: f.Teacher()})
		}
	}
	var sum wire.RefineCounts
	for shard := range r.plan.Shards {
		in := r.refineInput(shard)
		for {
			counts := must[wire.RefineCounts](r.w, wire.ActivityRefine, in)
			if len(counts.Next) == 0 {
				sum.Add(counts)
				break
			}
			for _, id := range counts.Next {
				out := must[wire.JudgeOutput](r.w, wire.ActivityFallback, wire.FallbackInput{
					BuildRef: r.ref, PlanKey: r.plan.Key, StatsKey: r.stats, Shard: shard, Round: in.Fallbacks, Teacher: id, Started: r.started,
				})
				c := r.counts[id]
				c.Add(out.Counts)
				r.counts[id] = c
			}
			in.Fallbacks++
		}
	}
	return sum
}

// The labels of GSM8K's recorded answers say which problems go on to the second
// model, and which of them it solves.
func TestKnownTruthOfEscalation(t *testing.T) {
	testdata.Heavy(t)
	path := testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl")
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	type model struct {
		Correct  bool   `json:"is_correct"`
		Solution string `json:"solution"`
	}
	var wrong, unfinished, solved, solvedUnfinished int64
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var row struct {
			Small model `json:"6b_finetuning"`
			Large model `json:"175b_verification"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		if row.Small.Correct {
			continue
		}
		wrong++
		if row.Large.Correct {
			solved++
		}
		if !strings.Contains(row.Small.Solution, "A: ") { // it stops before a final answer
			unfinished++
			if row.Large.Correct {
				solvedUnfinished++
			}
		}
	}
	recipe := func(unknown string) string {
		return fmt.Sprintf(`name: gsm%s
prompts: [{path: %s, domain: math, fields: {prompt: question, gold: answer}, gold_pattern: '####\s*(.+)$'}]
teachers:
  - {id: small, api: recorded, path: %s, fields: {prompt: question, content: 6b_finetuning.solution}}
  - {id: large, api: recorded, path: %[3]s, fields: {prompt: question, content: 175b_verification.solution}}
ask: {route: {rules: [{when: domain == "math", teachers: [small], fallback: [large]%s}]}}
check: [{verifier: math}]
`, map[bool]string{true: "", false: "2"}[unknown == ""], testdata.Path(t, "data/gsm8k/test.jsonl"), path, unknown)
	}
	w := newWorld(t)
	r := w.start(recipe("")).ask()
	sum := r.escalate()
	out, result := r.seal()
	if got := r.counts["large"].Asks; got != wrong-unfinished || result.Teachers["large"].Accepted != solved-solvedUnfinished {
		t.Errorf("%d go on and %d of them are solved, want %d and %d", got, result.Teachers["large"].Accepted, wrong-unfinished, solved-solvedUnfinished)
	}
	if sum.Accepted != 286+solved-solvedUnfinished || result.Accepted != sum.Accepted {
		t.Errorf("%d accepted", sum.Accepted)
	}
	w.readsAgain(out)
	escalated := int64(0)
	for _, p := range rows[datasets.PromptRow](w, "gsm", datasets.TablePrompts) {
		if !slices.Equal(p.Route, []string{"small"}) || p.RouteReason != `rule 1: domain == "math"` || !slices.Equal(p.Fallback, []string{"large"}) {
			t.Fatalf("%s: route %v %v, %s", p.TaskID, p.Route, p.Fallback, p.RouteReason)
		}
		escalated += int64(len(p.Escalated))
	}
	if escalated != wrong-unfinished {
		t.Errorf("%d prompts went on", escalated)
	}
	for _, c := range rows[datasets.Candidate](w, "gsm", datasets.TableCandidates) {
		if slices.Contains(c.Flags, datasets.FlagEscalated) != (c.Teacher == "large") {
			t.Fatalf("flags of %s of %s: %v", c.SampleID, c.Teacher, c.Flags)
		}
	}
	r = w.start(recipe(", unknown: escalate")).ask()
	if sum := r.escalate(); r.counts["large"].Asks != wrong || sum.Accepted != 286+solved {
		t.Errorf("where unknown goes on too: %+v, %d accepted; want %d asks and %d", r.counts["large"], sum.Accepted, wrong, 286+solved)
	}
}

// Each teacher of the fallback is asked only for what all before it failed, once,
// and what failed for another reason than its answer stays where it is.
func TestFallbacksAreAskedInTurn(t *testing.T) {
	var asked [3]atomic.Int64
	answering := func(teacher int, says func(i int) teacherstest.Reply) string {
		return teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
			asked[teacher].Add(1)
			var a, b int
			_, _ = fmt.Sscanf(r.Prompt, "%d+%d=", &a, &b)
			return says(a)
		}).URL
	}
	right := func(i int) teacherstest.Reply {
		return teacherstest.Reply{Content: fmt.Sprintf("The answer is %d.", i+i+1)}
	}
	wrong := teacherstest.Reply{Content: "The answer is -1."}
	const n = 40
	urls := []string{
		answering(0, func(i int) teacherstest.Reply {
			switch i % 8 {
			case 0, 1:
				return right(i)
			case 2:
				return teacherstest.Reply{Content: "I would rather not say."} // unknown: it stays
			case 3:
				return teacherstest.Reply{Content: fmt.Sprintf("The answer is %d.", 2*i+1), Finish: "length"} // nobody can use it
			case 4:
				return teacherstest.Reply{Status: 400, Message: "no"}
			}
			return wrong
		}),
		answering(1, func(i int) teacherstest.Reply {
			if i%8 < 6 {
				return right(i)
			}
			return wrong
		}),
		answering(2, func(i int) teacherstest.Reply {
			if i%8 == 6 {
				return right(i)
			}
			return wrong
		}),
	}
	recipe := "name: turns\nprompts: [{path: p.jsonl, fields: {prompt: question, gold: gold}}]\nteachers:\n"
	for i, url := range urls {
		recipe += fmt.Sprintf("  - {id: t%d, model: m, base_url: \"%s\", identity: t%d}\n", i, url, i)
	}
	recipe += "ask: {route: {rules: [{teachers: [t0], fallback: [t1, t2]}]}}\ncheck: [{verifier: math}]\n"
	w := newWorld(t)
	w.file("p.jsonl", sums(n))
	r := w.start(recipe).ask()
	sum := r.escalate()
	// Of eight: two right, one unknown, five go on to t1, which gets three right;
	// two go on to t2, which gets one right.
	for i, want := range []int64{n, n / 8 * 5, n / 8 * 2} {
		if got := asked[i].Load(); got != want {
			t.Errorf("t%d was asked %d times, want %d", i, got, want)
		}
	}
	if sum.Accepted != n/8*6 || sum.Candidates != n+n/8*7 {
		t.Errorf("%+v", sum)
	}
	for _, task := range r.refined() {
		if !slices.Equal(task.Task.Fallback, []string{"t1", "t2"}) {
			t.Fatalf("fallback %v", task.Task.Fallback)
		}
		var i int
		_, _ = fmt.Sscanf(task.Task.Prompt.LastUser(), "%d+", &i)
		want := []int{0, 0, 0, 1, 1, 1, 2, 2}[i%8]
		if len(task.Escalated) != want || len(task.Candidates) != want+1 {
			t.Errorf("%s went on to %v and has %d candidates, want %d teachers more", task.Task.Prompt.LastUser(), task.Escalated, len(task.Candidates), want)
		}
	}
	out, _ := r.seal()
	w.readsAgain(out)

	// Another build asks for what failed to be answered, and nothing else.
	before := [3]int64{asked[0].Load(), asked[1].Load(), asked[2].Load()}
	r = w.start(recipe).ask()
	r.escalate()
	again, _ := r.seal()
	if !again.Unchanged {
		t.Error("the same answers make another version")
	}
	for i, want := range []int64{before[0] + n/8, before[1], before[2]} {
		if got := asked[i].Load(); got != want {
			t.Errorf("t%d was asked %d times in all, want %d", i, got, want)
		}
	}
}

// A teacher that has yet to be asked has not failed.
func TestWhatWasNotAskedDoesNotGoOn(t *testing.T) {
	down := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Status: 401, Message: "who are you"}
	})
	var asked atomic.Int64
	up := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		asked.Add(1)
		return teacherstest.Reply{Content: "The answer is 1."}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(200))
	r := w.start(fmt.Sprintf(`name: down
prompts: [{path: p.jsonl, fields: {prompt: question, gold: gold}}]
teachers: [{id: a, model: m, base_url: "%s", identity: a, limits: {concurrency: 2}}, {id: b, model: m, base_url: "%s", identity: b}]
ask: {route: {rules: [{teachers: [a], fallback: [b]}]}}
check: [{verifier: math}]
`, down.URL, up.URL)).ask()
	if r.reports["a"].Stopped == nil {
		t.Fatal("the teacher was not given up")
	}
	r.escalate()
	failed := int64(0)
	for _, task := range r.refined() {
		if c := task.Candidates[0]; c.Error != nil && *c.Error != classNotAsked {
			failed++
		}
	}
	if got := asked.Load(); got != failed || got > 10 {
		t.Errorf("%d tasks went on, %d failed", got, failed)
	}
}

// Nor has an answer failed that its judge has yet to be asked about, whatever the
// rule or a filter makes of a verdict that is unknown: the next run asks first.
func TestWhatNoJudgeWasAskedAboutDoesNotGoOn(t *testing.T) {
	for name, more := range map[string]struct{ rule, filter string }{
		"unknown goes on":               {", unknown: escalate", ""},
		"a filter looks at the verdict": {"", "filter: [{expr: 'verdict == \"pass\"'}]"},
	} {
		t.Run(name, func(t *testing.T) {
			var broken, second atomic.Int64
			first := teacherstest.New(t, echo)
			judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
				broken.Add(1)
				return teacherstest.Reply{Status: 401, Message: "who are you"}
			})
			next := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
				second.Add(1)
				return teacherstest.Reply{Content: "Something else."}
			})
			w := newWorld(t)
			w.file("p.jsonl", sums(100))
			r := w.start(fmt.Sprintf(`name: d
prompts: [{path: p.jsonl, fields: {prompt: question, gold: gold}}]
teachers:
  - {id: a, model: m, base_url: "%s", identity: a}
  - {id: b, model: m, base_url: "%s", identity: b}
  - {id: j, model: other, base_url: "%s", identity: j, limits: {concurrency: 2}}
ask: {route: {rules: [{teachers: [a], fallback: [b]%s}]}}
check: [{verifier: judge, teacher: j, rubric: x}]
%s
`, first.URL, next.URL, judge.URL, more.rule, more.filter)).ask().judge()
			r.escalate()
			if got := second.Load(); got > broken.Load() || got > 10 {
				t.Errorf("%d tasks went on after %d judgements that failed", got, broken.Load())
			}
		})
	}
}

func TestRulesRouteEachTask(t *testing.T) {
	server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{Content: "x"} })
	w := newWorld(t)
	w.file("p.jsonl", `{"q":"one","level":1,"d":"math"}
{"q":"two","level":9,"d":"math"}
{"q":"three","d":"chat"}
`)
	recipe := func(rules string) string {
		return fmt.Sprintf(`name: rules
prompts: [{path: p.jsonl, fields: {prompt: q, domain: d, meta: [level]}}]
teachers: [{id: a, model: m, base_url: "%[1]s", identity: a}, {id: b, model: m, base_url: "%[1]s", identity: b, serves: [{domain: math}]}]
ask: {route: {rules: [%[2]s]}}
`, server.URL, rules)
	}
	r := w.start(recipe(`{when: domain == "math" and meta.level > 5, teachers: [b, a]}, {when: domain == "math", teachers: [b]}, {teachers: [a]}`)).ask()
	r.refine()
	got := map[string]string{}
	for _, task := range r.refined() {
		got[task.Task.Prompt.LastUser()] = strings.Join(task.Task.Route, ",") + " " + task.Task.RouteWhy
	}
	for q, want := range map[string]string{
		"one": `b rule 2: domain == "math"`, "two": `b,a rule 1: domain == "math" and meta.level > 5`, "three": "a rule 3",
	} {
		if got[q] != want {
			t.Errorf("%s: %s, want %s", q, got[q], want)
		}
	}
	for rules, want := range map[string]string{
		`{when: domain == "math", teachers: [b]}`: `no rule of ask.route matches domain "chat" at effort "default"`,
		`{teachers: [b]}`:                         `no rule of ask.route matches domain "chat"`,
		`{when: meta.level > 5, teachers: [a]}`:   `ask.route.rules[0]: when "meta.level > 5"`,
	} {
		_, err := call[wire.PlanOutput](w, wire.ActivityPlan, w.submit(recipe(rules)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", rules, err, want)
		}
	}
}

// What a plan says that a build costs at most holds what judges may be asked
// about the answers of fallbacks.
func TestJudgesOfFallbacksAreInTheWorstCase(t *testing.T) {
	c, err := NewCounter(parsed(t, `name: d
prompts: [{path: p.jsonl}]
teachers:
  - {id: a, model: m, base_url: http://localhost/v1, identity: a}
  - {id: b, model: m, base_url: http://localhost/v1, identity: b}
  - {id: j, model: m, base_url: http://localhost/v1, identity: j, price: {input: 1, output: 2}, params: {max_tokens: 100}}
ask: {route: {rules: [{teachers: [a], fallback: [b]}]}}
check: [{verifier: judge, teacher: j, rubric: x}]
`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	task := datasets.Task{Domain: "default", Effort: "default", Route: []string{"a"}}
	task.Prompt.Messages = []chat.Message{{Role: chat.RoleUser, Content: optional("1+1=")}}
	if err := c.Count(t.Context(), []datasets.Task{task}); err != nil {
		t.Fatal(err)
	}
	without := c.Teachers["j"].MostMicros
	task.Fallback = []string{"b"}
	if err := c.Count(t.Context(), []datasets.Task{task}); err != nil {
		t.Fatal(err)
	}
	if got := c.Teachers["j"].MostMicros; without == 0 || got != 3*without || c.Teachers["j"].JudgeAsks != 2 {
		t.Errorf("$%d at most without a fallback, and $%d with it: %+v", without, got-without, c.Teachers["j"])
	}
}
