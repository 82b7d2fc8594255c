package render

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

func init() {
	register(Renderer{
		Trainer: TrainerVerl, Method: MethodOPD, For: verlFor, Package: "verl",
		Summary: "on-policy distillation from one or several teachers' weights, by verl.trainer.main_ppo",
		Views:   []ViewSpec{{Name: routedView, Tag: "data_source", TrainOnly: true}},
		Render:  verlOPD,
	})
}

// verlReward is a reward of nothing: verl asks for one for every answer, and
// here the teachers' scores are all that is learned of.
const verlReward = `"""The reward of an answer is nothing: its teacher's scores are what is learned of."""


def compute_score(data_source, solution_str, ground_truth, extra_info=None, **kwargs):
    return 0.0
`

// verlTeacher is the name that verl's own configuration has a lone teacher
// under. It drops the entry where there are others.
const verlTeacher = "teacher_model"

const verlTeachers = "distillation.teacher_models."

var notKey = regexp.MustCompile(`[^A-Za-z0-9_]`)

// verlOPD renders on-policy distillation by verl: each prompt's data_source is
// the key of its teacher.
func verlOPD(in Input) (*training.Rendered, error) {
	err := checked(trainable(in), only(in, "verl", "parquet"), ownRevision(in, "verl"), ownTemplate(in, "verl"), someLength(in, "verl"))
	if err != nil {
		return nil, err
	}
	m, err := routingOf(in, "data_source")
	if err != nil {
		return nil, err
	}
	vocabulary, err := m.oneVocabulary("verl")
	if err != nil {
		return nil, err
	}
	weights, err := m.weights("verl")
	if err != nil {
		return nil, err
	}
	names, err := verlNames(m)
	if err != nil {
		return nil, err
	}
	values := verlOPDValues(in)
	r := rules{
		release: verlFor, keys: keysOf("verl-opd"), unknown: "would take it without a word",
		ours: with(verlOurs, map[string]string{
			"data.prompt_key":                         "it names the view's column",
			"data.reward_fn_key":                      "it names the view's column",
			"data.max_prompt_length":                  "it follows from student.max_length and data.max_response_length",
			"data.filter_overlong_prompts":            "rows would be left out",
			"distillation.enabled":                    "it is what is trained",
			"distillation.teacher_key":                "it names the view's column",
			"actor_rollout_ref.model.path":            "it is the recipe's student.model",
			"actor_rollout_ref.model.tokenizer_path":  "it is the recipe's student.tokenizer",
			"actor_rollout_ref.rollout.prompt_length": "it follows from student.max_length and data.max_response_length",
		}),
	}
	for _, t := range m.Teachers {
		at := verlTeachers + names[t.Tag] + "."
		r.ours[at+"model_path"], r.ours[at+"key"] = "it is the teacher's weights in the recipe", "it is the teacher's name in the view"
		for _, key := range r.keys {
			if rest, ok := strings.CutPrefix(key, verlTeachers+verlTeacher+"."); ok && names[t.Tag] != verlTeacher {
				r.keys = append(r.keys, at+rest)
			}
		}
		verlTeacherValues(values, at, t.Tag, weights[t.Tag])
	}
	if err := r.applyDotted(values, in.Params); err != nil {
		return nil, err
	}
	if err := verlLengths(in, m, names, values); err != nil {
		return nil, err
	}
	if err := verlPool(m, names, values); err != nil {
		return nil, err
	}
	batch, err := count(values, "data.train_batch_size")
	if err != nil {
		return nil, err
	}
	notes, err := wholeBatches(in, "verl", "data.train_batch_size", batch)
	if err != nil {
		return nil, err
	}
	notes = append(notes, m.notes(in, vocabulary)...)
	notes = append(notes, "verl stops at a prompt that is too long")
	out, err := hydraFile(in, "verl/opd.yaml", "ppo_trainer", verlFor, values, notes, "python3", "-m", "verl.trainer.main_ppo")
	if err != nil {
		return nil, err
	}
	reward := training.ConfigDir + "/verl/reward.py"
	out.Files = append(out.Files, training.File{Name: reward, Data: []byte(verlReward)})
	out.Trainer.Configs = append(out.Trainer.Configs, reward)
	return out, nil
}

