package activities

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// judge has the judges asked about every shard, as the workflow does.
func (r *run) judge() *run {
	r.w.t.Helper()
	for shard := range r.plan.Shards {
		for round, j := range r.plan.Judges {
			s := r.reports[j.Teacher()]
			if s == nil {
				s = &wire.StreamSummary{Teacher: j.Teacher()}
				r.reports[j.Teacher()] = s
			}
			if s.Stopped != nil {
				continue
			}
			out := must[wire.JudgeOutput](r.w, wire.ActivityJudge, wire.JudgeInput{
				BuildRef: r.ref, PlanKey: r.plan.Key, Shard: shard, Round: round, Teacher: j.Teacher(), Started: r.started,
			})
			s.New += out.Counts.New
			s.Reused += out.Counts.Reused
			s.Spent += out.Counts.CostMicros
			if out.Stopped != nil {
				s.Stopped = &wire.TeacherFailed{Class: out.Stopped.Class}
			}
		}
	}
	return r
}

// judgedBuild is build with judges.
func (w *world) judgedBuild(recipe string) (wire.BuildOutput, BuildResult) {
	w.t.Helper()
	r := w.start(recipe).ask().judge()
	r.refine()
	out, result := r.seal()
	w.readsAgain(out)
	return out, result
}

// sumsJudged is a recipe of sums whose answers a judge reads.
func sumsJudged(answers, judge, more string) string {
	return fmt.Sprintf(`name: d
prompts: [{path: p.jsonl, domain: math, fields: {prompt: question, gold: gold}}]
teachers:
  - {id: t, base_url: %s, model: house-7b, limits: {concurrency: 8}, price: {input: 1, output: 1}}
  - {id: j, base_url: %s, model: other-70b, identity: judge, limits: {concurrency: 8}, price: {input: 2, output: 2}}
%s
`, answers, judge, more)
}

// ask is what a judge is asked about: the texts between its fences, by name.
func askedAbout(prompt string) map[string]string {
	out := map[string]string{}
	lines := strings.Split(prompt, "\n")
	for i, line := range lines {
		fence, name, ok := strings.Cut(line, " begin ")
		if !ok || !strings.HasPrefix(fence, "=====") {
			continue
		}
		for n := i + 1; n < len(lines); n++ {
			if lines[n] == fence+" end "+name {
				out[name] = strings.Join(lines[i+1:n], "\n")
				break
			}
		}
	}
	return out
}

