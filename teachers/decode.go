package teachers

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// chatDecoder reads a chat completion, streamed or whole.
type chatDecoder struct {
	model, fingerprint string
	content, refusal   []byte
	hasContent         bool // content was sent and not null
	reasoning          reasoningTexts
	calls              toolCalls
	usage              usageTally
	logprobs           logprobReader
	finish             string
	choice             int64 // index of the choice that is read
	hasChoice          bool
	flags              []string
	failure            *Error // what the endpoint reported in the middle of a response
	done               bool   // [DONE] came
	same               template
}

func (d *chatDecoder) finished() bool { return d.failure == nil && terminal(d.finish) }

func (d *chatDecoder) closed() bool { return d.done }

func (d *chatDecoder) event(name, data []byte) (bool, error) {
	data = bytes.TrimSpace(data)
	switch {
	case d.done || len(data) == 0 || string(name) == "ping":
		return false, nil
	case string(data) == "[DONE]":
		d.done = true
		return true, nil
	case string(name) == "error":
		return false, d.reported(errorInBody(data))
	}
	if text, ok := d.same.match(name, data); ok {
		d.more(text)
		return len(text) > 2, nil
	}
	before := d.size()
	event := data
	// One event is one object, unless a proxy joined two.
	for len(data) > 0 {
		end, err := d.object(data, true)
		if err != nil {
			return false, err
		}
		data = data[skipSpace(data, end):]
	}
	if d.hasChoice && d.same.wanted() {
		text, target, ok := plainChunk(event, d.choice)
		d.same.learn(name, event, text, target, ok)
	}
	return d.size() > before, nil
}

// more reads the text of an event of the same shape as the one before.
func (d *chatDecoder) more(text []byte) {
	if d.same.target == targetContent {
		d.content = appendText(d.content, text)
	} else {
		d.reasoning.text[d.same.target] = appendText(d.reasoning.text[d.same.target], text)
	}
}

func (d *chatDecoder) whole(body []byte) error {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil
	}
	end, err := d.object(body, false)
	if err == nil && end < len(body) {
		return d.unreadable(errJSONSyntax)
	}
	return err
}

// size grows with everything that brings the answer forward.
func (d *chatDecoder) size() int {
	n := len(d.content) + len(d.refusal) + d.reasoning.size() + d.calls.size
	if d.finish != "" {
		n++
	}
	if d.usage.sent {
		n++
	}
	return n
}

// hasText tells whether anything that the model wrote has arrived.
func (d *chatDecoder) hasText() bool {
	return len(d.content)+len(d.refusal)+d.reasoning.size()+d.calls.size > 0
}

// reported takes an error that the endpoint put in a 200. After a whole answer
// it changes nothing: the answer was paid for and is all there.
func (d *chatDecoder) reported(e *Error) error {
	if d.finished() {
		d.flag(FlagErrorAfterFinish)
		return nil
	}
	d.failure = e
	return e
}

// unreadable takes the end of a response that is no JSON.
func (d *chatDecoder) unreadable(err error) error {
	if d.finished() {
		d.flag(FlagErrorAfterFinish)
		return nil
	}
	class := ClassMalformed
	if errors.Is(err, errJSONEnd) {
		class = ClassTruncated
	}
	d.failure = &Error{Class: class, Excerpt: err.Error(), cause: err}
	return d.failure
}

// object reads the object that data starts with and tells where it ends. An
// object that is cut or no JSON leaves nothing behind.
func (d *chatDecoder) object(data []byte, stream bool) (end int, err error) {
	var choices, usage, model, fingerprint, promptIDs []byte
	isError, flat := false, false
	c := walk(data)
	for c.next() {
		switch string(c.name) {
		case "choices":
			choices = c.value
		case "model":
			model = c.value
		case "system_fingerprint":
			fingerprint = c.value
		case "usage":
			usage = c.value
		case "prompt_token_ids":
			promptIDs = c.value
		case "timings", "x_groq", "prompt_eval_count", "eval_count":
			d.usage.elsewhere(string(c.name), c.value)
		case "error":
			isError = isError || reportsError(c.value)
		case "object":
			isError = isError || string(c.value) == `"error"`
		case "detail":
			flat = true
		case "code", "message":
			flat = flat || !isNull(c.value)
		}
	}
	if data[0] != '{' {
		c.err = errJSONSyntax
	}
	if c.err != nil {
		return len(data), d.unreadable(c.err)
	}
	if isError || flat && choices == nil {
		return c.i, d.reported(errorInBody(data[:c.i]))
	}
	d.usage.add(usage)
	remember(&d.model, model)
	remember(&d.fingerprint, fingerprint)
	if len(d.logprobs.prompt) == 0 {
		d.logprobs.addIDs(&d.logprobs.prompt, promptIDs)
	}
	list := inside(choices)
	for list.next() {
		d.readChoice(list.value, stream)
	}
	return c.i, nil
}

// remember keeps a text that every event repeats, without making it anew.
func remember(text *string, value []byte) {
	if len(value) > 2 && isString(value) && string(value[1:len(value)-1]) != *text {
		*text = textOf(value)
	}
}

// reportsError tells whether the value of "error" is one: some servers send
// null, false, "" or 0 in every event.
func reportsError(value []byte) bool {
	switch string(value) {
	case "null", "false", `""`, "0":
		return false
	}
	return true
}

