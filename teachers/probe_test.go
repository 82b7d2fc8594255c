package teachers_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/teachers"
)

func probed(t *testing.T, c *teachers.Config, params map[string]any) *teachers.ProbeResult {
	t.Helper()
	r := teachers.Probe(t.Context(), c, params)
	if r.MostUSD < r.CostUSD && r.Cap == teachers.AbilityYes && len(r.Notes) == 0 {
		t.Errorf("it cost $%g, and could cost $%g at most", r.CostUSD, r.MostUSD)
	}
	return r
}

// Every wire form of the simulator is told apart by what comes back.
func TestProbeTellsDialectsApart(t *testing.T) {
	s := startSim(t, "-models", "m", "-synthetic-tokens", "60")
	for dialect, reasoning := range map[string]string{
		"openai": "", "vllm": "reasoning_content", "vllm2": "reasoning", "sglang": "reasoning_content", "llamacpp": "reasoning_content", "deepseek": "reasoning_content",
		"moonshot": "reasoning_content", "openrouter": "reasoning", "think": "inline", "thinkopen": "inline", "parts": "",
	} {
		t.Run(dialect, func(t *testing.T) {
			c := &teachers.Config{ID: dialect, API: "openai", BaseURL: s.URL(), Model: "m@" + dialect, Price: &teachers.Price{Input: 1, Output: 2}}
			r := probed(t, c, nil)
			if r.State != teachers.ProbeOK || r.Streaming == nil || !*r.Streaming || r.ReasoningField != reasoning || r.UsagePlace == "none" || r.CostUSD == 0 {
				t.Errorf("state %s (%s), streaming %v, reasoning %q, want %q, usage %q, cost %g", r.State, r.Error, r.Streaming, r.ReasoningField, reasoning, r.UsagePlace, r.CostUSD)
			}
			if r.Requests < 6 || r.Requests > 9 {
				t.Errorf("%d requests, want 6 to 9", r.Requests)
			}
			if r.Cap != teachers.AbilityYes {
				t.Errorf("cap %s, want it seen", r.Cap)
			}
		})
	}
}

func TestProbeSpeaksMessages(t *testing.T) {
	s := startSim(t, "-models", "m", "-synthetic-tokens", "60")
	r := probed(t, &teachers.Config{ID: "a", API: "anthropic", BaseURL: s.URL(), Model: "m"}, nil)
	if r.State != teachers.ProbeOK || r.Streaming == nil || r.UsagePlace == "none" || r.Cap != teachers.AbilityYes || r.Seed != teachers.AbilityUntried || r.Logprobs != teachers.AbilityUntried {
		t.Errorf("%+v", r)
	}
}

// A vendor is an endpoint that takes and gives what a test says.
type vendor struct {
	list    string   // of /models; "" for none
	ignores string   // a name of the cap
	refuses []string // members of a request
	tokens  func(capTokens int) int
	text    func(n int, seed any) string
	chunk   func(text, finish string, tokens int) string // of a whole answer
	seen    atomic.Int32
}

func (v *vendor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/v1/models" {
		if v.list == "" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, v.list)
		return
	}
	n := int(v.seen.Add(1))
	var body map[string]any
	if json.NewDecoder(r.Body).Decode(&body) != nil {
		return
	}
	text, _ := json.Marshal(body["messages"])
	for _, name := range v.refuses {
		if _, ok := body[name]; ok || name == "image_url" && strings.Contains(string(text), name) {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":"Unsupported parameter: '%s' is not supported with this model.","type":"invalid_request_error"}}`, name)
			return
		}
	}
	capTokens := 0
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if name == v.ignores {
			continue
		}
		if f, ok := body[name].(float64); ok {
			capTokens = int(f)
		}
	}
	tokens, finish := 200, "stop"
	if v.tokens != nil {
		tokens = v.tokens(capTokens)
	} else if capTokens > 0 && capTokens < tokens {
		tokens, finish = capTokens, "length"
	}
	said := "once upon a time"
	if v.text != nil {
		said = v.text(n, body["seed"])
	}
	if v.chunk != nil {
		_, _ = io.WriteString(w, v.chunk(said, finish, tokens))
		return
	}
	fmt.Fprintf(w, `{"model":"m","choices":[{"index":0,"message":{"content":%q},"finish_reason":%q}],"usage":{"prompt_tokens":10,"completion_tokens":%d}}`, said, finish, tokens)
}

func (v *vendor) config(t *testing.T) *teachers.Config {
	s := httptest.NewServer(v)
	t.Cleanup(s.Close)
	return &teachers.Config{ID: "t", API: "openai", BaseURL: s.URL + "/v1", Model: "m", Price: &teachers.Price{Input: 3, Output: 15}}
}

