package views

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// The views that LLaMA-Factory reads, in its two spellings of turns.
const (
	ViewShareGPT = "sharegpt"
	ViewOpenAI   = "openai"
)

// LLaMA-Factory's rules, as its converter (src/llamafactory/data/converter.py,
// 0.9.5) holds rows to them: turns alternate, the user or a tool first and the
// assistant last; what breaks the rule is logged and trained on as nothing. It
// knows no reasoning_content, no loss of single turns, and no text beside a
// call but reasoning between <think> tags. Calls are JSON text in a turn of
// their own role, with arguments that are values: text would be encoded twice.
var (
	factoryReasoning = []string{ReasoningInline, ReasoningDrop}
	factoryEffort    = []string{EffortNone, EffortSystem, EffortColumn}
	factoryImages    = []string{ImagesRefuse, ImagesColumn}
)

func init() {
	register(View{
		Name: ViewShareGPT, Summary: "LLaMA-Factory, ShareGPT's spelling, with dataset_info.json",
		Reads: Rows, Reasoning: factoryReasoning, Effort: factoryEffort, Images: factoryImages, History: true,
		FolderPerSplit: true, Beside: []besideFunc{shareGPTSpelling.datasetInfo},
		Shape: func(opt *Options) (Shape, error) {
			prose := "`conversations` holds the turns after the system text, the last one the answer. " + factoryProse(opt)
			return Of(prose, func(r *datasets.Row) (ShareGPT, error) {
				c, err := factoryTurns(r, opt, shareGPTSpelling)
				if err != nil {
					return ShareGPT{}, of("sample", r.SampleID, err)
				}
				out := ShareGPT{System: c.system, Tools: r.Tools, Effort: effortColumn(r.Effort, opt), ImageColumn: imagesOf(r.Images)}
				for _, t := range c.turns {
					out.Conversations = append(out.Conversations, ShareGPTTurn{From: t.role, Value: t.text})
				}
				return out, nil
			}), nil
		},
	})
	register(View{
		Name: ViewOpenAI, Summary: "LLaMA-Factory, OpenAI's spelling, with dataset_info.json",
		Reads: Rows, Reasoning: factoryReasoning, Effort: factoryEffort, Images: factoryImages, History: true,
		FolderPerSplit: true, Beside: []besideFunc{openAISpelling.datasetInfo},
		Shape: func(opt *Options) (Shape, error) {
			prose := "`messages` holds the prompt and, last, the answer, each with its text. " + factoryProse(opt)
			return Of(prose, func(r *datasets.Row) (OpenAI, error) {
				c, err := factoryTurns(r, opt, openAISpelling)
				if err != nil {
					return OpenAI{}, of("sample", r.SampleID, err)
				}
				out := OpenAI{Tools: r.Tools, Effort: effortColumn(r.Effort, opt), ImageColumn: imagesOf(r.Images)}
				if c.system != nil {
					out.Messages = append(out.Messages, OpenAITurn{Role: chat.RoleSystem, Content: *c.system})
				}
				for _, t := range c.turns {
					out.Messages = append(out.Messages, OpenAITurn{Role: t.role, Content: t.text})
				}
				return out, nil
			}), nil
		},
	})
}

// A ShareGPT is a row of the sharegpt view.
type ShareGPT struct {
	Conversations []ShareGPTTurn `json:"conversations" parquet:"conversations,list"`
	System        *string        `json:"system" parquet:"system,optional"`
	Tools         *string        `json:"tools" parquet:"tools,optional"` // JSON text
	Effort        *string        `json:"effort" parquet:"effort,optional,dict"`
	ImageColumn
}

// A ShareGPTTurn is a turn of a ShareGPT.
type ShareGPTTurn struct {
	From  string `json:"from" parquet:"from,dict"`
	Value string `json:"value" parquet:"value"`
}

