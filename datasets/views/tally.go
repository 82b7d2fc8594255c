package views

import (
	"errors"
	"fmt"
	"strings"
)

// maxNamed bounds the rows that a refusal names.
const maxNamed = 5

// Reasons for which rows are left out, as Summary.LeftOut counts them.
const (
	LeftOutForbidden = "terms_forbid_training"
	LeftOutUnfit     = "does_not_fit"
)

// A tally counts the rows of a version that are not in an export.
type tally struct {
	elsewhere, forbidden, unfit int64
	why                         []string // of the first that did not fit
	refuse                      bool     // rows that don't fit end the export
}

// total counts all rows that were passed over.
func (t *tally) total() int64 { return t.elsewhere + t.forbidden + t.unfit }

// unfitRow counts a row that does not fit.
func (t *tally) unfitRow(err error) {
	t.unfit++
	if len(t.why) < maxNamed {
		t.why = append(t.why, strings.TrimPrefix(err.Error(), ErrUnsupported.Error()+": "))
	}
}

// refused reports whether rows don't fit and may not be left out.
func (t *tally) refused() bool { return t.refuse && t.unfit > 0 }

func (t *tally) refusal() error {
	if !t.refused() {
		return nil
	}
	return fmt.Errorf("%w: %s: %s; take another view or option, or leave them out with --leave-out unfit",
		ErrUnsupported, plural(int(t.unfit), "row"), t.words())
}

// words names the first rows that did not fit, with their reasons.
func (t *tally) words() string {
	var parts []string
	parts = append(parts, t.why...)
	if more := t.unfit - int64(len(t.why)); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	if t.forbidden > 0 {
		parts = append(parts, fmt.Sprintf("%d rows of teachers whose terms forbid training", t.forbidden))
	}
	return strings.Join(parts, "; ")
}

// leftOut is Summary.LeftOut.
func (t *tally) leftOut() map[string]int64 {
	out := map[string]int64{}
	if t.forbidden > 0 {
		out[LeftOutForbidden] = t.forbidden
	}
	if t.unfit > 0 {
		out[LeftOutUnfit] = t.unfit
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// errNoRows ends a file of which every row was left out: it is not written.
var errNoRows = errors.New("no rows")
