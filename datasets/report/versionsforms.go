package report

import (
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"
)

// letter is the short name of a version in a narrow table.
func letter(i int) string { return string(rune('A' + i)) }

// short gives the short names of all versions.
func (r *Versions) short() map[string]string {
	out := map[string]string{}
	for i := range r.Versions {
		out[r.Versions[i].Ref] = letter(i)
	}
	return out
}

// full gives every version its own name.
func (r *Versions) full() map[string]string {
	out := map[string]string{}
	for i := range r.Versions {
		out[r.Versions[i].Ref] = clean(r.Versions[i].Ref)
	}
	return out
}

// figuresRows are the teachers' figures of all versions, those of one teacher
// beside each other; the first row is the head.
func (r *Versions) figuresRows(named map[string]string) [][]string {
	rows := [][]string{{"teacher", "version", "asks", "answers", "pass %", "95 %", "unknown", "accepted", "cost $", "$/accepted", "p50", "p95", "tokens", "cached %"}}
	seen := map[string]bool{}
	for i := range r.Versions {
		for k := range r.Versions[i].Teachers {
			id := r.Versions[i].Teachers[k].Teacher
			if seen[id] {
				continue
			}
			seen[id] = true
			for j := range r.Versions {
				for n := range r.Versions[j].Teachers {
					if t := &r.Versions[j].Teachers[n]; t.Teacher == id {
						rows = append(rows, append([]string{name(id), named[r.Versions[j].Ref]}, cellsOf(&t.Figures)...))
					}
				}
			}
		}
	}
	return rows
}

// conditionLines are what the costs and durations of the versions are of; nil
// where none has costs.
func (r *Versions) conditionLines(named map[string]string) []string {
	var out []string
	for i := range r.Versions {
		if v := &r.Versions[i]; cost(v.Teachers) {
			for _, line := range v.Conditions.lines() {
				out = append(out, named[v.Ref]+": "+line)
			}
		}
	}
	if out == nil {
		return nil
	}
	return append(out, accounting)
}

// sameRows are one teacher in two versions; what changed, later minus earlier.
func (r *Versions) sameRows(named map[string]string) [][]string {
	rows := [][]string{{"teacher", "versions", "finding", "common", "anew", "change", "95 %", "p (Holm)", "length", "p (Holm)", "reasoning", "p (Holm)"}}
	for i := range r.Same {
		x := &r.Same[i]
		row := []string{name(x.ATeacher), named[x.AVersion] + " → " + named[x.BVersion], x.change(), grouped(x.Common), grouped(x.Common - x.Reused), "-", "-", "-", "-", "-", "-", "-"}
		if d := x.Difference; d != nil {
			row[5], row[6], row[7] = points(-d.Value), points(-d.High)+" to "+points(-d.Low), pValue(x.PHolm)
		}
		row[8], row[9] = x.Length.cells()
		row[10], row[11] = x.Reasoning.cells()
		rows = append(rows, row)
	}
	return rows
}

func (s *LengthShift) cells() (means, p string) {
	if s == nil {
		return "-", "-"
	}
	return fmt.Sprintf("%.0f → %.0f", s.A, s.B), pValue(adjustedOr(s.PHolm, &s.P))
}

// change says what the tests of one teacher in two versions show.
func (x *Across) change() string {
	var words string
	switch x.Finding {
	case FavoursA:
		words = "passes less"
	case FavoursB:
		words = "passes more"
	case NotComparable:
		words = "not comparable"
	default:
		words = "no difference shown"
	}
	for _, s := range []struct {
		of   *LengthShift
		what string
	}{{x.Length, "answers"}, {x.Reasoning, "reasoning"}} {
		if s.of == nil || s.of.PHolm == nil || *s.of.PHolm >= compareLevel {
			continue
		}
		way := "shorter"
		if s.of.Longer > s.of.Shorter {
			way = "longer"
		}
		words += ", " + way + " " + s.what
	}
	return words
}

