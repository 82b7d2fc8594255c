package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

const (
	// ShardTasks is how many tasks one refinement takes.
	ShardTasks = 1024
	// shardMost ends a shard of large prompts before that: batches hold the
	// requests of one, and a worker has several batches in hand.
	shardMost = 4 << 20
	// BatchAsks is how many asks one activity takes. For a teacher that is asked
	// many at once it is as many as sixteen rounds of them, so that a fast
	// endpoint does not wait for the bookkeeping of small batches; but no more
	// than a part of all that it is asked, so that workers share them.
	BatchAsks     = 64
	batchRounds   = 16
	batchesOfAll  = 8
	mostBatchAsks = ShardTasks
	// shownBadRows is how many bad rows an error spells out.
	shownBadRows = 5
	// openBytes bounds the tasks of all shards that are being filled.
	openBytes = 32 << 20
	// maxCells bounds the pairs of domain and effort: each costs a shard at
	// least, and a reader when the tables are written.
	maxCells = 2000
)

// A Plan says which tasks there are, who is asked what, and in which pieces.
// It is the same for the same recipe and sources, but for what is asked anew.
type Plan struct {
	Dataset    string  `json:"dataset"`
	Cells      []Cell  `json:"cells"`
	Shards     []Shard `json:"shards"` // in the order that they are asked and refined in
	Tasks      int64   `json:"tasks"`
	Prompts    int64   `json:"prompts"`          // distinct
	Purged     int64   `json:"purged,omitempty"` // tasks of rows whose prompt was purged from the dataset
	Duplicates int64   `json:"duplicates"`       // source rows that another row had said already
	Conflicts  int64   `json:"conflicts"`        // duplicates with another gold answer; the first row's is kept
	BadRows    int64   `json:"bad_rows"`
	Samples    int     `json:"samples"` // of each task and teacher, at least
	// BatchTasks is how many tasks one ask activity takes, by teacher.
	BatchTasks map[string]int `json:"batch_tasks"`
	// Anew is what is asked anew, by teacher.
	Anew map[string]Anew `json:"anew,omitempty"`
	// BadRowsSeen spells out the first skipped rows.
	BadRowsSeen []string `json:"bad_rows_seen,omitempty"`
	// Filtered is what the filters of prompts found; nil where there are none.
	Filtered *datasets.Filtered `json:"filtered,omitempty"`
}

// A Cell is the tasks of one domain and effort that go to the same teachers.
type Cell struct {
	Domain   string   `json:"domain"`
	Effort   string   `json:"effort"`
	Teachers []string `json:"teachers"`
	Fallback []string `json:"fallback,omitempty"` // who is asked where those fail, in order
	Why      string   `json:"why"`
	Tasks    int64    `json:"tasks"`
	// Population counts the tasks of the cell that a sample is taken of; 0 where
	// all are.
	Population int64 `json:"population,omitempty"`
	shards     int
}

// A Shard is up to ShardTasks tasks of a cell in the order in which they are
// asked: by task id through all such shards of the cell, or where tasks share a
// group or the beginning of their prompts, beside each other.
type Shard struct {
	Cell  int    `json:"cell"`
	Seq   int    `json:"seq"` // within the cell
	Tasks int    `json:"tasks"`
	Key   string `json:"key,omitempty"` // of its tasks in the store
	// Shared says how much each task has in common with the one before it, in
	// links of their chains; only of shards that are ordered by that.
	Shared []byte `json:"shared,omitempty"`
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
	// findings are what the filters of prompts found; nil where there are none.
	findings FindingSource
	// purged are the prompts that were purged from the dataset, by
	// catalog.PromptDigest: they are as if their rows were not there.
	purged map[string]bool

	plan    *Plan
	parts   partitions
	source  int   // that is being read
	rows    int64 // that hold prompts
	seq     int64 // tasks of them
	groups  groups
	links   sightings      // of groups and beginnings
	grouped taskSorter     // tasks that share one of them
	found   *findingReader // beside the partitions
	cells   map[string]int
	open    []openShard // by cell
	held    int64       // bytes of the open shards
	most    int64       // of them
}

