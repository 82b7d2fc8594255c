package teachers_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

func TestProfilesAreGuessedByAddress(t *testing.T) {
	for _, tc := range []struct{ api, url, want string }{
		{"openai", "https://api.openai.com/v1", "openai"},
		{"openai-batch", "https://eu.api.openai.com/v1", "openai"},
		{"openai", "https://mine.openai.azure.com/openai/v1", "openai"},
		{"openai", "https://API.Moonshot.ai./v1", "moonshot"},
		{"openai", "https://api.moonshot.cn/v1", "moonshot"},
		{"openai", "https://api.deepseek.com", "deepseek"},
		{"openai", "https://openrouter.ai/api/v1", "openrouter"},
		{"openai", "https://api.anthropic.com/v1", "anthropic-compat"},
		{"openai", "http://gpu-7.lan:11434/v1", "ollama"},
		{"openai", "http://127.0.0.1:8000/v1", "generic"},
		{"openai", "https://api.openai.com.evil.example/v1", "generic"},
		{"openai", "https://notapi.openai.com/v1", "generic"},
		{"openai", "::", "generic"},
		{"anthropic", "https://api.anthropic.com/v1", "anthropic"},
		{"anthropic-batch", "https://api.anthropic.com/v1", "anthropic"},
		{"anthropic", "https://api.moonshot.ai/anthropic/v1", "moonshot-anthropic"},
		{"anthropic", "https://api.deepseek.com/anthropic/v1", "deepseek-anthropic"},
		{"anthropic", "http://127.0.0.1:8000/v1", "anthropic-generic"},
	} {
		if got := teachers.GuessProfile(tc.api, tc.url).Name; got != tc.want {
			t.Errorf("%s at %s is guessed %s, want %s", tc.api, tc.url, got, tc.want)
		}
	}
}

// Every profile can be chosen, fits a wire form of this build and says of
// itself what every profile must.
func TestProfilesAreWhole(t *testing.T) {
	names := teachers.Profiles()
	if !slices.IsSorted(names) || len(names) < 12 {
		t.Errorf("profiles %v", names)
	}
	for _, name := range names {
		p, ok := teachers.ProfileOf(name)
		if !ok || p.Name != name {
			t.Errorf("%s: not found by its name", name)
		}
		if len(p.CapFields) == 0 || p.API != "openai" && p.API != "anthropic" || (p.API == "anthropic") != (p.CapDefault > 0) {
			t.Errorf("%s: api %q, caps %v, default %d", name, p.API, p.CapFields, p.CapDefault)
		}
		seen := map[string]bool{}
		for _, u := range p.Unsupported {
			if seen[u.Param] || !slices.Contains([]string{teachers.ParamRefused, teachers.ParamIgnored, teachers.ParamFixed}, u.Becomes) {
				t.Errorf("%s: %+v", name, u)
			}
			seen[u.Param] = true
		}
		if _, err := teachers.BuildRequest(&teachers.Config{API: p.API, BaseURL: "https://h/v1", Model: "m", Profile: &p}, user("?"), map[string]any{"max_tokens": 5}, 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, ok := teachers.ProfileOf("nobody"); ok {
		t.Error("a profile of nobody")
	}
}

func TestParametersThatAnEndpointDoesNotCarryOut(t *testing.T) {
	for _, tc := range []struct {
		profile, model string
		params         map[string]any
		want           []string // parts of the notes, in order
	}{
		{"generic", "m", map[string]any{"temperature": 0.5, "max_tokens": 5, "seed": 1, "logprobs": true}, nil},
		{"openai", "gpt-4.1", map[string]any{"temperature": 0.5, "top_logprobs": 5}, nil},
		{"openai", "gpt-4.1", map[string]any{"top_logprobs": 21}, []string{"params.top_logprobs: an endpoint of profile openai gives at most 20"}},
		{"openai", "openai/gpt-5-mini", map[string]any{"temperature": 0.5, "max_tokens": 5, "logprobs": true}, []string{
			"params.logprobs: an endpoint of profile openai gives no logprobs", "params.max_tokens: an endpoint of profile openai calls it max_completion_tokens, and so it is sent",
			"params.temperature: an endpoint of profile openai refuses it; remove it"}},
		{"moonshot", "kimi-k3", map[string]any{"temperature": 1, "top_p": 0.9, "reasoning_effort": "medium", "thinking": map[string]any{"type": "disabled"}, "seed": 4}, []string{
			`params.reasoning_effort: "medium" is none of the efforts that an endpoint of profile moonshot is known to take: low, high, max`,
			"params.seed: an endpoint of profile moonshot takes no seed", "params.temperature: an endpoint of profile moonshot has a fixed value for it",
			"params.thinking: an endpoint of profile moonshot refuses it; K3 always thinks; write reasoning_effort", "params.top_p: an endpoint of profile moonshot has a fixed value"}},
		{"moonshot", "moonshotai/Kimi-K3.1-Pro", map[string]any{"reasoning_effort": "max"}, nil},
		{"moonshot", "kimi-k2.6", map[string]any{"thinking": map[string]any{"type": "disabled"}, "reasoning_effort": "high", "temperature": nil}, []string{
			"params.reasoning_effort: an endpoint of profile moonshot ignores it; write thinking"}},
		{"moonshot", "moonshot-v1-8k", map[string]any{"temperature": 0.3}, nil},
		{"ollama", "m", map[string]any{"num_ctx": 8192, "max_completion_tokens": 9}, []string{"params.max_completion_tokens: an endpoint of profile ollama calls it max_tokens", "params.num_ctx: an endpoint of profile ollama ignores it; set OLLAMA_CONTEXT_LENGTH"}},
		{"anthropic", "claude-haiku-4-5", map[string]any{"stop": "x", "max_tokens": 5}, []string{"params.stop: an endpoint of profile anthropic refuses it; write stop_sequences"}},
		{"anthropic", "claude-haiku-4-5", map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 1000}}, []string{"no token cap, which an endpoint of profile anthropic needs; 9192 are asked for: set params.max_tokens"}},
	} {
		p, ok := teachers.ProfileOf(tc.profile)
		if !ok {
			t.Fatal(tc.profile)
		}
		got := p.Notes(tc.model, tc.params)
		same := len(got) == len(tc.want)
		for i := range got {
			same = same && strings.Contains(got[i], tc.want[i])
		}
		if !same {
			t.Errorf("%s, %s, %v:\n %s\nwant\n %s", tc.profile, tc.model, tc.params, strings.Join(got, "\n "), strings.Join(tc.want, "\n "))
		}
	}
}

