package activities

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// What a purge does with a row.
type rowFate int

const (
	rowStays rowFate = iota
	rowBlank         // it stays without its words, so that what was spent adds up
	rowGoes
)

// The fate of the rows of each table. A change is made in place.

func (w *purging) row(r *datasets.Row) rowFate {
	if w.samples[r.SampleID] || w.prompts[r.PromptID] {
		return rowGoes
	}
	return rowStays
}

func (w *purging) pair(p *datasets.Pair) rowFate {
	of := func(id *string) bool {
		if id == nil { // of a release that did not write it
			return w.tasks[p.TaskID]
		}
		return w.samples[*id]
	}
	if w.prompts[p.PromptID] || of(p.ChosenSampleID) || of(p.RejectedSampleID) {
		return rowGoes
	}
	return rowStays
}

// prompt takes from a task that stays what was read from its answers. How hard it
// is says what is left of them, as the next build will; a label is gone.
func (w *purging) prompt(p *datasets.PromptRow) rowFate {
	switch {
	case w.prompts[p.PromptID]:
		return rowGoes
	case !w.tasks[p.TaskID]:
		return rowStays
	}
	before := *p
	p.Label, p.LabelShare, p.LabelMargin, p.LabelVotes, p.LabelEntropy = nil, nil, nil, nil, nil
	p.Judged, p.Passed, p.PassRate, p.PassAt = nil, nil, nil, nil
	if before.Judged != nil && w.least > 0 {
		measured(p, w.passes(p))
	}
	if p.Status == datasets.StatusClean && len(w.left[p.TaskID]) == 0 {
		p.Status = datasets.StatusUnanswered
	}
	if before.Label == nil && before.LabelVotes == nil && number(before.Judged) == number(p.Judged) && number(before.Passed) == number(p.Passed) && before.Status == p.Status {
		return rowStays
	}
	return rowBlank
}

// A leftAnswer is what an answer says of how hard its task is.
type leftAnswer struct {
	teacher   string
	sample    int32
	verdict   *string
	escalated bool
}

// lookAtAnswers notes which answers the tasks of a version keep, and how many of
// a teacher's every task was asked for: 0 where that can't be known any more.
func (w *purging) lookAtAnswers(ctx context.Context, m *catalog.Manifest) error {
	w.left, w.least = map[string][]leftAnswer{}, 0
	if r, err := w.recipeOf(ctx, m); err == nil {
		w.least = samplingOf(r).Least
	}
	for c, err := range catalog.ReadTable[datasets.Candidate](ctx, w.Catalog, m, datasets.TableCandidates) {
		if err != nil {
			return err
		}
		if w.tasks[c.TaskID] && c.Error == nil && !w.samples[c.SampleID] {
			w.left[c.TaskID] = append(w.left[c.TaskID], leftAnswer{c.Teacher, c.SampleIndex, c.Verdict, slices.Contains(c.Flags, datasets.FlagEscalated)})
		}
	}
	return nil
}

// passes says how hard a task is by the answers that it keeps.
func (w *purging) passes(p *datasets.PromptRow) merge.Passes {
	var list []datasets.Candidate
	for _, l := range w.left[p.TaskID] {
		c := datasets.Candidate{Teacher: l.teacher, SampleIndex: l.sample, Verdict: l.verdict}
		if l.escalated {
			c.Flags = []string{datasets.FlagEscalated}
		}
		list = append(list, c)
	}
	return merge.PassesOf(&datasets.Task{Route: p.Route}, list, w.least)
}

// candidate leaves of an answer what it was asked with and what it cost.
func (w *purging) candidate(c *datasets.Candidate) rowFate {
	switch {
	case w.prompts[c.PromptID]:
		return rowGoes
	case !w.samples[c.SampleID], c.Error != nil && *c.Error == classPurged:
		return rowStays
	}
	class := classPurged
	*c = datasets.Candidate{
		SampleID: c.SampleID, TaskID: c.TaskID, PromptID: c.PromptID, Domain: c.Domain, Effort: c.Effort, Split: c.Split,
		Teacher: c.Teacher, ModelAsked: c.ModelAsked, AskID: c.AskID, SampleIndex: c.SampleIndex, ParamsAsked: c.ParamsAsked,
		Messages: promptTurns(c), Tools: c.Tools, Images: c.Images, Gold: c.Gold, Meta: c.Meta, Licence: c.Licence,
		PromptTokens: c.PromptTokens, CachedTokens: c.CachedTokens, CacheWriteTokens: c.CacheWriteTokens,
		CompletionTokens: c.CompletionTokens, ReasoningTokens: c.ReasoningTokens, UsageEstimated: c.UsageEstimated,
		CostMicros: c.CostMicros, PriceID: c.PriceID, PriceAsOf: c.PriceAsOf,
		LatencyMS: c.LatencyMS, TTFTMS: c.TTFTMS, Attempts: c.Attempts, PromptCluster: c.PromptCluster,
		Error: &class, RejectReasons: []string{"error:" + classPurged},
	}
	return rowBlank
}

