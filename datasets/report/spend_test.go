package report

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// spendTask is one task that x and y answered, x at its second try, with what
// two judges were asked about it.
func spendTask(a *Aggregator, id string) {
	micros := func(n int64) *int64 { return &n }
	a.Add(&datasets.Candidate{
		TaskID: id, PromptID: id, SampleID: id + "x", AskID: id + "askx", Domain: "math", Effort: "high", Teacher: "x", Verdict: ref(datasets.Pass), Accepted: true,
		CostMicros: micros(1000), PromptTokens: micros(10), CachedTokens: micros(4), CompletionTokens: micros(20), ReasoningTokens: micros(5), LatencyMS: micros(2000),
	})
	a.Add(&datasets.Candidate{
		TaskID: id, PromptID: id, SampleID: id + "y", AskID: id + "asky", Domain: "math", Effort: "high", Teacher: "y", Verdict: ref(datasets.Fail),
		CostMicros: micros(300), PromptTokens: micros(10), CompletionTokens: micros(30), LatencyMS: micros(1000),
	})
	a.AddJudgeRow(&datasets.JudgeRow{TaskID: id, SampleA: id + "x", AskID: ref(id + "score")})
	a.AddJudgeRow(&datasets.JudgeRow{TaskID: id, SampleA: id + "x", SampleB: ref(id + "y"), AskID: ref(id + "pair")})
	for _, row := range []datasets.Attempt{
		{SampleID: id + "x", AskID: id + "askx", Teacher: "x", Outcome: datasets.OutcomeAnswered, Billable: true, CostMicros: micros(70), PromptTokens: micros(10), CompletionTokens: micros(3), LatencyMS: micros(500)},
		{SampleID: id + "x", AskID: id + "askx", Teacher: "x", Outcome: datasets.OutcomeAnswer, Billable: true, CostMicros: micros(1000)},
		{SampleID: id + "y", AskID: id + "asky", Teacher: "y", Outcome: datasets.OutcomeAnswer, Billable: true, CostMicros: micros(300)},
		{SampleID: id + "x", AskID: id + "score", Teacher: "judge", Outcome: datasets.OutcomeAnswer, Billable: true, CostMicros: micros(40), PromptTokens: micros(100), CompletionTokens: micros(7), LatencyMS: micros(300)},
		{SampleID: id + "x", AskID: id + "pair", Teacher: "judge", Outcome: datasets.OutcomeAnswer, Billable: true, CostMicros: micros(25), PromptTokens: micros(200), CompletionTokens: micros(8), LatencyMS: micros(400)},
	} {
		row.Times, row.TaskID = 1, id
		a.AddAttempt(&row)
	}
}

// TestSpendIsAttributed is worked out by hand: of each of 40 tasks x has cost
// 1,000 for its answer, 70 for the try before it, 40 for a judge and 12 or 13
// of the 25 for a comparison with y.
func TestSpendIsAttributed(t *testing.T) {
	a := New([]TeacherInfo{{ID: "x", Priced: true, PriceNote: "list of a day"}, {ID: "y", Priced: true}})
	for i := range 40 {
		spendTask(a, fmt.Sprint("task", i))
	}
	r := a.Report()
	x, y := r.Teachers[0].Spend, r.Teachers[1].Spend
	usd := func(what string, got *float64, micros float64) {
		t.Helper()
		if got == nil || math.Abs(*got-micros/1e6) > 1e-12 {
			t.Errorf("%s: %v, want %v", what, got, micros/1e6)
		}
	}
	usd("answers of x", x.Answers.USD, 40*1000)
	usd("retried of x", x.Retried.USD, 40*70)
	usd("judged of x", x.Judged.USD, 40*(40+12))
	usd("judged of y", y.Judged.USD, 40*13)
	usd("all of x", x.USD, 40*(1000+70+40+12))
	usd("an accepted row of x", r.Teachers[0].CostPerAcceptedUSD, 1000+70+40+12)
	if x.Failed.Requests != 0 || x.Failed.USD != nil || x.Judged.Requests != 80 || y.Judged.Requests != 40 || x.Judged.PromptTokens != 40*200 || y.Judged.Seconds != 40*0.2 {
		t.Errorf("failed %+v, judged %+v and %+v", x.Failed, x.Judged, y.Judged)
	}
	// The comparison counts the same, with an interval: all tasks cost alike.
	s := r.Comparison.Scopes[0].Teachers[0]
	for _, one := range []struct {
		what string
		got  *Estimate
		want float64
	}{
		{"dollars", s.USDPerAccepted, 1122e-6}, {"tokens", s.TokensPerAccepted, 30 + 13 + 107 + 104}, {"seconds", s.SecondsPerAccepted, 2 + 0.5 + 0.3 + 0.2},
	} {
		if e := one.got; e == nil || math.Abs(e.Value-one.want) > 1e-9 || math.Abs(e.Low-one.want)+math.Abs(e.High-one.want) > 1e-9 {
			t.Errorf("%s for an accepted row: %+v, want %v", one.what, e, one.want)
		}
	}
	if v := r.Comparison.Scopes[0].Together.Values[0]; math.Abs(*v.USD-40*1122e-6) > 1e-12 {
		t.Errorf("to solve these tasks x cost %v", *v.USD)
	}
	if r.Unattributed != nil {
		t.Errorf("unattributed %+v", r.Unattributed)
	}
}

