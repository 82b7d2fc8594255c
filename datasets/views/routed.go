package views

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// ViewPromptsRouted is the view of prompts for on-policy distillation: each
// with the one teacher that owns its domain and effort, which scores what the
// student writes.
const ViewPromptsRouted = "prompts_routed"

// teacherMapName is the file beside the view that says who the teachers are.
const teacherMapName = "teacher_map.json"

// Tags of Options.Tag: where trainers look for the teacher of a row.
const (
	TagDataset    = "dataset"     // ms-swift: --teacher_tag_key is dataset unless told otherwise
	TagAgentRef   = "agent_ref"   // NeMo Gym and NeMo-RL: a struct of type and name
	TagTeacherID  = "teacher_id"  // TRL: the key of teacher_server_urls
	TagDataSource = "data_source" // verl: distillation.teacher_key is data_source unless told otherwise
	TagMetadata   = "metadata"    // miles and slime: a struct with opd_teacher
)

// Tags are the further columns that Options.Tag knows.
func Tags() []string {
	return []string{TagAgentRef, TagDataSource, TagDataset, TagMetadata, TagTeacherID}
}

func init() {
	register(View{
		Name: ViewPromptsRouted, Summary: "on-policy: clean train prompts, each with the teacher that owns it",
		Reads: Prompts, Images: trlImages, Extra: []string{extraTag, extraOwner},
		Shape: routedShape, Check: checkRouting,
		Beside: []func(context.Context, sink, *plan, *catalog.Manifest, *about) error{writeTeacherMap},
	})
}

// A RoutedPrompt is a row of the view: a clean task of the train split.
type RoutedPrompt struct {
	Prompt []Message `json:"prompt" parquet:"prompt,list"`
	Tools  *string   `json:"tools" parquet:"tools,optional"`
	Domain string    `json:"domain" parquet:"domain,dict"`
	Effort string    `json:"effort" parquet:"effort,dict"`
	// Teacher owns tasks of this domain and effort; teacher_map.json says who
	// it is.
	Teacher string `json:"teacher" parquet:"teacher,dict"`
	// Gold is the task's gold answer and Tests are its tests, as JSON text, for
	// rewards beside the teacher's.
	Gold     *string `json:"gold" parquet:"gold,optional"`
	Tests    *string `json:"tests" parquet:"tests,optional"`
	TaskID   string  `json:"task_id" parquet:"task_id"`
	PromptID string  `json:"prompt_id" parquet:"prompt_id"`
}

// A datasetTagged is a RoutedPrompt with the teacher under dataset, too.
type datasetTagged struct {
	RoutedPrompt
	Dataset string `json:"dataset" parquet:"dataset,dict"`
}

// The rows with a column of images.
type (
	routedImages struct {
		RoutedPrompt
		ImageColumn
	}
	datasetImages struct {
		datasetTagged
		ImageColumn
	}
)

// An agentTagged is a RoutedPrompt with the teacher as an agent, too, and the
// prompt as NeMo Gym asks it.
type agentTagged struct {
	RoutedPrompt
	AgentRef              AgentRef       `json:"agent_ref" parquet:"agent_ref"`
	ResponsesCreateParams ResponsesInput `json:"responses_create_params" parquet:"responses_create_params"`
}

// An AgentRef names who answers, as NeMo Gym's rows do.
type AgentRef struct {
	Type string `json:"type" parquet:"type,dict"`
	Name string `json:"name" parquet:"name,dict"`
}

// agentType is the type of all agents that NeMo Gym routes to.
const agentType = "responses_api_agents"

const routedProse = "On-policy prompts: `prompt` is what the student is asked, and `teacher` the one teacher that owns its `domain` and `effort` and scores what the student writes. Only clean tasks of the train split are here: no test task, no duplicate, nothing contaminated. `teacher_map.json` says who the teachers are. `tools` and `tests` are JSON text."

