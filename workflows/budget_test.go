package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// lease is one update of a Budget under test.
func lease(t *testing.T, env *testsuite.TestWorkflowEnvironment, r budget.Request, got *budget.Reply) {
	t.Helper()
	env.UpdateWorkflow(wire.UpdateBudgetLease, "", &testsuite.TestUpdateCallback{
		OnAccept: func() {}, OnReject: func(err error) { t.Errorf("lease: %v", err) },
		OnComplete: func(reply any, err error) {
			require.NoError(t, err)
			if got != nil {
				*got = reply.(budget.Reply)
			}
		},
	}, r)
}

func openBudget(t *testing.T, env *testsuite.TestWorkflowEnvironment, o budget.Open) {
	t.Helper()
	env.UpdateWorkflow(wire.UpdateBudgetOpen, "", &testsuite.TestUpdateCallback{
		OnAccept: func() {}, OnReject: func(err error) { t.Errorf("open: %v", err) },
		OnComplete: func(_ any, err error) { require.NoError(t, err) },
	}, o)
}

func budgetStatus(t *testing.T, env *testsuite.TestWorkflowEnvironment) budget.Status {
	t.Helper()
	value, err := env.QueryWorkflow(wire.QueryBudget)
	require.NoError(t, err)
	var s budget.Status
	require.NoError(t, value.Get(&s))
	return s
}

// inTurn runs each step a minute after the one before: an update is answered
// between two.
func inTurn(env *testsuite.TestWorkflowEnvironment, steps ...func()) {
	for i, step := range steps {
		env.RegisterDelayedCallback(step, time.Duration(i+1)*time.Minute)
	}
}

func TestBudgetKeepsOneBook(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	open := budget.Open{Job: "build/d/1", Build: "b1", Limits: budget.Limits{Build: 1000}}
	var none, begin, lent, denied budget.Reply
	inTurn(env,
		func() { lease(t, env, budget.Request{Worker: "w1", Seq: 1}, &none) },
		func() {
			require.Zero(t, none.Period, "no build is open yet")
			openBudget(t, env, open)
		},
		func() { lease(t, env, budget.Request{Worker: "w1", Seq: 2}, &begin) },
		func() {
			require.True(t, begin.Begin)
			lease(t, env, budget.Request{Worker: "w1", Seq: 3, Period: begin.Period, Pockets: []budget.Pocket{{Need: 700, Want: 700}}}, &lent)
			lease(t, env, budget.Request{Worker: "w2", Seq: 1, Period: begin.Period, Pockets: []budget.Pocket{{Need: 700}}}, &denied)
		},
		func() {
			require.Equal(t, int64(700), lent.Loans[0].Granted)
			require.NotNil(t, denied.Loans[0].Denied)
			require.False(t, denied.Loans[0].Over, "the other worker may leave something")
			require.Equal(t, []budget.Line{{Kind: budget.LineBuild, Limit: 1000, Held: 700}}, budgetStatus(t, env).Lines)
			env.SignalWorkflow(wire.SignalBudgetClose, budget.Close{Job: open.Job, Build: "another", Complete: true})
		},
		func() {
			require.True(t, budgetStatus(t, env).Open, "another build's end closes nothing")
			env.SignalWorkflow(wire.SignalBudgetClose, budget.Close{Job: open.Job, Build: open.Build, Complete: true})
		},
		func() {
			require.False(t, budgetStatus(t, env).Open)
			env.CancelWorkflow()
		},
	)
	env.ExecuteWorkflow(Budget, wire.BudgetInput{Dataset: "d"})
	require.True(t, env.IsWorkflowCompleted())
	require.ErrorAs(t, env.GetWorkflowError(), new(*temporal.CanceledError))
}

