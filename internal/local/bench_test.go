//go:build !noembed

package local

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// BenchmarkStart measures the services of a home that exists, start to stop
// apart.
func BenchmarkStart(b *testing.B) {
	h := openHome(b)
	stop(b, start(b, h))
	b.ResetTimer()
	for range b.N {
		s, err := Start(b.Context(), Options{Home: h})
		if err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		stop(b, s)
		b.StartTimer()
	}
}

// BenchmarkActivities measures what the embedded server can orchestrate: a
// workflow that keeps 100 activities that do nothing in flight.
func BenchmarkActivities(b *testing.B) {
	s := start(b, openHome(b))
	c := dial(b, &s.Endpoints)
	w := worker.New(c, "pipeline", worker.Options{MaxConcurrentActivityTaskPollers: 10})
	w.RegisterActivity(nothing)
	w.RegisterWorkflow(fanOut)
	if err := w.Start(); err != nil {
		b.Fatal(err)
	}
	defer w.Stop()
	b.ResetTimer()
	run, err := c.ExecuteWorkflow(b.Context(), client.StartWorkflowOptions{ID: "bench", TaskQueue: "pipeline"}, fanOut, b.N)
	if err != nil {
		b.Fatal(err)
	}
	if err := run.Get(b.Context(), nil); err != nil {
		b.Fatal(err)
	}
}

func nothing(context.Context) error { return nil }

func fanOut(ctx workflow.Context, n int) error {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{StartToCloseTimeout: time.Minute})
	const window = 100
	running := workflow.NewSemaphore(ctx, window)
	done := workflow.NewWaitGroup(ctx)
	var failed error
	for range n {
		if err := running.Acquire(ctx, 1); err != nil {
			return err
		}
		done.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer done.Done()
			defer running.Release(1)
			if err := workflow.ExecuteActivity(ctx, nothing).Get(ctx, nil); err != nil {
				failed = err
			}
		})
	}
	done.Wait(ctx)
	return failed
}
