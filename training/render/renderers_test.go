package render

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/training"
)

// inputFor is an input that a method takes as it is.
func inputFor(t *testing.T, trainer, method string) Input {
	t.Helper()
	in := testInput()
	spec, err := ViewFor(trainer, method, "", in.Params)
	if err != nil {
		t.Fatal(err)
	}
	in.View.Name, in.View.Columns = spec.Name, nil
	in.Student.MaxLength = 4096
	in.Lengths = &Lengths{Tokenizer: "moonshotai/Moonlight-16B-A3B", Max: 9000, Over: 3}
	in.Teachers = []Teacher{{ID: "kimi", Model: "kimi-k3", Weights: "moonshotai/Kimi-K3", Rows: 105}, {ID: "idle", Model: "m"}}
	if trainer == TrainerLLaMAFactory {
		in.Params = map[string]any{"template": "qwen3"}
	}
	return in
}

// golden are methods, and what each says of rows that are over the length.
var golden = []struct{ trainer, method, over string }{
	{TrainerTRL, MethodDPO, "drops a pair whose prompt alone is that long: 3 rows of 100"},
	{TrainerTRL, MethodReward, "drops every pair of which one side has more than 4096 tokens: 3 rows of 100"},
	{TrainerTRL, MethodGKD, "cuts the start of a row, its prompt first, down to 4096 tokens: 3 rows of 100"},
	{TrainerTRL, MethodGOLD, "cuts the start of a row, its prompt first, down to 4096 tokens: 3 rows of 100"},
	{TrainerLLaMAFactory, MethodSFT, "cuts rows down to 4096 tokens, turn by turn: of the last turns nothing may be left, and prompt and answer are shortened in proportion: 3 rows of 100"},
	{TrainerAxolotl, MethodSFT, "leaves out every row of more than 4096 tokens: 3 rows of 100"},
	{TrainerSwift, MethodSFT, "leaves out every row of more than 4096 tokens: 3 rows of 100"},
	{TrainerSwift, MethodGKD, "cuts the left of a row of more than 4096 tokens: 3 rows of 100"},
}

func TestGoldenFilesOfMethods(t *testing.T) {
	for _, tc := range golden {
		t.Run(tc.trainer+"-"+tc.method, func(t *testing.T) {
			in := inputFor(t, tc.trainer, tc.method)
			r, err := Render(tc.trainer, tc.method, in)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range r.Files {
				path := filepath.Join("testdata", tc.trainer+"-"+tc.method+"-"+filepath.Base(f.Name))
				if *update {
					if err := os.WriteFile(path, f.Data, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), string(f.Data)); diff != "" {
					t.Errorf("%s, -want +got:\n%s", f.Name, diff)
				}
			}
			again, err := Render(tc.trainer, tc.method, in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, again); diff != "" {
				t.Errorf("the same input gave others:\n%s", diff)
			}
			if !slices.Contains(r.Trainer.Configs, r.Files[0].Name) || !slices.Contains(r.Trainer.Command, r.Files[0].Name) {
				t.Errorf("%s is not what the command %q reads", r.Files[0].Name, r.Trainer.Command)
			}
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, tc.over) || !strings.Contains(notes, "5 rows of the test split") {
				t.Errorf("the notes don't say what becomes of rows:\n%s", notes)
			}
			explicit(t, tc.trainer, tc.method, r.Files[0].Data)
		})
	}
}

