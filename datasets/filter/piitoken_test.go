package filter

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
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
	testdata.Heavy(t)
	for _, piece := range []string{"eyJ-", "eyJaaaaaaaaaaaa.", ".eyJ", "sk-", "xoxb-", "-----BEGIN PRIVATE KEY-----a"} {
		begun := time.Now()
		findKeys(strings.Repeat(piece, 1<<20/len(piece)), func(string, int, int) {})
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("%q: %v for 1 MiB", piece, took)
		}
	}
}

// TestWhatIsCutIsMaskedToo: a verdict's excerpt that ends within an address or a
// key gives none of it away.
func TestWhatIsCutIsMaskedToo(t *testing.T) {
	for _, secret := range []string{"jane.doe@gmx.net", "sk-proj-Ab3dEf6hIj9lMn2pQr5tUv8x"} {
		text := strings.Repeat("x = 1 ", 169) + secret + " and more"
		cut := text[:1024] // "jane.doe@g" and "sk-proj-Ab"
		in := answerTo("chat", "write", text)
		in.Candidate.Extracted = &cut
		in.Candidate.Verdicts = []datasets.Verdict{{Verifier: "code", Extracted: &cut}}
		filterOf(t, "pii", map[string]any{"action": "mask"}).(Changer).Change(in)
		for _, got := range []string{*in.Candidate.Extracted, *in.Candidate.Verdicts[0].Extracted} {
			if strings.Contains(got, secret[:6]) || !strings.HasSuffix(got, "]") {
				t.Errorf("%q is left in %q", secret[:6], got[len(got)-30:])
			}
		}
	}
}
