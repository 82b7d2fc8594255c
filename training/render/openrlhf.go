package render

import (
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerOpenRLHF is OpenRLHF.
const TrainerOpenRLHF = "openrlhf"

// openrlhfFor is the release whose arguments the renderer is written for:
// openrlhf/cli/train_sft.py of OpenRLHF 0.11.0.
const openrlhfFor = "openrlhf 0.11.0"

func init() {
	register(Renderer{
		Trainer: TrainerOpenRLHF, Method: MethodSFT, For: openrlhfFor, Package: "openrlhf",
		Summary: "supervised fine-tuning by openrlhf.cli.train_sft",
		// OpenRLHF gives a turn to the chat template as it is and reads no tools.
		// The view of verl has turns without keys that may be null, and refuses
		// rows with tools.
		Views:  []ViewSpec{{Name: "verl"}},
		Render: openrlhfSFT,
	})
}

var openrlhfOurs = map[string]string{
	"model.model_name_or_path":     "it is the recipe's student.model",
	"model.pretrain_mode_enable":   "nothing would be masked",
	"data.dataset":                 "it names the view's files",
	"data.dataset_probs":           "shares are the dataset's own",
	"data.dataset_split":           "it names the view's files",
	"data.max_samples":             "rows would be left out",
	"data.input_key":               "it names the view's column",
	"data.output_key":              "the answer is the last message",
	"data.input_template":          "the chat template is used",
	"data.apply_chat_template":     "the chat template is used",
	"data.multiturn":               "all turns of the assistant are trained",
	"data.tokenizer_chat_template": "save it with the tokenizer, so that it is the one that is used later",
	"data.max_len":                 "it is the recipe's student.max_length",
	"eval.dataset":                 "the test split is not to be trained by; evaluate on it yourself",
	"eval.split":                   "the test split is not to be trained by; evaluate on it yourself",
	"ckpt.output_dir":              "the result is looked for in " + training.OutputDir,
	"ckpt.path":                    "the result is looked for in " + training.OutputDir,
	"ckpt.load_enable":             "a launch starts from the student; train again with another attempt",
	"logger.wandb.key":             "secrets go by environment: WANDB_API_KEY",
}

// openrlhfSFT renders supervised fine-tuning by OpenRLHF, which takes
// everything as arguments.
func openrlhfSFT(in Input) (*training.Rendered, error) {
	err := checked(trainable(in), only(in, "openrlhf", "parquet"), ownTokenizer(in, "openrlhf"), ownRevision(in, "openrlhf"), ownTemplate(in, "openrlhf"), someLength(in, "openrlhf"))
	if err != nil {
		return nil, err
	}
	values := map[string]any{
		"model.model_name_or_path":            in.Student.Model,
		"model.gradient_checkpointing_enable": true,

		"data.dataset":             strings.Join(filesOf(in.View, "train"), ","),
		"data.dataset_split":       "train",
		"data.max_samples":         in.View.Rows["train"], // its default would leave out rows beyond a million
		"data.input_key":           "messages",
		"data.apply_chat_template": true,
		"data.multiturn":           true,
		"data.max_len":             int64(in.Student.MaxLength),

		"train.batch_size":       batchOf(in, 128), // OpenRLHF's default, less where rows are few
		"train.micro_batch_size": int64(1),
		"train.max_epochs":       int64(1),
		"train.seed":             in.Seed,

		"optim":             "adam",
		"adam.lr":           5e-6, // OpenRLHF's default, as the next ones
		"adam.weight_decay": 0.0,
		"lr_scheduler":      "cosine_with_min_lr",
		"lr_warmup_ratio":   0.03,
		"min_lr_ratio":      0.1,
		"max_norm":          1.0,

		"ds.param_dtype":         "bf16",
		"ds.zero_stage":          int64(2),
		"ds.attn_implementation": "flash_attention_2",
		"ds.packing_samples":     false,

		"ckpt.output_dir":      training.OutputDir,
		"ckpt.path":            training.OutputDir + "/checkpoints",
		"ckpt.save_steps":      int64(-1),
		"eval.steps":           int64(-1),
		"logger.logging_steps": int64(10),
	}
	r := rules{release: openrlhfFor, keys: keysOf("openrlhf-sft"), ours: openrlhfOurs, unknown: "stops at it"}
	if err := r.applyDotted(values, in.Params); err != nil {
		return nil, err
	}
	batch, err := count(values, "train.batch_size")
	if err != nil {
		return nil, err
	}
	if _, err := wholeBatches(in, "openrlhf", "train.batch_size", batch); err != nil {
		return nil, err
	}
	notes := []string{
		overLength(in, "openrlhf", fmt.Sprintf("leaves out a row whose prompt alone comes within 2 of %[1]d tokens, cuts others at %[1]d and puts the end of text in place of the last token", in.Student.MaxLength)),
		"openrlhf runs code that comes with the model (trust_remote_code), and has no switch for it",
	}
	if left := in.View.Rows["train"] % batch; left > 0 {
		notes = append(notes, fmt.Sprintf("%s of each epoch fill no batch of %d: what is learned of them goes into the next epoch's first step, and after the last epoch nowhere", rowsWord(left), batch))
	}
	return flagged(in, training.ConfigDir+"/openrlhf/sft.args", openrlhfFor, values, notes, "deepspeed", "--module", "openrlhf.cli.train_sft")
}
