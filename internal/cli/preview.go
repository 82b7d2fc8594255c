package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

func init() { register(previewCommand) }

const (
	maxPreview      = 256 << 20 // bytes of a preview's tasks
	mostPreview     = 200       // tasks
	previewProse    = 600       // characters of an answer that are shown
	previewThoughts = 200       // of its reasoning
)

func previewCommand(a *app) *cobra.Command {
	var n int
	var yes bool
	cmd := &cobra.Command{
		Use:   "preview RECIPE",
		Short: "Take a few tasks through all stages, and publish nothing",
		Long:  "Preview asks the teachers for a few tasks of every kind and shows their answers\nside by side with verdicts and reject reasons. The answers are kept: a build of\nthe recipe uses them.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.preview(cmd.Context(), args[0], n, yes)
		},
	}
	cmd.Flags().IntVarP(&n, "tasks", "n", 5, "tasks to take")
	a.addSandboxFlags(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "spend without asking first")
	return cmd
}

func (a *app) preview(ctx context.Context, path string, n int, yes bool) error {
	if n < 1 || n > mostPreview {
		return usage("-n %d: want 1 to %d tasks", n, mostPreview)
	}
	r, err := a.loadRecipe(path)
	if err != nil {
		return err
	}
	if err := a.showCommands(r); err != nil {
		return err
	}
	tasks, out, err := a.sample(ctx, r, wire.BuildRef{Preview: n}, yes)
	if err != nil {
		return err
	}
	if a.json {
		err = a.printJSON(tasks)
	} else {
		err = printPreview(a.out, tasks)
	}
	return sampleEnd(out, err)
}

// sampleEnd is how a sample ends once its tasks are shown.
func sampleEnd(out *wire.BuildOutput, err error) error {
	if code := stoppedCode(len(out.Stopped), len(out.OverBudget)); err == nil && code != exitDone {
		return &codedError{code: code}
	}
	return err
}

// sample takes as many tasks as ref says through all stages, and gives them
// judged and merged. The rest of ref is filled in.
func (a *app) sample(ctx context.Context, r *recipe.Recipe, ref wire.BuildRef, yes bool) ([]activities.PreviewTask, *wire.BuildOutput, error) {
	if !yes && a.terminal && !a.quiet && !a.json && spends(r) {
		fmt.Fprintf(a.err, "Ask %d teacher(s) about %d task(s)? [y/N] ", len(r.Teachers), ref.Preview)
		if line, err := readLine(ctx, a.in); err != nil || !isYes(line) {
			return nil, nil, &codedError{exitInterrupted, "nothing was asked. --yes skips the question"}
		}
	}
	s, err := a.open(ctx, true)
	if err != nil {
		return nil, nil, err
	}
	defer s.close()
	sub, err := activities.Submit(ctx, s.bucket, r, a.finder(r.Dir))
	if err != nil {
		return nil, nil, err
	}
	ref.Dataset, ref.RecipeDigest, ref.SourcesDigest, ref.BuildID = r.Name, sub.RecipeDigest, sub.SourcesDigest, newBuildID()
	run := &run{BuildRef: ref, id: wire.PreviewWorkflowID(ref.Dataset, ref.BuildID), buildID: ref.BuildID}
	run.handle, err = s.temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: run.id, TaskQueue: wire.QueuePipeline,
	}, wire.WorkflowBuild, wire.BuildInput{BuildRef: ref})
	if err != nil {
		return nil, nil, fmt.Errorf("start the preview: %w", err)
	}
	out, err := s.follow(ctx, run)
	if err != nil {
		return nil, nil, s.explain(err, run)
	}
	text, _, err := objstore.ReadAll(ctx, s.bucket, out.Preview, maxPreview)
	if err != nil {
		return nil, nil, err
	}
	// Nobody else reads it; what is left behind by a crash is swept by gc.
	if err := s.clearPreview(ctx, ref); err != nil {
		a.log().Warn("the preview's files were not removed; gc will", "error", err)
	}
	var tasks []activities.PreviewTask
	if err := json.Unmarshal(text, &tasks); err != nil {
		return nil, nil, fmt.Errorf("read the preview: %w", err)
	}
	return tasks, out, nil
}

