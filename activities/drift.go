package activities

import (
	"bytes"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// stageProbes holds the tasks of probes.
const stageProbes = "probes"

// probed tells whether probes ask a teacher: it has to be there to be asked, and
// its batches are no place for a handful of prompts.
func probed(t *recipe.Teacher) bool {
	return t.API != recipe.APIRecorded && t.API != recipe.APIOpenAIBatch && t.API != recipe.APIAnthropicBatch
}

// A probeChoice chooses the tasks that probes ask each teacher: those whose id,
// hashed with the teacher's, comes first. It is the same choice for the same
// tasks, whatever order they come in, and moves little where some are added.
type probeChoice struct {
	most  int
	tasks map[string]*probeHeap // by teacher
}

func newProbeChoice(r *recipe.Recipe) *probeChoice {
	c := &probeChoice{tasks: map[string]*probeHeap{}}
	if r.Drift == nil {
		return c
	}
	c.most = r.Drift.Probe
	for i := range r.Teachers {
		if probed(&r.Teachers[i]) {
			c.tasks[r.Teachers[i].ID] = &probeHeap{}
		}
	}
	return c
}

// see looks at the tasks of a cell.
func (c *probeChoice) see(tasks []datasets.Task) {
	if len(c.tasks) == 0 {
		return
	}
	for i := range tasks {
		for _, id := range tasks[i].Route {
			if h := c.tasks[id]; h != nil {
				h.see(probeTask{sha256.Sum256([]byte("drift\x00" + id + "\x00" + tasks[i].TaskID)), tasks[i]}, c.most)
			}
		}
	}
}

// of are the tasks that a teacher is probed with, by id.
func (c *probeChoice) of(teacher string) []datasets.Task {
	h := c.tasks[teacher]
	if h == nil {
		return nil
	}
	out := make([]datasets.Task, len(*h))
	for i := range *h {
		out[i] = (*h)[i].task
	}
	slices.SortFunc(out, func(a, b datasets.Task) int { return strings.Compare(a.TaskID, b.TaskID) })
	return out
}

type probeTask struct {
	at   [32]byte
	task datasets.Task
}

// probeHeap holds the first tasks so far, the last of them on top.
type probeHeap []probeTask

func (h *probeHeap) see(t probeTask, most int) {
	switch {
	case len(*h) < most:
		heap.Push(h, t)
	case most > 0 && bytes.Compare(t.at[:], (*h)[0].at[:]) < 0:
		(*h)[0] = t
		heap.Fix(h, 0)
	}
}

func (h probeHeap) Len() int           { return len(h) }
func (h probeHeap) Less(i, j int) bool { return bytes.Compare(h[i].at[:], h[j].at[:]) > 0 }
func (h probeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *probeHeap) Push(x any)        { *h = append(*h, x.(probeTask)) }
func (h *probeHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}

// planProbes finds the teachers whose last probe is older than the recipe says,
// and records the probe of each before anything is asked. One that did not end
// is gone on with. A teacher that was never probed is due once the oldest of its
// answers to these prompts is that old: the first answers are what probes are
// compared with.
func (a *Activities) planProbes(ctx context.Context, ref wire.BuildRef, rt *runtime, choice *probeChoice, anew map[string]Anew, dir string, now time.Time) error {
	drift := rt.recipe.Drift
	if drift == nil || ref.Preview > 0 {
		return nil
	}
	known, err := a.Catalog.Epochs(ctx, ref.Dataset)
	if err != nil {
		return err
	}
	due := map[string]bool{}
	for id, t := range rt.teachers {
		tasks := choice.of(id)
		if len(tasks) == 0 || anew[id].Asked {
			continue // what is asked anew in this build is new
		}
		one := known.Of(t.key())
		last, ok, err := a.lastProbe(ctx, t, one, tasks)
		if err != nil {
			return err
		}
		if one != nil && one.Probing != "" || ok && now.Sub(last) >= drift.Every {
			due[id] = true
		}
	}
	if len(due) == 0 {
		return nil
	}
	numbers := map[string]catalog.TeacherEpoch{}
	err = a.Catalog.ChangeEpochs(ctx, ref.Dataset, func(e *catalog.Epochs) (changed bool) {
		clear(numbers)
		for id := range due {
			one := e.Add(rt.teachers[id].key(), id)
			if one.Probing == "" && one.Probes < mostProbes {
				one.Probes, one.Probing, one.ProbedAt, changed = one.Probes+1, ref.BuildID, &now, true
			}
			numbers[id] = *one
		}
		return changed
	})
	if err != nil {
		return err
	}
	for id, one := range numbers {
		if one.Probing == "" || one.ProbedAt == nil {
			continue
		}
		shard, err := a.stageProbe(ctx, ref, id, choice.of(id), dir)
		if err != nil {
			return err
		}
		n := anew[id]
		n.Probe = &DriftProbe{Number: one.Probes, Began: one.ProbedAt.UTC(), Shard: shard}
		anew[id] = n
	}
	return nil
}

// lastProbe is when a teacher was probed last, or first answered what probes ask.
func (a *Activities) lastProbe(ctx context.Context, t *teacher, known *catalog.TeacherEpoch, tasks []datasets.Task) (at time.Time, found bool, err error) {
	if known != nil && known.ProbedAt != nil {
		return *known.ProbedAt, true, nil
	}
	return a.oldest(ctx, t, tasks)
}

// oldest is when the oldest of the answers to some tasks was asked for.
func (a *Activities) oldest(ctx context.Context, t *teacher, tasks []datasets.Task) (at time.Time, found bool, err error) {
	for chunk := range slices.Chunk(tasks, lookupAnswers) {
		keys := make([]answers.Ask, len(chunk))
		for i := range chunk {
			one, err := t.ask(&chunk[i], 0)
			if err != nil {
				return at, false, err
			}
			keys[i] = one.ask
		}
		records, err := a.Answers.Lookup(ctx, keys)
		if err != nil {
			return at, false, fmt.Errorf("look up the answers of teacher %s: %w", t.spec.ID, err)
		}
		for _, rec := range records {
			if rec != nil && rec.Complete && (!found || rec.Started.Before(at)) {
				at, found = rec.Started, true
			}
		}
	}
	return at, found, nil
}

// stageProbe writes the tasks of a probe.
func (a *Activities) stageProbe(ctx context.Context, ref wire.BuildRef, teacher string, tasks []datasets.Task, dir string) (Shard, error) {
	out, err := newStageFile[datasets.Task](dir)
	if err != nil {
		return Shard{}, err
	}
	defer out.discard()
	if err := out.write(tasks, func(t *datasets.Task) string { return t.TaskID }); err != nil {
		return Shard{}, err
	}
	key, err := out.upload(ctx, a.Bucket, ref.Dataset, ref.BuildID, stageProbes, component(teacher))
	return Shard{Tasks: len(tasks), Key: key}, err
}

// probeAsk is a task's ask in a probe: its first sample, under an identity of its
// own, so that it neither serves nor is served by anything else.
func (t *teacher) probeAsk(task *datasets.Task) (asked, error) {
	one, err := t.ask(task, 0)
	if err != nil {
		return one, err
	}
	id := identityOf(t, one.request)
	id.Epoch = epochOf(t.spec.Epoch, t.anew.Refresh, t.anew.Probe.Number)
	one.ask, one.older = answers.Identify(id), nil
	return one, nil
}

// askProbe asks a teacher the prompts of its probe.
func (w *askWork) askProbe(ctx context.Context, t *teacher, b batch) (*wire.AskOutput, error) {
	tasks, err := w.a.shardTasks(ctx, t.anew.Probe.Shard, "the probe of teacher "+t.spec.ID)
	if err != nil {
		return nil, err
	}
	var asks []asked
	for i := b.start; i < b.end; i++ {
		one, err := t.probeAsk(&tasks[i])
		if err != nil {
			return nil, err
		}
		asks = append(asks, one)
	}
	w.mu.Lock()
	w.total = len(asks)
	w.counts.Asks = int64(len(asks))
	w.mu.Unlock()
	if err := w.ask(ctx, t, asks); err != nil {
		return nil, err
	}
	return w.output(b), nil
}

// drift compares what the build's probes brought with the first answers. What
// they cost is the build's; they enter no table.
func (s *seal) drift(ctx context.Context) error {
	for i := range s.rt.recipe.Teachers {
		t := s.rt.teachers[s.rt.recipe.Teachers[i].ID]
		if t.anew.Probe == nil {
			continue
		}
		d, err := s.compareProbe(ctx, t)
		if err != nil {
			return err
		}
		d.Refresh = t.anew.Refresh
		s.probes = append(s.probes, d)
	}
	report.SettleDrift(s.probes)
	for _, d := range s.probes {
		s.report.AddDrift(d)
		if s.result.Drift == nil {
			s.result.Drift = map[string]DriftResult{}
		}
		s.result.Drift[d.Teacher] = DriftResult{
			Probe: d.Probe, Asked: d.Asked, Answered: d.Asked - d.Failed, Changed: d.Changed, TooFew: d.TooFew, Why: clipped(strings.Join(d.Why, "; "), resultText),
		}
	}
	return s.drifted(ctx)
}

// drifted finds the teachers of which an earlier build's probe showed a change,
// and that were not asked anew since. A gate on drift holds until somebody acts
// on it, and not for the one build that happened to probe.
func (s *seal) drifted(ctx context.Context) error {
	if allow := s.rt.recipe.Gates.AllowDrift; allow == nil || *allow {
		return nil
	}
	known, err := s.a.Catalog.Epochs(ctx, s.in.Dataset)
	if err != nil {
		return err
	}
	s.standing = map[string]report.Drift{}
	for id, t := range s.rt.teachers {
		one := known.Of(t.key())
		if _, probed := s.result.Drift[id]; probed || one == nil || one.Drift == nil {
			continue
		}
		var d report.Drift
		if json.Unmarshal(one.Drift, &d) == nil && d.Changed && d.Refresh == t.anew.Refresh {
			s.standing[id] = d
		}
	}
	return nil
}

// compareProbe pairs the answers of one teacher's probe with the first ones.
func (s *seal) compareProbe(ctx context.Context, t *teacher) (report.Drift, error) {
	p := t.anew.Probe
	tasks, err := s.a.shardTasks(ctx, p.Shard, "the probe of teacher "+t.spec.ID)
	if err != nil {
		return report.Drift{}, err
	}
	look := s.a.historyAsOf(time.Now())
	var pairs []report.DriftPair
	for chunk := range slices.Chunk(tasks, lookupAnswers) {
		first := make([]refinedTask, len(chunk))
		again := make([]refinedTask, len(chunk))
		for i := range chunk {
			first[i], again[i] = refinedTask{Task: chunk[i]}, refinedTask{Task: chunk[i]}
		}
		if err := s.probeAnswers(ctx, look, t, first, func(task *datasets.Task) (asked, error) { return t.ask(task, 0) }); err != nil {
			return report.Drift{}, err
		}
		if err := s.probeAnswers(ctx, look, t, again, t.probeAsk); err != nil {
			return report.Drift{}, err
		}
		for i := range chunk {
			pair := report.DriftPair{Before: driftSample(&first[i]), After: driftSample(&again[i])}
			if first[i].Fresh[0] {
				pair.Before = nil // bought beside the probe, it says nothing of before
			}
			pairs = append(pairs, pair)
			if err := s.paid.add(&again[i], func(row datasets.Attempt) error {
				s.report.AddUnattributed(probesForDrift, row)
				return nil
			}); err != nil {
				return report.Drift{}, err
			}
			if again[i].Fresh[0] && again[i].Candidates[0].Error == nil && again[i].Candidates[0].CostMicros == nil {
				s.result.UnpricedAsks++
			}
		}
	}
	return report.CompareDrift(t.spec.ID, p.Number, p.Began, pairs), nil
}

// probeAnswers looks up and judges one answer of each task.
func (s *seal) probeAnswers(ctx context.Context, look history, t *teacher, tasks []refinedTask, ask func(*datasets.Task) (asked, error)) error {
	asks := make([]asked, len(tasks))
	ones := make([]*asked, len(tasks))
	keys := make([]answers.Ask, len(tasks))
	for i := range tasks {
		var err error
		if asks[i], err = ask(&tasks[i].Task); err != nil {
			return err
		}
		ones[i], keys[i] = &asks[i], asks[i].ask
	}
	found, err := look(ctx, keys)
	if err != nil {
		return fmt.Errorf("look up the answers of teacher %s: %w", t.spec.ID, err)
	}
	w := walker{t: t, look: look}
	if err := w.older(ctx, ones, found); err != nil {
		return err
	}
	for i := range tasks {
		if err := s.rt.addCandidate(&tasks[i], t, &asks[i], &found[i], s.in.Started); err != nil {
			return err
		}
		if err := s.rt.judgeOne(ctx, &tasks[i].Task, &tasks[i].Candidates[0]); err != nil {
			return err
		}
	}
	return nil
}

// driftSample is what is compared of an answer; nil where there is none.
func driftSample(r *refinedTask) *report.DriftSample {
	c := &r.Candidates[0]
	if c.Error != nil {
		return nil
	}
	out := &report.DriftSample{Verdict: c.Verdict, Tokens: c.CompletionTokens, Reasoning: c.ReasoningTokens}
	if m := c.Answer(); m != nil && m.ReasoningContent != nil {
		n := int64(utf8.RuneCountInString(*m.ReasoningContent))
		out.Thought = &n
	}
	if c.ModelAnswered != nil {
		out.Model = *c.ModelAnswered
	}
	if c.Fingerprint != nil {
		out.Fingerprint = *c.Fingerprint
	}
	return out
}

// endProbes records what the build's probes showed, and that they are through.
// One whose teacher was given up goes on with the next build.
func (s *seal) endProbes(ctx context.Context) error {
	if len(s.probes) == 0 {
		return nil
	}
	return s.a.Catalog.ChangeEpochs(ctx, s.in.Dataset, func(e *catalog.Epochs) (changed bool) {
		for i := range s.probes {
			d := &s.probes[i]
			one := e.Of(s.rt.teachers[d.Teacher].key())
			if one == nil || one.Probes != d.Probe || s.stopped[d.Teacher] != "" {
				continue
			}
			text, err := json.Marshal(d)
			if err != nil {
				continue // a struct of plain values
			}
			one.Probing, one.Drift, changed = "", text, true
		}
		return changed
	})
}
