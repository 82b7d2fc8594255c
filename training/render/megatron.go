package render

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// TrainerMegatronBridge is NVIDIA's Megatron-Bridge.
const TrainerMegatronBridge = "megatron-bridge"

// bridgeFor is the release that the renderer is written for.
const bridgeFor = "megatron-bridge 0.6.1"

// bridgeScript builds Megatron-Bridge's configuration out of a recipe of its
// own and what we say, which lies beside it as JSON. Megatron-Bridge has no
// file for it: a configuration is Python there.
//
//go:embed megatron.py.tmpl
var bridgeScript []byte

func init() {
	register(Renderer{
		Trainer: TrainerMegatronBridge, Method: MethodSFT, For: bridgeFor, Package: "megatron-bridge",
		Summary: "supervised fine-tuning of a recipe of Megatron-Bridge's on JSON Lines",
		// Its loader makes one schema of all rows, so that tools would get the keys
		// of all: the view of verl refuses rows that have some.
		Views:  []ViewSpec{{Name: "verl", Form: "jsonl"}},
		Render: bridgeSFT,
	})
}

// bridgeRecipe is where a recipe is: a module and a function that takes
// nothing.
var bridgeRecipe = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.]*:[A-Za-z_][A-Za-z0-9_]*$`)

// bridgeField is a field of Megatron-Bridge's ConfigContainer, dotted.
var bridgeField = regexp.MustCompile(`^[a-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)+$`)

// A bridgeConfig is sft.json.
type bridgeConfig struct {
	Recipe  string         `json:"recipe"`
	Files   []string       `json:"files"`
	Tokens  string         `json:"tokenizer"`
	Length  int            `json:"seq_length"`
	Options map[string]any `json:"config"`
}

// bridgeSFT renders supervised fine-tuning by Megatron-Bridge.
func bridgeSFT(in Input) (*training.Rendered, error) {
	err := checked(trainable(in), only(in, "megatron-bridge", "jsonl"), ownRevision(in, "megatron-bridge"), ownTemplate(in, "megatron-bridge"), someLength(in, "megatron-bridge"))
	if err != nil {
		return nil, err
	}
	values := map[string]any{
		"train.global_batch_size":  batchOf(in, 128),
		"train.micro_batch_size":   int64(1),
		"validation.eval_iters":    int64(0),
		"checkpoint.save":          training.OutputDir + "/checkpoints",
		"checkpoint.load":          nil,
		"rng.seed":                 in.Seed,
		"logger.tensorboard_dir":   training.OutputDir + "/tensorboard",
		"logger.log_interval":      int64(10),
		"checkpoint.save_interval": nil,
	}
	flat, err := flatten(in.Params, nil)
	if err != nil {
		return nil, err
	}
	recipe, _ := flat["recipe"].(string)
	delete(flat, "recipe")
	if !bridgeRecipe.MatchString(recipe) {
		return nil, errors.New("megatron-bridge needs the recipe that has the student's layout: set params.recipe, such as megatron.bridge.recipes.llama:llama32_1b_sft_config")
	}
	for key, value := range flat {
		switch {
		case strings.HasPrefix(key, "dataset."):
			return nil, fmt.Errorf("params.%s can't be set: the data is the view's", key)
		case key == "checkpoint.save" || key == "checkpoint.load":
			return nil, fmt.Errorf("params.%s can't be set: the result is looked for in %s", key, training.OutputDir)
		case key == "model.seq_length":
			return nil, fmt.Errorf("params.%s can't be set: it is the recipe's student.max_length", key)
		case !bridgeField.MatchString(key):
			return nil, fmt.Errorf("params.%s: is no field of a section, such as optimizer.lr", key)
		}
		values[key] = value
	}
	if s, _ := values["checkpoint.pretrained_checkpoint"].(string); s == "" {
		return nil, errors.New("megatron-bridge starts from a checkpoint in Megatron's form: convert the student by its own tool and set params.checkpoint.pretrained_checkpoint")
	}
	batch, err := count(values, "train.global_batch_size")
	if err != nil {
		return nil, err
	}
	if _, set := values["train.train_iters"]; !set {
		values["train.train_iters"] = (in.View.Rows["train"] + batch - 1) / batch
	}
	if values["checkpoint.save_interval"] == nil {
		values["checkpoint.save_interval"] = values["train.train_iters"]
	}
	tokenizer := in.Student.Model
	if in.Student.Tokenizer != "" {
		tokenizer = in.Student.Tokenizer
	}
	text, err := json.MarshalIndent(bridgeConfig{
		Recipe: recipe, Files: filesOf(in.View, "train"), Tokens: tokenizer, Length: in.Student.MaxLength, Options: values,
	}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	script, config := training.ConfigDir+"/megatron-bridge/sft.py", training.ConfigDir+"/megatron-bridge/sft.json"
	notes := []string{
		overLength(in, "megatron-bridge", fmt.Sprintf("cuts what goes beyond %d tokens of a row", in.Student.MaxLength)),
		"the loss sees assistant turns only, found by the chat template's {% generation %} marks or by megatron-bridge's own search for them",
		"what neither the recipe nor we set, such as learning rate and parallelism, is that of " + recipe,
	}
	return &training.Rendered{
		Trainer: training.Trainer{
			Configs: []string{config, script},
			Command: commandOf(in, script, "torchrun", "--standalone", "--nproc_per_node=gpu", script),
		},
		Files: []training.File{{Name: config, Data: append(text, '\n')}, {Name: script, Data: bridgeScript}},
		Notes: append(notes, testStays(in)...),
	}, nil
}
