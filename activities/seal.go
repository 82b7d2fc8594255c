package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/version"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// Seal writes the tables and the report of a build and commits them as the
// next version, unless nothing differs from the version before or a gate
// fails. Running it again after any crash gives the same version.
func (a *Activities) Seal(ctx context.Context, in wire.SealInput) (*wire.BuildOutput, error) {
	var note noter
	note.set("merging")
	defer heartbeat(ctx, beatEvery, note.get)()
	s := &seal{a: a, in: in, note: note.set}
	out, err := s.run(ctx)
	return out, final(err)
}

// seal is one Seal at work.
type seal struct {
	a      *Activities
	in     wire.SealInput
	note   func(string)
	rt     *runtime
	plan   *Plan
	result BuildResult
	report *report.Aggregator
	paid   *accounts
	// stopped is the class of failure of the teachers that were given up.
	stopped map[string]string
	// missing counts, for those that stopped at the budget, what has no answer.
	missing map[string]int64
	passed  map[string][2]int64
	rows    map[string]int64 // in train and test, by domain
	refused rejections
	failed  string // what the first ask that failed said
	probes  []report.Drift
	// standing are changes that earlier builds' probes showed, by teacher, where a gate asks.
	standing map[string]report.Drift
}

func (s *seal) run(ctx context.Context) (*wire.BuildOutput, error) {
	if s.in.Preview == 0 {
		if out, err := s.ended(ctx); err != nil || out != nil {
			return out, err
		}
	}
	var err error
	if s.rt, s.plan, err = s.a.planned(ctx, s.in.BuildRef, s.in.PlanKey); err != nil {
		return nil, err
	}
	s.begin()
	dir, err := os.MkdirTemp(s.a.TempDir, "seal-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if s.in.Preview > 0 {
		return s.preview(ctx, dir)
	}
	t, err := s.write(ctx, dir)
	if err != nil {
		return nil, err
	}
	if err := s.drift(ctx); err != nil {
		return nil, err
	}
	s.count(t)
	s.result.Budget = s.budget(ctx)
	if s.result.Gates = s.failedGates(); len(s.result.Gates) == 0 {
		if err := s.commit(ctx, t); err != nil {
			return nil, err
		}
	}
	return s.end(ctx)
}

func (s *seal) begin() {
	s.result = BuildResult{
		Dataset: s.in.Dataset, BuildID: s.in.BuildID, Tasks: s.plan.Tasks, Filtered: s.plan.Filtered,
		Rejected: map[string]int64{}, Rows: map[string]int64{}, Teachers: map[string]TeacherResult{},
	}
	s.passed, s.stopped, s.missing = map[string][2]int64{}, map[string]string{}, map[string]int64{}
	s.rows, s.refused = map[string]int64{}, rejections{}
	s.paid = newAccounts(s.in.Started.UnixMicro())
	for i := range s.rt.recipe.Teachers {
		t := &s.rt.recipe.Teachers[i]
		s.result.Teachers[t.ID] = TeacherResult{}
	}
	s.report = report.New(reportedTeachers(s.rt.recipe))
	s.report.ShowTexts(s.rt.recipe.Output.ReportText)
	s.report.SetConditions(conditions(s.rt.recipe, s.plan.Tasks))
	for _, st := range s.in.Streams {
		if st.Stopped != nil {
			if s.result.Stopped == nil {
				s.result.Stopped = map[string]string{}
			}
			s.result.Stopped[st.Teacher] = st.Stopped.Class
			s.stopped[st.Teacher] = st.Stopped.Class
		}
	}
}

