package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// score has the student score, as the workflow does.
func (r *run) score() *run {
	r.w.t.Helper()
	if r.plan.Fit == nil {
		r.w.t.Fatal("the plan has no student score")
	}
	must[wire.JudgeOutput](r.w, wire.ActivityStudentFit, r.fitInput())
	return r
}

func (r *run) fitInput() wire.FitInput {
	return wire.FitInput{BuildRef: r.ref, PlanKey: r.plan.Key, Teacher: r.plan.Fit.Teacher(), Started: r.started}
}

// scoredBuild is build with a student that scores.
func (w *world) scoredBuild(recipe string) (wire.BuildOutput, BuildResult) {
	w.t.Helper()
	r := w.start(recipe).ask()
	r.refine()
	out, result := r.score().seal()
	w.readsAgain(out)
	return out, result
}

// fitRecipe is of two teachers of sums and a student that scores so many tasks.
func fitRecipe(short, long, student string, tasks int) string {
	return fmt.Sprintf(`name: d
prompts: [{path: p.jsonl, domain: math, fields: {prompt: question, gold: gold}}]
teachers:
  - {id: short, base_url: %s, model: s, identity: short, limits: {concurrency: 8}}
  - {id: long, base_url: %s, model: l, identity: long, limits: {concurrency: 8}}
  - {id: pupil, base_url: %s, model: student-1b, identity: pupil, limits: {concurrency: 8}, price: {input: 10, output: 10}}
check: [{verifier: math}]
merge: {policy: all_passing}
student: {model: student-1b, score: {teacher: pupil, tasks: %d}}
`, short, long, student, tasks)
}

// sumAnswers are a teacher that answers sums in so many words.
func sumAnswers(t *testing.T, format string) *teacherstest.Server {
	return teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		var a, b int
		if _, err := fmt.Sscanf(r.Prompt, "%d+%d=", &a, &b); err != nil {
			t.Errorf("%q", r.Prompt)
		}
		return teacherstest.Reply{Content: fmt.Sprintf(format, a+b)}
	})
}

// handNLL is what the fake says of an answer: each character is a token, and so
// are each role and each end of a turn; the token at position i has a log
// probability of -i/100. The prompt has its role, its characters, its end and the
// role of who speaks next.
func handNLL(prompt, answer string) (nll float64, tokens int64) {
	first := utf8.RuneCountInString(prompt) + 3
	tokens = int64(utf8.RuneCountInString(answer)) + 1
	for i := range tokens {
		nll += float64(int64(first)+i) / 100
	}
	return nll, tokens
}

