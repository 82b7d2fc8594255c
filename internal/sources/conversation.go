package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// Shapes of a row that holds a whole conversation, answers included.
const (
	ShapeMessages         = "messages"          // a list of {role, content, …}
	ShapeShareGPT         = "sharegpt"          // a list of {from, value}
	ShapePromptCompletion = "prompt_completion" // two fields, each a text or messages
	ShapeAlpaca           = "alpaca"            // instruction, input, output
)

// ConversationFields say where a row of a dataset that exists holds what, as
// dotted paths; "" where it does not. Which of the first three lines count
// depends on the shape.
type ConversationFields struct {
	Messages                            string // messages, sharegpt
	Prompt, Completion                  string // prompt_completion
	Instruction, Input, Output, History string // alpaca; History is a list of [question, answer]

	System, Tools, Images, Reasoning   string
	Domain, Effort, Group, Gold, Tests string
	Teacher, Model, Licence            string
	Meta                               string
}

// byName are the fields by the names that users give them.
func (f *ConversationFields) byName() map[string]*string {
	return map[string]*string{
		"messages": &f.Messages, "prompt": &f.Prompt, "completion": &f.Completion,
		"instruction": &f.Instruction, "input": &f.Input, "output": &f.Output, "history": &f.History,
		"system": &f.System, "tools": &f.Tools, "images": &f.Images, "reasoning": &f.Reasoning,
		"domain": &f.Domain, "effort": &f.Effort, "group": &f.Group, "gold": &f.Gold, "tests": &f.Tests,
		"teacher": &f.Teacher, "model": &f.Model, "licence": &f.Licence, "meta": &f.Meta,
	}
}