// An OpenAI is a row of the openai view.
type OpenAI struct {
	Messages []OpenAITurn `json:"messages" parquet:"messages,list"`
	Tools    *string      `json:"tools" parquet:"tools,optional"` // JSON text
	Effort   *string      `json:"effort" parquet:"effort,optional,dict"`
	ImageColumn
}

// An OpenAITurn is a turn of an OpenAI. A call is the content of a turn whose
// role is function_call: JSON text, a list of names and arguments.
type OpenAITurn struct {
	Role    string `json:"role" parquet:"role,dict"`
	Content string `json:"content" parquet:"content"`
}

// A spelling is how a view of LLaMA-Factory names its columns and roles.
type spelling struct {
	messages, role, content               string
	user, assistant, tool, call, systemAs string
	system                                bool // has a column of its own
}

var (
	shareGPTSpelling = spelling{"conversations", "from", "value", "human", "gpt", "observation", "function_call", "system", true}
	openAISpelling   = spelling{"messages", "role", "content", "user", "assistant", "tool", "function_call", "system", false}
)

func factoryProse(opt *Options) string {
	s := "Turns alternate, so that LLaMA-Factory skips no row; what several tools gave stands in one turn. A call is the text of a turn of its own role, a JSON list of names and arguments. "
	if opt.Reasoning == ReasoningInline {
		s += fmt.Sprintf("The reasoning stands before the content, between <%[1]s> and </%[1]s>.", opt.ThinkTag)
	} else {
		s += "The reasoning is left out."
	}
	if opt.MaskHistory {
		s += " The loss is meant to see the last turn alone: set mask_history: true."
	}
	return s + " `dataset_info.json` names the folders for LLaMA-Factory."
}

type factoryTurn struct{ role, text string }

type factoryRow struct {
	system *string
	turns  []factoryTurn
}

// toolsTogether stands between what several tools gave, as LLaMA-Factory's own
// converter writes it.
const toolsTogether = "\n</tool_response>\n<tool_response>\n"