// promptTurns are the messages up to the last turn of a user or a system before
// the first one that is trained on: of an answer, and of a trajectory, all of
// the prompt and no word of theirs.
func promptTurns(c *datasets.Candidate) []chat.Message {
	end := len(c.Messages)
	if c.Error == nil {
		end--
	}
	for i := range c.Messages {
		if c.Messages[i].Train {
			end = min(end, i)
		}
	}
	return c.Messages[:max(0, end)]
}

func (w *purging) logprob(r *datasets.LogprobRow) rowFate {
	if w.samples[r.SampleID] || w.prompts[r.PromptID] {
		return rowGoes
	}
	return rowStays
}

func (w *purging) judgement(r *datasets.JudgeRow) rowFate {
	if w.judges(r) {
		return rowGoes
	}
	return rowStays
}

func (w *purging) fit(r *datasets.FitRow) rowFate {
	if w.samples[r.SampleID] || w.prompts[r.PromptID] {
		return rowGoes
	}
	return rowStays
}

func (w *purging) attempt(r *datasets.Attempt) rowFate {
	switch {
	case w.prompts[r.PromptID]:
		return rowGoes
	case !w.samples[r.SampleID] && !w.asks[r.AskID], r.ErrorText == nil && r.PartialContent == nil && r.PartialReasoning == nil:
		return rowStays
	}
	r.ErrorText, r.PartialContent, r.PartialReasoning = nil, nil, nil
	return rowBlank
}

// A rewriter writes one file of a table anew.
type rewriter interface {
	// count counts the rows that do not stay as they are; at most most of them.
	count(ctx context.Context, w *purging, f catalog.FileRef, most int64) (int64, error)
	// rewrite gives the file in the place of f; nil where no row is left.
	rewrite(ctx context.Context, w *purging, v catalog.Version, f catalog.FileRef) (*catalog.FileRef, error)
}

func (w *purging) rewriterOf(table string) (rewriter, error) {
	switch table {
	case datasets.TableTrain, datasets.TableTest:
		return tableOf[datasets.Row]{w.row}, nil
	case datasets.TablePairs:
		return tableOf[datasets.Pair]{w.pair}, nil
	case datasets.TablePrompts:
		return tableOf[datasets.PromptRow]{w.prompt}, nil
	case datasets.TableCandidates:
		return tableOf[datasets.Candidate]{w.candidate}, nil
	case datasets.TableLogprobs:
		return tableOf[datasets.LogprobRow]{w.logprob}, nil
	case datasets.TableJudgements:
		return tableOf[datasets.JudgeRow]{w.judgement}, nil
	case datasets.TableAttempts:
		return tableOf[datasets.Attempt]{w.attempt}, nil
	case datasets.TableStudentFit:
		return tableOf[datasets.FitRow]{w.fit}, nil
	}
	return nil, fmt.Errorf("table %s is of a newer release, which may hold what is to be purged; purge with that one", table)
}

type tableOf[T any] struct{ fate func(*T) rowFate }

// single is a manifest of one file.
func single(v catalog.Version, f catalog.FileRef) *catalog.Manifest {
	return &catalog.Manifest{Dataset: v.Dataset, BuildID: v.BuildID, Files: []catalog.FileRef{f}}
}

func (t tableOf[T]) count(ctx context.Context, w *purging, f catalog.FileRef, most int64) (n int64, err error) {
	for row, err := range catalog.ReadTable[T](ctx, w.Catalog, single(w.version, f), f.Table) {
		if err != nil {
			return n, err
		}
		if t.fate(&row) != rowStays {
			if n++; n >= most {
				return n, nil
			}
		}
	}
	return n, nil
}