// explicit holds a configuration to the keys of its release, and to leaving
// nothing that changes what is learned to the trainer.
func explicit(t *testing.T, trainer, method string, text []byte) {
	t.Helper()
	keys := trainer + "-" + method
	want := []string{"seed", "bf16", "learning_rate", "gradient_accumulation_steps"}
	ours := trlOurs
	switch trainer {
	case TrainerTRL:
		want = append(want, "max_length", "report_to", "eval_strategy", "num_train_epochs")
		if method == MethodGKD || method == MethodGOLD {
			want = append(want, "packing", "lmbda", "beta", "temperature", "teacher_model_name_or_path")
		}
	case TrainerLLaMAFactory:
		keys, ours = trainer, llamaFactoryOurs
		want = append(want, "cutoff_len", "packing", "neat_packing", "train_on_prompt", "mask_history", "enable_thinking", "template", "report_to", "val_size")
	case TrainerAxolotl:
		keys, ours = trainer, axolotlOurs
		want = append(want, "sequence_len", "excess_length_strategy", "sample_packing", "train_on_inputs", "val_set_size", "use_wandb", "datasets")
	case TrainerSwift:
		ours = swiftOurs
		if method == MethodGKD {
			keys = "ms-swift-rlhf"
			want = append(want, "lmbda", "beta", "teacher_model", "max_completion_length")
		}
		want = append(want, "max_length", "truncation_strategy", "packing", "loss_scale", "tuner_type", "use_hf", "add_version", "report_to", "strict")
	}
	var config map[string]any
	if err := yaml.Unmarshal(text, &config); err != nil {
		t.Fatal(err)
	}
	known := keysOf(keys)
	for key := range config {
		if !slices.Contains(known, key) {
			t.Errorf("%s %s knows no key %s", trainer, method, key)
		}
	}
	for _, key := range want {
		if _, ok := config[key]; !ok {
			t.Errorf("%s is left to the trainer's default", key)
		}
	}
	// Every guard is of a key that one of the trainer's methods has.
	var all []string
	for _, name := range []string{keys, "trl-sft", "ms-swift-sft", "ms-swift-rlhf"} {
		all = append(all, keysOf(name)...)
	}
	for key := range ours {
		if _, secret := secretKeys[key]; !secret && !slices.Contains(all, key) {
			t.Errorf("%s is guarded, and no method of %s has such a key", key, trainer)
		}
	}
}

func TestRefusalsOfMethods(t *testing.T) {
	for _, tc := range []struct {
		name, trainer, method, want string
		change                      func(*Input)
	}{
		{"no method", TrainerTRL, "ppo", "there are: dpo, gkd, gold, ", func(*Input) {}},
		{"template of dpo", TrainerTRL, MethodDPO, "has no key for", func(in *Input) { in.Student.ChatTemplate = "chat.jinja" }},
		{"packing pairs", TrainerTRL, MethodDPO, "knows no such key", func(in *Input) { in.Params = map[string]any{"packing": true} }},
		{"two teachers", TrainerTRL, MethodGKD, "kimi and glm among them", func(in *Input) {
			in.Teachers = append(in.Teachers, Teacher{ID: "glm", Weights: "zai/GLM", Rows: 3})
		}},
		{"an API's teacher", TrainerTRL, MethodGKD, "those of kimi are not at hand", func(in *Input) { in.Teachers[0].Weights = "" }},
		{"an API's teacher", TrainerTRL, MethodGOLD, "an API gives no logits", func(in *Input) { in.Teachers[0].Weights, in.Teachers[0].ScoreURL = "", "http://127.0.0.1:8000" }},
		{"no teacher", TrainerSwift, MethodGKD, "no teacher with rows", func(in *Input) { in.Teachers = nil }},
		{"no length", TrainerTRL, MethodGKD, "set student.max_length", func(in *Input) { in.Student.MaxLength = 0 }},
		{"another teacher", TrainerTRL, MethodGOLD, "it is the teacher's weights", func(in *Input) {
			in.Params = map[string]any{"teacher_model_name_or_path": "x"}
		}},
		{"packed with a teacher", TrainerTRL, MethodGKD, "are not packed", func(in *Input) { in.Params = map[string]any{"packing": true} }},
		{"no length", TrainerLLaMAFactory, "", "cuts every row at cutoff_len", func(in *Input) { in.Student.MaxLength = 0 }},
		{"no template", TrainerLLaMAFactory, "", "--param template=NAME", func(in *Input) { in.Params = nil }},
		{"a file as template", TrainerLLaMAFactory, "", "has its own by name", func(in *Input) { in.Student.ChatTemplate = "chat.jinja" }},
		{"a variable", TrainerLLaMAFactory, "", "would put a variable", func(in *Input) { in.Params["run_name"] = "${oc.env:HF_TOKEN}" }},
		{"a variable", TrainerLLaMAFactory, "", "would put a variable", func(in *Input) { in.Student.Model = "${oc.env:HF_TOKEN}" }},
		{"a view of others", TrainerLLaMAFactory, "", "reads sharegpt and openai", func(in *Input) { in.View.Name = "messages" }},
		{"a part of the rows", TrainerLLaMAFactory, "", "all rows are trained on", func(in *Input) { in.Params["max_samples"] = 3 }},
		{"no length", TrainerAxolotl, "", "512 tokens where none is set", func(in *Input) { in.Student.MaxLength = 0 }},
		{"a key of nobody", TrainerAxolotl, "", "would ignore it; did you mean sample_packing?", func(in *Input) { in.Params = map[string]any{"sample_packin": true} }},
		{"a secret", TrainerAxolotl, "", "COMET_API_KEY", func(in *Input) { in.Params = map[string]any{"comet_api_key": "abc123"} }},
		{"a secret", TrainerSwift, "", "go by environment", func(in *Input) { in.Params = map[string]any{"swanlab_token": "abc123"} }},
		{"null", TrainerSwift, "", "the text None", func(in *Input) { in.Params = map[string]any{"run_name": nil} }},
		{"rows", TrainerSwift, "", "nothing to train on", func(in *Input) { in.View.Files = nil }},
		{"rows", TrainerAxolotl, "", "nothing to train on", func(in *Input) { in.View.Files = nil }},
		{"tokenizer", TrainerSwift, "", "save both into one folder", func(in *Input) { in.Student.Tokenizer = "t" }},
	} {
		t.Run(tc.trainer+" "+tc.method+" "+tc.name, func(t *testing.T) {
			method := tc.method
			if _, err := Lookup(tc.trainer, method); err != nil {
				method = ""
			}
			in := inputFor(t, tc.trainer, method)
			tc.change(&in)
			_, err := Render(tc.trainer, tc.method, in)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("got %v, want an error with %q", err, tc.want)
			}
			if strings.Contains(err.Error(), "abc123") {
				t.Errorf("a value that may be a secret is in %q", err)
			}
		})
	}
}

