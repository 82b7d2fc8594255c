package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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

// A batchWorld stands in for the activities of a batch API: batches take so many
// looks, and a test says what each step answers.
type batchWorld struct {
	*world
	mu        sync.Mutex
	prepared  []wire.BatchPrepareInput
	submitted []string
	polls     []time.Time
	collected []string
	cancelled []string
	looks     int // that find batches running

	prepare func(n int, in wire.BatchPrepareInput) wire.BatchPrepareOutput
	submit  func(n int, key string) wire.BatchSubmitOutput
	collect func(key string) wire.BatchCollectOutput
	onPoll  func(n int)
}

// newBatchWorld has one online teacher and one batch teacher, whose first
// preparation makes the given batches.
func newBatchWorld(keys ...string) *batchWorld {
	w := &batchWorld{world: newWorld(2, "online", "batch")}
	w.plan.Teachers[1].Batch = &wire.BatchPlan{PollMS: 30_000}
	w.prepare = func(n int, in wire.BatchPrepareInput) wire.BatchPrepareOutput {
		if n == 0 {
			return wire.BatchPrepareOutput{Asks: 1024, Answered: 24, Submit: keys}
		}
		return wire.BatchPrepareOutput{Asks: 1024, Answered: 1024}
	}
	w.submit = func(int, string) wire.BatchSubmitOutput { return wire.BatchSubmitOutput{Submitted: true} }
	w.collect = func(string) wire.BatchCollectOutput {
		return wire.BatchCollectOutput{Ended: "completed", Counts: wire.AskCounts{New: 500, CostMicros: 50}}
	}
	return w
}

func (w *batchWorld) register(env *testsuite.TestWorkflowEnvironment) {
	w.world.register(env)
	env.RegisterWorkflow(TeacherStream)
	for name, f := range map[string]any{
		wire.ActivityBatchPrepare: func(_ context.Context, in wire.BatchPrepareInput) (*wire.BatchPrepareOutput, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.prepared = append(w.prepared, in)
			out := w.prepare(len(w.prepared)-1, in)
			return &out, nil
		},
		wire.ActivityBatchSubmit: func(_ context.Context, in wire.BatchInput) (*wire.BatchSubmitOutput, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.submitted = append(w.submitted, in.Batch)
			out := w.submit(len(w.submitted)-1, in.Batch)
			return &out, nil
		},
		wire.ActivityBatchPoll: func(_ context.Context, in wire.BatchPollInput) (*wire.BatchPollOutput, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.polls = append(w.polls, env.Now())
			if w.onPoll != nil {
				w.onPoll(len(w.polls))
			}
			if len(w.polls) <= w.looks {
				return &wire.BatchPollOutput{Rows: 500, Done: int64(len(w.polls)), Words: "in_progress"}, nil
			}
			return &wire.BatchPollOutput{Ended: in.Batches}, nil
		},
		wire.ActivityBatchCollect: func(_ context.Context, in wire.BatchInput) (*wire.BatchCollectOutput, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.collected = append(w.collected, in.Batch)
			out := w.collect(in.Batch)
			return &out, nil
		},
		wire.ActivityBatchCancel: func(_ context.Context, in wire.BatchPollInput) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.cancelled = append(w.cancelled, in.Batches...)
			return nil
		},
	} {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
}

// run runs a build over the world.
func (w *batchWorld) run(t *testing.T, arrange func(*testsuite.TestWorkflowEnvironment)) (*testsuite.TestWorkflowEnvironment, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(30 * time.Second)
	w.register(env)
	if arrange != nil {
		arrange(env)
	}
	env.ExecuteWorkflow(Build, wire.BuildInput{BuildRef: testRef})
	require.True(t, env.IsWorkflowCompleted())
	return env, env.GetWorkflowError()
}

func TestABatchStreamSubmitsOnceAndWaitsByTimers(t *testing.T) {
	w := newBatchWorld("one", "two")
	w.looks = 20
	_, err := w.run(t, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "two"}, w.submitted)
	require.ElementsMatch(t, []string{"one", "two"}, w.collected)
	require.Len(t, w.polls, 21)
	require.Equal(t, 45*time.Second, w.polls[1].Sub(w.polls[0]).Round(time.Second), "the second look comes half as much later")
	require.Equal(t, 5*time.Minute, w.polls[20].Sub(w.polls[19]).Round(time.Second), "and the last ones as late as they may")
	require.Len(t, w.asked["online"], 16, "the other teacher goes on meanwhile")
	require.Len(t, w.refined, 2)
	s := w.sealed.Streams[1]
	require.Equal(t, int64(1000), s.New)
	require.Equal(t, int64(100), s.Spent)
	require.Equal(t, int64(24), s.Reused)
	require.True(t, w.prepared[len(w.prepared)-1].Close, "what is answered is counted at the end")
}

