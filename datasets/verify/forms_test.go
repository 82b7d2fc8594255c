package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

func made(t *testing.T, name string, o map[string]any) Verifier {
	t.Helper()
	v, err := New(name, o)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func TestContains(t *testing.T) {
	type m = map[string]any
	str := func(s string) *string { return &s }
	for _, tc := range []struct {
		name        string
		options     m
		answer      string
		gold, tests *string
		want        string
	}{
		{"one text", m{"text": "SELECT"}, "SELECT 1", nil, nil, "pass: all there"},
		{"not there", m{"text": "SELECT"}, "select 1", nil, nil, "fail: none there"},
		{"any case", m{"text": "SELECT", "case": false}, "select 1", nil, nil, "pass: all there"},
		{"all of several", m{"text": []any{"a", "b"}}, "b and a", nil, nil, "pass: all there"},
		{"some of all", m{"text": []any{"a", "z"}}, "b and a", nil, nil, "fail: some missing"},
		{"any of several", m{"text": []any{"a", "z"}, "match": "any"}, "b and a", nil, nil, "pass: some missing"},
		{"none of several", m{"text": []any{"x", "z"}, "match": "none"}, "b and a", nil, nil, "pass: none there"},
		{"one where none may be", m{"text": []any{"a", "z"}, "match": "none"}, "b and a", nil, nil, "fail: some missing"},
		{"a number is no part of another", m{}, "It is 118.", str("18"), nil, "fail: none there"},
		{"nor its beginning", m{}, "It is 1,800 or 180", str("18"), nil, "fail: none there"},
		{"but itself", m{}, "It is 118, or 18.", str("18"), nil, "pass: all there"},
		{"within a word, if asked for", m{"words": false}, "It is 118.", str("18"), nil, "pass: all there"},
		{"a sign is part of the text", m{}, "It is 4", str("-4"), nil, "fail: none there"},
		{"C is in C#", m{"text": "C#"}, "I use C# here", nil, nil, "pass: all there"},
		{"white space is white space", m{"text": "New  York"}, "in New\nYork", nil, nil, "pass: all there"},
		{"NFC and NFD", m{"text": "caf\u00e9"}, "un cafe\u0301 noir", nil, nil, "pass: all there"},
		{"Chinese has no spaces", m{"text": "北京"}, "我在北京工作", nil, nil, "pass: all there"},
		{"tests go before gold", m{}, "a", str("b"), str(`["a"]`), "pass: all there"},
		{"tests are one text", m{}, "say: hello world!", nil, str("hello world"), "pass: all there"},
		{"or a JSON text", m{}, "say: [1]", nil, str(`"[1]"`), "pass: all there"},
		{"tests of another kind", m{}, "a", nil, str(`[1, 2]`), "unknown: texts of the task not readable"},
		{"no text", m{}, "a", nil, nil, "unknown: task has no text"},
		{"an empty text", m{}, "a", str("  "), nil, "unknown: task has no text"},
		{"an empty answer", m{"text": "a"}, "", nil, nil, "fail: none there"},
	} {
		v := made(t, "contains", tc.options).Verify(context.Background(), Input{Content: tc.answer, Gold: tc.gold, Tests: tc.tests})
		if got := v.Verdict + ": " + v.Reason; got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	for fault, o := range map[string]m{
		"did you mean \"all\"":         {"text": "a", "match": "al"},
		"want texts, got 5":            {"text": []any{5}},
		"want a text or a list":        {"text": 5},
		"is an empty list":             {"text": []any{}},
		"holds an empty text":          {"text": []any{" "}},
		"did you mean \"words\"":       {"text": "a", "word": true},
		"case: want true or false":     {"text": "a", "case": "no"},
		"has 1001 texts, want at most": {"text": slicesOf("a", 1001)},
	} {
		if _, err := New("contains", o); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v: %v, want %s", o, err, fault)
		}
	}
}

func slicesOf(s string, n int) []any {
	out := make([]any, n)
	for i := range out {
		out[i] = s
	}
	return out
}

func TestFormat(t *testing.T) {
	type m = map[string]any
	reasoned := func(text string) *chat.Message { return &chat.Message{ReasoningContent: &text} }
	for _, tc := range []struct {
		name    string
		options m
		answer  string
		message *chat.Message
		want    string
	}{
		{"plain", m{}, "4", nil, "pass: well formed"},
		{"thoughts, then an answer", m{}, "<think>2+2</think>4", nil, "pass: well formed"},
		{"no answer after them", m{}, "<think>2+2</think> \n", nil, "fail: no answer"},
		{"no answer at all", m{}, "  ", nil, "fail: no answer"},
		{"a call is an answer", m{}, "", &chat.Message{ToolCalls: []chat.ToolCall{{Name: "f"}}}, "pass: well formed"},
		{"not closed", m{}, "<think>2+2 is 4", nil, "fail: thoughts not closed"},
		{"opened twice", m{}, "<think>a<think>b</think>4", nil, "fail: thoughts opened twice"},
		{"closed twice", m{}, "<think>a</think>b</think>4", nil, "fail: thoughts closed without being opened"},
		{"two blocks", m{}, "<think>a</think>4<think>b</think>5", nil, "fail: thoughts inside the answer"},
		{"closed only", m{}, "a</think>4", nil, "fail: thoughts closed without being opened"},
		{"after a word", m{}, "So <think>a</think>4", nil, "fail: thoughts inside the answer"},
		{"talk about tags", m{}, "Write `<think>` first:\n```xml\n<think>x</think>\n```\ndone", nil, "pass: well formed"},
		{"talk about tags in thoughts", m{}, "<think>the `<think>` tag</think>4", nil, "pass: well formed"},
		{"a span that never ends hides nothing", m{}, "` <think>x", nil, "fail: thoughts inside the answer"},
		{"required and there", m{"think": "required"}, "<think>a</think>4", nil, "pass: well formed"},
		{"required, in the field", m{"think": "required"}, "4", reasoned("a"), "pass: well formed"},
		{"required and missing", m{"think": "required"}, "4", nil, "fail: no thoughts"},
		{"required and empty", m{"think": "required"}, "<think> </think>4", nil, "fail: no thoughts"},
		{"absent", m{"think": "absent"}, "<think>a</think>4", nil, "fail: thoughts"},
		{"absent, but in the field", m{"think": "absent"}, "4", reasoned("a"), "fail: thoughts"},
		{"twice", m{}, "<think>a</think>4", reasoned("a"), "fail: thoughts twice"},
		{"other tags", m{"tags": []any{"<reasoning>", "</reasoning>"}, "think": "required"}, "<reasoning>a</reasoning><think>", nil, "pass: well formed"},
		{"sections", m{"sections": []any{`(?m)^## Plan$`, `(?m)^## Answer$`}}, "## Plan\na\n## Answer\nb", nil, "pass: well formed"},
		{"in another order", m{"sections": []any{`(?m)^## Plan$`, `(?m)^## Answer$`}}, "## Answer\nb\n## Plan\na", nil, "fail: section 2 out of order"},
		{"one is missing", m{"sections": []any{`(?m)^## Plan$`, `(?m)^## Answer$`}}, "## Plan\na", nil, "fail: no section 2"},
		{"one is there twice", m{"sections": []any{`A:`}}, "A: 1 A: 2", nil, "fail: section 1 twice"},
		{"may be there twice", m{"sections": []any{`A:`}, "once": false}, "A: 1 A: 2", nil, "pass: well formed"},
		{"not in the thoughts", m{"sections": []any{`A:`}}, "<think>A: 1</think> 2", nil, "fail: no section 1"},
	} {
		v := made(t, "format", tc.options).Verify(context.Background(), Input{Content: tc.answer, Answer: tc.message})
		if got := v.Verdict + ": " + v.Reason; got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	for fault, o := range map[string]m{
		"did you mean \"required\"":      {"think": "require"},
		"want two tags that differ":      {"tags": []any{"<t>"}},
		"pattern 1: error parsing":       {"sections": []any{"("}},
		"pattern 2 matches nothing":      {"sections": []any{"a", "b*"}},
		"sections: want a list of texts": {"sections": 4},
	} {
		if _, err := New("format", o); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v: %v, want %s", o, err, fault)
		}
	}
}

const weatherTools = `[{"type":"function","function":{"name":"weather","parameters":{"type":"object",
 "properties":{"city":{"type":"string"},"days":{"type":"number","default":1},"tags":{"type":"array"}},"required":["city"],"additionalProperties":false}}},
 {"name":"stop","input_schema":{"type":"object"}},{"name":"ping"}]`

func TestToolCalls(t *testing.T) {
	type m = map[string]any
	for _, tc := range []struct {
		name, calls, gold string
		options           m
		want              string
	}{
		{"the call", `weather {"city":"Rome"}`, `{"name":"weather","arguments":{"city":"Rome"}}`, nil, "pass: as expected"},
		{"arguments as text", `weather {"city":"Rome"}`, `{"name":"weather","arguments":"{\"city\": \"Rome\"}"}`, nil, "pass: as expected"},
		{"as an endpoint writes it", `weather {"city":"Rome"}`, `[{"type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}}]`, nil, "pass: as expected"},
		{"numbers by value", `weather {"city":"Rome","days":1.0}`, `{"name":"weather","arguments":{"city":"Rome","days":1}}`, nil, "pass: as expected"},
		{"and powers", `weather {"city":"Rome","days":1e2}`, `{"name":"weather","arguments":{"city":"Rome","days":100}}`, nil, "pass: as expected"},
		{"a text is no number", `ping {"n":"1"}`, `{"name":"ping","arguments":{"n":1}}`, nil, "fail: other arguments"},
		{"true is not 1", `ping {"n":true}`, `{"name":"ping","arguments":{"n":1}}`, nil, "fail: other arguments"},
		{"another city", `weather {"city":"Oslo"}`, `{"name":"weather","arguments":{"city":"Rome"}}`, nil, "fail: other arguments"},
		{"another tool", `stop {}`, `{"name":"weather","arguments":{"city":"Rome"}}`, nil, "fail: another tool"},
		{"a tool that nobody declared", `rain {}`, `{"name":"weather","arguments":{"city":"Rome"}}`, nil, "fail: unknown tool"},
		{"against the schema", `weather {"town":"Rome"}`, `{"name":"weather","arguments":{"city":"Rome"}}`, nil, "fail: arguments do not fit the tool's schema: required"},
		{"broken JSON", `weather {"city":`, `{"name":"weather","arguments":{"city":"Rome"}}`, nil, "fail: arguments are no JSON object"},
		{"a list of arguments", `ping [1]`, `{"name":"ping"}`, nil, "fail: arguments are no JSON object"},
		{"no arguments", `ping `, `{"name":"ping"}`, nil, "pass: as expected"},
		{"no call", ``, `{"name":"ping"}`, nil, "fail: no call"},
		{"none expected", ``, `[]`, nil, "pass: as expected"},
		{"none expected, and one made", `ping {}`, `[]`, nil, "fail: a call where none is expected"},
		{"two in another order", "ping {\"n\":1}\nping {\"n\":2}", `[{"name":"ping","arguments":{"n":2}},{"name":"ping","arguments":{"n":1}}]`, nil, "pass: as expected"},
		{"where the order counts", "ping {\"n\":1}\nping {\"n\":2}", `[{"name":"ping","arguments":{"n":2}},{"name":"ping","arguments":{"n":1}}]`, m{"order": true}, "fail: calls in another order"},
		{"one twice is not two", "ping {\"n\":1}\nping {\"n\":1}", `[{"name":"ping","arguments":{"n":2}},{"name":"ping","arguments":{"n":1}}]`, nil, "fail: other arguments"},
		{"one too many", "ping {}\nstop {}", `{"name":"ping"}`, nil, "fail: more calls than expected"},
		{"one more is allowed", "ping {}\nstop {}", `{"name":"ping"}`, m{"extra_calls": true}, "pass: as expected"},
		{"one too few", "ping {}", `[{"name":"ping"},{"name":"stop"}]`, nil, "fail: calls missing"},
		{"an argument too many", `weather {"city":"Rome","days":2}`, `{"name":"weather","arguments":{"city":"Rome"}}`, nil, "fail: other arguments"},
		{"that is allowed", `weather {"city":"Rome","days":2}`, `{"name":"weather","arguments":{"city":"Rome"}}`, m{"extra_args": "any"}, "pass: as expected"},
		{"that is the default", `weather {"city":"Rome","days":1.0}`, `{"name":"weather","arguments":{"city":"Rome"}}`, m{"extra_args": "default"}, "pass: as expected"},
		{"that is not the default", `weather {"city":"Rome","days":2}`, `{"name":"weather","arguments":{"city":"Rome"}}`, m{"extra_args": "default"}, "fail: other arguments"},
		{"each expected call has its own", "ping {\"a\":1,\"b\":2}\nping {\"a\":1}", `[{"name":"ping","arguments":{"a":1}},{"name":"ping","arguments":{"a":1,"b":2}}]`, m{"extra_args": "any"}, "pass: as expected"},
		{"lists have an order", `weather {"city":"Rome","tags":["a","b"]}`, `{"name":"weather","arguments":{"city":"Rome","tags":["b","a"]}}`, nil, "fail: other arguments"},
		{"or none", `weather {"city":"Rome","tags":["a","b"]}`, `{"name":"weather","arguments":{"city":"Rome","tags":["b","a"]}}`, m{"unordered_lists": true}, "pass: as expected"},
		{"but count", `weather {"city":"Rome","tags":["a","a"]}`, `{"name":"weather","arguments":{"city":"Rome","tags":["b","a"]}}`, m{"unordered_lists": true}, "fail: other arguments"},
		{"case counts", `weather {"city":"rome"}`, `{"name":"weather","arguments":{"city":"Rome"}}`, nil, "fail: other arguments"},
		{"or not", `weather {"city":"rome"}`, `{"name":"weather","arguments":{"city":"Rome"}}`, m{"case": false}, "pass: as expected"},
		{"any valid call", `weather {"city":"Oslo"}`, ``, m{"expect": "any"}, "pass: valid"},
		{"any, but none made", ``, ``, m{"expect": "any"}, "fail: no call"},
		{"none wanted", ``, ``, m{"expect": "none"}, "pass: as expected"},
		{"none wanted, and one made", `ping {}`, ``, m{"expect": "none"}, "fail: a call where none is expected"},
		{"nothing to compare with", `ping {}`, ``, nil, "unknown: task has no expected call"},
		{"a gold answer in words", `ping {}`, `call ping`, nil, "unknown: expected call not readable"},
		{"a gold answer of another kind", `ping {}`, `{"tool":"ping"}`, nil, "unknown: expected call not readable"},
		{"more than can be judged", strings.TrimSuffix(strings.Repeat("ping {}\n", 65), "\n"), `{"name":"ping"}`, nil, "unknown: too many calls to judge"},
	} {
		message := &chat.Message{}
		for line := range strings.Lines(tc.calls) {
			name, args, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			message.ToolCalls = append(message.ToolCalls, chat.ToolCall{Name: name, Arguments: args})
		}
		in := Input{Answer: message, Prompt: &chat.Prompt{Tools: weatherTools}}
		if tc.gold != "" {
			in.Gold = &tc.gold
		}
		v := made(t, "tool_calls", tc.options).Verify(context.Background(), in)
		if got := v.Verdict + ": " + v.Reason; got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
		if again := made(t, "tool_calls", tc.options).Verify(context.Background(), in); fmt.Sprint(again.Verdict, again.Reason) != fmt.Sprint(v.Verdict, v.Reason) {
			t.Errorf("%s: %v, then %v", tc.name, v, again)
		}
	}
	for tools, want := range map[string]string{
		"":                      "unknown: prompt declares no tools",
		"{":                     "unknown: tools of the prompt not readable",
		`[{"description":"x"}]`: "unknown: tools of the prompt not readable",
		`[{"name":"ping","parameters":{"$ref":"https://x.example/s"}}]`: "unknown: schema of tool ping not usable",
	} {
		gold := `{"name":"ping"}`
		v := made(t, "tool_calls", nil).Verify(context.Background(), Input{Gold: &gold, Prompt: &chat.Prompt{Tools: tools}, Answer: &chat.Message{ToolCalls: []chat.ToolCall{{Name: "ping", Arguments: "{}"}}}})
		if got := v.Verdict + ": " + v.Reason; got != want {
			t.Errorf("tools %s: %s, want %s", tools, got, want)
		}
	}
	if _, err := New("tool_calls", m{"extra_args": "defaults"}); err == nil || !strings.Contains(err.Error(), `did you mean "default"`) {
		t.Error(err)
	}
}

func FuzzToolCalls(f *testing.F) {
	f.Add(weatherTools, `{"name":"weather","arguments":{"city":"Rome"}}`, "weather", `{"city":"Rome"}`)
	f.Add("[", `[[]]`, "", `{"a":1e999}`)
	v, err := New("tool_calls", map[string]any{"extra_args": "default", "unordered_lists": true})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, tools, gold, name, args string) {
		in := Input{Gold: &gold, Prompt: &chat.Prompt{Tools: tools}, Answer: &chat.Message{ToolCalls: []chat.ToolCall{{Name: name, Arguments: args}}}}
		got := v.Verify(context.Background(), in)
		if got.Reason == "internal error" || got.Verdict == "" {
			t.Fatalf("%v", got)
		}
	})
}

