//go:build unix

package crosscheck

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/v2"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/v2/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// concurrency of every client that is measured.
const concurrency = 64

// Every client asks the same endpoint, another process, the same questions
// with the same concurrency and must come back with the same text and usage.
// ours keeps the raw bytes and watches the time limits on top. Compare
// cpu-µs/op and allocs/op within one run:
//
//	go test ./teachers/crosscheck -run '^$' -bench . -benchtime 5000x
func BenchmarkChatPlain(b *testing.B)     { compare(b, "/v1", "openai", false) }
func BenchmarkChatStream(b *testing.B)    { compare(b, "/v1", "openai", true) }
func BenchmarkChatLong(b *testing.B)      { compare(b, "/long/v1", "openai", true) }
func BenchmarkMessagePlain(b *testing.B)  { compare(b, "/v1", "anthropic", false) }
func BenchmarkMessageStream(b *testing.B) { compare(b, "/v1", "anthropic", true) }
func BenchmarkMessageLong(b *testing.B)   { compare(b, "/long/v1", "anthropic", true) }

// An asker asks one question and returns the text and the completion tokens.
type asker func(ctx context.Context, question string) (text string, tokens int64, err error)

func compare(b *testing.B, path, api string, stream bool) {
	base := endpoint(b) + path
	sdk := openAISDK
	if api == "anthropic" {
		sdk = anthropicSDK
	}
	for _, c := range []struct {
		name string
		make func(b testing.TB, base, api string, stream bool) asker
	}{{"ours", ours}, {"bare", bare}, {"sdk", sdk}} {
		b.Run(c.name, func(b *testing.B) { measure(b, c.make(b, base, api, stream)) })
	}
}

// TestAllocations holds what an answer costs in allocations, which are the same
// on every machine: fewer than the vendor's client and at most half as many
// again as the bare loop.
func TestAllocations(t *testing.T) {
	root := endpoint(t)
	for _, tc := range []struct {
		path, api string
		stream    bool
	}{{"/v1", "openai", false}, {"/v1", "openai", true}, {"/long/v1", "openai", true}, {"/v1", "anthropic", false}, {"/v1", "anthropic", true}, {"/long/v1", "anthropic", true}} {
		sdk := openAISDK
		if tc.api == "anthropic" {
			sdk = anthropicSDK
		}
		a, b, c := allocations(t, ours(t, root+tc.path, tc.api, tc.stream)), allocations(t, bare(t, root+tc.path, tc.api, tc.stream)), allocations(t, sdk(t, root+tc.path, tc.api, tc.stream))
		t.Logf("%s %s, streamed %v: ours %.0f, bare %.0f, sdk %.0f", tc.api, tc.path, tc.stream, a, b, c)
		if a >= c || a > 1.5*b {
			t.Errorf("%s %s, streamed %v: %.0f allocations an answer; the vendor's client has %.0f and the bare loop %.0f", tc.api, tc.path, tc.stream, a, c, b)
		}
	}
}

func allocations(t *testing.T, ask asker) float64 {
	t.Helper()
	return testing.AllocsPerRun(50, func() {
		if _, _, err := ask(t.Context(), "how many?"); err != nil {
			t.Error(err)
		}
	})
}

