package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// A promptFinding is what the filters of prompts found about one prompt. A
// prompt about which they found nothing has none.
type promptFinding struct {
	PromptID string `json:"p"`
	// Of is the prompt id of the kept prompt that this one says again; "" where it
	// is no duplicate.
	Of      string  `json:"of,omitempty"`
	Exact   bool    `json:"exact,omitempty"` // to the word
	Jaccard float64 `json:"j,omitempty"`
	// Efforts are those at which the kept prompt is asked, sorted.
	Efforts []string `json:"efforts,omitempty"`
	// Cluster is the prompt id of the prompt that stands for the cluster which
	// this one belongs to, or "".
	Cluster string `json:"cluster,omitempty"`
	// Hits are the items that the prompt holds, by index of the step.
	Hits []stepHits `json:"hits,omitempty"`
}

// stepHits are what one contamination step found in a prompt.
type stepHits struct {
	Step int                    `json:"step"`
	List []datasets.Contaminant `json:"list"`
}

// maxContaminants bounds the items that a row of the prompts table lists.
const maxContaminants = 8

// taskFindings is what a finding means for one task of its prompt: each step
// counts for the tasks that its condition matches. What contaminates is looked
// at first, wherever it stands in the recipe: an item of an evaluation set must
// not hide behind a duplicate, nor keep the place of one.
func taskFindings(r *recipe.Recipe, f *promptFinding, task *datasets.Task) (*datasets.Findings, error) {
	out := &datasets.Findings{Cluster: f.Cluster}
	marks, err := appliesTo(r, task)
	if err != nil {
		return nil, err
	}
	for _, hits := range f.Hits {
		if !marks.has(hits.Step) {
			continue
		}
		out.Contaminants = append(out.Contaminants, hits.List...)
		if worst := hits.List[0]; r.PromptFilter[hits.Step].Action() == recipe.ActionDrop && out.Status == "" {
			out.Status, out.Of = datasets.StatusDirty, worst.Set+"#"+worst.Item
		}
		if !slices.Contains(out.Flags, datasets.FlagContaminated) {
			out.Flags = append(out.Flags, datasets.FlagContaminated)
		}
	}
	out.Contaminants = bestContaminants(out.Contaminants)
	if f.Of != "" {
		out.Jaccard, out.Exact = &f.Jaccard, f.Exact
		if step, flag := duplicateStep(r, f, marks); step != nil && out.Status == "" {
			if step.Action() == recipe.ActionDrop && slices.Contains(f.Efforts, task.Effort) {
				out.Status, out.Of = datasets.StatusDuplicate, f.Of
			} else {
				out.Flags = append(out.Flags, flag)
			}
		}
	}
	if out.Status != "" {
		out.Flags = nil // the status says it
	}
	return out, nil
}

// duplicateStep is the step under which a task is a duplicate, and its flag; nil
// where none applies to the task.
func duplicateStep(r *recipe.Recipe, f *promptFinding, marks stepMarks) (*recipe.PromptStep, string) {
	for i := range r.PromptFilter {
		step := &r.PromptFilter[i]
		switch {
		case !marks.has(i):
		case step.Name == recipe.Duplicate && f.Exact:
			return step, datasets.FlagDuplicate
		case step.Name == recipe.NearDuplicate:
			return step, datasets.FlagNearDuplicate
		}
	}
	return nil, ""
}

// bestContaminants are the items with the largest share.
func bestContaminants(list []datasets.Contaminant) []datasets.Contaminant {
	slices.SortStableFunc(list, func(a, b datasets.Contaminant) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return 0
	})
	return list[:min(len(list), maxContaminants)]
}

// stepMarks are the steps of a recipe's prompt_filter that apply to a task, a
// bit each.
type stepMarks uint64

func (m stepMarks) has(step int) bool { return m>>step&1 == 1 }

