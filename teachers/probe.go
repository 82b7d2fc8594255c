package teachers

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Token caps of a probe's requests. The first leaves room for reasoning; the
// one that shows whether a cap is kept is far below what its prompt asks for.
const (
	probeCap      = 512
	probeShortCap = 32
	probeToolCap  = 256
	// probeBytes bounds an answer, probeBriefBytes one with the short cap: a
	// streamed token takes some hundred bytes, and with its alternatives a few
	// thousand. probeTime bounds the time of one.
	probeBytes      = 4 << 20
	probeBriefBytes = 64 << 10
	probeTime       = 5 * time.Minute
	// probePatience bounds the waits of one request for an endpoint that is
	// busy or asks to wait.
	probePatience = time.Minute
	// probeTries is how often one request is sent where it fails in passing.
	probeTries = 3
	// probeLogprobs is how many alternatives per token are asked for: the most
	// that OpenAI and vLLM give unless they are told otherwise.
	probeLogprobs = 20
	fewLogprobs   = 5 // where so many are refused
)

// States of a probed teacher.
const (
	ProbeOK          = "ok"          // it answers
	ProbeUnusable    = "unusable"    // key, account, model or address must be changed
	ProbeUnreachable = "unreachable" // no connection, or no answer in time
	ProbeFailed      = "failed"      // it cannot be asked like this, or its answers cannot be read
)

// What a probe found of an ability.
const (
	AbilityYes      = "yes"      // seen to work
	AbilityIgnored  = "ignored"  // accepted, and it made no difference
	AbilityRefused  = "refused"  // the request was refused
	AbilityUnproven = "unproven" // accepted, and the answer does not show whether it worked
	AbilityUntried  = "untried"  // not asked: the protocol has it not, or the probe ended before
)

// A ProbeResult is what a few requests told of a teacher. Texts come from the
// endpoint and are not to be trusted.
type ProbeResult struct {
	Teacher        string        `json:"teacher"`
	API            string        `json:"api"`
	URL            string        `json:"url" jsonschema_description:"where requests go, without user information and query"`
	Model          string        `json:"model"`
	State          string        `json:"state" jsonschema:"enum=ok,enum=unusable,enum=unreachable,enum=failed" jsonschema_description:"unusable: key, account, model or address must be changed"`
	ErrorClass     string        `json:"error_class,omitempty" jsonschema_description:"why it is not ok, such as auth, quota, not_found, network"`
	Error          string        `json:"error,omitempty" jsonschema_description:"the same in words, with the next step"`
	Requests       int           `json:"requests" jsonschema_description:"sent, without the list of models, which is free"`
	ModelAnswered  string        `json:"model_answered,omitempty" jsonschema_description:"the model that the endpoint says has answered"`
	Fingerprint    string        `json:"fingerprint,omitempty" jsonschema_description:"system_fingerprint"`
	ModelsListed   *int          `json:"models_listed,omitempty" jsonschema_description:"models that the endpoint lists; absent: it gives no list"`
	ModelListed    *bool         `json:"model_listed,omitempty" jsonschema_description:"whether the teacher's model is among them"`
	NearestModels  []string      `json:"nearest_models,omitempty" jsonschema_description:"listed names that are near, where the teacher's is not among them"`
	ContextLength  *int64        `json:"context_length,omitempty" jsonschema_description:"tokens, as the list of models tells"`
	Streaming      *bool         `json:"streaming,omitempty" jsonschema_description:"whether the answer came in events"`
	ReasoningField string        `json:"reasoning_field,omitempty" jsonschema_description:"where the reasoning came from; inline: think tags in the content; absent: none came"`
	UsagePlace     string        `json:"usage_place,omitempty" jsonschema_description:"where the token counts came; none: they are estimated"`
	CapField       string        `json:"cap_field,omitempty" jsonschema_description:"parameter of the token cap that the endpoint takes"`
	Cap            string        `json:"cap" jsonschema_description:"whether the cap is kept: yes, ignored, refused, unproven, untried"`
	Seed           string        `json:"seed" jsonschema_description:"whether equal seeds give equal answers and others do not"`
	Logprobs       string        `json:"logprobs" jsonschema_description:"whether log probabilities come"`
	TopLogprobs    *int          `json:"top_logprobs,omitempty" jsonschema_description:"alternatives per token that came"`
	Tools          string        `json:"tools" jsonschema_description:"whether it calls a tool"`
	Images         string        `json:"images" jsonschema_description:"whether it sees a picture"`
	FirstTextS     float64       `json:"first_text_s" jsonschema_description:"seconds to the first text of the first answer"`
	LatencyS       float64       `json:"latency_s" jsonschema_description:"seconds of the first answer"`
	PromptTokens   int64         `json:"prompt_tokens"`
	AnswerTokens   int64         `json:"completion_tokens"`
	Priced         bool          `json:"priced" jsonschema_description:"whether the recipe has a price; without one the costs are 0"`
	MostUSD        float64       `json:"most_usd" jsonschema_description:"what the probe could cost at most where the token cap is kept, by the recipe's price"`
	CostUSD        float64       `json:"cost_usd" jsonschema_description:"what it cost, by the recipe's price"`
	Profile        *ProbeProfile `json:"profile,omitempty" jsonschema_description:"what to write as the teacher's profile in the recipe; absent: what is in effect fits"`
	Notes          []string      `json:"notes,omitempty" jsonschema_description:"what a person should know, a sentence each"`
}

