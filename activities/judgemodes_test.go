package activities

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// echo answers a sum with a text that names it.
func echo(r teacherstest.Request) teacherstest.Reply {
	return teacherstest.Reply{Content: "an answer to " + r.Prompt}
}

// verdictsOf are the verdicts of the newest version's candidates, by gold.
func verdictsOf(w *world) map[string]string {
	out := map[string]string{}
	for _, c := range rows[datasets.Candidate](w, "d", datasets.TableCandidates) {
		for _, v := range c.Verdicts {
			out[*c.Gold] += fmt.Sprintf("%s %s: %s", v.Verifier, v.Verdict, v.Reason)
		}
	}
	return out
}

// A judge that favours a place convinces nobody: a win is a win in both orders.
func TestJudgesCompareInBothOrders(t *testing.T) {
	answers := teacherstest.New(t, echo)
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		about := askedAbout(r.Prompt)
		if about["known right answer"] != "" {
			t.Error("the reference is shown twice")
		}
		first := strings.HasPrefix(about["answer A"], "an answer")
		choice := "A"
		switch about["conversation"] { // of sums 0+1= to 5+6=
		case "0+1=": // the answer, wherever it stands
			if !first {
				choice = "B"
			}
		case "1+2=": // the gold answer
			if first {
				choice = "B"
			}
		case "2+3=":
			choice = "tie"
		case "3+4=": // whatever comes first
		case "4+5=": // once a tie
			if first {
				choice = "tie"
			}
		default:
			return teacherstest.Reply{Content: "It depends."}
		}
		return teacherstest.Reply{Content: chosen(r, choice)}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(6))
	text := sumsJudged(answers.URL, judge.URL, "check: [{verifier: judge, teacher: j, rubric: x, mode: pairwise}]")
	_, result := w.judgedBuild(text)
	want := map[string]string{
		"1":  "judge pass: better than the gold answer in both orders",
		"3":  "judge fail: worse than the gold answer in both orders",
		"5":  "judge unknown: as good as the gold answer in both orders",
		"7":  "judge unknown: each order names another winner",
		"9":  "judge unknown: each order names another winner",
		"11": "judge unknown: the judge's last line is no JSON object with a judgement alone",
	}
	if got := verdictsOf(w); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("have %q\nwant %q", got, want)
	}
	if j := result.Judged; j.Asks != 12 || j.Orders != 5 || j.Flipped != 2 || j.Unknown != 2 {
		t.Errorf("%+v", j)
	}
	for _, row := range rows[datasets.JudgeRow](w, "d", datasets.TableJudgements) {
		if row.Kind != datasets.KindReference || row.SampleB != nil || row.Order == nil || row.Score != nil {
			t.Errorf("%+v", row)
		}
	}
	// A tie may pass, and nobody is asked again.
	_, result = w.judgedBuild(strings.Replace(text, "mode: pairwise", "mode: pairwise, ties: pass", 1))
	if result.Accepted != 2 || result.Judged.New != 0 || judge.Stats().Requests != 12 {
		t.Errorf("%+v", result)
	}
}

// Several opinions are one score, and half of them may be missing.
func TestOpinions(t *testing.T) {
	answers := teacherstest.New(t, echo)
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "?"}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(1))
	_, result := w.judgedBuild(sumsJudged(answers.URL, judge.URL, "merge: {accept: any}\ncheck: [{verifier: judge, teacher: j, rubric: x, samples: 3}]"))
	if result.Judged.Asks != 3 || judge.Stats().Requests != 3 {
		t.Errorf("%+v", result.Judged)
	}
	if got := verdictsOf(w)["1"]; got != "judge unknown: 3 of 3 opinions are unknown: the judge's last line is no JSON object with a judgement alone" {
		t.Errorf("%s", got)
	}
	nine, six := 9.0, 6.0
	p := &paidCheck{Judging: recipe.Judging{Verifier: "judge", Min: 1, Max: 10}, kind: datasets.KindScore}
	for _, tc := range []struct {
		said []reading
		want string
	}{
		{[]reading{{score: &nine}, {score: &six}, {why: "?"}}, "pass score 7.5, at least 7"},
		{[]reading{{score: &six}, {why: "?"}}, "fail score 6, below 7"},
		{[]reading{{score: &nine}, {why: "no"}, {why: "?"}}, "unknown 2 of 3 opinions are unknown: ?"},
	} {
		if v := p.verdict(tc.said); v.Verdict+" "+v.Reason != tc.want {
			t.Errorf("%s %s, want %s", v.Verdict, v.Reason, tc.want)
		}
	}
}