func TestBudgetHandsItsBookOn(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestWorkflowEnvironment()
	limits := budget.Limits{Build: 1e9}
	for i := range 9 {
		limits.Teachers = append(limits.Teachers, budget.TeacherLimit{Teacher: fmt.Sprintf("kimi-k3-expert-%d-at-high-effort", i), Micros: 1e8})
	}
	var begin budget.Reply
	inTurn(env,
		func() { openBudget(t, env, budget.Open{Job: "build/d/1", Build: "b1", Limits: limits}) },
		func() { lease(t, env, budget.Request{Worker: "w", Seq: 1}, &begin) },
		func() {
			for i := range budgetEvery - 2 {
				r := budget.Request{Worker: fmt.Sprintf("w-%026d", i%40), Seq: int64(i + 1), Period: begin.Period}
				for _, l := range limits.Teachers {
					r.Pockets = append(r.Pockets, budget.Pocket{Pocket: l.Teacher, Spent: int64(10 * i), Need: 1000, Want: 10_000})
				}
				lease(t, env, r, nil)
			}
		},
	)
	env.ExecuteWorkflow(Budget, wire.BudgetInput{Dataset: "d"})
	var again *workflow.ContinueAsNewError
	require.ErrorAs(t, env.GetWorkflowError(), &again)
	require.Less(t, len(again.Input.Payloads[0].Data), wire.MaxPayload)
	var in wire.BudgetInput
	require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(again.Input, &in))
	require.Equal(t, "d", in.Dataset)
	require.Greater(t, len(in.Book.Wallets), 10, "workers that share nine budgets of teachers")
	text, err := json.Marshal(in.Book.Lines())
	require.NoError(t, err)
	require.Contains(t, string(text), "kimi-k3-expert-8-at-high-effort")
	t.Logf("%d wallets of 10 pockets in %d bytes", len(in.Book.Wallets), len(again.Input.Payloads[0].Data))
}

// closes runs a build that has a budget and gives what its authority was told.
func closes(t *testing.T, w *world, arrange ...func(*testsuite.TestWorkflowEnvironment)) []budget.Close {
	t.Helper()
	w.plan.Budget = true
	var got []budget.Close
	_, _, _ = runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
		for _, more := range arrange {
			more(env)
		}
		env.OnSignalExternalWorkflow(mock.Anything, wire.BudgetWorkflowID("d"), "", wire.SignalBudgetClose, mock.Anything).
			Return(func(_, _, _, _ string, arg any) error {
				got = append(got, arg.(budget.Close))
				return nil
			})
		env.OnSignalExternalWorkflow(mock.Anything, mock.Anything, mock.Anything, mock.Anything, mock.Anything).Return(nil).Maybe()
	})
	return got
}

func TestBuildClosesItsBudget(t *testing.T) {
	complete := closes(t, newWorld(1, "a", "b"))
	require.Len(t, complete, 1)
	require.True(t, complete[0].Complete)
	require.Equal(t, testRef.BuildID, complete[0].Build)

	unusable := newWorld(1, "a")
	unusable.ask = func(in wire.AskInput) (*wire.AskOutput, error) {
		return &wire.AskOutput{Stopped: &wire.TeacherFailed{Class: "auth", Text: "no key"}}, nil
	}
	complete = closes(t, unusable)
	require.Len(t, complete, 1)
	require.True(t, complete[0].Complete, "a key that is wrong is no budget that is spent")

	stopped := newWorld(1, "a", "b")
	ask := stopped.ask
	stopped.ask = func(in wire.AskInput) (*wire.AskOutput, error) {
		out, err := ask(in)
		if in.Teacher == "b" {
			out.Stopped = &wire.TeacherFailed{Class: wire.StoppedBudget, Text: "the budget of $1.00 is spent"}
		}
		return out, err
	}
	got := closes(t, stopped)
	require.Len(t, got, 1)
	require.False(t, got[0].Complete, "the next run goes on with the account")
	require.NotNil(t, stopped.sealed, "what is there is published")

	judged := newWorld(1, "a", "j")
	judged.plan.Teachers[1].Batches = 0
	b := judgesOf(judged, "j")
	b.judge = func(context.Context, wire.JudgeInput) (*wire.JudgeOutput, error) {
		return &wire.JudgeOutput{Stopped: &wire.TeacherFailed{Class: wire.StoppedBudget, Text: "the budget of $1.00 is spent"}}, nil
	}
	got = closes(t, judged, b.register)
	require.Len(t, got, 1)
	require.False(t, got[0].Complete, "a judge that the budget stopped is asked the rest from the same account")

	goneOn := newWorld(1, "a")
	_, _, arrange := goingOn(goneOn, false, "b")
	got = closes(t, goneOn, arrange, func(env *testsuite.TestWorkflowEnvironment) {
		env.OnActivity(wire.ActivityFallback, mock.Anything, mock.Anything).Return(
			&wire.JudgeOutput{Stopped: &wire.TeacherFailed{Class: wire.StoppedBudget, Text: "the budget of $1.00 is spent"}}, nil)
	})
	require.Len(t, got, 1)
	require.False(t, got[0].Complete, "and so is a fallback")

	failed := newWorld(1, "a")
	failed.ask = func(wire.AskInput) (*wire.AskOutput, error) {
		return nil, temporal.NewNonRetryableApplicationError("no", wire.ErrInvalidRecipe, nil)
	}
	got = closes(t, failed)
	require.Len(t, got, 1)
	require.False(t, got[0].Complete)
}