func (d *chatDecoder) readChoice(choice []byte, stream bool) {
	var message, whole []byte
	index := int64(0)
	finish := ""
	var logprobs, tokenIDs []byte
	c := inside(choice)
	for c.next() {
		switch string(c.name) {
		case "index":
			index, _ = wholeNumber(c.value)
		case "delta":
			message = c.value
		case "message":
			whole = c.value
		case "finish_reason":
			finish = textOf(c.value)
		case "usage":
			d.usage.add(c.value)
		case "logprobs":
			logprobs = c.value
		case "token_ids":
			tokenIDs = c.value
		}
	}
	switch {
	case !d.hasChoice:
		d.hasChoice, d.choice = true, index
	case index != d.choice:
		d.flag(FlagExtraChoices)
		return
	}
	// Some servers repeat the whole message in the last event of a stream.
	if whole != nil && (message == nil || len(message) == 2) && (!stream || !d.hasText()) {
		message = whole
	}
	if message != nil {
		d.readMessage(message)
	}
	if finish != "" && (terminal(finish) || !terminal(d.finish)) {
		d.finish = finish
	}
	if len(logprobs) > 0 && logprobs[0] == '{' {
		d.logprobs.read(logprobs)
	}
	d.logprobs.addIDs(&d.logprobs.ids, tokenIDs)
}

func (d *chatDecoder) readMessage(message []byte) {
	c := walk(message)
	for c.next() {
		if isNull(c.value) {
			continue
		}
		switch string(c.name) {
		case "content":
			d.readContent(c.value)
		case "refusal":
			d.refusal = appendText(d.refusal, c.value)
		case "reasoning_content", "reasoning", "thinking", "reasoning_details":
			d.reasoning.add(string(c.name), c.value)
		case "tool_calls":
			d.calls.add(c.value)
		case "function_call":
			d.calls.addFunction(c.value)
		}
	}
}

// readContent takes a string or a list of parts.
func (d *chatDecoder) readContent(value []byte) {
	d.hasContent = true
	if value[0] != '[' {
		d.content = appendText(d.content, value)
		return
	}
	list := walk(value)
	for list.next() {
		if isString(list.value) {
			d.content = appendText(d.content, list.value)
			continue
		}
		var kind string
		var text, thought []byte
		c := walk(list.value)
		for c.next() {
			switch string(c.name) {
			case "type":
				kind = textOf(c.value)
			case "text", "content":
				text = c.value
			case "thinking", "reasoning":
				thought = c.value
			case "refusal":
				d.refusal = appendText(d.refusal, c.value)
			}
		}
		switch kind {
		case "thinking", "reasoning":
			if thought == nil {
				thought = text
			}
			d.reasoning.add(fieldParts, thought)
		default:
			d.content = appendText(d.content, text)
		}
	}
}

func (d *chatDecoder) flag(name string) {
	if !slices.Contains(d.flags, name) {
		d.flags = append(d.flags, name)
	}
}

// text is accumulated text made valid, with a flag where that took a change.
func (d *chatDecoder) text(b []byte) string {
	s, replaced := cleanText(b)
	if replaced {
		d.flag(FlagBadUTF8)
	}
	return s
}

// answer gives what was read. It is called once, when the response has ended.
func (d *chatDecoder) answer() (*Answer, error) {
	switch {
	case d.failure != nil:
		return nil, d.failure
	case !d.hasChoice:
		return nil, &Error{Class: ClassEmpty, Excerpt: "the response holds no choice"}
	case !terminal(d.finish):
		return nil, unfinished(d.finish)
	}
	a := &Answer{Finish: d.finish, Model: d.model, Fingerprint: d.fingerprint, Usage: d.usage.result()}
	a.Message.Role = chat.RoleAssistant
	a.Message.Train = true
	a.Refusal = d.text(d.refusal)
	content := d.text(d.content)
	reasoning := d.readReasoning(a, content)
	if reasoning.content != nil {
		content = *reasoning.content
	}
	if d.hasContent {
		a.Message.Content = &content
	}
	if hasThinkTag(content) {
		d.flag(FlagThinkTags)
	}
	if hasControlTokens(content) || hasControlTokens(reasoning.text) {
		d.flag(FlagControlTokens)
	}
	a.Message.ToolCalls = d.calls.result(d)
	if len(a.Message.ToolCalls) > 0 {
		valid := true
		for _, call := range a.Message.ToolCalls {
			valid = valid && json.Valid([]byte(call.Arguments))
		}
		a.ArgsValid = &valid
	}
	d.finishLogprobs(a)
	slices.Sort(d.flags)
	a.Flags = d.flags
	return a, nil
}

// terminal tells whether a finish reason says that the answer is whole, be it
// cut by a cap or a filter. The set of reasons is open; these are the ones
// that say the opposite.
func terminal(finish string) bool {
	switch finish {
	case "", "error", "abort", "aborted", "cancelled", "insufficient_system_resource":
		return false
	}
	return true
}

func unfinished(finish string) *Error {
	switch finish {
	case "":
		return &Error{Class: ClassTruncated, Excerpt: "the response ended without a finish reason"}
	case "error":
		return &Error{Class: ClassServer, Excerpt: `finish_reason "error"`}
	case "insufficient_system_resource":
		return &Error{Class: ClassOverloaded, Excerpt: `finish_reason "insufficient_system_resource"`}
	}
	return &Error{Class: ClassTruncated, Excerpt: "finish_reason " + finish}
}
