//go:build readers

package readers

import (
	"math"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// logprobRows have nulls in every list, tokens that are parts of characters,
// and lists that are empty beside lists that are not.
func logprobRows() []datasets.LogprobRow {
	b := func(s string) *[]byte { return ptr([]byte(s)) }
	return []datasets.LogprobRow{
		{PromptID: "a"},
		{
			SampleID: "s1", TaskID: "b/math/max", PromptID: "b", Domain: "math", Effort: "max", Split: "train", Teacher: "k3", TeacherModel: "kimi-k3",
			Source: datasets.LogprobsGenerated, Accepted: true, Tokens: 4, Gaps: 1,
			TokenIDs:   []*int32{ptr(int32(0)), nil, ptr(int32(math.MaxInt32)), ptr(int32(7))},
			TokenBytes: []*[]byte{b("\xe6\x95"), b(""), nil, b("数")},
			Logprobs:   []*float32{ptr(float32(-0.1)), nil, ptr(float32(0)), ptr(float32(-1e-30))},
			TopK:       2, TopTokenIDs: []*int32{ptr(int32(1)), nil, nil, nil, ptr(int32(3)), ptr(int32(4)), nil, ptr(int32(5))},
			TopTokenBytes: []*[]byte{b("a"), b("\xff"), nil, nil, b("\x00"), nil, nil, b("z")},
			TopLogprobs:   []*float32{ptr(float32(-0.1)), nil, nil, nil, ptr(float32(-3)), ptr(float32(math.SmallestNonzeroFloat32)), nil, ptr(float32(-9998.5))},
			TailLogmass:   []*float32{ptr(float32(-2.5)), nil, nil, ptr(float32(-16.635532))},
			Tokenizer:     ptr("moonshotai/Kimi-K3"),
		},
		{PromptID: "c", Tokens: 1, Logprobs: []*float32{nil}, TokenIDs: []*int32{nil}, TokenBytes: []*[]byte{nil}, Gaps: 1},
	}
}

// longLogprobs is one answer of 30,000 tokens with 20 alternatives each.
func longLogprobs() []datasets.LogprobRow {
	const tokens, k = 30_000, 20
	r := datasets.LogprobRow{SampleID: "s", PromptID: "p", Tokens: tokens, TopK: k, Complete: true}
	for i := range tokens {
		r.TokenIDs = append(r.TokenIDs, ptr(int32(i*7919%150_000)))
		r.TokenBytes = append(r.TokenBytes, ptr([]byte{byte(i), byte(i >> 8)}))
		r.Logprobs = append(r.Logprobs, ptr(float32(-i)/1000))
		r.TailLogmass = append(r.TailLogmass, ptr(float32(-i)/500))
		for j := range k {
			r.TopTokenIDs = append(r.TopTokenIDs, ptr(int32((i*31+j)%150_000)))
			r.TopLogprobs = append(r.TopLogprobs, ptr(float32(-j)-float32(i)/1000))
		}
	}
	return []datasets.LogprobRow{r}
}
