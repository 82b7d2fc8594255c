package render

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/training"
)

var update = flag.Bool("update", false, "write the golden files anew")

func testInput() Input {
	return Input{
		Dataset: "maths-and-code", Version: 12, Seed: 7,
		View: training.View{
			Name: "messages", Columns: []string{"messages", "tools"},
			Files: []training.ViewFile{
				{Name: training.ViewFileName("train", 0, 2, "parquet"), Split: "train", Rows: 60},
				{Name: training.ViewFileName("train", 1, 2, "parquet"), Split: "train", Rows: 40},
				{Name: training.ViewFileName("test", 0, 1, "parquet"), Split: "test", Rows: 5},
			},
			Rows: map[string]int64{"train": 100, "test": 5},
		},
		Student: training.Student{Model: "moonshotai/Moonlight-16B-A3B", MaxLength: 32768},
	}
}

func TestGoldenConfigurations(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Input)
	}{
		{"plain", func(*Input) {}},
		{"params", func(in *Input) {
			in.Student = training.Student{Model: "./student", Revision: "v1", ChatTemplate: "chat.jinja"}
			in.View.Name, in.View.Columns = "prompt_completion", []string{"prompt", "completion"}
			in.Command = []string{"accelerate", "launch", "-m", "trl.scripts.sft", "--config", "{config}"}
			in.Params = map[string]any{
				"use_cpu": true, "max_steps": float64(2), "learning_rate": 1e-5, "report_to": []any{"wandb", "mlflow"},
				"run_name": "no", "lr_scheduler_kwargs": map[string]any{"num_cycles": uint64(1), "é": "ü\u0085\u2028"},
			}
		}},
		{"jsonl", func(in *Input) {
			for i := range in.View.Files {
				in.View.Files[i].Name = strings.Replace(in.View.Files[i].Name, "parquet", "jsonl", 1)
			}
			in.View.Columns = nil
			in.Dataset = "two\nlines: yes"
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := testInput()
			tc.change(&in)
			r, err := Render(TrainerTRL, "", in)
			if err != nil {
				t.Fatal(err)
			}
			got := string(r.Files[0].Data)
			path := filepath.Join("testdata", "trl-sft-"+tc.name+".yaml")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			checkKeys(t, got)
			if again, err := Render(TrainerTRL, "", in); err != nil || string(again.Files[0].Data) != got {
				t.Error("the same input gave other bytes")
			}
		})
	}
}

// checkKeys holds a configuration to the keys of the release that it is for,
// and to being explicit about what changes what is learned.
func checkKeys(t *testing.T, text string) {
	t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	for key := range config {
		if !slices.Contains(keysOf("trl-sft"), key) {
			t.Errorf("%s has no key %s", trlFor, key)
		}
	}
	for _, key := range []string{"max_length", "packing", "assistant_only_loss", "completion_only_loss", "seed", "data_seed", "bf16", "report_to", "eval_strategy", "num_train_epochs"} {
		if _, ok := config[key]; !ok {
			t.Errorf("%s is left to the trainer's default", key)
		}
	}
	for i := range trlOurs {
		if _, secret := secretKeys[i]; !secret && !slices.Contains(keysOf("trl-sft"), i) {
			t.Errorf("%s is guarded, but %s has no such key", i, trlFor)
		}
	}
}

func TestCommandAndNotes(t *testing.T) {
	in := testInput()
	r, err := Render(TrainerTRL, "", in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"trl", "sft", "--config", "configs/trl/sft.yaml"}, r.Trainer.Command); diff != "" {
		t.Error(diff)
	}
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{"beyond 32768 tokens", "assistant turns only", "5 rows of the test split"} {
		if !strings.Contains(notes, want) {
			t.Errorf("no note of %q in:\n%s", want, notes)
		}
	}
	in.Command = []string{"my trainer", "--config={config}", "$(touch x); 'y'"}
	if r, err = Render(TrainerTRL, "", in); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"my trainer", "--config=configs/trl/sft.yaml", "$(touch x); 'y'"}, r.Trainer.Command); diff != "" {
		t.Error(diff)
	}
}