func TestProbeFindsWhatAnEndpointRefuses(t *testing.T) {
	v := &vendor{refuses: []string{"max_completion_tokens", "seed", "logprobs", "tools", "image_url"},
		list: `{"data":[{"id":"other","max_model_len":1},{"id":"m","max_model_len":40960}]}`}
	r := probed(t, v.config(t), nil)
	if r.State != teachers.ProbeOK || r.CapField != "max_tokens" || r.Cap != teachers.AbilityYes || r.Seed != teachers.AbilityRefused || r.Logprobs != teachers.AbilityRefused ||
		r.Tools != teachers.AbilityRefused || r.Images != teachers.AbilityRefused || r.UsagePlace != "usage" || *r.Streaming || *r.ContextLength != 40960 || !*r.ModelListed {
		t.Errorf("%+v", r)
	}
	no, none := false, 0
	if diff := cmp.Diff(&teachers.ProbeProfile{CapField: "max_tokens", Seed: &no, Tools: &no, Images: &no, TopLogprobs: &none}, r.Profile); diff != "" {
		t.Errorf("suggested profile (-want +got):\n%s", diff)
	}
}

func TestProbeTellsWhetherSeedsAreHonoured(t *testing.T) {
	for want, text := range map[string]func(int, any) string{
		teachers.AbilityYes:      func(_ int, seed any) string { return fmt.Sprint("seed ", seed) },
		teachers.AbilityIgnored:  func(n int, _ any) string { return fmt.Sprint("answer ", n) },
		teachers.AbilityUnproven: func(int, any) string { return "always the same" },
	} {
		if r := probed(t, (&vendor{text: text}).config(t), nil); r.Seed != want || r.Profile != nil && r.Profile.Seed != nil {
			t.Errorf("seed %s, want %s; suggested %+v", r.Seed, want, r.Profile)
		}
	}
}

func TestProbeTellsWhetherTheCapIsKept(t *testing.T) {
	ignored := &vendor{tokens: func(int) int { return 400 }}
	if r := probed(t, ignored.config(t), nil); r.Cap != teachers.AbilityIgnored || !strings.Contains(strings.Join(r.Notes, " "), "ignores the token cap") {
		t.Errorf("cap %s, notes %q", r.Cap, r.Notes)
	}
	other := &vendor{ignores: "max_completion_tokens"}
	if r := probed(t, other.config(t), nil); r.Cap != teachers.AbilityYes || r.Profile == nil || r.Profile.CapField != "max_tokens" {
		t.Errorf("cap %s, suggested %+v: want the name that the endpoint knows", r.Cap, r.Profile)
	}
	kept := &vendor{}
	if r := probed(t, kept.config(t), map[string]any{"max_tokens": 9000}); r.Cap != teachers.AbilityYes {
		t.Errorf("cap %s, notes %q", r.Cap, r.Notes)
	}
	partly := &vendor{chunk: func(text, finish string, tokens int) string {
		return fmt.Sprintf(`{"model":"m","choices":[{"index":0,"message":{"content":%q},"finish_reason":%q}],"usage":{"prompt_tokens":10,"completion_tokens":%d}}`, text, finish, tokens+500)
	}}
	if r := probed(t, partly.config(t), nil); r.Cap != teachers.AbilityYes || !strings.Contains(strings.Join(r.Notes, " "), "does not bound what is billed") {
		t.Errorf("cap %s, notes %q", r.Cap, r.Notes)
	}
}

func TestProbeFindsTheServerByItsList(t *testing.T) {
	v := &vendor{list: `{"data":[{"id":"m","owned_by":"vllm","max_model_len":32768}]}`}
	if r := probed(t, v.config(t), nil); r.Profile == nil || r.Profile.Base != "vllm" {
		t.Errorf("suggested %+v, want base vllm", r.Profile)
	}
}

