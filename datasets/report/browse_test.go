package report

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028<!--\x00\xff"

func told(task, teacher, prompt, answer string) *datasets.Candidate {
	verdict := datasets.Pass
	return &datasets.Candidate{
		TaskID: task, SampleID: task + teacher, Teacher: teacher, Domain: "d" + hostile, Effort: "x", Verdict: &verdict,
		RejectReasons: []string{hostile}, Flags: []string{hostile}, Gold: &prompt,
		Messages: []chat.Message{{Role: chat.RoleSystem, Content: &prompt}, {Role: chat.RoleUser, Content: &prompt}, {Role: chat.RoleAssistant, Content: &answer, ReasoningContent: &answer}},
	}
}

var dataElement = regexp.MustCompile(`(?s)<script type="application/json" id="prompts-data">(.*?)</script>`)

// TestTextsStayText: whatever models wrote, the page has two script elements,
// both its own, and the texts come back from it as they were.
func TestTextsStayText(t *testing.T) {
	a := New([]TeacherInfo{{ID: "a" + hostile}, {ID: "b"}})
	a.ShowTexts(TextAll)
	for i := range 3 {
		a.Add(told(fmt.Sprint(i), "a"+hostile, hostile, hostile))
		a.Add(told(fmt.Sprint(i), "b", hostile, "fine"))
	}
	var page strings.Builder
	if err := a.Report().HTML(&page); err != nil {
		t.Fatal(err)
	}
	text := page.String()
	if n := strings.Count(text, "<script"); n != 2 {
		t.Errorf("%d script elements, want two", n)
	}
	if strings.Contains(text, "<img") || strings.Contains(text, "<!--") {
		t.Error("a text became markup")
	}
	found := dataElement.FindStringSubmatch(text)
	if found == nil {
		t.Fatal("the page has no prompts")
	}
	var b browser
	if err := json.Unmarshal([]byte(found[1]), &b); err != nil {
		t.Fatal(err)
	}
	if len(b.Tasks) != 3 || b.Of != 3 || len(b.Tasks[0].Answers) != 2 {
		t.Fatalf("%+v", b)
	}
	want := strings.ToValidUTF8(hostile, "\uFFFD")
	if got := b.Tasks[0].Answers[0]; got.Text != want || got.Thought != want || got.Reasons[0] != want {
		t.Errorf("%q came back as %q", want, got.Text)
	}
	if !strings.Contains(b.Tasks[0].Prompt, "[system] "+want) {
		t.Errorf("prompt %q", b.Tasks[0].Prompt)
	}
}

// TestShelfIsASample: the same prompts whatever the order, as many as are to be
// shown, and nothing where nothing is to be.
func TestShelfIsASample(t *testing.T) {
	page := func(text string, n int, from func(i int) int) string {
		a := New([]TeacherInfo{{ID: "a"}})
		a.ShowTexts(text)
		for i := range n {
			id := fmt.Sprint(from(i))
			a.Add(told(id, "a", "prompt "+id, strings.Repeat("long ", 5000)))
		}
		var b strings.Builder
		if err := a.Report().HTML(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	one := page(TextSample, 1000, func(i int) int { return i })
	if two := page(TextSample, 1000, func(i int) int { return 999 - i }); one != two {
		t.Errorf("the order of tasks changes the page at %s", differs(one, two))
	}
	var b browser
	if err := json.Unmarshal([]byte(dataElement.FindStringSubmatch(one)[1]), &b); err != nil {
		t.Fatal(err)
	}
	if len(b.Tasks) != sampledPrompts || b.Of != 1000 {
		t.Errorf("%d of %d prompts, want %d of 1,000", len(b.Tasks), b.Of, sampledPrompts)
	}
	if n := len(b.Tasks[0].Answers[0].Text); n > shownAnswer+10 {
		t.Errorf("an answer of %d bytes is shown", n)
	}
	if none := page(TextNone, 10, func(i int) int { return i }); strings.Contains(none, "prompt 1") || strings.Contains(none, `id="prompts-data"`) {
		t.Error("texts are shown that were not to be")
	}
}

func differs(a, b string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[max(0, i-100):min(len(a), i+100)] + "\n" + b[max(0, i-100):min(len(b), i+100)]
		}
	}
	return "the end"
}
