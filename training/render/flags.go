package render

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/training"
)

// argsWord stands in a user's command for the arguments that a renderer made.
const argsWord = "{args}"

// flagList writes values as arguments, in the order of their names: true is the
// flag alone, false and null are nothing, a list is one argument for each.
func flagList(values map[string]any) ([]string, error) {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(values)) {
		switch v := values[key].(type) {
		case nil:
		case bool:
			if v {
				out = append(out, "--"+key)
			}
		case []any:
			out = append(out, "--"+key)
			for _, e := range v {
				word, err := flagWord(e)
				if err == nil && strings.HasPrefix(word, "--") {
					err = fmt.Errorf("%q would be read as a flag", word)
				}
				if err != nil {
					return nil, fmt.Errorf("params.%s: %w", key, err)
				}
				out = append(out, word)
			}
		default:
			word, err := flagWord(v)
			if err != nil {
				return nil, fmt.Errorf("params.%s: %w", key, err)
			}
			out = append(out, "--"+key+"="+word)
		}
	}
	return out, nil
}

// flagWord is a scalar as one argument.
func flagWord(v any) (string, error) {
	switch v := v.(type) {
	case string:
		if strings.ContainsAny(v, "\x00\n\r") {
			return "", errors.New("it holds a line break or a zero byte")
		}
		return v, nil
	case bool:
		return strconv.FormatBool(v), nil
	case map[string]any, []any, nil:
		return "", fmt.Errorf("a value of type %T is no argument", v)
	}
	return yamlValue(v) // a number
}

// flagged is what was rendered for a trainer that takes everything as
// arguments. Its configuration is those arguments, one a line.
func flagged(in Input, config, release string, values map[string]any, notes []string, command ...string) (*training.Rendered, error) {
	args, err := flagList(values)
	if err != nil {
		return nil, err
	}
	words := append(slices.Clone(command), args...)
	if len(in.Command) > 0 {
		at := slices.Index(in.Command, argsWord)
		if at < 0 {
			return nil, fmt.Errorf("the command has no %s, so that %s would train with its own defaults: put it where the trainer's arguments belong", argsWord, strings.Fields(release)[0])
		}
		words = slices.Concat(in.Command[:at], args, in.Command[at+1:])
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "{config}", config)
		}
	}
	text := header(in, release, strings.Join(command, " ")) + strings.Join(args, "\n") + "\n"
	return &training.Rendered{
		Trainer: training.Trainer{Configs: []string{config}, Command: words},
		Files:   []training.File{{Name: config, Data: []byte(text)}},
		Notes:   append(notes, testStays(in)...),
	}, nil
}
