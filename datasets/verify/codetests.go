package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// readTests is what a task's tests say.
type readTests struct {
	CodeTests
	entry  string
	prompt string
}

// Limits of tests.
const (
	maxCases = 1000
	maxFiles = 64
)

// parseCodeTests reads the tests of a task. They are one of
//
//	plain text                                   test code (HumanEval's test column)
//	["assert f(1) == 2", …]                      lines of test code (MBPP's test_list)
//	{"test": "…", "entry_point": "f", "prompt": "…"}
//	{"test_list": ["…"], "test_setup_code": "…"} MBPP's row
//	[{"input": "1\n", "output": "2\n"}, …]       runs of the answer as a program
//	{"inputs": ["1\n"], "outputs": ["2\n"]}      the same (APPS)
//	{"cases": [{"stdin": …, "args": […], "stdout": …, "code": 0}]}
//	{"command": ["python3", "check.py"], "files": {"check.py": "…"}}
//
// Texts that hold JSON text are read as what they hold.
func parseCodeTests(text, language string) (*readTests, error) {
	trimmed := strings.TrimSpace(text)
	switch {
	case trimmed == "":
		return nil, errors.New("they are empty")
	case strings.HasPrefix(trimmed, "{"):
		var o testsObject
		if err := json.Unmarshal([]byte(trimmed), &o); err != nil {
			if json.Valid([]byte(trimmed)) {
				return nil, fmt.Errorf("their JSON has another shape: %w", err)
			}
			break // code may begin so too
		}
		return o.read()
	case strings.HasPrefix(trimmed, "["):
		var lines []string
		if json.Unmarshal([]byte(trimmed), &lines) == nil {
			return lineTests(lines, "")
		}
		var cases []testCase
		if err := json.Unmarshal([]byte(trimmed), &cases); err == nil {
			return caseTests(cases)
		} else if json.Valid([]byte(trimmed)) {
			return nil, fmt.Errorf("their JSON has another shape: %w", err)
		}
	case strings.HasPrefix(trimmed, `"`):
		var inner string
		if json.Unmarshal([]byte(trimmed), &inner) == nil && inner != text {
			return parseCodeTests(inner, language)
		}
	}
	return &readTests{CodeTests: CodeTests{Code: text}}, nil
}

// A testsObject is every key that tests may have.
type testsObject struct {
	Test       string            `json:"test"`
	EntryPoint string            `json:"entry_point"`
	Prompt     string            `json:"prompt"`
	TestList   []string          `json:"test_list"`
	Setup      string            `json:"test_setup_code"`
	Inputs     []string          `json:"inputs"`
	Outputs    []string          `json:"outputs"`
	Cases      []testCase        `json:"cases"`
	Command    []string          `json:"command"`
	Files      map[string]string `json:"files"`
}

type testCase struct {
	Input  *string  `json:"input"`
	Output *string  `json:"output"`
	Stdin  string   `json:"stdin"`
	Args   []string `json:"args"`
	Stdout *string  `json:"stdout"`
	Code   int      `json:"code"`
}

func (o *testsObject) read() (*readTests, error) {
	switch {
	case len(o.Command) > 0:
		if len(o.Files) > maxFiles {
			return nil, fmt.Errorf("they have %d files, more than %d", len(o.Files), maxFiles)
		}
		for name := range o.Files {
			if name == "" || len(name) > 100 || strings.ContainsAny(name, "/\x00") || strings.HasPrefix(name, ".") {
				return nil, fmt.Errorf("%q is no name of a file: want one without a slash", clip(name, 40))
			}
		}
		return &readTests{CodeTests: CodeTests{Command: o.Command, Files: o.Files}, entry: o.EntryPoint, prompt: o.Prompt}, nil
	case len(o.Cases) > 0:
		return caseTests(o.Cases)
	case len(o.Inputs) > 0 || len(o.Outputs) > 0:
		if len(o.Inputs) != len(o.Outputs) {
			return nil, fmt.Errorf("they have %d inputs and %d outputs", len(o.Inputs), len(o.Outputs))
		}
		cases := make([]testCase, len(o.Inputs))
		for i := range cases {
			cases[i] = testCase{Input: &o.Inputs[i], Output: &o.Outputs[i]}
		}
		return caseTests(cases)
	case len(o.TestList) > 0:
		return lineTests(o.TestList, o.Setup)
	case strings.TrimSpace(o.Test) != "":
		return &readTests{CodeTests: CodeTests{Code: o.Test}, entry: o.EntryPoint, prompt: o.Prompt}, nil
	}
	return nil, errors.New("want one of the keys test, test_list, cases, inputs with outputs, or command")
}

func lineTests(lines []string, setup string) (*readTests, error) {
	if len(lines) == 0 {
		return nil, errors.New("their list is empty")
	}
	code := strings.Join(lines, "\n")
	if setup != "" {
		code = setup + "\n" + code
	}
	return &readTests{CodeTests: CodeTests{Code: code}}, nil
}

func caseTests(cases []testCase) (*readTests, error) {
	switch {
	case len(cases) == 0:
		return nil, errors.New("their list is empty")
	case len(cases) > maxCases:
		return nil, fmt.Errorf("they have %d cases, more than %d", len(cases), maxCases)
	}
	out := &readTests{}
	for i, c := range cases {
		one := CodeCase{Stdin: c.Stdin, Args: c.Args, Code: c.Code}
		if c.Input != nil {
			one.Stdin = *c.Input
		}
		switch {
		case c.Output != nil:
			one.Stdout = *c.Output
		case c.Stdout != nil:
			one.Stdout = *c.Stdout
		default:
			return nil, fmt.Errorf("case %d has no output", i+1)
		}
		out.Cases = append(out.Cases, one)
	}
	return out, nil
}

// metaText is a text of a task's metadata, "" where it has none.
func metaText(meta, name string) string {
	if meta == "" {
		return ""
	}
	var m map[string]any
	if json.Unmarshal([]byte(meta), &m) != nil {
		return ""
	}
	s, _ := m[name].(string)
	return s
}
