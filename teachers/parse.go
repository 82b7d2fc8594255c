package teachers

import (
	"bytes"
	"fmt"
)

// Parse reads a raw response. It is pure: the same bytes give the same answer
// in every run of one binary. Success needs a terminal finish reason. Its
// errors are of type *Error.
func Parse(format string, raw []byte) (answer *Answer, err error) {
	defer func() {
		if r := recover(); r != nil {
			answer, err = nil, decoderFault(r)
		}
	}()
	d, stream, err := dialectOfFormat(format)
	if err != nil {
		return nil, &Error{Class: ClassMalformed, Excerpt: err.Error(), cause: err}
	}
	dec := d.decoder()
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, emptyBody()
	}
	if err := readWhole(dec, stream, raw); err != nil {
		return nil, err
	}
	return marked(dec.answer())
}

// readWhole has a decoder read a response that is all there, up to the first
// fault.
func readWhole(dec decoder, stream bool, raw []byte) error {
	if !stream {
		_, start := sniff(raw, 0, true)
		return dec.whole(raw[start:])
	}
	var events sseReader
	for !dec.closed() {
		name, data, ok := events.next(raw, true)
		if !ok {
			break
		}
		if _, err := dec.event(name, data); err != nil {
			return err
		}
	}
	return nil
}

// decoderFault is a panic of a decoder: a fault of this program that the
// response shows.
func decoderFault(r any) *Error {
	return &Error{Class: ClassMalformed, Excerpt: fmt.Sprintf("the response cannot be read; that is a fault of this program (%v)", r), final: true}
}

func emptyBody() *Error {
	return &Error{Class: ClassEmpty, Excerpt: "a response without a body"}
}
