package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Whatever stands in a condition, it is compiled or refused as a usage error,
// and what is compiled can be asked of any row.
func FuzzWhere(f *testing.F) {
	for _, s := range []string{
		`teacher == "k3" && !accepted`, `(score ?? 0) > 0.5`, `"x" in reject_reasons`, `messages[-1].content contains "a"`,
		`len(messages[0].tool_calls) > 0`, `verdicts[0].verdict == "pass"`, `domain matches "^m"`, `1..9`, `let x = 1; x`,
		`any(messages, #.role == "user")`, `teacher =`, "teacher ==\n\n\"x", `teacher + 1`, `completion_tokens > 5`, `messages[9].content`,
		"\x00", `"\`, `a.b.c.d`, `[1,2,3][0] == 1`, `{"a": 1}.a == 1`, `-(-(-(1))) > 0`, `1 / 0 > 1`, `1 % 0 == 1`, `0 in 0`, `"ü" == teacher && x`,
	} {
		f.Add(s)
	}
	c := candidatesOf(0)[0]
	empty := datasets.Candidate{}
	f.Fuzz(func(t *testing.T, source string) {
		w, err := compileWhere[datasets.Candidate](source)
		var use *usageError
		if err != nil {
			if !errors.As(err, &use) || exitCode(err) != exitUsage {
				t.Fatalf("%q: %T %v", source, err, err)
			}
			return
		}
		for _, row := range []*datasets.Candidate{&c, &empty} {
			if ok, err := w.match(row); ok && err != nil {
				t.Fatalf("%q matches and fails: %v", source, err)
			}
		}
	})
}

// Whatever a model wrote, the terminal gets no character that it obeys, and
// bounded output; as JSON the row is the same after it is read back.
func FuzzHead(f *testing.F) {
	f.Add("user", hostile, "name", "{}")
	f.Add("\x1b[31m", "\u009b2J", "\r\n", "\u202e")
	f.Add("assistant", strings.Repeat("a\n", 5000), strings.Repeat("b", 9000), strings.Repeat("\x07", 2000))
	f.Fuzz(func(t *testing.T, role, content, name, arguments string) {
		row := datasets.Row{
			TaskID: name, Domain: name, Effort: role, Teacher: name, Meta: &arguments, SampleID: content,
			Messages: []chat.Message{
				{Role: role, Content: &content, ReasoningContent: &arguments},
				{Role: role, ToolCalls: []chat.ToolCall{{Name: name, Arguments: arguments}}},
			},
		}
		for _, full := range []bool{false, true} {
			var b bytes.Buffer
			if err := entryOfRow(&row).print(&b, 1, full); err != nil {
				t.Fatal(err)
			}
			if printable(b.String()) != b.String() || strings.ContainsRune(b.String(), '\r') {
				t.Fatalf("the terminal gets %q", b.String())
			}
			if n := strings.Count(b.String(), "\n"); !full && n > 5*(maxShownLine+2)+5 {
				t.Fatalf("%d lines are shown", n)
			}
		}
		var b bytes.Buffer
		if err := writeRow(&b, &row); err != nil {
			t.Fatal(err)
		}
		if printable(b.String()) != b.String() || strings.Count(b.String(), "\n") != 1 {
			t.Fatalf("the line is %q", b.String())
		}
		var back datasets.Row
		if err := json.Unmarshal(b.Bytes(), &back); err != nil {
			t.Fatal(err)
		}
		if valid(role, content, name, arguments) {
			if diff := cmp.Diff(row, back); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

func valid(texts ...string) bool {
	for _, s := range texts {
		if !utf8.ValidString(s) {
			return false
		}
	}
	return true
}
