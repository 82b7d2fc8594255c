package report

import (
	"fmt"
	"io"
	"math"
	"strings"
)

// shownPairs bounds the pairs that a terminal shows.
const shownPairs = 45

// alarmLines writes what no reader should miss.
func (r *Report) alarmLines(w io.Writer, width int) error {
	var b strings.Builder
	for i := range r.Teachers {
		for _, note := range styleNotes(&r.Teachers[i]) {
			b.WriteString("\n" + wrapped(note, width) + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// comparisonLines writes, for a terminal, the pairs over all tasks, where one
// teacher leads in a domain, and what the teachers solve between them.
func (r *Report) comparisonLines(w io.Writer, width int) error {
	if r.Comparison == nil || len(r.Comparison.Scopes[0].Pairs) == 0 {
		return nil
	}
	s := &r.Comparison.Scopes[0]
	rows := [][]string{{"a", "b", "common", "a - b", "95 %", "p", "p (Holm)", "shows from", "finding"}}
	apart, more := 0, 0
	for i := range s.Pairs {
		switch {
		case s.Pairs[i].Finding == NotComparable:
			apart++ // one line says it of all of them
		case len(rows) > shownPairs:
			more++
		default:
			rows = append(rows, pairCells(&s.Pairs[i]))
		}
	}
	if _, err := io.WriteString(w, "\nagainst each other, in points, on the tasks that both were asked at first hand\n"); err != nil {
		return err
	}
	if len(rows) > 1 {
		if err := writeTable(w, rows, 2, []int{5, 7, 4, 2}, width); err != nil {
			return err
		}
	}
	var b strings.Builder
	if apart > 0 {
		b.WriteString(wrapped(apartText(apart), width) + "\n")
	}
	if more > 0 {
		fmt.Fprintf(&b, "and %d more pairs: the report's JSON has all\n", more)
	}
	for _, one := range r.Comparison.shown()[1:] {
		if line := one.leads(); line != "" {
			b.WriteString(wrapped(line, width) + "\n")
		}
	}
	if line := s.Together.Line(); line != "" {
		b.WriteString("\n" + wrapped(line, width) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// pairCells is a pair as a row of a table, in points.
func pairCells(v *Versus) []string {
	row := []string{name(v.A), name(v.B), grouped(v.Common), "-", "-", "-", "-", "-", v.words()}
	if v.Difference != nil {
		row[3] = points(v.Difference.Value)
		row[4] = points(v.Difference.Low) + " to " + points(v.Difference.High)
		row[5], row[6] = pValue(v.P), pValue(v.PHolm)
	}
	if v.Detectable != nil {
		row[7] = fmt.Sprintf("%.1f", 100**v.Detectable)
	}
	return row
}

// words are the finding in words.
func (v *Versus) words() string {
	switch v.Finding {
	case FavoursA:
		return "a leads"
	case FavoursB:
		return "b leads"
	case NoneShown:
		return "no difference shown"
	}
	return "not comparable"
}

// leads lists who leads whom in a scope, "" where nobody does.
func (s *Scope) leads() string {
	var list []string
	for i := range s.Pairs {
		switch v := &s.Pairs[i]; v.Finding {
		case FavoursA:
			list = append(list, fmt.Sprintf("%s leads %s by %s", name(v.A), name(v.B), points(v.Difference.Value)))
		case FavoursB:
			list = append(list, fmt.Sprintf("%s leads %s by %s", name(v.B), name(v.A), points(-v.Difference.Value)))
		}
	}
	if len(list) == 0 {
		return ""
	}
	return fmt.Sprintf("%s at %s: %s", name(s.Domain), name(s.Effort), strings.Join(list, ", "))
}

// Line says what the teachers solve between them.
func (t *Together) Line() string {
	if t == nil || t.Union == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Together they solve %s of the %s tasks that all were asked (%s %%); alone", grouped(t.Union), grouped(t.Tasks), percent(float64(t.Union)/float64(t.Tasks)))
	for i, v := range t.Values {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " %s %s (of them %s that no other does)", name(v.Teacher), grouped(v.Solved), grouped(v.Unique))
	}
	b.WriteString(".")
	if c := t.Cheapest; c != nil {
		ids := make([]string, len(c.Teachers))
		for i, id := range c.Teachers {
			ids[i] = name(id)
		}
		fmt.Fprintf(&b, " The cheapest that keep %g %% of that: %s, for $%.2f.", 100*keptShare, strings.Join(ids, ", "), c.USD)
	}
	return b.String()
}

// preferenceRows are a judge's matches as rows of a table.
func preferenceRows(j *JudgePreferences) [][]string {
	rows := [][]string{{"teacher", "against", "comparisons", "win %", "error", "wins", "losses", "draws", "at equal length"}}
	for _, m := range j.Matches {
		se, controlled := "-", "-"
		if m.StandardError != nil {
			se = percent(*m.StandardError)
		}
		if c := m.Controlled; c != nil {
			controlled = percent(c.Value) + " (" + percent(c.Low) + "-" + percent(c.High) + ")"
		}
		rows = append(rows, []string{name(m.Teacher), name(m.Against), grouped(m.Comparisons), percent(m.WinRate), se, grouped(m.Wins), grouped(m.Losses), grouped(m.Draws), controlled})
	}
	return rows
}

// Lines say what the matches do not: ratings, flips, family.
func (j *JudgePreferences) Lines() []string {
	var out []string
	out = append(out, j.ratingLines()...)
	if j.Flipped != nil {
		out = append(out, fmt.Sprintf("In %s %% of the comparisons the outcome was another once the answers changed places.", percent(*j.Flipped)))
	}
	if j.SameFamily > 0 {
		out = append(out, fmt.Sprintf("WARNING: %s of %s comparisons are of an answer by a model of the judge's own family, which judges tend to prefer.", grouped(j.SameFamily), grouped(j.Comparisons)))
	}
	return out
}

// Line says how far two judges agree.
func (g *JudgeAgreement) Line() string {
	kappa := "undefined"
	if g.Cohen != nil {
		kappa = fmt.Sprintf("%.3f", *g.Cohen)
	}
	return fmt.Sprintf("%s and %s agree in %s %% of %s comparisons (Cohen's kappa %s).", name(g.A), name(g.B), percent(g.Agreed), grouped(g.Comparisons), kappa)
}

// together says how far all of them agree, "" for one.
func (p *Preferences) together() string {
	if p.Alpha == nil && p.Fleiss == nil {
		return ""
	}
	var words []string
	if p.Fleiss != nil {
		words = append(words, fmt.Sprintf("Fleiss' kappa %.3f", *p.Fleiss))
	}
	if p.Alpha != nil {
		words = append(words, fmt.Sprintf("Krippendorff's alpha %.3f", *p.Alpha))
	}
	return "All judges: " + strings.Join(words, ", ") + "."
}

// AgreementLines say how far judges agree with each other and the verifier.
func (p *Preferences) AgreementLines() []string {
	var out []string
	for i := range p.Agreement {
		out = append(out, p.Agreement[i].Line())
	}
	if line := p.together(); line != "" {
		out = append(out, line)
	}
	return out
}

// preferenceLines writes what judges prefer, for a terminal.
func (r *Report) preferenceLines(w io.Writer, width int) error {
	if r.Preferences == nil {
		return nil
	}
	for i := range r.Preferences.Judges {
		j := &r.Preferences.Judges[i]
		if _, err := fmt.Fprintf(w, "\nwhat %s prefers, in %s comparisons\n", name(j.Judge), grouped(j.Comparisons)); err != nil {
			return err
		}
		if err := writeTable(w, preferenceRows(j), 2, []int{8, 4, 7, 6, 5}, width); err != nil {
			return err
		}
		if err := lines(w, j.Lines(), width); err != nil {
			return err
		}
	}
	return lines(w, r.Preferences.AgreementLines(), width)
}

func lines(w io.Writer, list []string, width int) error {
	for _, line := range list {
		if _, err := io.WriteString(w, wrapped(line, width)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// points is a difference of rates in percentage points, with its sign.
func points(d float64) string {
	if s := fmt.Sprintf("%+.1f", 100*d); s != "-0.0" {
		return s
	}
	return "+0.0"
}

// pValue is a p value to two digits.
func pValue(p *float64) string {
	switch {
	case p == nil || math.IsNaN(*p):
		return "-"
	case *p < 0.001:
		return fmt.Sprintf("%.1e", *p)
	}
	return fmt.Sprintf("%.3f", *p)
}
