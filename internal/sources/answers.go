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

// Answers returns what a row records: the answers to its prompt, several where
// the field of the content is a list. Where the messages end with the
// assistant's turn and no field names the content, the row is a trajectory, and
// what it records depends on where one takes its prompt to end: see
// [trajectoryStarts]. The error is a *[RowError].
func (m *AnswerMapper) Answers(row Row) ([]Recording, error) {
	recordings, err := m.recordings(row.Values)
	if err != nil {
		return nil, &RowError{Where: row.Where, Reason: err.Error()}
	}
	return recordings, nil
}

func (m *AnswerMapper) recordings(values map[string]any) ([]Recording, error) {
	prompt, fields, err := m.prompt.readTurns(values)
	if err != nil {
		return nil, err
	}
	common, err := m.common(values)
	if err != nil {
		return nil, err
	}
	starts := []int{len(prompt.Messages)}
	if endsWithAnswer(prompt.Messages) {
		starts[0]--
		if m.content.name == "" {
			starts = trajectoryStarts(prompt.Messages)
			if err := markTrained(prompt.Messages, fields); err != nil {
				return nil, err
			}
		}
	}
	var out []Recording
	for _, start := range starts {
		r := Recording{Prompt: prompt}
		r.Prompt.Messages = prompt.Messages[:start:start]
		if fault := checkQuestion(r.Prompt.Messages); fault != nil {
			err = fault
			continue
		}
		turns := prompt.Messages[start:]
		if r.Answers, err = m.samples(values, turns, common); err != nil {
			return nil, err
		}
		for i := range r.Answers {
			r.Answers[i].Raw = r.Answers[i].appendRaw(nil)
		}
		out = append(out, r)
	}
	if len(out) == 0 {
		return nil, err
	}
	return out, nil
}

// maxTokens bounds the tokens of a recorded answer: no sum of such overflows.
const maxTokens = 1 << 32

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
	if err != nil || n < 0 || n > maxTokens {
		return a, fmt.Errorf("field %s is no number of tokens", m.tokens.name)
	}
	a.CompletionTokens = &n
	return a, nil
}

func (m *AnswerMapper) samples(values map[string]any, turns []chat.Message, a RecordedAnswer) ([]RecordedAnswer, error) {
	a.Train = true
	if m.content.name == "" {
		if len(turns) == 0 {
			return nil, errors.New("the messages end without the assistant's turn; the row holds no answer")
		}
		turn := &turns[len(turns)-1]
		a.Before, a.Train = turns[:len(turns)-1:len(turns)-1], turn.Train
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
