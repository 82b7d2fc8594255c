package activities

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// inShort is a conversation in short: the first letter of each role, in upper
// case where the training loss sees the message, and what it says.
func inShort(messages []chat.Message) string {
	var out []string
	for _, m := range messages {
		role := m.Role[:1]
		if m.Train {
			role = strings.ToUpper(role)
		}
		text := ""
		if m.Content != nil {
			text = *m.Content
		}
		for _, c := range m.ToolCalls {
			text += fmt.Sprintf("%s#%s(%s)", c.Name, c.ID, c.Arguments)
		}
		out = append(out, role+":"+text)
	}
	return strings.Join(out, " | ")
}

// Whole recorded trajectories are candidates: verified by their final answer,
// with every turn, call and result in the row as it was recorded.
func TestRecordedTrajectories(t *testing.T) {
	w := newWorld(t)
	huge := strings.Repeat("x", 1<<20)
	w.file("p.jsonl", `{"messages":[{"role":"user","content":"weather in Oslo?"}],"gold":"7","tools":[{"type":"function","function":{"name":"get"}}]}
{"messages":[{"role":"user","content":"twice"}],"gold":"2"}
{"messages":[{"role":"user","content":"broken call"}],"gold":"1"}
{"messages":[{"role":"user","content":"a long call"}],"gold":"1"}
{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"1+1?"}],"gold":"2"}
`)
	call := func(id, args string) string {
		return fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"get","arguments":%q}}]}`, id, args)
	}
	const result = `{"role":"tool","tool_call_id":"c1","content":"7 °C"}`
	w.file("old.jsonl", strings.Join([]string{
		`{"messages":[{"role":"system","content":"be brief"},{"role":"user","content":"weather in Oslo?"},` + call("c1", `{"city": "Oslo"}`) + `,` + result + `,{"role":"assistant","content":"The answer is 7"}]}`,
		`{"messages":[{"role":"user","content":"twice"},{"role":"assistant","content":"Thinking aloud","train":false},{"role":"user","content":"go on"},{"role":"assistant","content":"The answer is 2"}]}`,
		`{"messages":[{"role":"user","content":"broken call"},` + call("c1", `{"city": `) + `,` + result + `,{"role":"assistant","content":"The answer is 3"}]}`,
		`{"messages":[{"role":"user","content":"a long call"},` + call("c1", huge) + `,` + result + `,{"role":"assistant","content":"The answer is 1"}]}`,
		`{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"hello"},{"role":"user","content":"1+1?"},{"role":"assistant","content":"The answer is 2"}]}`,
	}, "\n"))
	_, built := w.build(`name: d
prompts: [{path: p.jsonl, fields: {messages: messages, gold: gold, tools: tools}}]
teachers: [{id: old, api: recorded, path: old.jsonl, fields: {messages: messages}}]
check: [{verifier: math}]
`)
	if built.Candidates != 5 || built.Accepted != 4 {
		t.Fatalf("%+v", built)
	}
	want := map[string]string{
		"weather in Oslo?": `u:weather in Oslo? | A:get#c1({"city": "Oslo"}) | t:7 °C | A:The answer is 7`,
		"twice":            `u:twice | a:Thinking aloud | u:go on | A:The answer is 2`,
		"broken call":      `u:broken call | A:get#c1({"city": ) | t:7 °C | A:The answer is 3`,
		"a long call":      `u:a long call | A:get#c1(` + huge + `) | t:7 °C | A:The answer is 1`,
		"hi":               `u:hi | a:hello | u:1+1? | A:The answer is 2`,
	}
	valid := map[string]string{"weather in Oslo?": "true", "twice": "none", "broken call": "false", "a long call": "false", "hi": "none"}
	for _, c := range rows[datasets.Candidate](w, "d", datasets.TableCandidates) {
		question := *c.Messages[0].Content
		if got := inShort(c.Messages); got != want[question] {
			t.Errorf("%.300s\nwant %.300s", got, want[question])
		}
		args := "none"
		if c.ArgsValid != nil {
			args = fmt.Sprint(*c.ArgsValid)
		}
		if args != valid[question] {
			t.Errorf("%s: args valid %s, want %s", question, args, valid[question])
		}
		if (question == "broken call") == c.Accepted {
			t.Errorf("%s: accepted %t", question, c.Accepted)
		}
	}
	train := rows[datasets.Row](w, "d", datasets.TableTrain)
	if len(train) != 4 {
		t.Fatalf("%d rows", len(train))
	}
	for _, r := range train {
		if question := *r.Messages[0].Content; inShort(r.Messages) != want[question] {
			t.Errorf("train: %.300s", inShort(r.Messages))
		}
	}
	w.verify("d")
}
