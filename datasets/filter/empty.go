package filter

import (
	"strings"
	"unicode"

	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// empty keeps answers that say something: a character that is seen, outside of
// think blocks, or a tool call. The filter finish asks for that too; this one
// is for recipes that want cut answers and no empty ones.
type empty struct{}

func newEmpty(*options.Set) Filter { return empty{} }

func (empty) Name() string    { return "empty" }
func (empty) Version() string { return "1" }

func (empty) Reject(in *Input) string {
	if len(in.message().ToolCalls) > 0 {
		return ""
	}
	text := in.Candidate.Content()
	if t := readThink(text); t.closed == 1 && t.opened <= 1 {
		text = t.after
	}
	if strings.ContainsFunc(text, seen) {
		return ""
	}
	return ReasonEmpty
}

// seen tells whether a character leaves a mark: none that spaces, controls or
// formats text, such as a zero-width space or a byte order mark.
func seen(r rune) bool {
	return !unicode.IsSpace(r) && !unicode.IsControl(r) && !unicode.Is(unicode.Cf, r) && r != '\u2800' && r != '\u3164' && r != '\uFFFD'
}
