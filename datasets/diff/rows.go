package diff

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Bounds of what an example shows.
const (
	maxAsk    = 160 // characters
	maxAnswer = 320
)

// A record is what is compared of a row of train, test or pairs.
type record struct {
	Task, Domain     string
	Key              string // sample, or chosen and rejected sample of a pair
	Sample, Other    string // sample; of a pair the rejected one
	Teacher, Verdict string
	Table            string
	Answer           [16]byte // digest of what the loss sees
	Rest             fields   // of the other columns, by name
	Ask, Text        string   // beginnings, for examples
}

// fields are digests of columns by name, sorted.
type fields []field

type field struct {
	Name string
	Sum  [8]byte
}

// differing names the fields that are not the same.
func (f fields) differing(other fields) string {
	var out []string
	for i := range f {
		if i >= len(other) || f[i] != other[i] {
			out = append(out, f[i].Name)
		}
	}
	return strings.Join(out, ", ")
}

// digester digests values by their JSON.
type digester struct {
	buf bytes.Buffer
	enc *json.Encoder
}

func newDigester() *digester {
	d := &digester{}
	d.enc = json.NewEncoder(&d.buf)
	d.enc.SetEscapeHTML(false)
	return d
}

func (d *digester) sum(v any) [16]byte {
	d.buf.Reset()
	// What the tables hold has a JSON form, NaN apart, which no score is.
	_ = d.enc.Encode(v)
	s := sha256.Sum256(d.buf.Bytes())
	return [16]byte(s[:16])
}

func (d *digester) field(name string, v any) field {
	s := d.sum(v)
	return field{name, [8]byte(s[:8])}
}

func (d *digester) row(table string) func(*datasets.Row) record {
	return func(r *datasets.Row) record {
		return record{
			Task: r.TaskID, Domain: r.Domain, Key: r.SampleID, Sample: r.SampleID, Teacher: r.Teacher, Verdict: text(r.Verdict), Table: table,
			Answer: d.sum(r.Messages), Ask: askOf(r.Messages), Text: answerOf(r.Messages),
			Rest: fields{
				d.field("completion_tokens", r.CompletionTokens), d.field("images", r.Images), d.field("licence", r.Licence), d.field("meta", r.Meta),
				d.field("score", r.Score), d.field("teacher", r.Teacher), d.field("teacher_model", r.TeacherModel), d.field("tools", r.Tools),
			},
		}
	}
}

func (d *digester) pair(p *datasets.Pair) record {
	sample, other := text(p.ChosenSampleID), text(p.RejectedSampleID)
	key := sample + " " + other
	if sample == "" || other == "" {
		s := d.sum([2]any{p.Chosen, p.Rejected})
		key = string(s[:])
	}
	return record{
		Task: p.TaskID, Domain: p.Domain, Key: key, Sample: sample, Other: other, Teacher: p.ChosenTeacher,
		Verdict: text(p.ChosenVerdict), Table: datasets.TablePairs,
		Answer: d.sum([2]any{p.Chosen, p.Rejected}), Ask: askOf(p.Prompt), Text: answerOf(p.Chosen),
		Rest: fields{
			d.field("chosen_teacher", p.ChosenTeacher), d.field("images", p.Images), d.field("margin", p.Margin), d.field("prompt", p.Prompt), d.field("rejected_teacher", p.RejectedTeacher),
			d.field("rejected_verdict", p.RejectedVerdict), d.field("score", [2]any{p.ChosenScore, p.RejectedScore}), d.field("split", p.Split), d.field("tools", p.Tools),
		},
	}
}

// A promptRecord is what is compared of a row of prompts.
type promptRecord struct {
	Task, Domain  string
	Status, Split string
	Route         string
	Rest          fields
	Ask           string
}

