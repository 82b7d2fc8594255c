//go:build !noembed

package local

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/google/uuid"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/config"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/schema/sqlite"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

// retention is how long the server remembers a finished workflow. What a build
// published stays in the store for ever.
const retention = 30 * 24 * time.Hour

// searchAttributes are the columns by which workflows are found.
var searchAttributes = map[string]enumspb.IndexedValueType{
	"Dataset": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	"Teacher": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
	"Phase":   enumspb.INDEXED_VALUE_TYPE_KEYWORD,
}

const clusterName = "active"

// stamp says what made the database. The server itself neither checks nor
// migrates an SQLite file, so this does.
type stamp struct {
	Schema           string    `json:"schema"`
	Visibility       string    `json:"visibility"`
	ClusterID        string    `json:"cluster_id"`
	SearchAttributes []string  `json:"search_attributes"` // sorted
	Created          time.Time `json:"created"`
}

// ErrSchema says that the database in the home was made by another version of
// the embedded server.
type ErrSchema struct {
	Dir        string
	Have, Want string
}

func (e *ErrSchema) Error() string {
	return fmt.Sprintf("the Temporal database in %s has schema %s, this program needs %s; let running builds end with the program that made it, then move that folder away (datasets and answers are in the store and stay)",
		e.Dir, e.Have, e.Want)
}

// sqlConfig is one configuration for everything that opens the database: two
// different ones on one file lock each other out. WAL with synchronous=NORMAL
// is three times as fast as the default; a power cut can take back the last
// commits, which is why paid answers are journalled elsewhere.
func sqlConfig(h *home.Home) *config.SQL {
	return &config.SQL{
		PluginName:   sqliteplugin.PluginName,
		DatabaseName: databasePath(h),
		MaxConns:     1, // the plugin loses updates to "database is locked" with more
		MaxIdleConns: 1,
		ConnectAttributes: map[string]string{
			"mode":         "rwc",
			"journal_mode": "wal",
			"synchronous":  "normal",
			"busy_timeout": "10000",
		},
	}
}

func databasePath(h *home.Home) string { return h.Path("temporal", "temporal.db") }
func stampPath(h *home.Home) string    { return h.Path("temporal", "schema.json") }

// prepareDatabase makes the database at the first start and checks its stamp
// at every other. The stamp is written last, so a database without one is a
// start that was cut off before the server ever ran, and is made again.
func prepareDatabase(h *home.Home) (stamp, error) {
	want := stamp{Schema: sqlite.Version, Visibility: sqlite.VisibilityVersion}
	text, err := os.ReadFile(stampPath(h))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return createDatabase(h, want)
	case err != nil:
		return stamp{}, fmt.Errorf("read the stamp of the Temporal database: %w", err)
	}
	var have stamp
	if err := json.Unmarshal(text, &have); err != nil || have.ClusterID == "" {
		return stamp{}, fmt.Errorf("the stamp %s of the Temporal database is damaged; restore it from a backup, or move the folder %s away", stampPath(h), h.Path("temporal"))
	}
	if have.Schema != want.Schema || have.Visibility != want.Visibility {
		return stamp{}, &ErrSchema{
			Dir:  h.Path("temporal"),
			Have: have.Schema + "/" + have.Visibility,
			Want: want.Schema + "/" + want.Visibility,
		}
	}
	if _, err := os.Stat(databasePath(h)); err != nil {
		return stamp{}, fmt.Errorf("the Temporal database is gone: %w; restore it from a backup, or remove %s to start with an empty one", err, stampPath(h))
	}
	return have, nil
}

func createDatabase(h *home.Home, s stamp) (stamp, error) {
	if err := os.MkdirAll(h.Path("temporal"), 0o700); err != nil {
		return stamp{}, fmt.Errorf("create the Temporal database: %w", err)
	}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(databasePath(h) + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return stamp{}, fmt.Errorf("create the Temporal database: %w", err)
		}
	}
	// Which column an attribute gets is up to chance, and stays.
	namespace, err := sqlite.NewNamespaceConfig(clusterName, Namespace, false, searchAttributes)
	if err != nil {
		return stamp{}, fmt.Errorf("create the Temporal namespace: %w", err)
	}
	namespace.Detail.Config.Retention = durationpb.New(retention)
	sql := sqlConfig(h)
	if err := sqlite.SetupSchema(sql); err != nil {
		return stamp{}, fmt.Errorf("create the Temporal database: %w", err)
	}
	if err := sqlite.CreateNamespaces(sql, namespace); err != nil {
		return stamp{}, fmt.Errorf("create the Temporal namespace: %w", err)
	}
	s.ClusterID, s.Created = uuid.NewString(), time.Now().UTC().Truncate(time.Second)
	s.SearchAttributes = slices.Sorted(maps.Keys(searchAttributes))
	return s, s.write(h)
}

func (s *stamp) write(h *home.Home) error {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("stamp the Temporal database: %w", err)
	}
	if err := h.WriteFile(stampPath(h), append(text, '\n')); err != nil {
		return fmt.Errorf("stamp the Temporal database: %w", err)
	}
	return nil
}

// missingAttributes are those that a database made by an older program lacks.
func (s *stamp) missingAttributes() map[string]enumspb.IndexedValueType {
	missing := map[string]enumspb.IndexedValueType{}
	for name, kind := range searchAttributes {
		if !slices.Contains(s.SearchAttributes, name) {
			missing[name] = kind
		}
	}
	return missing
}
