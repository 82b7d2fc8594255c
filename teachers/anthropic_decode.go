package teachers

import (
	"bytes"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// messageDecoder reads a message, streamed or whole. What the text means
// (inline reasoning, leaked tokens, broken characters) is decided as for the
// other protocol.
type messageDecoder struct {
	chat    chatDecoder // holds text, reasoning and calls as they come
	usage   messageUsage
	started bool // a message or a block of one came
	blocks  map[int64]*contentBlock
	last    int64 // index of the block that came last
	thought int   // thinking blocks so far
	hidden  bool  // some reasoning came encrypted
	sign    []byte
	other   int // bytes of blocks that are no part of the answer's text
}

// A contentBlock is a content block whose pieces are still coming.
type contentBlock struct {
	kind  string
	input []byte // of a tool call, as the block's start gave it
	call  int64  // which call it is
}

// maxBlocks bounds the content blocks of one answer.
const maxBlocks = 4096

const fieldThinking = "thinking"

func (d *messageDecoder) finished() bool { return d.chat.finished() }

func (d *messageDecoder) closed() bool { return d.chat.done }

func (d *messageDecoder) event(name, data []byte) (bool, error) {
	data = bytes.TrimSpace(data)
	switch {
	case d.chat.done || len(data) == 0 || string(name) == "ping":
		return false, nil
	case string(data) == "[DONE]": // of gateways that speak both protocols
		d.chat.done = true
		return true, nil
	case string(name) == "error":
		return false, d.chat.reported(errorInBody(data))
	}
	if text, ok := d.chat.same.match(name, data); ok {
		d.chat.more(text)
		return len(text) > 2, nil
	}
	before := d.size()
	event := data
	for len(data) > 0 { // one object, unless a proxy joined two
		end, err := d.object(string(name), data)
		if err != nil {
			return false, err
		}
		data = data[skipSpace(data, end):]
	}
	if d.chat.same.wanted() {
		text, target, ok := plainBlockDelta(event)
		d.chat.same.learn(name, event, text, target, ok)
	}
	return d.size() > before, nil
}

func (d *messageDecoder) whole(body []byte) error {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return nil
	}
	end, err := d.object("message", body)
	if err == nil && end < len(body) {
		return d.chat.unreadable(errJSONSyntax)
	}
	return err
}

func (d *messageDecoder) size() int {
	n := d.chat.size() + d.other + len(d.sign) + d.thought
	if d.usage.sent {
		n++
	}
	if d.chat.done {
		n++
	}
	return n
}

// object reads one event or a whole message, and tells where it ends.
func (d *messageDecoder) object(kind string, data []byte) (end int, err error) {
	var message, delta, content, usage, model, stop, failure []byte
	flat, other := false, false
	index := int64(-1)
	c := walk(data)
	for c.next() {
		switch string(c.name) {
		case "type":
			if isString(c.value) {
				kind = string(c.value[1 : len(c.value)-1])
			}
		case "index":
			if n, ok := wholeNumber(c.value); ok {
				index = n
			}
		case "message":
			message = c.value
			flat = flat || isString(c.value)
		case "delta":
			delta = c.value
		case "content_block", "content":
			content = c.value
		case "usage":
			usage = c.value
		case "model":
			model = c.value
		case "stop_reason":
			stop = c.value
		case "error":
			if reportsError(c.value) {
				failure = c.value
			}
		case "detail":
			flat = true
		case "choices":
			failure = c.value
			other = true
		}
	}
	if data[0] != '{' {
		c.err = errJSONSyntax
	}
	if c.err != nil {
		return len(data), d.chat.unreadable(c.err)
	}
	if other {
		return c.i, d.chat.reported(&Error{Class: ClassMalformed, Excerpt: "the response is a chat completion, not a message; the endpoint speaks api: openai", final: true})
	}
	if failure != nil || kind == "error" || flat && content == nil {
		return c.i, d.chat.reported(errorInBody(data[:c.i]))
	}
	switch kind {
	case "message_start":
		d.message(message)
	case "message":
		d.message(data[:c.i])
	case "content_block_start":
		d.start(index, content)
	case "content_block_delta":
		d.delta(index, delta)
	case "message_delta":
		d.usage.add(usage)
		d.end(delta)
	case "message_stop":
		d.usage.add(usage)
		d.chat.done = true
	case "content_block_stop", "ping":
	default: // new kinds of events come; what they bring beside is taken
		remember(&d.chat.model, model)
		d.finish(stop)
	}
	return c.i, nil
}

