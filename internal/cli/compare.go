package cli

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

func init() { register(compareCommand) }

// mostCompared bounds the tasks of a bake-off: all of its answers are in memory
// at once.
const mostCompared = 1000

func compareCommand(a *app) *cobra.Command {
	var n int
	var yes bool
	var out string
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
kept: a build of the recipe uses them.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.compare(cmd.Context(), args[0], n, yes, out)
		},
	}
	cmd.Flags().IntVarP(&n, "prompts", "n", 200, "tasks to take")
	cmd.Flags().StringVarP(&out, "output", "o", "", "file to write the comparison to too: .json, .md or .html")
	a.addSandboxFlags(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "spend without asking first")
	return cmd
}

// A compared is what compare --json ends with.
type compared struct {
	Tasks     int                     `json:"tasks"`
	Report    *report.Report          `json:"report"`
	Recommend []report.Recommendation `json:"recommend"`
	Lines     string                  `json:"lines"` // of a recipe
}

func (a *app) compare(ctx context.Context, path string, n int, yes bool, file string) error {
	if n < 1 || n > mostCompared {
		return usage("--prompts %d: want 1 to %d tasks", n, mostCompared)
	}
	if kind := filepath.Ext(file); file != "" && kind != ".json" && kind != ".html" && kind != ".md" {
		return usage("-o %s: the file's ending says what is written; use .json, .md or .html", file)
	}
	r, err := a.loadRecipe(path)
	if err != nil {
		return err
	}
	if err := a.showCommands(r); err != nil {
		return err
	}
	if len(r.Teachers) < 2 {
		return usage("%s has one teacher, and a comparison needs two", path)
	}
	tasks, out, err := a.sample(ctx, r, wire.BuildRef{Preview: n, Compare: true}, yes)
	if err != nil {
		return err
	}
	rep, err := activities.Comparison(r, tasks)
	if err != nil {
		return err
	}
	found := compared{Tasks: len(tasks), Report: rep, Recommend: rep.Comparison.Recommend()}
	found.Lines = report.RecipeLines(found.Recommend, askedTeachers(r))
	if file != "" {
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
	default:
		fmt.Fprintf(a.out, "\nA route that this sample of %s tasks supports, as lines of the recipe:\n\n%s", grouped(int64(len(tasks))), found.Lines)
	}
	return sampleEnd(out, nil)
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
