package teachers

import (
	"net/url"
	"strings"
)

// Names of the profiles that stand for all endpoints of which nothing is known.
const (
	profileGeneric          = "generic"
	profileAnthropicGeneric = "anthropic-generic"
)

// A profileHost maps an address to a profile.
type profileHost struct {
	api     string
	host    string // the host; with a leading dot: every host below it; "" for any
	port    string // "" for any
	path    string // beginning of the path; "" for any
	profile string
}

func (h *profileHost) fits(host, port, path string) bool {
	switch {
	case strings.HasPrefix(h.host, "."):
		if !strings.HasSuffix(host, h.host) {
			return false
		}
	case h.host != "" && h.host != host:
		return false
	}
	return (h.port == "" || h.port == port) && strings.HasPrefix(path, h.path)
}

// profileHosts is the one place that knows whose an address is. Only ports
// that nothing else uses by habit tell a program.
var profileHosts = []profileHost{
	{api: "openai", host: "api.openai.com", profile: "openai"},
	{api: "openai", host: ".api.openai.com", profile: "openai"}, // regions: eu.api.openai.com
	{api: "openai", host: ".openai.azure.com", profile: "openai"},
	{api: "openai", host: "api.deepseek.com", profile: "deepseek"},
	{api: "openai", host: "api.moonshot.ai", profile: "moonshot"},
	{api: "openai", host: "api.moonshot.cn", profile: "moonshot"},
	{api: "openai", host: "openrouter.ai", profile: "openrouter"},
	{api: "openai", host: "api.anthropic.com", profile: "anthropic-compat"},
	{api: "openai", host: "ollama.com", profile: "ollama"},
	{api: "openai", port: "11434", profile: "ollama"},
	{api: "anthropic", host: "api.anthropic.com", profile: "anthropic"},
	{api: "anthropic", host: "api.moonshot.ai", profile: "moonshot-anthropic"},
	{api: "anthropic", host: "api.moonshot.cn", profile: "moonshot-anthropic"},
	{api: "anthropic", host: "api.deepseek.com", profile: "deepseek-anthropic"},
}

func addressOf(baseURL string) (host, port, path string) {
	u, err := url.Parse(strings.TrimSpace(baseURL))
	if err != nil {
		return "", "", ""
	}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port(), u.Path
}

// Names of parameters that several endpoints treat alike.
var (
	samplingParams = []string{"temperature", "top_p", "presence_penalty", "frequency_penalty"}
	bothCaps       = []string{"max_completion_tokens", "max_tokens"}
	openAICached   = []string{"prompt_tokens_details.cached_tokens"}
)

func unsupported(becomes, instead string, params ...string) []Unsupported {
	out := make([]Unsupported, len(params))
	for i, p := range params {
		out[i] = Unsupported{Param: p, Becomes: becomes, Instead: instead}
	}
	return out
}

