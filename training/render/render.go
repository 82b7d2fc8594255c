// Package render writes a trainer's configuration for a dataset view and a
// student. Each renderer is for one release of its trainer, which it names, and
// leaves nothing that changes what is learned to the trainer's defaults:
// length, packing, masking, seed, precision and reporting are always written.
//
// A renderer refuses what the trainer would silently do wrong, and notes what
// the trainer does by its nature (see [training.Rendered]).
//
// A hand-off asks [ViewFor] which view to export, exports it, and gives what
// came out to [Render].
package render

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/spell"
	"github.com/stillhouse-data/stillhouse/training"
)

// An Input is what a renderer writes a configuration from.
type Input struct {
	Dataset string // name of the dataset, for people
	Version int64
	View    training.View
	Student training.Student
	Seed    int64
	// Lengths are the rows' lengths in the student's tokens; nil: not counted.
	Lengths *Lengths
	// Teachers of the version, for methods that ask teachers while they train or
	// load their weights.
	Teachers []Teacher
	// Beside are the files that the view wrote beside its data, by name, such as
	// teacher_map.json.
	Beside map[string][]byte
	// Template is the text of the trainer custom.
	Template string
	// Command replaces the renderer's own: the program and its arguments, one
	// element each. {config} stands for the configuration's name.
	Command []string
	// Params are the trainer's own, by its own names; they go over what the
	// renderer chose. A name that the trainer does not know is an error.
	Params map[string]any
}

// Lengths are the lengths of the train split's rows.
type Lengths struct {
	Tokenizer string // by which they were counted
	Max       int64  // tokens of the longest row
	Over      int64  // rows of more tokens than the student's MaxLength
	// Estimate says how the above were estimated, where no tokenizer counted
	// them; Max is 0 then.
	Estimate string
}

// A Teacher of the version, as its manifest has it.
type Teacher struct {
	ID       string
	Model    string
	Weights  string          // repository of its weights; "": they are not at hand
	ScoreURL string          // server that scores tokens with them
	Serves   json.RawMessage // domains and efforts, as in the recipe
	Rows     int64           // in the view
}

// A ViewSpec is a view of datasets/views and the options of it that differ from
// the view's own defaults.
type ViewSpec struct {
	Name string
	// Form is parquet or jsonl; "" is parquet.
	Form string
	// Reasoning, ThinkTag, Effort, ToolArgs, Images and Tag are the view's
	// options of those names.
	Reasoning, ThinkTag, Effort, ToolArgs, Images, Tag string
	MaskHistory                                        bool
	// TrainOnly: the test split stays behind, since the trainer has no use for
	// it or would train on it.
	TrainOnly bool
}

// A Renderer writes the configuration of one method of one trainer. Each is in
// a file of its own and registers itself there.
type Renderer struct {
	Trainer string // such as trl
	Method  string // such as sft
	For     string // the release that it is written for, such as trl 1.16.0
	Package string // the Python package whose version a result reports; may be ""
	Summary string // half a line for people
	// Views that the trainer reads, the default first.
	Views []ViewSpec
	// Adjust settles what of the view follows from the trainer's parameters;
	// nil: nothing.
	Adjust func(params map[string]any, view *ViewSpec)
	// Render writes the configuration. It leaves Trainer.Name, Method, For and
	// Package to [Render].
	Render func(Input) (*training.Rendered, error)
}

var renderers []Renderer

// register adds a renderer. It is for init functions.
func register(r Renderer) {
	if _, err := Lookup(r.Trainer, r.Method); err == nil && r.Method != "" {
		panic("render: " + r.Trainer + " " + r.Method + " is registered twice")
	}
	renderers = append(renderers, r)
}

// MethodSFT is supervised fine-tuning, the method of a trainer where none is
// named.
const MethodSFT = "sft"

// Trainers lists the trainers that there is a renderer for, sorted.
func Trainers() []string {
	var names []string
	for _, r := range renderers {
		names = append(names, r.Trainer)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Methods lists a trainer's methods, sorted.
func Methods(trainer string) []string {
	var names []string
	for _, r := range renderers {
		if r.Trainer == trainer {
			names = append(names, r.Method)
		}
	}
	slices.Sort(names)
	return names
}

// All lists every renderer, by trainer and method.
func All() []Renderer {
	return slices.SortedFunc(slices.Values(renderers), func(a, b Renderer) int {
		if c := strings.Compare(a.Trainer, b.Trainer); c != 0 {
			return c
		}
		return strings.Compare(a.Method, b.Method)
	})
}

// Lookup is the renderer of a trainer's method. Method "" is sft, or the only
// one that there is.
func Lookup(trainer, method string) (Renderer, error) {
	methods := Methods(trainer)
	switch {
	case len(methods) == 0:
		return Renderer{}, fmt.Errorf("render configuration: no trainer %q; there are: %s", trainer, strings.Join(Trainers(), ", "))
	case method == "" && len(methods) == 1:
		method = methods[0]
	case method == "":
		method = MethodSFT
	}
	for _, r := range renderers {
		if r.Trainer == trainer && r.Method == method {
			return r, nil
		}
	}
	return Renderer{}, fmt.Errorf("render configuration: %s has no method %q here; there are: %s", trainer, method, strings.Join(methods, ", "))
}

// ViewFor is the view that has to be exported for a method, under the trainer's
// parameters. View names another than the method's own where it reads several;
// "" is its own.
func ViewFor(trainer, method, view string, params map[string]any) (ViewSpec, error) {
	r, err := Lookup(trainer, method)
	if err != nil {
		return ViewSpec{}, err
	}
	spec := r.Views[0]
	if view != "" {
		i := slices.IndexFunc(r.Views, func(s ViewSpec) bool { return s.Name == view })
		if i < 0 {
			var names []string
			for _, s := range r.Views {
				names = append(names, s.Name)
			}
			return ViewSpec{}, fmt.Errorf("render configuration: %s %s does not read view %q; it reads: %s", r.Trainer, r.Method, view, strings.Join(names, ", "))
		}
		spec = r.Views[i]
	}
	if r.Adjust != nil {
		r.Adjust(params, &spec)
	}
	return spec, nil
}

// Render writes the configuration of a trainer's method; "" as in [Lookup].
// The same input gives the same bytes.
func Render(trainer, method string, in Input) (*training.Rendered, error) {
	r, err := Lookup(trainer, method)
	if err != nil {
		return nil, err
	}
	out, err := r.Render(in)
	if err != nil {
		return nil, fmt.Errorf("render configuration of %s %s: %w", r.Trainer, r.Method, err)
	}
	out.Trainer.Name, out.Trainer.Method, out.Trainer.For, out.Trainer.Package = r.Trainer, r.Method, r.For, r.Package
	return out, nil
}

// filesOf lists the names of a split's files.
func filesOf(v training.View, split string) []string {
	var names []string
	for _, f := range v.Files {
		if f.Split == split {
			names = append(names, f.Name)
		}
	}
	return names
}

// commandOf is the user's command or the renderer's own, with {config} filled
// in. Each element stays one argument.
func commandOf(in Input, config string, own ...string) []string {
	command := own
	if len(in.Command) > 0 {
		command = in.Command
	}
	out := make([]string, len(command))
	for i, word := range command {
		out[i] = strings.ReplaceAll(word, "{config}", config)
	}
	return out
}

// nearest is the name with the smallest edit distance to s, or "" where none
// is near.
func nearest(s string, names []string) string {
	best, at := "", 1+len(s)/3
	for _, name := range names {
		if d := spell.Distance(s, name); d <= at && (best == "" || d < at) {
			best, at = name, d
		}
	}
	return best
}
