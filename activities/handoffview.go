package activities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/render"
)

// exportFor exports the view that a trainer's method reads, with the options
// that it needs, into dir. All data files of the summary lie in one folder, as
// a bundle has them.
func (a *Activities) exportFor(ctx context.Context, in wire.HandOffInput, opt HandOffOptions, v catalog.Version, m *catalog.Manifest, dir string) (views.Summary, error) {
	spec, err := render.ViewFor(in.Trainer, opt.Method, opt.View, opt.Params)
	if err != nil {
		return views.Summary{}, invalidRecipe("%v", err)
	}
	s, err := views.Export(ctx, a.Catalog, m, spec.Name, views.Folder(dir), viewOptions(spec, v, opt.LeaveOutUnfit))
	switch {
	case errors.Is(err, views.ErrForbidden), errors.Is(err, views.ErrUnknownView), errors.Is(err, views.ErrUnsupported), errors.Is(err, views.ErrNoRows):
		return s, invalidRecipe("%v", err)
	case err != nil:
		return s, err
	}
	err = inOneFolder(&s, spec, dir)
	return s, err
}

// viewOptions are the options of an export that a trainer needs.
func viewOptions(spec render.ViewSpec, v catalog.Version, leaveOut bool) views.Options {
	return views.Options{
		Version: v, Form: spec.Form,
		Reasoning: spec.Reasoning, ThinkTag: spec.ThinkTag, Effort: spec.Effort, ToolArgs: spec.ToolArgs, Images: spec.Images, Tag: spec.Tag,
		MaskHistory: spec.MaskHistory, LeaveOutUnfit: leaveOut,
	}
}

// inOneFolder moves the data files of views that have a folder for each split
// beside each other; their names tell the splits apart. Where the trainer has
// no use for the test split, that is no part of the bundle.
func inOneFolder(s *views.Summary, spec render.ViewSpec, dir string) error {
	var kept []views.File
	for _, f := range s.Files {
		if spec.TrainOnly && f.Split != "" && f.Split != "train" {
			continue
		}
		name := path.Join(training.DataFolder, path.Base(f.Path))
		if f.Split != "" && f.Path != name {
			to := filepath.Join(dir, filepath.FromSlash(name))
			if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
				return fmt.Errorf("lay out the view: %w", err)
			}
			if err := os.Rename(filepath.Join(dir, filepath.FromSlash(f.Path)), to); err != nil {
				return fmt.Errorf("lay out the view: %w", err)
			}
			f.Path = name
		}
		kept = append(kept, f)
	}
	s.Files = kept
	return nil
}

// estimated is what renderers say of rows over the length; nil where nothing is
// cut or nothing was measured.
func estimated(l *training.Lengths, maxLength int) *render.Lengths {
	if l == nil || maxLength <= 0 {
		return nil
	}
	return &render.Lengths{Estimate: l.OverBy, Over: l.Over}
}

// taught are the teachers of a version and their rows in a view, for methods
// that ask them or load their weights.
func taught(m *catalog.Manifest, view string) []render.Teacher {
	rows := m.TeacherRows()
	if view == views.ViewPreference {
		rows = m.PairTeachers()
	}
	var out []render.Teacher
	for _, t := range m.Teachers {
		out = append(out, render.Teacher{ID: t.ID, Model: t.Model, Weights: t.Weights, ScoreURL: t.ScoreURL, Serves: t.Serves, Rows: rows[t.ID]})
	}
	return out
}
