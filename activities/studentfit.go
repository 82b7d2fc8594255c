package activities

import (
	"bytes"
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

const (
	// mostFit bounds the answers of a build that the student scores: of recipes
	// with many teachers, domains and efforts fewer of each are.
	mostFit = 20_000
	// fitChunk is how many answers are scored at once.
	fitChunk = 32
	// longestToken is more than the longest token of any vocabulary stands for.
	longestToken = 256
)

// scoringOfStudent is what the student's requests are for: they are in no
// teacher's costs.
const scoringOfStudent = "what the student was asked about accepted answers"

// A studentScorer has the student score answers. It is made of the recipe alone.
type studentScorer struct {
	base   *teacher // that serves the student
	wire   *teacher // in the form of prompt logprobs
	scorer *teachers.CompletionScorer
	tasks  int // of each teacher, domain and effort
}

// studentScorer is nil where the recipe has no student score.
func (rt *runtime) studentScorer() (*studentScorer, error) {
	s := rt.recipe.StudentScore()
	if s == nil {
		return nil, nil
	}
	base := rt.teachers[s.Teacher]
	if base == nil || base.config == nil {
		return nil, rt.recipe.ErrorAt("student.score.teacher", fmt.Sprintf("teacher %s cannot be asked how likely answers are", s.Teacher), "")
	}
	scorer, err := teachers.NewCompletionScorer(base.config, s.Params, 0)
	if err != nil {
		return nil, rt.recipe.ErrorAt("student.score.params", err.Error(), "")
	}
	return &studentScorer{base: base, wire: base.as(scorer.Config), scorer: scorer, tasks: s.Tasks}, nil
}

// fitPlan says who serves the student; nil for nobody.
func (rt *runtime) fitPlan() *wire.FitPlan {
	s := rt.recipe.StudentScore()
	if s == nil {
		return nil
	}
	return &wire.FitPlan{Queue: wire.TeacherQueue(s.Teacher, rt.teachers[s.Teacher].endpoint)}
}

// A fitChoice chooses the answers that are scored: of each teacher, domain and
// effort the first accepted one to the tasks whose hashed ids come first. All
// teachers' tasks come in the same order, so that those with answers of several
// are compared on them.
type fitChoice struct {
	most  int // of each
	cells map[fitCell]*fitHeap
}

type fitCell struct{ teacher, domain, effort string }

type fitEntry struct {
	at     [32]byte
	sample string
}

// fitHeap holds the first entries so far, the last of them on top.
type fitHeap []fitEntry

func (h fitHeap) Len() int           { return len(h) }
func (h fitHeap) Less(i, j int) bool { return bytes.Compare(h[i].at[:], h[j].at[:]) > 0 }
func (h fitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *fitHeap) Push(x any)        { *h = append(*h, x.(fitEntry)) }
func (h *fitHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}

func (c *fitChoice) see(r *refinedTask) {
	at := sha256.Sum256([]byte("student fit\x00" + r.Task.TaskID))
	seen := map[string]bool{}
	for i := range r.Candidates {
		one := &r.Candidates[i]
		if !one.Accepted || one.Answer() == nil || seen[one.Teacher] || slices.Contains(one.Flags, datasets.FlagEscalated) {
			continue
		}
		seen[one.Teacher] = true
		key := fitCell{one.Teacher, one.Domain, one.Effort}
		h := c.cells[key]
		if h == nil {
			h = &fitHeap{}
			c.cells[key] = h
		}
		switch {
		case len(*h) < c.most:
			heap.Push(h, fitEntry{at, one.SampleID})
		case bytes.Compare(at[:], (*h)[0].at[:]) < 0:
			(*h)[0] = fitEntry{at, one.SampleID}
			heap.Fix(h, 0)
		}
	}
}

// chosen are the sample ids, once all tasks were seen.
func (c *fitChoice) chosen() map[string]bool {
	out := map[string]bool{}
	most := c.most
	if n := len(c.cells); n > 0 {
		most = max(1, min(most, mostFit/n))
	}
	for _, h := range c.cells {
		list := slices.Clone(*h)
		slices.SortFunc(list, func(a, b fitEntry) int { return bytes.Compare(a.at[:], b.at[:]) })
		for _, e := range list[:min(len(list), most)] {
			out[e.sample] = true
		}
	}
	return out
}

// A fitWork scores the chosen answers of a build, or looks up what was said of
// them.
type fitWork struct {
	rt      *runtime
	student *studentScorer
	look    history
	since   time.Time // of the build
	// ask gets what is missing into the store; nil: nobody is asked.
	ask func(ctx context.Context, asks []asked) error
}

// A fitQuestion is one answer that is scored.
type fitQuestion struct {
	task        *datasets.Task
	candidate   *datasets.Candidate
	why         string // nobody can be asked
	head, whole asked
}

// A toldFit is what came of one answer.
type toldFit struct {
	Row    datasets.FitRow
	Paid   []datasets.Attempt
	Fresh  int64  // requests whose answers came since the build began
	Failed string // what the endpoint said where a call failed
}

// run visits the chosen answers in the order of tasks. each walks over all
// refined tasks, and may be called again.
func (w *fitWork) run(ctx context.Context, each func(func(*refinedTask) error) error, visit func(*toldFit) error) error {
	choice := &fitChoice{most: w.student.tasks, cells: map[fitCell]*fitHeap{}}
	if err := each(func(r *refinedTask) error {
		choice.see(r)
		return ctx.Err()
	}); err != nil {
		return err
	}
	chosen := choice.chosen()
	var chunk []fitQuestion
	flush := func() error {
		told, err := w.score(ctx, chunk)
		chunk = nil
		for i := range told {
			if err == nil {
				err = visit(&told[i])
			}
		}
		return err
	}
	err := each(func(r *refinedTask) error {
		for i := range r.Candidates {
			if !chosen[r.Candidates[i].SampleID] {
				continue
			}
			task, c := r.Task, r.Candidates[i]
			chunk = append(chunk, w.question(&task, &c))
		}
		if len(chunk) >= fitChunk {
			return flush()
		}
		return ctx.Err()
	})
	if err == nil && len(chunk) > 0 {
		err = flush()
	}
	return err
}

// question makes the two requests about an answer: the prompt alone, which is
// the same for all answers to it, and with the answer.
func (w *fitWork) question(task *datasets.Task, c *datasets.Candidate) fitQuestion {
	q := fitQuestion{task: task, candidate: c}
	if len(task.Prompt.Images) > 0 {
		q.why = "the prompt has images, which scoring does not send"
		return q
	}
	head, err := w.student.scorer.PromptRequest(&task.Prompt)
	if err == nil {
		whole, werr := w.student.scorer.Request(&task.Prompt, c.Messages)
		if err = werr; err == nil {
			q.head, q.whole = w.asked(task, head), w.asked(task, whole)
			return q
		}
	}
	q.why = "it cannot be put to the student: " + bounded(err.Error())
	return q
}

func (w *fitWork) asked(task *datasets.Task, r *teachers.Request) asked {
	one := asked{request: r, task: task}
	one.ask, _ = w.student.base.epochs(identityOf(w.student.wire, r))
	return one
}

// score asks what is missing, if anybody is to be asked, and reads what there is.
func (w *fitWork) score(ctx context.Context, list []fitQuestion) ([]toldFit, error) {
	var asks []asked
	for i := range list {
		if q := &list[i]; q.why == "" {
			asks = append(asks, q.head, q.whole)
		}
	}
	asks = unique(asks)
	if w.ask != nil && len(asks) > 0 {
		if err := w.ask(ctx, asks); err != nil {
			return nil, err
		}
	}
	found := map[string]answers.History{}
	for part := range slices.Chunk(asks, w.rt.lookupAnswers()) {
		keys := make([]answers.Ask, len(part))
		for i := range part {
			keys[i] = part[i].ask
		}
		histories, err := w.look(ctx, keys)
		if err != nil {
			return nil, fmt.Errorf("look up what the student said: %w", err)
		}
		for i := range part {
			found[part[i].ask.ID] = histories[i]
		}
	}
	out := make([]toldFit, len(list))
	for i := range list {
		if err := w.read(&list[i], found, &out[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// read reads what was said of one answer.
func (w *fitWork) read(q *fitQuestion, found map[string]answers.History, out *toldFit) error {
	c, t := q.candidate, w.student.base
	out.Row = datasets.FitRow{
		TaskID: c.TaskID, PromptID: c.PromptID, SampleID: c.SampleID, Domain: c.Domain, Effort: c.Effort, Teacher: c.Teacher,
		Student: t.spec.Model, Scorer: t.spec.ID,
	}
	why := q.why
	var said [2]*teachers.Answer
	for n, one := range []*asked{&q.head, &q.whole} {
		if q.why != "" {
			break
		}
		history := found[one.ask.ID]
		rec := history.Record
		call := candidate(w.student.wire, q.task, one, rec)
		call.SampleID = c.SampleID
		paid, err := paymentOf(w.student.wire, &call, one, &history)
		if err != nil {
			return fmt.Errorf("read what teacher %s was paid: %w", t.spec.ID, err)
		}
		out.Paid = append(out.Paid, paid.attempts(&call)...)
		if rec != nil && call.Error == nil && !rec.Started.Before(w.since) {
			out.Fresh++
		}
		switch {
		case rec == nil:
			why = cmp.Or(why, "the student was not asked")
		case call.Error != nil:
			why = cmp.Or(why, "the call failed: "+*call.Error)
			out.Failed = cmp.Or(out.Failed, textOf(call.ErrorText))
		default:
			if said[n], err = parse(rec); err != nil {
				why = cmp.Or(why, "what came cannot be read")
			}
		}
	}
	out.Row.AskID = optional(q.whole.ask.ID)
	if why == "" {
		nll, tokens, err := likelihood(w.student.scorer, said[1], said[0], c)
		if err == nil {
			out.Row.NLL, out.Row.Tokens = &nll, &tokens
			return nil
		}
		why = err.Error()
	}
	out.Row.Why = &why
	return nil
}

// likelihood is the sum of the negative log-likelihoods of an answer's tokens,
// and their number. What no model can have said, or what is said of another
// text, is refused: a figure that looks measured would mislead.
func likelihood(s *teachers.CompletionScorer, whole, head *teachers.Answer, c *datasets.Candidate) (nll float64, tokens int64, err error) {
	if slices.Contains(whole.Flags, teachers.FlagLogprobGap) {
		return 0, 0, errors.New("the log probabilities have gaps, or are not those of the tokens that were read")
	}
	l, err := s.Read(whole, head)
	if err != nil {
		return 0, 0, err
	}
	for _, p := range l.Logprob {
		switch v := float64(p); {
		case math.IsNaN(v) || math.IsInf(v, 0):
			return 0, 0, errors.New("a token of the answer has no log probability")
		case v > 0:
			return 0, 0, errors.New("a log probability is above 0")
		default:
			nll -= v
		}
	}
	tokens = int64(len(l.Logprob))
	text := c.Content()
	if tokens == 0 || int64(len(text)) > tokens*longestToken {
		return 0, 0, fmt.Errorf("the endpoint scored %d tokens, too few for the answer", tokens)
	}
	if !spells(l, text) {
		return 0, 0, errors.New("the tokens that were scored do not spell the answer")
	}
	return nll, tokens, nil
}

// spells tells whether tokens spell a text: templates put words around it, and
// trim it. Of tokens that are a part of a character nobody knows the bytes, so
// that where there are any only what lies between them is looked for.
func spells(l *teachers.Logprobs, text string) bool {
	var parts []string
	var part strings.Builder
	for i := range l.Len() {
		b, known := l.Tokens.Bytes(i)
		if known {
			part.Write(b)
			continue
		}
		parts, part = append(parts, part.String()), strings.Builder{}
	}
	parts = append(parts, part.String())
	want := strings.TrimSpace(text)
	if len(parts) == 1 {
		return strings.Contains(parts[0], want)
	}
	// The first and the last part hold the template's words too.
	at := 0
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(want[at:], p)
		if i < 0 {
			return false
		}
		at += i + len(p)
	}
	return true
}

// ScoreStudentFit has the student score the chosen answers of a build whose
// shards are all refined. It returns once everything that came is in the answer
// store's index, where the seal finds it.
func (a *Activities) ScoreStudentFit(ctx context.Context, in wire.FitInput) (*wire.JudgeOutput, error) {
	w := &askWork{a: a, in: wire.AskInput{BuildRef: in.BuildRef, PlanKey: in.PlanKey, Teacher: in.Teacher}, health: a.healthOf(in.BuildID, in.Teacher)}
	defer heartbeat(ctx, beatEvery, w.detail)()
	err := w.scoreStudentFit(ctx, in)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) && temporal.IsCanceledError(context.Cause(ctx)) {
		return nil, temporal.NewCanceledError(w.counts)
	}
	if err != nil {
		return nil, final(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &wire.JudgeOutput{Counts: w.counts, Stopped: w.health.stop()}, nil
}

func (w *askWork) scoreStudentFit(ctx context.Context, in wire.FitInput) error {
	if w.health.stop() != nil {
		return nil // what it said before is in the store
	}
	rt, plan, err := w.a.planned(ctx, in.BuildRef, in.PlanKey)
	if err != nil {
		return err
	}
	w.rt = rt
	student, err := rt.studentScorer()
	if err != nil {
		return err
	}
	if student == nil || student.base.spec.ID != in.Teacher {
		return fmt.Errorf("score for the student: the recipe does not name teacher %s for that", in.Teacher)
	}
	dir, err := os.MkdirTemp(w.a.TempDir, "fit-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &seal{a: w.a, in: wire.SealInput{BuildRef: in.BuildRef, PlanKey: in.PlanKey, Started: in.Started}, note: func(string) {}, rt: rt, plan: plan}
	tasks, err := s.tasks(ctx, dir)
	if err != nil {
		return err
	}
	fit := &fitWork{rt: rt, student: student, since: in.Started}
	// What is asked here is in the index only then: every look is a new one.
	fit.look = func(ctx context.Context, asks []answers.Ask) ([]answers.History, error) {
		return w.a.Answers.History(ctx, time.Now(), asks)
	}
	fit.ask = func(ctx context.Context, asks []asked) error {
		w.mu.Lock()
		w.total += len(asks)
		w.counts.Asks += int64(len(asks))
		w.mu.Unlock()
		if err := w.ask(ctx, student.wire, asks); err != nil {
			return fmt.Errorf("ask the student about answers: %w", err)
		}
		return nil
	}
	return fit.run(ctx, eachOf(tasks), func(*toldFit) error { return nil })
}

// eachOf walks over refined tasks.
func eachOf(tasks iter.Seq2[refinedTask, error]) func(func(*refinedTask) error) error {
	return func(visit func(*refinedTask) error) error {
		for r, err := range tasks {
			if err != nil {
				return err
			}
			if err := visit(&r); err != nil {
				return err
			}
		}
		return nil
	}
}

// studentFit looks up what the student said of a build's answers, by task, and
// puts it into the report; nil where the recipe has no student score.
func (s *seal) studentFit(ctx context.Context, look history, each func(func(*refinedTask) error) error) (map[string][]toldFit, error) {
	student, err := s.rt.studentScorer()
	if err != nil || student == nil {
		return nil, err
	}
	w := &fitWork{rt: s.rt, student: student, since: s.in.Started, look: look}
	s.report.SetStudent(student.base.spec.Model, fitSource(student))
	out := map[string][]toldFit{}
	err = w.run(ctx, each, func(told *toldFit) error {
		out[told.Row.TaskID] = append(out[told.Row.TaskID], *told)
		return s.report.AddFit(fitAnswer(&told.Row))
	})
	return out, err
}

// fitSource is where a student's figures are from, in words.
func fitSource(s *studentScorer) string {
	return fmt.Sprintf("teacher %s of the recipe, of each teacher's first accepted answer to up to %d tasks of each domain and effort", s.base.spec.ID, s.tasks)
}

func fitAnswer(row *datasets.FitRow) report.FitAnswer {
	out := report.FitAnswer{Task: row.TaskID, Sample: row.SampleID, Teacher: row.Teacher, Domain: row.Domain, Effort: row.Effort}
	switch {
	case row.Why != nil:
		out.Why = *row.Why
	case row.NLL == nil || row.Tokens == nil:
		out.Why = "it was not scored"
	default:
		out.NLL, out.Tokens = *row.NLL, *row.Tokens
	}
	return out
}

// tellFit writes what the student said of a task's answers, and counts what that
// cost. The task has been paid for by then.
func (s *seal) tellFit(fit map[string][]toldFit, r *refinedTask, t *tables) error {
	list := fit[r.Task.TaskID]
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b toldFit) int { return strings.Compare(a.Row.SampleID, b.Row.SampleID) })
	for i := range list {
		if err := t.fit.add(list[i].Row); err != nil {
			return err
		}
		for _, row := range s.payFit(&list[i]) {
			if err := t.attempts.add(row); err != nil {
				return err
			}
		}
	}
	return nil
}

// payFit counts the requests about one answer, each once, and gives them.
func (s *seal) payFit(told *toldFit) []datasets.Attempt {
	tr := s.result.Teachers[told.Row.Scorer]
	account := s.paid.of(told.Row.Scorer)
	var out []datasets.Attempt
	done := map[string]bool{}
	for i := range told.Paid {
		row := &told.Paid[i]
		if s.paid.asks[row.AskID] && !done[row.AskID] {
			continue // the prompt alone, asked for another answer to it
		}
		if !done[row.AskID] {
			done[row.AskID], s.paid.asks[row.AskID] = true, true
			tr.Asks++
		}
		s.paid.count(account, row)
		if row.Outcome == datasets.OutcomeAnswer || row.Outcome == datasets.OutcomeRecovered {
			tr.Answers++
			tr.PromptTokens += number(row.PromptTokens)
			tr.CachedTokens += number(row.CachedTokens)
			tr.CompletionTokens += number(row.CompletionTokens)
			tr.micros += number(row.CostMicros)
			if row.CostMicros == nil && number(row.StartedUS) >= s.in.Started.UnixMicro() {
				s.result.UnpricedAsks++
			}
		}
		out = append(out, *row)
	}
	s.result.Teachers[told.Row.Scorer] = tr
	s.report.AddUnattributed(scoringOfStudent, out...)
	return out
}
