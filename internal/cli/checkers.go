package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/checkers"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// allowedCommands says which commands of recipes this process runs: those that
// it has shown, or all where its user said so. A recipe has no say in it.
type allowedCommands struct {
	all bool

	mu    sync.Mutex
	shown map[string]bool
}

func (a *app) addCommandsFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&a.commands.all, "allow-commands", false, "run the commands that recipes name as verifiers, as this user")
}

// showCommands shows the commands that a recipe runs on this machine, which are
// then allowed. Elsewhere they are the workers' business.
func (a *app) showCommands(r *recipe.Recipe) error {
	if a.remoteTemporal() {
		return nil
	}
	list, err := activities.CommandsOf(r)
	if err != nil {
		return err
	}
	a.commands.mu.Lock()
	defer a.commands.mu.Unlock()
	if a.commands.shown == nil {
		a.commands.shown = map[string]bool{}
	}
	show := func(what string, argv []string) {
		key := strings.Join(argv, "\x00")
		if !a.commands.shown[key] {
			a.say("%s by a program that runs on this machine, as this user: %s", what, quotedWords(argv))
		}
		a.commands.shown[key] = true
	}
	for _, c := range list {
		show("this recipe judges answers", c.Argv)
	}
	for _, argv := range activities.CommandsToNotify(r) {
		show("this recipe tells how a build ended", argv)
	}
	if h := r.Handoff; h != nil && len(h.Command) > 0 {
		show("this recipe trains", h.Command)
	}
	return nil
}

// mayRun says why a command of a recipe does not run here, and what to do.
func (a *app) mayRun(argv []string) error {
	a.commands.mu.Lock()
	ok := a.commands.all || a.commands.shown[strings.Join(argv, "\x00")]
	a.commands.mu.Unlock()
	if !ok && a.policy.Command(argv[0]) != nil {
		return fmt.Errorf("this process does not run it: name it in run.commands of the file of its --policy, or build without --temporal and without stillhouse serve, which shows the command and runs it")
	}
	return nil
}

// quotedWords is a command as it can be read: words that are not plain stand in
// quotes.
func quotedWords(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		if out[i] = printable(w); w == "" || out[i] != w || strings.ContainsAny(w, " \t\"'\\") {
			out[i] = strconv.Quote(w)
		}
	}
	return strings.Join(out, " ")
}

// checkerPool runs them. It implements [activities.Checkers].
type checkerPool struct {
	*checkers.Pool
	app *app
}

// Allowed implements [activities.Checkers].
func (p *checkerPool) Allowed(c *verify.Command) error {
	if err := p.app.mayRun(c.Argv); err != nil {
		return err
	}
	return checkers.Find(c)
}

// Check implements [verify.Checkers].
func (p *checkerPool) Check(ctx context.Context, c *verify.Command, line []byte) ([]byte, error) {
	if err := p.Allowed(c); err != nil {
		return nil, err
	}
	return p.Pool.Check(ctx, c, line)
}
