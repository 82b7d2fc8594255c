package teachers_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

var messageUsage = &chat.Usage{PromptTokens: 19, CachedTokens: 10, CacheWriteTokens: 2, CompletionTokens: 13}

func call(id, name, args string) chat.ToolCall {
	return chat.ToolCall{ID: id, Type: "function", Name: name, Arguments: args}
}

func kindOf(kind string) func(*testing.T, *teachers.Answer) {
	return func(t *testing.T, a *teachers.Answer) {
		if deref(a.Message.ReasoningKind) != kind {
			t.Errorf("kind of reasoning %q, want %q", deref(a.Message.ReasoningKind), kind)
		}
	}
}

func refuses(words string) func(*testing.T, *teachers.Answer) {
	return func(t *testing.T, a *teachers.Answer) {
		if a.Refusal != words || a.Message.Content != nil {
			t.Errorf("refusal %q and content %v, want %q and none", a.Refusal, a.Message.Content, words)
		}
	}
}

// trapCases is what a right client makes of the cases that teacherstest has
// beside teachersim's.
var trapCases = map[string]wireCase{
	"think-closing-tag-only":      {content: "four", reasoning: "two and two", field: "inline", usage: usage19},
	"reasoning-details-encrypted": {content: "four", reasoning: "R", field: "reasoning", usage: usage19},
	"reasoning-summary":           {content: "four", reasoning: "S", field: "reasoning_details", usage: usage19, check: kindOf(teachers.ReasoningSummary)},
	"content-parts":               {content: "four", reasoning: "two and two", field: "thinking", usage: usage19, check: kindOf(teachers.ReasoningFull)},
	"refusal":                     {usage: usage19, check: refuses("I cannot help.")},
	"terminator-leaked":           {content: "four<|close|>", usage: usage19, flags: []string{teachers.FlagControlTokens}},
	"tools-in-reasoning": {reasoning: "so I call <|tool_call_begin|>w<|tool_call_end|>", field: "reasoning", usage: usage19,
		flags: []string{teachers.FlagControlTokens}},
	"whole-message-at-the-end": {content: "four", usage: usage19},

	"tools-no-index": {finish: "tool_calls", usage: usage19, argsValid: yes(true), calls: []chat.ToolCall{call("t1", "a", `{}`), call("t2", "b", `{"y":2}`)}},
	"tools-no-id":    {finish: "tool_calls", usage: usage19, argsValid: yes(true), calls: []chat.ToolCall{call("", "a", `{"x":1}`), call("", "b", `{}`)}},
	"function-call":  {finish: "function_call", usage: usage19, argsValid: yes(true), calls: []chat.ToolCall{call("", "a", `{"x":1}`)}},

	"finish-empty":        {content: "four", usage: usage19},
	"finish-twice":        {content: "four", usage: usage19},
	"finish-only-done":    {class: teachers.ClassTruncated, words: "without a finish reason", requests: 5},
	"finish-abort":        {class: teachers.ClassTruncated, words: "abort", requests: 5},
	"finish-error":        {class: teachers.ClassServer, words: `finish_reason "error"`, requests: 5},
	"finish-no-resource":  {content: "four", again: teachers.ClassOverloaded},
	"finish-native":       {content: "four", usage: usage19},
	"error-after-whole":   {content: "four", flags: []string{teachers.FlagErrorAfterFinish}},
	"error-before-finish": {class: teachers.ClassServer, words: "slot failed", requests: 5},

	"usage-deepseek":       {content: "four", usage: &chat.Usage{PromptTokens: 19, CachedTokens: 16, CompletionTokens: 13, ReasoningTokens: 5}},
	"usage-null-details":   {content: "four", usage: usage19},
	"usage-zero":           {content: "four"},
	"usage-in-every-event": {content: "four", usage: usage19},
	"usage-cost":           {content: "four", usage: usage19},

	"blank-lines-before-json": {content: "four", usage: usage19},
	"processing-comments":     {content: "four", usage: usage19},
	"joined-events":           {content: "four", usage: usage19},
	"named-events":            {content: "four"},
	"nan-logprob": {content: "four", usage: usage19, flags: []string{teachers.FlagLogprobGap}, check: func(t *testing.T, a *teachers.Answer) {
		if a.Logprobs == nil || a.Logprobs.Len() != 2 || a.Logprobs.Gaps() != 2 {
			t.Errorf("logprobs %+v: what is no number must be null", a.Logprobs)
		}
	}},

	"error-flat":        {class: teachers.ClassServer, words: "engine died", requests: 5},
	"error-spaced":      {class: teachers.ClassServer, words: "upstream failed", requests: 5},
	"error-and-choices": {class: teachers.ClassServer, words: "Provider disconnected", requests: 5},
	"error-rate-in-200": {content: "four", again: teachers.ClassRateLimited},

	"html-502":               {content: "four", again: teachers.ClassServer},
	"html-200":               {class: teachers.ClassMalformed, words: "please log in", requests: 5},
	"overloaded-429":         {content: "four", again: teachers.ClassRateLimited},
	"content-filter-400":     {class: teachers.ClassBadRequest, words: "high risk", requests: 1},
	"too-long-moonshot":      {class: teachers.ClassContextOverflow, words: "exceeded model token limit", requests: 1},
	"too-long-input":         {class: teachers.ClassContextOverflow, words: "too long", requests: 1},
	"reasoning-not-returned": {class: teachers.ClassBadRequest, words: "Missing reasoning_content", requests: 1},
	"payment-402":            {class: teachers.ClassQuota, words: "Insufficient Balance", requests: 1},
	"wrong-platform-401":     {class: teachers.ClassAuth, words: "Invalid Authentication", requests: 1},
	"conflict-409":           {content: "four", again: teachers.ClassServer},
	"timeout-408":            {content: "four", again: teachers.ClassTimeout},
	"too-large-413":          {class: teachers.ClassContextOverflow, requests: 1},
	"code-number":            {class: teachers.ClassBadRequest, words: "bad parameter", requests: 1},
	"error-text":             {class: teachers.ClassNotFound, words: "try pulling it first", requests: 1},
	"other-model": {content: "four", usage: usage19, check: func(t *testing.T, a *teachers.Answer) {
		if a.Model != "m-2026-fallback" || a.Fingerprint != "fp_9" {
			t.Errorf("model %q and fingerprint %q", a.Model, a.Fingerprint)
		}
	}},
}

