package catalog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func ptr[T any](v T) *T { return &v }

func rows(from, n int) []datasets.Row {
	out := make([]datasets.Row, n)
	for i := range out {
		id := fmt.Sprintf("%032x", from+i)
		out[i] = datasets.Row{
			TaskID: id + "/math/high", PromptID: id, SampleID: id, Domain: "math", Effort: "high",
			Teacher: []string{"k3", "r1"}[i%2], TeacherModel: "m",
			Messages: []chat.Message{{Role: "user", Content: ptr("q " + id)}, {Role: "assistant", Content: ptr("a"), Train: true}},
		}
	}
	return out
}

func file[T any](t testing.TB, rows []T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := parquetio.NewWriter[T](f, parquetio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rows), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// draft stages two train files and one of prompts, and gives the manifest.
func draft(t testing.TB, c *catalog.Catalog, name, build string) catalog.Manifest {
	t.Helper()
	m, err := tryDraft(t.Context(), c, name, build, file(t, rows(0, 10)), file(t, rows(10, 5)), file(t, []datasets.PromptRow{{TaskID: "t", PromptID: "p"}}))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func tryDraft(ctx context.Context, c *catalog.Catalog, name, build, train0, train1, prompts string) (catalog.Manifest, error) {
	m := catalog.Manifest{Dataset: name, BuildID: build, Tool: "stillhouse test", RecipeDigest: strings.Repeat("0", 64)}
	for _, f := range []struct {
		table, split string
		seq          int
		path         string
	}{{"train", "train", 0, train0}, {"train", "train", 1, train1}, {"prompts", "all", 0, prompts}} {
		ref, err := c.Stage(ctx, name, build, f.table, f.split, f.seq, f.path)
		if err != nil {
			return m, err
		}
		m.Files = append(m.Files, ref)
	}
	return m, nil
}

func publish(t testing.TB, c *catalog.Catalog, name, build string) catalog.Version {
	t.Helper()
	v, err := c.Publish(t.Context(), draft(t, c, name, build))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestStageDescribesTheFile(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	path := file(t, rows(0, 5))
	ref, err := c.Stage(t.Context(), "maths", "b1", "train", "train", 3, path)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := catalog.FileRef{
		Key:   "datasets/maths/data/b1/train/train-00003-" + ref.SHA256 + ".parquet",
		Bytes: int64(len(data)), Rows: 5, SHA256: ref.SHA256, Table: "train", Split: "train",
		Fingerprint: parquetio.Fingerprint[datasets.Row](), Teachers: map[string]int64{"k3": 3, "r1": 2},
	}
	if diff := cmp.Diff(want, ref); diff != "" {
		t.Error(diff)
	}
	stored, _, err := objstore.ReadAll(t.Context(), b, ref.Key, 1<<20)
	if err != nil || !bytes.Equal(stored, data) {
		t.Errorf("the store holds other bytes (%v)", err)
	}
	again, err := c.Stage(t.Context(), "maths", "b1", "train", "train", 3, path)
	if err != nil || !cmp.Equal(ref, again) {
		t.Errorf("staging it again: %v, %v", again, err)
	}
}

func TestStageRefuses(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	good := file(t, rows(0, 5))
	text := filepath.Join(t.TempDir(), "x")
	if err := os.WriteFile(text, []byte("not a Parquet file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		dataset, build, table, split string
		path                         string
		want                         error
	}{
		"a path as dataset": {"../x", "b1", "train", "train", good, catalog.ErrInvalid},
		"a path as build":   {"d", "a/b", "train", "train", good, catalog.ErrInvalid},
		"a path as table":   {"d", "b1", "..", "train", good, catalog.ErrInvalid},
		"a path as split":   {"d", "b1", "train", "a/b", good, catalog.ErrInvalid},
		"another table":     {"d", "b1", "pairs", "all", good, parquetio.ErrSchema},
		"no Parquet":        {"d", "b1", "train", "train", text, parquetio.ErrDamaged},
		"no file":           {"d", "b1", "train", "train", text + "y", os.ErrNotExist},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.Stage(t.Context(), tc.dataset, tc.build, tc.table, tc.split, 0, tc.path); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

func TestVersionsFollowEachOther(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	for i := range 3 {
		v := publish(t, c, "maths", fmt.Sprintf("b%d", i))
		if v.Number != int64(i+1) || v.Parent != int64(i) {
			t.Errorf("build %d became version %d after %d", i, v.Number, v.Parent)
		}
	}
	v, m, err := c.Latest(t.Context(), "maths")
	if err != nil {
		t.Fatal(err)
	}
	if v.Number != 3 || m.Parent != 2 || m.BuildID != "b2" || m.Rows("train") != 15 {
		t.Errorf("latest is %d, of %s after %d with %d rows", v.Number, m.BuildID, m.Parent, m.Rows("train"))
	}
	if diff := cmp.Diff(map[string]int64{"train": 15, "prompts": 1}, m.Counts.Rows); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]int64{"k3": 8, "r1": 7}, m.TeacherRows()); diff != "" {
		t.Error(diff)
	}
	all, err := c.Versions(t.Context(), "maths")
	if err != nil || len(all) != 3 || all[0].Number != 3 || all[2].Number != 1 {
		t.Errorf("versions %v, %v", all, err)
	}
}

func TestReferences(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	v1, v2 := publish(t, c, "maths", "b1"), publish(t, c, "maths", "b2")
	if _, err := c.Tag(t.Context(), "maths@1", "good"); err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[string]int64{
		"maths": 2, "maths@1": 1, "maths@2": 2, "maths@good": 1,
		"maths@sha256:" + v1.ManifestSHA256: 1, "maths@sha256:" + v2.ManifestSHA256[:12]: 2,
	} {
		v, _, err := c.Resolve(t.Context(), ref)
		if err != nil || v.Number != want {
			t.Errorf("%s is version %d, want %d (%v)", ref, v.Number, want, err)
		}
	}
	for ref, want := range map[string]error{
		"nothing": catalog.ErrUnknown, "maths@3": catalog.ErrUnknown, "maths@bad": catalog.ErrUnknown,
		"maths@sha256:" + strings.Repeat("0", 64): catalog.ErrUnknown,
		"maths@": catalog.ErrInvalid, "maths@0": catalog.ErrInvalid, "maths@-1": catalog.ErrInvalid, "maths@../x": catalog.ErrInvalid,
		"../maths": catalog.ErrInvalid, "Maths": catalog.ErrInvalid, "": catalog.ErrInvalid, "maths@sha256:zz": catalog.ErrInvalid,
		"maths@99999999999999999999": catalog.ErrInvalid, "a/b": catalog.ErrInvalid, "maths@good@1": catalog.ErrInvalid,
	} {
		if _, _, err := c.Resolve(t.Context(), ref); !errors.Is(err, want) {
			t.Errorf("%q: got %v, want %v", ref, err, want)
		}
	}
	if _, _, err := c.Resolve(t.Context(), "math"); !strings.Contains(fmt.Sprint(err), "maths") {
		t.Errorf("the error does not name what there is: %v", err)
	}
}

func FuzzParseRef(f *testing.F) {
	for _, s := range []string{"a", "a@1", "a@tag", "a@sha256:0123456789ab", "a@", "@", "a/../b", "a@+1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := catalog.ParseRef(s)
		if err != nil {
			return
		}
		if strings.ContainsAny(r.Name+r.Tag, "/\\\x00") || r.Name == ".." || r.Tag == ".." {
			t.Errorf("%q reads as %+v", s, r)
		}
		again, err := catalog.ParseRef(r.String())
		if err != nil || again != r {
			t.Errorf("%q reads as %+v and back as %+v (%v)", s, r, again, err)
		}
	})
}

func TestATagMoves(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	publish(t, c, "maths", "b1")
	publish(t, c, "maths", "b2")
	for _, ref := range []string{"maths@1", "maths"} {
		if _, err := c.Tag(t.Context(), ref, "prod"); err != nil {
			t.Fatal(err)
		}
	}
	tags, err := c.Tags(t.Context(), "maths")
	if err != nil || len(tags) != 1 || tags[0].Tag != "prod" || tags[0].Version != 2 {
		t.Errorf("tags %+v, %v", tags, err)
	}
	for _, bad := range []string{"", "1", "latest", "sha256:x", "a/b", ".."} {
		if _, err := c.Tag(t.Context(), "maths", bad); !errors.Is(err, catalog.ErrInvalid) {
			t.Errorf("tag %q: got %v, want ErrInvalid", bad, err)
		}
	}
}

func TestReadTable(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	publish(t, c, "maths", "b1")
	_, m, err := c.Latest(t.Context(), "maths")
	if err != nil {
		t.Fatal(err)
	}
	for name, read := range map[string]func(func(datasets.Row, error) bool){
		"whole": catalog.ReadTable[datasets.Row](t.Context(), c, m, "train"),
		"head":  catalog.Head[datasets.Row](t.Context(), c, m, "train"),
	} {
		var got []datasets.Row
		for row, err := range read {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, row)
		}
		if diff := cmp.Diff(append(rows(0, 10), rows(10, 5)...), got, cmpopts.EquateEmpty()); diff != "" {
			t.Error(name, diff)
		}
	}
}

func TestReadTableFailsLoudlyOnDamage(t *testing.T) {
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			b := mem.New("b")
			c := catalog.Open(b)
			publish(t, c, "maths", "b1")
			_, m, err := c.Latest(t.Context(), "maths")
			if err != nil {
				t.Fatal(err)
			}
			damage(t, b, m.TableFiles("train")[1].Key)
			var last error
			var n int
			for _, err := range catalog.ReadTable[datasets.Row](t.Context(), c, m, "train") {
				if last = err; err == nil {
					n++
				}
			}
			if !errors.Is(last, catalog.ErrDamaged) || n != 10 {
				t.Errorf("%d rows and then %v, want the 10 of the first file and ErrDamaged", n, last)
			}
		})
	}
}

