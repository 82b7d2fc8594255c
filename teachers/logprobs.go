package teachers

import (
	"bytes"
	"math"
	"slices"
	"strconv"
)

// sentinelLogprob is what vLLM sends where it has no logprob.
const sentinelLogprob = -9999

// maxLogprobs bounds the logprobs of one answer, those of alternatives
// included: 200,000 tokens with 20 alternatives each.
const maxLogprobs = 200_000 * 21

// maxTokenBytes bounds the bytes of one token.
const maxTokenBytes = 1024

// missingSlack is how many tokens more than it gave logprobs for an endpoint
// may count without the answer being flagged: some count the end of the turn
// and give nothing for it.
const missingSlack = 2

// Logprobs are the log probabilities of an answer's tokens in columns, because
// a long answer has hundreds of thousands of alternatives. The zero value
// holds none.
type Logprobs struct {
	Tokens Tokens
	// Logprob of each token; NaN where the endpoint sent null, a sentinel or
	// no finite number. A missing probability never reads as 0, which would
	// mean certainty.
	Logprob []float32
	// Top are the alternatives of all tokens, one token's after the other's:
	// those of token i are Top from TopEnds[i-1] to TopEnds[i].
	Top        Tokens
	TopLogprob []float32 // as Logprob
	TopEnds    []int32
	// PromptIDs are the ids of the tokens before the answer's, where the
	// endpoint tells them; -1 for what is no id.
	PromptIDs []int32
}

// Len counts the tokens.
func (l *Logprobs) Len() int { return len(l.Logprob) }

// TopOf is the range of token i's alternatives in Top.
func (l *Logprobs) TopOf(i int) (start, end int) {
	if i > 0 {
		start = int(l.TopEnds[i-1])
	}
	return start, int(l.TopEnds[i])
}

// K is the largest number of alternatives that a token has.
func (l *Logprobs) K() int {
	k := 0
	for i := range l.Len() {
		start, end := l.TopOf(i)
		k = max(k, end-start)
	}
	return k
}

// Gaps counts the tokens whose logprob is missing.
func (l *Logprobs) Gaps() int {
	n := 0
	for _, p := range l.Logprob {
		if p != p {
			n++
		}
	}
	return n
}

// Equal compares what two answers say; missing logprobs are equal.
func (l *Logprobs) Equal(o *Logprobs) bool {
	if l == nil || o == nil {
		return l == o
	}
	return l.Tokens.equal(&o.Tokens) && sameFloats(l.Logprob, o.Logprob) &&
		l.Top.equal(&o.Top) && sameFloats(l.TopLogprob, o.TopLogprob) && slices.Equal(l.TopEnds, o.TopEnds)
}

func sameFloats(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return x == y || x != x && y != y })
}

// Tokens is a list of tokens by id and bytes, each known or not: endpoints
// send one, the other or both.
type Tokens struct {
	ids  []int32 // -1: not known
	data []byte
	ends []int32 // of each token's bytes in data; ^end where they are not known
}

// Len counts the tokens.
func (t *Tokens) Len() int { return len(t.ids) }

// ID is the id of token i in the model's vocabulary.
func (t *Tokens) ID(i int) (id int32, known bool) { return t.ids[i], t.ids[i] >= 0 }

// Bytes are the bytes of token i. They are shared and not to be changed.
func (t *Tokens) Bytes(i int) (b []byte, known bool) {
	start, end := 0, t.ends[i]
	if i > 0 {
		start = int(max(t.ends[i-1], ^t.ends[i-1]))
	}
	if end < 0 {
		return nil, false
	}
	return t.data[start:end:end], true
}

func (t *Tokens) equal(o *Tokens) bool {
	return slices.Equal(t.ids, o.ids) && slices.Equal(t.ends, o.ends) && bytes.Equal(t.data, o.data)
}

func (t *Tokens) add(id int32, b []byte, known bool) {
	t.ids = append(t.ids, id)
	t.data = append(t.data, b...)
	end := int32(len(t.data))
	if !known {
		end = ^end
	}
	t.ends = append(t.ends, end)
}

// logprobReader takes the logprobs of a response in, in every form that
// endpoints of the chat-completions protocol send.
type logprobReader struct {
	out   Logprobs
	count int     // tokens and alternatives read
	cut   bool    // maxLogprobs was reached
	ids   []int32 // vLLM's list of the answer's token ids
	// prompt is vLLM's list of the token ids of the prompt as its chat template
	// renders it.
	prompt []int32
	text   []byte // of one token, reused
	bytes  []byte
}

