package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Errors of purges that callers branch on.
var (
	// ErrPurged: the reference names a state of a version of which rows have
	// been purged since.
	ErrPurged = errors.New("purged since")
	// ErrPurging: a purge of the dataset has begun and not ended. Nothing is
	// published meanwhile.
	ErrPurging = errors.New("a purge has not ended")
	// ErrBuilding: a build of the dataset runs or is paused; what it has read
	// would come back with it.
	ErrBuilding = errors.New("a build has not ended")
)

// PurgeFormat is the format of the records of purges that this program writes.
const PurgeFormat = 1

// States of a purge.
const (
	PurgeRunning = "running"
	PurgeDone    = "done"
)

// What a purge erases.
const (
	PurgeAnswers = "answers" // rows and the answers behind them
	PurgePrompts = "prompts" // prompts, with all that was answered to them
)

// A Purge is the record of one, without anything of what was erased. It stays.
type Purge struct {
	FormatVersion int        `json:"format_version"`
	ID            string     `json:"id"` // UTC stamp + 8 hex
	Dataset       string     `json:"dataset"`
	Ref           string     `json:"ref"` // in which the rows were chosen
	Scope         string     `json:"scope" jsonschema:"enum=answers,enum=prompts"`
	State         string     `json:"state" jsonschema:"enum=running,enum=done"`
	By            string     `json:"by,omitempty"` // account and machine
	Reason        string     `json:"reason,omitempty"`
	Started       time.Time  `json:"started"`
	Finished      *time.Time `json:"finished,omitempty"`
	// IDs counts the samples (of prompts: the prompts) that were chosen, and
	// IDsSHA256 is over their sorted ids, a line each: whoever has the ids can
	// tell that it was these, and nobody else learns them.
	IDs       int64  `json:"ids"`
	IDsSHA256 string `json:"ids_sha256"`
	// Versions are what became of those of the dataset.
	Versions []PurgedVersion `json:"versions"`
	// Counts of what was erased beside the rows, by kind.
	Counts map[string]int64 `json:"counts,omitempty"`
}

// A PurgedVersion is what a purge changed of one version.
type PurgedVersion struct {
	Version int64            `json:"version"`
	Before  string           `json:"before"` // digest of its manifest
	After   string           `json:"after"`
	Rows    map[string]int64 `json:"rows"` // erased or blanked, by table
}

// A PurgeMark says in a version, and in its manifest, that rows have been
// purged from it since it was published.
type PurgeMark struct {
	At     time.Time        `json:"at"`
	Record string           `json:"record"`          // key of the Purge
	Before string           `json:"manifest_before"` // digest of the manifest that it had
	Rows   map[string]int64 `json:"rows,omitempty"`  // erased or blanked, by table
}

func purgePrefix(name string) string      { return datasetPrefix(name) + "purges/" }
func purgeKey(name, id string) string     { return purgePrefix(name) + id + ".json" }
func openPurgeKey(name string) string     { return purgePrefix(name) + "open.json" }
func purgePlanKey(name, id string) string { return purgePrefix(name) + id + ".plan.json" }

// PurgedPromptsKey is where the digests of a dataset's purged prompts are kept.
func PurgedPromptsKey(name string) string { return datasetPrefix(name) + "purges/prompts.txt" }

// Bounds of what is kept of a purge.
const (
	maxPurgeBytes   = 8 << 20
	maxPlanBytes    = 1 << 30
	maxPromptsBytes = 256 << 20
)

// openPurge is the object that says that a purge has begun. While it is there
// nothing of the dataset is published, and no build begins.
type openPurge struct {
	ID string `json:"id"`
}

