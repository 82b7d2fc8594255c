package report

import (
	"fmt"
	"io"
)

// spendHead names the columns of spendRows.
var spendHead = []string{"teacher", "answers $", "failed $", "retried $", "judged $", "all $", "accepted", "$/accepted", "prompt tokens", "of them cached", "completion tokens", "of them reasoning", "hours"}

// spendRows are what was spent for each teacher's answers, as rows of a table;
// nil where nothing is priced.
func (r *Report) spendRows() [][]string {
	var rows [][]string
	for i := range r.Teachers {
		t := &r.Teachers[i]
		if t.Spend == nil {
			continue
		}
		prompt, cached, completion, reasoning, seconds := t.Spend.tokens()
		row := []string{name(t.Teacher)}
		for _, p := range t.Spend.parts() {
			row = append(row, p.dollars())
		}
		rows = append(rows, append(row,
			dollars(t.Spend.USD, 4), grouped(t.Accepted), dollars(t.CostPerAcceptedUSD, 5),
			grouped(prompt), grouped(cached), grouped(completion), grouped(reasoning), fmt.Sprintf("%.2f", seconds/3600)))
	}
	if !r.costs() {
		return nil
	}
	return rows
}

// dollars are the part's, with a mark where some of its requests are not priced.
func (p *SpentOn) dollars() string {
	switch {
	case p.Requests == 0:
		return "-"
	case p.USD == nil:
		return "no price"
	case p.Unpriced > 0:
		return dollars(p.USD, 4) + " +?"
	}
	return dollars(p.USD, 4)
}

// spendLines write, for a terminal, what was spent and what the figures are of.
func (r *Report) spendLines(w io.Writer, width int) error {
	rows := r.spendRows()
	if len(rows) == 0 {
		return nil
	}
	if _, err := io.WriteString(w, "\nwhat was spent\n"); err != nil {
		return err
	}
	if err := writeTable(w, append([][]string{spendHead}, rows...), 1, []int{12, 11, 9, 8, 10, 6, 3, 2}, width); err != nil {
		return err
	}
	return lines(w, r.conditionLines(), width)
}

// spendNotes say what of a teacher's spend is not in its figures.
func spendNotes(t *Teacher) []string {
	if t.Spend == nil || !t.Priced {
		return nil
	}
	var notes []string
	who := clean(t.Teacher)
	for _, one := range []struct {
		part *SpentOn
		what string
	}{
		{&t.Spend.Failed, "requests that brought nothing"}, {&t.Spend.Retried, "requests that were retried"}, {&t.Spend.Judged, "questions to judges about its answers"},
	} {
		if one.part.Unpriced > 0 {
			notes = append(notes, fmt.Sprintf("%s %s for %s have no price, and its costs are without them.", grouped(one.part.Unpriced), one.what, who))
		}
	}
	if t.Spend.SharedUSD > 0 {
		notes = append(notes, fmt.Sprintf("$%.4f of the cost of %s is of answers that serve several tasks and were paid once: it counts at each task.", t.Spend.SharedUSD, who))
	}
	return notes
}

// unattributedNotes say what is in no teacher's figures.
func unattributedNotes(list []Unattributed) []string {
	var notes []string
	for i := range list {
		u := &list[i]
		cost := "no price is stated for them"
		if u.USD != nil {
			cost = fmt.Sprintf("they cost $%.4f", *u.USD)
		}
		notes = append(notes, fmt.Sprintf("Beside the figures of the teachers: %s (%s requests); %s.", clean(u.What), grouped(u.Requests), cost))
	}
	return notes
}

// spendTable is spendRows below its head.
func (r *Report) spendTable() [][]string {
	rows := r.spendRows()
	if rows == nil {
		return nil
	}
	return append([][]string{spendHead}, rows...)
}

// SpentUSD is all that was spent for the answers, as far as it is priced; nil
// where the answers themselves are not. Of reports that are older than the
// breakdown it is what the answers cost.
func (f *Figures) SpentUSD() *float64 {
	switch {
	case f.Spend == nil:
		return f.CostUSD
	case f.Spend.Answers.Requests > 0 && f.Spend.Answers.USD == nil:
		return nil
	}
	return f.Spend.USD
}
