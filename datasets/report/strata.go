package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// A Stratification declares how a bake-off's tasks were drawn: so many of each
// domain at each effort, though there may be many more of one than of another.
// Rates over all tasks are then those of the sample, and weighted ones those of
// the whole.
type Stratification struct {
	How      string             `json:"how" jsonschema:"description=how the tasks of a stratum were chosen; in words"`
	Strata   []Stratum          `json:"strata" jsonschema:"description=by domain and effort"`
	Teachers []StratifiedRating `json:"teachers,omitempty" jsonschema:"description=in the report's order; those that were asked in every stratum that was judged"`
}

// A Stratum is one domain at one effort.
type Stratum struct {
	Domain     string `json:"domain"`
	Effort     string `json:"effort"`
	Population int64  `json:"population" jsonschema:"description=tasks that there are"`
	Sampled    int64  `json:"sampled" jsonschema:"description=tasks that were taken"`
	// Before anything is asked nobody knows on how many tasks teachers differ.
	ShowsIfFew  *float64 `json:"shows_if_20_percent_differ,omitempty" jsonschema:"description=smallest difference of two teachers that so many tasks show with a power of 80 % at a level of 5 % if one task in five tells them apart; absent where none could be shown"`
	ShowsIfMany *float64 `json:"shows_if_50_percent_differ,omitempty" jsonschema:"description=the same if every second task tells them apart"`
	Shows       *float64 `json:"shows,omitempty" jsonschema:"description=the same with as many as did differ: the largest over the pairs of teachers; absent where nothing was compared"`
}

// A StratifiedRating is one teacher's rate over all strata.
type StratifiedRating struct {
	Teacher  string    `json:"teacher"`
	Weighted *Estimate `json:"weighted,omitempty" jsonschema:"description=mean of the strata's rates weighted by their populations: the rate that all tasks would have"`
	Macro    *Estimate `json:"macro,omitempty" jsonschema:"description=plain mean of the strata's rates: each domain and effort counts alike"`
}

// MethodStrata is the method of an interval of a mean over strata: variances
// recovered from the intervals of the strata (Zou and Donner, Statistics in
// Medicine 27, 2008).
const MethodStrata = "mover_strata"

// Shares of tasks that tell two teachers apart, between which those of real
// teachers mostly lie.
const (
	fewDiffer  = 0.2
	manyDiffer = 0.5
)

// stratified is how tasks of a stratum are chosen.
const stratified = "as many tasks of every domain and effort as there are, in the order of prompt ids, which are hashes: no property of a task decides"

// NewStratum says what a sample of a stratum could show before it is asked.
func NewStratum(domain, effort string, population, sampled int64) Stratum {
	return Stratum{
		Domain: domain, Effort: effort, Population: population, Sampled: sampled,
		ShowsIfFew: detectable(sampled, fewDiffer), ShowsIfMany: detectable(sampled, manyDiffer),
	}
}

// SetStrata declares that the report's tasks are a sample of strata, and adds
// what that allows to say.
func (r *Report) SetStrata(strata []Stratum) {
	s := &Stratification{How: stratified, Strata: slices.Clone(strata)}
	slices.SortStableFunc(s.Strata, func(a, b Stratum) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Effort, b.Effort))
	})
	r.Stratification = s
	if r.Comparison == nil {
		return
	}
	rates := map[string][]weighted{}
	judged := 0
	for _, scope := range r.Comparison.Scopes[1:] {
		i := slices.IndexFunc(s.Strata, func(t Stratum) bool { return t.Domain == scope.Domain && t.Effort == scope.Effort })
		if i < 0 {
			continue
		}
		judged++
		for k := range scope.Pairs {
			if d := scope.Pairs[k].Detectable; d != nil && (s.Strata[i].Shows == nil || *d > *s.Strata[i].Shows) {
				s.Strata[i].Shows = d
			}
		}
		for k := range scope.Teachers {
			if t := &scope.Teachers[k]; t.Rate != nil {
				rates[t.Teacher] = append(rates[t.Teacher], weighted{float64(s.Strata[i].Population), t.Rate})
			}
		}
	}
	for i := range r.Teachers {
		if list := rates[r.Teachers[i].Teacher]; len(list) == judged && judged > 0 {
			one := StratifiedRating{Teacher: r.Teachers[i].Teacher, Weighted: meanOfStrata(list)}
			for k := range list {
				list[k].weight = 1
			}
			one.Macro = meanOfStrata(list)
			s.Teachers = append(s.Teachers, one)
		}
	}
}

