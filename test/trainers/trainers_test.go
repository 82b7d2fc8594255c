//go:build trainers

package trainers

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/datasets/views/viewstest"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// A trial is a view under options, given to a trainer.
type trial struct {
	trainer, view string
	options       views.Options
}

func (c trial) name() string {
	parts := []string{c.trainer, c.view}
	for _, option := range []string{c.options.Form, c.options.Reasoning, c.options.Effort, c.options.ToolArgs} {
		if option != "" {
			parts = append(parts, option)
		}
	}
	if c.options.MaskHistory {
		parts = append(parts, "mask_history")
	}
	return strings.Join(parts, " ")
}

var trials = []trial{
	{"trl", views.ViewMessages, views.Options{}},
	{"trl", views.ViewMessages, views.Options{Form: views.JSONL, ToolArgs: views.ToolArgsObject}},
	{"trl", views.ViewMessages, views.Options{Form: views.Arrow, ToolArgs: views.ToolArgsObject, Reasoning: views.ReasoningThinking}},
	{"trl", views.ViewMessages, views.Options{ToolArgs: views.ToolArgsObject, Reasoning: views.ReasoningInline, Effort: views.EffortSystem}},
	{"trl", "prompt_completion", views.Options{}},
	{"trl", views.ViewPreference, views.Options{}},

	{"llamafactory", views.ViewShareGPT, views.Options{}},
	{"llamafactory", views.ViewShareGPT, views.Options{Form: views.JSONL, Reasoning: views.ReasoningDrop}},
	{"llamafactory", views.ViewOpenAI, views.Options{}},
	{"llamafactory", views.ViewShareGPT, views.Options{MaskHistory: true}},

	{"axolotl", views.ViewAxolotl, views.Options{}},
	{"axolotl", views.ViewAxolotl, views.Options{Form: views.JSONL, Reasoning: views.ReasoningInline}},
	{"axolotl", views.ViewAxolotl, views.Options{Reasoning: views.ReasoningDrop}},

	{"verl", views.ViewVerl, views.Options{}},
	{"verl", views.ViewVerl, views.Options{Reasoning: views.ReasoningDrop}},

	{"ms-swift", views.ViewSwift, views.Options{}},
	{"ms-swift", views.ViewSwift, views.Options{Form: views.JSONL, Reasoning: views.ReasoningDrop}},
}

// A job is what a check is given, see common.py.
type job struct {
	View      string          `json:"view"`
	Folder    string          `json:"folder"`
	Files     []string        `json:"files"` // of the train split
	Extension string          `json:"extension"`
	Reasoning string          `json:"reasoning"`
	Mask      bool            `json:"mask_history"`
	Rows      []datasets.Row  `json:"rows"`
	Pairs     []datasets.Pair `json:"pairs"`
	Work      string          `json:"work"`
}

// A finding is what a check says of a job.
type finding struct {
	Rows     int      `json:"rows"`
	Problems []string `json:"problems"`
}

func TestTRL(t *testing.T)          { try(t, "trl") }
func TestLLaMAFactory(t *testing.T) { try(t, "llamafactory") }
func TestAxolotl(t *testing.T)      { try(t, "axolotl") }
func TestVerl(t *testing.T)         { try(t, "verl") }
func TestMSSwift(t *testing.T)      { try(t, "ms-swift") }

// try gives a trainer everything that is exported for it.
func try(t *testing.T, trainer string) {
	t.Parallel()
	python := environment(t, trainer)
	c, v, m := viewstest.Publish(t, mem.New("b"))
	var mine []trial
	var jobs []job
	for _, one := range trials {
		if one.trainer == trainer {
			mine, jobs = append(mine, one), append(jobs, one.export(t, c, v, m))
		}
	}
	var found []finding
	run(t, python, trainer, jobs, &found)
	if len(found) != len(jobs) {
		t.Fatalf("%d findings of %d exports", len(found), len(jobs))
	}
	for i, one := range mine {
		t.Run(one.name(), func(t *testing.T) {
			for _, p := range found[i].Problems {
				t.Error(p)
			}
			if want := len(jobs[i].Rows) + len(jobs[i].Pairs); found[i].Rows != want {
				t.Errorf("the trainer read %d rows of %d", found[i].Rows, want)
			}
			t.Logf("%d rows", found[i].Rows)
		})
	}
}

