package render

import (
	"encoding/json"
	"errors"

	"github.com/stillhouse-data/stillhouse/training"
)

func init() {
	register(Renderer{
		Trainer: TrainerSwift, Method: MethodOPD, For: swiftFor, Package: "ms-swift",
		Summary: "on-policy distillation from one or several teachers' servers, by swift rlhf (gkd)",
		// ms-swift writes the file's name into a column dataset, where it looks for
		// the teacher by default: the view's own column teacher is named instead.
		Views:  []ViewSpec{{Name: routedView, TrainOnly: true}},
		Render: swiftOPD,
	})
}

// swiftOPD renders on-policy distillation by ms-swift: the teachers' servers
// with their tags, and the column that has a prompt's.
func swiftOPD(in Input) (*training.Rendered, error) {
	values, err := swiftCommon(in)
	if err != nil {
		return nil, err
	}
	if in.Student.MaxLength < 2 {
		return nil, errors.New("set student.max_length: it bounds what the student writes, of which ms-swift's default is 512 tokens")
	}
	m, err := routingOf(in, "teacher")
	if err != nil {
		return nil, err
	}
	vocabulary, err := m.oneVocabulary("ms-swift")
	if err != nil {
		return nil, err
	}
	urls, err := m.urls("ms-swift", "")
	if err != nil {
		return nil, err
	}
	type server struct {
		URL  string   `json:"url"`
		Tags []string `json:"tags"`
	}
	var servers []server
	for _, t := range m.Teachers {
		servers = append(servers, server{urls[t.Tag], []string{t.Tag}})
	}
	text, err := json.Marshal(servers)
	if err != nil {
		return nil, err
	}
	delete(values, "lazy_tokenize")
	values = with(values, map[string]any{
		"rlhf_type":             "gkd",
		"columns":               `{"prompt": "messages"}`,
		"teacher_model_server":  string(text),
		"teacher_tag_key":       "teacher",
		"gkd_logits_topk":       int64(20), // what vLLM gives where it was not told to give more (max_logprobs)
		"lmbda":                 1.0,       // every step on what the student writes
		"beta":                  1.0,       // reverse KL
		"sft_alpha":             0.0,
		"temperature":           1.0,
		"max_completion_length": half(in),
		"truncation_strategy":   "left",
		"learning_rate":         1e-6,
	})
	if _, set := in.Params["lmbda"]; set {
		return nil, errors.New("params.lmbda can't be set: the prompts have no answers to train on, so that every step is on what the student writes")
	}
	if _, set := in.Params["teacher_tag_key"]; set {
		return nil, errors.New("params.teacher_tag_key can't be set: it names the view's column")
	}
	notes := append(m.notes(in, vocabulary), "the loss sees the likeliest tokens that a teacher's server gives (gkd_logits_topk), not its whole distribution")
	return swiftFile(in, MethodOPD, "rlhf", values, notes)
}
