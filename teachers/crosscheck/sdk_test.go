package crosscheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// A reading is what a client makes of one response.
type reading struct {
	Content, Reasoning, Refusal  string
	Finish, Model                string
	Prompt, Cached, Written, Out int64
	Calls                        []string // id, name and arguments
}

// A recorded response is replayed to any client.
type recorded struct {
	api    string // openai or anthropic
	stream bool
	raw    string
}

func (r *recorded) format() string {
	switch {
	case r.api == "openai" && r.stream:
		return teachers.FormatOpenAIStream
	case r.api == "openai":
		return teachers.FormatOpenAIJSON
	case r.stream:
		return teachers.FormatAnthropicStream
	}
	return teachers.FormatAnthropicJSON
}

// RoundTrip answers every request with the record.
func (r *recorded) RoundTrip(*http.Request) (*http.Response, error) {
	kind := "application/json"
	if r.stream {
		kind = "text/event-stream"
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(r.raw))}, nil
}

// byUs reads the record with our parser.
func (r *recorded) byUs() (*reading, error) {
	a, err := teachers.Parse(r.format(), []byte(r.raw))
	if err != nil {
		return nil, err
	}
	out := &reading{Refusal: a.Refusal, Finish: a.Finish, Model: a.Model}
	if a.Message.Content != nil {
		out.Content = *a.Message.Content
	}
	if a.Message.ReasoningContent != nil {
		out.Reasoning = *a.Message.ReasoningContent
	}
	if u := a.Usage; u != nil {
		out.Prompt, out.Cached, out.Written, out.Out = u.PromptTokens, u.CachedTokens, u.CacheWriteTokens, u.CompletionTokens
	}
	for _, c := range a.Message.ToolCalls {
		out.Calls = append(out.Calls, called(c.ID, c.Name, c.Arguments))
	}
	return out, nil
}

func called(id, name, args string) string { return fmt.Sprintf("%s %s(%s)", id, name, args) }

// bySDK reads the record with the vendor's client.
func (r *recorded) bySDK(ctx context.Context) (*reading, error) {
	client := &http.Client{Transport: r}
	if r.api == "openai" {
		c := openai.NewClient(openaioption.WithBaseURL("http://127.0.0.1/v1"), openaioption.WithAPIKey("k"), openaioption.WithMaxRetries(0), openaioption.WithHTTPClient(client))
		return r.byOpenAI(ctx, &c)
	}
	c := anthropic.NewClient(anthropicoption.WithBaseURL("http://127.0.0.1"), anthropicoption.WithAPIKey("k"), anthropicoption.WithMaxRetries(0), anthropicoption.WithHTTPClient(client))
	return r.byAnthropic(ctx, &c)
}

var errNothing = errors.New("no error, and no answer")

func (r *recorded) byOpenAI(ctx context.Context, c *openai.Client) (*reading, error) {
	params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("?")}}
	if !r.stream {
		got, err := c.Chat.Completions.New(ctx, params)
		if err != nil {
			return nil, err
		}
		if len(got.Choices) == 0 {
			return nil, errNothing
		}
		return readCompletion(got, extraText(got.Choices[0].Message.RawJSON())), nil
	}
	events := c.Chat.Completions.NewStreaming(ctx, params)
	defer events.Close()
	var acc openai.ChatCompletionAccumulator
	var reasoning strings.Builder
	for events.Next() {
		chunk := events.Current()
		if !acc.AddChunk(chunk) {
			return nil, errors.New("a chunk does not fit")
		}
		for _, choice := range chunk.Choices {
			reasoning.WriteString(extraText(choice.Delta.RawJSON()))
		}
	}
	if err := events.Err(); err != nil {
		return nil, err
	}
	if len(acc.Choices) == 0 {
		return nil, errNothing
	}
	return readCompletion(&acc.ChatCompletion, reasoning.String()), nil
}

// extraText is the reasoning of a message, which the client has no field for
// but keeps as it came.
func extraText(raw string) string {
	var m struct {
		ReasoningContent string `json:"reasoning_content"`
		Reasoning        string `json:"reasoning"`
	}
	_ = json.Unmarshal([]byte(raw), &m)
	if m.ReasoningContent != "" {
		return m.ReasoningContent
	}
	return m.Reasoning
}

func readCompletion(c *openai.ChatCompletion, reasoning string) *reading {
	choice := c.Choices[0]
	out := &reading{Content: choice.Message.Content, Reasoning: reasoning, Refusal: choice.Message.Refusal, Finish: choice.FinishReason, Model: c.Model,
		Prompt: c.Usage.PromptTokens, Cached: c.Usage.PromptTokensDetails.CachedTokens, Out: c.Usage.CompletionTokens}
	for _, call := range choice.Message.ToolCalls {
		out.Calls = append(out.Calls, called(call.ID, call.Function.Name, call.Function.Arguments))
	}
	return out
}

func (r *recorded) byAnthropic(ctx context.Context, c *anthropic.Client) (*reading, error) {
	params := anthropic.MessageNewParams{Model: "m", MaxTokens: 8192, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("?"))}}
	if !r.stream {
		got, err := c.Messages.New(ctx, params)
		if err != nil {
			return nil, err
		}
		if got.ID == "" {
			return nil, errNothing
		}
		return readMessage(got), nil
	}
	events := c.Messages.NewStreaming(ctx, params)
	defer events.Close()
	var acc anthropic.Message
	for events.Next() {
		if err := acc.Accumulate(events.Current()); err != nil {
			return nil, err
		}
	}
	if err := events.Err(); err != nil {
		return nil, err
	}
	if acc.ID == "" && len(acc.Content) == 0 {
		return nil, errNothing
	}
	return readMessage(&acc), nil
}

func readMessage(m *anthropic.Message) *reading {
	u := m.Usage
	out := &reading{Finish: string(m.StopReason), Model: m.Model, Out: u.OutputTokens, Cached: u.CacheReadInputTokens, Written: u.CacheCreationInputTokens,
		Prompt: u.InputTokens + u.CacheReadInputTokens + u.CacheCreationInputTokens}
	var thoughts []string
	for _, b := range m.Content {
		switch b.Type {
		case "text":
			out.Content += b.Text
		case "thinking":
			thoughts = append(thoughts, b.Thinking)
		case "tool_use":
			out.Calls = append(out.Calls, called(b.ID, b.Name, string(b.Input)))
		}
	}
	out.Reasoning = strings.Join(thoughts, "\n\n")
	return out
}
