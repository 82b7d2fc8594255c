package activities

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// Scoring calls pay from the build's budget: what fits is asked, what does not
// is refused before it is sent, with the reason, and is asked once there is more.
func TestScoringCallsPayFromTheBudget(t *testing.T) {
	t.Parallel() // it waits more than it works
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if r.Judged != "" {
			return teacherstest.Reply{Scores: []float64{1}}
		}
		return teacherstest.Reply{Content: judged(r, 9)}
	})
	w, _, ref := scoringWorld(t, server.URL)
	d := w.withBudgets()
	// A dollar for each thousand tokens in, two for each thousand out: a judgement
	// costs less than a dollar and can cost some two, a score some tenths.
	rt, err := newRuntime(parsed(t, askRecipe("d", server.URL, ", params: {max_tokens: 10}, price: {input: 1000, output: 2000}")), &Sources{})
	if err != nil {
		t.Fatal(err)
	}
	ref.BudgetMicros = 2_500_000
	options := teachers.JudgeOptions{Rubric: "Is it right?"}
	judge, err := w.a.judge(rt, ref, "t", "default", options)
	if err != nil {
		t.Fatal(err)
	}
	questions := questionsOf("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
	got := strings.Split(scored(t, judge, questions), "|")
	known := 0
	for _, one := range got {
		switch {
		case one == "9":
			known++
		case !strings.HasPrefix(one, "? the teacher was not asked: ") || !strings.Contains(one, "the budget of $2.50 is spent"):
			t.Errorf("%s", one)
		}
	}
	sent := server.Stats().Completed
	if known == 0 || known == len(questions) || sent != known {
		t.Fatalf("%d of %d are known, %d were asked", known, len(questions), sent)
	}
	// A scorer of another wire form of the same teacher has the same purse.
	reward, err := w.a.rewarder(rt, ref, "t", teachers.ScoreVLLM, teachers.ScorerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := scored(t, reward, questionsOf("four")); !strings.Contains(got, "the budget of $2.50 is spent") || server.Stats().Completed != sent {
		t.Errorf("%s", got)
	}
	w.givesBack()
	line := d.book.Lines()[0]
	if line.Spent > line.Limit || line.Spent < 800_000 || line.Held != 0 {
		t.Errorf("%+v", line)
	}

	// The next run has more money: what was said before is not paid for again.
	next := ref
	next.BuildID, next.BudgetMicros = wire.BuildID(time.Unix(2, 0), "d"), 40_000_000
	if err := d.Open(context.Background(), "d", opening(next, budget.Limits{Build: next.BudgetMicros})); err != nil {
		t.Fatal(err)
	}
	if judge, err = w.a.judge(rt, next, "t", "default", options); err != nil {
		t.Fatal(err)
	}
	if got := scored(t, judge, questions); got != strings.TrimSuffix(strings.Repeat("9|", len(questions)), "|") {
		t.Errorf("%s", got)
	}
	if reward, err = w.a.rewarder(rt, next, "t", teachers.ScoreVLLM, teachers.ScorerOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := scored(t, reward, questionsOf("four")); got != "1" {
		t.Errorf("%s", got)
	}
	if s := server.Stats(); s.Completed != len(questions)+1 || s.PaidTwice != 0 {
		t.Errorf("%+v", s)
	}
}

// What a judge may write has to have an end where there is a budget.
func TestAJudgeWithoutACapIsRefusedUnderABudget(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: judged(r, 9), Scores: []float64{0.5}}
	})
	w, rt, ref := scoringWorld(t, server.URL)
	w.withBudgets()
	ref.BudgetMicros = budget.Micros(5)
	judge, err := w.a.judge(rt, ref, "t", "default", teachers.JudgeOptions{Rubric: "Is it right?"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := judge.Score(context.Background(), questionsOf("four")); err == nil || !strings.Contains(err.Error(), "no token cap where it judges") {
		t.Errorf("%v", err)
	}
	if n := server.Stats().Requests; n != 0 {
		t.Errorf("%d requests", n)
	}
	// A scoring endpoint writes nothing, and a scored completion one token.
	reward, err := w.a.rewarder(rt, ref, "t", teachers.ScoreVLLM, teachers.ScorerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := scored(t, reward, questionsOf("four")); got != "0.5" {
		t.Errorf("%s", got)
	}
	s, err := w.a.completions(rt, ref, "t", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.scorer.PromptRequest(questionsOf("")[0].Prompt)
	if err != nil || !s.calls.bounded(r) {
		t.Errorf("%v", err)
	}
}

// A judgement that an older parser could not read is read, and not paid again.
func TestAJudgementThatIsReadAgain(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: judged(r, 9)}
	})
	w, rt, ref := scoringWorld(t, server.URL)
	scorer, err := w.a.judge(rt, ref, "t", "default", teachers.JudgeOptions{Rubric: "Is it right?"})
	if err != nil {
		t.Fatal(err)
	}
	judge, questions := scorer.(*modelScorer), questionsOf("four")
	r, _, err := judge.inquire(questions[0])
	if err != nil {
		t.Fatal(err)
	}
	rec := &answers.Record{
		Ask: answers.Identify(identityOf(judge.calls.teacher, r)), Teacher: "t", Model: "m", Format: teachers.FormatOpenAIJSON, Status: 200,
		Raw:     []byte(`{"model":"m","choices":[{"message":{"content":"{\"key\": \"` + judgedKey(string(r.Body)) + `\", \"score\": 3}"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`),
		Started: time.Now(), Latency: time.Second, Attempts: 1, ErrorClass: teachers.ClassMalformed, ErrorText: "an older parser",
	}
	if err := w.a.Answers.Append(context.Background(), rec); err != nil {
		t.Fatal(err)
	}
	if got := scored(t, judge, questions); got != "3" || server.Stats().Requests != 0 {
		t.Errorf("%s after %d requests", got, server.Stats().Requests)
	}
}
