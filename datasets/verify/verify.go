// Package verify says of an answer whether it is right: pass, fail, or
// unknown where it cannot tell. Unknown is never counted as fail.
//
//	v, err := verify.New("math", nil)
//	verdict := v.Verify(ctx, verify.Input{Content: "so 2+2 is\nA: 4", Gold: &gold})
//
// Verifiers are pure: over the same input and options they give the same
// verdict, on every machine, so a build can be judged again without asking a
// teacher. They take hostile text: sizes are bounded, a panic inside one
// becomes unknown, and none opens a file or a connection.
package verify

import (
	"context"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// MaxContent is the longest answer, in bytes, that a verifier reads. A longer
// one is unknown.
const MaxContent = 16 << 20

// maxExtracted bounds the extracted answer that a verdict carries, in bytes.
const maxExtracted = 1 << 10

// An Input is what a verifier may look at. The reasoning is not among it: an
// answer is read from its final statement, never from the thoughts before it.
type Input struct {
	Content string       // the answer's text
	Gold    *string      // the known answer; nil: the task has none
	Tests   *string      // the task's tests, JSON text or whatever the verifier declares
	Prompt  *chat.Prompt // what was asked; nil where the caller has no use for it
	Meta    string       // the task's metadata, JSON text
	// Answer is the whole message, with tool calls and reasoning: for verifiers
	// of its form. nil where there is only text.
	Answer *chat.Message
	// Checkers runs the recipe's commands; nil: none does, and what they would
	// have to judge is unknown.
	Checkers Checkers
	Runner   Runner // runs code; nil: none does, and what would have to run is unknown
}

// A Verifier judges answers. It is safe for use by several goroutines.
type Verifier interface {
	// Name is what a recipe calls the verifier.
	Name() string
	// Version changes whenever the same input could get another verdict.
	Version() string
	// Verify never fails: what it cannot judge is unknown, with the reason.
	Verify(ctx context.Context, in Input) datasets.Verdict
}

// finding is what a verifier's own code returns; guard makes the verdict.
type finding struct {
	verdict   string
	reason    string
	extracted *string
	score     *float64
}

func pass(reason, extracted string) finding {
	return finding{verdict: datasets.Pass, reason: reason, extracted: &extracted}
}

func fail(reason, extracted string) finding {
	return finding{verdict: datasets.Fail, reason: reason, extracted: &extracted}
}

func unknown(reason string) finding { return finding{verdict: datasets.Unknown, reason: reason} }

// ungraded is of an answer to a task without a gold answer: nobody knows whether
// it is right, but what it says can be compared with other answers.
func ungraded(statement string) finding {
	f := unknown("no gold answer")
	if statement != "" {
		f = f.saw(statement)
	}
	return f
}

func (f finding) saw(extracted string) finding {
	f.extracted = &extracted
	return f
}

// guarded wraps a verifier's judgement with the bounds that all of them keep.
type guarded struct {
	name, version string
	judge         func(context.Context, Input) finding
}

func (g *guarded) Name() string    { return g.name }
func (g *guarded) Version() string { return g.version }

func (g *guarded) Verify(ctx context.Context, in Input) (v datasets.Verdict) {
	defer func() {
		if r := recover(); r != nil {
			v = g.verdict(unknown("internal error"))
		}
	}()
	switch {
	case ctx.Err() != nil:
		return g.verdict(unknown("cancelled"))
	case len(in.Content) > MaxContent:
		return g.verdict(unknown("answer too long to judge"))
	}
	return g.verdict(g.judge(ctx, in))
}

func (g *guarded) verdict(f finding) datasets.Verdict {
	if f.extracted != nil {
		cut := clip(*f.extracted, maxExtracted)
		f.extracted = &cut
	}
	return datasets.Verdict{Verifier: g.name, Version: g.version, Verdict: f.verdict, Reason: f.reason, Extracted: f.extracted, Score: f.score}
}

// makers builds each verifier from its options.
var makers = map[string]func(*options.Set) *guarded{
	"choice":      newChoice,
	"code":        newCode,
	"command":     func(o *options.Set) *guarded { return newCommand(o).guarded },
	"contains":    newContains,
	"exact":       newExact,
	"format":      newFormat,
	"json_schema": newJSONSchema,
	"math":        newMath,
	"regex":       newRegex,
	"tool_calls":  newToolCalls,
}

// Names lists the verifiers, sorted.
func Names() []string { return options.Names(makers) }

// New makes the verifier that a recipe names. The error of an unknown name or
// option names the nearest known one.
func New(name string, given map[string]any) (Verifier, error) {
	if name == CommandName {
		return makeCommand(given)
	}
	v, err := options.Make("verifier", makers, name, given)
	if err != nil {
		return nil, err // not a *guarded that is nil
	}
	return v, nil
}