func TestTheRestGoesIntoAnotherBatch(t *testing.T) {
	w := newBatchWorld()
	w.prepare = func(n int, in wire.BatchPrepareInput) wire.BatchPrepareOutput {
		if in.Close {
			return wire.BatchPrepareOutput{Asks: 10, Answered: 9}
		}
		require.Equal(t, n > 0, in.Retry)
		return wire.BatchPrepareOutput{Asks: 10, Submit: []string{fmt.Sprint("round", n)}}
	}
	_, err := w.run(t, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"round0", "round1", "round2", "round3"}, w.submitted, "asked in vain four times, the rest is left to the next run")
}

// More asks than the open batches may hold are no further round.
func TestMoreBatchesThanMayBeOpen(t *testing.T) {
	w := newBatchWorld()
	w.prepare = func(n int, in wire.BatchPrepareInput) wire.BatchPrepareOutput {
		switch {
		case in.Close || n > 6:
			return wire.BatchPrepareOutput{Asks: 10, Answered: 10}
		case n < 6:
			require.False(t, in.Retry)
		}
		return wire.BatchPrepareOutput{Asks: 10, Submit: []string{fmt.Sprint("part", n)}, More: n < 5}
	}
	_, err := w.run(t, nil)
	require.NoError(t, err)
	require.Len(t, w.submitted, 7)
}

func TestASubmissionThatHasToWaitIsTriedAgain(t *testing.T) {
	w := newBatchWorld("one", "two")
	var at []time.Time
	_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		w.submit = func(n int, key string) wire.BatchSubmitOutput {
			if key == "one" {
				at = append(at, env.Now())
			}
			if key == "one" && n < 3 {
				return wire.BatchSubmitOutput{WaitMS: (2 * time.Minute).Milliseconds(), Why: "the answer to a submission was lost"}
			}
			return wire.BatchSubmitOutput{Submitted: true}
		}
		w.looks = 3
	})
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(at), 2)
	require.GreaterOrEqual(t, at[1].Sub(at[0]), 2*time.Minute)
	require.ElementsMatch(t, []string{"one", "two"}, w.collected)
}

// A budget that has room for less makes the batches smaller, and they grow again
// as they settle.
func TestABudgetMakesBatchesSmaller(t *testing.T) {
	w := newBatchWorld()
	var most []int64
	w.prepare = func(n int, in wire.BatchPrepareInput) wire.BatchPrepareOutput {
		if in.Close || n > 3 {
			return wire.BatchPrepareOutput{Asks: 10, Answered: 10}
		}
		most = append(most, in.Most)
		return wire.BatchPrepareOutput{Asks: 10, Submit: []string{fmt.Sprint("part", n)}, More: n > 0}
	}
	w.submit = func(n int, key string) wire.BatchSubmitOutput {
		switch n {
		case 0:
			return wire.BatchSubmitOutput{Gone: true, Most: 400}
		case 1:
			return wire.BatchSubmitOutput{Gone: true, Most: 200}
		}
		return wire.BatchSubmitOutput{Submitted: true}
	}
	_, err := w.run(t, nil)
	require.NoError(t, err)
	require.Equal(t, []int64{0, 400, 200, 400}, most)
}

func TestABatchTeacherThatIsUnusableStopsAlone(t *testing.T) {
	for name, arrange := range map[string]func(*batchWorld){
		"submit": func(w *batchWorld) {
			w.submit = func(int, string) wire.BatchSubmitOutput {
				return wire.BatchSubmitOutput{Stopped: &wire.TeacherFailed{Class: "auth", Text: "401"}}
			}
		},
		"collect": func(w *batchWorld) {
			w.collect = func(string) wire.BatchCollectOutput {
				return wire.BatchCollectOutput{Ended: "failed", Stopped: &wire.TeacherFailed{Class: "auth", Text: "401"}}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBatchWorld("one", "two")
			arrange(w)
			_, err := w.run(t, nil)
			require.NoError(t, err)
			require.Equal(t, "auth", w.sealed.Streams[1].Stopped.Class)
			require.Nil(t, w.sealed.Streams[0].Stopped)
			require.Len(t, w.refined, 2)
		})
	}
}

