package views

import (
	"context"
	"errors"
	"io"
	"path"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// manifestName is the file that makes an export whole.
const manifestName = "manifest.json"

// maxAboutBytes bounds what is read of a manifest.json that may be anybody's.
const maxAboutBytes = 64 << 20

// A Dest is where an export goes: Folder or Bucket.
type Dest interface {
	String() string
	// begin looks at what is there. A nil sink means that it is this very
	// export, whole, which fills about in. ErrForeign: it may not be replaced.
	begin(ctx context.Context, a *about) (sink, error)
}

// A sink takes the files of one export.
type sink interface {
	// replaces reports whether start takes an earlier export away, so that there
	// is none until commit.
	replaces() bool
	// start makes the destination ready for files.
	start(ctx context.Context) error
	// done is the file of that name as an interrupted run of the same export
	// left it, held to its digest; nil where it is to be written.
	done(ctx context.Context, name string) (*finished, error)
	// finish notes a file, so that done finds it if this run is interrupted.
	finish(ctx context.Context, d finished) error
	// write makes one file of what fill writes, and reads it back; fill returns
	// the rows.
	write(ctx context.Context, name string, fill func(io.Writer) (int64, error)) (File, error)
	// commit makes the export visible as a whole, or complete.
	commit(ctx context.Context, a *about) error
	// abort ends an export for an error. It keeps finished files, and returns
	// their number, where the same export could end otherwise another time, and
	// throws all away where it could not. After commit it does nothing.
	abort(err error) int
}

// final reports whether an error is the answer to an export, so that nothing
// of it is of use.
func final(err error) bool {
	for _, e := range []error{ErrForbidden, ErrForeign, ErrUnsupported, ErrUnknownView, ErrNoRows, catalog.ErrDamaged} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Folder is a folder on this machine, absent, empty or an earlier export. The
// export is written beside it and takes its place in one step.
func Folder(dir string) Dest { return folder(dir) }

// Bucket is a prefix of an object store; "" is all of it.
func Bucket(b objstore.Bucket, prefix string) Dest {
	return bucket{b, strings.Trim(prefix, "/")}
}

// plainName reports whether a path that a manifest.json names stays inside of
// its destination.
func plainName(name string) bool {
	return name != "" && path.Clean(name) == name && name != ".." && !strings.HasPrefix(name, "../") &&
		!path.IsAbs(name) && !strings.ContainsAny(name, "\\\x00") && objstore.ValidKey(name) == nil
}