// verlNames are the names of verl's entries, by teacher. Many become one where
// they differ in signs alone, which is refused.
func verlNames(m *teacherMap) (map[string]string, error) {
	if len(m.Teachers) == 1 {
		return map[string]string{m.Teachers[0].Tag: verlTeacher}, nil
	}
	names, of := map[string]string{}, map[string]string{}
	for _, t := range m.Teachers {
		name := "t_" + notKey.ReplaceAllString(t.Tag, "_")
		if other := of[name]; other != "" {
			return nil, fmt.Errorf("the teachers %s and %s would have one name in verl: rename one of them", other, t.Tag)
		}
		of[name], names[t.Tag] = t.Tag, name
	}
	return names, nil
}

func verlOPDValues(in Input) map[string]any {
	var files []string
	for _, name := range filesOf(in.View, "train") {
		files = append(files, here+name)
	}
	batch := batchOf(in, 256)
	values := map[string]any{
		"data.train_files":             files,
		"data.val_files":               files[:1], // verl wants some; it never looks at them here
		"data.val_max_samples":         int64(1),
		"data.prompt_key":              "prompt",
		"data.reward_fn_key":           "data_source",
		"data.train_max_samples":       int64(-1),
		"data.train_batch_size":        batch,
		"data.max_response_length":     half(in),
		"data.filter_overlong_prompts": false,
		"data.truncation":              "error",
		"data.shuffle":                 true,
		"data.seed":                    in.Seed,
		"data.return_raw_chat":         true,

		"algorithm.adv_estimator":    "grpo",
		"algorithm.use_kl_in_reward": false,

		"actor_rollout_ref.model.path":                             in.Student.Model,
		"actor_rollout_ref.model.trust_remote_code":                false,
		"actor_rollout_ref.model.enable_gradient_checkpointing":    true,
		"actor_rollout_ref.model.use_remove_padding":               true,
		"actor_rollout_ref.actor.optim.lr":                         1e-6, // verl's default
		"actor_rollout_ref.actor.ppo_mini_batch_size":              batch,
		"actor_rollout_ref.actor.ppo_epochs":                       int64(1),
		"actor_rollout_ref.actor.use_dynamic_bsz":                  true,
		"actor_rollout_ref.actor.ppo_max_token_len_per_gpu":        max(int64(in.Student.MaxLength), 16384),
		"actor_rollout_ref.actor.use_kl_loss":                      false,
		"actor_rollout_ref.actor.entropy_coeff":                    0.0,
		"actor_rollout_ref.rollout.name":                           "vllm",
		"actor_rollout_ref.rollout.n":                              int64(1),
		"actor_rollout_ref.rollout.temperature":                    1.0,
		"actor_rollout_ref.rollout.top_p":                          1.0,
		"actor_rollout_ref.rollout.tensor_model_parallel_size":     int64(1),
		"actor_rollout_ref.rollout.gpu_memory_utilization":         0.5,
		"actor_rollout_ref.rollout.log_prob_use_dynamic_bsz":       true,
		"actor_rollout_ref.rollout.log_prob_max_token_len_per_gpu": max(int64(in.Student.MaxLength), 16384),

		// The score of the token that the student wrote, as the advantage.
		"distillation.enabled":                               true,
		"distillation.teacher_key":                           "data_source",
		"distillation.nnodes":                                int64(1),
		"distillation.distillation_loss.loss_mode":           "k1",
		"distillation.distillation_loss.use_policy_gradient": true,
		"distillation.distillation_loss.use_task_rewards":    false,

		"reward.custom_reward_function.path": here + training.ConfigDir + "/verl/reward.py",
		"reward.custom_reward_function.name": "compute_score",

		"trainer.default_local_dir": here + training.OutputDir,
		"trainer.project_name":      "stillhouse",
		"trainer.experiment_name":   fmt.Sprintf("%s-%d", in.Dataset, in.Version),
		"trainer.total_epochs":      int64(1),
		"trainer.logger":            []string{"console"},
		"trainer.save_freq":         in.View.Rows["train"] / batch, // once an epoch
		"trainer.test_freq":         int64(-1),
		"trainer.val_before_train":  false,
		"trainer.resume_mode":       "disable",
		"trainer.nnodes":            int64(1),
		"trainer.n_gpus_per_node":   int64(1),
	}
	if in.Student.Tokenizer != "" {
		values["actor_rollout_ref.model.tokenizer_path"] = in.Student.Tokenizer
	}
	return values
}

