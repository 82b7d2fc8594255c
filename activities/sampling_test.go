package activities

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

func TestWantedSamples(t *testing.T) {
	for _, tc := range []struct {
		name  string
		rule  sampling
		known string // p passes, f does not, x was lost, n is judged by nobody, - is not asked
		n     int
		all   bool
	}{
		{"nothing is known", sampling{1, 16, 1}, "", 1, false},
		{"the first passes", sampling{1, 16, 1}, "p", 1, true},
		{"the first does not", sampling{1, 16, 1}, "f", 2, false},
		{"as many as are wanting at once", sampling{1, 16, 3}, "f", 4, false},
		{"and no more", sampling{2, 16, 3}, "pf", 4, false},
		{"up to the most", sampling{1, 5, 4}, "ff", 5, false},
		{"the most", sampling{1, 3, 1}, "fff", 3, true},
		{"one that failed is no pass", sampling{1, 16, 1}, "x", 2, false},
		{"what is beyond was asked for another recipe", sampling{1, 16, 1}, "pffff", 1, true},
		{"what is missing comes first", sampling{2, 16, 1}, "-p", 2, false},
		{"nobody judges", sampling{2, 16, 1}, "nn", 2, true},
		{"somebody judges one", sampling{2, 16, 1}, "nf", 3, false},
		{"a plain number", sampling{4, 4, 0}, "ffff", 4, true},
		{"a plain number, not all there", sampling{4, 4, 0}, "ppp", 4, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n, all := tc.rule.wanted(outcomes(tc.known))
			if n != tc.n || all != tc.all {
				t.Errorf("%d, all %v; want %d, all %v", n, all, tc.n, tc.all)
			}
		})
	}
}

func outcomes(s string) func(int) outcome {
	return func(i int) outcome {
		if i >= len(s) {
			return untried
		}
		return map[byte]outcome{'p': passed, 'f': unpassed, 'x': lost, 'n': unjudged, '-': untried}[s[i]]
	}
}

// Whatever order the samples come in, and however many are asked at once, the
// same samples are asked in the end.
func TestWhichSamplesThereAreDependsOnTheirAnswersAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 12).Draw(t, "most")
		rule := sampling{Least: rapid.IntRange(1, most).Draw(t, "least"), Most: most, UntilPass: rapid.IntRange(1, most).Draw(t, "until")}
		truth := rapid.SliceOfN(rapid.SampledFrom([]outcome{passed, unpassed, lost, unjudged}), most, most).Draw(t, "truth")
		want, all := rule.wanted(func(i int) outcome { return truth[i] })
		if !all || want < rule.Least || want > most {
			t.Fatalf("%d of %+v", want, rule)
		}
		known := make([]outcome, most)
		asks := 0
		for {
			n, all := rule.wanted(func(i int) outcome { return known[i] })
			if all {
				if n != want || asks != want {
					t.Fatalf("%d samples, %d asked, want %d", n, asks, want)
				}
				return
			}
			var missing []int
			for i := range n {
				if known[i] == untried {
					missing = append(missing, i)
				}
			}
			some := rapid.SliceOfNDistinct(rapid.SampledFrom(missing), 1, len(missing), rapid.ID).Draw(t, "asked")
			for _, i := range some {
				known[i] = truth[i]
				asks++
			}
		}
	})
}

// A marker of tests says how each sample of each sum ends.
type marker struct {
	mu    sync.Mutex
	asked map[string]int
	total atomic.Int64
	// broken: samples that fail fail.
	broken atomic.Bool
}

// fate is 'p', 'f', 'u' (nobody can read it) or 'x' (it fails while broken).
func fate(prompt string, sample int) byte {
	h := fnv.New32a()
	fmt.Fprint(h, prompt)
	switch n := int(h.Sum32() % 12); {
	case n == 11 && sample == 0, n == 10 && sample == 1:
		return 'x'
	case n >= 7 && sample < 7: // late or never
		return "ufu"[sample%3]
	case n < 7 && sample < n:
		return "fuf"[sample%3]
	case n == 9:
		return 'f'
	}
	return 'p'
}

func (m *marker) reply(r teacherstest.Request) teacherstest.Reply {
	sample := 0
	if r.Seed != nil {
		sample = int(*r.Seed)
	}
	m.mu.Lock()
	m.asked[r.Prompt] = max(m.asked[r.Prompt], sample+1)
	m.mu.Unlock()
	m.total.Add(1)
	var a, b int
	_, _ = fmt.Sscanf(r.Prompt, "%d+%d=", &a, &b)
	switch fate(r.Prompt, sample) {
	case 'p':
		return teacherstest.Reply{Content: fmt.Sprintf("The answer is %d.", a+b)}
	case 'x':
		if m.broken.Load() {
			return teacherstest.Reply{Status: 400, Message: "no"}
		}
		return teacherstest.Reply{Content: fmt.Sprintf("The answer is %d.", a+b)}
	case 'u':
		return teacherstest.Reply{Content: "I would rather not say."}
	}
	return teacherstest.Reply{Content: fmt.Sprintf("The answer is %d.", a+b+1)}
}