// TestJudgesSeeSurvivorsOnly: of six answers two are wrong and one is cut off,
// which the free verifier and the free filter tell.
func TestJudgesSeeSurvivorsOnly(t *testing.T) {
	answers := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		var a, b int
		if _, err := fmt.Sscanf(r.Prompt, "%d+%d=", &a, &b); err != nil {
			t.Errorf("%q", r.Prompt)
		}
		switch a {
		case 0, 1:
			return teacherstest.Reply{Content: "The answer is 99."}
		case 2:
			return teacherstest.Reply{Content: fmt.Sprintf("The answer is %d.", a+b), Finish: "length"}
		}
		return teacherstest.Reply{Content: fmt.Sprintf("The answer is %d.", a+b)}
	})
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		about := askedAbout(r.Prompt)
		if about["conversation"] == "" || about["answer"] == "" || about["known right answer"] == "" || !strings.Contains(r.Prompt, "Is it kind?") {
			t.Errorf("%q", r.Prompt)
		}
		switch about["answer"] {
		case "The answer is 7.":
			return teacherstest.Reply{Content: judged(r, 9)}
		case "The answer is 9.":
			return teacherstest.Reply{Content: judged(r, 3)}
		}
		return teacherstest.Reply{Content: "I would rather not."}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(6))
	text := sumsJudged(answers.URL, judge.URL, "check: [{verifier: judge, teacher: j, rubric: Is it kind?}, {verifier: math}]")
	_, result := w.judgedBuild(text)
	first := w.digests("d", stable...)
	if s := judge.Stats(); s.Requests != 3 || s.PaidTwice != 0 {
		t.Errorf("the judge had %d requests", s.Requests)
	}
	if j := result.Judged; j == nil || j.Asks != 3 || j.New != 3 || j.Unknown != 1 || j.CostUSD <= 0 {
		t.Errorf("%+v", j)
	}
	if c := result.Teachers["j"]; c.Asks != 3 || c.Answers != 3 || c.CostUSD != result.Judged.CostUSD || c.Attempts != 3 {
		t.Errorf("%+v", c)
	}
	if result.Attempts != 9 || result.Asks != 6 || result.Accepted != 1 || result.CostUSD <= result.Teachers["t"].CostUSD {
		t.Errorf("%+v", result)
	}
	var verdicts []string
	for _, c := range rows[datasets.Candidate](w, "d", datasets.TableCandidates) {
		var all []string
		for _, v := range c.Verdicts {
			all = append(all, v.Verifier+"="+v.Verdict)
		}
		score := "-"
		if c.Score != nil {
			score = fmt.Sprint(*c.Score)
		}
		verdicts = append(verdicts, fmt.Sprintf("%s %s %s %s", *c.Gold, strings.Join(all, ","), score, strings.Join(c.RejectReasons, ",")))
	}
	slices.Sort(verdicts)
	want := []string{
		"1 math=fail - verdict:fail", "11 judge=unknown,math=pass - verdict:unknown", "3 math=fail - verdict:fail", "5 math=pass - truncated",
		"7 judge=pass,math=pass 9 ", "9 judge=fail,math=pass 3 verdict:fail",
	}
	if !slices.Equal(verdicts, want) {
		t.Errorf("have %q\nwant %q", verdicts, want)
	}
	table := rows[datasets.JudgeRow](w, "d", datasets.TableJudgements)
	if len(table) != 3 {
		t.Fatalf("%d judgements", len(table))
	}
	for _, row := range table {
		if row.Judge != "j" || row.Kind != datasets.KindScore || row.Rubric == nil || row.AskID == nil || row.CostMicros == nil || row.SameFamily || (row.Score == nil) != (row.Why != nil) {
			t.Errorf("%+v", row)
		}
	}
	paid := 0
	for _, a := range rows[datasets.Attempt](w, "d", datasets.TableAttempts) {
		if a.Teacher == "j" {
			paid++
			if !slices.ContainsFunc(table, func(r datasets.JudgeRow) bool { return r.SampleA == a.SampleID && *r.AskID == a.AskID }) {
				t.Errorf("%+v is about no answer", a)
			}
		}
	}
	if paid != 3 {
		t.Errorf("%d attempts", paid)
	}

	// Another filter, another threshold, another worker: nobody is asked again.
	other := newWorldOn(t, w.bucket)
	other.dir = w.dir
	other.builds = 10
	for threshold, accepted := range map[string]int64{"pass_at: 3": 2, "pass_at: 10": 0, "pass_at: 9": 1} {
		_, result := other.judgedBuild(strings.Replace(text, "rubric: Is it kind?", "rubric: Is it kind?, "+threshold, 1))
		if result.Accepted != accepted || result.Judged.New != 0 || result.Judged.Reused != 3 {
			t.Errorf("%s: %+v %+v", threshold, result, result.Judged)
		}
	}
	// The same recipe over the same answers gives the same bytes.
	other.judgedBuild(text)
	if again := other.digests("d", stable...); !slices.Equal(again, first) {
		t.Errorf("have %q\nwant %q", again, first)
	}
	if s := judge.Stats(); s.Requests != 3 {
		t.Errorf("the judge had %d requests", s.Requests)
	}
	if s := answers.Stats(); s.Requests != 6 {
		t.Errorf("the teacher had %d requests", s.Requests)
	}
}
