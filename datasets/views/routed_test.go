package views_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// withTable publishes a version of one table in one file.
func withTable[T any](t *testing.T, table string, teachers []catalog.ManifestTeacher, rows []T) fixture {
	t.Helper()
	c := catalog.Open(mem.New("b"))
	path := filepath.Join(t.TempDir(), "f")
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
	ref, err := c.Stage(t.Context(), "maths", "b1", table, "all", 0, path)
	if err != nil {
		t.Fatal(err)
	}
	v, err := c.Publish(t.Context(), catalog.Manifest{Dataset: "maths", BuildID: "b1", CreatedAt: catalogTime, Teachers: teachers, Files: []catalog.FileRef{ref}})
	if err != nil {
		t.Fatal(err)
	}
	v, m, err := c.Resolve(t.Context(), v.Ref())
	if err != nil {
		t.Fatal(err)
	}
	return fixture{c, v, m}
}

func task(n int, domain, effort string, route ...string) datasets.PromptRow {
	id := fmt.Sprintf("%032x", n)
	return datasets.PromptRow{
		TaskID: datasets.TaskID(id, domain, effort), PromptID: id, Domain: domain, Effort: effort, Split: "train", Status: datasets.StatusClean,
		Route: route, Messages: []chat.Message{{Role: "user", Content: ptr(fmt.Sprintf("q%d 数", n))}}, Gold: ptr("7"), Copies: 1,
	}
}

// expert is a teacher that serves what the JSON says; "" is everything.
func expert(id, serves string) catalog.ManifestTeacher {
	t := catalog.ManifestTeacher{ID: id, Model: "m-" + id, Identity: "https://" + id + "/v1", Weights: "org/" + id, ScoreURL: "http://" + id + ":8000",
		Terms: catalog.Terms{Training: catalog.TrainingForbidden}}
	if serves != "" {
		t.Serves = json.RawMessage(serves)
	}
	return t
}

