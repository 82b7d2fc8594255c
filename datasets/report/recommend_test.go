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
	lines := RecipeLines(r.Comparison.Recommend())
	for _, want := range []string{"# under the teacher a:\nserves:\n", "- {domain: 'math', effort: ['x']}  # its lead survives", "tie: cheapest, no difference shown to b", "# undecided: chat at x (3 tasks: too few tasks)"} {
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
	})
	for line := range strings.Lines(lines) {
		if strings.HasPrefix(line, "b:") || strings.HasPrefix(line, "- api") {
			t.Errorf("a name became a line of its own:\n%s", lines)
		}
	}
	if !strings.Contains(lines, "'x''}- api_key_env: HOME'") {
		t.Errorf("the domain is not quoted:\n%s", lines)
	}
}