// differentRows are different teachers of different versions that have common
// prompts, and how many pairs have none.
func (r *Versions) differentRows(named map[string]string) (rows [][]string, apart int) {
	rows = [][]string{{"a", "b", "finding", "common prompts", "a - b", "95 %", "p", "p (Holm)", "shows from"}}
	for i := range r.Different {
		x := &r.Different[i]
		if x.Finding == NotComparable {
			apart++
			continue
		}
		row := pairCells(&x.Versus)
		row = slices.Insert(row[:8:8], 2, row[8])
		row[0], row[1] = name(x.ATeacher)+" "+named[x.AVersion], name(x.BTeacher)+" "+named[x.BVersion]
		rows = append(rows, row)
	}
	return rows, apart
}

// nameLines tell what answered the tasks that were asked anew, where it is not
// the same in both versions.
func (r *Versions) nameLines(named map[string]string) []string {
	var out []string
	for i := range r.Same {
		x := &r.Same[i]
		who := fmt.Sprintf("%s, %s → %s: ", name(x.ATeacher), named[x.AVersion], named[x.BVersion])
		if x.AModel != x.BModel {
			out = append(out, fmt.Sprintf("%sthe model asked is %s, and was %s: the name is the same, the teacher is another.", who, name(x.BModel), name(x.AModel)))
		}
		for _, n := range x.Models {
			if n.Before != n.Now {
				out = append(out, fmt.Sprintf("%s%s tasks are answered by model %s, before by %s.", who, grouped(n.Pairs), name(n.Now), name(n.Before)))
			}
		}
		if n, of := changedNames(x.Systems); n > 0 {
			out = append(out, fmt.Sprintf("%sanother system fingerprint in %s of %s tasks; endpoints change theirs with every restart.", who, grouped(n), grouped(of)))
		}
	}
	return out
}

// apartLine says which pairs cannot be compared.
func apartLine(apart int) string {
	if apart == 0 {
		return ""
	}
	return fmt.Sprintf("%d pairs of different teachers are not comparable: they have no common prompts that were judged.", apart)
}

// Table writes the comparison for a terminal of width columns.
func (r *Versions) Table(w io.Writer, width int) error {
	named := r.short()
	for i := range r.Versions {
		v := &r.Versions[i]
		if _, err := fmt.Fprintf(w, "%s  %s, published %s, %s tasks\n", letter(i), name(v.Ref), v.Published.Format(time.DateOnly), grouped(v.Tasks)); err != nil {
			return err
		}
	}
	section := func(title string, rows [][]string, left int, spare []int) error {
		if len(rows) < 2 {
			return nil
		}
		if _, err := io.WriteString(w, "\n"+wrapped(title, width)+"\n"); err != nil {
			return err
		}
		return writeTable(w, rows, left, spare, width)
	}
	if err := section("what each version's own comparison says", r.figuresRows(named), 2, []int{12, 11, 10, 6, 3, 13, 9, 8, 5}); err != nil {
		return err
	}
	if err := lines(w, r.conditionLines(named), width); err != nil {
		return err
	}
	if err := section("one teacher in two versions, in points, on the tasks that it was asked at first hand in both; anew: tasks that do not have the same answer in both", r.sameRows(named), 3, []int{11, 9, 10, 6, 8, 7}); err != nil {
		return err
	}
	if err := lines(w, r.nameLines(named), width); err != nil {
		return err
	}
	rows, apart := r.differentRows(named)
	more := max(0, len(rows)-1-shownPairs)
	if err := section("different teachers, in points, on the prompts that both were asked at first hand", rows[:len(rows)-more], 3, []int{6, 8, 5, 3}); err != nil {
		return err
	}
	var rest []string
	if more > 0 {
		rest = append(rest, fmt.Sprintf("and %d more pairs: the report's JSON has all", more))
	}
	if line := apartLine(apart); line != "" {
		rest = append(rest, line)
	}
	return lines(w, rest, width)
}