// What a profile says is what goes out.
func TestProfilesShapeRequests(t *testing.T) {
	prompt := &chat.Prompt{Messages: []chat.Message{userMessage("a"), thinking("b", "hm", ""), userMessage("c")}}
	for name, want := range map[string]string{
		"generic":    `{"messages":[{"content":"a","role":"user"},{"content":"b","reasoning_content":"hm","role":"assistant"},{"content":"c","role":"user"}],"model":"m","seed":2}`,
		"openai":     `{"messages":[{"content":"a","role":"user"},{"content":"b","role":"assistant"},{"content":"c","role":"user"}],"model":"m","seed":2}`,
		"openrouter": `{"messages":[{"content":"a","role":"user"},{"content":"b","reasoning":"hm","role":"assistant"},{"content":"c","role":"user"}],"model":"m","seed":2}`,
		"moonshot":   `{"messages":[{"content":"a","role":"user"},{"content":"b","reasoning_content":"hm","role":"assistant"},{"content":"c","role":"user"}],"model":"m"}`,
	} {
		p, _ := teachers.ProfileOf(name)
		r, err := teachers.BuildRequest(&teachers.Config{API: "openai", BaseURL: "https://h/v1", Model: "m", Profile: &p}, prompt, map[string]any{"max_tokens": 5}, 2)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, string(r.Body)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		asked := `{"max_tokens":5}`
		if p.Seed {
			asked = `{"max_tokens":5,"seed":2}`
		}
		if r.Cap != 5 || !slices.Contains(p.CapFields, r.CapField) || r.ParamsText != asked {
			t.Errorf("%s: cap %d as %s, parameters %s", name, r.Cap, r.CapField, r.ParamsText)
		}
	}
}

// The reasoning and the cached tokens of teachersim's dialects are where the
// profiles say that they are.
func TestProfilesKnowWhereThingsAre(t *testing.T) {
	s := startSim(t, "-models", "m", "-synthetic-tokens", "20")
	for profile, dialect := range map[string]string{
		"vllm": "vllm2", "sglang": "sglang", "llamacpp": "llamacpp", "deepseek": "deepseek", "moonshot": "moonshot", "openrouter": "openrouter",
	} {
		p, _ := teachers.ProfileOf(profile)
		config := &teachers.Config{ID: "t", API: "openai", BaseURL: s.URL(), Model: "m@" + dialect, Profile: &p}
		a, reply, err := ask(t, config, "why?")
		if err != nil {
			t.Fatal(err)
		}
		if a.ReasoningField != p.ReasoningFields[0] {
			t.Errorf("%s: reasoning came from %s, the profile says %v", profile, a.ReasoningField, p.ReasoningFields)
		}
		field := p.CachedFields[0][strings.LastIndexByte(p.CachedFields[0], '.')+1:]
		if a.Usage.CachedTokens == 0 || !strings.Contains(string(reply.Raw), `"`+field+`":`) {
			t.Errorf("%s: %d cached tokens, the profile says %v", profile, a.Usage.CachedTokens, p.CachedFields)
		}
	}
}
