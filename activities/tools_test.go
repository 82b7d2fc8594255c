package activities

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// toolPrompts are conversations as agent data has them: a history with calls
// and their results, tools as a list and as JSON text, arguments as text and as
// an object.
const toolPrompts = `{"id":"history","messages":[{"role":"system","content":"Use the tools."},{"role":"user","content":"Weather in Oslo?"},{"role":"assistant","content":null,"reasoning_content":"I need the tool.","tool_calls":[{"id":"call_1","type":"function","function":{"name":"get_weather","arguments":"{\"city\": \"Oslo\"}"}}]},{"role":"tool","tool_call_id":"call_1","content":"{\"celsius\": 7}"},{"role":"assistant","content":"7 °C."},{"role":"user","content":"And in Rome?"}],"tools":[{"type":"function","function":{"name":"get_weather","description":"current weather","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}]}
{"id":"object","messages":[{"role":"user","content":"Weather in Bonn?"},{"role":"assistant","content":"","tool_calls":[{"id":"call_9","function":{"name":"get_weather","arguments":{"city":"Bonn","days":[1,2]}}}]},{"role":"tool","tool_call_id":"call_9","content":"3"},{"role":"user","content":"Say it in words."}],"tools":"[{\"type\":\"function\",\"function\":{\"name\":\"get_weather\",\"parameters\":{\"type\":\"object\"}}}]"}
{"id":"plain","messages":"[{\"role\":\"user\",\"content\":\"Hello\"}]"}
`

func TestToolsFromFileToRow(t *testing.T) {
	huge := `{"text": "` + strings.Repeat("very long ", 200_000) + `"}`
	replies := map[string][]chat.ToolCall{
		"And in Rome?":     {{ID: "call_2", Type: "function", Name: "get_weather", Arguments: `{"city": "Rome"}`}, {ID: "call_3", Type: "function", Name: "get_weather", Arguments: `{"city":"Rome","days":2 }`}},
		"Say it in words.": {{ID: "call_4", Type: "function", Name: "say", Arguments: huge}},
		"Hello":            {{ID: "call_5", Type: "function", Name: "wave", Arguments: `{"hand": "left`}},
	}
	for _, api := range []string{"openai", "anthropic"} {
		t.Run(api, func(t *testing.T) {
			var mu sync.Mutex
			bodies := map[string]map[string]any{}
			server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
				var body map[string]any
				if err := json.Unmarshal(r.Body, &body); err != nil {
					t.Error(err)
				}
				mu.Lock()
				bodies[r.Prompt] = body
				mu.Unlock()
				finish := map[string]string{"openai": "tool_calls", "anthropic": "tool_use"}[api]
				return teacherstest.Reply{ToolCalls: replies[r.Prompt], Finish: finish}
			})
			w := newWorld(t)
			w.file("p.jsonl", toolPrompts)
			_, built := w.build(fmt.Sprintf(`name: d
prompts: [{path: p.jsonl, fields: {messages: messages, tools: tools, meta: [id]}}]
teachers: [{id: t, api: %s, model: m, base_url: %q, params: {max_tokens: 100}}]
`, api, server.URL))
			if built.Candidates != 3 || built.Accepted != 3 {
				t.Fatalf("%+v", built)
			}
			if tools, _ := bodies["And in Rome?"]["tools"].([]any); len(tools) != 1 {
				t.Errorf("tools of the request: %v", bodies["And in Rome?"]["tools"])
			}
			if _, has := bodies["Hello"]["tools"]; has {
				t.Error("a request has the tools of another prompt")
			}
			sentText, _ := json.Marshal(bodies["And in Rome?"]["messages"])
			for _, part := range []string{"call_1", "Oslo", "celsius", "7 °C."} {
				if !strings.Contains(string(sentText), part) {
					t.Errorf("%s is not in the request's history: %s", part, sentText)
				}
			}
			valid := map[string]bool{"And in Rome?": true, "Say it in words.": true, "Hello": false}
			for _, c := range rows[datasets.Candidate](w, "d", datasets.TableCandidates) {
				question := lastUserText(c.Messages)
				calls := c.Messages[len(c.Messages)-1].ToolCalls
				if got, want := fmt.Sprint(calls), fmt.Sprint(replies[question]); got != want {
					t.Errorf("%s: calls %.200s, want %.200s", question, got, want)
				}
				if c.ArgsValid == nil || *c.ArgsValid != valid[question] {
					t.Errorf("%s: args valid %v", question, c.ArgsValid)
				}
				if (question == "Hello") != (c.Tools == nil) {
					t.Errorf("%s: tools %v", question, c.Tools)
				}
			}
			for _, r := range rows[datasets.Row](w, "d", datasets.TableTrain) {
				if lastUserText(r.Messages) != "And in Rome?" {
					continue
				}
				want := `s:Use the tools. | u:Weather in Oslo? | a:get_weather#call_1({"city": "Oslo"}) | t:{"celsius": 7} | a:7 °C. | u:And in Rome? | ` +
					`A:get_weather#call_2({"city": "Rome"})get_weather#call_3({"city":"Rome","days":2 })`
				if got := inShort(r.Messages); got != want {
					t.Errorf("%s\nwant\n%s", got, want)
				}
				if m := r.Messages[2]; m.ReasoningContent == nil || *m.ReasoningContent != "I need the tool." || *r.Messages[3].ToolCallID != "call_1" {
					t.Errorf("%+v", m)
				}
			}
			w.verify("d")
			dir := filepath.Join(t.TempDir(), "out")
			if _, err := views.Export(t.Context(), w.a.Catalog, w.manifest("d"), views.ViewMessages, views.Folder(dir), views.Options{}); err != nil {
				t.Error(err)
			}
		})
	}
}

