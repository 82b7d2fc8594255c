package render

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// maxDepth bounds a parameter's nesting.
const maxDepth = 8

// yamlValue writes a value on one line so that YAML 1.1 (Python's) and 1.2
// readers read the same: strings always in double quotes ("no" is no
// boolean), numbers with a point before an exponent (1e-5 is a string to
// Python's reader), maps in the order of their keys.
func yamlValue(v any) (string, error) { return yamlAt(v, 0) }

func yamlAt(v any, depth int) (string, error) {
	if depth > maxDepth {
		return "", fmt.Errorf("nested more than %d deep", maxDepth)
	}
	switch v := v.(type) {
	case nil:
		return "null", nil
	case bool:
		return strconv.FormatBool(v), nil
	case int:
		return strconv.Itoa(v), nil
	case int64:
		return strconv.FormatInt(v, 10), nil
	case uint64:
		return strconv.FormatUint(v, 10), nil
	case json.Number:
		return yamlNumber(v)
	case float64:
		return yamlFloat(v)
	case string:
		return yamlString(v)
	case []string:
		parts := make([]any, len(v))
		for i, s := range v {
			parts[i] = s
		}
		return yamlAt(parts, depth)
	case []any:
		parts := make([]string, len(v))
		for i, e := range v {
			text, err := yamlAt(e, depth+1)
			if err != nil {
				return "", err
			}
			parts[i] = text
		}
		return "[" + strings.Join(parts, ", ") + "]", nil
	case map[string]any:
		parts := make([]string, 0, len(v))
		for _, key := range slices.Sorted(maps.Keys(v)) {
			name, err := yamlString(key)
			if err != nil {
				return "", err
			}
			text, err := yamlAt(v[key], depth+1)
			if err != nil {
				return "", err
			}
			parts = append(parts, name+": "+text)
		}
		return "{" + strings.Join(parts, ", ") + "}", nil
	}
	return "", fmt.Errorf("a value of type %T can't be written", v)
}

// yamlFloat writes a whole number without a point: JSON does not tell 2 from
// 2.0, and a trainer's counts must be integers.
func yamlFloat(v float64) (string, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "", errors.New("is not a number")
	}
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
		return strconv.FormatInt(int64(v), 10), nil
	}
	mantissa, exponent, scientific := strings.Cut(strconv.FormatFloat(v, 'g', -1, 64), "e")
	if !scientific {
		return mantissa, nil
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	return mantissa + "e" + exponent, nil
}

func yamlNumber(n json.Number) (string, error) {
	if i, err := strconv.ParseInt(string(n), 10, 64); err == nil {
		return strconv.FormatInt(i, 10), nil
	}
	f, err := n.Float64()
	if err != nil {
		return "", fmt.Errorf("is not a number: %w", err)
	}
	return yamlFloat(f)
}

// yamlString writes JSON, whose strings every YAML reader takes as they are.
func yamlString(s string) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return "", err
	}
	return escapeRest(strings.TrimSuffix(out.String(), "\n")), nil
}

// escapeRest escapes what JSON lets stand and YAML does not.
func escapeRest(s string) string {
	var out strings.Builder
	for _, r := range s {
		if r >= 0x7f && r < 0xa0 || r == 0xfeff || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}
