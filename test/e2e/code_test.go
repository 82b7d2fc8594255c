//go:build integration

package e2e

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// codeProblems is how many problems of HumanEval are built; package sandbox
// holds all of them to their verdicts.
const codeProblems = 24

// codeRecipe has two recorded teachers answer problems of HumanEval: one with
// the solutions, as a chat model writes them, and one that ends the process with
// success.
func codeRecipe(t *testing.T, name string) string {
	t.Helper()
	f, err := os.Open(testdata.Path(t, "data/humaneval/HumanEval.jsonl.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var prompts, solves, cheats strings.Builder
	scan := bufio.NewScanner(z)
	scan.Buffer(nil, 1<<20)
	for n := 0; n < codeProblems && scan.Scan(); n++ {
		var row struct {
			Prompt   string `json:"prompt"`
			Solution string `json:"canonical_solution"`
		}
		if err := json.Unmarshal(scan.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		prompts.Write(append(scan.Bytes(), '\n'))
		for _, a := range []struct {
			to     *strings.Builder
			answer string
		}{
			{&solves, "Here it is:\n\n```python\n" + row.Prompt + row.Solution + "```\n\nIt passes."},
			{&cheats, "    import os\n    print('all tests passed')\n    os._exit(0)\n"},
		} {
			line, err := json.Marshal(map[string]string{"prompt": row.Prompt, "answer": a.answer})
			if err != nil {
				t.Fatal(err)
			}
			a.to.Write(append(line, '\n'))
		}
	}
	dir := t.TempDir()
	write(t, filepath.Join(dir, "prompts.jsonl"), prompts.String())
	write(t, filepath.Join(dir, "solves.jsonl"), solves.String())
	write(t, filepath.Join(dir, "cheats.jsonl"), cheats.String())
	return write(t, filepath.Join(dir, name+".yaml"), fmt.Sprintf(`name: %s
prompts:
  - {path: prompts.jsonl, domain: code, fields: {prompt: prompt, tests: test, gold: canonical_solution, meta: [entry_point]}}
teachers:
  - {id: solves, api: recorded, model: solves, path: solves.jsonl, fields: {prompt: prompt, content: answer}}
  - {id: cheats, api: recorded, model: cheats, path: cheats.jsonl, fields: {prompt: prompt, content: answer}}
check: [{verifier: code, language: python, timeout: 10s}]
`, name))
}

// needSandbox skips a test where bubblewrap does not work, as on a machine that
// forbids user namespaces, unless STILLHOUSE_REQUIRE_SANDBOX=1.
func needSandbox(t *testing.T) {
	t.Helper()
	if os.Getenv("STILLHOUSE_REQUIRE_SANDBOX") == "1" {
		return
	}
	if out, err := exec.Command("bwrap", "--unshare-all", "--ro-bind", "/", "/", "true").CombinedOutput(); err != nil {
		t.Skipf("bubblewrap does not work here: %v %s", err, out)
	}
}

// TestCodeIsRunInASandbox builds a dataset whose answers are run, and finds the
// right ones in it alone.
func TestCodeIsRunInASandbox(t *testing.T) {
	needSandbox(t)
	h := newHouse(t)
	r := h.build(codeRecipe(t, "humaneval"))
	if r.Candidates != 2*codeProblems || r.Teachers["solves"].Accepted != codeProblems || r.Teachers["cheats"].Accepted != 0 || r.Rows["train"] != codeProblems {
		t.Errorf("%+v", r)
	}
	for _, c := range h.candidates("humaneval") {
		want := map[string]string{"solves": datasets.Pass, "cheats": datasets.Fail}[c.Teacher]
		if c.Verdict == nil || *c.Verdict != want {
			t.Errorf("%s %s: %v", c.Teacher, c.TaskID, c.Verdicts)
		}
	}
	if again := h.build(codeRecipe(t, "humaneval")); again.Accepted != codeProblems {
		t.Errorf("again: %+v", again)
	}
}

// TestCodeIsNotRunWithoutASandbox: a machine on which none works refuses the
// build and names the fix, and the flag of the process runs it regardless.
func TestCodeIsNotRunWithoutASandbox(t *testing.T) {
	h := newHouse(t)
	bare := t.TempDir() // a search path with Python and nothing else
	for _, name := range []string{"python3", "sh"} {
		path := "/usr/bin/" + name // not the stand-in of a version manager, which needs more
		if _, err := os.Stat(path); err != nil {
			t.Skip(err)
		}
		if err := os.Symlink(path, filepath.Join(bare, name)); err != nil {
			t.Fatal(err)
		}
	}
	h.more = []string{"PATH=" + bare}
	recipe := codeRecipe(t, "humaneval")
	p := h.run(2, "build", recipe, "--json", "--yes")
	for _, want := range []string{"bubblewrap: bwrap is not installed", "apt-get install bubblewrap", "--unsafe-code"} {
		if !strings.Contains(p.stderr(), want) {
			t.Errorf("does not say %q: %s", want, p.stderr())
		}
	}
	p = h.run(0, "build", recipe, "--json", "--yes", "--unsafe-code")
	if r := p.result(); r.Accepted != codeProblems || r.Teachers["cheats"].Accepted != 0 {
		t.Errorf("%+v", r)
	}
	if !strings.Contains(p.stderr(), "WITHOUT a sandbox") {
		t.Errorf("does not say that nothing isolates: %s", p.stderr())
	}
}

// TestCodeIsRunByAWorkerOfItsOwn: on a cluster whose other worker has no
// sandbox, a worker with that one role runs the code.
func TestCodeIsRunByAWorkerOfItsOwn(t *testing.T) {
	needSandbox(t)
	cluster := newHouse(t)
	cluster.serve()
	_, vars := cluster.store()
	newNamespace(t, vars, "team")
	more := append(awsVars(vars),
		"STILLHOUSE_TEMPORAL="+vars["TEMPORAL_ADDRESS"], "STILLHOUSE_STORE=s3://"+vars["STILLHOUSE_BUCKET"]+"/team",
		"TEMPORAL_NAMESPACE=team", "TEMPORAL_GRPC_META_AUTHORIZATION=Bearer "+vars["STILLHOUSE_TEMPORAL_TOKEN"])
	works, runs, submits := newHouse(t), newHouse(t), newHouse(t)
	runs.more, submits.more = more, more
	works.more = append(more[:len(more):len(more)], "PATH="+t.TempDir()) // no bwrap
	works.start("worker").said("Ctrl-C drains and ends")
	build := submits.start("build", codeRecipe(t, "humaneval"), "--json", "--yes")
	build.said("stillhouse worker --role sandbox")
	runs.start("worker", "--role", "sandbox").said("Ctrl-C drains and ends")
	if code := build.wait(commandLimit); code != 0 {
		t.Fatalf("the build ended with %d: %s", code, build.stderr())
	}
	if r := build.result(); r.Accepted != codeProblems || r.Teachers["cheats"].Accepted != 0 {
		t.Errorf("%+v", r)
	}
	bare := newHouse(t)
	bare.more = works.more
	if p := bare.run(2, "worker", "--role", "sandbox"); !strings.Contains(p.stderr(), "bwrap is not installed") {
		t.Errorf("a worker without a sandbox says: %s", p.stderr())
	}
}
