package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// Text that would take a terminal over: it clears the screen, sets the title,
// goes back to the line's start, colours by a C1 control and turns text around.
const hostile = "before\x1b[2J\x1b]0;owned\x07\rover\u009b31mred\u202eesrever\u2066 after"

// sampleStore is a store with three datasets: maths in two versions, of which the
// first is tagged best; secret, whose teacher's terms forbid training; and
// plain, which has no report and no test rows. It is filled once and must not
// be changed.
var sampleStore = sync.OnceValues(func() (*mem.Bucket, error) {
	dir, err := os.MkdirTemp("", "stillhouse-sample-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	b := mem.New("sample")
	s := &sampler{ctx: context.Background(), catalog: catalog.Open(b), dir: dir}
	err = errors.Join(
		s.publish("maths", "20261130T120000Z-00000001", 8, catalog.TrainingAllowed, true),
		s.publish("maths", "20261130T130000Z-00000002", 12, catalog.TrainingAllowed, true),
		s.publish("secret", "20261130T140000Z-00000003", 4, catalog.TrainingForbidden, true),
		s.publish("plain", "20261130T150000Z-00000004", 3, catalog.TrainingAllowed, false),
	)
	if err != nil {
		return nil, err
	}
	_, err = s.catalog.Tag(s.ctx, "maths@1", "best")
	return b, err
})

// A sampler publishes small datasets.
type sampler struct {
	ctx     context.Context
	catalog *catalog.Catalog
	dir     string
	files   int
}

// publish makes tasks of two domains, each answered by k3, which is right, and
// r1, which is wrong; every fourth task is in test. The first task's answers
// are hostile and the second's prompt is long.
func (s *sampler) publish(name, build string, tasks int, training string, whole bool) error {
	var candidates []datasets.Candidate
	var prompts []datasets.PromptRow
	tables := map[string][]datasets.Row{}
	compare := report.New([]report.TeacherInfo{
		{ID: "k3", Model: "kimi-k3", Priced: true, PriceNote: "price list"}, {ID: "r1", Model: "r1-large"},
	})
	for i := range tasks {
		for _, c := range candidatesOf(i) {
			if c.Selected {
				tables[c.Split] = append(tables[c.Split], datasets.RowOf(&c))
			}
			candidates = append(candidates, c)
			compare.Add(&c)
		}
		prompts = append(prompts, promptOf(i))
	}
	m := catalog.Manifest{
		Dataset: name, BuildID: build, Tool: "stillhouse v9.9.9", RecipeDigest: strings.Repeat("ab", 32),
		CreatedAt: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC), CostMicros: 1_500_000, Unpriced: int64(tasks), DurationMS: 61_000,
		Rejected: map[string]int64{"verdict:fail": int64(tasks)},
		Sources:  []catalog.Source{{Path: "data/" + name + ".jsonl", SHA256: strings.Repeat("cd", 32), Bytes: 2048, Rows: int64(tasks)}},
		Counts: catalog.Counts{
			Prompts: int64(tasks), Tasks: int64(tasks), Asks: int64(2 * tasks), AnswersNew: int64(2 * tasks),
			Candidates: int64(2 * tasks), Accepted: int64(tasks), Duplicates: 1,
		},
		Teachers: []catalog.ManifestTeacher{
			{
				ID: "k3", Model: "kimi-k3", API: "openai", Identity: "kimi-k3-eu", Terms: catalog.Terms{Licence: "MIT", Training: training},
				Counts: catalog.TeacherCounts{Asks: int64(tasks), Answers: int64(tasks), Accepted: int64(tasks), CostMicros: 1_500_000},
			},
			{ID: "r1", Model: "r1-large", API: "openai", Identity: "https://r1.example/v1", Counts: catalog.TeacherCounts{Asks: int64(tasks)}},
		},
	}
	if whole {
		m.CreatedAt = m.CreatedAt.Add(time.Hour)
		text, err := json.Marshal(compare.Report())
		if err != nil {
			return err
		}
		key, err := catalog.ReportKey(name, build, "report.json")
		if err != nil {
			return err
		}
		if _, err := objstore.PutBytes(s.ctx, s.catalog.Bucket(), key, text, objstore.PutOptions{}); err != nil {
			return err
		}
		m.Reports = []string{key}
	}
	return s.commit(m, func(m *catalog.Manifest) error {
		err := stage(s, m, datasets.TableTrain, "train", 0, tables["train"][:2])
		err = errors.Join(err, stage(s, m, datasets.TableTrain, "train", 1, tables["train"][2:]))
		if whole {
			err = errors.Join(err, stage(s, m, datasets.TableTest, "test", 0, tables["test"]))
		}
		return errors.Join(err, stage(s, m, datasets.TableCandidates, "all", 0, candidates),
			stage(s, m, datasets.TablePrompts, "all", 0, prompts))
	})
}

