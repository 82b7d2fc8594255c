package activities

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

const (
	// partitions is how many parts the prompts are sorted in, by the first
	// byte of their id. One part is in memory at a time: 40,000 prompts of ten
	// million.
	partitions = 256
	// spillBytes bounds the prompts that are held before they go to disk.
	spillBytes = 48 << 20
	// ShardTasks is how many tasks one refinement takes.
	ShardTasks = 512
	// BatchTasks is how many tasks one ask activity takes, with one sample.
	BatchTasks = 64
	// shownBadRows is how many bad rows an error spells out.
	shownBadRows = 5
)

// A Plan says which tasks there are, who is asked what, and in which pieces.
// It is the same for the same recipe and sources.
type Plan struct {
	Dataset    string  `json:"dataset"`
	Cells      []Cell  `json:"cells"`
	Shards     []Shard `json:"shards"` // in the order that they are asked and refined in
	Tasks      int64   `json:"tasks"`
	Prompts    int64   `json:"prompts"`    // distinct
	Duplicates int64   `json:"duplicates"` // source rows that another row had said already
	Conflicts  int64   `json:"conflicts"`  // duplicates with another gold answer; the first row's is kept
	BadRows    int64   `json:"bad_rows"`
	Samples    int     `json:"samples"`
	BatchTasks int     `json:"batch_tasks"`
	// BadRowsSeen spells out the first skipped rows.
	BadRowsSeen []string `json:"bad_rows_seen,omitempty"`
}

// A Cell is the tasks of one domain and effort that go to the same teachers.
type Cell struct {
	Domain   string   `json:"domain"`
	Effort   string   `json:"effort"`
	Teachers []string `json:"teachers"`
	Why      string   `json:"why"`
	Tasks    int64    `json:"tasks"`
	shards   int
}

// A Shard is up to ShardTasks tasks of a cell, sorted by task id.
type Shard struct {
	Cell  int    `json:"cell"`
	Seq   int    `json:"seq"` // within the cell
	Tasks int    `json:"tasks"`
	Key   string `json:"key,omitempty"` // of its tasks in the store
}

// A ShardSink takes the tasks of a shard and says where they were put.
type ShardSink func(ctx context.Context, shard Shard, tasks []datasets.Task) (Shard, error)

// A planner turns the rows of prompt files into tasks: exact duplicates merged,
// each with its split and its route, sorted by prompt id within a cell.
type planner struct {
	recipe *recipe.Recipe
	sink   ShardSink
	dir    string // for what does not fit in memory
	files  sources.Options
	beat   func(string) // says that work goes on
	sample int          // tasks of a sample; 0: all

	plan  *Plan
	parts [partitions]partition
	held  int64 // bytes of the items in memory
	seq   int64
	cells map[string]int
	open  [][]datasets.Task // by cell, the shard that is being filled
}

type partition struct {
	items []plannedItem
	file  *os.File
	out   *bufio.Writer
}

// plannedItem is a row's task with its place in the sources' order.
type plannedItem struct {
	Seq      int64        `json:"s"`
	PromptID string       `json:"p"`
	Item     sources.Item `json:"i"`
}

// MakePlan reads the prompt files of every source and plans their tasks. Bad
// rows above a source's limit are an error that spells the first ones out.
func MakePlan(ctx context.Context, r *recipe.Recipe, files [][]sources.File, options sources.Options, dir string, sink ShardSink, beat func(string)) (*Plan, error) {
	p := newPlanner(r, options, dir, sink, beat)
	defer p.close()
	return p.make(ctx, files)
}

// MakeSample is MakePlan for n tasks, taken from all cells in turn.
func MakeSample(ctx context.Context, n int, r *recipe.Recipe, files [][]sources.File, options sources.Options, dir string, sink ShardSink, beat func(string)) (*Plan, error) {
	p := newPlanner(r, options, dir, sink, beat)
	p.sample = n
	defer p.close()
	return p.make(ctx, files)
}

