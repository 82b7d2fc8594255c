package views_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func ptr[T any](v T) *T { return &v }

func trainRows(from, n int) []datasets.Row {
	out := make([]datasets.Row, n)
	for i := range out {
		out[i] = datasets.Row{
			PromptID: fmt.Sprintf("%04d", from+i), SampleID: fmt.Sprintf("s%d", from+i), Teacher: "k3",
			Messages: []chat.Message{{Role: "user", Content: ptr(fmt.Sprintf("question %d <b>", from+i))}, {Role: "assistant", Content: ptr("answer"), Train: true}},
		}
	}
	out[0].Messages = []chat.Message{
		{Role: "user", Content: ptr("")},
		{Role: "assistant", ReasoningContent: ptr("thinking"), ReasoningKind: ptr("raw"), ToolCalls: []chat.ToolCall{{ID: "c", Type: "function", Name: "f", Arguments: `{"a":null}`}}, Train: true},
		{Role: "tool", Content: ptr("21"), ToolCallID: ptr("c"), Name: ptr("f")},
	}
	out[0].Tools = ptr(`[{"type":"function"}]`)
	return out
}

type fixture struct {
	c *catalog.Catalog
	v catalog.Version
	m *catalog.Manifest
}

// published is a version with two train files and one of test.
func published(t *testing.T, build string, terms map[string]string, files map[string][][]datasets.Row) fixture {
	t.Helper()
	c := catalog.Open(mem.New("b"))
	m := catalog.Manifest{Dataset: "maths", BuildID: build, CreatedAt: catalogTime}
	for _, id := range slices.Sorted(maps.Keys(terms)) {
		m.Teachers = append(m.Teachers, catalog.ManifestTeacher{ID: id, Model: "kimi|k3", Terms: catalog.Terms{Licence: "MIT", Training: terms[id]}})
	}
	for _, table := range []string{"train", "test"} {
		for i, rows := range files[table] {
			path := filepath.Join(t.TempDir(), "f")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			w, err := parquetio.NewWriter[datasets.Row](f, parquetio.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(w.Write(rows), w.Close(), f.Close()); err != nil {
				t.Fatal(err)
			}
			ref, err := c.Stage(t.Context(), "maths", build, table, table, i, path)
			if err != nil {
				t.Fatal(err)
			}
			m.Files = append(m.Files, ref)
		}
	}
	v, err := c.Publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	v, stored, err := c.Resolve(t.Context(), v.Ref())
	if err != nil {
		t.Fatal(err)
	}
	return fixture{c, v, stored}
}

func usual(t *testing.T, build string) fixture {
	return published(t, build, map[string]string{"k3": catalog.TrainingAllowed}, map[string][][]datasets.Row{
		"train": {trainRows(0, 3), trainRows(3, 2)}, "test": {trainRows(5, 1)},
	})
}

func (f fixture) export(t *testing.T, dest views.Dest, form string) (views.Summary, error) {
	t.Helper()
	return views.Export(t.Context(), f.c, f.m, views.ViewMessages, dest, views.Options{Version: f.v, Form: form})
}

// tree is every file below a folder.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		out[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func under(t *testing.T, b objstore.Bucket, prefix string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for attr, err := range b.List(t.Context(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		data, _, err := objstore.ReadAll(t.Context(), b, attr.Key, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimPrefix(attr.Key, prefix)] = string(data)
	}
	return out
}

func TestExportToAFolder(t *testing.T) {
	f := usual(t, "b1")
	dir := filepath.Join(t.TempDir(), "new", "out")
	s, err := f.export(t, views.Folder(dir), "")
	if err != nil {
		t.Fatal(err)
	}
	files := tree(t, dir)
	want := []string{"README.md", "data/test-00000-of-00001.parquet", "data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet", "manifest.json"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(files))); diff != "" {
		t.Fatal(diff)
	}
	if diff := cmp.Diff(map[string]int64{"train": 5, "test": 1}, s.Rows); diff != "" {
		t.Error(diff)
	}
	data := []byte(files["data/train-00000-of-00002.parquet"])
	r, err := parquetio.Open[views.Conversation](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var got []views.Conversation
	for row, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
	}
	first := views.Conversation{
		Messages: []views.Message{
			{Role: "user", Content: ptr("")},
			{Role: "assistant", ReasoningContent: ptr("thinking"), ToolCalls: []views.ToolCall{{ID: "c", Type: "function", Function: views.Function{Name: "f", Arguments: `{"a":null}`}}}},
			{Role: "tool", Content: ptr("21"), ToolCallID: ptr("c"), Name: ptr("f")},
		},
		Tools: ptr(`[{"type":"function"}]`),
	}
	// Without calls tool_calls is null, not an empty list.
	if diff := cmp.Diff(first, got[0]); diff != "" || len(got) != 3 {
		t.Errorf("%d rows: %s", len(got), diff)
	}
	checkManifest(t, files)
}

// checkManifest holds every file to the digest in manifest.json.
func checkManifest(t *testing.T, files map[string]string) {
	t.Helper()
	var m struct {
		Files []views.File `json:"files"`
	}
	if err := json.Unmarshal([]byte(files["manifest.json"]), &m); err != nil {
		t.Fatal(err)
	}
	if len(m.Files) != len(files)-1 {
		t.Errorf("the manifest names %d files of %d", len(m.Files), len(files)-1)
	}
	for _, f := range m.Files {
		if sum := sha(files[f.Path]); sum != f.SHA256 || int64(len(files[f.Path])) != f.Bytes {
			t.Errorf("%s has the digest %s, the manifest says %s", f.Path, sum, f.SHA256)
		}
	}
}

