package cli

import (
	"context"
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/training"
)

// trainingsOf are the hand-offs of a version, none as an empty list.
func trainingsOf(ctx context.Context, b objstore.Bucket, v catalog.Version) ([]training.Launch, error) {
	out := []training.Launch{}
	for l, err := range training.Launches(ctx, b) {
		if err != nil {
			return nil, fmt.Errorf("look for trainings of %s: %w", v.Ref(), err)
		}
		if l.Dataset.Name == v.Dataset && l.Dataset.Version == v.Number {
			out = append(out, l)
		}
	}
	return out, nil
}

// maxTrainings is how many hand-offs are listed.
const maxTrainings = 10

// trained prints what the version was handed to.
func (d *description) trained() {
	name := "trainings"
	for i, l := range d.trainings {
		if i == maxTrainings {
			d.line("", "and %d more; --json lists all", len(d.trainings)-i)
			return
		}
		student := ""
		if l.Student != "" {
			student = " of " + l.Student
		}
		d.line(name, "%s%s, %s rows: %s (%s, handoff/%.12s…)", l.Trainer, student, grouped(l.Rows), l.State, when(l.Changed), l.LaunchID)
		name = ""
	}
}

// reports prints where the comparisons are.
func (d *description) reports() {
	name := "reports"
	for _, key := range d.manifest.Reports {
		d.line(name, "%s", key)
		name = ""
	}
}
