package cli

import (
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

func TestHeadOfLogprobs(t *testing.T) {
	p, none := float32(-0.25), float32(-1)
	text, part, escape := []byte(" the"), []byte("\xe6\x95"), []byte("\x1b[31m")
	id := int32(42)
	r := datasets.LogprobRow{
		SampleID: "s1", Domain: "math", Effort: "high", Teacher: "k3", Source: datasets.LogprobsGenerated, Tokens: 20, TopK: 5, Gaps: 1,
		TokenBytes: []*[]byte{&text, &part, &escape, nil, nil}, TokenIDs: []*int32{nil, nil, nil, &id, nil},
		Logprobs: []*float32{&p, &p, &none, &p, nil},
	}
	for len(r.Logprobs) < 20 {
		r.Logprobs = append(r.Logprobs, &p)
	}
	var b strings.Builder
	if err := entryOfLogprobs(&r).print(&b, 1, true); err != nil {
		t.Fatal(err)
	}
	want := `── 1 ── math / high  teacher k3  20 tokens  5 alternatives each  1 without a logprob  incomplete
sample        s1
source        generated
tokens        " the" -0.250  0xe695 -0.250  "\x1b[31m" -1.000  #42 -0.250  ? null  ? -0.250  ? -0.250  ? -0.250  ? -0.250  ? -0.250  ? -0.250  ? -0.250  … 8 more

`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	r = datasets.LogprobRow{Complete: true}
	b.Reset()
	if err := entryOfLogprobs(&r).print(&b, 1, false); err != nil || strings.Contains(b.String(), "incomplete") {
		t.Errorf("%v %s", err, b.String())
	}
}
