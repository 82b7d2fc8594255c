package render

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/training"
)

// viewInput is an input of a view whose files have an extension.
func viewInput(view, ext string, rows int64) Input {
	return Input{
		Dataset: "maths-and-code", Version: 12, Seed: 7,
		View: training.View{
			Name: view,
			Files: []training.ViewFile{
				{Name: training.ViewFileName("train", 0, 2, ext), Split: "train", Rows: rows - 1},
				{Name: training.ViewFileName("train", 1, 2, ext), Split: "train", Rows: 1},
				{Name: training.ViewFileName("test", 0, 1, ext), Split: "test", Rows: 5},
			},
			Rows: map[string]int64{"train": rows, "test": 5},
		},
		Student: training.Student{Model: "moonshotai/Moonlight-16B-A3B", MaxLength: 32768},
	}
}

// goldenWhole compares everything that was rendered with testdata/NAME.golden.
func goldenWhole(t *testing.T, name string, r *training.Rendered) {
	t.Helper()
	var text strings.Builder
	text.WriteString("$ " + strings.Join(r.Trainer.Command, "\n  ") + "\n")
	for _, note := range r.Notes {
		text.WriteString("note: " + note + "\n")
	}
	for _, f := range r.Files {
		text.WriteString("--- " + f.Name + "\n" + string(f.Data))
	}
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// mustRender renders twice and wants the same.
func mustRender(t *testing.T, trainer, method string, in Input) *training.Rendered {
	t.Helper()
	r, err := Render(trainer, method, in)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Render(trainer, method, in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, again); diff != "" {
		t.Errorf("the same input gave something else:\n%s", diff)
	}
	return r
}

// A refusal is a change of an input that has to be refused with words.
type refusal struct {
	want   string
	change func(*Input)
}

func refuses(t *testing.T, trainer, method string, input func() Input, refusals []refusal) {
	t.Helper()
	for _, tc := range refusals {
		in := input()
		tc.change(&in)
		if _, err := Render(trainer, method, in); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want an error with %q", err, tc.want)
		}
	}
}

func params(kv ...any) func(*Input) {
	return func(in *Input) {
		in.Params = map[string]any{}
		for i := 0; i < len(kv); i += 2 {
			in.Params[kv[i].(string)] = kv[i+1]
		}
	}
}

// dottedKeys are the keys of a configuration of nested blocks.
func dottedKeys(t *testing.T, text []byte, known []string) []string {
	t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	flat, err := flatten(config, known)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for key := range flat {
		out = append(out, key)
	}
	return out
}

func verlInput() Input { return viewInput("verl", "parquet", 1000) }

func TestVerlSFT(t *testing.T) {
	in := verlInput()
	in.Lengths = &Lengths{Tokenizer: "kimi", Max: 30000}
	goldenWhole(t, "verl-sft-plain", mustRender(t, TrainerVerl, "", in))

	in = viewInput("verl", "parquet", 100)
	in.Student.Tokenizer = "moonshotai/Moonlight-16B-A3B-Instruct"
	in.Lengths = &Lengths{Tokenizer: "kimi", Max: 40000, Over: 3}
	in.Params = map[string]any{
		"optim": map[string]any{"lr": 2e-5}, "trainer": map[string]any{"n_gpus_per_node": float64(8), "logger": []any{"console", "wandb"}},
		"data.truncation": "right", "model.override_config": map[string]any{"attn_implementation": "eager"},
	}
	r := mustRender(t, TrainerVerl, "sft", in)
	goldenWhole(t, "verl-sft-params", r)

	known := append(keysOf("verl-sft"), "defaults", "hydra.output_subdir", "hydra.run.dir")
	for _, key := range dottedKeys(t, r.Files[0].Data, known) {
		if !slices.Contains(known, key) {
			t.Errorf("%s has no key %s", verlFor, key)
		}
	}
	for key := range verlOurs {
		if !slices.Contains(known, key) {
			t.Errorf("%s is guarded, but %s has no such key", key, verlFor)
		}
	}
}

