package importer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/klauspost/compress/gzip"

	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// maxRecorded bounds the teachers of which answers are recorded apart.
const maxRecorded = 64

// recordedBytes is about how large a file of recorded answers becomes, as
// text, before the next one is begun.
const recordedBytes = 256 << 20

// A Recorded is what WriteRecorded wrote.
type Recorded struct {
	Dir      string   `json:"dir"`
	Recipe   string   `json:"recipe"` // path
	Teachers []string `json:"teachers"`
	Read     int64    `json:"rows_read"`
	Rows     int64    `json:"rows"`
	Bad      int64    `json:"bad_rows"`
	// BadReasons are of the first few.
	BadReasons []string `json:"bad_reasons"`
	// Lines are the recipe's lines of prompts and teachers.
	Lines string `json:"-"`
}

// WriteRecorded writes the source's rows as answers that a recipe names, a
// recorded teacher each, and a recipe over them, into a folder that is not
// there yet. The folder appears whole or not at all.
func (p *Plan) WriteRecorded(ctx context.Context, dir string) (*Recorded, error) {
	r, err := p.writeRecorded(ctx, dir)
	if err != nil {
		return nil, fmt.Errorf("import %s as recorded answers into %s: %w", p.Source.Name, dir, err)
	}
	return r, nil
}

func (p *Plan) writeRecorded(ctx context.Context, dir string) (*Recorded, error) {
	if _, err := os.Lstat(dir); err == nil {
		return nil, fmt.Errorf("%w: the folder is there already; remove it or name another with -o", ErrUsage)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return nil, err
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+".partial-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	if err := os.Chmod(work, 0o755); err != nil {
		return nil, err
	}
	w := &recordedWriter{dir: work, seen: map[string]bool{}, byTeacher: map[string]*recordedFile{}}
	defer w.abandon()
	p.bad = badRows{}
	r := &Recorded{Dir: dir, Recipe: filepath.Join(dir, "recipe.yaml"), BadReasons: []string{}}
	r.Read, err = p.conversations(ctx, func(c *sources.Conversation, _ string) error {
		r.Rows++
		return w.add(c)
	})
	r.Bad, r.BadReasons = p.bad.n, append(r.BadReasons, p.bad.first...)
	if err := errors.Join(err, w.close()); err != nil {
		return nil, err
	}
	if r.Rows == 0 {
		return nil, fmt.Errorf("%w: no row could be used; the first: %s", ErrTooManyBad, p.bad.reason())
	}
	for _, t := range w.order {
		r.Teachers = append(r.Teachers, t.id)
	}
	r.Lines = p.recipeLines(w)
	text := "apiVersion: stillhouse/v1\nname: " + p.opt.Dataset + "\n" + r.Lines
	if err := os.WriteFile(filepath.Join(work, "recipe.yaml"), []byte(text), 0o644); err != nil {
		return nil, err
	}
	return r, os.Rename(work, dir)
}

// recipeLines are prompts and teachers of a recipe over the answers. Every
// text of the data is quoted.
func (p *Plan) recipeLines(w *recordedWriter) string {
	var b strings.Builder
	b.WriteString("prompts:\n  - path: 'answers-*.jsonl.gz'\n    fields: {messages: prompt, domain: domain, effort: effort")
	for _, name := range sortedKeys(w.seen) {
		fmt.Fprintf(&b, ", %s: %s", name, map[bool]string{true: "[meta]", false: name}[name == "meta"])
	}
	b.WriteString("}\nteachers:\n")
	for _, t := range w.order {
		fmt.Fprintf(&b, "  - id: %s\n    api: recorded\n    model: %s\n    path: 'answers-%02d-*.jsonl.gz'\n    fields: {messages: messages}\n",
			quoted(t.id), quoted(t.model), t.number)
		fmt.Fprintf(&b, "    terms: {training: %s", p.opt.Training)
		licence := t.licence
		if licence == "" {
			licence = p.Source.Card.Licence
		}
		if licence != "" {
			fmt.Fprintf(&b, ", licence: %s", quoted(licence))
		}
		if p.opt.TermsURL != "" {
			fmt.Fprintf(&b, ", url: %s", quoted(p.opt.TermsURL))
		}
		b.WriteString("}\n")
	}
	if len(w.order) > 1 {
		b.WriteString("ask: {route: all}\n")
	}
	return b.String()
}

// quoted is a YAML text in double quotes: what Go escapes, and how, is YAML's too.
// Names in other scripts stay readable.
func quoted(s string) string { return strconv.Quote(clip(strings.ToValidUTF8(s, "�"), 200)) }

// A recordedFile is the open file of one teacher's answers.
type recordedFile struct {
	id, model, licence string
	number, files      int
	file               *os.File
	zip                *gzip.Writer
	out                *bufio.Writer
	bytes              int64
}

// A recordedWriter writes answers, a file or more for each teacher. Names of
// teachers come from data, so that files are numbered.
type recordedWriter struct {
	dir       string
	byTeacher map[string]*recordedFile
	order     []*recordedFile
	seen      map[string]bool // optional fields that some row has
	line      []byte
}

func (w *recordedWriter) add(c *sources.Conversation) (err error) {
	f := w.byTeacher[c.Teacher]
	if f == nil {
		if len(w.order) == maxRecorded {
			return fmt.Errorf("%w: the rows name more than %d teachers; --map teacher= makes them one", ErrUsage, maxRecorded)
		}
		f = &recordedFile{id: teacherID(c.Teacher), model: c.Model, licence: c.Licence, number: len(w.order)}
		w.byTeacher[c.Teacher], w.order = f, append(w.order, f)
	}
	if w.line, err = sources.AppendConversation(w.line[:0], c); err != nil {
		return err
	}
	for name, has := range map[string]bool{"tools": c.Prompt.Tools != "", "gold": c.Gold != nil, "tests": c.Tests != nil, "group": c.Group != "", "meta": c.Meta != ""} {
		if has {
			w.seen[name] = true
		}
	}
	return f.write(w.dir, w.line)
}

// teacherID is a teacher's name as a recipe's id may be: what it may not hold
// becomes a dash.
func teacherID(name string) string {
	id := strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '-'
	}, strings.ToLower(name)), "._-")
	if id = clip(id, 60); id == "" {
		return DefaultTeacher
	}
	return id
}

func (f *recordedFile) write(dir string, line []byte) (err error) {
	if f.out != nil && f.bytes > recordedBytes {
		if err := f.close(); err != nil {
			return err
		}
	}
	if f.out == nil {
		path := filepath.Join(dir, fmt.Sprintf("answers-%02d-%05d.jsonl.gz", f.number, f.files))
		if f.file, err = os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); err != nil {
			return err
		}
		f.files++
		f.zip = gzip.NewWriter(f.file)
		f.out, f.bytes = bufio.NewWriterSize(f.zip, 64<<10), 0
	}
	f.bytes += int64(len(line))
	_, err = f.out.Write(line)
	return err
}

func (f *recordedFile) close() error {
	if f.out == nil {
		return nil
	}
	err := errors.Join(f.out.Flush(), f.zip.Close(), f.file.Close())
	f.out, f.file = nil, nil
	return err
}

func (w *recordedWriter) close() error {
	var errs []error
	seen := map[string]bool{}
	for _, f := range w.order {
		errs = append(errs, f.close())
		for seen[f.id] { // two names that became one
			f.id += "-" + strconv.Itoa(f.number)
		}
		seen[f.id] = true
	}
	return errors.Join(errs...)
}

func (w *recordedWriter) abandon() {
	for _, f := range w.order {
		if f.file != nil {
			_ = f.file.Close()
		}
	}
}