// BeginPurge enters a purge with the plan that it follows, which whoever
// finishes it reads. From then on until EndPurge no build of the dataset begins
// and none publishes. ErrBuilding: one runs or is paused. ErrPurging: another
// purge has not ended; OpenPurge tells which.
func (c *Catalog) BeginPurge(ctx context.Context, p Purge, plan []byte) error {
	if err := errors.Join(ValidName(p.Dataset), validBuild(p.ID)); err != nil {
		return err
	}
	fail := func(err error) error { return fmt.Errorf("begin purge %s of %s: %w", p.ID, p.Dataset, err) }
	lock, err := json.Marshal(openPurge{ID: p.ID})
	if err != nil {
		return fail(err)
	}
	key := openPurgeKey(p.Dataset)
	_, err = objstore.PutBytes(ctx, c.bucket, key, lock, objstore.PutOptions{IfNoneMatch: true, ContentType: "application/json"})
	if err != nil {
		// A refusal may be the echo of our own success.
		var there openPurge
		if _, readErr := c.readJSON(ctx, key, maxSmallBytes, &there); readErr != nil || there.ID != p.ID {
			if errors.Is(err, objstore.ErrPrecondition) {
				err = fmt.Errorf("%w: %s", ErrPurging, there.ID)
			}
			return fail(err)
		}
	}
	// Builds enter themselves before they look whether a purge is open, and we
	// look for builds after it is: the one who comes second sees the other.
	release := func(err error) error {
		return fail(errors.Join(err, c.bucket.Delete(context.WithoutCancel(ctx), key)))
	}
	builds, err := c.Builds(ctx, p.Dataset)
	if err != nil {
		return release(err)
	}
	for i := range builds {
		if b := &builds[i]; b.Live() {
			return release(fmt.Errorf("%w: %s (%s, last sign of life %s); let it finish, or end it with: stillhouse cancel %s",
				ErrBuilding, b.BuildID, b.State, b.Heartbeat.Format(time.DateTime), b.BuildID))
		}
	}
	p.State = PurgeRunning
	if err := c.putPurge(ctx, &p); err != nil {
		return release(err)
	}
	if _, err := objstore.PutBytes(ctx, c.bucket, purgePlanKey(p.Dataset, p.ID), plan, objstore.PutOptions{ContentType: "application/json"}); err != nil {
		return release(err)
	}
	return nil
}

func (c *Catalog) putPurge(ctx context.Context, p *Purge) error {
	p.FormatVersion = PurgeFormat
	if p.Versions == nil {
		p.Versions = []PurgedVersion{}
	}
	data, err := json.MarshalIndent(p, "", " ")
	if err != nil {
		return err
	}
	if len(data) > maxPurgeBytes {
		return fmt.Errorf("%w record of a purge: %d bytes, at most %d", ErrInvalid, len(data), maxPurgeBytes)
	}
	_, err = objstore.PutBytes(ctx, c.bucket, purgeKey(p.Dataset, p.ID), data, objstore.PutOptions{ContentType: "application/json"})
	return err
}

// OpenPurge is the purge that has begun and not ended, with its plan; nil where
// there is none. One that broke off before its plan was there has done nothing:
// it is taken back.
func (c *Catalog) OpenPurge(ctx context.Context, name string) (*Purge, []byte, error) {
	if err := ValidName(name); err != nil {
		return nil, nil, err
	}
	var open openPurge
	_, err := c.readJSON(ctx, openPurgeKey(name), maxSmallBytes, &open)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil, nil
	}
	if err == nil {
		err = validBuild(open.ID)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("look for an open purge of %s: %w", name, err)
	}
	plan, _, err := objstore.ReadAll(ctx, c.bucket, purgePlanKey(name, open.ID), maxPlanBytes)
	if errors.Is(err, objstore.ErrNotFound) {
		if p, err := c.purge(ctx, name, open.ID); err == nil && p.State == PurgeDone {
			return nil, nil, c.bucket.Delete(ctx, openPurgeKey(name)) // its last step
		}
		return nil, nil, c.bucket.Delete(ctx, openPurgeKey(name), purgeKey(name, open.ID))
	}
	if err != nil {
		return nil, nil, fmt.Errorf("read the plan of purge %s: %w", open.ID, err)
	}
	p, err := c.purge(ctx, name, open.ID)
	if err != nil {
		return nil, nil, err
	}
	return p, plan, nil
}