func TestVerlSFTRefuses(t *testing.T) {
	refuses(t, TrainerVerl, "", verlInput, []refusal{
		{"nothing to train on", func(in *Input) { in.View.Rows["train"] = 0 }},
		{"reads parquet", func(in *Input) { in.View.Files[0].Name = "data/train-0.jsonl" }},
		{"revision", func(in *Input) { in.Student.Revision = "v1" }},
		{"chat template", func(in *Input) { in.Student.ChatTemplate = "t.jinja" }},
		{"set student.max_length", func(in *Input) { in.Student.MaxLength = 0 }},
		{"stops at the first", func(in *Input) { in.Lengths = &Lengths{Tokenizer: "kimi", Max: 40000, Over: 3} }},
		{"did you mean optim.lr", params("optim.lrr", 1)},
		{"model.path can't be set", params("model", map[string]any{"path": "other"})},
		{"data.enable_thinking_default can't be set", params("data.enable_thinking_default", "none")},
		{"fill none of 2000", params("data.train_batch_size", 2000)},
		{"hold no row", params("data.max_token_len_per_gpu", 4096)},
		{"is no whole number", params("data.train_batch_size", 1.5)},
		{"is below 1", params("trainer.n_gpus_per_node", 0)},
		{"rendezvous", params("trainer.nnodes", 2)},
		{"optim.lr: a text with ${", params("optim.lr", "${oc.env:SECRET}")},
		{"model.path: a text with ${", func(in *Input) { in.Student.Model = "${oc.env:HF_TOKEN}" }},
		{"model.override_config: a: a text with ${", params("model.override_config", map[string]any{"a": []any{"x${oc.env:HOME}"}})},
		{"set twice", params("optim.lr", 1, "optim", map[string]any{"lr": 2})},
		{"knows no such key", params("model.override_config.a", 1)},
	})
}

// flagNames are the names of a command's flags.
func flagNames(command []string) (names []string) {
	for _, word := range command {
		if name, ok := strings.CutPrefix(word, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			names = append(names, name)
		}
	}
	return names
}

func TestOpenRLHFSFT(t *testing.T) {
	in := verlInput()
	in.Lengths = &Lengths{Tokenizer: "kimi", Max: 40000, Over: 1}
	r := mustRender(t, TrainerOpenRLHF, "", in)
	goldenWhole(t, "openrlhf-sft-plain", r)
	for _, name := range flagNames(r.Trainer.Command[3:]) {
		if !slices.Contains(keysOf("openrlhf-sft"), name) {
			t.Errorf("%s has no argument %s", openrlhfFor, name)
		}
	}
	for key := range openrlhfOurs {
		if !slices.Contains(keysOf("openrlhf-sft"), key) {
			t.Errorf("%s is guarded, but %s has no such argument", key, openrlhfFor)
		}
	}

	in.Command = []string{"deepspeed", "--hostfile", "hosts", "--module", "openrlhf.cli.train_sft", "{args}", "--note={config}"}
	in.Params = map[string]any{
		"ds.packing_samples": true, "model.gradient_checkpointing_enable": false, "adam.betas": []any{0.9, json.Number("0.99")},
		"ds": map[string]any{"lora.target_modules": []any{"q_proj", "v_proj"}}, "logger.wandb.group": "$(touch x); 'y'",
	}
	goldenWhole(t, "openrlhf-sft-params", mustRender(t, TrainerOpenRLHF, "", in))

	refuses(t, TrainerOpenRLHF, "", verlInput, []refusal{
		{"WANDB_API_KEY", params("logger.wandb.key", "k")},
		{"rows would be left out", params("data.max_samples", 5)},
		{"did you mean adam.lr", params("adam.lrr", 5)},
		{"save both into one folder", func(in *Input) { in.Student.Tokenizer = "other" }},
		{"has no {args}", func(in *Input) { in.Command = []string{"deepspeed", "x.py"} }},
		{"would be read as a flag", params("adam.betas", []any{"--data.max_len=5", 1})},
		{"line break", params("logger.wandb.group", "a\nb")},
		{"is no argument", params("logger.wandb.group", []any{map[string]any{}})},
		{"fill none of 2000", params("train.batch_size", 2000)},
	})
}

func nemoInput() Input { return viewInput("messages", "jsonl", 1000) }

