package sources

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A fieldPath finds a value in a row: a column of exactly that name, or names
// and list indexes joined by dots. The zero path finds nothing.
type fieldPath struct {
	name  string
	parts []string
}

func newFieldPath(name string) fieldPath {
	if name == "" {
		return fieldPath{}
	}
	return fieldPath{name, strings.Split(name, ".")}
}

// find returns the value; a null is no value.
func (f fieldPath) find(values map[string]any) (any, bool) {
	if f.name == "" {
		return nil, false
	}
	if v, ok := values[f.name]; ok || len(f.parts) == 1 {
		return v, v != nil
	}
	var v any = values
	for _, part := range f.parts {
		switch t := v.(type) {
		case map[string]any:
			v = t[part]
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(t) {
				return nil, false
			}
			v = t[i]
		default:
			return nil, false
		}
	}
	return v, v != nil
}

// text returns the value as a text; numbers and booleans become theirs.
func (f fieldPath) text(values map[string]any) (string, bool, error) {
	v, ok := f.find(values)
	if !ok {
		return "", false, nil
	}
	s, ok := scalarText(v)
	if !ok {
		return "", false, fmt.Errorf("field %s is %s, want a text", f.name, kindOf(v))
	}
	return s, true, nil
}

// needed is text of a field that the row must have.
func (f fieldPath) needed(values map[string]any) (string, error) {
	s, ok, err := f.text(values)
	if err == nil && !ok {
		err = f.missing(values)
	}
	return s, err
}

func (f fieldPath) missing(values map[string]any) error {
	return fmt.Errorf("has no field %s; its fields are %s", f.name, columns(values))
}

// columns lists a row's fields for a message, within bounds.
func columns(values map[string]any) string {
	if len(values) == 0 {
		return "none"
	}
	names := make([]string, 0, len(values))
	for k := range values {
		names = append(names, strconv.Quote(clip(k)))
	}
	slices.Sort(names)
	const most = 12
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return strings.Join(names, ", ")
}

// clip shortens a text of the data for a message.
func clip(s string) string {
	const longest = 64
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

func scalarText(v any) (string, bool) {
	switch t := v.(type) {
	case string:
		return t, true
	case json.Number:
		return string(t), true
	case bool:
		return strconv.FormatBool(t), true
	}
	return "", false
}

// appendJSON appends a value as JSON: keys sorted, numbers digit by digit as
// they were read, no white space.
func appendJSON(dst []byte, v any) []byte {
	switch t := v.(type) {
	case bool:
		return strconv.AppendBool(dst, t)
	case json.Number:
		return append(dst, t...)
	case string:
		return chat.AppendString(dst, t)
	case []any:
		dst = append(dst, '[')
		for i := range t {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendJSON(dst, t[i])
		}
		return append(dst, ']')
	case map[string]any:
		keys := make([]string, 0, len(t))
		for k := range t {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		dst = append(dst, '{')
		for i, k := range keys {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(chat.AppendString(dst, k), ':')
			dst = appendJSON(dst, t[k])
		}
		return append(dst, '}')
	}
	return append(dst, "null"...)
}

// jsonText is a text as it is, and any other value as JSON.
func jsonText(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return string(appendJSON(nil, v))
}
