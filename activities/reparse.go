package activities

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	goruntime "runtime"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/filter"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// A Reparser reads the raw answers of a version again, with today's parser,
// verifiers and filters. It has no client, so that it can ask nobody: what it
// does is refine and seal over the tasks that the version itself holds.
type Reparser struct {
	Bucket  objstore.Bucket
	Catalog *catalog.Catalog
	Answers *answers.Reader
	TempDir string // of this machine
	Log     *slog.Logger
	// Note is told how far it is, in words; may be nil.
	Note func(string)
	// Sandbox runs the code of answers where the recipe has that checked.
	Sandbox Sandbox
	// Checkers runs the recipe's commands; nil: none.
	Checkers Checkers
	// DryRun: nothing is published.
	DryRun bool
}

// A ReparseResult is what `reparse --json` prints.
type ReparseResult struct {
	Dataset   string           `json:"dataset"`
	Read      int64            `json:"read_version" jsonschema:"description=the version whose answers were read"`
	Parser    string           `json:"parser" jsonschema:"description=version of the parser that read them"`
	Tasks     int64            `json:"tasks"`
	Answers   int64            `json:"answers" jsonschema:"description=raw answers that were read"`
	Changed   int64            `json:"changed" jsonschema:"description=candidates of which something reads differently"`
	Fields    map[string]int64 `json:"fields" jsonschema:"description=of these by what reads differently: content\\, reasoning\\, tool_calls\\, finish\\, usage\\, model\\, flags\\, error; one may count in several"`
	Recovered int64            `json:"recovered" jsonschema:"description=of changed: failures that are answers now"`
	Lost      int64            `json:"lost" jsonschema:"description=of changed: answers that cannot be read any more"`
	Newer     int64            `json:"newer" jsonschema:"description=candidates whose answer came to the store after the version was published"`
	Accepted  int64            `json:"accepted"`
	Rows      map[string]int64 `json:"rows" jsonschema:"description=rows by split as they are read now"`
	Unchanged bool             `json:"unchanged" jsonschema:"description=no answer and no row changed: nothing was published"`
	Version   int64            `json:"version" jsonschema:"description=the newest version now"`
	Manifest  string           `json:"manifest" jsonschema:"description=key of its manifest"`
	Held      string           `json:"held,omitempty" jsonschema:"description=why changes were not published; absent where they were"`
	Gates     []string         `json:"gates,omitempty" jsonschema:"description=the recipe's gates that the new rows do not pass"`
}

// reparseWindow is how many tasks are read, refined and written at a time.
const reparseWindow = 256

// Run reads the version again that ref names, and publishes what changed as the
// next version.
func (p *Reparser) Run(ctx context.Context, ref string) (*ReparseResult, error) {
	v, m, err := p.Catalog.Resolve(ctx, ref)
	if err != nil {
		return nil, err
	}
	newest, _, err := p.Catalog.Latest(ctx, v.Dataset)
	if err != nil {
		return nil, err
	}
	w := &reparsing{Reparser: p, version: v, newest: newest, old: m, started: time.Now(), result: ReparseResult{
		Dataset: v.Dataset, Read: v.Number, Parser: teachers.ParserVersion, Fields: map[string]int64{}, Rows: map[string]int64{},
		Version: newest.Number, Manifest: newest.Manifest,
	}}
	if err := w.run(ctx); err != nil {
		return nil, fmt.Errorf("reparse %s: %w", v.Ref(), err)
	}
	return &w.result, nil
}

// reparsing is one run.
type reparsing struct {
	*Reparser
	version, newest catalog.Version
	old             *catalog.Manifest
	started         time.Time
	rt              *runtime
	seal            *seal
	result          ReparseResult
	measuring       bool                 // answers are gathered, and nobody judges them
	fit             map[string][]toldFit // what the student said, by task
}

