package training

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// StateFile holds what the launcher knows of a launch that has ended, beside
// result.json, which is what the launch says of itself.
const StateFile = "state.json"

// maxHandoffBytes bounds handoff.json and state.json when they are read back.
const maxHandoffBytes = 4 << 20

// A Launch is what a store holds of one hand-off.
type Launch struct {
	LaunchID string    `json:"launch_id"`
	Dataset  Dataset   `json:"dataset"`
	Trainer  string    `json:"trainer"`
	Student  string    `json:"student,omitempty"` // the model
	Rows     int64     `json:"rows"`              // of the train split
	Objects  int64     `json:"objects"`
	Bytes    int64     `json:"bytes"`
	Changed  time.Time `json:"changed"` // when its newest object was written
	// State is succeeded, failed, cancelled, or whatever else the launcher said
	// at its end; started where it was claimed and no end is known; prepared
	// where nobody has started it; incomplete where handoff.json is missing.
	State string `json:"state"`

	data []objstore.Attr // the files of the view
}

// States of a launch that has not ended.
const (
	LaunchStarted    = "started"
	LaunchPrepared   = "prepared"
	LaunchIncomplete = "incomplete"
)

// Ended reports whether the launch is over.
func (l *Launch) Ended() bool {
	return l.State != LaunchStarted && l.State != LaunchPrepared && l.State != LaunchIncomplete
}

// Launches yields the hand-offs of a store in the order of their ids. It ends
// at the first error. What was written by the trainers' machines is bounded,
// and unreadable where it is not what it should be.
func Launches(ctx context.Context, b objstore.Bucket) iter.Seq2[Launch, error] {
	return func(yield func(Launch, error) bool) {
		var group []objstore.Attr
		var id string
		end := func() bool {
			if id == "" {
				return true
			}
			l, err := launchOf(ctx, b, id, group)
			return yield(l, err) && err == nil
		}
		for attr, err := range b.List(ctx, "handoff/", "") {
			if err != nil {
				yield(Launch{}, err)
				return
			}
			of, _, ok := strings.Cut(strings.TrimPrefix(attr.Key, "handoff/"), "/")
			if !ok || !ValidLaunchID(of) {
				continue
			}
			if of != id {
				if !end() {
					return
				}
				id, group = of, group[:0]
			}
			group = append(group, attr)
		}
		end()
	}
}

func launchOf(ctx context.Context, b objstore.Bucket, id string, objects []objstore.Attr) (Launch, error) {
	l := Launch{LaunchID: id, State: LaunchIncomplete}
	has := map[string]bool{}
	for _, attr := range objects {
		l.Objects++
		l.Bytes += attr.Size
		if attr.Modified.After(l.Changed) {
			l.Changed = attr.Modified
		}
		name := strings.TrimPrefix(attr.Key, "handoff/"+id+"/")
		has[name] = true
		if strings.HasPrefix(name, DataFolder+"/") {
			l.data = append(l.data, attr)
		}
	}
	var bundle Bundle
	if !has[HandoffFile] {
		return l, nil
	}
	if ok, err := readRecord(ctx, b, Key(id, HandoffFile), &bundle); err != nil || !ok {
		return l, err
	}
	l.Dataset, l.Trainer, l.Student, l.Rows = bundle.Dataset, bundle.Trainer.Name, bundle.Student.Model, bundle.View.Rows["train"]
	l.State = LaunchPrepared
	if has[ClaimFile] {
		l.State = LaunchStarted
	}
	var state struct {
		Phase string `json:"phase"`
	}
	if has[StateFile] {
		ok, err := readRecord(ctx, b, Key(id, StateFile), &state)
		if err != nil {
			return l, err
		}
		if ok && state.Phase != "" {
			l.State = state.Phase
		}
	}
	return l, nil
}

// readRecord reads a small JSON object; ok is false where it is gone, too large
// or no JSON.
func readRecord(ctx context.Context, b objstore.Bucket, key string, v any) (ok bool, err error) {
	data, _, err := objstore.ReadAll(ctx, b, key, maxHandoffBytes)
	if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrTooLarge) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return json.Unmarshal(data, v) == nil, nil
}

// SweepOptions say what SweepLaunches may remove.
type SweepOptions struct {
	Datasets []string      // that are looked at; none means all
	Grace    time.Duration // how long a withdrawn version's hand-offs keep their files
	Remove   bool          // do it; without, nothing is changed
	Removed  func(key string)
	Now      time.Time
}

