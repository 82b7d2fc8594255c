package render

import (
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

// trlOurs are the keys that say which data and which student: a parameter that
// changed them would train on something else than was handed over. Secrets go
// by environment.
var trlOurs = with(secretKeys, map[string]string{
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
	"dataset_kwargs":         "preparation could be skipped and nothing be masked",
	"model_init_kwargs":      "it could name another model's weights",
	"resume_from_checkpoint": "a launch starts from the student; train again with another attempt",
})

func init() {
	register(Renderer{
		Trainer: TrainerTRL, Method: MethodSFT, For: trlFor, Package: "trl",
		Summary: "supervised fine-tuning by trl sft",
		Views:   []ViewSpec{{Name: "messages"}, {Name: "prompt_completion"}},
		Render:  trlSFT,
	})
}

// trlRules are those of one method of TRL. The CLI hands a key that it does not
// know to accelerate without a word.
func trlRules(method string) *rules {
	return &rules{release: trlFor, keys: keysOf(TrainerTRL + "-" + method), ours: trlOurs, unknown: "would pass it on without a word"}
}

// trlConfig is where the configuration of a method is.
func trlConfig(method string) string { return training.ConfigDir + "/trl/" + method + ".yaml" }

// trlSFT renders supervised fine-tuning by TRL: `trl sft --config sft.yaml`.
func trlSFT(in Input) (*training.Rendered, error) {
	if err := trlCan(in); err != nil {
		return nil, err
	}
	values := with(trlCommon(in), map[string]any{
		"shuffle_dataset":      true,
		"packing":              false,
		"packing_strategy":     "bfd",
		"truncation_mode":      "keep_start",
		"assistant_only_loss":  true,
		"completion_only_loss": false,
		"loss_type":            "nll",
		"learning_rate":        2e-5, // trl's default
	})
	if in.View.Name == "prompt_completion" {
		values["assistant_only_loss"], values["completion_only_loss"] = false, true
	}
	if in.Student.ChatTemplate != "" {
		values["chat_template_path"] = in.Student.ChatTemplate
	}
	if err := trlRules(MethodSFT).apply(values, in.Params); err != nil {
		return nil, err
	}
	onCPU(values, in.Params)
	notes, err := trlNotes(in, values)
	if err != nil {
		return nil, err
	}
	config := trlConfig(MethodSFT)
	return trlFile(in, trlData{config: config, values: values, notes: notes, command: []string{"trl", MethodSFT, "--config", config}})
}

// trlCan refuses what no method of TRL could train.
func trlCan(in Input) error {
	if err := trainable(in); err != nil {
		return err
	}
	return ownTokenizer(in, "trl")
}

// trlCommon are the keys that every method of TRL has.
func trlCommon(in Input) map[string]any {
	values := map[string]any{
		"model_name_or_path": in.Student.Model,
		"output_dir":         training.OutputDir,
		"seed":               in.Seed,
		"data_seed":          in.Seed,
		"max_length":         nil,

		"bf16":                        true,
		"gradient_checkpointing":      true,
		"num_train_epochs":            1.0,
		"per_device_train_batch_size": int64(1),
		"gradient_accumulation_steps": int64(16),

		"eval_strategy": "no",
		"save_strategy": "epoch",
		"logging_steps": int64(10),
		"report_to":     "none",
		"push_to_hub":   false,
	}
	if in.Student.Revision != "" {
		values["model_revision"] = in.Student.Revision
	}
	if in.Student.MaxLength > 0 {
		values["max_length"] = int64(in.Student.MaxLength)
	}
	return values
}

// trlData is a configuration of TRL before it is written.
type trlData struct {
	config  string
	columns []string // that alone are read; nil: the view's
	values  map[string]any
	notes   []string
	command []string
	beside  []training.File
}

// trlFile writes a configuration of TRL: the files of the train split, then the
// scalar keys.
func trlFile(in Input, d trlData) (*training.Rendered, error) {
	files := filesOf(in.View, "train")
	var text strings.Builder
	text.WriteString(header(in, trlFor, strings.Join(d.command, " ")))
	text.WriteString("datasets:\n  - path: \"" + builder(files) + "\"\n    split: \"train\"\n")
	if d.columns == nil {
		d.columns = in.View.Columns
	}
	if len(d.columns) > 0 {
		columns, err := yamlValue(d.columns)
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
	if err := yamlLines(&text, d.values); err != nil {
		return nil, err
	}
	return &training.Rendered{
		Trainer: training.Trainer{Configs: []string{d.config}, Command: commandOf(in, d.config, d.command...)},
		Files:   append([]training.File{{Name: d.config, Data: []byte(text.String())}}, d.beside...),
		Notes:   append(d.notes, testStays(in)...),
	}, nil
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
		notes = append(notes, overLength(in, "trl", fmt.Sprintf("cuts what goes beyond %d tokens of a row, and drops a row of which nothing is left to learn", in.Student.MaxLength)))
	}
	if packing && values["packing_strategy"] == "bfd" {
		notes = append(notes, "packing by bfd fills sequences with whole rows; what of a row is over the length is lost, which bfd_split would keep")
	}
	all, err := untrainedTurns(in, "trl", "assistant_only_loss", "hand over --view prompt_completion, which trains the last turn alone, or ")
	if err != nil {
		return nil, err
	}
	notes = append(notes, all...)
	if isTrue(values, "assistant_only_loss") {
		notes = append(notes, "the loss sees assistant turns only, which needs a chat template with {% generation %} marks; trl patches the families it knows and stops at others")
	}
	return notes, nil
}
