package teachers

import (
	"bytes"
	"slices"
)

// ParsePartial reads as much of a response as there is: the answer of a stream
// that was cut off, or nil where nothing of one had come. It is whole in
// nothing; its Finish is "". It is as pure as [Parse].
func ParsePartial(format string, raw []byte) (answer *Answer) {
	defer func() {
		if recover() != nil {
			answer = nil
		}
	}()
	d, stream, err := dialectOfFormat(format)
	if err != nil || len(bytes.TrimSpace(raw)) == 0 {
		return nil
	}
	dec, ok := d.decoder().(partialDecoder)
	if !ok {
		return nil
	}
	_ = readWhole(dec, stream, raw) // what was read before the fault stays
	return dec.partial()
}

// A partialDecoder can tell what it has read before the end.
type partialDecoder interface {
	decoder
	// partial is what was read so far; nil for nothing. It is called once, in
	// place of answer.
	partial() *Answer
}

func (d *chatDecoder) partial() *Answer {
	if !d.hasChoice && !d.usage.sent {
		return nil
	}
	d.hasChoice = true
	d.endEarly()
	return cut(d.answer())
}

func (d *messageDecoder) partial() *Answer {
	if !d.started {
		return nil
	}
	d.chat.endEarly()
	return cut(d.answer())
}

// endEarly makes the decoder give what it has.
func (d *chatDecoder) endEarly() {
	d.failure = nil
	if !terminal(d.finish) {
		d.finish = "cut"
	}
}

func cut(a *Answer, err error) *Answer {
	if err != nil {
		return nil
	}
	a.Finish = ""
	a.Flags = slices.Clip(a.Flags)
	return a
}