func (s *sampler) commit(m catalog.Manifest, fill func(*catalog.Manifest) error) error {
	if err := fill(&m); err != nil {
		return err
	}
	_, err := s.catalog.Publish(s.ctx, m)
	return err
}

// stage writes rows as one more file of a version.
func stage[T any](s *sampler, m *catalog.Manifest, table, split string, seq int, rows []T) error {
	s.files++
	path := filepath.Join(s.dir, fmt.Sprintf("%d.parquet", s.files))
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	w, err := parquetio.NewWriter[T](f, parquetio.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(w.Write(rows), w.Close(), f.Close()); err != nil {
		return err
	}
	ref, err := s.catalog.Stage(s.ctx, m.Dataset, m.BuildID, table, split, seq, path)
	m.Files = append(m.Files, ref)
	return err
}

func ptr[T any](v T) *T { return &v }

func question(i int) string {
	if i == 1 {
		return "How many?\n" + strings.Repeat("All of these lines belong to one question.\n", 300)
	}
	return fmt.Sprintf("What is %d + %d?", i, i)
}

func promptOf(i int) datasets.PromptRow {
	id := fmt.Sprintf("%032x", i)
	return datasets.PromptRow{
		TaskID: id + "/" + domainOf(i) + "/high", PromptID: id, Domain: domainOf(i), Effort: "high", Split: splitOf(i),
		Status: datasets.StatusClean, Route: []string{"k3", "r1"}, RouteReason: "all", Gold: ptr(fmt.Sprint(2 * i)),
		Messages: []chat.Message{{Role: chat.RoleUser, Content: ptr(question(i))}}, Source: fmt.Sprintf("data.jsonl:%d", i+1), Copies: 1,
	}
}

func domainOf(i int) string { return []string{"math", "science"}[i%2] }

func splitOf(i int) string {
	if i%4 == 3 {
		return "test"
	}
	return "train"
}

func candidatesOf(i int) []datasets.Candidate {
	p := promptOf(i)
	answer := func(teacher, content, verdict string) datasets.Candidate {
		c := datasets.Candidate{
			SampleID: datasets.SampleID(p.TaskID, teacher, "ask"), TaskID: p.TaskID, PromptID: p.PromptID, Domain: p.Domain, Effort: p.Effort,
			Split: p.Split, Teacher: teacher, ModelAsked: teacher + "-model", AskID: strings.Repeat("0", 64), ParamsAsked: "{}",
			Messages: append(p.Messages[:1:1], chat.Message{
				Role: chat.RoleAssistant, Content: ptr(content), ReasoningContent: ptr("Let me add the numbers."), Train: true,
			}),
			FinishReason: ptr("stop"), CompletionTokens: ptr(int64(10 + i)), Attempts: 1, Verdict: ptr(verdict), Gold: p.Gold,
			Verdicts: []datasets.Verdict{{Verifier: "math", Version: "1", Verdict: verdict}},
		}
		if verdict == datasets.Pass {
			c.Score, c.Accepted, c.Selected = ptr(1.0), true, true
		} else {
			c.RejectReasons = []string{"verdict:fail"}
		}
		return c
	}
	right, wrong := fmt.Sprintf("It is %d.\n#### %d", 2*i, 2*i), "It is 7.\n#### 7"
	if i == 0 {
		right, wrong = hostile, hostile
	}
	k3, r1 := answer("k3", right, datasets.Pass), answer("r1", wrong, datasets.Fail)
	k3.CostMicros, k3.LatencyMS = ptr(int64(1000)), ptr(int64(900))
	return []datasets.Candidate{k3, r1}
}

// plant copies the sample store to a folder, as the embedded store keeps its
// objects.
func plant(root string) error {
	b, err := sampleStore()
	if err != nil {
		return err
	}
	ctx := context.Background()
	for attr, err := range b.List(ctx, "", "") {
		if err != nil {
			return err
		}
		data, _, err := objstore.ReadAll(ctx, b, attr.Key, 1<<20)
		if err != nil {
			return err
		}
		path := filepath.Join(root, filepath.FromSlash(attr.Key))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			return err
		}
	}
	return nil
}

func TestTheSampleStoreIsWhole(t *testing.T) {
	b, err := sampleStore()
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"maths@1", "maths@2", "secret", "plain"} {
		r, err := catalog.Open(b).Verify(t.Context(), ref, nil)
		if err != nil || !r.OK() {
			t.Errorf("%s: %v, %+v", ref, err, r)
		}
	}
}
