package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// flatten gives nested parameters their dotted names: {"optim": {"lr": 1}} is
// optim.lr. A map stays whole where the trainer has a key for it. What is set
// in both ways is an error.
func flatten(params map[string]any, keys []string) (map[string]any, error) {
	out, twice := map[string]any{}, []string{}
	var walk func(prefix string, values map[string]any)
	walk = func(prefix string, values map[string]any) {
		for name, value := range values {
			at := prefix + name
			if inner, ok := value.(map[string]any); ok && len(inner) > 0 && !slices.Contains(keys, at) {
				walk(at+".", inner)
				continue
			}
			if _, set := out[at]; set {
				twice = append(twice, at)
			}
			out[at] = value
		}
	}
	walk("", params)
	if len(twice) > 0 {
		return nil, fmt.Errorf("params.%s is set twice", slices.Min(twice))
	}
	return out, nil
}

// applyDotted is apply for trainers whose keys are dotted names.
func (r *rules) applyDotted(values, params map[string]any) error {
	flat, err := flatten(params, r.keys)
	if err != nil {
		return err
	}
	return r.apply(values, flat)
}

// yamlBlocks writes values by dotted names as nested blocks, in the order of
// their names.
func yamlBlocks(text *strings.Builder, values map[string]any) error {
	var open []string // the blocks that the last line was in
	names := slices.SortedFunc(maps.Keys(values), func(a, b string) int {
		return slices.Compare(strings.Split(a, "."), strings.Split(b, "."))
	})
	for i, name := range names {
		if i > 0 && strings.HasPrefix(name, names[i-1]+".") {
			return fmt.Errorf("params.%s and params.%s can't both be set", names[i-1], name)
		}
		value, err := yamlValue(values[name])
		if err != nil {
			return fmt.Errorf("params.%s: %w", name, err)
		}
		parts := strings.Split(name, ".")
		blocks := parts[:len(parts)-1]
		same := 0
		for same < len(blocks) && same < len(open) && blocks[same] == open[same] {
			same++
		}
		for d := same; d < len(blocks); d++ {
			text.WriteString(strings.Repeat("  ", d) + blocks[d] + ":\n")
		}
		open = blocks
		text.WriteString(strings.Repeat("  ", len(blocks)) + parts[len(parts)-1] + ": " + value + "\n")
	}
	return nil
}

// whole is a parameter that is a whole number.
func whole(values map[string]any, key string) (int64, error) {
	switch v := values[key].(type) {
	case int:
		return int64(v), nil
	case int64:
		return v, nil
	case float64:
		if v == float64(int64(v)) {
			return int64(v), nil
		}
	case interface{ Int64() (int64, error) }: // json.Number
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
	}
	return 0, fmt.Errorf("params.%s: %v is no whole number", key, values[key])
}

// count is a parameter that is a whole number above zero.
func count(values map[string]any, key string) (int64, error) {
	n, err := whole(values, key)
	if err == nil && n < 1 {
		err = fmt.Errorf("params.%s: %d is below 1", key, n)
	}
	return n, err
}

// ownRevision refuses a revision for trainers that would load the newest.
func ownRevision(in Input, trainer string) error {
	if in.Student.Revision != "" {
		return fmt.Errorf("%s has no key for a model's revision and would load another than %s: download it and name the folder as student.model", trainer, oneLine(in.Student.Revision))
	}
	return nil
}

// ownTemplate refuses a chat template apart from the tokenizer.
func ownTemplate(in Input, trainer string) error {
	if in.Student.ChatTemplate != "" {
		return fmt.Errorf("%s takes the chat template that is saved with the tokenizer: save %s with it and name the folder as student.model", trainer, oneLine(in.Student.ChatTemplate))
	}
	return nil
}

// someLength refuses a student without a length, for trainers that would take
// a default of their own.
func someLength(in Input, trainer string) error {
	if in.Student.MaxLength <= 0 {
		return fmt.Errorf("%s cuts at a length of its own where it is told none: set student.max_length in the recipe", trainer)
	}
	return nil
}

// only refuses files that are not in the form that a trainer reads.
func only(in Input, trainer, ext string) error {
	for _, name := range filesOf(in.View, "train") {
		if !strings.HasSuffix(name, "."+ext) {
			return fmt.Errorf("%s reads %s here, not %s", trainer, ext, name)
		}
	}
	return nil
}

// batchOf is the largest power of two that is no more than most and the rows of
// the train split, so that a small dataset fills a batch.
func batchOf(in Input, most int64) int64 {
	for most > in.View.Rows["train"] {
		most /= 2
	}
	return max(most, 1)
}

// wholeBatches refuses a batch that the rows don't fill, and says how many rows
// of an epoch are left over by a trainer that drops what fills none.
func wholeBatches(in Input, trainer, key string, batch int64) ([]string, error) {
	rows := in.View.Rows["train"]
	if batch > rows {
		return nil, fmt.Errorf("params.%s: %s trains whole batches alone, and %d rows fill none of %d", key, trainer, rows, batch)
	}
	if left := rows % batch; left > 0 {
		return []string{fmt.Sprintf("%s trains whole batches of %d and leaves out %s of each epoch, others each time", trainer, batch, rowsWord(left))}, nil
	}
	return nil, nil
}

func wereRows(n int64) string {
	if n == 1 {
		return "1 row is"
	}
	return fmt.Sprintf("%d rows are", n)
}

// checked runs checks of an input in their order.
func checked(checks ...error) error {
	for _, err := range checks {
		if err != nil {
			return err
		}
	}
	return nil
}

// plainText refuses texts that the reader of a configuration would fill in: a
// variable of the trainer's machine could be a secret, and end up in a log or in
// what is reported. The bundle's own folder, see here, is ours.
func plainText(value any) error {
	switch v := value.(type) {
	case string:
		if strings.Contains(strings.TrimPrefix(v, here), "${") {
			return errors.New("a text with ${ would be filled in by the trainer's machine: write what is meant")
		}
	case []string:
		for _, e := range v {
			if err := plainText(e); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := plainText(e); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := plainText(v[key]); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
	}
	return nil
}
