package teachers_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// parsed is the answer of a reply. What the client read while the response
// came in must be what Parse reads from the bytes later.
func parsed(t testing.TB, r *teachers.Reply) *teachers.Answer {
	t.Helper()
	live, err := r.Parse()
	if err != nil {
		t.Fatalf("Reply.Parse: %v", err)
	}
	again, err := teachers.Parse(r.Format, r.Raw)
	if err != nil {
		t.Fatalf("Parse(%s): %v", r.Format, err)
	}
	if diff := cmp.Diff(live, again); diff != "" {
		t.Errorf("read live (-) and from the raw bytes (+) differ:\n%s", diff)
	}
	return live
}

// A wireCase is what a right client makes of one scripted answer of
// teachersim, which are drawn from public bug reports.
type wireCase struct {
	content   string
	reasoning string
	field     string
	finish    string // default stop
	usage     *chat.Usage
	calls     []chat.ToolCall
	argsValid *bool
	flags     []string
	check     func(t *testing.T, a *teachers.Answer)

	class    string // of the error; "" for an answer
	words    string // in the error's text
	requests int    // sent; 0: not checked
	again    string // class of a first request that failed, after which an ordinary answer came
}

var usage19 = &chat.Usage{PromptTokens: 19, CompletionTokens: 13}

func yes(b bool) *bool { return &b }

var wireCases = map[string]wireCase{
	"choice-usage":     {content: "four", usage: usage19},
	"cached-top-level": {content: "four", usage: &chat.Usage{PromptTokens: 19, CachedTokens: 12, CompletionTokens: 13}},
	"cached-included": {content: "four", usage: &chat.Usage{PromptTokens: 2006, CachedTokens: 1920, CompletionTokens: 13},
		check: func(t *testing.T, a *teachers.Answer) {
			price := teachers.Price{Input: 1, CachedInput: 0.1, Output: 2}
			if got := price.Cost(*a.Usage); got != 86+192+26 {
				t.Errorf("cost %d micro-dollars, want %d: 86 full and 1920 cached", got, 86+192+26)
			}
		}},
	"reasoning-renamed":     {content: "four", reasoning: "two and two", field: "reasoning", usage: usage19},
	"reasoning-and-content": {content: "A", reasoning: "R", field: "reasoning_content", usage: usage19},
	"eof-no-finish":         {class: teachers.ClassTruncated, words: "finish reason", requests: 5},
	"error-in-stream":       {class: teachers.ClassServer, words: "upstream failed", requests: 5},
	"error-event":           {class: teachers.ClassServer, words: "engine died", requests: 5},
	"error-null":            {content: "four", usage: usage19},
	"json-for-stream":       {content: "four", usage: usage19},
	"stall":                 {class: teachers.ClassTimeout, words: "limits.idle", requests: 5},
	"stall-comments":        {class: teachers.ClassTimeout, words: "limits.no_progress", requests: 5},
	"many-comments":         {content: "four", usage: usage19},
	"crlf-nospace":          {content: "four", usage: usage19},
	"tools-same-index": {finish: "tool_calls", usage: usage19, argsValid: yes(true),
		calls: []chat.ToolCall{{ID: "t1", Type: "function", Name: "a", Arguments: `{"x":1}`}, {ID: "t2", Type: "function", Name: "b", Arguments: `{"x":2}`}}},
	"tools-interleaved": {finish: "tool_calls", usage: usage19, argsValid: yes(true),
		calls: []chat.ToolCall{{ID: "t1", Type: "function", Name: "a", Arguments: `{"x":1}`}, {ID: "t2", Type: "function", Name: "b", Arguments: `{"y":2}`}}},
	"tools-object-args": {finish: "tool_calls", usage: usage19, argsValid: yes(true),
		calls: []chat.ToolCall{{ID: "t1", Type: "function", Name: "a", Arguments: `{"x":1}`}}},
	"tools-broken-args": {finish: "length", usage: usage19, argsValid: yes(false),
		calls: []chat.ToolCall{{ID: "t1", Type: "function", Name: "a", Arguments: `{"x":`}}},
	"tool-tokens-leaked": {usage: usage19, flags: []string{teachers.FlagControlTokens},
		content: "The weather is <|tool_calls_section_begin|><|tool_call_begin|>functions.w:0<|tool_call_argument_begin|>{}<|tool_call_end|>"},
	"prompt-truncated": {content: "four", usage: &chat.Usage{PromptTokens: 2050, CompletionTokens: 13},
		check: func(t *testing.T, a *teachers.Answer) {
			words := func(n int) teachers.PromptSize {
				text := strings.Repeat("word ", n)
				return teachers.PromptSize{Floor: teachers.FloorTokens(text), Bytes: int64(len(text)), Messages: 1}
			}
			if !words(8000).Truncated(a.Usage.PromptTokens) {
				t.Error("a prompt of 8,000 tokens that was read as 2,050 is not called cut")
			}
			if words(2050).Truncated(a.Usage.PromptTokens) {
				t.Error("a prompt that was read whole is called cut")
			}
		}},
	"logprob-null": {content: "four", usage: usage19, flags: []string{teachers.FlagLogprobGap},
		check: func(t *testing.T, a *teachers.Answer) {
			if a.Logprobs == nil || a.Logprobs.Len() != 2 || a.Logprobs.Gaps() != 2 {
				t.Errorf("logprobs %+v: null and the sentinel must stay null", a.Logprobs)
			}
		}},
	"bad-utf8":    {content: "caf\uFFFD", usage: usage19, flags: []string{teachers.FlagBadUTF8}},
	"huge-line":   {content: strings.Repeat("0123456789", 800000), usage: usage19},
	"flat-400":    {class: teachers.ClassContextOverflow, words: "maximum context length", requests: 1},
	"detail-422":  {class: teachers.ClassBadRequest, words: "field required", requests: 1},
	"quota-429":   {class: teachers.ClassQuota, words: "exceeded your current quota", requests: 1},
	"empty-200":   {class: teachers.ClassEmpty, requests: 5},
	"echo-secret": {class: teachers.ClassServer, words: "upstream error", requests: 5},
}