// Markdown writes the comparison as GitHub-flavoured Markdown. Names come from
// data and are escaped.
func (r *Versions) Markdown(w io.Writer) error {
	m, named := &markdown{}, r.full()
	m.text("# Teachers of several versions")
	m.table(1, r.versionRows()[0], r.versionRows()[1:])
	m.text("## What each version's own comparison says")
	rows := r.figuresRows(named)
	m.table(2, rows[0], rows[1:])
	m.list(r.conditionLines(named))
	if rows = r.sameRows(named); len(rows) > 1 {
		m.text("## One teacher in two versions")
		m.text(fmt.Sprintf("In points, on the tasks that it was asked at first hand in both, of which those under “anew” do not have the same answer in both; Holm's adjustment is over a family of %d.", r.SameFamily))
		m.table(3, rows[0], rows[1:])
		m.list(r.nameLines(named))
	}
	if rows, apart := r.differentRows(named); len(r.Different) > 0 {
		m.text("## Different teachers of different versions")
		m.text(fmt.Sprintf("In points, on the prompts that both were asked at first hand; Holm's adjustment is over a family of %d.", r.DifferentFamily))
		if len(rows) > 1 {
			m.table(3, rows[0], rows[1:])
		}
		if line := apartLine(apart); line != "" {
			m.text(line)
		}
	}
	m.text("## Notes")
	for _, note := range r.Notes {
		m.item(note)
	}
	_, err := io.WriteString(w, m.b.String())
	return err
}

// versionRows are the versions; the first row is the head.
func (r *Versions) versionRows() [][]string {
	rows := [][]string{{"version", "published", "tasks", "teachers"}}
	for i := range r.Versions {
		v := &r.Versions[i]
		rows = append(rows, []string{clean(v.Ref), v.Published.Format(time.DateOnly), grouped(v.Tasks), grouped(int64(len(v.Teachers)))})
	}
	return rows
}

// A versionsSection is a table of the page.
type versionsSection struct {
	Title, Lead string
	Left        int // columns of text
	Head        []string
	Rows        []versionsRow
	Lines       []string
}

type versionsRow struct {
	Cells []string
	Swing *Estimate // of the difference
	Class string
}

// sections are what the page shows.
func (r *Versions) sections() []versionsSection {
	named := r.full()
	section := func(title, lead string, left int, rows [][]string) versionsSection {
		s := versionsSection{Title: title, Lead: lead, Left: left, Head: rows[0]}
		for _, row := range rows[1:] {
			s.Rows = append(s.Rows, versionsRow{Cells: row})
		}
		return s
	}
	out := []versionsSection{
		section("Versions", "", 1, r.versionRows()),
		section("What each version’s own comparison says", "", 2, r.figuresRows(named)),
	}
	out[1].Lines = r.conditionLines(named)
	if len(r.Same) > 0 {
		s := section("One teacher in two versions", fmt.Sprintf("Change of the pass rate in points, on the tasks that it was asked at first hand in both, of which those under “anew” do not have the same answer in both; Holm’s adjustment is over a family of %d.", r.SameFamily), 3, r.sameRows(named))
		for i := range s.Rows {
			if d := r.Same[i].Difference; d != nil {
				s.Rows[i].Swing = &Estimate{Value: -d.Value, Low: -d.High, High: -d.Low}
			}
			if x := &r.Same[i]; x.change() != "no difference shown" && x.Finding != NotComparable {
				s.Rows[i].Class = "changed"
			}
		}
		s.Lines = r.nameLines(named)
		out = append(out, s)
	}
	if len(r.Different) > 0 {
		rows, apart := r.differentRows(named)
		s := section("Different teachers of different versions", fmt.Sprintf("Differences of pass rates in points, on the prompts that both were asked at first hand; Holm’s adjustment is over a family of %d.", r.DifferentFamily), 3, rows)
		at := 0
		for i := range r.Different {
			if x := &r.Different[i]; x.Finding != NotComparable {
				s.Rows[at].Swing = x.Difference
				if x.Finding != NoneShown {
					s.Rows[at].Class = "changed"
				}
				at++
			}
		}
		if len(s.Rows) > shownCells {
			s.Lines = append(s.Lines, fmt.Sprintf("And %d more: the report’s JSON has all.", len(s.Rows)-shownCells))
			s.Rows = s.Rows[:shownCells]
		}
		if line := apartLine(apart); line != "" {
			s.Lines = append(s.Lines, line)
		}
		out = append(out, s)
	}
	return out
}

// HTML writes the comparison as one page that needs nothing else.
func (r *Versions) HTML(w io.Writer) error {
	return versionsPage.Execute(w, struct {
		Sections []versionsSection
		Notes    []string
		Script   template.JS
		Nonce    string
	}{r.sections(), r.Notes, template.JS(pageScript), scriptHash})
}
