// Package render writes a trainer's configuration for a dataset view and a
// student. Each renderer is for one release of its trainer, which it names, and
// leaves nothing that changes what is learned to the trainer's defaults:
// length, packing, masking, seed, precision and reporting are always written.
//
// A renderer refuses what the trainer would silently do wrong, and notes what
// the trainer does by its nature (see [training.Rendered]).
package render

import (
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
	// Command replaces the renderer's own: the program and its arguments, one
	// element each. {config} stands for the configuration's name.
	Command []string
	// Params are the trainer's own, by its own names; they go over what the
	// renderer chose. A name that the trainer does not know is an error.
	Params map[string]any
}

// Trainers that there is a renderer for.
const TrainerTRL = "trl"

// renderers by trainer.
var renderers = map[string]func(Input) (*training.Rendered, error){
	TrainerTRL: trlSFT,
}

// Trainers lists the trainers that there is a renderer for, sorted.
func Trainers() []string {
	names := make([]string, 0, len(renderers))
	for name := range renderers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Render writes the configuration of a trainer. The same input gives the same
// bytes.
func Render(trainer string, in Input) (*training.Rendered, error) {
	render, ok := renderers[trainer]
	if !ok {
		return nil, fmt.Errorf("render configuration: no trainer %q; there are: %s", trainer, strings.Join(Trainers(), ", "))
	}
	r, err := render(in)
	if err != nil {
		return nil, fmt.Errorf("render configuration of %s: %w", trainer, err)
	}
	return r, nil
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
