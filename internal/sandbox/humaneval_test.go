package sandbox

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// open here is the sandbox that tests run in. Where none can be had they are
// skipped, unless STILLHOUSE_REQUIRE_SANDBOX=1 says that there must be one.
func box(t testing.TB) *Box {
	t.Helper()
	b, err := Open(t.Context(), Options{Kinds: []Kind{Bubblewrap}})
	if err != nil {
		if os.Getenv("STILLHOUSE_REQUIRE_SANDBOX") == "1" {
			t.Fatalf("STILLHOUSE_REQUIRE_SANDBOX=1, but %v", err)
		}
		t.Skipf("needs a sandbox: %v", err)
	}
	t.Cleanup(b.Close)
	return b
}

type problem struct {
	TaskID    string `json:"task_id"`
	Prompt    string `json:"prompt"`
	Canonical string `json:"canonical_solution"`
	Entry     string `json:"entry_point"`
	Test      string `json:"test"`
}

func humanEval(t testing.TB) []problem {
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
	var out []problem
	scan := bufio.NewScanner(z)
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		var p problem
		if err := json.Unmarshal(scan.Bytes(), &p); err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	if len(out) != 164 {
		t.Fatalf("%d problems, want 164", len(out))
	}
	return out
}

// python is one verifier for all tests, as a build has one: it tries a task's
// own solution once.
var python = sync.OnceValues(func() (verify.Verifier, error) {
	return verify.New("code", map[string]any{"language": "python"})
})

// thinned is every so manieth problem.
func thinned(problems []problem) []problem {
	var out []problem
	for i := 0; i < len(problems); i += stride {
		out = append(out, problems[i])
	}
	return out
}

// judgeAll gives each problem's answer its verdict, at once where it can.
func judgeAll(t testing.TB, b *Box, problems []problem, answer func(*problem) string) []datasets.Verdict {
	t.Helper()
	v, err := python()
	if err != nil {
		t.Fatal(err)
	}
	out := make([]datasets.Verdict, len(problems))
	var wg sync.WaitGroup
	turns := make(chan struct{}, 2*runtime.NumCPU())
	for i := range problems {
		wg.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			p := &problems[i]
			out[i] = v.Verify(t.Context(), verify.Input{
				Content: answer(p), Tests: &p.Test, Gold: &p.Canonical, Runner: b,
				Prompt: &chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &p.Prompt}}},
			})
		})
	}
	wg.Wait()
	return out
}

func TestHumanEvalSolutionsPass(t *testing.T) {
	problems := thinned(humanEval(t))
	for i, v := range judgeAll(t, box(t), problems, func(p *problem) string { return p.Canonical }) {
		if v.Verdict != datasets.Pass {
			t.Errorf("%s: %s: %s", problems[i].TaskID, v.Verdict, v.Reason)
		}
	}
}