func TestProbeTellsWhereUsageIs(t *testing.T) {
	event := func(s string) string { return "data: " + s + "\n\n" }
	text := event(`{"choices":[{"index":0,"delta":{"content":"hi"}}]}`)
	for want, stream := range map[string]string{
		"none":                            text + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`),
		"last event":                      text + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`) + event(`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`),
		"choices[0].usage":                text + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":1,"completion_tokens":1}}]}`),
		"choices[0].usage and last event": text + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop","usage":{"prompt_tokens":1,"completion_tokens":1}}]}`) + event(`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}`),
		"usage":                           text + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`),
		"every event":                     strings.Repeat(event(`{"choices":[{"index":0,"delta":{"content":"hi"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`), 4) + event(`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":null}`),
	} {
		v := &vendor{chunk: func(string, string, int) string { return stream + "data: [DONE]\n\n" }}
		if r := probed(t, v.config(t), nil); r.UsagePlace != want || !*r.Streaming {
			t.Errorf("usage %q, want %q", r.UsagePlace, want)
		}
	}
}

func TestProbeOfATeacherThatCannotBeAsked(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String() + "/v1"
	listener.Close()
	for _, c := range []struct {
		name   string
		status int
		body   string
		state  string
		class  string
	}{
		{"a wrong key", 401, `{"error":{"message":"Incorrect API key"}}`, teachers.ProbeUnusable, teachers.ClassAuth},
		{"no money", 402, `{"error":{"message":"Insufficient credits"}}`, teachers.ProbeUnusable, teachers.ClassQuota},
		{"a wrong model", 404, `{"error":{"message":"The model kimi-k3 does not exist"}}`, teachers.ProbeUnusable, teachers.ClassNotFound},
		{"a bad request", 400, `{"error":{"message":"temperature must be 1"}}`, teachers.ProbeFailed, teachers.ClassBadRequest},
		{"HTML", 200, `<html>log in</html>`, teachers.ProbeFailed, teachers.ClassMalformed},
		{"nobody there", 0, "", teachers.ProbeUnreachable, teachers.ClassNetwork},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asks atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/v1/models" {
					_, _ = io.WriteString(w, `{"data":[{"id":"moonshotai/kimi-k3"},{"id":"kimi-k3.1-pro"},{"id":"gpt-9"}]}`)
					return
				}
				asks.Add(1)
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer s.Close()
			config := &teachers.Config{ID: "t", API: "openai", BaseURL: s.URL + "/v1", Model: "kimi-k3", Price: &teachers.Price{Input: 1, Output: 1}}
			if c.status == 0 {
				config.BaseURL = nobody
			}
			r := probed(t, config, nil)
			if r.State != c.state || r.ErrorClass != c.class || r.Error == "" || r.Requests > 3 || r.CostUSD != 0 {
				t.Errorf("%+v, want %s of class %s", r, c.state, c.class)
			}
			if c.class == teachers.ClassNotFound && (!slices.Equal(r.NearestModels, []string{"moonshotai/kimi-k3", "kimi-k3.1-pro"}) || !strings.Contains(r.Error, "kimi-k3.1-pro")) {
				t.Errorf("nearest %q, error %s", r.NearestModels, r.Error)
			}
		})
	}
}

func TestProbeShowsNoKey(t *testing.T) {
	v := &vendor{list: `{"data":[{"id":"` + canary + `"}]}`, text: func(int, any) string { return "your key is " + canary }}
	c := v.config(t)
	c.Key = func() (string, error) { return canary, nil }
	r := probed(t, c, nil)
	text, err := json.Marshal(r)
	if err != nil || strings.Contains(string(text), "canary") {
		t.Errorf("%v: %s", err, text)
	}
	if !strings.Contains(strings.Join(r.Notes, " "), "repeats a key") {
		t.Errorf("notes %q do not say that the key came back", r.Notes)
	}
}

func TestProbeReadsARotatedKeyAnew(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer new-key-0123456789" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, wholeStream)
	}))
	defer s.Close()
	key := "old-key-0123456789"
	c := &teachers.Config{ID: "t", API: "openai", BaseURL: s.URL, Model: "m", Key: func() (string, error) { return key, nil },
		Renew: func(string) bool { key = "new-key-0123456789"; return true }}
	if r := probed(t, c, nil); r.State != teachers.ProbeOK {
		t.Errorf("%+v", r)
	}
}

func FuzzProbeOfAHostileEndpoint(f *testing.F) {
	f.Add(`{"data":[{"id":"m","meta":{"n_ctx":1}}]}`, wholeStream)
	f.Add(`[]`, `{"choices":[{"usage":{}}]}`)
	f.Add(`{"models":[1,{"name":"`+"\x1b[2J"+`"}]}`, `data: {"choices":[{"delta":{"content":1}}]}`)
	f.Fuzz(func(t *testing.T, list, body string) {
		s := &script{reply: func(_ int, r *http.Request) *http.Response {
			if strings.HasSuffix(r.URL.Path, "/models") {
				return response(200, list)
			}
			return response(200, body)
		}}
		teachers.ReadProbeResponses(t.Context(), testConfig, s)
	})
}
