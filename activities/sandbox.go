package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// A Sandbox runs the code of answers, on this worker or on others.
type Sandbox interface {
	// Here is the runner of this worker. The error says why it has none, and
	// what to do.
	Here(ctx context.Context) (verify.Runner, error)
	// Elsewhere tells whether workers of the queue [wire.QueueSandbox] may run on
	// other machines, so that a build need not end where this one has no runner.
	Elsewhere() bool
}

// errNoSandbox is the error of a process that was given no sandbox at all.
var errNoSandbox = errors.New("this process has no sandbox")

// runsCode tells whether judging a recipe's answers runs their code.
func (rt *runtime) runsCode() bool {
	return slices.ContainsFunc(rt.check.all(), func(k *check) bool {
		return k.verifier != nil && verify.RunsCode(k.verifier.Name())
	})
}

// needSandbox refuses a recipe whose answers nobody could judge, before anybody
// is asked for them. It tells whether a build refines on the sandboxes' queue.
func (a *Activities) needSandbox(ctx context.Context, rt *runtime) (bool, error) {
	if !rt.runsCode() {
		return false, nil
	}
	_, err := a.sandboxHere(ctx)
	if err == nil || a.Sandbox != nil && a.Sandbox.Elsewhere() {
		return true, nil
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	return false, invalidRecipe("the verifier code runs what models wrote, and %v", err)
}

func (a *Activities) sandboxHere(ctx context.Context) (verify.Runner, error) {
	if a.Sandbox == nil {
		return nil, errNoSandbox
	}
	return a.Sandbox.Here(ctx)
}

// A runnerOf finds the runner when the first answer needs it.
type runnerOf struct{ a *Activities }

// runner is where the code of answers runs. Its error ends the activity, which
// another worker may take: a verdict must not depend on where it was given.
func (r runnerOf) runner(ctx context.Context) (verify.Runner, error) {
	if r.a == nil {
		return nil, errNoSandbox
	}
	runner, err := r.a.sandboxHere(ctx)
	if err != nil {
		return nil, fmt.Errorf("run the answers' code: %w", err)
	}
	return runner, nil
}
