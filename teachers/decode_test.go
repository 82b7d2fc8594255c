package teachers_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// events joins chunks whose deltas are given, and ends the stream.
func events(finish string, deltas ...string) string {
	var b strings.Builder
	for _, d := range deltas {
		b.WriteString(`data: {"choices":[{"index":0,"delta":` + d + "}]}\n\n")
	}
	b.WriteString(`data: {"choices":[{"index":0,"delta":{},"finish_reason":"` + finish + "\"}]}\n\ndata: [DONE]\n\n")
	return b.String()
}

func TestTrapsOfTheWire(t *testing.T) {
	call := func(id, name, args string) chat.ToolCall {
		return chat.ToolCall{ID: id, Type: "function", Name: name, Arguments: args}
	}
	for name, c := range map[string]struct {
		raw  string
		want wireCase
	}{
		"a character cut between two events": {events("stop", "{\"content\":\"caf\xc3\"}", "{\"content\":\"\xa9\"}"), wireCase{content: "café"}},
		"a surrogate pair cut between two":   {events("stop", `{"content":"\ud83d"}`, `{"content":"\ude00!"}`), wireCase{content: "😀!"}},
		"half a surrogate pair":              {events("stop", `{"content":"a\ud83db"}`), wireCase{content: "a\uFFFDb", flags: []string{teachers.FlagBadUTF8}}},
		"every escape":                       {events("stop", `{"content":"\"\\\/\b\f\n\r\tA\u00e9\ud83d\ude00"}`), wireCase{content: "\"\\/\b\f\n\r\tAé😀"}},
		"a byte order mark":                  {"\xEF\xBB\xBF" + events("stop", `{"content":"a"}`), wireCase{content: "a"}},
		"two objects in one event":           {"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}{\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}\n\n", wireCase{content: "ab"}},
		"an event of two lines":              {"data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\ndata: \"finish_reason\":\"stop\"}]}\n\n", wireCase{content: "a"}},
		"data without blank lines":           {"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\ndata: {\"choices\":[{\"delta\":{\"content\":\"b\"},\"finish_reason\":\"stop\"}]}", wireCase{content: "ab"}},
		"a ping":                             {"event: ping\ndata: {\"type\":\"ping\"}\n\n" + events("stop", `{"content":"a"}`), wireCase{content: "a"}},
		"the message again at the end":       {"data: {\"choices\":[{\"delta\":{\"content\":\"ab\"}}]}\n\ndata: {\"choices\":[{\"delta\":{},\"message\":{\"content\":\"ab\"},\"finish_reason\":\"stop\"}]}\n\n", wireCase{content: "ab"}},
		"only a message":                     {"data: {\"choices\":[{\"message\":{\"content\":\"ab\"},\"finish_reason\":\"stop\"}]}\n\n", wireCase{content: "ab"}},
		"falsy errors":                       {"data: {\"error\":false,\"code\":null,\"message\":null,\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\n", wireCase{content: "a"}},

		"reasoning under two names, one late": {events("stop", `{"reasoning":"ab"}`, `{"reasoning_content":"a"}`, `{"reasoning_content":"b"}`, `{"content":"c"}`), wireCase{content: "c", reasoning: "ab", field: "reasoning_content"}},
		"reasoning that differs by name":      {events("stop", `{"reasoning":"abc","reasoning_content":"x"}`, `{"content":"c"}`), wireCase{content: "c", reasoning: "abc", field: "reasoning", flags: []string{teachers.FlagReasoningConflict}}},
		"reasoning details alone":             {events("stop", `{"reasoning_details":[{"type":"reasoning.text","text":"a"}]}`, `{"reasoning_details":[{"type":"reasoning.text","text":"b"},{"type":"reasoning.encrypted","data":"x"}]}`, `{"content":"c"}`), wireCase{content: "c", reasoning: "ab", field: "reasoning_details"}},
		"thinking parts in parts":             {events("stop", `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"a"}]}]}`, `{"content":[{"type":"text","text":"c"}]}`), wireCase{content: "c", reasoning: "a", field: "thinking"}},
		"think tags over many events":         {events("stop", `{"content":"<th"}`, `{"content":"ink>a"}`, `{"content":"</thi"}`, `{"content":"nk>\n\nc"}`), wireCase{content: "c", reasoning: "a", field: "inline"}},
		"think tag never closed":              {events("length", `{"content":"<think>a b"}`), wireCase{finish: "length", reasoning: "a b", field: "inline"}},
		"an empty think block":                {events("stop", `{"content":"<think>\n\n</think>\n\nc"}`), wireCase{content: "c"}},
		"talk about think tags":               {events("stop", `{"content":"Close it with `+"`</think>`"+`."}`), wireCase{content: "Close it with `</think>`.", flags: []string{teachers.FlagThinkTags}}},
		"think tags beside reasoning":         {events("stop", `{"reasoning":"a","content":"</think>c"}`), wireCase{content: "</think>c", reasoning: "a", field: "reasoning", flags: []string{teachers.FlagThinkTags}}},
		"tool tokens in the reasoning":        {events("stop", `{"reasoning":"<|tool_calls_section_begin|>"}`, `{"content":""}`), wireCase{reasoning: "<|tool_calls_section_begin|>", field: "reasoning", flags: []string{teachers.FlagControlTokens}}},
		"an operator is no token":             {events("stop", `{"content":"f <| x |> g <|> h"}`), wireCase{content: "f <| x |> g <|> h"}},

		"tools without ids":       {events("tool_calls", `{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{}"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{\"x\":1}"}}]}`), wireCase{finish: "tool_calls", calls: []chat.ToolCall{call("", "a", "{}"), call("", "a", `{"x":1}`)}, argsValid: yes(true)}},
		"tools without indexes":   {events("tool_calls", `{"tool_calls":[{"id":"1","function":{"name":"a","arguments":"{\"x\""}}]}`, `{"tool_calls":[{"function":{"arguments":":1}"}}]}`, `{"tool_calls":[{"id":"2","function":{"name":"b","arguments":"{}"}}]}`), wireCase{finish: "tool_calls", calls: []chat.ToolCall{call("1", "a", `{"x":1}`), call("2", "b", "{}")}, argsValid: yes(true)}},
		"an id in every fragment": {events("tool_calls", `{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{\"x\""}}]}`, `{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":":1}"}}]}`), wireCase{finish: "tool_calls", calls: []chat.ToolCall{call("1", "a", `{"x":1}`)}, argsValid: yes(true)}},
		"one id at two indexes":   {events("tool_calls", `{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":"{}"}},{"index":1,"id":"1","function":{"name":"b","arguments":"{}"}}]}`), wireCase{finish: "tool_calls", calls: []chat.ToolCall{call("1", "a", "{}"), call("1", "b", "{}")}, argsValid: yes(true)}},
		"an id that comes late":   {events("tool_calls", `{"tool_calls":[{"index":0,"function":{"name":"a","arguments":""}}]}`, `{"tool_calls":[{"index":0,"id":"1","function":{"arguments":"{}"}}]}`), wireCase{finish: "tool_calls", calls: []chat.ToolCall{call("1", "a", "{}")}, argsValid: yes(true)}},
		"a name in pieces":        {events("tool_calls", `{"tool_calls":[{"index":0,"id":"1","function":{"name":"get_"}}]}`, `{"tool_calls":[{"index":0,"function":{"name":"it","arguments":"{}"}}]}`), wireCase{finish: "tool_calls", calls: []chat.ToolCall{call("1", "get_it", "{}")}, argsValid: yes(true)}},
		"a function call":         {events("function_call", `{"function_call":{"name":"a","arguments":"{"}}`, `{"function_call":{"arguments":"}"}}`), wireCase{finish: "function_call", calls: []chat.ToolCall{call("", "a", "{}")}, argsValid: yes(true)}},

		"usage in every event":          {"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\ndata: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n", wireCase{content: "a", usage: &chat.Usage{PromptTokens: 5, CompletionTokens: 2}}},
		"usage of nulls":                {`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":null,"completion_tokens":null,"prompt_tokens_details":null}}`, wireCase{content: "a"}},
		"usage of zeros":                {`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":0,"completion_tokens":0}}`, wireCase{content: "a"}},
		"usage as floats and text":      {`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5.0,"completion_tokens":"2","prompt_cache_hit_tokens":3,"prompt_cache_miss_tokens":2}}`, wireCase{content: "a", usage: &chat.Usage{PromptTokens: 5, CachedTokens: 3, CompletionTokens: 2}}},
		"more cached than there are":    {`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"cached_tokens":9,"cache_creation_input_tokens":9}}`, wireCase{content: "a", usage: &chat.Usage{PromptTokens: 5, CachedTokens: 5, CompletionTokens: 2}}},
		"reasoning within completion":   {`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":9,"total_tokens":14,"completion_tokens_details":{"reasoning_tokens":7}}}`, wireCase{content: "a", usage: &chat.Usage{PromptTokens: 5, CompletionTokens: 9, ReasoningTokens: 7}}},
		"reasoning beside completion":   {`{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":9,"total_tokens":21,"completion_tokens_details":{"reasoning_tokens":7}}}`, wireCase{content: "a", usage: &chat.Usage{PromptTokens: 5, CompletionTokens: 16, ReasoningTokens: 7}}},
		"blank lines before plain JSON": {"\n\n\n" + `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}` + "\n", wireCase{content: "a"}},
		"comments before plain JSON":    {": keep-alive\n\n" + `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, wireCase{content: "a"}},
		"a reason nobody knows":         {events("repetition", `{"content":"a"}`), wireCase{content: "a", finish: "repetition"}},
		"no number for a logprob":       {`{"choices":[{"message":{"content":"a"},"finish_reason":"stop","logprobs":{"content":[{"token":"a","logprob":-Infinity},{"token":"b","logprob":NaN}]}}]}`, wireCase{content: "a", flags: []string{teachers.FlagLogprobGap}}},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := teachers.Parse(formatOf(c.raw), []byte(c.raw))
			if err != nil {
				t.Fatal(err)
			}
			checkAnswer(t, a, c.want)
		})
	}
}

func formatOf(raw string) string {
	if strings.Contains(raw, "data:") {
		return teachers.FormatOpenAIStream
	}
	return teachers.FormatOpenAIJSON
}

func TestWhatIsNoAnswer(t *testing.T) {
	for name, c := range map[string]struct{ raw, class, words string }{
		"nothing":                 {"", teachers.ClassEmpty, "without a body"},
		"blanks":                  {" \n", teachers.ClassEmpty, "without a body"},
		"comments":                {": x\n\ndata:\n\n", teachers.ClassEmpty, "no choice"},
		"DONE alone":              {"data: [DONE]\n\n", teachers.ClassEmpty, "no choice"},
		"no choices":              {`{"choices":[],"usage":{"prompt_tokens":0}}`, teachers.ClassEmpty, "no choice"},
		"DONE without a finish":   {"data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n", teachers.ClassTruncated, "finish reason"},
		"finish null":             {`{"choices":[{"message":{"content":"a"},"finish_reason":null}]}`, teachers.ClassTruncated, "finish reason"},
		"finish empty":            {`{"choices":[{"message":{"content":"a"},"finish_reason":""}]}`, teachers.ClassTruncated, "finish reason"},
		"finish abort":            {events("abort", `{"content":"a"}`), teachers.ClassTruncated, "abort"},
		"finish error":            {events("error", `{"content":"a"}`), teachers.ClassServer, "error"},
		"finish without resource": {events("insufficient_system_resource", `{"content":"a"}`), teachers.ClassOverloaded, "resource"},
		"an event cut":            {"data: {\"choices\":[{\"delta\":{\"content\":\"a", teachers.ClassTruncated, "middle"},
		"no JSON":                 {"data: hello\n\n", teachers.ClassMalformed, "not JSON"},
		"a list":                  {`[1]`, teachers.ClassMalformed, "not JSON"},
		"JSON and more":           {`{"choices":[]} x`, teachers.ClassMalformed, "not JSON"},
		"too deep":                {strings.Repeat(`{"a":`, 1000), teachers.ClassMalformed, "not JSON"},
		"an empty error":          {"data: {\"error\":{}}\n\n", teachers.ClassServer, "error"},
		"an error of text":        {`{"error":"model is loading"}`, teachers.ClassServer, "model is loading"},
		"an error with a space":   {"data: { \"error\" : {\"message\":\"upstream\"}}\n\n", teachers.ClassServer, "upstream"},
		"an error beside choices": {`{"error":{"message":"upstream"},"choices":[{"message":{"content":"a"},"finish_reason":"stop"}]}`, teachers.ClassServer, "upstream"},
		"a flat error":            {"data: {\"object\":\"error\",\"message\":\"engine\",\"code\":503}\n\n", teachers.ClassOverloaded, "engine"},
		"a detail":                {`{"detail":"Not now"}`, teachers.ClassServer, "Not now"},
		"an event of text":        {"event: error\ndata: engine died\n\n", teachers.ClassServer, "engine died"},
		"a rate limit in a 200":   {`{"error":{"message":"slow","code":429}}`, teachers.ClassRateLimited, "slow"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := teachers.Parse(formatOf(c.raw), []byte(c.raw))
			var e *teachers.Error
			if !errors.As(err, &e) || e.Class != c.class || !strings.Contains(e.Error(), c.words) {
				t.Errorf("answer %+v, error %v; want class %s and the words %q", a, err, c.class, c.words)
			}
		})
	}
	if _, err := teachers.Parse("fax", []byte("x")); err == nil || !strings.Contains(err.Error(), "fax") {
		t.Errorf("an unknown format: %v", err)
	}
}

func TestContentKeepsNullAndEmptyApart(t *testing.T) {
	for content, want := range map[string]*string{"null": nil, `""`: chat.Text(""), `"a"`: chat.Text("a"), "[]": chat.Text("")} {
		a, err := teachers.Parse(teachers.FormatOpenAIJSON, []byte(`{"choices":[{"message":{"content":`+content+`,"refusal":"no"},"finish_reason":"content_filter"}]}`))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, a.Message.Content); diff != "" || a.Refusal != "no" || a.Message.Role != chat.RoleAssistant {
			t.Errorf("content %s: %s, refusal %q", content, diff, a.Refusal)
		}
	}
}

func TestReasoningKind(t *testing.T) {
	for raw, want := range map[string]string{
		`"reasoning":"a"`: teachers.ReasoningFull,
		`"reasoning_details":[{"type":"reasoning.summary","summary":"a"}]`: teachers.ReasoningSummary,
		`"content":"<think>a</think>b"`:                                    teachers.ReasoningFull,
	} {
		a, err := teachers.Parse(teachers.FormatOpenAIJSON, []byte(`{"choices":[{"message":{`+raw+`},"finish_reason":"stop"}]}`))
		if err != nil || deref(a.Message.ReasoningKind) != want || deref(a.Message.ReasoningContent) != "a" {
			t.Errorf("%s: kind %q, reasoning %q, error %v", raw, deref(a.Message.ReasoningKind), deref(a.Message.ReasoningContent), err)
		}
	}
}

// Whatever bytes come: no panic, the same answer twice, and valid UTF-8.
func FuzzParse(f *testing.F) {
	f.Add(wholeStream)
	f.Add(events("tool_calls", `{"tool_calls":[{"index":0,"id":"1","function":{"name":"a","arguments":{"x":[1]}}}]}`, `{"content":[{"type":"thinking","thinking":"a"},"b"]}`))
	f.Add(`{"choices":[{"message":{"content":"\ud83d\u00"},"finish_reason":"stop","logprobs":{"content":[{"token":"a","logprob":null,"bytes":[256]}]}}],"usage":{"prompt_tokens":1e30}}`)
	f.Add("event: error\r\ndata:{\"message\":\"x\",\"code\":\"429\"}\r\n\r\n")
	f.Add("\xEF\xBB\xBF: c\n\ndata: {\"error\":{}}{}\ndata:[\n")
	f.Fuzz(func(t *testing.T, raw string) {
		for _, format := range []string{teachers.FormatOpenAIStream, teachers.FormatOpenAIJSON} {
			a, err := teachers.Parse(format, []byte(raw))
			b, again := teachers.Parse(format, []byte(raw))
			if (err == nil) != (again == nil) || !cmp.Equal(a, b) {
				t.Fatalf("two readings of the same bytes differ: %v %v", err, again)
			}
			if err != nil {
				var e *teachers.Error
				if !errors.As(err, &e) {
					t.Fatalf("error %v is no *Error", err)
				}
				continue
			}
			m := a.Message
			texts := []string{deref(m.Content), deref(m.ReasoningContent), a.Refusal, a.Finish, a.Model, a.Fingerprint}
			for _, c := range m.ToolCalls {
				texts = append(texts, c.ID, c.Type, c.Name, c.Arguments)
			}
			for _, s := range texts {
				if s != strings.ToValidUTF8(s, "") {
					t.Fatalf("%q is no valid UTF-8", s)
				}
			}
			if a.Finish == "" {
				t.Fatal("an answer without a finish reason")
			}
		}
	})
}