func newPlanner(r *recipe.Recipe, options sources.Options, dir string, sink ShardSink, beat func(string)) *planner {
	return &planner{
		recipe: r, sink: sink, dir: dir, files: options, beat: beat, cells: map[string]int{},
		plan: &Plan{Dataset: r.Name, Samples: r.Ask.Samples.Max, BatchTasks: max(1, BatchTasks/r.Ask.Samples.Max)},
	}
}

func (p *planner) make(ctx context.Context, files [][]sources.File) (*Plan, error) {
	for i := range p.recipe.Prompts {
		if err := p.read(ctx, i, files[i]); err != nil {
			return nil, err
		}
	}
	if p.seq == 0 {
		return nil, badSource("no prompts: %s hold no rows", describePaths(p.recipe))
	}
	for i := range p.parts {
		if err := p.expand(ctx, &p.parts[i]); err != nil {
			return nil, err
		}
	}
	if p.sample > 0 {
		p.cutToSample()
	}
	for cell := range p.open {
		if err := p.emit(ctx, cell); err != nil {
			return nil, err
		}
	}
	p.interleave()
	return p.plan, nil
}

// cutToSample keeps as many tasks as the sample has, from all cells in turn.
func (p *planner) cutToSample() {
	keep := make([]int, len(p.open))
	left := p.sample
	for more := true; more && left > 0; {
		more = false
		for cell := range p.open {
			if left > 0 && keep[cell] < len(p.open[cell]) {
				keep[cell]++
				left--
				more = true
			}
		}
	}
	p.plan.Tasks = 0
	for cell, n := range keep {
		p.open[cell] = p.open[cell][:n]
		p.plan.Cells[cell].Tasks = int64(n)
		p.plan.Tasks += int64(n)
	}
}

func describePaths(r *recipe.Recipe) string {
	var paths []string
	for i := range r.Prompts {
		paths = append(paths, r.Prompts[i].Path)
	}
	return strings.Join(paths, ", ")
}

// read takes the rows of one source, up to its limit.
func (p *planner) read(ctx context.Context, index int, files []sources.File) error {
	src := &p.recipe.Prompts[index]
	mapper, err := sources.NewMapper(src)
	if err != nil {
		return invalidRecipe("prompts[%d]: %v", index, err)
	}
	var rows, bad int64
	var shown []string
	for _, f := range files {
		for row, err := range sources.Rows(ctx, f, p.files) {
			var items []sources.Item
			if err == nil {
				items, err = mapper.Items(row)
			}
			var rowError *sources.RowError
			switch {
			case errors.As(err, &rowError):
				if bad++; len(shown) < shownBadRows {
					shown = append(shown, rowError.Error())
				}
				if bad > int64(src.BadRows) && len(shown) >= shownBadRows {
					return p.tooManyBad(src, bad, shown, true)
				}
			case err != nil:
				return fmt.Errorf("read %s: %w", f.Name, err)
			default:
				if err := p.add(items); err != nil {
					return err
				}
			}
			rows++
			if rows%4096 == 0 {
				p.beat(fmt.Sprintf("read %d rows of %s", rows, f.Name))
			}
			if src.Limit > 0 && rows-bad >= int64(src.Limit) {
				break
			}
		}
		if src.Limit > 0 && rows-bad >= int64(src.Limit) {
			break
		}
	}
	if bad > int64(src.BadRows) {
		return p.tooManyBad(src, bad, shown, false)
	}
	p.plan.BadRows += bad
	p.plan.BadRowsSeen = append(p.plan.BadRowsSeen, shown...)
	return nil
}

func (p *planner) tooManyBad(src *recipe.PromptSource, bad int64, shown []string, more bool) error {
	count := fmt.Sprint(bad)
	if more {
		count = "at least " + count
	}
	return badSource("%s: %s bad row(s), and bad_rows allows %d; correct them or raise bad_rows:\n  %s",
		src.Path, count, src.BadRows, strings.Join(shown, "\n  "))
}