// An openShard is being filled.
type openShard struct {
	tasks []datasets.Task
	keys  []string // order keys, of grouped tasks
	bytes int64
}

func newPlanner(r *recipe.Recipe, options sources.Options, dir string, sink ShardSink, beat func(string)) *planner {
	return &planner{
		recipe: r, sink: sink, dir: dir, files: options, beat: beat, cells: map[string]int{}, groups: groups{},
		parts: partitions{dir: dir, most: spillBytes}, grouped: taskSorter{dir: dir}, most: openBytes,
		plan: &Plan{Dataset: r.Name, Samples: samplingOf(r).Least},
	}
}

// close removes what is on the disk.
func (p *planner) close() {
	p.parts.close()
	p.grouped.close()
}

// sizeBatches sizes the batches of each teacher, once all tasks are known.
func (p *Plan) sizeBatches(r *recipe.Recipe) {
	p.BatchTasks = map[string]int{}
	for i := range r.Teachers {
		t := &r.Teachers[i]
		asks := mostBatchAsks // recorded answers are only looked up
		if t.API != recipe.APIRecorded {
			part := int(min(p.asks(t.ID)/batchesOfAll, mostBatchAsks))
			asks = min(max(min(batchRounds*t.Limits.AtOnce(), part), 2*t.Limits.AtOnce(), BatchAsks), mostBatchAsks)
		}
		p.BatchTasks[t.ID] = max(1, asks/p.Samples)
	}
}

func (p *planner) make(ctx context.Context, files [][]sources.File) (*Plan, error) {
	p.grouped.most = p.parts.most
	if err := p.readAll(ctx, files); err != nil {
		return nil, err
	}
	if err := p.linkGroups(ctx); err != nil {
		return nil, err
	}
	found, err := p.openFindings(ctx)
	if err != nil {
		return nil, err
	}
	defer found.close()
	p.found = found
	for i := range p.parts.list {
		if err := p.expand(ctx, &p.parts.list[i]); err != nil {
			return nil, err
		}
	}
	if p.sample > 0 {
		p.cutToSample()
	}
	if err := p.emitAll(ctx); err != nil {
		return nil, err
	}
	if err := p.placeGrouped(ctx); err != nil {
		return nil, err
	}
	p.interleave()
	p.plan.sizeBatches(p.recipe)
	return p.plan, nil
}

// readAll reads the prompt files of every source.
func (p *planner) readAll(ctx context.Context, files [][]sources.File) error {
	for i := range p.recipe.Prompts {
		if err := p.read(ctx, i, files[i]); err != nil {
			return err
		}
	}
	if p.seq == 0 {
		return badSource("no prompts: %s hold no rows; put rows into them, or name other files under prompts[].path", describePaths(p.recipe))
	}
	return nil
}

// placeGrouped puts the tasks that share something into shards of their own,
// once all are known.
func (p *planner) placeGrouped(ctx context.Context) error {
	tasks, err := p.grouped.sorted()
	if err != nil {
		return err
	}
	for item, err := range tasks {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = p.place(ctx, item.Task, item.Key)
		}
		if err != nil {
			return err
		}
	}
	return p.emitAll(ctx)
}

