package activities

import (
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/checkers"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// anyCommand runs every command, or none.
type anyCommand struct {
	*checkers.Pool
	fault error
}

func (a anyCommand) Allowed(*verify.Command) error { return a.fault }

// A user's own checker judges what a build's teachers said, and is refused before
// anybody is asked where it does not run.
func TestACommandJudges(t *testing.T) {
	var asked atomic.Int64
	server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		asked.Add(1)
		return teacherstest.Reply{Content: "The answer is 3."}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(6))
	// It passes what holds the gold answer as a word of its own.
	const script = `while read -r line; do gold=${line#*'"gold":"'}; gold=${gold%%'"'*}; case "$line" in *"is $gold."*) echo '{"verdict":"pass","score":1,"extracted":"'$gold'"}';; *) echo '{"verdict":"fail","reason":"another"}';; esac; done`
	recipe := askRecipe("own", server.URL, "") + "check: [{verifier: command, command: [/bin/sh, -c, '" + strings.ReplaceAll(script, "'", "''") + "'], version: \"1\", timeout: 20s}]\n"
	if _, err := call[wire.PlanOutput](w, wire.ActivityPlan, w.submit(recipe)); err == nil || !strings.Contains(err.Error(), "the verifier command runs /bin/sh, and this process runs no commands of recipes") {
		t.Errorf("%v", err)
	}
	pool := checkers.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	defer pool.Close()
	w.a.Checkers = anyCommand{Pool: pool, fault: errors.New("it is forbidden here")}
	w.a.runtimes = nil
	if _, err := call[wire.PlanOutput](w, wire.ActivityPlan, w.submit(recipe)); err == nil || !strings.Contains(err.Error(), "it is forbidden here") || asked.Load() > 0 {
		t.Errorf("%v, %d asked", err, asked.Load())
	}
	w.a.Checkers = anyCommand{Pool: pool}
	w.a.runtimes = nil
	r := w.start(recipe).ask()
	// A worker that runs none leaves the shard to others.
	w.a.Checkers, w.a.runtimes = nil, nil
	if _, err := call[wire.RefineCounts](w, wire.ActivityRefine, r.refineInput(0)); err == nil || !strings.Contains(err.Error(), "run the verifier command /bin/sh: this process runs no commands") || strings.Contains(err.Error(), "retryable: false") {
		t.Errorf("%v", err)
	}
	w.a.Checkers, w.a.runtimes = anyCommand{Pool: pool}, nil
	r.refine()
	// The measures of all answers change nothing about who may run what.
	measured := w.start(strings.Replace(recipe, "name: own", "name: measured", 1) + "filter: [{length: {max_ratio: 50}}]\n").ask()
	measured.stats = measured.measure(1)
	measured.refine()
	if _, result := measured.seal(); result.Accepted != 1 {
		t.Errorf("measured: %+v", result)
	}
	_, result := r.seal()
	if result.Accepted != 1 || result.Candidates != 6 {
		t.Errorf("%+v", result)
	}
	for _, c := range rows[datasets.Candidate](w, "own", datasets.TableCandidates) {
		v := c.Verdicts[0]
		if v.Verifier != "command" || v.Version != "1+1" || (*c.Verdict == datasets.Pass) != (*c.Gold == "3") || *c.Verdict == datasets.Pass && *c.Extracted != "3" {
			t.Errorf("%+v of gold %s", v, *c.Gold)
		}
	}
}
