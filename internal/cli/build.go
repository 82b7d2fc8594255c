package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

func init() { register(buildCommand) }

// buildFlags are the flags of build.
type buildFlags struct {
	detach, yes bool
	budget      budgetFlag
	refresh     []string
}

func buildCommand(a *app) *cobra.Command {
	var f buildFlags
	cmd := &cobra.Command{
		Use:   "build RECIPE",
		Short: "Build a dataset: ask, check, merge, publish",
		Long: `Build asks the teachers of a recipe for whatever is not answered yet, checks
and merges the answers, and publishes a version.

Run it again after any interruption: it goes on where it was, and no answer
that has arrived is asked for again. Run it after it has finished: it asks
nothing and publishes nothing unless something changed.

Ctrl-C waits up to 10 s for answers in flight and keeps them; a second Ctrl-C
stops at once. On a Temporal server of your own (--temporal), Ctrl-C only stops
watching: the build goes on, and so does its spending.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.build(cmd.Context(), args[0], f) },
	}
	a.addSandboxFlags(cmd)
	a.addLaunchersFlag(cmd)
	cmd.Flags().BoolVar(&f.detach, "detach", false, "start the build and return; needs stillhouse serve or --temporal")
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "spend without asking first")
	cmd.Flags().Var(&f.budget, "budget", "most that the build may spend, in US dollars; instead of the recipe's ask.budget.usd")
	cmd.Flags().StringSliceVar(&f.refresh, "refresh", nil, "`TEACHER` to ask everything anew, once; its older answers are kept")
	return cmd
}

// build runs one recipe to its end, or detaches from it.
func (a *app) build(ctx context.Context, path string, f buildFlags) error {
	r, err := a.loadRecipe(path)
	if err != nil {
		return err
	}
	if err := f.budget.check(r); err != nil {
		return err
	}
	if err := a.showCommands(r); err != nil {
		return err
	}
	refresh, err := refreshOf(r, f.refresh)
	if err != nil {
		return err
	}
	if err := a.agree(ctx, r, f, refresh); err != nil {
		return err
	}
	if f.detach && !a.remoteTemporal() {
		if err := a.needServe(ctx, "build --detach"); err != nil {
			return err
		}
	}
	s, err := a.open(ctx, !f.detach)
	if err != nil {
		return err
	}
	defer s.close()
	run, err := s.submit(ctx, r, f.budget.micros, refresh)
	if err != nil {
		return err
	}
	if f.detach {
		a.say("build %s of %s runs on its own; watch it with: stillhouse watch %s", run.buildID, r.Name, run.buildID)
		return a.printJSON(map[string]string{"dataset": r.Name, "build_id": run.buildID, "workflow": run.id})
	}
	return s.finish(ctx, run)
}

// readRecipe reads a recipe and checks all that it says.
func (a *app) readRecipe(path string) (*recipe.Recipe, error) {
	r, err := recipe.Load(path)
	if err != nil {
		return nil, err
	}
	return r, activities.CheckRecipe(r)
}

// loadRecipe reads a recipe and checks also what depends on this machine.
func (a *app) loadRecipe(path string) (*recipe.Recipe, error) {
	r, err := a.readRecipe(path)
	if err != nil {
		return nil, err
	}
	if err := r.CheckStore(a.store != ""); err != nil {
		return nil, err
	}
	if !a.remoteTemporal() { // elsewhere the keys are the workers' business
		if err := a.checkKeys(r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// A run is a build that was started, by us or before.
type run struct {
	wire.BuildRef
	id      string // of the workflow
	buildID string
	joined  bool // it ran already
	handle  client.WorkflowRun
}

// submit uploads a recipe with its files and starts the build, or finds the
// one that runs already.
func (s *session) submit(ctx context.Context, r *recipe.Recipe, budgetMicros int64, refresh string) (*run, error) {
	if s.app.store != "" {
		if err := refuseCareless(ctx, s.bucket); err != nil {
			return nil, err
		}
	}
	if err := s.needAttributes(ctx); err != nil {
		return nil, err
	}
	sub, err := activities.Submit(ctx, s.bucket, r, s.app.finder(r.Dir))
	if err != nil {
		return nil, err
	}
	ref := wire.BuildRef{
		Dataset: r.Name, RecipeDigest: sub.RecipeDigest, SourcesDigest: sub.SourcesDigest,
		BuildID: newBuildID(), BudgetMicros: budgetMicros, Refresh: refresh, Notify: len(r.Notify), HandOff: r.Handoff != nil,
	}
	out := &run{BuildRef: ref, id: wire.BuildWorkflowID(ref.Dataset, ref.RecipeDigest, ref.SourcesDigest), buildID: ref.BuildID}
	out.handle, err = s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: out.id, TaskQueue: wire.QueuePipeline,
		WorkflowIDReusePolicy:    enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
		WorkflowIDConflictPolicy: enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING,
	}, wire.WorkflowBuild, wire.BuildInput{BuildRef: ref})
	if err != nil {
		return nil, fmt.Errorf("start the build: %w", err)
	}
	// A run that was there keeps the build id that it was started with.
	input, err := s.inputOf(ctx, out.id, out.handle.GetRunID())
	if err != nil {
		return nil, err
	}
	if input.BuildID != ref.BuildID {
		out.joined, out.BuildRef, out.buildID = true, input.BuildRef, input.BuildID
		if err := sameRefresh(out, refresh); err != nil {
			return nil, err
		}
		s.app.say("build %s of %s goes on", out.buildID, r.Name)
		return out, s.rebudget(ctx, out, budgetMicros)
	}
	return out, nil
}

// newBuildID names a build that begins now.
func newBuildID() string {
	return wire.BuildID(time.Now(), randomText())
}

// inputOf reads what a Build was started with from its history's first event.
func (s *session) inputOf(ctx context.Context, id, runID string) (*wire.BuildInput, error) {
	page, err := s.temporal.WorkflowService().GetWorkflowExecutionHistory(ctx, &workflowservice.GetWorkflowExecutionHistoryRequest{
		Namespace: s.namespace(), Execution: execution(id, runID), MaximumPageSize: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("read the start of build %s: %w", id, err)
	}
	if events := page.History.GetEvents(); len(events) > 0 {
		var in wire.BuildInput
		payloads := events[0].GetWorkflowExecutionStartedEventAttributes().GetInput()
		if err := s.app.payloads().FromPayloads(payloads, &in); err != nil {
			return nil, fmt.Errorf("read the start of build %s: %w", id, err)
		}
		return &in, nil
	}
	return nil, fmt.Errorf("build %s has no history", id)
}

// finish follows a build to its end and prints what came of it.
func (s *session) finish(ctx context.Context, r *run) error {
	out, err := s.follow(ctx, r)
	if err != nil {
		return s.explain(err, r)
	}
	result, err := s.result(ctx, out.Dataset, out.BuildID)
	if err != nil {
		return err
	}
	if err := s.app.printResult(result, s, ""); err != nil {
		return err
	}
	if err := s.lingering(ctx, r.id); err != nil {
		return err
	}
	ended := outcome(result)
	if err := s.followHandOff(ctx, out); err != nil && ended == nil {
		return err
	}
	return ended
}

// outcome turns a finished build into the command's exit code.
func outcome(r *activities.BuildResult) error {
	var codes []int
	if len(r.Gates) > 0 && (len(r.Stopped) == 0 || r.Accepted > 0) {
		codes = append(codes, exitGate)
	}
	atBudget := 0
	if r.Budget != nil {
		atBudget = len(r.Budget.Stopped)
	}
	codes = append(codes, stoppedCode(len(r.Stopped), atBudget))
	if code := worstOf(codes...); code != exitDone {
		return &codedError{code: code}
	}
	return nil
}

// explain says how a build ended that brought no result.
func (s *session) explain(err error, r *run) error {
	select {
	case <-s.app.interrupted:
		if s.owns() {
			s.app.warn("interrupted; what has arrived is kept. Run the same command again to go on.")
		} else {
			s.app.warn("no longer watching build %s; it goes on, and spends, on its own. Watch it: stillhouse watch %s   Stop it: stillhouse cancel %s", r.buildID, r.buildID, r.buildID)
		}
		return &codedError{code: exitInterrupted}
	default:
	}
	if exitCode(err) == exitInterrupted {
		s.app.warn("build %s was cancelled; what has arrived is kept, and the next build of the recipe uses it.", r.buildID)
		return &codedError{code: exitInterrupted}
	}
	return err
}

// result reads a finished build's record.
func (s *session) result(ctx context.Context, dataset, buildID string) (*activities.BuildResult, error) {
	return readResult(ctx, s.catalog, dataset, buildID)
}

func readResult(ctx context.Context, c *catalog.Catalog, dataset, buildID string) (*activities.BuildResult, error) {
	intent, err := c.Build(ctx, dataset, buildID)
	if err != nil {
		return nil, err
	}
	var r activities.BuildResult
	if err := json.Unmarshal(intent.Result, &r); err != nil {
		return nil, fmt.Errorf("build %s of %s has no result: %w", buildID, dataset, err)
	}
	return &r, nil
}

// lingering keeps the embedded services up for builds that other commands have
// started on them. The list of running builds lags behind, so the one that has
// just ended here is left out of it.
func (s *session) lingering(ctx context.Context, ended string) error {
	if !s.owns() {
		return nil
	}
	told := false
	for {
		n, err := s.runningBuilds(ctx, ended)
		if err != nil || n == 0 {
			return nil // what is left goes on with the next command
		}
		if !told {
			told = true
			s.app.warn("%d other build(s) run on the services of this process, which stays until they end; Ctrl-C leaves them for later", n)
		}
		select {
		case <-s.app.interrupted:
			return nil
		case <-time.After(time.Second):
		}
	}
}

func (s *session) runningBuilds(ctx context.Context, ended string) (int64, error) {
	count, err := s.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running' AND WorkflowId != '%s'", wire.WorkflowBuild, ended),
	})
	if err != nil {
		return 0, err
	}
	return count.Count, nil
}

// needServe refuses what would die with this process.
func (a *app) needServe(ctx context.Context, what string) error {
	h, err := a.openHome()
	if err != nil {
		return err
	}
	lock, err := h.Lock()
	if err == nil {
		_ = lock.Unlock()
		return usage("%s needs services that outlive it: start them with: stillhouse serve", what)
	}
	_, err = h.ReadEndpoints(ctx)
	return err
}

// agree asks before money is spent, where a person is there to answer.
func (a *app) agree(ctx context.Context, r *recipe.Recipe, f buildFlags, refresh string) error {
	if f.yes || f.detach || a.quiet || a.json || !a.terminal || !spends(r) || f.budget.limits(r) {
		return nil
	}
	p, err := a.makePlanAnew(ctx, r, refresh)
	if err != nil {
		return err
	}
	if p.Missing == 0 && p.MoreAsks == 0 && p.JudgeAsks == 0 {
		return nil
	}
	p.print(a.err)
	fmt.Fprintf(a.err, "Ask and spend? [y/N] ")
	line, err := readLine(ctx, a.in)
	if err != nil || !isYes(line) {
		return &codedError{exitInterrupted, "nothing was asked. --yes skips the question"}
	}
	return nil
}

// spends tells whether asking may cost money: a price, or an endpoint that is
// not on this machine.
func spends(r *recipe.Recipe) bool {
	for i := range r.Teachers {
		t := &r.Teachers[i]
		if t.API == recipe.APIRecorded {
			continue
		}
		if !loopback(hostOf(t.BaseURL)) {
			return true
		}
	}
	return false
}

// unavailable tells that a store or server can't be reached just now.
func unavailable(err error) bool { return exitCode(err) == exitUnreachable }
