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

func yamlFloat(v float64) (string, error) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "", errors.New("is not a number")
	}
	s := strconv.FormatFloat(v, 'g', -1, 64)
	mantissa, exponent, scientific := strings.Cut(s, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if scientific {
		return mantissa + "e" + exponent, nil
	}
	return mantissa, nil
}

// yamlString writes JSON, whose strings every YAML reader takes as they are.
func yamlString(s string) (string, error) {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		return "", err
	}
	return strings.ReplaceAll(strings.TrimSuffix(out.String(), "\n"), "\x7f", `\u007f`), nil
}
