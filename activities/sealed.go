package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// nothingAccepted says that there is nothing to publish, with where to look.
func (s *seal) nothingAccepted() string {
	const text = "no answer was accepted, so there is no row to publish; "
	switch {
	case s.result.Accepted > 0:
		return s.nothingSelected()
	case s.result.Budget != nil && len(s.result.Budget.Stopped) > 0:
		return text + "the budget had no room for more asks"
	case len(s.result.Stopped) > 0:
		return text + "its teachers were given up"
	case s.failed != "":
		return text + s.failed
	case s.plan.Tasks > 0 && s.plan.Filtered.Dropped() == s.plan.Tasks:
		return text + "prompt_filter left out every task; look at what it found with: stillhouse plan RECIPE"
	}
	return text + "look at single answers with: stillhouse preview RECIPE"
}

// rated counts a verdict: passed, and passed or failed.
func rated(p [2]int64, verdict string) [2]int64 {
	switch verdict {
	case datasets.Pass:
		p[0]++
		p[1]++
	case datasets.Fail:
		p[1]++
	}
	return p
}

// putReports writes the comparison as JSON and as a page, and gives their keys.
func (s *seal) putReports(ctx context.Context) ([]string, error) {
	r := s.report.Report()
	r.Filtered = s.plan.Filtered
	r.About = s.in.Dataset + ", build " + s.in.BuildID
	r.Notes = append(r.Notes, filteredNotes(s.plan.Filtered)...)
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return nil, err
	}
	var page bytes.Buffer
	if err := r.HTML(&page); err != nil {
		return nil, fmt.Errorf("render the report: %w", err)
	}
	var keys []string
	for _, f := range []struct {
		name, contentType string
		data              []byte
	}{{"report.json", "application/json", text}, {"report.html", "text/html; charset=utf-8", page.Bytes()}} {
		key, err := catalog.ReportKey(s.in.Dataset, s.in.BuildID, f.name)
		if err != nil {
			return nil, err
		}
		if _, err := objstore.PutBytes(ctx, s.a.Bucket, key, f.data, objstore.PutOptions{ContentType: f.contentType}); err != nil {
			return nil, fmt.Errorf("write the report: %w", err)
		}
		keys = append(keys, key)
	}
	return keys, nil
}

