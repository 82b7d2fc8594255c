package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A world stands in for the activities: it plans what a test wants and writes
// down what it was asked to do.
type world struct {
	mu      sync.Mutex
	plan    wire.PlanOutput
	asked   map[string][]int // teacher → batches
	refined []int
	sealed  *wire.SealInput
	ended   string // state that AbandonBuild was told
	ask     func(in wire.AskInput) (*wire.AskOutput, error)
	onAsk   func(in wire.AskInput)
}

// newWorld plans shards of eight batches each for every teacher.
func newWorld(shards int, teachers ...string) *world {
	w := &world{asked: map[string][]int{}, plan: wire.PlanOutput{Key: "plan", Shards: shards, Tasks: int64(512 * shards)}}
	for _, id := range teachers {
		w.plan.Teachers = append(w.plan.Teachers, wire.TeacherPlan{
			ID: id, Queue: "teacher." + id + ".01234567", Batches: 8 * shards, Asks: int64(512 * shards), Window: 4,
		})
	}
	w.ask = func(in wire.AskInput) (*wire.AskOutput, error) {
		return &wire.AskOutput{Counts: wire.AskCounts{Asks: 64, New: 64, CostMicros: 10}, Through: w.through(in.Batch)}, nil
	}
	return w
}

func (w *world) through(batch int) int {
	if next := (batch + 1) / 8; batch+1 < 8*w.plan.Shards {
		return next
	}
	return w.plan.Shards
}

