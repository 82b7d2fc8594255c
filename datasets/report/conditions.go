package report

import (
	"fmt"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// Conditions are what costs and durations are of. A price per accepted row says
// nothing of a model: it is that of one configuration, on some prompts, at some
// prices, by some way of counting. No form of the report tells the one without
// the other.
type Conditions struct {
	Prompts  []string            `json:"prompts" jsonschema:"description=where the prompts are from"`
	Tasks    int64               `json:"tasks" jsonschema:"description=tasks that were asked"`
	Samples  string              `json:"samples" jsonschema:"description=answers that each teacher was asked for a task; in words"`
	Least    int                 `json:"samples_at_least,omitempty" jsonschema:"description=where answers decide how many are asked: how many are asked whatever they are; rates of the comparison are of these"`
	Teachers []TeacherConditions `json:"teachers" jsonschema:"description=in the report's order"`
	// From and To are when the first and the last request was sent.
	From       *time.Time `json:"from,omitempty" jsonschema:"description=when the first request was sent; absent where that is not known"`
	To         *time.Time `json:"to,omitempty" jsonschema:"description=when the last request was sent"`
	Accounting string     `json:"accounting" jsonschema:"description=how costs are counted"`
}

// TeacherConditions are how one teacher was asked.
type TeacherConditions struct {
	Teacher    string `json:"teacher"`
	Model      string `json:"model"`
	API        string `json:"api" jsonschema:"description=protocol; recorded where nobody was asked"`
	Params     string `json:"params" jsonschema:"description=parameters of its requests as JSON; by effort where they differ"`
	AtOnce     int    `json:"at_once,omitempty" jsonschema:"description=requests at once at most: latencies are at this concurrency; absent where nobody was asked"`
	Prices     string `json:"prices" jsonschema:"description=prices with source and date; empty where it is not priced"`
	DurationMS *int64 `json:"latency_p50_ms,omitempty" jsonschema:"description=median time from request to answer"`
}

// accounting is how costs are counted, in every form of the report.
const accounting = "Costs are all spend for a teacher's answers: every answer that was paid for, rejected ones too, requests that failed or were retried, and what judges were asked about the answers (of a comparison half for each of the two). They are list prices of the recipe applied to the tokens that the endpoint reported, estimated where it reported none; answers reused from earlier builds count at what they cost then, and an answer that serves several tasks counts at each. Cached tokens are part of the prompt tokens, reasoning tokens of the completion tokens."

// SetConditions says what the report's costs and durations are of. What the
// report knows itself, such as when requests were sent, is filled in.
// It comes before the first candidate.
func (a *Aggregator) SetConditions(c Conditions) { a.conditions, a.grid.least = &c, int32(c.Least) }

// leastNote says which samples rates are of, where answers decide how many
// there are.
func leastNote(least int32) string {
	return fmt.Sprintf("How many answers a task has depends on them: those after the first %d were asked because those before did not pass. They are in no rate, difference or pass@k of the comparison, which would be biased by them; they are in what teachers solve together, in costs and accepted rows, and in the counts of the tables of teachers.", least)
}

// unratedNotes say what of a teacher is in no rate.
func unratedNotes(t *Teacher) []string {
	var notes []string
	if n := t.Errors[datasets.ErrorNotAsked]; n > 0 {
		notes = append(notes, fmt.Sprintf("%s of %s asks of %s were never made, because a budget ended first or it was given up: they are in no rate and no comparison, and no failures of it.", grouped(n), grouped(t.Asks), clean(t.Teacher)))
	}
	if n := t.Errors[datasets.ErrorNotRecorded]; n > 0 {
		notes = append(notes, fmt.Sprintf("To %s of %s tasks no answer of %s is recorded: they are in no rate and no comparison of it.", grouped(n), grouped(t.Asks), clean(t.Teacher)))
	}
	if n := t.Errors[datasets.ErrorPurged]; n > 0 {
		notes = append(notes, fmt.Sprintf("%s answers of %s were purged: they are in no rate and no comparison.", grouped(n), clean(t.Teacher)))
	}
	return notes
}

func (a *Aggregator) conditionsOf(r *Report) *Conditions {
	if a.conditions == nil {
		return nil
	}
	c := *a.conditions
	c.Accounting = accounting
	c.Teachers = append([]TeacherConditions(nil), c.Teachers...)
	if c.Prompts == nil {
		c.Prompts = []string{}
	}
	for i := range c.Teachers {
		for k := range r.Teachers {
			if r.Teachers[k].Teacher == c.Teachers[i].Teacher {
				c.Teachers[i].Prices, c.Teachers[i].DurationMS = r.Teachers[k].PriceNote, r.Teachers[k].LatencyP50MS
			}
		}
	}
	if l := &a.ledger; l.first > 0 {
		c.From, c.To = ref(time.UnixMicro(l.first).UTC()), ref(time.UnixMicro(l.last).UTC())
	}
	return &c
}

// mostConditions bounds what one teacher's parameters take of a page; the
// report's JSON has all.
const mostConditions = 300

// conditionLines are what every form of the report says beside its costs; nil
// where it has none.
func (r *Report) conditionLines() []string {
	if !r.costs() {
		return nil
	}
	out := r.Conditions.lines()
	if r.Conditions != nil {
		out = append(out, r.Conditions.Accounting)
	}
	return out
}

// lines are the conditions in words, all but the accounting.
func (c *Conditions) lines() []string {
	if c == nil {
		return []string{"Of what configuration and prompts these costs and durations are was not recorded: do not quote them."}
	}
	from := strings.Join(c.Prompts, ", ")
	if from == "" {
		from = "prompts that are not named"
	}
	when := ""
	if c.From != nil && c.To != nil {
		when = fmt.Sprintf("; requests were sent from %s to %s UTC", c.From.Format("2006-01-02 15:04"), c.To.Format("2006-01-02 15:04"))
	}
	out := []string{fmt.Sprintf("Costs and durations are of this run alone: %s tasks of %s, %s%s.", grouped(c.Tasks), shortened(from, mostConditions), clean(c.Samples), when)}
	for _, t := range c.Teachers {
		line := fmt.Sprintf("%s: %s over %s with %s", name(t.Teacher), name(t.Model), clean(t.API), shortened(t.Params, mostConditions))
		if t.AtOnce > 0 {
			line += fmt.Sprintf(", at most %s requests at once", grouped(int64(t.AtOnce)))
		}
		if t.DurationMS != nil {
			line += fmt.Sprintf(", half of its answers within %s", duration(t.DurationMS))
		}
		if t.Prices == "" {
			line += "; no price"
		} else {
			line += "; " + shortened(t.Prices, mostConditions)
		}
		out = append(out, line+".")
	}
	return out
}

// costs tells whether the report has any cost.
func (r *Report) costs() bool { return cost(r.Teachers) }

func cost(list []Teacher) bool {
	for i := range list {
		if list[i].CostUSD != nil || list[i].Spend != nil && list[i].Spend.USD != nil {
			return true
		}
	}
	return false
}

// shortened is the beginning of a text from data, on one line.
func shortened(s string, most int) string {
	s = clean(s)
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}
