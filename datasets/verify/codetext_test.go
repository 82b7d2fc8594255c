package verify

import (
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// TestBlocksAreChosenInLinearTime: a line of a megabyte that names the entry
// point everywhere takes no longer than another.
func TestBlocksAreChosenInLinearTime(t *testing.T) {
	testdata.Heavy(t)
	for _, language := range []string{"python", "javascript", "go", "shell"} {
		for _, piece := range []string{"f ", "f(", "f", " f\t"} {
			text := "```" + language + "\n" + strings.Repeat(piece, 1<<20/len(piece)) + "\n```\n"
			begun := time.Now()
			extractCode(text, language, "f")
			if took := time.Since(begun); took > 3*time.Second {
				t.Errorf("%s: %q: %v for 1 MiB", language, piece, took)
			}
		}
	}
}

func TestDefines(t *testing.T) {
	for _, tc := range []struct {
		language, code string
		want           bool
	}{
		{"python", "def f(x):", true},
		{"python", "    async def f(x):", true},
		{"python", "x = f(1)", false},
		{"python", "def ff(x):", false},
		{"python", "y = 1; " + strings.Repeat("z", 500) + "\ndef f(x):", true},
		{"python", strings.Repeat(" ", 500) + "def f(x):", false}, // nobody indents so far
		{"javascript", "export async function f(x) {", true},
		{"javascript", "const f = x => x", true},
		{"go", "func f(x int) int {", true},
		{"go", "func (s *Stack) f(x int) int {", true},
		{"shell", "f() {", true},
		{"shell", "function f {", true},
		{"shell", "echo f()", false},
	} {
		if got := defines(tc.code, tc.language, "f"); got != tc.want {
			t.Errorf("%s: %.60q: %v", tc.language, tc.code, got)
		}
	}
}
