package launch

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// older is what the full half of a log is renamed to.
const older = ".1"

// A ring is a log of bounded size that keeps the newest: two files of half the
// size, of which the older is dropped when the newer is full.
type ring struct {
	name string
	half int64
	size int64
	file *os.File
}

func newRing(name string, max int64) (*ring, error) {
	r := &ring{name: name, half: (max + 1) / 2}
	return r, r.open()
}

func (r *ring) open() (err error) {
	r.size = 0
	r.file, err = os.OpenFile(r.name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	return err
}

// Write never fails: a full disk must not end a training.
func (r *ring) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0 && r.file != nil; {
		if r.size == r.half {
			r.turn()
			continue
		}
		n, err := r.file.Write(rest[:min(int64(len(rest)), r.half-r.size)])
		if err != nil {
			break
		}
		r.size += int64(n)
		rest = rest[n:]
	}
	return len(p), nil //nolint:nilerr // what can't be kept is dropped
}

// turn begins a new half. Where that fails the rest of the output is dropped.
func (r *ring) turn() {
	r.file.Close()
	r.file = nil
	if os.Rename(r.name, r.name+older) == nil {
		if r.open() != nil {
			r.file = nil
		}
	}
}

func (r *ring) Close() error {
	if r.file == nil {
		return nil
	}
	return r.file.Close()
}

// readTail returns the last bytes of a ring's log, at most tail, from the
// start of a line where there is one.
func readTail(name string, tail int) (string, error) {
	if tail <= 0 {
		return "", nil
	}
	var text []byte
	for _, part := range []string{name, name + older} {
		missing := int64(tail) - int64(len(text)) + 1 // one more shows whether a line starts
		if missing <= 0 {
			break
		}
		end, err := lastBytes(part, missing)
		if err != nil {
			return "", err
		}
		text = append(end, text...)
	}
	if len(text) > tail {
		text = text[len(text)-tail-1:]
		before, rest := text[0], text[1:]
		if cut := strings.IndexByte(string(rest), '\n'); before != '\n' && cut >= 0 && cut+1 < len(rest) {
			rest = rest[cut+1:]
		}
		text = rest
	}
	return training.Printable(strings.ToValidUTF8(string(text), "\uFFFD")), nil
}

func lastBytes(name string, n int64) ([]byte, error) {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(max(0, size-n), io.SeekStart); err != nil {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, n))
}