func priceNote(p *recipe.Price) string {
	if p == nil {
		return ""
	}
	parts := []string{fmt.Sprintf("input %s, output %s USD per million tokens", dollars(p.Input), dollars(p.Output))}
	if p.CachedInput != nil {
		parts = append(parts, "cached input "+dollars(*p.CachedInput))
	}
	if p.BatchDiscount > 0 {
		parts = append(parts, fmt.Sprintf("batches %g %% less", 100*p.BatchDiscount))
	}
	if p.GPUHour > 0 {
		parts = append(parts, fmt.Sprintf("%s USD an hour of the endpoint, shared by the requests in flight", dollars(p.GPUHour)))
	}
	if p.Source != "" {
		parts = append(parts, p.Source)
	}
	if p.AsOf != "" {
		parts = append(parts, string(p.AsOf))
	}
	return strings.Join(parts, "; ")
}

func dollars(v float64) string {
	s := strconv.FormatFloat(v, 'f', -1, 64)
	if _, decimals, _ := strings.Cut(s, "."); len(decimals) < 2 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return s
}

// write merges the refined shards of all cells in the order of task ids, and
// writes the tables.
func (s *seal) write(ctx context.Context, dir string) (*tables, error) {
	tasks, err := s.tasks(ctx, dir)
	if err != nil {
		return nil, err
	}
	t := newTables(dir)
	if s.rt.recipe.Logprobs != nil {
		t.logprobs = newTable[datasets.LogprobRow](dir, datasets.TableLogprobs, "all")
	}
	t.rt = s.rt
	fit, err := s.studentFit(ctx, s.a.historyAsOf(time.Now()), eachOf(tasks))
	if err != nil {
		return nil, err
	}
	if fit != nil {
		t.fit = newTable[datasets.FitRow](dir, datasets.TableStudentFit, "all")
	}
	mix, err := s.mixed(ctx, dir, tasks)
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	defer mix.close()
	var n int64
	for r, err := range tasks {
		if err == nil {
			err = mix.apply(&r)
		}
		if err != nil {
			return nil, errors.Join(err, t.close())
		}
		s.tally(&r)
		restorePrompts(&r)
		if err := compareTask(s.report, r.Candidates, r.Judgements); err != nil {
			return nil, errors.Join(err, t.close())
		}
		if err := s.pay(&r, t); err != nil {
			return nil, errors.Join(err, t.close())
		}
		if err := t.add(&r); err != nil {
			return nil, errors.Join(err, t.close())
		}
		if err := s.tellFit(fit, &r, t); err != nil {
			return nil, errors.Join(err, t.close())
		}
		if n++; n%4096 == 0 {
			s.note(fmt.Sprintf("wrote %d of %d tasks", n, s.plan.Tasks))
			if err := ctx.Err(); err != nil {
				return nil, errors.Join(err, t.close())
			}
		}
	}
	if n != s.plan.Tasks {
		return nil, errors.Join(fmt.Errorf("the refined shards hold %d tasks, and the plan says %d", n, s.plan.Tasks), t.close())
	}
	if t.logprobs != nil {
		if err := s.writeLogprobs(ctx, dir, mix, t.logprobs); err != nil {
			return nil, errors.Join(err, t.close())
		}
	}
	return t, t.close()
}

// restorePrompts puts the prompt before each answer, which the stage leaves out.
func restorePrompts(r *refinedTask) {
	prompt := r.Task.Prompt.All()
	for i := range r.Candidates {
		c := &r.Candidates[i]
		c.Messages = append(append(make([]chat.Message, 0, len(prompt)+len(c.Messages)), prompt...), c.Messages...)
	}
}

