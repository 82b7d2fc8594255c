package render

import (
	_ "embed"
	"errors"
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerTRL is Hugging Face's TRL.
const TrainerTRL = "trl"

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

func init() {
	register(Renderer{
		Trainer: TrainerTRL, Method: MethodSFT, For: trlFor, Package: "trl",
		Summary: "supervised fine-tuning by trl sft",
		Views:   []ViewSpec{{Name: "messages"}, {Name: "prompt_completion"}},
		Render:  trlSFT,
	})
}

var trlRules = rules{release: trlFor, keys: trlKeys, ours: trlOurs, unknown: "would pass it on without a word"}

// trlSFT renders supervised fine-tuning by TRL: `trl sft --config sft.yaml`.
func trlSFT(in Input) (*training.Rendered, error) {
	if err := trainable(in); err != nil {
		return nil, err
	}
	if err := ownTokenizer(in, "trl"); err != nil {
		return nil, err
	}
	values, notes, err := trlValues(in)
	if err != nil {
		return nil, err
	}
	return trlFile(in, trlConfig, values, notes, "trl", MethodSFT, "--config", trlConfig)
}

// trlFile writes a configuration of TRL: the files of the train split, then the
// scalar keys.
func trlFile(in Input, config string, values map[string]any, notes []string, command ...string) (*training.Rendered, error) {
	files := filesOf(in.View, "train")
	var text strings.Builder
	text.WriteString(header(in, trlFor, strings.Join(command, " ")))
	text.WriteString("datasets:\n  - path: \"" + builder(files) + "\"\n    split: \"train\"\n")
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
	if err := yamlLines(&text, values); err != nil {
		return nil, err
	}
	return &training.Rendered{
		Trainer: training.Trainer{Configs: []string{config}, Command: commandOf(in, config, command...)},
		Files:   []training.File{{Name: config, Data: []byte(text.String())}},
		Notes:   append(notes, testStays(in)...),
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
	if err := trlRules.apply(values, in.Params); err != nil {
		return nil, nil, err
	}
	onCPU(values, in.Params)
	notes, err := trlNotes(in, values)
	return values, notes, err
}

// trlNotes says what the trainer will do that its user should know.
func trlNotes(in Input, values map[string]any) ([]string, error) {
	var notes []string
	packing := isTrue(values, "packing")
	switch {
	case in.Student.MaxLength == 0 && packing:
		return nil, errors.New("packing needs a length: set student.max_length in the recipe")
	case in.Student.MaxLength == 0:
		notes = append(notes, "max_length is null: no row is cut, and the longest row decides the memory; set student.max_length to bound it")
	default:
		notes = append(notes, overLength(in, "trl", fmt.Sprintf("cuts what goes beyond %d tokens of a row", in.Student.MaxLength)))
	}
	if isTrue(values, "assistant_only_loss") {
		notes = append(notes, "the loss sees assistant turns only, which needs a chat template with {% generation %} marks; trl patches the families it knows and stops at others")
	}
	return notes, nil
}
