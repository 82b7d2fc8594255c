package filter

import (
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

func TestFinish(t *testing.T) {
	f, err := New("finish", nil)
	if err != nil {
		t.Fatal(err)
	}
	text := func(s string) *chat.Message { return &chat.Message{Role: chat.RoleAssistant, Content: &s} }
	call := &chat.Message{Role: chat.RoleAssistant, ToolCalls: []chat.ToolCall{{Name: "add", Arguments: "{}"}}}
	thought := &chat.Message{Role: chat.RoleAssistant, ReasoningContent: chat.Text("hm"), Content: chat.Text("")}
	asked := &chat.Message{Role: chat.RoleUser, Content: chat.Text("hi")}
	for _, tc := range []struct {
		name, finish, error string
		answer              *chat.Message
		want                string
	}{
		{"stop", "stop", "", text("4"), ""},
		{"upper case", " STOP", "", text("4"), ""},
		{"messages protocol", "end_turn", "", text("4"), ""},
		{"stop sequence", "stop_sequence", "", text("4"), ""},
		{"tool calls", "tool_calls", "", call, ""},
		{"function call", "function_call", "", call, ""},
		{"tool use", "tool_use", "", call, ""},
		{"recorded without a reason", "", "", text("4"), ""},
		{"length", "length", "", text("4"), "truncated"},
		{"max tokens", "max_tokens", "", text("4"), "truncated"},
		{"content filter", "content_filter", "", text("4"), "content_filter"},
		{"the messages protocol's refusal", "refusal", "", text("4"), "content_filter"},
		{"the messages protocol's full context", "model_context_window_exceeded", "", text("4"), "truncated"},
		{"other", "pause_turn", "", text("4"), "finish:pause_turn"},
		{"hostile", "\x1b[2J<b>" + strings.Repeat("é", 100), "", text("4"), "finish:__2j_b_" + strings.Repeat("_", 41)},
		{"only signs", "!", "", text("4"), "finish:_"},
		{"empty", "stop", "", text(""), "empty"},
		{"white space", "stop", "", text(" \n\u00a0"), "empty"},
		{"nothing but thoughts", "stop", "", thought, "empty"},
		{"cut off in its thoughts", "length", "", thought, "truncated"},
		{"no answer message", "stop", "", asked, "empty"},
		{"failed", "", "http_500", nil, "error:http_500"},
		{"failed late", "stop", "Stream Broken", text("4"), "error:stream_broken"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := &datasets.Candidate{}
			if tc.answer != nil {
				c.Messages = []chat.Message{*tc.answer}
			}
			if tc.finish != "" {
				c.FinishReason = &tc.finish
			}
			if tc.error != "" {
				c.Error = &tc.error
			}
			if got := f.Reject(&Input{Candidate: c}); got != tc.want {
				t.Errorf("reason %q, want %q", got, tc.want)
			}
		})
	}
}

func TestNewNamesTheNearest(t *testing.T) {
	for _, tc := range []struct {
		name string
		want string
	}{{"finnish", `did you mean "finish"?`}, {"xyz", "known: control_tokens, empty, finish"}} {
		if _, err := New(tc.name, nil); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%q): %v, want %s", tc.name, err, tc.want)
		}
	}
	if _, err := New("finish", map[string]any{"max": 1}); err == nil || !strings.Contains(err.Error(), `filter finish: unknown option "max"`) {
		t.Errorf("an unknown option: %v", err)
	}
}
