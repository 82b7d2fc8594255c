package teachers

import "bytes"

// A template is the shape of an event that only carried text. The events of a
// stream differ in little but that text, so the next one is mostly the same
// bytes around another string; then the string is all that has to be read. JSON
// has no context, so what stands around the string means what it meant in the
// event before.
//
// An event is learnt only where everything in it is known to say nothing
// beside its one text: an answer is never read otherwise than without this.
type template struct {
	prefix, suffix []byte // the event up to and with the string's quotes
	name           []byte // of the event
	target         int
	known          bool
	misses         int // in a row; a stream whose events differ otherwise is left alone
}

// Where the text of an event goes: an index into reasoningFields, or the content.
const targetContent = -1

const (
	templateBytes  = 4096 // longest event that is learnt, its text apart
	templateMisses = 8
)

// match gives the string of an event of the same shape, quotes included.
func (t *template) match(name, data []byte) (value []byte, ok bool) {
	if !t.known {
		return nil, false
	}
	t.known = false // unless it fits: what other events say may make the same event mean more
	if len(data) < len(t.prefix)+len(t.suffix) ||
		!bytes.HasPrefix(data, t.prefix) || !bytes.HasSuffix(data, t.suffix) || !bytes.Equal(name, t.name) {
		return nil, false
	}
	value = data[len(t.prefix)-1 : len(data)-len(t.suffix)+1]
	end, err := skipString(value, 0)
	if err != nil || end != len(value) {
		return nil, false
	}
	t.known, t.misses = true, 0
	return value, true
}

// learn takes the shape of an event whose one text, quotes included, is value:
// a part of data. plain is false for an event that is not of that kind.
func (t *template) learn(name, data, value []byte, target int, plain bool) {
	t.misses++
	if !plain {
		return
	}
	start := cap(data) - cap(value) // both are slices of one array
	if len(data)-len(value) > templateBytes || start < 0 || start+len(value) > len(data) {
		return
	}
	t.prefix = append(t.prefix[:0], data[:start+1]...)
	t.suffix = append(t.suffix[:0], data[start+len(value)-1:]...)
	t.name = append(t.name[:0], name...)
	t.target, t.known = target, true
}

// wanted tells whether it is worth looking at an event to learn it.
func (t *template) wanted() bool { return t.misses <= templateMisses }

// reset forgets the shape and keeps the memory.
func (t *template) reset() {
	*t = template{prefix: t.prefix[:0], suffix: t.suffix[:0], name: t.name[:0]}
}

// saysNothing tells values that change nothing wherever they stand.
func saysNothing(value []byte) bool {
	return isNull(value) || string(value) == `""` || string(value) == "[]"
}

// plainChunk finds the one text of a chat.completion.chunk that carries nothing
// else for the choice that is read. What it does not know it does not call
// plain.
func plainChunk(data []byte, choice int64) (value []byte, target int, ok bool) {
	var choices []byte
	c := walk(data)
	for c.next() {
		switch string(c.name) {
		case "id", "object", "created", "model", "system_fingerprint", "service_tier", "provider":
		case "choices":
			if choices != nil {
				return nil, 0, false
			}
			choices = c.value
		default:
			if !saysNothing(c.value) {
				return nil, 0, false
			}
		}
	}
	if c.err != nil || c.i != len(data) || choices == nil {
		return nil, 0, false
	}
	list := walk(choices)
	if !list.next() {
		return nil, 0, false
	}
	value, target, ok = plainChoice(list.value, choice)
	return value, target, ok && !list.next() && list.err == nil
}

func plainChoice(data []byte, choice int64) (value []byte, target int, ok bool) {
	var delta []byte
	index := int64(0)
	c := walk(data)
	for c.next() {
		switch string(c.name) {
		case "index":
			if index, ok = wholeNumber(c.value); !ok {
				return nil, 0, false
			}
		case "delta":
			if delta != nil {
				return nil, 0, false
			}
			delta = c.value
		default:
			if !saysNothing(c.value) {
				return nil, 0, false
			}
		}
	}
	if c.err != nil || index != choice {
		return nil, 0, false
	}
	return plainDelta(delta)
}

func plainDelta(data []byte) (value []byte, target int, ok bool) {
	c := walk(data)
	for c.next() {
		to := targetContent
		switch string(c.name) {
		case "role":
			continue
		case "content":
		case reasoningFields[0]:
			to = 0
		case reasoningFields[1]:
			to = 1
		default:
			if !saysNothing(c.value) {
				return nil, 0, false
			}
			continue
		}
		switch {
		case saysNothing(c.value):
		case value != nil || !isString(c.value):
			return nil, 0, false
		default:
			value, target = c.value, to
		}
	}
	return value, target, value != nil && c.err == nil
}

// plainBlockDelta finds the text of a content_block_delta event that carries
// text or thinking and nothing else.
func plainBlockDelta(data []byte) (value []byte, target int, ok bool) {
	var delta []byte
	index := false
	c := walk(data)
	for c.next() {
		switch string(c.name) {
		case "type":
			if string(c.value) != `"content_block_delta"` {
				return nil, 0, false
			}
		case "index":
			_, index = wholeNumber(c.value)
		case "delta":
			delta = c.value
		default:
			return nil, 0, false
		}
	}
	if c.err != nil || c.i != len(data) || !index {
		return nil, 0, false
	}
	kind := ""
	c = walk(delta)
	for c.next() {
		switch string(c.name) {
		case "type":
			kind = textOf(c.value)
		case "text", "thinking":
			if value != nil || !isString(c.value) {
				return nil, 0, false
			}
			value, target = c.value, targetContent
			if c.name[1] == 'h' {
				target = thinkingField
			}
		default:
			return nil, 0, false
		}
	}
	fits := kind == "text_delta" && target == targetContent || kind == "thinking_delta" && target == thinkingField
	return value, target, fits && value != nil && c.err == nil
}

// thinkingField is the place of fieldThinking in reasoningFields.
const thinkingField = 2
