package teachers

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// What Profile.ReasoningHistory says of endpoints of the messages protocol.
const (
	historyThinking = "thinking"        // every thinking block goes back
	historySigned   = "thinking_signed" // only one whose signature is known
)

// system appends the system text as a member of its own, and nothing where
// there is none.
func (anthropic) system(dst []byte, p *chat.Prompt) []byte {
	text := p.System
	for _, m := range p.Messages[:leadingSystem(p.Messages)] {
		if m.Content == nil || *m.Content == "" {
			continue
		}
		if text != "" {
			text += "\n\n"
		}
		text += *m.Content
	}
	if text == "" {
		return dst
	}
	return chat.AppendString(dst, text)
}

// leadingSystem counts the system messages that a conversation begins with.
func leadingSystem(messages []chat.Message) int {
	n := 0
	for n < len(messages) && messages[n].Role == chat.RoleSystem {
		n++
	}
	return n
}

// messages appends the conversation. Tool results are blocks of a user message
// here, all those of one turn in the same, before what the user says. A turn
// that the protocol has no form for makes a request that is refused without
// being sent: one row of a dataset must not end a build.
func (anthropic) messages(dst []byte, r *Request, p *chat.Prompt, profile *Profile) ([]byte, error) {
	m := messageWriter{r: r, dst: append(dst, '['), profile: profile}
	list := p.Messages[leadingSystem(p.Messages):]
	if len(list) == 0 {
		return nil, errors.New("prompt without messages")
	}
	lastUserAt := -1
	if len(p.Images) > 0 {
		if lastUserAt = lastUser(list); lastUserAt < 0 {
			return nil, errors.New("prompt with images but without a user message")
		}
	}
	for i := 0; i < len(list); i++ {
		switch list[i].Role {
		case chat.RoleAssistant:
			m.assistant(&list[i])
		case chat.RoleTool:
			i = m.results(list, i, lastUserAt, p.Images)
		case chat.RoleUser:
			if i == lastUserAt {
				m.userBlocks(&list[i], p.Images)
			} else {
				m.text(chat.RoleUser, list[i].Content)
			}
		default:
			m.refuse("message %d has the role %s, which this protocol allows at the beginning only", i+1, list[i].Role)
			m.text(chat.RoleUser, list[i].Content)
		}
	}
	m.dst[len(m.dst)-1] = ']'
	return m.dst, nil
}

// A messageWriter appends messages in RFC 8785's order of keys, each followed
// by a comma. Arguments of tool calls stay as the model wrote them.
type messageWriter struct {
	r       *Request
	dst     []byte
	profile *Profile
}

func (m *messageWriter) refuse(format string, args ...any) {
	if m.r.unsendable == "" {
		m.r.unsendable = fmt.Sprintf(format, args...)
	}
}

func (m *messageWriter) raw(s string) { m.dst = append(m.dst, s...) }

func (m *messageWriter) string(s string) { m.dst = chat.AppendString(m.dst, s) }

func (m *messageWriter) open() { m.raw(`{"content":[`) }

// end takes the comma of the last block away and ends the message.
func (m *messageWriter) end(role string) {
	m.dst[len(m.dst)-1] = ']'
	m.raw(`,"role":"` + role + `"},`)
}

// text is a message of one text; a turn that says nothing is an empty one, so
// that the endpoint says what it thinks of it.
func (m *messageWriter) text(role string, content *string) {
	m.raw(`{"content":`)
	if content == nil {
		m.raw(`""`)
	} else {
		m.string(*content)
	}
	m.raw(`,"role":"` + role + `"},`)
}

func (m *messageWriter) userBlocks(message *chat.Message, images []chat.Image) {
	m.open()
	m.images(images)
	m.textBlock(message.Content)
	m.end(chat.RoleUser)
}

func (m *messageWriter) images(images []chat.Image) {
	for _, image := range images {
		m.raw(`{"source":`)
		start := len(m.dst)
		m.string("sha256:" + image.Digest)
		m.r.images = append(m.r.images, imageSlot{start: start, end: len(m.dst), image: image})
		m.r.Images = append(m.r.Images, image.Digest)
		m.raw(`,"type":"image"},`)
	}
}

// textBlock leaves an empty text out: the protocol refuses such blocks.
func (m *messageWriter) textBlock(content *string) {
	if content == nil || *content == "" {
		return
	}
	m.raw(`{"text":`)
	m.string(*content)
	m.raw(`,"type":"text"},`)
}

