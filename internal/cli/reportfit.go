package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// fitText is what report's help says of --student-fit.
const fitText = `

With --student-fit it takes from a file how likely accepted answers of a version are
to the student that is to be trained: JSON lines, CSV or Parquet with sample_id (or
task_id, teacher and, where there are several, sample), nll (the sum of the tokens'
negative log-likelihoods, in nats), tokens, and optionally student, its name.`

// shownFitFaults is how many bad rows of a file an error spells out.
const shownFitFaults = 5

// A fitRow is one row of a file of student fit.
type fitRow struct {
	where  string
	sample string // sample id; "": the next three name the answer
	task   string
	who    string // teacher
	index  int32
	nll    float64
	tokens int64
}

// studentFit puts what a file says of a version's answers into its comparison.
func (a *app) studentFit(ctx context.Context, one *refReport, path string) error {
	files, err := sources.Find(".", path)
	if err != nil {
		return &codedError{exitUsage, "--student-fit: " + err.Error()}
	}
	var rows []fitRow
	var faults []string
	bad := 0
	student := ""
	for _, f := range files {
		for row, err := range sources.Rows(ctx, f, activities.ReadOptions()) {
			var rowError *sources.RowError
			switch {
			case errors.As(err, &rowError):
				err = rowError
			case err != nil:
				if ctx.Err() != nil {
					return err
				}
				return &codedError{exitUsage, "--student-fit: " + err.Error()}
			default:
				var r fitRow
				if r, err = readFitRow(row, &student); err == nil {
					rows = append(rows, r)
				}
			}
			if err != nil {
				if bad++; len(faults) < shownFitFaults {
					faults = append(faults, printable(err.Error()))
				}
			}
			if len(rows) > report.MaxFit {
				return &codedError{exitUsage, "--student-fit: " + report.ErrFit.Error()}
			}
		}
	}
	list, left, more, err := a.matchFit(ctx, one, rows)
	if err != nil {
		return err
	}
	for _, fault := range more {
		if bad++; len(faults) < shownFitFaults {
			faults = append(faults, fault)
		}
	}
	if bad > 0 {
		return &codedError{exitUsage, fmt.Sprintf("--student-fit %s: %d bad row(s), and nothing of it is used; correct them:\n  %s", path, bad, strings.Join(faults, "\n  "))}
	}
	if len(list) == 0 {
		return &codedError{exitUsage, fmt.Sprintf("--student-fit %s: it scores no accepted answer of %s", path, one.Ref)}
	}
	if student == "" {
		student = strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	}
	if left > 0 {
		a.say("%s scored answers are not accepted ones, and are left out", grouped(int64(left)))
	}
	if err := one.Report.SetStudentFit(student, "file "+filepath.Base(path), list); err != nil {
		return &codedError{exitUsage, "--student-fit: " + err.Error()}
	}
	return nil
}

// readFitRow reads one row. The student is the same in all rows, where they name
// it.
func readFitRow(row sources.Row, student *string) (fitRow, error) {
	r := fitRow{where: row.Where}
	fault := func(format string, args ...any) (fitRow, error) {
		return r, fmt.Errorf("%s: %s", row.Where, fmt.Sprintf(format, args...))
	}
	text := func(key string) string {
		s, _ := row.Values[key].(string)
		return s
	}
	if name := text("student"); name != "" {
		if *student != "" && *student != name {
			return fault("student %q, and rows before it are of %q; give one file for each", name, *student)
		}
		*student = name
	}
	if r.sample = text("sample_id"); r.sample == "" {
		if r.task, r.who = text("task_id"), text("teacher"); r.task == "" || r.who == "" {
			return fault("which answer is it of? give sample_id, or task_id and teacher")
		}
		if v, ok := row.Values["sample"]; ok && v != nil && v != "" {
			n, ok := number(v)
			if !ok || n != math.Trunc(n) || n < 0 || n > math.MaxInt32 {
				return fault("sample %v: want the number of the answer, from 0", v)
			}
			r.index = int32(n)
		}
	}
	var ok bool
	if r.nll, ok = number(row.Values["nll"]); !ok {
		return fault("nll %v is no number; it is the sum over the tokens, in nats", row.Values["nll"])
	}
	n, ok := number(row.Values["tokens"])
	if !ok || n != math.Trunc(n) || n < 1 || n > 1e9 {
		return fault("tokens %v: want a whole number, 1 or more", row.Values["tokens"])
	}
	r.tokens = int64(n)
	return r, nil
}

// number is a finite number in a row, which of CSV is text.
func number(v any) (float64, bool) {
	var f float64
	switch n := v.(type) {
	case float64:
		f = n
	case float32:
		f = float64(n)
	case int:
		f = float64(n)
	case int32:
		f = float64(n)
	case int64:
		f = float64(n)
	case json.Number:
		var err error
		if f, err = n.Float64(); err != nil {
			return 0, false
		}
	case string:
		var err error
		if f, err = strconv.ParseFloat(strings.TrimSpace(n), 64); err != nil {
			return 0, false
		}
	default:
		return 0, false
	}
	return f, !math.IsNaN(f) && !math.IsInf(f, 0)
}

// A fitKey names an answer where its sample id is not given.
type fitKey struct {
	task, teacher string
	index         int32
}

// matchFit finds the answers that rows are of, in the version's table. left
// counts those that are not accepted.
func (a *app) matchFit(ctx context.Context, one *refReport, rows []fitRow) (list []report.FitAnswer, left int, faults []string, err error) {
	bySample, byKey := map[string]int{}, map[fitKey]int{}
	for i := range rows {
		r := &rows[i]
		if r.sample != "" {
			if first, twice := bySample[r.sample]; twice {
				faults = append(faults, printable(fmt.Sprintf("%s: sample_id %s was scored at %s already", r.where, r.sample, rows[first].where)))
			}
			bySample[r.sample] = i
			continue
		}
		key := fitKey{r.task, r.who, r.index}
		if first, twice := byKey[key]; twice {
			faults = append(faults, printable(fmt.Sprintf("%s: the same answer was scored at %s already", r.where, rows[first].where)))
		}
		byKey[key] = i
	}
	c, err := a.readCatalog(ctx)
	if err != nil {
		return nil, 0, nil, err
	}
	used := make([]bool, len(rows))
	for row, err := range catalog.ReadTable[datasets.Candidate](ctx, c, one.manifest, datasets.TableCandidates) {
		if err != nil {
			return nil, 0, nil, err
		}
		i, ok := bySample[row.SampleID]
		if !ok {
			i, ok = byKey[fitKey{row.TaskID, row.Teacher, row.SampleIndex}]
		}
		if !ok {
			continue
		}
		if used[i] = true; !row.Accepted {
			left++
			continue
		}
		answer := report.FitAnswer{Task: row.TaskID, Sample: row.SampleID, Teacher: row.Teacher, Domain: row.Domain, Effort: row.Effort, NLL: rows[i].nll, Tokens: rows[i].tokens}
		if err := answer.Check(); err != nil {
			faults = append(faults, fmt.Sprintf("%s: %v", printable(rows[i].where), err))
			continue
		}
		list = append(list, answer)
	}
	for i := range rows {
		if !used[i] {
			faults = append(faults, printable(fmt.Sprintf("%s: %s has no such answer", rows[i].where, one.Ref)))
		}
	}
	return list, left, faults, nil
}
