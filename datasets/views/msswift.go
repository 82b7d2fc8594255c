package views

import (
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// ViewSwift is the view of conversations for ms-swift.
const ViewSwift = "ms-swift"

func init() {
	register(View{
		Name: ViewSwift, Summary: "ms-swift, its own roles, loss by turn, channel by domain",
		Reads:     Rows,
		Reasoning: []string{ReasoningInline, ReasoningDrop},
		Effort:    []string{EffortNone, EffortKwargs, EffortSystem, EffortColumn},
		Images:    []string{ImagesRefuse, ImagesColumn},
		Shape: func(opt *Options) (Shape, error) {
			prose := "`messages` holds the prompt and, last, the answer. A call is a turn of the role tool_call: JSON text of its name and arguments. `loss` is null where every turn of the assistant is trained. `channel` is the domain, for losses by domain. "
			if opt.Effort == EffortKwargs {
				prose += "`chat_template_kwargs` holds the effort of the task. "
			}
			if opt.Reasoning == ReasoningInline {
				prose += "The reasoning stands before the content, between <" + opt.ThinkTag + "> and </" + opt.ThinkTag + ">."
			}
			return Of(prose, func(r *datasets.Row) (Swift, error) {
				out, err := swift(r, opt)
				return out, of("sample", r.SampleID, err)
			}), nil
		},
	})
}

// A Swift is a row of the ms-swift view (swift/dataset/preprocessor/core.py,
// 4.6).
type Swift struct {
	Messages []SwiftTurn `json:"messages" parquet:"messages,list"`
	Tools    *string     `json:"tools" parquet:"tools,optional"` // JSON text
	Channel  string      `json:"channel" parquet:"channel,dict"`
	Effort   *string     `json:"effort" parquet:"effort,optional,dict"`
	Kwargs   *Kwargs     `json:"chat_template_kwargs" parquet:"chat_template_kwargs,optional"`
	ImageColumn
}

// A SwiftTurn is a turn of a Swift, of the role system, user, assistant,
// tool_call or tool_response.
type SwiftTurn struct {
	Role    string `json:"role" parquet:"role,dict"`
	Content string `json:"content" parquet:"content"`
	// Loss tells whether the loss sees the turn; null where ms-swift does right
	// by itself, which trains every turn of the assistant.
	Loss *bool `json:"loss" parquet:"loss,optional"`
}

// swiftCall is the content of a turn tool_call.
type swiftCall struct {
	Name      string `json:"name"`
	Arguments JSON   `json:"arguments"`
}

// swift shapes one row.
func swift(r *datasets.Row, opt *Options) (Swift, error) {
	out := Swift{Tools: r.Tools, Channel: r.Domain, Effort: effortColumn(r.Effort, opt), ImageColumn: imagesOf(r.Images)}
	if err := noImages(r.Images, opt); err != nil {
		return out, err
	}
	if opt.Effort == EffortKwargs && r.Effort != noEffort && r.Effort != "" {
		out.Kwargs = &Kwargs{ReasoningEffort: r.Effort}
	}
	if r.Tools != nil && !isJSON(*r.Tools, '[') {
		return out, unfit("the declarations of its tools are no JSON list")
	}
	messages, err := prepared(r.Messages, r.Effort, opt)
	if err != nil {
		return out, err
	}
	if err := placeholders(r.Images, messages); err != nil {
		return out, err
	}
	marked := !trainedAsUsual(r.Messages)
	for i := range messages {
		turns, err := swiftTurns(&messages[i], i)
		if err != nil {
			return out, err
		}
		for _, t := range turns {
			if marked && messages[i].Role == chat.RoleAssistant {
				t.Loss = &messages[i].Train
			} else if messages[i].Train && messages[i].Role != chat.RoleAssistant {
				return out, unfit("it trains a turn of role %q, and ms-swift those of the assistant alone", messages[i].Role)
			}
			out.Messages = append(out.Messages, t)
		}
	}
	if len(out.Messages) == 0 {
		return out, unfit("it has no turns")
	}
	return out, nil
}

// swiftTurns are the turns that a message makes: a call is one of its own,
// after the text.
func swiftTurns(m *chat.Message, i int) ([]SwiftTurn, error) {
	switch {
	case m.Role == chat.RoleSystem && i > 0:
		return nil, unfit("turn %d is of role %q, and ms-swift takes a system text in the first place alone", i+1, m.Role)
	case m.Role == chat.RoleTool:
		return []SwiftTurn{{Role: "tool_response", Content: text(m)}}, nil
	case m.Role == chat.RoleSystem, m.Role == chat.RoleUser:
		return []SwiftTurn{{Role: m.Role, Content: text(m)}}, nil
	case m.Role != chat.RoleAssistant:
		return nil, unfit("turn %d is of role %q, which ms-swift does not know", i+1, m.Role)
	}
	var out []SwiftTurn
	if len(m.ToolCalls) == 0 || text(m) != "" {
		out = append(out, SwiftTurn{Role: chat.RoleAssistant, Content: text(m)})
	}
	for _, c := range m.ToolCalls {
		if !isJSON(c.Arguments, '{') {
			return nil, unfit("the arguments of a call of %s are no JSON object", c.Name)
		}
		call, err := compactJSON(swiftCall{c.Name, JSON(c.Arguments)})
		if err != nil {
			return nil, err
		}
		out = append(out, SwiftTurn{Role: "tool_call", Content: call})
	}
	return out, nil
}
