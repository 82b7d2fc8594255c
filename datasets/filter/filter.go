// Package filter keeps candidates out of a dataset for reasons that anybody
// can check: a [Filter] looks at one candidate and gives a reject reason, or
// none. Filters are pure, so a build with other filters asks nobody again.
package filter

import (
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// A Filter gives reject reasons. It is safe for use by several goroutines and
// never changes the candidate.
type Filter interface {
	// Name is what a recipe calls the filter.
	Name() string
	// Reject is the reason to keep c out, or "". Reasons are few and short:
	// a build counts its candidates by them.
	Reject(c *datasets.Candidate) string
}

var makers = map[string]func(*options.Set) Filter{
	"finish": newFinish,
}

// Names lists the filters, sorted.
func Names() []string { return options.Names(makers) }

// New makes the filter that a recipe names. The error of an unknown name or
// option names the nearest known one.
func New(name string, given map[string]any) (Filter, error) {
	return options.Make("filter", makers, name, given)
}
