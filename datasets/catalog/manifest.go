package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// FormatVersion is the version of the manifests that this package writes.
// Within it fields are only added.
const FormatVersion = 1

// Values of Terms.Training.
const (
	TrainingAllowed   = "allowed"
	TrainingForbidden = "forbidden"
	TrainingUnknown   = "unknown"
)

// A Manifest says what a version consists of and how it was made. It holds no
// secrets and no rows.
type Manifest struct {
	FormatVersion int       `json:"format_version"` // FormatVersion; set by Publish
	Dataset       string    `json:"dataset"`
	BuildID       string    `json:"build_id"`
	Parent        int64     `json:"parent"`     // the version before this one, 0 for none; set by Publish
	CreatedAt     time.Time `json:"created_at"` // set by Publish where zero
	// SchemaFingerprint is the fingerprint of each table's columns; see
	// parquetio.Fingerprint. Publish fills it in from the files.
	SchemaFingerprint map[string]string `json:"schema_fingerprint"`
	Files             []FileRef         `json:"files"` // in reading order within each table
	Counts            Counts            `json:"counts"`
	// Rejected counts candidates by reject reason; a candidate with two
	// reasons counts twice.
	Rejected     map[string]int64  `json:"rejected"`
	Teachers     []ManifestTeacher `json:"teachers"`
	Recipe       string            `json:"recipe,omitempty"` // key of the recipe
	RecipeDigest string            `json:"recipe_digest"`    // hex SHA-256 of the recipe file
	// Methods are the verifiers, filters and policies that the build used, with
	// the versions that they had.
	Methods []Method `json:"methods,omitempty"`
	Sources []Source `json:"sources"`
	// EvaluationSets are the files that the prompts were held against.
	EvaluationSets []Source `json:"evaluation_sets,omitempty"`
	Reports        []string `json:"reports"`                      // keys
	Tool           string   `json:"tool"`                         // name and version of the program
	CostMicros     int64    `json:"cost_micros"`                  // spent by the build
	LostMicros     int64    `json:"failed_cost_micros,omitempty"` // of them, on requests that brought no answer
	Unpriced       int64    `json:"unpriced_asks"`                // asks whose price is not known
	DurationMS     int64    `json:"duration_ms,omitempty"`
	// Purged tells of each purge that took rows from the version since it was
	// published, the first one first. Figures of what was asked and spent stay
	// those of the build.
	Purged []PurgeMark `json:"purged,omitempty"`
	// Notes are what whoever published the version wants kept with it.
	Notes map[string]string `json:"notes,omitempty"`
	// Imported says where the version came from, where no recipe made it.
	Imported *Imported `json:"imported,omitempty"`
}

// Kinds of methods.
const (
	MethodVerifier     = "verifier"
	MethodFilter       = "filter"
	MethodPromptFilter = "prompt_filter"
	MethodPolicy       = "policy"
	MethodPairs        = "pairs"
	MethodMix          = "mix"
)

// A Method is one that decided what is in a version.
type Method struct {
	Kind    string          `json:"kind"` // verifier, filter, prompt_filter, policy, pairs or mix
	Name    string          `json:"name"`
	Version string          `json:"version"`           // rises when it decides otherwise over the same input
	When    string          `json:"when,omitempty"`    // the recipe's condition
	Options json.RawMessage `json:"options,omitempty"` // as the recipe has them
}

// A FileRef names one Parquet file of a version.
type FileRef struct {
	Key    string `json:"key"`
	Bytes  int64  `json:"bytes"`
	Rows   int64  `json:"rows"`
	SHA256 string `json:"sha256"` // hex, of the whole object
	Table  string `json:"table"`
	Split  string `json:"split"`
	// Fingerprint names the file's columns.
	Fingerprint string `json:"fingerprint"`
	// Teachers counts the rows by teacher, in tables that have that column; of
	// pairs, the answers of either kind.
	Teachers map[string]int64 `json:"teachers,omitempty"`
}

