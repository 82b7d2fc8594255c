package activities

import (
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// A row has as many slots for each token as its widest token has alternatives. An
// answer with one very wide token and very many tokens would make more slots than
// there is memory, each time that it is read from the store.
func TestOneWideTokenDoesNotFillTheMemory(t *testing.T) {
	const tokens, wide = 20_000, 20_000
	var b strings.Builder
	b.WriteString(`{"choices":[{"message":{"content":"a"},"finish_reason":"stop","logprobs":{"content":[{"token":"a","logprob":-1,"top_logprobs":[`)
	b.WriteString(strings.Repeat(`{"token":"b","logprob":-2},`, wide-1) + `{"token":"b","logprob":-2}]}`)
	b.WriteString(strings.Repeat(`,{"token":"c","logprob":-1,"top_logprobs":[{"token":"d","logprob":-3}]}`, tokens-1) + `]}}]}`)
	answer, err := teachers.Parse(teachers.FormatOpenAIJSON, []byte(b.String()))
	if err != nil || answer.Logprobs.Len() != tokens || answer.Logprobs.K() != wide {
		t.Fatal(err)
	}
	row, ok := logprobRow(&recipe.Teacher{}, &datasets.Candidate{}, answer.Logprobs)
	if !ok || len(row.Logprobs) != tokens || int(row.TopK)*tokens > mostSlots || len(row.TopLogprobs) != int(row.TopK)*tokens || row.Complete {
		t.Fatalf("%d slots of %d, %d tokens, complete: %v", len(row.TopLogprobs), row.TopK, len(row.Logprobs), row.Complete)
	}
	k := int(row.TopK)
	for i, want := range map[int]float32{0: -2, k - 1: -2, k: -3, (tokens - 1) * k: -3} {
		if p := row.TopLogprobs[i]; p == nil || *p != want {
			t.Errorf("slot %d is %v, want %v", i, p, want)
		}
	}
	if row.TopLogprobs[k+1] != nil {
		t.Error("a slot without an alternative holds one")
	}
}
