package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

const (
	kimi  = "73300871f44c168e7c949de2c750e60c2c9bb8ff530017c5a267234e9cb4db8e"
	other = "00000871f44c168e7c949de2c750e60c2c9bb8ff530017c5a267234e9cb4db8e"
)

// routed is an input of prompts_routed: 600 prompts of maths that k3 scores,
// and 400 of code that coder-1.5 scores.
func routed(column, ext string) func() Input {
	return func() Input {
		in := viewInput(routedView, ext, 1000)
		in.View.Files = in.View.Files[:2]
		delete(in.View.Rows, "test")
		in.Beside = map[string][]byte{teacherMapFile: []byte(fmt.Sprintf(`{"teacher_map": 1, "dataset": "d", "column": %q, "prompts": 1000, "teachers": [
			{"tag": "k3", "model": "kimi-k3", "weights": "moonshotai/Kimi-K3", "score_url": "http://k3:8000", "tokenizer_sha256": %q,
			 "cells": [{"domain": "math", "effort": "high", "prompts": 500}, {"domain": "math", "effort": "low", "prompts": 100}]},
			{"tag": "coder-1.5", "model": "c", "weights": "org/coder", "score_url": "https://coder:8001/", "tokenizer_sha256": %[2]q,
			 "cells": [{"domain": "code", "effort": "high", "prompts": 400}]}]}`, column, kimi))}
		return in
	}
}

// mapped changes the teacher map of an input.
func mapped(change func(*teacherMap)) func(*Input) {
	return func(in *Input) {
		var m teacherMap
		if err := json.Unmarshal(in.Beside[teacherMapFile], &m); err != nil {
			panic(err)
		}
		change(&m)
		text, err := json.Marshal(m)
		if err != nil {
			panic(err)
		}
		in.Beside[teacherMapFile] = text
	}
}

// onPolicy are the trainers that route, and what each needs beside the prompts.
var onPolicy = []struct {
	trainer, column, ext string
	loads                bool // the teachers' weights, and not their servers
	needs                func(*Input)
}{
	{TrainerVerl, "data_source", "parquet", true, func(*Input) {}},
	{TrainerTRL, "teacher_id", "parquet", false, func(*Input) {}},
	{TrainerSwift, "teacher", "parquet", false, func(*Input) {}},
	{TrainerNeMoRL, "agent_ref", "jsonl", true, params("env.nemo_gym.config_paths", []any{"agents.yaml"})},
	{TrainerMiles, "metadata", "jsonl", false, func(in *Input) {
		in.Command = []string{"python3", "/root/miles/train.py", "--num-layers", "36", "{args}"}
	}},
}

func TestOnPolicy(t *testing.T) {
	for _, tc := range onPolicy {
		t.Run(tc.trainer, func(t *testing.T) {
			spec, err := ViewFor(tc.trainer, MethodOPD, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			form := spec.Form
			if form == "" {
				form = "parquet"
			}
			if spec.Name != routedView || form != tc.ext || spec.Tag != tc.column && tc.column != "teacher" || !spec.TrainOnly {
				t.Errorf("the view is %+v", spec)
			}
			input := func() Input {
				in := routed(tc.column, tc.ext)()
				tc.needs(&in)
				return in
			}
			r := mustRender(t, tc.trainer, MethodOPD, input())
			goldenWhole(t, tc.trainer+"-opd", r)
			if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "k3 scores 600 prompts (math/high, math/low); coder-1.5 scores 400 prompts (code/high)") || !strings.Contains(notes, "have one tokenizer") {
				t.Errorf("the notes don't say who scores what:\n%s", notes)
			}

			half := input()
			mapped(func(m *teacherMap) { m.Teachers[1].TokenizerSHA256 = "" })(&half)
			if notes := strings.Join(mustRender(t, tc.trainer, MethodOPD, half).Notes, "\n"); !strings.Contains(notes, "of coder-1.5 it is not known") {
				t.Errorf("the notes don't say what is not known of the tokenizers:\n%s", notes)
			}

			missing := refusal{"coder-1.5 has none", mapped(func(m *teacherMap) { m.Teachers[1].ScoreURL = "" })}
			if tc.loads {
				missing.change = mapped(func(m *teacherMap) { m.Teachers[1].Weights = "" })
			}
			refuses(t, tc.trainer, MethodOPD, input, []refusal{
				missing,
				{"reads view prompts_routed, not verl_rl", func(in *Input) { in.View.Name = "verl_rl" }},
				{"has no teacher_map.json", func(in *Input) { in.Beside = nil }},
				{"teacher_map.json: ", func(in *Input) { in.Beside[teacherMapFile] = []byte("{") }},
				{"prompts of the test split", func(in *Input) { in.View.Rows["test"] = 1 }},
				{"want format 1", mapped(func(m *teacherMap) { m.Format = 2 })},
				{"want format 1", mapped(func(m *teacherMap) { m.Teachers = nil })},
				{"in column elsewhere", mapped(func(m *teacherMap) { m.Column = "elsewhere" })},
				{"is no name for a teacher", mapped(func(m *teacherMap) { m.Teachers[0].Tag = "a=b c" })},
				{"k3 is there twice", mapped(func(m *teacherMap) { m.Teachers[1].Tag = "k3" })},
				{"owns nothing", mapped(func(m *teacherMap) { m.Teachers[1].Cells = nil })},
				{"math/low has two owners, k3 and coder-1.5", mapped(func(m *teacherMap) { m.Teachers[1].Cells[0] = m.Teachers[0].Cells[1] })},
				{"some have no owner", mapped(func(m *teacherMap) { m.Teachers[1].Cells[0].Prompts = 399 })},
				{"some have no owner", func(in *Input) { in.View.Rows["train"] = 1001 }},
				{"their tokenizers differ: coder-1.5 (00000871f44c); k3 (73300871f44c)", mapped(func(m *teacherMap) { m.Teachers[1].TokenizerSHA256 = other })},
				{"student.max_length", func(in *Input) { in.Student.MaxLength = 0 }},
			})
		})
	}
}