// samplesOf is how many samples a sum has, counted apart from the code.
func samplesOf(prompt string, most int, broken bool) int {
	for i := range most {
		switch f := fate(prompt, i); {
		case f == 'p', f == 'x' && !broken:
			return i + 1
		}
	}
	return most
}

func sampledRecipe(name, url string) string {
	return askRecipe(name, url, ", limits: {concurrency: 8}") + "check: [{verifier: math}]\nask: {samples: {min: 1, max: 6, until_pass: 1}}\nmerge: {policy: all_passing}\n"
}

func TestSamplesAreAskedUntilOnePasses(t *testing.T) {
	const n = 150
	m := &marker{asked: map[string]int{}}
	m.broken.Store(true)
	server := teacherstest.New(t, m.reply)
	w := newWorld(t)
	w.file("p.jsonl", sums(n))
	want, sum := map[string]int{}, 0
	for i := range n {
		prompt := fmt.Sprintf("%d+%d=", i, i+1)
		want[prompt] = samplesOf(prompt, 6, true)
		sum += want[prompt]
	}
	r := w.start(sampledRecipe("a", server.URL)).ask()
	for prompt, n := range want {
		if m.asked[prompt] != n {
			t.Errorf("%s: %d samples, want %d", prompt, m.asked[prompt], n)
		}
	}
	counts := r.counts["t"]
	if counts.Asks != int64(sum) || counts.New+counts.Failed != int64(sum) || counts.Reused != 0 || counts.Failed == 0 {
		t.Errorf("%+v, want %d asks", counts, sum)
	}
	r.refine()
	for _, task := range r.refined() {
		if got := len(task.Candidates); got != want[task.Task.Prompt.LastUser()] {
			t.Errorf("%s: %d candidates, want %d", task.Task.Prompt.LastUser(), got, want[task.Task.Prompt.LastUser()])
		}
	}
	_, result := r.seal()
	if result.Candidates != int64(sum) {
		t.Errorf("%d candidates, want %d", result.Candidates, sum)
	}
	before := w.digests("a", stable...)

	// Another run asks what failed again, and nothing else.
	asked := m.total.Load()
	again := w.start(sampledRecipe("a", server.URL)).ask()
	if c := again.counts["t"]; c.New != 0 || c.Failed != counts.Failed || m.total.Load() != asked+counts.Failed {
		t.Errorf("%+v, %d asked more; want the %d that failed", c, m.total.Load()-asked, counts.Failed)
	}
	again.refine()
	if _, result := again.seal(); !result.Unchanged {
		t.Errorf("over the same answers another version: %v, then %v", before, w.digests("a", stable...))
	}

	// Where they are answered, they decide what is wanted.
	m.broken.Store(false)
	healed := w.start(sampledRecipe("a", server.URL)).ask()
	if c := healed.counts["t"]; c.New != counts.Failed || c.Failed != 0 {
		t.Errorf("%+v, want %d new", c, counts.Failed)
	}
	healed.refine()
	for _, task := range healed.refined() {
		prompt := task.Task.Prompt.LastUser()
		if got := len(task.Candidates); got != samplesOf(prompt, 6, false) {
			t.Errorf("%s: %d candidates, want %d", prompt, got, samplesOf(prompt, 6, false))
		}
	}
	if _, result := healed.seal(); result.Unchanged {
		t.Error("answers that came change nothing")
	}
	asked = m.total.Load()
	w.build(sampledRecipe("a", server.URL))
	if n := m.total.Load() - asked; n != 0 {
		t.Errorf("%d asked again", n)
	}
	if s := server.Stats(); s.PaidTwice != 0 || s.PeakConcurrency > 8 {
		t.Errorf("%+v", s)
	}
}

// Where another recipe had more samples asked, their answers serve, and where it
// is cancelled in the middle, nothing is paid for twice.
func TestSamplesThatAreThereServe(t *testing.T) {
	m := &marker{asked: map[string]int{}}
	server := teacherstest.New(t, m.reply)
	w := newWorld(t)
	w.file("p.jsonl", sums(60))
	w.start(askRecipe("plain", server.URL, "") + "ask: {samples: 3}\n").ask()
	asked := m.total.Load()
	r := w.start(sampledRecipe("a", server.URL)).ask()
	wantNew := int64(0)
	for i := range 60 {
		wantNew += int64(max(0, samplesOf(fmt.Sprintf("%d+%d=", i, i+1), 6, false)-3))
	}
	if c := r.counts["t"]; c.New != wantNew || m.total.Load()-asked != wantNew {
		t.Errorf("%+v, want %d new", c, wantNew)
	}
	r.refine()
	for _, task := range r.refined() {
		if got, want := len(task.Candidates), samplesOf(task.Task.Prompt.LastUser(), 6, false); got != want {
			t.Errorf("%s: %d candidates, want %d", task.Task.Prompt.LastUser(), got, want)
		}
	}
}

