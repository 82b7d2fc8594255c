package activities

import (
	"context"
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// An EvalFile is a file of an evaluation set as a build reads it.
type EvalFile struct {
	Set string `json:"set"` // what it is called; see sources.EvalSetName
	SourceFile
}

// An evalSet is a file of an evaluation set that can be read.
type evalSet struct {
	name string
	file sources.File
}

// EvalSets are the evaluation sets of a recipe, by index of its prompt_filter.
type EvalSets [][]evalSet

// FindEvalSets lists the files of the evaluation sets that r names, in the order
// of the patterns and then of their paths. Where some cannot be used, the error
// is a [recipe.Error] at the place of the pattern.
func FindEvalSets(ctx context.Context, r *recipe.Recipe, f sources.Finder) (EvalSets, error) {
	out := make(EvalSets, len(r.PromptFilter))
	any := false
	for i := range r.PromptFilter {
		step := r.PromptFilter[i].Contamination
		if step == nil {
			continue
		}
		any = true
		seen := map[string]bool{}
		for j, pattern := range step.Against {
			files, err := f.Find(ctx, pattern)
			if err != nil {
				return nil, atPath(r, fmt.Sprintf("prompt_filter[%d].contamination.against[%d]", i, j), err)
			}
			for _, file := range files {
				if at := file.Path + file.Key; !seen[at] { // patterns may overlap
					seen[at] = true
					out[i] = append(out[i], evalSet{sources.EvalSetName(f.Dir, pattern, file), file})
				}
			}
		}
	}
	if !any {
		return nil, nil
	}
	return out, nil
}

// pinEvals uploads the evaluation sets of a recipe; nil where it names none.
func pinEvals(ctx context.Context, b objstore.Bucket, r *recipe.Recipe, f sources.Finder, out *Submission) ([][]EvalFile, error) {
	sets, err := FindEvalSets(ctx, r, f)
	if err != nil || sets == nil {
		return nil, err
	}
	pinned := make([][]EvalFile, len(sets))
	for i, list := range sets {
		for _, set := range list {
			p, sent, err := pin(ctx, b, set.file)
			if err != nil {
				return nil, fmt.Errorf("upload %s: %w", set.file.Name, err)
			}
			out.Uploaded += sent
			pinned[i] = append(pinned[i], EvalFile{set.name, p})
		}
	}
	return pinned, nil
}

// evalSets opens a build's evaluation sets from the store.
func (a *Activities) evalSets(ctx context.Context, rt *runtime) (EvalSets, error) {
	out := make(EvalSets, len(rt.recipe.PromptFilter))
	for i, list := range rt.sources.Evals {
		if i >= len(out) {
			return nil, badSource("the build's list of sources is of another recipe; start the build again")
		}
		for _, set := range list {
			files, err := a.openSources(ctx, []SourceFile{set.SourceFile})
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], evalSet{set.Set, files[0]})
		}
	}
	return out, nil
}

// filtered says in the manifest what the filters of prompts found, and what the
// prompts were held against.
func (s *seal) filtered(m *catalog.Manifest) {
	m.Counts.Filtered = s.plan.Filtered
	for _, list := range s.rt.sources.Evals {
		for _, f := range list {
			m.EvaluationSets = append(m.EvaluationSets, catalog.Source{Path: f.Set, Key: f.Key, SHA256: f.SHA256, Bytes: f.Size})
		}
	}
}
