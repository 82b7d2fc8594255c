package teachers

import (
	"fmt"
	"slices"
	"strings"
)

// A Profile is how an endpoint differs from others that speak its dialect: what
// its requests may hold, where its responses keep what, and what it can do at
// all. A field that nothing is known of has the value that does least harm.
type Profile struct {
	Name string // as a recipe spells it: one of Profiles, or "" for none of them
	API  string // the wire form that it belongs to: openai or anthropic

	// CapFields are the parameters that cap the tokens of an answer, the
	// preferred one first. A cap under another known name goes out under the
	// first of them.
	CapFields []string
	// CapDefault is the cap that is sent where the recipe gives none, because
	// the endpoint refuses a request without; 0 means that it does not.
	CapDefault int64
	// CapReserved tells whether the endpoint's limit on tokens a minute counts
	// the cap that was asked for, not what was generated.
	CapReserved bool
	// Seed tells whether the endpoint takes a seed; where it does not, none
	// is sent whatever the sample.
	Seed bool
	// UsageOption tells whether a stream must be asked to report usage.
	UsageOption bool
	// KeyHeader is the header that carries the key: authorization or
	// x-api-key; "" means the dialect's own.
	KeyHeader string
	// Unsupported are the parameters that do not do what they say.
	Unsupported []Unsupported
	// Efforts are the values that EffortField takes; nil means not known.
	Efforts []string
	// EffortField is the parameter that sets the reasoning effort, with dots
	// between levels; "" means that there is none.
	EffortField string

	// ReasoningFields are where the text of reasoning comes, the usual one
	// first; nil means that none comes. Answers are read under every name
	// whatever stands here.
	ReasoningFields []string
	// ReasoningHistory is the field under which the reasoning of earlier
	// assistant turns is sent back; "" means that it is left out.
	ReasoningHistory string
	// CachedFields are where usage tells the cached tokens, with dots between
	// levels; nil means that it does not.
	CachedFields []string

	// TopLogprobs is the most alternatives per token that the endpoint gives;
	// 0 means that it gives no logprobs, -1 that it is not known.
	TopLogprobs int
	// TokenIDs tells whether the endpoint gives token ids when it is asked in
	// vLLM's way.
	TokenIDs bool
	Tools    bool // tool declarations in a request
	Images   bool // images in a user message, where the model takes them

	// Models are rules for models by the beginning of their names; the first
	// that fits counts.
	Models []ModelRule
}

// What becomes of a parameter that an endpoint does not carry out.
const (
	ParamRefused = "refused" // the endpoint refuses the whole request
	ParamIgnored = "ignored" // it answers as if the parameter were not there
	ParamFixed   = "fixed"   // it has a value of its own and refuses or ignores others
)

// Unsupported is a parameter that an endpoint does not carry out.
type Unsupported struct {
	Param   string
	Becomes string // ParamRefused, ParamIgnored or ParamFixed
	Instead string // what to do about it, as the end of a sentence
}

// A ModelRule is how some models of an endpoint differ from its other models.
type ModelRule struct {
	Prefixes    []string      // beginnings of the model's name, without a vendor's prefix and a slash; in lower case
	Unsupported []Unsupported // beside the profile's own
	EffortField string        // "" means the profile's
	Efforts     []string      // nil means the profile's
	NoLogprobs  bool          // the model gives none whatever the endpoint can
}

// Profiles are the names of the profiles, sorted.
func Profiles() []string {
	names := make([]string, 0, len(profiles))
	for i := range profiles {
		names = append(names, profiles[i].Name)
	}
	slices.Sort(names)
	return names
}

// ProfileOf is the profile of that name; ok is false where there is none. What
// its slices hold must not be changed.
func ProfileOf(name string) (p Profile, ok bool) {
	for i := range profiles {
		if profiles[i].Name == name {
			return profiles[i], true
		}
	}
	return Profile{}, false
}

// GuessProfile is the profile of an endpoint by its address, else the generic
// one of its wire form. The online and the batch form of one API are alike.
func GuessProfile(api, baseURL string) Profile {
	api = strings.TrimSuffix(api, "-batch")
	host, port, path := addressOf(baseURL)
	for _, h := range profileHosts {
		if h.api == api && h.fits(host, port, path) {
			p, _ := ProfileOf(h.profile)
			return p
		}
	}
	if api == "anthropic" {
		p, _ := ProfileOf(profileAnthropicGeneric)
		return p
	}
	p, _ := ProfileOf(profileGeneric)
	return p
}