func (s *session) clearPreview(ctx context.Context, ref wire.BuildRef) error {
	var keys []string
	for at, err := range s.bucket.List(ctx, "datasets/"+ref.Dataset+"/work/"+ref.BuildID+"/", "") {
		if err != nil {
			return err
		}
		keys = append(keys, at.Key)
	}
	return s.bucket.Delete(ctx, keys...)
}

// printPreview shows each task with its candidates below one another. What
// models wrote is shown as text, bounded and without control characters.
func printPreview(w io.Writer, tasks []activities.PreviewTask) error {
	var b strings.Builder
	for i := range tasks {
		t := &tasks[i]
		fmt.Fprintf(&b, "\n── task %d of %d · %s · %s ──\n", i+1, len(tasks), printable(t.Task.Domain), printable(t.Task.Effort))
		fmt.Fprintf(&b, "%s\n", indented(excerpt(t.Task.Prompt.LastUser(), previewProse), "  "))
		if t.Task.Gold != nil {
			fmt.Fprintf(&b, "  gold: %s\n", excerpt(*t.Task.Gold, previewThoughts))
		}
		for j := range t.Candidates {
			previewCandidate(&b, &t.Candidates[j])
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func previewCandidate(b *strings.Builder, c *datasets.Candidate) {
	mark := "✗"
	switch {
	case c.Selected:
		mark = "★"
	case c.Accepted:
		mark = "✓"
	}
	fmt.Fprintf(b, "\n  %s %s", mark, printable(c.Teacher))
	if c.SampleIndex > 0 {
		fmt.Fprintf(b, " #%d", c.SampleIndex+1)
	}
	if c.Verdict != nil {
		fmt.Fprintf(b, " · %s", *c.Verdict)
	}
	if c.Extracted != nil {
		fmt.Fprintf(b, " · read as %s", excerpt(*c.Extracted, 60))
	}
	if len(c.RejectReasons) > 0 {
		fmt.Fprintf(b, " · not accepted: %s", printable(strings.Join(c.RejectReasons, ", ")))
	}
	if c.Unselected != nil {
		fmt.Fprintf(b, " · not chosen: %s", printable(*c.Unselected))
	}
	if c.CompletionTokens != nil {
		fmt.Fprintf(b, " · %s tokens", grouped(*c.CompletionTokens))
	}
	if c.CostMicros != nil {
		fmt.Fprintf(b, " · %s", money(*c.CostMicros))
	}
	b.WriteByte('\n')
	if c.ErrorText != nil {
		fmt.Fprintf(b, "%s\n", indented(excerpt(*c.ErrorText, previewProse), "    "))
	}
	m := c.Answer()
	if m == nil {
		return
	}
	if m.ReasoningContent != nil && *m.ReasoningContent != "" {
		fmt.Fprintf(b, "%s\n", indented("(thinks) "+excerpt(*m.ReasoningContent, previewThoughts), "    "))
	}
	if m.Content != nil {
		fmt.Fprintf(b, "%s\n", indented(excerpt(*m.Content, previewProse), "    "))
	}
	for _, call := range m.ToolCalls {
		fmt.Fprintf(b, "    calls %s(%s)\n", printable(call.Name), excerpt(call.Arguments, previewThoughts))
	}
}

// excerpt is the beginning of untrusted text, safe for a terminal.
func excerpt(s string, most int) string {
	if utf8.RuneCountInString(s) > most {
		runes := []rune(s)
		s = string(runes[:most]) + fmt.Sprintf(" … (%s more characters)", grouped(int64(len(runes)-most)))
	}
	return printable(s)
}

func indented(s, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n"+by)
}