// canary is a key that must be seen by nobody but the endpoint.
const canary = "sk-canary-3f9d2c71b6a84e05"

func TestEveryScriptedCaseIsReadRightly(t *testing.T) {
	s := startSim(t)
	var listed map[string]struct{ Source, Want string }
	s.get(t, "/admin/cases", &listed)
	for model, c := range listed {
		if _, ok := wireCases[strings.TrimPrefix(model, "case-")]; !ok {
			t.Errorf("%s (%s) has no test; a right client: %s", model, c.Source, c.Want)
		}
	}
	asked := map[string]*outcome{}
	for name := range wireCases {
		asked[name] = askCase(t, s.URL(), &teacherstest.Case{Name: name})
	}
	for name, want := range wireCases {
		t.Run(name, func(t *testing.T) { checkCase(t, asked[name], want) })
	}
}

func checkFailure(t *testing.T, err error, want wireCase) {
	t.Helper()
	var e *teachers.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v, want an *Error of class %s", err, want.class)
	}
	if e.Class != want.class || !strings.Contains(e.Error(), want.words) {
		t.Errorf("error %q of class %s, want class %s and the words %q", e, e.Class, want.class, want.words)
	}
	if n := teachers.Requests(e.Attempts); want.requests > 0 && n != want.requests {
		t.Errorf("%d requests were sent, want %d", n, want.requests)
	}
	if strings.Contains(e.Error()+string(e.Partial), canary) {
		t.Errorf("the key is in the error: %q", e)
	}
}