// The accepted answers to a task are compared for policy pairwise: the winner is
// the row, and equal texts cost nothing.
func TestPairwiseMerge(t *testing.T) {
	var urls []string
	for _, name := range []string{"long", "best", "short"} {
		urls = append(urls, teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
			if r.Prompt == "1+2=" {
				return teacherstest.Reply{Content: "all say this"}
			}
			return teacherstest.Reply{Content: name + " answer to " + r.Prompt}
		}).URL)
	}
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		about := askedAbout(r.Prompt)
		a, b := about["answer A"], about["answer B"]
		switch {
		case strings.HasPrefix(a, "best"):
			return teacherstest.Reply{Content: chosen(r, "A")}
		case strings.HasPrefix(b, "best"):
			return teacherstest.Reply{Content: chosen(r, "B")}
		}
		return teacherstest.Reply{Content: chosen(r, "A")} // whatever comes first
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(2))
	text := fmt.Sprintf(`name: d
prompts: [{path: p.jsonl, fields: {prompt: question, gold: gold}}]
teachers:
  - {id: a, base_url: %s, model: m, identity: a}
  - {id: b, base_url: %s, model: m, identity: b}
  - {id: c, base_url: %s, model: m, identity: c}
  - {id: j, base_url: %s, model: judge-x, identity: j}
merge: {policy: pairwise, judge: {teacher: j, rubric: Which is better?}}
`, urls[0], urls[1], urls[2], judge.URL)
	_, result := w.judgedBuild(text)
	if judge.Stats().Requests != 6 || result.Judged.Asks != 6 || result.Judged.Orders != 3 || result.Judged.Flipped != 1 {
		t.Errorf("%d requests, %+v", judge.Stats().Requests, result.Judged)
	}
	train := rows[datasets.Row](w, "d", datasets.TableTrain)
	slices.SortFunc(train, func(a, b datasets.Row) int {
		return cmp.Compare(*a.Messages[len(a.Messages)-1].Content, *b.Messages[len(b.Messages)-1].Content)
	})
	if len(train) != 2 || train[0].Teacher != "a" || train[1].Teacher != "b" {
		t.Errorf("%+v", train)
	}
	for _, row := range rows[datasets.JudgeRow](w, "d", datasets.TableJudgements) {
		if row.Kind != datasets.KindPair || row.Verifier != "pairwise" || row.SampleB == nil || row.TeacherB == nil || row.SampleA >= *row.SampleB {
			t.Errorf("%+v", row)
		}
	}
	// Fewer answers are compared where the recipe says so.
	_, result = w.judgedBuild(strings.Replace(text, "rubric: Which is better?", "rubric: Which is better?, most: 2", 1))
	if result.Judged.Asks != 2 || result.Judged.New != 0 || judge.Stats().Requests != 6 {
		t.Errorf("%+v", result.Judged)
	}
}

// A judge that cannot be reached is told of, and what it did not say is asked by
// the next run.
func TestAJudgeThatCannotBeUsed(t *testing.T) {
	answers := teacherstest.New(t, echo)
	broken := true
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if broken {
			return teacherstest.Reply{Status: 401, Message: "who are you?"}
		}
		return teacherstest.Reply{Content: judged(r, 10)}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	text := sumsJudged(answers.URL, judge.URL, "merge: {accept: pass_or_unknown}\ncheck: [{verifier: judge, teacher: j, rubric: x}]")
	out, result := w.judgedBuild(text)
	if !slices.Equal(out.Stopped, []string{"j"}) || !strings.Contains(result.Stopped["j"], "who are you?") || result.Accepted != 3 {
		t.Errorf("%+v %v", out, result.Stopped)
	}
	for gold, v := range verdictsOf(w) {
		if v != "judge unknown: the call failed: auth" && v != "judge unknown: the judge was not asked" {
			t.Errorf("%s: %s", gold, v)
		}
	}
	broken = false
	other := newWorldOn(t, w.bucket) // this one's client has been told to stay away
	other.dir, other.builds = w.dir, w.builds
	out, result = other.judgedBuild(text)
	if len(out.Stopped) != 0 || result.Judged.New != 3 || result.Judged.Unknown != 0 || result.AnswersNew != 0 {
		t.Errorf("%+v %+v", out, result.Judged)
	}
}

