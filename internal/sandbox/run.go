package sandbox

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// Run runs a program against its tests; see [verify.Runner].
func (b *Box) Run(ctx context.Context, p *verify.Program) (verify.Outcome, error) {
	slot, done, err := b.slot(ctx)
	if err != nil {
		return verify.Outcome{}, err
	}
	defer done()
	out, err := b.run(ctx, p, slot)
	if ctx.Err() != nil {
		return verify.Outcome{}, ctx.Err()
	}
	var absent *noTool
	switch {
	case errors.As(err, &absent):
		return verify.Outcome{Kind: verify.NotRun, Reason: absent.Error()}, nil
	case err != nil:
		return verify.Outcome{Kind: verify.NotRun, Reason: oneLine([]byte(err.Error()))}, nil
	}
	return out, nil
}

func (b *Box) run(ctx context.Context, p *verify.Program, slot int) (verify.Outcome, error) {
	// The answer and its tests have a slot each, though they take turns.
	slots := [2]int{slot, slot + cap(b.slots)}
	switch {
	case len(p.Tests.Command) > 0:
		return b.runCommand(ctx, p, slots)
	case len(p.Tests.Cases) > 0:
		return b.runCases(ctx, p, slot)
	}
	var pair *pair
	var err error
	switch p.Language {
	case "python":
		pair, err = b.pythonPair(p)
	case "javascript":
		pair, err = b.javascriptPair(p)
	case "go":
		var fault *verify.Outcome
		if pair, fault, err = b.goPair(ctx, p, slot); fault != nil {
			return *fault, err
		}
	default:
		return verify.Outcome{Kind: verify.Faulty, Reason: p.Language + " has no tests in code: give cases with stdin and stdout, or a command"}, nil
	}
	if err != nil {
		return verify.Outcome{}, err
	}
	return b.runPair(ctx, pair, slots)
}

// program prepares the answer as a program of its own, whose arguments follow
// argv. A fault is the answer's: it does not compile.
func (b *Box) program(ctx context.Context, p *verify.Program, slot int) (argv []string, files []file, fault *verify.Outcome, err error) {
	source := []byte(p.Source)
	switch p.Language {
	case "python":
		python, err := b.tools.need("python3")
		return []string{python, "-I", "-B", "-X", "utf8", "/box/answer.py"}, []file{{name: "answer.py", data: source}}, nil, err
	case "javascript":
		node, err := b.tools.need("node")
		return append(nodeArgv(node, p), "/box/answer.js"), []file{{name: "answer.js", data: source}}, nil, err
	case "shell":
		shell, err := b.tools.need("bash")
		if err != nil {
			shell, err = b.tools.need("sh")
		}
		return []string{shell, "/box/answer.sh"}, []file{{name: "answer.sh", data: source}}, nil, err
	case "go":
		binary, fault, err := b.buildGo(ctx, map[string][]byte{"answer.go": source}, p, slot)
		return []string{"/box/answer"}, []file{{name: "answer", data: binary, exec: true}}, fault, err
	}
	return nil, nil, nil, fmt.Errorf("no way to run %s", p.Language)
}

// runCases runs the answer as a program, once for each case, and compares what
// it prints. What it should print is never in its box.
func (b *Box) runCases(ctx context.Context, p *verify.Program, slot int) (verify.Outcome, error) {
	argv, files, fault, err := b.program(ctx, p, slot)
	if err != nil {
		return verify.Outcome{}, err
	}
	if fault != nil {
		return *fault, nil
	}
	for i := range p.Tests.Cases {
		c := &p.Tests.Cases[i]
		j := &job{argv: append(argv[:len(argv):len(argv)], c.Args...), files: files, limits: limitsOf(p)}
		got, err := b.capture(ctx, j, slot, []byte(c.Stdin))
		if err != nil {
			return verify.Outcome{}, err
		}
		if why := wrong(c, got); why != "" {
			return verify.Outcome{Kind: verify.Failed, Reason: fmt.Sprintf("case %d of %d: %s", i+1, len(p.Tests.Cases), why)}, nil
		}
	}
	return verify.Outcome{Kind: verify.Passed, Reason: "all tests passed"}, nil
}

// wrong says what is wrong with a run, "" for nothing.
func wrong(c *verify.CodeCase, got *captured) string {
	switch {
	case got.exit.limit != "":
		return got.exit.limit
	case got.flooded:
		return "output limit"
	case got.timeout:
		return endedCPU
	case got.exit.code != c.Code:
		return fmt.Sprintf("ended with %d, want %d: %s", got.exit.code, c.Code, oneLine(got.stderr))
	case plainOutput(string(got.stdout)) != plainOutput(c.Stdout):
		return "printed something else"
	}
	return ""
}

// plainOutput drops white space at the ends of lines and of the whole.
func plainOutput(s string) string {
	lines := strings.Split(strings.TrimRight(s, " \t\r\n"), "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \t\r")
	}
	return strings.Join(lines, "\n")
}

// now is the clock.
func now() time.Time { return time.Now() }
