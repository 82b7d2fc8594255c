package catalog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Defaults and bounds of a collection.
const (
	// DefaultGrace is how old a leftover must be. It is longer than any build
	// and any reader is expected to take, as with Delta's VACUUM (7 days).
	DefaultGrace = 7 * 24 * time.Hour
	// uploadGrace is how old an unfinished upload must be, where the grace time
	// is not shorter: a file goes up in minutes.
	uploadGrace = 24 * time.Hour
	// unenteredGrace is how old the files of a build must be that the catalog
	// has no entry of, whatever the grace time: nothing else tells whether
	// somebody is about to publish them.
	unenteredGrace = 24 * time.Hour
)

// GCOptions say what a collection may remove.
type GCOptions struct {
	// Datasets are those that are looked at; none means all.
	Datasets []string
	// Grace is how old a leftover must be to be removed, and how long the files
	// of a withdrawn version stay. 0 is for when nobody builds and nobody reads.
	Grace time.Duration
	// KeepLast and KeepWithin say which versions stay: the newest so many, and
	// those published within so long. Where both are 0, all stay. The newest
	// version and those with a tag always stay.
	KeepLast   int
	KeepWithin time.Duration
	// Abandoned is after how long without a sign of life a running build counts
	// as dead; 0 means never. A paused build is live however long it waits.
	Abandoned time.Duration
	// Remove does it. Without, nothing is changed.
	Remove bool
	// Note, where set, is told what is being done. Removed, where set, is told
	// each key that is removed, or would be.
	Note    func(string)
	Removed func(key string)
}

// What is done with something.
const (
	GCRemove   = "remove"   // objects, for good
	GCWithdraw = "withdraw" // a version: its number stays taken
	GCAbort    = "abort"    // unfinished uploads
	GCKeep     = "keep"
)

// Classes of what lies in a store.
const (
	GCVersions  = "versions"
	GCData      = "data"
	GCReports   = "reports"
	GCManifests = "manifests"
	GCWork      = "work"
	GCUploads   = "uploads"
	GCHandoff   = "handoff"
	GCCatalog   = "catalog" // entries of builds, version records, tags
	GCRecipes   = "recipes"
	GCSources   = "sources"
	GCAnswers   = "answers"
	GCOther     = "other"
)

// A GCItem is a group of objects of one class with one reason.
type GCItem struct {
	Action  string `json:"action" jsonschema:"enum=remove,enum=withdraw,enum=abort,enum=keep"`
	Class   string `json:"class"`
	Dataset string `json:"dataset,omitempty"`
	BuildID string `json:"build_id,omitempty"` // of what is removed
	Version int64  `json:"version,omitempty"`  // that is withdrawn
	Objects int64  `json:"objects"`            // or uploads
	Bytes   int64  `json:"bytes"`              // 0 of uploads: no store tells
	Why     string `json:"why"`
}

// A GCReport is what a collection did, or would do.
type GCReport struct {
	Store    string    `json:"store"`
	DryRun   bool      `json:"dry_run"`
	At       time.Time `json:"at"`
	GraceS   int64     `json:"grace_s"` // seconds
	Items    []GCItem  `json:"items"`
	Problems []Problem `json:"problems"` // datasets that were left alone, and why
	// Removed and Kept sum up the items.
	Removed GCTotal `json:"removed"`
	Kept    GCTotal `json:"kept"`
}

// A GCTotal sums up items.
type GCTotal struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

// Add appends items and sums them up.
func (r *GCReport) Add(items ...GCItem) {
	for _, i := range items {
		if i.Objects == 0 && i.Action != GCWithdraw {
			continue
		}
		r.Items = append(r.Items, i)
		total := &r.Removed
		switch i.Action {
		case GCKeep:
			total = &r.Kept
		case GCWithdraw, GCAbort:
			continue
		}
		total.Objects += i.Objects
		total.Bytes += i.Bytes
	}
}

// GC removes what no version, build or reader needs any more: files and
// manifests that no version names, the work of builds that have ended, the
// files of versions that were withdrawn, and unfinished uploads. It never
// touches answers, recipes and sources, entries of builds, or the numbers of
// versions. Without opt.Remove it only says what it would do.
//
// It is safe beside builds, readers and other collections, and may be
// interrupted at any moment. What a build writes is kept while the build runs
// or pauses: entries of builds are read before versions, so that a build that
// ends meanwhile is seen as one or the other, and once more right before
// anything of it is removed, in one step that keeps it from going on. A dataset
// whose versions can't all be read is left alone and named in Problems.
//
// Where it fails in the middle, the report says what was done until then.
func (c *Catalog) GC(ctx context.Context, opt GCOptions) (*GCReport, error) {
	if err := opt.validate(); err != nil {
		return nil, fmt.Errorf("gc: %w", err)
	}
	if opt.Note == nil {
		opt.Note = func(string) {}
	}
	if opt.Removed == nil {
		opt.Removed = func(string) {}
	}
	g := &collection{c: c, opt: opt, now: c.stamp()}
	g.report = &GCReport{
		Store: c.bucket.String(), DryRun: !opt.Remove, At: g.now, GraceS: int64(opt.Grace / time.Second),
		Items: []GCItem{}, Problems: []Problem{},
	}
	if err := g.run(ctx); err != nil {
		return g.report, fmt.Errorf("gc of %s: %w", c.bucket, err)
	}
	return g.report, nil
}

func (o *GCOptions) validate() error {
	for _, name := range o.Datasets {
		if err := ValidName(name); err != nil {
			return err
		}
	}
	if o.Grace < 0 || o.KeepLast < 0 || o.KeepWithin < 0 || o.Abandoned < 0 {
		return fmt.Errorf("%w options: grace %s, keep last %d, keep within %s, abandoned after %s: none may be below zero",
			ErrInvalid, o.Grace, o.KeepLast, o.KeepWithin, o.Abandoned)
	}
	return nil
}

