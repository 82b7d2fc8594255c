package render

import (
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerDistillKit is Arcee's DistillKit.
const TrainerDistillKit = "distillkit"

// distillkitFor is the state of its repository that the renderer is written
// for: there is no release of it.
const distillkitFor = "distillkit 1.0.0 (a61c2e7 of 2026-03-14)"

// compressionFile is what the view writes of how the logits are packed.
const compressionFile = "compression_config.yaml"

// distillkitScript gives DistillKit rows of several lengths. It either drops
// what is not as long as the first row (prepacked) or gives the packed logits
// to a collator that does not know them.
//
//go:embed distillkit.py.tmpl
var distillkitScript []byte

func init() {
	register(Renderer{
		Trainer: TrainerDistillKit, Method: MethodSFT, For: distillkitFor, Package: "distillkit",
		Summary: "distillation from the teachers' kept top-k probabilities, whose tokenizer the student has",
		Views:   []ViewSpec{{Name: "distillkit", TrainOnly: true}},
		Render:  distillkit,
	})
}

// distillkitKeys are the fields of DistillationRunConfig that may be set; those
// of training_args are trl's.
var distillkitKeys = []string{
	"project_name", "resize_embeddings_to_multiple_of", "use_flash_attention", "loss_functions", "model_kwargs", "model_auto_class",
	"trust_remote_code", "frozen_modules", "frozen_res", "dataset.seed",
}

// compressionKeys are the fields of DistributionQuantizationConfig.
var compressionKeys = []string{
	"d", "k", "exact_k", "exact_dtype", "polynomial_terms", "term_dtype", "residual_bins", "delta_encoding", "error_diffusion", "normalize_t",
}

// distillkit renders offline distillation by DistillKit.
func distillkit(in Input) (*training.Rendered, error) {
	err := checked(trainable(in), only(in, "distillkit", "parquet"), ownTokenizer(in, "distillkit"), ownRevision(in, "distillkit"), someLength(in, "distillkit"))
	if err != nil {
		return nil, err
	}
	if in.Student.ChatTemplate != "" {
		return nil, errors.New("the view has tokens, not messages: leave student.chat_template out")
	}
	packed := map[string]any{}
	text, ok := in.Beside[compressionFile]
	if !ok {
		return nil, fmt.Errorf("the view has no %s", compressionFile)
	}
	if err := yaml.Unmarshal(text, &packed); err != nil {
		return nil, fmt.Errorf("%s: %w", compressionFile, err)
	}
	values := distillkitValues(in)
	for _, key := range compressionKeys {
		if _, ok := packed[key]; !ok {
			return nil, fmt.Errorf("%s: has no %s", compressionFile, key)
		}
		values["teacher.logprob_compressor."+key] = packed[key]
	}
	// Of trl's keys, those that its method sft has in common with the release
	// that DistillKit asks for can't be told: they are checked by trl.
	r := rules{release: distillkitFor, keys: slices.Clone(distillkitKeys), unknown: "would leave it unread", ours: map[string]string{
		"training_args.max_length":             "it is the recipe's student.max_length",
		"training_args.output_dir":             "the result is looked for in " + training.OutputDir,
		"training_args.dataset_kwargs":         "rows are given as they are",
		"training_args.remove_unused_columns":  "the probabilities would be dropped",
		"training_args.packing":                "the probabilities are not packed with the tokens",
		"training_args.resume_from_checkpoint": "a launch starts from the student; train again with another attempt",
		"training_args.hub_token":              "secrets go by environment: HF_TOKEN",
	}}
	flat, err := flatten(in.Params, distillkitKeys)
	if err != nil {
		return nil, err
	}
	for key := range flat {
		if strings.HasPrefix(key, "training_args.") && r.ours[key] == "" {
			r.keys = append(r.keys, key)
		}
	}
	if err := r.apply(values, flat); err != nil {
		return nil, err
	}
	config, script := training.ConfigDir+"/distillkit/distill.yaml", training.ConfigDir+"/distillkit/distill.py"
	var out strings.Builder
	out.WriteString(header(in, distillkitFor, "python3 "+script+" "+config))
	if err := yamlBlocks(&out, values); err != nil {
		return nil, err
	}
	return &training.Rendered{
		Trainer: training.Trainer{Configs: []string{config, script}, Command: commandOf(in, config, "python3", script, config)},
		Files:   []training.File{{Name: config, Data: []byte(out.String())}, {Name: script, Data: distillkitScript}},
		Notes: append([]string{
			overLength(in, "distillkit", fmt.Sprintf("ends before it trains at a row of more than %d tokens", in.Student.MaxLength)),
			"the student must have the tokenizer that the teachers' tokens are of: tokens go to it as they are",
			"the parameters below training_args are trl's, and trl ends at one that it does not know",
		}, testStays(in)...),
	}, nil
}

func distillkitValues(in Input) map[string]any {
	var files []string
	files = append(files, filesOf(in.View, "train")...)
	seed := in.Seed
	if seed == 0 {
		seed = 1 // by 0 nothing is shuffled
	}
	return map[string]any{
		"project_name":        "stillhouse",
		"model":               in.Student.Model,
		"output_path":         training.OutputDir,
		"sequence_length":     int64(in.Student.MaxLength),
		"use_flash_attention": true,
		"trust_remote_code":   false,

		// The script reads the files of this list; DistillKit itself takes one name.
		"dataset.train_dataset.repo_id": strings.Join(files, ","),
		"dataset.train_dataset.split":   "train",
		"dataset.seed":                  seed,
		"dataset.prepacked":             true,

		"teacher.kind": "dataset",

		"loss_functions": []any{
			map[string]any{"function": "cross_entropy", "weight": 0.5},
			map[string]any{"function": "kl", "weight": 0.5, "temperature": 1.0, "missing_probability_handling": "zero", "sparse_chunk_length": int64(1024)},
		},

		"training_args.seed":                        in.Seed,
		"training_args.num_train_epochs":            1.0,
		"training_args.per_device_train_batch_size": int64(1),
		"training_args.gradient_accumulation_steps": int64(16),
		"training_args.learning_rate":               2e-6,
		"training_args.bf16":                        true,
		"training_args.gradient_checkpointing":      true,
		"training_args.remove_unused_columns":       false,
		"training_args.packing":                     false,
		"training_args.logging_steps":               int64(10),
		"training_args.save_strategy":               "epoch",
		"training_args.report_to":                   "none",
	}
}