func TestUnchanged(t *testing.T) {
	c := catalog.Open(mem.New("b"))
	m1, m2 := draft(t, c, "maths", "b1"), draft(t, c, "maths", "b2")
	if !c.Unchanged(&m1, m2.Files) {
		t.Error("two builds with the same files differ")
	}
	m2.Files = append(m2.Files, catalog.FileRef{Table: "candidates", Split: "all", SHA256: "x"})
	m2.Files[0], m2.Files[1], m2.Files[2] = m2.Files[2], m2.Files[0], m2.Files[1] // prompts first
	if !c.Unchanged(&m1, m2.Files) {
		t.Error("candidates and the order of tables should not count")
	}
	swapped := slices.Clone(m1.Files)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	if c.Unchanged(&m1, swapped) || c.Unchanged(&m1, m1.Files[:2]) || c.Unchanged(nil, nil) {
		t.Error("another order of rows, fewer files or no parent pass for unchanged")
	}
}

func TestList(t *testing.T) {
	b := mem.New("b")
	c := catalog.Open(b)
	for _, name := range []string{"a", "a-b", "a0", "a.b", "z"} {
		publish(t, c, name, "b1")
	}
	publish(t, c, "a", "b2")
	if err := c.PutIntent(t.Context(), catalog.Intent{Dataset: "new", BuildID: "b1"}); err != nil {
		t.Fatal(err)
	}
	put(t, b, "datasets/Not A Name/versions/x", nil)
	_, m, err := c.Latest(t.Context(), "z")
	if err != nil {
		t.Fatal(err)
	}
	v, _ := c.Versions(t.Context(), "z")
	put(t, b, v[0].Manifest, []byte("{}"))
	list, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, d := range list {
		got[d.Name] = d.Version
		if (d.Problem != "") != (d.Name == "z") || d.Name == "a" && (d.Rows["train"] != 15 || d.Bytes != m.Bytes()) {
			t.Errorf("%+v", d)
		}
	}
	if diff := cmp.Diff(map[string]int64{"a": 2, "a-b": 1, "a.b": 1, "a0": 1, "new": 0, "z": 1}, got); diff != "" {
		t.Error(diff)
	}
}
