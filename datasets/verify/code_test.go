package verify

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A fakeRunner answers by the source of a program.
type fakeRunner struct {
	mu       sync.Mutex
	outcomes map[string]Outcome
	ran      []Program
}

func (r *fakeRunner) Run(ctx context.Context, p *Program) (Outcome, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ran = append(r.ran, *p)
	if ctx.Err() != nil {
		return Outcome{}, ctx.Err()
	}
	return r.outcomes[strings.TrimSpace(p.Source)], nil
}

func codeVerdict(t *testing.T, options map[string]any, in Input) datasets.Verdict {
	t.Helper()
	v, err := New("code", options)
	if err != nil {
		t.Fatal(err)
	}
	return v.Verify(t.Context(), in)
}

func ptr(s string) *string { return &s }

func TestCodeVerdicts(t *testing.T) {
	runner := &fakeRunner{outcomes: map[string]Outcome{
		"right":   {Passed, "all tests passed"},
		"wrong":   {Failed, "wrong: assert f() == 1"},
		"own":     {Undecided, "objects"},
		"faulty":  {Faulty, "SyntaxError"},
		"machine": {NotRun, "bwrap could not start"},
	}}
	for _, tc := range []struct {
		answer, gold  string
		options       map[string]any
		want, because string
	}{
		{"right", "", nil, "pass", "all tests passed"},
		{"right", "wrong", nil, "pass", "all tests passed"}, // nothing to attribute
		{"wrong", "", nil, "fail", "wrong: assert"},
		{"wrong", "right", nil, "fail", "wrong: assert"},
		{"wrong", "own", nil, "fail", "wrong: assert"},
		{"wrong", "wrong", nil, "unknown", "the task's own solution does not pass: wrong: assert"},
		{"wrong", "faulty", nil, "unknown", "the task's own solution does not pass: SyntaxError"},
		{"wrong", "machine", nil, "unknown", "the task's own solution does not pass: bwrap"},
		{"wrong", "wrong", map[string]any{"gold": "ignore"}, "fail", "wrong: assert"},
		{"own", "right", nil, "unknown", "objects"},
		{"faulty", "right", nil, "unknown", "the tests do not run: SyntaxError"},
		{"machine", "right", nil, "unknown", "the sandbox did not run it: bwrap"},
		{"", "", nil, "fail", "no code"},
		{"```python\n```", "", nil, "fail", "no code"},
		{strings.Repeat("x", maxSource+1), "", nil, "fail", "too long"},
	} {
		options := map[string]any{"language": "python"}
		for k, v := range tc.options {
			options[k] = v
		}
		in := Input{Content: tc.answer, Tests: ptr("assert f() == 1"), Runner: runner}
		if tc.gold != "" {
			in.Gold = &tc.gold
		}
		v := codeVerdict(t, options, in)
		if v.Verdict != tc.want || !strings.HasPrefix(v.Reason, tc.because) && !strings.HasSuffix(v.Reason, tc.because) || v.Verifier != "code" || v.Version == "" {
			t.Errorf("%.20q, gold %q: %s: %q, want %s: %q", tc.answer, tc.gold, v.Verdict, v.Reason, tc.want, tc.because)
		}
	}
}