// message reads a message, or the beginning of one.
func (d *messageDecoder) message(value []byte) {
	c := walk(value)
	for c.next() {
		d.started = true
		switch string(c.name) {
		case "model":
			remember(&d.chat.model, c.value)
		case "content":
			if isString(c.value) {
				d.write(c.value)
				continue
			}
			list := walk(c.value)
			for i := int64(0); list.next(); i++ {
				d.start(i, list.value)
			}
		case "stop_reason":
			d.finish(c.value)
		case "usage":
			d.usage.add(c.value)
		}
	}
}

func (d *messageDecoder) write(text []byte) {
	d.chat.hasContent = true
	d.chat.content = appendText(d.chat.content, text)
}

func (d *messageDecoder) think(text []byte) {
	d.chat.reasoning.add(fieldThinking, text)
}

// start reads a content block: a whole one of a plain response, or the
// beginning of one of a stream.
func (d *messageDecoder) start(index int64, value []byte) {
	d.started = true
	var kind string
	var text, thought, signature, id, name, input []byte
	c := walk(value)
	for c.next() {
		switch string(c.name) {
		case "type":
			kind = textOf(c.value)
		case "text":
			text = c.value
		case "thinking":
			thought = c.value
		case "signature":
			signature = c.value
		case "id":
			id = c.value
		case "name":
			name = c.value
		case "input":
			input = c.value
		}
	}
	b := d.open(index, kind)
	if b == nil {
		return
	}
	switch kind {
	case "text":
		d.write(text)
	case "thinking":
		d.nextThought()
		d.think(thought)
		d.sign = appendText(d.sign, signature)
	case "redacted_thinking":
		d.hidden = true
		d.other += len(value)
	case "tool_use":
		b.call = d.nextCall()
		b.input = bytes.Clone(input)
		d.chat.calls.take(&fragment{index: b.call, id: textOf(id), kind: "function", name: appendText(nil, name)})
	default:
		d.other += len(value)
		d.chat.flag(FlagOtherBlocks)
	}
}

// open remembers a block; nil: there are too many.
func (d *messageDecoder) open(index int64, kind string) *contentBlock {
	if d.blocks == nil {
		d.blocks = map[int64]*contentBlock{}
	}
	if index < 0 {
		index = d.last + 1
	}
	d.last = index
	if len(d.blocks) >= maxBlocks && d.blocks[index] == nil {
		d.chat.flag(FlagOtherBlocks)
		return nil
	}
	b := &contentBlock{kind: kind}
	d.blocks[index] = b
	return b
}

// nextThought parts the texts of several thinking blocks.
func (d *messageDecoder) nextThought() {
	if d.thought++; d.thought > 1 {
		d.think([]byte(`"\n\n"`))
	}
}

func (d *messageDecoder) nextCall() int64 { return int64(len(d.chat.calls.calls)) }

func (d *messageDecoder) delta(index int64, value []byte) {
	var kind string
	var text, thought, signature, partial []byte
	c := walk(value)
	for c.next() {
		switch string(c.name) {
		case "type":
			if isString(c.value) {
				kind = string(c.value[1 : len(c.value)-1])
			}
		case "text":
			text = c.value
		case "thinking":
			thought = c.value
		case "signature":
			signature = c.value
		case "partial_json":
			partial = c.value
		}
	}
	d.started = true
	if index < 0 {
		index = d.last
	}
	switch kind {
	case "text_delta":
		d.blockFor(index, "text")
		d.write(text)
	case "thinking_delta":
		if d.blockFor(index, "thinking") {
			d.nextThought()
		}
		d.think(thought)
	case "signature_delta":
		d.sign = appendText(d.sign, signature)
	case "input_json_delta":
		b := d.blocks[index]
		if b == nil || b.kind != "tool_use" {
			d.other += len(partial) // of a tool that the server itself runs
			return
		}
		d.chat.calls.take(&fragment{index: b.call, args: partial})
	default:
		d.other += len(value)
	}
}

