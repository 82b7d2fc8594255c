package views_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/datasets/views/viewstest"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

var errCut = errors.New("connection reset")

// cutting fails every read of a key that holds part, until mended.
type cutting struct {
	*mem.Bucket
	part string
}

func (c *cutting) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if c.part != "" && strings.Contains(key, c.part) {
		return nil, errCut
	}
	return c.Bucket.GetRange(ctx, key, off, n)
}

// cutVersion is the version of viewstest, whose second train file can't be read
// until it is mended.
func cutVersion(t *testing.T) (fixture, *cutting) {
	t.Helper()
	b := &cutting{Bucket: mem.New("b")}
	c, v, m := viewstest.Publish(t, b)
	b.part = m.TableFiles("train")[1].Key
	return fixture{c, v, m}, b
}

func partials(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(filepath.Dir(dir), ".*.partial-*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// An export to a folder that is interrupted goes on behind its finished files,
// with the same bytes and counts as one that is not.
func TestAnInterruptedExportToAFolderGoesOn(t *testing.T) {
	f, b := cutVersion(t)
	opt := views.Options{Version: f.v, Form: views.JSONL, LeaveOutUnfit: true, Images: views.ImagesColumn}
	dir := filepath.Join(t.TempDir(), "out")
	_, err := views.Export(t.Context(), f.c, f.m, views.ViewShareGPT, views.Folder(dir), opt)
	if !errors.Is(err, errCut) || !strings.Contains(err.Error(), "1 file finished, and the same command goes on from there") {
		t.Fatalf("%v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("half an export is there")
	}
	kept := partials(t, dir)
	if len(kept) != 1 {
		t.Fatalf("kept: %v", kept)
	}
	const name = "train/train-00000-of-00002.jsonl"
	before, err := os.Stat(filepath.Join(kept[0], name))
	if err != nil {
		t.Fatal(err)
	}
	// What a crash leaves: half a line of the journal, half a data file.
	appendTo(t, filepath.Join(kept[0], ".stillhouse-export.jsonl"), `{"path":"train/train-00001-of-00002.jsonl","ro`)
	appendTo(t, filepath.Join(kept[0], "train", "train-00001-of-00002.jsonl"), "half a li")
	b.part = ""
	s, err := views.Export(t.Context(), f.c, f.m, views.ViewShareGPT, views.Folder(dir), opt)
	if err != nil {
		t.Fatal(err)
	}
	after, err := os.Stat(filepath.Join(dir, name))
	if err != nil || !os.SameFile(before, after) || s.Resumed != 1 {
		t.Errorf("the finished file was written anew: resumed %d, %v", s.Resumed, err)
	}
	if left := partials(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	straight := filepath.Join(t.TempDir(), "out")
	want, err := views.Export(t.Context(), f.c, f.m, views.ViewShareGPT, views.Folder(straight), opt)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, straight), tree(t, dir)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.LeftOut, s.LeftOut); diff != "" {
		t.Error(diff)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(text)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A finished file that was damaged meanwhile is written anew.
func TestADamagedFinishedFileIsWrittenAnew(t *testing.T) {
	f, b := cutVersion(t)
	dir := filepath.Join(t.TempDir(), "out")
	opt := views.Options{Version: f.v, Images: views.ImagesColumn}
	export := func() (views.Summary, error) {
		return views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Folder(dir), opt)
	}
	if _, err := export(); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	appendTo(t, filepath.Join(partials(t, dir)[0], "data", "train-00000-of-00002.parquet"), "x")
	b.part = ""
	s, err := export()
	if err != nil || s.Resumed != 0 {
		t.Fatalf("resumed %d, %v", s.Resumed, err)
	}
	checkManifest(t, tree(t, dir))
}

// The begun export of an older version goes when a newer one is whole.
func TestABegunExportOfAnotherVersionGoes(t *testing.T) {
	f, b := cutVersion(t)
	dir := filepath.Join(t.TempDir(), "out")
	opt := views.Options{Version: f.v, Images: views.ImagesColumn}
	if _, err := views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Folder(dir), opt); !errors.Is(err, errCut) {
		t.Fatal(err)
	}
	b.part = ""
	newer := *f.m
	newer.BuildID = "20261201T130000Z-00000002"
	if _, err := views.Export(t.Context(), f.c, &newer, views.ViewMessages, views.Folder(dir), opt); err != nil {
		t.Fatal(err)
	}
	if left := partials(t, dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Two exports to one place don't write over each other.
func TestOneExportAtATime(t *testing.T) {
	f, b := cutVersion(t)
	b.part = ""
	dir := filepath.Join(t.TempDir(), "out")
	opt := views.Options{Version: f.v, Images: views.ImagesColumn}
	started, goOn := make(chan struct{}), make(chan struct{})
	blocked := &blocking{Bucket: b.Bucket, key: f.m.TableFiles("train")[1].Key, started: started, goOn: goOn}
	first := make(chan error, 1)
	go func() {
		_, err := views.Export(t.Context(), catalog.Open(blocked), f.m, views.ViewMessages, views.Folder(dir), opt)
		first <- err
	}()
	select {
	case <-started:
	case err := <-first:
		t.Fatalf("the first export ended before it read: %v", err)
	}
	_, err := views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Folder(dir), opt)
	if err == nil || !strings.Contains(err.Error(), "another export of the same view writes there") {
		t.Errorf("%v", err)
	}
	close(goOn)
	if err := <-first; err != nil {
		t.Error(err)
	}
	checkManifest(t, tree(t, dir))
}

type blocking struct {
	*mem.Bucket
	key           string
	started, goOn chan struct{}
}

func (b *blocking) GetRange(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	if key == b.key {
		close(b.started)
		<-b.goOn
	}
	return b.Bucket.GetRange(ctx, key, off, n)
}

// In a bucket, finished files are not uploaded again.
func TestAnInterruptedExportToABucketKeepsItsFiles(t *testing.T) {
	f, b := cutVersion(t)
	to := mem.New("dest")
	opt := views.Options{Version: f.v, Images: views.ImagesColumn}
	if _, err := views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Bucket(to, "x"), opt); !errors.Is(err, errCut) || !strings.Contains(err.Error(), "1 file finished") {
		t.Fatal(err)
	}
	b.part = ""
	puts := map[string]int{}
	to.Lost = func(op, key string) error {
		if op == "put" {
			puts[key]++
		}
		return nil
	}
	s, err := views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Bucket(to, "x"), opt)
	if err != nil {
		t.Fatal(err)
	}
	if s.Resumed != 1 || puts["x/data/train-00000-of-00002.parquet"] != 0 || puts["x/data/train-00001-of-00002.parquet"] != 1 {
		t.Errorf("resumed %d; put: %v", s.Resumed, puts)
	}
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Folder(dir), opt); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tree(t, dir), under(t, to, "x/")); diff != "" {
		t.Error(diff)
	}
}

