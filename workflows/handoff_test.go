package workflows

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// launches stands in for the activities of a hand-off to other machines.
type launches struct {
	env      *testsuite.TestWorkflowEnvironment
	started  int
	looks    []wire.HandOffPrepared
	ends     int          // the look that finds it ended; 0: none does
	submitEr func() error // of a submission
	checkErr func() error // of a look
}

func (l *launches) start(t *testing.T) {
	var suite testsuite.WorkflowTestSuite
	l.env = suite.NewTestWorkflowEnvironment()
	l.env.SetTestTimeout(time.Minute)
	l.env.RegisterWorkflowWithOptions(HandOff, workflow.RegisterOptions{Name: wire.WorkflowHandOff})
	add := func(name string, f any) {
		l.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	add(wire.ActivityPrepare, func(context.Context, wire.HandOffInput) (*wire.HandOffPrepared, error) {
		return &wire.HandOffPrepared{LaunchID: "id"}, nil
	})
	add(wire.ActivityLaunch, func(context.Context, wire.HandOffInput, wire.HandOffPrepared) (*wire.HandOffLaunched, error) {
		l.started++
		if l.submitEr != nil {
			return nil, l.submitEr()
		}
		return &wire.HandOffLaunched{Where: "job/1", Remote: true}, nil
	})
	add(wire.ActivityFollow, func(context.Context, wire.HandOffInput, wire.HandOffPrepared) (*wire.HandOffOutput, error) {
		t.Error("a launch on other machines is followed by one activity")
		return nil, errors.New("not here")
	})
	add(wire.ActivityCheck, func(_ context.Context, _ wire.HandOffInput, p wire.HandOffPrepared) (*wire.HandOffOutput, error) {
		l.looks = append(l.looks, p)
		if l.checkErr != nil {
			if err := l.checkErr(); err != nil {
				return nil, err
			}
		}
		if p.Cancel || len(l.looks) == l.ends {
			return &wire.HandOffOutput{LaunchID: "id", State: "succeeded"}, nil
		}
		return &wire.HandOffOutput{LaunchID: "id", State: "running"}, nil
	})
}

func TestRemoteHandOffIsFollowedByTimers(t *testing.T) {
	l := &launches{ends: 50}
	l.start(t)
	began := l.env.Now()
	failures := 3
	l.checkErr = func() error { // the platform does not answer for a while
		if failures--; failures >= 0 {
			return errors.New("no route to host")
		}
		return nil
	}
	l.env.ExecuteWorkflow(wire.WorkflowHandOff, wire.HandOffInput{Launcher: "ray", Timeout: 3600})
	var out wire.HandOffOutput
	if err := l.env.GetWorkflowResult(&out); err != nil || out.State != "succeeded" {
		t.Fatalf("%+v %v", out, err)
	}
	if l.started != 1 || len(l.looks) != 50 {
		t.Errorf("started %d times, looked %d times", l.started, len(l.looks))
	}
	if took := l.env.Now().Sub(began); took < 30*time.Minute || took > time.Hour {
		t.Errorf("50 looks took %s", took)
	}
	for _, p := range l.looks {
		if p.Where != "job/1" || p.Until.Sub(began) > time.Hour+time.Minute || p.Until.Sub(began) < time.Hour {
			t.Fatalf("it looked for %+v", p)
		}
	}
}

// A history stays short however long a training is, and the next run knows all.
func TestLongHandOffGoesOnInANewRun(t *testing.T) {
	l := &launches{}
	l.start(t)
	l.env.ExecuteWorkflow(wire.WorkflowHandOff, wire.HandOffInput{Launcher: "ray", Attempt: 2, Timeout: 1e6})
	err := l.env.GetWorkflowError()
	var next *workflow.ContinueAsNewError
	if !errors.As(err, &next) || len(l.looks) != mostLooks {
		t.Fatalf("%v after %d looks", err, len(l.looks))
	}
	var in wire.HandOffInput
	if err := converter.GetDefaultDataConverter().FromPayloads(next.Input, &in); err != nil {
		t.Fatal(err)
	}
	if in.Carry == nil || in.Carry.Where != "job/1" || in.Carry.LaunchID != "id" || in.Carry.Until.IsZero() || in.Attempt != 2 {
		t.Fatalf("%+v", in)
	}
	again := &launches{ends: 2}
	again.start(t)
	again.env.ExecuteWorkflow(wire.WorkflowHandOff, in)
	var out wire.HandOffOutput
	if err := again.env.GetWorkflowResult(&out); err != nil || out.State != "succeeded" || again.started != 0 {
		t.Errorf("%+v %v, started %d times", out, err, again.started)
	}
}

func TestCancelledHandOffEndsItsLaunch(t *testing.T) {
	l := &launches{}
	l.start(t)
	l.env.RegisterDelayedCallback(l.env.CancelWorkflow, 10*time.Minute)
	l.env.ExecuteWorkflow(wire.WorkflowHandOff, wire.HandOffInput{Launcher: "ray"})
	if err := l.env.GetWorkflowError(); !temporal.IsCanceledError(err) {
		t.Fatalf("%v", err)
	}
	if last := l.looks[len(l.looks)-1]; !last.Cancel || last.CancelledAt.IsZero() {
		t.Errorf("the last look was %+v", last)
	}
}