func TestSampledAsksThatAreCancelledGoOn(t *testing.T) {
	m := &marker{asked: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if m.total.Load() >= 12 {
			cancel()
		}
		return m.reply(r)
	})
	w := newWorld(t)
	w.ctx = ctx
	w.file("p.jsonl", sums(64))
	r := w.start(sampledRecipe("a", server.URL))
	if _, err := call[wire.AskOutput](w, wire.ActivityAskShard, r.askInput("t", 0)); err == nil {
		t.Fatal("a cancelled batch ended well")
	}
	if len(w.a.claims.held) != 0 {
		t.Errorf("%d asks are still in hand", len(w.a.claims.held))
	}
	w.ctx = context.Background()
	c := r.ask().counts["t"]
	want := int64(0)
	for i := range 64 {
		want += int64(samplesOf(fmt.Sprintf("%d+%d=", i, i+1), 6, false))
	}
	if c.Asks != want || c.New+c.Reused != want || c.New == 0 || c.Reused == 0 {
		t.Errorf("%+v, want %d in all", c, want)
	}
	if s := server.Stats(); s.PaidTwice != 0 || int64(s.Completed) != want {
		t.Errorf("%+v, want %d answers", s, want)
	}
}

// A recorded teacher is asked nothing: its samples are looked at in order until
// one passes, or there are no more.
func TestRecordedSamplesUntilOnePasses(t *testing.T) {
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	w.file("answers.jsonl", strings.Join([]string{
		`{"question":"0+1=","a":"7"}`, `{"question":"0+1=","a":"1"}`, `{"question":"0+1=","a":"1"}`,
		`{"question":"1+2=","a":"9"}`, `{"question":"1+2=","a":"8"}`,
	}, "\n"))
	r := w.start("name: a\nprompts: [{path: p.jsonl, fields: {prompt: question, gold: gold}}]\n" +
		"teachers: [{id: t, api: recorded, model: m, path: answers.jsonl, fields: {prompt: question, content: a}}]\n" +
		"check: [{verifier: math}]\nask: {samples: {min: 1, max: 6, until_pass: 1}}\n").ask()
	if c := r.counts["t"]; c.Reused != 4 || c.Failed != 1 {
		t.Errorf("%+v", c)
	}
	r.refine()
	got := map[string]int{}
	for _, task := range r.refined() {
		got[task.Task.Prompt.LastUser()] = len(task.Candidates)
	}
	if got["0+1="] != 2 || got["1+2="] != 2 || got["2+3="] != 1 {
		t.Errorf("candidates %v", got)
	}
}

// Tasks that no verifier applies to have the least samples: no more would make
// one of them pass.
func TestSamplesThatNobodyJudges(t *testing.T) {
	m := &marker{asked: map[string]int{}}
	server := teacherstest.New(t, m.reply)
	w := newWorld(t)
	w.file("p.jsonl", sums(10))
	recipe := strings.Replace(sampledRecipe("a", server.URL), "{verifier: math}", `{verifier: math, when: domain == "math"}`, 1)
	r := w.start(strings.Replace(recipe, "min: 1", "min: 2", 1)).ask()
	if c := r.counts["t"]; c.Asks != 20 || c.New != 20 {
		t.Errorf("%+v", c)
	}
}

// A task's next sample does not wait for the batch's other tasks.
func TestASlowTaskHoldsUpNoOther(t *testing.T) {
	release := make(chan struct{})
	var quick atomic.Int64
	done := make(chan struct{})
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if strings.HasPrefix(r.Prompt, "0+") {
			<-release
			return teacherstest.Reply{Content: "1"}
		}
		if quick.Add(1) == 5*6 {
			close(done)
		}
		return teacherstest.Reply{Content: "wrong"}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(6))
	r := w.start(sampledRecipe("a", server.URL))
	go func() {
		<-done // all samples of the five others
		close(release)
	}()
	if c := r.ask().counts["t"]; c.Asks != 31 {
		t.Errorf("%+v", c)
	}
}

