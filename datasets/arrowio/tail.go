package arrowio

import "io"

// A tail writes all but the last bytes that it was given, until it is told
// that there are no more. A stream between two of its messages looks to a
// reader like one that has ended; held back, the last bytes of each message go
// out with the next in one write, so that a stream that breaks off, also by
// the death of this process, breaks off inside of a message.
type tail struct {
	w    io.Writer
	held []byte // at most heldBytes
	join []byte // what goes out in one write with what was held
	n    int64
}

const (
	heldBytes = 8 // the padding of a message, or all of the mark of the end
	joinBytes = 4 << 10
)

func (t *tail) Write(p []byte) (int, error) {
	out := len(t.held) + len(p) - heldBytes // bytes to send
	if out <= 0 {
		t.held = append(t.held, p...)
		return len(p), nil
	}
	joined := min(len(p), joinBytes)
	t.join = append(append(t.join[:0], t.held...), p[:joined]...)
	if err := t.send(t.join[:min(out, len(t.join))]); err != nil {
		return 0, err
	}
	if out > len(t.join) {
		if err := t.send(p[joined : len(p)-heldBytes]); err != nil {
			return 0, err
		}
	}
	last := p
	if len(p) < heldBytes {
		last = t.join // which has all of p
	}
	t.held = append(t.held[:0], last[len(last)-heldBytes:]...)
	return len(p), nil
}

func (t *tail) send(p []byte) error {
	n, err := t.w.Write(p)
	t.n += int64(n)
	if err == nil && n != len(p) {
		err = io.ErrShortWrite
	}
	return err
}

// end sends what was held back.
func (t *tail) end() error {
	err := t.send(t.held)
	t.held = nil
	return err
}
