package cli

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// shownTokens is how many of a row's tokens are spelled out.
const shownTokens = 12

func entryOfLogprobs(r *datasets.LogprobRow) entry {
	gaps := ""
	if r.Gaps > 0 {
		gaps = fmt.Sprintf("%d without a logprob", r.Gaps)
	}
	incomplete := ""
	if !r.Complete {
		incomplete = "incomplete"
	}
	var tokens []string
	for i := range min(len(r.Logprobs), shownTokens) {
		tokens = append(tokens, tokenOf(r, i))
	}
	if left := len(r.Logprobs) - shownTokens; left > 0 {
		tokens = append(tokens, fmt.Sprintf("… %s more", grouped(int64(left))))
	}
	return entry{
		title: compact(r.Domain+" / "+r.Effort, "teacher "+r.Teacher, grouped(int64(r.Tokens))+" tokens", fmt.Sprintf("%d alternatives each", r.TopK), gaps, incomplete),
		facts: [][2]string{{"sample", r.SampleID}, {"source", r.Source}, {"tokenizer", text(r.Tokenizer)}, {"tokens", strings.Join(tokens, "  ")}},
	}
}

// tokenOf is a token as a person reads it: its text, or its bytes where they
// are a part of a character, or its id, with its logprob.
func tokenOf(r *datasets.LogprobRow, i int) string {
	name := "?"
	switch {
	case i < len(r.TokenBytes) && r.TokenBytes[i] != nil:
		b := *r.TokenBytes[i]
		if name = fmt.Sprintf("%q", b); !utf8.Valid(b) {
			name = fmt.Sprintf("0x%x", b)
		}
	case i < len(r.TokenIDs) && r.TokenIDs[i] != nil:
		name = fmt.Sprintf("#%d", *r.TokenIDs[i])
	}
	if r.Logprobs[i] == nil {
		return name + " null"
	}
	return fmt.Sprintf("%s %.3f", name, *r.Logprobs[i])
}