// ended gives the summary of a build that an earlier attempt brought to its
// end: its plan and shards may be gone by now. It is nil for any other build.
func (s *seal) ended(ctx context.Context) (*wire.BuildOutput, error) {
	in, err := s.a.Catalog.Build(ctx, s.in.Dataset, s.in.BuildID)
	if errors.Is(err, catalog.ErrUnknown) || err == nil && in.State != catalog.BuildDone {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(in.Result, &s.result); err != nil {
		return nil, fmt.Errorf("read the result of build %s: %w", s.in.BuildID, err)
	}
	s.a.clear(ctx, s.in.BuildRef)
	return s.output(), nil
}

// end records the result, clears the build's work away and gives the summary.
func (s *seal) end(ctx context.Context) (*wire.BuildOutput, error) {
	text, err := s.result.encode()
	if err == nil {
		err = s.endProbes(ctx)
	}
	if err == nil {
		err = s.endRefreshes(ctx)
	}
	if err != nil {
		return nil, err
	}
	err = s.a.Catalog.FinishIntent(ctx, s.in.Dataset, s.in.BuildID, catalog.BuildDone, func(i *catalog.Intent) {
		i.Version, i.Unchanged, i.Result = s.result.Version, s.result.Unchanged, text
		if len(s.result.Gates) > 0 {
			i.Reason = s.result.Gates[0]
		}
	})
	if err != nil {
		return nil, err
	}
	s.a.clear(ctx, s.in.BuildRef)
	return s.output(), nil
}

// clear removes a build's intermediate files as far as it goes.
func (a *Activities) clear(ctx context.Context, ref wire.BuildRef) {
	if err := a.clearWork(ctx, ref); err != nil {
		a.Log.Warn("the build's intermediate files were not removed; gc will", "build", ref.BuildID, "error", err)
	}
}

func (s *seal) output() *wire.BuildOutput {
	return &wire.BuildOutput{
		Dataset: s.in.Dataset, BuildID: s.in.BuildID, Version: s.result.Version, Unchanged: s.result.Unchanged,
		Gates: s.result.Gates, Stopped: sortedIDs(s.result.Stopped), OverBudget: s.overBudget(),
	}
}

// clearWork removes a finished build's intermediate files.
func (a *Activities) clearWork(ctx context.Context, ref wire.BuildRef) error {
	var keys []string
	for at, err := range a.Bucket.List(ctx, "datasets/"+ref.Dataset+"/work/"+ref.BuildID+"/", "") {
		if err != nil {
			return err
		}
		keys = append(keys, at.Key)
	}
	return a.Bucket.Delete(ctx, keys...)
}

// A PreviewTask is a task of a preview with its candidates, judged and merged.
type PreviewTask struct {
	Task       datasets.Task        `json:"task"`
	Candidates []datasets.Candidate `json:"candidates"` // messages: the prompt and, last, the answer
	Judgements []datasets.Judgement `json:"judgements,omitempty"`
	Judged     []datasets.JudgeRow  `json:"judged,omitempty"`   // what judges were asked
	Attempts   []datasets.Attempt   `json:"attempts,omitempty"` // every request of these, each once
	Fit        []datasets.FitRow    `json:"student_fit,omitempty"`
	Scored     []datasets.Attempt   `json:"scored,omitempty"` // requests to the student
}

// preview keeps the sample's tasks for whoever asked for them, and publishes
// nothing.
func (s *seal) preview(ctx context.Context, dir string) (*wire.BuildOutput, error) {
	refined, err := s.tasks(ctx, dir)
	if err != nil {
		return nil, err
	}
	fit, err := s.studentFit(ctx, s.a.historyAsOf(time.Now()), eachOf(refined))
	if err != nil {
		return nil, err
	}
	var tasks []PreviewTask
	for r, err := range refined {
		if err != nil {
			return nil, err
		}
		s.tally(&r)
		restorePrompts(&r)
		one := PreviewTask{Task: r.Task, Candidates: r.Candidates, Judgements: r.Judgements, Judged: r.judgeRows()}
		if err := s.paid.add(&r, func(row datasets.Attempt) error {
			one.Attempts = append(one.Attempts, row)
			return nil
		}); err != nil {
			return nil, err
		}
		for i := range fit[r.Task.TaskID] {
			told := &fit[r.Task.TaskID][i]
			one.Fit, one.Scored = append(one.Fit, told.Row), append(one.Scored, s.payFit(told)...)
		}
		tasks = append(tasks, one)
	}
	text, err := json.Marshal(tasks)
	if err != nil {
		return nil, err
	}
	key := stageKey(s.in.Dataset, s.in.BuildID, "preview", "tasks", text, ".json")
	if _, err := objstore.CreateOrSame(ctx, s.a.Bucket, key, text); err != nil {
		return nil, fmt.Errorf("write the preview: %w", err)
	}
	return &wire.BuildOutput{Dataset: s.in.Dataset, BuildID: s.in.BuildID, Preview: key, Stopped: sortedIDs(s.stopped), OverBudget: s.overBudget()}, nil
}

func sortedIDs(m map[string]string) []string {
	return slices.Sorted(maps.Keys(m))
}

// AbandonBuild records that a build ended without a version, and clears its
// work away: the answers are kept, and the next build needs nothing else. One
// that had published by then stays done.
func (a *Activities) AbandonBuild(ctx context.Context, ref wire.BuildRef, state, why string) error {
	in, err := a.Catalog.Build(ctx, ref.Dataset, ref.BuildID)
	if err == nil && in.State != catalog.BuildDone {
		err = a.Catalog.FinishIntent(ctx, ref.Dataset, ref.BuildID, state, func(i *catalog.Intent) { i.Reason = clipped(why, resultText) })
	}
	if errors.Is(err, catalog.ErrUnknown) {
		return nil
	}
	if err == nil {
		a.clear(ctx, ref)
	}
	return err
}