type weighted struct {
	weight float64
	rate   *Estimate
}

// meanOfStrata is nil where nothing weighs anything.
func meanOfStrata(list []weighted) *Estimate {
	var all, value, low, high float64
	for _, one := range list {
		all += one.weight
	}
	if !(all > 0) {
		return nil
	}
	for _, one := range list {
		w := one.weight / all
		value += w * one.rate.Value
		low += w * w * (one.rate.Value - one.rate.Low) * (one.rate.Value - one.rate.Low)
		high += w * w * (one.rate.High - one.rate.Value) * (one.rate.High - one.rate.Value)
	}
	return &Estimate{value, max(0, value-math.Sqrt(low)), min(1, value+math.Sqrt(high)), MethodStrata}
}

// StrataRows are the strata as rows of a table, below its head: what a sample
// can show before it is asked, and after that what it could have shown.
func StrataRows(strata []Stratum) [][]string {
	rows := [][]string{{"domain", "effort", "tasks", "of", "shows from, 20 % differ", "shows from, 50 % differ", "shows from"}}
	for i := range strata {
		s := &strata[i]
		rows = append(rows, []string{name(s.Domain), name(s.Effort), grouped(s.Sampled), grouped(s.Population), shows(s.ShowsIfFew), shows(s.ShowsIfMany), shows(s.Shows)})
	}
	return rows
}

// shows is a difference in points.
func shows(d *float64) string {
	if d == nil {
		return "-"
	}
	return fmt.Sprintf("%.1f", 100**d)
}

// StrataTable writes the strata for a terminal of width columns.
func StrataTable(w io.Writer, strata []Stratum, width int) error {
	return writeTable(w, StrataRows(strata), 2, []int{6, 5}, width)
}

// StrataNote says how the columns of strata are to be read.
const StrataNote = "The sample is stratified: " + stratified + ". \"Shows from\" is the smallest difference between two teachers, in points, that so many tasks show with a power of 80 % at a level of 5 %, if 20 % or 50 % of the tasks tell them apart, and once they were asked, with as many as did; - where even the largest would not show. Over several domains and pairs Holm's adjustment asks for more."

// lines say the teachers' rates over all strata.
func (s *Stratification) lines() []string {
	var out []string
	for _, t := range s.Teachers {
		if t.Weighted != nil && t.Macro != nil {
			out = append(out, fmt.Sprintf("%s: %s %% (%s-%s) with each domain and effort by its number of tasks, %s %% (%s-%s) with each alike.", name(t.Teacher),
				percent(t.Weighted.Value), percent(t.Weighted.Low), percent(t.Weighted.High), percent(t.Macro.Value), percent(t.Macro.Low), percent(t.Macro.High)))
		}
	}
	return append(out, StrataNote)
}

// strataLines writes what a sample is of, for a terminal.
func (r *Report) strataLines(w io.Writer, width int) error {
	if r.Stratification == nil {
		return nil
	}
	if _, err := io.WriteString(w, "\nthe sample\n"); err != nil {
		return err
	}
	if err := StrataTable(w, r.Stratification.Strata, width); err != nil {
		return err
	}
	return lines(w, r.Stratification.lines(), width)
}

// strataTable is the strata as rows below their head, and what is said of them.
func (r *Report) strataTable() ([][]string, []string) {
	if r.Stratification == nil {
		return nil, nil
	}
	return StrataRows(r.Stratification.Strata), r.Stratification.lines()
}
