package dedup

import (
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// TestHostileTextsTakeLinearTime has texts that would take minutes if anything
// looked at the rest of a text from every place in it.
func TestHostileTextsTakeLinearTime(t *testing.T) {
	testdata.Heavy(t)
	const size = 1 << 20
	for name, unit := range map[string]string{
		"quotes":               `"`,
		"opening quotes":       "“",
		"corners":              "「",
		"apostrophes":          " 'a",
		"backticks":            "` x ",
		"far quotes":           `"` + strings.Repeat("a ", 2000),
		"operators":            "- ",
		"operators in spaces":  "-" + strings.Repeat(" ", 1000),
		"brackets":             ") - (",
		"open brackets":        "- (((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((",
		"one word":             "a",
		"one word of Han":      "漢",
		"marks":                "a\u0301\u0302\u0303",
		"marks alone":          "\u0301",
		"spaces":               " ",
		"invisible":            "\u200b",
		"invalid":              "\xff",
		"digits":               "7",
		"points":               ".",
		"symbols":              "=+",
		"capitals":             "A B ",
		"words":                "word other ",
		"Thai":                 "ภาษาไทย",
		"control characters":   "\x00\x01",
		"an apostrophe's text": "'s",
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Repeat(unit, size/len(unit))
			start := time.Now()
			for _, domain := range []string{"chat", "code"} {
				d := PromptDocument(1, domain, prompt(text))
				x := newExtractor(NearOptions{}.WithDefaults())
				newMinhasher(NearOptions{}.WithDefaults()).keys(nil, x.features(&d))
				PromptKey(domain, prompt(text))
			}
			// A megabyte takes some hundredths of a second; a square of it hours.
			if took := time.Since(start); took > 20*time.Second {
				t.Errorf("four looks at a megabyte took %v", took)
			} else if testing.Verbose() {
				t.Log(took)
			}
		})
	}
}