func joined(lists ...[]Unsupported) []Unsupported {
	var out []Unsupported
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// messagesUnsupported are chat-completions parameters that the messages
// protocol does not have: it refuses keys that it does not know.
var messagesUnsupported = joined(
	unsupported(ParamRefused, "", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs"),
	unsupported(ParamRefused, "write stop_sequences", "stop"),
	unsupported(ParamRefused, "write thinking: {type: enabled, budget_tokens: …} or output_config: {effort: …}", "reasoning_effort"),
	unsupported(ParamRefused, "write output_config", "response_format"),
)

// profiles are the endpoints that we know. What they say is from the vendors'
// documentation, the servers' source and the reports that the conformance
// cases name; `probe` tells what an endpoint really does.
var profiles = []Profile{
	{
		// What every endpoint of this wire form takes; the local servers that
		// know only max_tokens ignore the other name.
		Name: profileGeneric, API: "openai",
		CapFields: bothCaps, Seed: true, UsageOption: true,
		EffortField: "reasoning_effort", ReasoningFields: []string{"reasoning_content", "reasoning", "inline"}, ReasoningHistory: "reasoning_content",
		CachedFields: openAICached, TopLogprobs: -1, Tools: true, Images: true,
	},
	{
		// Reasoning models refuse max_tokens and every sampling parameter;
		// all models take max_completion_tokens. A message with a key that
		// the API does not know is refused, so reasoning stays out.
		Name: "openai", API: "openai",
		CapFields: []string{"max_completion_tokens"}, Seed: true, UsageOption: true,
		EffortField: "reasoning_effort", CachedFields: openAICached, TopLogprobs: 20, Tools: true, Images: true,
		Models: []ModelRule{{
			Prefixes:    []string{"o1", "o3", "o4", "gpt-5"},
			Unsupported: unsupported(ParamRefused, "", append([]string{"logit_bias"}, samplingParams...)...),
			NoLogprobs:  true,
		}},
	},
	{
		// Reasoning is `reasoning` since 0.16 and `reasoning_content` before;
		// both are taken in requests (vllm-project/vllm#42664). Cached tokens
		// need the server's --enable-prompt-tokens-details.
		Name: "vllm", API: "openai",
		CapFields: bothCaps, Seed: true, UsageOption: true,
		EffortField: "reasoning_effort", ReasoningFields: []string{"reasoning", "reasoning_content", "inline"}, ReasoningHistory: "reasoning_content",
		CachedFields: openAICached, TopLogprobs: 20, TokenIDs: true, Tools: true, Images: true,
	},
	{
		Name: "sglang", API: "openai",
		CapFields: bothCaps, Seed: true, UsageOption: true,
		EffortField: "reasoning_effort", ReasoningFields: []string{"reasoning_content", "inline"}, ReasoningHistory: "reasoning_content",
		CachedFields: openAICached, TopLogprobs: 20, Tools: true, Images: true,
	},
	{
		Name: "llamacpp", API: "openai",
		CapFields: []string{"max_tokens", "max_completion_tokens"}, Seed: true, UsageOption: true,
		ReasoningFields: []string{"reasoning_content", "inline"}, ReasoningHistory: "reasoning_content",
		CachedFields: openAICached, TopLogprobs: 20, Tools: true, Images: true,
	},
	{
		// The compatible path ignores options of its native one, num_ctx above
		// all: a prompt that does not fit is cut in silence (ollama/ollama#4967).
		Name: "ollama", API: "openai",
		CapFields: []string{"max_tokens"}, Seed: true, UsageOption: true,
		Unsupported: joined(
			unsupported(ParamIgnored, "set OLLAMA_CONTEXT_LENGTH where Ollama runs", "num_ctx", "options"),
			unsupported(ParamIgnored, "", "logit_bias"),
		),
		EffortField: "reasoning_effort", ReasoningFields: []string{"reasoning", "inline"}, ReasoningHistory: "reasoning",
		TopLogprobs: 20, Tools: true, Images: true,
	},
	{
		// Thinking with tools is refused where the reasoning of earlier turns
		// does not come back (opencode#24135).
		Name: "deepseek", API: "openai",
		CapFields: []string{"max_tokens"}, UsageOption: true,
		Unsupported: unsupported(ParamIgnored, "", "presence_penalty", "frequency_penalty"),
		EffortField: "reasoning_effort", ReasoningFields: []string{"reasoning_content"}, ReasoningHistory: "reasoning_content",
		CachedFields: []string{"prompt_cache_hit_tokens", "prompt_tokens_details.cached_tokens"}, TopLogprobs: 20, Tools: true,
	},
	{
		// Kimi. The sampling parameters are the server's own, so they are best
		// left out; the limit on tokens a minute counts the cap.
		Name: "moonshot", API: "openai",
		CapFields: []string{"max_completion_tokens"}, CapReserved: true, UsageOption: true,
		Unsupported: unsupported(ParamRefused, "", "logprobs", "top_logprobs"),
		EffortField: "reasoning_effort", ReasoningFields: []string{"reasoning_content"}, ReasoningHistory: "reasoning_content",
		CachedFields: []string{"cached_tokens", "prompt_tokens_details.cached_tokens"}, Tools: true, Images: true,
		Models: []ModelRule{
			{
				Prefixes: []string{"kimi-k3"},
				Unsupported: joined(
					unsupported(ParamFixed, "", samplingParams...),
					unsupported(ParamRefused, "K3 always thinks; write reasoning_effort", "thinking"),
				),
				Efforts: []string{"low", "high", "max"},
			},
			{
				Prefixes: []string{"kimi-k2"},
				Unsupported: joined(
					unsupported(ParamFixed, "", samplingParams...),
					unsupported(ParamIgnored, "write thinking: {type: enabled} or {type: disabled}", "reasoning_effort"),
				),
			},
		},
	},
	{
		// A router passes on what the chosen provider takes; reasoning that is
		// encrypted or signed stays in the raw answer.
		Name: "openrouter", API: "openai",
		CapFields: []string{"max_tokens", "max_completion_tokens"}, Seed: true, UsageOption: true,
		EffortField: "reasoning_effort", ReasoningFields: []string{"reasoning", "reasoning_details"}, ReasoningHistory: "reasoning",
		CachedFields: openAICached, TopLogprobs: 20, Tools: true, Images: true,
	},
	{
		// Anthropic's layer for clients of the other protocol, which is for
		// trying out: it drops what it does not know and gives no reasoning.
		Name: "anthropic-compat", API: "openai",
		CapFields: bothCaps, UsageOption: true,
		Unsupported: joined(
			unsupported(ParamIgnored, "", "presence_penalty", "frequency_penalty", "logit_bias", "logprobs", "top_logprobs"),
			unsupported(ParamIgnored, "write api: anthropic, which has output_config", "response_format"),
			unsupported(ParamIgnored, "write api: anthropic, which has thinking", "reasoning_effort"),
		),
		Tools: true, Images: true,
	},
	{
		Name: "anthropic", API: "anthropic",
		CapFields: []string{"max_tokens"}, CapDefault: 8192,
		Unsupported: messagesUnsupported,
		EffortField: "output_config.effort", ReasoningFields: []string{"thinking"}, ReasoningHistory: "thinking_signed",
		CachedFields: []string{"cache_read_input_tokens"}, Tools: true, Images: true,
	},
	{
		// What vLLM, llama.cpp and others offer under /v1/messages: no
		// signatures are checked, so reasoning can go back without one.
		Name: profileAnthropicGeneric, API: "anthropic",
		CapFields: []string{"max_tokens"}, CapDefault: 8192,
		Unsupported:     messagesUnsupported,
		ReasoningFields: []string{"thinking", "inline"}, ReasoningHistory: "thinking",
		CachedFields: []string{"cache_read_input_tokens"}, Tools: true, Images: true,
	},
	{
		Name: "moonshot-anthropic", API: "anthropic",
		CapFields: []string{"max_tokens"}, CapDefault: 8192, CapReserved: true, KeyHeader: "authorization",
		Unsupported:     joined(messagesUnsupported, unsupported(ParamFixed, "", "temperature", "top_p")),
		ReasoningFields: []string{"thinking"}, ReasoningHistory: "thinking",
		CachedFields: []string{"cache_read_input_tokens"}, Tools: true, Images: true,
	},
	{
		Name: "deepseek-anthropic", API: "anthropic",
		CapFields: []string{"max_tokens"}, CapDefault: 8192,
		Unsupported:     joined(messagesUnsupported, unsupported(ParamIgnored, "", "top_k")),
		ReasoningFields: []string{"thinking"}, ReasoningHistory: "thinking",
		CachedFields: []string{"cache_read_input_tokens"}, Tools: true,
	},
}
