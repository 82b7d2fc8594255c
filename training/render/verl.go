package render

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerVerl is verl.
const TrainerVerl = "verl"

// verlFor is the release whose keys and meanings the renderers are written for:
// trainer/config/sft_trainer_engine.yaml and ppo_trainer.yaml of verl 0.9.1.
const verlFor = "verl 0.9.1"

func init() {
	register(Renderer{
		Trainer: TrainerVerl, Method: MethodSFT, For: verlFor, Package: "verl",
		Summary: "supervised fine-tuning by verl.trainer.sft_trainer",
		Views:   []ViewSpec{{Name: "verl"}},
		Render:  verlSFT,
	})
}

// verlOurs are the keys of verl that say which data and which student, for both
// of its trainers.
var verlOurs = map[string]string{
	"data.train_files":          "it names the view's files",
	"data.val_files":            "the test split is not to be trained by; evaluate on it yourself",
	"data.custom_cls.path":      "rows could be left out or changed",
	"data.custom_cls.name":      "rows could be left out or changed",
	"data.train_max_samples":    "rows would be left out",
	"trainer.default_local_dir": "the result is looked for in " + training.OutputDir,
	"trainer.resume_mode":       "a launch starts from the student; train again with another attempt",
	"trainer.resume_from_path":  "a launch starts from the student; train again with another attempt",
}

// here is the bundle's folder to a trainer whose workers may run in another:
// run.sh changes into it, and the configuration's reader fills it in.
const here = "${oc.env:PWD}/"

// verlSFT renders supervised fine-tuning by verl: Hydra composes our file over
// verl's own defaults.
func verlSFT(in Input) (*training.Rendered, error) {
	err := checked(trainable(in), only(in, "verl", "parquet"), ownRevision(in, "verl"), ownTemplate(in, "verl"), someLength(in, "verl"))
	if err != nil {
		return nil, err
	}
	r := rules{
		release: verlFor, keys: keysOf("verl-sft"), unknown: "would take it without a word",
		ours: with(verlOurs, map[string]string{
			"data.messages_key":               "it names the view's column",
			"data.tools_key":                  "the view has no tools",
			"data.max_length":                 "it is the recipe's student.max_length",
			"model.path":                      "it is the recipe's student.model",
			"model.tokenizer_path":            "it is the recipe's student.tokenizer",
			"data.ignore_input_ids_mismatch":  "another text than the chat template's would be trained",
			"data.enable_thinking_key":        "the view has no such column",
			"trainer.default_hdfs_dir":        "the result is looked for in " + training.OutputDir,
			"checkpoint.load_contents":        "a launch starts from the student; train again with another attempt",
			"data.apply_chat_template_kwargs": "rows of all efforts would get the same",
			"model.lora_adapter_path":         "a launch starts from the student alone",
			"engine.forward_only":             "nothing would be trained",
			"data.pad_mode":                   "rows are trained without padding",
			"data.val_max_samples":            "nothing is validated here",
			"trainer.test_freq":               "nothing is validated here",
			"model.external_lib":              "it would run code that is not in the bundle",
			"model.custom_chat_template":      "save it with the tokenizer, so that it is the one that is used later",
			"data.enable_thinking_default":    "the text none counts as yes to verl; it is null here",
			"optim.total_training_steps":      "verl sets it by trainer.total_training_steps",
			"engine.full_determinism":         "it needs variables that run.sh does not set",
			"profiler.save_path":              "the result is looked for in " + training.OutputDir,
			"trainer.profile_interval":        "profiles are no part of a result",
		}),
	}
	values := verlSFTValues(in)
	if err := r.applyDotted(values, in.Params); err != nil {
		return nil, err
	}
	notes, err := verlSFTNotes(in, values)
	if err != nil {
		return nil, err
	}
	gpus, err := count(values, "trainer.n_gpus_per_node")
	if err != nil {
		return nil, err
	}
	if nodes, err := count(values, "trainer.nnodes"); err != nil || nodes > 1 && len(in.Command) == 0 {
		return nil, cmpError(err, "params.trainer.nnodes: %d nodes need a command of their own: give torchrun its rendezvous by --command", nodes)
	}
	return hydraFile(in, "verl/sft.yaml", "sft_trainer_engine", verlFor, values, notes,
		"torchrun", "--standalone", "--nnodes=1", "--nproc_per_node="+strconv.FormatInt(gpus, 10), "-m", "verl.trainer.sft_trainer")
}

// cmpError is err, or an error of its own where there is none.
func cmpError(err error, format string, args ...any) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(format, args...)
}

