package diff

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Bounds of what is read and shown of a recipe. Recipes are what their users
// wrote, and hostile here.
const (
	maxRecipeBytes = 4 << 20
	maxValue       = 400 // characters of a value
	maxRecipePaths = 20_000
	maxDepth       = 64
)

// recipes compares the recipes of the versions, key by key.
func (r *Report) recipes(ctx context.Context, c *catalog.Catalog, sides [2]*side) error {
	r.Recipe = []Change{}
	if sides[0].manifest.RecipeDigest == sides[1].manifest.RecipeDigest {
		return nil
	}
	var flat [2]map[string]string
	for i, s := range sides {
		if s.manifest.Recipe == "" {
			r.Notes = append(r.Notes, s.version.Ref()+" was made without a recipe; the recipes are not compared")
			return nil
		}
		text, _, err := objstore.ReadAll(ctx, c.Bucket(), s.manifest.Recipe, maxRecipeBytes)
		if errors.Is(err, objstore.ErrNotFound) || errors.Is(err, objstore.ErrTooLarge) {
			r.Notes = append(r.Notes, fmt.Sprintf("the recipe of %s can't be read: %v; the recipes are not compared", s.version.Ref(), err))
			return nil
		}
		if err != nil {
			return err
		}
		if flat[i], err = flatten(text); err != nil {
			r.Notes = append(r.Notes, fmt.Sprintf("the recipe of %s can't be read: %v; the recipes are not compared", s.version.Ref(), err))
			return nil
		}
	}
	r.Recipe = append(r.Recipe, changesOf("", flat[0], flat[1])...)
	if len(r.Recipe) == 0 {
		r.Notes = append(r.Notes, "the recipes differ in comments or layout alone")
	}
	return nil
}

// Recipes lists what differs between two recipes, by key path. Comments, layout
// and the order of teachers are no difference. It fails where one is no YAML.
func Recipes(a, b []byte) ([]Change, error) {
	before, err := flatten(a)
	if err != nil {
		return nil, fmt.Errorf("read the first recipe: %w", err)
	}
	after, err := flatten(b)
	if err != nil {
		return nil, fmt.Errorf("read the second recipe: %w", err)
	}
	return append([]Change{}, changesOf("", before, after)...), nil
}

// flatten reads YAML into values by path. Teachers are named by their ids,
// prompts by their paths, and other members of lists by their place, so that a
// teacher that moved is no change.
func flatten(text []byte) (out map[string]string, err error) {
	// The library has panicked on hostile documents.
	defer func() {
		if p := recover(); p != nil {
			out, err = nil, fmt.Errorf("not YAML: %v", p)
		}
	}()
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("not YAML: %s", firstLine(err.Error()))
	}
	f := flattener{map[string]string{}}
	if err := f.add("", doc, 0); err != nil {
		return nil, err
	}
	return f.out, nil
}

type flattener struct{ out map[string]string }

func (f *flattener) add(path string, v any, depth int) error {
	if len(f.out) > maxRecipePaths || depth > maxDepth {
		return fmt.Errorf("more than %d values, or deeper than %d", maxRecipePaths, maxDepth)
	}
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			f.out[path] = "{}"
		}
		for key, value := range v {
			if err := f.add(join(path, key), value, depth+1); err != nil {
				return err
			}
		}
	case []any:
		if len(v) == 0 {
			f.out[path] = "[]"
		}
		seen := map[string]int{}
		for i, value := range v {
			name := strconv.Itoa(i)
			if named := nameOf(path, value); named != "" {
				name = named
			}
			if seen[name]++; seen[name] > 1 {
				name += "#" + strconv.Itoa(seen[name])
			}
			if err := f.add(path+"["+name+"]", value, depth+1); err != nil {
				return err
			}
		}
	default:
		f.out[path] = clipped(fmt.Sprint(v), maxValue)
	}
	return nil
}

// nameOf is what a member of a list is known by, "" for its place.
func nameOf(path string, v any) string {
	m, _ := v.(map[string]any)
	var keys []string
	switch path {
	case "teachers":
		keys = []string{"id", "model"}
	case "prompts":
		keys = []string{"path"}
	case "check":
		keys = []string{"verifier"}
	}
	for _, key := range keys {
		if s, ok := m[key].(string); ok && s != "" {
			return clipped(s, maxValue)
		}
	}
	if s, ok := v.(string); ok && (path == "filter" || path == "prompt_filter") {
		return clipped(s, maxValue) // a filter by its name alone
	}
	if len(m) > 0 && (path == "filter" || path == "prompt_filter") {
		for _, key := range slices.Sorted(maps.Keys(m)) {
			if key != "when" {
				return clipped(key, maxValue)
			}
		}
	}
	return ""
}

func join(path, key string) string {
	if strings.ContainsAny(key, ".[] ") || key == "" {
		key = strconv.Quote(key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// clipped is the beginning of a text.
func clipped(s string, most int) string {
	n := 0
	for i := range s {
		if n == most {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// teacherChanges compares what the manifests say of teachers.
func teacherChanges(sides [2]*side) []Change {
	var flat [2]map[string]string
	for i, s := range sides {
		flat[i] = map[string]string{}
		for _, t := range s.manifest.Teachers {
			set := func(field, value string) {
				if value != "" {
					flat[i][t.ID+"."+field] = clipped(value, maxValue)
				}
			}
			training := t.Terms.Training
			if training == "" {
				training = catalog.TrainingUnknown
			}
			set("model", t.Model)
			set("api", t.API)
			set("identity", t.Identity)
			set("epoch", number(t.Epoch))
			set("refresh", number(t.Refresh))
			set("params", compact(t.Params))
			set("serves", compact(t.Serves))
			set("licence", t.Terms.Licence)
			set("training", training)
		}
	}
	return append([]Change{}, changesOf("", flat[0], flat[1])...)
}

// number is "" for 0, which is what nobody has set.
func number(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// compact writes JSON in one line, as people read it.
func compact(text json.RawMessage) string {
	var v any
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if dec.Decode(&v) != nil || enc.Encode(v) != nil {
		return string(text)
	}
	return strings.TrimSpace(b.String())
}

// methodChanges compares the verifiers, filters and policies, with the versions
// that they had.
func methodChanges(sides [2]*side) []Change {
	var flat [2]map[string]string
	for i, s := range sides {
		flat[i] = map[string]string{}
		for _, m := range s.manifest.Methods {
			at := m.Kind + " " + m.Name
			for n := 2; flat[i][at] != ""; n++ {
				at = fmt.Sprintf("%s %s#%d", m.Kind, m.Name, n)
			}
			value := "version " + m.Version
			if m.When != "" {
				value += " when " + m.When
			}
			if len(m.Options) > 0 {
				value += " " + compact(m.Options)
			}
			flat[i][at] = clipped(value, maxValue)
		}
	}
	return append([]Change{}, changesOf("", flat[0], flat[1])...)
}

// sourceChanges compares the prompt files and evaluation sets, by digest.
func sourceChanges(sides [2]*side) []Change {
	var flat [2]map[string]string
	for i, s := range sides {
		flat[i] = map[string]string{}
		for _, list := range [][]catalog.Source{s.manifest.Sources, s.manifest.EvaluationSets} {
			for _, f := range list {
				at := f.Path
				for n := 2; flat[i][at] != ""; n++ {
					at = fmt.Sprintf("%s#%d", f.Path, n)
				}
				flat[i][at] = fmt.Sprintf("sha256:%.12s, %d bytes", f.SHA256, f.Bytes)
			}
		}
	}
	return append([]Change{}, changesOf("", flat[0], flat[1])...)
}