// blockFor makes a block that some servers never start; true: it is new.
func (d *messageDecoder) blockFor(index int64, kind string) bool {
	if d.blocks[index] != nil {
		return false
	}
	return d.open(index, kind) != nil
}

func (d *messageDecoder) end(delta []byte) {
	c := walk(delta)
	for c.next() {
		switch string(c.name) {
		case "stop_reason":
			d.finish(c.value)
		case "usage":
			d.usage.add(c.value)
		}
	}
}

func (d *messageDecoder) finish(value []byte) {
	if reason := textOf(value); reason != "" && (terminal(reason) || !terminal(d.chat.finish)) {
		d.chat.finish = reason
	}
}

func (d *messageDecoder) answer() (*Answer, error) {
	if d.chat.failure == nil && !d.started {
		return nil, &Error{Class: ClassEmpty, Excerpt: "the response holds no message"}
	}
	d.chat.hasChoice = true
	d.completeCalls()
	if d.hidden {
		d.chat.flag(FlagReasoningHidden)
	}
	a, err := d.chat.answer()
	if err != nil {
		return nil, err
	}
	a.Usage = d.usage.result()
	if a.ReasoningField == fieldThinking && summarises(a.Model) {
		a.Message.ReasoningKind = chat.Text(ReasoningSummary)
	}
	if len(d.sign) > 0 && d.thought == 1 && !d.hidden && a.Message.ReasoningContent != nil {
		a.Message.ReasoningSignature = chat.Text(d.chat.text(d.sign))
	}
	return a, nil
}

// completeCalls gives calls whose arguments did not come in pieces those of
// the block's start, which is {} where the tool takes none.
func (d *messageDecoder) completeCalls() {
	for _, b := range d.blocks {
		if b.kind != "tool_use" || b.call >= int64(len(d.chat.calls.calls)) {
			continue
		}
		call := d.chat.calls.calls[b.call]
		if len(call.args) > 0 {
			continue
		}
		call.args = b.input
		if len(call.args) == 0 || isNull(call.args) {
			call.args = []byte("{}")
		}
	}
}

// summarises tells whether a model's thinking is a summary that another model
// wrote: Anthropic's are since Claude 4.
func summarises(model string) bool {
	return strings.Contains(model, "claude-") && !strings.Contains(model, "claude-3")
}

// messageUsage is a message's usage. Its input_tokens are those that were
// neither read from a cache nor written to one, so the prompt is the sum.
// Streams report growing counts, so the largest of each is the right one.
type messageUsage struct {
	sent                                               bool
	input, read, write, short, long, output, reasoning int64
}

func (u *messageUsage) add(value []byte) {
	c := walk(value)
	for c.next() {
		switch string(c.name) {
		case "input_tokens":
			u.most(&u.input, c.value)
		case "cache_read_input_tokens":
			u.most(&u.read, c.value)
		case "cache_creation_input_tokens":
			u.most(&u.write, c.value)
		case "cache_creation":
			u.tiers(c.value)
		case "output_tokens":
			u.most(&u.output, c.value)
		case "output_tokens_details":
			u.details(c.value)
		}
	}
}

func (u *messageUsage) tiers(value []byte) {
	c := walk(value)
	for c.next() {
		switch string(c.name) {
		case "ephemeral_5m_input_tokens":
			u.most(&u.short, c.value)
		case "ephemeral_1h_input_tokens":
			u.most(&u.long, c.value)
		}
	}
}

func (u *messageUsage) details(value []byte) {
	c := walk(value)
	for c.next() {
		switch string(c.name) {
		case "thinking_tokens", "reasoning_tokens":
			u.most(&u.reasoning, c.value)
		}
	}
}

func (u *messageUsage) most(to *int64, value []byte) {
	if n, ok := wholeNumber(value); ok && n > *to {
		*to = min(n, maxCount)
		u.sent = true
	}
}

func (u *messageUsage) result() *chat.Usage {
	if !u.sent {
		return nil
	}
	write := max(u.write, u.short+u.long)
	return &chat.Usage{
		PromptTokens: u.input + u.read + write, CachedTokens: u.read, CacheWriteTokens: write,
		CompletionTokens: u.output, ReasoningTokens: min(u.reasoning, u.output),
	}
}
