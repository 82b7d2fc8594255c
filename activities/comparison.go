package activities

import (
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// Comparison compares the teachers of a recipe on a sample of its tasks, as the
// seal of a build does on all of them.
func Comparison(r *recipe.Recipe, tasks []PreviewTask) *report.Report {
	a := report.New(reportedTeachers(r))
	for i := range tasks {
		for j := range tasks[i].Candidates {
			a.Add(&tasks[i].Candidates[j])
		}
	}
	return a.Report()
}

// reportedTeachers are a recipe's teachers as a report names them.
func reportedTeachers(r *recipe.Recipe) []report.TeacherInfo {
	infos := make([]report.TeacherInfo, len(r.Teachers))
	for i := range r.Teachers {
		t := &r.Teachers[i]
		infos[i] = report.TeacherInfo{ID: t.ID, Model: t.Model, Priced: t.Price != nil, PriceNote: priceNote(t.Price)}
	}
	return infos
}