// TRL has no mask by turn, so rows that need one are not trained unasked.
func TestTurnsThatAreNotToBeTrained(t *testing.T) {
	in := inputFor(t, TrainerTRL, MethodSFT)
	in.View.Shares = &training.Shares{Partly: 4}
	if _, err := Render(TrainerTRL, MethodSFT, in); err == nil || !strings.Contains(err.Error(), "4 rows of 100 with turns") || !strings.Contains(err.Error(), "--view prompt_completion") {
		t.Fatalf("got %v", err)
	}
	in.Params = map[string]any{"assistant_only_loss": true}
	r, err := Render(TrainerTRL, MethodSFT, in)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "4 rows of 100 with turns") {
		t.Errorf("no note of it in %q", r.Notes)
	}
	nemo := inputFor(t, TrainerNeMoRL, MethodSFT)
	nemo.View.Shares = in.View.Shares
	for i := range nemo.View.Files {
		nemo.View.Files[i].Name = strings.Replace(nemo.View.Files[i].Name, "parquet", "jsonl", 1)
	}
	if _, err := Render(TrainerNeMoRL, MethodSFT, nemo); err == nil || !strings.Contains(err.Error(), "4 rows of 100 with turns") {
		t.Errorf("got %v", err)
	}
	// That view's rows are those of which the last turn alone is trained.
	in.View.Name, in.Params = "prompt_completion", nil
	if _, err := Render(TrainerTRL, MethodSFT, in); err != nil {
		t.Error(err)
	}
}

func TestTheServerOfATeacherWithoutWeights(t *testing.T) {
	in := inputFor(t, TrainerSwift, MethodGKD)
	in.Teachers[0].Weights, in.Teachers[0].ScoreURL = "", "http://teacher:8000"
	r, err := Render(TrainerSwift, MethodGKD, in)
	if err != nil {
		t.Fatal(err)
	}
	text := string(r.Files[0].Data)
	if !strings.Contains(text, "teacher_model_server: \"http://teacher:8000\"\n") || strings.Contains(text, "teacher_model:") || !strings.Contains(text, "gkd_logits_topk: 20\n") {
		t.Error(text)
	}
}

