package teachers

import (
	"math"
	"strconv"
)

// sentinelLogprob is what vLLM sends where it has no logprob.
const sentinelLogprob = -9999

// maxLogprobs bounds the logprobs of one answer, those of alternatives
// included: 200,000 tokens with 20 alternatives each.
const maxLogprobs = 200_000 * 21

// maxTokenBytes bounds the bytes of one token.
const maxTokenBytes = 1024

// readLogprobs takes {"content": [{"token", "logprob", "bytes", "top_logprobs"}]}.
func (d *chatDecoder) readLogprobs(value []byte) {
	c := walk(value)
	for c.next() {
		if string(c.name) != "content" {
			continue
		}
		list := walk(c.value)
		for d.logprobCount < maxLogprobs && list.next() {
			lp := d.readLogprob(list.value, true)
			if lp.Logprob == nil {
				d.flag(FlagLogprobGap)
			}
			d.logprobs = append(d.logprobs, lp)
		}
	}
}

func (d *chatDecoder) readLogprob(value []byte, withTop bool) Logprob {
	var lp Logprob
	d.logprobCount++
	c := walk(value)
	for c.next() {
		switch string(c.name) {
		case "token":
			lp.Token = textOf(c.value)
		case "logprob":
			lp.Logprob = finiteLogprob(c.value)
		case "bytes":
			list := walk(c.value)
			for list.next() {
				if n, ok := wholeNumber(list.value); ok && n < 256 && len(lp.Bytes) < maxTokenBytes {
					lp.Bytes = append(lp.Bytes, byte(n))
				}
			}
		case "top_logprobs":
			list := walk(c.value)
			for withTop && d.logprobCount < maxLogprobs && list.next() {
				lp.Top = append(lp.Top, d.readLogprob(list.value, false))
			}
		}
	}
	return lp
}

// finiteLogprob is nil for null, NaN, infinities and the sentinel: a missing
// probability must never read as 0, which means certainty.
func finiteLogprob(value []byte) *float64 {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f <= sentinelLogprob {
		return nil
	}
	return &f
}
