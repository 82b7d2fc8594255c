package teachers

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"unicode/utf16"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A Request is one ask: one sample of one prompt.
type Request struct {
	// Body is the RFC 8785 JSON of the request body without transport fields
	// (stream, stream_options, user, metadata) and without the token cap.
	// Images stand in it by digest.
	Body     []byte
	Cap      int64  // tokens of the answer at most; 0: no cap asked
	CapField string // max_completion_tokens or max_tokens; "" without a cap
	// AnswerHeaders are the headers that change the answer, in lower case;
	// never the key.
	AnswerHeaders map[string]string
	Images        []string // digests, in order
	Sample        int
	ParamsText    string // RFC 8785 JSON of the parameters asked, seed and cap included
	Price         *Price // of its teacher; nil: not priced
	Purse         Purse  // what its requests are paid from; nil: from no limited budget

	transport []byte // members that go out but change nothing: `"user":"x",`
	images    []imageSlot
	// unsendable says why the endpoint's protocol has no form for the prompt;
	// the request has an identity all the same, and asking fails at once.
	unsendable string
}

// An imageSlot is a range of Body that stands for an image's data URL.
type imageSlot struct {
	start, end int
	image      chat.Image
}

// maxExact bounds the integers that JSON numbers hold exactly (RFC 8785).
const maxExact = 1 << 53

// A Builder renders the requests of one teacher with one set of parameters.
// What does not depend on the prompt is rendered once. It is safe for
// concurrent use.
type Builder struct {
	dialect dialect
	profile *Profile
	// Canonical members before messages, and from there to seed, system,
	// tools and the end.
	head, between, afterSeed, tail, end []byte
	paramsHead, paramsTail              []byte // of ParamsText, before and after the seed
	transport                           []byte
	cap                                 int64
	capField                            string
	headers                             map[string]string
	seed                                *int64
	neverSeed                           bool
	systemInParams, toolsInParams       bool
	tools                               atomic.Pointer[canonicalTools]
	price                               *Price
}

type canonicalTools struct {
	text string
	json []byte
}

// BuildRequest renders one request. Use a Builder for many.
func BuildRequest(c *Config, p *chat.Prompt, params map[string]any, sample int) (*Request, error) {
	b, err := NewBuilder(c, params)
	if err != nil {
		return nil, err
	}
	return b.Request(p, sample)
}

// NewBuilder renders what all requests of a teacher with these parameters
// share. Parameters go through as they are, except: nulls are dropped; the
// token cap, stream, stream_options, user and metadata are no part of the
// canonical body; model and messages are not parameters; n is 1.
func NewBuilder(c *Config, params map[string]any) (*Builder, error) {
	d, err := dialectOf(c.API)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name(), err)
	}
	profile := c.profile()
	b := &Builder{dialect: d, profile: profile, headers: answerHeaders(d, c.Headers), neverSeed: !profile.Seed, price: c.Price}
	body := map[string][]byte{"model": chat.AppendString(nil, c.Model)}
	asked := map[string][]byte{}
	for _, name := range sortedKeys(params) {
		if err := b.param(c, profile, name, params[name], body, asked); err != nil {
			return nil, fmt.Errorf("%s: params.%s: %w", c.name(), name, err)
		}
	}
	b.head = members(body, "", "messages")
	b.between = members(body, "messages", "seed")
	b.afterSeed = members(body, "seed", "system")
	b.tail = members(body, "system", "tools")
	b.end = members(body, "tools", "")
	if system, ok := body["system"]; ok {
		b.systemInParams = true
		b.afterSeed = appendMember(b.afterSeed, "system", system)
	}
	if tools, ok := body["tools"]; ok {
		b.toolsInParams = true
		b.tail = appendMember(b.tail, "tools", tools)
	}
	if b.capField == "" && profile.CapDefault > 0 {
		b.cap, b.capField = capDefault(profile, params), profile.CapFields[0]
		asked[b.capField] = strconv.AppendInt(nil, b.cap, 10)
	}
	b.paramsHead = members(asked, "", "seed")
	b.paramsTail = members(asked, "seed", "")
	return b, nil
}

