package teachers_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

func build(t testing.TB, p *chat.Prompt, params map[string]any, sample int) *teachers.Request {
	t.Helper()
	r, err := teachers.BuildRequest(testConfig, p, params, sample)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestBodyIsCanonicalAndHoldsNoTransportFields(t *testing.T) {
	p := &chat.Prompt{
		System:   "Be brief.",
		Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text("2+2?")}},
		Tools:    `[{"type":"function","function":{"name":"add","parameters":{"z":1.0,"a":true}}}]`,
	}
	r := build(t, p, map[string]any{
		"temperature": 0.7, "max_completion_tokens": 100, "stream": false, "stream_options": map[string]any{}, "user": "ann",
		"metadata": map[string]any{"k": "v"}, "stop": []any{"\n"}, "top_p": nil, "n": 1, "zeta": map[string]any{"b": 1, "a": 2},
		"tool_choice": "auto", "chat_template_kwargs": map[string]any{"thinking": true}, "seed": 5,
	}, 2)
	want := `{"chat_template_kwargs":{"thinking":true},"messages":[{"content":"Be brief.","role":"system"},{"content":"2+2?","role":"user"}],` +
		`"model":"m","seed":7,"stop":["\n"],"temperature":0.7,"tool_choice":"auto",` +
		`"tools":[{"function":{"name":"add","parameters":{"a":true,"z":1}},"type":"function"}],"zeta":{"a":2,"b":1}}`
	if string(r.Body) != want {
		t.Errorf("body\n %s\nwant\n %s", r.Body, want)
	}
	if r.Cap != 100 || r.CapField != "max_completion_tokens" || r.Sample != 2 {
		t.Errorf("cap %d in %q, sample %d", r.Cap, r.CapField, r.Sample)
	}
	params := `{"chat_template_kwargs":{"thinking":true},"max_completion_tokens":100,"seed":7,"stop":["\n"],"temperature":0.7,"tool_choice":"auto","zeta":{"a":2,"b":1}}`
	if r.ParamsText != params {
		t.Errorf("params\n %s\nwant\n %s", r.ParamsText, params)
	}
	if plain := build(t, user("x"), nil, 0); plain.ParamsText != "{}" || plain.Cap != 0 || plain.CapField != "" {
		t.Errorf("without parameters: %+v", plain)
	}
}

// Whatever the parameters and the prompt hold, the body is its own canonical
// form.
func TestBodyIsRFC8785(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		params := map[string]any{}
		for range rapid.IntRange(0, 6).Draw(t, "n") {
			name := rapid.StringMatching(`[a-z\x{e000}\x{10000}_]{1,6}`).Draw(t, "name")
			params[name] = rapid.OneOf(rapid.Just[any](nil), rapid.Just[any](true), rapid.Map(rapid.Float64Range(-1e6, 1e6), func(f float64) any { return f }),
				rapid.Map(rapid.String(), func(s string) any { return s })).Draw(t, "value")
		}
		delete(params, "n")
		p := &chat.Prompt{System: rapid.String().Draw(t, "system"), Tools: rapid.SampledFrom([]string{"", `[{"b":1,"a":[1e2]}]`}).Draw(t, "tools")}
		for range rapid.IntRange(1, 4).Draw(t, "messages") {
			p.Messages = append(p.Messages, chat.Message{Role: rapid.SampledFrom([]string{"user", "assistant"}).Draw(t, "role"), Content: chat.Text(rapid.String().Draw(t, "content"))})
		}
		r, err := teachers.BuildRequest(testConfig, p, params, rapid.IntRange(0, 3).Draw(t, "sample"))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{string(r.Body), r.ParamsText} {
			want, err := chat.Canonical([]byte(text))
			if err != nil {
				t.Fatalf("%s: %v", text, err)
			}
			if text != string(want) {
				t.Fatalf("%s\nis not canonical:\n%s", text, want)
			}
		}
	})
}

func TestSeedRule(t *testing.T) {
	for _, c := range []struct {
		params map[string]any
		sample int
		want   string // "" for none
	}{
		{nil, 0, ""},
		{nil, 3, "3"},
		{map[string]any{"seed": 10}, 0, "10"},
		{map[string]any{"seed": 10}, 3, "13"},
		{map[string]any{"seed": uint64(10)}, 1, "11"},
		{map[string]any{"seed": 10.0}, 1, "11"},
		{map[string]any{"seed": nil}, 0, ""},
		{map[string]any{"seed": nil}, 3, ""},
	} {
		body := string(build(t, user("x"), c.params, c.sample).Body)
		_, after, found := strings.Cut(body, `"seed":`)
		if found != (c.want != "") || found && !strings.HasPrefix(after, c.want+"}") {
			t.Errorf("params %v, sample %d: %s, want seed %q", c.params, c.sample, body, c.want)
		}
	}
	noSeed := *testConfig
	noSeed.Profile = &teachers.Profile{CapFields: []string{"max_tokens"}}
	if r, err := teachers.BuildRequest(&noSeed, user("x"), nil, 3); err != nil || strings.Contains(string(r.Body), "seed") {
		t.Errorf("an endpoint without seeds got one: %v %v", r, err)
	}
}