func TestCodeWithoutWhatItNeeds(t *testing.T) {
	for because, in := range map[string]Input{
		"no sandbox":                       {Content: "x", Tests: ptr("assert f()")},
		"task has no tests":                {Content: "x", Runner: &fakeRunner{}},
		"tests of the task too long":       {Content: "x", Tests: ptr(strings.Repeat("x", maxTests+1)), Runner: &fakeRunner{}},
		"tests of the task not readable: ": {Content: "x", Tests: ptr(`{"tset": "x"}`), Runner: &fakeRunner{}},
	} {
		if v := codeVerdict(t, map[string]any{"language": "go"}, in); v.Verdict != datasets.Unknown || !strings.HasPrefix(v.Reason, because) {
			t.Errorf("%s: %q, want %q", v.Verdict, v.Reason, because)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v, err := New("code", map[string]any{"language": "go"})
	if err != nil {
		t.Fatal(err)
	}
	if got := v.Verify(ctx, Input{Content: "x", Tests: ptr("x"), Runner: &fakeRunner{}}); got.Verdict != datasets.Unknown {
		t.Errorf("cancelled: %+v", got)
	}
}

func TestCodeOptions(t *testing.T) {
	v, err := New("code", map[string]any{"language": "py", "timeout": "2s", "memory": "1GiB", "processes": 8, "disk": 4096, "output": "2KiB"})
	if err != nil {
		t.Fatal(err)
	}
	runner := &fakeRunner{}
	v.Verify(t.Context(), Input{Content: "x", Tests: ptr("assert f()"), Meta: `{"entry_point": "f"}`, Runner: runner})
	want := CodeLimits{Timeout: 2 * time.Second, Memory: 1 << 30, Processes: 8, Disk: 4096, Output: 2048}
	if len(runner.ran) != 1 || runner.ran[0].Limits != want || runner.ran[0].Language != "python" || runner.ran[0].Entry != "f" {
		t.Errorf("%+v, want %+v", runner.ran, want)
	}
	for want, options := range map[string]map[string]any{
		`option language: want one of python, go, javascript, shell, got ""`:      {},
		`option language: want one of python, go, javascript, shell, got "cobol"`: {"language": "cobol"},
		`option timeout: want 100ms to 10m0s, got 1h0m0s`:                         {"language": "go", "timeout": "1h"},
		`option timeout: want a time such as 10s, got "soon"`:                     {"language": "go", "timeout": "soon"},
		`option memory: want a size such as 512MiB, got "512 apples"`:             {"language": "go", "memory": "512 apples"},
		`option memory: want 16777216 to 68719476736, got 1`:                      {"language": "go", "memory": 1},
		`option processes: want 1 to 4096, got 0`:                                 {"language": "go", "processes": 0},
		`option gold: want solution or ignore, got "maybe"`:                       {"language": "go", "gold": "maybe"},
		`unknown option "timout"`:                                                 {"language": "go", "timout": "1s"},
	} {
		if _, err := New("code", options); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", options, err, want)
		}
	}
}

func TestParseCodeTests(t *testing.T) {
	cases := func(c ...CodeCase) readTests { return readTests{CodeTests: CodeTests{Cases: c}} }
	code := func(s string) readTests { return readTests{CodeTests: CodeTests{Code: s}} }
	for _, tc := range []struct {
		text string
		want readTests
		err  string
	}{
		{"def check(candidate):\n    pass", code("def check(candidate):\n    pass"), ""},
		{`["assert f(1)", "assert f(2)"]`, code("assert f(1)\nassert f(2)"), ""},
		{`"assert f(1)"`, code("assert f(1)"), ""},
		{`"[\"assert f(1)\"]"`, code("assert f(1)"), ""},
		{`{"test_list": ["assert f(1)"], "test_setup_code": "import math"}`, code("import math\nassert f(1)"), ""},
		{`{"test": "x", "entry_point": "f", "prompt": "def f():"}`, readTests{CodeTests{Code: "x"}, "f", "def f():"}, ""},
		{`[{"input": "1", "output": "2"}]`, cases(CodeCase{Stdin: "1", Stdout: "2"}), ""},
		{`{"inputs": ["1", "3"], "outputs": ["2", "4"]}`, cases(CodeCase{Stdin: "1", Stdout: "2"}, CodeCase{Stdin: "3", Stdout: "4"}), ""},
		{`{"cases": [{"stdin": "1", "args": ["a"], "stdout": "", "code": 3}]}`, cases(CodeCase{Stdin: "1", Args: []string{"a"}, Code: 3}), ""},
		{`{"command": ["sh", "x"], "files": {"x": "true"}}`, readTests{CodeTests: CodeTests{Command: []string{"sh", "x"}, Files: map[string]string{"x": "true"}}}, ""},
		{"[1, 2].forEach(x => assert(f(x)))", code("[1, 2].forEach(x => assert(f(x)))"), ""},
		{"{ const a = 1; assert(f(a)) }", code("{ const a = 1; assert(f(a)) }"), ""},
		{`{"inputs": ["1"], "outputs": []}`, readTests{}, "1 inputs and 0 outputs"},
		{`[{"input": "1"}]`, readTests{}, "case 1 has no output"},
		{`[]`, readTests{}, "empty"},
		{`""`, readTests{}, "empty"},
		{`[1]`, readTests{}, "another shape"},
		{`{"test": 1}`, readTests{}, "another shape"},
		{`{"tests": "x"}`, readTests{}, "want one of the keys"},
		{`{"command": ["x"], "files": {"../x": ""}}`, readTests{}, "no name of a file"},
		{`{"command": ["x"], "files": {".checker": ""}}`, readTests{}, "no name of a file"},
		{`[` + strings.Repeat(`{"output": ""},`, maxCases) + `{"output": ""}]`, readTests{}, "more than 1000"},
	} {
		got, err := parseCodeTests(tc.text, "python")
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%.60s: %v, want %q", tc.text, err, tc.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(*got, tc.want) {
			t.Errorf("%.60s: %+v, %v; want %+v", tc.text, got, err, tc.want)
		}
	}
}