// Counts sums up a build.
type Counts struct {
	Prompts       int64            `json:"prompts"`
	Tasks         int64            `json:"tasks"`
	Duplicates    int64            `json:"duplicates"` // source rows merged into another's task
	Asks          int64            `json:"asks"`
	AnswersNew    int64            `json:"answers_new"`
	AnswersReused int64            `json:"answers_reused"`
	Failed        int64            `json:"failed"` // asks without an answer
	Candidates    int64            `json:"candidates"`
	Accepted      int64            `json:"accepted"`
	Rows          map[string]int64 `json:"rows"` // by table; Publish fills it in from the files
	// Filtered counts what the filters of prompts found; absent without them.
	Filtered *datasets.Filtered `json:"filtered,omitempty"`
}

// A ManifestTeacher is a teacher of the build and what it did there.
type ManifestTeacher struct {
	ID       string          `json:"id"`
	Model    string          `json:"model"`
	API      string          `json:"api"`
	Identity string          `json:"identity"` // what its answers are kept under
	Epoch    int             `json:"epoch,omitempty"`
	Refresh  int             `json:"refresh,omitempty"` // the newest refresh whose answers are in it; see Epochs
	Params   json.RawMessage `json:"params,omitempty"`  // a JSON object, params_by included
	Serves   json.RawMessage `json:"serves,omitempty"`
	// Weights are the repository of its weights and ScoreURL a server that
	// scores tokens with them, where the recipe names them.
	Weights  string `json:"weights,omitempty"`
	ScoreURL string `json:"score_url,omitempty"`
	// TokenizerSHA256 is the digest of its tokenizer, where the recipe states
	// it: teachers with the same have the same vocabulary.
	TokenizerSHA256 string        `json:"tokenizer_sha256,omitempty"`
	Terms           Terms         `json:"terms"`
	Counts          TeacherCounts `json:"counts"`
}

// Terms are what a teacher's licence says of training on its answers.
type Terms struct {
	Licence  string `json:"licence,omitempty"`
	URL      string `json:"url,omitempty"`
	Training string `json:"training"` // allowed, forbidden or unknown; "" reads as unknown
}

// TeacherCounts are one teacher's part of a build.
type TeacherCounts struct {
	Asks             int64 `json:"asks"`
	Answers          int64 `json:"answers"`
	Accepted         int64 `json:"accepted"`
	PromptTokens     int64 `json:"prompt_tokens"`
	CachedTokens     int64 `json:"cached_tokens"`
	CompletionTokens int64 `json:"completion_tokens"`
	ReasoningTokens  int64 `json:"reasoning_tokens"`
	CostMicros       int64 `json:"cost_micros"` // of the answers
	Unpriced         int64 `json:"unpriced_asks"`

	// Requests that were sent for these asks, those of them that brought no
	// answer, and what these may have cost.
	Attempts       int64 `json:"attempts,omitempty"`
	FailedAttempts int64 `json:"failed_attempts,omitempty"`
	LostMicros     int64 `json:"failed_cost_micros,omitempty"`
	// Flags counts candidates by flag, such as model_drift.
	Flags map[string]int64 `json:"flags,omitempty"`
}

// A Source is a prompt file that the build read.
type Source struct {
	Path   string `json:"path"` // as the recipe names it
	Key    string `json:"key,omitempty"`
	SHA256 string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Rows   int64  `json:"rows"`
}

// TableFiles are the files of one table, in reading order.
func (m *Manifest) TableFiles(table string) []FileRef {
	var out []FileRef
	for _, f := range m.Files {
		if f.Table == table {
			out = append(out, f)
		}
	}
	return out
}

// Tables are the names of the tables that have files, in the order of Files.
func (m *Manifest) Tables() []string {
	var out []string
	for _, f := range m.Files {
		if !slices.Contains(out, f.Table) {
			out = append(out, f.Table)
		}
	}
	return out
}

// Rows counts the rows of one table.
func (m *Manifest) Rows(table string) int64 {
	var n int64
	for _, f := range m.Files {
		if f.Table == table {
			n += f.Rows
		}
	}
	return n
}

// Bytes is the size of all files.
func (m *Manifest) Bytes() int64 {
	var n int64
	for _, f := range m.Files {
		n += f.Bytes
	}
	return n
}

// TeacherRows counts the rows of train and test by teacher: whose answers a
// trainer would read.
func (m *Manifest) TeacherRows() map[string]int64 {
	rows := map[string]int64{}
	for _, f := range m.Files {
		if f.Table == datasets.TableTrain || f.Table == datasets.TableTest {
			for id, n := range f.Teachers {
				rows[id] += n
			}
		}
	}
	return rows
}

