package catalog

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// sweptAtOnce is how many keys one request deletes at most, as S3 allows.
const sweptAtOnce = 1000

// A leftover is what one build wrote and nothing names.
type leftover struct {
	id   string
	keys map[string][]found // by class
}

type found struct {
	key      string
	size     int64
	modified time.Time
}

// list finds what may go.
func (d *sweep) list(ctx context.Context) error {
	for attr, err := range d.c.bucket.List(ctx, datasetPrefix(d.name), "") {
		if err != nil {
			return err
		}
		folder, id, why := d.judge(attr)
		if why != "" {
			d.keep(folder, attr.Size, why)
			continue
		}
		g := d.byID[id]
		if g == nil {
			g = &leftover{id: id, keys: map[string][]found{}}
			d.byID[id] = g
			d.groups = append(d.groups, g)
		}
		g.keys[folder] = append(g.keys[folder], found{attr.Key, attr.Size, attr.Modified})
	}
	d.reportKept()
	return nil
}

// judge says of an object why it is kept, "" where it may go.
func (d *sweep) judge(attr objstore.Attr) (class, id, why string) {
	_, folder, id, ok := splitKey(attr.Key)
	if !ok {
		if strings.HasPrefix(attr.Key, buildPrefix(d.name)) || strings.HasPrefix(attr.Key, versionPrefix(d.name)) || strings.HasPrefix(attr.Key, purgePrefix(d.name)) ||
			strings.HasPrefix(attr.Key, datasetPrefix(d.name)+"refs/") ||
			strings.HasPrefix(attr.Key, purgePrefix(d.name)) || attr.Key == epochsKey(d.name) {
			return GCCatalog, "", "entries of builds and purges, numbers of versions, tags: what was done stays known"
		}
		return GCOther, "", "gc does not know it"
	}
	in, entered := d.builds[id]
	switch {
	case d.marked[attr.Key] != "":
		return folder, id, d.marked[attr.Key]
	case entered && d.alive(&in):
		return folder, id, d.liveWords(&in)
	case attr.Modified.IsZero() && d.opt.Grace > 0:
		return folder, id, "the store does not tell how old it is"
	case !entered && !d.old(attr.Modified, d.grace(id)):
		return folder, id, "younger than " + inWords(d.grace(id)) + ", and no entry tells whether its build has ended"
	case !d.old(attr.Modified, d.grace(id)):
		return folder, id, "younger than " + inWords(d.grace(id))
	}
	return folder, id, ""
}

// silentAfter is how long a build that runs may say nothing before a
// collection points it out.
const silentAfter = 30 * 24 * time.Hour

func (d *sweep) liveWords(in *Intent) string {
	if in.State == BuildPaused {
		return "of build " + in.BuildID + ", which is paused"
	}
	text := "of build " + in.BuildID + ", which is running"
	if d.old(in.Heartbeat, silentAfter) {
		text += fmt.Sprintf(", but shows no sign of life since %s; if it is dead, say --abandoned %s", in.Heartbeat.Format(time.DateOnly), inWords(silentAfter))
	}
	return text
}

func (d *sweep) keep(class string, size int64, why string) {
	at := class + "\x00" + why
	item := d.items[at]
	if item == nil {
		item = &GCItem{Action: GCKeep, Class: class, Dataset: d.name, Why: why}
		d.items[at] = item
	}
	item.Objects++
	item.Bytes += size
}

func (d *sweep) reportKept() {
	for _, at := range slices.Sorted(maps.Keys(d.items)) {
		d.report.Add(*d.items[at])
	}
	clear(d.items)
}

// keepAll counts a dataset that is left alone.
func (d *sweep) keepAll(ctx context.Context, why string) error {
	d.items = map[string]*GCItem{}
	for attr, err := range d.c.bucket.List(ctx, datasetPrefix(d.name), "") {
		if err != nil {
			return err
		}
		class := GCOther
		if _, folder, _, ok := splitKey(attr.Key); ok {
			class = folder
		}
		d.keep(class, attr.Size, why)
		if _, folder, id, ok := splitKey(attr.Key); ok && folder != "" {
			d.live[datasetPrefix(d.name)+id] = true // nor are its uploads touched
		}
	}
	d.reportKept()
	return nil
}

// remove removes what was found, build after build.
func (d *sweep) remove(ctx context.Context) error {
	for _, g := range d.groups {
		if err := d.removeBuild(ctx, g); err != nil {
			return err
		}
	}
	d.reportKept()
	return nil
}

// swept are the classes in the order in which they are removed. Manifests go
// last: as long as that of a withdrawn version is there, the next collection
// knows its files.
var swept = []string{GCWork, GCReports, GCData, GCManifests}