func TestImagesStandInTheBodyByDigest(t *testing.T) {
	p := &chat.Prompt{
		Messages: []chat.Message{
			{Role: chat.RoleUser, Content: chat.Text("first")}, {Role: chat.RoleAssistant, Content: chat.Text("yes?")},
			{Role: chat.RoleUser, Content: chat.Text("what is it?")},
		},
		Images: []chat.Image{{Digest: "abc", MediaType: "image/png", Key: "elsewhere"}},
	}
	r := build(t, p, nil, 0)
	want := `{"messages":[{"content":"first","role":"user"},{"content":"yes?","role":"assistant"},` +
		`{"content":[{"image_url":{"url":"sha256:abc"},"type":"image_url"},{"text":"what is it?","type":"text"}],"role":"user"}],"model":"m"}`
	if string(r.Body) != want || len(r.Images) != 1 || r.Images[0] != "abc" {
		t.Errorf("body %s\nwant %s", r.Body, want)
	}
}

func TestAnswerHeadersHoldNoSecret(t *testing.T) {
	c := *testConfig
	c.Headers = map[string]string{"OpenAI-Beta": "x=1", "X-Api-Key": "secret", "Authorization": "Bearer s", "X-Trace": "1"}
	r, err := teachers.BuildRequest(&c, user("x"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.AnswerHeaders) != 1 || r.AnswerHeaders["openai-beta"] != "x=1" {
		t.Errorf("headers %v", r.AnswerHeaders)
	}
}

func TestBadParametersAreNamed(t *testing.T) {
	for name, c := range map[string]struct {
		params map[string]any
		words  string
	}{
		"two caps":      {map[string]any{"max_tokens": 1, "max_completion_tokens": 1}, "given twice"},
		"negative cap":  {map[string]any{"max_tokens": -1}, "params.max_tokens"},
		"cap of text":   {map[string]any{"max_tokens": "many"}, "params.max_tokens"},
		"n":             {map[string]any{"n": 4}, "ask.samples"},
		"model":         {map[string]any{"model": "x"}, "params.model"},
		"messages":      {map[string]any{"messages": []any{}}, "params.messages"},
		"seed of text":  {map[string]any{"seed": "x"}, "params.seed"},
		"huge seed":     {map[string]any{"seed": uint64(math.MaxUint64)}, "params.seed"},
		"no JSON value": {map[string]any{"x": math.NaN()}, "params.x"},
	} {
		if _, err := teachers.NewBuilder(testConfig, c.params); err == nil || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(), "teacher t") {
			t.Errorf("%s: error %v, want the words %q", name, err, c.words)
		}
	}
	for name, p := range map[string]*chat.Prompt{
		"no messages":        {System: "x"},
		"broken tools":       {Messages: user("x").Messages, Tools: "[{"},
		"images for no user": {Messages: []chat.Message{{Role: chat.RoleAssistant}}, Images: []chat.Image{{Digest: "a"}}},
	} {
		if _, err := teachers.BuildRequest(testConfig, p, nil, 0); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := teachers.BuildRequest(testConfig, user("x"), map[string]any{"seed": 1 << 53}, 1); err == nil {
		t.Error("a seed beyond 2^53 is sent")
	}
	if _, err := teachers.NewBuilder(&teachers.Config{ID: "t", API: "smoke"}, nil); err == nil || !strings.Contains(err.Error(), "smoke") {
		t.Errorf("unknown api: %v", err)
	}
}

func TestEndpointIdentity(t *testing.T) {
	id := teachers.EndpointIdentity
	same := id("openai", "https://api.example.com/v1", "")
	if len(same) != 32 {
		t.Errorf("identity %q, want 32 hex", same)
	}
	for _, url := range []string{"https://API.Example.com/v1/", "HTTPS://api.example.com:443/v1", "https://me:pw@api.example.com./v1//", " https://api.example.com/v1#x"} {
		if id("openai", url, "") != same {
			t.Errorf("%s is another endpoint", url)
		}
	}
	if id("openai-batch", "https://api.example.com/v1", "") != same {
		t.Error("the batch form shares no answers with the online form")
	}
	seen := map[string]string{}
	for name, got := range map[string]string{
		"itself": same, "another api": id("anthropic", "https://api.example.com/v1", ""), "another path": id("openai", "https://api.example.com/v2", ""),
		"another port": id("openai", "https://api.example.com:8443/v1", ""), "plain http": id("openai", "http://api.example.com/v1", ""),
		"an identity": id("openai", "https://api.example.com/v1", "prod"), "another host": id("openai", "https://b.example.com/v1", ""),
		"a query":                             id("openai", "https://api.example.com/v1?api-version=1", ""),
		"an identity that looks like the URL": id("openai", "", "https://api.example.com/v1"),
	} {
		if other, ok := seen[got]; ok {
			t.Errorf("%s and %s share an identity", name, other)
		}
		seen[got] = name
	}
	if id("openai", "http://a/", "k3-eu") != id("openai", "http://b/", "k3-eu") {
		t.Error("with an identity the URL still matters")
	}
}

func TestPrice(t *testing.T) {
	k3 := teachers.Price{Input: 3, CachedInput: 0.3, Output: 15, AsOf: "2026-11-01", Source: "price list"}
	for _, c := range []struct {
		price teachers.Price
		usage chat.Usage
		want  int64
	}{
		{k3, chat.Usage{}, 0},
		{k3, chat.Usage{PromptTokens: 1000, CompletionTokens: 100}, 4500},
		{k3, chat.Usage{PromptTokens: 1000, CachedTokens: 900, CompletionTokens: 100, ReasoningTokens: 90}, 300 + 270 + 1500},
		{k3, chat.Usage{PromptTokens: 1000, CachedTokens: 400, CacheWriteTokens: 500}, 300 + 120 + 1500},
		{teachers.Price{Input: 3, CacheWrite: 6}, chat.Usage{PromptTokens: 1000, CachedTokens: 400, CacheWriteTokens: 500}, 300 + 1200 + 3000},
		{teachers.Price{Input: 0.1}, chat.Usage{PromptTokens: 4}, 0},
		{teachers.Price{Input: 0.1}, chat.Usage{PromptTokens: 5}, 1}, // half up
		{teachers.Price{Input: 0.1, Output: 0.1}, chat.Usage{PromptTokens: 4, CompletionTokens: 1}, 1},
		{k3, chat.Usage{PromptTokens: 10, CachedTokens: 99, CacheWriteTokens: 99}, 3},
		{k3, chat.Usage{PromptTokens: -10, CompletionTokens: -10}, 0},
		{teachers.Price{Input: 1e6, Output: 1e6}, chat.Usage{PromptTokens: math.MaxInt64, CompletionTokens: math.MaxInt64}, math.MaxInt64},
	} {
		if got := c.price.Cost(c.usage); got != c.want {
			t.Errorf("%+v at %+v costs %d, want %d", c.usage, c.price, got, c.want)
		}
	}
	id := k3.ID()
	changed := k3
	changed.AsOf = "2026-12-01"
	if len(id) != 16 || id != k3.ID() || changed.ID() == id {
		t.Errorf("ids %s and %s: want a stable one for each price", id, changed.ID())
	}
	for _, bad := range []teachers.Price{{Input: -1}, {Output: math.NaN()}, {CachedInput: math.Inf(1)}, {CacheWrite: 1e7}} {
		if bad.Validate() == nil {
			t.Errorf("%+v is a price", bad)
		}
	}
	if err := k3.Validate(); err != nil {
		t.Error(err)
	}
	if teachers.EstimateTokens(0) != 0 || teachers.EstimateTokens(5) != 2 {
		t.Error("four bytes make a token, rounded up")
	}
}

func benchmarkPrompts(n int) []*chat.Prompt {
	prompts := make([]*chat.Prompt, n)
	for i := range prompts {
		prompts[i] = user(fmt.Sprintf("Question %d. %s", i, strings.Repeat("A train leaves at nine and another at ten. ", 8)))
		prompts[i].System = "Answer with a number."
	}
	return prompts
}

// A plan renders every request of every teacher: 10,000 prompts for three of
// them in 100 ms.
func BenchmarkBuild(b *testing.B) {
	prompts := benchmarkPrompts(10_000)
	b.ReportAllocs()
	for b.Loop() {
		begin := time.Now()
		for range 3 {
			builder, err := teachers.NewBuilder(testConfig, map[string]any{"temperature": 0.6, "max_completion_tokens": 4096})
			if err != nil {
				b.Fatal(err)
			}
			for _, p := range prompts {
				if _, err := builder.Request(p, 0); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms/plan")
	}
}
