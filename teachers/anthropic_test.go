package teachers_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// claude is a teacher of the messages protocol.
func claude(url string) *teachers.Config {
	return &teachers.Config{ID: "claude", API: "anthropic", BaseURL: url, Model: "claude-haiku-4-5"}
}

const anthropicURL = "https://api.anthropic.com/v1"

func assistant(content string, calls ...chat.ToolCall) chat.Message {
	m := chat.Message{Role: chat.RoleAssistant, ToolCalls: calls}
	if content != "" {
		m.Content = chat.Text(content)
	}
	return m
}

func thinking(content, reasoning, signature string) chat.Message {
	m := assistant(content)
	m.ReasoningContent = chat.Text(reasoning)
	if signature != "" {
		m.ReasoningSignature = chat.Text(signature)
	}
	return m
}

func toolResult(id, content string) chat.Message {
	return chat.Message{Role: chat.RoleTool, ToolCallID: chat.Text(id), Content: chat.Text(content)}
}

func userMessage(text string) chat.Message {
	return chat.Message{Role: chat.RoleUser, Content: chat.Text(text)}
}

func TestMessagesRequests(t *testing.T) {
	weather := chat.ToolCall{ID: "t1", Type: "function", Name: "weather", Arguments: `{"b": 12345678901234567890, "a":[1, 2]}`}
	for name, tc := range map[string]struct {
		prompt chat.Prompt
		url    string // default Anthropic's own
		params map[string]any
		want   string
	}{
		"a question": {
			prompt: chat.Prompt{Messages: []chat.Message{userMessage("2+2?")}},
			want:   `{"messages":[{"content":"2+2?","role":"user"}],"model":"claude-haiku-4-5"}`,
		},
		"the system text stands apart, between parameters": {
			prompt: chat.Prompt{System: "Be brief.", Messages: []chat.Message{userMessage("2+2?")}},
			params: map[string]any{"temperature": 0.5, "stop_sequences": []any{"\n"}, "max_tokens": 9, "metadata": map[string]any{"user_id": "u"}},
			want:   `{"messages":[{"content":"2+2?","role":"user"}],"model":"claude-haiku-4-5","stop_sequences":["\n"],"system":"Be brief.","temperature":0.5}`,
		},
		"system messages at the beginning are the system text": {
			prompt: chat.Prompt{System: "A.", Messages: []chat.Message{{Role: chat.RoleSystem, Content: chat.Text("B.")}, userMessage("?")}},
			want:   `{"messages":[{"content":"?","role":"user"}],"model":"claude-haiku-4-5","system":"A.\n\nB."}`,
		},
		"thinking parameters go through": {
			prompt: chat.Prompt{Messages: []chat.Message{userMessage("?")}},
			params: map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 1024}, "output_config": map[string]any{"effort": "low"}},
			want:   `{"messages":[{"content":"?","role":"user"}],"model":"claude-haiku-4-5","output_config":{"effort":"low"},"thinking":{"budget_tokens":1024,"type":"enabled"}}`,
		},
		"calls and results": {
			prompt: chat.Prompt{Messages: []chat.Message{
				userMessage("weather?"),
				assistant("let me see", weather, chat.ToolCall{ID: "t2", Type: "function", Name: "now"}),
				toolResult("t1", "rain"), toolResult("t2", ""), userMessage("and tomorrow?"),
				assistant("sun"), userMessage("thanks"),
			}},
			want: `{"messages":[{"content":"weather?","role":"user"},` +
				`{"content":[{"text":"let me see","type":"text"},{"id":"t1","input":{"b":12345678901234567890,"a":[1,2]},"name":"weather","type":"tool_use"},{"id":"t2","input":{},"name":"now","type":"tool_use"}],"role":"assistant"},` +
				`{"content":[{"content":"rain","tool_use_id":"t1","type":"tool_result"},{"tool_use_id":"t2","type":"tool_result"},{"text":"and tomorrow?","type":"text"}],"role":"user"},` +
				`{"content":"sun","role":"assistant"},{"content":"thanks","role":"user"}],"model":"claude-haiku-4-5"}`,
		},
		"declarations of the other protocol": {
			prompt: chat.Prompt{Messages: []chat.Message{userMessage("?")},
				Tools: `[{"type":"function","function":{"name":"f","description":"d","strict":true,"parameters":{"type":"object","properties":{"x":{"type":"number"}}}}},{"type":"function","function":{"name":"g"}}]`},
			params: map[string]any{"tool_choice": map[string]any{"type": "any"}, "top_p": 1},
			want:   `{"messages":[{"content":"?","role":"user"}],"model":"claude-haiku-4-5","tool_choice":{"type":"any"},"tools":[{"description":"d","input_schema":{"properties":{"x":{"type":"number"}},"type":"object"},"name":"f","strict":true},{"input_schema":{"properties":{},"type":"object"},"name":"g"}],"top_p":1}`,
		},
		"declarations of its own": {
			prompt: chat.Prompt{Messages: []chat.Message{userMessage("?")}, Tools: `[{"type":"web_search_20250305","name":"web_search"},{"name":"f","input_schema":{"type":"object"}}]`},
			want:   `{"messages":[{"content":"?","role":"user"}],"model":"claude-haiku-4-5","tools":[{"name":"web_search","type":"web_search_20250305"},{"input_schema":{"type":"object"},"name":"f"}]}`,
		},
		"images": {
			prompt: chat.Prompt{Messages: []chat.Message{userMessage("what?")}, Images: []chat.Image{{Digest: "ab", MediaType: "image/png"}}},
			want:   `{"messages":[{"content":[{"source":"sha256:ab","type":"image"},{"text":"what?","type":"text"}],"role":"user"}],"model":"claude-haiku-4-5"}`,
		},
		"images after a tool's result": {
			prompt: chat.Prompt{Messages: []chat.Message{userMessage("a"), assistant("", chat.ToolCall{ID: "t1", Name: "f"}), toolResult("t1", "r"), userMessage("b")}, Images: []chat.Image{{Digest: "ab", MediaType: "image/png"}}},
			want: `{"messages":[{"content":"a","role":"user"},{"content":[{"id":"t1","input":{},"name":"f","type":"tool_use"}],"role":"assistant"},` +
				`{"content":[{"content":"r","tool_use_id":"t1","type":"tool_result"},{"source":"sha256:ab","type":"image"},{"text":"b","type":"text"}],"role":"user"}],"model":"claude-haiku-4-5"}`,
		},
		"reasoning goes back with its signature only": {
			prompt: chat.Prompt{Messages: []chat.Message{userMessage("a"), thinking("b", "hm", "sig"), userMessage("c"), thinking("d", "hm", ""), userMessage("e")}},
			want: `{"messages":[{"content":"a","role":"user"},{"content":[{"signature":"sig","thinking":"hm","type":"thinking"},{"text":"b","type":"text"}],"role":"assistant"},` +
				`{"content":"c","role":"user"},{"content":"d","role":"assistant"},{"content":"e","role":"user"}],"model":"claude-haiku-4-5"}`,
		},
		"reasoning goes back unsigned where nobody checks": {
			url:    "http://127.0.0.1:8000/v1",
			prompt: chat.Prompt{Messages: []chat.Message{userMessage("a"), thinking("b", "hm", ""), userMessage("c")}},
			want:   `{"messages":[{"content":"a","role":"user"},{"content":[{"signature":"","thinking":"hm","type":"thinking"},{"text":"b","type":"text"}],"role":"assistant"},{"content":"c","role":"user"}],"model":"claude-haiku-4-5"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := tc.url
			if url == "" {
				url = anthropicURL
			}
			r, err := teachers.BuildRequest(claude(url), &tc.prompt, tc.params, 0)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(r.Body)); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
		})
	}
}

// The protocol needs a cap, and a thinking budget is part of it.
func TestMessagesAreAlwaysCapped(t *testing.T) {
	for name, tc := range map[string]struct {
		params map[string]any
		want   int64
		asked  string
	}{
		"none":       {nil, 8192, `{"max_tokens":8192}`},
		"given":      {map[string]any{"max_tokens": 5}, 5, `{"max_tokens":5}`},
		"other name": {map[string]any{"max_completion_tokens": 5}, 5, `{"max_completion_tokens":5}`},
		"thinking":   {map[string]any{"thinking": map[string]any{"type": "enabled", "budget_tokens": 1000}}, 9192, `{"max_tokens":9192,"thinking":{"budget_tokens":1000,"type":"enabled"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := teachers.BuildRequest(claude(anthropicURL), user("?"), tc.params, 3)
			if err != nil {
				t.Fatal(err)
			}
			if r.Cap != tc.want || r.CapField != "max_tokens" || r.ParamsText != tc.asked {
				t.Errorf("%s %d and parameters %s, want max_tokens %d and %s", r.CapField, r.Cap, r.ParamsText, tc.want, tc.asked)
			}
		})
	}
}