func (b *Builder) param(c *Config, profile *Profile, name string, value any, body, asked map[string][]byte) error {
	if name == "seed" && value == nil {
		b.neverSeed = true
	}
	if value == nil {
		return nil
	}
	switch name {
	case "model", "messages":
		return fmt.Errorf("is no parameter: the model is the teacher's, the messages are the prompt's; remove it")
	case "stream", "stream_options":
		return nil // we always stream
	case "n":
		if n, ok := integer(value); !ok || n != 1 {
			return fmt.Errorf("%v: an ask is always one sample; set ask.samples instead", value)
		}
		return nil
	case "seed":
		n, ok := integer(value)
		if !ok {
			return fmt.Errorf("%v is not an integer between -2^53 and 2^53", value)
		}
		b.seed = &n
		return nil
	}
	rendered, err := canonicalValue(value)
	if err != nil {
		return err
	}
	switch {
	case name == "user" || name == "metadata":
		b.transport = append(append(chat.AppendString(b.transport, name), ':'), rendered...)
		b.transport = append(b.transport, ',')
		return nil
	case isCapField(name) || slices.Contains(profile.CapFields, name):
		n, ok := integer(value)
		if !ok || n <= 0 {
			return fmt.Errorf("%v is not a positive number of tokens", value)
		}
		if b.capField != "" {
			return fmt.Errorf("the token cap is given twice; keep one of max_tokens and max_completion_tokens")
		}
		b.cap, b.capField = n, profile.capField(name)
	default:
		body[name] = rendered
	}
	asked[name] = rendered
	return nil
}

func canonicalValue(value any) ([]byte, error) {
	plain, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	// The library canonicalises objects and arrays only.
	wrapped, err := chat.Canonical(append(append([]byte{'['}, plain...), ']'))
	if err != nil {
		return nil, err
	}
	return wrapped[1 : len(wrapped)-1], nil
}

// Request renders the request for one sample of a prompt. The seed: a seed
// among the parameters is the first sample's, and sample i has seed + i;
// without one the first sample has none and sample i has i; a null seed, or an
// endpoint that takes none, means never.
func (b *Builder) Request(p *chat.Prompt, sample int) (*Request, error) {
	if sample < 0 {
		return nil, fmt.Errorf("sample %d: must not be negative", sample)
	}
	r := &Request{Cap: b.cap, CapField: b.capField, AnswerHeaders: b.headers, Sample: sample, transport: b.transport, Price: b.price}
	seed, hasSeed := b.seedOf(sample)
	if seed > maxExact || seed < -maxExact {
		return nil, fmt.Errorf("sample %d: seed %d is beyond 2^53; choose a smaller params.seed", sample, seed)
	}
	tools, err := b.promptTools(p.Tools)
	if err != nil {
		return nil, err
	}
	dst := make([]byte, 0, b.size(p)+len(tools))
	dst = append(dst, '{')
	dst = append(dst, b.head...)
	dst = append(dst, `"messages":`...)
	if dst, err = b.dialect.messages(dst, r, p, b.profile); err != nil {
		return nil, err
	}
	dst = append(dst, ',')
	dst = append(dst, b.between...)
	if hasSeed {
		dst = appendSeed(dst, seed)
	}
	dst = append(dst, b.afterSeed...)
	if dst, err = b.appendSystem(dst, p); err != nil {
		return nil, err
	}
	dst = append(dst, b.tail...)
	if tools != nil {
		dst = appendMember(dst, "tools", tools)
	}
	dst = append(dst, b.end...)
	dst[len(dst)-1] = '}' // every member ends in a comma
	r.Body = dst
	r.ParamsText = b.paramsText(seed, hasSeed)
	return r, nil
}

// Cap is the token cap of the requests; 0: none is asked.
func (b *Builder) Cap() int64 { return b.cap }

func (b *Builder) seedOf(sample int) (int64, bool) {
	switch {
	case b.neverSeed:
		return 0, false
	case b.seed != nil:
		return *b.seed + int64(sample), true
	case sample > 0:
		return int64(sample), true
	}
	return 0, false
}

func (b *Builder) paramsText(seed int64, hasSeed bool) string {
	dst := make([]byte, 0, len(b.paramsHead)+len(b.paramsTail)+32)
	dst = append(append(dst, '{'), b.paramsHead...)
	if hasSeed {
		dst = appendSeed(dst, seed)
	}
	dst = append(dst, b.paramsTail...)
	if len(dst) == 1 {
		return "{}"
	}
	dst[len(dst)-1] = '}'
	return string(dst)
}

