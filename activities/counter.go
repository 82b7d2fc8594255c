package activities

import (
	"context"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// A Counter counts what a plan would ask of whom, for users who look before
// they spend.
type Counter struct {
	// Answered tells which asks the store answers already; nil: none.
	Answered func(ctx context.Context, asks []answers.Ask) ([]bool, error)
	Teachers map[string]TeacherCount

	rt   *runtime
	last map[string][]byte // body asked last, by teacher and effort
}

// A TeacherCount is what one teacher would be asked.
type TeacherCount struct {
	Asks, Answered int64
	PromptBytes    int64 // of the asks that are not answered
	Caps           int64 // sum of their token caps; -1 where one has none
	MostMicros     int64 // the most that they can cost, in micro-dollars, as a budget reserves it
	LargestMicros  int64 // of one of them
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
	rt, err := newRuntime(r, files)
	if err != nil {
		return nil, err
	}
	return &Counter{Teachers: map[string]TeacherCount{}, rt: rt, last: map[string][]byte{}}, nil
}

// Count adds the asks of some tasks of one cell.
func (c *Counter) Count(ctx context.Context, tasks []datasets.Task) error {
	samples := c.rt.recipe.Ask.Samples.Max
	for _, id := range tasks[0].Route {
		t := c.rt.teachers[id]
		all := make([]asked, 0, len(tasks)*samples)
		for i := range tasks {
			list, err := t.asks(&tasks[i], samples)
			if err != nil {
				return err
			}
			all = append(all, list...)
		}
		known := make([]bool, len(all))
		if c.Answered != nil {
			keys := make([]answers.Ask, len(all))
			for i := range all {
				keys[i] = all[i].ask
			}
			var err error
			if known, err = c.Answered(ctx, keys); err != nil {
				return err
			}
		}
		n := c.Teachers[id]
		for i := range all {
			n.add(&all[i], known[i])
			if !known[i] && all[i].request != nil {
				n.CachedBytes += c.cached(id, &all[i])
			}
		}
		c.Teachers[id] = n
	}
	return nil
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