// appliesTo tells which steps apply to a task.
func appliesTo(r *recipe.Recipe, task *datasets.Task) (stepMarks, error) {
	var marks stepMarks
	var env *recipe.Env
	for i := range r.PromptFilter {
		when := r.PromptFilter[i].When
		if when == nil {
			marks |= 1 << i
			continue
		}
		if env == nil {
			env = taskEnv(task)
		}
		ok, err := when.Match(*env)
		if err != nil {
			return 0, badSource("%s: prompt_filter[%d]: %v; write the condition so that it fits every row, such as get(meta, \"level\") == \"hard\"", task.Source, i, err)
		}
		if ok {
			marks |= 1 << i
		}
	}
	return marks, nil
}

// taskEnv is what a condition sees of a task.
func taskEnv(task *datasets.Task) *recipe.Env {
	env := &recipe.Env{Domain: task.Domain, Effort: task.Effort, Group: task.Group, Meta: map[string]any{}}
	if task.Gold != nil {
		env.Gold = *task.Gold
	}
	if task.Meta != "" {
		_ = json.Unmarshal([]byte(task.Meta), &env.Meta) // written by us; absent where it is not
	}
	return env
}

// found puts what the filters found into a row of the prompts table.
func found(row *datasets.PromptRow, f *datasets.Findings) {
	if f == nil {
		return
	}
	row.Flags, row.Cluster, row.Jaccard, row.ContaminatedBy = f.Flags, optional(f.Cluster), f.Jaccard, f.Contaminants
	if f.Status != "" {
		row.StatusOf = &f.Of
	}
}

// findingsOfRow is what found put into a row.
func findingsOfRow(row *datasets.PromptRow) *datasets.Findings {
	f := &datasets.Findings{Flags: row.Flags, Cluster: textOf(row.Cluster), Jaccard: row.Jaccard, Contaminants: row.ContaminatedBy}
	if row.Status == datasets.StatusDuplicate || row.Status == datasets.StatusDirty {
		f.Status, f.Of = row.Status, textOf(row.StatusOf)
	}
	if f.Status == "" && f.Cluster == "" && len(f.Flags) == 0 && len(f.Contaminants) == 0 {
		return nil
	}
	return f
}

// statusBefore is the status of a task as long as no teacher has answered.
func statusBefore(task *datasets.Task) string {
	if task.Dropped() {
		return task.Findings.Status
	}
	return datasets.StatusUnanswered
}

func clusterOf(task *datasets.Task) *string {
	if task.Findings == nil {
		return nil
	}
	return optional(task.Findings.Cluster)
}

// Filtered counts what the filters of prompts did with the tasks of a plan.
type Filtered struct {
	// Tasks that were left out, so that no teacher is asked.
	Duplicates     int64 `json:"duplicates" jsonschema:"description=tasks left out because an earlier prompt says the same"`
	NearDuplicates int64 `json:"near_duplicates" jsonschema:"description=tasks left out because an earlier prompt says nearly the same"`
	Contaminated   int64 `json:"contaminated" jsonschema:"description=tasks left out because their prompt holds an item of an evaluation set"`
	// Flags counts those that were found and are asked nevertheless, by flag.
	Flags map[string]int64 `json:"flags,omitempty" jsonschema:"description=tasks that were found and are asked nevertheless; by flag"`
	// Sets counts, by evaluation set, the tasks whose prompts hold an item of it.
	Sets map[string]int64 `json:"sets,omitempty" jsonschema:"description=tasks by evaluation set of which they hold an item"`
	// Warnings are alarms about what was found.
	Warnings []string `json:"warnings,omitempty" jsonschema:"description=what looks as if the filters found too much"`
}

// Dropped is how many tasks were left out.
func (f *Filtered) Dropped() int64 {
	if f == nil {
		return 0
	}
	return f.Duplicates + f.NearDuplicates + f.Contaminated
}

// note adds a task.
func (f *Filtered) note(task *datasets.Task) {
	found := task.Findings
	if f == nil || found == nil {
		return
	}
	switch {
	case found.Status == datasets.StatusDirty:
		f.Contaminated++
	case found.Status == datasets.StatusDuplicate && found.Exact:
		f.Duplicates++
	case found.Status == datasets.StatusDuplicate:
		f.NearDuplicates++
	}
	for _, flag := range found.Flags {
		if f.Flags == nil {
			f.Flags = map[string]int64{}
		}
		f.Flags[flag]++
	}
	seen := map[string]bool{}
	for i := range found.Contaminants {
		if set := found.Contaminants[i].Set; !seen[set] && (f.Sets[set] > 0 || len(f.Sets) < mostSets) {
			seen[set] = true
			if f.Sets == nil {
				f.Sets = map[string]int64{}
			}
			f.Sets[set]++
		}
	}
}

