package views

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// ViewMessages is the view of conversations: what TRL, NeMo-RL and OpenRLHF
// read for supervised fine-tuning.
const ViewMessages = "messages"

func init() {
	register(View{
		Name: ViewMessages, Summary: "conversations: TRL, NeMo-RL, OpenRLHF",
		Reads: Rows,
		Shape: func(*Options) (Shape, error) {
			return Of("`messages` holds the prompt and, last, the answer, with the reasoning in `reasoning_content`. What a message does not have is null. `tools` and the arguments of tool calls are JSON text.", conversation), nil
		},
	})
}

// A Conversation is a row of the messages view: the prompt and, last, the
// answer.
//
// The columns are always these. Chat templates ask whether a key has a value,
// and TRL removes nulls before it applies a template, so what a message does
// not have is null here, tool_calls too: an empty list would be left in and
// makes templates that test for the key write an empty call. Tools and
// arguments are JSON text, encoded once, since a struct that fits all of them
// would have the keys of all.
type Conversation struct {
	Messages []Message `json:"messages" parquet:"messages,list"`
	Tools    *string   `json:"tools" parquet:"tools,optional"`
}

// A Message is one turn, in the shape of the chat-completions protocol.
type Message struct {
	Role             string     `json:"role" parquet:"role,dict"`
	Content          *string    `json:"content" parquet:"content,optional"`
	ReasoningContent *string    `json:"reasoning_content" parquet:"reasoning_content,optional"`
	ToolCalls        []ToolCall `json:"tool_calls" parquet:"tool_calls,list,optional"`
	ToolCallID       *string    `json:"tool_call_id" parquet:"tool_call_id,optional"`
	Name             *string    `json:"name" parquet:"name,optional"`
	// Train tells whether the loss sees this turn. It is null in all turns of a
	// row of which every assistant turn is trained and no other is, which is
	// what trainers do by themselves.
	Train *bool `json:"train" parquet:"train,optional"`
}

// A ToolCall is a call that an assistant message makes.
type ToolCall struct {
	ID       string   `json:"id" parquet:"id"`
	Type     string   `json:"type" parquet:"type,dict"`
	Function Function `json:"function" parquet:"function"`
}

// A Function is what a ToolCall calls. Arguments is JSON text.
type Function struct {
	Name      string `json:"name" parquet:"name"`
	Arguments string `json:"arguments" parquet:"arguments"`
}

// conversation shapes one row. Images are not part of this view, so a row that
// has some is refused rather than given without them.
func conversation(r *datasets.Row) (Conversation, error) {
	if len(r.Images) > 0 {
		return Conversation{}, fmt.Errorf("%w: sample %s has %d images and view %s holds text alone", ErrUnsupported, r.SampleID, len(r.Images), ViewMessages)
	}
	c := Conversation{Messages: turns(r.Messages), Tools: r.Tools}
	if !trainedAsUsual(r.Messages) {
		for i := range r.Messages {
			c.Messages[i].Train = &r.Messages[i].Train
		}
	}
	return c, nil
}

// trainedAsUsual tells whether the loss sees every turn of the assistant and no
// other, as in most rows. Where the prompt is a history, its assistant's turns
// are no teacher's, and such a row says so.
func trainedAsUsual(messages []chat.Message) bool {
	for i := range messages {
		if messages[i].Train != (messages[i].Role == chat.RoleAssistant) {
			return false
		}
	}
	return true
}

func toolCalls(calls []chat.ToolCall) []ToolCall {
	if len(calls) == 0 {
		return nil
	}
	out := make([]ToolCall, len(calls))
	for i, c := range calls {
		out[i] = ToolCall{ID: c.ID, Type: c.Type, Function: Function{Name: c.Name, Arguments: c.Arguments}}
	}
	return out
}
