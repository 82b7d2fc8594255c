//go:build integration

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// judgedTasks is how many of GSM8K's recorded answers are judged.
const judgedTasks = 300

// judgesReply is what a fake judge says of a prompt: by its length, so that it
// says the same whenever it is asked.
func judgesReply(prompt string) string {
	_, key, _ := strings.Cut(prompt[strings.LastIndex(prompt, `{"key": "`):], `{"key": "`)
	key, _, _ = strings.Cut(key, `"`)
	return fmt.Sprintf("Well.\n{\"key\": %q, \"score\": %d}", key, 5+len(prompt)%5)
}

func judgedRecipe(t *testing.T, judge, more string) string {
	t.Helper()
	return write(t, filepath.Join(t.TempDir(), "recipe.yaml"), fmt.Sprintf(`name: judged
prompts: [{path: %q, fields: {prompt: question, gold: answer}, gold_pattern: '####\s*(.+)$', limit: %d}]
teachers:
  - {id: recorded, api: recorded, path: %q, fields: {prompt: question, content: 175b_verification.solution}}
  - {id: judge, base_url: %q, model: judge-70b, identity: judge, limits: {concurrency: 4}, params: {max_tokens: 100}, price: {input: 100, output: 100}}
check:
  - {verifier: judge, teacher: judge, rubric: Is every step right?}
  - {verifier: math}
%s`, testdata.Path(t, "data/gsm8k/test.jsonl"), judgedTasks, testdata.Path(t, "data/gsm8k/example_model_solutions.jsonl"), judge, more))
}

// judgedCounts is the part of a result that tells of judges.
type judgedCounts struct {
	Judged struct{ Asks, New, Reused, Unknown int64 } `json:"judged"`
	Budget struct {
		Missing int64 `json:"missing_asks"`
	} `json:"budget"`
	CostUSD float64 `json:"cost_usd"`
	Version int64   `json:"version"`
}

func judgedOf(t *testing.T, p *process) (c judgedCounts) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(p.stdout()), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &c); err != nil {
		t.Fatalf("%v: %s", err, tail(p.stdout(), 500))
	}
	return c
}

// TestJudgesSurviveKills kills the process while judges are asked: what they had
// said is never paid for again, and the version is that of an undisturbed build.
func TestJudgesSurviveKills(t *testing.T) {
	calmJudge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: judgesReply(r.Prompt)}
	})
	calm := newHouse(t)
	p := calm.run(0, "build", judgedRecipe(t, calmJudge.URL, ""), "--json", "--yes")
	want := judgedOf(t, p)
	if n := int64(calmJudge.Stats().Requests); want.Judged.Asks != n || want.Judged.New != n || n == 0 || n >= judgedTasks || want.Judged.Unknown != 0 {
		t.Fatalf("%+v of %d requests", want, n)
	}

	// This judge answers so many, and keeps further ones waiting.
	var room atomic.Int64
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if room.Add(-1) < 0 {
			<-r.Done // whoever asked is dead: this answer never arrives
			return teacherstest.Reply{Fault: teacherstest.Reset}
		}
		return teacherstest.Reply{Content: judgesReply(r.Prompt)}
	})
	h := newHouse(t)
	recipe := judgedRecipe(t, judge.URL, "")
	for kill := range 3 {
		before := judge.Stats().Completed
		room.Store(40)
		p := h.start("build", recipe, "--json", "--yes")
		eventually(t, commandLimit, "forty more judgements", func() bool { return !p.running() || judge.Stats().Completed >= before+40 && room.Load() < 0 })
		if !p.running() {
			t.Fatalf("kill %d: the build ended with %d", kill, p.code)
		}
		<-time.After(settled)
		p.kill()
	}
	room.Store(1 << 40)
	p = h.run(0, "build", recipe, "--json", "--yes")
	got := judgedOf(t, p)
	if got.Judged.Asks != want.Judged.Asks || got.Version != 1 {
		t.Errorf("%+v, want %+v", got, want)
	}
	s := judge.Stats()
	if s.PaidTwice != 0 || int64(s.Completed) != want.Judged.Asks {
		t.Errorf("%d judgements for %d asks, %d paid twice", s.Completed, want.Judged.Asks, s.PaidTwice)
	}
	if a, b := digests(calm.manifest("judged@1")), digests(h.manifest("judged@1")); len(a) < 2 || !maps.Equal(a, b) {
		t.Errorf("the killed build published\n%v\nand the undisturbed one\n%v", b, a)
	}
	h.run(0, "verify", "judged")
	// Another threshold asks nobody.
	stricter := judgedRecipe(t, judge.URL, "  - {verifier: judge, teacher: judge, rubric: Is every step right?, pass_at: 9}\n")
	if again := judgedOf(t, h.run(0, "build", stricter, "--json", "--yes")); again.Judged.New != 0 || again.Judged.Reused == 0 {
		t.Errorf("%+v", again)
	}
	t.Logf("3 kills among %d judgements: %d requests, paid twice %d", want.Judged.Asks, s.Requests, s.PaidTwice)
}

// TestJudgesStopAtTheBudget: a build whose budget ends among the judges ends with
// 4 and keeps what it paid for; more money asks for the rest alone.
func TestJudgesStopAtTheBudget(t *testing.T) {
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: judgesReply(r.Prompt)}
	})
	h := newHouse(t)
	recipe := judgedRecipe(t, judge.URL, "merge: {accept: pass_or_unknown}\n")
	first := judgedOf(t, h.run(4, "build", recipe, "--json", "--budget", "3"))
	if paid := int64(judge.Stats().Completed); first.Judged.New != paid || paid == 0 || first.CostUSD > 3 || first.Budget.Missing != first.Judged.Asks-paid || first.Budget.Missing == 0 {
		t.Fatalf("%+v after %d judgements", first, paid)
	}
	second := judgedOf(t, h.run(0, "build", recipe, "--json", "--budget", "100"))
	s := judge.Stats()
	if second.Judged.New != first.Budget.Missing || second.Judged.Unknown != 0 || s.PaidTwice != 0 || int64(s.Completed) != second.Judged.Asks {
		t.Errorf("%+v then %+v, %d judgements, %d paid twice", first, second, s.Completed, s.PaidTwice)
	}
	t.Logf("$3 paid for %d of %d judgements, $%.2f; the rest cost $%.2f", first.Judged.New, second.Judged.Asks, first.CostUSD, second.CostUSD)
}

// TestJudgesThatAreGone: a judge that cannot be reached leaves verdicts unknown,
// ends with 5, and is asked once it is back.
func TestJudgesThatAreGone(t *testing.T) {
	var up atomic.Bool
	judge := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if !up.Load() {
			return teacherstest.Reply{Status: 401, Message: "no such key"}
		}
		return teacherstest.Reply{Content: judgesReply(r.Prompt)}
	})
	h := newHouse(t)
	recipe := judgedRecipe(t, judge.URL, "merge: {accept: pass_or_unknown}\n")
	p := h.run(5, "build", recipe, "--json", "--yes")
	gone := judgedOf(t, p)
	if gone.Judged.New != 0 || gone.Judged.Unknown == 0 || gone.Version != 1 || !strings.Contains(p.stderr()+p.stdout(), "no such key") {
		t.Errorf("%+v\n%s", gone, p.stderr())
	}
	up.Store(true)
	back := judgedOf(t, h.run(0, "build", recipe, "--json", "--yes"))
	if back.Judged.New != gone.Judged.Asks || back.Judged.Unknown != 0 || back.Version != 2 {
		t.Errorf("%+v then %+v", gone, back)
	}
}