func TestRoutedPrompts(t *testing.T) {
	held, dup, dirty, unanswered := task(5, "math", "high", "k1"), task(6, "math", "high", "k1"), task(7, "math", "high", "k1"), task(8, "math", "high", "k1")
	held.Split, dup.Status, dirty.Status, unanswered.Status = "test", datasets.StatusDuplicate, datasets.StatusDirty, datasets.StatusUnanswered
	rows := []datasets.PromptRow{
		task(1, "math", "high", "k1", "all"), task(2, "math", "max", "k2", "all"), task(3, "code", "high", "all"), task(4, "chat", "low", "rule"),
		held, dup, dirty, unanswered,
	}
	f := withTable(t, datasets.TablePrompts, []catalog.ManifestTeacher{
		expert("k1", `[{"Domain":"math","Effort":["high"]}]`), expert("k2", `[{"Domain":"math"}]`), expert("all", ""), expert("rule", `[{"Domain":"math","Effort":["low"]}]`),
	}, rows)
	for _, tag := range append(views.Tags(), "") {
		for _, form := range []string{views.Parquet, views.JSONL} {
			dir := filepath.Join(t.TempDir(), "out")
			s, err := views.Export(t.Context(), f.c, f.m, views.ViewPromptsRouted, views.Folder(dir), views.Options{Version: f.v, Form: form, Tag: tag})
			if err != nil {
				t.Fatal(err)
			}
			if s.Rows["train"] != 4 || s.Rows["test"] != 0 {
				t.Errorf("%+v", s.Rows)
			}
			files := tree(t, dir)
			checkManifest(t, files)
			if form != views.JSONL {
				continue
			}
			var got []string
			for line := range strings.SplitSeq(strings.TrimSpace(files["data/train-00000-of-00001.jsonl"]), "\n") {
				var row map[string]any
				if err := json.Unmarshal([]byte(line), &row); err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprint(row["domain"], "/", row["effort"], " ", row["teacher"], " ", row["gold"], " ", row["tools"]))
				switch tagged := row[tag].(type) {
				case string:
					if tagged != row["teacher"] {
						t.Errorf("%v", row)
					}
				case map[string]any:
					if tag == views.TagMetadata {
						if tagged["opd_teacher"] != row["teacher"] || tagged["task_id"] != row["task_id"] {
							t.Errorf("%v", row)
						}
						break
					}
					if tagged["name"] != row["teacher"] || tagged["type"] != "responses_api_agents" {
						t.Errorf("%v", row)
					}
				default:
					if tag != "" {
						t.Errorf("%v", row)
					}
				}
			}
			want := []string{"math/high k1 7 <nil>", "math/max k2 7 <nil>", "code/high all 7 <nil>", "chat/low rule 7 <nil>"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			var m struct {
				Column   string
				Prompts  int
				Teachers []struct {
					Tag, Weights string
					ScoreURL     string `json:"score_url"`
					Cells        []struct {
						Domain  string
						Prompts int
					}
				}
			}
			if err := json.Unmarshal([]byte(files["teacher_map.json"]), &m); err != nil {
				t.Fatal(err)
			}
			if m.Prompts != 4 || len(m.Teachers) != 4 || m.Teachers[0].Weights != "org/k1" || m.Teachers[0].ScoreURL != "http://k1:8000" || m.Teachers[0].Cells[0].Prompts != 1 {
				t.Errorf("%s", files["teacher_map.json"])
			}
			again, err := views.Export(t.Context(), f.c, f.m, views.ViewPromptsRouted, views.Folder(dir), views.Options{Version: f.v, Form: form, Tag: tag})
			if err != nil || !again.Unchanged {
				t.Errorf("%+v %v", again, err)
			}
		}
	}
	// A stream of it has the same rows.
	stream, err := views.Open(f.c, f.m, views.ViewPromptsRouted, views.Options{})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for batch, err := range stream.Batches(t.Context(), "train", 0) {
		if err != nil {
			t.Fatal(err)
		}
		n += len(batch.([]views.RoutedPrompt))
	}
	if n != 4 {
		t.Errorf("%d rows", n)
	}
}

func TestAnOwnerForEveryCell(t *testing.T) {
	f := withTable(t, datasets.TablePrompts, []catalog.ManifestTeacher{expert("k1", `[{"Domain":"math"}]`), expert("k2", `[{"Domain":"math"}]`)},
		[]datasets.PromptRow{task(1, "math", "high", "k1", "k2"), task(2, "chat", "low"), task(3, "math", "max", "k1", "k2")})
	export := func(owners map[string]string) error {
		_, err := views.Export(t.Context(), f.c, f.m, views.ViewPromptsRouted, views.Bucket(mem.New("d"), ""), views.Options{Version: f.v, Owners: owners})
		return err
	}
	err := export(nil)
	if !errors.Is(err, views.ErrUnsupported) {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"nobody owns chat/low (1 tasks)", "math/high (1 tasks) has 2 owners, k1 and k2", "math/max (1 tasks) has 2 owners", "--owner chat/low=TEACHER"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := export(map[string]string{"math/high": "k2", "math": "k1", "*": "k2"}); err != nil {
		t.Error(err)
	}
	if err := export(map[string]string{"*": "k9"}); !errors.Is(err, views.ErrUnknownView) || !strings.Contains(err.Error(), "no such teacher; it has: k1, k2") {
		t.Errorf("%v", err)
	}
	if _, err := views.Export(t.Context(), f.c, f.m, views.ViewMessages, views.Bucket(mem.New("d"), ""), views.Options{Owners: map[string]string{"*": "k1"}}); !errors.Is(err, views.ErrUnknownView) {
		t.Errorf("%v", err)
	}
	if _, err := views.Open(f.c, f.m, views.ViewPromptsRouted, views.Options{Tag: "x"}); !errors.Is(err, views.ErrUnknownView) {
		t.Errorf("%v", err)
	}
}
