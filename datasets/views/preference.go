package views

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

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

// pairFiles are the files of one split's pairs.
func pairFiles(m *catalog.Manifest, split string) []catalog.FileRef {
	var out []catalog.FileRef
	for _, f := range m.TableFiles(datasets.TablePairs) {
		if f.Split == split {
			out = append(out, f)
		}
	}
	return out
}