func (p *planner) add(items []sources.Item) error {
	for _, item := range items {
		id, err := item.Prompt.ID()
		if err != nil {
			return badSource("%s: %v", item.Where, err)
		}
		part := &p.parts[hexByte(id)]
		part.items = append(part.items, plannedItem{Seq: p.seq, PromptID: id, Item: item})
		p.seq++
		p.held += int64(itemBytes(&item))
	}
	if p.held > spillBytes {
		return p.spill()
	}
	return nil
}

// itemBytes is about what an item holds in memory.
func itemBytes(item *sources.Item) int {
	n := 400 + len(item.Prompt.System) + len(item.Prompt.Tools) + len(item.Meta)
	for _, m := range item.Prompt.Messages {
		if m.Content != nil {
			n += len(*m.Content)
		}
	}
	for _, s := range []*string{item.Gold, item.Tests} {
		if s != nil {
			n += len(*s)
		}
	}
	return n
}

func hexByte(id string) int {
	nibble := func(c byte) int {
		if c >= 'a' {
			return int(c-'a') + 10
		}
		return int(c - '0')
	}
	return nibble(id[0])<<4 | nibble(id[1])
}

// spill moves what is in memory to the partitions' files.
func (p *planner) spill() error {
	for i := range p.parts {
		part := &p.parts[i]
		if len(part.items) == 0 {
			continue
		}
		if part.file == nil {
			f, err := os.Create(filepath.Join(p.dir, fmt.Sprintf("prompts-%02x", i)))
			if err != nil {
				return err
			}
			part.file, part.out = f, bufio.NewWriterSize(f, 1<<14)
		}
		enc := json.NewEncoder(part.out)
		for j := range part.items {
			if err := enc.Encode(&part.items[j]); err != nil {
				return err
			}
		}
		part.items = nil
	}
	p.held = 0
	return nil
}

func (p *planner) close() {
	for i := range p.parts {
		if f := p.parts[i].file; f != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}
}

// load brings a partition's spilled items back, and sorts all of them.
func (part *partition) load() error {
	if part.file != nil {
		if err := part.out.Flush(); err != nil {
			return err
		}
		if _, err := part.file.Seek(0, io.SeekStart); err != nil {
			return err
		}
		dec := json.NewDecoder(bufio.NewReaderSize(part.file, 1<<20))
		for {
			var item plannedItem
			if err := dec.Decode(&item); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return fmt.Errorf("read back planned prompts: %w", err)
			}
			part.items = append(part.items, item)
		}
	}
	slices.SortFunc(part.items, func(a, b plannedItem) int {
		return cmp.Or(strings.Compare(a.PromptID, b.PromptID),
			strings.Compare(a.Item.Domain, b.Item.Domain), strings.Compare(a.Item.Effort, b.Item.Effort),
			cmp.Compare(a.Seq, b.Seq))
	})
	return nil
}

// expand makes the tasks of a partition and hands them to their cells.
func (p *planner) expand(ctx context.Context, part *partition) error {
	if err := part.load(); err != nil {
		return err
	}
	items := part.items
	part.items = nil
	for len(items) > 0 {
		n := 1
		for n < len(items) && items[n].PromptID == items[0].PromptID {
			n++
		}
		if err := p.expandPrompt(ctx, items[:n]); err != nil {
			return err
		}
		items = items[n:]
	}
	return ctx.Err()
}

