package sources

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// csvRows reads a header and records. encoding/csv would hold a whole file
// whose quote never closes, and could not go on after it.
func csvRows(e *emitter, l *lines) error {
	header, err := csvHeader(l)
	if err != nil {
		return err
	}
	for {
		fields, line, err := record(l)
		if errors.Is(err, io.EOF) {
			return nil
		}
		var fault *csvError
		if err != nil && !errors.As(err, &fault) {
			return fmt.Errorf("after line %d: %w", line-1, err)
		}
		if fault == nil && len(fields) == 1 && fields[0] == "" && len(header) > 1 {
			continue // a blank line
		}
		values, reason := csvValues(header, fields, fault)
		if err := e.row(where(e.name, line), values, reason); err != nil {
			return err
		}
	}
}

func csvHeader(l *lines) ([]string, error) {
	header, _, err := record(l)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("has no header line; the first line names the columns")
	}
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if isBlank([]byte(strings.Join(header, ""))) {
		return nil, errors.New("has no header: its first line is blank; the first line names the columns")
	}
	seen := map[string]bool{}
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
		if header[i] != "" && seen[header[i]] {
			return nil, fmt.Errorf("header: column %q is there twice; rename one", header[i])
		}
		seen[header[i]] = true
	}
	return header, nil
}

func csvValues(header, fields []string, fault *csvError) (map[string]any, error) {
	if fault != nil {
		return nil, fault
	}
	if len(fields) != len(header) {
		return nil, fmt.Errorf("has %d values, the header has %d columns", len(fields), len(header))
	}
	values := make(map[string]any, len(header))
	for i, name := range header {
		if name != "" {
			values[name] = fields[i]
		}
	}
	return values, nil
}

// A csvError is a record that cannot be read; the next one can.
type csvError struct{ reason string }

func (e *csvError) Error() string { return e.reason }

// record reads one record, which spans lines where a quote is open, and the
// number of its first line.
func record(l *lines) (fields []string, line int, err error) {
	text, err := l.next()
	line = l.n
	if errors.Is(err, errTooLong) {
		return nil, line, &csvError{l.tooLong().Error()}
	}
	if err != nil {
		return nil, line, err
	}
	var b strings.Builder
	for open := false; ; {
		if !utf8.Valid(text) {
			return nil, line, &csvError{errNotUTF8.Error()}
		}
		if b.Len()+len(text) > l.max {
			return nil, line, &csvError{fmt.Sprintf("the record is larger than %d bytes; its quote may never close", l.max)}
		}
		b.Write(text)
		if open = open != (bytes.Count(text, []byte{'"'})%2 == 1); !open {
			break
		}
		b.WriteByte('\n')
		if text, err = l.next(); errors.Is(err, io.EOF) {
			return nil, line, &csvError{"a quote is never closed"}
		} else if errors.Is(err, errTooLong) {
			return nil, line, &csvError{l.tooLong().Error()}
		} else if err != nil {
			return nil, line, err
		}
	}
	fields, err = splitRecord(b.String())
	return fields, line, err
}

// splitRecord splits a record at its commas (RFC 4180).
func splitRecord(s string) ([]string, error) {
	var out []string
	for {
		if !strings.HasPrefix(s, `"`) {
			field, rest, more := strings.Cut(s, ",")
			if strings.Contains(field, `"`) {
				return nil, &csvError{"a quote within a value; put the whole value in quotes and double the quotes in it"}
			}
			if out = append(out, field); !more {
				return out, nil
			}
			s = rest
			continue
		}
		field, rest, ok := quotedField(s[1:])
		if !ok {
			return nil, &csvError{"text follows a closing quote; double the quotes within a value"}
		}
		out = append(out, field)
		if rest == "" {
			return out, nil
		}
		s = rest[1:]
	}
}

// quotedField reads up to the closing quote; rest starts with a comma or is empty.
func quotedField(s string) (field, rest string, ok bool) {
	var b strings.Builder
	for {
		part, after, found := strings.Cut(s, `"`)
		if !found {
			return "", "", false
		}
		b.WriteString(part)
		if strings.HasPrefix(after, `"`) {
			b.WriteByte('"')
			s = after[1:]
			continue
		}
		return b.String(), after, after == "" || after[0] == ','
	}
}
