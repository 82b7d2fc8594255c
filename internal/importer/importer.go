// Package importer makes a dataset that exists a version of the catalog, or
// answers that a recipe can name: hub folders, Parquet, JSON Lines, JSON and
// CSV, with rows that hold whole conversations in one of the usual shapes.
//
//	src, err := importer.Open(ctx, finder, "hub-folder", importer.Choice{})
//	plan, err := importer.Prepare(ctx, src, importer.Options{Dataset: "old-maths"})
//	result, err := plan.Publish(ctx, cat)
//
// It reads row by row and sorts what it reads by way of the disk, so that
// memory doesn't grow with the dataset. What it reads is hostile: rows and
// files are bounded as everywhere in [sources], a row that can't be used is
// counted with its reason, and no name in the data becomes a path.
//
// The same files with the same options give the same build id and the same
// bytes, so that an import can be run again after any interruption, and that a
// second run of a finished one publishes nothing.
package importer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// Version rises when the same files become other rows.
const Version = 1

// DefaultTeacher answers rows that do not say who did.
const DefaultTeacher = "imported"

// ErrUsage is in the error of options that can't be used.
var ErrUsage = errors.New("cannot import")

// ErrTooManyBad is in the error of an import that met more bad rows than it may.
var ErrTooManyBad = errors.New("too many rows cannot be used")

// Options of an import.
type Options struct {
	Dataset string `json:"dataset"`
	// Shape of the rows, one of sources.Shapes; "" takes what the first row
	// looks like.
	Shape string `json:"shape"`
	// Map names columns by field; see sources.ConversationFields. It is laid
	// over what the first row looks like.
	Map map[string]string `json:"map,omitempty"`
	// Domain, Effort, Teacher, Model and Licence are those of rows that do not
	// say; "" is default, default, DefaultTeacher, the teacher and none.
	Domain, Effort, Teacher, Model, Licence string
	// Training is catalog.TrainingAllowed, …Forbidden or …Unknown ("").
	Training string
	TermsURL string
	// Test is the share of the prompts that become the test split, where the
	// source's own splits are not to count; 0 keeps them.
	Test float64
	Seed int64
	// SplitThink makes reasoning of a leading <think>…</think>.
	SplitThink bool
	// BadRows is how many rows that can't be used may be left out; below 0 all.
	BadRows int64 `json:"-"`
	// Limit is how many rows are read at most; 0 reads all.
	Limit int64
	// TempDir holds what is sorted; "" is the system's.
	TempDir string `json:"-"`
	// Progress is told the rows read so far, now and then; nil is told nothing.
	Progress func(rows int64) `json:"-"`
}

// A Plan is an import that has looked at its source and can run.
type Plan struct {
	Source *Source
	Shape  string
	Fields sources.ConversationFields
	// Sample is the first row that could be read, as it would be imported.
	Sample *sources.Conversation

	opt    Options
	mapper *sources.ConversationMapper
	bad    badRows
}

// badRows counts rows that can't be used and keeps the first reasons.
type badRows struct {
	n     int64
	first []string
}

// keptReasons is how many reasons are kept for the user.
const keptReasons = 5

func (b *badRows) add(err error) {
	b.n++
	if len(b.first) < keptReasons {
		b.first = append(b.first, err.Error())
	}
}

// readOptions are those of all reading.
func readOptions() sources.Options { return sources.Options{OpenParquet: parquetio.Maps} }

// maxLooked is how many rows are looked at for their columns, and maxColumns of
// how many columns.
const (
	maxLooked  = 1000
	maxColumns = 10_000
)