func (w *reparsing) run(ctx context.Context) error {
	if err := w.prepare(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(w.TempDir, "reparse-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	t, err := w.write(ctx, dir)
	if err != nil {
		return err
	}
	w.seal.count(t)
	w.result.Accepted, w.result.Rows = w.seal.result.Accepted, w.seal.result.Rows
	return w.publish(ctx, t)
}

// prepare makes the recipe ready that the version was built by. Its endpoints
// need not exist any more.
func (w *reparsing) prepare(ctx context.Context) error {
	if w.old.RecipeDigest == "" {
		return errors.New("no recipe made it, so it has no raw answers to read")
	}
	raw, err := readPinned(ctx, w.Bucket, recipeKey(w.old.RecipeDigest), w.old.RecipeDigest, maxRecipe)
	if err != nil {
		return fmt.Errorf("read its recipe: %w", err)
	}
	r, err := recipe.Parse(w.version.Dataset+".yaml", raw)
	if err != nil {
		return fmt.Errorf("this release does not take its recipe any more: %w", err)
	}
	files, err := sourcesOf(ctx, w.Bucket, r, w.old)
	if err != nil {
		return err
	}
	if w.rt, err = newRuntime(r, files); err != nil {
		return fmt.Errorf("this release does not take its recipe any more: %w", err)
	}
	w.rt.runner = runnerOf{&Activities{Sandbox: w.Sandbox}}
	w.rt.checkers = w.Checkers
	for i := range w.old.Teachers {
		// Recorded answers are kept under a digest of files that may be gone.
		if t := w.rt.teachers[w.old.Teachers[i].ID]; t != nil {
			t.endpoint = w.old.Teachers[i].Identity
			t.anew.Refresh = w.old.Teachers[i].Refresh
		}
	}
	buildID := wire.BuildID(w.started, fmt.Sprintf("reparse %s %d", w.version.Ref(), w.started.UnixNano()))
	w.seal = &seal{
		a:  &Activities{Bucket: w.Bucket, Catalog: w.Catalog, TempDir: w.TempDir, Log: w.Log},
		in: wire.SealInput{BuildRef: wire.BuildRef{Dataset: w.version.Dataset, BuildID: buildID, RecipeDigest: w.old.RecipeDigest}, Started: w.started},
		rt: w.rt, plan: &Plan{Tasks: w.old.Counts.Tasks, Prompts: w.old.Counts.Prompts, Duplicates: w.old.Counts.Duplicates, Filtered: w.old.Counts.Filtered},
		note: w.note,
	}
	w.seal.begin()
	return nil
}

func (w *reparsing) note(text string) {
	if w.Note != nil {
		w.Note(text)
	}
}

// write refines the version's tasks again, in the order of its tables, writes
// the new tables, and holds each candidate against the old one. Where a mixture
// chooses among the rows, all tasks are refined once more before, to count them:
// that costs time, and neither memory nor disk.
func (w *reparsing) write(ctx context.Context, dir string) (*tables, error) {
	if err := w.measure(ctx); err != nil {
		return nil, err
	}
	mix, err := newMixture(w.rt.recipe, dir, false)
	if err != nil {
		return nil, err
	}
	defer mix.close()
	if mix != nil {
		if err := w.each(ctx, "counted", mix.see); err != nil {
			return nil, err
		}
		if err := mix.settle(); err != nil {
			return nil, err
		}
		w.seal.mixIs(mix)
	}
	t := newTables(dir)
	t.rt = w.rt
	if w.rt.recipe.Logprobs != nil {
		t.logprobs = newTable[datasets.LogprobRow](dir, datasets.TableLogprobs, "all")
	}
	look := func(ctx context.Context, asks []answers.Ask) ([]answers.History, error) {
		return w.Answers.History(ctx, w.started, asks)
	}
	if w.fit, err = w.seal.studentFit(ctx, look, func(visit func(*refinedTask) error) error { return w.each(ctx, "looked for", visit) }); err != nil {
		return nil, err
	}
	if w.fit != nil {
		t.fit = newTable[datasets.FitRow](dir, datasets.TableStudentFit, "all")
	}
	next, stop := iter.Pull2(catalog.ReadTable[datasets.Candidate](ctx, w.Catalog, w.old, datasets.TableCandidates))
	defer stop()
	before := &oldCandidates{pull: next}
	err = w.each(ctx, "read", func(r *refinedTask) error {
		if err := mix.apply(r); err != nil {
			return err
		}
		w.result.Tasks++
		return w.one(t, r, before)
	})
	if err == nil {
		err = before.end()
	}
	return t, errors.Join(err, t.close())
}

// measure measures all answers before any is judged, where a filter of the
// recipe judges each by all.
func (w *reparsing) measure(ctx context.Context) error {
	if !w.rt.needsStats() {
		return nil
	}
	var stats filter.Stats
	w.measuring = true
	err := w.each(ctx, "measured", func(r *refinedTask) error {
		measureTask(&stats, r)
		return nil
	})
	w.measuring = false
	if err != nil {
		return err
	}
	with, err := w.rt.withStats(&stats)
	if err != nil {
		return err
	}
	w.rt, w.seal.rt = with, with
	return nil
}

// each refines the version's tasks again and gives them to visit, in the order
// of its tables; what is done is a word for whoever waits.
func (w *reparsing) each(ctx context.Context, done string, visit func(*refinedTask) error) error {
	var window []promptTask
	n := 0
	flush := func() error {
		refined, err := w.refine(ctx, window)
		if err != nil {
			return err
		}
		for i := range refined {
			if err := visit(&refined[i]); err != nil {
				return err
			}
		}
		n += len(window)
		w.note(fmt.Sprintf("%s the answers to %d of %d tasks again", done, n, w.seal.plan.Tasks))
		window = window[:0]
		return nil
	}
	for row, err := range catalog.ReadTable[datasets.PromptRow](ctx, w.Catalog, w.old, datasets.TablePrompts) {
		if err != nil {
			return err
		}
		task, err := taskOfRow(&row)
		if err != nil {
			return err
		}
		if window = append(window, promptTask{task, row.Status}); len(window) >= w.window(&task) {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return flush()
}

// window is how many tasks are in memory at once; logprobs are large.
func (w *reparsing) window(t *datasets.Task) int {
	if w.rt.recipe.Logprobs == nil {
		return reparseWindow
	}
	return w.rt.refineChunk(len(t.Route) * w.rt.recipe.Ask.Samples.Max)
}

// A promptTask is a task with what became of it.
type promptTask struct {
	datasets.Task
	status string
}

// asked tells whether teachers were to be asked.
func (t *promptTask) asked() bool {
	return t.status == datasets.StatusClean || t.status == datasets.StatusUnanswered
}

// refine refines a window of tasks, those of one route together.
func (w *reparsing) refine(ctx context.Context, window []promptTask) ([]refinedTask, error) {
	out := make([]refinedTask, len(window))
	byRoute := map[string][]int{}
	for i := range window {
		out[i] = refinedTask{Task: window[i].Task, Status: window[i].status}
		if window[i].asked() {
			route := routeAndFallback(&window[i].Task)
			byRoute[route] = append(byRoute[route], i)
		}
	}
	look := func(ctx context.Context, asks []answers.Ask) ([]answers.History, error) {
		return w.Answers.History(ctx, w.started, asks)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(goruntime.GOMAXPROCS(0))
	samples := w.rt.recipe.Ask.Samples.Max
	for _, places := range byRoute {
		for chunk := range slices.Chunk(places, w.rt.refineChunk(len(window[places[0]].Route)*samples)) {
			group.Go(func() error {
				tasks := make([]datasets.Task, len(chunk))
				for n, i := range chunk {
					tasks[n] = window[i].Task
				}
				refine := w.rt.refine
				if w.measuring {
					refine = w.rt.gather
				}
				refined, err := refine(ctx, look, w.rt.lookupAnswers(), w.started, tasks)
				if err != nil {
					return err
				}
				for n, i := range chunk {
					out[i] = refined[n]
				}
				return nil
			})
		}
	}
	return out, group.Wait()
}

// one counts, compares and writes one task.
func (w *reparsing) one(t *tables, r *refinedTask, before *oldCandidates) error {
	old, err := before.of(r.Task.TaskID)
	if err != nil {
		return err
	}
	w.seal.tally(r)
	restorePrompts(r)
	for i := range r.Candidates {
		c := &r.Candidates[i]
		w.compare(old[c.SampleID], c)
		if t.logprobs != nil && i < len(r.logprobs) && r.logprobs[i] != nil {
			row := r.logprobs[i]
			row.Accepted, row.Selected = c.Accepted, c.Selected
			if err := t.logprobs.add(*row); err != nil {
				return err
			}
			r.logprobs[i] = nil
		}
	}
	if err := compareTask(w.seal.report, r.Candidates, r.Judgements); err != nil {
		return err
	}
	if err := w.seal.pay(r, t); err != nil {
		return err
	}
	if err := t.add(r); err != nil {
		return err
	}
	return w.seal.tellFit(w.fit, r, t)
}

// compare counts what reads differently.
func (w *reparsing) compare(old, c *datasets.Candidate) {
	if c.Error == nil || c.Parser != nil {
		w.result.Answers++
	}
	switch {
	case old == nil:
		w.result.Newer++
		return
	case purgedBoth(old, c):
		return // what it cost is in the old one alone
	case old.Error != nil && unasked(*old.Error) && (c.Error == nil || !unasked(*c.Error)):
		w.result.Newer++
		return
	}
	fields := differences(old, c)
	if old.Error != nil && c.Error == nil {
		w.result.Recovered++
	}
	if old.Error == nil && c.Error != nil {
		w.result.Lost++
	}
	if len(fields) > 0 {
		w.result.Changed++
	}
	for _, f := range fields {
		w.result.Fields[f]++
	}
}

func unasked(class string) bool { return class == classNotAsked || class == classNotRecorded }

// publish makes a new version of the tables where anything changed.
func (w *reparsing) publish(ctx context.Context, t *tables) error {
	s := w.seal
	var local []catalog.FileRef
	for _, table := range t.all() {
		local = append(local, table.describe()...)
	}
	if w.result.Changed == 0 && w.Catalog.Unchanged(w.old, local) {
		w.result.Unchanged = true
		return nil
	}
	s.result.Gates = s.failedGates()
	switch {
	case w.DryRun:
		w.result.Held = "a dry run publishes nothing"
		return nil
	case w.newest.Number != w.version.Number:
		w.result.Held = fmt.Sprintf("%s is not the newest version, and what an older recipe makes is not put before newer rows; reparse %s", w.version.Ref(), w.version.Dataset)
		return nil
	case len(s.result.Gates) > 0:
		w.result.Gates = s.result.Gates
		w.result.Held = "a gate fails: " + s.result.Gates[0]
		return nil
	}
	published, _, err := s.publish(ctx, t, func(m *catalog.Manifest) {
		m.Sources, m.EvaluationSets = w.old.Sources, w.old.EvaluationSets
		m.Notes = map[string]string{"reparsed": w.version.Ref(), "parser": teachers.ParserVersion}
	})
	if err != nil {
		return err
	}
	w.result.Version, w.result.Manifest = published.Number, published.Manifest
	return nil
}

// oldCandidates gives the candidates of one task after the other.
type oldCandidates struct {
	pull func() (datasets.Candidate, error, bool)
	row  *datasets.Candidate // the next one
	done bool
}

// of collects the candidates of a task by sample id. Tasks come in the order
// of the tables.
func (o *oldCandidates) of(task string) (map[string]*datasets.Candidate, error) {
	out := map[string]*datasets.Candidate{}
	for {
		if o.row == nil && !o.done {
			row, err, more := o.pull()
			if err != nil {
				return nil, err
			}
			if o.done = !more; more {
				o.row = &row
			}
		}
		if o.row == nil || o.row.TaskID != task {
			return out, nil
		}
		out[o.row.SampleID] = o.row
		o.row = nil
	}
}

// end makes sure that every candidate had its task.
func (o *oldCandidates) end() error {
	if o.row == nil && !o.done {
		if _, err, more := o.pull(); err != nil || !more {
			return err
		}
	} else if o.row == nil {
		return nil
	}
	return errors.New("its candidates are not in the order of its prompts; stillhouse verify says what is damaged")
}

// taskOfRow is the task that a row of the prompts table was made from. Its
// prompt must be whole: what teachers were asked follows from it.
func taskOfRow(row *datasets.PromptRow) (datasets.Task, error) {
	task := datasets.Task{
		TaskID: row.TaskID, PromptID: row.PromptID, Domain: row.Domain, Effort: row.Effort, Gold: row.Gold, Tests: row.Tests,
		Group: textOf(row.Group), Meta: textOf(row.Meta), Split: row.Split, Route: row.Route, RouteWhy: row.RouteReason, Fallback: row.Fallback,
		Source: row.Source, Copies: row.Copies, Findings: findingsOfRow(row),
	}
	prompt := chat.Prompt{Messages: row.Messages, Tools: textOf(row.Tools)}
	for _, im := range row.Images {
		prompt.Images = append(prompt.Images, chat.Image{Digest: im.Digest, MediaType: im.MediaType, Key: im.Key})
	}
	tried := []chat.Prompt{prompt}
	if len(row.Messages) > 0 && row.Messages[0].Role == chat.RoleSystem && row.Messages[0].Content != nil {
		apart := prompt
		apart.System, apart.Messages = *row.Messages[0].Content, row.Messages[1:]
		tried = append(tried, apart)
	}
	for _, p := range tried {
		if id, err := p.ID(); err == nil && id == row.PromptID {
			task.Prompt = p
			return task, nil
		}
	}
	return task, fmt.Errorf("the prompt of task %s cannot be made from its row, so that its answers cannot be found; build the recipe again, which asks only for what is missing", row.TaskID)
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
