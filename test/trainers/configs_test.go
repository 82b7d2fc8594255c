//go:build trainers

package trainers

import (
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/datasets/views/viewstest"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/render"
)

// A hand is a configuration that a renderer wrote, to be read by its trainer's
// own parser; where it trains, its command is run.
type hand struct {
	trainer, method string
	keys            string // of training/render/keys
	params          map[string]any
	trains          bool
}

// Steps are few, and what needs a GPU is off; everything else is as a renderer
// wrote it.
var (
	onCPU = map[string]any{"use_cpu": true, "max_steps": 2, "gradient_accumulation_steps": 1, "gradient_checkpointing": false}
	hands = []hand{
		{"trl", render.MethodSFT, "trl-sft", onCPU, true},
		{"trl", render.MethodDPO, "trl-dpo", onCPU, true},
		{"trl", render.MethodReward, "trl-reward", onCPU, true},
		{"trl", render.MethodGKD, "trl-gkd", plus(onCPU, "max_new_tokens", 8, "lmbda", 0.5), true},
		{"trl", render.MethodGOLD, "trl-gold", plus(onCPU, "max_completion_length", 8, "lmbda", 0.0), true},
		{"llamafactory", render.MethodSFT, "llamafactory", map[string]any{"use_cpu": true, "template": "qwen3"}, false},
		{"llamafactory", render.MethodSFT, "llamafactory", map[string]any{"use_cpu": true, "template": "qwen3", "mask_history": true}, false},
		{"axolotl", render.MethodSFT, "axolotl", map[string]any{"bf16": false, "optimizer": "adamw_torch"}, false},
		{"ms-swift", render.MethodSFT, "ms-swift-sft", map[string]any{"use_cpu": true, "model_type": "qwen3", "template": "qwen3", "agent_template": "hermes"}, false},
		{"ms-swift", render.MethodGKD, "ms-swift-rlhf", map[string]any{"use_cpu": true, "model_type": "qwen3", "template": "qwen3", "agent_template": "hermes"}, false},
	}
)

func plus(params map[string]any, more ...any) map[string]any {
	out := maps.Clone(params)
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// A configJob is what configs_check.py is given. The bundle's student is a
// folder of it that the check makes.
type configJob struct {
	Trainer string   `json:"trainer"`
	Method  string   `json:"method"`
	Bundle  string   `json:"bundle"`
	Config  string   `json:"config"`
	Command []string `json:"command"` // run where there is one
	Keys    string   `json:"keys"`    // file with those that the renderer takes
	Rows    int64    `json:"rows"`
}

func TestConfigurationsTRL(t *testing.T)          { tryConfigs(t, "trl") }
func TestConfigurationsLLaMAFactory(t *testing.T) { tryConfigs(t, "llamafactory") }
func TestConfigurationsAxolotl(t *testing.T)      { tryConfigs(t, "axolotl") }
func TestConfigurationsMSSwift(t *testing.T)      { tryConfigs(t, "ms-swift") }

// tryConfigs renders what is rendered for a trainer, over a real export, and
// gives it to the trainer: its parser takes the configuration, with the values
// that are written; it knows exactly the keys that the renderer takes for its
// own; its loader finds all rows by the configuration alone; and a command that
// is run ends well.
func tryConfigs(t *testing.T, trainer string) {
	t.Parallel()
	python := environment(t, trainer)
	var mine []hand
	var jobs []configJob
	for _, h := range hands {
		if h.trainer == trainer {
			mine, jobs = append(mine, h), append(jobs, h.bundle(t))
		}
	}
	var found []finding
	run(t, python, "configs", jobs, &found)
	if len(found) != len(jobs) {
		t.Fatalf("%d findings of %d configurations", len(found), len(jobs))
	}
	for i, h := range mine {
		t.Run(h.method, func(t *testing.T) {
			for _, p := range found[i].Problems {
				t.Error(p)
			}
			if int64(found[i].Rows) != jobs[i].Rows {
				t.Errorf("the trainer read %d rows of %d", found[i].Rows, jobs[i].Rows)
			}
			t.Logf("%d rows", found[i].Rows)
		})
	}
}

// bundle lays out what a launch of the method finds, but for the student.
func (h hand) bundle(t *testing.T) configJob {
	t.Helper()
	spec, err := render.ViewFor(h.trainer, h.method, "", h.params)
	if err != nil {
		t.Fatal(err)
	}
	c, v, m := viewstest.Publish(t, mem.New("b"))
	dir := filepath.Join(t.TempDir(), "bundle")
	s, err := views.Export(t.Context(), c, m, spec.Name, views.Folder(dir), views.Options{Version: v, Form: spec.Form, MaskHistory: spec.MaskHistory, LeaveOutUnfit: true})
	if err != nil {
		t.Fatal(err)
	}
	view := training.View{Name: spec.Name, Rows: s.Rows}
	for _, f := range s.Files {
		if f.Split == "" {
			continue
		}
		name := path.Join(training.DataFolder, path.Base(f.Path))
		if name != f.Path {
			if err := os.MkdirAll(filepath.Join(dir, training.DataFolder), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, f.Path), filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		view.Files = append(view.Files, training.ViewFile{Name: name, Split: f.Split, Rows: f.Rows})
	}
	r, err := render.Render(h.trainer, h.method, render.Input{
		Dataset: m.Dataset, Version: v.Number, View: view, Seed: 7, Params: h.params,
		Student:  training.Student{Model: "./student", MaxLength: 1 << 14},
		Teachers: []render.Teacher{{ID: "k", Model: "k", Weights: "./student", Rows: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Files {
		to := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keys, err := filepath.Abs(filepath.Join("..", "..", "training", "render", "keys", h.keys+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	j := configJob{Trainer: h.trainer, Method: h.method, Bundle: dir, Config: r.Trainer.Configs[0], Keys: keys, Rows: s.Rows[datasets.TableTrain]}
	if h.trains {
		j.Command = slices.Clone(r.Trainer.Command)
	}
	if j.Rows == 0 {
		t.Fatalf("view %s has no rows to train on", spec.Name)
	}
	return j
}