func TestBudgetOfARunningBuildChanges(t *testing.T) {
	w := newWorld(30, "a")
	var mu sync.Mutex
	under := map[int64]map[int]bool{0: {}, 5_000_000: {}}
	var opened []wire.BuildRef
	_, _, err := runBuild(t, w, func(env *testsuite.TestWorkflowEnvironment) {
		env.RegisterActivityWithOptions(func(_ context.Context, ref wire.BuildRef) error {
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, ref)
			return nil
		}, activity.RegisterOptions{Name: wire.ActivityBudget})
		env.OnSignalExternalWorkflow(mock.Anything, wire.BudgetWorkflowID("d"), "", wire.SignalBudgetClose, mock.Anything).Return(nil).Once()
		var once sync.Once
		w.onAsk = func(in wire.AskInput) {
			mu.Lock()
			under[in.BudgetMicros][in.Batch] = true
			mu.Unlock()
			if in.Batch != 8 {
				return
			}
			once.Do(func() {
				env.RegisterDelayedCallback(func() {
					env.UpdateWorkflow(wire.UpdateBudget, "", &testsuite.TestUpdateCallback{
						OnAccept: func() { t.Error("a budget of nothing was taken") }, OnReject: func(error) {}, OnComplete: func(any, error) {},
					}, wire.BudgetRequest{})
					env.UpdateWorkflow(wire.UpdateBudget, "", &testsuite.TestUpdateCallback{
						OnAccept: func() {}, OnReject: func(err error) { t.Errorf("budget: %v", err) },
						OnComplete: func(_ any, err error) { require.NoError(t, err) },
					}, wire.BudgetRequest{Micros: 5_000_000})
				}, 0)
			})
		}
	})
	require.NoError(t, err)
	require.Len(t, opened, 1)
	require.Equal(t, int64(5_000_000), opened[0].BudgetMicros)
	require.NotEmpty(t, under[5_000_000])
	for batch := range 240 {
		require.True(t, under[0][batch] || under[5_000_000][batch], "batch %d was never asked", batch)
	}
}

func TestABatchThatDiesWhileItIsInterruptedIsAskedAgain(t *testing.T) {
	timeout := temporal.NewTimeoutError(enumspb.TIMEOUT_TYPE_HEARTBEAT, nil)
	for _, tc := range []struct {
		halted bool
		err    error
		want   bool
	}{
		{true, temporal.NewCanceledError(), true},
		{false, temporal.NewCanceledError(), true},
		{true, timeout, true},
		{false, timeout, false}, // it has failed its last attempt
		{true, temporal.NewApplicationError("no", "StoreFailed"), false},
		{true, nil, false},
	} {
		require.Equal(t, tc.want, cutShort(tc.halted, tc.err), "%v %v", tc.halted, tc.err)
	}
}
