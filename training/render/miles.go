package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// Trainers that are run as train.py of their repository, with everything as
// arguments: miles, and slime, which it comes from.
const (
	TrainerMiles = "miles"
	TrainerSlime = "slime"
)

// The releases that the renderers are written for. miles has several teachers
// since after 0.1.0, in its main branch.
const (
	milesFor = "miles main of 2026-08-21 (31f1ca9)"
	slimeFor = "slime 0.3.1"
)

func init() {
	views := []ViewSpec{{Name: routedView, Form: "jsonl", Tag: "metadata", TrainOnly: true}}
	register(Renderer{
		Trainer: TrainerMiles, Method: MethodOPD, For: milesFor, Package: "miles", Views: views,
		Summary: "on-policy distillation from one or several teachers' SGLang servers",
		Render:  func(in Input) (*training.Rendered, error) { return milesOPD(in, TrainerMiles, milesFor) },
	})
	register(Renderer{
		Trainer: TrainerSlime, Method: MethodOPD, For: slimeFor, Package: "slime", Views: views,
		Summary: "on-policy distillation from one teacher's SGLang server",
		Render:  func(in Input) (*training.Rendered, error) { return milesOPD(in, TrainerSlime, slimeFor) },
	})
}

var milesOurs = map[string]string{
	"prompt-data":                     "it names the view's files",
	"input-key":                       "it names the view's column",
	"metadata-key":                    "it names the view's column",
	"label-key":                       "the teachers' scores are all that is learned of",
	"tool-key":                        "the view has no tools",
	"apply-chat-template":             "the chat template is used",
	"rollout-max-prompt-len":          "prompts would be left out",
	"rollout-max-context-len":         "it is the recipe's student.max_length",
	"hf-checkpoint":                   "it is the recipe's student.model",
	"save":                            "the result is looked for in " + training.OutputDir,
	"use-opd":                         "it is what is trained",
	"opd-type":                        "the teachers are servers",
	"opd-teacher-urls":                "it is each teacher's score_url in the recipe",
	"opd-teacher-key":                 "it names the view's column",
	"opd-teacher-load":                "the teachers are servers",
	"rm-url":                          "it is the teacher's score_url in the recipe",
	"custom-rm-path":                  "it is how the teachers are asked",
	"custom-reward-post-process-path": "it is how the teachers are asked",
	"wandb-key":                       "secrets go by environment: WANDB_API_KEY",
}

// milesScript puts the view's files into one, which is all that miles and slime
// read, and names it with its whole path: their workers run in other folders.
const milesScript = `#!/bin/sh
# Puts the prompts into one file and runs the command that follows.
set -eu
cat %s >` + training.OutputDir + `/prompts.jsonl
exec "$@" --prompt-data "$PWD/` + training.OutputDir + `/prompts.jsonl" --save "$PWD/` + training.OutputDir + `/checkpoints"
`

// milesOPD renders on-policy distillation by miles or slime. What is of the
// model's layout, and where Ray runs, is the user's command: there is no
// configuration that has it.
func milesOPD(in Input, trainer, release string) (*training.Rendered, error) {
	err := checked(trainable(in), only(in, trainer, "jsonl"), ownTokenizer(in, trainer), ownRevision(in, trainer), ownTemplate(in, trainer), someLength(in, trainer))
	if err != nil {
		return nil, err
	}
	m, err := routingOf(in, "metadata")
	if err != nil {
		return nil, err
	}
	vocabulary, err := m.oneVocabulary(trainer)
	if err != nil {
		return nil, err
	}
	urls, err := m.urls(trainer, "/generate")
	if err != nil {
		return nil, err
	}
	values := milesValues(in, trainer)
	if trainer == TrainerMiles {
		var routes []any
		for _, tag := range slices.Sorted(maps.Keys(urls)) {
			if tag == "default" {
				return nil, errors.New("miles takes a teacher called default for all whose teacher it does not know: rename it")
			}
			routes = append(routes, tag+"="+urls[tag])
		}
		values["opd-teacher-urls"], values["opd-teacher-key"] = routes, "opd_teacher"
		values["opd-log-prob-top-k"] = int64(0) // the score of the token that the student wrote
	} else {
		if len(m.Teachers) > 1 {
			return nil, fmt.Errorf("%s asks one teacher for all prompts, and these have %d: hand them to miles, verl, trl, ms-swift or nemo-rl, or let one teacher own everything (--owner '*=TEACHER')", slimeFor, len(m.Teachers))
		}
		values["rm-url"] = urls[m.Teachers[0].Tag]
	}
	r := rules{release: release, keys: keysOf(trainer + "-opd"), ours: milesOurs, unknown: "what is Megatron's own belongs into the command"}
	if err := r.apply(values, in.Params); err != nil {
		return nil, err
	}
	if n := len(in.Command); n == 0 || in.Command[n-1] != argsWord {
		return nil, fmt.Errorf("%[1]s needs a command: python3 /FOLDER/train.py with the arguments of the model's layout and of its GPUs, and %[2]s as the last", trainer, argsWord)
	}
	batch, err := count(values, "rollout-batch-size")
	if err != nil {
		return nil, err
	}
	if batch > in.View.Rows["train"] {
		return nil, fmt.Errorf("params.rollout-batch-size: %d prompts at a time are more than the %d that there are", batch, in.View.Rows["train"])
	}
	notes := append(m.notes(in, vocabulary), trainer+" begins the prompts anew where the last of an epoch fill no batch")
	out, err := flagged(in, training.ConfigDir+"/"+trainer+"/opd.args", release, values, notes, "python3", "train.py")
	if err != nil {
		return nil, err
	}
	var files []string
	for _, name := range filesOf(in.View, "train") {
		files = append(files, training.Quote(name))
	}
	script := training.ConfigDir + "/" + trainer + "/opd.sh"
	out.Files = append(out.Files, training.File{Name: script, Mode: 0o755, Data: fmt.Appendf(nil, milesScript, strings.Join(files, " "))})
	out.Trainer.Configs = append(out.Trainer.Configs, script)
	out.Trainer.Command = append([]string{"sh", script}, out.Trainer.Command...)
	return out, nil
}

func milesValues(in Input, trainer string) map[string]any {
	batch := batchOf(in, 32)
	return map[string]any{
		"hf-checkpoint":       in.Student.Model,
		"input-key":           "prompt",
		"metadata-key":        "metadata",
		"apply-chat-template": true,
		"rollout-shuffle":     true,
		"rollout-seed":        in.Seed,

		"num-epoch":                int64(1),
		"rollout-batch-size":       batch,
		"n-samples-per-prompt":     int64(1),
		"global-batch-size":        batch,
		"rollout-max-response-len": half(in),
		"rollout-max-context-len":  int64(in.Student.MaxLength),
		"rollout-temperature":      1.0,
		"rollout-top-p":            1.0,

		"use-opd":                         true,
		"opd-type":                        "sglang",
		"opd-kl-coef":                     1.0,
		"custom-rm-path":                  trainer + ".rollout.on_policy_distillation.reward_func",
		"custom-reward-post-process-path": trainer + ".rollout.on_policy_distillation.post_process_rewards",
		"advantage-estimator":             "grpo",
		"kl-coef":                         0.0,
		"entropy-coef":                    0.0,
		"lr":                              1e-6,
		"save-interval":                   max(in.View.Rows["train"]/batch, 1), // once an epoch
	}
}
