package activities

import (
	"github.com/stillhouse-data/stillhouse/datasets"
)

// accounts add up what was paid, from the rows of the attempts table: each
// request once, however many tasks share its ask.
type accounts struct {
	since    int64 // microseconds since 1970: what was sent before is not this build's
	attempts int64 // requests of this build
	spent    int64 // micro-dollars, by this build
	lost     int64 // of them, for requests that brought no answer
	teachers map[string]*teacherAccount

	prompt string
	asks   map[string]bool // of that prompt
}

// A teacherAccount is one teacher's, whichever build paid.
type teacherAccount struct {
	attempts, failed int64 // requests
	lost             int64 // micro-dollars for those that brought no answer
	flags            map[string]int64
}

func newAccounts(since int64) *accounts {
	return &accounts{since: since, teachers: map[string]*teacherAccount{}, asks: map[string]bool{}}
}

func (a *accounts) of(teacher string) *teacherAccount {
	t := a.teachers[teacher]
	if t == nil {
		t = &teacherAccount{flags: map[string]int64{}}
		a.teachers[teacher] = t
	}
	return t
}

// add counts a task's requests and gives each to visit. Tasks of one prompt
// follow each other.
func (a *accounts) add(r *refinedTask, visit func(datasets.Attempt) error) error {
	if r.Task.PromptID != a.prompt {
		a.prompt = r.Task.PromptID
		clear(a.asks)
	}
	for i := range r.Candidates {
		c := &r.Candidates[i]
		t := a.of(c.Teacher)
		for _, flag := range c.Flags {
			t.flags[flag]++
		}
		if i >= len(r.Paid) || a.asks[c.AskID] {
			continue
		}
		a.asks[c.AskID] = true
		rows := r.Paid[i].attempts(c)
		for n := range rows {
			a.count(t, &rows[n])
			if err := visit(rows[n]); err != nil {
				return err
			}
		}
	}
	return a.addJudged(r, visit)
}

func (a *accounts) count(t *teacherAccount, row *datasets.Attempt) {
	brought := row.Outcome == datasets.OutcomeAnswer || row.Outcome == datasets.OutcomeRecovered
	cost := number(row.CostMicros)
	t.attempts += int64(row.Times)
	if !brought {
		t.failed += int64(row.Times)
		t.lost += cost
	}
	if number(row.StartedUS) < a.since {
		return
	}
	a.attempts += int64(row.Times)
	a.spent += cost
	if !brought {
		a.lost += cost
	}
}

// pay writes a task's requests, and counts them for the result and the report.
func (s *seal) pay(r *refinedTask, t *tables) error {
	spendTask(s.report, r.judgeRows(), nil)
	return s.paid.add(r, func(row datasets.Attempt) error {
		s.report.AddAttempt(&row)
		return t.attempts.add(row)
	})
}
