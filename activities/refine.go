package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

const (
	// refineChunk is how many tasks are refined at once,
	refineChunk = 32
	// and refineCandidates how many answers they may have, unless one task has
	// more: all answers to a task are in memory when it is merged.
	refineCandidates = 256
	// lookupAnswers is how many raw answers are in memory at once. They are
	// much larger than what is read from them.
	lookupAnswers = answers.AtOnce
	// Where answers are short, more are read and refined at once: the store
	// keeps them side by side by their hashes, and unpacks many to read one.
	lookupMost  = 512
	lookupBytes = 1 << 20
)

// beatShards is how many shards are refined between two signs of life.
const beatShards = 16

// A refinedTask is a task with all of its candidates, judged and merged. The
// candidates' messages hold the answer alone; the seal puts the prompt back.
type refinedTask struct {
	Task       datasets.Task        `json:"task"`
	Status     string               `json:"status"`
	Candidates []datasets.Candidate `json:"candidates"`
	Fresh      []bool               `json:"fresh"` // by candidate: bought since the build started
	Paid       []payment            `json:"paid"`  // by candidate: what its requests cost

	Judged     []judgedAsk          `json:"judged,omitempty"`     // what judges were asked about the candidates
	Judgements []datasets.Judgement `json:"judgements,omitempty"` // of pairs of the candidates
	Label      *merge.Label         `json:"label,omitempty"`      // what the merge policy found out

	// Escalated are the teachers that the task went on to, in order.
	Escalated []string `json:"escalated,omitempty"`

	judged   int                    // candidates that are judged
	awaits   bool                   // a judge who could save one of them has yet to be asked
	logprobs []*datasets.LogprobRow // by candidate, where they are asked for
}

func (r *refinedTask) fresh(i int) bool { return i < len(r.Fresh) && r.Fresh[i] }

// Classes of candidates that were never asked.
const (
	classNotAsked    = datasets.ErrorNotAsked
	classNotRecorded = datasets.ErrorNotRecorded
)

// RefineShard parses, checks, filters and merges the candidates of one shard.
// It asks nobody: it is a function of the recipe, the tasks and the answers
// that the store's index names.
func (a *Activities) RefineShard(ctx context.Context, in wire.RefineInput) (*wire.RefineCounts, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	counts, err := a.refineShard(ctx, in)
	return counts, final(err)
}

func (a *Activities) refineShard(ctx context.Context, in wire.RefineInput) (*wire.RefineCounts, error) {
	rt, plan, err := a.measured(ctx, in.BuildRef, in.PlanKey, in.StatsKey)
	if err != nil {
		return nil, err
	}
	tasks, err := a.tasks(ctx, plan, in.Shard)
	if err != nil {
		return nil, err
	}
	if plan.Shards[in.Shard].Shared != nil {
		// Groups order the asking; tables are sorted by ids.
		tasks = slices.Clone(tasks)
		slices.SortFunc(tasks, func(a, b datasets.Task) int { return strings.Compare(a.TaskID, b.TaskID) })
	}
	out, err := newStageFile[refinedTask](a.TempDir)
	if err != nil {
		return nil, err
	}
	defer out.discard()
	var counts wire.RefineCounts
	logprobs, err := rt.logprobStage(a.TempDir)
	if err != nil {
		return nil, err
	}
	defer logprobs.discard()
	pace := pace{rt: rt, each: len(tasks[0].Route) * plan.Samples}
	look := pace.measured(a.historyAsOf(time.Now()))
	for len(tasks) > 0 {
		chunk := tasks[:min(pace.tasks(), len(tasks))]
		refined, err := rt.refine(ctx, look, pace.step(), in.Started, upTo(chunk, in.Fallbacks))
		if errors.Is(err, answers.ErrLarge) && !pace.long {
			pace.long = true
			continue
		}
		if err != nil {
			return nil, err
		}
		tasks = tasks[len(chunk):]
		for i := range refined {
			if id := rt.ahead(&refined[i], &chunk[i], in.Fallbacks); id != "" && !slices.Contains(counts.Next, id) {
				counts.Next = append(counts.Next, id)
			}
			refined[i].Task.Fallback = chunk[i].Fallback
			tally(&counts, &refined[i])
		}
		if err := logprobs.add(refined); err != nil {
			return nil, err
		}
		if err := out.write(refined, func(t *refinedTask) string { return t.Task.TaskID }); err != nil {
			return nil, err
		}
	}
	if len(counts.Next) > 0 {
		// What it is now is not what it will be: others are asked first.
		return &wire.RefineCounts{Next: counts.Next}, nil
	}
	if in.Shard%beatShards == 0 && in.Preview == 0 {
		// The build's entry says that it lives: gc keeps what it writes.
		if err := a.Catalog.Heartbeat(ctx, in.Dataset, in.BuildID, nil); err != nil {
			a.Log.Warn("the build's sign of life was not written", "build", in.BuildID, "error", err)
		}
	}
	name := fmt.Sprintf("%07d", in.Shard)
	if err := logprobs.upload(ctx, a.Bucket, in.Dataset, in.BuildID, name); err != nil {
		return nil, err
	}
	_, err = out.upload(ctx, a.Bucket, in.Dataset, in.BuildID, stageRefined, name)
	return &counts, err
}