func (d *sweep) removeBuild(ctx context.Context, g *leftover) error {
	if d.opt.Remove {
		d.opt.Note("removing what build " + g.id + " of " + d.name + " left")
		wanted, err := d.confirm(ctx, g)
		if err != nil {
			return fmt.Errorf("build %s: %w", g.id, err)
		}
		if wanted != "" {
			for class, list := range g.keys {
				for _, f := range list {
					d.keep(class, f.size, wanted)
				}
			}
			return nil
		}
	}
	for _, class := range swept {
		item := GCItem{Action: GCRemove, Class: class, Dataset: d.name, BuildID: g.id, Why: d.whyGone(g.id, class)}
		err := d.removeClass(ctx, g, class, &item)
		d.report.Add(item)
		if err != nil {
			return fmt.Errorf("build %s: %w", g.id, err)
		}
	}
	return nil
}

func (d *sweep) whyGone(id, class string) string {
	in, entered := d.builds[id]
	for _, v := range d.versions {
		if v.BuildID == id && v.Removed != nil && class != GCWork {
			return fmt.Sprintf("version %d was withdrawn on %s", v.Number, v.Removed.At.Format(time.DateOnly))
		}
	}
	switch {
	case class == GCWork && entered && in.State == BuildDone:
		return "the build is done"
	case class == GCManifests && entered && in.State == BuildDone && in.Version > 0:
		return "another build had the number that it was written for"
	case !entered:
		return "no version names it, and the catalog has no entry of its build"
	case in.Live():
		return fmt.Sprintf("no version names it; its build shows no sign of life since %s", in.Heartbeat.Format(time.DateOnly))
	}
	return "no version names it; its build is " + in.State
}

// confirm looks again right before anything is removed, and takes the build
// where it is entered: from then on it can't go on. It says why the build's
// files are wanted after all, "" where they are not.
func (d *sweep) confirm(ctx context.Context, g *leftover) (wanted string, err error) {
	_, entered := d.builds[g.id]
	var now *Intent
	switch err := d.c.notPurging(ctx, d.name); {
	case errors.Is(err, ErrPurging):
		return "a purge has begun", nil
	case err != nil:
		return "", err
	}
	err = d.c.changeIntent(ctx, d.name, g.id, func(old *Intent) (*Intent, error) {
		now = old
		if old == nil || d.alive(old) || old.State == BuildDone || old.Swept != nil {
			return nil, nil // what is done does not begin again
		}
		in := *old
		at := d.c.stamp()
		in.Swept = &at
		if in.Live() {
			in.State, in.Finished, in.Reason = BuildFailed, &at, "gc: no sign of life since "+in.Heartbeat.Format(time.RFC3339)
		}
		return &in, nil
	})
	switch {
	case err != nil:
		return "", err
	case now != nil && d.alive(now):
		return d.liveWords(now), nil
	case now != nil && !entered:
		return "its build was entered meanwhile", nil
	}
	return "", d.newVersions(ctx)
}

// newVersions marks what was published since the versions were read.
func (d *sweep) newVersions(ctx context.Context) error {
	for {
		v, err := d.c.version(ctx, d.name, d.last+1)
		if errors.Is(err, objstore.ErrNotFound) {
			return nil
		}
		if err == nil {
			err = d.mark(ctx, v)
		}
		if err != nil {
			return err
		}
		d.last = v.Number
		d.versions = slices.Insert(d.versions, 0, v)
	}
}

// removeClass lists a build's objects of a class once more and removes those
// that are still what was found.
func (d *sweep) removeClass(ctx context.Context, g *leftover, class string, item *GCItem) error {
	was := map[string]found{}
	for _, f := range g.keys[class] {
		was[f.key] = f
		if !d.opt.Remove {
			item.Objects++
			item.Bytes += f.size
			d.opt.Removed(f.key)
		}
	}
	if !d.opt.Remove || len(was) == 0 {
		return nil
	}
	prefix := datasetPrefix(d.name) + class + "/" + g.id + "/"
	if class == GCManifests {
		prefix = manifestPrefix(d.name) + g.id + "-"
	}
	var batch []found
	for attr, err := range d.c.bucket.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		f, ok := was[attr.Key]
		if !ok || d.marked[attr.Key] != "" || !f.modified.Equal(attr.Modified) || f.size != attr.Size {
			continue // written since, or named since
		}
		if batch = append(batch, f); len(batch) == sweptAtOnce {
			if err := d.delete(ctx, batch, item); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return d.delete(ctx, batch, item)
}

func (d *sweep) delete(ctx context.Context, batch []found, item *GCItem) error {
	if len(batch) == 0 {
		return nil
	}
	keys := make([]string, len(batch))
	for i, f := range batch {
		keys[i] = f.key
	}
	if err := d.c.bucket.Delete(ctx, keys...); err != nil {
		return err
	}
	for _, f := range batch {
		item.Objects++
		item.Bytes += f.size
		d.opt.Removed(f.key)
	}
	return nil
}
