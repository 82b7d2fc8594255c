package teachers

import (
	"encoding/json"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// toolCalls puts tool calls together from fragments. The protocol keys them by
// index; endpoints also send two calls under one index with different ids,
// fragments without an index or without an id, and arguments as an object.
type toolCalls struct {
	calls   []*toolCall
	size    int // bytes received
	checked int // bytes looked at to tell whether arguments are whole
}

type toolCall struct {
	index    int64 // -1: none sent
	id, kind string
	name     []byte
	args     []byte
}

// Bounds on the work that a hostile answer can cause: the calls that a fragment
// is matched with, and the bytes that are looked at to match it.
const (
	maxToolCalls = 1024
	maxChecked   = 64 << 20
)

type fragment struct {
	index    int64
	id, kind string
	name     []byte
	args     []byte // the JSON value
}

func (t *toolCalls) add(list []byte) {
	l := walk(list)
	for l.next() {
		f := fragment{index: -1}
		c := walk(l.value)
		for c.next() {
			switch string(c.name) {
			case "index":
				if n, ok := wholeNumber(c.value); ok {
					f.index = n
				}
			case "id":
				f.id = textOf(c.value)
			case "type":
				f.kind = textOf(c.value)
			case "function":
				f.function(c.value)
			}
		}
		t.take(&f)
	}
}

// addFunction takes the form that came before tool calls: one call, no id.
func (t *toolCalls) addFunction(value []byte) {
	f := fragment{index: 0}
	f.function(value)
	t.take(&f)
}

func (f *fragment) function(value []byte) {
	c := walk(value)
	for c.next() {
		switch string(c.name) {
		case "name":
			f.name = appendText(nil, c.value)
		case "arguments":
			f.args = c.value
		}
	}
}

func (t *toolCalls) take(f *fragment) {
	call := t.find(f)
	if call == nil {
		if len(t.calls) == maxToolCalls {
			return
		}
		call = &toolCall{index: f.index, kind: "function"}
		t.calls = append(t.calls, call)
	}
	if call.id == "" {
		call.id = f.id
	}
	if f.kind != "" {
		call.kind = f.kind
	}
	if len(call.args) == 0 && string(call.name) != string(f.name) {
		call.name = append(call.name, f.name...)
	}
	before := len(call.args)
	if isString(f.args) {
		call.args = appendText(call.args, f.args)
	} else if len(f.args) > 0 && !isNull(f.args) {
		call.args = append(call.args, f.args...)
	}
	t.size += len(f.name) + len(call.args) - before + len(f.id)
}

// find is the call that a fragment continues; nil: it starts one.
func (t *toolCalls) find(f *fragment) *toolCall {
	for i := len(t.calls) - 1; i >= 0; i-- {
		call := t.calls[i]
		if f.index >= 0 && call.index >= 0 && f.index != call.index {
			continue
		}
		if f.id != "" && call.id != "" {
			if f.id == call.id {
				return call
			}
			continue
		}
		// No id tells them apart: a name after whole arguments starts a call.
		if len(f.name) > 0 && len(call.args) > 0 && t.whole(call.args) {
			return nil
		}
		return call
	}
	return nil
}

func (t *toolCalls) whole(args []byte) bool {
	t.checked += len(args)
	return t.checked <= maxChecked && json.Valid(args)
}

func (t *toolCalls) result(d *chatDecoder) []chat.ToolCall {
	if len(t.calls) == 0 {
		return nil
	}
	out := make([]chat.ToolCall, len(t.calls))
	for i, call := range t.calls {
		out[i] = chat.ToolCall{ID: d.text([]byte(call.id)), Type: call.kind, Name: d.text(call.name), Arguments: d.text(call.args)}
	}
	return out
}
