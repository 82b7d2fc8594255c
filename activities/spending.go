package activities

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// probesForDrift is what the requests of probes are for: they enter no teacher's
// costs.
const probesForDrift = "probes that asked teachers once more, to see whether they changed"

// spendTask adds to a comparison what a task's requests cost: the task's
// candidates are in it already.
func spendTask(a *report.Aggregator, judged []datasets.JudgeRow, paid []datasets.Attempt) {
	for i := range judged {
		a.AddJudgeRow(&judged[i])
	}
	for i := range paid {
		a.AddAttempt(&paid[i])
	}
}

// judgeRows are what judges were asked about a task's answers.
func (r *refinedTask) judgeRows() []datasets.JudgeRow {
	var out []datasets.JudgeRow
	for i := range r.Judged {
		out = append(out, r.Judged[i].Row)
	}
	return out
}

// conditions are how a recipe's teachers are asked, which the costs in a report
// are of.
func conditions(r *recipe.Recipe, tasks int64) report.Conditions {
	c := report.Conditions{Tasks: tasks, Samples: samplesInWords(samplingOf(r))}
	if rule := samplingOf(r); rule.adaptive() {
		c.Least = rule.Least
	}
	for i := range r.Prompts {
		c.Prompts = append(c.Prompts, r.Prompts[i].Path)
	}
	for i := range r.Teachers {
		t := &r.Teachers[i]
		if r.OnlyJudges(t.ID) {
			continue
		}
		one := report.TeacherConditions{Teacher: t.ID, Model: t.Model, API: t.API, Params: paramsText(t)}
		if t.API != recipe.APIRecorded {
			one.AtOnce = t.Limits.AtOnce()
		}
		c.Teachers = append(c.Teachers, one)
	}
	return c
}

func samplesInWords(s sampling) string {
	switch {
	case s.adaptive():
		return fmt.Sprintf("%d to %d answers of each teacher, until %d pass", s.Least, s.Most, s.UntilPass)
	case s.Most == 1:
		return "one answer of each teacher"
	}
	return fmt.Sprintf("%d answers of each teacher", s.Most)
}

// paramsText are a teacher's parameters as JSON, those of efforts under their
// names.
func paramsText(t *recipe.Teacher) string {
	all := map[string]any{}
	for name, value := range t.Params {
		all[name] = value
	}
	for effort, params := range t.ParamsBy.Effort {
		all["at effort "+effort] = params
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "{}" // a recipe holds plain values
	}
	return strings.ToValidUTF8(string(text), "")
}