// tally counts a task's candidates.
func (s *seal) tally(r *refinedTask) {
	for _, id := range slices.Concat(r.Task.Route, r.Escalated) {
		if s.stopped[id] == classBudget {
			s.missing[id] += samplingOf(s.rt.recipe).unanswered(r, id)
		}
	}
	s.tallyJudged(r)
	for i := range r.Candidates {
		c := &r.Candidates[i]
		t := s.result.Teachers[c.Teacher]
		s.result.Asks++
		t.Asks++
		s.result.Candidates++
		if c.Error != nil {
			s.whyStopped(c)
			if s.failed == "" && c.ErrorText != nil && *c.Error != classNotAsked {
				s.failed = *c.ErrorText
			}
		} else {
			t.Answers++
			if r.fresh(i) {
				s.result.AnswersNew++
				if c.CostMicros == nil {
					s.result.UnpricedAsks++
				}
			} else {
				s.result.AnswersReused++
			}
		}
		if c.Accepted {
			s.result.Accepted++
			t.Accepted++
		}
		if c.Selected {
			s.rows[c.Domain]++
		}
		if c.Unselected != nil {
			s.result.unselect(*c.Unselected)
		}
		for _, reason := range c.RejectReasons {
			s.result.reject(reason)
		}
		if c.Error == nil {
			s.refused.add(c.RejectReasons)
		}
		t.PromptTokens += number(c.PromptTokens)
		t.CachedTokens += number(c.CachedTokens)
		t.CompletionTokens += number(c.CompletionTokens)
		t.ReasoningTokens += number(c.ReasoningTokens)
		t.micros += number(c.CostMicros)
		s.result.Teachers[c.Teacher] = t
		if c.Verdict != nil {
			s.passed[c.Domain] = rated(s.passed[c.Domain], *c.Verdict)
		}
	}
}

// whyStopped takes the words with which a teacher was given up from the first
// of its candidates that holds them.
func (s *seal) whyStopped(c *datasets.Candidate) {
	class, ok := s.stopped[c.Teacher]
	if !ok || c.ErrorText == nil || s.result.Stopped[c.Teacher] != class {
		return
	}
	if *c.Error == class || (class == classUnreachable && *c.Error == teachers.ClassNetwork) {
		s.result.Stopped[c.Teacher] = *c.ErrorText
	}
}

