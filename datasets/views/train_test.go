package views_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// A row whose turns are not trained as usual says which are; in any other row
// the column is null, and trainers do what they always do.
func TestWhichTurnsAreTrained(t *testing.T) {
	usual := []chat.Message{
		{Role: "user", Content: chat.Text("q")},
		{Role: "assistant", ToolCalls: []chat.ToolCall{{ID: "c", Type: "function", Name: "f", Arguments: "{"}}, Train: true},
		{Role: "tool", Content: chat.Text("7"), ToolCallID: chat.Text("c")},
		{Role: "assistant", Content: chat.Text("a"), Train: true},
	}
	history := []chat.Message{
		{Role: "user", Content: chat.Text("q1")}, {Role: "assistant", Content: chat.Text("not a teacher's")},
		{Role: "user", Content: chat.Text("q2")}, {Role: "assistant", Content: chat.Text("a"), Train: true},
	}
	marked := []chat.Message{{Role: "user", Content: chat.Text("q"), Train: true}, {Role: "assistant", Content: chat.Text("a")}}
	rows := trainRows(0, 3)
	rows[0].Messages, rows[1].Messages, rows[2].Messages = usual, history, marked
	f := published(t, "b1", nil, map[string][][]datasets.Row{"train": {rows}})
	dir := filepath.Join(t.TempDir(), "out")
	if _, err := f.export(t, views.Folder(dir), views.JSONL); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.SplitSeq(strings.TrimSpace(tree(t, dir)["data/train-00000-of-00001.jsonl"]), "\n") {
		var row struct {
			Messages []struct {
				Train     any
				ToolCalls []struct{ Function struct{ Arguments string } } `json:"tool_calls"`
			}
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		out := ""
		for _, m := range row.Messages {
			switch m.Train {
			case nil:
				out += "-"
			case true:
				out += "T"
			case false:
				out += "f"
			}
			for _, c := range m.ToolCalls {
				out += c.Function.Arguments
			}
		}
		got = append(got, out)
	}
	if want := "--{-- fffT Tf"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", strings.Join(got, " "), want)
	}
}