func routedShape(o *Options) (Shape, error) {
	if o.Images == ImagesColumn {
		return routedWithImages(o)
	}
	switch o.Tag {
	case TagDataset:
		return withPlan(routedProse+" `dataset` repeats the teacher for trainers that look there.", func(p *plan, r *datasets.PromptRow) (datasetTagged, error) {
			out, err := p.routing.prompt(r)
			return datasetTagged{out, out.Teacher}, err
		}), nil
	case TagAgentRef:
		return withPlan(routedProse+" `agent_ref` repeats the teacher for trainers that look there.", func(p *plan, r *datasets.PromptRow) (agentTagged, error) {
			out, err := p.routing.prompt(r)
			if err != nil {
				return agentTagged{}, err
			}
			input, err := responsesInput(r)
			return agentTagged{out, AgentRef{agentType, out.Teacher}, input}, err
		}), nil
	}
	if shape, ok := routedForTrainers(o.Tag); ok {
		return shape, nil
	}
	return withPlan(routedProse, func(p *plan, r *datasets.PromptRow) (RoutedPrompt, error) { return p.routing.prompt(r) }), nil
}

// routedWithImages is the shape for prompts that show images, for the trainers
// that read them there.
func routedWithImages(o *Options) (Shape, error) {
	const prose = " `images` are those of the prompt, shown in its one turn of the user."
	switch o.Tag {
	case "":
		return withPlan(routedProse+prose, func(p *plan, r *datasets.PromptRow) (routedImages, error) {
			out, err := p.routing.prompt(r)
			return routedImages{out, imagesOf(r.Images)}, err
		}), nil
	case TagDataset:
		return withPlan(routedProse+prose+" `dataset` repeats the teacher for trainers that look there.", func(p *plan, r *datasets.PromptRow) (datasetImages, error) {
			out, err := p.routing.prompt(r)
			return datasetImages{datasetTagged{out, out.Teacher}, imagesOf(r.Images)}, err
		}), nil
	case TagTeacherID:
		return withPlan(routedProse+prose+" `teacher_id` repeats the teacher for trainers that look there.", func(p *plan, r *datasets.PromptRow) (teacherImages, error) {
			out, err := p.routing.prompt(r)
			return teacherImages{teacherTagged{out, out.Teacher}, imagesOf(r.Images)}, err
		}), nil
	}
	return Shape{}, fmt.Errorf("%w option: --images column does not go with --tag %s, whose readers show no images; leave the tag out, or --tag %s or %s", ErrUnknownView, o.Tag, TagDataset, TagTeacherID)
}

// routable reports whether a task belongs into the view.
func routable(r *datasets.PromptRow) bool {
	return r.Split == datasets.SplitTrain && r.Status == datasets.StatusClean
}

// prompt shapes one task. The routing was checked, so that its owner is known.
func (ro *routing) prompt(r *datasets.PromptRow) (RoutedPrompt, error) {
	if !routable(r) {
		return RoutedPrompt{}, errElsewhere
	}
	if len(r.Images) > 0 && !ro.images {
		return RoutedPrompt{}, of("task", r.TaskID, unfit("it has %s; --images column takes them", plural(len(r.Images), "image")))
	}
	if err := oneUser(r.Images, r.Messages); err != nil {
		return RoutedPrompt{}, of("task", r.TaskID, err)
	}
	owner := ro.owner[cell{r.Domain, r.Effort}]
	if owner == "" {
		return RoutedPrompt{}, fmt.Errorf("%w: task %s is of no cell that was looked at", catalog.ErrDamaged, r.TaskID)
	}
	prompt, err := turnsOf(r.Messages, messageOf[string], false)
	return RoutedPrompt{
		Prompt: prompt, Tools: r.Tools, Domain: r.Domain, Effort: r.Effort, Teacher: owner,
		Gold: r.Gold, Tests: r.Tests, TaskID: r.TaskID, PromptID: r.PromptID,
	}, err
}

// A cell is a domain at an effort.
type cell struct{ domain, effort string }

func (c cell) String() string { return c.domain + "/" + c.effort }

