// Package merge chooses, among the accepted answers to one task, the rows that
// enter the dataset. A [Policy] is pure, and its choice depends on the set of
// candidates alone, never on the order in which they came.
package merge

import (
	"fmt"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Which verdicts a candidate may have to be accepted.
const (
	AcceptPass          = "pass"            // where a verifier applies, pass only
	AcceptPassOrUnknown = "pass_or_unknown" // where a verifier applies, anything but fail
	AcceptAny           = "any"             // the verdict does not matter
)

// What becomes of answers to one task that are equal (see Options).
const (
	DuplicatesPerTeacher = "per_teacher" // of one teacher's equal answers one stays
	DuplicatesPerTask    = "per_task"    // of all teachers' equal answers one stays
	DuplicatesKeep       = "keep"        // all stay
)

// AcceptModes, DuplicateModes and Names list what a recipe may say.
func AcceptModes() []string { return []string{AcceptAny, AcceptPass, AcceptPassOrUnknown} }
func DuplicateModes() []string {
	return []string{DuplicatesKeep, DuplicatesPerTask, DuplicatesPerTeacher}
}
func Names() []string { return []string{"all_passing", "best_of", "union"} }

// A Policy chooses rows. It is safe for use by several goroutines.
type Policy interface {
	// Name is what a recipe calls the policy.
	Name() string
	// Merge returns the chosen of the accepted candidates of task, best first.
	// It changes neither the slice nor the candidates.
	Merge(task *datasets.Task, accepted []*datasets.Candidate) []*datasets.Candidate
}

// Options of a policy.
type Options struct {
	// PerTask caps the rows of a task. 0 is the policy's default: 1 for
	// best_of, no cap for the others.
	PerTask int
	// TeacherOrder lists teacher ids, the preferred first. Ties between
	// candidates go by it; teachers that it does not name come last, by id.
	TeacherOrder []string
	// AnswerDuplicates is per_teacher (the default), per_task or keep. Answers
	// are equal where their text (Unicode NFC, white space collapsed), their
	// reasoning and their tool calls are: case and punctuation count, since -4
	// is not 4. Teachers that agree are a result, not duplicates, hence the
	// default.
	AnswerDuplicates string
}

// New makes the policy that a recipe names. The error of an unknown name names
// the nearest known one.
func New(name string, o Options) (Policy, error) {
	if o.PerTask < 0 {
		return nil, fmt.Errorf("merge policy %s: per_task is %d; it must be 0 (the policy's default) or more", name, o.PerTask)
	}
	if o.AnswerDuplicates == "" {
		o.AnswerDuplicates = DuplicatesPerTeacher
	}
	if !slices.Contains(DuplicateModes(), o.AnswerDuplicates) {
		return nil, fmt.Errorf("merge policy %s: answer_duplicates %q is unknown; %s", name, o.AnswerDuplicates, options.Hint(o.AnswerDuplicates, DuplicateModes()))
	}
	base := newChooser(o)
	switch name {
	case "union":
		return &union{base}, nil
	case "all_passing":
		return &allPassing{base}, nil
	case "best_of":
		if base.perTask == 0 {
			base.perTask = 1
		}
		return &bestOf{base}, nil
	}
	return nil, fmt.Errorf("merge policy %q is unknown; %s", name, options.Hint(name, Names()))
}

// NeedsVerdict tells whether the policy chooses nothing where no verifier
// applies.
func NeedsVerdict(policy string) bool { return policy == "all_passing" }

// Accept tells whether a candidate may enter the merge: it has an answer, no
// reject reason, and a verdict that mode allows. hasVerifier tells whether a
// verifier applies to the candidate; where none does there is nothing to ask
// for, and every mode accepts. A verifier that gave no verdict counts as
// unknown. mode "" is pass.
func Accept(mode string, c *datasets.Candidate, hasVerifier bool) bool {
	if c.Error != nil || c.Answer() == nil || len(c.RejectReasons) > 0 {
		return false
	}
	if !hasVerifier || mode == AcceptAny {
		return true
	}
	verdict := datasets.Unknown
	if c.Verdict != nil {
		verdict = *c.Verdict
	}
	if mode == AcceptPassOrUnknown {
		return verdict == datasets.Pass || verdict == datasets.Unknown
	}
	return verdict == datasets.Pass
}