func TestRefusals(t *testing.T) {
	for _, tc := range []struct {
		want    string
		trainer string
		change  func(*Input)
	}{
		{"there are: ", "llama", func(*Input) {}},
		{"nothing to train on", TrainerTRL, func(in *Input) { in.View.Files = in.View.Files[2:] }},
		{"nothing to train on", TrainerTRL, func(in *Input) { in.View.Rows["train"] = 0 }},
		{"set student.model", TrainerTRL, func(in *Input) { in.Student.Model = "" }},
		{"save both into one folder", TrainerTRL, func(in *Input) { in.Student.Tokenizer = "other" }},
		{"did you mean num_train_epochs?", TrainerTRL, func(in *Input) { in.Params = map[string]any{"num_train_epoch": 1} }},
		{"knows no such key", TrainerTRL, func(in *Input) { in.Params = map[string]any{"zzz": 1} }},
		{"student.max_length", TrainerTRL, func(in *Input) { in.Params = map[string]any{"max_length": 1} }},
		{"HF_TOKEN", TrainerTRL, func(in *Input) { in.Params = map[string]any{"hub_token": "hf_abc123"} }},
		{"names the view's files", TrainerTRL, func(in *Input) { in.Params = map[string]any{"datasets": []any{}} }},
		{"packing needs a length", TrainerTRL, func(in *Input) {
			in.Student.MaxLength, in.Params = 0, map[string]any{"packing": true}
		}},
		{"params.max_steps: is not a number", TrainerTRL, func(in *Input) { in.Params = map[string]any{"max_steps": math.NaN()} }},
		{"can't be written", TrainerTRL, func(in *Input) { in.Params = map[string]any{"max_steps": struct{}{}} }},
	} {
		in := testInput()
		tc.change(&in)
		_, err := Render(tc.trainer, "", in)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("got %v, want an error with %q", err, tc.want)
		}
		if err != nil && strings.Contains(err.Error(), "hf_abc123") {
			t.Errorf("a value that may be a secret is in %q", err)
		}
	}
}

func TestYAMLNumbers(t *testing.T) {
	for in, want := range map[any]string{
		1e-5: "1.0e-05", 2.5e-7: "2.5e-07", 0.1: "0.1", 3.0: "3", -2.0: "-2", 1e21: "1.0e+21",
		json.Number("2"): "2", json.Number("1e-5"): "1.0e-05", json.Number("2.0"): "2", uint64(7): "7", int(-1): "-1",
	} {
		if got, err := yamlValue(in); err != nil || got != want {
			t.Errorf("%v: got %s, %v, want %s", in, got, err, want)
		}
	}
	deep := any(1)
	for range 20 {
		deep = []any{deep}
	}
	if _, err := yamlValue(deep); err == nil {
		t.Error("wrote a value nested 20 deep")
	}
	if _, err := yamlValue(json.Number("x")); err == nil {
		t.Error("wrote a number that is none")
	}
}

// What is written reads back as what it was, and on one line.
func TestYAMLStringsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		text, err := yamlValue(s)
		if err != nil {
			t.Fatal(err)
		}
		if strings.ContainsAny(text, "\n\r\u0085\u2028\u2029") {
			t.Fatalf("%q breaks its line", text)
		}
		var back string
		if err := json.Unmarshal([]byte(text), &back); err != nil || back != s {
			t.Fatalf("%q came back as %q, %v", s, back, err)
		}
	})
}

func TestNearest(t *testing.T) {
	for s, want := range map[string]string{"learning_rat": "learning_rate", "packin": "packing", "qqqq": ""} {
		if got := nearest(s, keysOf("trl-sft")); got != want {
			t.Errorf("nearest to %s is %q, want %q", s, got, want)
		}
	}
}