// export writes what the trial is of.
func (c trial) export(t *testing.T, cat *catalog.Catalog, v catalog.Version, m *catalog.Manifest) job {
	t.Helper()
	opt := c.options
	opt.Version, opt.LeaveOutUnfit = v, true
	j := job{View: c.view, Folder: filepath.Join(t.TempDir(), "out"), Mask: opt.MaskHistory, Work: t.TempDir()}
	s, err := views.Export(t.Context(), cat, m, c.view, views.Folder(j.Folder), opt)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.Files {
		if f.Split == datasets.TableTrain {
			j.Files = append(j.Files, filepath.Join(j.Folder, filepath.FromSlash(f.Path)))
			j.Extension = filepath.Ext(f.Path)
		}
	}
	stream, err := views.Open(cat, m, c.view, opt)
	if err != nil {
		t.Fatal(err)
	}
	j.Reasoning = stream.Options.Reasoning
	j.Rows, j.Pairs = keptRows(t, c.view, opt), keptPairs(t, c.view, opt)
	if n := len(j.Rows) + len(j.Pairs); n == 0 || int64(n) != s.Rows[datasets.TableTrain] || len(j.Files) == 0 {
		t.Fatalf("the export has %d rows, and %d rows fit one by one", s.Rows[datasets.TableTrain], n)
	}
	return j
}

// keptRows are the rows of train that fit the view, as it says of each alone.
func keptRows(t *testing.T, view string, opt views.Options) []datasets.Row {
	if view == views.ViewPreference {
		return nil
	}
	out := []datasets.Row{}
	for _, row := range viewstest.Train(t) {
		if fits(t, view, opt, func(c *catalog.Catalog, m *catalog.Manifest) {
			stage(t, c, m, datasets.TableTrain, []datasets.Row{row})
		}) {
			out = append(out, row)
		}
	}
	return out
}

func keptPairs(t *testing.T, view string, opt views.Options) []datasets.Pair {
	if view != views.ViewPreference {
		return nil
	}
	out := []datasets.Pair{}
	for _, pair := range viewstest.Pairs(t, "train") {
		if fits(t, view, opt, func(c *catalog.Catalog, m *catalog.Manifest) {
			stage(t, c, m, datasets.TablePairs, []datasets.Pair{pair})
		}) {
			out = append(out, pair)
		}
	}
	return out
}

func fits(t *testing.T, view string, opt views.Options, stage func(*catalog.Catalog, *catalog.Manifest)) bool {
	t.Helper()
	c := catalog.Open(mem.New("one"))
	m := catalog.Manifest{Dataset: "maths", BuildID: "b"}
	stage(c, &m)
	s, err := views.Open(c, &m, view, opt)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range s.Batches(t.Context(), datasets.TableTrain, 1) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	return n == 1
}

func stage[T any](t *testing.T, c *catalog.Catalog, m *catalog.Manifest, table string, rows []T) {
	t.Helper()
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
	ref, err := c.Stage(t.Context(), m.Dataset, m.BuildID, table, "train", 0, path)
	if err != nil {
		t.Fatal(err)
	}
	m.Files = append(m.Files, ref)
}

// environment is the interpreter of a trainer's environment.
func environment(t *testing.T, trainer string) string {
	t.Helper()
	python := filepath.Join(os.Getenv("STILLHOUSE_TRAINERS"), trainer, "bin", "python")
	if os.Getenv("STILLHOUSE_TRAINERS") != "" {
		if _, err := os.Stat(python); err == nil {
			return python
		}
	}
	text := trainer + " is not installed: .ci/trainers " + trainer
	if slices.Contains(strings.Fields(os.Getenv("STILLHOUSE_REQUIRE_TRAINERS")), trainer) {
		t.Fatal(text)
	}
	t.Skip(text)
	return ""
}

// run gives the exports to the check of a trainer.
func run(t *testing.T, python, trainer string, jobs, into any) {
	t.Helper()
	in, err := json.Marshal(jobs)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, strings.ReplaceAll(trainer, "-", "")+"_check.py")
	cmd.Stdin = bytes.NewReader(in)
	cmd.Env = append(os.Environ(), "HF_HOME="+t.TempDir(), "PYTHONPATH=", "HF_DATASETS_DISABLE_PROGRESS_BARS=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	tail := stderr.String()
	if len(tail) > 6000 {
		tail = "…" + tail[len(tail)-6000:]
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, tail)
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v in %.500s\n%s", err, out, tail)
	}
}