// Prepare looks at the first rows of a source and settles shape and fields by
// the columns that they have together.
func Prepare(ctx context.Context, src *Source, opt Options) (*Plan, error) {
	if err := opt.check(); err != nil {
		return nil, err
	}
	p := &Plan{Source: src, opt: opt}
	whole, firstBad, err := p.look(ctx)
	if err != nil {
		return nil, err
	}
	if whole.Values == nil && firstBad == nil {
		return nil, fmt.Errorf("%w %s: it holds no rows", ErrUsage, src.Name)
	}
	if whole.Values != nil {
		if err := p.settle(whole); err != nil {
			return nil, fmt.Errorf("%w %s: %w", ErrUsage, src.Name, err)
		}
		looked := 0
		for row, err := range p.rows(ctx) {
			if err == nil {
				var c sources.Conversation
				if c, err = p.mapper.Conversation(row); err == nil {
					p.Sample = &c
					return p, nil
				}
			}
			if firstBad == nil {
				firstBad = err
			}
			if looked++; looked >= maxLooked {
				break
			}
		}
	}
	return nil, fmt.Errorf("%w %s: none of its first rows can be used; the first: %w", ErrUsage, src.Name, firstBad)
}

// look reads the first rows. whole is a row that has the first value of each
// column that any of them has; its Values are nil where no row can be read.
func (p *Plan) look(ctx context.Context) (whole sources.Row, firstBad, err error) {
	looked := 0
	for row, err := range p.rows(ctx) {
		var bad *sources.RowError
		switch {
		case errors.As(err, &bad):
			if firstBad == nil {
				firstBad = err
			}
		case err != nil:
			return whole, nil, err
		case whole.Values == nil:
			whole = row
			whole.Values = maps.Clone(row.Values)
		default:
			for name, v := range row.Values {
				if whole.Values[name] == nil && len(whole.Values) < maxColumns {
					whole.Values[name] = v
				}
			}
		}
		if looked++; looked >= maxLooked {
			break
		}
	}
	return whole, firstBad, nil
}

// settle decides shape and fields by a row.
func (p *Plan) settle(row sources.Row) error {
	shape, fields, err := sources.Guess(row)
	if err != nil && (p.opt.Shape == "" || len(p.opt.Map) == 0) {
		return err
	}
	if p.opt.Shape != "" && p.opt.Shape != shape {
		shape = p.opt.Shape
	}
	for name, column := range p.opt.Map {
		if err := fields.Set(name, column); err != nil {
			return err
		}
	}
	p.Shape, p.Fields = shape, fields
	p.mapper, err = sources.NewConversationMapper(shape, fields, p.opt.SplitThink)
	return err
}

func (o *Options) check() error {
	if err := catalog.ValidName(o.Dataset); err != nil {
		return fmt.Errorf("%w: %w", ErrUsage, err)
	}
	for name, s := range map[string]*string{"domain": &o.Domain, "effort": &o.Effort, "teacher": &o.Teacher} {
		if *s == "" {
			*s = recipe.DefaultName
			if name == "teacher" {
				*s = DefaultTeacher
			}
		}
		if fault := recipe.LabelFault(*s); fault != "" {
			return fmt.Errorf("%w: the %s %s", ErrUsage, name, fault)
		}
	}
	switch o.Training {
	case "":
		o.Training = catalog.TrainingUnknown
	case catalog.TrainingAllowed, catalog.TrainingForbidden, catalog.TrainingUnknown:
	default:
		return fmt.Errorf("%w: training %.40q is none of %s, %s, %s", ErrUsage, o.Training, catalog.TrainingAllowed, catalog.TrainingForbidden, catalog.TrainingUnknown)
	}
	if !(o.Test >= 0 && o.Test < 1) {
		return fmt.Errorf("%w: a test share of %g; want at least 0 and less than 1", ErrUsage, o.Test)
	}
	return nil
}

// rows are the rows of all files, in order, up to the limit.
func (p *Plan) rows(ctx context.Context) iter.Seq2[sources.Row, error] {
	return func(yield func(sources.Row, error) bool) {
		for read := range p.splitRows(ctx) {
			if !yield(read.row, read.err) {
				return
			}
		}
	}
}

type splitRow struct {
	row   sources.Row
	split string
	err   error
}

