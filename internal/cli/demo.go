package cli

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/activities"
)

func init() { register(demoCommand) }

func demoCommand(a *app) *cobra.Command {
	var keep bool
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run the main job with nothing configured",
		Long: `Demo starts the embedded Temporal server and store, nine simulated teachers
(3 domains × 3 efforts) and builds a dataset from them. The teachers are HTTP
servers on this machine that speak the chat-completions protocol; nothing
leaves the machine and nothing is spent: their prices are made up.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.demo(cmd.Context(), keep) },
	}
	a.addSandboxFlags(cmd)
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the services up afterwards, until Ctrl-C")
	return cmd
}

func (a *app) demo(ctx context.Context, keep bool) error {
	if a.remoteTemporal() || a.store != "" {
		return usage("demo runs on embedded services alone; leave --store and --temporal out")
	}
	if a.embedded == nil {
		return usage("this binary carries no embedded services, and so no demo")
	}
	h, err := a.openHome()
	if err != nil {
		return err
	}
	demo, err := a.embedded.Demo(ctx, h)
	if err != nil {
		return fmt.Errorf("start the demo's teachers: %w", err)
	}
	defer func() {
		if err := demo.Stop(context.WithoutCancel(ctx)); err != nil {
			a.log().Warn("the demo's teachers did not end cleanly", "error", err)
		}
	}()
	r, err := a.loadRecipe(demo.Recipe)
	if err != nil {
		return err
	}
	a.say("nine simulated teachers answer on this machine; their skills, speeds and prices are made up")
	s, err := a.open(ctx, true)
	if err != nil {
		return err
	}
	defer s.close()
	if s.endpoints != nil && s.endpoints.UI != "" {
		a.say("Temporal's page while this runs: %s", s.endpoints.UI)
	}
	run, err := s.submit(ctx, r, 0, "")
	if err != nil {
		return err
	}
	out, err := s.follow(ctx, run)
	if err != nil {
		return s.explain(err, run)
	}
	result, err := s.result(ctx, out.Dataset, out.BuildID)
	if err != nil {
		return err
	}
	if err := a.printResult(result, s, " at simulated prices"); err != nil {
		return err
	}
	a.afterDemo(s, demo.Recipe, result)
	if keep {
		a.say("\nthe services stay up; Ctrl-C ends them")
		<-a.interrupted
		return nil
	}
	if err := s.lingering(ctx, run.id); err != nil {
		return err
	}
	return outcome(result)
}

// afterDemo says where everything is and what to try next.
func (a *app) afterDemo(s *session, recipe string, r *activities.BuildResult) {
	if a.json {
		return
	}
	fmt.Fprintf(a.out, `
  recipe      %[2]s
  Temporal    %[1]s serve   (prints the address of its web page and keeps it up)
  the store   %[1]s env     (endpoint and keys for pyarrow, DuckDB, aws s3; while serve runs)

Try next:
  %[1]s demo                              again: asks nothing, publishes nothing
  %[1]s head %[3]s@%[4]d --table candidates    what the teachers said, and why it was kept or not
  %[1]s export %[3]s ./out --view messages    what a trainer reads
  %[1]s init mine --for openai            your own endpoint, in five lines
`, a.self(), recipe, r.Dataset, r.Version)
}

// self is how the user calls this program on this home.
func (a *app) self() string {
	if a.homeDir != "" && a.homeDir != a.env("STILLHOUSE_HOME") {
		return program() + " --home " + a.homeDir
	}
	return program()
}

// program is how the user calls this program.
func program() string {
	if path, err := os.Executable(); err == nil && strings.Contains(path, "go-build") {
		return "go run ./cmd/stillhouse"
	}
	return "stillhouse"
}