// expandPrompt makes the tasks of one prompt. They share the split of the
// prompt's first row.
func (p *planner) expandPrompt(ctx context.Context, items []plannedItem) error {
	p.plan.Prompts++
	first := slices.MinFunc(items, func(a, b plannedItem) int { return cmp.Compare(a.Seq, b.Seq) })
	split := datasets.Assign(p.recipe.Output.Splits, p.recipe.Output.Seed, first.Item.Group, first.PromptID)
	for len(items) > 0 {
		head := &items[0].Item
		n := 1
		for n < len(items) && items[n].Item.Domain == head.Domain && items[n].Item.Effort == head.Effort {
			p.plan.Duplicates++
			if !sameText(items[n].Item.Gold, head.Gold) {
				p.plan.Conflicts++
			}
			n++
		}
		if err := p.addTask(ctx, datasets.Task{
			TaskID:   datasets.TaskID(items[0].PromptID, head.Domain, head.Effort),
			PromptID: items[0].PromptID, Domain: head.Domain, Effort: head.Effort,
			Prompt: head.Prompt, Gold: head.Gold, Tests: head.Tests, Group: head.Group, Meta: head.Meta,
			Split: split, Source: head.Where, Copies: int64(n),
		}); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

func sameText(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

func (p *planner) addTask(ctx context.Context, t datasets.Task) error {
	t.Route, t.RouteWhy = p.recipe.RouteFor(t.Domain, t.Effort)
	if len(t.Route) == 0 {
		return badSource("%s: no teacher serves domain %q at effort %q; add it to a teacher's serves, or leave serves out to serve all", t.Source, t.Domain, t.Effort)
	}
	key := t.Domain + "\x00" + t.Effort + "\x00" + strings.Join(t.Route, "\x00")
	cell, ok := p.cells[key]
	if !ok {
		cell = len(p.plan.Cells)
		p.cells[key] = cell
		p.plan.Cells = append(p.plan.Cells, Cell{Domain: t.Domain, Effort: t.Effort, Teachers: t.Route, Why: t.RouteWhy})
		p.open = append(p.open, nil)
	}
	if p.sample > 0 && len(p.open[cell]) >= p.sample {
		return nil
	}
	p.plan.Tasks++
	p.plan.Cells[cell].Tasks++
	if p.open[cell] = append(p.open[cell], t); len(p.open[cell]) == ShardTasks {
		return p.emit(ctx, cell)
	}
	return nil
}

// emit hands a cell's open shard to the sink.
func (p *planner) emit(ctx context.Context, cell int) error {
	tasks := p.open[cell]
	if len(tasks) == 0 {
		return nil
	}
	c := &p.plan.Cells[cell]
	shard, err := p.sink(ctx, Shard{Cell: cell, Seq: c.shards, Tasks: len(tasks)}, tasks)
	if err != nil {
		return err
	}
	c.shards++
	p.plan.Shards = append(p.plan.Shards, shard)
	p.open[cell] = tasks[:0:0]
	p.beat(fmt.Sprintf("planned %d tasks", p.plan.Tasks))
	return nil
}

// interleave orders the shards so that all cells move forward together: a
// shard comes where its share of its cell is done.
func (p *planner) interleave() {
	at := func(s Shard) float64 { return (float64(s.Seq) + 0.5) / float64(p.plan.Cells[s.Cell].shards) }
	slices.SortStableFunc(p.plan.Shards, func(a, b Shard) int {
		return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(a.Cell, b.Cell))
	})
}

// A batch is the part of a shard that one ask activity takes.
type batch struct {
	shard      int // index in Plan.Shards
	start, end int // tasks within the shard
	through    int // shards below are done once this batch and all before it are
}

// batches lists a teacher's batches, in the order of the shards.
func (p *Plan) batches(teacher string) []batch {
	var out []batch
	for i, s := range p.Shards {
		if !slices.Contains(p.Cells[s.Cell].Teachers, teacher) {
			continue
		}
		for start := 0; start < s.Tasks; start += p.BatchTasks {
			out = append(out, batch{shard: i, start: start, end: min(start+p.BatchTasks, s.Tasks)})
		}
	}
	for i := range out {
		if out[i].through = len(p.Shards); i+1 < len(out) {
			out[i].through = out[i+1].shard
		}
	}
	return out
}

// asks is how many asks go to a teacher.
func (p *Plan) asks(teacher string) int64 {
	var n int64
	for _, c := range p.Cells {
		if slices.Contains(c.Teachers, teacher) {
			n += c.Tasks * int64(p.Samples)
		}
	}
	return n
}