// ForModel is the profile with the rule of that model in it.
func (p Profile) ForModel(model string) Profile {
	name := strings.ToLower(model)
	if i := strings.LastIndexByte(name, '/'); i >= 0 {
		name = name[i+1:]
	}
	for _, rule := range p.Models {
		if !slices.ContainsFunc(rule.Prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			continue
		}
		p.Unsupported = append(slices.Clip(p.Unsupported), rule.Unsupported...)
		if rule.EffortField != "" {
			p.EffortField = rule.EffortField
		}
		if rule.Efforts != nil {
			p.Efforts = rule.Efforts
		}
		if rule.NoLogprobs {
			p.TopLogprobs = 0
		}
		break
	}
	p.Models = nil
	return p
}

// Notes tells, a sentence each, which of a teacher's parameters this endpoint
// does not carry out for that model. A profile may be guessed and an endpoint
// may have changed, so they are for a person to read and forbid nothing.
func (p Profile) Notes(model string, params map[string]any) []string {
	p = p.ForModel(model)
	var out []string
	for _, name := range sortedKeys(params) {
		if params[name] == nil {
			continue
		}
		if note := p.note(name, params[name]); note != "" {
			out = append(out, fmt.Sprintf("params.%s: %s", name, note))
		}
	}
	if p.CapDefault > 0 && !p.hasCap(params) {
		out = append(out, fmt.Sprintf("params hold no token cap, which %s needs; %d are asked for: set params.%s", p.title(), capDefault(&p, params), p.CapFields[0]))
	}
	return out
}

func (p *Profile) note(name string, value any) string {
	for _, u := range p.Unsupported {
		if u.Param != name {
			continue
		}
		what := map[string]string{ParamRefused: "refuses it", ParamIgnored: "ignores it", ParamFixed: "has a fixed value for it"}[u.Becomes]
		if u.Instead == "" {
			return p.title() + " " + what + "; remove it"
		}
		return p.title() + " " + what + "; " + u.Instead
	}
	switch {
	case name == "seed" && !p.Seed:
		return p.title() + " takes no seed, and none is sent; remove it"
	case isCapField(name) && !slices.Contains(p.CapFields, name) && len(p.CapFields) > 0:
		return fmt.Sprintf("%s calls it %s, and so it is sent", p.title(), p.CapFields[0])
	case name == p.EffortField && p.Efforts != nil:
		if text, ok := value.(string); ok && !slices.Contains(p.Efforts, text) {
			return fmt.Sprintf("%q is none of the efforts that %s is known to take: %s", text, p.title(), strings.Join(p.Efforts, ", "))
		}
	case (name == "logprobs" || name == "top_logprobs") && p.TopLogprobs == 0 && value != false:
		return p.title() + " gives no logprobs for this model; remove it"
	case name == "top_logprobs" && p.TopLogprobs > 0:
		if n, ok := integer(value); ok && n > int64(p.TopLogprobs) {
			return fmt.Sprintf("%s gives at most %d; lower it", p.title(), p.TopLogprobs)
		}
	}
	return ""
}

func (p *Profile) title() string {
	if p.Name == "" {
		return "the endpoint"
	}
	return "an endpoint of profile " + p.Name
}

func (p *Profile) hasCap(params map[string]any) bool {
	for name, value := range params {
		if value != nil && (isCapField(name) || slices.Contains(p.CapFields, name)) {
			return true
		}
	}
	return false
}

// capField is the name under which a cap goes out that a recipe gives as name.
func (p *Profile) capField(name string) string {
	if len(p.CapFields) == 0 || slices.Contains(p.CapFields, name) {
		return name
	}
	return p.CapFields[0]
}

// isCapField tells the names under which a token cap is known.
func isCapField(name string) bool {
	return name == "max_tokens" || name == "max_completion_tokens"
}

// capDefault is the cap that goes out where none is asked for. A budget of
// thinking tokens is part of the cap on some endpoints, so it comes on top.
func capDefault(p *Profile, params map[string]any) int64 {
	most := p.CapDefault
	if most == 0 {
		return 0
	}
	if thinking, ok := params["thinking"].(map[string]any); ok {
		if n, ok := integer(thinking["budget_tokens"]); ok && n > 0 && n < maxExact-most {
			most += n
		}
	}
	return most
}