// PairTeachers counts the answers in preference pairs by teacher, two a pair.
func (m *Manifest) PairTeachers() map[string]int64 {
	rows := map[string]int64{}
	for _, f := range m.Files {
		if f.Table == datasets.TablePairs {
			for id, n := range f.Teachers {
				rows[id] += n
			}
		}
	}
	return rows
}

// validate reports what makes a manifest unfit to be published or trusted: it
// may only name data of its own dataset.
func (m *Manifest) validate() error {
	if m.FormatVersion > FormatVersion {
		return fmt.Errorf("%w manifest: format %d is newer than this program reads (%d); update it", ErrInvalid, m.FormatVersion, FormatVersion)
	}
	if err := errors.Join(ValidName(m.Dataset), validBuild(m.BuildID)); err != nil {
		return err
	}
	seen := map[string]bool{}
	for i, f := range m.Files {
		err := errors.Join(validPart("table", f.Table), validPart("split", f.Split), objstore.ValidKey(f.Key))
		switch {
		case err != nil:
			return fmt.Errorf("file %d: %w", i, err)
		case !strings.HasPrefix(f.Key, dataPrefix(m.Dataset)):
			return fmt.Errorf("%w manifest: file %d (%s) is not under %s", ErrInvalid, i, f.Key, dataPrefix(m.Dataset))
		case !hexRule.MatchString(f.SHA256) || f.Bytes <= 0 || f.Rows < 0:
			return fmt.Errorf("%w manifest: file %s has no digest, size or row count", ErrInvalid, f.Key)
		case seen[f.Key]:
			return fmt.Errorf("%w manifest: file %s is named twice", ErrInvalid, f.Key)
		}
		seen[f.Key] = true
	}
	for i, key := range m.Reports {
		if err := objstore.ValidKey(key); err != nil || !strings.HasPrefix(key, datasetPrefix(m.Dataset)+"reports/") {
			return fmt.Errorf("%w manifest: report %d (%q) is not under %sreports/", ErrInvalid, i, key, datasetPrefix(m.Dataset))
		}
	}
	return nil
}

// complete fills in what follows from the files.
func (m *Manifest) complete(now time.Time) error {
	m.FormatVersion = FormatVersion
	if m.CreatedAt.IsZero() {
		m.CreatedAt = now
	}
	m.Counts.Rows = map[string]int64{}
	m.SchemaFingerprint = map[string]string{}
	for _, f := range m.Files {
		m.Counts.Rows[f.Table] += f.Rows
		if old, ok := m.SchemaFingerprint[f.Table]; ok && old != f.Fingerprint {
			return fmt.Errorf("%w manifest: files of table %s differ in their columns (%s and %s); write all of them with one release",
				ErrInvalid, f.Table, old, f.Fingerprint)
		}
		m.SchemaFingerprint[f.Table] = f.Fingerprint
	}
	if m.Rejected == nil {
		m.Rejected = map[string]int64{}
	}
	if m.Sources == nil {
		m.Sources = []Source{}
	}
	if m.Reports == nil {
		m.Reports = []string{}
	}
	if m.Teachers == nil {
		m.Teachers = []ManifestTeacher{}
	}
	return nil
}

// deterministic are the tables that depend on nothing but recipe, answers and
// the version of the program.
var deterministic = []string{datasets.TableTrain, datasets.TableTest, datasets.TablePairs, datasets.TablePrompts, datasets.TableLogprobs, datasets.TableStudentFit}

// Unchanged reports whether files hold, byte for byte, the train, test, pairs,
// prompts, logprobs and student_fit tables of parent. Candidates may differ: latencies and costs are
// in them. A nil parent has no files.
func (c *Catalog) Unchanged(parent *Manifest, files []FileRef) bool {
	if parent == nil {
		return false
	}
	type content struct{ table, split, sha256 string }
	of := func(files []FileRef) []content {
		var out []content
		for _, f := range files {
			if slices.Contains(deterministic, f.Table) {
				out = append(out, content{f.Table, f.Split, f.SHA256})
			}
		}
		slices.SortStableFunc(out, func(a, b content) int { return strings.Compare(a.table+"/"+a.split, b.table+"/"+b.split) })
		return out
	}
	return slices.Equal(of(parent.Files), of(files))
}
