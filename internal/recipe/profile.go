package recipe

import (
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// A Profile says how a teacher's endpoint differs from others that speak the
// same protocol: the name of one that is known, or that name with changes.
type Profile struct {
	// Known endpoint that it is like; guessed from the address where absent.
	Base string `yaml:"base" enum:"anthropic,anthropic-compat,anthropic-generic,deepseek,deepseek-anthropic,generic,llamacpp,moonshot,moonshot-anthropic,ollama,openai,openrouter,sglang,vllm"`
	// Parameter under which the token cap goes out.
	CapField string `yaml:"cap_field" enum:"max_completion_tokens,max_tokens"`
	// Whether its limit on tokens a minute counts the cap asked for instead of what was generated.
	CapReserved *bool `yaml:"cap_reserved"`
	// Whether it takes a seed; where not, none is sent.
	Seed *bool `yaml:"seed"`
	// Whether streams must be asked to report usage.
	StreamUsage *bool `yaml:"stream_usage"`
	// Header that carries the key.
	KeyHeader string `yaml:"key_header" enum:"authorization,x-api-key"`
	// Field under which the reasoning of earlier turns is sent back; none leaves it out.
	ReasoningHistory string `yaml:"reasoning_history" enum:"reasoning_content,reasoning,thinking,thinking_signed,none"`
	// Most alternatives per token that it gives; 0 is no logprobs at all.
	TopLogprobs *int `yaml:"top_logprobs" min:"0" max:"1000"`
	// Whether it takes tool declarations.
	Tools *bool `yaml:"tools"`
	// Whether it takes images.
	Images *bool `yaml:"images"`
}

// noHistory leaves the reasoning of earlier turns out.
const noHistory = "none"

// EndpointProfile is the profile of the teacher's endpoint: the recipe's, else
// what its address tells.
func (t *Teacher) EndpointProfile() teachers.Profile {
	c := &t.Profile
	p, ok := teachers.ProfileOf(c.Base)
	if !ok {
		p = teachers.GuessProfile(t.API, t.BaseURL)
	}
	if c.CapField != "" {
		p.CapFields = []string{c.CapField}
	}
	for to, from := range map[*bool]*bool{
		&p.CapReserved: c.CapReserved, &p.Seed: c.Seed, &p.UsageOption: c.StreamUsage, &p.Tools: c.Tools, &p.Images: c.Images,
	} {
		if from != nil {
			*to = *from
		}
	}
	if c.KeyHeader != "" {
		p.KeyHeader = c.KeyHeader
	}
	switch c.ReasoningHistory {
	case "":
	case noHistory:
		p.ReasoningHistory = ""
	default:
		p.ReasoningHistory = c.ReasoningHistory
	}
	if c.TopLogprobs != nil {
		p.TopLogprobs = *c.TopLogprobs
	}
	return p
}

// ProfileNotes tells, a sentence each, which parameters of the teacher its
// endpoint does not carry out, at any of the efforts that they are given for.
func (t *Teacher) ProfileNotes() []string {
	if t.API == APIRecorded {
		return nil
	}
	profile := t.EndpointProfile()
	sets := []map[string]any{t.Params}
	if len(t.ParamsBy.Effort) > 0 {
		sets = sets[:0]
		for effort := range t.ParamsBy.Effort {
			sets = append(sets, t.ParamsFor(effort))
		}
	}
	var out []string
	for _, params := range sets {
		out = append(out, profile.Notes(t.Model, params)...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// profile checks that what was chosen fits the teacher's protocol.
func (c *checker) profile(t *Teacher, path string) {
	if t.API == APIRecorded {
		if c.has(path + ".profile") {
			c.fault(path+".profile", "has no use for recorded answers", "remove it, or write another api")
		}
		return
	}
	api := strings.TrimSuffix(t.API, "-batch")
	p, ok := teachers.ProfileOf(t.Profile.Base)
	if ok && p.API != api {
		var fit []string
		for _, name := range teachers.Profiles() {
			if q, _ := teachers.ProfileOf(name); q.API == api {
				fit = append(fit, name)
			}
		}
		c.fault(path+".profile", quote(p.Name)+" is for api: "+p.API, "write one of "+strings.Join(fit, ", "))
	}
	history := t.Profile.ReasoningHistory
	messages := history == "thinking" || history == "thinking_signed"
	if history != "" && history != noHistory && messages != (api == APIAnthropic) {
		c.fault(path+".profile.reasoning_history", quote(history)+" is not of api: "+api,
			map[bool]string{true: "write thinking, thinking_signed or none", false: "write reasoning_content, reasoning or none"}[api == APIAnthropic])
	}
	if api == APIAnthropic && t.Profile.CapField == "max_completion_tokens" {
		c.fault(path+".profile.cap_field", "api: anthropic knows max_tokens only", "remove it")
	}
}
