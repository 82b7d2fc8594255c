package activities

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// Comparison compares the teachers of a recipe on a sample of its tasks, as the
// seal of a build does on all of them.
func Comparison(r *recipe.Recipe, tasks []PreviewTask) (*report.Report, error) {
	a := report.New(reportedTeachers(r))
	a.ShowTexts(r.Output.ReportText)
	a.SetConditions(conditions(r, int64(len(tasks))))
	for i := range tasks {
		if err := compareTask(a, tasks[i].Candidates, tasks[i].Judgements); err != nil {
			return nil, err
		}
		spendTask(a, tasks[i].Judged, tasks[i].Attempts)
		a.AddUnattributed(scoringOfStudent, tasks[i].Scored...)
		for k := range tasks[i].Fit {
			row := &tasks[i].Fit[k]
			a.SetStudent(row.Student, "teacher "+row.Scorer+" of the recipe")
			if err := a.AddFit(fitAnswer(row)); err != nil {
				return nil, err
			}
		}
	}
	return a.Report(), nil
}

// CompareRecipe is a recipe by which every teacher is asked every task,
// whatever its own route says.
func CompareRecipe(r *recipe.Recipe) *recipe.Recipe {
	all := *r
	all.Ask.Route = recipe.Route{Kind: recipe.RouteAll}
	return &all
}

// SampleStrata are the strata of a planned sample.
func SampleStrata(p *Plan) []report.Stratum {
	type cell struct{ domain, effort string }
	sums := map[cell][2]int64{}
	var order []cell
	for i := range p.Cells {
		c := &p.Cells[i]
		if len(c.Teachers) == 0 {
			continue // the filters of prompts left them out
		}
		key := cell{c.Domain, c.Effort}
		if _, known := sums[key]; !known {
			order = append(order, key)
		}
		sums[key] = [2]int64{sums[key][0] + c.Population, sums[key][1] + c.Tasks}
	}
	var out []report.Stratum
	for _, key := range order {
		out = append(out, report.NewStratum(key.domain, key.effort, sums[key][0], sums[key][1]))
	}
	slices.SortFunc(out, func(a, b report.Stratum) int {
		return cmp.Or(cmp.Compare(a.Domain, b.Domain), cmp.Compare(a.Effort, b.Effort))
	})
	return out
}

// compareTask adds a task's candidates to a comparison, and what judges and the
// verifier prefer among them. Candidates of the second round are chosen by
// failure, and are compared with nobody.
func compareTask(a *report.Aggregator, candidates []datasets.Candidate, judged []datasets.Judgement) error {
	of := make(map[string]*datasets.Candidate, len(candidates))
	for i := range candidates {
		c := &candidates[i]
		a.Add(c)
		if !slices.Contains(c.Flags, datasets.FlagEscalated) {
			of[c.SampleID] = c
		}
	}
	seen := map[[2]string]bool{}
	for i := range judged {
		j := &judged[i]
		x, y := of[j.SampleA], of[j.SampleB]
		if x == nil || y == nil {
			continue
		}
		p, ok := report.PreferenceOf(j, length(x), length(y), slices.Contains(j.Flags, datasets.FlagSameFamily))
		if !ok {
			continue
		}
		if err := a.AddPreference(p); err != nil {
			return err
		}
		pair := [2]string{j.SampleA, j.SampleB}
		if seen[pair] || x.Verdict == nil || y.Verdict == nil || *x.Verdict == *y.Verdict ||
			*x.Verdict == datasets.Unknown || *y.Verdict == datasets.Unknown {
			continue
		}
		// One passes and the other fails: what the verifier would have said.
		seen[pair] = true
		p.Judge, p.Flipped, p.SameFamily, p.Win = report.Verifier, nil, false, 0
		if *x.Verdict == datasets.Pass {
			p.Win = 1
		}
		if err := a.AddPreference(p); err != nil {
			return err
		}
	}
	return nil
}

// length of an answer, in code points.
func length(c *datasets.Candidate) *int64 {
	n := int64(utf8.RuneCountInString(c.Content()))
	return &n
}

// reportedTeachers are a recipe's teachers as a report names them: those that
// answer.
func reportedTeachers(r *recipe.Recipe) []report.TeacherInfo {
	var infos []report.TeacherInfo
	for i := range r.Teachers {
		if t := &r.Teachers[i]; !r.OnlyJudges(t.ID) {
			infos = append(infos, report.TeacherInfo{ID: t.ID, Model: t.Model, Priced: t.Price != nil, PriceNote: priceNote(t.Price)})
		}
	}
	return infos
}