func checkAnswer(t *testing.T, a *teachers.Answer, want wireCase) {
	t.Helper()
	finish := want.finish
	if finish == "" {
		finish = "stop"
	}
	if a.Finish != finish {
		t.Errorf("finish %q, want %q", a.Finish, finish)
	}
	if got := deref(a.Message.Content); got != want.content {
		t.Errorf("content %.100q, want %.100q", got, want.content)
	}
	if got := deref(a.Message.ReasoningContent); got != want.reasoning || a.ReasoningField != want.field {
		t.Errorf("reasoning %q from %q, want %q from %q", got, a.ReasoningField, want.reasoning, want.field)
	}
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"usage", a.Usage, want.usage}, {"tool calls", a.Message.ToolCalls, want.calls},
		{"args valid", a.ArgsValid, want.argsValid}, {"flags", a.Flags, want.flags},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
	if want.check != nil {
		want.check(t, a)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// The dialects of teachersim differ in where reasoning and cached tokens are.
func TestEveryDialectIsReadRightly(t *testing.T) {
	s := startSim(t, "-models", "m", "-synthetic-tokens", "50")
	for dialect, field := range map[string]string{
		"openai": "", "vllm": "reasoning_content", "sglang": "reasoning_content", "llamacpp": "reasoning_content",
		"deepseek": "reasoning_content", "moonshot": "reasoning_content", "vllm2": "reasoning",
		"openrouter": "reasoning", "think": "inline", "thinkopen": "inline", "parts": "thinking",
	} {
		t.Run(dialect, func(t *testing.T) {
			t.Parallel()
			config := &teachers.Config{ID: "t", API: "openai", BaseURL: s.URL(), Model: "m@" + dialect}
			r := request(t, config, "why?")
			whole, err := teachers.Parse(teachers.FormatOpenAIJSON, post(t, s, r.Body))
			if err != nil {
				t.Fatalf("whole: %v", err)
			}
			checkDialect(t, whole, field)
			if dialect == "parts" {
				return // teachersim streams parts as nothing
			}
			reply, err := client(t, config).Ask(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			streamed := parsed(t, reply)
			checkDialect(t, streamed, field)
			if reply.Format != teachers.FormatOpenAIStream {
				t.Errorf("format %s, want %s", reply.Format, teachers.FormatOpenAIStream)
			}
		})
	}
}

func checkDialect(t *testing.T, a *teachers.Answer, field string) {
	t.Helper()
	content, reasoning := deref(a.Message.Content), deref(a.Message.ReasoningContent)
	if content == "" || strings.Contains(content, "Let me think") || strings.Contains(content, "think>") {
		t.Errorf("content %q: want the answer alone", content)
	}
	if a.ReasoningField != field {
		t.Errorf("reasoning came from %q, want %q", a.ReasoningField, field)
	}
	if field != "" && (!strings.HasPrefix(reasoning, "Let me think about it: ") || strings.Count(reasoning, "Let me think") != 1) {
		t.Errorf("reasoning %q: want the reasoning once", reasoning)
	}
	if a.Usage == nil || a.Usage.PromptTokens == 0 || a.Usage.CachedTokens != a.Usage.PromptTokens/2 {
		t.Errorf("usage %+v: want half of the prompt cached", a.Usage)
	}
	if len(a.Flags) > 0 || a.Fingerprint != "fp_sim" {
		t.Errorf("flags %v, fingerprint %q", a.Flags, a.Fingerprint)
	}
}

// post sends a body as it is, without asking for a stream.
func post(t *testing.T, s *sim, body []byte) []byte {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := c.Post(s.URL()+"/chat/completions", "application/json", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(raw) {
		t.Fatalf("no JSON: %s", raw)
	}
	return raw
}

func TestFlagsAreSorted(t *testing.T) {
	raw := `{"choices":[{"index":0,"message":{"content":"a <|x|> </think` + "`" + `> b <think> ` + "\xff" + `"},"finish_reason":"stop"},{"index":1,"message":{"content":"b"},"finish_reason":"stop"}]}`
	a, err := teachers.Parse(teachers.FormatOpenAIJSON, []byte(raw))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{teachers.FlagBadUTF8, teachers.FlagControlTokens, teachers.FlagExtraChoices, teachers.FlagThinkTags}
	if !slices.Equal(a.Flags, want) {
		t.Errorf("flags %v, want %v", a.Flags, want)
	}
}
