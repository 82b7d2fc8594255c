package teachers

import "sync"

// Decoders are used again: their buffers have the size of an answer, and an
// endpoint gives thousands of them a minute. What an answer holds is copied out
// before.
var (
	chatDecoders    = sync.Pool{New: func() any { return &chatDecoder{} }}
	messageDecoders = sync.Pool{New: func() any { return &messageDecoder{} }}
)

// emptied is a buffer to be filled anew; nil in place of one that is too large
// to be kept.
func emptied(b []byte) []byte {
	if cap(b) > keptBuffer {
		return nil
	}
	return b[:0]
}

// reset forgets everything but the memory.
func (d *chatDecoder) reset() {
	fresh := chatDecoder{content: emptied(d.content), refusal: emptied(d.refusal), same: d.same}
	for i, text := range d.reasoning.text {
		fresh.reasoning.text[i] = emptied(text)
	}
	fresh.same.reset()
	*d = fresh
}

func (d *chatDecoder) release() {
	d.reset()
	chatDecoders.Put(d)
}

func (d *messageDecoder) reset() {
	d.chat.reset()
	clear(d.blocks)
	*d = messageDecoder{chat: d.chat, blocks: d.blocks, sign: emptied(d.sign)}
}

func (d *messageDecoder) release() {
	d.reset()
	messageDecoders.Put(d)
}