// A full queue at the endpoint uses up no round.
func TestAFullQueueUsesUpNoRound(t *testing.T) {
	w := newBatchWorld()
	w.prepare = func(n int, in wire.BatchPrepareInput) wire.BatchPrepareOutput {
		if in.Close || n > 9 {
			return wire.BatchPrepareOutput{Asks: 10, Answered: 10}
		}
		return wire.BatchPrepareOutput{Asks: 10, Submit: []string{fmt.Sprint("try", n)}}
	}
	w.collect = func(key string) wire.BatchCollectOutput {
		if key == "try9" {
			return wire.BatchCollectOutput{Ended: "completed", Counts: wire.AskCounts{New: 10}}
		}
		return wire.BatchCollectOutput{Ended: "failed", WaitMS: 60_000, Why: "token_limit_exceeded"}
	}
	_, err := w.run(t, nil)
	require.NoError(t, err)
	require.Len(t, w.submitted, 10)
	require.Equal(t, int64(10), w.sealed.Streams[1].New)
}

// A batch that only looked like ours is submitted after all.
func TestAForeignBatchIsSubmittedAfterAll(t *testing.T) {
	w := newBatchWorld("one")
	w.collect = func(string) wire.BatchCollectOutput {
		if len(w.collected) == 1 {
			return wire.BatchCollectOutput{Foreign: true}
		}
		return wire.BatchCollectOutput{Ended: "completed", Counts: wire.AskCounts{New: 10}}
	}
	_, err := w.run(t, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"one", "one"}, w.submitted)
}

// Cancelling a build leaves its batches running, unless its user wants them
// cancelled too.
func TestCancelLeavesBatchesRunning(t *testing.T) {
	for _, also := range []bool{false, true} {
		t.Run(fmt.Sprint(also), func(t *testing.T) {
			w := newBatchWorld("one", "two")
			w.looks = 1000
			env, last := w.stream()
			w.onPoll = func(n int) {
				if n != 3 {
					return
				}
				env.RegisterDelayedCallback(func() {
					if also {
						env.SignalWorkflow(wire.SignalControl, wire.Control{CancelBatches: true})
					}
					env.RegisterDelayedCallback(env.CancelWorkflow, time.Second)
				}, 0)
			}
			env.ExecuteWorkflow(TeacherStream, w.streamInput(nil))
			err := env.GetWorkflowError()
			require.True(t, temporal.IsCanceledError(errors.Unwrap(err)) || temporal.IsCanceledError(err), "error: %v", err)
			require.Empty(t, w.collected)
			require.True(t, last.Done)
			require.Empty(t, last.Failure)
			if also {
				require.ElementsMatch(t, []string{"one", "two"}, w.cancelled)
			} else {
				require.Empty(t, w.cancelled)
			}
		})
	}
}

// A build tells its streams that its user wants batches cancelled too.
func TestABuildHandsOnThatBatchesAreCancelled(t *testing.T) {
	w := newBatchWorld("one")
	w.looks = 3
	_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			env.UpdateWorkflow(wire.UpdateCancelBatches, "", &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { t.Error(err) }, OnComplete: func(any, error) {},
			})
		}, time.Minute)
	})
	require.NoError(t, err)
	require.Empty(t, w.cancelled, "nobody cancelled the build")
	require.Equal(t, []string{"one"}, w.collected)
}

// stream is an environment for one batch stream; last is its last report.
func (w *batchWorld) stream() (env *testsuite.TestWorkflowEnvironment, last *wire.StreamReport) {
	var suite testsuite.WorkflowTestSuite
	env, last = suite.NewTestWorkflowEnvironment(), &wire.StreamReport{}
	w.register(env)
	env.OnSignalExternalWorkflow(mock.Anything, "parent", "", wire.SignalStream, mock.Anything).Return(
		func(_, _, _, _ string, arg any) error { *last = arg.(wire.StreamReport); return nil })
	return env, last
}

func (w *batchWorld) streamInput(carry *wire.BatchCarry) wire.StreamInput {
	return wire.StreamInput{BuildRef: testRef, Parent: "parent", Shards: 2, Teacher: w.plan.Teachers[1], Report: wire.StreamReport{Teacher: "batch"}, Carry: carry}
}