func TestMessagesHeadersAreInTheIdentity(t *testing.T) {
	config := claude(anthropicURL)
	r := request(t, config, "?")
	if diff := cmp.Diff(map[string]string{"anthropic-version": "2023-06-01"}, r.AnswerHeaders); diff != "" {
		t.Error(diff)
	}
	config.Headers = map[string]string{"Anthropic-Beta": "interleaved-thinking-2025-05-14", "anthropic-version": "2027-01-01", "X-Other": "x"}
	r = request(t, config, "?")
	if diff := cmp.Diff(map[string]string{"anthropic-version": "2027-01-01", "anthropic-beta": "interleaved-thinking-2025-05-14"}, r.AnswerHeaders); diff != "" {
		t.Error(diff)
	}
}

// A turn that the protocol has no form for is a row's failure, never the
// build's, and costs no request.
func TestMessagesThatCannotBeSent(t *testing.T) {
	s := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{Content: "four"} })
	for name, tc := range map[string]struct {
		message chat.Message
		words   string
	}{
		"broken arguments": {assistant("", chat.ToolCall{ID: "t1", Name: "f", Arguments: `{"x":`}), "arguments of tool call t1"},
		"no object":        {assistant("", chat.ToolCall{ID: "t1", Name: "f", Arguments: `[1]`}), "arguments of tool call t1"},
		"a late system":    {chat.Message{Role: chat.RoleSystem, Content: chat.Text("s")}, "role system"},
		"no call's id":     {chat.Message{Role: chat.RoleTool, Content: chat.Text("s")}, "tool_call_id"},
	} {
		t.Run(name, func(t *testing.T) {
			config := claude(s.URL)
			r, err := teachers.BuildRequest(config, &chat.Prompt{Messages: []chat.Message{userMessage("a"), tc.message, userMessage("b")}}, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			_, err = client(t, config).Ask(t.Context(), r)
			if e := asError(t, err, teachers.ClassBadRequest); !strings.Contains(e.Error(), tc.words) {
				t.Errorf("error %q, want the words %q", e, tc.words)
			}
		})
	}
	if n := s.Stats().Requests; n != 0 {
		t.Errorf("%d requests were sent", n)
	}
}

