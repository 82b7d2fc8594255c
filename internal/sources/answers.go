package sources

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// An AnswerMapper makes recorded answers of the rows of a recorded teacher.
type AnswerMapper struct {
	prompt                                    promptReader
	content, reasoning, finish, model, tokens fieldPath
}

// NewAnswerMapper prepares the mapping that a recipe declares for a recorded
// teacher.
func NewAnswerMapper(t *recipe.Teacher) (*AnswerMapper, error) {
	f := &t.Fields
	prompt, err := newPromptReader(f.Prompt, f.Messages, "", "", f.System)
	if err != nil {
		return nil, fmt.Errorf("map answers of teacher %s: %w", t.ID, err)
	}
	if f.Content == "" && f.Messages == "" {
		return nil, fmt.Errorf("map answers of teacher %s: no field of the answer; name it: fields: {content: …}", t.ID)
	}
	return &AnswerMapper{
		prompt: prompt, content: newFieldPath(f.Content), reasoning: newFieldPath(f.Reasoning),
		finish: newFieldPath(f.Finish), model: newFieldPath(f.Model), tokens: newFieldPath(f.CompletionTokens),
	}, nil
}

// Answers returns a row's prompt and the answers to it, in the order of their
// samples: several where the field of the content is a list. Where the
// messages end with the assistant's turn and no field names the content, that
// turn is the answer. The error is a *[RowError].
func (m *AnswerMapper) Answers(row Row) (chat.Prompt, []RecordedAnswer, error) {
	prompt, answers, err := m.answers(row.Values)
	if err != nil {
		return chat.Prompt{}, nil, &RowError{Where: row.Where, Reason: err.Error()}
	}
	return prompt, answers, nil
}

func (m *AnswerMapper) answers(values map[string]any) (chat.Prompt, []RecordedAnswer, error) {
	prompt, err := m.prompt.read(values)
	if err != nil {
		return prompt, nil, err
	}
	var turn *chat.Message
	if endsWithAnswer(prompt.Messages) {
		last := len(prompt.Messages) - 1
		turn, prompt.Messages = &prompt.Messages[last], prompt.Messages[:last]
	}
	if err := checkQuestion(prompt.Messages); err != nil {
		return prompt, nil, err
	}
	common, err := m.common(values)
	if err != nil {
		return prompt, nil, err
	}
	answers, err := m.samples(values, turn, common)
	if err != nil {
		return prompt, nil, err
	}
	for i := range answers {
		answers[i].Raw = answers[i].appendRaw(nil)
	}
	return prompt, answers, nil
}

// common is what all samples of a row share.
func (m *AnswerMapper) common(values map[string]any) (a RecordedAnswer, err error) {
	a.Finish = "stop"
	if s, ok, err := m.finish.text(values); err != nil {
		return a, err
	} else if ok && s != "" {
		a.Finish = s
	}
	if a.Model, _, err = m.model.text(values); err != nil {
		return a, err
	}
	s, ok, err := m.tokens.text(values)
	if err != nil || !ok || s == "" {
		return a, err
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 {
		return a, fmt.Errorf("field %s is no number of tokens", m.tokens.name)
	}
	a.CompletionTokens = &n
	return a, nil
}

func (m *AnswerMapper) samples(values map[string]any, turn *chat.Message, a RecordedAnswer) ([]RecordedAnswer, error) {
	if m.content.name == "" {
		if turn == nil {
			return nil, errors.New("the messages end without the assistant's turn; the row holds no answer")
		}
		a.Content, a.Reasoning, a.ToolCalls = turn.Content, turn.ReasoningContent, turn.ToolCalls
		if s, ok, err := m.reasoning.text(values); err != nil {
			return nil, err
		} else if ok {
			a.Reasoning = &s
		}
		return []RecordedAnswer{a}, nil
	}
	v, ok := m.content.find(values)
	if !ok {
		return nil, m.content.missing(values)
	}
	contents, err := texts(v, m.content.name)
	if err != nil {
		return nil, err
	}
	var reasonings []string
	if v, ok := m.reasoning.find(values); ok {
		if reasonings, err = texts(v, m.reasoning.name); err != nil {
			return nil, err
		}
		if len(reasonings) != len(contents) {
			return nil, fmt.Errorf("fields %s and %s hold %d and %d samples", m.content.name, m.reasoning.name, len(contents), len(reasonings))
		}
	}
	out := make([]RecordedAnswer, len(contents))
	for i := range contents {
		out[i] = a
		out[i].Content = &contents[i]
		if reasonings != nil {
			out[i].Reasoning = &reasonings[i]
		}
	}
	return out, nil
}

// texts is one text or a list of them.
func texts(v any, field string) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("field %s is an empty list", field)
	}
	out := make([]string, len(list))
	for i := range list {
		s, ok := list[i].(string)
		if !ok {
			return nil, fmt.Errorf("field %s is %s, want a text", field, kindOf(list[i]))
		}
		out[i] = s
	}
	return out, nil
}

// appendRaw appends the answer as JSON: what was read of the row, with nothing
// of other teachers that the row may hold.
func (a *RecordedAnswer) appendRaw(dst []byte) []byte {
	object := map[string]any{"finish_reason": a.Finish}
	set := func(key string, s *string) {
		if s != nil {
			object[key] = *s
		}
	}
	set("content", a.Content)
	set("reasoning_content", a.Reasoning)
	if a.Model != "" {
		object["model"] = a.Model
	}
	if len(a.ToolCalls) > 0 {
		calls := make([]any, len(a.ToolCalls))
		for i, c := range a.ToolCalls {
			calls[i] = map[string]any{"id": c.ID, "type": c.Type, "function": map[string]any{"name": c.Name, "arguments": c.Arguments}}
		}
		object["tool_calls"] = calls
	}
	if a.CompletionTokens != nil {
		object["completion_tokens"] = json.Number(strconv.FormatInt(*a.CompletionTokens, 10))
	}
	return appendJSON(dst, object)
}
