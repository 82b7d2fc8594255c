package report

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// TestAllSpendIsSomebodys: whatever a ledger holds, teachers' spends and what is
// in nobody's figures add up to it; an answer that serves several tasks is
// counted at each, and the report says by how much.
func TestAllSpendIsSomebodys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var infos []TeacherInfo
		for i := range 3 {
			infos = append(infos, TeacherInfo{ID: fmt.Sprint("t", i), Priced: true})
		}
		a := New(infos)
		var paid int64
		pay := func(row datasets.Attempt) datasets.Attempt {
			micros := rapid.Int64Range(0, 1_000_000).Draw(t, "micros")
			if row.CostMicros == nil && rapid.IntRange(0, 9).Draw(t, "priced") > 0 {
				row.CostMicros = &micros
			}
			row.Times, row.Billable = int32(rapid.IntRange(1, 3).Draw(t, "times")), true
			paid += known(row.CostMicros)
			return row
		}
		for p := range rapid.IntRange(1, 4).Draw(t, "prompts") {
			prompt := fmt.Sprint("p", p)
			shared := map[string]*int64{} // answers of the prompt, by ask
			for e := range rapid.IntRange(1, 2).Draw(t, "efforts") {
				task := fmt.Sprintf("%s/math/%d", prompt, e)
				var samples []string
				var ledger []datasets.Attempt
				for n := range rapid.IntRange(1, 4).Draw(t, "answers") {
					teacher := fmt.Sprint("t", n%3)
					ask := fmt.Sprint(prompt, teacher, n)
					if e > 0 && rapid.Bool().Draw(t, "other ask") {
						ask += "e"
					}
					c := datasets.Candidate{TaskID: task, PromptID: prompt, SampleID: task + ask, AskID: ask, Domain: "math", Effort: fmt.Sprint(e), Teacher: teacher}
					cost, known := shared[ask]
					if !known {
						if rapid.IntRange(0, 4).Draw(t, "fails") == 0 {
							class := "timeout"
							c.Error = &class
							ledger = append(ledger, pay(datasets.Attempt{SampleID: c.SampleID, AskID: ask, Teacher: teacher, Outcome: datasets.OutcomeUndone}))
						} else {
							row := pay(datasets.Attempt{SampleID: c.SampleID, AskID: ask, Teacher: teacher, Outcome: datasets.OutcomeAnswer})
							cost = row.CostMicros
							ledger = append(ledger, row)
						}
						if rapid.Bool().Draw(t, "retried") {
							ledger = append(ledger, pay(datasets.Attempt{SampleID: c.SampleID, AskID: ask, Teacher: teacher, Outcome: datasets.OutcomeSpare}))
						}
						if c.Error == nil {
							shared[ask] = cost
						}
					}
					if c.Error == nil {
						c.CostMicros = cost
						verdict := rapid.SampledFrom([]string{datasets.Pass, datasets.Fail, datasets.Unknown}).Draw(t, "verdict")
						c.Verdict, c.Accepted = &verdict, verdict == datasets.Pass
						if rapid.IntRange(0, 9).Draw(t, "purged") == 0 {
							class := datasets.ErrorPurged
							c.Error, c.Verdict, c.Accepted = &class, nil, false
						}
						samples = append(samples, c.SampleID)
					}
					a.Add(&c)
				}
				for q := range rapid.IntRange(0, 3).Draw(t, "judged") {
					ask := fmt.Sprint(task, "judge", q)
					row := datasets.JudgeRow{TaskID: task, AskID: &ask, SampleA: "gone", Kind: datasets.KindScore}
					if len(samples) > 0 && rapid.Bool().Draw(t, "there") {
						row.SampleA = rapid.SampledFrom(samples).Draw(t, "a")
					}
					if len(samples) > 0 && rapid.Bool().Draw(t, "pair") {
						b := rapid.SampledFrom(samples).Draw(t, "b")
						row.SampleB, row.Kind = &b, datasets.KindPair
					}
					if rapid.IntRange(0, 5).Draw(t, "told") > 0 {
						a.AddJudgeRow(&row)
					}
					ledger = append(ledger, pay(datasets.Attempt{SampleID: row.SampleA, AskID: ask, Teacher: "judge", Outcome: datasets.OutcomeAnswer}))
				}
				for i := range ledger {
					ledger[i].TaskID, ledger[i].PromptID = task, prompt
					a.AddAttempt(&ledger[i])
				}
			}
		}
		row := pay(datasets.Attempt{Outcome: datasets.OutcomeAnswer})
		a.AddUnattributed("probes", row)

		r := a.Report()
		sum := 0.0
		for i := range r.Teachers {
			if s := r.Teachers[i].Spend; s != nil {
				parts := 0.0
				for _, p := range s.parts() {
					if p.USD != nil {
						parts += *p.USD
					}
				}
				if s.USD != nil && math.Abs(parts-*s.USD) > 1e-9 || s.USD == nil && parts != 0 {
					t.Errorf("%s: all is %v, and its parts are %v", r.Teachers[i].Teacher, s.USD, parts)
				}
				sum += parts - s.SharedUSD
			}
		}
		for i := range r.Unattributed {
			if u := r.Unattributed[i].USD; u != nil {
				sum += *u
			}
		}
		if math.Abs(sum-float64(paid)/1e6) > 1e-9 {
			t.Errorf("the ledger holds $%v, and the report accounts for $%v", float64(paid)/1e6, sum)
		}
	})
}
