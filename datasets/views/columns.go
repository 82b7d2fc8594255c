package views

import (
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A MessageOf is one turn, in the shape of the chat-completions protocol. A is
// what the arguments of its tool calls are: string, or JSON.
//
// The keys are always these. Chat templates ask whether a key has a value, and
// TRL removes nulls before it applies a template, so what a message does not
// have is null here, tool_calls too: an empty list would be left in and makes
// templates that test for the key write an empty call.
type MessageOf[A string | JSON] struct {
	Role             string          `json:"role" parquet:"role,dict"`
	Content          *string         `json:"content" parquet:"content,optional"`
	ReasoningContent *string         `json:"reasoning_content" parquet:"reasoning_content,optional"`
	ToolCalls        []ToolCallOf[A] `json:"tool_calls" parquet:"tool_calls,list,optional"`
	ToolCallID       *string         `json:"tool_call_id" parquet:"tool_call_id,optional"`
	Name             *string         `json:"name" parquet:"name,optional"`
	// Train tells whether the loss sees this turn. It is null in all turns of a
	// row of which every assistant turn is trained and no other is, which is
	// what trainers do by themselves.
	Train *bool `json:"train" parquet:"train,optional"`
}

// A ThinkingMessageOf is a MessageOf for templates that read the reasoning from
// the key thinking, as that of gpt-oss.
type ThinkingMessageOf[A string | JSON] struct {
	Role       string          `json:"role" parquet:"role,dict"`
	Content    *string         `json:"content" parquet:"content,optional"`
	Thinking   *string         `json:"thinking" parquet:"thinking,optional"`
	ToolCalls  []ToolCallOf[A] `json:"tool_calls" parquet:"tool_calls,list,optional"`
	ToolCallID *string         `json:"tool_call_id" parquet:"tool_call_id,optional"`
	Name       *string         `json:"name" parquet:"name,optional"`
	Train      *bool           `json:"train" parquet:"train,optional"`
}

// A ToolCallOf is a call that an assistant message makes.
type ToolCallOf[A string | JSON] struct {
	ID       string        `json:"id" parquet:"id"`
	Type     string        `json:"type" parquet:"type,dict"`
	Function FunctionOf[A] `json:"function" parquet:"function"`
}

// A FunctionOf is what a call calls.
type FunctionOf[A string | JSON] struct {
	Name      string `json:"name" parquet:"name"`
	Arguments A      `json:"arguments" parquet:"arguments"`
}

// The forms of the defaults.
type (
	Message  = MessageOf[string]
	ToolCall = ToolCallOf[string]
	Function = FunctionOf[string]
)

// Kwargs are what a row gives to its chat template.
type Kwargs struct {
	ReasoningEffort string `json:"reasoning_effort" parquet:"reasoning_effort,dict"`
}

// kwargs are those of a row of that effort. Templates take a key that is null
// for a value, so an effort that is none can't be given.
func kwargs(effort string) (Kwargs, error) {
	if effort == noEffort || effort == "" {
		return Kwargs{}, unfit("its effort is %q, which is no argument of a chat template; take --effort column", noEffort)
	}
	return Kwargs{ReasoningEffort: effort}, nil
}

// effortColumn is the column effort: null unless the options want it.
func effortColumn(effort string, opt *Options) *string {
	if opt.Effort != EffortColumn || effort == "" {
		return nil
	}
	return &effort
}

func toolCalls[A string | JSON](calls []chat.ToolCall) ([]ToolCallOf[A], error) {
	if len(calls) == 0 {
		return nil, nil
	}
	out := make([]ToolCallOf[A], len(calls))
	for i, c := range calls {
		arguments, err := jsonOf[A]("the arguments of a call of "+c.Name, c.Arguments, '{')
		if err != nil {
			return nil, err
		}
		out[i] = ToolCallOf[A]{ID: c.ID, Type: c.Type, Function: FunctionOf[A]{Name: c.Name, Arguments: arguments}}
	}
	return out, nil
}

// toolsOf is the declaration of a row's tools; nil for none.
func toolsOf[A string | JSON](tools *string) (*A, error) {
	if tools == nil {
		return nil, nil
	}
	out, err := jsonOf[A]("the declarations of its tools", *tools, '[')
	return &out, err
}

// A turnOf makes a turn of a view; train is null where trainers do right by
// themselves.
type turnOf[M any] func(m *chat.Message, train *bool) (M, error)

func messageOf[A string | JSON](m *chat.Message, train *bool) (MessageOf[A], error) {
	calls, err := toolCalls[A](m.ToolCalls)
	return MessageOf[A]{
		Role: m.Role, Content: m.Content, ReasoningContent: m.ReasoningContent,
		ToolCalls: calls, ToolCallID: m.ToolCallID, Name: m.Name, Train: train,
	}, err
}

func thinkingOf[A string | JSON](m *chat.Message, train *bool) (ThinkingMessageOf[A], error) {
	calls, err := toolCalls[A](m.ToolCalls)
	return ThinkingMessageOf[A]{
		Role: m.Role, Content: m.Content, Thinking: m.ReasoningContent,
		ToolCalls: calls, ToolCallID: m.ToolCallID, Name: m.Name, Train: train,
	}, err
}

// turnsOf makes turns of messages. marked says whether each tells if it is
// trained.
func turnsOf[M any](messages []chat.Message, turn turnOf[M], marked bool) ([]M, error) {
	out := make([]M, len(messages))
	for i := range messages {
		var train *bool
		if marked {
			train = &messages[i].Train
		}
		var err error
		if out[i], err = turn(&messages[i], train); err != nil {
			return nil, err
		}
	}
	return out, nil
}
