package filter

import (
	"testing"
)

// BenchmarkFilters measures each filter over nine models' answers, in MB/s of
// text on one core.
func BenchmarkFilters(b *testing.B) {
	rows := alpacaeval(b)
	inputs := make([]*Input, len(rows))
	var size int64
	for i, r := range rows {
		inputs[i] = answerTo("chat", r.Instruction, r.Output)
		size += int64(len(r.Output))
	}
	for name, given := range map[string]map[string]any{
		"finish": nil, "empty": nil, "refusal": nil, "identity": nil, "think": nil, "control_tokens": nil, "repetition": nil,
		"repetition/gopher": {"gopher": true}, "length": {"max_tokens": 16000}, "language": nil, "pii": nil,
	} {
		kind := name
		if name == "repetition/gopher" {
			kind = "repetition"
		}
		f := filterOf(b, kind, given)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(size)
			for b.Loop() {
				for _, in := range inputs {
					f.Reject(in)
				}
			}
		})
	}
}
