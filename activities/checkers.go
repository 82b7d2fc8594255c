package activities

import (
	"context"
	"errors"
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// Checkers runs the commands of recipes that judge answers, as far as this
// process may.
type Checkers interface {
	verify.Checkers
	// Allowed says why a command does not run here, and what to do.
	Allowed(c *verify.Command) error
}

// errNoCheckers is the error of a process that was given none.
var errNoCheckers = errors.New("this process runs no commands of recipes")

// CommandsOf are the commands that judge a recipe's answers, in its order. They
// run on the machine that refines, with the rights of its worker.
func CommandsOf(r *recipe.Recipe) ([]*verify.Command, error) {
	rt, err := newRuntime(r, &Sources{})
	if err != nil {
		return nil, err
	}
	return rt.commands(), nil
}

func (rt *runtime) commands() (out []*verify.Command) {
	for _, k := range rt.check.all() {
		if c, ok := k.verifier.(verify.Commander); ok {
			out = append(out, c.Command())
		}
	}
	return out
}

// needCheckers refuses a recipe whose commands do not run here, before anybody
// is asked.
func (a *Activities) needCheckers(rt *runtime) error {
	for _, c := range rt.commands() {
		if err := allowed(a.Checkers, c); err != nil {
			return invalidRecipe("the verifier command runs %s, and %v", c.Argv[0], err)
		}
	}
	return nil
}

func allowed(checkers Checkers, c *verify.Command) error {
	if checkers == nil {
		return errNoCheckers
	}
	return checkers.Allowed(c)
}

// lendCheckers gives a verifier that runs a command what runs it. Its error ends
// the activity, which another worker may take: a verdict must not depend on
// where it was given.
func (rt *runtime) lendCheckers(_ context.Context, v verify.Verifier, in *verify.Input) error {
	c, ok := v.(verify.Commander)
	if !ok {
		return nil
	}
	if err := allowed(rt.checkers, c.Command()); err != nil {
		return fmt.Errorf("run the verifier command %s: %w", c.Command().Argv[0], err)
	}
	in.Checkers = rt.checkers
	return nil
}