// Bytes that changed on their way are found by reading them back, and a
// damaged export is not taken for a whole one.
func TestABucketIsReadBack(t *testing.T) {
	f := usual(t, "b1")
	to := &swapping{Bucket: mem.New("dest")}
	_, err := f.export(t, views.Bucket(to, "x"), "")
	if err == nil || !strings.Contains(err.Error(), "reads back with other bytes than were uploaded") {
		t.Fatalf("%v", err)
	}
	if files := under(t, to.Bucket, "x/"); files["manifest.json"] != "" {
		t.Error("the export calls itself whole")
	}
	to.mended = true
	if _, err := f.export(t, views.Bucket(to, "x"), ""); err != nil {
		t.Fatal(err)
	}
	const key = "x/data/train-00000-of-00002.parquet"
	data, _, err := objstore.ReadAll(t.Context(), to, key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	data[40] ^= 1 // the size stays
	if _, err := objstore.PutBytes(t.Context(), to, key, data, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	s, err := f.export(t, views.Bucket(to, "x"), "")
	if err != nil || s.Unchanged {
		t.Errorf("%+v %v", s, err)
	}
	checkManifest(t, under(t, to.Bucket, "x/"))
}

// swapping flips a byte of every data file that is put.
type swapping struct {
	*mem.Bucket
	mended bool
}

func (s *swapping) Put(ctx context.Context, key string, body io.ReadSeeker, size int64, opt objstore.PutOptions) (objstore.Attr, error) {
	if !s.mended && strings.Contains(key, "/data/") {
		data, err := io.ReadAll(body)
		if err != nil {
			return objstore.Attr{}, err
		}
		data[len(data)/2] ^= 1
		return objstore.PutBytes(ctx, s.Bucket, key, data, opt)
	}
	return s.Bucket.Put(ctx, key, body, size, opt)
}

// A refused export leaves an earlier one of a bucket as it is.
func TestARefusedExportLeavesTheEarlierOne(t *testing.T) {
	old := usual(t, "b1")
	rows := trainRows(0, 2)
	rows[1].Images = []datasets.Image{{Digest: "d"}}
	bad := published(t, "b2", nil, map[string][][]datasets.Row{"train": {rows}})
	to := mem.New("dest")
	if _, err := old.export(t, views.Bucket(to, "x"), ""); err != nil {
		t.Fatal(err)
	}
	want := under(t, to, "x/")
	if _, err := bad.export(t, views.Bucket(to, "x"), ""); !errors.Is(err, views.ErrUnsupported) {
		t.Fatalf("%v", err)
	}
	if diff := cmp.Diff(want, under(t, to, "x/")); diff != "" {
		t.Error(diff)
	}
}

// Rows of teachers whose terms forbid training are left out by an explicit
// option, exactly those, and the export says how many.
func TestForbiddenRowsAreLeftOut(t *testing.T) {
	rows := trainRows(0, 3)
	rows[1].Teacher = "secret"
	terms := map[string]string{"k3": catalog.TrainingUnknown, "secret": catalog.TrainingForbidden}
	f := published(t, "b1", terms, map[string][][]datasets.Row{"train": {rows}})
	dir := filepath.Join(t.TempDir(), "out")
	opt := views.Options{Version: f.v, Form: views.JSONL, LeaveOutForbidden: true}
	s, err := views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Folder(dir), opt)
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows["train"] != 2 || s.LeftOut[views.LeftOutForbidden] != 1 {
		t.Errorf("%+v", s)
	}
	files := tree(t, dir)
	text := files["data/train-00000-of-00001.jsonl"]
	if strings.Contains(text, "question 1") || !strings.Contains(text, "question 2") {
		t.Errorf("%s", text)
	}
	var manifest struct {
		Options map[string]string
		LeftOut map[string]int64 `json:"left_out"`
		Terms   map[string]struct{ Training string }
	}
	if err := json.Unmarshal([]byte(files["manifest.json"]), &manifest); err != nil {
		t.Fatal(err)
	}
	if manifest.Options["leave_out_forbidden"] != "true" || manifest.LeftOut[views.LeftOutForbidden] != 1 || manifest.Terms["k3"].Training != "unknown" {
		t.Errorf("%+v", manifest)
	}
	if _, there := manifest.Terms["secret"]; there || strings.Contains(files["README.md"], "| secret |") {
		t.Error("a teacher whose rows are left out stands among those of the rows")
	}
	// All of them is nothing to train on.
	f = published(t, "b2", map[string]string{"k3": catalog.TrainingForbidden}, map[string][][]datasets.Row{"train": {trainRows(0, 3)}})
	_, err = views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Folder(filepath.Join(t.TempDir(), "o")), opt)
	if !errors.Is(err, views.ErrNoRows) || !strings.Contains(err.Error(), "all 3 rows are left out: 3 rows of teachers whose terms forbid training") {
		t.Errorf("%v", err)
	}
}

