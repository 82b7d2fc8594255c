package views

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// effortLine is the line of EffortSystem.
const effortLine = "Reasoning effort: "

// noEffort is the effort of tasks that name none.
const noEffort = "default"

// imagePlaceholder stands in a text where an image belongs, for trainers that
// look for it.
const imagePlaceholder = "<image>"

// prepared are the messages of a row with reasoning and effort where the
// options want them. The messages that it is given stay as they are.
func prepared(messages []chat.Message, effort string, opt *Options) ([]chat.Message, error) {
	out := make([]chat.Message, 0, len(messages)+1)
	if opt.Effort == EffortSystem && effort != noEffort && effort != "" {
		line := effortLine + effort
		if len(messages) > 0 && messages[0].Role == chat.RoleSystem {
			first := messages[0]
			if first.Content != nil && *first.Content != "" {
				line = *first.Content + "\n\n" + line
			}
			first.Content = &line
			out, messages = append(out, first), messages[1:]
		} else {
			out = append(out, chat.Message{Role: chat.RoleSystem, Content: &line})
		}
	}
	for i := range messages {
		m := messages[i]
		if err := placeReasoning(&m, opt); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	return out, nil
}

// placeReasoning puts the reasoning of one message where the options want it,
// so that it is there exactly once.
func placeReasoning(m *chat.Message, opt *Options) error {
	switch opt.Reasoning {
	case ReasoningInline:
		if m.ReasoningContent == nil {
			return nil
		}
		start, end := "<"+opt.ThinkTag+">", "</"+opt.ThinkTag+">"
		content := ""
		if m.Content != nil {
			content = *m.Content
		}
		for _, text := range []string{content, *m.ReasoningContent} {
			if strings.Contains(text, start) || strings.Contains(text, end) {
				return unfit("its text holds the tag %s, so that inline reasoning could not be told from it", start)
			}
		}
		content = start + "\n" + *m.ReasoningContent + "\n" + end + "\n\n" + content
		m.Content, m.ReasoningContent = &content, nil
	case ReasoningDrop:
		m.ReasoningContent = nil
		if m.Role == chat.RoleAssistant && m.Content != nil && strings.Contains(*m.Content, "<think>") && strings.Contains(*m.Content, "</think>") {
			return unfit("its content holds reasoning between <think> tags, which dropping would leave in")
		}
	}
	return nil
}

// unfit is the error of a row that a view can't hold; the caller names the row.
func unfit(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrUnsupported, fmt.Sprintf(format, args...))
}

// of names the row that an error is about.
func of(kind, id string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w: %s %s: %s", ErrUnsupported, kind, id, strings.TrimPrefix(err.Error(), ErrUnsupported.Error()+": "))
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

// trainedAtEnd tells whether the loss sees the last turn, an assistant's, and
// no other.
func trainedAtEnd(messages []chat.Message) bool {
	last := len(messages) - 1
	for i := range messages {
		if messages[i].Train != (i == last) {
			return false
		}
	}
	return last >= 0 && messages[last].Role == chat.RoleAssistant
}

// text is the content of a message, "" where it has none.
func text(m *chat.Message) string {
	if m.Content == nil {
		return ""
	}
	return *m.Content
}

// A JSON is JSON text that stands as the value it is in JSON Lines, and as text
// in Parquet, where the datasets library is told to read it as its value.
type JSON string

// MarshalJSON gives the text itself.
func (j JSON) MarshalJSON() ([]byte, error) {
	return []byte(strings.ToValidUTF8(string(j), "\uFFFD")), nil
}

// HuggingFaceFeature is the type that the datasets library is told of.
func (JSON) HuggingFaceFeature() string { return "Json" }

// jsonOf makes a value of JSON text: as text it is what the model wrote, valid
// or not, and as JSON it has to be an object or a list, as open says.
func jsonOf[A string | JSON](what, source string, open byte) (A, error) {
	out := A(source)
	if _, asValue := any(out).(JSON); !asValue {
		return out, nil
	}
	if !isJSON(source, open) {
		kind := "object"
		if open == '[' {
			kind = "list"
		}
		return out, unfit("%s are no JSON %s; --tool-args text keeps them as they are", what, kind)
	}
	return out, nil
}

// isJSON reports whether text is a JSON object ('{') or list ('[').
func isJSON(text string, open byte) bool {
	trimmed := strings.TrimLeft(text, " \t\r\n")
	return trimmed != "" && trimmed[0] == open && json.Valid([]byte(text))
}
