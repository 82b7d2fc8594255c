package render

import (
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerSwift is ms-swift.
const TrainerSwift = "ms-swift"

// swiftFor is the release whose keys and meanings the renderer is written for:
// SftArguments and RLHFArguments of swift.arguments.
const swiftFor = "ms-swift 4.6.0"

func init() {
	for method, r := range map[string]struct {
		summary string
		render  func(Input) (*training.Rendered, error)
	}{
		MethodSFT: {"supervised fine-tuning by swift sft", swiftSFT},
		MethodGKD: {"distillation from one teacher's weights or its server, by swift rlhf", swiftGKD},
	} {
		register(Renderer{
			Trainer: TrainerSwift, Method: method, For: swiftFor, Package: "ms-swift",
			Summary: r.summary, Views: []ViewSpec{{Name: "ms-swift"}}, Render: r.render,
		})
	}
}

var swiftOurs = with(secretKeys, map[string]string{
	"dataset":             "it names the view's files",
	"val_dataset":         "the data is the view's",
	"cached_dataset":      "rows that were prepared before could be others",
	"cached_val_dataset":  "the data is the view's",
	"custom_dataset_info": "the data is the view's",
	"columns":             "the view's are ms-swift's own",
	"split_dataset_ratio": "the splits are the dataset's",
	"streaming":           "rows could not be counted",
	"interleave_prob":     "all rows are trained on, once in an epoch",
	"model":               "it is the recipe's student.model",
	"model_revision":      "it is the student's revision",
	"max_length":          "it is the recipe's student.max_length",
	"output_dir":          "the result is looked for in " + training.OutputDir,
	"adapters":            "a launch starts from the student",
	"rlhf_type":           "the method is chosen by --method",
	"load_args":           "what was set for another training is not taken over",
	"load_data_args":      "the data is the view's",

	"resume_from_checkpoint":    "a launch starts from the student; train again with another attempt",
	"load_from_cache_file":      "rows that were prepared before could be others",
	"teacher_model":             "it is the teacher's weights in the recipe",
	"teacher_model_revision":    "it could name another model's weights",
	"teacher_adapters":          "it could name another model's weights",
	"teacher_model_server":      "it is the teacher's score_url in the recipe",
	"predict_with_generate":     "no split is predicted while it trains",
	"create_checkpoint_symlink": "the result is looked for in " + training.OutputDir,
})

// swiftCommon are the keys of both methods.
func swiftCommon(in Input) (map[string]any, error) {
	if err := trainable(in); err != nil {
		return nil, err
	}
	if err := ownTokenizer(in, "ms-swift"); err != nil {
		return nil, err
	}
	if in.Student.ChatTemplate != "" {
		return nil, fmt.Errorf("ms-swift reads no chat template from %q: leave student.chat_template out, and set --param template=NAME where the model's own name for it does not do, or save the template into the student's tokenizer and set --param template_backend=jinja", in.Student.ChatTemplate)
	}
	values := map[string]any{
		"model":      in.Student.Model,
		"use_hf":     true, // else a name is looked up at ModelScope
		"tuner_type": "full",
		"output_dir": training.OutputDir,
		// The checkpoint is below output, not below output/v0-<time>.
		"add_version": false,
		"seed":        in.Seed,
		"data_seed":   in.Seed,

		"dataset":              filesOf(in.View, "train"),
		"dataset_shuffle":      true,
		"split_dataset_ratio":  0.0,
		"load_from_cache_file": false,
		"strict":               true,
		"lazy_tokenize":        false,

		"truncation_strategy":     "delete",
		"packing":                 false,
		"padding_free":            false,
		"loss_scale":              "default",
		"add_non_thinking_prefix": true,

		"torch_dtype":                 "bfloat16",
		"bf16":                        true,
		"gradient_checkpointing":      true,
		"learning_rate":               2e-5,
		"lr_scheduler_type":           "cosine",
		"num_train_epochs":            1.0,
		"per_device_train_batch_size": int64(1),
		"gradient_accumulation_steps": int64(16),

		"eval_strategy": "no",
		"save_strategy": "epoch",
		"logging_steps": int64(10),
		"report_to":     "none",
		"push_to_hub":   false,
	}
	if in.Student.MaxLength > 0 {
		values["max_length"] = int64(in.Student.MaxLength)
	}
	if in.Student.Revision != "" {
		values["model_revision"] = in.Student.Revision
	}
	return values, nil
}

// swiftSFT renders supervised fine-tuning by ms-swift: `swift sft sft.yaml`.
func swiftSFT(in Input) (*training.Rendered, error) {
	values, err := swiftCommon(in)
	if err != nil {
		return nil, err
	}
	return swiftFile(in, MethodSFT, "sft", values, nil)
}

// swiftGKD renders distillation by ms-swift: `swift rlhf gkd.yaml`. The teacher
// is loaded from its weights, or asked at its server where those are not at
// hand.
func swiftGKD(in Input) (*training.Rendered, error) {
	values, err := swiftCommon(in)
	if err != nil {
		return nil, err
	}
	if in.Student.MaxLength < 2 {
		return nil, fmt.Errorf("set student.max_length: it bounds what the student writes for gkd, of which ms-swift's default is 512 tokens")
	}
	values["rlhf_type"] = "gkd"
	values["lmbda"], values["beta"], values["temperature"], values["sft_alpha"] = 0.5, 0.5, 0.9, 0.0
	values["max_completion_length"] = int64(in.Student.MaxLength / 2)
	// Rows are encoded while it trains, which counts nothing beforehand.
	values["truncation_strategy"] = "left"
	delete(values, "lazy_tokenize")
	var notes []string
	scored := in
	scored.Teachers = make([]Teacher, len(in.Teachers))
	for i, t := range in.Teachers {
		if t.Weights == "" {
			t.Weights = t.ScoreURL
		}
		scored.Teachers[i] = t
	}
	teacher, err := oneTeacher(scored, TrainerSwift, MethodGKD)
	if err != nil {
		return nil, err
	}
	if teacher.Weights == teacher.ScoreURL {
		values["teacher_model_server"] = teacher.ScoreURL
		values["gkd_logits_topk"] = int64(20) // what vLLM gives where it was not told to give more (max_logprobs)
		notes = append(notes, "the loss sees the 20 likeliest tokens that the server of "+teacher.ID+" gives, not its whole distribution; raise gkd_logits_topk with the server's max_logprobs")
	} else {
		values["teacher_model"] = teacher.Weights
	}
	notes = append(notes,
		"gkd needs one vocabulary: that of "+teacher.ID+" is compared token by token with the student's",
		fmt.Sprintf("a share lmbda of the steps trains on what the student writes, of at most %d tokens by default; with lmbda 0 on the dataset's answers alone", in.Student.MaxLength/2))
	return swiftFile(in, MethodGKD, "rlhf", values, notes)
}

// swiftFile puts the user's parameters over the values and writes them. The
// command hands them on as arguments, so that nothing may be null.
func swiftFile(in Input, method, command string, values map[string]any, notes []string) (*training.Rendered, error) {
	r := rules{release: swiftFor, keys: keysOf(TrainerSwift + "-" + command), ours: swiftOurs, unknown: "ends at one"}
	if err := r.apply(values, in.Params); err != nil {
		return nil, err
	}
	if _, chose := in.Params["torch_dtype"]; isTrue(values, "use_cpu") && !chose {
		values["torch_dtype"] = "float32"
	}
	onCPU(values, in.Params)
	for key, v := range values {
		if v == nil {
			return nil, fmt.Errorf("params.%s: is null, which ms-swift would read as the text None; leave it out", key)
		}
	}
	config := training.ConfigDir + "/ms-swift/" + method + ".yaml"
	var text strings.Builder
	text.WriteString(header(in, swiftFor, "swift "+command+" "+config))
	if err := yamlLines(&text, values); err != nil {
		return nil, err
	}
	return &training.Rendered{
		Trainer: training.Trainer{Configs: []string{config}, Command: commandOf(in, config, "swift", command, config)},
		Files:   []training.File{{Name: config, Data: []byte(text.String())}},
		Notes:   append(swiftNotes(in, values), notes...),
	}, nil
}

// swiftNotes says what ms-swift will do that its user should know.
func swiftNotes(in Input, values map[string]any) []string {
	var notes []string
	limit := fmt.Sprintf("more than %d tokens", in.Student.MaxLength)
	if in.Student.MaxLength == 0 {
		limit = "more tokens than the student takes (max_position_embeddings)"
	}
	switch values["truncation_strategy"] {
	case "delete":
		notes = append(notes, overLength(in, "ms-swift", "leaves out every row of "+limit))
	case "split":
		notes = append(notes, overLength(in, "ms-swift", "makes several rows of one of "+limit))
	default:
		notes = append(notes, overLength(in, "ms-swift", fmt.Sprintf("cuts the %v of a row of %s", values["truncation_strategy"], limit)))
	}
	notes = append(notes, "the loss sees the turns that the view marks (loss), or every turn of the assistant where it marks none")
	if isTrue(values, "add_non_thinking_prefix") {
		notes = append(notes, "where an answer has no reasoning, a template that reasons gets an empty one (add_non_thinking_prefix)")
	}
	return append(notes, testStays(in)...)
}