func (d *digester) prompt(p *datasets.PromptRow) promptRecord {
	route := strings.Join(p.Route, ", ")
	if len(p.Fallback) > 0 {
		route += "; then " + strings.Join(p.Fallback, ", ")
	}
	return promptRecord{
		Task: p.TaskID, Domain: p.Domain, Status: p.Status, Split: p.Split, Route: route, Ask: askOf(p.Messages),
		Rest: fields{
			d.field("agreed", [5]any{p.Label, p.LabelShare, p.LabelMargin, p.LabelVotes, p.LabelEntropy}),
			d.field("copies", p.Copies), d.field("duplicates", [4]any{p.StatusOf, p.Cluster, p.Jaccard, p.ContaminatedBy}),
			d.field("escalated", p.Escalated), d.field("flags", p.Flags), d.field("gold", p.Gold), d.field("group", p.Group), d.field("images", p.Images),
			d.field("messages", p.Messages), d.field("meta", p.Meta), d.field("passed", [4]any{p.Judged, p.Passed, p.PassRate, p.PassAt}),
			d.field("route_reason", p.RouteReason), d.field("source", p.Source), d.field("tests", p.Tests), d.field("tools", p.Tools),
		},
	}
}

// A candidateRow is what is read of the candidates table.
type candidateRow struct {
	SampleID      string   `json:"sample_id" parquet:"sample_id"`
	TaskID        string   `json:"task_id" parquet:"task_id"`
	Teacher       string   `json:"teacher" parquet:"teacher,dict"`
	Error         *string  `json:"error,omitempty" parquet:"error,optional,dict"`
	Verdict       *string  `json:"verdict,omitempty" parquet:"verdict,optional,dict"`
	Accepted      bool     `json:"accepted" parquet:"accepted"`
	Unselected    *string  `json:"unselected,omitempty" parquet:"unselected,optional,dict"`
	RejectReasons []string `json:"reject_reasons,omitempty" parquet:"reject_reasons,list"`
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// askOf is the beginning of the last question.
func askOf(messages []chat.Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == chat.RoleUser && messages[i].Content != nil {
			return clipped(strings.ToValidUTF8(*messages[i].Content, "\uFFFD"), maxAsk)
		}
	}
	return ""
}

// answerOf is the end of a conversation as an example shows it: the beginning
// of its last answer.
func answerOf(messages []chat.Message) string {
	for i := len(messages) - 1; i >= 0; i-- {
		m := &messages[i]
		switch {
		case m.Role != chat.RoleAssistant:
		case m.Content != nil && *m.Content != "":
			return clipped(*m.Content, maxAnswer)
		case len(m.ToolCalls) > 0:
			return clipped(m.ToolCalls[0].Name+"("+m.ToolCalls[0].Arguments+")", maxAnswer)
		}
	}
	return ""
}

// A comparison reads both versions side by side.
type comparison struct {
	c     *catalog.Catalog
	sides [2]*side
	opt   Options

	counts   map[string]*counts
	tasks    int64
	examples []Example
	shown    map[string]int
	// what is streamed
	rows       bool // train and test
	pairs      bool
	prompts    bool
	candidates [2]bool
}

// counts are a Table on its way.
type counts struct {
	identical bool
	same      int64
	sum       Tally
	why       map[[2]string]*Tally
	domains   map[string]*Tally
	teachers  map[string]*Tally
}

func newComparison(c *catalog.Catalog, sides [2]*side, opt Options) *comparison {
	k := &comparison{c: c, sides: sides, opt: opt, counts: map[string]*counts{}, shown: map[string]int{}}
	differs := map[string]bool{}
	for _, table := range compared {
		same := identical(sides, table)
		differs[table] = !same
		k.counts[table] = &counts{
			identical: same, why: map[[2]string]*Tally{}, domains: map[string]*Tally{}, teachers: map[string]*Tally{},
		}
		if same {
			k.counts[table].same = sides[0].manifest.Rows(table)
		}
	}
	k.rows = differs[datasets.TableTrain] || differs[datasets.TableTest]
	k.pairs, k.prompts = differs[datasets.TablePairs], differs[datasets.TablePrompts]
	for i, s := range sides {
		k.candidates[i] = (k.rows || k.pairs) && len(s.manifest.TableFiles(datasets.TableCandidates)) > 0
	}
	return k
}

// A task is what the versions hold of one, the first version's first.
type task struct {
	id         string
	rows       [2][]record // of train and test
	pairs      [2][]record
	prompts    [2][]promptRecord
	candidates [2][]candidateRow
}

// sources are the streams of one version.
type sources struct {
	train, test, pairs *stream[record]
	prompts            *stream[promptRecord]
	candidates         *stream[candidateRow]
}

