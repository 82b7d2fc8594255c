// Package filter keeps candidates out of a dataset for reasons that anybody
// can check: a [Filter] looks at one candidate and gives a reject reason, or
// none. Filters are pure, so a build with other filters asks nobody again.
//
//	f, err := filter.New("refusal", nil)
//	reason := f.Reject(&filter.Input{Candidate: c, Task: task}) // "" keeps it
//
// No filter depends on what another one did: a build runs all of them, in any
// order, and a candidate carries every reason that it was given. A filter that
// looks at the verdict says so (see [Late]), because it must run after the
// verifiers, and one that changes what it keeps is a [Changer].
//
// They take hostile text: time grows in proportion to it, and none of them
// panics, opens a file or a connection, or looks at a clock.
package filter

import (
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// An Input is what a filter looks at.
type Input struct {
	Candidate *datasets.Candidate
	// Task is what the candidate answers; nil where the caller knows none.
	Task *datasets.Task
	// Stats are of all answers of the build; nil where nobody measured them.
	// See [NeedsStats].
	Stats *Stats
	// CountTokens guesses the tokens of a text, for answers whose endpoint
	// counted none; nil: four bytes a token.
	CountTokens func(text string) int64
}

// A Filter gives reject reasons. It is safe for use by several goroutines and
// never changes the candidate.
type Filter interface {
	// Name is what a recipe calls the filter.
	Name() string
	// Version changes whenever the same input could get another reason.
	Version() string
	// Reject is the reason to keep the candidate out, or "". Reasons are few
	// and short: a build counts its candidates by them.
	Reject(in *Input) string
}

// A Changer is a filter that changes some of the candidates that it keeps: one
// that masks, or that adds a flag. Change is called when all else has been
// decided and every filter has seen the candidate as it was. What the change
// takes out is in none of the tables; the raw answer stays in the answer store.
type Changer interface {
	Filter
	Change(in *Input)
}

// Late tells that a filter looks at what the verifiers said, so that it has to
// run after them.
func Late(f Filter) bool {
	l, ok := f.(interface{ usesVerdict() bool })
	return ok && l.usesVerdict()
}

// NeedsStats tells that a filter judges a candidate by all answers of the
// build, so that these have to be measured first.
func NeedsStats(f Filter) bool {
	s, ok := f.(interface{ needsStats() bool })
	return ok && s.needsStats()
}

var makers = map[string]func(*options.Set) Filter{
	"control_tokens": newControlTokens,
	"empty":          newEmpty,
	"finish":         newFinish,
	"identity":       newIdentity,
	"language":       newLanguage,
	"length":         newLength,
	"pii":            newPII,
	"refusal":        newRefusal,
	"repetition":     newRepetition,
	"think":          newThink,
}

// Names lists the filters, sorted.
func Names() []string { return options.Names(makers) }

// New makes the filter that a recipe names. The error of an unknown name or
// option names the nearest known one.
func New(name string, given map[string]any) (Filter, error) {
	return options.Make("filter", makers, name, given)
}

// message is the candidate's answer, never nil.
func (in *Input) message() *chat.Message {
	if m := in.Candidate.Answer(); m != nil {
		return m
	}
	return &chat.Message{}
}

// reasoning is the answer's structured reasoning, or "".
func (in *Input) reasoning() string {
	if r := in.message().ReasoningContent; r != nil {
		return *r
	}
	return ""
}
