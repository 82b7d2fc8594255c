package teachers

import "bytes"

// sseReader finds the events of a stream in a buffer that grows. It follows
// the HTML standard's section 9.2.6 and forgives what endpoints and proxies do:
// data without a space, CRLF, a last event without its blank line.
type sseReader struct {
	line, scanned int    // where the current line starts, and how far it was looked at
	name          []byte // of the event being read
	data          []byte // of the event being read; points into the buffer for a single line
	lines         int    // data lines of the event being read
	joined        []byte // data of an event of several lines
	started       bool   // the byte order mark was looked for
}

// next returns the next event of buf, of which more may come unless final is
// set. The slices are good until the next call with another buffer. An event
// without data is passed over.
func (s *sseReader) next(buf []byte, final bool) (name, data []byte, ok bool) {
	if !s.started {
		if len(buf) < 3 && !final {
			return nil, nil, false
		}
		s.started = true
		if bytes.HasPrefix(buf, []byte("\xEF\xBB\xBF")) {
			s.line, s.scanned = 3, 3
		}
	}
	for {
		line, ok := s.nextLine(buf, final)
		if !ok {
			if final {
				return s.dispatch()
			}
			return nil, nil, false
		}
		if len(line) == 0 {
			if name, data, ok := s.dispatch(); ok {
				return name, data, true
			}
			continue
		}
		s.field(line)
	}
}

// nextLine returns the next whole line without its end.
func (s *sseReader) nextLine(buf []byte, final bool) ([]byte, bool) {
	k := bytes.IndexByte(buf[s.scanned:], '\n')
	if k < 0 {
		s.scanned = len(buf)
		if !final || s.line >= len(buf) {
			return nil, false
		}
		line := buf[s.line:]
		s.line = len(buf)
		return bytes.TrimSuffix(line, []byte{'\r'}), true
	}
	end := s.scanned + k
	line := buf[s.line:end]
	s.line, s.scanned = end+1, end+1
	return bytes.TrimSuffix(line, []byte{'\r'}), true
}

func (s *sseReader) field(line []byte) {
	if line[0] == ':' {
		return // a comment
	}
	name, value, _ := bytes.Cut(line, []byte{':'})
	value = bytes.TrimPrefix(value, []byte{' '})
	switch string(name) {
	case "event":
		s.name = value
	case "data":
		s.lines++
		switch s.lines {
		case 1:
			s.data = value
		case 2:
			s.joined = append(append(append(s.joined[:0], s.data...), '\n'), value...)
			s.data = s.joined
		default:
			s.joined = append(append(s.joined, '\n'), value...)
			s.data = s.joined
		}
	}
}

func (s *sseReader) dispatch() (name, data []byte, ok bool) {
	name, data, ok = s.name, s.data, s.lines > 0
	s.name, s.data, s.lines = nil, nil, 0
	return name, data, ok
}

// midData tells whether buf ends inside a line of data: its bytes are progress
// though no event came.
func (s *sseReader) midData(buf []byte) bool {
	return bytes.HasPrefix(buf[min(s.line, len(buf)):], []byte("data:"))
}

// A bodyKind is what a response body turns out to be.
type bodyKind int

const (
	bodyUnknown bodyKind = iota // only blanks and comments so far
	bodyStream
	bodyJSON
	bodyOther // HTML or plain text
)

// sniff looks at the first meaningful byte of a body. Some endpoints send
// blank lines or comments as keep-alives before a plain JSON object, and some
// send plain JSON under the content type of a stream. While the kind is unknown,
// start is where to go on when more has come: what lies before it is not looked
// at again.
func sniff(buf []byte, from int, final bool) (kind bodyKind, start int) {
	i := from
	if i == 0 && bytes.HasPrefix(buf, []byte("\xEF\xBB\xBF")) {
		i = 3
	}
	for {
		i = skipSpace(buf, i)
		if i >= len(buf) {
			return bodyUnknown, i
		}
		if buf[i] != ':' {
			break
		}
		k := bytes.IndexByte(buf[i:], '\n')
		if k < 0 {
			return bodyUnknown, i
		}
		i += k + 1
	}
	switch rest := buf[i:]; {
	case rest[0] == '{' || rest[0] == '[':
		return bodyJSON, i
	case rest[0] == '<':
		return bodyOther, i
	default:
		for _, field := range []string{"data", "event", "id", "retry"} {
			if bytes.HasPrefix(rest, []byte(field)) {
				return bodyStream, i
			}
			if len(rest) < len(field) && !final && bytes.HasPrefix([]byte(field), rest) {
				return bodyUnknown, i
			}
		}
		return bodyOther, i
	}
}