func TestWithoutAGPU(t *testing.T) {
	for trainer, want := range map[string][]string{
		TrainerTRL: {"bf16: false"}, TrainerLLaMAFactory: {"bf16: false"}, TrainerSwift: {"bf16: false", "torch_dtype: \"float32\""},
	} {
		in := inputFor(t, trainer, "")
		in.Params = with(in.Params, map[string]any{"use_cpu": true})
		r, err := Render(trainer, "", in)
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range want {
			if !strings.Contains(string(r.Files[0].Data), line+"\n") {
				t.Errorf("%s: no %s in\n%s", trainer, line, r.Files[0].Data)
			}
		}
		in.Params["bf16"] = true
		if r, err = Render(trainer, "", in); err != nil || !strings.Contains(string(r.Files[0].Data), "bf16: true\n") {
			t.Errorf("%s: what the user chose is gone: %v", trainer, err)
		}
	}
}

func TestViewFor(t *testing.T) {
	for _, tc := range []struct {
		trainer, method, view string
		params                map[string]any
		want                  ViewSpec
	}{
		{TrainerTRL, "", "", nil, ViewSpec{Name: "messages"}},
		{TrainerTRL, MethodSFT, "prompt_completion", nil, ViewSpec{Name: "prompt_completion"}},
		{TrainerTRL, MethodDPO, "", nil, ViewSpec{Name: "preference"}},
		{TrainerLLaMAFactory, "", "", nil, ViewSpec{Name: "sharegpt"}},
		{TrainerLLaMAFactory, "", "openai", map[string]any{"mask_history": true}, ViewSpec{Name: "openai", MaskHistory: true}},
		{TrainerSwift, MethodGKD, "", nil, ViewSpec{Name: "ms-swift"}},
	} {
		got, err := ViewFor(tc.trainer, tc.method, tc.view, tc.params)
		if err != nil || got != tc.want {
			t.Errorf("%s %s: %+v, %v", tc.trainer, tc.method, got, err)
		}
	}
	if _, err := ViewFor(TrainerTRL, "", "sharegpt", nil); err == nil || !strings.Contains(err.Error(), "it reads: messages, prompt_completion") {
		t.Errorf("got %v", err)
	}
	// What one hand-off settles is not there in the next.
	if got, err := ViewFor(TrainerLLaMAFactory, "", "openai", nil); err != nil || got.MaskHistory {
		t.Errorf("%+v, %v", got, err)
	}
}

// Every renderer names its release and views, and no file of one can be taken
// for another's.
func TestAll(t *testing.T) {
	for _, r := range All() {
		if r.For == "" || r.Summary == "" || len(r.Views) == 0 || r.Method == "" {
			t.Errorf("%s %s says too little of itself: %+v", r.Trainer, r.Method, r)
		}
		for i, v := range r.Views {
			if v.Name == "" || v.Form != "" && v.Form != "parquet" && v.Form != "jsonl" {
				t.Errorf("%s %s: view %d is %+v", r.Trainer, r.Method, i, v)
			}
		}
	}
	if !slices.IsSortedFunc(All(), func(a, b Renderer) int { return strings.Compare(a.Trainer+"\x00"+a.Method, b.Trainer+"\x00"+b.Method) }) {
		t.Error("All is not sorted")
	}
}

func TestOverLength(t *testing.T) {
	in := testInput()
	for want, l := range map[string]*Lengths{
		"x drops; how many rows that are was not counted: it takes the student's tokenizer": nil,
		"x drops; no row is that long: the longest has 12 tokens by t":                      {Tokenizer: "t", Max: 12},
		"x drops; no row is likely that long, by an estimate":                               {Estimate: "an estimate"},
		"x drops: likely 2 rows of 100, by an estimate":                                     {Estimate: "an estimate", Over: 2},
		"x drops: 1 row of 100 by t, the longest of 12 tokens":                              {Tokenizer: "t", Max: 12, Over: 1},
	} {
		in.Lengths = l
		if got := overLength(in, "x", "drops"); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