func number(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// count fills in what is known once all rows are written.
func (s *seal) count(t *tables) {
	for id, tr := range s.result.Teachers {
		tr.CostUSD = float64(tr.micros) / microsPerUSD
		if account := s.paid.teachers[id]; account != nil {
			tr.Attempts, tr.FailedCostUSD = account.attempts, float64(account.lost)/microsPerUSD
		}
		s.result.Teachers[id] = tr
	}
	s.result.CostUSD = float64(s.paid.spent) / microsPerUSD
	s.result.FailedCostUSD = float64(s.paid.lost) / microsPerUSD
	s.result.Attempts = s.paid.attempts
	s.result.Pairs = t.pairs.rows + t.testPairs.rows
	s.result.Rows["train"] = t.train.rows
	s.result.Rows["test"] = t.test.rows
	s.result.DurationS = time.Since(s.in.Started).Seconds()
}

// commit publishes the tables, unless they are what is published already.
func (s *seal) commit(ctx context.Context, t *tables) error {
	var local []catalog.FileRef
	for _, w := range t.all() {
		local = append(local, w.describe()...)
	}
	v, parent, err := s.a.Catalog.Latest(ctx, s.in.Dataset)
	if err != nil && !errors.Is(err, catalog.ErrUnknown) {
		return fmt.Errorf("read the newest version: %w", err)
	}
	same := parent != nil && parent.BuildID != s.in.BuildID && s.a.Catalog.Unchanged(parent, local)
	if same {
		// One that has lost a file since is published anew.
		if same, err = s.a.Catalog.Whole(ctx, parent); err != nil {
			return fmt.Errorf("look whether %s is whole: %w", v.Ref(), err)
		}
	}
	if same {
		s.result.Version, s.result.Manifest, s.result.Unchanged = v.Number, v.Manifest, true
		if i := slices.IndexFunc(parent.Reports, func(key string) bool { return strings.HasSuffix(key, "/report.json") }); i >= 0 {
			s.result.Report = parent.Reports[i]
		}
		return nil
	}
	published, reports, err := s.publish(ctx, t, func(*catalog.Manifest) {})
	if err != nil {
		return err
	}
	s.result.Version, s.result.Manifest, s.result.Report = published.Number, published.Manifest, reports[0]
	return nil
}

// publish uploads the tables and the reports and commits a version that names
// them. change has the last word on its manifest.
func (s *seal) publish(ctx context.Context, t *tables, change func(*catalog.Manifest)) (v catalog.Version, reports []string, err error) {
	s.note("uploading")
	var files []catalog.FileRef
	for _, w := range t.all() {
		refs, err := w.stage(ctx, s.a.Catalog, s.in.Dataset, s.in.BuildID)
		if err != nil {
			return v, nil, err
		}
		files = append(files, refs...)
	}
	if reports, err = s.putReports(ctx); err != nil {
		return v, nil, err
	}
	m := s.manifest(files, reports)
	change(&m)
	v, err = s.a.Catalog.Publish(ctx, m)
	return v, reports, err
}

func (s *seal) manifest(files []catalog.FileRef, reports []string) catalog.Manifest {
	r := s.rt.recipe
	m := catalog.Manifest{
		Dataset: s.in.Dataset, BuildID: s.in.BuildID, Files: files, Rejected: s.result.Rejected,
		Recipe: recipeKey(s.in.RecipeDigest), RecipeDigest: s.in.RecipeDigest, Reports: reports,
		Tool: "stillhouse " + version.Get().Version, CostMicros: s.paid.spent, LostMicros: s.paid.lost, Unpriced: s.result.UnpricedAsks,
		DurationMS: time.Since(s.in.Started).Milliseconds(),
		Counts: catalog.Counts{
			Prompts: s.plan.Prompts, Tasks: s.plan.Tasks, Duplicates: s.plan.Duplicates, Asks: s.result.Asks,
			AnswersNew: s.result.AnswersNew, AnswersReused: s.result.AnswersReused,
			Failed:     s.result.Asks - s.result.AnswersNew - s.result.AnswersReused,
			Candidates: s.result.Candidates, Accepted: s.result.Accepted,
		},
	}
	m.Methods = s.rt.methods()
	for i, list := range s.rt.sources.Prompts {
		for _, f := range list {
			m.Sources = append(m.Sources, catalog.Source{Path: r.Prompts[i].Path, Key: f.Key, SHA256: f.SHA256, Bytes: f.Size})
		}
	}
	m.Sources = append(m.Sources, s.rt.sources.rubricSources(r)...)
	s.filtered(&m)
	for i := range r.Teachers {
		m.Teachers = append(m.Teachers, s.manifestTeacher(&r.Teachers[i]))
	}
	return m
}

func (s *seal) manifestTeacher(t *recipe.Teacher) catalog.ManifestTeacher {
	tr, account := s.result.Teachers[t.ID], s.paid.of(t.ID)
	params := map[string]any{}
	if len(t.Params) > 0 {
		params["params"] = t.Params
	}
	if len(t.ParamsBy.Effort) > 0 {
		params["params_by"] = map[string]any{"effort": t.ParamsBy.Effort}
	}
	mt := catalog.ManifestTeacher{
		ID: t.ID, Model: t.Model, API: t.API, Identity: s.rt.teachers[t.ID].endpoint, Epoch: t.Epoch, Refresh: s.rt.teachers[t.ID].anew.Refresh,
		Weights: t.Weights, ScoreURL: plainURL(t.ScoreURL), TokenizerSHA256: t.TokenizerSHA256,
		Terms: catalog.Terms{Licence: t.Terms.Licence, URL: t.Terms.URL, Training: t.Terms.Training},
		Counts: catalog.TeacherCounts{
			Asks: tr.Asks, Answers: tr.Answers, Accepted: tr.Accepted, PromptTokens: tr.PromptTokens,
			CachedTokens: tr.CachedTokens, CompletionTokens: tr.CompletionTokens, ReasoningTokens: tr.ReasoningTokens,
			CostMicros: tr.micros, Attempts: account.attempts, FailedAttempts: account.failed, LostMicros: account.lost, Flags: account.flags,
		},
	}
	if text, err := json.Marshal(params); err == nil && len(params) > 0 {
		mt.Params = text
	}
	if text, err := json.Marshal(t.Serves); err == nil && len(t.Serves) > 0 {
		mt.Serves = text
	}
	return mt
}