func measure(b *testing.B, ask asker) {
	want, _, err := ask(b.Context(), "warm up")
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range concurrency {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				text, tokens, err := ask(b.Context(), fmt.Sprintf("question %d", i))
				if err != nil || text != want || tokens != 360 {
					b.Errorf("%d tokens, %d bytes of text (want %d): %v", tokens, len(text), len(want), err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64((cpuTime(b)-cpu).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
}

// cpuTime is what this process has used, which says more than the clock on a
// machine with other work.
func cpuTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func ours(b testing.TB, base, api string, stream bool) asker {
	config := &teachers.Config{ID: "t", API: api, BaseURL: base, Model: "m", Limits: teachers.Limits{Concurrency: concurrency},
		Key: func() (string, error) { return "sk-0123456789abcdef", nil }}
	if !stream {
		config.Headers = map[string]string{"X-Plain": "1"}
	}
	builder, err := teachers.NewBuilder(config, nil)
	if err != nil {
		b.Fatal(err)
	}
	client := teachers.NewClient(config)
	b.Cleanup(client.Close)
	return func(ctx context.Context, question string) (string, int64, error) {
		r, err := builder.Request(&chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: &question}}}, 0)
		if err != nil {
			return "", 0, err
		}
		reply, err := client.Ask(ctx, r)
		if err != nil {
			return "", 0, err
		}
		answer, err := reply.Parse()
		if err != nil {
			return "", 0, err
		}
		return *answer.Message.Content, answer.Usage.CompletionTokens, nil
	}
}

func httpClient(b testing.TB) *http.Client {
	transport := &http.Transport{MaxIdleConns: concurrency, MaxIdleConnsPerHost: concurrency}
	b.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// bare is what one would write by hand: a request, the whole body, the library's
// JSON decoder for the fields that are needed, no limits and nothing kept.
func bare(b testing.TB, base, api string, stream bool) asker {
	client := httpClient(b)
	path, head := "/chat/completions", `{"stream_options":{"include_usage":true},`
	if api == "anthropic" {
		path, head = "/messages", `{"max_tokens":8192,`
	}
	if stream {
		head += `"stream":true,`
	}
	return func(ctx context.Context, question string) (string, int64, error) {
		body := fmt.Sprintf(head+`"messages":[{"content":%q,"role":"user"}],"model":"m"}`, question)
		request, err := http.NewRequestWithContext(ctx, http.MethodPost, base+path, strings.NewReader(body))
		if err != nil {
			return "", 0, err
		}
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		if err != nil {
			return "", 0, err
		}
		defer response.Body.Close()
		if stream {
			return bareStream(response.Body)
		}
		raw, err := io.ReadAll(response.Body)
		if err != nil {
			return "", 0, err
		}
		var m bareMessage
		err = json.Unmarshal(raw, &m)
		return m.text(), m.Usage.CompletionTokens + m.Usage.OutputTokens, err
	}
}

// bareMessage is a response, or an event of one, of either protocol.
type bareMessage struct {
	Choices []struct {
		Message, Delta struct{ Content string }
		FinishReason   string `json:"finish_reason"`
	}
	Content []struct{ Text string }
	Delta   struct{ Text string }
	Usage   struct {
		CompletionTokens int64 `json:"completion_tokens"`
		OutputTokens     int64 `json:"output_tokens"`
	}
}

func (m *bareMessage) text() string {
	text := m.Delta.Text
	for _, c := range m.Choices {
		text += c.Message.Content + c.Delta.Content
	}
	for _, c := range m.Content {
		text += c.Text
	}
	return text
}

func bareStream(body io.Reader) (string, int64, error) {
	var text strings.Builder
	var tokens int64
	lines := bufio.NewScanner(body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok || string(data) == "[DONE]" {
			continue
		}
		var m bareMessage
		if err := json.Unmarshal(data, &m); err != nil {
			return "", 0, err
		}
		text.WriteString(m.text())
		tokens = max(tokens, m.Usage.CompletionTokens+m.Usage.OutputTokens)
	}
	return text.String(), tokens, lines.Err()
}

func openAISDK(b testing.TB, base, _ string, stream bool) asker {
	client := openai.NewClient(openaioption.WithBaseURL(base), openaioption.WithAPIKey("k"), openaioption.WithMaxRetries(0), openaioption.WithHTTPClient(httpClient(b)))
	return func(ctx context.Context, question string) (string, int64, error) {
		params := openai.ChatCompletionNewParams{Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(question)}}
		if !stream {
			got, err := client.Chat.Completions.New(ctx, params)
			if err != nil {
				return "", 0, err
			}
			return got.Choices[0].Message.Content, got.Usage.CompletionTokens, nil
		}
		params.StreamOptions.IncludeUsage = openai.Bool(true)
		events := client.Chat.Completions.NewStreaming(ctx, params)
		defer events.Close()
		var acc openai.ChatCompletionAccumulator
		for events.Next() {
			if !acc.AddChunk(events.Current()) {
				return "", 0, errors.New("a chunk does not fit")
			}
		}
		if err := events.Err(); err != nil || len(acc.Choices) == 0 {
			return "", 0, fmt.Errorf("%d choices: %w", len(acc.Choices), err)
		}
		return acc.Choices[0].Message.Content, acc.Usage.CompletionTokens, nil
	}
}

func anthropicSDK(b testing.TB, base, _ string, stream bool) asker {
	client := anthropic.NewClient(anthropicoption.WithBaseURL(strings.TrimSuffix(base, "/v1")), anthropicoption.WithAPIKey("k"), anthropicoption.WithMaxRetries(0), anthropicoption.WithHTTPClient(httpClient(b)))
	return func(ctx context.Context, question string) (string, int64, error) {
		params := anthropic.MessageNewParams{Model: "m", MaxTokens: 8192, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock(question))}}
		if !stream {
			got, err := client.Messages.New(ctx, params)
			if err != nil {
				return "", 0, err
			}
			return got.Content[0].Text, got.Usage.OutputTokens, nil
		}
		events := client.Messages.NewStreaming(ctx, params)
		defer events.Close()
		var acc anthropic.Message
		for events.Next() {
			if err := acc.Accumulate(events.Current()); err != nil {
				return "", 0, err
			}
		}
		if err := events.Err(); err != nil || len(acc.Content) == 0 {
			return "", 0, fmt.Errorf("%d blocks: %w", len(acc.Content), err)
		}
		return acc.Content[0].Text, acc.Usage.OutputTokens, nil
	}
}
