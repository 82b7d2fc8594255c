package render

import (
	_ "embed"
	"errors"
	"fmt"

	"github.com/stillhouse-data/stillhouse/training"
)

//go:embed trl_opd.py.tmpl
var trlOPDScript []byte

func init() {
	register(Renderer{
		Trainer: TrainerTRL, Method: MethodOPD, For: trlFor, Package: "trl",
		Summary: "on-policy distillation from one or several teachers' servers, by AsyncDistillation",
		Views:   []ViewSpec{{Name: routedView, Tag: "teacher_id", TrainOnly: true}},
		Render:  trlOPD,
	})
}

// trlOPD renders on-policy distillation by TRL: teacher_id of a prompt is the
// key of its teacher in teacher_server_urls.
func trlOPD(in Input) (*training.Rendered, error) {
	if err := trlCan(in); err != nil {
		return nil, err
	}
	if in.Student.MaxLength < 2 {
		return nil, errors.New("set student.max_length: it bounds what the student writes, of which trl's default is 2048 tokens")
	}
	if err := ownTemplate(in, "trl"); err != nil {
		return nil, err
	}
	m, err := routingOf(in, "teacher_id")
	if err != nil {
		return nil, err
	}
	vocabulary, err := m.oneVocabulary("trl")
	if err != nil {
		return nil, err
	}
	servers, err := m.urls("trl", "")
	if err != nil {
		return nil, err
	}
	urls := map[string]any{}
	for tag, url := range servers {
		urls[tag] = url
	}
	values := with(trlCommon(in), map[string]any{
		"teacher_server_urls":   urls,
		"max_completion_length": half(in),
		"token_budget":          int64(in.Student.MaxLength),
		"temperature":           1.0,
		"top_p":                 1.0,
		"top_k":                 int64(0),
		"beta":                  0.0,
		"teacher_temperature":   1.0,
		"teacher_top_k":         int64(20), // what vLLM gives where it was not told to give more
		"add_tail_bucket":       true,
		"vllm_server_base_url":  "http://localhost:8000",
		"dtype":                 "float32", // trl's default, as the next one
		"learning_rate":         1e-6,
	})
	delete(values, "max_length") // of rows; here a token_budget holds
	r := trlRules(MethodOPD)
	r.unknown = "its parser ends at one"
	r.ours = with(r.ours, map[string]string{
		"teacher_server_urls": "it is each teacher's score_url in the recipe",
		"token_budget":        "it is the recipe's student.max_length",
	})
	delete(r.ours, "max_length")
	if err := r.apply(values, in.Params); err != nil {
		return nil, err
	}
	onCPU(values, in.Params)
	notes := append(m.notes(in, vocabulary),
		fmt.Sprintf("trl leaves out a prompt and answer of more than %d tokens together, and answers that are more than max_staleness steps old", in.Student.MaxLength),
		"each teacher's vLLM has to run with --logprobs-mode processed_logprobs and --max-logprobs -1, and the student's own is at vllm_server_base_url",
		"declarations of tools are not shown to the student",
		MethodOPD+" is experimental in trl: a later release may change it",
	)
	config, name := trlConfig(MethodOPD), training.ConfigDir+"/trl/opd.py"
	return trlFile(in, trlData{
		config: config, columns: []string{"prompt", "teacher_id"}, values: values, notes: notes,
		command: []string{"python3", name, "--config", config},
		beside:  []training.File{{Name: name, Data: trlOPDScript}},
	})
}
