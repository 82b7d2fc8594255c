package teachers

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// PromptLogprobsVLLM is the wire form in which vLLM gives the logprobs of a
// prompt: a chat completion of one token that is not streamed.
const PromptLogprobsVLLM = "vllm-prompt-logprobs"

// A CompletionScorer asks a teacher how likely given completions are to it: the
// conversation with the completion in it is rendered by the teacher's own chat
// template, and the teacher gives the logprob of each of its tokens. Where the
// completion begins is known from a second request, of the prompt alone. It
// is safe for concurrent use.
type CompletionScorer struct {
	// Config is the teacher's, in the wire form of prompt logprobs. Make a
	// [Client] of it.
	Config *Config
	whole  *Builder // of prompt and completion
	head   *Builder // of the prompt alone
	top    int
}

// NewCompletionScorer makes a scorer with so many alternatives per token; 0
// asks for the tokens' own logprobs alone. params are those that change how
// the conversation is rendered, such as chat_template_kwargs.
func NewCompletionScorer(c *Config, params map[string]any, top int) (*CompletionScorer, error) {
	if top < 0 {
		return nil, fmt.Errorf("%s: %d alternatives: want 0 or more", c.name(), top)
	}
	own := *c
	own.API = PromptLogprobsVLLM
	s := &CompletionScorer{Config: &own, top: top}
	var err error
	if s.whole, err = NewBuilder(&own, with(params, map[string]any{
		"prompt_logprobs": top, "add_generation_prompt": false, "return_token_ids": true, "max_tokens": 1,
	})); err != nil {
		return nil, err
	}
	s.head, err = NewBuilder(&own, with(params, map[string]any{
		"add_generation_prompt": true, "return_token_ids": true, "max_tokens": 1,
	}))
	return s, err
}

func with(params, more map[string]any) map[string]any {
	out := map[string]any{}
	for _, m := range []map[string]any{params, more} {
		for name, value := range m {
			out[name] = value
		}
	}
	return out
}

// Request asks for the logprobs of a prompt with a completion, which is what
// the assistant said: one turn, or a trajectory.
func (s *CompletionScorer) Request(p *chat.Prompt, completion []chat.Message) (*Request, error) {
	if len(completion) == 0 {
		return nil, errors.New("no completion to score")
	}
	whole := *p
	whole.Messages = append(p.Messages[:len(p.Messages):len(p.Messages)], completion...)
	return s.whole.Request(&whole, 0)
}

// PromptRequest asks for the tokens of the prompt alone. It is the same for all
// completions of a prompt.
func (s *CompletionScorer) PromptRequest(p *chat.Prompt) (*Request, error) {
	return s.head.Request(p, 0)
}

// Read gives the logprobs of a completion's tokens, its end-of-turn token
// included: whole is the answer to Request, head that to PromptRequest. They
// are refused where the template renders the prompt otherwise when a completion
// follows, because then nobody can tell where that begins.
func (s *CompletionScorer) Read(whole, head *Answer) (*Logprobs, error) {
	switch {
	case whole.Prompt == nil || whole.Prompt.Len() == 0:
		return nil, errors.New("the endpoint sent no prompt logprobs")
	case head.Prompt == nil || head.Prompt.Tokens.Len() == 0:
		return nil, errors.New("the endpoint sent no token ids of the prompt; it needs vLLM with return_token_ids")
	}
	tokens, start := &whole.Prompt.Tokens, head.Prompt.Tokens.Len()
	if start >= tokens.Len() {
		return nil, fmt.Errorf("the prompt alone has %d tokens, and %d with the completion", start, tokens.Len())
	}
	for i := range start {
		a, known := tokens.ID(i)
		b, knownToo := head.Prompt.Tokens.ID(i)
		if !known || !knownToo || a != b {
			return nil, fmt.Errorf("the chat template renders the prompt otherwise where a completion follows it: token %d differs", i+1)
		}
	}
	return whole.Prompt.from(start, s.top), nil
}

// from is the logprobs of the tokens from one on, with so many alternatives at
// most.
func (l *Logprobs) from(start, most int) *Logprobs {
	out := &Logprobs{Logprob: l.Logprob[start:]}
	for i := start; i < l.Len(); i++ {
		id, _ := l.Tokens.ID(i)
		b, known := l.Tokens.Bytes(i)
		out.Tokens.add(id, b, known)
		first, end := l.TopOf(i)
		for j := first; j < min(end, first+most); j++ {
			id, _ := l.Top.ID(j)
			b, known := l.Top.Bytes(j)
			out.Top.add(id, b, known)
			out.TopLogprob = append(out.TopLogprob, l.TopLogprob[j])
		}
		out.TopEnds = append(out.TopEnds, int32(out.Top.Len()))
	}
	return out
}

// promptScoring is chat completions that are not streamed: vLLM gives prompt
// logprobs in a whole response alone.
type promptScoring struct{ openAI }

