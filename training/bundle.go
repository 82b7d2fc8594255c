// Package training hands a published dataset version to a trainer and takes
// its result back. It never trains: it writes a bundle that says exactly what
// is to be trained on and how, and judges what comes back.
//
// A bundle is a folder of the store, handoff/<launch id>/: handoff.json (a
// [Bundle]), the view files that the trainer reads, the trainer's rendered
// configuration, run.sh, env.example and SHA256SUMS. The trainer's machine
// needs nothing of ours to run it: run.sh fetches what is missing, verifies
// every digest, counts the rows, trains, and leaves result.json (a [Result]).
//
// training/render writes configurations, training/launch starts them once.
package training

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"
)

// APIVersion of handoff.json and result.json. Within v1 they only grow, by
// optional fields.
const APIVersion = "stillhouse/v1"

// Names of a bundle's files. Everything is relative to the bundle's folder.
const (
	HandoffFile = "handoff.json"
	ClaimFile   = "claim.json"
	ResultFile  = "result.json"
	RunFile     = "run.sh"
	EnvFile     = "env.example"
	SumsFile    = "SHA256SUMS"
	DataFolder  = "data"    // holds the view's files and nothing else: loaders read whole folders
	ConfigDir   = "configs" // one folder per trainer
	OutputDir   = "output"  // where the trainer writes
)

// Terms of a teacher: may a model be trained on its answers?
const (
	TrainingAllowed   = "allowed"
	TrainingForbidden = "forbidden"
	TrainingUnknown   = "unknown"
)

// A File of a bundle.
type File struct {
	Name string      // relative, with forward slashes
	Mode fs.FileMode // permission bits; 0 means 0644
	Data []byte
}

// A Bundle is handoff.json: what one launch trains on, and how.
type Bundle struct {
	APIVersion string    `json:"apiVersion" jsonschema:"const=stillhouse/v1"`
	LaunchID   string    `json:"launch_id" jsonschema:"pattern=^[0-9a-f]{64}$,description=Digest of manifest digest and rendered configuration and attempt: the same launch has the same id wherever it is submitted"`
	Attempt    int       `json:"attempt" jsonschema:"minimum=1,description=Chosen by whoever decides to train again; a retry of the same submission keeps it"`
	CreatedAt  time.Time `json:"created_at"`

	Dataset  Dataset   `json:"dataset"`
	View     View      `json:"view"`
	Teachers []Teacher `json:"teachers" jsonschema:"description=Every teacher with a row in the view and the terms under which it answered"`
	Student  Student   `json:"student"`
	Trainer  Trainer   `json:"trainer"`

	Claim  string   `json:"claim" jsonschema:"description=Name of the object that a launch creates (If-None-Match: *) before it touches a GPU"`
	Result string   `json:"result" jsonschema:"description=Name of the file that a launch leaves when it has ended"`
	Notes  []string `json:"notes,omitempty" jsonschema:"description=What the trainer does by its nature that its user should know"`
}

// A Dataset names the version that is handed over.
type Dataset struct {
	Name           string `json:"name"`
	Version        int64  `json:"version" jsonschema:"minimum=1"`
	BuildID        string `json:"build_id"`
	Manifest       string `json:"manifest" jsonschema:"description=Key of the manifest in the store"`
	ManifestDigest string `json:"manifest_digest" jsonschema:"pattern=^[0-9a-f]{64}$"`
}

// A View is the dataset in the shape that one kind of trainer reads.
type View struct {
	Name    string           `json:"name" jsonschema:"description=Such as messages"`
	Columns []string         `json:"columns,omitempty" jsonschema:"description=The columns that the trainer reads; all where absent"`
	Files   []ViewFile       `json:"files" jsonschema:"minItems=1"`
	Rows    map[string]int64 `json:"rows" jsonschema:"description=By split"`
	Lengths *Lengths         `json:"lengths,omitempty" jsonschema:"description=How long the rows of the version's train split are"`
	Shares  *Shares          `json:"shares,omitempty" jsonschema:"description=Of what the version's train split is made"`
}

// Lengths are percentiles of the lengths of the train split's rows. We have no
// tokenizer of the student, so they are counted in characters, and what is said
// of tokens is an estimate.
type Lengths struct {
	Measure    string  `json:"measure" jsonschema:"description=characters: of all that a row's messages and tools say"`
	Characters Spread  `json:"characters"`
	Over       int64   `json:"over,omitempty" jsonschema:"minimum=0,description=Rows that are likely longer than the student's max_length; an estimate"`
	OverBy     string  `json:"over_by,omitempty" jsonschema:"description=How over was estimated"`
	Answers    *Spread `json:"completion_tokens,omitempty" jsonschema:"description=Tokens of the answers alone as the teachers' endpoints counted them by their own tokenizers"`
}

