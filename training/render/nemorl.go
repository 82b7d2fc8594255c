package render

import (
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerNeMoRL is NVIDIA's NeMo-RL.
const TrainerNeMoRL = "nemo-rl"

// nemoFor is the release whose keys and meanings the renderers are written for.
const nemoFor = "nemo-rl 0.7.0"

// nemoHome is where NeMo-RL's own container has it. NeMo-RL is run from its
// repository, whose configurations ours builds on; a command that names another
// copy's script decides.
const nemoHome = "/opt/nemo-rl"

func init() {
	register(Renderer{
		Trainer: TrainerNeMoRL, Method: MethodSFT, For: nemoFor, Package: "nemo-rl",
		Summary: "supervised fine-tuning by examples/run_sft.py, openai_format",
		Views:   []ViewSpec{{Name: "messages", Form: "jsonl", ToolArgs: "object"}},
		Render:  nemoSFT,
	})
}

// nemoOurs are the keys of NeMo-RL that say which data and which student.
var nemoOurs = map[string]string{
	"policy.model_name":                "it is the recipe's student.model",
	"policy.tokenizer.name":            "it is the recipe's student.tokenizer",
	"policy.tokenizer.chat_template":   "it is the recipe's student.chat_template",
	"policy.max_total_sequence_length": "it is the recipe's student.max_length",
	"data.max_input_seq_length":        "it is the recipe's student.max_length",
	"checkpointing.enabled":            "the result is looked for in " + training.OutputDir,
	"checkpointing.checkpoint_dir":     "the result is looked for in " + training.OutputDir,
}

// nemoSFTOurs are further ones of supervised fine-tuning.
var nemoSFTOurs = map[string]string{
	"checkpointing.metric_name":       "nothing is validated here",
	"checkpointing.higher_is_better":  "nothing is validated here",
	"data.add_bos":                    "the chat template writes what is trained",
	"data.add_eos":                    "the chat template writes what is trained",
	"data.train.dataset_name":         "it names the view's files",
	"data.train.split":                "it names the view's files",
	"data.validation.dataset_name":    "the test split is not to be trained by; evaluate on it yourself",
	"data.validation.split":           "the test split is not to be trained by; evaluate on it yourself",
	"data.default.prompt_file":        "the prompts are the dataset's",
	"data.default.system_prompt_file": "the prompts are the dataset's",
	"data.default.processor":          "rows could be left out or changed",
	"sft.val_period":                  "nothing is validated here",
	"sft.val_at_start":                "nothing is validated here",
	"sft.val_at_end":                  "nothing is validated here",
}

// nemoSFT renders supervised fine-tuning by NeMo-RL.
func nemoSFT(in Input) (*training.Rendered, error) {
	err := checked(trainable(in), only(in, "nemo-rl", "jsonl"), ownRevision(in, "nemo-rl"), nemoTemplate(in), someLength(in, "nemo-rl"))
	if err != nil {
		return nil, err
	}
	home, err := nemoRoot(in, "/examples/run_sft.py")
	if err != nil {
		return nil, err
	}
	values := with(nemoCommon(in), map[string]any{
		// NeMo-RL can't put a list of files over its own one dataset: the section
		// is ours as a whole.
		"data._override_":                 true,
		"data.num_workers":                int64(1),
		"data.default.prompt_file":        nil,
		"data.default.system_prompt_file": nil,
		"data.default.processor":          "sft_processor",
		"data.train":                      nemoFiles(in),
		"data.validation":                 nil,
		"data.max_input_seq_length":       int64(in.Student.MaxLength),
		"data.add_bos":                    false,
		"data.add_eos":                    false,
		"data.add_generation_prompt":      false,

		"policy.train_global_batch_size":              batchOf(in, 32), // NeMo-RL's default, less where rows are few
		"policy.dtensor_cfg.activation_checkpointing": true,
		"policy.optimizer.kwargs.lr":                  5e-6, // NeMo-RL's default, as the next one
		"policy.optimizer.kwargs.weight_decay":        0.1,

		"sft.max_num_epochs":    int64(1),
		"sft.val_period":        int64(0),
		"sft.val_at_start":      false,
		"sft.val_at_end":        false,
		"sft.seed":              in.Seed,
		"sft.only_unmask_final": false,

		"checkpointing.metric_name":      nil,
		"checkpointing.higher_is_better": false,
		"checkpointing.keep_top_k":       int64(1),
		"checkpointing.save_optimizer":   false,
	})
	r := rules{release: nemoFor, keys: keysOf("nemo-rl-sft"), ours: with(nemoOurs, nemoSFTOurs), unknown: "would take it without a word"}
	if err := r.applyDotted(values, in.Params); err != nil {
		return nil, err
	}
	notes, err := nemoSteps(in, values, "sft")
	if err != nil {
		return nil, err
	}
	partly, err := untrainedTurns(in, "nemo-rl", "sft.only_unmask_final", "")
	if err != nil {
		return nil, err
	}
	sees := "the loss sees every turn of the assistant with what the chat template writes before it"
	if isTrue(values, "sft.only_unmask_final") {
		sees = "the loss sees the last turn of a row only (sft.only_unmask_final)"
	}
	notes = append(append(notes, partly...),
		overLength(in, "nemo-rl", fmt.Sprintf("gives no loss to a row of %d tokens or more", in.Student.MaxLength)),
		sees)
	return nemoFile(in, home, "sft", "/examples/configs/sft.yaml", nemoFor, values, notes, "/examples/run_sft.py")
}

// nemoTemplate refuses a chat template that NeMo-RL would take for a template's
// text.
func nemoTemplate(in Input) error {
	if t := in.Student.ChatTemplate; t != "" && !strings.HasSuffix(t, ".jinja") {
		return fmt.Errorf("nemo-rl would take %s for the text of a chat template: name a file that ends in .jinja as student.chat_template", oneLine(t))
	}
	return nil
}

// nemoRoot is the folder of NeMo-RL's repository: that of the script in the
// user's command, or the one of NVIDIA's container.
func nemoRoot(in Input, script string) (string, error) {
	if len(in.Command) == 0 {
		return nemoHome, nil
	}
	for _, word := range in.Command {
		if root, ok := strings.CutSuffix(word, script); ok && strings.HasPrefix(root, "/") {
			return root, nil
		}
	}
	return "", fmt.Errorf("the command names no /FOLDER%s: ours builds on the configurations beside it", script)
}

// nemoFiles are the train files, an entry each: NeMo-RL reads one file an
// entry.
func nemoFiles(in Input) []any {
	var out []any
	for _, name := range filesOf(in.View, "train") {
		out = append(out, map[string]any{
			"dataset_name": "openai_format", "data_path": here + name,
			"chat_key": "messages", "tool_key": "tools", "use_preserving_dataset": true,
		})
	}
	return out
}

// nemoCommon are values of every method.
func nemoCommon(in Input) map[string]any {
	name := fmt.Sprintf("%s-%d", in.Dataset, in.Version)
	tokenizer, template := in.Student.Model, "default" // the tokenizer's own; NeMo-RL's configuration has another
	if in.Student.Tokenizer != "" {
		tokenizer = in.Student.Tokenizer
	}
	if in.Student.ChatTemplate != "" {
		template = in.Student.ChatTemplate
	}
	return map[string]any{
		"policy.model_name":                in.Student.Model,
		"policy.tokenizer.name":            tokenizer,
		"policy.tokenizer.chat_template":   template,
		"policy.max_total_sequence_length": int64(in.Student.MaxLength),
		"policy.precision":                 "bfloat16",
		"policy.train_micro_batch_size":    int64(1),
		"policy.max_grad_norm":             1.0,
		"policy.sequence_packing.enabled":  false,
		"policy.dynamic_batching.enabled":  false,

		"data.shuffle": true,

		"checkpointing.enabled":        true,
		"checkpointing.checkpoint_dir": here + training.OutputDir,

		"logger.log_dir":             here + training.OutputDir + "/logs",
		"logger.wandb_enabled":       false,
		"logger.tensorboard_enabled": false,
		"logger.mlflow_enabled":      false,
		"logger.swanlab_enabled":     false,
		"logger.monitor_gpus":        false,
		// The configuration that ours builds on makes these of data.train, which
		// is a list here.
		"logger.wandb.project":          "stillhouse",
		"logger.wandb.name":             name,
		"logger.swanlab.project":        "stillhouse",
		"logger.swanlab.name":           name,
		"logger.tensorboard.log_dir":    "tensorboard",
		"logger.mlflow.run_name":        name,
		"logger.mlflow.experiment_name": "stillhouse",

		"cluster.gpus_per_node": int64(1),
		"cluster.num_nodes":     int64(1),
	}
}

// nemoSteps sets how many steps there are, where the user did not: NeMo-RL's
// configuration ends after 60, whatever the dataset's size.
func nemoSteps(in Input, values map[string]any, of string) ([]string, error) {
	batch, err := count(values, "policy.train_global_batch_size")
	if err != nil {
		return nil, err
	}
	notes, err := wholeBatches(in, "nemo-rl", "policy.train_global_batch_size", batch)
	if err != nil {
		return nil, err
	}
	epochs, err := count(values, of+".max_num_epochs")
	if err != nil {
		return nil, err
	}
	if _, set := values[of+".max_num_steps"]; !set {
		values[of+".max_num_steps"] = epochs * (in.View.Rows["train"] / batch)
	}
	if _, set := values["checkpointing.save_period"]; !set {
		values["checkpointing.save_period"] = values[of+".max_num_steps"]
	}
	return notes, nil
}

// nemoFile writes a configuration that builds on one of NeMo-RL's own.
func nemoFile(in Input, home, method, base, release string, values map[string]any, notes []string, script string) (*training.Rendered, error) {
	if err := plainText(values); err != nil {
		return nil, err
	}
	config := training.ConfigDir + "/nemo-rl/" + method + ".yaml"
	own := []string{"uv", "run", "--project", home, "python", home + script, "--config", config}
	defaults, err := yamlValue(home + base)
	if err != nil {
		return nil, err
	}
	var text strings.Builder
	text.WriteString(header(in, release, strings.Join(own, " ")))
	text.WriteString("defaults: " + defaults + "\n")
	if err := yamlBlocks(&text, values); err != nil {
		return nil, err
	}
	return &training.Rendered{
		Trainer: training.Trainer{Configs: []string{config}, Command: commandOf(in, config, own...)},
		Files:   []training.File{{Name: config, Data: []byte(text.String())}},
		Notes:   append(notes, testStays(in)...),
	}, nil
}