func lastUserText(messages []chat.Message) string {
	p := chat.Prompt{Messages: messages}
	return p.LastUser()
}

// Calls as endpoints spoil them: duplicate ids, gaps between indexes, arguments
// as an object, in pieces that are cut anywhere, without end. What was written
// is kept as it was written, and flagged where it is no JSON.
func TestHostileToolCalls(t *testing.T) {
	event := func(calls string) string {
		return `data: {"choices":[{"index":0,"delta":{"tool_calls":` + calls + `},"finish_reason":null}]}` + "\n\n"
	}
	const end = `data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":3,"completion_tokens":5}}` + "\n\ndata: [DONE]\n\n"
	for _, tc := range []struct {
		name, stream, want string
		valid              bool
	}{
		{"gaps between indexes", event(`[{"index":3,"id":"a","function":{"name":"f","arguments":"{\"x\""}}]`) + event(`[{"index":7,"id":"b","function":{"name":"g","arguments":"{}"}}]`) + event(`[{"index":3,"function":{"arguments":":1}"}}]`),
			`A:f#a({"x":1})g#b({})`, true},
		{"one id twice", event(`[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}},{"index":1,"id":"a","function":{"name":"g","arguments":"[1]"}}]`),
			`A:f#a({})g#a([1])`, true},
		{"an object", event(`[{"index":0,"id":"a","function":{"name":"f","arguments":{"x": 1, "y":[true,null]}}}]`), `A:f#a({"x": 1, "y":[true,null]})`, true},
		{"cut inside a character", event(`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":\"\ud83d"}}]`) + event(`[{"index":0,"function":{"arguments":"\ude00\"}"}}]`), `A:f#a({"x":"😀"})`, true},
		{"never ended", event(`[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\": [1, 2"}}]`), `A:f#a({"x": [1, 2)`, false},
		{"no arguments", event(`[{"index":0,"id":"a","function":{"name":"f","arguments":""}}]`), `A:f#a()`, false},
		{"no name, no id, no index", event(`[{"function":{"arguments":"{}"}}]`), `A:#({})`, true},
		{"a markup of templates", event(`[{"index":0,"id":"<|im_end|>","function":{"name":"f\u0000","arguments":"{\"x\":\"<|im_start|>\"}"}}]`), "A:f\x00#<|im_end|>({\"x\":\"<|im_start|>\"})", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
				return teacherstest.Reply{Raw: tc.stream + end, ContentType: "text/event-stream"}
			})
			w := newWorld(t)
			w.file("p.jsonl", sums(1))
			w.build(askRecipe("d", server.URL, "") + "filter: []\n")
			list := rows[datasets.Candidate](w, "d", datasets.TableCandidates)
			if len(list) != 1 || list[0].ArgsValid == nil {
				t.Fatalf("%+v", list)
			}
			if got := inShort(list[0].Messages[1:]); got != tc.want || *list[0].ArgsValid != tc.valid {
				t.Errorf("%q, valid %t; want %q, %t", got, *list[0].ArgsValid, tc.want, tc.valid)
			}
			w.verify("d")
		})
	}
}
