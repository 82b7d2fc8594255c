package render

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// trlFor is the release whose keys and meanings the renderer is written for:
// SFTConfig, ModelConfig, ScriptArguments and DatasetMixtureConfig of trl
// 1.16.0, TrainingArguments of transformers 5.24.0.
const trlFor = "trl 1.16.0"

const trlConfig = training.ConfigDir + "/trl/sft.yaml"

// trlKeyText lists every key that `trl sft --config` of that release knows.
// The CLI hands a key that it does not know to accelerate without a word, so
// the check is here.
//
//go:embed trl_keys.txt
var trlKeyText string

var trlKeys = strings.Fields(trlKeyText)

// trlOurs are the keys that say which data and which student: a parameter that
// changed them would train on something else than was handed over. Secrets go
// by environment.
var trlOurs = map[string]string{
	"datasets":               "it names the view's files",
	"dataset_name":           "the data is the view's",
	"dataset_config":         "the data is the view's",
	"dataset_train_split":    "the data is the view's",
	"dataset_test_split":     "the data is the view's",
	"dataset_streaming":      "rows could not be counted",
	"streaming":              "rows could not be counted",
	"test_split_size":        "the splits are the dataset's",
	"model_name_or_path":     "it is the recipe's student.model",
	"model_revision":         "it is the student's revision",
	"max_length":             "it is the recipe's student.max_length",
	"chat_template_path":     "it is the recipe's student.chat_template",
	"output_dir":             "the result is looked for in " + training.OutputDir,
	"hub_token":              "secrets go by environment: HF_TOKEN",
	"dataset_kwargs":         "preparation could be skipped and nothing be masked",
	"model_init_kwargs":      "it could name another model's weights",
	"resume_from_checkpoint": "a launch starts from the student; train again with another attempt",
}

// trlSFT renders supervised fine-tuning by TRL: `trl sft --config sft.yaml`.
func trlSFT(in Input) (*training.Rendered, error) {
	files := filesOf(in.View, "train")
	if len(files) == 0 || in.View.Rows["train"] == 0 {
		return nil, errors.New("the view has no rows in its train split: there is nothing to train on")
	}
	if in.Student.Model == "" {
		return nil, errors.New("no student: set student.model in the recipe, or give --model")
	}
	if in.Student.Tokenizer != "" && in.Student.Tokenizer != in.Student.Model {
		return nil, fmt.Errorf("trl loads the tokenizer with the model and has no key for %q: save both into one folder and name it as student.model", in.Student.Tokenizer)
	}
	values, notes, err := trlValues(in)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "# %s: trl sft --config %s\n# %s version %d, view %s, %d rows\n", trlFor, trlConfig, oneLine(in.Dataset), in.Version, oneLine(in.View.Name), in.View.Rows["train"])
	text.WriteString("datasets:\n  - path: " + builder(files) + "\n    split: \"train\"\n")
	if len(in.View.Columns) > 0 {
		columns, err := yamlValue(in.View.Columns)
		if err != nil {
			return nil, err
		}
		text.WriteString("    columns: " + columns + "\n")
	}
	text.WriteString("    data_files:\n")
	for _, name := range files {
		quoted, err := yamlValue(name)
		if err != nil {
			return nil, err
		}
		text.WriteString("      - " + quoted + "\n")
	}
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value, err := yamlValue(values[key])
		if err != nil {
			return nil, fmt.Errorf("params.%s: %w", key, err)
		}
		text.WriteString(key + ": " + value + "\n")
	}
	return &training.Rendered{
		Trainer: training.Trainer{
			Name: TrainerTRL, Method: "sft", For: trlFor, Package: "trl",
			Configs: []string{trlConfig},
			Command: commandOf(in, trlConfig, "trl", "sft", "--config", trlConfig),
		},
		Files: []training.File{{Name: trlConfig, Data: []byte(text.String())}},
		Notes: notes,
	}, nil
}

// trlValues are the scalar keys of the configuration: ours, then the user's
// over them.
func trlValues(in Input) (map[string]any, []string, error) {
	values := map[string]any{
		"model_name_or_path": in.Student.Model,
		"output_dir":         training.OutputDir,
		"seed":               in.Seed,
		"data_seed":          in.Seed,
		"shuffle_dataset":    true,

		"packing":              false,
		"packing_strategy":     "bfd",
		"truncation_mode":      "keep_start",
		"assistant_only_loss":  true,
		"completion_only_loss": false,
		"loss_type":            "nll",

		"bf16":                        true,
		"gradient_checkpointing":      true,
		"learning_rate":               2e-5, // trl's default
		"num_train_epochs":            1.0,
		"per_device_train_batch_size": int64(1),
		"gradient_accumulation_steps": int64(16),

		"eval_strategy": "no",
		"save_strategy": "epoch",
		"logging_steps": int64(10),
		"report_to":     "none",
		"push_to_hub":   false,
	}
	if in.View.Name == "prompt_completion" {
		values["assistant_only_loss"], values["completion_only_loss"] = false, true
	}
	if in.Student.Revision != "" {
		values["model_revision"] = in.Student.Revision
	}
	if in.Student.ChatTemplate != "" {
		values["chat_template_path"] = in.Student.ChatTemplate
	}
	values["max_length"] = nil
	if in.Student.MaxLength > 0 {
		values["max_length"] = int64(in.Student.MaxLength)
	}
	for _, key := range slices.Sorted(maps.Keys(in.Params)) {
		if why, fixed := trlOurs[key]; fixed {
			return nil, nil, fmt.Errorf("params.%s can't be set: %s", key, why)
		}
		if !slices.Contains(trlKeys, key) {
			hint := ""
			if near := nearest(key, trlKeys); near != "" {
				hint = "; did you mean " + near + "?"
			}
			return nil, nil, fmt.Errorf("params.%s: %s knows no such key and would pass it on without a word%s", key, trlFor, hint)
		}
		values[key] = in.Params[key]
	}
	_, chose := in.Params["bf16"]
	if cpu, _ := values["use_cpu"].(bool); cpu && !chose {
		values["bf16"] = false
	}
	notes, err := trlNotes(in, values)
	return values, notes, err
}

// trlNotes says what the trainer will do that its user should know.
func trlNotes(in Input, values map[string]any) ([]string, error) {
	var notes []string
	packing, _ := values["packing"].(bool)
	switch {
	case in.Student.MaxLength == 0 && packing:
		return nil, errors.New("packing needs a length: set student.max_length in the recipe")
	case in.Student.MaxLength == 0:
		notes = append(notes, "max_length is null: no row is cut, and the longest row decides the memory; set student.max_length to bound it")
	default:
		notes = append(notes, fmt.Sprintf("trl cuts what goes beyond %d tokens of a row; how many rows that are was not counted: it takes the student's tokenizer", in.Student.MaxLength))
	}
	if only, _ := values["assistant_only_loss"].(bool); only {
		notes = append(notes, "the loss sees assistant turns only, which needs a chat template with {% generation %} marks; trl patches the families it knows and stops at others")
	}
	if n := in.View.Rows["test"]; n > 0 {
		notes = append(notes, fmt.Sprintf("the %d rows of the test split are in the bundle and are not read by this configuration", n))
	}
	return notes, nil
}

// builder is the loader of the files, by their extension.
func builder(files []string) string {
	if path.Ext(files[0]) == ".jsonl" {
		return `"json"`
	}
	return `"parquet"`
}

// oneLine keeps a name inside its comment.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