func FuzzForms(f *testing.F) {
	f.Add("<think>a</think>b", "b")
	f.Add("```\n<think>`` ` ``", "é")
	format, err := New("format", map[string]any{"sections": []any{"[a-z]+:", "x{1,20}"}})
	if err != nil {
		f.Fatal(err)
	}
	contains, err := New("contains", map[string]any{"case": false})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer, gold string) {
		for _, v := range []Verifier{format, contains} {
			if got := v.Verify(context.Background(), Input{Content: answer, Gold: &gold}); got.Reason == "internal error" {
				t.Fatalf("%s: %v", v.Name(), got)
			}
		}
	})
}

// replies is a checker that is no process.
type replies func(line []byte) ([]byte, error)

func (r replies) Check(_ context.Context, _ *Command, line []byte) ([]byte, error) { return r(line) }

func TestCommand(t *testing.T) {
	v := made(t, "command", map[string]any{"command": []any{"check", "--strict"}, "version": "3"})
	c := v.(Commander).Command()
	if v.Version() != "1+3" || c.Argv[1] != "--strict" || c.Timeout != 10e9 {
		t.Errorf("version %s, command %v", v.Version(), c)
	}
	gold := "4"
	in := Input{Content: "four\n", Gold: &gold, Meta: `{"level":2}`, Prompt: &chat.Prompt{System: "s", Messages: []chat.Message{{Role: "user", Content: chat.Text("2+2?")}}}}
	var asked map[string]any
	for reply, want := range map[string]string{
		`{"verdict":"pass","reason":"equal","score":0.5,"extracted":"4"}`: "pass: equal 0.5 4",
		`{"verdict":"fail"}`:                        "fail: ",
		`{"verdict":"unknown","reason":"a\u0007b"}`: "unknown: a b",
		`{"verdict":"good"}`:                        "unknown: reply without a verdict",
		`{"reason":"x"}`:                            "unknown: reply without a verdict",
		`pass`:                                      "unknown: reply not readable",
		``:                                          "unknown: reply not readable",
		`{"verdict":"pass","score":1e999}`:          "unknown: reply not readable",
		`{"verdict":"pass","reason":"` + strings.Repeat("x", MaxCommandReply) + `"}`: "unknown: reply not readable",
	} {
		in.Checkers = replies(func(line []byte) ([]byte, error) {
			if err := json.Unmarshal(line, &asked); err != nil || strings.Contains(string(line), "\n") {
				t.Errorf("the question is no line of JSON: %s", line)
			}
			return []byte(reply), nil
		})
		got := v.Verify(context.Background(), in)
		text := got.Verdict + ": " + got.Reason
		if got.Score != nil {
			text += fmt.Sprintf(" %v %s", *got.Score, *got.Extracted)
		}
		if text != want {
			t.Errorf("%.60s: %s, want %s", reply, text, want)
		}
	}
	if asked["content"] != "four\n" || asked["gold"] != "4" || asked["tests"] != nil || asked["meta"].(map[string]any)["level"] != 2.0 || asked["id"] == "" {
		t.Errorf("the question is %v", asked)
	}
	for err, want := range map[error]string{
		fmt.Errorf("%w took too long", ErrChecker): "checker took too long",
		errors.New("disk is full"):                 "no reply",
	} {
		in.Checkers = replies(func([]byte) ([]byte, error) { return nil, err })
		if got := v.Verify(context.Background(), in); got.Verdict != datasets.Unknown || got.Reason != want {
			t.Errorf("%v: %v, want %s", err, got, want)
		}
	}
	in.Checkers = nil
	if got := v.Verify(context.Background(), in); got.Verdict != datasets.Unknown || got.Reason != "no commands run here" {
		t.Errorf("%v", got)
	}
	for fault, o := range map[string]map[string]any{
		"command: is missing":          {"version": "1"},
		"version: want a short text":   {"command": "c"},
		"timeout: want 10ms to":        {"command": "c", "version": "1", "timeout": "1ms"},
		"did you mean \"command\"":     {"comand": "c", "version": "1"},
		"holds a zero character":       {"command": "a\x00b", "version": "1"},
		"command: want a list of text": {"command": 4, "version": "1"},
	} {
		if _, err := New("command", o); err == nil || !strings.Contains(err.Error(), fault) {
			t.Errorf("%v: %v, want %s", o, err, fault)
		}
	}
}
