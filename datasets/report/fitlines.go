package report

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// fitNote says what student fit is, and what it is not.
const fitNote = "Student fit is the mean negative log-likelihood per token, in nats, of a teacher's accepted answers under the student before it is trained: the lower, the closer an answer is to what the student could say itself. The strongest teacher is not always the best one to learn from: of OpenThoughts' teachers the weaker QwQ-32B made better students than the stronger R1 (Guha et al. 2025, arXiv:2506.04178), and a stronger teacher of another distribution raised a student's divergence fivefold before it learned (arXiv:2606.30406). It is a hint and no proof, which is a student trained on each: very likely answers teach little, and length, language and format move the figure as much as difficulty does. Compare teachers on their common tasks."

// fitRows are the teachers' fit as rows of a table, below its head.
func (f *StudentFit) fitRows() [][]string {
	rows := [][]string{{"domain", "effort", "teacher", "tasks", "answers", "tokens", "nll per token", "95 %", "perplexity"}}
	for i := range f.Scopes {
		s := &f.Scopes[i]
		if i > 0 && len(f.Scopes) == 2 {
			break // one domain at one effort is all tasks
		}
		domain, effort := name(s.Domain), name(s.Effort)
		if i == 0 {
			domain, effort = "all", ""
		}
		for _, t := range s.Teachers {
			row := []string{domain, effort, name(t.Teacher), grouped(t.Tasks), grouped(t.Answers), grouped(t.Tokens), "-", "-", "-"}
			if t.NLL != nil {
				row[6], row[7] = nats(t.NLL.Value), nats(t.NLL.Low)+"-"+nats(t.NLL.High)
			}
			if t.Perplexity != nil {
				row[8] = fmt.Sprintf("%.2f", *t.Perplexity)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

func nats(v float64) string { return fmt.Sprintf("%.3f", v) }

// lines say what the rows do not: who is closer than whom, and what is unknown.
func (f *StudentFit) lines() []string {
	out := []string{fmt.Sprintf("Scored by %s, from %s.", name(f.Student), shortened(f.From, mostConditions))}
	told := 0
	for i := range f.Scopes {
		s := &f.Scopes[i]
		where := "Over all tasks"
		if i > 0 {
			if len(f.Scopes) == 2 {
				break
			}
			where = fmt.Sprintf("In %s at %s", name(s.Domain), name(s.Effort))
		}
		for j := range s.Pairs {
			p := &s.Pairs[j]
			if i > 0 && p.Finding != FavoursA && p.Finding != FavoursB {
				continue
			}
			if told++; told > shownPairs {
				continue
			}
			out = append(out, where+": "+p.line())
		}
	}
	if told > shownPairs {
		out = append(out, fmt.Sprintf("And %d more pairs: the report's JSON has all.", told-shownPairs))
	}
	for _, why := range slices.Sorted(maps.Keys(f.Unknown)) {
		out = append(out, fmt.Sprintf("%s answers could not be scored: %s.", grouped(f.Unknown[why]), shortened(why, 200)))
	}
	return out
}

func (p *FitPair) line() string {
	a, b := name(p.A), name(p.B)
	if p.Finding == NotComparable {
		return fmt.Sprintf("%s and %s are not comparable: answers of both were scored on %s common tasks.", a, b, grouped(p.Common))
	}
	d := p.Difference
	figures := fmt.Sprintf("%+.3f nats a token (%+.3f to %+.3f) on %s common tasks, p %s, after Holm's adjustment %s", d.Value, d.Low, d.High, grouped(p.Common), pValue(p.P), pValue(p.PHolm))
	switch p.Finding {
	case FavoursA:
		return fmt.Sprintf("%s is closer to the student than %s: %s.", a, b, figures)
	case FavoursB:
		return fmt.Sprintf("%s is closer to the student than %s: %s minus %s is %s.", b, a, a, b, figures)
	}
	return fmt.Sprintf("no difference shown between %s and %s: %s.", a, b, figures)
}

// notes are nil where there is no student.
func (f *StudentFit) notes() []string {
	if f == nil {
		return nil
	}
	return []string{fitNote}
}

// fitLines writes the student's word for a terminal.
func (r *Report) fitLines(w io.Writer, width int) error {
	if r.StudentFit == nil {
		return nil
	}
	if _, err := io.WriteString(w, "\nstudent fit\n"); err != nil {
		return err
	}
	if err := writeTable(w, r.StudentFit.fitRows(), 3, []int{5, 4, 8, 1}, width); err != nil {
		return err
	}
	return lines(w, r.StudentFit.lines(), width)
}

// fitTable is the page's.
func (r *Report) fitTable() ([][]string, []string) {
	if r.StudentFit == nil {
		return nil, nil
	}
	return r.StudentFit.fitRows(), r.StudentFit.lines()
}

// fitOf is a teacher's fit in a domain at an effort, "" and "" over all, as a
// cell of the tables of teachers.
func (f *StudentFit) fitOf(teacher, domain, effort string) string {
	for i := range f.Scopes {
		s := &f.Scopes[i]
		if s.Domain != domain || s.Effort != effort || i == 0 && (domain != "" || effort != "") {
			continue
		}
		for _, t := range s.Teachers {
			if t.Teacher == teacher && t.NLL != nil {
				return nats(t.NLL.Value)
			}
		}
	}
	return "-"
}

// withFit adds the column of student fit to a table of teachers, or of cells
// where domain and effort are its first two columns.
func (r *Report) withFit(rows [][]string, cells []Cell) [][]string {
	if r.StudentFit == nil {
		return rows
	}
	rows[0] = append(rows[0], "nll")
	for i := range rows[1:] {
		if cells == nil {
			rows[i+1] = append(rows[i+1], r.StudentFit.fitOf(r.Teachers[i].Teacher, "", ""))
		} else {
			rows[i+1] = append(rows[i+1], r.StudentFit.fitOf(cells[i].Teacher, cells[i].Domain, cells[i].Effort))
		}
	}
	return rows
}