// promptTools is the canonical form of a prompt's tools, nil for none. Prompts
// in a row mostly share them, so the last form is kept.
func (b *Builder) promptTools(text string) ([]byte, error) {
	if text == "" {
		return nil, nil
	}
	if b.toolsInParams {
		return nil, fmt.Errorf("tools: both the prompt and the teacher's params declare them; remove one")
	}
	if last := b.tools.Load(); last != nil && last.text == text {
		return last.json, nil
	}
	form, err := chat.Canonical([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	if form, err = b.dialect.tools(form); err != nil {
		return nil, err
	}
	b.tools.Store(&canonicalTools{text: text, json: form})
	return form, nil
}

func (b *Builder) appendSystem(dst []byte, p *chat.Prompt) ([]byte, error) {
	start := len(dst)
	dst = b.dialect.system(append(dst, `"system":`...), p)
	switch {
	case len(dst) == start+len(`"system":`):
		return dst[:start], nil
	case b.systemInParams:
		return nil, fmt.Errorf("system: both the prompt and the teacher's params hold a system text; remove one")
	}
	return append(dst, ','), nil
}

func (b *Builder) size(p *chat.Prompt) int {
	n := len(b.head) + len(b.afterSeed) + len(b.between) + len(b.tail) + len(b.end) + len(p.System) + len(p.System)/16 + 96 + 160*len(p.Images)
	for i := range p.Messages {
		m := &p.Messages[i]
		n += 64
		for _, s := range []*string{m.Content, m.ReasoningContent} {
			if s != nil {
				n += len(*s) + len(*s)/16
			}
		}
	}
	return n
}

func lastUser(messages []chat.Message) int {
	for i := len(messages) - 1; i >= 0; i-- {
		if messages[i].Role == chat.RoleUser {
			return i
		}
	}
	return -1
}

func appendSeed(dst []byte, seed int64) []byte {
	dst = append(dst, `"seed":`...)
	return append(strconv.AppendInt(dst, seed, 10), ',')
}

func appendMember(dst []byte, name string, value []byte) []byte {
	dst = append(chat.AppendString(dst, name), ':')
	return append(append(dst, value...), ',')
}

// members renders the members whose names lie strictly between two names, in
// RFC 8785's order; "" means no bound.
func members(m map[string][]byte, after, before string) []byte {
	var dst []byte
	for _, name := range sortedKeys(m) {
		if (after == "" || compareUTF16(name, after) > 0) && (before == "" || compareUTF16(name, before) < 0) {
			dst = appendMember(dst, name, m[name])
		}
	}
	return dst
}

// sortedKeys sorts by UTF-16 code units, as RFC 8785 says.
func sortedKeys[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, compareUTF16)
	return names
}

func compareUTF16(a, b string) int {
	return slices.Compare(utf16.Encode([]rune(a)), utf16.Encode([]rune(b)))
}

// integer reads the whole numbers that YAML and JSON decoders give.
func integer(value any) (int64, bool) {
	var n int64
	switch v := value.(type) {
	case int:
		n = int64(v)
	case int32:
		n = int64(v)
	case int64:
		n = v
	case uint32:
		n = int64(v)
	case uint64:
		if v > maxExact {
			return 0, false
		}
		n = int64(v)
	case float64:
		if v != math.Trunc(v) || math.Abs(v) > maxExact {
			return 0, false
		}
		n = int64(v)
	case json.Number:
		i, err := v.Int64()
		if err != nil {
			return 0, false
		}
		n = i
	default:
		return 0, false
	}
	return n, n >= -maxExact && n <= maxExact
}

// answerHeaders are those of the extra headers that change the answer. They
// never hold a key.
func answerHeaders(d dialect, headers map[string]string) map[string]string {
	var out map[string]string
	for name, value := range d.headers() {
		if d.answerHeader(name) {
			if out == nil {
				out = map[string]string{}
			}
			out[name] = value
		}
	}
	for name, value := range headers {
		name = strings.ToLower(strings.TrimSpace(name))
		if !d.answerHeader(name) || secretHeader(name) {
			continue
		}
		if out == nil {
			out = map[string]string{}
		}
		out[name] = value
	}
	return out
}

// profile is the endpoint's, with the rule of the model in it.
func (c *Config) profile() *Profile {
	p := GuessProfile(c.API, c.BaseURL)
	if c.Profile != nil {
		p = *c.Profile
	}
	p = p.ForModel(c.Model)
	return &p
}