func (w *world) register(env *testsuite.TestWorkflowEnvironment) {
	env.RegisterWorkflow(Build)
	for name, f := range map[string]any{
		wire.ActivityPlan: func(context.Context, wire.BuildRef) (*wire.PlanOutput, error) { return &w.plan, nil },
		wire.ActivityAskShard: func(_ context.Context, in wire.AskInput) (*wire.AskOutput, error) {
			w.mu.Lock()
			w.asked[in.Teacher] = append(w.asked[in.Teacher], in.Batch)
			hook := w.onAsk
			w.mu.Unlock()
			if hook != nil {
				hook(in)
			}
			return w.ask(in)
		},
		wire.ActivityRefine: func(_ context.Context, in wire.RefineInput) (*wire.RefineCounts, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.refined = append(w.refined, in.Shard)
			return &wire.RefineCounts{Tasks: 512, Candidates: 1024, Accepted: 700, Selected: 512}, nil
		},
		wire.ActivitySeal: func(_ context.Context, in wire.SealInput) (*wire.BuildOutput, error) {
			w.sealed = &in
			return &wire.BuildOutput{Dataset: in.Dataset, BuildID: in.BuildID, Version: 1}, nil
		},
		wire.ActivityAbandon: func(_ context.Context, _ wire.BuildRef, state, _ string) error {
			w.ended = state
			return nil
		},
		wire.ActivityImport: func(context.Context, wire.ImportInput) (*wire.ImportOutput, error) {
			return &wire.ImportOutput{Rows: 5, Added: 5}, nil
		},
	} {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

var testRef = wire.BuildRef{Dataset: "d", BuildID: "20261130T000000Z-00000000", RecipeDigest: "r", SourcesDigest: "s"}

func runBuild(t *testing.T, w *world, arrange func(*testsuite.TestWorkflowEnvironment)) (*testsuite.TestWorkflowEnvironment, *wire.BuildOutput, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	w.register(env)
	env.RegisterWorkflow(TeacherStream)
	if arrange != nil {
		arrange(env)
	}
	env.ExecuteWorkflow(Build, wire.BuildInput{BuildRef: testRef})
	require.True(t, env.IsWorkflowCompleted())
	if err := env.GetWorkflowError(); err != nil {
		return env, nil, err
	}
	var out wire.BuildOutput
	require.NoError(t, env.GetWorkflowResult(&out))
	return env, &out, nil
}

func TestBuildAsksRefinesAndSealsEverythingOnce(t *testing.T) {
	w := newWorld(3, "a", "b")
	_, out, err := runBuild(t, w, nil)
	require.NoError(t, err)
	require.Equal(t, int64(1), out.Version)
	for _, id := range []string{"a", "b"} {
		slices.Sort(w.asked[id])
		require.Equal(t, sequence(24), w.asked[id], "batches of teacher %s", id)
	}
	slices.Sort(w.refined)
	require.Equal(t, sequence(3), w.refined)
	require.Equal(t, int64(24*64), w.sealed.Streams[0].New)
}

func distinct(batches []int) []int {
	slices.Sort(batches)
	return slices.Compact(batches)
}

func sequence(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

func TestAShardIsRefinedOnlyWhenEveryTeacherIsThrough(t *testing.T) {
	w := newWorld(2, "fast", "slow")
	var early []int
	w.onAsk = func(in wire.AskInput) {
		w.mu.Lock()
		defer w.mu.Unlock()
		if in.Teacher == "slow" && len(w.asked["slow"]) <= 8 {
			early = append(early, w.refined...)
		}
	}
	_, _, err := runBuild(t, w, nil)
	require.NoError(t, err)
	require.Empty(t, early, "shards refined before the slow teacher had ended its first shard")
}

func TestATeacherThatCannotBeUsedStopsAloneAndTheRestIsSealed(t *testing.T) {
	w := newWorld(2, "good", "bad")
	ok := w.ask
	w.ask = func(in wire.AskInput) (*wire.AskOutput, error) {
		if in.Teacher == "bad" {
			return &wire.AskOutput{Through: w.through(in.Batch), Stopped: &wire.TeacherFailed{Class: "auth", Text: "401"}}, nil
		}
		return ok(in)
	}
	_, _, err := runBuild(t, w, nil)
	require.NoError(t, err)
	require.Less(t, len(w.asked["bad"]), 16, "a teacher that was given up is asked no further")
	require.Len(t, w.asked["good"], 16)
	require.Len(t, w.refined, 2)
	require.Nil(t, w.sealed.Streams[0].Stopped)
	require.Equal(t, "auth", w.sealed.Streams[1].Stopped.Class)
}

func TestAPermanentFailureEndsTheBuildAndItsStreams(t *testing.T) {
	w := newWorld(4, "a", "b")
	w.ask = func(in wire.AskInput) (*wire.AskOutput, error) {
		return nil, temporal.NewNonRetryableApplicationError("teacher a is not in the recipe", wire.ErrInvalidRecipe, nil)
	}
	_, _, err := runBuild(t, w, nil)
	require.ErrorContains(t, err, "not in the recipe")
	require.Equal(t, "failed", w.ended)
	require.Nil(t, w.sealed)
}

func TestCancelEndsTheBuild(t *testing.T) {
	w := newWorld(50, "a")
	_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
		w.onAsk = func(in wire.AskInput) {
			if in.Batch == 40 {
				env.CancelWorkflow()
			}
		}
	})
	require.True(t, temporal.IsCanceledError(errors.Unwrap(err)) || temporal.IsCanceledError(err), "error: %v", err)
	require.Equal(t, "cancelled", w.ended)
	require.Nil(t, w.sealed)
	require.Less(t, len(w.asked["a"]), 400)
}

func TestPauseHoldsNewBatchesUntilResume(t *testing.T) {
	w := newWorld(60, "a") // far more batches than are under way when the pause arrives
	var atPause, atResume int
	_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
		update := func(name string, args ...any) {
			env.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { t.Errorf("%s: %v", name, err) }, OnComplete: func(any, error) {},
			}, args...)
		}
		var once sync.Once // the pause may interrupt this very batch, which is asked again
		w.onAsk = func(in wire.AskInput) {
			first := false
			if in.Batch == 8 {
				once.Do(func() { first = true })
			}
			if !first {
				return
			}
			env.RegisterDelayedCallback(func() { update(wire.UpdatePause, wire.PauseRequest{Reason: "lunch"}) }, 0)
			env.RegisterDelayedCallback(func() {
				w.mu.Lock()
				atPause = len(w.asked["a"])
				w.mu.Unlock()
				value, err := env.QueryWorkflow(wire.QueryProgress)
				require.NoError(t, err)
				var p wire.Progress
				require.NoError(t, value.Get(&p))
				require.True(t, p.Paused)
				require.Equal(t, "lunch", p.Why)
			}, time.Minute)
			env.RegisterDelayedCallback(func() {
				w.mu.Lock()
				atResume = len(w.asked["a"])
				w.mu.Unlock()
				update(wire.UpdateResume)
			}, time.Hour)
		}
	})
	require.NoError(t, err)
	require.Equal(t, atPause, atResume, "batches began during the pause")
	require.Less(t, atPause, 480)
	require.Equal(t, sequence(480), distinct(w.asked["a"]), "a batch that the pause interrupted is asked again, and none is left out")
}

