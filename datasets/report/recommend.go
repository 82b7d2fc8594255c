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

// RecipeLines are the recommendations as lines of a recipe: serves of each
// teacher, to be put under its entry. What is undecided stands as a comment.
func RecipeLines(list []Recommendation) string {
	var b strings.Builder
	by := map[string][]Recommendation{}
	var order []string
	for _, r := range list {
		if r.Why == RecommendUndecided {
			why := "too few tasks"
			if r.Tasks >= MinRecommended {
				why = "no price decides, or leads do not set one above the others"
			}
			fmt.Fprintf(&b, "# undecided: %s at %s (%d tasks: %s)\n", yamlComment(r.Domain), yamlComment(r.Effort), r.Tasks, why)
			continue
		}
		if by[r.Teacher] == nil {
			order = append(order, r.Teacher)
		}
		by[r.Teacher] = append(by[r.Teacher], r)
	}
	for _, id := range order {
		fmt.Fprintf(&b, "# under the teacher %s:\nserves:\n", yamlComment(id))
		for _, r := range by[id] {
			note := "its lead survives Holm's adjustment"
			if r.Why == RecommendCheapest {
				others := make([]string, 0, len(r.Tied))
				for _, t := range r.Tied {
					if t != id {
						others = append(others, yamlComment(t))
					}
				}
				note = "tie: cheapest"
				if len(others) > 0 {
					note += ", no difference shown to " + strings.Join(others, ", ")
				}
			}
			fmt.Fprintf(&b, "  - {domain: %s, effort: [%s]}  # %s\n", yamlText(r.Domain), yamlText(r.Effort), note)
		}
	}
	return b.String()
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