func TestMessagesOnTheWire(t *testing.T) {
	var got *http.Request
	var body string
	s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		got, body = &http.Request{Header: r.Header}, string(r.Body)
		return teacherstest.Reply{Content: "four", Reasoning: "two and two", Usage: &chat.Usage{PromptTokens: 100, CachedTokens: 60, CacheWriteTokens: 30, CompletionTokens: 9, ReasoningTokens: 4}}
	})
	config := claude(s.URL)
	config.Key = func() (string, error) { return canary, nil }
	a, reply, err := ask(t, config, "2+2?")
	if err != nil {
		t.Fatal(err)
	}
	want := `{"max_tokens":8192,"stream":true,"messages":[{"content":"2+2?","role":"user"}],"model":"claude-haiku-4-5"}`
	if body != want {
		t.Errorf("sent %s, want %s", body, want)
	}
	for name, want := range map[string]string{"X-Api-Key": canary, "Anthropic-Version": "2023-06-01", "Authorization": ""} {
		if got.Header.Get(name) != want {
			t.Errorf("header %s is %q, want %q", name, got.Header.Get(name), want)
		}
	}
	wantMessage := chat.Message{Role: chat.RoleAssistant, Content: chat.Text("four"), ReasoningContent: chat.Text("two and two"),
		ReasoningKind: chat.Text(teachers.ReasoningSummary), ReasoningSignature: chat.Text(teacherstest.Signature), Train: true}
	if diff := cmp.Diff(wantMessage, a.Message); diff != "" {
		t.Errorf("message (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&chat.Usage{PromptTokens: 100, CachedTokens: 60, CacheWriteTokens: 30, CompletionTokens: 9, ReasoningTokens: 4}, a.Usage); diff != "" {
		t.Errorf("usage (-want +got):\n%s", diff)
	}
	if a.Finish != "end_turn" || a.ReasoningField != "thinking" || a.Model != "claude-haiku-4-5" || reply.Format != teachers.FormatAnthropicStream {
		t.Errorf("finish %q, reasoning from %q, model %q, format %q", a.Finish, a.ReasoningField, a.Model, reply.Format)
	}
}