func TestConcurrencyIsChecked(t *testing.T) {
	w := newWorld(1, "a")
	rejected := 0
	_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
		w.onAsk = func(in wire.AskInput) {
			if in.Batch != 0 {
				return
			}
			for _, r := range []wire.ConcurrencyRequest{{Teacher: "nobody", Batches: 3}, {Teacher: "a", Batches: 0}, {Teacher: "a", Batches: maxWindow + 1}} {
				env.RegisterDelayedCallback(func() {
					env.UpdateWorkflow(wire.UpdateConcurrency, "", &testsuite.TestUpdateCallback{
						OnAccept: func() { t.Errorf("%+v was accepted", r) }, OnReject: func(error) { rejected++ }, OnComplete: func(any, error) {},
					}, r)
				}, 0)
			}
		}
	})
	require.NoError(t, err)
	require.Equal(t, 3, rejected)
}

func TestRecordedTeachersAreImportedBeforeTheyAreAsked(t *testing.T) {
	w := newWorld(1, "a")
	w.plan.Teachers[0].Recorded = true
	imported := false
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	w.register(env)
	env.RegisterWorkflow(TeacherStream)
	env.OnActivity(wire.ActivityImport, mock.Anything, mock.Anything).Return(func(context.Context, wire.ImportInput) (*wire.ImportOutput, error) {
		imported = true
		return &wire.ImportOutput{}, nil
	})
	w.onAsk = func(wire.AskInput) {
		if !imported {
			t.Error("asked before the answers were imported")
		}
	}
	env.ExecuteWorkflow(Build, wire.BuildInput{BuildRef: testRef})
	require.NoError(t, env.GetWorkflowError())
	require.True(t, imported)
}