// read takes the logprobs of a choice: {"content": [{token, logprob, bytes,
// top_logprobs}]}, or the completions' {"tokens", "token_logprobs",
// "top_logprobs"}, which llama-cpp-python has sent.
func (r *logprobReader) read(value []byte) {
	var tokens, logprobs, tops []byte
	c := inside(value)
	for c.next() {
		switch string(c.name) {
		case "content":
			list := inside(c.value)
			for r.room() && list.next() {
				r.entry(list.value)
			}
		case "tokens":
			tokens = c.value
		case "token_logprobs":
			logprobs = c.value
		case "top_logprobs":
			tops = c.value
		}
	}
	if tokens != nil && logprobs != nil {
		r.columns(tokens, logprobs, tops)
	}
}

// room tells whether more may be read.
func (r *logprobReader) room() bool {
	if r.count < maxLogprobs {
		return true
	}
	r.cut = true
	return false
}

func (r *logprobReader) entry(value []byte) {
	id, known, p, tops := r.token(value)
	r.out.Tokens.add(id, r.bytes, known)
	r.out.Logprob = append(r.out.Logprob, p)
	list := inside(tops)
	for r.room() && list.next() {
		if len(list.value) == 0 || list.value[0] != '{' {
			continue
		}
		id, known, p, _ := r.token(list.value)
		r.out.Top.add(id, r.bytes, known)
		r.out.TopLogprob = append(r.out.TopLogprob, p)
	}
	r.out.TopEnds = append(r.out.TopEnds, int32(r.out.Top.Len()))
}

// token reads one token; its bytes are in r.bytes until the next one.
func (r *logprobReader) token(value []byte) (id int32, known bool, p float32, tops []byte) {
	r.count++
	id, p = -1, missingLogprob
	r.text, r.bytes = r.text[:0], r.bytes[:0]
	sent := false
	c := inside(value)
	for c.next() {
		switch string(c.name) {
		case "token":
			r.text = appendText(r.text, c.value)
		case "logprob":
			p = finiteLogprob(c.value)
		case "id", "token_id":
			id = tokenID(c.value)
		case "bytes":
			if len(c.value) > 0 && c.value[0] == '[' {
				sent = true
				r.readBytes(c.value)
			}
		case "top_logprobs":
			tops = c.value
		}
	}
	named, isID := idOfText(r.text)
	if isID && id < 0 {
		id = named
	}
	switch {
	case sent && isID && bytes.Equal(r.bytes, r.text):
		// vLLM gives the bytes of the words "token_id:17" for alternatives.
		r.bytes = r.bytes[:0]
	case sent:
		known = true
	case !isID && len(r.text) > 0 && len(r.text) <= maxTokenBytes:
		known = true
		r.bytes = append(r.bytes, r.text...)
	}
	if bytes.Contains(r.bytes, replacementBytes) {
		// A part of a character, which the endpoint could not show as text.
		known, r.bytes = false, r.bytes[:0]
	}
	return id, known, p, tops
}

var replacementBytes = []byte("\uFFFD")

func (r *logprobReader) readBytes(value []byte) {
	list := inside(value)
	for list.next() {
		if n, ok := wholeNumber(list.value); ok && n < 256 && len(r.bytes) < maxTokenBytes {
			r.bytes = append(r.bytes, byte(n))
		}
	}
}

// columns takes the form of the completions API.
func (r *logprobReader) columns(tokens, logprobs, tops []byte) {
	names, values, maps := inside(tokens), inside(logprobs), inside(tops)
	for r.room() && names.next() {
		p := missingLogprob
		if values.next() {
			p = finiteLogprob(values.value)
		}
		r.count++
		r.named(&r.out.Tokens, appendText(r.text[:0], names.value))
		r.out.Logprob = append(r.out.Logprob, p)
		if maps.next() {
			alternatives := inside(maps.value)
			for alternatives.object && r.room() && alternatives.next() {
				r.count++
				quoted := append(append([]byte{'"'}, alternatives.name...), '"')
				r.named(&r.out.Top, appendText(r.text[:0], quoted))
				r.out.TopLogprob = append(r.out.TopLogprob, finiteLogprob(alternatives.value))
			}
		}
		r.out.TopEnds = append(r.out.TopEnds, int32(r.out.Top.Len()))
	}
}