func (p *Plan) splitRows(ctx context.Context) iter.Seq[splitRow] {
	return func(yield func(splitRow) bool) {
		var n int64
		for _, f := range p.Source.Files {
			for row, err := range sources.Rows(ctx, f.File, readOptions()) {
				if !yield(splitRow{row, f.Split, err}) {
					return
				}
				if n++; p.opt.Limit > 0 && n >= p.opt.Limit {
					return
				}
				if p.opt.Progress != nil && n%100_000 == 0 {
					p.opt.Progress(n)
				}
			}
		}
	}
}

// conversations are the rows as conversations, with the labels of those that
// name none. A bad row is counted; one too many ends it.
func (p *Plan) conversations(ctx context.Context, each func(c *sources.Conversation, split string) error) (read int64, err error) {
	for r := range p.splitRows(ctx) {
		if r.err == nil {
			var c sources.Conversation
			if c, r.err = p.mapper.Conversation(r.row); r.err == nil {
				p.label(&c)
				if err := each(&c, r.split); err != nil {
					return read, err
				}
				read++
				continue
			}
		}
		var bad *sources.RowError
		if !errors.As(r.err, &bad) {
			return read, r.err
		}
		read++
		p.bad.add(bad)
		if p.opt.BadRows >= 0 && p.bad.n > p.opt.BadRows {
			return read, fmt.Errorf("%w: %d so far, %d may be left out; the last: %w; mend the rows, or say how many may be left out: --bad-rows N", ErrTooManyBad, p.bad.n, p.opt.BadRows, bad)
		}
	}
	return read, ctx.Err()
}

func (p *Plan) label(c *sources.Conversation) {
	for to, usual := range map[*string]string{&c.Domain: p.opt.Domain, &c.Effort: p.opt.Effort, &c.Teacher: p.opt.Teacher, &c.Licence: p.opt.Licence} {
		if *to == "" {
			*to = usual
		}
	}
	if c.Model == "" {
		if c.Model = p.opt.Model; c.Model == "" {
			c.Model = c.Teacher
		}
	}
}

// buildID names an import by what it reads and how, so that running it again
// finds itself.
func (p *Plan) buildID() (string, error) {
	text, err := json.Marshal(struct {
		Version int
		Shape   string
		Fields  map[string]string
		Source  string
		Splits  []string
		Options Options
	}{Version, p.Shape, p.Fields.Columns(), p.Source.SHA256, p.Source.splits(), p.opt})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return "import-" + hex.EncodeToString(sum[:8]), nil
}

// record makes the table rows of a conversation.
func (p *Plan) record(c *sources.Conversation, split string) (*record, error) {
	promptID, err := c.Prompt.ID()
	if err != nil {
		return nil, err
	}
	if p.opt.Test > 0 {
		split = datasets.Assign(map[string]float64{datasets.TableTrain: 1 - p.opt.Test, datasets.TableTest: p.opt.Test}, p.opt.Seed, c.Group, promptID)
	}
	taskID := datasets.TaskID(promptID, c.Domain, c.Effort)
	answer := sha256.Sum256(chat.AppendMessages(nil, c.Turns))
	r := &record{
		Row: datasets.Row{
			TaskID: taskID, PromptID: promptID, SampleID: datasets.SampleID(taskID, c.Teacher, hex.EncodeToString(answer[:])),
			Domain: c.Domain, Effort: c.Effort, Teacher: c.Teacher, TeacherModel: c.Model,
			Messages: append(c.Prompt.All(), c.Turns...),
			Tools:    optional(c.Prompt.Tools), Licence: optional(c.Licence), Meta: optional(c.Meta),
		},
		Split: split, Where: c.Where, Gold: c.Gold, Tests: c.Tests, Group: c.Group, Prompt: len(c.Prompt.All()),
	}
	return r, nil
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// A record is one row on its way through the sort.
type record struct {
	Row    datasets.Row `json:"row"`
	Split  string       `json:"split"`
	Where  string       `json:"where"`
	Prompt int          `json:"prompt"` // messages before the answer
	Gold   *string      `json:"gold,omitempty"`
	Tests  *string      `json:"tests,omitempty"`
	Group  string       `json:"group,omitempty"`
	Order  int64        `json:"order"` // of the source
}