// mostSets bounds the evaluation sets that are counted one by one.
const mostSets = 100

// A findingReader walks through findings beside prompts, both in the order of
// prompt ids.
type findingReader struct {
	next func() (promptFinding, error, bool)
	stop func()
	head *promptFinding
}

// A FindingSource yields what the filters of prompts found, in the order of
// prompt ids, and the alarms about it.
type FindingSource interface {
	findings(ctx context.Context) (iter.Seq2[promptFinding, error], error)
	warnings() []string
}

// openFindings opens the planner's findings; nil where it has none.
func (p *planner) openFindings(ctx context.Context) (*findingReader, error) {
	if p.findings == nil {
		return nil, nil
	}
	list, err := p.findings.findings(ctx)
	if err != nil {
		return nil, err
	}
	return readFindings(list), nil
}

func readFindings(list iter.Seq2[promptFinding, error]) *findingReader {
	next, stop := iter.Pull2(list)
	return &findingReader{next: next, stop: stop}
}

func (r *findingReader) close() {
	if r != nil {
		r.stop()
	}
}

// linkClusters joins the groups of prompts that are in one cluster. of holds a
// group of each prompt of a part that has one.
func (p *planner) linkClusters(found *findingReader, of map[string]string) error {
	if found == nil {
		return nil
	}
	for _, id := range slices.Sorted(maps.Keys(of)) {
		f, err := found.of(id)
		if err != nil {
			return err
		}
		if cluster := f.cluster(); cluster != "" {
			p.groups.join(of[id], clusterGroup(cluster))
		}
	}
	return nil
}

// cluster is the cluster of a finding, "" for none.
func (f *promptFinding) cluster() string {
	if f == nil {
		return ""
	}
	return f.Cluster
}

// of is the finding about a prompt; nil where there is none. Prompts are asked
// for in ascending order.
func (r *findingReader) of(promptID string) (*promptFinding, error) {
	if r == nil {
		return nil, nil
	}
	for r.head == nil || r.head.PromptID < promptID {
		f, err, ok := r.next()
		if err != nil {
			return nil, fmt.Errorf("read what the filters of prompts found: %w", err)
		}
		if !ok {
			return nil, nil
		}
		r.head = &f
	}
	if r.head.PromptID == promptID {
		return r.head, nil
	}
	return nil, nil
}

// clusterGroup names a cluster among groups. No group of a row is called so: it
// is no UTF-8, and it comes after every name that is.
func clusterGroup(cluster string) string { return "\xff" + cluster }

// splitKeys are the group and the prompt by which a prompt draws its split: all
// prompts of a cluster, and of the groups that meet in it, draw by the same.
func (g *groups) splitKeys(promptID, group, cluster string) (string, string) {
	if cluster == "" {
		if group == "" {
			return "", promptID
		}
		return g.root(group), promptID
	}
	root := g.root(clusterGroup(cluster))
	if root == clusterGroup(cluster) { // no group meets in it
		return "", cluster
	}
	return root, promptID
}

// filteredBy makes the planner heed what the filters found.
func (p *planner) filteredBy(found FindingSource) {
	p.findings = found
	p.plan.Filtered = &Filtered{Warnings: found.warnings()}
}

// drop places a task that no teacher is asked; a sample does without it.
func (p *planner) drop(ctx context.Context, t datasets.Task) error {
	t.Route, t.RouteWhy = []string{}, routeOfDropped(t.Findings.Status)
	if p.sample > 0 {
		return nil
	}
	return p.place(ctx, t, "")
}

// routeOfDropped says why a task has no route.
func routeOfDropped(status string) string { return "none: " + status }