// chunkOf is how many tasks with so many answers each are refined at once.
func chunkOf(answers int) int {
	return max(1, min(refineChunk, refineCandidates/max(1, answers)))
}

func tally(counts *wire.RefineCounts, t *refinedTask) {
	counts.Tasks++
	for i := range t.Candidates {
		c := &t.Candidates[i]
		counts.Candidates++
		counts.Count(c.Teacher, c.Accepted)
		if c.Accepted {
			counts.Accepted++
		}
		if c.Selected {
			counts.Selected++
		}
	}
}

// A pace is how many answers and tasks are in memory at once: more where the
// last ones were short, and few for good once some turned out to be long.
type pace struct {
	rt   *runtime
	each int // answers of a task

	answers, bytes int  // of what was looked up
	long           bool // some were too large for more than the fewest
}

// step is how many answers are looked up at once.
func (p *pace) step() int {
	least := p.rt.lookupAnswers()
	if p.long || p.bytes == 0 || p.rt.recipe.Logprobs != nil {
		return least
	}
	return max(least, min(lookupMost, lookupBytes/(p.bytes/p.answers+1)))
}

// tasks is how many tasks are refined at once.
func (p *pace) tasks() int {
	return max(p.rt.refineChunk(p.each), p.step()/max(1, p.each))
}

// measured is look, and notes how large the answers are.
func (p *pace) measured(look history) history {
	return func(ctx context.Context, asks []answers.Ask) ([]answers.History, error) {
		found, err := look(ctx, asks)
		for i := range found {
			if r := found[i].Record; r != nil {
				p.answers++
				p.bytes += len(r.Raw)
			}
		}
		return found, err
	}
}

// A history finds all that was paid for some asks.
type history func(ctx context.Context, asks []answers.Ask) ([]answers.History, error)

// historyAsOf is the store's history of whatever was indexed by then.
func (a *Activities) historyAsOf(then time.Time) history {
	return func(ctx context.Context, asks []answers.Ask) ([]answers.History, error) {
		return a.Answers.History(ctx, then, asks)
	}
}

// refine makes, judges and merges the candidates of some tasks of one cell.
// What was bought since the given time is fresh; step answers are read at once.
func (rt *runtime) refine(ctx context.Context, look history, step int, since time.Time, tasks []datasets.Task) ([]refinedTask, error) {
	return rt.refineHeard(ctx, look, step, since, tasks, rt.hearing(look, step, since))
}

// refineHeard is refine with what judges are heard by; nil: nobody is.
func (rt *runtime) refineHeard(ctx context.Context, look history, step int, since time.Time, tasks []datasets.Task, heard *hearing) ([]refinedTask, error) {
	out, err := rt.gather(ctx, look, step, since, tasks)
	if err != nil {
		return nil, err
	}
	return out, rt.judgeHeard(ctx, heard, rt.gatherer(look, step, since), out)
}