// named adds a token of which only the text was sent.
func (r *logprobReader) named(to *Tokens, text []byte) {
	r.text = text
	id, isID := idOfText(text)
	if !isID {
		id = -1
	}
	known := !isID && len(text) > 0 && len(text) <= maxTokenBytes && !bytes.Contains(text, replacementBytes)
	if !known {
		text = nil
	}
	to.add(id, text, known)
}

// addIDs takes a list of token ids that stands beside the logprobs.
func (r *logprobReader) addIDs(to *[]int32, value []byte) {
	list := inside(value)
	for len(*to) < maxLogprobs && list.next() {
		*to = append(*to, tokenID(list.value))
	}
}

// result is what was read, and whether something is missing: a token without
// its logprob, another number of ids than of logprobs, or fewer logprobs than
// the endpoint counts tokens that it shows.
func (r *logprobReader) result(visible int64) (l Logprobs, gap bool) {
	n := r.out.Len()
	if n == 0 {
		return r.out, false // token ids alone may have been asked for
	}
	gap = r.cut || r.out.Gaps() > 0 || int64(n)+missingSlack < visible
	switch {
	case len(r.ids) == 0:
	case len(r.ids) != n:
		gap = true
	default:
		for i, id := range r.ids {
			if r.out.Tokens.ids[i] < 0 {
				r.out.Tokens.ids[i] = id
			}
		}
	}
	return r.out, gap
}

// finishLogprobs puts what was read into the answer.
func (d *chatDecoder) finishLogprobs(a *Answer) {
	visible := int64(0)
	if a.Usage != nil {
		visible = a.Usage.CompletionTokens - a.Usage.ReasoningTokens
	}
	l, gap := d.logprobs.result(visible)
	if gap {
		d.flag(FlagLogprobGap)
	}
	if l.Len() > 0 {
		l.PromptIDs = d.logprobs.prompt
		a.Logprobs = &l
	}
}

var missingLogprob = float32(math.NaN())

// finiteLogprob is NaN for null, NaN, infinities, the sentinel and what is no
// number: a missing probability must never read as 0, which means certainty.
func finiteLogprob(value []byte) float32 {
	f, err := strconv.ParseFloat(string(value), 32)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) || f <= sentinelLogprob {
		return missingLogprob
	}
	return float32(f)
}

// tokenID is -1 for what is no id.
func tokenID(value []byte) int32 {
	n, ok := wholeNumber(value)
	if !ok || n > math.MaxInt32 {
		return -1
	}
	return int32(n)
}

// idOfText reads the words that vLLM sends instead of a token's text under
// return_tokens_as_token_ids.
func idOfText(text []byte) (id int32, ok bool) {
	const prefix = "token_id:"
	if len(text) <= len(prefix) || string(text[:len(prefix)]) != prefix {
		return -1, false
	}
	n, err := strconv.ParseInt(string(text[len(prefix):]), 10, 32)
	if err != nil || n < 0 {
		return -1, false
	}
	return int32(n), true
}

// LogprobParams are the request parameters that ask for the logprobs of an
// answer's tokens with so many alternatives each, and for token ids where the
// endpoint gives them. They are part of the body and so of the ask's identity:
// an answer that was asked without them does not serve. ok is false where the
// endpoint gives no logprobs.
func (p Profile) LogprobParams(model string, top int) (params map[string]any, ok bool) {
	p = p.ForModel(model)
	switch {
	case p.TopLogprobs == 0:
		return nil, false
	case p.TokenIDs:
		return map[string]any{"logprobs": true, "top_logprobs": top, "return_tokens_as_token_ids": true, "return_token_ids": true}, true
	}
	return map[string]any{"logprobs": true, "top_logprobs": top}, true
}

// LogprobParams are those of the teacher's endpoint and model.
func (c *Config) LogprobParams(top int) (params map[string]any, ok bool) {
	return c.profile().LogprobParams(c.Model, top)
}

// MostLogprobs is the most alternatives per token that the teacher's endpoint
// gives; 0 means that it gives no logprobs, -1 that it is not known.
func (c *Config) MostLogprobs() int { return c.profile().TopLogprobs }
