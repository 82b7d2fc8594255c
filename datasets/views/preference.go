package views

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// ViewPreference is the view of preference pairs: prompt, chosen and rejected,
// what TRL's DPO, reward and similar trainers read.
const ViewPreference = "preference"

func init() {
	register(View{
		Name: ViewPreference, Summary: "preference pairs: TRL's DPO, reward and similar trainers",
		Reads: Pairs,
		Shape: func(*Options) (Shape, error) {
			return Of("`prompt` holds the conversation before the two answers, `chosen` the better one and `rejected` the other. Where `cross_teacher` is true they are of two teachers, and differ in style too. What a message does not have is null. `tools` and the arguments of tool calls are JSON text.", preference), nil
		},
	})
}

// A Preference is a row of the preference view, in the conversational form with
// an explicit prompt. The columns are always these, as in a Conversation.
type Preference struct {
	Prompt       []Message `json:"prompt" parquet:"prompt,list"`
	Chosen       []Message `json:"chosen" parquet:"chosen,list"`
	Rejected     []Message `json:"rejected" parquet:"rejected,list"`
	Tools        *string   `json:"tools" parquet:"tools,optional"`
	Margin       *float64  `json:"margin" parquet:"margin,optional"`
	CrossTeacher bool      `json:"cross_teacher" parquet:"cross_teacher"`
}

// preference shapes one pair. Images are not part of this view.
func preference(p *datasets.Pair) (Preference, error) {
	if len(p.Images) > 0 {
		return Preference{}, fmt.Errorf("%w: task %s has %d images and view %s holds text alone", ErrUnsupported, p.TaskID, len(p.Images), ViewPreference)
	}
	return Preference{
		Prompt: turns(p.Prompt), Chosen: turns(p.Chosen), Rejected: turns(p.Rejected), Tools: p.Tools,
		Margin: p.Margin, CrossTeacher: p.CrossTeacher,
	}, nil
}

// turns are messages in the shape of views.
func turns(messages []chat.Message) []Message {
	out := make([]Message, len(messages))
	for i, m := range messages {
		out[i] = Message{
			Role: m.Role, Content: m.Content, ReasoningContent: m.ReasoningContent,
			ToolCalls: toolCalls(m.ToolCalls), ToolCallID: m.ToolCallID, Name: m.Name,
		}
	}
	return out
}
