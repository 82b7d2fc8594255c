package catalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// A sweep is the collection of one dataset.
type sweep struct {
	*collection
	name     string
	builds   map[string]Intent
	versions []Version         // newest first
	marked   map[string]string // key → why it is kept
	last     int64             // the newest version that was looked at

	groups []*leftover
	byID   map[string]*leftover
	items  map[string]*GCItem // of what is kept, by class and reason
}

func topOf(key string) string {
	top, _, _ := strings.Cut(key, "/")
	return top
}

// concerns reports whether a key is of a dataset that is looked at.
func (g *collection) concerns(key string) bool {
	if len(g.opt.Datasets) == 0 {
		return true
	}
	return slices.ContainsFunc(g.opt.Datasets, func(name string) bool { return strings.HasPrefix(key, datasetPrefix(name)) })
}

// ofLive reports whether a live build writes a key.
func (g *collection) ofLive(key string) bool {
	name, folder, id, ok := splitKey(key)
	return ok && g.live[datasetPrefix(name)+id] && folder != ""
}

// splitKey takes a key of something that a build wrote apart.
func splitKey(key string) (name, folder, buildID string, ok bool) {
	parts := strings.SplitN(key, "/", 5)
	if len(parts) < 4 || parts[0] != "datasets" {
		return "", "", "", false
	}
	name, folder = parts[1], parts[2]
	switch {
	case folder == GCManifests && len(parts) == 4:
		id, sum, ok := cutLast(strings.TrimSuffix(parts[3], ".json"), "-")
		return name, folder, id, ok && strings.HasSuffix(parts[3], ".json") && hexRule.MatchString(sum) && validBuild(id) == nil
	case (folder == GCData || folder == GCReports || folder == GCWork) && len(parts) == 5:
		return name, folder, parts[3], validBuild(parts[3]) == nil
	}
	return name, folder, "", false
}

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// look reads what the dataset needs. Entries of builds come first: a build
// commits before its entry says that it is done, so that one that is not live
// in what was read has its version in what is read after.
func (d *sweep) look(ctx context.Context) error {
	builds, err := d.c.Builds(ctx, d.name)
	if err != nil {
		return err
	}
	d.builds, d.byID, d.items = map[string]Intent{}, map[string]*leftover{}, map[string]*GCItem{}
	for _, in := range builds {
		d.builds[in.BuildID] = in
		if d.alive(&in) {
			d.live[datasetPrefix(d.name)+in.BuildID] = true
		}
	}
	d.marked = map[string]string{}
	d.versions, err = d.c.Versions(ctx, d.name)
	if errors.Is(err, ErrUnknown) {
		return nil
	}
	if err != nil {
		return err
	}
	d.last = d.versions[0].Number
	for _, v := range d.versions {
		if err := d.mark(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// alive reports whether a build's files are wanted.
func (g *collection) alive(in *Intent) bool {
	if in.State == BuildRunning && g.opt.Abandoned > 0 && g.old(in.Heartbeat, g.opt.Abandoned) {
		return false
	}
	return in.Live()
}

// mark notes what a version names.
func (d *sweep) mark(ctx context.Context, v Version) error {
	why := "a version names it"
	if v.Removed != nil {
		if d.old(v.Removed.At, d.opt.Grace) {
			return nil
		}
		why = "of a withdrawn version, within the grace time"
	}
	m, err := d.c.manifest(ctx, v)
	if v.Removed != nil && errors.Is(err, objstore.ErrNotFound) {
		return nil // an earlier collection with a shorter grace time has been here
	}
	if err != nil {
		return err
	}
	note := func(key string) {
		if v.Removed == nil || d.marked[key] == "" {
			d.marked[key] = why
		}
	}
	note(v.Manifest)
	for _, f := range m.Files {
		note(f.Key)
	}
	for _, key := range m.Reports {
		note(key)
	}
	return nil
}

// withdraw takes back the versions that the options do not keep. Their files
// stay for the grace time, so that who reads one now reads it to its end.
func (d *sweep) withdraw(ctx context.Context) error {
	if d.opt.KeepLast == 0 && d.opt.KeepWithin == 0 || len(d.versions) == 0 {
		return nil
	}
	tags, err := d.c.Tags(ctx, d.name)
	if err != nil {
		return err
	}
	tagged := map[int64]bool{}
	for _, t := range tags {
		tagged[t.Version] = true
	}
	standing, withdrew := 0, false
	for i, v := range d.versions {
		if v.Removed != nil {
			continue
		}
		standing++
		switch {
		case standing == 1, standing <= d.opt.KeepLast, tagged[v.Number]:
			continue
		case d.opt.KeepWithin > 0 && !d.old(v.CreatedAt, d.opt.KeepWithin):
			continue
		}
		if err := d.withdrawOne(ctx, i); err != nil {
			return err
		}
		withdrew = true
	}
	if !withdrew {
		return nil
	}
	d.marked = map[string]string{}
	for _, v := range d.versions {
		if err := d.mark(ctx, v); err != nil {
			return err
		}
	}
	return nil
}

// withdrawOne withdraws a version, or makes as if, so that what would become of
// its files is told as well.
func (d *sweep) withdrawOne(ctx context.Context, i int) error {
	v := d.versions[i]
	item := GCItem{Action: GCWithdraw, Class: GCVersions, Dataset: d.name, Version: v.Number, Objects: 1, Why: d.rule()}
	if d.opt.Remove {
		d.opt.Note("withdrawing " + v.Ref())
		removed, err := d.c.Withdraw(ctx, d.name, v.Number, "gc: "+d.rule())
		if errors.Is(err, ErrInvalid) {
			return nil // it got a tag meanwhile, or is the newest that is left
		}
		if err != nil {
			return err
		}
		v = removed
	} else {
		v.Removed = &Removal{At: d.now, Reason: "gc: " + d.rule()}
	}
	d.versions[i] = v
	d.report.Add(item)
	return nil
}

// rule says which versions stay.
func (d *sweep) rule() string {
	var parts []string
	if d.opt.KeepLast > 0 {
		parts = append(parts, fmt.Sprintf("the newest %d", d.opt.KeepLast))
	}
	if d.opt.KeepWithin > 0 {
		parts = append(parts, "those of the last "+inWords(d.opt.KeepWithin))
	}
	return "kept are " + strings.Join(append(parts, "those with a tag"), ", ")
}

// grace is how old what a build wrote must be.
func (d *sweep) grace(buildID string) time.Duration {
	if _, entered := d.builds[buildID]; !entered {
		return max(d.opt.Grace, unenteredGrace)
	}
	return d.opt.Grace
}
