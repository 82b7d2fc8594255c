package dedup

import (
	"strings"
	"sync"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// answerOf is a candidate that said so.
func answerOf(id string, m chat.Message) *datasets.Candidate {
	m.Role = chat.RoleAssistant
	return &datasets.Candidate{SampleID: id, Domain: "chat", Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text("?")}, m}}
}

func TestAnswerKey(t *testing.T) {
	call := func(id, arguments string) []chat.ToolCall {
		return []chat.ToolCall{{ID: id, Type: "function", Name: "f", Arguments: arguments}}
	}
	for _, tc := range []struct {
		name string
		a, b chat.Message
		same bool
	}{
		{"white space", chat.Message{Content: chat.Text("a  b\n")}, chat.Message{Content: chat.Text(" a b")}, true},
		{"NFC and NFD", chat.Message{Content: chat.Text("caf\u00e9")}, chat.Message{Content: chat.Text("cafe\u0301")}, true},
		{"no text and an empty one", chat.Message{}, chat.Message{Content: chat.Text("")}, true},
		{"case", chat.Message{Content: chat.Text("A")}, chat.Message{Content: chat.Text("a")}, false},
		{"punctuation", chat.Message{Content: chat.Text("a.")}, chat.Message{Content: chat.Text("a")}, false},
		{"a sign", chat.Message{Content: chat.Text("-4")}, chat.Message{Content: chat.Text("4")}, false},
		{"reasoning", chat.Message{Content: chat.Text("a"), ReasoningContent: chat.Text("b")}, chat.Message{Content: chat.Text("a")}, false},
		{"text that is reasoning", chat.Message{Content: chat.Text("a")}, chat.Message{ReasoningContent: chat.Text("a")}, false},
		{"ids of calls", chat.Message{ToolCalls: call("1", `{"a":1,"b":2}`)}, chat.Message{ToolCalls: call("2", `{"b": 2, "a": 1}`)}, true},
		{"arguments", chat.Message{ToolCalls: call("1", `{"a":1}`)}, chat.Message{ToolCalls: call("1", `{"a":2}`)}, false},
		{"arguments that are not JSON", chat.Message{ToolCalls: call("1", `{"a":`)}, chat.Message{ToolCalls: call("1", `{"a"`)}, false},
		{"a call and none", chat.Message{ToolCalls: call("1", `{}`)}, chat.Message{}, false},
	} {
		a, _ := AnswerKey(answerOf("1", tc.a))
		b, ok := AnswerKey(answerOf("2", tc.b))
		if !ok || (a == b) != tc.same {
			t.Errorf("%s: the same: %v, want %v", tc.name, a == b, tc.same)
		}
	}
	failed := answerOf("1", chat.Message{Content: chat.Text("a")})
	failed.Error = chat.Text("timeout")
	if _, ok := AnswerKey(failed); ok {
		t.Error("an ask that failed has the key of an answer")
	}
}

func TestAnswersThatAreNear(t *testing.T) {
	long := strings.Repeat("many words that say how it is done and why it is right to do so, ", 6)
	n, err := NewAnswerComparer(NearOptions{Jaccard: 0.5, Memory: 1 << 16})
	if err != nil {
		t.Fatal(err)
	}
	say := func(id, s string) *datasets.Candidate { return answerOf(id, chat.Message{Content: &s}) }
	one := say("1", long+"so the answer is 12.")
	failed := say("f", long)
	failed.Error = chat.Text("timeout")
	call := answerOf("c", chat.Message{Content: one.Messages[1].Content, ToolCalls: []chat.ToolCall{{Name: "f", Arguments: "{}"}}})
	for _, tc := range []struct {
		name string
		b    *datasets.Candidate
		near bool
	}{
		{"itself", one, true},
		{"a word more", say("2", long+"and so the answer is 12."), true},
		{"another number", say("3", long+"so the answer is 13."), false},
		{"another text", say("4", "12"), false},
		{"a call more", call, false},
		{"an ask that failed", failed, false},
	} {
		for range 2 { // read, and remembered
			if n.Near(one, tc.b) != tc.near || n.Near(tc.b, one) != tc.near {
				t.Errorf("%s: near: %v, want %v", tc.name, !tc.near, tc.near)
			}
		}
	}
	// Several goroutines, more answers than it may hold.
	var group sync.WaitGroup
	for g := range 4 {
		group.Go(func() {
			for i := range 200 {
				if s := say(strings.Repeat("x", g)+string(rune('a'+i)), long+strings.Repeat("more ", i)+"12"); !n.Near(s, s) {
					t.Error("an answer is not near itself")
				}
				if i%50 == 0 {
					n.Forget()
				}
			}
		})
	}
	group.Wait()
	if n.size > n.options.Memory+1<<14 {
		t.Errorf("%d bytes are held, want about %d", n.size, n.options.Memory)
	}
}