// A ProbeProfile holds the keys of a recipe's teachers[].profile that a probe
// found to be other than what is in effect.
type ProbeProfile struct {
	Base        string `json:"base,omitempty" yaml:"base,omitempty"`
	CapField    string `json:"cap_field,omitempty" yaml:"cap_field,omitempty"`
	Seed        *bool  `json:"seed,omitempty" yaml:"seed,omitempty"`
	StreamUsage *bool  `json:"stream_usage,omitempty" yaml:"stream_usage,omitempty"`
	TopLogprobs *int   `json:"top_logprobs,omitempty" yaml:"top_logprobs,omitempty"`
	Tools       *bool  `json:"tools,omitempty" yaml:"tools,omitempty"`
	Images      *bool  `json:"images,omitempty" yaml:"images,omitempty"`
}

// probeWords are in the prompts of every probe, so that whoever reads an
// endpoint's log knows them.
const probeWords = "This is a probe by stillhouse. "

// MostProbeCost is what probing the teacher can cost at most, in micro-dollars
// at its price; 0 without one.
func MostProbeCost(c *Config, params map[string]any) int64 {
	if c.Price == nil {
		return 0
	}
	// Prompts are a few sentences; a picture counts some hundred tokens.
	const asks, prompt, picture = 9, 200, 1500
	answer := 2*capOfProbe(params, probeCap) + 4*capOfProbe(params, probeShortCap) + 3*capOfProbe(params, probeToolCap)
	return c.Price.Cost(chat.Usage{PromptTokens: asks*prompt + picture, CompletionTokens: answer})
}

// Probe sends a teacher a few cheap requests, one after another, and tells what
// they show. It retries little, waits little, and goes around the teacher's
// limits of rate and budget. params are the recipe's for the effort that is
// probed. The answers are not kept.
func Probe(ctx context.Context, config *Config, params map[string]any) *ProbeResult {
	own := *config
	own.API = strings.TrimSuffix(config.API, "-batch") // its requests are those of the online API
	p := &prober{config: &own, params: params, result: &ProbeResult{
		Teacher: config.ID, API: config.API, Model: config.Model, State: ProbeOK, Priced: config.Price != nil,
		Cap: AbilityUntried, Seed: AbilityUntried, Logprobs: AbilityUntried, Tools: AbilityUntried, Images: AbilityUntried,
		MostUSD: float64(MostProbeCost(config, params)) / 1e6,
	}}
	p.profile = *own.profile()
	// What the profile rules out is tried too.
	open := p.profile
	open.Seed, open.Tools, open.Images, open.TopLogprobs = true, true, true, -1
	p.open = open
	p.run(ctx)
	return p.result
}

// A prober is one Probe under way.
type prober struct {
	config  *Config
	params  map[string]any
	profile Profile // in effect
	open    Profile // with which requests are made
	result  *ProbeResult
	list    modelList
	spent   chat.Usage
	ended   bool // the teacher turned out to be unusable
	beyond  bool // an answer was billed beyond its cap
	brief   bool // answers are expected to be short
}

func (p *prober) run(ctx context.Context) {
	c := p.client()
	p.result.URL = c.shownURL
	if c.unusable != nil {
		p.fail(c.failed(&Error{Class: ClassBadRequest, Excerpt: c.unusable.Error(), cause: c.unusable}))
		c.Close()
		return
	}
	p.list = c.listModels(ctx)
	c.Close()
	p.readList()
	for _, step := range []func(context.Context){p.first, p.limits, p.logprobs, p.tools, p.images} {
		if p.ended || ctx.Err() != nil {
			break
		}
		step(ctx)
	}
	if ctx.Err() != nil && !p.ended {
		p.result.State, p.result.ErrorClass, p.result.Error = ProbeFailed, ClassCancelled, "the probe was interrupted"
	}
	p.result.PromptTokens, p.result.AnswerTokens = p.spent.PromptTokens, p.spent.CompletionTokens
	if p.config.Price != nil {
		p.result.CostUSD = float64(p.config.Price.Cost(p.spent)) / 1e6
	}
	if p.result.State != ProbeOK {
		return
	}
	if r := p.result; r.ModelListed != nil && !*r.ModelListed {
		r.NearestModels = nil
		if *r.ModelsListed > 0 {
			p.note("the model is not among those that the endpoint lists, and answers all the same")
		}
	}
	p.suggest()
}