// A profile decides where the key goes: Moonshot's form of the protocol takes
// it as the other protocol does.
func TestKeyGoesWhereTheProfileSays(t *testing.T) {
	for name, want := range map[string]string{"anthropic": "", "moonshot-anthropic": "Bearer " + canary, "openai": "Bearer " + canary} {
		profile, _ := teachers.ProfileOf(name)
		var got http.Header
		s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
			got = r.Header
			return teacherstest.Reply{Content: "four"}
		})
		config := &teachers.Config{API: profile.API, BaseURL: s.URL, Model: "m", Profile: &profile, Key: func() (string, error) { return canary, nil }}
		if _, _, err := ask(t, config, "2+2?"); err != nil {
			t.Fatal(err)
		}
		if got.Get("Authorization") != want || (got.Get("X-Api-Key") == canary) != (want == "") {
			t.Errorf("%s: Authorization %q and X-Api-Key %q", name, got.Get("Authorization"), got.Get("X-Api-Key"))
		}
	}
}

func TestMessagesImagesGoOutAsBytes(t *testing.T) {
	var body string
	s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		body = string(r.Body)
		return teacherstest.Reply{Content: "a cat"}
	})
	config := claude(s.URL)
	r, err := teachers.BuildRequest(config, &chat.Prompt{Messages: []chat.Message{userMessage("what?")}, Images: []chat.Image{{Digest: "ab", MediaType: "image/png"}}}, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	load := teachers.WithImages(func(context.Context, chat.Image) ([]byte, error) { return []byte("cat"), nil })
	if _, err := client(t, config, load).Ask(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if want := `{"source":{"data":"Y2F0","media_type":"image/png","type":"base64"},"type":"image"}`; !strings.Contains(body, want) {
		t.Errorf("sent %s, want %s in it", body, want)
	}
	if diff := cmp.Diff([]string{"ab"}, r.Images); diff != "" {
		t.Error(diff)
	}
}

// Faults are what they are in the other protocol.
func TestMessagesFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		reply    teacherstest.Reply
		class    string
		words    string
		requests int
	}{
		"reset":       {teacherstest.Reply{Fault: teacherstest.Reset}, teachers.ClassNetwork, "", 5},
		"cut":         {teacherstest.Reply{Content: "four", Fault: teacherstest.NoFinish}, teachers.ClassTruncated, "finish reason", 5},
		"reset in it": {teacherstest.Reply{Content: "four", Fault: teacherstest.MidReset}, teachers.ClassTruncated, "", 5},
		"error in it": {teacherstest.Reply{Content: "four", Fault: teacherstest.MidError}, teachers.ClassServer, "upstream failed", 5},
		"silence":     {teacherstest.Reply{Content: "four", Fault: teacherstest.Stall}, teachers.ClassTimeout, "limits.idle", 5},
		"pings only":  {teacherstest.Reply{Content: "four", Fault: teacherstest.Drip}, teachers.ClassTimeout, "limits.no_progress", 5},
		"empty":       {teacherstest.Reply{Fault: teacherstest.Empty}, teachers.ClassEmpty, "", 5},
		"key":         {teacherstest.Reply{Status: 401, Type: "authentication_error", Message: "invalid x-api-key"}, teachers.ClassAuth, "invalid x-api-key", 1},
		"credit":      {teacherstest.Reply{Status: 400, Type: "invalid_request_error", Message: "Your credit balance is too low to access the Anthropic API."}, teachers.ClassQuota, "credit balance", 1},
		"too long":    {teacherstest.Reply{Status: 400, Type: "invalid_request_error", Message: "prompt is too long: 208310 tokens > 200000 maximum"}, teachers.ClassContextOverflow, "too long", 1},
		"cap and prompt too long": {teacherstest.Reply{Status: 400, Type: "invalid_request_error", Message: "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000"},
			teachers.ClassContextOverflow, "exceed context limit", 1},
		"model": {teacherstest.Reply{Status: 404, Type: "not_found_error", Message: "model: claude-0"}, teachers.ClassNotFound, "claude-0", 1},
		"other protocol": {teacherstest.Reply{Raw: `{"choices":[{"message":{"content":"four"},"finish_reason":"stop"}]}`, ContentType: "application/json"},
			teachers.ClassMalformed, "api: openai", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return tc.reply })
			config := claude(s.URL)
			config.Limits = teachers.Limits{Idle: 100 * time.Millisecond, NoProgress: 150 * time.Millisecond}
			_, _, err := ask(t, config, "2+2?")
			checkFailure(t, err, wireCase{class: tc.class, words: tc.words, requests: tc.requests})
		})
	}
}