// messageCases are those of the messages protocol.
var messageCases = map[string]wireCase{
	"messages-usage": {content: "four", finish: "end_turn", usage: messageUsage, check: func(t *testing.T, a *teachers.Answer) {
		price := teachers.Price{Input: 10, CachedInput: 1, CacheWrite: 12.5, Output: 50}
		if got := price.Cost(*a.Usage); got != 70+10+25+650 {
			t.Errorf("cost %d micro-dollars, want %d: 7 in full, 10 cached, 2 written", got, 70+10+25+650)
		}
	}},
	"messages-usage-at-the-end": {content: "four", finish: "end_turn", usage: &chat.Usage{PromptTokens: 19, CachedTokens: 10, CacheWriteTokens: 2, CompletionTokens: 13, ReasoningTokens: 5}},
	"messages-thinking": {content: "four", reasoning: "two and two", field: "thinking", finish: "end_turn", usage: messageUsage, check: func(t *testing.T, a *teachers.Answer) {
		if deref(a.Message.ReasoningSignature) != "c2ln" {
			t.Errorf("signature %v", a.Message.ReasoningSignature)
		}
		kindOf(teachers.ReasoningFull)(t, a)
	}},
	"messages-redacted": {content: "four", finish: "end_turn", usage: messageUsage, flags: []string{teachers.FlagReasoningHidden}},
	"messages-interleaved": {content: "four", reasoning: "one\n\ntwo", field: "thinking", finish: "end_turn", usage: messageUsage, check: func(t *testing.T, a *teachers.Answer) {
		if a.Message.ReasoningSignature != nil {
			t.Error("a signature of one block was given for the text of two")
		}
	}},
	"messages-tools":            {finish: "tool_use", usage: messageUsage, argsValid: yes(true), calls: []chat.ToolCall{call("t1", "a", `{"x":1}`), call("t2", "b", `{}`)}},
	"messages-tools-at-once":    {finish: "tool_use", usage: messageUsage, argsValid: yes(true), calls: []chat.ToolCall{call("t1", "a", `{"x":1}`)}},
	"messages-tools-cut":        {finish: "max_tokens", usage: messageUsage, argsValid: yes(false), calls: []chat.ToolCall{call("t1", "a", `{"x":`)}},
	"messages-server-tools":     {content: "four", finish: "end_turn", usage: messageUsage, flags: []string{teachers.FlagOtherBlocks}},
	"messages-refusal":          {finish: "refusal", usage: messageUsage},
	"messages-context-exceeded": {content: "four", finish: "model_context_window_exceeded", usage: messageUsage},
	"messages-pause":            {content: "fo", finish: "pause_turn", usage: messageUsage},
	"messages-no-stop-event":    {content: "four", finish: "end_turn", usage: messageUsage},
	"messages-no-stop-reason":   {class: teachers.ClassTruncated, words: "without a finish reason", requests: 5},
	"messages-cut":              {class: teachers.ClassTruncated, words: "without a finish reason", requests: 5},
	"messages-pings-only":       {class: teachers.ClassTimeout, words: "limits.no_progress", requests: 5},
	"messages-error-event":      {class: teachers.ClassServer, words: "Internal server error", requests: 5},
	"messages-unnamed-events":   {content: "four", finish: "end_turn", usage: usage19},
	"messages-json-for-stream":  {content: "four", finish: "end_turn", usage: messageUsage},
	"messages-think-tags":       {content: "four", reasoning: "two and two", field: "inline", finish: "end_turn", usage: messageUsage},
	"messages-new-event":        {content: "four", finish: "end_turn", usage: messageUsage},
}

