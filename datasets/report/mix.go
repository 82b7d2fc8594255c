package report

import (
	"fmt"
	"strings"
)

// A Mix is what a mixture wanted of the chosen rows, and what it took.
type Mix struct {
	By     string `json:"by,omitempty" jsonschema:"description=what the shares are of; absent where all rows are of one kind"`
	Chosen int64  `json:"chosen" jsonschema:"description=rows that the merge policy chose"`
	Target int64  `json:"target" jsonschema:"description=rows that were wanted"`
	Rows   int64  `json:"rows" jsonschema:"description=rows that were taken"`
	Short  int64  `json:"short" jsonschema:"description=rows that are missing of target: of kinds that have too few and for caps"`

	Kinds []MixKind `json:"kinds" jsonschema:"description=by name; of many those that miss most"`
	Caps  []MixCap  `json:"caps,omitempty"`
}

// A MixKind is one kind of rows of a mixture.
type MixKind struct {
	Name   string  `json:"name"`
	Chosen int64   `json:"chosen" jsonschema:"description=rows that there are"`
	Share  float64 `json:"share" jsonschema:"description=share that it is to have"`
	Target int64   `json:"target" jsonschema:"description=rows that it is to have"`
	Rows   int64   `json:"rows" jsonschema:"description=rows that it has"`
}

// Short is how many of a kind's rows are missing.
func (k *MixKind) Short() int64 { return k.Target - k.Rows }

// A MixCap is one cap of a mixture.
type MixCap struct {
	Of    string  `json:"of" jsonschema:"description=what it is of: teacher\\, source\\, prompt\\, domain or effort"`
	Share float64 `json:"share" jsonschema:"description=largest share of one value"`
	Most  int64   `json:"most" jsonschema:"description=rows that one value may have"`
	Left  int64   `json:"left" jsonschema:"description=rows that it left out"`
}

// SetMix adds what a mixture took.
func (a *Aggregator) SetMix(m *Mix) { a.mix = m }

// Lines say in words what a mixture took, what it misses first.
func (m *Mix) Lines() []string {
	text := fmt.Sprintf("Mixture: %s of %s chosen rows", grouped(m.Rows), grouped(m.Chosen))
	if m.By != "" {
		var parts []string
		for i := range m.Kinds {
			parts = append(parts, fmt.Sprintf("%s %s", name(m.Kinds[i].Name), grouped(m.Kinds[i].Rows)))
		}
		text += " by " + m.By + ": " + strings.Join(parts, ", ")
	}
	out := []string{text + "."}
	if m.Short > 0 {
		var parts []string
		for i := range m.Kinds {
			if k := &m.Kinds[i]; k.Short() > 0 && m.By != "" {
				parts = append(parts, fmt.Sprintf("%s has %s of %s", name(k.Name), grouped(k.Rows), grouped(k.Target)))
			}
		}
		line := fmt.Sprintf("The mixture is short of %s of %s rows", grouped(m.Short), grouped(m.Target))
		if len(parts) > 0 {
			line += ": " + strings.Join(parts, ", ")
		}
		out = append(out, line+". Nothing was repeated to fill it.")
	}
	for _, c := range m.Caps {
		if c.Left > 0 {
			out = append(out, fmt.Sprintf("The cap of %g on one %s (%s rows) left %s rows out.", c.Share, c.Of, grouped(c.Most), grouped(c.Left)))
		}
	}
	return out
}
