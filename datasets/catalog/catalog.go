// Package catalog keeps the versions of datasets in an object store: numbered,
// immutable, published by one conditional write.
//
//	c := catalog.Open(bucket)
//	file, err := c.Stage(ctx, "maths", buildID, "train", "train", 0, path)
//	v, err := c.Publish(ctx, catalog.Manifest{Dataset: "maths", BuildID: buildID, Files: …})
//	v, m, err := c.Resolve(ctx, "maths@12")
//	for row, err := range catalog.ReadTable[datasets.Row](ctx, c, m, "train") { … }
//
// A version is the object versions/<n>.json, created only if absent; it names
// a manifest by digest, which names every file by digest. Readers take files
// from nowhere else, so they see a version whole or not at all. The protocol is
// that of Delta's log (Armbrust et al., VLDB 2020), a put-if-absent of the next
// number, with the reader walking on from a hint:
//
//	crash after        seen by readers    what the next run of the build does
//	staging, manifest  nothing new        finds its files there and goes on
//	commit, no answer  the new version    finds its own build_id and returns it
//	commit lost        another's version  commits as the number after it
//	no hint yet        the new version    the next publish moves the hint
//
// Names, tags and build ids are checked before they become part of a key.
package catalog

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Errors that callers branch on.
var (
	// ErrUnknown: no dataset, version, tag or digest of that name.
	ErrUnknown = errors.New("not in the catalog")
	// ErrInvalid: a name, reference or manifest that can't be used. Nothing
	// was written.
	ErrInvalid = errors.New("invalid")
	// ErrDamaged: an object is not what its digest says, or is gone.
	ErrDamaged = errors.New("damaged")
	// ErrRemoved: the version was withdrawn.
	ErrRemoved = errors.New("version removed")
)

// A Catalog is the datasets of one store. It is safe for concurrent use.
type Catalog struct {
	bucket objstore.Bucket
	now    func() time.Time
}

// Open returns the catalog of a store. It reads nothing yet.
func Open(b objstore.Bucket) *Catalog {
	return &Catalog{bucket: b, now: time.Now}
}

// Bucket is the store that the catalog is in.
func (c *Catalog) Bucket() objstore.Bucket { return c.bucket }

func (c *Catalog) stamp() time.Time { return c.now().UTC().Truncate(time.Millisecond) }

var (
	nameRule  = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)
	tagRule   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9._-]{0,62}$`)
	buildRule = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_-]{0,99}$`)
	partRule  = regexp.MustCompile(`^[a-z][a-z0-9_]{0,62}$`) // tables and splits
	hexRule   = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// ValidName reports why a dataset can't have this name.
func ValidName(name string) error {
	if !nameRule.MatchString(name) {
		return fmt.Errorf("%w dataset name %.80q: lower-case letters, digits, '.', '_' and '-', at most 63, starting with a letter or digit", ErrInvalid, name)
	}
	return nil
}

func validBuild(id string) error {
	if !buildRule.MatchString(id) {
		return fmt.Errorf("%w build id %.120q: letters, digits, '_' and '-', at most 100", ErrInvalid, id)
	}
	return nil
}

func validPart(what, s string) error {
	if !partRule.MatchString(s) {
		return fmt.Errorf("%w %s %.80q: lower-case letters, digits and '_', at most 63, starting with a letter", ErrInvalid, what, s)
	}
	return nil
}

// Keys. Their arguments have been checked.

func datasetPrefix(name string) string  { return "datasets/" + name + "/" }
func versionPrefix(name string) string  { return datasetPrefix(name) + "versions/" }
func manifestPrefix(name string) string { return datasetPrefix(name) + "manifests/" }
func dataPrefix(name string) string     { return datasetPrefix(name) + "data/" }
func buildPrefix(name string) string    { return datasetPrefix(name) + "builds/" }
func latestKey(name string) string      { return datasetPrefix(name) + "refs/latest.json" }
func tagPrefix(name string) string      { return datasetPrefix(name) + "refs/tags/" }
func tagKey(name, tag string) string    { return tagPrefix(name) + tag + ".json" }
func buildKey(name, id string) string   { return buildPrefix(name) + id + ".json" }
func versionKey(name string, n int64) string {
	return fmt.Sprintf("%s%020d.json", versionPrefix(name), n)
}
func manifestKey(name, id, sum string) string { return manifestPrefix(name) + id + "-" + sum + ".json" }
func reportPrefix(name, buildID string) string {
	return datasetPrefix(name) + "reports/" + buildID + "/"
}
func dataKey(name, id, table, file string) string {
	return dataPrefix(name) + id + "/" + table + "/" + file
}

// ReportKey is where a report of a build is kept, such as report.json.
func ReportKey(name, buildID, file string) (string, error) {
	if err := errors.Join(ValidName(name), validBuild(buildID)); err != nil {
		return "", err
	}
	key := reportPrefix(name, buildID) + file
	if strings.Contains(file, "/") {
		return "", fmt.Errorf("%w report name %q: it holds a slash", ErrInvalid, file)
	}
	return key, objstore.ValidKey(key)
}

// A Ref names a version: a dataset with nothing, a number, a tag or a manifest
// digest behind the @.
type Ref struct {
	Name   string
	Number int64  // of name@12
	Tag    string // of name@tag
	SHA256 string // of name@sha256:…, 12 hex digits or more
}

// ParseRef reads name, name@12, name@tag or name@sha256:….
func ParseRef(s string) (Ref, error) {
	name, at, found := strings.Cut(s, "@")
	if err := ValidName(name); err != nil {
		return Ref{}, err
	}
	r := Ref{Name: name}
	digest, isDigest := strings.CutPrefix(at, "sha256:")
	switch {
	case !found:
	case isDigest:
		if len(digest) < 12 || len(digest) > 64 || strings.Trim(digest, "0123456789abcdef") != "" {
			return Ref{}, fmt.Errorf("%w reference %.120q: after sha256: come 12 to 64 hex digits", ErrInvalid, s)
		}
		r.SHA256 = digest
	case tagRule.MatchString(at):
		r.Tag = at
	default:
		n, err := strconv.ParseInt(at, 10, 64)
		if err != nil || n < 1 {
			return Ref{}, fmt.Errorf("%w reference %.120q: after @ comes a version number, a tag or sha256:…", ErrInvalid, s)
		}
		r.Number = n
	}
	return r, nil
}

// String is the reference as ParseRef reads it.
func (r Ref) String() string {
	switch {
	case r.Number > 0:
		return fmt.Sprintf("%s@%d", r.Name, r.Number)
	case r.Tag != "":
		return r.Name + "@" + r.Tag
	case r.SHA256 != "":
		return r.Name + "@sha256:" + r.SHA256
	default:
		return r.Name
	}
}
