package sandbox

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// A checker is a command of the task's. It runs in a box of its own with the
// task's files, which is its working folder; the answer's text lies there
// as solution, to be looked at. The answer never runs in that box. A checker
// runs it by ./run, which has us run it as a program in another box:
//
//	printf '2\n' | ./run arg   # prints, and exits with, what the answer did
//
// So the checker's exit code is its own, and 0 can be believed.

//go:embed harness/run.sh
var runScript []byte

// Bounds of what a checker may ask for.
const (
	mostRuns     = 1000
	maxRunInput  = 16 << 20
	maxRunFrames = 24 << 20
)

// runCommand runs a checker and, when it asks, the answer.
func (b *Box) runCommand(ctx context.Context, p *verify.Program, slots [2]int) (verify.Outcome, error) {
	nonce, err := newNonce()
	if err != nil {
		return verify.Outcome{}, err
	}
	python, err := b.tools.need("python3")
	if err != nil {
		return verify.Outcome{}, err
	}
	argv, files, fault, err := b.program(ctx, p, slots[0])
	if err != nil || fault != nil {
		return orNone(fault), err
	}
	limits := limitsOf(p)
	checker := &job{
		argv:   append([]string{python, "-I", "-B", "/box/.checker", nonce}, p.Tests.Command...),
		files:  []file{{name: ".checker", data: checkerPy}, {name: "run", data: runScript, exec: true}, {name: "solution", data: []byte(p.Source)}},
		limits: limits,
	}
	for _, name := range sortedKeys(p.Tests.Files) {
		if name == "run" || name == "solution" {
			return verify.Outcome{Kind: verify.Faulty, Reason: "a file of the tests may not be called " + name}, nil
		}
		checker.files = append(checker.files, file{name: name, data: []byte(p.Tests.Files[name])})
	}
	var pipes pipes
	defer pipes.close()
	asks, err := pipes.reader(&checker.stdout)
	if err != nil {
		return verify.Outcome{}, err
	}
	replies, err := pipes.writer(&checker.stdin)
	if err != nil {
		return verify.Outcome{}, err
	}
	report, err := pipes.reader(&checker.stderr)
	if err != nil {
		return verify.Outcome{}, err
	}
	// The time is the answer's; the checker has the same beside it.
	checker.limits.Wall *= 2
	process, err := b.in.start(checker, slots[1])
	pipes.started()
	if err != nil {
		return verify.Outcome{}, err
	}
	var serving sync.WaitGroup
	var ran runs
	served, stop := context.WithCancel(ctx)
	defer stop()
	serving.Go(func() {
		ran.serve(served, asks, replies, func(q *runAsk) (*captured, error) {
			return b.capture(served, &job{argv: append(argv[:len(argv):len(argv)], q.Args...), files: files, limits: limits}, slots[0], q.Stdin)
		})
	})
	words := make(chan []byte, 1)
	go func() { words <- tail(report) }()
	ended, timeout, err := watch(ctx, process, checker.limits.Wall)
	stop()
	deadline(report, asks)
	_ = replies.Close()
	serving.Wait()
	said := <-words
	switch {
	case err != nil:
		return verify.Outcome{}, err
	case ran.err != nil && !timeout:
		return verify.Outcome{}, ran.err
	}
	out, reported := reportIn(nonce, said)
	switch {
	case reported && out.Outcome == "pass":
		return verify.Outcome{Kind: verify.Passed, Reason: "the command passed it"}, nil
	case reported && out.Outcome == "broken":
		return verify.Outcome{Kind: verify.Faulty, Reason: out.Reason}, nil
	case reported:
		return verify.Outcome{Kind: verify.Failed, Reason: out.Reason}, nil
	case timeout || ended.limit == endedCPU:
		return verify.Outcome{Kind: verify.Failed, Reason: endedCPU}, nil
	case ended.limit == endedMemory:
		return verify.Outcome{Kind: verify.Failed, Reason: "the command ran into the memory limit"}, nil
	}
	return verify.Outcome{Kind: verify.Faulty, Reason: fmt.Sprintf("the command ended with %d and no report: %s", ended.code, oneLine(said))}, nil
}

//go:embed harness/checker.py
var checkerPy []byte

func orNone(o *verify.Outcome) verify.Outcome {
	if o == nil {
		return verify.Outcome{}
	}
	return *o
}

// A runAsk is one run that a checker asks for.
type runAsk struct {
	Args  []string `json:"args"`
	Stdin []byte   `json:"stdin"`
}

// A runReply is what became of it.
type runReply struct {
	Stdout []byte `json:"stdout"`
	Code   int    `json:"code"`
	Ended  string `json:"ended,omitempty"` // what limit it ran into
}

// runs serves a checker's asks.
type runs struct {
	err error // the sandbox's
}

func (r *runs) serve(ctx context.Context, asks io.Reader, replies *os.File, run func(*runAsk) (*captured, error)) {
	read := json.NewDecoder(io.LimitReader(asks, maxRunFrames*8))
	write := json.NewEncoder(replies)
	for range mostRuns {
		var q runAsk
		if err := read.Decode(&q); err != nil || len(q.Stdin) > maxRunInput {
			return
		}
		got, err := run(&q)
		if err != nil {
			if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				r.err = err
			}
			return
		}
		reply := runReply{Stdout: got.stdout, Code: got.exit.code, Ended: got.exit.limit}
		switch {
		case got.flooded:
			reply.Ended, reply.Stdout = "output limit", nil
		case got.timeout && reply.Ended == "":
			reply.Ended = endedCPU
		}
		if reply.Ended != "" {
			reply.Code = max(reply.Code, 128)
		}
		if write.Encode(&reply) != nil {
			return
		}
	}
}
