package render

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerLLaMAFactory is LLaMA-Factory.
const TrainerLLaMAFactory = "llamafactory"

// llamaFactoryFor is the release whose keys and meanings the renderer is
// written for: the dataclasses of llamafactory.hparams.
const llamaFactoryFor = "llamafactory 0.9.5"

const (
	llamaFactoryDir    = training.ConfigDir + "/llamafactory"
	llamaFactoryConfig = llamaFactoryDir + "/sft.yaml"
	// llamaFactoryInfo names the files of the view; it has to be called so.
	llamaFactoryInfo = llamaFactoryDir + "/dataset_info.json"
)

func init() {
	register(Renderer{
		Trainer: TrainerLLaMAFactory, Method: MethodSFT, For: llamaFactoryFor, Package: "llamafactory",
		Summary: "supervised fine-tuning by llamafactory-cli train",
		Views:   []ViewSpec{{Name: "sharegpt"}, {Name: "openai"}},
		Adjust: func(params map[string]any, view *ViewSpec) {
			view.MaskHistory = isTrue(params, "mask_history")
		},
		Render: llamaFactorySFT,
	})
}

var llamaFactoryOurs = with(secretKeys, map[string]string{
	"dataset":              "it names the view's files",
	"dataset_dir":          "it names the view's files",
	"media_dir":            "images are in the view's files",
	"eval_dataset":         "the data is the view's",
	"stage":                "the method is chosen by --method",
	"do_train":             "a hand-off trains",
	"val_size":             "the splits are the dataset's",
	"max_samples":          "all rows are trained on, and counted",
	"streaming":            "rows could not be counted",
	"mix_strategy":         "all rows are trained on, once in an epoch",
	"interleave_probs":     "all rows are trained on, once in an epoch",
	"tokenized_path":       "rows that were prepared before could be others",
	"model_name_or_path":   "it is the recipe's student.model",
	"model_revision":       "it is the student's revision",
	"cutoff_len":           "it is the recipe's student.max_length",
	"output_dir":           "the result is looked for in " + training.OutputDir,
	"adapter_name_or_path": "a launch starts from the student",
	"overwrite_cache":      "rows that were prepared before could be others",

	"resume_from_checkpoint": "a launch starts from the student; train again with another attempt",
})

// llamaFactorySFT renders supervised fine-tuning by LLaMA-Factory:
// `llamafactory-cli train sft.yaml`.
func llamaFactorySFT(in Input) (*training.Rendered, error) {
	if err := trainable(in); err != nil {
		return nil, err
	}
	if err := ownTokenizer(in, "LLaMA-Factory"); err != nil {
		return nil, err
	}
	if in.Student.ChatTemplate != "" {
		return nil, fmt.Errorf("LLaMA-Factory reads no chat template from %q, it has its own by name: leave student.chat_template out and set --param template=NAME, such as qwen3", in.Student.ChatTemplate)
	}
	if in.Student.MaxLength == 0 {
		return nil, errors.New("set student.max_length: LLaMA-Factory cuts every row at cutoff_len, 2,048 tokens where none is set")
	}
	if name, _ := in.Params["template"].(string); name == "" {
		return nil, errors.New("set --param template=NAME to LLaMA-Factory's name of the student's chat template, such as qwen3 or llama3: without one it guesses at the tokenizer's, and leaves out what it has no form for")
	}
	info, names, err := llamaFactoryDatasets(in)
	if err != nil {
		return nil, err
	}
	values := map[string]any{
		"stage":              "sft",
		"do_train":           true,
		"finetuning_type":    "full",
		"model_name_or_path": in.Student.Model,
		"output_dir":         training.OutputDir,
		"dataset_dir":        llamaFactoryDir,
		"dataset":            strings.Join(names, ","),
		"mix_strategy":       "concat",
		"seed":               in.Seed,
		"data_seed":          in.Seed,

		"cutoff_len":                int64(in.Student.MaxLength),
		"packing":                   false,
		"neat_packing":              false,
		"train_on_prompt":           false,
		"mask_history":              false,
		"ignore_pad_token_for_loss": true,
		"enable_thinking":           true,
		"overwrite_cache":           true,
		"val_size":                  0.0,

		"bf16":                           true,
		"disable_gradient_checkpointing": false,
		"learning_rate":                  2e-5,
		"lr_scheduler_type":              "cosine",
		"num_train_epochs":               1.0,
		"per_device_train_batch_size":    int64(1),
		"gradient_accumulation_steps":    int64(16),

		"eval_strategy": "no",
		"save_strategy": "epoch",
		"logging_steps": int64(10),
		"report_to":     "none",
		"push_to_hub":   false,
	}
	if in.Student.Revision != "" {
		values["model_revision"] = in.Student.Revision
	}
	r := rules{release: llamaFactoryFor, keys: keysOf(TrainerLLaMAFactory), ours: llamaFactoryOurs, unknown: "ends at one"}
	if err := r.apply(values, in.Params); err != nil {
		return nil, err
	}
	onCPU(values, in.Params)
	var text strings.Builder
	text.WriteString(header(in, llamaFactoryFor, "llamafactory-cli train "+llamaFactoryConfig))
	if err := yamlLines(&text, values); err != nil {
		return nil, err
	}
	if strings.Contains(text.String(), "${") {
		return nil, errors.New(`params: a text holds "${", and LLaMA-Factory would put a variable of the trainer's machine there`)
	}
	return &training.Rendered{
		Trainer: training.Trainer{
			Configs: []string{llamaFactoryConfig, llamaFactoryInfo},
			Command: commandOf(in, llamaFactoryConfig, "llamafactory-cli", "train", llamaFactoryConfig),
		},
		Files: []training.File{{Name: llamaFactoryConfig, Data: []byte(text.String())}, {Name: llamaFactoryInfo, Data: info}},
		Notes: llamaFactoryNotes(in, values),
	}, nil
}

