package views_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

var catalogTime = time.Date(2026, 11, 30, 16, 45, 0, 0, time.UTC)

func sha(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func TestTheSameExportIsTheSameBytesEverywhere(t *testing.T) {
	f := usual(t, "b1")
	dir, b := filepath.Join(t.TempDir(), "out"), mem.New("dest")
	for _, dest := range []views.Dest{views.Folder(dir), views.Bucket(b, "a/b")} {
		if _, err := f.export(t, dest, ""); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(tree(t, dir), under(t, b, "a/b/")); diff != "" {
		t.Error(diff)
	}
}

func TestExportingAgainChangesNothing(t *testing.T) {
	f := usual(t, "b1")
	dir, b := filepath.Join(t.TempDir(), "out"), mem.New("dest")
	for _, dest := range []views.Dest{views.Folder(dir), views.Bucket(b, "x")} {
		first, err := f.export(t, dest, "")
		if err != nil || first.Unchanged {
			t.Fatalf("%+v, %v", first, err)
		}
		again, err := f.export(t, dest, "")
		if err != nil || !again.Unchanged {
			t.Errorf("%s: %+v, %v", dest, again, err)
		}
		again.Unchanged = false
		if diff := cmp.Diff(first, again); diff != "" {
			t.Error(diff)
		}
	}
}

func TestADamagedExportIsMadeAnew(t *testing.T) {
	f := usual(t, "b1")
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := f.export(t, views.Folder(dir), ""); err != nil {
		t.Fatal(err)
	}
	whole := tree(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "data", "train-00000-of-00002.parquet"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := f.export(t, views.Folder(dir), "")
	if err != nil || s.Unchanged {
		t.Fatalf("%+v, %v", s, err)
	}
	if diff := cmp.Diff(whole, tree(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// A newer version takes the place of an older one's export, with nothing of it
// left.
func TestANewerVersionReplacesAnExport(t *testing.T) {
	old := usual(t, "b1")
	fresh := published(t, "b2", nil, map[string][][]datasets.Row{"train": {trainRows(7, 2)}})
	parent, b := t.TempDir(), mem.New("dest")
	dir := filepath.Join(parent, "out")
	for _, dest := range []views.Dest{views.Folder(dir), views.Bucket(b, "x")} {
		for _, f := range []fixture{old, fresh} {
			if _, err := f.export(t, dest, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	files := tree(t, parent)
	if len(files) != 3 || files["out/data/train-00000-of-00001.parquet"] == "" {
		t.Errorf("there are %d files", len(files))
	}
	if diff := cmp.Diff(tree(t, dir), under(t, b, "x/")); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsNotAnExportIsLeftAlone(t *testing.T) {
	f := usual(t, "b1")
	for name, files := range map[string]map[string]string{
		"somebody's files":     {"thesis.tex": "x"},
		"another manifest":     {"manifest.json": `{"name":"an app"}`},
		"an export with notes": {"manifest.json": `{"stillhouse_export":1,"identity":"i","dataset":"maths","view":"messages","files":[]}`, "notes.txt": "x"},
		"another dataset's":    {"manifest.json": `{"stillhouse_export":1,"identity":"i","dataset":"law","view":"messages","files":[]}`},
	} {
		t.Run(name, func(t *testing.T) {
			dir, b := t.TempDir(), mem.New("dest")
			for path, text := range files {
				if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if _, err := objstore.PutBytes(t.Context(), b, "x/"+path, []byte(text), objstore.PutOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			for _, dest := range []views.Dest{views.Folder(dir), views.Bucket(b, "x")} {
				if _, err := f.export(t, dest, ""); !errors.Is(err, views.ErrForeign) {
					t.Errorf("%s: got %v, want ErrForeign", dest, err)
				}
			}
			if diff := cmp.Diff(files, tree(t, dir)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(files, under(t, b, "x/")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAnEmptyFolderIsTaken(t *testing.T) {
	f := usual(t, "b1")
	dir := t.TempDir()
	if _, err := f.export(t, views.Folder(dir), ""); err != nil {
		t.Fatal(err)
	}
	if len(tree(t, dir)) != 5 {
		t.Error("files are missing")
	}
}

// An export to a bucket that breaks at any moment is finished by the same
// command, and has no manifest.json until it is whole.
func TestAnInterruptedExportToABucketGoesOn(t *testing.T) {
	f := usual(t, "b1")
	whole := mem.New("whole")
	if _, err := f.export(t, views.Bucket(whole, "x"), ""); err != nil {
		t.Fatal(err)
	}
	want := under(t, whole, "x/")
	broke := errors.New("connection reset")
	for k := 1; ; k++ {
		b, n := mem.New("dest"), 0
		b.Lost = func(string, string) error {
			if n++; n >= k {
				return broke
			}
			return nil
		}
		_, err := f.export(t, views.Bucket(b, "x"), "")
		b.Lost = nil
		if err == nil {
			if k < 6 {
				t.Fatalf("the export took %d operations: the test breaks nothing", k)
			}
			return
		}
		if got := under(t, b, "x/"); got["manifest.json"] != "" {
			checkManifest(t, withoutPartial(got))
		}
		if _, err := f.export(t, views.Bucket(b, "x"), ""); err != nil {
			t.Fatalf("broken at operation %d: again: %v", k, err)
		}
		if diff := cmp.Diff(want, under(t, b, "x/")); diff != "" {
			t.Fatalf("broken at operation %d: %s", k, diff)
		}
	}
}

func withoutPartial(files map[string]string) map[string]string {
	delete(files, "manifest.json.partial")
	return files
}

func TestAVersionWithoutRowsIsNoExport(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	m := catalog.Manifest{Dataset: "maths", BuildID: "b1"}
	if _, err := views.Export(t.Context(), c, &m, views.ViewMessages, views.Folder(filepath.Join(t.TempDir(), "o")), views.Options{}); err == nil {
		t.Error("an empty export was made")
	}
}
