// Package merge decides which answers enter a dataset, and in which shares.
//
// A [Policy] chooses, among the accepted answers to one task, the rows of that
// task. Pairs gives the preference pairs of a task. A [Mix] chooses, among the
// rows of all tasks, those that give the dataset the shares that a recipe
// declares. All of it is pure: a choice depends on what is given and never on
// the order in which it came, on a clock or on chance.
//
//	p, err := merge.New("vote", merge.Options{TeacherOrder: ids})
//	result := p.Merge(merge.Input{Task: task, Accepted: accepted})
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

// Why an accepted candidate is not among the rows of its task, or of its
// dataset.
const (
	LeftPolicy     = "policy"       // the policy does not take it: no pass, another teacher's task, the loser
	LeftDuplicate  = "duplicate"    // equal to a row of its task
	LeftPerTask    = "per_task"     // the task has its rows
	LeftPerTeacher = "per_teacher"  // its teacher has its rows of the task
	LeftOutvoted   = "outvoted"     // another answer won
	LeftNoLabel    = "no_label"     // no answer won
	LeftNotJudged  = "not_judged"   // no judgement says which answer is better
	LeftDifficulty = "difficulty"   // the task is too hard or too easy
	LeftMix        = "mix"          // the mixture has its rows of this kind
	LeftCapPrefix  = "mix_cap:"     // a cap of the mixture; what it is of follows, such as mix_cap:teacher
	LeftMixWeight  = "mix_weight:0" // the mixture gives its kind no weight
)

// AcceptModes and DuplicateModes list what a recipe may say.
func AcceptModes() []string { return []string{AcceptAny, AcceptPass, AcceptPassOrUnknown} }
func DuplicateModes() []string {
	return []string{DuplicatesKeep, DuplicatesPerTask, DuplicatesPerTeacher}
}

// An Input is what a policy may look at.
type Input struct {
	Task       *datasets.Task
	Accepted   []*datasets.Candidate // in any order
	Judgements []datasets.Judgement  // of the task; of other samples too
}

// A Result is what a policy chose.
type Result struct {
	Rows []*datasets.Candidate // best first
	Left []Left                // every other accepted candidate, by sample id
	// Label is what the policy found out about the task's answer; nil for a
	// policy that does not compare answers.
	Label *Label
}

// Left is an accepted candidate that is not among the rows, and why.
type Left struct {
	Candidate *datasets.Candidate
	Reason    string // Left…
}

// A Policy chooses the rows of a task. It is safe for use by several
// goroutines.
type Policy interface {
	// Name is what a recipe calls the policy.
	Name() string
	// Version changes whenever the same candidates could give other rows.
	Version() string
	// Merge chooses. It changes neither the input's slices nor the candidates.
	Merge(in Input) Result
}

// Options of a policy.
type Options struct {
	// PerTask caps the rows of a task, PerTeacher those of one teacher to a
	// task. 0 is no cap, save that PerTask is 1 for the policies that choose
	// one answer: best_of, pairwise, shortest_passing, cheapest_passing and
	// owner_first.
	PerTask, PerTeacher int
	// TeacherOrder lists teacher ids, the preferred first. Ties between
	// candidates go by it; teachers that it does not name come last, by id.
	TeacherOrder []string
	// AnswerDuplicates is per_teacher (the default), per_task or keep. Answers
	// are equal where their text (Unicode NFC, white space collapsed), their
	// reasoning and their tool calls are: case and punctuation count, since -4
	// is not 4. Teachers that agree are a result, not duplicates, hence the
	// default. Duplicates are dropped among the rows that a policy chose, so
	// they count as votes before.
	AnswerDuplicates string
	// Near tells whether two answers are nearly equal, which then count as
	// equal; nil: only equal ones do. An answer is compared with the rows that
	// stay, never with one that was dropped.
	Near func(a, b *datasets.Candidate) bool
	// Share and Margin are what the winner of a vote needs: a share of the
	// votes (0 is 0.5) and a lead in votes (0 is 1).
	Share  float64
	Margin int
	// Agree is how many teachers have to agree; 0 is 2.
	Agree int
	// Class gives what an answer says, in a form that is the same for answers
	// that say the same, and whether it says anything that can be compared;
	// nil is [ClassOf].
	Class func(*datasets.Candidate) (class string, ok bool)
	// Cost is what an answer costs by list price, in any unit, the same on
	// every run, and whether that is known; nil: no cost is known.
	Cost func(*datasets.Candidate) (cost float64, ok bool)
}

