package sources

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// where names a line, and rowWhere a row of a file that has no lines, both from 1.
func where(name string, line int) string   { return name + ":" + strconv.Itoa(line) }
func rowWhere(name string, row int) string { return name + "#" + strconv.Itoa(row) }

func decodeRune(s string) (rune, int) { return utf8.DecodeRuneInString(s) }

// kindOf names what a value is, for "is a list, want a text".
func kindOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "true or false"
	case json.Number:
		return "a number"
	case string:
		return "a text"
	case []any:
		return "a list"
	}
	return "an object"
}