func (promptScoring) appendWire(dst []byte, _ *Profile, r *Request) []byte {
	if r.CapField != "" {
		dst = append(chat.AppendString(dst, r.CapField), ':')
		dst = append(strconv.AppendInt(dst, r.Cap, 10), ',')
	}
	return append(dst, r.transport...)
}

func (promptScoring) decoder() decoder { return &promptDecoder{} }

func (promptScoring) formats() (stream, plain string) {
	return PromptLogprobsVLLM + "-sse", PromptLogprobsVLLM + "-json"
}

// promptDecoder reads a chat completion with what it says of the prompt.
type promptDecoder struct {
	chatDecoder
	ids    []int32
	prompt Logprobs
	read   logprobReader // its bounds and buffers
}

func (d *promptDecoder) whole(body []byte) error {
	c := walk(bytes.TrimSpace(body))
	var logprobs, ids []byte
	for c.next() {
		switch string(c.name) {
		case "prompt_logprobs":
			logprobs = c.value
		case "prompt_token_ids":
			ids = c.value
		}
	}
	d.read.addIDs(&d.ids, ids)
	d.positions(logprobs)
	return d.chatDecoder.whole(body)
}

// positions reads a list that has for each token of the prompt null, or an
// object whose keys are token ids: the token's own first, unless prompt_token_ids
// says otherwise, then those that are likelier.
func (d *promptDecoder) positions(value []byte) {
	list := inside(value)
	for d.read.room() && list.next() {
		d.position(list.value)
	}
}

// A ranked is one entry of a position.
type ranked struct {
	id      int32
	rank    int64
	logprob float32
	start   int // of its bytes
	end     int
	known   bool
}

func (d *promptDecoder) position(value []byte) {
	i := d.prompt.Len()
	own := int32(-1)
	if i < len(d.ids) {
		own = d.ids[i]
	}
	var entries []ranked
	text := d.read.text[:0]
	c := inside(value)
	for c.object && d.read.room() && c.next() {
		d.read.count++
		e := ranked{id: tokenID(c.name), logprob: missingLogprob, start: len(text)}
		inner := inside(c.value)
		for inner.next() {
			switch string(inner.name) {
			case "logprob":
				e.logprob = finiteLogprob(inner.value)
			case "rank":
				e.rank, _ = wholeNumber(inner.value)
			case "decoded_token":
				if isString(inner.value) && len(inner.value) <= maxTokenBytes {
					text = appendText(text, inner.value)
					e.known = true
				}
			}
		}
		e.end = len(text)
		if bytes.Contains(text[e.start:e.end], replacementBytes) {
			e.known = false // a part of a character
		}
		entries = append(entries, e)
	}
	d.read.text = text
	if own < 0 && len(entries) > 0 {
		own = entries[0].id
	}
	d.add(own, entries, text)
}

func (d *promptDecoder) add(own int32, entries []ranked, text []byte) {
	p, known := missingLogprob, false
	var b []byte
	for _, e := range entries {
		if e.id == own && own >= 0 {
			p, b, known = e.logprob, text[e.start:e.end], e.known
		}
	}
	if !known {
		b = nil
	}
	d.read.count++
	d.prompt.Tokens.add(own, b, known)
	d.prompt.Logprob = append(d.prompt.Logprob, p)
	// The token itself comes first, though it may be none of the likeliest.
	slices.SortStableFunc(entries, func(a, b ranked) int { return cmp.Compare(uint64(a.rank-1), uint64(b.rank-1)) })
	for _, e := range entries {
		if e.id == own && e.rank > int64(len(entries)) {
			continue
		}
		b := text[e.start:e.end]
		if !e.known {
			b = nil
		}
		d.prompt.Top.add(e.id, b, e.known)
		d.prompt.TopLogprob = append(d.prompt.TopLogprob, e.logprob)
	}
	d.prompt.TopEnds = append(d.prompt.TopEnds, int32(d.prompt.Top.Len()))
}

func (d *promptDecoder) answer() (*Answer, error) {
	a, err := d.chatDecoder.answer()
	if err != nil {
		return nil, err
	}
	switch n := d.prompt.Len(); {
	case n == 0:
		// The tokens alone were asked for.
		for _, id := range d.ids {
			d.prompt.Tokens.add(id, nil, false)
		}
	case len(d.ids) > 0 && n != len(d.ids), d.read.cut, gapsAfterFirst(&d.prompt):
		if !slices.Contains(a.Flags, FlagLogprobGap) {
			a.Flags = append(a.Flags, FlagLogprobGap)
			slices.Sort(a.Flags)
		}
	}
	if d.prompt.Tokens.Len() > 0 {
		a.Prompt = &d.prompt
	}
	return a, nil
}

// gapsAfterFirst tells whether a token has no logprob though one comes before
// it: the first of a prompt has none.
func gapsAfterFirst(l *Logprobs) bool {
	for _, p := range l.Logprob[1:] {
		if p != p {
			return true
		}
	}
	return false
}