// llamaFactoryNotes says what LLaMA-Factory will do that its user should know.
func llamaFactoryNotes(in Input, values map[string]any) []string {
	does := fmt.Sprintf("cuts rows down to %d tokens, turn by turn: of the last turns nothing may be left, and prompt and answer are shortened in proportion", in.Student.MaxLength)
	if isTrue(values, "packing") || isTrue(values, "neat_packing") {
		does = fmt.Sprintf("cuts rows down to %d tokens before it packs them, of which it takes one off", in.Student.MaxLength)
	}
	notes := []string{
		overLength(in, "LLaMA-Factory", does),
		"the loss sees every turn of the assistant; the view holds the rows of which that is right",
	}
	if isTrue(values, "mask_history") {
		notes[1] = "the loss sees the last turn of a row only (mask_history); the view holds the rows of which that is right"
	}
	if v, _ := values["enable_thinking"].(bool); v {
		notes = append(notes, "where an answer has no reasoning, a template that reasons gets an empty one, which the loss sees (enable_thinking)")
	}
	return append(notes, testStays(in)...)
}

// llamaFactoryDatasets is dataset_info.json with an entry for each file of the
// train split, and their names. A folder would do for all, were it not that
// LLaMA-Factory takes its files in the order of the directory.
func llamaFactoryDatasets(in Input) ([]byte, []string, error) {
	type entry struct {
		FileName   string            `json:"file_name"`
		Formatting string            `json:"formatting"`
		Columns    map[string]string `json:"columns"`
		Tags       map[string]string `json:"tags"`
	}
	columns := map[string]string{"messages": "conversations", "tools": "tools", "system": "system"}
	tags := map[string]string{
		"role_tag": "from", "content_tag": "value", "user_tag": "human", "assistant_tag": "gpt",
		"observation_tag": "observation", "function_tag": "function_call", "system_tag": "system",
	}
	switch in.View.Name {
	case "sharegpt":
	case "openai":
		// The formatting stays sharegpt, as in the export's own file: the one
		// called openai adds a line to every system text.
		columns = map[string]string{"messages": "messages", "tools": "tools"}
		tags = map[string]string{
			"role_tag": "role", "content_tag": "content", "user_tag": "user", "assistant_tag": "assistant",
			"observation_tag": "tool", "function_tag": "function_call", "system_tag": "system",
		}
	default:
		return nil, nil, fmt.Errorf("view %s is none that LLaMA-Factory reads; it reads sharegpt and openai", in.View.Name)
	}
	info := map[string]entry{}
	var names []string
	for i, file := range filesOf(in.View, "train") {
		name := fmt.Sprintf("train_%05d", i)
		names = append(names, name)
		info[name] = entry{FileName: "../../" + file, Formatting: "sharegpt", Columns: columns, Tags: tags}
	}
	text, err := json.MarshalIndent(info, "", "  ")
	return append(text, '\n'), names, err
}