func (t tableOf[T]) rewrite(ctx context.Context, w *purging, v catalog.Version, f catalog.FileRef) (_ *catalog.FileRef, err error) {
	seq, err := fileNumber(f)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(w.TempDir, "purge-*")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	out := newTable[T](dir, f.Table, f.Split)
	out.most = math.MaxInt64
	for row, err := range catalog.ReadTable[T](ctx, w.Catalog, single(v, f), f.Table) {
		if err == nil && t.fate(&row) != rowGoes {
			err = out.add(row)
		}
		if err != nil {
			return nil, errors.Join(err, out.close())
		}
	}
	if err := out.close(); err != nil {
		return nil, err
	}
	if len(out.files) == 0 {
		return nil, nil
	}
	ref, err := w.Catalog.Stage(ctx, v.Dataset, v.BuildID, f.Table, f.Split, seq, out.files[0])
	return &ref, err
}

// fileNumber is the number of a file within its split, as its key has it.
func fileNumber(f catalog.FileRef) (int, error) {
	parts := strings.Split(strings.TrimPrefix(path.Base(f.Key), f.Split+"-"), "-")
	seq, err := strconv.Atoi(parts[0])
	if err != nil {
		return 0, fmt.Errorf("%w: file %s has no number in its name", catalog.ErrInvalid, f.Key)
	}
	return seq, nil
}

// countIn counts, by table, the rows of a version that do not stay as they are.
func (w *purging) countIn(ctx context.Context, m *catalog.Manifest) (map[string]int64, error) {
	rows := map[string]int64{}
	if err := w.lookAtAnswers(ctx, m); err != nil {
		return nil, err
	}
	for _, f := range m.Files {
		t, err := w.rewriterOf(f.Table)
		if err != nil {
			return nil, err
		}
		n, err := t.count(ctx, w, f, math.MaxInt64)
		if err != nil {
			return nil, err
		}
		if n > 0 {
			rows[f.Table] += n
		}
	}
	return rows, nil
}

// eraseVersions erases from every version. A build that was about to publish
// when the purge began has done so or waits, so that the list is whole.
func (w *purging) eraseVersions(ctx context.Context) error {
	versions, err := w.versions(ctx)
	if errors.Is(err, catalog.ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, v := range versions {
		w.note("erasing from %s", v.v.Ref())
		if err := w.eraseVersion(ctx, v); err != nil {
			return fmt.Errorf("%s: %w", v.v.Ref(), err)
		}
	}
	return nil
}

func (w *purging) eraseVersion(ctx context.Context, v versionToPurge) error {
	m := *v.m
	m.Files = nil
	rows := map[string]int64{}
	if err := w.lookAtAnswers(ctx, v.m); err != nil {
		return err
	}
	var old []string
	for _, f := range v.m.Files {
		t, err := w.rewriterOf(f.Table)
		if err != nil {
			return err
		}
		n, err := t.count(ctx, w, f, math.MaxInt64)
		if err != nil {
			return err
		}
		if n == 0 {
			m.Files = append(m.Files, f)
			continue
		}
		ref, err := t.rewrite(ctx, w, v.v, f)
		if err != nil {
			return err
		}
		rows[f.Table] += n
		old = append(old, f.Key)
		if ref != nil {
			m.Files = append(m.Files, *ref)
		}
	}
	sources := w.withoutObjects(m.Sources)
	if len(rows) == 0 && slices.Equal(sources, m.Sources) {
		if slices.ContainsFunc(v.v.Purged, func(mark catalog.PurgeMark) bool { return mark.Record == w.result.Record }) {
			return w.Catalog.Retag(ctx, v.v) // an interruption may have come before the tags
		}
		return nil
	}
	m.Sources = sources
	if err := w.eraseReports(ctx, &m, rows); err != nil {
		return err
	}
	mark := catalog.PurgeMark{At: w.record.Started, Record: w.result.Record, Before: v.v.ManifestSHA256, Rows: rows}
	m.Purged = append(slices.Clone(m.Purged), mark)
	now, err := w.Catalog.Replace(ctx, v.v, &m, mark)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(w.record.Versions, func(p catalog.PurgedVersion) bool { return p.Version == now.Number && p.After == now.ManifestSHA256 }) {
		w.record.Versions = append(w.record.Versions, catalog.PurgedVersion{Version: now.Number, Before: v.v.ManifestSHA256, After: now.ManifestSHA256, Rows: rows})
	}
	if err := w.Catalog.NotePurge(ctx, w.record); err != nil {
		return err
	}
	return w.delete(ctx, append(old, v.v.Manifest)...)
}

// withoutObjects are the sources without the keys of those that are erased.
func (w *purging) withoutObjects(sources []catalog.Source) []catalog.Source {
	out := slices.Clone(sources)
	for i := range out {
		if slices.Contains(w.plan.Objects, out[i].Key) {
			out[i].Key = ""
		}
	}
	return out
}
