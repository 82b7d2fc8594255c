package render

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// trainable refuses what no trainer could train: no rows, no student.
func trainable(in Input) error {
	if len(filesOf(in.View, "train")) == 0 || in.View.Rows["train"] == 0 {
		return errors.New("the view has no rows in its train split: there is nothing to train on")
	}
	if in.Student.Model == "" {
		return errors.New("no student: set student.model in the recipe, or give --model")
	}
	return nil
}

// ownTokenizer refuses a tokenizer apart from the model, for trainers that have
// no key for one.
func ownTokenizer(in Input, trainer string) error {
	if in.Student.Tokenizer != "" && in.Student.Tokenizer != in.Student.Model {
		return fmt.Errorf("%s loads the tokenizer with the model and has no key for %q: save both into one folder and name it as student.model", trainer, in.Student.Tokenizer)
	}
	return nil
}

// rules say which of a trainer's parameters a user may set.
type rules struct {
	release string            // such as trl 1.16.0
	keys    []string          // that the release knows
	ours    map[string]string // those that can't be set, and why
	unknown string            // what the release does with a key that it does not know
}

// apply puts the user's parameters over the values that the renderer chose.
func (r *rules) apply(values, params map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(params)) {
		if why, fixed := r.ours[key]; fixed {
			return fmt.Errorf("params.%s can't be set: %s", key, why)
		}
		if !slices.Contains(r.keys, key) {
			hint := ""
			if near := nearest(key, r.keys); near != "" {
				hint = "; did you mean " + near + "?"
			}
			return fmt.Errorf("params.%s: %s knows no such key and %s%s", key, r.release, r.unknown, hint)
		}
		values[key] = params[key]
	}
	return nil
}

// yamlLines writes keys in their order, one a line.
func yamlLines(text *strings.Builder, values map[string]any) error {
	for _, key := range slices.Sorted(maps.Keys(values)) {
		value, err := yamlValue(values[key])
		if err != nil {
			return fmt.Errorf("params.%s: %w", key, err)
		}
		text.WriteString(key + ": " + value + "\n")
	}
	return nil
}

// header is the comment at the top of a configuration.
func header(in Input, release, command string) string {
	return fmt.Sprintf("# %s: %s\n# %s version %d, view %s, %d rows\n", release, command, oneLine(in.Dataset), in.Version, oneLine(in.View.Name), in.View.Rows["train"])
}

// overLength says how many rows are longer than the student takes, and what
// the trainer does with them: "cuts what goes beyond 4096 tokens of a row".
func overLength(in Input, trainer, does string) string {
	s := trainer + " " + does
	switch l := in.Lengths; {
	case l == nil:
		return s + "; how many rows that are was not counted: it takes the student's tokenizer"
	case l.Estimate != "" && l.Over == 0:
		return fmt.Sprintf("%s; no row is likely that long, by %s", s, oneLine(l.Estimate))
	case l.Estimate != "":
		return fmt.Sprintf("%s: likely %s of %d, by %s", s, rowsWord(l.Over), in.View.Rows["train"], oneLine(l.Estimate))
	case l.Over == 0:
		return fmt.Sprintf("%s; no row is that long: the longest has %d tokens by %s", s, l.Max, oneLine(l.Tokenizer))
	default:
		return fmt.Sprintf("%s: %s of %d by %s, the longest of %d tokens", s, rowsWord(l.Over), in.View.Rows["train"], oneLine(l.Tokenizer), l.Max)
	}
}

// untrainedTurns refuses to train turns that the version says are not to be
// trained, for trainers without a mask by turn, unless the user has chosen by
// param what the loss sees. Instead is what else may be done, and ends in "or ".
func untrainedTurns(in Input, trainer, param, instead string) ([]string, error) {
	if in.View.Shares == nil || in.View.Shares.Partly == 0 || in.View.Name != "messages" {
		return nil, nil
	}
	has := fmt.Sprintf("%s of %d with turns of the assistant that are not to be trained, such as earlier answers in a prompt", rowsWord(in.View.Shares.Partly), in.View.Rows["train"])
	if _, chose := in.Params[param]; chose {
		return []string{has + ": " + trainer + " does with them as params." + param + " has it"}, nil
	}
	return nil, fmt.Errorf("the version has %s, and %s would train them all: %strain by axolotl or ms-swift, which mask by turn, or choose what the loss sees by --param %s=true or false", has, trainer, instead, param)
}

func rowsWord(n int64) string {
	if n == 1 {
		return "1 row"
	}
	return fmt.Sprintf("%d rows", n)
}

// testStays says that the test split is in the bundle and not trained on.
func testStays(in Input) []string {
	if n := in.View.Rows["test"]; n > 0 {
		return []string{fmt.Sprintf("the %d rows of the test split are in the bundle and are not read by this configuration", n)}
	}
	return nil
}

// isTrue tells whether a parameter is set to true.
func isTrue(values map[string]any, key string) bool {
	b, _ := values[key].(bool)
	return b
}

// onCPU takes back what needs a GPU where the user trains without one and did
// not choose it.
func onCPU(values, params map[string]any) {
	if _, chose := params["bf16"]; isTrue(values, "use_cpu") && !chose {
		values["bf16"] = false
	}
}

// builder is the loader of the files, by their extension.
func builder(files []string) string {
	if path.Ext(files[0]) == ".jsonl" {
		return "json"
	}
	return "parquet"
}

// oneLine keeps a name inside its comment.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
