package report

import (
	"fmt"
	"strconv"
	"strings"
)

// Why a teacher is recommended.
const (
	RecommendLead      = "lead"      // leads that survive the adjustment set it above every other
	RecommendCheapest  = "tie"       // no lead is shown among the best: the cheapest of them
	RecommendUndecided = "undecided" // too few tasks to say anything
)

// MinRecommended is how many tasks each of two teachers must have been asked
// before a tie between them is called one: fewer could not have shown a
// difference of a quarter, and the cheapest would win for want of evidence.
const MinRecommended = 30

// A Recommendation is which teacher to route a domain and an effort to.
type Recommendation struct {
	Domain  string   `json:"domain"`
	Effort  string   `json:"effort"`
	Tasks   int64    `json:"tasks" jsonschema:"description=that any two of the teachers were asked both; the fewest over the pairs"`
	Why     string   `json:"why" jsonschema:"description=lead or tie or undecided"`
	Teacher string   `json:"teacher,omitempty" jsonschema:"description=absent where undecided"`
	Tied    []string `json:"tied,omitempty" jsonschema:"description=teachers among which no lead is shown; best rate first is not implied"`
	Shows   *float64 `json:"shows,omitempty" jsonschema:"description=smallest difference that this sample could have shown between any two of them; the largest over the pairs"`
}

// Recommend gives one recommendation a domain and effort. A teacher is in the
// running unless another one leads it; one that leads all others, itself or
// through those that it leads, is recommended for its lead, and else the cheapest by what an accepted
// row of it costs in the scope. Without prices a tie is undecided too.
func (c *Comparison) Recommend() []Recommendation {
	if c == nil {
		return nil
	}
	var out []Recommendation
	for i := range c.Scopes[1:] {
		out = append(out, c.Scopes[i+1].recommend())
	}
	return out
}

func (s *Scope) recommend() Recommendation {
	r := Recommendation{Domain: s.Domain, Effort: s.Effort, Why: RecommendUndecided}
	beaten, leads, incomparable := map[string]bool{}, map[string][]string{}, false
	for i := range s.Pairs {
		v := &s.Pairs[i]
		switch v.Finding {
		case FavoursA:
			beaten[v.B], leads[v.A] = true, append(leads[v.A], v.B)
		case FavoursB:
			beaten[v.A], leads[v.B] = true, append(leads[v.B], v.A)
		case NotComparable:
			incomparable = true
		}
		if i == 0 || v.Common < r.Tasks {
			r.Tasks = v.Common
		}
		if v.Detectable != nil && (r.Shows == nil || *v.Detectable > *r.Shows) {
			r.Shows = v.Detectable
		}
	}
	var best *Standing
	priced := true
	for i := range s.Teachers {
		t := &s.Teachers[i]
		if len(s.Pairs) == 0 {
			r.Tasks = t.Tasks
		}
		if beaten[t.Teacher] {
			continue
		}
		r.Tied = append(r.Tied, t.Teacher)
		if t.USDPerAccepted == nil {
			priced = false
		} else if best == nil || t.USDPerAccepted.Value < best.USDPerAccepted.Value {
			best = t
		}
	}
	switch {
	case incomparable || len(r.Tied) == 0:
	case len(r.Tied) == 1 && len(s.Teachers) > 1:
		if above(leads, r.Tied[0]) < len(s.Teachers)-1 {
			break // others lead each other in a circle, as on unlike tasks they can
		}
		r.Why, r.Teacher, r.Tied = RecommendLead, r.Tied[0], nil
	case r.Tasks >= MinRecommended && priced && best != nil:
		r.Why, r.Teacher = RecommendCheapest, best.Teacher
	}
	return r
}

// above is how many teachers one leads, itself or through those that it leads.
func above(leads map[string][]string, teacher string) int {
	seen, queue := map[string]bool{teacher: true}, []string{teacher}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, other := range leads[queue[0]] {
			if !seen[other] {
				seen[other] = true
				queue = append(queue, other)
			}
		}
	}
	return len(seen) - 1
}

// RecipeLines are the recommendations as a route of a recipe: a rule for each
// domain and effort that one teacher gets, and a last one by which all teachers
// get what is left. What is undecided stands as a comment. They are empty where
// nothing is decided.
func RecipeLines(list []Recommendation, teachers []string) string {
	var rules, open strings.Builder
	for _, r := range list {
		switch r.Why {
		case RecommendUndecided:
			why := "too few tasks"
			if r.Tasks >= MinRecommended {
				why = "no price decides, or leads do not set one above the others"
			}
			fmt.Fprintf(&open, "# undecided: %s at %s (%d tasks: %s)\n", yamlComment(r.Domain), yamlComment(r.Effort), r.Tasks, why)
		default:
			when := fmt.Sprintf("domain == %s and effort == %s", strconv.Quote(r.Domain), strconv.Quote(r.Effort))
			fmt.Fprintf(&rules, "      - {when: %s, teachers: [%s]}  # %s\n", yamlText(when), yamlText(r.Teacher), r.note())
		}
	}
	if rules.Len() == 0 {
		return open.String()
	}
	quoted := make([]string, len(teachers))
	for i, id := range teachers {
		quoted[i] = yamlText(id)
	}
	return open.String() + "ask:\n  route:\n    rules:\n" + rules.String() +
		fmt.Sprintf("      - {teachers: [%s]}  # what is left\n", strings.Join(quoted, ", "))
}

// note says why a teacher is recommended.
func (r *Recommendation) note() string {
	if r.Why != RecommendCheapest {
		return "its lead survives Holm's adjustment"
	}
	var others []string
	for _, t := range r.Tied {
		if t != r.Teacher {
			others = append(others, yamlComment(t))
		}
	}
	if len(others) == 0 {
		return "tie: cheapest"
	}
	return "tie: cheapest, no difference shown to " + strings.Join(others, ", ")
}

// yamlText is a text that YAML reads back as it is: in single quotes, or, where
// a terminal must not see it, in double quotes with escapes, which YAML shares
// with Go.
func yamlText(s string) string {
	if clean(s) != s {
		return strconv.QuoteToASCII(s)
	}
	return "'" + strings.ReplaceAll(s, "'", "''") + "'"
}

// yamlComment is a name within a comment: on one line.
func yamlComment(s string) string { return name(s) }
