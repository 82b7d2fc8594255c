package cli

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets/diff"
)

func init() { register(diffCommand) }

func diffCommand(a *app) *cobra.Command {
	var examples int
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Say which rows came, went and changed between two versions, and why",
		Long: `Diff compares two versions: the rows of train, test, pairs and prompts, by
reason, domain and teacher, and what changed in the recipe, the teachers, the
methods, the sources and the columns. A and B are references such as maths@11,
maths@best or maths, of one dataset or of two.

  stillhouse diff maths@11 maths@12
  stillhouse diff maths@best maths -n 2     with two rows of each kind of change

Why a row came, went or changed:
  prompt          its task is in one of the versions alone
  prompt_filter   its prompt was left out before it was asked
  split           it is in the other split
  answer_changed  the same ask has another answer: asked anew, or read anew
  teacher         its teacher is in one of the recipes alone
  not_asked       it was not asked for in the other build
  failed          the other build got no answer
  verdict         the verdict differs
  filter          a filter decides otherwise
  mixture         the mixture or a cap decides otherwise
  route           other teachers are asked
  choice          the merge policy took another answer
  fields          other columns differ`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if examples < 0 {
				return usage("-n %d: want 0 for no examples, or more", examples)
			}
			return a.diff(cmd.Context(), args[0], args[1], examples)
		},
	}
	cmd.Flags().IntVarP(&examples, "number", "n", 0, "rows that are shown of each kind of change")
	return cmd
}

func (a *app) diff(ctx context.Context, from, to string, examples int) error {
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	next := time.Now().Add(lineEvery)
	r, err := diff.Compare(ctx, c, from, to, diff.Options{Examples: examples, Note: func(tasks int64) {
		if time.Now().After(next) {
			next = time.Now().Add(lineEvery)
			a.say("compared %s tasks", grouped(tasks))
		}
	}})
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(r)
	}
	return printDiff(a.out, r)
}

func printDiff(w io.Writer, r *diff.Report) error {
	fmt.Fprintf(w, "%s → %s", printable(r.A.Ref), printable(r.B.Ref))
	if cost := r.B.CostMicros; cost > 0 {
		fmt.Fprintf(w, "  (the second build cost %s)", money(cost))
	}
	fmt.Fprintln(w)
	if r.Unchanged {
		fmt.Fprintln(w, "unchanged: train, test, pairs and prompts hold the same rows")
	}
	if err := printDiffTables(w, r); err != nil {
		return err
	}
	for _, part := range []struct {
		name    string
		changes []diff.Change
	}{{"recipe", r.Recipe}, {"teachers", r.Teachers}, {"methods", r.Methods}, {"sources", r.Sources}, {"columns", r.Schema}} {
		if len(part.changes) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", part.name)
		for _, c := range part.changes {
			printChange(w, &c)
		}
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "\nnote: %s\n", oneLine(note))
	}
	for i := range r.Examples {
		printDiffExample(w, &r.Examples[i])
	}
	return nil
}

func printDiffTables(w io.Writer, r *diff.Report) error {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "\ntable\trows before\tafter\tsame\tin\tout\tchanged")
	for _, t := range r.Tables {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", oneLine(t.Table), grouped(r.A.Rows[t.Table]), grouped(r.B.Rows[t.Table]),
			grouped(t.Same), grouped(t.In), grouped(t.Out), grouped(t.Changed))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, t := range r.Tables {
		if t.In+t.Out+t.Changed == 0 {
			continue
		}
		fmt.Fprintln(w)
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintf(tw, "%s\t\tin\tout\tchanged\n", oneLine(t.Table))
		for _, group := range []struct {
			name    string
			tallies []diff.Tally
		}{{"why", t.Why}, {"domain", t.Domains}, {"teacher", t.Teachers}} {
			for i, tally := range group.tallies {
				if i == maxTallies {
					fmt.Fprintf(tw, "%s\tand %d more; --json lists all\n", group.name, len(group.tallies)-i)
					break
				}
				name := tally.Name
				if tally.Detail != "" {
					name += ": " + tally.Detail
				}
				fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\n", group.name, clip(oneLine(name), 60), grouped(tally.In), grouped(tally.Out), grouped(tally.Changed))
			}
		}
		if err := tw.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// maxTallies is how many reasons, domains or teachers of a table are listed.
const maxTallies = 20

// printChange writes a value that differs, as a diff does.
func printChange(w io.Writer, c *diff.Change) {
	path := oneLine(c.Path)
	if c.A != nil {
		fmt.Fprintf(w, "  - %s: %s\n", path, clip(oneLine(*c.A), maxFact))
	}
	if c.B != nil {
		fmt.Fprintf(w, "  + %s: %s\n", path, clip(oneLine(*c.B), maxFact))
	}
}

func printDiffExample(w io.Writer, e *diff.Example) {
	why := e.Why
	if e.Detail != "" {
		why += ": " + e.Detail
	}
	fmt.Fprintf(w, "\n── %s, %s ── %s\n", oneLine(e.Table), oneLine(e.Change), oneLine(why))
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(w, "%-*s%s\n", indent, name, oneLine(text))
		}
	}
	line("task", e.TaskID)
	line("prompt", e.Prompt)
	for _, side := range [][4]string{{"- ", e.TeacherA, e.VerdictA, e.AnswerA}, {"+ ", e.TeacherB, e.VerdictB, e.AnswerB}} {
		if side[1] == "" {
			continue
		}
		line(side[0]+clip(oneLine(side[1]), indent-3), strings.TrimSpace(parenthesised(side[2])+" "+side[3]))
	}
}

func parenthesised(s string) string {
	if s == "" {
		return ""
	}
	return "(" + s + ")"
}
