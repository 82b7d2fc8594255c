package cli

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/budget"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

func init() { register(compareCommand) }

// mostCompared bounds the tasks of a bake-off: all of its answers are in memory
// at once.
const mostCompared = 1000

// compareFlags are the flags of compare.
type compareFlags struct {
	prompts int
	yes     bool
	file    string
	budget  budgetFlag
}

func compareCommand(a *app) *cobra.Command {
	var f compareFlags
	cmd := &cobra.Command{
		Use:   "compare RECIPE",
		Short: "Ask every teacher the same sample of tasks, and compare them before a build is paid for",
		Long: `Compare takes a sample of the recipe's tasks, as many of every domain and effort
as there are, asks every teacher all of them whatever the recipe's route says,
checks and filters the answers as a build would, and shows the comparison: who
leads whom, how small a difference the sample could have shown, and a route for
each domain and effort as lines of a recipe. A teacher is recommended for its lead
only where that survives Holm's adjustment; else the cheapest of those that tie,
and nobody where the sample says too little. Nothing is published. The answers are
kept: a build of the recipe uses them.

Before anything is asked it shows the sample, what asking it will cost, and the
smallest difference that each domain and effort can show; on a terminal it then
asks whether to go on. --budget is a limit that is never passed.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.compare(cmd.Context(), args[0], f)
		},
	}
	cmd.Flags().IntVarP(&f.prompts, "prompts", "n", 200, "tasks to take")
	cmd.Flags().StringVarP(&f.file, "output", "o", "", "file to write the comparison to too: .json, .md or .html")
	a.addSandboxFlags(cmd)
	cmd.Flags().BoolVarP(&f.yes, "yes", "y", false, "spend without asking first")
	cmd.Flags().Var(&f.budget, "budget", "most that the comparison may spend, in US dollars; instead of the recipe's ask.budget.usd")
	return cmd
}

// A compared is what compare --json ends with.
type compared struct {
	Tasks     int                     `json:"tasks"`
	Report    *report.Report          `json:"report"`
	Recommend []report.Recommendation `json:"recommend"`
	Lines     string                  `json:"lines"` // of a recipe
}

func (a *app) compare(ctx context.Context, path string, f compareFlags) error {
	if f.prompts < 1 || f.prompts > mostCompared {
		return usage("--prompts %d: want 1 to %d tasks", f.prompts, mostCompared)
	}
	if kind := filepath.Ext(f.file); f.file != "" && kind != ".json" && kind != ".html" && kind != ".md" {
		return usage("-o %s: the file's ending says what is written; use .json, .md or .html", f.file)
	}
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
	if len(askedTeachers(r)) < 2 {
		return usage("%s has one teacher that answers, and a comparison needs two", path)
	}
	strata, err := a.agreeCompare(ctx, r, f)
	if err != nil {
		return err
	}
	ref := wire.BuildRef{Preview: f.prompts, Compare: true, BudgetMicros: f.budget.micros}
	tasks, out, err := a.sample(ctx, r, ref, true)
	if err != nil {
		return err
	}
	rep, err := activities.Comparison(r, tasks)
	if err != nil {
		return err
	}
	rep.SetStrata(strata)
	if n := len(out.OverBudget); n > 0 {
		a.warn("%s", overCompare(out, f.budget.micros))
	}
	return a.showCompared(r, rep, tasks, out, f.file)
}

// overCompare says what a comparison is that its budget ended.
func overCompare(out *wire.BuildOutput, micros int64) string {
	limit := "the recipe's budget"
	if micros > 0 {
		limit = "the budget of " + budget.Dollars(micros)
	}
	return fmt.Sprintf("%s had no room for more asks of %s: what was not asked is in no rate and no comparison. Run it again with a larger --budget: only what is missing is asked",
		limit, strings.Join(out.OverBudget, ", "))
}

func (a *app) showCompared(r *recipe.Recipe, rep *report.Report, tasks []activities.PreviewTask, out *wire.BuildOutput, file string) error {
	found := compared{Tasks: len(tasks), Report: rep, Recommend: rep.Comparison.Recommend()}
	found.Lines = report.RecipeLines(found.Recommend, askedTeachers(r))
	if len(out.OverBudget) > 0 {
		found.Recommend, found.Lines = nil, "" // not everybody was asked everything
	}
	if file != "" {
		rep.About = r.Name + ", before a build"
		if err := writeReport(file, rep); err != nil {
			return err
		}
		a.say("wrote the comparison to %s", file)
	}
	if a.json {
		return sampleEnd(out, a.printJSON(found))
	}
	if err := rep.Table(a.out, a.width()); err != nil {
		return err
	}
	printNotes(a.out, rep, a.width())
	switch {
	case rep.Comparison == nil:
		fmt.Fprintln(a.out, "\nNo verifier judged any answer, so that no teacher can be recommended; declare one under check.")
	case len(out.OverBudget) > 0:
		fmt.Fprintln(a.out, "\nNo route is recommended: the budget ended before every teacher was asked every task.")
	default:
		fmt.Fprintf(a.out, "\nA route that this sample of %s tasks supports, as lines of the recipe:\n\n%s", grouped(int64(len(tasks))), found.Lines)
	}
	return sampleEnd(out, nil)
}

// agreeCompare plans the sample, shows what it will ask and can show, and asks
// before money is spent, where a person is there to answer.
func (a *app) agreeCompare(ctx context.Context, r *recipe.Recipe, f compareFlags) ([]report.Stratum, error) {
	all := activities.CompareRecipe(r)
	if f.budget.micros > 0 {
		limit := recipe.Budget{}
		if r.Ask.Budget != nil {
			limit = *r.Ask.Budget
		}
		limit.USD = float64(f.budget.micros) / 1e6
		all.Ask.Budget = &limit
	}
	p, plan, err := a.makePlanOf(ctx, all, "", f.prompts)
	if err != nil {
		return nil, err
	}
	strata := activities.SampleStrata(plan)
	if a.quiet || a.json {
		return strata, nil
	}
	if err := printComparePlan(a.err, p, strata, a.width()); err != nil {
		return nil, err
	}
	if f.yes || !a.terminal || !spends(r) || f.budget.limits(r) || p.Missing == 0 && p.MoreAsks == 0 && p.JudgeAsks == 0 {
		return strata, nil
	}
	fmt.Fprintf(a.err, "Ask and spend? [y/N] ")
	line, err := readLine(ctx, a.in)
	if err != nil || !isYes(line) {
		return nil, &codedError{exitInterrupted, "nothing was asked. --yes skips the question"}
	}
	return strata, nil
}

// printComparePlan prints what a comparison will ask, and what it can show.
func printComparePlan(w io.Writer, p *planReport, strata []report.Stratum, width int) error {
	if p.Budget != nil {
		p.Budget.compares = true
	}
	p.print(w)
	fmt.Fprintln(w, "\nWhat the sample can show, before anything is asked:")
	if err := report.StrataTable(w, strata, width); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "%s\n\n", report.StrataNote)
	return err
}

// askedTeachers are the ids of those that answer tasks, not only judge.
func askedTeachers(r *recipe.Recipe) []string {
	var out []string
	for i := range r.Teachers {
		if id := r.Teachers[i].ID; !r.OnlyJudges(id) {
			out = append(out, id)
		}
	}
	return out
}
