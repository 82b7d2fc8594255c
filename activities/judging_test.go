package activities

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/filter"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// said is what a paid verifier of a test says, by verifier and answer; it notes
// who was asked.
type heardOf struct {
	says  map[string]string // verdict and perhaps score
	asked []string
}

type paidWord string

func (p paidWord) Name() string             { return string(p) }
func (paidWord) Version() string            { return "1" }
func (paidWord) Scale() (low, high float64) { return 1, 5 }
func (h *heardOf) opinions(_ context.Context, wants []want) ([]datasets.Verdict, error) {
	out := make([]datasets.Verdict, len(wants))
	for i, w := range wants {
		name := w.check.name()
		h.asked = append(h.asked, name+" "+w.candidate.Content())
		v := datasets.Verdict{Verifier: name, Version: "1"}
		var score float64
		if n, _ := fmt.Sscanf(h.says[name], "%s %f", &v.Verdict, &score); n == 2 {
			v.Score = &score
		}
		out[i] = v
	}
	return out, nil
}

// stages judges answers by a recipe whose verifiers called judge and reward are
// those of a test.
func stages(t *testing.T, more string, gold string, heard *heardOf, answers ...string) *refinedTask {
	t.Helper()
	text := "name: j\nprompts: [{path: p.jsonl, fields: {gold: gold}}]\nteachers: [{id: t, model: m, base_url: http://localhost/v1, serves: [{domain: default}]}, {id: j, model: n, base_url: http://localhost/v1}]\n" + more + "\n"
	rt, err := newRuntime(parsed(t, text), &Sources{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range rt.check.all() {
		if k.paid != nil {
			k.paid = paidWord(k.paid.Name())
		}
	}
	r := &refinedTask{Task: datasets.Task{TaskID: "1", Domain: "default", Effort: "default", Gold: &gold}}
	for i, answer := range answers {
		finish := "stop"
		if cut, is := strings.CutPrefix(answer, "cut:"); is {
			answer, finish = cut, "length"
		}
		c := datasets.Candidate{SampleID: fmt.Sprint(i), Teacher: "t", FinishReason: &finish, Messages: []chat.Message{{Role: chat.RoleAssistant, Content: &answer}}}
		if class, failed := strings.CutPrefix(answer, "!"); failed {
			c = datasets.Candidate{SampleID: fmt.Sprint(i), Teacher: "t", Error: &class}
		}
		r.Candidates = append(r.Candidates, c)
	}
	var paid opinions
	if heard != nil {
		paid = heard
	}
	if err := rt.judge(context.Background(), paid, nil, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// outcomeText is a candidate in a line: verdict, score, accepted, reasons.
func outcomeText(c *datasets.Candidate) string {
	out := "-"
	if c.Verdict != nil {
		out = *c.Verdict
	}
	if c.Score != nil {
		out += fmt.Sprintf(" %.3g", *c.Score)
	}
	if c.Accepted {
		out += " +"
	}
	for _, r := range c.RejectReasons {
		out += " " + r
	}
	var said []string
	for _, v := range c.Verdicts {
		said = append(said, v.Verifier+"="+v.Verdict)
	}
	return strings.TrimSpace(out + " [" + strings.Join(said, " ") + "]")
}

func TestGroupsOfVerifiers(t *testing.T) {
	const judge = "{verifier: judge, teacher: j, rubric: Is it right}"
	const reward = "{verifier: reward, teacher: j, form: vllm-score, pass_at: 0.5}"
	for _, tc := range []struct {
		name, check string
		judge       string // what it says
		answers     []string
		want        []string
		asked       string
	}{
		{"paid ones see what is left", "check: [{verifier: exact}, " + judge + "]", "pass 4",
			[]string{"4", "5", "cut:4", "!timeout"},
			[]string{"pass 4 + [exact=pass judge=pass]", "fail verdict:fail [exact=fail]", "unknown truncated [exact=pass]", "- error:timeout []"}, "judge 4"},
		{"in the order of the list", "check: [" + judge + ", {verifier: exact}]", "fail 1",
			[]string{"4", "5"}, []string{"fail 1 verdict:fail [judge=fail exact=pass]", "fail verdict:fail [exact=fail]"}, "judge 4"},
		{"any asks nobody where one passes", "check: [{any: [{verifier: exact}, " + judge + "]}]", "pass 5",
			[]string{"4", "5"}, []string{"pass + [any=pass exact=pass]", "pass 5 + [any=pass exact=fail judge=pass]"}, "judge 5"},
		{"first asks where the first does not know", "check: [{first: [{verifier: math}, " + judge + "]}]", "pass 5",
			[]string{"4", "5", "who knows"}, []string{"pass + [first=pass math=pass]", "fail verdict:fail [first=fail math=fail]", "pass 5 + [first=pass math=unknown judge=pass]"}, "judge who knows"},
		{"all in a group", "check: [{all: [{verifier: exact}, " + judge + "]}]", "unknown",
			[]string{"4", "5"}, []string{"unknown verdict:unknown [all=unknown exact=pass judge=unknown]", "fail verdict:fail [all=fail exact=fail]"}, "judge 4"},
		{"weights", "check: [{pass_at: 0.7, weighted: [{verifier: exact, weight: 3}, {verifier: contains, text: a}, {verifier: contains, text: b}]}]", "",
			[]string{"4", "a b"}, []string{"fail 0.6 verdict:fail [weighted=fail exact=pass contains=fail contains=fail]", "fail 0.4 verdict:fail [weighted=fail exact=fail contains=pass contains=pass]"}, ""},
		{"weights with a judge, who is not asked where it can't help", "check: [{pass_at: 0.7, weighted: [{verifier: exact, weight: 3}, " + strings.Replace(judge, "judge,", "judge, weight: 2,", 1) + "]}]", "pass 3",
			[]string{"4", "5"}, []string{"pass 0.8 + [weighted=pass exact=pass judge=pass]", "fail verdict:fail [weighted=fail exact=fail]"}, "judge 4"},
		{"a part of the weights is unknown", "check: [{pass_at: 0.7, weighted: [{verifier: exact, weight: 3}, " + judge + "]}]", "unknown",
			[]string{"4"}, []string{"pass + [weighted=pass exact=pass judge=unknown]"}, "judge 4"},
		{"a group in a group", "check: [{any: [{all: [{verifier: exact}, {verifier: contains, text: 4}]}, " + judge + "]}]", "fail",
			[]string{"4", "5"}, []string{"pass + [any=pass all=pass exact=pass contains=pass]", "fail verdict:fail [any=fail all=fail exact=fail contains=fail judge=fail]"}, "judge 5"},
		{"a condition on the verdict", "check: [{verifier: math}, {verifier: judge, teacher: j, rubric: Is it right, when: verdict == \"unknown\"}]\nmerge: {accept: pass_or_unknown}", "pass 5",
			[]string{"4", "who knows"}, []string{"pass + [math=pass]", "unknown 5 + [math=unknown judge=pass]"}, "judge who knows"},
		{"one judge spares another", "check: [{any: [" + reward + ", " + judge + "]}]", "pass 5",
			[]string{"x"}, []string{"pass 0.9 + [any=pass reward=pass]"}, "reward x"},
		{"a late filter", "check: [{verifier: exact}]\nmerge: {accept: any}\nfilter: [finish, {expr: 'verdict != \"fail\"'}]", "",
			[]string{"4", "5"}, []string{"pass + [exact=pass]", "fail expr [exact=fail]"}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			heard := &heardOf{says: map[string]string{"judge": tc.judge, "reward": "pass 0.9"}}
			r := stages(t, strings.ReplaceAll(tc.check, "text: 4", "text: \"4\""), "4", heard, tc.answers...)
			for i := range r.Candidates {
				if got := outcomeText(&r.Candidates[i]); got != tc.want[i] {
					t.Errorf("%s: %s, want %s", tc.answers[i], got, tc.want[i])
				}
			}
			if got := strings.Join(heard.asked, ", "); got != tc.asked {
				t.Errorf("asked %q, want %q", got, tc.asked)
			}
		})
	}
}

// Without anybody to ask, paid verifiers are left out: a sample passes by what
// is free.
func TestPaidVerifiersAreLeftOutWhereNobodyIsAsked(t *testing.T) {
	r := stages(t, "check: [{verifier: exact}, {any: [{verifier: contains, text: z}, {verifier: judge, teacher: j, rubric: Is it right}]}, {all: [{verifier: judge, teacher: j, rubric: Is it}]}]", "4", nil, "4")
	if got := outcomeText(&r.Candidates[0]); got != "fail verdict:fail [exact=pass any=fail contains=fail]" {
		t.Error(got)
	}
	r = stages(t, "check: [{verifier: judge, teacher: j, rubric: Is it right}]", "4", nil, "4")
	if c := &r.Candidates[0]; c.Verdict != nil || c.Verdicts != nil {
		t.Error(outcomeText(c))
	}
}

// Judging does not depend on which candidates are judged together.
func TestJudgingIsOneCandidateAtATime(t *testing.T) {
	const check = "check: [{first: [{verifier: math}, {verifier: judge, teacher: j, rubric: Is it right}]}]\nmerge: {policy: union}"
	answers := []string{"4", "5", "who knows", "cut:4", "!timeout", ""}
	says := map[string]string{"judge": "pass 5"}
	together := stages(t, check, "4", &heardOf{says: says}, answers...)
	for i, a := range answers {
		alone := stages(t, check, "4", &heardOf{says: says}, a)
		if got, want := outcomeText(&alone.Candidates[0]), outcomeText(&together.Candidates[i]); got != want {
			t.Errorf("%q alone: %s, together %s", a, got, want)
		}
	}
	turned := slices.Clone(answers)
	slices.Reverse(turned)
	again := stages(t, check, "4", &heardOf{says: says}, turned...)
	for i := range answers {
		if got, want := outcomeText(&again.Candidates[len(answers)-1-i]), outcomeText(&together.Candidates[i]); got != want {
			t.Errorf("%q in another order: %s, want %s", answers[i], got, want)
		}
	}
}

// The measures of a build's answers leave its judges those of the plan: one that
// is asked anew is asked anew.
func TestMeasuresLeaveJudgesAsTheyAre(t *testing.T) {
	rt, err := newRuntime(parsed(t, `name: d
prompts: [{path: p.jsonl}]
teachers: [{id: a, model: m, base_url: http://localhost/v1}, {id: j, model: n, base_url: http://localhost/v1, identity: j}]
check: [{verifier: judge, teacher: j, rubric: x}]
filter: [{length: {max_ratio: 4}}]
merge: {policy: pairwise, judge: {teacher: j, rubric: y}}
`), &Sources{})
	if err != nil {
		t.Fatal(err)
	}
	if rt, err = rt.with(map[string]Anew{"j": {Refresh: 2, Asked: true}}); err != nil {
		t.Fatal(err)
	}
	with, err := rt.withStats(&filter.Stats{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range []*paidCheck{with.paid[0], with.pairJudge} {
		if p.base.anew.Refresh != 2 || p.base != with.teachers["j"] {
			t.Errorf("%s is asked in refresh %d", p.Verifier, p.base.anew.Refresh)
		}
	}
}