// A build that runs out of its budget while it judges keeps what it paid for.
func TestABudgetThatEndsAmongJudges(t *testing.T) {
	t.Parallel() // it waits more than it works
	answers := teacherstest.New(t, echo)
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: judged(r, 10)}
	})
	w := newWorld(t)
	d := w.withBudgets()
	w.file("p.jsonl", sums(12))
	text := fmt.Sprintf(`name: d
prompts: [{path: p.jsonl, fields: {prompt: question, gold: gold}}]
teachers:
  - {id: t, base_url: %s, model: a, price: {input: 0, output: 0}, params: {max_tokens: 10}}
  - {id: j, base_url: %s, model: b, identity: judge, price: {input: 1000, output: 2000}, params: {max_tokens: 10}}
check: [{verifier: judge, teacher: j, rubric: x}]
merge: {accept: any}
ask: {budget: {usd: 4}}
`, answers.URL, judge.URL)
	r := w.start(text).ask().judge()
	r.refine()
	out, result := r.seal()
	paid := judge.Stats().Completed
	if !slices.Equal(out.OverBudget, []string{"j"}) || paid == 0 || paid == 12 || result.Judged.New != int64(paid) || result.Budget.MissingAsks != int64(12-paid) || result.CostUSD > 4 {
		t.Errorf("%+v %+v %+v, %d judged", out, result.Judged, result.Budget, paid)
	}
	w.givesBack()
	if line := d.book.Lines()[0]; line.Spent > budget.Micros(4) || line.Held != 0 {
		t.Errorf("%+v", line)
	}
	// More money: only what is missing is asked.
	r = w.startAs(text, func(ref *wire.BuildRef) { ref.BudgetMicros = budget.Micros(40) }).ask().judge()
	r.refine()
	if out, result = r.seal(); len(out.OverBudget) != 0 || result.Judged.New != int64(12-paid) || result.Judged.Reused != int64(paid) {
		t.Errorf("%+v %+v", out, result.Judged)
	}
	if s := judge.Stats(); s.Completed != 12 || s.PaidTwice != 0 {
		t.Errorf("%+v", s)
	}
}

// A reward model's score ranks; with pass_at it decides.
func TestRewardsRank(t *testing.T) {
	answers := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		n := 1
		if r.Seed != nil {
			n += int(*r.Seed % 7)
		}
		return teacherstest.Reply{Content: strings.Repeat("x", n)}
	})
	reward := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Scores: []float64{float64(len(r.Judged))}}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	text := sumsJudged(answers.URL, reward.URL, "check: [{verifier: reward, teacher: j, form: vllm-pooling}]\nask: {samples: 3}")
	_, result := w.judgedBuild(text)
	if result.Accepted != 9 || result.Rows["train"] != 3 || result.Judged.Unknown != 0 {
		t.Errorf("%+v", result)
	}
	best := map[string]int{}
	for _, c := range rows[datasets.Candidate](w, "d", datasets.TableCandidates) {
		if c.Score == nil || int(*c.Score) != len(c.Content()) {
			t.Errorf("%v for %q", c.Score, c.Content())
		}
		best[c.TaskID] = max(best[c.TaskID], len(c.Content()))
	}
	for _, row := range rows[datasets.Row](w, "d", datasets.TableTrain) {
		if n := len(*row.Messages[len(row.Messages)-1].Content); n != best[row.TaskID] {
			t.Errorf("a row of %d, and the best has %d", n, best[row.TaskID])
		}
	}
	asked := reward.Stats().Requests
	_, result = w.judgedBuild(strings.Replace(text, "form: vllm-pooling", "form: vllm-pooling, pass_at: 100", 1) + "gates: {min_rows: 0}\nmerge: {accept: any}\n")
	if reward.Stats().Requests != asked || result.Judged.New != 0 {
		t.Errorf("%+v", result)
	}
	for _, c := range rows[datasets.Candidate](w, "d", datasets.TableCandidates) {
		if c.Verdict == nil || *c.Verdict != datasets.Fail {
			t.Errorf("%v %s", *c.Score, *c.Verdict)
		}
	}
}

