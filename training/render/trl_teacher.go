package render

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"text/template"

	"github.com/stillhouse-data/stillhouse/training"
)

// Methods that learn from the distribution of one teacher whose weights are
// loaded beside the student's.
const (
	MethodGKD  = "gkd"  // generalised knowledge distillation, one vocabulary
	MethodGOLD = "gold" // the same over two vocabularies
)

func init() {
	for method, render := range map[string]func(Input) (*training.Rendered, error){MethodGKD: trlGKD, MethodGOLD: trlGOLD} {
		register(Renderer{
			Trainer: TrainerTRL, Method: method, For: trlFor, Package: "trl",
			Summary: "distillation from one teacher's weights, by trl.experimental." + method,
			Views:   []ViewSpec{{Name: "messages"}}, Render: render,
		})
	}
}

// trlTeacherScript starts a method for which TRL has no command.
//
//go:embed trl_teacher.py.tmpl
var trlTeacherText string

var trlTeacherScript = template.Must(template.New("trl").Parse(trlTeacherText))

// oneTeacher is the teacher whose weights a method loads. It must have written
// every row: another's answers would be judged by a model that did not give
// them.
func oneTeacher(in Input, trainer, method string) (Teacher, error) {
	var wrote []Teacher
	for _, t := range in.Teachers {
		if t.Rows > 0 {
			wrote = append(wrote, t)
		}
	}
	switch {
	case len(wrote) == 0:
		return Teacher{}, fmt.Errorf("%s %s learns from a teacher's weights, and the version names no teacher with rows", trainer, method)
	case len(wrote) > 1:
		return Teacher{}, fmt.Errorf("%s %s takes the weights of one teacher, and the rows are of %d, %s and %s among them: build a dataset of one of them, or train with method sft", trainer, method, len(wrote), wrote[0].ID, wrote[1].ID)
	case wrote[0].Weights == "":
		return Teacher{}, fmt.Errorf("%s %s compares the student with the teacher's own weights, and those of %s are not at hand: an API gives no logits over the vocabulary. Name their repository as the teacher's weights in the recipe, or train with method sft", trainer, method, wrote[0].ID)
	}
	return wrote[0], nil
}

// trlTeacher are the keys that GKD and GOLD share.
func trlTeacher(in Input, method string) (map[string]any, Teacher, error) {
	if err := trlCan(in); err != nil {
		return nil, Teacher{}, err
	}
	teacher, err := oneTeacher(in, "trl", method)
	if err != nil {
		return nil, Teacher{}, err
	}
	if in.Student.MaxLength < 2 {
		return nil, Teacher{}, fmt.Errorf("set student.max_length: without one, trl %s cuts every row at 1,024 tokens", method)
	}
	values := with(trlCommon(in), map[string]any{
		"teacher_model_name_or_path": teacher.Weights,
		"teacher_model_init_kwargs":  map[string]any{"dtype": "auto"},
		"shuffle_dataset":            true,
		"packing":                    false,
		"assistant_only_loss":        false, // the collator masks; a template without marks is no obstacle
		"completion_only_loss":       false,
		"beta":                       0.5,
		"lmbda":                      0.5,
		"seq_kd":                     false,
		"temperature":                0.9,
		"disable_dropout":            true,
		"learning_rate":              2e-5,
	})
	if in.Student.ChatTemplate != "" {
		values["chat_template_path"] = in.Student.ChatTemplate
	}
	return values, teacher, nil
}

func trlGKD(in Input) (*training.Rendered, error) {
	values, teacher, err := trlTeacher(in, MethodGKD)
	if err != nil {
		return nil, err
	}
	values["max_new_tokens"] = int64(in.Student.MaxLength / 2) // trl's default of 128 ends most reasoning
	return trlTaught(in, MethodGKD, values, teacher, "gkd needs one vocabulary: trl ends where student and "+teacher.ID+" differ in its size, and method gold takes two")
}

func trlGOLD(in Input) (*training.Rendered, error) {
	values, teacher, err := trlTeacher(in, MethodGOLD)
	if err != nil {
		return nil, err
	}
	values["max_completion_length"] = int64(in.Student.MaxLength / 2)
	values["top_p"], values["top_k"] = 1.0, int64(0)
	values["num_generations"] = int64(1)
	values["use_vllm"] = false
	values["use_uld_loss"] = true
	values["teacher_tokenizer_name_or_path"] = teacher.Weights
	return trlTaught(in, MethodGOLD, values, teacher, "the tokens of "+teacher.ID+" are matched to the student's by their text (use_uld_loss); false where both have one tokenizer")
}

// trlTaught writes the configuration of a method with a teacher, and the
// script that starts it.
func trlTaught(in Input, method string, values map[string]any, teacher Teacher, note string) (*training.Rendered, error) {
	r := trlRules(method)
	r.unknown = "its parser ends at one"
	r.ours = with(r.ours, map[string]string{
		"teacher_model_name_or_path":     "it is the teacher's weights in the recipe",
		"teacher_tokenizer_name_or_path": "it is the teacher's weights in the recipe",
		"teacher_model_init_kwargs":      "it could name another model's weights",
	})
	if err := r.apply(values, in.Params); err != nil {
		return nil, err
	}
	onCPU(values, in.Params)
	if isTrue(values, "packing") {
		return nil, errors.New("params.packing: rows are not packed where a teacher is compared; leave it out")
	}
	var script bytes.Buffer
	if err := trlTeacherScript.Execute(&script, map[string]string{"For": trlFor, "Method": method, "Config": map[string]string{MethodGKD: "GKD", MethodGOLD: "GOLD"}[method]}); err != nil {
		return nil, err
	}
	notes := []string{
		note,
		"the loss sees the last turn of a row only, and declarations of tools are not shown to the model",
		"a share lmbda of the steps trains on what the student writes, of at most " + fmt.Sprint(in.Student.MaxLength/2) + " tokens by default; with lmbda 0 on the dataset's answers alone",
		overLength(in, "trl", fmt.Sprintf("cuts the start of a row, its prompt first, down to %d tokens", in.Student.MaxLength)),
		method + " is experimental in trl: a later release may change it",
	}
	config, name := trlConfig(method), training.ConfigDir+"/trl/"+method+".py"
	return trlFile(in, trlData{
		config: config, values: values, notes: notes, command: []string{"python3", name, "--config", config},
		beside: []training.File{{Name: name, Data: script.Bytes()}},
	})
}