// TestPayloadsStaySmall holds every input and output to the limit of a payload
// at ten million prompts and as many teachers as a recipe may have.
func TestPayloadsStaySmall(t *testing.T) {
	const shards = 10_000_000/512 + 1
	big := wire.BuildRef{
		Dataset: fill(63), BuildID: "20261130T164501Z-1f2e3d4c", RecipeDigest: fill(64), SourcesDigest: fill(64),
	}
	plan := wire.PlanOutput{
		Key:   "datasets/" + fill(63) + "/work/20261130T164501Z-1f2e3d4c/plan/plan-" + fill(64) + ".json",
		Tasks: 1e7, Prompts: 1e7, Duplicates: 1e7, BadRows: 1e7, Shards: shards,
	}
	carry := &wire.BuildCarry{Next: shards, Started: time.Now()}
	seal := wire.SealInput{BuildRef: big, PlanKey: plan.Key, Started: time.Now()}
	counts := wire.AskCounts{Asks: 1e8, New: 1e8, Reused: 1e8, Failed: 1e8, PromptTokens: 1e12, CachedTokens: 1e12, CompletionTokens: 1e12, CostMicros: 1e12, Unpriced: 1e8}
	failed := &wire.TeacherFailed{Class: "context_overflow", Text: fill(1003)}
	for i := range wire.MaxTeachers {
		id := fmt.Sprintf("%s%02d", fill(22), i)
		plan.Teachers = append(plan.Teachers, wire.TeacherPlan{ID: id, Queue: "teacher." + id + ".01234567", Batches: shards * 8, Asks: 1e7, Window: 100})
		carry.Streams = append(carry.Streams, wire.StreamReport{Teacher: id, Through: shards, Counts: counts})
		carry.Refined.Count(id, true)
		seal.Streams = append(seal.Streams, wire.StreamSummary{Teacher: id, New: 1e8, Reused: 1e8, Spent: 1e12, Unp: 1e8, Stopped: classOnly(failed)})
	}
	for i := range wire.MostFallbacks {
		plan.Fallbacks = append(plan.Fallbacks, wire.FallbackPlan{Queue: plan.Teachers[i].Queue, Recorded: true})
		carry.Judges = append(carry.Judges, wire.JudgeReport{Teacher: plan.Teachers[i].ID, Counts: withoutTokens(counts), Stopped: classOnly(failed)})
	}
	plan.Measure, plan.Sandbox, plan.Budget, plan.Dropped = true, true, true, 1e7
	carry.Stats = plan.Key
	for i := range wire.MostRounds {
		plan.Judges = append(plan.Judges, wire.JudgePlan{Queue: plan.Teachers[i].Queue})
		carry.Judges = append(carry.Judges, wire.JudgeReport{Teacher: plan.Teachers[i].ID, Counts: withoutTokens(counts), Stopped: classOnly(failed)})
	}
	carry.Plan = plan
	carry.Plan.Teachers = nil
	for _, t := range plan.Teachers {
		carry.Plan.Teachers = append(carry.Plan.Teachers, wire.TeacherPlan{ID: t.ID, Asks: t.Asks})
	}
	for name, payload := range map[string]any{
		"plan":   plan,
		"build":  wire.BuildInput{BuildRef: big, Carry: carry},
		"seal":   seal,
		"stream": wire.StreamInput{BuildRef: big, PlanKey: plan.Key, Teacher: plan.Teachers[0], Report: wire.StreamReport{Counts: counts, Stopped: failed, Failure: fill(2000)}, Stopped: failed},
		"refine": carry.Refined,
	} {
		text, err := json.Marshal(payload)
		require.NoError(t, err)
		t.Logf("%s: %d bytes with %d teachers", name, len(text), wire.MaxTeachers)
		require.LessOrEqual(t, len(text), wire.MaxPayload, name)
	}
}

func fill(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = 'a' + byte(i%26)
	}
	return string(b)
}

// An interrupted batch is counted once, whatever it is interrupted by and how
// often: what it bought before stays bought.
func TestInterruptedBatchesAreCountedOnce(t *testing.T) {
	s := &stream{partial: map[int]wire.AskCounts{}}
	s.count(1, wire.AskCounts{Asks: 64, New: 60, Failed: 4, CostMicros: 600})
	s.partial[2] = s.count(2, wire.AskCounts{Asks: 64, New: 10, CostMicros: 100, Unpriced: 1})
	s.partial[2] = s.count(2, wire.AskCounts{Asks: 64, New: 20, Reused: 10, CostMicros: 200})
	require.Equal(t, wire.AskCounts{Asks: 128, New: 90, Failed: 4, CostMicros: 900, Unpriced: 1}, s.report.Counts)
	s.count(2, wire.AskCounts{Asks: 64, New: 33, Reused: 30, Failed: 1, CostMicros: 330})
	require.Equal(t, wire.AskCounts{Asks: 128, New: 123, Failed: 5, CostMicros: 1230, Unpriced: 1}, s.report.Counts)
	require.Empty(t, s.partial)
}
