package filter

import (
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

const (
	maxNames    = 200 // entries of a list in the recipe
	maxNameSize = 200 // bytes of an entry
)

// texts is the option name: a text or a list of texts.
func texts(o *options.Set, name string, most int) []string {
	var list []any
	switch v := o.Any(name).(type) {
	case nil:
		return nil
	case string:
		list = []any{v}
	case []any:
		list = v
	default:
		o.Fail(name, "want a list of texts, got %v (%T)", v, v)
		return nil
	}
	if len(list) > most {
		o.Fail(name, "has %d entries, and may have %d", len(list), most)
		return nil
	}
	var out []string
	for _, v := range list {
		s, ok := v.(string)
		s = strings.TrimSpace(s)
		if !ok || s == "" || len(s) > maxNameSize {
			o.Fail(name, "want texts of 1 to %d bytes, got %v", maxNameSize, v)
			return nil
		}
		out = append(out, s)
	}
	return out
}

// oneOf is the option name, which is one of some words; the first is its default.
func oneOf(o *options.Set, name string, words ...string) string {
	got := o.String(name, words[0])
	for _, w := range words {
		if got == w {
			return got
		}
	}
	o.Fail(name, "%q is unknown; %s", got, options.Hint(got, words))
	return words[0]
}