// ConversationFieldNames are the names that Set knows, sorted.
func ConversationFieldNames() []string {
	names := []string{}
	for name := range new(ConversationFields).byName() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Set names the column of one field; "" says that the rows have none.
func (f *ConversationFields) Set(name, column string) error {
	to, ok := f.byName()[name]
	if !ok {
		return fmt.Errorf("there is no field %.40q; there are: %s", name, strings.Join(ConversationFieldNames(), ", "))
	}
	*to = column
	return nil
}

// Columns are the fields that are set, by name.
func (f *ConversationFields) Columns() map[string]string {
	out := map[string]string{}
	for name, column := range f.byName() {
		if *column != "" {
			out[name] = *column
		}
	}
	return out
}

// A Conversation is a row of a dataset that exists: a prompt, and the turns
// that answer it.
type Conversation struct {
	Where  string
	Prompt chat.Prompt
	// Turns begin with the assistant's first that the training loss sees, or
	// with its last where that sees none. There is at least one.
	Turns  []chat.Message
	Domain string // "" where the row does not say; so are the next four
	Effort string
	Group  string
	// Teacher is whoever answered, Model its model.
	Teacher, Model string
	Licence        string
	Gold, Tests    *string
	Meta           string // JSON text, an object
}

// A ConversationMapper reads rows as whole conversations.
type ConversationMapper struct {
	shape string
	think bool
	names ConversationFields
	field map[string]fieldPath
}

// NewConversationMapper prepares a mapping. splitThink takes a leading
// <think>…</think> out of the assistant's text and makes it its reasoning.
func NewConversationMapper(shape string, fields ConversationFields, splitThink bool) (*ConversationMapper, error) {
	m := &ConversationMapper{shape: shape, think: splitThink, names: fields, field: map[string]fieldPath{}}
	for name, column := range fields.byName() {
		m.field[name] = newFieldPath(*column)
	}
	var needed []string
	switch shape {
	case ShapeMessages, ShapeShareGPT:
		needed = []string{"messages"}
	case ShapePromptCompletion:
		needed = []string{"prompt", "completion"}
	case ShapeAlpaca:
		needed = []string{"instruction", "output"}
	default:
		return nil, fmt.Errorf("unknown shape %.40q; there are: %s", shape, strings.Join(Shapes(), ", "))
	}
	for _, name := range needed {
		if m.field[name].name == "" {
			return nil, fmt.Errorf("shape %s needs the field %s; name its column: --map %s=COLUMN", shape, name, name)
		}
	}
	return m, nil
}

// Shapes are the shapes that NewConversationMapper knows.
func Shapes() []string {
	return []string{ShapeMessages, ShapeShareGPT, ShapePromptCompletion, ShapeAlpaca}
}

// Conversation reads one row. The error is a *[RowError].
func (m *ConversationMapper) Conversation(row Row) (Conversation, error) {
	c, err := m.read(row.Values)
	if err != nil {
		return c, &RowError{Where: row.Where, Reason: err.Error()}
	}
	c.Where = row.Where
	return c, nil
}

func (m *ConversationMapper) read(values map[string]any) (Conversation, error) {
	var c Conversation
	turns, fields, err := m.turns(values)
	if err != nil {
		return c, err
	}
	if len(turns) > 0 && turns[0].Role == chat.RoleSystem {
		if turns[0].Content != nil {
			c.Prompt.System = *turns[0].Content
		}
		turns, fields = turns[1:], fields[1:]
	}
	if s, ok, err := m.field["system"].text(values); err != nil {
		return c, err
	} else if ok && s != "" {
		if c.Prompt.System != "" && c.Prompt.System != s {
			return c, fmt.Errorf("the messages have a system text and field %s another", m.field["system"].name)
		}
		c.Prompt.System = s
	}
	if err := m.answer(&c, values, turns, fields); err != nil {
		return c, err
	}
	if err := checkQuestion(c.Prompt.Messages); err != nil {
		return c, err
	}
	return c, m.rest(&c, values)
}

// answer cuts the conversation into prompt and answer.
func (m *ConversationMapper) answer(c *Conversation, values map[string]any, turns []chat.Message, fields []map[string]any) error {
	if !endsWithAnswer(turns) {
		return errors.New("the conversation does not end with the assistant's turn, so it holds no answer; rows without one are prompts, which a recipe names")
	}
	if err := markTrained(turns, fields); err != nil {
		return err
	}
	start := slices.IndexFunc(turns, func(t chat.Message) bool { return t.Train && t.Role == chat.RoleAssistant })
	if start < 0 {
		start = len(turns) - 1
	}
	if s, ok, err := m.field["reasoning"].text(values); err != nil {
		return err
	} else if last := &turns[len(turns)-1]; ok && s != "" {
		if last.ReasoningContent != nil && *last.ReasoningContent != s {
			return fmt.Errorf("the last turn has reasoning and field %s another", m.field["reasoning"].name)
		}
		last.ReasoningContent = &s
	}
	if m.think {
		for i := range turns {
			splitThink(&turns[i])
		}
	}
	c.Prompt.Messages, c.Turns = turns[:start:start], turns[start:]
	return nil
}

// splitThink makes reasoning of a leading <think>…</think>.
func splitThink(t *chat.Message) {
	if t.Role != chat.RoleAssistant || t.Content == nil || t.ReasoningContent != nil {
		return
	}
	rest, ok := strings.CutPrefix(strings.TrimLeft(*t.Content, " \n\r\t"), "<think>")
	if !ok {
		return
	}
	thought, content, ok := strings.Cut(rest, "</think>")
	if !ok {
		return
	}
	thought, content = strings.Trim(thought, "\n"), strings.TrimLeft(content, "\n")
	t.Content = &content
	if strings.TrimSpace(thought) != "" {
		t.ReasoningContent = &thought
	}
}

// rest reads what stands beside the conversation.
func (m *ConversationMapper) rest(c *Conversation, values map[string]any) (err error) {
	if v, ok := m.field["tools"].find(values); ok {
		if c.Prompt.Tools, err = toolText(v); err != nil {
			return err
		}
	}
	if v, ok := m.field["images"].find(values); ok {
		if list, isList := v.([]any); !isList || len(list) > 0 {
			return errors.New("holds images, which are not imported; leave such rows out, or build from their prompts with a recipe, which reads images")
		}
	}
	for name, to := range map[string]*string{"domain": &c.Domain, "effort": &c.Effort, "teacher": &c.Teacher} {
		s, ok, err := m.field[name].text(values)
		if err != nil {
			return err
		}
		if !ok || s == "" {
			continue
		}
		if fault := recipe.LabelFault(s); fault != "" {
			return fmt.Errorf("field %s %s; use a short word such as math or high", m.field[name].name, fault)
		}
		*to = s
	}
	for name, to := range map[string]*string{"group": &c.Group, "model": &c.Model, "licence": &c.Licence} {
		if *to, _, err = m.field[name].text(values); err != nil {
			return err
		}
	}
	if s, ok, err := m.field["gold"].text(values); err != nil {
		return err
	} else if ok {
		c.Gold = &s
	}
	if v, ok := m.field["tests"].find(values); ok {
		text := jsonText(v)
		c.Tests = &text
	}
	c.Meta = m.meta(values)
	return nil
}

// meta is an object, or its JSON text, as it is, and anything else under the
// column's name.
func (m *ConversationMapper) meta(values map[string]any) string {
	f := m.field["meta"]
	v, ok := f.find(values)
	if !ok {
		return ""
	}
	if s, isText := v.(string); isText {
		if parsed, err := parseJSON(s); err == nil {
			v = parsed
		}
	}
	if object, isObject := v.(map[string]any); isObject {
		return string(appendJSON(nil, object))
	}
	return string(appendJSON(nil, map[string]any{f.name: v}))
}

// turns are the messages of the row, a system text first, and the fields of
// each as the row has them.
func (m *ConversationMapper) turns(values map[string]any) ([]chat.Message, []map[string]any, error) {
	switch m.shape {
	case ShapeAlpaca:
		return m.alpaca(values)
	case ShapePromptCompletion:
		return m.promptCompletion(values)
	}
	v, ok := m.field["messages"].find(values)
	if !ok {
		return nil, nil, m.field["messages"].missing(values)
	}
	if m.shape == ShapeShareGPT {
		return readTurns(v, shareGPT)
	}
	return readTurns(v, importedMessage)
}

func (m *ConversationMapper) promptCompletion(values map[string]any) ([]chat.Message, []map[string]any, error) {
	turns, fields, err := m.half("prompt", chat.RoleUser, values)
	if err != nil {
		return nil, nil, err
	}
	more, moreFields, err := m.half("completion", chat.RoleAssistant, values)
	if err != nil {
		return nil, nil, err
	}
	// All of the prompt is context, whatever it says of itself.
	for i := range fields {
		fields[i] = map[string]any{"train": false}
	}
	return append(turns, more...), append(fields, moreFields...), nil
}

// half is one of the two fields: messages, or the text of one.
func (m *ConversationMapper) half(name, role string, values map[string]any) ([]chat.Message, []map[string]any, error) {
	f := m.field[name]
	v, ok := f.find(values)
	if !ok {
		return nil, nil, f.missing(values)
	}
	if list, isList := v.([]any); isList {
		return readTurns(list, importedMessage)
	}
	text, ok := scalarText(v)
	if !ok {
		return nil, nil, fmt.Errorf("field %s is %s, want a text or messages", f.name, kindOf(v))
	}
	return []chat.Message{{Role: role, Content: &text}}, []map[string]any{nil}, nil
}

func (m *ConversationMapper) alpaca(values map[string]any) (turns []chat.Message, fields []map[string]any, err error) {
	say := func(role, text string, context bool) {
		turns = append(turns, chat.Message{Role: role, Content: &text})
		fields = append(fields, map[string]any{})
		if context {
			fields[len(fields)-1]["train"] = false
		}
	}
	if v, ok := m.field["history"].find(values); ok {
		list, isList := v.([]any)
		if !isList {
			return nil, nil, fmt.Errorf("field %s is %s, want a list of [question, answer]", m.field["history"].name, kindOf(v))
		}
		if len(list) > maxMessages {
			return nil, nil, fmt.Errorf("field %s has more than %d rounds", m.field["history"].name, maxMessages)
		}
		for i := range list {
			round, _ := list[i].([]any)
			if len(round) != 2 {
				return nil, nil, fmt.Errorf("round %d of field %s is no [question, answer]", i+1, m.field["history"].name)
			}
			question, q := scalarText(round[0])
			answer, a := scalarText(round[1])
			if !q || !a {
				return nil, nil, fmt.Errorf("round %d of field %s holds what is no text", i+1, m.field["history"].name)
			}
			say(chat.RoleUser, question, true)
			say(chat.RoleAssistant, answer, true)
		}
	}
	question, err := m.field["instruction"].needed(values)
	if err != nil {
		return nil, nil, err
	}
	if input, ok, err := m.field["input"].text(values); err != nil {
		return nil, nil, err
	} else if ok && strings.TrimSpace(input) != "" {
		question += "\n" + input // as LLaMA-Factory joins them
	}
	answer, err := m.field["output"].needed(values)
	if err != nil {
		return nil, nil, err
	}
	say(chat.RoleUser, question, true)
	say(chat.RoleAssistant, answer, false)
	return turns, fields, nil
}

// readTurns reads a list of turns, or its JSON text.
func readTurns(v any, one func(map[string]any) (chat.Message, error)) (turns []chat.Message, fields []map[string]any, err error) {
	if s, ok := v.(string); ok {
		if v, err = parseJSON(s); err != nil {
			return nil, nil, fmt.Errorf("messages are no JSON: %w", err)
		}
	}
	list, ok := v.([]any)
	if !ok {
		return nil, nil, fmt.Errorf("messages are %s, want a list", kindOf(v))
	}
	if len(list) > maxMessages {
		return nil, nil, fmt.Errorf("more than %d messages", maxMessages)
	}
	for i := range list {
		object, ok := list[i].(map[string]any)
		if !ok {
			return nil, nil, fmt.Errorf("message %d: is %s, want an object", i+1, kindOf(list[i]))
		}
		m, err := one(object)
		if err != nil {
			return nil, nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		if m.Role == chat.RoleSystem && i > 0 {
			return nil, nil, fmt.Errorf("message %d: a system message must be the first", i+1)
		}
		turns, fields = append(turns, m), append(fields, object)
	}
	return turns, fields, nil
}

// importedMessage is message, with what only tables and older protocols have.
func importedMessage(fields map[string]any) (chat.Message, error) {
	if fields["role"] == "developer" { // OpenAI's newer word for the same
		own := make(map[string]any, len(fields))
		for k, v := range fields {
			own[k] = v
		}
		own["role"], fields = chat.RoleSystem, own
	}
	m, err := message(fields)
	if err != nil {
		return m, err
	}
	if m.ReasoningContent == nil { // gpt-oss's template calls it so
		if m.ReasoningContent, err = optional(fields, "thinking"); err != nil {
			return m, err
		}
	}
	kind, err := optional(fields, "reasoning_kind")
	if err == nil && kind != nil && (*kind == "full" || *kind == "summary") && m.ReasoningContent != nil {
		m.ReasoningKind = kind
	}
	return m, nil
}

// shareRoles are the words of ShareGPT files for the roles.
var shareRoles = map[string]string{
	"system": chat.RoleSystem,
	"human":  chat.RoleUser, "user": chat.RoleUser,
	"gpt": chat.RoleAssistant, "assistant": chat.RoleAssistant, "chatgpt": chat.RoleAssistant, "bot": chat.RoleAssistant, "model": chat.RoleAssistant,
	"function_call": chat.RoleAssistant,
	"observation":   chat.RoleTool, "tool": chat.RoleTool, "function_response": chat.RoleTool,
}

// shareGPT reads {from, value}; a function_call's value is JSON text of one
// call or of several.
func shareGPT(fields map[string]any) (chat.Message, error) {
	from, _ := fields["from"].(string)
	role, ok := shareRoles[from]
	if !ok {
		return chat.Message{}, fmt.Errorf("from is %q, none of human, gpt, system, function_call, observation", clip(from))
	}
	value, ok := scalarText(fields["value"])
	if !ok {
		return chat.Message{}, fmt.Errorf("value is %s, want a text", kindOf(fields["value"]))
	}
	m := chat.Message{Role: role}
	if from != "function_call" {
		m.Content = &value
		return m, nil
	}
	// Text before the call, such as reasoning in tags, stays text.
	at := strings.IndexAny(value, "{[")
	if i := strings.LastIndex(value, "</think>"); i >= 0 {
		at = i + strings.IndexAny(value[i:], "{[")
		if at < i {
			at = -1
		}
	}
	if at < 0 {
		return m, errors.New("a function_call is no JSON of {name, arguments}")
	}
	if before := value[:at]; strings.TrimSpace(before) != "" {
		m.Content = &before
	}
	parsed, err := parseJSON(value[at:])
	if err != nil {
		return m, fmt.Errorf("a function_call is no JSON: %w", err)
	}
	if _, isList := parsed.([]any); !isList {
		parsed = []any{parsed}
	}
	m.ToolCalls, err = toolCalls(parsed)
	return m, err
}

// Guess says how a row seems to hold a conversation: its shape and where it
// holds what. The error names the columns that are there.
func Guess(row Row) (shape string, f ConversationFields, err error) {
	v := row.Values
	has := func(names ...string) string {
		for _, name := range names {
			if v[name] != nil {
				return name
			}
		}
		return ""
	}
	for name, names := range map[string][]string{
		"system": {"system", "system_prompt"}, "tools": {"tools", "functions"}, "images": {"images", "image"},
		"domain": {"domain"}, "effort": {"effort", "reasoning_effort"}, "group": {"group"}, "gold": {"gold"}, "tests": {"tests"},
		"teacher": {"teacher"}, "model": {"teacher_model", "model"}, "licence": {"licence", "license"}, "meta": {"meta"},
	} {
		_ = f.Set(name, has(names...))
	}
	if f.Group != "" {
		if _, ok := scalarText(v[f.Group]); !ok {
			f.Group = ""
		}
	}
	f.Reasoning = has("reasoning_content", "reasoning", "thinking")
	switch {
	case has("messages", "conversations", "conversation") != "":
		f.Messages, f.Reasoning = has("messages", "conversations", "conversation"), ""
		return turnShape(v[f.Messages]), f, nil
	case has("instruction") != "" && has("output", "response", "completion") != "":
		f.Instruction, f.Input, f.Output, f.History = "instruction", has("input", "context"), has("output", "response", "completion"), has("history")
		return ShapeAlpaca, f, nil
	case has("prompt", "question", "problem", "query", "instruction") != "" && has("completion", "response", "answer", "solution", "output") != "":
		f.Prompt, f.Completion = has("prompt", "question", "problem", "query", "instruction"), has("completion", "response", "answer", "solution", "output")
		return ShapePromptCompletion, f, nil
	case has("chosen") != "" && has("rejected") != "":
		return "", f, errors.New("these are preference pairs, which are not imported; a recipe makes pairs from several answers to a prompt")
	}
	return "", f, fmt.Errorf("no conversation was found in its columns: %s; say where it is: --shape %s --map messages=COLUMN, or --shape %s --map prompt=COLUMN --map completion=COLUMN",
		columns(v), ShapeMessages, ShapePromptCompletion)
}

// turnShape tells {from, value} from {role, content}.
func turnShape(v any) string {
	if s, ok := v.(string); ok {
		v, _ = parseJSON(s)
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		if first, ok := list[0].(map[string]any); ok && first["from"] != nil && first["role"] == nil {
			return ShapeShareGPT
		}
	}
	return ShapeMessages
}

// AppendConversation appends a conversation as a line of JSON that recipes
// read: the prompt's messages under prompt, all of it under messages.
func AppendConversation(dst []byte, c *Conversation) ([]byte, error) {
	whole := append(c.Prompt.All(), c.Turns...)
	object := map[string]any{"prompt": wire(c.Prompt.All()), "messages": wire(whole), "domain": c.Domain, "effort": c.Effort}
	for name, s := range map[string]string{"tools": c.Prompt.Tools, "group": c.Group, "model": c.Model} {
		if s != "" {
			object[name] = s
		}
	}
	for name, s := range map[string]*string{"gold": c.Gold, "tests": c.Tests} {
		if s != nil {
			object[name] = *s
		}
	}
	if c.Meta != "" {
		object["meta"] = json.RawMessage(c.Meta)
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(object); err != nil {
		return dst, err
	}
	return append(dst, b.String()...), nil
}

// wire are messages as the chat-completions protocol spells them, with train.
func wire(messages []chat.Message) []map[string]any {
	out := make([]map[string]any, len(messages))
	for i, m := range messages {
		o := map[string]any{"role": m.Role, "content": m.Content}
		for name, s := range map[string]*string{"reasoning_content": m.ReasoningContent, "tool_call_id": m.ToolCallID, "name": m.Name} {
			if s != nil {
				o[name] = *s
			}
		}
		if len(m.ToolCalls) > 0 {
			calls := make([]map[string]any, len(m.ToolCalls))
			for j, c := range m.ToolCalls {
				calls[j] = map[string]any{"id": c.ID, "type": c.Type, "function": map[string]any{"name": c.Name, "arguments": c.Arguments}}
			}
			o["tool_calls"] = calls
		}
		if m.Train != (m.Role == chat.RoleAssistant) {
			o["train"] = m.Train
		}
		out[i] = o
	}
	return out
}
