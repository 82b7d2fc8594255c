package sources

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// defaultFields are where a prompt is looked for when the recipe names no
// field, in this order.
var defaultFields = []string{"prompt", "messages", "question", "instruction"}

// A promptReader makes the prompt of a row.
type promptReader struct {
	prompt      fieldPath
	messages    fieldPath
	template    *template.Template
	system      string
	systemField fieldPath
}

func newPromptReader(prompt, messages, text, system, systemField string) (promptReader, error) {
	p := promptReader{
		prompt: newFieldPath(prompt), messages: newFieldPath(messages),
		system: system, systemField: newFieldPath(systemField),
	}
	if text == "" {
		return p, nil
	}
	t, err := template.New("template").Option("missingkey=error").Parse(text)
	if err != nil {
		return p, fmt.Errorf("template: %w", err)
	}
	p.template = t
	return p, nil
}

// read returns the prompt with all messages of the row. An answer that ends
// the conversation is still among them.
func (p *promptReader) read(values map[string]any) (chat.Prompt, error) {
	out, _, err := p.readTurns(values)
	return out, err
}

// readTurns is read with the fields of each message as the row has them.
func (p *promptReader) readTurns(values map[string]any) (out chat.Prompt, fields []map[string]any, err error) {
	out = chat.Prompt{System: p.system}
	if s, ok, err := p.systemField.text(values); err != nil {
		return out, nil, err
	} else if ok {
		out.System = s
	}
	v, isText, err := p.source(values)
	if err != nil {
		return out, nil, err
	}
	if isText {
		text := v.(string)
		if strings.TrimSpace(text) == "" {
			return out, nil, errors.New("the prompt is empty")
		}
		out.Messages = []chat.Message{{Role: chat.RoleUser, Content: &text}}
		return out, []map[string]any{nil}, nil
	}
	system, messages, fields, err := conversation(v)
	if err != nil {
		return out, nil, err
	}
	if system != "" && out.System != "" {
		return out, nil, errors.New("the messages have a system text and the recipe names another; keep one of the two")
	}
	if system != "" {
		out.System = system
	}
	out.Messages = messages
	return out, fields, nil
}

// source returns the text or the conversation that the prompt is made of.
func (p *promptReader) source(values map[string]any) (v any, isText bool, err error) {
	switch {
	case p.template != nil:
		text, err := p.render(values)
		return text, true, err
	case p.prompt.name != "":
		text, err := p.prompt.needed(values)
		return text, true, err
	case p.messages.name != "":
		v, ok := p.messages.find(values)
		if !ok {
			return nil, false, p.messages.missing(values)
		}
		return v, false, nil
	}
	for _, name := range defaultFields {
		v := values[name]
		if v == nil {
			continue
		}
		if _, isList := v.([]any); isList || name == "messages" {
			return v, false, nil
		}
		text, ok := scalarText(v)
		if !ok {
			return nil, false, fmt.Errorf("field %s is %s, want a text", name, kindOf(v))
		}
		return text, true, nil
	}
	return nil, false, fmt.Errorf("has none of the fields %s; name the prompt's: fields: {prompt: …}; its fields are %s",
		strings.Join(defaultFields, ", "), columns(values))
}

// render fills the template. A field that is missing or null is an error: the
// word <no value> in a prompt would be paid for.
func (p *promptReader) render(values map[string]any) (string, error) {
	var b strings.Builder
	err := p.template.Execute(&boundedWriter{w: &b, left: MaxLine}, withoutNulls(values))
	if err != nil {
		text := err.Error()
		if i := strings.LastIndex(text, ">: "); i >= 0 {
			text = text[i+3:]
		}
		return "", fmt.Errorf("template: %s; its fields are %s", clip(text), columns(values))
	}
	return b.String(), nil
}

// A boundedWriter ends a template that would write for ever.
type boundedWriter struct {
	w    io.Writer
	left int
}

func (b *boundedWriter) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, fmt.Errorf("the text is larger than %d bytes", MaxLine)
	}
	return b.w.Write(p)
}

// withoutNulls leaves out null fields, at all levels; what has none is shared.
func withoutNulls(values map[string]any) map[string]any {
	out := values
	copied := false
	set := func(k string, v any) {
		if !copied {
			out, copied = make(map[string]any, len(values)), true
			for k, v := range values {
				out[k] = v
			}
		}
		if v == nil {
			delete(out, k)
		} else {
			out[k] = v
		}
	}
	for k, v := range values {
		if v == nil {
			set(k, nil)
		} else if m, ok := v.(map[string]any); ok && hasNull(m) {
			set(k, withoutNulls(m))
		}
	}
	return out
}

func hasNull(m map[string]any) bool {
	for _, v := range m {
		if v == nil {
			return true
		}
		if inner, ok := v.(map[string]any); ok && hasNull(inner) {
			return true
		}
	}
	return false
}

// endsWithAnswer tells whether the last turn is the assistant's.
func endsWithAnswer(messages []chat.Message) bool {
	return len(messages) > 0 && messages[len(messages)-1].Role == chat.RoleAssistant
}

// checkQuestion checks that a prompt asks something.
func checkQuestion(messages []chat.Message) error {
	asks := slices.ContainsFunc(messages, func(m chat.Message) bool {
		return m.Role != chat.RoleAssistant && m.Content != nil && strings.TrimSpace(*m.Content) != ""
	})
	if !asks {
		return errors.New("the prompt is empty")
	}
	return nil
}