// A routing says who owns each cell, and how many tasks it has.
type routing struct {
	owner  map[cell]string
	tasks  map[cell]int64
	images bool // rows may show them
}

// cells are the cells with tasks, sorted.
func (ro *routing) cells() []cell {
	out := make([]cell, 0, len(ro.tasks))
	for c := range ro.tasks {
		out = append(out, c)
	}
	slices.SortFunc(out, func(a, b cell) int { return strings.Compare(a.String(), b.String()) })
	return out
}

// checkRouting finds the owner of every cell. It refuses where a cell has none
// or several, and names them all.
func checkRouting(ctx context.Context, cat *catalog.Catalog, m *catalog.Manifest, p *plan) error {
	asked := map[cell]map[string]bool{} // teachers that the cell's tasks went to at first hand
	ro := &routing{owner: map[cell]string{}, tasks: map[cell]int64{}, images: p.opt.Images == ImagesColumn}
	for row, err := range catalog.ReadTable[datasets.PromptRow](ctx, cat, m, datasets.TablePrompts) {
		if err != nil {
			return err
		}
		if !routable(&row) {
			continue
		}
		c := cell{row.Domain, row.Effort}
		ro.tasks[c]++
		if asked[c] == nil {
			asked[c] = map[string]bool{}
		}
		for _, id := range row.Route {
			asked[c][id] = true
		}
	}
	if err := knownOwners(m, p.opt.Owners); err != nil {
		return err
	}
	var faults []string
	for _, c := range ro.cells() {
		owners := ownersOf(m, c, asked[c], p.opt.Owners)
		switch len(owners) {
		case 0:
			faults = append(faults, fmt.Sprintf("nobody owns %s (%d tasks)", c, ro.tasks[c]))
		case 1:
			ro.owner[c] = owners[0]
		default:
			faults = append(faults, fmt.Sprintf("%s (%d tasks) has %d owners, %s", c, ro.tasks[c], len(owners), strings.Join(owners, " and ")))
		}
	}
	if len(faults) > 0 {
		return fmt.Errorf("%w: %s; on-policy training needs one teacher for each domain and effort: declare it in the recipe (serves) or name it here: --owner %s=TEACHER",
			ErrUnsupported, strings.Join(faults, "; "), firstFault(ro))
	}
	p.routing = ro
	return nil
}

// firstFault is the first cell without an owner, for a message.
func firstFault(ro *routing) string {
	for _, c := range ro.cells() {
		if ro.owner[c] == "" {
			return c.String()
		}
	}
	return "DOMAIN/EFFORT"
}

// knownOwners refuses owners that are no teachers of the version.
func knownOwners(m *catalog.Manifest, owners map[string]string) error {
	var ids []string
	for _, t := range m.Teachers {
		ids = append(ids, t.ID)
	}
	for _, of := range sortedKeys(owners) {
		if !slices.Contains(ids, owners[of]) {
			return fmt.Errorf("%w option: --owner %s=%s: the version has no such teacher; it has: %s", ErrUnknownView, of, owners[of], strings.Join(ids, ", "))
		}
	}
	return nil
}

// ownersOf are the teachers that own a cell: the one that the options name,
// else of those that its tasks were asked of the ones that declare it most
// closely, a domain at efforts before a domain before efforts before
// everything. Where its tasks were asked of nobody, only those count that
// declare its domain or effort.
func ownersOf(m *catalog.Manifest, c cell, asked map[string]bool, named map[string]string) []string {
	for _, of := range []string{c.String(), c.domain, "*"} {
		if id := named[of]; id != "" {
			return []string{id}
		}
	}
	best, owners := 0, []string(nil)
	for _, t := range m.Teachers {
		n := closeness(t.Serves, c)
		if len(asked) > 0 && !asked[t.ID] || len(asked) == 0 && n < 2 || n == 0 || n < best {
			continue
		}
		if n > best {
			best, owners = n, nil
		}
		owners = append(owners, t.ID)
	}
	if len(owners) == 0 && len(asked) == 1 { // a rule sent them to one that does not serve them
		owners = append(owners, sortedKeys(asked)...)
	}
	return owners
}

