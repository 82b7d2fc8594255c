package views

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// A View is one shape of a version's rows, for one kind of reader.
type View struct {
	// Name is what --view takes: lower case, words joined by _ or -.
	Name string
	// Summary says in half a line who reads it.
	Summary string
	// Reads are the tables that it is made of.
	Reads Source
	// Reasoning, Effort, ToolArgs and Images are the values of those options
	// that it honours, the default first. Without any the option does not
	// apply, and a value for it is refused.
	Reasoning, Effort, ToolArgs, Images []string
	// Shape makes the row type under the options, which hold a value of the
	// above for everything that applies.
	Shape func(*Options) (Shape, error)
	// FolderPerSplit puts the files of each split in a folder of its own
	// instead of data/, for readers that take every file of a folder.
	FolderPerSplit bool
	// Extra are the names of further options that it honours, of those that
	// extras knows.
	Extra []string
	// Check looks at the version before the first row goes out, settles what
	// options and plan leave open, and refuses what can't be made; nil does
	// nothing. What the Shape made may read the options that it settled.
	Check func(context.Context, *catalog.Catalog, *catalog.Manifest, *plan) error
	// Beside writes further files of an export, after the data files.
	Beside []besideFunc
	// History: it honours Options.MaskHistory.
	History bool
	// Source: it honours Options.DataSource.
	Source bool
}

// A besideFunc writes a file of an export that is no data.
type besideFunc = func(context.Context, sink, *plan, *catalog.Manifest, *about) error

// folder is where the files of a split are.
func (v *View) folder(split string) string {
	if v.FolderPerSplit {
		return split + "/"
	}
	return "data/"
}

// A Source names the tables that a view is made of.
type Source struct {
	files    func(m *catalog.Manifest, split string) []catalog.FileRef
	teachers func(m *catalog.Manifest) map[string]int64
	none     string // why there is nothing to export, and what to do
	some     bool   // a view takes some of the rows, and leaves the rest to other splits
}

// Rows are the tables train and test: datasets.Row.
var Rows = Source{
	files:    func(m *catalog.Manifest, split string) []catalog.FileRef { return m.TableFiles(split) },
	teachers: (*catalog.Manifest).TeacherRows,
	none:     "the version has no train and no test rows; stillhouse show says why rows were rejected",
}

// Pairs is the table of preference pairs: datasets.Pair.
var Pairs = Source{
	files:    pairFiles,
	teachers: (*catalog.Manifest).PairTeachers,
	none:     "the version has no preference pairs; its recipe has to ask for them: pairs: {}",
}

// Prompts is the table of tasks, answered or not: datasets.PromptRow. It holds
// no teacher's words, so no teacher's terms bind it. Its files hold the rows of
// every split; a view sees those of the split that is being written.
var Prompts = Source{
	files:    func(m *catalog.Manifest, _ string) []catalog.FileRef { return m.TableFiles(datasets.TablePrompts) },
	teachers: func(*catalog.Manifest) map[string]int64 { return nil },
	none:     "the version has no prompts that the view takes; stillhouse head --table prompts shows them with their status",
	some:     true,
}

// pairFiles are the files of one split's pairs.
func pairFiles(m *catalog.Manifest, split string) []catalog.FileRef {
	var out []catalog.FileRef
	for _, f := range m.TableFiles(datasets.TablePairs) {
		if f.Split == split {
			out = append(out, f)
		}
	}
	return out
}

// exported are the splits of an export, in the order in which they are written.
var exported = []string{datasets.TableTrain, datasets.TableTest}

var known = map[string]*View{}

// register adds a view. It is for init functions.
func register(v View) {
	if known[v.Name] != nil {
		panic("views: " + v.Name + " is registered twice")
	}
	known[v.Name] = &v
}

// Names are the views that Export knows, sorted.
func Names() []string { return slices.Sorted(maps.Keys(known)) }

// Lookup is the view of that name; ErrUnknownView.
func Lookup(name string) (*View, error) {
	if v := known[name]; v != nil {
		return v, nil
	}
	return nil, fmt.Errorf("%w %q; there are: %s", ErrUnknownView, name, strings.Join(Names(), ", "))
}
