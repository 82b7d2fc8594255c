package report

import (
	"strings"
	"testing"
)

func rows(n int, task string) []string {
	var out []string
	for range n {
		out = append(out, task)
	}
	return out
}

func TestRecommend(t *testing.T) {
	var tasks []string
	tasks = append(tasks, rows(40, "math:p f f")...)                                    // a leads both
	tasks = append(tasks, append(rows(20, "code:p f f"), rows(20, "code:f p f")...)...) // a and b tie, c is behind
	tasks = append(tasks, rows(3, "chat:p f f")...)                                     // too few
	tasks = append(tasks, rows(40, "solo:p - -")...)                                    // one teacher alone
	r := fed(3, tasks...)
	got := map[string]Recommendation{}
	for _, one := range r.Comparison.Recommend() {
		got[one.Domain] = one
	}
	if m := got["math"]; m.Why != RecommendLead || m.Teacher != "a" {
		t.Errorf("math: %+v", m)
	}
	if m := got["code"]; m.Why != RecommendCheapest || m.Teacher != "a" || len(m.Tied) != 2 || m.Shows == nil {
		t.Errorf("code: %+v, want a tie of a and b", m)
	}
	if m := got["chat"]; m.Why != RecommendUndecided || m.Teacher != "" {
		t.Errorf("chat: %+v, want undecided", m)
	}
	if m := got["solo"]; m.Teacher != "a" || m.Why != RecommendCheapest {
		t.Errorf("solo: %+v", m)
	}
	lines := RecipeLines(r.Comparison.Recommend(), []string{"a", "b", "c"})
	for _, want := range []string{"ask:\n  route:\n    rules:\n", `- {when: 'domain == "math" and effort == "x"', teachers: ['a']}  # its lead survives`, "- {teachers: ['a', 'b', 'c']}  # what is left\n", "tie: cheapest, no difference shown to b", "# undecided: chat at x (3 tasks: too few tasks)"} {
		if !strings.Contains(lines, want) {
			t.Errorf("lines lack %q:\n%s", want, lines)
		}
	}
}

// TestRecipeLinesOfHostileNames: a domain comes from data, and must not become
// another key.
func TestRecipeLinesOfHostileNames(t *testing.T) {
	lines := RecipeLines([]Recommendation{
		{Domain: "x'}\n- api_key_env: HOME", Effort: "y", Why: RecommendLead, Teacher: "a\nb: c"},
		{Domain: "a\nb: c", Effort: "y", Why: RecommendUndecided},
	}, []string{"a\nb: c"})
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, "b:") || strings.HasPrefix(line, "- api") {
			t.Errorf("a name became a line of its own:\n%s", lines)
		}
	}
	if !strings.Contains(lines, `"x''}\n- api_key_env: HOME"`) {
		t.Errorf("the domain is not quoted:\n%s", lines)
	}
}

// TestRecommendOnUnlikeTasks: teachers that lead each other in a circle, each
// pair on tasks of its own, leave no leader; and few common tasks are no tie.
func TestRecommendOnUnlikeTasks(t *testing.T) {
	price := &Estimate{Value: 1}
	standing := []Standing{{Teacher: "a", Tasks: 100, USDPerAccepted: price}, {Teacher: "b", Tasks: 100, USDPerAccepted: price}, {Teacher: "c", Tasks: 100, USDPerAccepted: price}, {Teacher: "d", Tasks: 100, USDPerAccepted: price}}
	pair := func(a, b, finding string) Versus { return Versus{A: a, B: b, Common: 40, Finding: finding} }
	circle := Scope{Teachers: standing, Pairs: []Versus{
		pair("a", "b", FavoursA), pair("b", "c", FavoursA), pair("a", "c", FavoursB),
		pair("a", "d", NoneShown), pair("b", "d", NoneShown), pair("c", "d", NoneShown),
	}}
	if r := circle.recommend(); r.Why != RecommendUndecided || r.Teacher != "" {
		t.Errorf("%+v from a circle, want undecided", r)
	}
	chain := Scope{Teachers: standing[:3], Pairs: []Versus{pair("a", "b", FavoursA), pair("a", "c", NoneShown), pair("b", "c", FavoursA)}}
	if r := chain.recommend(); r.Why != RecommendLead || r.Teacher != "a" {
		t.Errorf("%+v from a chain, want a", r)
	}
	few := Scope{Teachers: standing[:2], Pairs: []Versus{{A: "a", B: "b", Common: 5, Finding: NoneShown}}}
	if r := few.recommend(); r.Why != RecommendUndecided || r.Tasks != 5 {
		t.Errorf("%+v of five common tasks, want undecided", r)
	}
}

func TestRecipeLinesOfUnprintableNames(t *testing.T) {
	lines := RecipeLines([]Recommendation{{Domain: "a\x1b[2J\u202e", Effort: "y", Why: RecommendLead, Teacher: "t"}}, nil)
	if !strings.Contains(lines, `{when: 'domain == "a\x1b[2J\u202e" and effort == "y"', teachers`) {
		t.Errorf("the domain does not come back as it was:\n%s", lines)
	}
}
