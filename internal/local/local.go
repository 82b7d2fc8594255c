// Package local runs what a build needs when the user has nothing: a Temporal
// server with SQLite, its web page, and an S3 store over plain files, all on
// loopback and all in the home folder. The caller holds the home's lock.
//
// The packages behind it are large, so only the command links it; with the
// build tag noembed [Start] refuses and nothing heavy is compiled.
package local

import (
	"errors"
	"log/slog"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

// Names of what the embedded services hold.
const (
	Namespace = "default"
	Bucket    = "stillhouse"
	Region    = "us-east-1"
)

// ErrNotEmbedded is returned by [Start] in a binary built with the tag noembed.
var ErrNotEmbedded = errors.New("this binary was built without the embedded services (tag noembed); name a Temporal server with --temporal and a store with --store")

// Options of the embedded services.
type Options struct {
	Home    *home.Home   // its lock is held by the caller
	Log     *slog.Logger // default: discards
	Binary  string       // version of this program, for Endpoints
	NoUI    bool         // without Temporal's web page
	Verbose bool         // the server's log from level info on, not errors alone
}
