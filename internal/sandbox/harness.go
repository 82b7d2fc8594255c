package sandbox

import (
	"bytes"
	"context"
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

//go:embed harness/values.py
var valuesPy string

//go:embed harness/answer.py
var answerPy string

//go:embed harness/tests.py
var testsPy string

// A pair is a program with its tests, each for a box of its own.
type pair struct {
	answer, tests *job
	nonce         string
}

// pythonPair prepares the call of a Python answer by Python tests.
func (b *Box) pythonPair(p *verify.Program) (*pair, error) {
	python, err := b.tools.need("python3")
	if err != nil {
		return nil, err
	}
	head := valuesPy + "\n"
	argv := []string{python, "-I", "-B", "-X", "utf8"}
	return b.newPair(p,
		append(argv[:len(argv):len(argv)], "/box/answer.py"), file{name: "answer.py", data: []byte(head + answerPy)},
		append(argv[:len(argv):len(argv)], "/box/tests.py"), file{name: "tests.py", data: []byte(head + testsPy)})
}

// newPair gives both sides their programs and what each may know: the answer's
// side the answer, the tests' side the tests and the nonce.
func (b *Box) newPair(p *verify.Program, answerArgv []string, answer file, testsArgv []string, tests file) (*pair, error) {
	nonce, err := newNonce()
	if err != nil {
		return nil, err
	}
	theirs, err := json.Marshal(map[string]any{"source": p.Source, "prompt": p.Prompt, "entry": p.Entry})
	if err != nil {
		return nil, err
	}
	ours, err := json.Marshal(map[string]any{"tests": p.Tests.Code, "prompt": p.Prompt, "entry": p.Entry, "nonce": nonce})
	if err != nil {
		return nil, err
	}
	limits := limitsOf(p)
	return &pair{
		answer: &job{argv: answerArgv, files: []file{answer, {name: "answer.json", data: theirs}}, limits: limits},
		tests:  &job{argv: testsArgv, files: []file{tests, {name: "tests.json", data: ours}}, limits: limits},
		nonce:  nonce,
	}, nil
}

// newNonce is a text that nobody can guess, and that stands nowhere but in the
// box of the tests of one run.
func newNonce() (string, error) {
	raw := make([]byte, 16)
	if _, err := rand.Read(raw); err != nil {
		return "", err
	}
	return hex.EncodeToString(raw), nil
}

// runPair runs both sides and believes the tests' alone.
func (b *Box) runPair(ctx context.Context, p *pair, slots [2]int) (verify.Outcome, error) {
	var pipes pipes
	defer pipes.close()
	if err := pipes.between(&p.answer.stdout, &p.tests.stdin); err != nil {
		return verify.Outcome{}, err
	}
	if err := pipes.between(&p.tests.stdout, &p.answer.stdin); err != nil {
		return verify.Outcome{}, err
	}
	report, err := pipes.reader(&p.tests.stderr)
	if err != nil {
		return verify.Outcome{}, err
	}
	answer, err := b.in.start(p.answer, slots[0])
	if err != nil {
		return verify.Outcome{}, err
	}
	answered := make(chan ended, 1)
	go func() {
		e, err := answer.wait()
		answered <- ended{e, err}
	}()
	tests, err := b.in.start(p.tests, slots[1])
	pipes.started()
	if err != nil {
		answer.kill()
		<-answered
		return verify.Outcome{}, err
	}
	words := make(chan []byte, 1)
	go func() { words <- tail(report) }()
	tested, timeout, err := watch(ctx, tests, p.tests.limits.Wall)
	answer.kill()
	a := <-answered
	deadline(report)
	said := <-words
	if err != nil {
		return verify.Outcome{}, err
	}
	return judge(p.nonce, said, tested, a, timeout), nil
}

type ended struct {
	exit exit
	err  error
}

// judge makes an outcome of what was left of a run.
func judge(nonce string, said []byte, tested exit, answer ended, timeout bool) verify.Outcome {
	report, reported := reportIn(nonce, said)
	switch {
	case reported && report.Outcome == "pass":
		return verify.Outcome{Kind: verify.Passed, Reason: report.Reason}
	case reported && report.Outcome == "own":
		return verify.Outcome{Kind: verify.Undecided, Reason: report.Reason}
	case reported && report.Outcome == "broken":
		return verify.Outcome{Kind: verify.Faulty, Reason: report.Reason}
	case answer.exit.limit != "":
		return verify.Outcome{Kind: verify.Failed, Reason: answer.exit.limit}
	case answer.err != nil && !timeout:
		return verify.Outcome{Kind: verify.NotRun, Reason: answer.err.Error()}
	case reported:
		return verify.Outcome{Kind: verify.Failed, Reason: report.Reason}
	case timeout || tested.limit == endedCPU:
		return verify.Outcome{Kind: verify.Failed, Reason: endedCPU}
	case tested.limit == endedMemory:
		return verify.Outcome{Kind: verify.Failed, Reason: "the tests ran into the memory limit"}
	}
	return verify.Outcome{Kind: verify.Faulty, Reason: fmt.Sprintf("the tests ended with %d and no report: %s", tested.code, oneLine(said))}
}

// A report is what the tests' side says at its end.
type report struct {
	Outcome string `json:"outcome"`
	Reason  string `json:"reason"`
}

// reportIn finds the report of a run, by its nonce.
func reportIn(nonce string, said []byte) (r report, ok bool) {
	_, rest, ok := bytes.Cut(said, []byte("\n"+nonce))
	if !ok {
		return r, false
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if err := json.Unmarshal(line, &r); err != nil {
		return r, false
	}
	r.Reason = strings.ToValidUTF8(r.Reason, "?")
	return r, true
}

func limitsOf(p *verify.Program) Limits {
	return Limits{
		CPU: p.Limits.Timeout, Wall: 2*p.Limits.Timeout + lastWords, Memory: p.Limits.Memory,
		Processes: p.Limits.Processes, Disk: p.Limits.Disk, Output: p.Limits.Output,
	}
}

// deadline ends reads of what a program's end should have ended.
func deadline(files ...*os.File) {
	for _, f := range files {
		_ = f.SetReadDeadline(now().Add(lastWords))
	}
}