func TestNeMoRLSFT(t *testing.T) {
	in := nemoInput()
	in.Lengths = &Lengths{Tokenizer: "kimi", Max: 40000, Over: 3}
	r := mustRender(t, TrainerNeMoRL, "", in)
	goldenWhole(t, "nemo-rl-sft-plain", r)
	known := append(keysOf("nemo-rl-sft"), "defaults", "data._override_", "data.train", "data.validation")
	for _, key := range dottedKeys(t, r.Files[0].Data, known) {
		if !slices.Contains(known, key) {
			t.Errorf("%s has no key %s", nemoFor, key)
		}
	}
	for key := range with(nemoOurs, nemoSFTOurs) {
		if !slices.Contains(known, key) {
			t.Errorf("%s is guarded, but %s has no such key", key, nemoFor)
		}
	}

	in.Student.Tokenizer, in.Student.ChatTemplate = "other", "/templates/k.jinja"
	in.Command = []string{"python", "/home/me/RL/examples/run_sft.py", "--config", "{config}"}
	in.Params = map[string]any{
		"sft.max_num_epochs": 3, "policy": map[string]any{"train_global_batch_size": 8, "sequence_packing.enabled": true},
		"cluster.gpus_per_node": 8, "logger.mlflow_enabled": true,
	}
	r = mustRender(t, TrainerNeMoRL, "", in)
	goldenWhole(t, "nemo-rl-sft-params", r)
	if text := string(r.Files[0].Data); !strings.Contains(text, "max_num_steps: 375\n") {
		t.Errorf("3 epochs of 1000 rows in batches of 8 are 375 steps:\n%s", text)
	}

	refuses(t, TrainerNeMoRL, "", nemoInput, []refusal{
		{"reads jsonl", func(in *Input) { in.View = viewInput("messages", "parquet", 10).View }},
		{"text of a chat template", func(in *Input) { in.Student.ChatTemplate = "tokenizer-folder" }},
		{"names no /FOLDER", func(in *Input) { in.Command = []string{"python", "examples/run_sft.py"} }},
		{"policy.model_name: a text with ${", func(in *Input) { in.Student.Model = here + "${oc.env:HF_TOKEN}" }},
		{"data.train.dataset_name can't be set", params("data", map[string]any{"train": map[string]any{"dataset_name": "squad"}})},
		{"did you mean sft.max_num_steps", params("sft.max_num_step", 1)},
		{"is no whole number", params("sft.max_num_epochs", "many")},
		{"fill none", params("policy.train_global_batch_size", 5000)},
	})
}

func TestMegatronBridgeSFT(t *testing.T) {
	input := func() Input {
		in := viewInput("verl", "jsonl", 1000)
		in.Params = map[string]any{
			"recipe":     "megatron.bridge.recipes.llama:llama32_1b_sft_config",
			"checkpoint": map[string]any{"pretrained_checkpoint": "/checkpoints/moonlight"}, "optimizer.lr": 1e-5,
		}
		return in
	}
	in := input()
	in.Student.Tokenizer = "moonshotai/Moonlight-16B-A3B-Instruct"
	goldenWhole(t, "megatron-bridge-sft", mustRender(t, TrainerMegatronBridge, "", in))

	set := func(key string, value any) func(*Input) { return func(in *Input) { in.Params[key] = value } }
	refuses(t, TrainerMegatronBridge, "", input, []refusal{
		{"reads jsonl", func(in *Input) { in.View = verlInput().View }},
		{"set params.recipe", set("recipe", "llama32_1b_sft_config")},
		{"set params.recipe", set("recipe", "os:system('x')")},
		{"the data is the view's", set("dataset", map[string]any{"seq_length": 1})},
		{"looked for in output", set("checkpoint.save", "elsewhere")},
		{"student.max_length", set("model.seq_length", 1)},
		{"is no field", set("lr", 1)},
		{"is no field", set("optimizer.__class__.x y", 1)},
		{"Megatron's form", func(in *Input) { delete(in.Params, "checkpoint") }},
		{"is no whole number", set("train.global_batch_size", "x")},
		{"unsupported value", set("optimizer.lr", math.NaN())},
	})
}