// everyCase is what a right client makes of all cases.
func everyCase() map[string]wireCase {
	all := maps.Clone(wireCases)
	maps.Copy(all, trapCases)
	maps.Copy(all, messageCases)
	return all
}

// TestEveryCase asks the fake for every case, streamed as the client does, and
// reads the plain form of those that have one.
func TestEveryCase(t *testing.T) {
	s := teacherstest.NewCases(t)
	expected := everyCase()
	cases := teacherstest.Cases()
	asked := make([]*outcome, len(cases))
	for i := range cases {
		asked[i] = askCase(t, s.URL, &cases[i])
	}
	for i, c := range cases {
		want, ok := expected[c.Name]
		if !ok {
			t.Errorf("%s (%s) has no expectation; a right client: %s", c.Name, c.Source, c.Want)
			continue
		}
		delete(expected, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			checkCase(t, asked[i], want)
		})
		if want.class == "" && want.again == "" && c.Plain != "" {
			t.Run(c.Name+"/plain", func(t *testing.T) { readPlain(t, &c, want) })
		}
	}
	for name := range expected {
		t.Errorf("%s is expected and nobody serves it", name)
	}
}

// An outcome is an ask under way. They wait for backoffs and limits much longer
// than they work, so all are begun before the first is looked at.
type outcome struct {
	done  chan struct{}
	reply *teachers.Reply
	err   error
}

func begin(t *testing.T, config *teachers.Config) *outcome {
	t.Helper()
	c, r := client(t, config), request(t, config, "2+2?")
	o := &outcome{done: make(chan struct{})}
	go func() {
		defer close(o.done)
		o.reply, o.err = c.Ask(t.Context(), r)
	}()
	return o
}

func askCase(t *testing.T, url string, c *teacherstest.Case) *outcome {
	t.Helper()
	config := &teachers.Config{
		ID: "t", API: "openai", BaseURL: url, Model: "case-" + c.Name,
		Key: func() (string, error) { return canary, nil },
	}
	if everyCase()[c.Name].class == teachers.ClassTimeout {
		config.Limits = teachers.Limits{Idle: 700 * time.Millisecond, NoProgress: 900 * time.Millisecond}
	}
	if c.API != "" {
		config.API = c.API
	}
	return begin(t, config)
}

func checkCase(t *testing.T, o *outcome, want wireCase) {
	t.Helper()
	<-o.done
	reply, err := o.reply, o.err
	if want.class != "" {
		checkFailure(t, err, want)
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	a := parsed(t, reply)
	if want.again != "" {
		if n := teachers.Requests(reply.Attempts); n != 2 || reply.Attempts[0].Class != want.again {
			t.Errorf("%d requests, the first of class %q, want 2 and %q", n, reply.Attempts[0].Class, want.again)
		}
		want.usage = a.Usage
	} else if n := teachers.Requests(reply.Attempts); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	checkAnswer(t, a, want)
}

func readPlain(t *testing.T, c *teacherstest.Case, want wireCase) {
	t.Helper()
	format := teachers.FormatOpenAIJSON
	if c.API == "anthropic" {
		format = teachers.FormatAnthropicJSON
	}
	if c.Name == "reasoning-renamed" {
		want.field = "reasoning_content" // of two equal texts the one under the older name
	}
	a, err := teachers.Parse(format, []byte(c.Plain))
	if err != nil {
		t.Fatal(err)
	}
	checkAnswer(t, a, want)
}

// Every case of teachersim is one of ours, so that the table runs without it.
func TestFakeHasEveryCaseOfTheSimulator(t *testing.T) {
	s := startSim(t)
	var listed map[string]any
	s.get(t, "/admin/cases", &listed)
	have := map[string]bool{}
	for _, c := range teacherstest.Cases() {
		have[c.Name] = true
	}
	for model := range listed {
		if !have[strings.TrimPrefix(model, "case-")] {
			t.Errorf("%s is not among teacherstest.Cases", model)
		}
	}
}