// A view takes the options that it names, and no others.
func TestOptionsOfViews(t *testing.T) {
	f := usual(t, "b1")
	for _, tc := range []struct {
		view string
		opt  views.Options
		want string
	}{
		{"messages", views.Options{Reasoning: "aloud"}, "view messages takes --reasoning separate, inline, drop, thinking, not \"aloud\""},
		{"sharegpt", views.Options{Reasoning: views.ReasoningSeparate}, "view sharegpt takes --reasoning inline, drop"},
		{"sharegpt", views.Options{ToolArgs: views.ToolArgsText}, "view sharegpt has no --tool-args"},
		{"messages", views.Options{ThinkTag: "think"}, "--think-tag is of --reasoning inline"},
		{"messages", views.Options{Reasoning: views.ReasoningInline, ThinkTag: "<think>"}, "is no tag; write its name alone"},
		{"messages", views.Options{MaskHistory: true}, "view messages has no --mask-history"},
		{"verl", views.Options{DataSource: "x"}, "view verl has no --data-source"},
		{"verl", views.Options{Effort: views.EffortKwargs}, "view verl takes --effort column, system, none"},
	} {
		_, err := views.Export(t.Context(), f.c, f.m, tc.view, views.Folder(filepath.Join(t.TempDir(), "o")), tc.opt)
		if !errors.Is(err, views.ErrUnknownView) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.opt, err, tc.want)
		}
	}
}

