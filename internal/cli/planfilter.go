package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// filterPrompts runs the recipe's filters of prompts here; nil where it has
// none.
func (a *app) filterPrompts(ctx context.Context, r *recipe.Recipe, prompts [][]sources.File, options sources.Options, temp string) (activities.FindingSource, error) {
	if len(r.PromptFilter) == 0 {
		return nil, nil
	}
	evals, err := activities.FindEvalSets(ctx, r, a.finder(r.Dir))
	if err != nil {
		return nil, err
	}
	return activities.FilterHere(ctx, r, prompts, evals, options, temp, func(string) {})
}

// printFiltered says what the filters of prompts left out and marked.
func printFiltered(w io.Writer, f *datasets.Filtered) {
	if f == nil {
		return
	}
	fmt.Fprintf(w, "left out by prompt_filter: %s%s\n", leftOut(f), markedOnly(f))
	for _, set := range slices.Sorted(maps.Keys(f.Sets)) {
		fmt.Fprintf(w, "  %s: %s task(s) hold an item of it\n", printable(set), grouped(f.Sets[set]))
	}
}

// leftOut counts what no teacher is asked, and why.
func leftOut(f *datasets.Filtered) string {
	var parts []string
	for _, part := range []struct {
		n    int64
		what string
	}{
		{f.Duplicates, "%s duplicate"}, {f.NearDuplicates, "%s near-duplicate"}, {f.Contaminated, "%s contaminated"},
	} {
		if part.n > 0 {
			parts = append(parts, fmt.Sprintf(part.what, grouped(part.n)))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return fmt.Sprintf("%s (%s)", grouped(f.Dropped()), strings.Join(parts, ", "))
}

// markedOnly counts what was found and is asked nevertheless.
func markedOnly(f *datasets.Filtered) string {
	var out strings.Builder
	for i, flag := range slices.Sorted(maps.Keys(f.Flags)) {
		sep := ", "
		if i == 0 {
			sep = "; marked only: "
		}
		fmt.Fprintf(&out, "%s%s %s", sep, grouped(f.Flags[flag]), flag)
	}
	return out.String()
}

// filtered says what the filters of prompts found, and in what they looked.
func (d *description) filtered() {
	f := d.manifest.Counts.Filtered
	if f == nil {
		return
	}
	d.line("left out", "%s%s", leftOut(f), markedOnly(f))
	for _, set := range d.manifest.EvaluationSets {
		d.line("evaluation", "%s (%s, sha256:%.12s): %s tasks hold an item of it", printable(set.Path), sized(set.Bytes), set.SHA256, grouped(f.Sets[set.Path]))
	}
	for _, warning := range f.Warnings {
		d.line("note", "%s", printable(warning))
	}
}

// clusterFact says of which cluster a prompt is.
func clusterFact(p *datasets.PromptRow) string {
	switch {
	case p.Cluster == nil:
		return ""
	case *p.Cluster == p.PromptID:
		return "it stands for others that say the same"
	case p.Jaccard != nil && *p.Jaccard < 1:
		return fmt.Sprintf("%s, similarity %.3f", *p.Cluster, *p.Jaccard)
	}
	return *p.Cluster
}

// contaminantsFact says which items of evaluation sets a prompt holds.
func contaminantsFact(list []datasets.Contaminant) string {
	var out []string
	for i := range list {
		c := &list[i]
		text := fmt.Sprintf("%.0f %% of %s#%s (%s, %d words)", 100*c.Share, c.Set, c.Item, c.Part, c.Words)
		for _, span := range c.Spans {
			text += fmt.Sprintf(" “%s”", span.Text)
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}
