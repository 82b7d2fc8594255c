package filter

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestTokensAreThoseOfThePattern holds what is found to the pattern that says
// the same, and that would take minutes for a megabyte of the wrong text.
func TestTokensAreThoseOfThePattern(t *testing.T) {
	pattern := regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{10,1000}\.eyJ[A-Za-z0-9_-]{10,1000}\.[A-Za-z0-9_-]{20,1000}`)
	rapid.Check(t, func(t *rapid.T) {
		parts := rapid.SliceOfN(rapid.SampledFrom([]string{"eyJ", "eyJ0123456789", "a", ".", ".eyJ", "-", "_", " ", "0123456789abcdefghij", strings.Repeat("x", 990), "é", ".."}), 0, 20).Draw(t, "parts")
		text := strings.Join(parts, "")
		var got [][]int
		findTokens(text, func(from, to int) { got = append(got, []int{from, to}) })
		if want := pattern.FindAllStringIndex(text, -1); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("%v, want %v in %q", got, want, text)
		}
	})
}

// TestKeysTakeLinearTime: a text of the beginnings of keys takes no longer than
// another.
func TestKeysTakeLinearTime(t *testing.T) {
	for _, piece := range []string{"eyJ-", "eyJaaaaaaaaaaaa.", ".eyJ", "sk-", "xoxb-", "-----BEGIN PRIVATE KEY-----a"} {
		begun := time.Now()
		findKeys(strings.Repeat(piece, 1<<20/len(piece)), func(string, int, int) {})
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%q: %v for 1 MiB", piece, took)
		}
	}
}
