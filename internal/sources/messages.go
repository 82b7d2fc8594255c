package sources

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

var roles = []string{chat.RoleSystem, chat.RoleUser, chat.RoleAssistant, chat.RoleTool}

// maxMessages bounds a conversation.
const maxMessages = 10_000

// conversation reads a list of messages, or its JSON text. The system text, if
// the first message holds one, comes back apart; fields are those
// of each of the others.
func conversation(v any) (system string, messages []chat.Message, fields []map[string]any, err error) {
	if s, ok := v.(string); ok {
		if v, err = parseJSON(s); err != nil {
			return "", nil, nil, fmt.Errorf("messages are no JSON: %w", err)
		}
	}
	list, ok := v.([]any)
	if !ok {
		return "", nil, nil, fmt.Errorf("messages are %s, want a list of {role, content}", kindOf(v))
	}
	if len(list) > maxMessages {
		return "", nil, nil, fmt.Errorf("more than %d messages", maxMessages)
	}
	for i := range list {
		one, ok := list[i].(map[string]any)
		if !ok {
			return "", nil, nil, fmt.Errorf("message %d: is %s, want {role, content}", i+1, kindOf(list[i]))
		}
		m, err := message(one)
		if err != nil {
			return "", nil, nil, fmt.Errorf("message %d: %w", i+1, err)
		}
		if m.Role != chat.RoleSystem {
			messages, fields = append(messages, m), append(fields, one)
			continue
		}
		if i > 0 {
			return "", nil, nil, fmt.Errorf("message %d: a system message must be the first", i+1)
		}
		if m.Content != nil {
			system = *m.Content
		}
	}
	return system, messages, fields, nil
}

func message(fields map[string]any) (chat.Message, error) {
	m := chat.Message{}
	role, ok := fields["role"].(string)
	if !ok || !slices.Contains(roles, role) {
		return m, fmt.Errorf("role is none of %s", strings.Join(roles, ", "))
	}
	m.Role = role
	var err error
	if m.Content, err = content(fields["content"]); err != nil {
		return m, err
	}
	for key, to := range map[string]**string{"name": &m.Name, "tool_call_id": &m.ToolCallID, "reasoning_signature": &m.ReasoningSignature} {
		if *to, err = optional(fields, key); err != nil {
			return m, err
		}
	}
	// Two spellings of the same field; the newer one counts where both are there.
	for _, key := range []string{"reasoning_content", "reasoning"} {
		s, err := optional(fields, key)
		if err != nil {
			return m, err
		}
		if s != nil {
			m.ReasoningContent = s
		}
	}
	if m.ToolCalls, err = toolCalls(fields["tool_calls"]); err != nil {
		return m, err
	}
	if m.Content == nil && len(m.ToolCalls) == 0 {
		return m, errors.New("has neither content nor tool calls")
	}
	return m, nil
}

func optional(fields map[string]any, key string) (*string, error) {
	switch v := fields[key].(type) {
	case nil:
		return nil, nil
	case string:
		return &v, nil
	default:
		return nil, fmt.Errorf("%s is %s, want a text", key, kindOf(v))
	}
}

// content is a text, null, or a list of parts of which all are texts.
func content(v any) (*string, error) {
	switch t := v.(type) {
	case nil:
		return nil, nil
	case string:
		return &t, nil
	case []any:
		var b strings.Builder
		for _, part := range t {
			fields, _ := part.(map[string]any)
			text, ok := fields["text"].(string)
			if !ok || fields["type"] != "text" {
				return nil, errors.New("content has a part that is no text; images and the like are not read from messages")
			}
			b.WriteString(text)
		}
		return chat.Text(b.String()), nil
	}
	return nil, fmt.Errorf("content is %s, want a text", kindOf(v))
}

func toolCalls(v any) ([]chat.ToolCall, error) {
	if v == nil {
		return nil, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, fmt.Errorf("tool_calls is %s, want a list", kindOf(v))
	}
	out := make([]chat.ToolCall, 0, len(list))
	for _, item := range list {
		call, _ := item.(map[string]any)
		function, ok := call["function"].(map[string]any)
		if !ok {
			function = call // flat, as in tables
		}
		name, ok := function["name"].(string)
		if !ok || name == "" {
			return nil, errors.New("a tool call has no function name")
		}
		c := chat.ToolCall{Type: "function", Name: name, Arguments: "{}"}
		if args := function["arguments"]; args != nil {
			c.Arguments = jsonText(args)
		}
		c.ID, _ = call["id"].(string)
		if kind, ok := call["type"].(string); ok && kind != "" {
			c.Type = kind
		}
		out = append(out, c)
	}
	return out, nil
}

// toolText is a list of tool declarations as JSON text.
func toolText(v any) (string, error) {
	if s, ok := v.(string); ok {
		if strings.TrimSpace(s) == "" {
			return "", nil
		}
		parsed, err := parseJSON(s)
		if err != nil {
			return "", fmt.Errorf("tools are no JSON: %w", err)
		}
		v = parsed
	}
	list, ok := v.([]any)
	if !ok {
		return "", fmt.Errorf("tools are %s, want a list of declarations", kindOf(v))
	}
	for i := range list {
		if _, ok := list[i].(map[string]any); !ok {
			return "", fmt.Errorf("tool %d is %s, want a declaration", i+1, kindOf(list[i]))
		}
	}
	if len(list) == 0 {
		return "", nil
	}
	return string(appendJSON(nil, v)), nil
}
