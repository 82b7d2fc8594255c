package views

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// A teacherTagged is a RoutedPrompt with the teacher under teacher_id, too.
type teacherTagged struct {
	RoutedPrompt
	TeacherID string `json:"teacher_id" parquet:"teacher_id,dict"`
}

type teacherImages struct {
	teacherTagged
	ImageColumn
}

// A metadataTagged is a RoutedPrompt with what miles and slime keep of a sample
// beside its prompt.
type metadataTagged struct {
	RoutedPrompt
	Metadata OPDMetadata `json:"metadata" parquet:"metadata"`
}

// OPDMetadata names the teacher that scores a sample, as miles looks for it
// unless --opd-teacher-key says otherwise.
type OPDMetadata struct {
	OPDTeacher string `json:"opd_teacher" parquet:"opd_teacher,dict"`
	Domain     string `json:"domain" parquet:"domain,dict"`
	Effort     string `json:"effort" parquet:"effort,dict"`
	TaskID     string `json:"task_id" parquet:"task_id"`
}

// A VerlRouted is a prompt as verl reads it for distillation from several
// teachers: the teacher is its data_source.
type VerlRouted struct {
	DataSource  string          `json:"data_source" parquet:"data_source,dict"`
	Prompt      []VerlTurn      `json:"prompt" parquet:"prompt,list"`
	Ability     string          `json:"ability" parquet:"ability,dict"`
	RewardModel VerlReward      `json:"reward_model" parquet:"reward_model"`
	ExtraInfo   VerlRoutedExtra `json:"extra_info" parquet:"extra_info"`
	Domain      string          `json:"domain" parquet:"domain,dict"`
	Effort      string          `json:"effort" parquet:"effort,dict"`
	Teacher     string          `json:"teacher" parquet:"teacher,dict"`
	Gold        *string         `json:"gold" parquet:"gold,optional"`
	Tests       *string         `json:"tests" parquet:"tests,optional"`
	Tools       *string         `json:"tools" parquet:"tools,optional"`
	TaskID      string          `json:"task_id" parquet:"task_id"`
	PromptID    string          `json:"prompt_id" parquet:"prompt_id"`
}

// A VerlRoutedExtra is a VerlExtra of a prompt that may have no reward.
type VerlRoutedExtra struct {
	Index  int64  `json:"index" parquet:"index"`
	TaskID string `json:"task_id" parquet:"task_id"`
}

// A ResponsesInput is what NeMo Gym asks a model, by the Responses API.
type ResponsesInput struct {
	Input []VerlTurn `json:"input" parquet:"input,list"`
}

func responsesInput(r *datasets.PromptRow) (ResponsesInput, error) {
	if r.Tools != nil { // an agent of NeMo Gym declares those of its own environment
		return ResponsesInput{}, of("task", r.TaskID, unfit("it declares tools, and an agent of NeMo Gym has its own"))
	}
	turns, err := verlTurns(nil, r.Messages)
	return ResponsesInput{turns}, of("task", r.TaskID, err)
}

// routedForTrainers is the shape of the tags that each are for one trainer's
// own layout.
func routedForTrainers(tag string) (shape Shape, ok bool) {
	switch tag {
	case TagTeacherID:
		return withPlan(routedProse+" `teacher_id` repeats the teacher for trainers that look there.", func(p *plan, r *datasets.PromptRow) (teacherTagged, error) {
			out, err := p.routing.prompt(r)
			return teacherTagged{out, out.Teacher}, err
		}), true
	case TagMetadata:
		return withPlan(routedProse+" `metadata` repeats the teacher for trainers that look there.", func(p *plan, r *datasets.PromptRow) (metadataTagged, error) {
			out, err := p.routing.prompt(r)
			if err == nil && out.Tools != nil { // a key for tools must not be null, and no row may lack it
				err = of("task", r.TaskID, unfit("it declares tools, which miles and slime read of every row or of none"))
			}
			return metadataTagged{out, OPDMetadata{out.Teacher, out.Domain, out.Effort, out.TaskID}}, err
		}), true
	case TagDataSource:
		return withPlan(routedProse+" `data_source` repeats the teacher; `reward_model` holds the reference answer, or nothing where there is none.", func(p *plan, r *datasets.PromptRow) (VerlRouted, error) {
			out, err := p.routing.prompt(r)
			if err != nil {
				return VerlRouted{}, err
			}
			return verlRouted(r, &out)
		}), true
	}
	return Shape{}, false
}

func verlRouted(r *datasets.PromptRow, in *RoutedPrompt) (VerlRouted, error) {
	sum := sha256.Sum256([]byte(r.TaskID))
	out := VerlRouted{
		DataSource: in.Teacher, Ability: in.Domain, RewardModel: VerlReward{Style: "rule"},
		ExtraInfo: VerlRoutedExtra{Index: int64(binary.BigEndian.Uint64(sum[:8]) >> 1), TaskID: r.TaskID},
		Domain:    in.Domain, Effort: in.Effort, Teacher: in.Teacher, Gold: in.Gold, Tests: in.Tests, Tools: in.Tools,
		TaskID: in.TaskID, PromptID: in.PromptID,
	}
	switch {
	case in.Tools != nil: // verl gives the chat template those of its own configuration
		return out, of("task", r.TaskID, unfit("it declares tools, which verl does not read from a prompt"))
	case in.Gold != nil:
		out.RewardModel.GroundTruth = *in.Gold
	case in.Tests != nil:
		out.RewardModel.GroundTruth = *in.Tests
	}
	var err error
	out.Prompt, err = verlTurns(nil, r.Messages)
	return out, of("task", r.TaskID, err)
}
