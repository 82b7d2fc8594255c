package render

import (
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerAxolotl is Axolotl.
const TrainerAxolotl = "axolotl"

// axolotlFor is the release whose keys and meanings the renderer is written
// for: AxolotlInputConfig of axolotl.utils.schemas.
const axolotlFor = "axolotl 0.19.0"

const axolotlConfig = training.ConfigDir + "/axolotl/sft.yaml"

func init() {
	register(Renderer{
		Trainer: TrainerAxolotl, Method: MethodSFT, For: axolotlFor, Package: "axolotl",
		Summary: "supervised fine-tuning by axolotl train",
		Views:   []ViewSpec{{Name: "axolotl"}},
		Render:  axolotlSFT,
	})
}

var axolotlOurs = with(secretKeys, map[string]string{
	"datasets":              "it names the view's files",
	"test_datasets":         "the data is the view's",
	"pretraining_dataset":   "the data is the view's",
	"dataset_prepared_path": "rows that were prepared before could be others",
	"skip_prepare_dataset":  "rows could not be counted",
	"streaming":             "rows could not be counted",
	"val_set_size":          "the splits are the dataset's",
	"rl":                    "the method is chosen by --method",
	"base_model":            "it is the recipe's student.model",
	"revision_of_model":     "it is the student's revision",
	"tokenizer_config":      "it is the recipe's student.tokenizer",
	"sequence_len":          "it is the recipe's student.max_length",
	"chat_template":         "it is the recipe's student.chat_template, or the tokenizer's own",
	"chat_template_jinja":   "it is the recipe's student.chat_template",
	"output_dir":            "the result is looked for in " + training.OutputDir,

	"hf_use_auth_token":            "secrets go by environment: HF_TOKEN",
	"resume_from_checkpoint":       "a launch starts from the student; train again with another attempt",
	"auto_resume_from_checkpoints": "a launch starts from the student; train again with another attempt",
	"lora_model_dir":               "a launch starts from the student",
})

// axolotlSFT renders supervised fine-tuning by Axolotl: `axolotl train sft.yaml`.
func axolotlSFT(in Input) (*training.Rendered, error) {
	if err := trainable(in); err != nil {
		return nil, err
	}
	if in.Student.MaxLength == 0 {
		return nil, errors.New("set student.max_length: Axolotl leaves out every row beyond sequence_len, 512 tokens where none is set")
	}
	values := map[string]any{
		"base_model":                  in.Student.Model,
		"output_dir":                  training.OutputDir,
		"dataset_prepared_path":       path.Join(training.OutputDir, "prepared"),
		"val_set_size":                0.0,
		"seed":                        in.Seed,
		"shuffle_merged_datasets":     true,
		"chat_template":               "tokenizer_default",
		"sequence_len":                int64(in.Student.MaxLength),
		"excess_length_strategy":      "drop",
		"sample_packing":              false,
		"eval_sample_packing":         false,
		"pad_to_sequence_len":         false,
		"train_on_inputs":             false,
		"bf16":                        true,
		"fp16":                        false,
		"tf32":                        false,
		"gradient_checkpointing":      true,
		"optimizer":                   "adamw_torch_fused",
		"lr_scheduler":                "cosine",
		"learning_rate":               2e-5,
		"num_epochs":                  1.0,
		"micro_batch_size":            int64(1),
		"gradient_accumulation_steps": int64(16),
		"logging_steps":               int64(10),
		"save_strategy":               "epoch",
		"use_wandb":                   false,
		"use_mlflow":                  false,
		"use_comet":                   false,
	}
	if in.Student.Revision != "" {
		values["revision_of_model"] = in.Student.Revision
	}
	if in.Student.Tokenizer != "" && in.Student.Tokenizer != in.Student.Model {
		values["tokenizer_config"] = in.Student.Tokenizer
	}
	if in.Student.ChatTemplate != "" {
		values["chat_template"], values["chat_template_jinja"] = "jinja", in.Student.ChatTemplate
	}
	r := rules{release: axolotlFor, keys: keysOf(TrainerAxolotl), ours: axolotlOurs, unknown: "would ignore it"}
	if err := r.apply(values, in.Params); err != nil {
		return nil, err
	}
	var text strings.Builder
	text.WriteString(header(in, axolotlFor, "axolotl train "+axolotlConfig))
	if err := axolotlDatasets(&text, in); err != nil {
		return nil, err
	}
	if err := yamlLines(&text, values); err != nil {
		return nil, err
	}
	return &training.Rendered{
		Trainer: training.Trainer{
			Configs: []string{axolotlConfig},
			Command: commandOf(in, axolotlConfig, "axolotl", "train", axolotlConfig),
		},
		Files: []training.File{{Name: axolotlConfig, Data: []byte(text.String())}},
		Notes: axolotlNotes(in, values),
	}, nil
}

// axolotlDatasets names the files of the train split. They are beside path and
// not below it: Axolotl joins the two to nothing.
func axolotlDatasets(text *strings.Builder, in Input) error {
	files := filesOf(in.View, "train")
	kind, err := yamlValue(builder(files))
	if err != nil {
		return err
	}
	fmt.Fprintf(text, "datasets:\n  - path: %q\n    ds_type: %s\n    split: \"train\"\n    type: \"chat_template\"\n", training.DataFolder, kind)
	text.WriteString("    field_messages: \"messages\"\n    field_tools: \"tools\"\n    message_field_training: \"train\"\n    roles_to_train: []\n    train_on_eos: \"turn\"\n    data_files:\n")
	for _, name := range files {
		quoted, err := yamlValue(name)
		if err != nil {
			return err
		}
		text.WriteString("      - " + quoted + "\n")
	}
	return nil
}

// axolotlNotes says what Axolotl will do that its user should know.
func axolotlNotes(in Input, values map[string]any) []string {
	does := fmt.Sprintf("leaves out every row of more than %d tokens", in.Student.MaxLength)
	switch values["excess_length_strategy"] {
	case "truncate":
		does = fmt.Sprintf("cuts what goes beyond %d tokens of a row", in.Student.MaxLength)
	case "raise":
		does = fmt.Sprintf("ends at a row of more than %d tokens", in.Student.MaxLength)
	}
	return append([]string{
		overLength(in, "Axolotl", does),
		"the loss sees the turns that the view marks (train), with the token that ends them",
	}, testStays(in)...)
}
