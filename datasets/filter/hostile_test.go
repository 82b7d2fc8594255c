package filter

import (
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// TestHostileTextTakesLittleTime holds that no text makes a filter slow: 256
// KiB of whatever it looks for take it less than the bound, which is far above
// what any takes (a second on a busy machine) and far below what a step in the
// square of the length would (a minute).
func TestHostileTextTakesLittleTime(t *testing.T) {
	testdata.Heavy(t)
	const size, bound = 1 << 18, 20 * time.Second
	filters := all(t)
	for _, piece := range append(fragments, "I am a model of gpt ", "as an ai chatbot assistant model ", "1 ", "12345678 ", "a@", "a.a@a.aa ", "::", "a:b:", "<", "<|", "<|a", "$", "$a", "```", "` ``", "「", `"`, "\n", "\n\n", ". ", "-", "english", "xenglish ", "i was created by ", "我是", "sk-", "<think", "1.1.1.", "+1 ", "(((", `\`, "\\(", "ab", "[INST", "I'm sorry, but ") {
		text := strings.Repeat(piece, size/len(piece)+1)
		in := answerTo("chat", text, text)
		in.Candidate.Messages[0].ReasoningContent = &text
		for _, f := range filters {
			begun := time.Now()
			f.Reject(in)
			if took := time.Since(begun); took > bound {
				t.Errorf("%s takes %v for 256 KiB of %q", f.Name(), took, piece)
			}
		}
	}
}