// closeness is how closely a teacher's serves name a cell: 4 as domain and
// effort, 3 as domain, 2 as effort, 1 by serving everything, 0 not at all.
func closeness(serves json.RawMessage, c cell) int {
	if len(serves) == 0 {
		return 1
	}
	best := 0
	for _, s := range servesOf(serves) {
		n := 1
		switch {
		case s.Domain == c.domain:
			n += 2
		case s.Domain != "":
			continue
		}
		switch {
		case slices.Contains(s.Effort, c.effort):
			n++
		case len(s.Effort) > 0:
			continue
		}
		best = max(best, n)
	}
	return best
}

// A serve is a domain at some efforts; "" and none are all.
type serve struct {
	Domain string   `json:"domain"`
	Effort []string `json:"effort"`
}

// servesOf reads what a manifest says that a teacher serves.
func servesOf(raw json.RawMessage) (list []serve) {
	if len(raw) > 0 && json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// A teacherMap is teacher_map.json: who scores the prompts of which cell.
type teacherMap struct {
	Format  int    `json:"teacher_map"`
	Dataset string `json:"dataset"`
	Version int64  `json:"version,omitempty"`
	Column  string `json:"column"` // that names the teacher of a row
	// Prompts are all of the view.
	Prompts  int64           `json:"prompts"`
	Teachers []mappedTeacher `json:"teachers"`
}

// A mappedTeacher is one teacher and the cells that it owns.
type mappedTeacher struct {
	Tag     string `json:"tag"` // what the column holds
	Model   string `json:"model"`
	Weights string `json:"weights,omitempty"` // repository of its weights
	// ScoreURL is a server that scores tokens with them.
	ScoreURL string `json:"score_url,omitempty"`
	// TokenizerSHA256 is the digest of its tokenizer, where the recipe states it.
	TokenizerSHA256 string       `json:"tokenizer_sha256,omitempty"`
	Identity        string       `json:"identity"`
	Epoch           int          `json:"epoch,omitempty"`
	Licence         string       `json:"licence,omitempty"`
	Training        string       `json:"training"`
	Cells           []mappedCell `json:"cells"`
}

type mappedCell struct {
	Domain  string `json:"domain"`
	Effort  string `json:"effort"`
	Prompts int64  `json:"prompts"`
}

// writeTeacherMap writes teacher_map.json beside the prompts. It holds no keys:
// the manifest has none.
func writeTeacherMap(ctx context.Context, s sink, p *plan, m *catalog.Manifest, a *about) error {
	column := "teacher"
	if p.opt.Tag != "" {
		column = p.opt.Tag
	}
	out := teacherMap{Format: 1, Dataset: m.Dataset, Version: p.opt.Version.Number, Column: column, Teachers: []mappedTeacher{}}
	for _, t := range m.Teachers {
		training := t.Terms.Training
		if training == "" {
			training = catalog.TrainingUnknown
		}
		mapped := mappedTeacher{
			Tag: t.ID, Model: t.Model, Weights: t.Weights, ScoreURL: t.ScoreURL, TokenizerSHA256: t.TokenizerSHA256, Identity: t.Identity, Epoch: t.Epoch,
			Licence: t.Terms.Licence, Training: training,
		}
		for _, c := range p.routing.cells() {
			if p.routing.owner[c] == t.ID {
				mapped.Cells = append(mapped.Cells, mappedCell{c.domain, c.effort, p.routing.tasks[c]})
				out.Prompts += p.routing.tasks[c]
			}
		}
		if len(mapped.Cells) > 0 {
			out.Teachers = append(out.Teachers, mapped)
		}
	}
	file, err := s.write(ctx, teacherMapName, func(w io.Writer) (int64, error) {
		enc := json.NewEncoder(w)
		enc.SetIndent("", " ")
		enc.SetEscapeHTML(false)
		return 0, enc.Encode(out)
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", teacherMapName, err)
	}
	a.Files = append(a.Files, file)
	return nil
}