// A Spread is percentiles of a count.
type Spread struct {
	Rows int64 `json:"rows" jsonschema:"minimum=0,description=That have the count"`
	P50  int64 `json:"p50" jsonschema:"minimum=0"`
	P95  int64 `json:"p95" jsonschema:"minimum=0"`
	P99  int64 `json:"p99" jsonschema:"minimum=0"`
	Max  int64 `json:"max" jsonschema:"minimum=0"`
}

// Shares count the train split's rows.
type Shares struct {
	Domains  map[string]int64 `json:"domains,omitempty"`
	Efforts  map[string]int64 `json:"efforts,omitempty"`
	Teachers map[string]int64 `json:"teachers,omitempty"`
	// Partly are rows of which the loss is to see other turns than all of the
	// assistant's, such as those whose prompt holds earlier answers.
	Partly int64 `json:"partly_trained,omitempty" jsonschema:"minimum=0,description=Rows of which other turns are to be trained than all of the assistant's"`
}

// A ViewFile is one file of a view.
type ViewFile struct {
	Name   string `json:"name" jsonschema:"pattern=^data/[a-z]+-[0-9A-Za-z-]+[.](parquet|jsonl)$,description=Relative to the bundle"`
	Split  string `json:"split"`
	Bytes  int64  `json:"bytes" jsonschema:"minimum=0"`
	Rows   int64  `json:"rows" jsonschema:"minimum=0"`
	SHA256 string `json:"sha256" jsonschema:"pattern=^[0-9a-f]{64}$"`
}

// A Teacher of the view's rows.
type Teacher struct {
	ID       string `json:"id"`
	Model    string `json:"model"`
	Rows     int64  `json:"rows" jsonschema:"minimum=0"`
	Licence  string `json:"licence,omitempty"`
	TermsURL string `json:"terms_url,omitempty"`
	Training string `json:"training" jsonschema:"enum=allowed,enum=forbidden,enum=unknown"`
}

// A Student is the model that is trained.
type Student struct {
	Model        string `json:"model,omitempty" jsonschema:"description=A folder or a Hub name; the trainer's machine resolves it"`
	Revision     string `json:"revision,omitempty"`
	Tokenizer    string `json:"tokenizer,omitempty" jsonschema:"description=Where it is not the model's own"`
	ChatTemplate string `json:"chat_template,omitempty" jsonschema:"description=Path of a template or of a tokenizer that has one"`
	MaxLength    int    `json:"max_length,omitempty" jsonschema:"minimum=0,description=Tokens; 0: nothing is cut"`
}

// A Trainer is the program that trains, and the configuration rendered for it.
type Trainer struct {
	Name    string   `json:"name" jsonschema:"description=Such as trl"`
	Method  string   `json:"method" jsonschema:"description=Such as sft"`
	For     string   `json:"for" jsonschema:"description=The release that the configuration is written for, such as trl 1.16.0"`
	Package string   `json:"package,omitempty" jsonschema:"description=The Python package whose version the result reports"`
	Configs []string `json:"configs" jsonschema:"description=Files of the bundle"`
	Command []string `json:"command" jsonschema:"minItems=1,description=Run in the bundle's folder, each element one argument; no shell reads it"`
}

// A Rendered is what a renderer made of a dataset and a student.
type Rendered struct {
	Trainer Trainer
	Files   []File
	Notes   []string
}

// LaunchID is the hex SHA-256 of a manifest's digest, the rendered
// configuration with its command, and the attempt. So a submission that is
// repeated finds its own launch, and any change of data or configuration is
// another one.
func LaunchID(manifestDigest string, r *Rendered, attempt int) (string, error) {
	if !isHex64(manifestDigest) {
		return "", fmt.Errorf("launch id: manifest digest %q is not 64 hex digits", manifestDigest)
	}
	if attempt < 1 {
		return "", fmt.Errorf("launch id: attempt %d is below 1", attempt)
	}
	h := sha256.New()
	field := func(b []byte) {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(b))))
		h.Write(b)
	}
	field([]byte("stillhouse launch 1"))
	field([]byte(manifestDigest))
	files := slices.Clone(r.Files)
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Name, b.Name) })
	field(binary.BigEndian.AppendUint64(nil, uint64(len(files))))
	for _, f := range files {
		field([]byte(f.Name))
		field(f.Data)
	}
	field(binary.BigEndian.AppendUint64(nil, uint64(len(r.Trainer.Command))))
	for _, word := range r.Trainer.Command {
		field([]byte(word))
	}
	field(binary.BigEndian.AppendUint64(nil, uint64(attempt)))
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Key is the key of a bundle's file in the store.
func Key(launchID, name string) string { return path.Join("handoff", launchID, name) }

// ValidLaunchID tells whether s has the form of a launch id, and so may be
// part of a key or a path.
func ValidLaunchID(s string) bool { return isHex64(s) }

func isHex64(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