// A maker makes a policy, whose chooser has its options.
type maker struct {
	one  bool // per_task is 1 where nobody says
	make func(chooser) Policy
}

var makers = map[string]maker{
	"union":            {false, func(c chooser) Policy { return &union{c} }},
	"all_passing":      {false, func(c chooser) Policy { return &allPassing{c} }},
	"best_of":          {true, func(c chooser) Policy { return &bestOf{c} }},
	"vote":             {false, func(c chooser) Policy { return &vote{c} }},
	"agreement":        {false, func(c chooser) Policy { return &agreement{c} }},
	"pairwise":         {true, func(c chooser) Policy { return &pairwise{c} }},
	"owner_first":      {true, func(c chooser) Policy { return &ownerFirst{c} }},
	"shortest_passing": {true, func(c chooser) Policy { return &shortestPassing{c} }},
	"cheapest_passing": {true, func(c chooser) Policy { return &cheapestPassing{c} }},
}

// Names lists the policies, sorted.
func Names() []string {
	names := make([]string, 0, len(makers))
	for name := range makers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// New makes the policy that a recipe names. The error of an unknown name names
// the nearest known one.
func New(name string, o Options) (Policy, error) {
	m, ok := makers[name]
	if !ok {
		return nil, fmt.Errorf("merge policy %q is unknown; %s", name, options.Hint(name, Names()))
	}
	if err := o.fill(m.one); err != nil {
		return nil, fmt.Errorf("merge policy %s: %w", name, err)
	}
	return m.make(newChooser(o)), nil
}

// fill gives absent options their defaults.
func (o *Options) fill(one bool) error {
	switch {
	case o.PerTask < 0:
		return fmt.Errorf("per_task is %d; it must be 0 (the policy's default) or more", o.PerTask)
	case o.PerTeacher < 0:
		return fmt.Errorf("per_teacher is %d; it must be 0 (no cap) or more", o.PerTeacher)
	case o.Margin < 0:
		return fmt.Errorf("margin is %d; it must be 0 (the default, 1) or more", o.Margin)
	case o.Agree < 0:
		return fmt.Errorf("agree is %d; it must be 0 (the default, 2) or more", o.Agree)
	case !(o.Share >= 0 && o.Share <= 1):
		return fmt.Errorf("share is %v; it must be 0 (the default, 0.5) to 1", o.Share)
	}
	if o.AnswerDuplicates == "" {
		o.AnswerDuplicates = DuplicatesPerTeacher
	}
	if !slices.Contains(DuplicateModes(), o.AnswerDuplicates) {
		return fmt.Errorf("answer_duplicates %q is unknown; %s", o.AnswerDuplicates, options.Hint(o.AnswerDuplicates, DuplicateModes()))
	}
	if o.PerTask == 0 && one {
		o.PerTask = 1
	}
	if o.Share == 0 {
		o.Share = 0.5
	}
	if o.Margin == 0 {
		o.Margin = 1
	}
	if o.Agree == 0 {
		o.Agree = 2
	}
	if o.Class == nil {
		o.Class = ClassOf
	}
	return nil
}

// NeedsVerdict tells whether the policy chooses nothing where no verifier
// applies.
func NeedsVerdict(policy string) bool {
	return policy == "all_passing" || policy == "shortest_passing" || policy == "cheapest_passing"
}

// ChoosesOne tells whether the policy gives one row a task where per_task says
// nothing.
func ChoosesOne(policy string) bool { return makers[policy].one }

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
