package views_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
)

func TestATableIsExportedAsItIs(t *testing.T) {
	f := usual(t, "b1")
	dir := filepath.Join(t.TempDir(), "out")
	export := func(table string, o views.Options) (views.Summary, error) {
		return views.ExportTable(t.Context(), f.c, f.m, table, views.Folder(dir), o)
	}
	s, err := export("train", views.Options{Version: f.v})
	if err != nil {
		t.Fatal(err)
	}
	files := tree(t, dir)
	for i, ref := range f.m.TableFiles("train") {
		name := []string{"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"}[i]
		sum := sha256.Sum256([]byte(files[name]))
		if hex.EncodeToString(sum[:]) != ref.SHA256 || s.Rows["train"] != 5 {
			t.Errorf("%s is other than in the version; %+v", name, s)
		}
	}
	if !strings.Contains(files["README.md"], "Table `train` of dataset") {
		t.Errorf("%s", files["README.md"])
	}
	checkManifest(t, files)
	if again, err := export("train", views.Options{Version: f.v}); err != nil || !again.Unchanged {
		t.Errorf("%+v %v", again, err)
	}
	// It takes no other export's place, and no view takes its.
	if _, err := export("test", views.Options{}); !errors.Is(err, views.ErrForeign) {
		t.Errorf("%v", err)
	}
	if _, err := f.export(t, views.Folder(dir), ""); !errors.Is(err, views.ErrForeign) {
		t.Errorf("%v", err)
	}
	if _, err := export("logprobs", views.Options{}); !errors.Is(err, views.ErrUnknownView) || !strings.Contains(err.Error(), "it has: ") {
		t.Errorf("%v", err)
	}
	if _, err := export("train", views.Options{Form: views.JSONL}); !errors.Is(err, views.ErrUnknownView) {
		t.Errorf("%v", err)
	}
}

func TestATableIsHeldToTermsAndDigests(t *testing.T) {
	f := published(t, "b1", map[string]string{"k3": catalog.TrainingForbidden}, map[string][][]datasets.Row{"train": {trainRows(0, 2)}})
	if _, err := views.ExportTable(t.Context(), f.c, f.m, "train", views.Folder(filepath.Join(t.TempDir(), "out")), views.Options{}); !errors.Is(err, views.ErrForbidden) {
		t.Errorf("%v", err)
	}
	// Candidates hold the words of teachers that no row is of.
	words := *f.m
	words.Files = append(slices.Clone(f.m.Files), catalog.FileRef{Table: "candidates", Split: "all", Teachers: map[string]int64{"silent": 1}})
	words.Teachers = append(slices.Clone(f.m.Teachers), catalog.ManifestTeacher{ID: "silent", Terms: catalog.Terms{Training: catalog.TrainingForbidden}})
	for i := range words.Teachers {
		if words.Teachers[i].ID == "k3" {
			words.Teachers[i].Terms.Training = catalog.TrainingAllowed
		}
	}
	_, err := views.ExportTable(t.Context(), f.c, &words, "candidates", views.Folder(filepath.Join(t.TempDir(), "out")), views.Options{})
	if !errors.Is(err, views.ErrForbidden) || !strings.Contains(err.Error(), "silent (1 row); a table goes out whole: export a view with --leave-out forbidden") {
		t.Errorf("%v", err)
	}
	f = usual(t, "b1")
	m := *f.m
	m.Files = slices.Clone(f.m.Files)
	m.Files[0].SHA256 = strings.Repeat("0", 64)
	if _, err := views.ExportTable(t.Context(), f.c, &m, m.Files[0].Table, views.Folder(filepath.Join(t.TempDir(), "out")), views.Options{}); !errors.Is(err, catalog.ErrDamaged) {
		t.Errorf("%v", err)
	}
}