// A pause submits nothing more; what is submitted is paid for, and is collected.
func TestAPauseSubmitsNothingMore(t *testing.T) {
	w := newBatchWorld("one", "two")
	var duringPause, collected int
	_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		update := func(name string, args ...any) {
			env.UpdateWorkflow(name, "", &testsuite.TestUpdateCallback{
				OnAccept: func() {}, OnReject: func(err error) { t.Errorf("%s: %v", name, err) }, OnComplete: func(any, error) {},
			}, args...)
		}
		w.submit = func(n int, key string) wire.BatchSubmitOutput {
			if key == "two" && n < 2 {
				return wire.BatchSubmitOutput{WaitMS: 60_000}
			}
			return wire.BatchSubmitOutput{Submitted: true}
		}
		env.RegisterDelayedCallback(func() { update(wire.UpdatePause, wire.PauseRequest{}) }, 10*time.Second)
		env.RegisterDelayedCallback(func() {
			w.mu.Lock()
			duringPause, collected = len(w.submitted), len(w.collected)
			w.mu.Unlock()
			update(wire.UpdateResume)
		}, time.Hour)
	})
	require.NoError(t, err)
	require.Equal(t, 2, duringPause)
	require.Equal(t, 1, collected)
	require.Equal(t, []string{"one", "two", "two"}, w.submitted)
	require.ElementsMatch(t, []string{"one", "two"}, w.collected)
}

func TestProgressSaysWhatBatchesWaitFor(t *testing.T) {
	w := newBatchWorld("one")
	w.looks = 6
	waiting := ""
	_, err := w.run(t, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterDelayedCallback(func() {
			value, err := env.QueryWorkflow(wire.QueryProgress)
			require.NoError(t, err)
			var p wire.Progress
			require.NoError(t, value.Get(&p))
			waiting = p.Teachers[1].Waiting
		}, 5*time.Minute)
	})
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(waiting, "a batch runs: ") && strings.HasSuffix(waiting, " of 500 answers are done (in_progress)"), waiting)
}

func TestBatchPayloadsStaySmall(t *testing.T) {
	var keys []string
	for i := range wire.MostOpenBatches {
		keys = append(keys, fmt.Sprintf("%032d", i))
	}
	ref := wire.BuildRef{Dataset: fill(63), BuildID: fill(25), RecipeDigest: fill(64), SourcesDigest: fill(64)}
	failed := &wire.TeacherFailed{Class: fill(20), Text: fill(1003)}
	carry := &wire.BatchCarry{Round: 4, Asked: true, More: true, Submit: keys[:50], Open: keys[50:], Looks: 1000, Most: 1e15, Busy: 1000}
	for name, payload := range map[string]any{
		"stream":  wire.StreamInput{BuildRef: ref, PlanKey: fill(200), Report: wire.StreamReport{Stopped: failed, Failure: fill(2000), Waiting: fill(160)}, Stopped: failed, Carry: carry},
		"prepare": wire.BatchPrepareOutput{Asks: 1e9, Submit: keys[:50], Open: keys[50:], Stopped: failed},
		"poll":    wire.BatchPollInput{BuildRef: ref, Teacher: fill(64), Batches: keys},
		"polled":  wire.BatchPollOutput{Ended: keys, Words: fill(80), Stopped: failed},
		"collect": wire.BatchCollectOutput{Stopped: failed, Why: fill(1003)},
	} {
		text, err := json.Marshal(payload)
		require.NoError(t, err)
		t.Logf("%s: %d bytes", name, len(text))
		require.LessOrEqual(t, len(text), wire.MaxPayload, name)
	}
}

// A stream that continues as new goes on where it was.
func TestABatchStreamContinues(t *testing.T) {
	w := newBatchWorld()
	w.prepare = func(int, wire.BatchPrepareInput) wire.BatchPrepareOutput {
		return wire.BatchPrepareOutput{Asks: 1000, Answered: 1000}
	}
	env, last := w.stream()
	in := w.streamInput(&wire.BatchCarry{Round: 1, Asked: true, Open: []string{"one"}, Looks: 7})
	in.Report.Counts = wire.AskCounts{Asks: 1000, New: 300, Reused: 200}
	env.ExecuteWorkflow(TeacherStream, in)
	require.NoError(t, env.GetWorkflowError())
	require.Empty(t, w.submitted)
	require.Equal(t, []string{"one"}, w.collected)
	require.Equal(t, wire.AskCounts{Asks: 1000, New: 800, Reused: 200, CostMicros: 50}, last.Counts)
	require.True(t, last.Done)
}