// factoryTurns makes the turns of a row as LLaMA-Factory takes them.
func factoryTurns(r *datasets.Row, opt *Options, sp spelling) (out factoryRow, err error) {
	if err := noImages(r.Images, opt); err != nil {
		return out, err
	}
	if err := factoryLoss(r.Messages, opt); err != nil {
		return out, err
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
	if len(messages) > 0 && messages[0].Role == chat.RoleSystem {
		s := text(&messages[0])
		out.system, messages = &s, messages[1:]
	}
	for i := range messages {
		m := &messages[i]
		turn := factoryTurn{text: text(m)}
		switch {
		case m.Role == chat.RoleUser:
			turn.role = sp.user
		case m.Role == chat.RoleTool && i > 0 && messages[i-1].Role == chat.RoleTool:
			out.turns[len(out.turns)-1].text += toolsTogether + turn.text
			continue
		case m.Role == chat.RoleTool:
			turn.role = sp.tool
		case m.Role == chat.RoleAssistant && len(m.ToolCalls) > 0:
			turn.role = sp.call
			if turn.text, err = factoryCalls(&r.Messages[len(r.Messages)-len(messages)+i], m, opt); err != nil {
				return out, err
			}
		case m.Role == chat.RoleAssistant:
			turn.role = sp.assistant
		default:
			return out, unfit("turn %d is of role %q, and LLaMA-Factory takes a system text in the first place alone", i+1, m.Role)
		}
		if answers := turn.role == sp.assistant || turn.role == sp.call; answers != (len(out.turns)%2 == 1) {
			return out, unfit("its turns do not alternate: turn %d is of role %q, after one of role %q", i+1, m.Role, roleBefore(messages, i))
		}
		out.turns = append(out.turns, turn)
	}
	if len(out.turns) == 0 || len(out.turns)%2 == 1 {
		return out, unfit("it does not end with a turn of the assistant")
	}
	return out, nil
}

func roleBefore(messages []chat.Message, i int) string {
	if i == 0 {
		return "none"
	}
	return messages[i-1].Role
}

// factoryCalls is the text of a turn that calls tools: the reasoning, if any,
// and a JSON list. said is the message as the teacher wrote it.
func factoryCalls(said, m *chat.Message, opt *Options) (string, error) {
	if said.Content != nil && strings.TrimSpace(*said.Content) != "" {
		return "", unfit("a turn has text beside its tool calls, which LLaMA-Factory would take for a part of their JSON")
	}
	reasoned := said.ReasoningContent != nil && opt.Reasoning == ReasoningInline
	if reasoned && opt.ThinkTag != DefaultThinkTag {
		return "", unfit("a turn has reasoning beside its tool calls, which LLaMA-Factory finds between <%s> tags alone", DefaultThinkTag)
	}
	calls := make([]factoryCall, len(m.ToolCalls))
	for i, c := range m.ToolCalls {
		arguments, err := jsonOf[JSON]("the arguments of a call of "+c.Name, c.Arguments, '{')
		if err != nil {
			return "", unfit("the arguments of a call of %s are no JSON object", c.Name)
		}
		calls[i] = factoryCall{c.Name, arguments}
	}
	list, err := compactJSON(calls)
	if err != nil || !reasoned {
		return list, err
	}
	return text(m) + list, nil // the content is empty but for the reasoning
}

type factoryCall struct {
	Name      string `json:"name"`
	Arguments JSON   `json:"arguments"`
}

// compactJSON is a value as JSON text, with < and > as they are.
func compactJSON(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

// factoryLoss refuses rows of which LLaMA-Factory would train other turns than
// they say: it trains every turn of the assistant, or with mask_history the
// last one of each row.
func factoryLoss(messages []chat.Message, opt *Options) error {
	switch {
	case opt.MaskHistory && trainedAtEnd(messages), !opt.MaskHistory && trainedAsUsual(messages):
		return nil
	case opt.MaskHistory:
		return unfit("it trains %s, and mask_history the last one alone", trainedWords(messages))
	case trainedAtEnd(messages):
		return unfit("the answers in its history are not to be trained; --mask-history takes such rows, for a training with mask_history: true")
	}
	return unfit("it trains %s, and LLaMA-Factory all turns of the assistant", trainedWords(messages))
}

// datasetInfo writes dataset_info.json, by which LLaMA-Factory finds the
// folders of the splits. The formatting is sharegpt for both spellings: the
// converter of formatting openai adds a line to every system text.
func (sp spelling) datasetInfo(ctx context.Context, s sink, p *plan, m *catalog.Manifest, a *about) error {
	type entry struct {
		FileName   string            `json:"file_name"`
		Formatting string            `json:"formatting"`
		Columns    map[string]string `json:"columns"`
		Tags       map[string]string `json:"tags"`
	}
	info := map[string]entry{}
	for _, split := range exported {
		if a.Rows[split] == 0 {
			continue
		}
		name := m.Dataset
		if split != datasets.TableTrain {
			name += "_" + split
		}
		columns := map[string]string{"messages": sp.messages, "tools": "tools"}
		if sp.system {
			columns["system"] = "system"
		}
		if p.opt.Images == ImagesColumn {
			columns["images"] = "images"
		}
		info[name] = entry{
			FileName: split, Formatting: "sharegpt", Columns: columns,
			Tags: map[string]string{
				"role_tag": sp.role, "content_tag": sp.content, "user_tag": sp.user, "assistant_tag": sp.assistant,
				"observation_tag": sp.tool, "function_tag": sp.call, "system_tag": sp.systemAs,
			},
		}
	}
	data, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return err
	}
	const name = "dataset_info.json"
	file, err := s.write(ctx, name, func(w io.Writer) (int64, error) {
		_, err := w.Write(append(data, '\n'))
		return 0, err
	})
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	a.Files = append(a.Files, file)
	return nil
}
