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
	// Same is the first prompt that says the same to the word; Near the kept prompt
	// that says nearly the same. Either may be nil.
	Same *likePrompt `json:"same,omitempty"`
	Near *likePrompt `json:"near,omitempty"`
	// Cluster is the prompt id of the prompt that stands for the cluster which
	// this one belongs to, or "".
	Cluster string `json:"cluster,omitempty"`
	// Hits are the items that the prompt holds, by index of the step.
	Hits []stepHits `json:"hits,omitempty"`
}

// A likePrompt is another prompt that says the same.
type likePrompt struct {
	PromptID string  `json:"p"`
	Jaccard  float64 `json:"j"`
	// Efforts are those at which it is asked or another in its place, sorted. Only
	// at these a task has an equal.
	Efforts []string `json:"e"`
}

func (l *likePrompt) at(effort string) bool {
	return l != nil && slices.Contains(l.Efforts, effort)
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
	duplicateFindings(out, r, f, marks, task.Effort)
	if out.Status != "" {
		out.Flags = nil // the status says it
	}
	return out, nil
}

// duplicateFindings adds what equals of its prompt mean for a task that
// contamination leaves in.
func duplicateFindings(out *datasets.Findings, r *recipe.Recipe, f *promptFinding, marks stepMarks, effort string) {
	exactly := 1.0
	switch {
	case f.Near != nil:
		out.Jaccard = &f.Near.Jaccard
	case f.Same != nil:
		out.Jaccard = &exactly
	}
	if out.Status != "" {
		return
	}
	same, near := "", ""
	for i := range r.PromptFilter {
		switch step := &r.PromptFilter[i]; {
		case !marks.has(i):
		case step.Name == recipe.Duplicate && f.Same != nil:
			same = step.Action()
		case step.Name == recipe.NearDuplicate && f.Near != nil:
			near = step.Action()
		}
	}
	dropSame, dropNear := same == recipe.ActionDrop && f.Same.at(effort), near == recipe.ActionDrop && f.Near.at(effort)
	switch {
	case dropNear:
		out.Status, out.Of, out.Exact = datasets.StatusDuplicate, f.Near.PromptID, f.Same != nil
	case dropSame:
		out.Status, out.Of, out.Exact = datasets.StatusDuplicate, f.Same.PromptID, true
	case same != "":
		out.Flags = append(out.Flags, datasets.FlagDuplicate)
	case near != "":
		out.Flags = append(out.Flags, datasets.FlagNearDuplicate)
	}
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
	env := &recipe.Env{Domain: task.Domain, Effort: task.Effort, Group: task.Group, Prompt: task.Prompt.LastUser(), Meta: map[string]any{}}
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
	p.plan.Filtered = &datasets.Filtered{Warnings: found.warnings()}
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

// filteredNotes say in a report what the filters of prompts found.
func filteredNotes(f *datasets.Filtered) []string {
	if f == nil {
		return nil
	}
	out := []string{fmt.Sprintf("prompt_filter left out %d tasks before anybody was asked: %d duplicate, %d near-duplicate, %d contaminated; it marked %d duplicate, %d near-duplicate, %d contaminated",
		f.Dropped(), f.Duplicates, f.NearDuplicates, f.Contaminated,
		f.Flags[datasets.FlagDuplicate], f.Flags[datasets.FlagNearDuplicate], f.Flags[datasets.FlagContaminated])}
	for _, set := range slices.Sorted(maps.Keys(f.Sets)) {
		out = append(out, fmt.Sprintf("%d tasks hold an item of %s", f.Sets[set], set))
	}
	return append(out, f.Warnings...)
}
