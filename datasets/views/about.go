package views

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// exportFormat is the version of exports. It is part of their identity, so
// that a release that shapes rows otherwise does not take an older one's
// export for its own.
const exportFormat = 2

// about is manifest.json of an export: what it is, where it came from and the
// digest of every other file.
type about struct {
	Format   int    `json:"stillhouse_export"`
	Identity string `json:"identity"` // of version, view and form
	Dataset  string `json:"dataset"`
	Version  int64  `json:"version,omitempty"`
	BuildID  string `json:"build_id"`
	View     string `json:"view"`
	Form     string `json:"form"`
	// Options are what the view was made with, by name.
	Options  map[string]string `json:"options,omitempty"`
	Rows     map[string]int64  `json:"rows"`
	Files    []File            `json:"files"`
	Warnings []string          `json:"warnings"`
	// LeftOut counts the rows that the options left out, by reason.
	LeftOut map[string]int64 `json:"left_out,omitempty"`
	// Terms are those of the teachers that gave rows, by id.
	Terms map[string]Terms `json:"terms,omitempty"`

	// Finished are the files of an export that has begun, in a bucket.
	Finished []finished `json:"finished,omitempty"`

	Unchanged bool `json:"-"`
	Resumed   int  `json:"-"`
}

func describe(m *catalog.Manifest, view string, opt Options, warnings []string) *about {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s %s %d %s %s\n", exportFormat, m.Dataset, m.BuildID, view, opt.Version.Number, opt.Form, opt.Version.ManifestSHA256)
	words := opt.words()
	for _, name := range sortedKeys(words) {
		fmt.Fprintf(h, "%s=%s\n", name, words[name])
	}
	for _, f := range m.Files {
		fmt.Fprintf(h, "%s %s\n", f.Table, f.SHA256)
	}
	return &about{
		Format: exportFormat, Identity: hex.EncodeToString(h.Sum(nil)), Dataset: m.Dataset, Version: opt.Version.Number,
		BuildID: m.BuildID, View: view, Form: opt.Form, Options: words, Rows: map[string]int64{}, Files: []File{}, Warnings: warnings,
	}
}

// parseAbout reads manifest.json of a destination; nil where it is no export.
func parseAbout(data []byte) *about {
	var a about
	if json.Unmarshal(data, &a) != nil || a.Format < 1 || a.Identity == "" {
		return nil
	}
	return &a
}

// replaces reports whether a may take the place of an earlier export.
func (a *about) replaces(old *about) bool { return a.Dataset == old.Dataset && a.View == old.View }

// add adds a data file, which an earlier run wrote or this one.
func (a *about) add(f File, earlier bool) {
	a.Files = append(a.Files, f)
	a.Rows[f.Split] += f.Rows
	if earlier {
		a.Resumed++
	}
}

// take makes a the export that is there, of the same identity.
func (a *about) take(old *about) {
	a.Files, a.Rows, a.LeftOut = old.Files, old.Rows, old.LeftOut
}

func (a *about) encode() ([]byte, error) {
	data, err := json.MarshalIndent(a, "", " ")
	return append(data, '\n'), err
}

func (a *about) summary(dest Dest) Summary {
	s := Summary{
		Dest: dest.String(), View: a.View, Form: a.Form, Files: a.Files, Rows: a.Rows,
		Warnings: a.Warnings, LeftOut: a.LeftOut, Resumed: a.Resumed, Unchanged: a.Unchanged,
	}
	for _, f := range a.Files {
		s.Bytes += f.Bytes
	}
	return s
}