func (c *Catalog) purge(ctx context.Context, name, id string) (*Purge, error) {
	var p Purge
	if _, err := c.readJSON(ctx, purgeKey(name, id), maxPurgeBytes, &p); err != nil {
		return nil, fmt.Errorf("read the record of purge %s of %s: %w", id, name, err)
	}
	if p.FormatVersion > PurgeFormat {
		return nil, fmt.Errorf("the record of purge %s of %s has format %d, which is newer than this program reads (%d); update it", id, name, p.FormatVersion, PurgeFormat)
	}
	return &p, nil
}

// NotePurge writes how far a purge is into its record.
func (c *Catalog) NotePurge(ctx context.Context, p *Purge) error {
	if err := c.putPurge(ctx, p); err != nil {
		return fmt.Errorf("note purge %s of %s: %w", p.ID, p.Dataset, err)
	}
	return nil
}

// EndPurge records that a purge is through, and lets builds begin again.
func (c *Catalog) EndPurge(ctx context.Context, p *Purge) error {
	now := c.stamp()
	p.State, p.Finished = PurgeDone, &now
	err := c.putPurge(ctx, p)
	if err == nil {
		err = c.bucket.Delete(ctx, purgePlanKey(p.Dataset, p.ID))
	}
	if err == nil {
		err = c.bucket.Delete(ctx, openPurgeKey(p.Dataset))
	}
	if err != nil {
		return fmt.Errorf("end purge %s of %s: %w", p.ID, p.Dataset, err)
	}
	return nil
}

// Purges are the records of a dataset's purges, oldest first.
func (c *Catalog) Purges(ctx context.Context, name string) ([]Purge, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	var out []Purge
	for attr, err := range c.bucket.List(ctx, purgePrefix(name), "") {
		if err != nil {
			return nil, fmt.Errorf("list purges of %s: %w", name, err)
		}
		id, ok := strings.CutSuffix(strings.TrimPrefix(attr.Key, purgePrefix(name)), ".json")
		if !ok || id == "open" || validBuild(id) != nil {
			continue
		}
		p, err := c.purge(ctx, name, id)
		if err != nil {
			return nil, err
		}
		out = append(out, *p)
	}
	return out, nil
}

// notPurging is an ErrPurging where a purge of the dataset has not ended.
func (c *Catalog) notPurging(ctx context.Context, name string) error {
	var open openPurge
	_, err := c.readJSON(ctx, openPurgeKey(name), maxSmallBytes, &open)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		return nil
	case err != nil:
		return err
	}
	return fmt.Errorf("%w: %s of dataset %s; it ends by itself, or where it was interrupted with: stillhouse purge %s --yes", ErrPurging, open.ID, name, name)
}

// Replace puts another manifest in the place of a version's: one that names
// what is left after a purge. The version keeps its number, its build and its
// parent, and says from then on what it was. It may be called again with the
// same arguments.
func (c *Catalog) Replace(ctx context.Context, v Version, m *Manifest, mark PurgeMark) (Version, error) {
	fail := func(err error) (Version, error) {
		return Version{}, fmt.Errorf("replace the manifest of %s: %w", v.Ref(), err)
	}
	if m.Dataset != v.Dataset || m.BuildID != v.BuildID || m.Parent != v.Parent {
		return fail(fmt.Errorf("%w: it is of %s, build %s, after version %d", ErrInvalid, m.Dataset, m.BuildID, m.Parent))
	}
	if err := m.validate(); err != nil {
		return fail(err)
	}
	if err := m.complete(v.CreatedAt); err != nil {
		return fail(err)
	}
	if err := c.allPresent(ctx, m.Files); err != nil {
		return fail(err)
	}
	data, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return fail(err)
	}
	sum := sha256.Sum256(data)
	digest := hex.EncodeToString(sum[:])
	key := manifestKey(v.Dataset, v.BuildID, digest)
	if _, err := objstore.CreateOrSame(ctx, c.bucket, key, data); err != nil {
		return fail(err)
	}
	out, err := c.changeVersion(ctx, v.Dataset, v.Number, func(at *Version) error {
		switch at.ManifestSHA256 {
		case digest:
			return errAlready
		case v.ManifestSHA256:
		default:
			return fmt.Errorf("it has the manifest %s now, not %s; run the purge again", at.ManifestSHA256, v.ManifestSHA256)
		}
		at.Manifest, at.ManifestSHA256, at.ManifestBytes = key, digest, int64(len(data))
		at.Purged = append(at.Purged, mark)
		return nil
	})
	if err != nil {
		return fail(err)
	}
	return out, c.retag(ctx, out)
}