// Options are part of what an export is: another one replaces it, and the same
// changes nothing.
func TestOptionsAreOfTheIdentity(t *testing.T) {
	f := usual(t, "b1")
	dir := filepath.Join(t.TempDir(), "out")
	for i, opt := range []views.Options{{}, {Reasoning: views.ReasoningSeparate}, {Reasoning: views.ReasoningDrop}, {Reasoning: views.ReasoningDrop}} {
		opt.Version = f.v
		s, err := views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Folder(dir), opt)
		if err != nil || s.Unchanged != (i%2 == 1) {
			t.Errorf("%d: %+v %v", i, s, err)
		}
	}
}

// LLaMA-Factory takes every file of a folder: each split has one of its own,
// with nothing else in it, and dataset_info.json names them.
func TestLLaMAFactoryFolder(t *testing.T) {
	c, v, m := viewstest.Publish(t, mem.New("b"))
	for _, view := range []string{views.ViewShareGPT, views.ViewOpenAI} {
		dir := filepath.Join(t.TempDir(), "out")
		opt := views.Options{Version: v, Form: views.JSONL, Images: views.ImagesColumn, LeaveOutUnfit: true}
		if _, err := views.Export(t.Context(), c, m, view, views.Folder(dir), opt); err != nil {
			t.Fatal(err)
		}
		files := tree(t, dir)
		var info map[string]struct {
			FileName      string `json:"file_name"`
			Formatting    string
			Columns, Tags map[string]string
		}
		if err := json.Unmarshal([]byte(files["dataset_info.json"]), &info); err != nil {
			t.Fatal(err)
		}
		if len(info) != 2 || info["maths"].FileName != "train" || info["maths_test"].FileName != "test" || info["maths"].Formatting != "sharegpt" || info["maths"].Columns["images"] != "images" {
			t.Errorf("%+v", info)
		}
		for name := range files {
			if dir, base, nested := strings.Cut(name, "/"); nested && (dir == "train" || dir == "test") && !strings.HasSuffix(base, ".jsonl") {
				t.Errorf("%s stands beside the data", name)
			}
		}
		// Every image that a line names is there, with the bytes of its digest.
		for digest, data := range viewstest.Pictures(t) {
			name := "images/" + digest + ".png"
			if named := strings.Contains(files["train/train-00000-of-00002.jsonl"]+files["train/train-00001-of-00002.jsonl"], name); named != (files[name] == string(data)) {
				t.Errorf("%s: named %t, there %t", name, named, files[name] != "")
			}
		}
	}
}

// An image with other bytes than its digest says ends an export.
func TestADamagedImageEndsAnExport(t *testing.T) {
	b := mem.New("b")
	c, v, m := viewstest.Publish(t, b)
	for digest := range viewstest.Pictures(t) {
		if _, err := objstore.PutBytes(t.Context(), b, "sources/"+digest+"/picture.png", []byte("x"), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, form := range []string{views.Parquet, views.JSONL} {
		opt := views.Options{Version: v, Form: form, Images: views.ImagesColumn}
		if _, err := views.Export(t.Context(), c, m, views.ViewMessages, views.Folder(filepath.Join(t.TempDir(), "o")), opt); !errors.Is(err, catalog.ErrDamaged) {
			t.Errorf("%s: %v", form, err)
		}
	}
}