func (p *prober) client() *Client {
	own := *p.config
	open := p.open
	own.Profile = &open
	// An endpoint that ignores the cap must not make a probe long or costly.
	most := int64(probeBytes)
	if p.brief {
		most = probeBriefBytes
	}
	own.Limits = own.Limits.WithDefaults()
	own.Limits.MaxBytes = min(own.Limits.MaxBytes, most)
	own.Limits.Total = min(own.Limits.Total, probeTime)
	return NewClient(&own, WithImages(probePicture))
}

// capOfProbe is the cap of one request. A budget of thinking tokens is part of
// the cap on some endpoints, so it comes on top.
func capOfProbe(params map[string]any, most int64) int64 {
	if thinking, ok := params["thinking"].(map[string]any); ok {
		if n, ok := integer(thinking["budget_tokens"]); ok && n > 0 && n < 1<<20 {
			most += n
		}
	}
	return most
}

// ask sends one request, again where it fails in passing.
func (p *prober) ask(ctx context.Context, prompt *chat.Prompt, capTokens int64, more map[string]any) (*Answer, *Reply, *Error) {
	c := p.client()
	defer c.Close()
	params := map[string]any{}
	for name, value := range p.params {
		if !isCapField(name) && !slices.Contains([]string{"seed", "stop", "logprobs", "top_logprobs", "tools", "tool_choice", "response_format"}, name) {
			params[name] = value
		}
	}
	params[p.capField()] = capOfProbe(p.params, capTokens)
	for name, value := range more {
		params[name] = value
	}
	own := *p.config
	own.Profile = &p.open
	request, err := BuildRequest(&own, prompt, params, 0)
	if err != nil {
		return nil, nil, c.failed(&Error{Class: ClassBadRequest, Excerpt: err.Error(), cause: err})
	}
	body, failure := c.wireBody(ctx, request)
	if failure != nil {
		return nil, nil, c.failed(failure)
	}
	var reply *Reply
	renewed, waited := false, time.Duration(0)
	for try := 1; ; try++ {
		var used string
		reply, failure = c.attempt(ctx, body, &used)
		p.result.Requests++
		if failure == nil {
			break
		}
		if failure.Status == http.StatusUnauthorized && !renewed && c.config.Renew != nil && c.config.Renew(used) {
			renewed = true
			continue
		}
		wait := max(failure.RetryAfter, backoff(throttleFirst, throttleMost, try-1))
		if waited += wait; !failure.Temporary() || failure.Class == ClassTimeout || failure.final || try == probeTries || waited > probePatience || sleep(ctx, wait) != nil {
			return nil, nil, c.failed(failure)
		}
	}
	answer, err := reply.Parse()
	if err != nil {
		return nil, nil, c.failed(&Error{Class: ClassMalformed, Status: reply.Status, Excerpt: err.Error(), cause: err})
	}
	p.spend(answer, request)
	return answer, reply, nil
}

// spend adds what an answer cost; one without counts is estimated.
func (p *prober) spend(a *Answer, r *Request) {
	u := FillUsage(a, nil, func() int64 { return TextTokens(string(r.Body)) })
	p.spent.PromptTokens += u.PromptTokens
	p.spent.CachedTokens += u.CachedTokens
	p.spent.CacheWriteTokens += u.CacheWriteTokens
	p.spent.CompletionTokens += u.CompletionTokens
	p.spent.ReasoningTokens += u.ReasoningTokens
}

func (p *prober) capField() string {
	if len(p.open.CapFields) > 0 {
		return p.open.CapFields[0]
	}
	return "max_tokens"
}

// fail ends the probe.
func (p *prober) fail(e *Error) {
	p.ended = true
	p.result.ErrorClass, p.result.Error = e.Class, e.Error()
	switch {
	case e.StopsTeacher():
		p.result.State = ProbeUnusable
	case e.Class == ClassNetwork, e.Class == ClassTimeout:
		p.result.State = ProbeUnreachable
	default:
		p.result.State = ProbeFailed
	}
	if e.Class == ClassNotFound && len(p.result.NearestModels) > 0 {
		p.result.Error += "; the endpoint lists " + strings.Join(p.result.NearestModels, ", ")
	}
}

// passing tells whether a failure says nothing of the ability that was asked
// for: then the probe ends, or the ability stays unproven.
func (p *prober) passing(e *Error, what string) bool {
	switch {
	case e.StopsTeacher():
		p.fail(e)
		return true
	case e.Class == ClassServer, e.Class == ClassEmpty, e.Class == ClassMalformed:
		// What it answers is no answer, and the plain question before got one.
		p.note("%s: it fails instead of refusing: %s", what, e.Excerpt)
		return false
	case e.Temporary():
		p.note("%s: %s", what, e.Error())
		return true
	}
	return false
}

func (p *prober) note(format string, args ...any) {
	p.result.Notes = append(p.result.Notes, fmt.Sprintf(format, args...))
}

func probePrompt(text string) *chat.Prompt {
	return &chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text(probeWords + text)}}}
}
