package chat

import (
	"encoding/json"
	"testing"

	"github.com/gowebpki/jcs"
	"pgregory.net/rapid"
)

func TestAppendStringIsRFC8785(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		plain, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		want, err := jcs.Transform([]byte(`[` + string(plain) + `]`))
		if err != nil {
			t.Fatal(err)
		}
		if got := "[" + string(AppendString(nil, s)) + "]"; got != string(want) {
			t.Fatalf("AppendString(%q) = %s, want %s", s, got, want)
		}
	})
}

func TestPromptCanonicalIsRFC8785(t *testing.T) {
	p := Prompt{
		System: "Be brief. \u2028 <&>",
		Messages: []Message{
			{Role: RoleUser, Content: Text("2+2?\n\x01"), Name: Text("ann")},
			{Role: RoleAssistant, ReasoningContent: Text("hm"), ToolCalls: []ToolCall{{ID: "1", Type: "function", Name: "add", Arguments: `{"b":1,"a":2}`}}},
			{Role: RoleTool, Content: Text("4"), ToolCallID: Text("1")},
		},
		Tools:  `[{"type":"function", "function":{"name":"add","parameters":{"z":1.0,"a":1e2}}}]`,
		Images: []Image{{Digest: "ab", Key: "elsewhere"}},
	}
	got, err := p.AppendCanonical(nil)
	if err != nil {
		t.Fatal(err)
	}
	want, err := jcs.Transform(got)
	if err != nil {
		t.Fatalf("not JSON: %v\n%s", err, got)
	}
	if string(got) != string(want) {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
}

func TestPromptIDIgnoresWhatTheTeacherDoesNotSee(t *testing.T) {
	id := func(p Prompt) string {
		s, err := p.ID()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := Prompt{Messages: []Message{{Role: RoleUser, Content: Text("hi")}}, Images: []Image{{Digest: "d", Key: "a"}}}
	same := Prompt{Messages: []Message{{Role: RoleUser, Content: Text("hi"), Train: true}}, Images: []Image{{Digest: "d", Key: "b", MediaType: "image/png"}}}
	if id(base) != id(same) {
		t.Error("an image's place or a train flag moved the prompt")
	}
	other := base
	other.System = "s"
	if id(base) == id(other) {
		t.Error("the system text did not move the prompt")
	}
	if n := len(id(base)); n != 32 {
		t.Errorf("id has %d characters, want 32", n)
	}
}
