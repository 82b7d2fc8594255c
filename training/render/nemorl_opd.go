package render

import (
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

func init() {
	register(Renderer{
		Trainer: TrainerNeMoRL, Method: MethodOPD, For: nemoFor, Package: "nemo-rl",
		Summary: "on-policy distillation from one or several teachers' weights (MOPD), by examples/nemo_gym/run_grpo_nemo_gym.py",
		Views:   []ViewSpec{{Name: routedView, Form: "jsonl", Tag: "agent_ref", TrainOnly: true}},
		Render:  nemoOPD,
	})
}

// nemoMOPD is the section of NeMo-RL's configuration that has the teachers.
const nemoMOPD = "on_policy_distillation."

// nemoTeacherKeys are the fields of TeacherResourceConfig that may be set for
// all teachers.
var nemoTeacherKeys = []string{
	"tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "expert_model_parallel_size",
	"num_nodes", "gpus_per_node", "precision", "micro_batch_size", "megatron_cfg_overrides",
}

var nemoOPDOurs = map[string]string{
	"data.train.dataset_name":        "it names the view's files",
	"data.train.seed":                "the splits are the dataset's",
	"data.validation":                "the test split is not to be trained by; evaluate on it yourself",
	"data.default.prompt_file":       "the prompts are the dataset's",
	"data.default.processor":         "rows could be left out or changed",
	"data.default.env_name":          "NeMo Gym asks the prompts",
	"grpo.adv_estimator.name":        "the teachers' scores are the advantage",
	"grpo.async_grpo.enabled":        "NeMo-RL distils by its asynchronous trainer alone",
	"grpo.val_period":                "nothing is validated here",
	"grpo.val_at_start":              "nothing is validated here",
	"grpo.val_at_end":                "nothing is validated here",
	"loss_fn.force_on_policy_ratio":  "the advantage would lack the student's own scores",
	"policy.megatron_cfg.enabled":    "teachers run by Megatron alone, with the student's configuration",
	"policy.dtensor_cfg.enabled":     "teachers run by Megatron alone, with the student's configuration",
	"policy.generation.backend":      "NeMo Gym asks vLLM's server",
	"checkpointing.metric_name":      "nothing is validated here",
	"checkpointing.higher_is_better": "nothing is validated here",
}

// nemoOPD renders MOPD by NeMo-RL: a prompt's agent_ref has the name of its
// teacher, and a name that is not in the map ends the training.
func nemoOPD(in Input) (*training.Rendered, error) {
	err := checked(trainable(in), only(in, "nemo-rl", "jsonl"), ownRevision(in, "nemo-rl"), nemoTemplate(in), someLength(in, "nemo-rl"))
	if err != nil {
		return nil, err
	}
	const script = "/examples/nemo_gym/run_grpo_nemo_gym.py"
	home, err := nemoRoot(in, script)
	if err != nil {
		return nil, err
	}
	m, err := routingOf(in, "agent_ref")
	if err != nil {
		return nil, err
	}
	vocabulary, err := m.oneVocabulary("nemo-rl")
	if err != nil {
		return nil, err
	}
	weights, err := m.weights("nemo-rl")
	if err != nil {
		return nil, err
	}
	teachers := map[string]any{}
	for tag, repository := range weights {
		teachers[tag] = repository
	}
	batch := batchOf(in, 32)
	values := with(nemoCommon(in), nemoOPDValues(in, batch), map[string]any{
		// A node for each teacher, one that trains and one that writes.
		"cluster.num_nodes":                                 int64(len(m.Teachers) + 2),
		"cluster.gpus_per_node":                             int64(8),
		nemoMOPD + "enabled":                                true,
		nemoMOPD + "teacher_model_by_agent_name":            teachers,
		nemoMOPD + "default_teacher_alias":                  nil,
		nemoMOPD + "strict_agent_name_match":                true,
		nemoMOPD + "deduplicate_shared_teacher_checkpoints": true,
		nemoMOPD + "non_colocated_teachers.enabled":         true,
	})
	for key, value := range map[string]any{"num_nodes": int64(1), "gpus_per_node": int64(8), "precision": "bf16", "micro_batch_size": int64(1)} {
		values[nemoMOPD+"non_colocated_teachers.default_teacher_cfg."+key] = value
	}
	r := rules{release: nemoFor, keys: keysOf("nemo-rl-opd"), ours: with(nemoOurs, nemoOPDOurs), unknown: "would take it without a word"}
	r.keys = append(r.keys, "env.nemo_gym.config_paths", nemoMOPD+"non_colocated_teachers.teacher_overrides")
	for _, key := range nemoTeacherKeys {
		r.keys = append(r.keys, nemoMOPD+"non_colocated_teachers.default_teacher_cfg."+key)
	}
	if err := r.applyDotted(values, in.Params); err != nil {
		return nil, err
	}
	if paths, _ := values["env.nemo_gym.config_paths"].([]any); len(paths) == 0 {
		var agents []string
		for _, t := range m.Teachers {
			agents = append(agents, t.Tag)
		}
		return nil, fmt.Errorf("nemo-rl asks the prompts by NeMo Gym: set params.env.nemo_gym.config_paths to configurations that have an agent for each teacher, called %s, beside its vllm_model_for_training.yaml", strings.Join(agents, ", "))
	}
	notes, err := nemoOPDSteps(in, values)
	if err != nil {
		return nil, err
	}
	notes = append(notes, m.notes(in, vocabulary)...)
	notes = append(notes, "each teacher has nodes of its own, beside those that the student trains and writes on: cluster.num_nodes has to be enough for all")
	return nemoFile(in, home, MethodOPD, "/examples/configs/grpo_math_1B.yaml", nemoFor, values, notes, script)
}

// nemoOPDValues are NeMo-RL's own recipe for MOPD, on our data.
func nemoOPDValues(in Input, batch int64) map[string]any {
	var files []any
	for _, name := range filesOf(in.View, "train") {
		files = append(files, map[string]any{"dataset_name": "NemoGymDataset", "data_path": here + name})
	}
	return map[string]any{
		"data._override_":                 true,
		"data.max_input_seq_length":       nil,
		"data.num_workers":                int64(1),
		"data.use_multiple_dataloader":    false,
		"data.default.prompt_file":        nil,
		"data.default.system_prompt_file": nil,
		"data.default.processor":          "nemo_gym_data_processor",
		"data.default.env_name":           "nemo_gym",
		"data.train":                      files,
		"data.validation":                 nil,

		"env.should_use_nemo_gym": true,

		"grpo.num_prompts_per_step":        batch,
		"grpo.num_generations_per_prompt":  int64(1),
		"grpo.max_num_epochs":              int64(1),
		"grpo.max_val_samples":             nil,
		"grpo.seed":                        in.Seed,
		"grpo.val_period":                  int64(0),
		"grpo.val_at_start":                false,
		"grpo.val_at_end":                  false,
		"grpo.async_grpo.enabled":          true,
		"grpo.adv_estimator.name":          "opd",
		"grpo.seq_logprob_error_threshold": 2.0,

		"loss_fn.disable_ppo_ratio":                       true,
		"loss_fn.force_on_policy_ratio":                   false,
		"loss_fn.use_on_policy_kl_approximation":          true,
		"loss_fn.use_importance_sampling_correction":      true,
		"loss_fn.truncated_importance_sampling_type":      "icepop",
		"loss_fn.truncated_importance_sampling_ratio":     5.0,
		"loss_fn.truncated_importance_sampling_ratio_min": 0.2,
		"loss_fn.reference_policy_kl_penalty":             0.0,

		"policy.train_global_batch_size":                      batch,
		"policy.dtensor_cfg.enabled":                          false,
		"policy.megatron_cfg.enabled":                         true,
		"policy.megatron_cfg.activation_checkpointing":        true,
		"policy.megatron_cfg.optimizer.lr":                    3e-6,
		"policy.megatron_cfg.optimizer.min_lr":                3e-6,
		"policy.generation.max_new_tokens":                    half(in),
		"policy.generation.vllm_cfg.async_engine":             true,
		"policy.generation.vllm_cfg.expose_http_server":       true,
		"policy.generation.colocated.enabled":                 false,
		"policy.generation.colocated.resources.num_nodes":     int64(1),
		"policy.generation.colocated.resources.gpus_per_node": int64(8),

		"checkpointing.metric_name":    nil,
		"checkpointing.keep_top_k":     int64(1),
		"checkpointing.save_optimizer": false,
	}
}

// nemoOPDSteps sets how many steps there are, where the user did not.
func nemoOPDSteps(in Input, values map[string]any) ([]string, error) {
	prompts, err := count(values, "grpo.num_prompts_per_step")
	if err != nil {
		return nil, err
	}
	each, err := count(values, "grpo.num_generations_per_prompt")
	if err != nil {
		return nil, err
	}
	batch, err := count(values, "policy.train_global_batch_size")
	if err != nil {
		return nil, err
	}
	if prompts*each%batch != 0 {
		return nil, fmt.Errorf("params.policy.train_global_batch_size: the %d answers of a step make no whole batches of %d", prompts*each, batch)
	}
	notes, err := wholeBatches(in, "nemo-rl", "grpo.num_prompts_per_step", prompts)
	if err != nil {
		return nil, err
	}
	epochs, err := count(values, "grpo.max_num_epochs")
	if err != nil {
		return nil, err
	}
	steps := epochs * (in.View.Rows["train"] / prompts)
	for _, key := range []string{"grpo.max_num_steps", "checkpointing.save_period"} {
		if _, set := values[key]; !set {
			values[key] = steps
		}
	}
	return notes, nil
}
