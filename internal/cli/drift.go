package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/report"
)

// summarizeDrift says what a build's probes showed.
func summarizeDrift(w io.Writer, r *activities.BuildResult) {
	for _, id := range sortedKeys(r.Drift) {
		d := r.Drift[id]
		what := "no change shown"
		if d.TooFew {
			what = "too few to show a change; raise drift.probe"
		}
		if d.Changed {
			what = "IT CHANGED: " + d.Why
		}
		fmt.Fprintf(w, "  %s\n", oneLine(fmt.Sprintf("probe %d of teacher %s: %d of %d prompts answered once more; %s", d.Probe, id, d.Answered, d.Asked, what)))
	}
}

// drift prints what the newest probe of each of the version's teachers showed,
// where the version's own comparison does not: a build that changes nothing
// publishes no version, and its probes are told of all the same.
func (d *description) drift(ctx context.Context, c *catalog.Catalog) error {
	known, err := c.Epochs(ctx, d.version.Dataset)
	if err != nil {
		return err
	}
	told := map[string]int{}
	if d.report != nil {
		for i := range d.report.Drift {
			told[d.report.Drift[i].Teacher] = d.report.Drift[i].Probe
		}
	}
	first := true
	for i := range d.manifest.Teachers {
		t := &d.manifest.Teachers[i]
		one := known.Of(catalog.TeacherKey{Endpoint: t.Identity, Model: t.Model, Epoch: t.Epoch})
		var shown report.Drift
		if one == nil || one.Drift == nil || json.Unmarshal(one.Drift, &shown) != nil || shown.Probe == told[t.ID] {
			continue
		}
		if first {
			fmt.Fprintln(d.out)
			first = false
		}
		d.line("drift of", "%s", shown.Line())
	}
	return nil
}
