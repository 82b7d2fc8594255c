package catalog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// States of a build.
const (
	BuildRunning   = "running"
	BuildPaused    = "paused"
	BuildDone      = "done"      // Version says what it published, 0 for nothing new
	BuildFailed    = "failed"    // Reason says why
	BuildCancelled = "cancelled" // by its user
)

// An Intent is a build's entry in the catalog, from its start on: what lists
// show of builds that have published nothing yet, and what keeps the files of
// a build from being swept as leftovers.
type Intent struct {
	Dataset   string     `json:"dataset"`
	BuildID   string     `json:"build_id"`
	State     string     `json:"state"`
	Workflow  string     `json:"workflow,omitempty"` // where it runs
	Recipe    string     `json:"recipe_digest,omitempty"`
	Started   time.Time  `json:"started"`
	Heartbeat time.Time  `json:"heartbeat"` // the last sign of life
	Finished  *time.Time `json:"finished,omitempty"`
	Version   int64      `json:"version,omitempty"`
	Unchanged bool       `json:"unchanged,omitempty"` // nothing differed from the version before
	Reason    string     `json:"reason,omitempty"`
	// Swept is when GC began to remove what the build had left: it can't go on
	// from there.
	Swept *time.Time `json:"swept,omitempty"`
	// Progress is whatever the build wants shown, a JSON object; Result is
	// what it says at its end.
	Progress json.RawMessage `json:"progress,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
}

// Live reports whether the build's files are still wanted.
func (i *Intent) Live() bool { return i.State == BuildRunning || i.State == BuildPaused }

// sweptError says that the build's files are gone or going.
func (i *Intent) sweptError() error {
	return fmt.Errorf("%w build: gc removed what it had left at %s; start the build again, it reuses every answer",
		ErrInvalid, i.Swept.Format(time.RFC3339))
}

// PutIntent enters a build. Where it is entered already, it is running again
// and keeps the moment when it first started; a build that is done stays done.
func (c *Catalog) PutIntent(ctx context.Context, in Intent) error {
	if in.State == "" {
		in.State = BuildRunning
	}
	err := c.changeIntent(ctx, in.Dataset, in.BuildID, func(old *Intent) (*Intent, error) {
		now := c.stamp()
		switch {
		case old != nil && old.State == BuildDone:
			return nil, nil
		case old != nil && old.Swept != nil:
			return nil, old.sweptError()
		case old != nil:
			in.Started = old.Started
			if in.Progress == nil {
				in.Progress = old.Progress
			}
		case in.Started.IsZero():
			in.Started = now
		}
		in.Heartbeat = now
		return &in, nil
	})
	if err == nil {
		err = c.notPurging(ctx, in.Dataset) // a build that begins now waits, and a purge that begins later sees it
	}
	return err
}

// Heartbeat notes that a build is alive and how far it is; nil progress keeps
// what was there. A build that has ended is left alone. ErrUnknown: it was
// never entered.
func (c *Catalog) Heartbeat(ctx context.Context, dataset, buildID string, progress json.RawMessage) error {
	return c.UpdateIntent(ctx, dataset, buildID, func(in *Intent) {
		if in.Live() && progress != nil {
			in.Progress = progress
		}
	})
}

// FinishIntent notes the end of a build: a state, and what update sets besides
// (it may be nil).
func (c *Catalog) FinishIntent(ctx context.Context, dataset, buildID, state string, update func(*Intent)) error {
	return c.UpdateIntent(ctx, dataset, buildID, func(in *Intent) {
		if update != nil {
			update(in)
		}
		now := c.stamp()
		in.State, in.Finished = state, &now
	})
}

// UpdateIntent changes a build's entry in one step; update may run more than
// once. Dataset, BuildID and Started stay what they are.
func (c *Catalog) UpdateIntent(ctx context.Context, dataset, buildID string, update func(*Intent)) error {
	return c.changeIntent(ctx, dataset, buildID, func(old *Intent) (*Intent, error) {
		if old == nil {
			return nil, fmt.Errorf("build %s of %s: %w", buildID, dataset, ErrUnknown)
		}
		in := *old
		update(&in)
		in.Dataset, in.BuildID, in.Started = old.Dataset, old.BuildID, old.Started
		if old.Live() {
			in.Heartbeat = c.stamp()
		}
		return &in, nil
	})
}

func (c *Catalog) changeIntent(ctx context.Context, dataset, buildID string, change func(old *Intent) (*Intent, error)) error {
	if err := errors.Join(ValidName(dataset), validBuild(buildID)); err != nil {
		return err
	}
	key := buildKey(dataset, buildID)
	err := c.swap(ctx, key, func(data []byte) ([]byte, error) {
		var old *Intent
		if data != nil {
			old = new(Intent)
			if err := json.Unmarshal(data, old); err != nil {
				return nil, fmt.Errorf("%w: %s is not the JSON it should be: %w", ErrDamaged, key, err)
			}
		}
		in, err := change(old)
		if err != nil || in == nil {
			return nil, err
		}
		out, err := json.Marshal(in)
		if err == nil && len(out) > maxSmallBytes {
			err = fmt.Errorf("%w build entry: %d bytes, at most %d; say less in progress and result", ErrInvalid, len(out), maxSmallBytes)
		}
		return out, err
	})
	if err != nil {
		return fmt.Errorf("note build %s of %s: %w", buildID, dataset, err)
	}
	return nil
}

// Build is the entry of one build. ErrUnknown: there is none.
func (c *Catalog) Build(ctx context.Context, dataset, buildID string) (Intent, error) {
	if err := errors.Join(ValidName(dataset), validBuild(buildID)); err != nil {
		return Intent{}, err
	}
	var in Intent
	_, err := c.readJSON(ctx, buildKey(dataset, buildID), maxSmallBytes, &in)
	if errors.Is(err, objstore.ErrNotFound) {
		return Intent{}, fmt.Errorf("build %s of %s: %w", buildID, dataset, ErrUnknown)
	}
	return in, err
}

// Builds are the builds of a dataset, newest first.
func (c *Catalog) Builds(ctx context.Context, name string) ([]Intent, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(headsAtOnce)
	var mu sync.Mutex
	var out []Intent
	for attr, err := range c.bucket.List(ctx, buildPrefix(name), "") {
		if err != nil {
			return nil, errors.Join(err, g.Wait())
		}
		id, ok := strings.CutSuffix(strings.TrimPrefix(attr.Key, buildPrefix(name)), ".json")
		if !ok || validBuild(id) != nil {
			continue
		}
		g.Go(func() error {
			in, err := c.Build(gctx, name, id)
			if errors.Is(err, ErrUnknown) {
				return nil // removed meanwhile
			}
			mu.Lock()
			defer mu.Unlock()
			out = append(out, in)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b Intent) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(b.BuildID, a.BuildID))
	})
	return out, nil
}