// SweepLaunches removes the view files of hand-offs whose version was withdrawn
// longer than the grace time ago and that have ended or never began: they are
// copies of its rows. What says what was trained, on what and with which result
// stays, a few small files. It is the part of a collection that knows bundles;
// see [catalog.Catalog.GC].
func SweepLaunches(ctx context.Context, c *catalog.Catalog, opt SweepOptions) ([]catalog.GCItem, error) {
	removed := map[Dataset]*time.Time{}
	items := map[string]*catalog.GCItem{}
	var out []catalog.GCItem
	keep := func(dataset, why string, objects, bytes int64) {
		item := items[dataset+"\x00"+why]
		if item == nil {
			item = &catalog.GCItem{Action: catalog.GCKeep, Class: catalog.GCHandoff, Dataset: dataset, Why: why}
			items[dataset+"\x00"+why] = item
		}
		item.Objects += objects
		item.Bytes += bytes
	}
	for l, err := range Launches(ctx, c.Bucket()) {
		if err != nil {
			return nil, fmt.Errorf("look at hand-offs: %w", err)
		}
		if len(opt.Datasets) > 0 && !slices.Contains(opt.Datasets, l.Dataset.Name) {
			continue
		}
		at, err := withdrawnAt(ctx, c, l.Dataset, removed)
		if err != nil {
			return nil, fmt.Errorf("look at hand-off %s: %w", l.LaunchID, err)
		}
		young := opt.Now.Add(-opt.Grace)
		switch {
		case at == nil:
			keep(l.Dataset.Name, "its version is there", l.Objects, l.Bytes)
			continue
		case l.State == LaunchStarted:
			keep(l.Dataset.Name, "its training may still run", l.Objects, l.Bytes)
			continue
		case opt.Grace > 0 && (at.After(young) || l.Changed.After(young)):
			keep(l.Dataset.Name, "its version was withdrawn within the grace time", l.Objects, l.Bytes)
			continue
		}
		item := catalog.GCItem{
			Action: catalog.GCRemove, Class: catalog.GCHandoff, Dataset: l.Dataset.Name, BuildID: l.Dataset.BuildID,
			Why: fmt.Sprintf("rows for hand-off %.12s (%s) of version %d, which was withdrawn on %s", l.LaunchID, l.State, l.Dataset.Version, at.Format(time.DateOnly)),
		}
		var keys []string
		for _, attr := range l.data {
			keys = append(keys, attr.Key)
			item.Objects++
			item.Bytes += attr.Size
		}
		keep(l.Dataset.Name, "the record of what was trained", l.Objects-item.Objects, l.Bytes-item.Bytes)
		if opt.Remove && len(keys) > 0 {
			if err := c.Bucket().Delete(ctx, keys...); err != nil {
				return out, fmt.Errorf("remove the rows of hand-off %s: %w", l.LaunchID, err)
			}
		}
		if opt.Removed != nil {
			for _, key := range keys {
				opt.Removed(key)
			}
		}
		out = append(out, item)
	}
	for _, item := range items {
		out = append(out, *item)
	}
	slices.SortStableFunc(out, func(a, b catalog.GCItem) int {
		return cmp.Or(cmp.Compare(a.Action, b.Action), cmp.Compare(a.Dataset, b.Dataset), cmp.Compare(a.Why, b.Why))
	})
	return out, nil
}

// withdrawnAt is when a bundle's version was withdrawn; nil where it was not,
// or where the bundle names no version of this store.
func withdrawnAt(ctx context.Context, c *catalog.Catalog, d Dataset, known map[Dataset]*time.Time) (*time.Time, error) {
	if catalog.ValidName(d.Name) != nil || d.Version < 1 {
		return nil, nil
	}
	if at, ok := known[d]; ok {
		return at, nil
	}
	v, err := c.Record(ctx, d.Name, d.Version)
	switch {
	case errors.Is(err, catalog.ErrUnknown), errors.Is(err, catalog.ErrDamaged), errors.Is(err, catalog.ErrInvalid):
		known[d] = nil
		return nil, nil
	case err != nil:
		return nil, err
	case v.BuildID != d.BuildID || v.Removed == nil: // a purge changes the digest
		known[d] = nil
		return nil, nil
	}
	known[d] = &v.Removed.At
	return known[d], nil
}