func (k *comparison) open(ctx context.Context, at int) *sources {
	d, s := newDigester(), &sources{}
	byTask := func(r *record) string { return r.Task }
	if k.rows {
		s.train = open(ctx, k, at, datasets.TableTrain, d.row(datasets.TableTrain), byTask)
		s.test = open(ctx, k, at, datasets.TableTest, d.row(datasets.TableTest), byTask)
	}
	if k.pairs {
		s.pairs = open(ctx, k, at, datasets.TablePairs, d.pair, byTask)
	}
	if k.rows || k.pairs || k.prompts {
		s.prompts = open(ctx, k, at, datasets.TablePrompts, d.prompt, func(p *promptRecord) string { return p.Task })
	}
	if k.candidates[at] {
		s.candidates = open(ctx, k, at, datasets.TableCandidates, func(c *candidateRow) candidateRow { return *c }, func(c *candidateRow) string { return c.TaskID })
	}
	return s
}

func (s *sources) close() {
	s.train.close()
	s.test.close()
	s.pairs.close()
	s.prompts.close()
	s.candidates.close()
}

// peek is the smallest task that has not been taken.
func (s *sources) peek(least *string, any *bool) error {
	for _, peek := range []func() (string, bool, error){s.train.peek, s.test.peek, s.pairs.peek, s.prompts.peek, s.candidates.peek} {
		id, ok, err := peek()
		if err != nil {
			return err
		}
		if ok && (!*any || id < *least) {
			*least, *any = id, true
		}
	}
	return nil
}

func (k *comparison) run(ctx context.Context) error {
	if !k.rows && !k.pairs && !k.prompts {
		return nil
	}
	var from [2]*sources
	for i := range from {
		from[i] = k.open(ctx, i)
		defer from[i].close()
	}
	for {
		t, any := task{}, false
		for _, s := range from {
			if err := s.peek(&t.id, &any); err != nil {
				return err
			}
		}
		if !any {
			return nil
		}
		for i, s := range from {
			if err := t.take(i, s); err != nil {
				return err
			}
		}
		k.compare(&t)
		if k.tasks++; k.tasks%noteEvery == 0 && k.opt.Note != nil {
			k.opt.Note(k.tasks)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// noteEvery is after how many tasks Note is told.
const noteEvery = 10_000

func (t *task) take(i int, s *sources) (err error) {
	var test []record
	if t.rows[i], err = s.train.take(t.id); err != nil {
		return err
	}
	if test, err = s.test.take(t.id); err != nil {
		return err
	}
	t.rows[i] = append(t.rows[i], test...)
	if t.pairs[i], err = s.pairs.take(t.id); err != nil {
		return err
	}
	if t.prompts[i], err = s.prompts.take(t.id); err != nil {
		return err
	}
	t.candidates[i], err = s.candidates.take(t.id)
	return err
}

// tables are the results, in the order of compared.
func (k *comparison) tables() []Table {
	var out []Table
	for _, name := range compared {
		c := k.counts[name]
		if k.sides[0].manifest.Rows(name)+k.sides[1].manifest.Rows(name) == 0 {
			continue
		}
		out = append(out, Table{
			Table: name, Identical: c.identical, Same: c.same, In: c.sum.In, Out: c.sum.Out, Changed: c.sum.Changed,
			Why: tallies(c.why), Domains: tallies(c.domains), Teachers: tallies(c.teachers),
		})
	}
	return out
}

func tallies[K comparable](m map[K]*Tally) []Tally {
	out := []Tally{}
	for _, t := range m {
		out = append(out, *t)
	}
	slices.SortFunc(out, func(a, b Tally) int {
		return cmp.Or(cmp.Compare(b.total(), a.total()), strings.Compare(a.Name, b.Name), strings.Compare(a.Detail, b.Detail))
	})
	return out
}

// notes say what could not be told.
func (k *comparison) notes() []string {
	var out []string
	if k.rows || k.pairs {
		for i, s := range k.sides {
			if !k.candidates[i] {
				out = append(out, s.version.Ref()+" has no candidates, so why rows changed is known in part only")
			}
		}
	}
	return out
}
