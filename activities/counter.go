package activities

import (
	"context"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A Counter counts what a plan would ask of whom, for users who look before
// they spend.
type Counter struct {
	// Answered tells which asks the store answers already; nil: none.
	Answered func(ctx context.Context, asks []answers.Ask) ([]bool, error)
	// Lookup finds the answers, where how many are asked depends on them; nil:
	// none is there.
	Lookup   func(ctx context.Context, asks []answers.Ask) ([]*answers.Record, error)
	Teachers map[string]TeacherCount

	rt   *runtime
	last map[string][]byte // body asked last, by teacher and effort
	fit  map[[2]string]int // tasks of which the student scores answers, by domain and effort
}

// A TeacherCount is what one teacher would be asked.
type TeacherCount struct {
	Asks, Answered int64
	PromptBytes    int64 // of the asks that are not answered
	Caps           int64 // sum of their token caps; -1 where one has none
	MostMicros     int64 // the most that they can cost, in micro-dollars, as a budget reserves it
	LargestMicros  int64 // of one of them
	// MoreAsks may follow, where how many are asked depends on the answers, with
	// MoreBytes of prompts and MoreCaps of token caps; MostMicros counts them.
	MoreAsks, MoreBytes, MoreCaps int64
	// JudgeAsks are its questions about answers, as a judge or a reward model, if
	// nothing that is free rejects any and none is answered already: with about
	// JudgeBytes of prompts, JudgeReplies tokens of replies and JudgeCaps of token
	// caps; MostMicros counts them.
	JudgeAsks, JudgeBytes, JudgeReplies, JudgeCaps int64
	// CachedBytes are those of PromptBytes with which the ask before began too, in
	// the order in which they are asked: an endpoint with a context cache has read
	// them already.
	CachedBytes int64
}

// NewCounter prepares counting for a recipe and its files.
func NewCounter(r *recipe.Recipe, prompts [][]sources.File, recorded map[string][]sources.File) (*Counter, error) {
	files := &Sources{Recorded: map[string][]SourceFile{}}
	for id, list := range recorded {
		for _, f := range list {
			p := SourceFile{Name: f.Name, Size: f.Size, SHA256: f.SHA256}
			if f.Path == "" {
				p.URL = f.Key
			}
			files.Recorded[id] = append(files.Recorded[id], p)
		}
	}
	var err error
	if files.texts, err = ReadRubrics(r, r.Dir); err != nil {
		return nil, err
	}
	rt, err := newRuntime(r, files)
	if err != nil {
		return nil, err
	}
	return &Counter{Teachers: map[string]TeacherCount{}, rt: rt, last: map[string][]byte{}}, nil
}

// Know makes the counter count as a build would that asks the listed teachers
// anew, over what the dataset has asked anew before.
func (c *Counter) Know(known *catalog.Epochs, refresh string) error {
	list := refreshList(wire.BuildRef{Refresh: refresh})
	anew := anewOf(c.rt, known, list)
	for _, id := range list {
		t := c.rt.teachers[id]
		if t == nil {
			continue
		}
		n := Anew{Refresh: 1, Asked: true}
		if one := known.Of(t.key()); one != nil {
			if n.Refresh = one.Refreshes; one.Refreshing == "" {
				n.Refresh++
			}
		}
		anew[id] = n
	}
	rt, err := c.rt.with(anew)
	c.rt = rt
	return err
}

// Count adds the asks of some tasks of one cell.
func (c *Counter) Count(ctx context.Context, tasks []datasets.Task) error {
	rule := samplingOf(c.rt.recipe)
	for _, id := range tasks[0].Route {
		t := c.rt.teachers[id]
		list, err := c.samples(ctx, t, rule, tasks)
		if err != nil {
			return err
		}
		n := c.Teachers[id]
		for _, s := range list {
			for i := range s.asks {
				known := s.of[i] != untried
				n.add(&s.asks[i], known)
				if !known && s.asks[i].request != nil {
					n.CachedBytes += c.cached(id, &s.asks[i])
				}
			}
			if wanted, all := rule.wanted(s.outcome); !all && t.config != nil {
				n.more(&s.asks[0], int64(rule.Most-wanted))
			}
		}
		c.Teachers[id] = n
	}
	c.countJudges(tasks)
	c.countFit(tasks)
	return c.fallbacks(rule, tasks)
}

// fallbacks counts what is asked at most where all teachers before fail.
func (c *Counter) fallbacks(rule sampling, tasks []datasets.Task) error {
	for _, id := range tasks[0].Fallback {
		t := c.rt.teachers[id]
		if t.config == nil {
			continue
		}
		n := c.Teachers[id]
		for i := range tasks {
			one, err := t.ask(&tasks[i], 0)
			if err != nil {
				return err
			}
			n.more(&one, int64(rule.Most))
		}
		c.Teachers[id] = n
	}
	return nil
}

// samples are the samples that tasks want by what the store holds.
func (c *Counter) samples(ctx context.Context, t *teacher, rule sampling, tasks []datasets.Task) ([]*sampler, error) {
	list := make([]*sampler, len(tasks))
	for i := range tasks {
		list[i] = &sampler{task: &tasks[i]}
	}
	if rule.adaptive() && c.Lookup != nil {
		w := walker{t: t, rule: rule, step: lookupAnswers, asking: true}
		w.look = func(ctx context.Context, asks []answers.Ask) ([]answers.History, error) {
			records, err := c.Lookup(ctx, asks)
			out := make([]answers.History, len(records))
			for i := range records {
				out[i].Record = records[i]
			}
			return out, err
		}
		w.found = func(s *sampler, i int, h *answers.History) (outcome, error) {
			if !served(h) {
				return untried, nil
			}
			return c.rt.outcomeOfRecord(ctx, t, &s.asks[i], h.Record)
		}
		return list, w.walk(ctx, list)
	}
	var asks []asked
	for _, s := range list {
		if err := s.grow(t, rule.Least); err != nil {
			return nil, err
		}
		asks = append(asks, s.asks...)
	}
	known := make([]bool, len(asks))
	if c.Answered != nil {
		keys := make([]answers.Ask, len(asks))
		for i := range asks {
			keys[i] = asks[i].ask
		}
		var err error
		if known, err = c.Answered(ctx, keys); err != nil {
			return nil, err
		}
		if err := answeredBefore(ctx, c.Answered, t, asks, known); err != nil {
			return nil, err
		}
	}
	for i, yes := range known {
		if yes {
			list[i/rule.Least].of[i%rule.Least] = unpassed
		}
	}
	return list, nil
}

// cached counts the bytes that an ask begins with like the one before it.
func (c *Counter) cached(teacher string, a *asked) int64 {
	key := teacher + "\x00" + a.task.Effort
	before, body := c.last[key], a.request.Body
	c.last[key] = body
	n := 0
	for n < min(len(before), len(body)) && before[n] == body[n] {
		n++
	}
	if n < prefixLeast {
		return 0
	}
	return int64(n)
}

func (n *TeacherCount) add(a *asked, known bool) {
	n.Asks++
	if known {
		n.Answered++
		return
	}
	if a.request == nil {
		return
	}
	n.PromptBytes += int64(len(a.request.Body))
	most := a.request.MostCost()
	n.MostMicros += most
	n.LargestMicros = max(n.LargestMicros, most)
	switch {
	case n.Caps < 0:
	case a.request.Cap == 0:
		n.Caps = -1
	default:
		n.Caps += a.request.Cap
	}
}

// more counts further asks like one, which may follow.
func (n *TeacherCount) more(a *asked, times int64) {
	n.MoreAsks += times
	n.MoreBytes += times * int64(len(a.request.Body))
	n.MostMicros += times * a.request.MostCost()
	if a.request.Cap == 0 {
		n.Caps = -1
	}
	n.MoreCaps += times * a.request.Cap
}