// cutToSample keeps as many tasks as the sample has, from all cells in turn.
func (p *planner) cutToSample() {
	keep := make([]int, len(p.open))
	left := p.sample
	for more := true; more && left > 0; {
		more = false
		for cell := range p.open {
			if left > 0 && keep[cell] < len(p.open[cell].tasks) {
				keep[cell]++
				left--
				more = true
			}
		}
	}
	p.plan.Tasks = 0
	for cell, n := range keep {
		p.open[cell].tasks = p.open[cell].tasks[:n]
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
	p.source = index
	src := &p.recipe.Prompts[index]
	mapper, err := sources.NewMapper(src)
	if err != nil {
		return invalidRecipe("prompts[%d]: %v", index, err)
	}
	var rows, bad int64
	var shown []string
	for _, f := range files {
		of := mapper.With(ctx, f, p.files.Images)
		for row, err := range sources.Rows(ctx, f, p.files) {
			var items []sources.Item
			if err == nil {
				items, err = of.Items(row)
			}
			var rowError *sources.RowError
			var fileError *sources.FileError
			switch {
			case errors.As(err, &rowError):
				if bad++; len(shown) < shownBadRows {
					shown = append(shown, rowError.Error())
				}
				if bad > int64(src.BadRows) && len(shown) >= shownBadRows {
					return p.tooManyBad(src, bad, shown, true)
				}
			case errors.As(err, &fileError):
				return badSource("prompts[%d].path: %v", index, err)
			case err != nil:
				return err
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
	last := ""
	for _, item := range items {
		id, err := item.Prompt.ID()
		if err != nil {
			return badSource("%s: %v", item.Where, err)
		}
		if item.Group != "" {
			p.groups.seen = true
		}
		if p.purged[catalog.PromptDigest(id)] {
			p.plan.Purged++
			continue
		}
		if id != last { // a row's tasks share its prompt
			p.noteLinks(&item)
			last = id
		}
		if err := p.parts.add(plannedItem{Row: p.rows, Seq: p.seq, Source: p.source, PromptID: id, Item: item}); err != nil {
			return err
		}
		p.seq++
	}
	p.rows++
	return nil
}

// linkGroups joins the groups that share a prompt.
func (p *planner) linkGroups(ctx context.Context) error {
	if !p.groups.seen {
		return nil
	}
	found, err := p.openFindings(ctx)
	if err != nil {
		return err
	}
	defer found.close()
	for i := range p.parts.list {
		of := map[string]string{} // a group of each prompt of this part
		err := p.parts.list[i].each(func(item *plannedItem) error {
			if item.Item.Group == "" {
				return nil
			}
			if g, ok := of[item.PromptID]; ok {
				p.groups.join(g, item.Item.Group)
			} else {
				of[item.PromptID] = item.Item.Group
			}
			return nil
		})
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		if err := p.linkClusters(found, of); err != nil {
			return err
		}
	}
	return nil
}

// expand makes the tasks of a partition and hands them to their cells.
func (p *planner) expand(ctx context.Context, part *partition) error {
	items, err := part.take()
	if err != nil {
		return err
	}
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

// expandPrompt makes the tasks of one prompt. They share a split, which they
// also share with all other prompts of their groups.
func (p *planner) expandPrompt(ctx context.Context, items []plannedItem) error {
	p.plan.Prompts++
	group := ""
	for i := range items {
		if g := items[i].Item.Group; g != "" {
			group = g
			break
		}
	}
	finding, err := p.found.of(items[0].PromptID)
	if err != nil {
		return err
	}
	groupKey, promptKey := p.groups.splitKeys(items[0].PromptID, group, finding.cluster())
	split := datasets.Assign(p.recipe.Output.Splits, p.recipe.Output.Seed, groupKey, promptKey)
	p.countDuplicates(items)
	for len(items) > 0 {
		head := &items[0].Item
		n := 1
		for n < len(items) && items[n].Item.Domain == head.Domain && items[n].Item.Effort == head.Effort {
			n++
		}
		task := datasets.Task{
			TaskID:   datasets.TaskID(items[0].PromptID, head.Domain, head.Effort),
			PromptID: items[0].PromptID, Domain: head.Domain, Effort: head.Effort,
			Prompt: head.Prompt, Gold: head.Gold, Tests: head.Tests, Group: head.Group, Meta: head.Meta,
			Split: split, Source: head.Where, Copies: int64(n),
		}
		if finding != nil {
			if task.Findings, err = taskFindings(p.recipe, finding, &task); err != nil {
				return err
			}
		}
		if err := p.addTask(ctx, task); err != nil {
			return err
		}
		items = items[n:]
	}
	return nil
}

// countDuplicates counts the rows of a prompt of which no task came first, and
// of these the ones that give another gold answer. items are sorted by domain,
// effort and row.
func (p *planner) countDuplicates(items []plannedItem) {
	if len(items) == 1 {
		return
	}
	const (
		said = 1 << iota
		differs
		first
	)
	rows := map[int64]int{}
	head := &items[0]
	for i := range items {
		it := &items[i]
		if i == 0 || it.Item.Domain != head.Item.Domain || it.Item.Effort != head.Item.Effort {
			head = it
			rows[it.Row] |= first
			continue
		}
		rows[it.Row] |= said
		if !sameText(it.Item.Gold, head.Item.Gold) {
			rows[it.Row] |= differs
		}
	}
	for _, row := range rows {
		if row&first == 0 {
			p.plan.Duplicates++
		}
		if row&differs != 0 {
			p.plan.Conflicts++
		}
	}
}

func sameText(a, b *string) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// addTask routes a task and gives it to its cell, now or, where it shares
// something with others, beside them.
func (p *planner) addTask(ctx context.Context, t datasets.Task) error {
	if err := p.route(&t); err != nil {
		return err
	}
	if t.Dropped() {
		t.Fallback = nil
		return p.drop(ctx, t)
	}
	if len(t.Route) == 0 {
		return p.nobody(&t)
	}
	if p.sample == 0 {
		if key := p.orderKey(&t); key != "" {
			return p.grouped.add(key, t)
		}
	}
	return p.place(ctx, t, "")
}

// place puts a task into the open shard of its cell.
func (p *planner) place(ctx context.Context, t datasets.Task, order string) error {
	key := t.Domain + "\x00" + t.Effort + "\x00" + routeKey(&t)
	cell, ok := p.cells[key]
	if !ok {
		cell = len(p.plan.Cells)
		if cell == maxCells {
			return badSource("%s: more than %d pairs of domain and effort; a domain is what teachers are good at: name a column with fewer values, or keep this one under fields.meta", t.Source, maxCells)
		}
		p.cells[key] = cell
		p.plan.Cells = append(p.plan.Cells, Cell{Domain: t.Domain, Effort: t.Effort, Teachers: t.Route, Fallback: t.Fallback, Why: t.RouteWhy})
		p.open = append(p.open, openShard{})
	}
	open := &p.open[cell]
	if p.sample > 0 {
		p.plan.Cells[cell].Population++
	}
	if p.sample > 0 && len(open.tasks) >= p.sample {
		return nil
	}
	p.plan.Tasks++
	p.plan.Filtered.Note(&t)
	p.plan.Cells[cell].Tasks++
	size := taskBytes(&t)
	open.tasks = append(open.tasks, t)
	if order != "" {
		open.keys = append(open.keys, order)
	}
	open.bytes += size
	p.held += size
	if len(open.tasks) == ShardTasks || open.bytes > shardMost && p.sample == 0 {
		return p.emit(ctx, cell)
	}
	if p.held > p.most && p.sample == 0 {
		return p.emitLargest(ctx)
	}
	return nil
}

// emitLargest hands over the open shards that hold at least half as much as
// the largest: large prompts and many cells make small shards, not more memory.
func (p *planner) emitLargest(ctx context.Context) error {
	var most int64
	for i := range p.open {
		most = max(most, p.open[i].bytes)
	}
	for i := range p.open {
		if 2*p.open[i].bytes < most {
			continue
		}
		if err := p.emit(ctx, i); err != nil {
			return err
		}
	}
	return nil
}

// emitAll hands over every open shard.
func (p *planner) emitAll(ctx context.Context) error {
	for cell := range p.open {
		if err := p.emit(ctx, cell); err != nil {
			return err
		}
	}
	return nil
}

// emit hands a cell's open shard to the sink.
func (p *planner) emit(ctx context.Context, cell int) error {
	tasks := p.open[cell].tasks
	if len(tasks) == 0 {
		return nil
	}
	c := &p.plan.Cells[cell]
	shard, err := p.sink(ctx, Shard{Cell: cell, Seq: c.shards, Tasks: len(tasks), Shared: sharedOf(p.open[cell].keys)}, tasks)
	if err != nil {
		return err
	}
	c.shards++
	p.plan.Shards = append(p.plan.Shards, shard)
	p.held -= p.open[cell].bytes
	p.open[cell] = openShard{}
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
