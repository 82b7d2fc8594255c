package views

import (
	"context"
	"io"
	"path"
	"strings"

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
	// write makes one file of what fill writes; fill returns the rows.
	write(ctx context.Context, name string, fill func(io.Writer) (int64, error)) (File, error)
	// commit makes the export visible as a whole, or complete.
	commit(ctx context.Context, a *about) error
	// abort throws away what commit has not made visible. After commit it
	// does nothing.
	abort()
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