// TestSpendOfNobody: what belongs to no answer is told, and what has no price is
// not taken for free.
func TestSpendOfNobody(t *testing.T) {
	a := New([]TeacherInfo{{ID: "x", Priced: true}, {ID: "y", Priced: true}})
	spendTask(a, "one")
	micros := func(n int64) *int64 { return &n }
	for _, row := range []datasets.Attempt{
		{Times: 3, TaskID: "gone", SampleID: "gone", AskID: "gone", Teacher: "x", Outcome: datasets.OutcomeUndone, Billable: true, CostMicros: micros(500)},
		{Times: 1, TaskID: "one", SampleID: "onex", AskID: "oneaskx", Teacher: "x", Outcome: datasets.OutcomeSpare, Billable: true},
	} {
		a.AddAttempt(&row)
	}
	a.AddUnattributed("probes for drift", datasets.Attempt{Times: 2, Billable: true, CostMicros: micros(11)}, datasets.Attempt{Times: 1, CostMicros: micros(9)})
	a.AddUnattributed("probes for drift", datasets.Attempt{Times: 1, Billable: true, CostMicros: micros(5)})
	a.AddUnattributed("nothing")
	r := a.Report()
	if got := r.Teachers[0].Spend.Retried; got.Unpriced != 1 || got.Requests != 2 {
		t.Errorf("retried %+v", got)
	}
	if u := r.Unattributed; len(u) != 2 || u[0].Requests != 4 || math.Abs(*u[0].USD-25e-6) > 1e-15 || u[1].Requests != 3 || *u[1].USD != 500e-6 {
		t.Fatalf("%+v", u)
	}
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"1 requests that were retried for x have no price", "probes for drift (4 requests); they cost $0.0000", "belong to no answer of this version (3 requests); they cost $0.0005"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note says %q:\n%s", want, notes)
		}
	}
}

// TestAnswersThatServeSeveralTasks were paid once.
func TestAnswersThatServeSeveralTasks(t *testing.T) {
	a := New([]TeacherInfo{{ID: "x", Priced: true}})
	for _, effort := range []string{"high", "low"} {
		a.Add(&datasets.Candidate{TaskID: "p/math/" + effort, PromptID: "p", SampleID: effort, AskID: "one", Domain: "math", Effort: effort, Teacher: "x", Verdict: ref(datasets.Pass), Accepted: true, CostMicros: ref(int64(250_000))})
	}
	r := a.Report()
	if s := r.Teachers[0].Spend; s.SharedUSD != 0.25 || *s.USD != 0.5 {
		t.Errorf("%+v", s)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "$0.2500 of the cost of x is of answers that serve several tasks") {
		t.Errorf("no note of it:\n%s", notes)
	}
}

// TestPartsAddUp: whatever is split goes to somebody, to the last unit.
func TestPartsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		whole := rapid.Int64Range(1, 4000).Draw(t, "whole")
		all := spentTally{micros: rapid.Int64Range(0, math.MaxInt64).Draw(t, "micros"), ms: rapid.Int64Range(0, 1e6).Draw(t, "ms")}
		var sum spentTally
		for i := range whole {
			part := all.part(i, i+1, whole)
			if part.micros < 0 || part.ms < 0 {
				t.Fatalf("%+v of %+v", part, all)
			}
			sum.merge(&part)
		}
		if sum.micros != all.micros || sum.ms != all.ms {
			t.Fatalf("%+v, and the parts are %+v", all, sum)
		}
	})
}

// TestNoCostWithoutItsConditions: no form of the report that tells a cost leaves
// out of what configuration, prompts, prices and durations it is, and how it was
// counted; where that is not known it says so.
func TestNoCostWithoutItsConditions(t *testing.T) {
	forms := map[string]func(*Report, *bytes.Buffer) error{
		"table":    func(r *Report, b *bytes.Buffer) error { return r.Table(b, 100) },
		"narrow":   func(r *Report, b *bytes.Buffer) error { return r.Table(b, 40) },
		"markdown": func(r *Report, b *bytes.Buffer) error { return r.Markdown(b) },
		"page":     func(r *Report, b *bytes.Buffer) error { return r.HTML(b) },
		"json":     func(r *Report, b *bytes.Buffer) error { return r.JSON(b) },
	}
	for _, known := range []bool{true, false} {
		a := New([]TeacherInfo{{ID: "x", Model: "model-x", Priced: true, PriceNote: "list of a day"}, {ID: "y"}})
		if known {
			a.SetConditions(Conditions{Prompts: []string{"p.jsonl"}, Tasks: 2, Samples: "4 answers each", Teachers: []TeacherConditions{
				{Teacher: "x", Model: "model-x", API: "openai", Params: `{"top_k":20}`, AtOnce: 16},
			}})
		}
		spendTask(a, "one")
		spendTask(a, "two")
		want := []string{"p.jsonl", "4 answers each", "model-x", "top_k", "list of a day", "Costs are all spend for a teacher's answers", "16", "2.0s"}
		if !known {
			want = []string{"was not recorded: do not quote them"}
		}
		for form, write := range forms {
			if form == "json" && !known {
				continue // it has no conditions, and its schema says what that means
			}
			var b bytes.Buffer
			if err := write(a.Report(), &b); err != nil {
				t.Fatal(err)
			}
			text := strings.NewReplacer("&#39;", "'", "&#34;", `"`, `\"`, `"`, "\\_", "_", "&#58;", ":", "\n", " ").Replace(b.String())
			text = strings.Join(strings.Fields(text), " ")
			for _, words := range want {
				if form == "json" && words == "2.0s" {
					words = `"latency_p50_ms": 2` // within 1.6 %
				}
				if !strings.Contains(text, words) {
					t.Errorf("%s with conditions known %v does not say %q", form, known, words)
				}
			}
		}
	}
	// What has no cost says nothing of costs.
	var b bytes.Buffer
	if err := New([]TeacherInfo{{ID: "y"}}).Report().Table(&b, 100); err != nil || strings.Contains(b.String(), "do not quote") {
		t.Errorf("%v\n%s", err, b.String())
	}
}
