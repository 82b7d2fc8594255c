package importer

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// parts is how many pieces a dataset is sorted in: by the first byte of the
// prompt's id, which is a digest, so that they are of one size.
const parts = 256

// A spool holds records on the disk, in pieces that are each sorted in memory.
type spool struct {
	dir   string
	files [parts]*os.File
	out   [parts]*bufio.Writer
	n     int64
}

func newSpool(dir string) *spool { return &spool{dir: dir} }

// add keeps a record.
func (s *spool) add(r *record) error {
	part, err := strconv.ParseUint(r.Row.PromptID[:2], 16, 8)
	if err != nil {
		return err
	}
	if s.out[part] == nil {
		f, err := os.OpenFile(filepath.Join(s.dir, fmt.Sprintf("part-%02x.jsonl", part)), os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
		if err != nil {
			return err
		}
		s.files[part], s.out[part] = f, bufio.NewWriterSize(f, 16<<10)
	}
	r.Order = s.n
	s.n++
	line, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, _ = s.out[part].Write(line)
	return s.out[part].WriteByte('\n')
}

// each gives the records of all pieces in the order of prompt, task, sample
// and source, those of one prompt together.
func (s *spool) each(prompt func([]record) error) error {
	for i, f := range s.files {
		if f == nil {
			continue
		}
		if err := s.out[i].Flush(); err != nil {
			return err
		}
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		records, err := readRecords(f)
		if err != nil {
			return err
		}
		for len(records) > 0 {
			n := 1
			for n < len(records) && records[n].Row.PromptID == records[0].Row.PromptID {
				n++
			}
			if err := prompt(records[:n:n]); err != nil {
				return err
			}
			records = records[n:]
		}
		if err := errors.Join(f.Close(), os.Remove(f.Name())); err != nil {
			return err
		}
		s.files[i] = nil
	}
	return nil
}

func readRecords(r io.Reader) (out []record, err error) {
	dec := json.NewDecoder(bufio.NewReaderSize(r, 256<<10))
	for {
		var one record
		err := dec.Decode(&one)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		out = append(out, one)
	}
	slices.SortFunc(out, func(a, b record) int {
		return cmp.Or(strings.Compare(a.Row.PromptID, b.Row.PromptID), strings.Compare(a.Row.TaskID, b.Row.TaskID),
			strings.Compare(a.Row.SampleID, b.Row.SampleID), cmp.Compare(a.Order, b.Order))
	})
	return out, nil
}

func (s *spool) close() {
	for _, f := range s.files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// merged is what became of the records of one prompt.
type merged struct {
	rows              []datasets.Row
	split             string
	tasks             []datasets.PromptRow
	duplicates, moved int64
}

// merge leaves one of each sample, puts all of a prompt into one split and
// makes a task of each domain and effort. records are sorted.
func merge(records []record) (m merged) {
	m.split = datasets.TableTest
	for i := range records {
		if records[i].Split == datasets.TableTrain {
			m.split = datasets.TableTrain
		}
	}
	for i := range records {
		r := &records[i]
		if i == 0 || records[i-1].Row.TaskID != r.Row.TaskID {
			m.tasks = append(m.tasks, taskOf(r, m.split))
		}
		task := &m.tasks[len(m.tasks)-1]
		task.Copies++
		if task.Gold == nil {
			task.Gold = r.Gold
		}
		if task.Tests == nil {
			task.Tests = r.Tests
		}
		if i > 0 && records[i-1].Row.SampleID == r.Row.SampleID {
			m.duplicates++
			continue
		}
		if r.Split != m.split {
			m.moved++
		}
		m.rows = append(m.rows, r.Row)
	}
	return m
}

// routeReason is why a task of an import has no route.
const routeReason = "imported"

func taskOf(r *record, split string) datasets.PromptRow {
	return datasets.PromptRow{
		TaskID: r.Row.TaskID, PromptID: r.Row.PromptID, Domain: r.Row.Domain, Effort: r.Row.Effort,
		Split: split, Status: datasets.StatusClean, Route: []string{}, RouteReason: routeReason,
		Messages: r.Row.Messages[:r.Prompt:r.Prompt], Tools: r.Row.Tools, Group: optional(r.Group), Meta: r.Row.Meta, Source: r.Where,
	}
}