// results writes the tool results from list[i] on, and what the user says
// after them, as one message. It returns the index of the last one taken.
func (m *messageWriter) results(list []chat.Message, i, lastUserAt int, images []chat.Image) int {
	m.open()
	for ; i < len(list) && list[i].Role == chat.RoleTool; i++ {
		result := &list[i]
		m.raw(`{`)
		if result.Content != nil && *result.Content != "" {
			m.raw(`"content":`)
			m.string(*result.Content)
			m.raw(`,`)
		}
		if result.ToolCallID == nil {
			m.refuse("message %d is a tool's result without tool_call_id", i+1)
		} else {
			m.raw(`"tool_use_id":`)
			m.string(*result.ToolCallID)
			m.raw(`,`)
		}
		m.raw(`"type":"tool_result"},`)
	}
	if i < len(list) && list[i].Role == chat.RoleUser {
		if i == lastUserAt {
			m.images(images)
		}
		m.textBlock(list[i].Content)
		i++
	}
	m.end(chat.RoleUser)
	return i - 1
}

func (m *messageWriter) assistant(message *chat.Message) {
	thinks := m.thinks(message)
	if !thinks && len(message.ToolCalls) == 0 {
		m.text(chat.RoleAssistant, message.Content)
		return
	}
	m.open()
	if thinks {
		m.raw(`{"signature":`)
		m.string(signature(message))
		m.raw(`,"thinking":`)
		m.string(*message.ReasoningContent)
		m.raw(`,"type":"thinking"},`)
	}
	m.textBlock(message.Content)
	for i := range message.ToolCalls {
		m.toolUse(&message.ToolCalls[i])
	}
	m.end(chat.RoleAssistant)
}

// thinks tells whether the reasoning of an earlier turn goes back.
func (m *messageWriter) thinks(message *chat.Message) bool {
	if message.ReasoningContent == nil || *message.ReasoningContent == "" {
		return false
	}
	switch m.profile.ReasoningHistory {
	case historyThinking:
		return true
	case historySigned:
		return signature(message) != ""
	}
	return false
}

func signature(message *chat.Message) string {
	if message.ReasoningSignature == nil {
		return ""
	}
	return *message.ReasoningSignature
}

func (m *messageWriter) toolUse(call *chat.ToolCall) {
	m.raw(`{"id":`)
	m.string(call.ID)
	m.raw(`,"input":`)
	if input, ok := compactObject(call.Arguments); ok {
		m.dst = append(m.dst, input...)
	} else {
		m.refuse("the arguments of tool call %s are no JSON object, which this protocol cannot carry", call.ID)
		m.string(call.Arguments)
	}
	m.raw(`,"name":`)
	m.string(call.Name)
	m.raw(`,"type":"tool_use"},`)
}

// compactObject is the text of a JSON object without white space between its
// parts; numbers and the order of keys stay as they are. No text is an empty
// object, which is how some endpoints write a call without arguments.
func compactObject(text string) ([]byte, bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return []byte("{}"), true
	}
	var b bytes.Buffer
	if text[0] != '{' || !utf8.ValidString(text) || json.Compact(&b, []byte(text)) != nil {
		return nil, false
	}
	return b.Bytes(), true
}

// tools makes declarations of the other protocol this one's; declarations in
// this protocol's own form stay as they are.
func (anthropic) tools(list []byte) ([]byte, error) {
	if len(list) == 0 || list[0] != '[' {
		return nil, errors.New("tools: want a list of declarations")
	}
	dst := []byte{'['}
	l := walk(list)
	for l.next() {
		if l.value[0] != '{' {
			return nil, fmt.Errorf("tools: a declaration is no object: %.40s", l.value)
		}
		dst = append(appendTool(dst, l.value), ',')
	}
	if len(dst) == 1 {
		return append(dst, ']'), nil
	}
	dst[len(dst)-1] = ']'
	return dst, nil
}

func appendTool(dst, tool []byte) []byte {
	var function, cache []byte
	c := walk(tool)
	for c.next() {
		switch string(c.name) {
		case "function":
			function = c.value
		case "cache_control":
			cache = c.value
		}
	}
	if len(function) == 0 || function[0] != '{' {
		return append(dst, tool...)
	}
	var description, parameters, name, strict []byte
	c = walk(function)
	for c.next() {
		switch string(c.name) {
		case "description":
			description = c.value
		case "parameters":
			parameters = c.value
		case "name":
			name = c.value
		case "strict":
			strict = c.value
		}
	}
	if parameters == nil || isNull(parameters) {
		parameters = []byte(`{"properties":{},"type":"object"}`)
	}
	dst = append(dst, '{')
	for _, member := range []struct {
		name  string
		value []byte
	}{{"cache_control", cache}, {"description", description}, {"input_schema", parameters}, {"name", name}, {"strict", strict}} {
		if member.value != nil {
			dst = appendMember(dst, member.name, member.value)
		}
	}
	dst[len(dst)-1] = '}'
	return dst
}
