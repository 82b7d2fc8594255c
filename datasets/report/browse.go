package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"html/template"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// How much of the texts a page shows.
const (
	TextNone   = "none"
	TextSample = "sample" // some prompts, the same ones for the same data
	TextAll    = "all"    // as many as a page takes
)

const (
	sampledPrompts = 200
	allPrompts     = 2000
	// Bytes of a prompt and of an answer that are shown, and of all of them: a
	// browser has to hold the page.
	shownPrompt  = 2 << 10
	shownAnswer  = 3 << 10
	shownThought = 1 << 10
	shownBytes   = 48 << 20
	// shownAnswers bounds the answers of one prompt.
	shownAnswers = 64
)

// A shownTask is a prompt of the page with its answers.
type shownTask struct {
	key     uint64
	bytes   int
	id      string
	Domain  string        `json:"domain"`
	Effort  string        `json:"effort"`
	Prompt  string        `json:"prompt"`
	Gold    string        `json:"gold,omitempty"`
	Answers []shownSample `json:"answers"`
	More    int           `json:"more,omitempty"` // answers that are left out
}

// A shownSample is one answer of the page.
type shownSample struct {
	Teacher   string   `json:"teacher"`
	Sample    int32    `json:"sample,omitempty"`
	Verdict   string   `json:"verdict,omitempty"`
	Extracted string   `json:"read,omitempty"`
	Reasons   []string `json:"reasons,omitempty"`
	Said      []string `json:"said,omitempty"` // what verifiers gave as a reason
	Flags     []string `json:"flags,omitempty"`
	Error     string   `json:"error,omitempty"`
	Text      string   `json:"text,omitempty"`
	Thought   string   `json:"thought,omitempty"`
	Tokens    int64    `json:"tokens,omitempty"`
	Micros    int64    `json:"micros,omitempty"`
	Accepted  bool     `json:"accepted,omitempty"`
	Selected  bool     `json:"selected,omitempty"`
}

// A shelf keeps the prompts that a page shows: those whose hashes are the
// smallest, whatever order they come in.
type shelf struct {
	most  int
	tasks []*shownTask // by key
	at    *shownTask   // that candidates are being added of; nil: it is not kept
	last  string
	seen  int64 // tasks
}

// ShowTexts makes the page show prompts and answers: text is [TextNone],
// [TextSample] or [TextAll]. It is called before the first candidate.
func (a *Aggregator) ShowTexts(text string) {
	switch text {
	case TextSample:
		a.shelf.most = sampledPrompts
	case TextAll:
		a.shelf.most = allPrompts
	default:
		a.shelf.most = 0
	}
}

func (s *shelf) add(c *datasets.Candidate) {
	if s.most == 0 {
		return
	}
	if s.last != c.TaskID || s.seen == 0 {
		s.begin(c)
	}
	if s.at == nil {
		return
	}
	if len(s.at.Answers) >= shownAnswers {
		s.at.More++
		return
	}
	one := shownOf(c)
	s.at.bytes += len(one.Text) + len(one.Thought) + 200
	s.at.Answers = append(s.at.Answers, one)
}

// begin takes the place of a task, or leaves it.
func (s *shelf) begin(c *datasets.Candidate) {
	s.last, s.at = strings.Clone(c.TaskID), nil
	s.seen++
	sum := sha256.Sum256([]byte(c.TaskID))
	key := binary.BigEndian.Uint64(sum[:])
	if len(s.tasks) == s.most {
		if key >= s.tasks[len(s.tasks)-1].key {
			return
		}
		s.tasks = s.tasks[:len(s.tasks)-1]
	}
	t := &shownTask{key: key, id: s.last, Domain: strings.Clone(c.Domain), Effort: strings.Clone(c.Effort)}
	var messages []chat.Message
	if len(c.Messages) > 0 {
		messages = c.Messages
		if c.Answer() != nil {
			messages = messages[:len(messages)-1]
		}
	}
	t.Prompt = conversation(messages)
	if c.Gold != nil {
		t.Gold = shown(*c.Gold, shownThought)
	}
	t.bytes = len(t.Prompt) + len(t.Gold)
	at, _ := slices.BinarySearchFunc(s.tasks, t, func(a, b *shownTask) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.id, b.id))
	})
	s.tasks = slices.Insert(s.tasks, at, t)
	s.at = t
}

// conversation is a prompt as text: one message alone as it is, several with
// who said them.
func conversation(messages []chat.Message) string {
	var b strings.Builder
	for i, m := range messages {
		if m.Content == nil {
			continue
		}
		if len(messages) > 1 {
			if i > 0 {
				b.WriteString("\n\n")
			}
			b.WriteString("[" + m.Role + "] ")
		}
		b.WriteString(*m.Content)
		if b.Len() > shownPrompt {
			break
		}
	}
	return shown(b.String(), shownPrompt)
}

// shown is the beginning of a text, in a copy that holds nothing else alive.
func shown(s string, most int) string {
	if len(s) <= most {
		return strings.ToValidUTF8(strings.Clone(s), "\uFFFD")
	}
	return strings.ToValidUTF8(strings.Clone(clipped(s, most)), "\uFFFD") + " …"
}

func shownOf(c *datasets.Candidate) shownSample {
	one := shownSample{
		Teacher: strings.Clone(c.Teacher), Sample: c.SampleIndex, Tokens: known(c.CompletionTokens), Micros: known(c.CostMicros),
		Accepted: c.Accepted, Selected: c.Selected, Text: shown(c.Content(), shownAnswer),
	}
	if c.Verdict != nil {
		one.Verdict = strings.Clone(*c.Verdict)
	}
	if c.Extracted != nil {
		one.Extracted = shown(*c.Extracted, 200)
	}
	if c.Error != nil {
		one.Error = shown(*c.Error, 200)
		if c.ErrorText != nil {
			one.Text = shown(*c.ErrorText, shownThought)
		}
	}
	m := c.Answer()
	if m != nil && m.ReasoningContent != nil {
		one.Thought = shown(*m.ReasoningContent, shownThought)
	}
	if m != nil {
		for _, call := range m.ToolCalls {
			one.Text += "\n→ " + shown(call.Name, 100) + "(" + shown(call.Arguments, 500) + ")"
		}
	}
	for _, r := range c.RejectReasons {
		one.Reasons = append(one.Reasons, shown(r, 200))
	}
	for _, f := range c.Flags {
		one.Flags = append(one.Flags, shown(f, 100))
	}
	for i := range c.Verdicts {
		v := &c.Verdicts[i]
		if len(one.Said) < 8 {
			one.Said = append(one.Said, shown(v.Verifier+": "+v.Verdict+", "+v.Reason, 300))
		}
	}
	return one
}

// A browser is what the page's script gets.
type browser struct {
	Tasks []*shownTask `json:"tasks"`
	Of    int64        `json:"of"` // tasks there are
}

// browser is nil where nothing is to be shown.
func (s *shelf) browser() *browser {
	if len(s.tasks) == 0 {
		return nil
	}
	b := &browser{Of: s.seen}
	total := 0
	for _, t := range s.tasks {
		if total += t.bytes; total > shownBytes {
			break
		}
		b.Tasks = append(b.Tasks, t)
	}
	return b
}

// JSON is the data as it stands inside a script element: encoding/json writes
// <, > and & as escapes, so that no text can end the element.
func (b *browser) JSON() (template.JS, error) {
	text, err := json.Marshal(b)
	return template.JS(text), err
}
