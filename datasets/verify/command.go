package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"time"
	"unicode"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// Limits of the command verifier.
const (
	MaxCommandReply = 64 << 10 // of a checker's reply, in bytes
	maxCommandWord  = 4 << 10  // of one word of a command, in bytes
	maxCommandWords = 64
)

// ErrChecker is why a checker gave no reply that can be used: it ended, it took
// too long, it wrote too much. The error's text is the reason of a verdict.
var ErrChecker = errors.New("checker")

// Checkers runs the commands of a recipe, each kept running for many answers.
type Checkers interface {
	// Check hands a line of JSON to a command and gives the line with which it
	// replied. An error that is [ErrChecker] is the checker's fault, or its
	// answer's; any other ends the judging.
	Check(ctx context.Context, c *Command, line []byte) ([]byte, error)
}

// A Command is a user's own checker.
type Command struct {
	Argv    []string
	Version string        // as the recipe declares it
	Timeout time.Duration // of one answer
}

// Commander is a verifier that needs [Checkers].
type Commander interface{ Command() *Command }

// CommandName is what a recipe calls the verifier that is a command.
const CommandName = "command"

// commanded is the verifier that a command carries out.
type commanded struct {
	*guarded
	command *Command
}

// Command implements [Commander].
func (c *commanded) Command() *Command { return c.command }

func makeCommand(given map[string]any) (Verifier, error) {
	v, err := options.Make("verifier", map[string]func(*options.Set) *commanded{CommandName: newCommand}, CommandName, given)
	if err != nil {
		return nil, err // not a *commanded that is nil
	}
	return v, nil
}

// newCommand has a program of the user's judge answers. It reads a line of JSON
// for each answer and replies with one; see commandQuestion and commandReply.
//
// Options: command, the program and its arguments; version, which the user
// raises whenever the program judges otherwise; timeout of one answer (default
// 10s). What the program does is its own: a build is repeatable only as far as
// the program is.
func newCommand(o *options.Set) *commanded {
	c := &Command{Argv: textsOf(o, "command"), Version: o.String("version", ""), Timeout: duration(o, "timeout", 10*time.Second)}
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "":
		o.Fail("command", "is missing; write the program and its arguments, such as [python3, /checks/sql.py]")
	case len(c.Argv) > maxCommandWords:
		o.Fail("command", "has %d words, want at most %d", len(c.Argv), maxCommandWords)
	}
	for _, w := range c.Argv {
		if len(w) > maxCommandWord || strings.ContainsRune(w, 0) {
			o.Fail("command", "a word is longer than %d bytes or holds a zero character", maxCommandWord)
			break
		}
	}
	if v := c.Version; v == "" || len(v) > 64 || strings.ContainsFunc(v, unicode.IsControl) {
		o.Fail("version", "want a short text that changes whenever the program judges otherwise, such as \"1\"; got %q", clip(v, 64))
	}
	within(o, "timeout", c.Timeout, 10*time.Millisecond, 10*time.Minute)
	v := commandVerifier{c}
	return &commanded{&guarded{CommandName, "1+" + c.Version, v.judge}, c}
}

type commandVerifier struct{ command *Command }

// A commandQuestion is the line that a checker reads.
type commandQuestion struct {
	// ID is of the question; a reply that repeats it is sure to be to this one.
	ID string `json:"id"`

	Content   string          `json:"content"`
	Reasoning *string         `json:"reasoning,omitempty"`
	ToolCalls []chat.ToolCall `json:"tool_calls,omitempty"`
	Gold      *string         `json:"gold"`
	Tests     *string         `json:"tests"`
	Meta      json.RawMessage `json:"meta"`
	Prompt    *commandPrompt  `json:"prompt,omitempty"`
}

type commandPrompt struct {
	System   string           `json:"system,omitempty"`
	Messages []commandMessage `json:"messages"`
	Tools    json.RawMessage  `json:"tools,omitempty"`
}

type commandMessage struct {
	Role    string  `json:"role"`
	Content *string `json:"content"`
}

// A commandReply is the line that it writes.
type commandReply struct {
	Verdict   string   `json:"verdict"`
	Reason    string   `json:"reason"`
	Score     *float64 `json:"score"`
	Extracted *string  `json:"extracted"`
}

func (v commandVerifier) judge(ctx context.Context, in Input) finding {
	if in.Checkers == nil {
		return unknown("no commands run here")
	}
	line, err := questionLine(&in)
	if err != nil {
		return unknown("answer cannot be handed over")
	}
	reply, err := in.Checkers.Check(ctx, v.command, line)
	switch {
	case errors.Is(err, ErrChecker):
		return unknown(clip(err.Error(), 200))
	case err != nil:
		return unknown("no reply")
	}
	return readReply(reply)
}

func questionLine(in *Input) ([]byte, error) {
	q := commandQuestion{Content: in.Content, Gold: in.Gold, Tests: in.Tests, Meta: rawJSON(in.Meta, "{}")}
	if m := in.Answer; m != nil {
		q.Reasoning, q.ToolCalls = m.ReasoningContent, m.ToolCalls
	}
	if p := in.Prompt; p != nil {
		q.Prompt = &commandPrompt{System: p.System, Tools: rawJSON(p.Tools, "")}
		for i := range p.Messages {
			q.Prompt.Messages = append(q.Prompt.Messages, commandMessage{p.Messages[i].Role, p.Messages[i].Content})
		}
	}
	line, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(line)
	q.ID = hex.EncodeToString(sum[:8])
	return json.Marshal(q)
}

func rawJSON(text, otherwise string) json.RawMessage {
	if !json.Valid([]byte(text)) {
		text = otherwise
	}
	return json.RawMessage(text)
}

// readReply reads a checker's line; what is no verdict is unknown.
func readReply(line []byte) finding {
	var r commandReply
	if len(line) > MaxCommandReply || json.Unmarshal(line, &r) != nil {
		return unknown("reply not readable")
	}
	if r.Verdict != datasets.Pass && r.Verdict != datasets.Fail && r.Verdict != datasets.Unknown {
		return unknown("reply without a verdict")
	}
	if r.Score != nil && (math.IsNaN(*r.Score) || math.IsInf(*r.Score, 0)) {
		r.Score = nil
	}
	reason := strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(r.Reason, "\uFFFD"))
	return finding{verdict: r.Verdict, reason: clip(strings.TrimSpace(reason), 200), score: r.Score, extracted: r.Extracted}
}