func verlSFTValues(in Input) map[string]any {
	files := filesOf(in.View, "train")
	length := int64(in.Student.MaxLength)
	values := map[string]any{
		"data.train_files":               files,
		"data.val_files":                 nil,
		"data.messages_key":              "messages",
		"data.train_max_samples":         int64(-1),
		"data.train_batch_size":          batchOf(in, 256), // verl's default, less where rows are few
		"data.micro_batch_size_per_gpu":  int64(1),
		"data.use_dynamic_bsz":           true,
		"data.max_token_len_per_gpu":     max(length, 8192), // verl's default, and one row of the longest
		"data.max_length":                length,
		"data.truncation":                "error",
		"data.pad_mode":                  "no_padding",
		"data.enable_thinking_default":   nil,
		"data.ignore_input_ids_mismatch": false,

		"model.path":                          in.Student.Model,
		"model.trust_remote_code":             false,
		"model.use_remove_padding":            true,
		"model.enable_gradient_checkpointing": true,

		"engine.dtype":       "bfloat16",
		"engine.model_dtype": "fp32",
		"engine.seed":        in.Seed,

		"optim.lr":                    1e-5, // verl's own 1e-3 is for adapters
		"optim.lr_scheduler_type":     "cosine",
		"optim.lr_warmup_steps_ratio": 0.03,
		"optim.weight_decay":          0.01,
		"optim.clip_grad":             1.0,

		"checkpoint.save_contents": []string{"model", "optimizer", "extra", "hf_model"},

		"trainer.default_local_dir": training.OutputDir,
		"trainer.project_name":      "stillhouse",
		"trainer.experiment_name":   fmt.Sprintf("%s-%d", in.Dataset, in.Version),
		"trainer.total_epochs":      int64(1),
		"trainer.logger":            []string{"console"},
		"trainer.seed":              in.Seed,
		"trainer.save_freq":         int64(-1), // the last step is saved in any case
		"trainer.test_freq":         int64(-1),
		"trainer.resume_mode":       "disable",
		"trainer.nnodes":            int64(1),
		"trainer.n_gpus_per_node":   int64(1),
		"trainer.device":            "cuda",
	}
	if in.Student.Tokenizer != "" {
		values["model.tokenizer_path"] = in.Student.Tokenizer
	}
	return values
}

func verlSFTNotes(in Input, values map[string]any) ([]string, error) {
	batch, err := count(values, "data.train_batch_size")
	if err != nil {
		return nil, err
	}
	notes, err := wholeBatches(in, "verl", "data.train_batch_size", batch)
	if err != nil {
		return nil, err
	}
	tokens, err := count(values, "data.max_token_len_per_gpu")
	if err != nil {
		return nil, err
	}
	if isTrue(values, "data.use_dynamic_bsz") && tokens < int64(in.Student.MaxLength) {
		return nil, fmt.Errorf("params.data.max_token_len_per_gpu: %d tokens hold no row of student.max_length %d, at which verl stops", tokens, in.Student.MaxLength)
	}
	over := overLength(in, "verl", fmt.Sprintf("cuts what goes beyond %d tokens of a row", in.Student.MaxLength))
	if values["data.truncation"] == "error" {
		if l := in.Lengths; l != nil && l.Estimate == "" && l.Over > 0 {
			return nil, fmt.Errorf("%s longer than %d tokens by %s, and verl stops at the first: raise student.max_length, build without them, or cut them by params.data.truncation: right", wereRows(l.Over), in.Student.MaxLength, oneLine(l.Tokenizer))
		}
		over = overLength(in, "verl", fmt.Sprintf("stops at a row of more than %d tokens", in.Student.MaxLength))
	}
	return append(notes, over,
		"verl tokenizes turn by turn and stops where the chat template would write a conversation otherwise, as templates do that drop earlier reasoning",
		"verl shuffles by a seed of its own, 0"), nil
}

// hydraFile writes a configuration that Hydra composes over a trainer's own.
func hydraFile(in Input, name, base, release string, values map[string]any, notes []string, command ...string) (*training.Rendered, error) {
	if err := plainText(values); err != nil {
		return nil, err
	}
	config := training.ConfigDir + "/" + name
	dir, file := path.Split(config)
	command = append(command, "--config-dir", path.Clean(dir), "--config-name", strings.TrimSuffix(file, ".yaml"))
	var text strings.Builder
	text.WriteString(header(in, release, strings.Join(command, " ")))
	text.WriteString("defaults:\n  - " + base + "\n  - _self_\n")
	text.WriteString("hydra:\n  output_subdir: null\n  run:\n    dir: " + training.OutputDir + "\n")
	if err := yamlBlocks(&text, values); err != nil {
		return nil, err
	}
	return &training.Rendered{
		Trainer: training.Trainer{Configs: []string{config}, Command: commandOf(in, config, command...)},
		Files:   []training.File{{Name: config, Data: []byte(text.String())}},
		Notes:   append(notes, testStays(in)...),
	}, nil
}
