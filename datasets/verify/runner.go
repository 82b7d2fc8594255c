package verify

import (
	"context"
	"time"
)

// A Runner runs the code of answers against their tests, where it can harm
// nothing. Verifiers know no processes; whoever judges gives them one, and a
// verdict is only as good as its isolation: pass must be proven by what the
// answer's code cannot forge.
type Runner interface {
	// Run runs a program. Its error is only ever that nobody waits any longer
	// (ctx); what else goes wrong is an outcome of the kind [NotRun].
	Run(ctx context.Context, p *Program) (Outcome, error)
}

// RunsCode tells whether a verifier needs a Runner.
func RunsCode(name string) bool { return name == "code" }

// A Program is an answer's code with the tests that judge it: plain data.
type Program struct {
	Language string // one of Languages
	Source   string // the answer's code
	// Prompt is code that the answer may complete or lean on: the beginning of
	// a function, its imports, its helpers. "" for none.
	Prompt string
	// Entry names the function that the tests check; "" where the tests or the
	// prompt tell.
	Entry  string
	Tests  CodeTests
	Limits CodeLimits
}

// CodeTests are the tests of a program, in one of three forms.
type CodeTests struct {
	Code    string     // in the program's language: they call what the answer defines
	Cases   []CodeCase // runs of the answer as a program
	Command []string   // a checker that runs beside the answer; exit code 0 passes
	Files   map[string]string
}

// A CodeCase is one run of the answer as a program of its own.
type CodeCase struct {
	Stdin  string
	Args   []string
	Stdout string // what it must print; white space at the ends of lines and of the text does not count
	Code   int    // what it must exit with
}

// CodeLimits bound one run of a program.
type CodeLimits struct {
	Timeout   time.Duration // processor time; the clock may show twice that
	Memory    int64         // bytes
	Processes int
	Disk      int64 // bytes of the one place to write
	Output    int64 // bytes of standard output
}

// Kinds of outcomes.
const (
	// Passed: the tests' own process said so, after the last check returned.
	Passed = "passed"
	// Failed, by the answer's doing: wrong, crashed, too slow, too large.
	Failed = "failed"
	// Undecided: nothing was wrong, but only the answer's own objects say so.
	Undecided = "undecided"
	// Faulty tests: they do not run, whatever the answer is.
	Faulty = "faulty"
	// NotRun: the sandbox or the machine is at fault.
	NotRun = "not run"
)

// An Outcome is how a run of a program ended.
type Outcome struct {
	Kind   string
	Reason string
}
