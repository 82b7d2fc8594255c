package report

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// Requests are a teacher's requests beside its answers, and what was seen in
// the answers that a reader of the comparison should know.
type Requests struct {
	Attempts       int64    `json:"attempts,omitempty" jsonschema:"description=requests that were sent for these asks"`
	FailedAttempts int64    `json:"failed_attempts,omitempty" jsonschema:"description=of them those that brought no answer"`
	FailedCostUSD  *float64 `json:"failed_cost_usd,omitempty" jsonschema:"description=what the failed ones may be charged for beside cost_usd: part of spend; estimated where the endpoint did not count"`
	// Flags counts answers by flag.
	Flags map[string]int64 `json:"flags,omitempty" jsonschema:"description=answers by flag such as model_drift or prompt_truncated"`
	// Models counts answers by the model that the endpoint says answered.
	Models map[string]int64 `json:"models_answered,omitempty" jsonschema:"description=answers by the model that the endpoint says answered"`
	// Fingerprints counts answers by the endpoint's name of its backend.
	Fingerprints map[string]int64 `json:"system_fingerprints,omitempty" jsonschema:"description=answers by the backend as the endpoint calls it"`
}

// maxNames bounds the flags, models and backends that one teacher's figures
// tell apart: they are an endpoint's words.
const maxNames = 32

// A requestTally counts one teacher's.
type requestTally struct {
	attempts, failed, lostMicros int64
	priced                       bool
	flags, models, fingerprints  map[string]int64
}

func (a *Aggregator) requestsOf(teacher string) *requestTally {
	t := a.requests[teacher]
	if t == nil {
		if a.requests == nil {
			a.requests = map[string]*requestTally{}
		}
		t = &requestTally{flags: map[string]int64{}, models: map[string]int64{}, fingerprints: map[string]int64{}}
		a.requests[strings.Clone(teacher)] = t
	}
	return t
}

// count counts one request for the teacher's own asks.
func (t *requestTally) count(row *datasets.Attempt) {
	t.attempts += int64(row.Times)
	t.priced = t.priced || row.CostMicros != nil
	if row.Outcome != datasets.OutcomeAnswer && row.Outcome != datasets.OutcomeRecovered {
		t.failed += int64(row.Times)
		t.lostMicros += known(row.CostMicros)
	}
}

// answer counts what an answer says of its endpoint.
func (t *requestTally) answer(c *datasets.Candidate) {
	if c.Error != nil {
		return
	}
	for _, flag := range c.Flags {
		countName(t.flags, flag)
	}
	if c.ModelAnswered != nil {
		countName(t.models, *c.ModelAnswered)
	}
	if c.Fingerprint != nil {
		countName(t.fingerprints, *c.Fingerprint)
	}
}

func countName(names map[string]int64, name string) {
	if _, known := names[name]; !known {
		if len(names) >= maxNames-1 {
			name = Other
		}
		name = strings.Clone(name)
	}
	names[name]++
}

func (t *requestTally) figures() Requests {
	r := Requests{Attempts: t.attempts, FailedAttempts: t.failed, Flags: maps.Clone(t.flags), Models: maps.Clone(t.models), Fingerprints: maps.Clone(t.fingerprints)}
	if t.priced {
		usd := float64(t.lostMicros) / 1e6
		r.FailedCostUSD = &usd
	}
	return r
}

// What a flag means to who reads the comparison.
var flagWords = map[string]string{
	"model_drift":      "were given by another model than was asked",
	"prompt_truncated": "were given to a part of the prompt: the endpoint counted far fewer tokens than it has",
	"prompt_inflated":  "were given to more than the prompt: the endpoint counted more tokens than it can have",
}

// requestNotes say what figures alone do not.
func requestNotes(t *Teacher) []string {
	var notes []string
	name := clean(t.Teacher)
	if t.FailedCostUSD != nil && *t.FailedCostUSD > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d requests to %s brought no answer, and may be charged for $%.6f in all.", t.FailedAttempts, t.Attempts, name, *t.FailedCostUSD))
	}
	for _, flag := range slices.Sorted(maps.Keys(flagWords)) {
		if n := t.Flags[flag]; n > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d answers of %s %s (%s).", n, t.Answers, name, flagWords[flag], flag))
		}
	}
	if len(t.Fingerprints) > 1 {
		notes = append(notes, fmt.Sprintf("%s answered from %d backends, by its own system_fingerprint.", name, len(t.Fingerprints)))
	}
	return notes
}