func TestExportAsJSONLines(t *testing.T) {
	f := usual(t, "b1")
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := f.export(t, views.Folder(dir), views.JSONL); err != nil {
		t.Fatal(err)
	}
	files := tree(t, dir)
	lines := strings.Split(strings.TrimSuffix(files["data/train-00000-of-00002.jsonl"], "\n"), "\n")
	const first = `{"messages":[{"role":"user","content":"","reasoning_content":null,"tool_calls":null,"tool_call_id":null,"name":null,"train":null},` +
		`{"role":"assistant","content":null,"reasoning_content":"thinking","tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"a\":null}"}}],"tool_call_id":null,"name":null,"train":null},` +
		`{"role":"tool","content":"21","reasoning_content":null,"tool_calls":null,"tool_call_id":"c","name":"f","train":null}],"tools":"[{\"type\":\"function\"}]","effort":null}`
	if len(lines) != 3 || lines[0] != first {
		t.Errorf("%d lines, the first is\n%s\nwant\n%s", len(lines), lines[0], first)
	}
	if !strings.Contains(lines[1], "question 1 <b>") {
		t.Error("text is escaped for HTML")
	}
	checkManifest(t, files)
}

func TestTheCardIsWhatTheHubReads(t *testing.T) {
	f := usual(t, "b1")
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := f.export(t, views.Folder(dir), ""); err != nil {
		t.Fatal(err)
	}
	card := tree(t, dir)["README.md"]
	_, rest, _ := strings.Cut(card, "---\n")
	front, body, ok := strings.Cut(rest, "\n---\n")
	if !ok {
		t.Fatal("no YAML at the start")
	}
	var got struct {
		Configs []struct {
			ConfigName string `yaml:"config_name"`
			DataFiles  []struct{ Split, Path string }
		}
		Info struct {
			Features []struct {
				Name, Dtype string
				List        []struct{ Name string }
			}
			Splits []struct {
				Name string
				Num  int `yaml:"num_examples"`
			}
		} `yaml:"dataset_info"`
	}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(front, "data_files", "datafiles")), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Configs) != 1 || len(got.Configs[0].DataFiles) != 2 || got.Configs[0].DataFiles[0].Path != "data/train-*" {
		t.Errorf("configs %+v", got.Configs)
	}
	if len(got.Info.Features) != 3 || got.Info.Features[0].Name != "messages" || len(got.Info.Features[0].List) != 7 || got.Info.Features[1].Dtype != "string" {
		t.Errorf("features %+v", got.Info.Features)
	}
	if len(got.Info.Splits) != 2 || got.Info.Splits[0].Num != 5 {
		t.Errorf("splits %+v", got.Info.Splits)
	}
	if !strings.Contains(body, `| k3 | kimi\|k3 | 6 | MIT | allowed |`) {
		t.Errorf("the teachers are not in the card:\n%s", body)
	}
}

func TestTermsAreHeld(t *testing.T) {
	rows := map[string][][]datasets.Row{"train": {trainRows(0, 2)}}
	f := published(t, "b1", map[string]string{"k3": catalog.TrainingForbidden}, rows)
	dir := filepath.Join(t.TempDir(), "out")
	_, err := f.export(t, views.Folder(dir), "")
	if !errors.Is(err, views.ErrForbidden) || !strings.Contains(err.Error(), "k3") {
		t.Errorf("got %v, want ErrForbidden that names the teacher", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Error("something was written")
	}
	// A teacher that gave no row does not stand in the way.
	f = published(t, "b1", map[string]string{"k3": "", "judge": catalog.TrainingForbidden}, rows)
	s, err := f.export(t, views.Folder(dir), "")
	if err != nil || len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "k3") {
		t.Errorf("warnings %q, %v; want one for the terms that are not known", s.Warnings, err)
	}
}

func TestImagesAreNotLostSilently(t *testing.T) {
	rows := trainRows(0, 2)
	rows[1].Images = []datasets.Image{{Digest: "d"}}
	f := published(t, "b1", nil, map[string][][]datasets.Row{"train": {rows}})
	parent := t.TempDir()
	_, err := f.export(t, views.Folder(filepath.Join(parent, "out")), "")
	if !errors.Is(err, views.ErrUnsupported) || !strings.Contains(err.Error(), "s1") {
		t.Errorf("got %v, want ErrUnsupported that names the sample", err)
	}
	if left := tree(t, parent); len(left) > 0 {
		t.Errorf("left behind: %v", slices.Collect(maps.Keys(left)))
	}
}

func TestUnknownViewsAndForms(t *testing.T) {
	f := usual(t, "b1")
	dest := views.Folder(t.TempDir())
	if _, err := f.export(t, dest, "csv"); !errors.Is(err, views.ErrUnknownView) {
		t.Errorf("form csv: %v", err)
	}
	if _, err := views.Export(t.Context(), f.c, f.m, "nothing", dest, views.Options{}); !errors.Is(err, views.ErrUnknownView) {
		t.Errorf("view nothing: %v", err)
	}
}

func TestDamageEndsAnExport(t *testing.T) {
	f := usual(t, "b1")
	key := f.m.Files[1].Key
	data, _, err := objstore.ReadAll(t.Context(), f.c.Bucket(), key, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if _, err := objstore.PutBytes(t.Context(), f.c.Bucket(), key, data, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	if _, err := f.export(t, views.Folder(filepath.Join(parent, "out")), ""); !errors.Is(err, catalog.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
	if left := tree(t, parent); len(left) > 0 {
		t.Errorf("left behind: %v", slices.Collect(maps.Keys(left)))
	}
}
