package report

import "fmt"

// coverageLead says what the matrix of coverage holds.
const coverageLead = "Tasks that both teachers of row and column were asked at first hand; on the diagonal those that one was. A pair that has none is not comparable."

// coverageTable is who was asked what, over all tasks: a head and a row for each
// teacher; nil where there are not two.
func (r *Report) coverageTable() [][]string {
	if r.Comparison == nil || len(r.Comparison.Scopes) == 0 || len(r.Comparison.Scopes[0].Teachers) < 2 {
		return nil
	}
	s := &r.Comparison.Scopes[0]
	out := [][]string{{"asked"}}
	for i := range s.Teachers {
		out[0] = append(out[0], clean(s.Teachers[i].Teacher))
		row := []string{clean(s.Teachers[i].Teacher)}
		for _, n := range s.Coverage[i] {
			row = append(row, grouped(n))
		}
		out = append(out, row)
	}
	return out
}

// apart counts a scope's pairs without common tasks, and gives the others.
func (s *Scope) apart() (together []Versus, apart string) {
	n := 0
	for _, v := range s.Pairs {
		if v.Common == 0 {
			n++
		} else {
			together = append(together, v)
		}
	}
	if n > 0 {
		apart = apartText(n)
	}
	return together, apart
}

func apartText(pairs int) string {
	return fmt.Sprintf("%d pairs are not comparable: they have no common tasks that were judged (stillhouse compare asks every teacher the same ones)", pairs)
}