// A collection is one run of GC.
type collection struct {
	c      *Catalog
	opt    GCOptions
	now    time.Time
	report *GCReport
	live   map[string]bool // key prefixes of the data of live builds
}

func (g *collection) run(ctx context.Context) error {
	names, err := g.c.names(ctx)
	if err != nil {
		return err
	}
	for _, name := range g.opt.Datasets {
		if !slices.Contains(names, name) {
			return g.c.unknown(ctx, Ref{Name: name}, "no such dataset")
		}
	}
	if len(g.opt.Datasets) > 0 {
		names = g.opt.Datasets
	}
	g.live = map[string]bool{}
	for _, name := range names {
		g.opt.Note("looking at " + name)
		if err := g.dataset(ctx, name); err != nil {
			return fmt.Errorf("dataset %s: %w", name, err)
		}
	}
	if err := g.uploads(ctx); err != nil {
		return err
	}
	if len(g.opt.Datasets) > 0 {
		return nil
	}
	return g.elsewhere(ctx)
}

// dataset collects one dataset.
func (g *collection) dataset(ctx context.Context, name string) error {
	d := &sweep{collection: g, name: name}
	err := g.c.notPurging(ctx, name)
	if errors.Is(err, ErrPurging) {
		g.leave(name, err, "run gc again once it has ended")
		return d.keepAll(ctx, "a purge has not ended")
	}
	if err == nil {
		err = d.look(ctx)
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, ErrInvalid) {
		// What can't be read may need anything.
		g.leave(name, err, "look closer with: stillhouse verify "+name)
		return d.keepAll(ctx, "what it needs can't be read")
	}
	if err != nil {
		return err
	}
	if err := d.withdraw(ctx); err != nil {
		return err
	}
	if err := d.list(ctx); err != nil {
		return err
	}
	return d.remove(ctx)
}

// leave notes that a dataset was left alone.
func (g *collection) leave(name string, err error, next string) {
	g.report.Problems = append(g.report.Problems, Problem{
		Key: datasetPrefix(name), What: fmt.Sprintf("nothing of %s was removed: %s", name, err), Next: next,
	})
}

// old reports whether something of that time may go. Without a grace time all
// may, also what a clock that is ahead of ours has stamped.
func (g *collection) old(modified time.Time, grace time.Duration) bool {
	return grace == 0 || !modified.After(g.now.Add(-grace))
}

// kept is where the program keeps what no collection removes, and why.
var kept = []GCItem{
	{Class: GCAnswers, Why: "every answer that was paid for; gc never touches them"},
	{Class: GCRecipes, Why: "small; schedules, builds that run and reparse read them"},
	{Class: GCSources, Why: "schedules, builds that run and reparse read them"},
	{Class: "batches", Why: "what is at batch APIs and must not be submitted twice"},
}

// elsewhere counts what lies beside the datasets. Hand-off bundles are looked
// at by who knows them.
func (g *collection) elsewhere(ctx context.Context) error {
	g.opt.Note("counting what is kept")
	items := map[string]*GCItem{}
	for attr, err := range g.c.bucket.List(ctx, "", "") {
		if err != nil {
			return err
		}
		top := topOf(attr.Key)
		if top == "datasets" || top == GCHandoff {
			continue
		}
		item := items[top]
		if item == nil {
			item = &GCItem{Class: GCOther, Why: "gc does not know it"}
			if i := slices.IndexFunc(kept, func(k GCItem) bool { return k.Class == top }); i >= 0 {
				*item = kept[i]
			}
			item.Action = GCKeep
			items[top] = item
		}
		item.Objects++
		item.Bytes += attr.Size
	}
	var list []GCItem
	for _, item := range items {
		list = append(list, *item)
	}
	slices.SortFunc(list, func(a, b GCItem) int { return cmp.Compare(a.Class, b.Class) })
	g.report.Add(list...)
	return nil
}

// uploads aborts what broken uploads left behind.
func (g *collection) uploads(ctx context.Context) error {
	sweeper, ok := g.c.bucket.(objstore.UploadSweeper)
	if !ok {
		return nil
	}
	grace := min(g.opt.Grace, uploadGrace)
	open, err := sweeper.Uploads(ctx)
	if err != nil {
		return err
	}
	why := map[string]*GCItem{}
	note := func(action, text string) {
		if why[text] == nil {
			why[text] = &GCItem{Action: action, Class: GCUploads, Why: text}
		}
		why[text].Objects++
	}
	for _, u := range open {
		switch {
		case topOf(u.Key) == GCAnswers:
			note(GCKeep, "unfinished, of answers; gc never touches them")
		case !g.concerns(u.Key):
		case g.ofLive(u.Key):
			note(GCKeep, "unfinished, of a build that is running or paused")
		case !g.old(u.Began, grace):
			note(GCKeep, "unfinished, and younger than "+inWords(grace))
		default:
			if g.opt.Remove {
				if err := sweeper.AbortUpload(ctx, u); err != nil {
					return err
				}
			}
			g.opt.Removed(u.Key)
			note(GCAbort, "unfinished, and older than "+inWords(grace))
		}
	}
	var list []GCItem
	for _, item := range why {
		list = append(list, *item)
	}
	slices.SortFunc(list, func(a, b GCItem) int { return cmp.Compare(a.Action+a.Why, b.Action+b.Why) })
	g.report.Add(list...)
	return nil
}

// inWords writes a duration as options take it, whole days as days.
func inWords(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d == 0:
		return "0"
	case d%day == 0:
		return fmt.Sprintf("%dd", d/day)
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return d.String()
}