// gather makes the candidates of some tasks of one cell, which nobody has
// judged yet.
func (rt *runtime) gather(ctx context.Context, look history, step int, since time.Time, tasks []datasets.Task) ([]refinedTask, error) {
	out := make([]refinedTask, len(tasks))
	for i := range tasks {
		out[i] = refinedTask{Task: tasks[i], Status: statusBefore(&tasks[i])}
	}
	for _, id := range tasks[0].Route {
		t := rt.teachers[id]
		if t == nil {
			return nil, invalidRecipe("teacher %s is not in the recipe", id)
		}
		if err := rt.sampled(ctx, look, step, t, since, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// addCandidate appends what is known of one ask.
func (rt *runtime) addCandidate(task *refinedTask, t *teacher, ask *asked, found *answers.History, since time.Time) error {
	rec := found.Record
	task.Candidates = append(task.Candidates, candidate(t, &task.Task, ask, rec))
	rt.takeLogprobs(t, task, ask)
	task.Fresh = append(task.Fresh, rec != nil && !rec.Started.Before(since))
	paid, err := paymentOf(t, &task.Candidates[len(task.Candidates)-1], ask, found)
	if err != nil {
		return fmt.Errorf("read what teacher %s was paid: %w", t.spec.ID, err)
	}
	task.Paid = append(task.Paid, paid)
	return nil
}

// candidate is what is known of one ask.
func candidate(t *teacher, task *datasets.Task, ask *asked, rec *answers.Record) datasets.Candidate {
	c := datasets.Candidate{
		SampleID: datasets.SampleID(task.TaskID, t.spec.ID, ask.ask.ID),
		TaskID:   task.TaskID, PromptID: task.PromptID, Domain: task.Domain, Effort: task.Effort, Split: task.Split,
		Teacher: t.spec.ID, ModelAsked: t.spec.Model, AskID: ask.ask.ID, SampleIndex: int32(ask.ask.Sample),
		ParamsAsked: "{}", Gold: task.Gold, Meta: optional(task.Meta), Licence: optional(t.spec.Terms.Licence),
		Tools: optional(task.Prompt.Tools), PromptCluster: clusterOf(task),
	}
	for _, im := range task.Prompt.Images {
		c.Images = append(c.Images, datasets.Image{Digest: im.Digest, MediaType: im.MediaType, Key: im.Key})
	}
	if ask.request != nil {
		c.ParamsAsked = ask.request.ParamsText
	}
	if rec == nil {
		class := classNotAsked
		if t.config == nil {
			class = classNotRecorded
		}
		c.Error = &class
		return c
	}
	c.Attempts = rec.Attempts
	if rec.Format != formatRecorded {
		c.LatencyMS = millis(rec.Latency.Milliseconds())
	}
	if rec.Raw != nil && t.config != nil {
		c.Parser = &parserVersion
	}
	answer := revived(rec)
	switch {
	case rec.Complete:
		var err error
		if answer, err = parse(rec); err != nil {
			class, text := teachers.ClassMalformed, bounded(err.Error())
			if errors.Is(err, errPurged) {
				class = classPurged
			}
			c.Error, c.ErrorText = &class, &text
			return c
		}
	case answer == nil:
		c.Error, c.ErrorText = &rec.ErrorClass, optional(rec.ErrorText)
		return c
	}
	if rec.TTFT > 0 {
		c.TTFTMS = millis(rec.TTFT.Milliseconds())
	}
	answered(&c, t, ask, rec, answer)
	return c
}

// answered fills in what an answer says.
func answered(c *datasets.Candidate, t *teacher, ask *asked, rec *answers.Record, answer *teachers.Answer) {
	message := answer.Message
	message.Train = message.Train || t.config != nil
	c.Messages = append(slices.Clip(answer.Before), message)
	c.FinishReason = &answer.Finish
	c.ModelAnswered = optional(answer.Model)
	c.ReasoningField = optional(answer.ReasoningField)
	c.ArgsValid = answer.ArgsValid
	c.Fingerprint = optional(answer.Fingerprint)
	c.Flags = flagsOf(t, ask, answer)
	ask.logprobs = answer.Logprobs
	if t.config == nil {
		if answer.Usage != nil {
			c.CompletionTokens = &answer.Usage.CompletionTokens
		}
		return
	}
	usage := usageOf(answer, rec.Headers, &ask.task.Prompt)
	c.PromptTokens, c.CachedTokens = &usage.PromptTokens, &usage.CachedTokens
	c.CacheWriteTokens, c.ReasoningTokens = &usage.CacheWriteTokens, &usage.ReasoningTokens
	c.CompletionTokens, c.UsageEstimated = &usage.CompletionTokens, usage.Estimated
	ledger, err := answers.ReadLedger(rec.Ledger)
	if err != nil {
		ledger = &answers.Ledger{} // paymentOf ends the refining with this error
	}
	c.CostMicros, c.PriceID, c.PriceAsOf = t.cost(usage, rec, ledger)
}

// parserVersion is what candidates point to.
var parserVersion = teachers.ParserVersion

// flagsOf adds what only who knows the prompt and the recipe can see.
func flagsOf(t *teacher, ask *asked, answer *teachers.Answer) []string {
	if t.config == nil {
		return answer.Flags
	}
	flags := slices.Clip(answer.Flags)
	if teachers.ModelDrifted(t.spec.Model, answer.Model, t.aliases()) {
		flags = append(flags, teachers.FlagModelDrift)
	}
	if u := answer.Usage; u != nil && u.PromptTokens > 0 {
		size := ask.size()
		if size.Truncated(u.PromptTokens) {
			flags = append(flags, teachers.FlagPromptTruncated)
		}
		if size.Inflated(u.PromptTokens) {
			flags = append(flags, teachers.FlagPromptInflated)
		}
	}
	if len(flags) > len(answer.Flags) {
		slices.Sort(flags)
	}
	return flags
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func millis(n int64) *int64 { return &n }