func TestOnPolicyServersAreAddresses(t *testing.T) {
	for _, bad := range []string{"k3:8000", "ftp://k3", "http://user:secret@k3", "http://k3?key=secret", "http://"} {
		in := routed("teacher_id", "parquet")()
		mapped(func(m *teacherMap) { m.Teachers[0].ScoreURL = bad })(&in)
		if _, err := Render(TrainerTRL, MethodOPD, in); err == nil || !strings.Contains(err.Error(), "no plain http or https address") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v", bad, err)
		}
	}
}

// lone leaves one teacher, which owns everything.
var lone = mapped(func(m *teacherMap) {
	m.Teachers[0].Cells = append(m.Teachers[0].Cells, m.Teachers[1].Cells...)
	m.Teachers = m.Teachers[:1]
})

func TestSlimeHasOneTeacher(t *testing.T) {
	input := func() Input {
		in := routed("metadata", "jsonl")()
		in.Command = []string{"python3", "/root/slime/train.py", "{args}"}
		return in
	}
	in := input()
	lone(&in)
	goldenWhole(t, "slime-opd", mustRender(t, TrainerSlime, "", in))
	refuses(t, TrainerSlime, "", input, []refusal{{"asks one teacher for all prompts, and these have 2", func(*Input) {}}})
}

func TestVerlTeachers(t *testing.T) {
	in := routed("data_source", "parquet")()
	lone(&in)
	in.Params = map[string]any{"distillation.teacher_models.teacher_model.inference.tensor_model_parallel_size": 4, "data.max_response_length": 30000}
	r := mustRender(t, TrainerVerl, MethodOPD, in)
	for _, want := range []string{"n_gpus_per_node: 4\n", "max_prompt_length: 2768\n", "response_length: 30000\n", "max_model_len: 32769\n", "    teacher_model:\n"} {
		if !strings.Contains(string(r.Files[0].Data), want) {
			t.Errorf("no %q in:\n%s", want, r.Files[0].Data)
		}
	}
	refuses(t, TrainerVerl, MethodOPD, routed("data_source", "parquet"), []refusal{
		{"would have one name in verl", mapped(func(m *teacherMap) { m.Teachers[0].Tag = "coder-1_5" })},
		{"are not the 2 that the teachers take", params("distillation.n_gpus_per_node", 8)},
		{"don't spread evenly over 3 nodes", params("distillation.nnodes", 3)},
		{"leaves nothing", params("data.max_response_length", 40000)},
		{"model_path can't be set", params("distillation.teacher_models.t_k3.model_path", "x")},
		{"rows would be left out", params("data.filter_overlong_prompts", true)},
		{"did you mean", params("distillation.teacher_models.t_k3.num_replica", 2)},
	})
	if _, err := Render(TrainerVerl, MethodOPD, func() Input {
		in := routed("data_source", "parquet")()
		in.Params = map[string]any{"distillation": map[string]any{"teacher_models.t_k3": map[string]any{"num_replicas": 3, "inference.tensor_model_parallel_size": 2}}}
		return in
	}()); err != nil {
		t.Error(err)
	}
}

func TestOnPolicyRefuses(t *testing.T) {
	refuses(t, TrainerTRL, MethodOPD, routed("teacher_id", "parquet"), []refusal{
		{"score_url in the recipe", params("teacher_server_urls", map[string]any{})},
		{"student.max_length", params("token_budget", 1)},
	})
	refuses(t, TrainerSwift, MethodOPD, routed("teacher", "parquet"), []refusal{
		{"params.lmbda", params("lmbda", 0)},
		{"params.teacher_tag_key", params("teacher_tag_key", "dataset")},
	})
	refuses(t, TrainerNeMoRL, MethodOPD, routed("agent_ref", "jsonl"), []refusal{
		{"an agent for each teacher, called k3, coder-1.5", func(*Input) {}},
		{"make no whole batches", params("env.nemo_gym.config_paths", []any{"a"}, "policy.train_global_batch_size", 7)},
		{"names no /FOLDER", func(in *Input) { in.Command = []string{"python", "x.py"} }},
		{"knows no such key", params("on_policy_distillation.default_teacher_alias", "k3")},
		{"knows no such key", params("on_policy_distillation.strict_agent_name_match", false)},
	})
	refuses(t, TrainerMiles, "", routed("metadata", "jsonl"), []refusal{
		{"needs a command", func(*Input) {}},
		{"needs a command", func(in *Input) { in.Command = []string{"python3", "train.py", "{args}", "--x"} }},
		{"called default", mapped(func(m *teacherMap) { m.Teachers[0].Tag = "default" })},
		{"WANDB_API_KEY", params("wandb-key", "x")},
	})
	for key := range milesOurs {
		if !slices.Contains(keysOf("miles-opd"), key) {
			t.Errorf("%s is guarded, but miles has no such argument", key)
		}
	}
}