func TestStudentScoresAcceptedAnswers(t *testing.T) {
	short, long := sumAnswers(t, "%d"), sumAnswers(t, "After some thought, I say that the answer is %d")
	pupil := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{} })
	w := newWorld(t)
	w.file("p.jsonl", sums(12))
	text := fitRecipe(short.URL, long.URL, pupil.URL, 5)
	out, result := w.scoredBuild(text)
	if out.Version != 1 {
		t.Fatalf("%+v", out)
	}
	table := rows[datasets.FitRow](w, "d", datasets.TableStudentFit)
	of := map[string]datasets.Candidate{}
	for _, c := range rows[datasets.Candidate](w, "d", datasets.TableCandidates) {
		of[c.SampleID] = c
	}
	tasks := map[string]map[string]bool{}
	want := map[string]float64{}
	var tokens = map[string]float64{}
	for _, row := range table {
		c := of[row.SampleID]
		if row.NLL == nil || row.Why != nil || row.Student != "student-1b" || row.Scorer != "pupil" || c.Teacher != row.Teacher || row.AskID == nil {
			t.Fatalf("%+v", row)
		}
		nll, n := handNLL(*c.Messages[0].Content, c.Content())
		if math.Abs(*row.NLL-nll) > 1e-5*nll || *row.Tokens != n {
			t.Errorf("%q: %v over %d tokens, by hand %v over %d", c.Content(), *row.NLL, *row.Tokens, nll, n)
		}
		if tasks[row.TaskID] == nil {
			tasks[row.TaskID] = map[string]bool{}
		}
		tasks[row.TaskID][row.Teacher] = true
		want[row.Teacher] += nll
		tokens[row.Teacher] += float64(n)
	}
	if len(table) != 10 || len(tasks) != 5 {
		t.Errorf("%d rows of %d tasks, want both answers to five", len(table), len(tasks))
	}
	r := w.published(out)
	fit := r.StudentFit
	if fit == nil || len(fit.Scopes) != 2 || fit.Unknown != nil {
		t.Fatalf("%+v", fit)
	}
	for _, f := range fit.Scopes[0].Teachers {
		if v := want[f.Teacher] / tokens[f.Teacher]; f.Tasks != 5 || f.NLL == nil || math.Abs(f.NLL.Value-v) > 1e-6 {
			t.Errorf("%+v, by hand %v", f, v)
		}
	}
	// Longer answers are further from the beginning: the short ones are closer,
	// in all of 5 tasks, which 1 of 16 exchanges would show too.
	if p := fit.Scopes[0].Pairs[0]; p.A != "short" || p.Common != 5 || p.Difference.Value >= 0 || math.Abs(*p.P-1.0/16) > 0.02 {
		t.Errorf("%+v", p)
	}
	if len(r.Teachers) != 2 {
		t.Errorf("%d teachers are compared, and the student is none", len(r.Teachers))
	}
	if u := r.Unattributed; len(u) != 1 || u[0].What != scoringOfStudent || u[0].USD == nil || *u[0].USD <= 0 {
		t.Errorf("unattributed %+v", u)
	}
	stats := pupil.Stats()
	if stats.PaidTwice != 0 || stats.Requests != 15 { // five prompts, ten answers
		t.Errorf("%+v", stats)
	}
	if tr := result.Teachers["pupil"]; tr.Asks != 15 || tr.Answers != 15 || tr.CostUSD <= 0 || math.Abs(result.CostUSD-tr.CostUSD) > 1e-9 {
		t.Errorf("%+v of $%v", tr, result.CostUSD)
	}

	// Built again it asks nobody, and publishes nothing; and with no student the
	// tables are the same bytes.
	again, _ := w.scoredBuild(text)
	if !again.Unchanged || pupil.Stats().Requests != 15 {
		t.Errorf("%+v after %d requests", again, pupil.Stats().Requests)
	}
	with := w.digests("d", stable...)
	var none []string
	for _, line := range strings.Split(text, "\n") {
		if !strings.Contains(line, "student-1b") {
			none = append(none, line)
		}
	}
	w.build(strings.Join(none, "\n"))
	if without := w.digests("d", stable...); !slices.Equal(with, without) {
		t.Errorf("a student that scores changes the tables:\n%q\n%q", with, without)
	}
}

// published is the report of a build.
func (w *world) published(out wire.BuildOutput) *report.Report {
	w.t.Helper()
	m := w.manifest(out.Dataset)
	text, _, err := objstore.ReadAll(context.Background(), w.bucket, m.Reports[0], 16<<20)
	if err != nil {
		w.t.Fatal(err)
	}
	r := fromJSON[report.Report](w.t, text)
	return &r
}

