package views

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// The views that verl reads: for supervised fine-tuning, and for reinforcement
// learning on the prompts with their reference answers.
const (
	ViewVerl   = "verl"
	ViewVerlRL = "verl_rl"
)

func init() {
	register(View{
		Name: ViewVerl, Summary: "verl, supervised fine-tuning: messages_key messages",
		Reads:     Rows,
		Reasoning: []string{ReasoningInline, ReasoningDrop},
		Effort:    []string{EffortColumn, EffortSystem, EffortNone},
		Images:    []string{ImagesRefuse, ImagesColumn},
		Shape: func(opt *Options) (Shape, error) {
			prose := "`messages` holds the prompt and, last, the answer. " + proseOf(opt)
			plain := func(r *datasets.Row) (Verl, error) {
				out, err := verl(r, opt)
				return out, of("sample", r.SampleID, err)
			}
			if opt.Images != ImagesColumn { // verl asks for a processor where there is a column
				return Of(prose, plain), nil
			}
			return Of(prose, func(r *datasets.Row) (VerlImages, error) {
				out, err := plain(r)
				return VerlImages{out, imagesOf(r.Images)}, err
			}), nil
		},
	})
	register(View{
		Name: ViewVerlRL, Summary: "verl, reinforcement learning: prompts with reference answers",
		Reads:  Prompts,
		Effort: []string{EffortColumn, EffortSystem, EffortNone},
		Images: []string{ImagesRefuse, ImagesColumn},
		Source: true,
		Shape: func(opt *Options) (Shape, error) {
			prose := "`prompt` is what the student is asked, `reward_model.ground_truth` the reference answer, and where there is none the tests, as JSON text. `data_source` names the reward function, `ability` the domain. `extra_info` holds what joins the row with the other tables; its tools are JSON text."
			return Of(prose, func(r *datasets.PromptRow) (VerlPrompt, error) {
				if r.Status != datasets.StatusClean {
					return VerlPrompt{}, errElsewhere
				}
				out, err := verlPrompt(r, opt)
				return out, of("task", r.TaskID, err)
			}), nil
		},
	})
}

// A VerlTurn is a turn with its text. verl gives the keys of a turn to the chat
// template as they are, so there is none that may be null.
type VerlTurn struct {
	Role    string `json:"role" parquet:"role,dict"`
	Content string `json:"content" parquet:"content"`
}

// A Verl is a row of the verl view
// (verl/utils/dataset/multiturn_sft_dataset.py, 0.9.1).
type Verl struct {
	Messages  []VerlTurn   `json:"messages" parquet:"messages,list"`
	Effort    *string      `json:"effort" parquet:"effort,optional,dict"`
	ExtraInfo VerlSFTExtra `json:"extra_info" parquet:"extra_info"`
}

// VerlImages is a Verl with images; a text has <image> in the place of each.
type VerlImages struct {
	Verl
	ImageColumn
}

// VerlSFTExtra joins a row with the version's tables.
type VerlSFTExtra struct {
	TaskID   string `json:"task_id" parquet:"task_id"`
	SampleID string `json:"sample_id" parquet:"sample_id"`
	Domain   string `json:"domain" parquet:"domain,dict"`
	Teacher  string `json:"teacher" parquet:"teacher,dict"`
}

// verl shapes one row. verl trains every turn of the assistant, and gives tools
// to the chat template as they stand in the column: as text they would be taken
// apart by letters, and as a struct they would have the keys of all.
func verl(r *datasets.Row, opt *Options) (Verl, error) {
	out := Verl{
		Effort:    effortColumn(r.Effort, opt),
		ExtraInfo: VerlSFTExtra{TaskID: r.TaskID, SampleID: r.SampleID, Domain: r.Domain, Teacher: r.Teacher},
	}
	if err := noImages(r.Images, opt); err != nil {
		return out, err
	}
	if r.Tools != nil {
		return out, unfit("it declares tools, which verl reads from a column that would give each the keys of all")
	}
	if !trainedAsUsual(r.Messages) {
		return out, unfit("it trains %s, and verl all turns of the assistant", trainedWords(r.Messages))
	}
	messages, err := prepared(r.Messages, r.Effort, opt)
	if err != nil {
		return out, err
	}
	out.Messages, err = verlTurns(r.Images, messages)
	return out, err
}

func verlTurns(images []datasets.Image, messages []chat.Message) ([]VerlTurn, error) {
	if err := placeholders(images, messages); err != nil {
		return nil, err
	}
	out := make([]VerlTurn, len(messages))
	for i := range messages {
		if len(messages[i].ToolCalls) > 0 {
			return nil, unfit("it calls tools, which verl's messages have no place for")
		}
		out[i] = VerlTurn{Role: messages[i].Role, Content: text(&messages[i])}
	}
	if len(out) == 0 {
		return nil, unfit("it has no turns")
	}
	return out, nil
}

// A VerlPrompt is a row of the verl_rl view (verl/utils/dataset/rl_dataset.py,
// 0.9.1).
type VerlPrompt struct {
	DataSource  string     `json:"data_source" parquet:"data_source,dict"`
	Prompt      []VerlTurn `json:"prompt" parquet:"prompt,list"`
	Ability     string     `json:"ability" parquet:"ability,dict"`
	RewardModel VerlReward `json:"reward_model" parquet:"reward_model"`
	ExtraInfo   VerlExtra  `json:"extra_info" parquet:"extra_info"`
	ImageColumn
}

// A VerlReward is what an answer is held to.
type VerlReward struct {
	Style       string `json:"style" parquet:"style,dict"` // rule
	GroundTruth string `json:"ground_truth" parquet:"ground_truth"`
}

// VerlExtra is what a reward function may want beside.
type VerlExtra struct {
	// Index tells prompts apart: 63 bits of SHA-256 over the task's id, so
	// that it is the same in every version.
	Index  int64   `json:"index" parquet:"index"`
	Split  string  `json:"split" parquet:"split,dict"`
	TaskID string  `json:"task_id" parquet:"task_id"`
	Effort *string `json:"effort" parquet:"effort,optional,dict"`
	Tests  *string `json:"tests" parquet:"tests,optional"` // JSON text
	Tools  *string `json:"tools" parquet:"tools,optional"` // JSON text
}

func verlPrompt(r *datasets.PromptRow, opt *Options) (VerlPrompt, error) {
	sum := sha256.Sum256([]byte(r.TaskID))
	out := VerlPrompt{
		DataSource: opt.DataSource, Ability: r.Domain, RewardModel: VerlReward{Style: "rule"}, ImageColumn: imagesOf(r.Images),
		ExtraInfo: VerlExtra{
			Index: int64(binary.BigEndian.Uint64(sum[:8]) >> 1), Split: r.Split, TaskID: r.TaskID,
			Effort: effortColumn(r.Effort, opt), Tests: r.Tests, Tools: r.Tools,
		},
	}
	if err := noImages(r.Images, opt); err != nil {
		return out, err
	}
	switch {
	case r.Gold != nil:
		out.RewardModel.GroundTruth = *r.Gold
	case r.Tests != nil:
		out.RewardModel.GroundTruth = *r.Tests
	default:
		return out, unfit("it has no reference answer and no tests to be rewarded by")
	}
	messages, err := prepared(r.Messages, r.Effort, opt)
	if err != nil {
		return out, err
	}
	out.Prompt, err = verlTurns(r.Images, messages)
	return out, err
}