// A rubric in a file goes to the store with the build; what it says is part of
// what is asked.
func TestRubricFiles(t *testing.T) {
	answers := teacherstest.New(t, echo)
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		score := 9.0
		if strings.Contains(r.Prompt, "Be strict.") {
			score = 2
		}
		return teacherstest.Reply{Content: judged(r, score)}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(2))
	if err := os.MkdirAll(filepath.Join(w.dir, "notes"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.file("notes/rubric.md", "Be kind.\n")
	text := sumsJudged(answers.URL, judge.URL, "merge: {accept: any}\ncheck: [{verifier: judge, teacher: j, rubric: notes/rubric.md}]")
	_, result := w.judgedBuild(text)
	if result.Judged.New != 2 || judge.Stats().Requests != 2 {
		t.Errorf("%+v", result.Judged)
	}
	if m := w.manifest("d"); !slices.ContainsFunc(m.Sources, func(s catalog.Source) bool { return s.Path == "notes/rubric.md" && s.Bytes == 9 }) {
		t.Errorf("%+v", m.Sources)
	}
	w.file("notes/rubric.md", "Be strict.\n")
	_, result = w.judgedBuild(text)
	if result.Judged.New != 2 || judge.Stats().Requests != 4 {
		t.Errorf("%+v", result.Judged)
	}
	for _, v := range verdictsOf(w) {
		if v != "judge fail: score 2, below 7" {
			t.Error(v)
		}
	}
	for name, want := range map[string]string{"gone.md": "cannot be read: no such file", "large.md": "has more than 65536 bytes", "bad.md": "is no UTF-8 text", "empty.md": "is empty"} {
		w.file("large.md", strings.Repeat("x", recipe.MaxRubric+1))
		w.file("bad.md", "\xff")
		w.file("empty.md", " \n")
		r := parsed(t, strings.Replace(text, "notes/rubric.md", name, 1))
		_, err := Submit(t.Context(), w.bucket, r, sources.Finder{Dir: w.dir})
		if err == nil || !strings.Contains(err.Error(), "check[0].rubric: "+want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Whoever judges a model of its own family is flagged, in the candidates and in
// the judgements; the recipe may say what family a model is of.
func TestJudgesOfTheFamily(t *testing.T) {
	answers := teacherstest.New(t, echo)
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: judged(r, 10)}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(1))
	text := strings.Replace(sumsJudged(answers.URL, judge.URL, "check: [{verifier: judge, teacher: j, rubric: x}]"), "house-7b", "house-7b, FAMILY", 1)
	for _, tc := range []struct {
		teacher, judge string
		flagged        bool
	}{
		{"family: unknown", "other-70b", false}, {"family: other", "other-70b", true},
		{"answers_as: [x]", "house-70b", true}, {"answers_as: [x]", "another", false},
	} {
		r := w.start(strings.Replace(strings.Replace(text, "FAMILY", tc.teacher, 1), "other-70b", tc.judge, 1)).ask().judge()
		r.refine()
		task := r.refined()[0]
		c, j := task.Candidates[0], task.Judged[0].Row
		if slices.Contains(c.Flags, datasets.FlagSameFamily) != tc.flagged || j.SameFamily != tc.flagged {
			t.Errorf("%+v: %v %t", tc, c.Flags, j.SameFamily)
		}
	}
}

// What is masked in an answer is masked in the words of its judge, who has read
// it as it was.
func TestMaskedTextIsInNoJudgement(t *testing.T) {
	answers := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "Write to jane@gmx.net"}
	})
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "It names jane@gmx.net, which is right.\n" + `{"key": "` + judgedKey(r.Prompt) + `", "score": 9}`}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(1))
	w.judgedBuild(sumsJudged(answers.URL, judge.URL, "filter: [{pii: {action: mask}}]\ncheck: [{verifier: judge, teacher: j, rubric: x}]"))
	list := rows[datasets.JudgeRow](w, "d", datasets.TableJudgements)
	if len(list) != 1 || list[0].Score == nil || *list[0].Score != 9 || list[0].Reply == nil {
		t.Fatalf("%+v", list)
	}
	if got := *list[0].Reply; !strings.HasPrefix(got, "It names [EMAIL], which is right.") {
		t.Errorf("the judge's words hold what is masked: %q", got)
	}
}