// A student that lies, or is of another mind about what was said, is no figure;
// one that is gone ends no build.
func TestStudentThatLies(t *testing.T) {
	type answer struct {
		ids      []int
		logprobs []string
	}
	for name, lie := range map[string]struct {
		change func(*answer)
		why    string
	}{
		"no number":     {func(a *answer) { a.logprobs[len(a.logprobs)-1] = "null" }, "gaps"},
		"above nothing": {func(a *answer) { a.logprobs[len(a.logprobs)-1] = "0.25" }, "above 0"},
		"too few":       {func(a *answer) { a.ids, a.logprobs = a.ids[:4], a.logprobs[:4] }, "the prompt alone has"},
		"other words": {func(a *answer) {
			for i := 9; i < len(a.ids)-1; i++ {
				a.ids[i] = 1000 + 'z'
			}
		}, "do not spell the answer"},
		"another prompt": {func(a *answer) { a.ids[2]++ }, "renders the prompt otherwise"},
		"a gap":          {func(a *answer) { a.logprobs = a.logprobs[:len(a.logprobs)-2] }, "gaps"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			short, long := sumAnswers(t, "The answer is %d."), sumAnswers(t, "So the answer is %d.")
			pupil := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
				var in struct {
					Messages []chat.Message `json:"messages"`
					Wanted   *int           `json:"prompt_logprobs"`
				}
				if err := json.Unmarshal(r.Body, &in); err != nil {
					t.Error(err)
				}
				if in.Wanted == nil {
					return teacherstest.Reply{}
				}
				a := answer{ids: teacherstest.Rendered(in.Messages, "")}
				for range a.ids {
					a.logprobs = append(a.logprobs, "-0.5")
				}
				lie.change(&a)
				return teacherstest.Reply{ContentType: "application/json", Raw: promptReply(a.ids, a.logprobs)}
			})
			w := newWorld(t)
			w.file("p.jsonl", sums(2))
			out, _ := w.scoredBuild(fitRecipe(short.URL, long.URL, pupil.URL, 10))
			table := rows[datasets.FitRow](w, "d", datasets.TableStudentFit)
			for _, row := range table {
				if row.NLL != nil || row.Tokens != nil || row.Why == nil || !strings.Contains(*row.Why, lie.why) {
					t.Errorf("%v, %v: %v; want %q", row.NLL, row.Tokens, textOf(row.Why), lie.why)
				}
			}
			fit := w.published(out).StudentFit
			unknown := int64(0)
			for _, n := range fit.Unknown {
				unknown += n
			}
			if len(table) != 4 || unknown != 4 || len(fit.Scopes[0].Teachers) != 0 {
				t.Errorf("%d rows, %+v", len(table), fit)
			}
		})
	}
}

// promptReply is what vLLM says of the tokens of a prompt.
func promptReply(ids []int, logprobs []string) string {
	var b strings.Builder
	list, _ := json.Marshal(ids)
	fmt.Fprintf(&b, `{"id":"c","object":"chat.completion","model":"student-1b","prompt_token_ids":%s,"choices":[{"index":0,"message":{"role":"assistant","content":"x"},"finish_reason":"length"}],"usage":{"prompt_tokens":%d,"completion_tokens":1},"prompt_logprobs":[null`, list, len(ids))
	for i, p := range logprobs {
		if i == 0 {
			continue
		}
		text := fmt.Sprintf("<%d>", ids[i])
		if ids[i] >= 1000 {
			text = string(rune(ids[i] - 1000))
		}
		quoted, _ := json.Marshal(text)
		fmt.Fprintf(&b, `,{"%d":{"logprob":%s,"rank":1,"decoded_token":%s}}`, ids[i], p, quoted)
	}
	b.WriteString("]}")
	return b.String()
}

// A student that cannot be reached, or whose budget is spent, ends no build: the
// version is there and says what is missing, and the next build asks for that.
func TestStudentThatIsGone(t *testing.T) {
	short, long := sumAnswers(t, "%d"), sumAnswers(t, "The answer is %d.")
	var up atomic.Bool
	pupil := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		if up.Load() {
			return teacherstest.Reply{}
		}
		return teacherstest.Reply{Status: 401, Message: "who are you"}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	text := fitRecipe(short.URL, long.URL, pupil.URL, 10)
	out, result := w.scoredBuild(text)
	if out.Version != 1 || result.Rows["train"]+result.Rows["test"] != 6 {
		t.Fatalf("%+v", result)
	}
	for _, row := range rows[datasets.FitRow](w, "d", datasets.TableStudentFit) {
		if row.Why == nil || row.NLL != nil {
			t.Errorf("%+v", row)
		}
	}
	up.Store(true)
	other := newWorldOn(t, w.bucket)
	other.dir, other.builds = w.dir, 10
	if out, _ = other.scoredBuild(text); out.Version != 2 {
		t.Fatalf("%+v: what the student says now is another version", out)
	}
	for _, row := range rows[datasets.FitRow](w, "d", datasets.TableStudentFit) {
		if row.NLL == nil {
			t.Errorf("%+v", textOf(row.Why))
		}
	}
}

