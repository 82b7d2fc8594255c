package teachers

import "bytes"

// Parse reads a raw response. It is pure: the same bytes give the same answer
// in every run of one binary. Success needs a terminal finish reason. Its
// errors are of type *Error.
func Parse(format string, raw []byte) (*Answer, error) {
	d, stream, err := dialectOfFormat(format)
	if err != nil {
		return nil, &Error{Class: ClassMalformed, Excerpt: err.Error(), cause: err}
	}
	dec := d.decoder()
	if len(bytes.TrimSpace(raw)) == 0 {
		return nil, emptyBody()
	}
	if !stream {
		_, start := sniff(raw, true)
		if err := dec.whole(raw[start:]); err != nil {
			return nil, err
		}
		return dec.answer()
	}
	var events sseReader
	for !dec.closed() {
		name, data, ok := events.next(raw, true)
		if !ok {
			break
		}
		if _, err := dec.event(name, data); err != nil {
			return nil, err
		}
	}
	return dec.answer()
}

func emptyBody() *Error {
	return &Error{Class: ClassEmpty, Excerpt: "a response without a body"}
}