// retag gives the tags of a version the digest of its new manifest.
func (c *Catalog) retag(ctx context.Context, v Version) error {
	tags, err := c.Tags(ctx, v.Dataset)
	if err != nil {
		return err
	}
	for _, t := range tags {
		if t.Version != v.Number || t.ManifestSHA256 == v.ManifestSHA256 {
			continue
		}
		err := c.swap(ctx, tagKey(v.Dataset, t.Tag), func(old []byte) ([]byte, error) {
			var at TagRef
			if old == nil || json.Unmarshal(old, &at) != nil || at.Version != v.Number {
				return nil, nil // it was moved meanwhile
			}
			at.ManifestSHA256 = v.ManifestSHA256
			return json.Marshal(at)
		})
		if err != nil {
			return fmt.Errorf("tag %s of %s: %w", t.Tag, v.Ref(), err)
		}
	}
	return nil
}

// wasPurged is an ErrPurged where the digest is that of a manifest that the
// version had before a purge.
func (v Version) wasPurged(digest string) error {
	for _, p := range v.Purged {
		if strings.HasPrefix(p.Before, digest) {
			return fmt.Errorf("%s@sha256:%s: %w: it was %s until %s; what is left of it is %s@sha256:%s",
				v.Dataset, digest, ErrPurged, v.Ref(), p.At.Format(time.DateOnly), v.Dataset, v.ManifestSHA256[:16])
		}
	}
	return nil
}

// PromptDigest is what a purged prompt is known by: SHA-256 of its id, which is
// a digest of its text by itself.
func PromptDigest(promptID string) string {
	sum := sha256.Sum256([]byte("stillhouse purged prompt\x00" + promptID))
	return hex.EncodeToString(sum[:])
}

// PurgedPrompts are the digests (PromptDigest) of the prompts that were purged
// from a dataset. No build makes tasks of them again.
func (c *Catalog) PurgedPrompts(ctx context.Context, name string) (map[string]bool, error) {
	if err := ValidName(name); err != nil {
		return nil, err
	}
	data, _, err := objstore.ReadAll(ctx, c.bucket, PurgedPromptsKey(name), maxPromptsBytes)
	if errors.Is(err, objstore.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read which prompts of %s were purged: %w", name, err)
	}
	out := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); !hexRule.MatchString(line) {
			return nil, fmt.Errorf("%w: %s holds a line that is no digest", ErrDamaged, PurgedPromptsKey(name))
		}
		out[line] = true
	}
	return out, nil
}

// AddPurgedPrompts adds to them. It may be called again.
func (c *Catalog) AddPurgedPrompts(ctx context.Context, name string, digests []string) error {
	if err := ValidName(name); err != nil {
		return err
	}
	err := c.swapUpTo(ctx, PurgedPromptsKey(name), maxPromptsBytes, func(old []byte) ([]byte, error) {
		lines := strings.Fields(string(old))
		lines = append(lines, digests...)
		slices.Sort(lines)
		lines = slices.Compact(lines)
		if len(lines) == len(strings.Fields(string(old))) {
			return nil, nil
		}
		return []byte(strings.Join(lines, "\n") + "\n"), nil
	})
	if err != nil {
		return fmt.Errorf("record which prompts of %s were purged: %w", name, err)
	}
	return nil
}

// ManifestOf reads the manifest that a version names, also one of a version that
// was withdrawn.
func (c *Catalog) ManifestOf(ctx context.Context, v Version) (*Manifest, error) {
	return c.manifest(ctx, v)
}