// A worker that dies in the middle leaves what has arrived, and the next one asks
// for the rest.
func TestScoringGoesOnWhereItWas(t *testing.T) {
	short, long := sumAnswers(t, "%d"), sumAnswers(t, "The answer is %d.")
	begun := make(chan struct{}, 100)
	hold := make(chan struct{})
	var first atomic.Int64
	pupil := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		if first.Add(1) > 10 {
			begun <- struct{}{}
			<-hold
		}
		return teacherstest.Reply{}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(30))
	text := fitRecipe(short.URL, long.URL, pupil.URL, 30)
	r := w.start(text).ask()
	r.refine()
	ctx, kill := context.WithCancel(context.Background())
	stopping := make(chan struct{})
	w.ctx, w.a.Stopping, w.a.Drain = ctx, stopping, 1
	done := make(chan error, 1)
	go func() {
		_, err := w.env().ExecuteActivity(wire.ActivityStudentFit, r.fitInput())
		done <- err
	}()
	<-begun // some are answered, and some are under way
	close(stopping)
	kill()
	if err := <-done; err == nil {
		t.Fatal("it went on")
	}
	close(hold)
	next := newWorldOn(t, w.bucket)
	r.w = next
	next.a.Stopping = nil
	out, _ := r.score().seal()
	stats := pupil.Stats()
	if out.Version != 1 || stats.UniqueCompleted != 90 || stats.PaidTwice > 8 || stats.Requests > 98 {
		t.Errorf("%+v: %+v; want 30 prompts and 60 answers, and only those again that were under way, of which there are 8 at most", out, stats)
	}
	for _, row := range rows[datasets.FitRow](next, "d", datasets.TableStudentFit) {
		if row.NLL == nil {
			t.Errorf("%v", textOf(row.Why))
		}
	}
}

// A bake-off scores too, and publishes nothing.
func TestCompareScoresTheStudent(t *testing.T) {
	short, long := sumAnswers(t, "%d"), sumAnswers(t, "The answer is %d.")
	pupil := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{} })
	w := newWorld(t)
	w.file("p.jsonl", sums(8))
	text := fitRecipe(short.URL, long.URL, pupil.URL, 4)
	r := w.startAs(text, func(ref *wire.BuildRef) { ref.Preview, ref.Compare = 6, true }).ask()
	r.refine()
	r.score()
	out := must[wire.BuildOutput](w, wire.ActivitySeal, r.sealInput())
	data, _, err := objstore.ReadAll(context.Background(), w.bucket, out.Preview, 1<<24)
	if err != nil {
		t.Fatal(err)
	}
	rep, err := Comparison(parsed(t, text), fromJSON[[]PreviewTask](t, data))
	if err != nil {
		t.Fatal(err)
	}
	if f := rep.StudentFit; f == nil || f.Student != "student-1b" || len(f.Scopes[0].Teachers) != 2 || f.Scopes[0].Pairs[0].Common != 4 {
		t.Errorf("%+v", f)
	}
	if u := rep.Unattributed; len(u) != 1 || u[0].Requests != 12 {
		t.Errorf("%+v", u)
	}
	if w.versions("d") != 0 {
		t.Error("a version was published")
	}
}

// Scoring pays from the build's budget, and stops where that ends.
func TestScoringKeepsTheBudget(t *testing.T) {
	short, long := sumAnswers(t, "%d"), sumAnswers(t, "The answer is %d.")
	pupil := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{} })
	w := newWorld(t)
	w.file("p.jsonl", sums(6))
	w.withBudgets()
	text := strings.Replace(fitRecipe(short.URL, long.URL, pupil.URL, 10), "price: {input: 10, output: 10}", "price: {input: 1000, output: 1000}", 1)
	r := w.startAs(text, func(ref *wire.BuildRef) { ref.BudgetMicros = budget.Micros(0.2) }).ask()
	r.refine()
	scored := must[wire.JudgeOutput](w, wire.ActivityStudentFit, r.fitInput())
	if scored.Stopped == nil || scored.Stopped.Class != wire.StoppedBudget {
		t.Errorf("%+v", scored)
	}
	out, result := r.seal()
	if out.Version != 1 || result.CostUSD > 0.2 || result.CostUSD <= 0 {
		t.Errorf("%+v cost %v", out, result.CostUSD)
	}
	missing := 0
	for _, row := range rows[datasets.FitRow](w, "d", datasets.TableStudentFit) {
		if row.Why != nil && strings.Contains(*row.Why, "not asked") {
			missing++
		}
	}
	if missing == 0 {
		t.Error("all were asked")
	}
}
