package sources

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// told is a conversation in short: the first letter of each role, in upper case
// where the training loss sees the message, and its content.
func told(messages []chat.Message) string {
	var out []string
	for _, m := range messages {
		role := m.Role[:1]
		if m.Train {
			role = strings.ToUpper(role)
		}
		content := "-"
		if m.Content != nil {
			content = *m.Content
		}
		for _, c := range m.ToolCalls {
			content += fmt.Sprintf(" %s(%s)", c.Name, c.Arguments)
		}
		out = append(out, role+":"+content)
	}
	return strings.Join(out, " | ")
}

func TestTrajectories(t *testing.T) {
	const call = `{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"get","arguments":"{\"a\": 1}"}}]}`
	for _, tc := range []struct {
		name, messages string
		want           []string // prompt => what comes before the answer => answer
	}{
		{"a question and its answer", `[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]`,
			[]string{"u:q =>  => A:a"}},
		{"calls and their results", `[{"role":"system","content":"s"},{"role":"user","content":"q"},` + call + `,{"role":"tool","tool_call_id":"c1","content":"7"},{"role":"assistant","content":"a"}]`,
			[]string{
				`u:q => A:- get({"a": 1}) | t:7 => A:a`,
				`u:q | A:- get({"a": 1}) | t:7 =>  => A:a`,
			}},
		{"a user who speaks again", `[{"role":"user","content":"q1"},{"role":"assistant","content":"a1"},{"role":"user","content":"q2"},` + call + `,{"role":"tool","content":"7"},{"role":"assistant","content":"a2"}]`,
			[]string{
				`u:q1 => A:a1 | u:q2 | A:- get({"a": 1}) | t:7 => A:a2`,
				`u:q1 | A:a1 | u:q2 => A:- get({"a": 1}) | t:7 => A:a2`,
				`u:q1 | A:a1 | u:q2 | A:- get({"a": 1}) | t:7 =>  => A:a2`,
			}},
		{"a greeting comes first", `[{"role":"assistant","content":"hello"},{"role":"user","content":"q"},{"role":"assistant","content":"a"}]`,
			[]string{"A:hello | u:q =>  => A:a"}},
		{"two turns of the assistant in a row", `[{"role":"user","content":"q"},{"role":"assistant","content":"a1"},{"role":"assistant","content":"a2"}]`,
			[]string{"u:q => A:a1 => A:a2", "u:q | A:a1 =>  => A:a2"}},
		{"flags of its own", `[{"role":"user","content":"q","train":true},{"role":"assistant","content":"a1","train":false},{"role":"tool","content":"7","weight":1},{"role":"assistant","content":"a2","weight":0}]`,
			[]string{"U:q => a:a1 | T:7 => a:a2", "U:q | a:a1 | T:7 =>  => a:a2"}},
		{"train counts above weight", `[{"role":"user","content":"q"},{"role":"assistant","content":"a","train":true,"weight":0}]`,
			[]string{"u:q =>  => A:a"}},
		{"as JSON text", `"[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"}]"`, []string{"u:q =>  => A:a"}},
		{"a flag of another kind", `[{"role":"user","content":"q"},{"role":"assistant","content":"a","train":"yes"}]`,
			[]string{"! f.jsonl:7: turn 2: train is a text, want true or false"}},
		{"half a weight", `[{"role":"user","content":"q"},{"role":"assistant","content":"a","weight":0.5}]`,
			[]string{"! f.jsonl:7: turn 2: weight is 0.5, want 0 or 1"}},
		{"no answer at the end", `[{"role":"user","content":"q"},` + call + `,{"role":"tool","content":"7"}]`,
			[]string{"! f.jsonl:7: the messages end without the assistant's turn; the row holds no answer"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m, err := NewAnswerMapper(&recipe.Teacher{ID: "t", Fields: recipe.AnswerFields{Messages: "m"}})
			if err != nil {
				t.Fatal(err)
			}
			recordings, err := m.Answers(rowOf(t, `{"m":`+tc.messages+`}`))
			var got []string
			if err != nil {
				got = []string{"! " + err.Error()}
			}
			for _, r := range recordings {
				for _, a := range r.Answers {
					last := chat.Message{Role: chat.RoleAssistant, Content: a.Content, ToolCalls: a.ToolCalls, Train: a.Train}
					got = append(got, told(r.Prompt.Messages)+" => "+told(a.Before)+" => "+told([]chat.Message{last}))
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
