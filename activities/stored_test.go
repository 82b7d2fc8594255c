package activities

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"
	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

func TestListStored(t *testing.T) {
	b := mem.New("other")
	for _, key := range []string{"a/1.jsonl", "a/2.jsonl", "a/notes.txt", "a/deep/3.jsonl", "b.jsonl"} {
		if _, err := objstore.PutBytes(context.Background(), b, key, []byte(key), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string]string{
		"b.jsonl":     "b.jsonl",
		"a/*.jsonl":   "a/1.jsonl a/2.jsonl",
		"a/[2].jsonl": "a/2.jsonl",
		"a/?.jsonl":   "a/1.jsonl a/2.jsonl",
		"a/":          "a/1.jsonl a/2.jsonl a/deep/3.jsonl",
		"a":           "",
		"c*":          "",
		"a/[":         "",
	} {
		files, err := ListStored(context.Background(), b, "s3://other", pattern)
		var got []string
		for _, f := range files {
			name := strings.TrimPrefix(f.Key, "s3://other/")
			got = append(got, name)
			r, err := f.Open(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if text, err := io.ReadAll(r); err != nil || string(text) != name || f.Size != int64(len(name)) || !strings.HasPrefix(f.SHA256, "etag:") {
				t.Errorf("%+v %q %v", f, text, err)
			}
		}
		var fault *SourceError
		if strings.Join(got, " ") != want || (want == "") != errors.As(err, &fault) {
			t.Errorf("%s: %q %v, want %q", pattern, got, err, want)
		}
	}
}

// A file's name comes from a user's disk and becomes part of a key.
func TestComponentIsFitForAKey(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"..", ".", "/", `a\..\b`, ".sgwtmp", "\uFFFE", "\x00", "", strings.Repeat("é", 400)})).Draw(t, "name")
		key := "sources/x/" + component(name)
		if err := objstore.ValidKey(key); err != nil || strings.Count(key, "/") != 2 {
			t.Fatalf("%q: %q %v", name, key, err)
		}
	})
}

// A large table is cut into files, which a version names in order.
func TestTablesOfSeveralFiles(t *testing.T) {
	w := newWorld(t)
	dir := t.TempDir()
	table := newTable[datasets.PromptRow](dir, datasets.TablePrompts, "all")
	table.most = 1
	group := int64(parquetio.DefaultRowGroupRows)
	const n = 3
	text := strings.Repeat("x", 10)
	for i := range n * group {
		row := datasets.PromptRow{TaskID: fmt.Sprintf("%08d/d/e", i), PromptID: fmt.Sprintf("%08d", i), Split: "train", Domain: "d", Effort: "e", Status: datasets.StatusClean, Source: text}
		if err := table.add(row); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.close(); err != nil || len(table.files) < 2 {
		t.Fatalf("%d files, %v", len(table.files), err)
	}
	if err := table.close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	w.file("p.jsonl", sums(1))
	ref := w.submit("name: big\nprompts: [{path: p.jsonl}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
	refs, err := table.stage(context.Background(), w.a.Catalog, ref.Dataset, ref.BuildID)
	if err != nil {
		t.Fatal(err)
	}
	local := table.describe()
	var rows int64
	for i, f := range refs {
		rows += f.Rows
		if f.SHA256 != local[i].SHA256 || f.Bytes != local[i].Bytes || !strings.Contains(f.Key, fmt.Sprintf("/all-%05d-", i)) {
			t.Errorf("file %d is %+v", i, f)
		}
	}
	if rows != n*group || !w.a.Catalog.Unchanged(&catalog.Manifest{Files: refs}, local) {
		t.Errorf("%d rows in %d files", rows, len(refs))
	}
}

// What only the verifiers, filters and policies know to be wrong is a fault of
// the recipe, and no retry mends it.
func TestAnOptionThatNoVerifierHas(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 3)
	ref := w.submit(strings.Replace(recordedSumsRecipe, "{verifier: math}", "{verifier: math, tolerence: 1}", 1))
	_, err := call[wire.PlanOutput](w, wire.ActivityPlan, ref)
	var application *temporal.ApplicationError
	if !asApplication(err, &application) || !application.NonRetryable() || application.Type() != wire.ErrInvalidRecipe || !strings.Contains(err.Error(), "tolerance") {
		t.Errorf("%v", err)
	}
}