// verlTeacherValues are a teacher's: verl's own defaults for a lone teacher,
// which it does not give to others.
func verlTeacherValues(values map[string]any, at, tag, weights string) {
	for key, value := range map[string]any{
		"_target_": "verl.workers.config.DistillationTeacherModelConfig", "key": tag, "model_path": weights, "num_replicas": int64(1),
		"inference._target_": "verl.workers.config.RolloutConfig", "inference.name": "vllm", "inference.dtype": "bfloat16",
		"inference.gpu_memory_utilization": 0.5, "inference.enforce_eager": true, "inference.free_cache_engine": true,
		"inference.data_parallel_size": int64(1), "inference.expert_parallel_size": int64(1), "inference.tensor_model_parallel_size": int64(1),
		"inference.max_num_batched_tokens": int64(8192), "inference.max_num_seqs": int64(1024), "inference.load_format": "auto",
		"inference.enable_chunked_prefill": true, "inference.enable_prefix_caching": true, "inference.disable_log_stats": true,
		"inference.skip_tokenizer_init": true, "inference.temperature": 1.0,
	} {
		values[at+key] = value
	}
}

// verlLengths share the student's length between prompt and answer; a teacher
// reads both and writes one token.
func verlLengths(in Input, m *teacherMap, names map[string]string, values map[string]any) error {
	answer, err := count(values, "data.max_response_length")
	if err != nil {
		return err
	}
	prompt := int64(in.Student.MaxLength) - answer
	if prompt < 1 {
		return fmt.Errorf("params.data.max_response_length: %d leaves nothing of student.max_length %d for the prompt", answer, in.Student.MaxLength)
	}
	values["data.max_prompt_length"] = prompt
	for _, t := range m.Teachers {
		at := verlTeachers + names[t.Tag] + ".inference."
		for key, value := range map[string]int64{"prompt_length": prompt, "response_length": answer, "max_model_len": prompt + answer + 1} {
			if _, set := values[at+key]; !set {
				values[at+key] = value
			}
		}
	}
	return nil
}

// verlPool makes the teachers' pool as large as they are together: verl ends
// where it is not.
func verlPool(m *teacherMap, names map[string]string, values map[string]any) error {
	var gpus int64
	for _, t := range m.Teachers {
		at := verlTeachers + names[t.Tag] + "."
		one := int64(1)
		for _, key := range []string{"num_replicas", "inference.data_parallel_size", "inference.tensor_model_parallel_size"} {
			n, err := count(values, at+key)
			if err != nil {
				return err
			}
			one *= n
		}
		gpus += one
	}
	if _, set := values["distillation.n_gpus_per_node"]; !set {
		nodes, err := count(values, "distillation.nnodes")
		if err != nil || gpus%nodes != 0 {
			return cmpError(err, "params.distillation.nnodes: the teachers' %d GPUs don't spread evenly over %d nodes", gpus, nodes)
		}
		values["distillation.n_gpus_per_node"] = gpus / nodes
	}
	each, err := count(values, "distillation.n_gpus_per_node")
	if err != nil {
		return err
	}
	nodes, err := count(values, "distillation.nnodes")
	if err != nil {
		return err
	}
	if each*nodes != gpus {
		return fmt.Errorf("params.distillation: %d nodes of %d GPUs are not the %d that the teachers take together", nodes, each, gpus)
	}
	return nil
}
