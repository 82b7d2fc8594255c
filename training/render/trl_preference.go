package render

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/training"
)

// Methods of TRL on preference pairs.
const (
	MethodDPO    = "dpo"
	MethodReward = "reward"
)

func init() {
	pairs := []ViewSpec{{Name: "preference"}}
	register(Renderer{
		Trainer: TrainerTRL, Method: MethodDPO, For: trlFor, Package: "trl",
		Summary: "direct preference optimisation by trl dpo", Views: pairs, Render: trlDPO,
	})
	register(Renderer{
		Trainer: TrainerTRL, Method: MethodReward, For: trlFor, Package: "trl",
		Summary: "a reward model by trl reward", Views: pairs, Render: trlReward,
	})
}

// noTemplate refuses a chat template, for methods that have no key for one.
func noTemplate(in Input, method string) error {
	if in.Student.ChatTemplate != "" {
		return fmt.Errorf("trl %s takes the template of the student's tokenizer and has no key for %q: save it into the student's folder", method, in.Student.ChatTemplate)
	}
	return nil
}

func trlDPO(in Input) (*training.Rendered, error) {
	if err := trlCan(in); err != nil {
		return nil, err
	}
	if err := noTemplate(in, MethodDPO); err != nil {
		return nil, err
	}
	values := with(trlCommon(in), map[string]any{
		"truncation_mode":          "keep_start",
		"beta":                     0.1,
		"loss_type":                []string{"sigmoid"},
		"label_smoothing":          0.0,
		"precompute_ref_log_probs": false,
		"learning_rate":            1e-6, // trl's default
	})
	if err := trlRules(MethodDPO).apply(values, in.Params); err != nil {
		return nil, err
	}
	onCPU(values, in.Params)
	notes := []string{"the loss sees chosen and rejected, not their prompt; the reference is the student as it is at the start"}
	if in.Student.MaxLength == 0 {
		notes = append(notes, "max_length is null: no pair is cut, and the longest decides the memory; set student.max_length to bound it")
	} else {
		notes = append(notes, overLength(in, "trl", fmt.Sprintf("cuts what goes beyond %d tokens of prompt and answer, and drops a pair whose prompt alone is that long", in.Student.MaxLength)))
	}
	config := trlConfig(MethodDPO)
	return trlFile(in, trlData{config: config, values: values, notes: notes, command: []string{"trl", MethodDPO, "--config", config}})
}

// rewardColumns are what the reward trainer reads. It would take margin too,
// but ends at a pair that has none.
var rewardColumns = []string{"prompt", "chosen", "rejected", "tools"}

func trlReward(in Input) (*training.Rendered, error) {
	if err := trlCan(in); err != nil {
		return nil, err
	}
	values := with(trlCommon(in), map[string]any{
		"center_rewards_coefficient": nil,
		"disable_dropout":            true,
		"learning_rate":              1e-4, // trl's default
	})
	if in.Student.ChatTemplate != "" {
		values["chat_template_path"] = in.Student.ChatTemplate
	}
	if err := trlRules(MethodReward).apply(values, in.Params); err != nil {
		return nil, err
	}
	onCPU(values, in.Params)
	notes := []string{"margins are left out: trl's reward trainer ends at a pair that has none"}
	if in.Student.MaxLength == 0 {
		notes = append(notes, "max_length is null: no pair is left out, and the longest decides the memory; set student.max_length to bound it")
	} else {
		notes = append(notes, overLength(in, "trl", fmt.Sprintf("drops every pair of which one side has more than %d tokens", in.Student.MaxLength)))
	}
	config := trlConfig(MethodReward)
	return trlFile(in, trlData{config: config, columns: rewardColumns, values: values, notes: notes, command: []string{"trl", MethodReward, "--config", config}})
}