func TestOutcomesKeepTheCandidate(t *testing.T) {
	rt, err := newRuntime(parsed(t, sampledRecipe("a", "http://localhost/v1")), &Sources{})
	if err != nil {
		t.Fatal(err)
	}
	gold := "3"
	task := &datasets.Task{TaskID: "t", Gold: &gold}
	c := judgedTask(t, sampledRecipe("a", "http://localhost/v1"), *task, "3").Candidates[0]
	plain := c
	plain.Verdict, plain.Verdicts, plain.RejectReasons, plain.Accepted = nil, nil, nil, false
	before := plain
	if o, err := rt.outcomeOf(context.Background(), task, plain, true); err != nil || o != passed {
		t.Errorf("%d %v", o, err)
	}
	if plain.Verdict != nil || !slices.Equal(before.RejectReasons, plain.RejectReasons) || len(plain.Verdicts) != 0 {
		t.Errorf("the candidate was judged: %+v", plain)
	}
}

// A budget that ends among samples that depend on their answers says how many
// are wanted next, though more answers are there than tasks; more money buys
// exactly what is missing.
func TestSamplesUntilOnePassesUnderABudget(t *testing.T) {
	t.Parallel() // it waits more than it works
	const n = 40
	m := &marker{asked: map[string]int{}}
	server := teacherstest.New(t, m.reply)
	w := newWorld(t)
	w.withBudgets()
	w.file("p.jsonl", sums(n))
	recipe := askRecipe("a", server.URL, ", params: {max_tokens: 10}, price: {input: 1000, output: 2000}, limits: {concurrency: 8}") +
		"check: [{verifier: math}]\nask: {samples: {min: 1, max: 6, until_pass: 1}}\nmerge: {policy: all_passing}\n"
	sum := int64(0)
	for i := range n {
		sum += int64(samplesOf(fmt.Sprintf("%d+%d=", i, i+1), 6, false))
	}
	run := func(micros int64) *run {
		r := &run{w: w, ref: w.submit(recipe), started: time.Now(), reports: map[string]*wire.StreamSummary{}, counts: map[string]wire.AskCounts{}}
		r.ref.BudgetMicros = micros
		r.plan = must[wire.PlanOutput](w, wire.ActivityPlan, r.ref)
		r.ask()
		w.givesBack()
		r.reports["t"].New, r.reports["t"].Reused, r.reports["t"].Spent = r.counts["t"].New, r.counts["t"].Reused, r.counts["t"].CostMicros
		r.refine()
		return r
	}
	// Until some budget ends after more answers than there are tasks.
	bought, stopped := int64(0), false
	for budget := int64(700_000); bought < sum; budget += 700_000 {
		if budget > 10_000_000 {
			t.Fatalf("%d of %d samples at %d", bought, sum, budget)
		}
		r := run(budget)
		bought += r.counts["t"].New
		_, result := r.seal()
		late := bought >= n && bought < sum
		switch b := result.Budget; {
		case late && (r.reports["t"].Stopped == nil || b.MissingAsks == 0 || b.MissingAsks > sum-bought):
			t.Errorf("%d of %d are there, stopped %+v: %+v", bought, sum, r.reports["t"].Stopped, b)
		case bought == sum && b.MissingAsks != 0:
			t.Errorf("nothing is missing: %+v", b)
		}
		stopped = stopped || late
	}
	if !stopped || m.total.Load() != sum || server.Stats().PaidTwice != 0 {
		t.Errorf("%d asked, want %d; stopped late: %v; %+v", m.total.Load(), sum, stopped, server.Stats())
	}
}

// A sample that an earlier epoch answers is not asked where nothing is asked
// anew, though what comes before it is.
func TestSamplesOfEarlierEpochsServe(t *testing.T) {
	var mu sync.Mutex
	var asked []int64
	var says func(sample int64) teacherstest.Reply
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		sample := int64(0)
		if r.Seed != nil {
			sample = *r.Seed
		}
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, sample)
		return says(sample)
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(1))
	recipe := askRecipe("a", server.URL, "") + "check: [{verifier: math}]\nask: {samples: {min: 1, max: 3, until_pass: 1}}\nmerge: {policy: all_passing}\n"
	fails := teacherstest.Reply{Status: 400, Message: "no"}
	wrong, right := teacherstest.Reply{Content: "The answer is 7."}, teacherstest.Reply{Content: "The answer is 1."}
	for i, step := range []struct {
		refresh string
		says    []teacherstest.Reply
		want    []int64
	}{
		{"", []teacherstest.Reply{fails, wrong, right}, []int64{0, 1, 2}},
		{"t", []teacherstest.Reply{fails, fails, fails}, []int64{0, 1, 2}},
		{"", []teacherstest.Reply{wrong, wrong, wrong}, []int64{0}},
	} {
		asked, says = nil, func(sample int64) teacherstest.Reply { return step.says[sample] }
		r := w.startAs(recipe, func(ref *wire.BuildRef) { ref.Refresh = step.refresh }).ask()
		if !slices.Equal(asked, step.want) {
			t.Errorf("build %d asked samples %v, want %v", i, asked, step.want)
		}
		r.refine()
		if _, result := r.seal(); result.Accepted != 1 {
			t.Errorf("build %d: %+v", i, result)
		}
	}
}