// An overloaded endpoint costs no attempt, whether it says so by its status or
// in the middle of a stream.
func TestMessagesOverloaded(t *testing.T) {
	for name, reply := range map[string]teacherstest.Reply{
		"status": {Status: 529, Type: "overloaded_error", Message: "Overloaded", RetryAfter: 5 * time.Millisecond},
		"event": {ContentType: "text/event-stream",
			Raw: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
				if r.Attempt == 0 {
					return reply
				}
				return teacherstest.Reply{Content: "four"}
			})
			a, got, err := ask(t, claude(s.URL), "2+2?")
			if err != nil {
				t.Fatal(err)
			}
			if deref(a.Message.Content) != "four" || teachers.Requests(got.Attempts) != 2 || got.Attempts[0].Class != teachers.ClassOverloaded {
				t.Errorf("content %q after %+v", deref(a.Message.Content), got.Attempts)
			}
		})
	}
}

func TestMessagesNeedADeclaredForm(t *testing.T) {
	for name, tc := range map[string]struct {
		prompt chat.Prompt
		params map[string]any
		words  string
	}{
		"no messages":       {chat.Prompt{}, nil, "without messages"},
		"tools no list":     {chat.Prompt{Messages: user("?").Messages, Tools: `{"a":1}`}, nil, "list of declarations"},
		"tool no object":    {chat.Prompt{Messages: user("?").Messages, Tools: `["a"]`}, nil, "no object"},
		"system twice":      {chat.Prompt{System: "s", Messages: user("?").Messages}, map[string]any{"system": "t"}, "both the prompt and the teacher's params"},
		"image of nobody":   {chat.Prompt{Messages: []chat.Message{assistant("a")}, Images: []chat.Image{{Digest: "ab"}}}, nil, "without a user message"},
		"only the system's": {chat.Prompt{Messages: []chat.Message{{Role: chat.RoleSystem, Content: chat.Text("s")}}}, nil, "without messages"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := teachers.BuildRequest(claude(anthropicURL), &tc.prompt, tc.params, 0)
			if err == nil || !strings.Contains(err.Error(), tc.words) {
				t.Errorf("error %v, want the words %q", err, tc.words)
			}
		})
	}
}

// A system text of the teacher's params goes to every prompt without one.
func TestSystemAmongTheParameters(t *testing.T) {
	r, err := teachers.BuildRequest(claude(anthropicURL), user("?"), map[string]any{"system": "t", "temperature": 1, "stop_sequences": []any{"x"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"messages":[{"content":"?","role":"user"}],"model":"claude-haiku-4-5","stop_sequences":["x"],"system":"t","temperature":1}`; string(r.Body) != want {
		t.Errorf("body %s, want %s", r.Body, want)
	}
}