func TestExtractCode(t *testing.T) {
	for _, tc := range []struct{ name, content, language, entry, want string }{
		{"no fence", "def f(): pass", "python", "f", "def f(): pass"},
		{"one", "Sure:\n```python\nx\n```\nbye", "python", "", "x\n"},
		{"the last", "```py\na\n```\n```python\nb\n```", "python", "", "b\n"},
		{"the one that defines", "```python\ndef f(): pass\n```\nUse it:\n```python\nf()\n```", "python", "f", "def f(): pass\n"},
		{"the last that defines", "```python\ndef f(): 1\n```\nbetter:\n```python\ndef f(): 2\n```", "python", "f", "def f(): 2\n"},
		{"not a longer name", "```python\ndef f(): 1\n```\n```python\ndef ff(): 2\n```", "python", "f", "def f(): 1\n"},
		{"another language", "```python\na\n```\n```bash\npip install\n```", "python", "", "a\n"},
		{"no language", "```\na\n```", "go", "", "a\n"},
		{"cut off", "```python\ndef f():\n    return", "python", "f", "def f():\n    return"},
		{"tildes", "~~~python\n```\n~~~", "python", "", "```\n"},
		{"longer fence", "````python\n```\nx\n```\n````", "python", "", "```\nx\n```\n"},
		{"within a list", "1. so\n   ```python\n   x\n     y\n   ```", "python", "", "x\n  y\n"},
		{"within a line", "```not a fence``` x", "python", "", "```not a fence``` x"},
		{"attributes", "```{.python .numberLines}\nx\n```", "python", "", "x\n"},
		{"javascript", "```js\nconst f = 1\n```\n```js\nf(2)\n```", "javascript", "f", "const f = 1\n"},
		{"go", "```go\nfunc F() {}\n```\n```go\nfunc main() { F() }\n```", "go", "F", "func F() {}\n"},
		{"shell", "```bash\nf() { :; }\n```\n```sh\nf\n```", "shell", "f", "f() { :; }\n"},
	} {
		if got := extractCode(tc.content, tc.language, tc.entry); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestPromptCode(t *testing.T) {
	for _, tc := range []struct{ prompt, language, want string }{
		{"import math\n\ndef f(x):\n    \"\"\"Doc.\"\"\"\n", "python", "import math\n\ndef f(x):\n    \"\"\"Doc.\"\"\"\n"},
		{"Complete this:\n```python\ndef f(x):\n```\nNow.", "python", "def f(x):\n"},
		{"Write a function f.", "python", ""},
		{"def f(x):", "go", ""},
		{"func f(x int) int {", "go", "func f(x int) int {"},
		{"const f = (x) => {", "javascript", "const f = (x) => {"},
		{"echo", "shell", ""},
	} {
		p := &chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &tc.prompt}}}
		if got := promptCode(p, tc.language); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.prompt, got, tc.want)
		}
	}
	if promptCode(nil, "python") != "" || promptCode(&chat.Prompt{}, "python") != "" {
		t.Error("code without a prompt")
	}
}

// A gateRunner lets runs go on together.
type gateRunner struct {
	runs atomic.Int64
	gate chan struct{}
	kind string
}

func (r *gateRunner) Run(context.Context, *Program) (Outcome, error) {
	r.runs.Add(1)
	<-r.gate
	return Outcome{Kind: r.kind}, nil
}

// TestGoldIsTriedOnce: many answers to a task ask for the same run, and what
// was the machine's fault is not remembered.
func TestGoldIsTriedOnce(t *testing.T) {
	var memo goldMemo
	r := &gateRunner{gate: make(chan struct{}), kind: Passed}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if out := memo.get(t.Context(), r, &Program{Source: "x"}); out.Kind != Passed {
				t.Errorf("%+v", out)
			}
		})
	}
	close(r.gate)
	wg.Wait()
	if n := r.runs.Load(); n != 1 {
		t.Errorf("tried %d times", n)
	}
	r.kind = NotRun
	for range 2 {
		memo.get(t.Context(), r, &Program{Source: "y"})
	}
	if n := r.runs.Load(); n != 3 {
		t.Errorf("tried %d times after the machine failed, want 3 in all", n)
	}
	for i := range rememberedGolds + 5 {
		memo.get(t.Context(), &gateRunner{gate: r.gate, kind: Passed}, &Program{Source: strings.Repeat("z", i)})
	}
	if len(memo.known) > rememberedGolds {
		t.Errorf("remembers %d", len(memo.known))
	}
}

func FuzzCodeText(f *testing.F) {
	for _, s := range []string{"```python\ndef f(): pass\n```", "~~~\n", "````", "```{.py}\nx", "def f(", "- ```\n  x"} {
		f.Add(s, "f")
	}
	f.Fuzz(func(t *testing.T, content, entry string) {
		for _, language := range Languages {
			if got := extractCode(content, language, entry); len(got) > len(content) {
				t.Errorf("more code than there is text: %q of %q", got, content)
			}
		}
	})
}

func FuzzCodeTests(f *testing.F) {
	for _, s := range []string{`["x"]`, `{"test": "x"}`, `[{"input": "1", "output": "2"}]`, `{"inputs": [""], "outputs": [""]}`, `"\"x\""`, "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parseCodeTests(text, "python")
		if err == nil && got.Code == "" && len(got.Cases) == 0 && len(got.Command) == 0 && strings.TrimSpace(text) != "" && !json.Valid([]byte(text)) {
			t.Errorf("tests that test nothing: %q", text)
		}
	})
}
