package teachers

import (
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
)

func TestModelDrifted(t *testing.T) {
	for _, tt := range []struct {
		asked, answered string
		aliases         []string
		want            bool
	}{
		{"kimi-k3", "kimi-k3", nil, false},
		{"kimi-k3", "", nil, false},
		{"kimi-k3", "Kimi-K3", nil, false},
		{"moonshotai/kimi-k3", "kimi-k3-0905", nil, false},
		{"kimi-k3", "moonshotai/Kimi-K3", nil, false},
		{"gpt-4o", "gpt-4o-2024-08-06", nil, false},
		{"gpt-4o-latest", "gpt-4o-2024-08-06", nil, false},
		{"gpt-4o-2024-05-13", "gpt-4o", nil, false},
		{"gpt-4o-2024-05-13", "gpt-4o-2024-08-06", nil, true},
		{"claude-sonnet-9@20261023", "claude-sonnet-9-20261023", nil, false},
		{"kimi-k2-0711-preview", "kimi-k2-0905-preview", nil, true},
		{"gemini-2.5-pro", "gemini-2.5-pro-preview-06-05", nil, false},
		{"gpt-4o", "gpt-4o-mini", nil, true},
		{"gpt-4o", "gpt-4o-mini-2024-07-18", nil, true},
		{"kimi-k3", "kimi-k3.1-pro", nil, true},
		{"llama3.1", "llama3.1:latest", nil, false},
		{"llama3.1:8b", "llama3.1:70b", nil, true},
		{"deepseek/deepseek-v4:free", "deepseek/deepseek-v4", nil, false},
		{"smollm2", "/models/SmolLM2.gguf", nil, false},
		{"smollm2", `C:\models\other.gguf`, nil, true},
		{"local", "gpt-3.5-turbo", nil, true},
		{"local", "gpt-3.5-turbo", []string{"gpt-3.5-turbo"}, false},
	} {
		if got := ModelDrifted(tt.asked, tt.answered, tt.aliases); got != tt.want {
			t.Errorf("asked %q, answered %q: %v, want %v", tt.asked, tt.answered, got, tt.want)
		}
	}
}

// TestPromptSizes gives real counts of o200k for texts in several scripts: a
// whole prompt is never called cut, one of which a third was read always is.
func TestPromptSizes(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		times      int
		tokens     int64 // of the whole
		blunt      bool  // too little is known of such text to see a cut
	}{
		{"chinese", "机器学习是人工智能的一个重要分支，它研究计算机如何从数据中自动学习规律，并利用这些规律对未知数据进行预测。近年来，大语言模型在数学推理、代码生成和开放式对话等任务上取得了显著进展，但训练这样的模型需要大量高质量的数据。", 60, 3960, false},
		{"japanese", "機械学習は、人工知能の一分野であり、コンピュータがデータから自動的に規則を学習する方法を研究する。東京は日本の首都です。", 80, 3760, false},
		{"russian", "Машинное обучение является важным разделом искусственного интеллекта, который изучает, как компьютеры могут автоматически извлекать закономерности из данных. ", 60, 1982, false},
		{"german", "Die Donaudampfschifffahrtsgesellschaft veröffentlichte gestern ihre Quartalsergebnisse, die deutlich über den Erwartungen der Analysten lagen. ", 60, 1801, false},
		{"indented code", "def f(x):\n" + strings.Repeat(" ", 40) + "return x\n", 300, 2400, false},
		{"rules", strings.Repeat("=", 80) + "\n", 200, 400, true},
	} {
		text := strings.Repeat(tt.text, tt.times)
		size := PromptSize{Floor: FloorTokens(text), Bytes: int64(len(text)), Messages: 1}
		if size.Truncated(tt.tokens) || size.Truncated(tt.tokens*4/5) {
			t.Errorf("%s: a whole prompt of %d tokens is called cut (floor %d)", tt.name, tt.tokens, size.Floor)
		}
		if size.Inflated(tt.tokens) {
			t.Errorf("%s: a whole prompt of %d tokens is called inflated", tt.name, tt.tokens)
		}
		if got := size.Truncated(tt.tokens / 3); got == tt.blunt {
			t.Errorf("%s: a third of %d tokens: called cut %v (floor %d)", tt.name, tt.tokens, got, size.Floor)
		}
		if !size.Inflated(size.Bytes + 4000) {
			t.Errorf("%s: more tokens than bytes is not called inflated", tt.name)
		}
		if guess := TextTokens(text); !tt.blunt && (guess < tt.tokens/2 || guess > 2*tt.tokens) {
			t.Errorf("%s: %d tokens are guessed, and it has %d", tt.name, guess, tt.tokens)
		}
	}
	if (PromptSize{Floor: FloorTokens("What is 2+2?"), Bytes: 12, Messages: 1}).Truncated(1) {
		t.Error("a prompt of a few words is called cut")
	}
	if (PromptSize{Bytes: 100, Messages: 1, Images: 1}).Inflated(9000) {
		t.Error("a prompt with an image is called inflated")
	}
}

func TestUsageFromWhereverItIs(t *testing.T) {
	const head = `data: {"choices":[{"index":0,"delta":{"content":"four"},"finish_reason":"stop"}]`
	plain := `{"choices":[{"index":0,"message":{"content":"four"},"finish_reason":"stop"}]`
	for name, tt := range map[string]struct {
		raw    string
		format string
		want   chat.Usage
	}{
		"timings of llama.cpp": {head + "}\n\ndata: {\"choices\":[],\"timings\":{\"cache_n\":12,\"prompt_n\":7,\"prompt_ms\":3.5,\"predicted_n\":13}}\n\n", FormatOpenAIStream,
			chat.Usage{PromptTokens: 19, CachedTokens: 12, CompletionTokens: 13}},
		"timings beside usage": {plain + `,"usage":{"prompt_tokens":19,"completion_tokens":13},"timings":{"cache_n":12,"prompt_n":7,"predicted_n":13}}`, FormatOpenAIJSON,
			chat.Usage{PromptTokens: 19, CachedTokens: 12, CompletionTokens: 13}},
		"timings that disagree": {plain + `,"usage":{"prompt_tokens":19,"completion_tokens":13},"timings":{"cache_n":2,"prompt_n":7,"predicted_n":1}}`, FormatOpenAIJSON,
			chat.Usage{PromptTokens: 19, CompletionTokens: 13}},
		"groq's own object": {head + `,"x_groq":{"id":"r","usage":{"prompt_tokens":19,"completion_tokens":13,"prompt_time":0.1}}}` + "\n\n", FormatOpenAIStream,
			chat.Usage{PromptTokens: 19, CompletionTokens: 13}},
		"ollama's counts": {plain + `,"prompt_eval_count":19,"eval_count":13}`, FormatOpenAIJSON,
			chat.Usage{PromptTokens: 19, CompletionTokens: 13}},
	} {
		a, err := Parse(tt.format, []byte(tt.raw))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if a.Usage == nil || *a.Usage != tt.want {
			t.Errorf("%s: %+v, want %+v", name, a.Usage, tt.want)
		}
	}
}

func TestFillUsage(t *testing.T) {
	content := "The answer is four, as everybody knows."
	prompt := func() int64 { return 77 }
	for name, tt := range map[string]struct {
		usage   *chat.Usage
		headers map[string]string
		want    chat.Usage
	}{
		"reported":         {&chat.Usage{PromptTokens: 19, CompletionTokens: 13}, nil, chat.Usage{PromptTokens: 19, CompletionTokens: 13}},
		"none":             {nil, nil, chat.Usage{PromptTokens: 77, CompletionTokens: TextTokens(content), Estimated: true}},
		"headers":          {nil, map[string]string{"x-prompt-tokens": "19", "x-generated-tokens": " 13"}, chat.Usage{PromptTokens: 19, CompletionTokens: 13}},
		"headers of noise": {nil, map[string]string{"x-prompt-tokens": "-4", "x-generated-tokens": "many"}, chat.Usage{PromptTokens: 77, CompletionTokens: TextTokens(content), Estimated: true}},
		"no completion":    {&chat.Usage{PromptTokens: 19}, nil, chat.Usage{PromptTokens: 19, CompletionTokens: TextTokens(content), Estimated: true}},
	} {
		a := &Answer{Usage: tt.usage, Message: chat.Message{Content: &content}}
		if got := FillUsage(a, tt.headers, prompt); got != tt.want {
			t.Errorf("%s: %+v, want %+v", name, got, tt.want)
		}
	}
	if TextTokens(content) < 5 {
		t.Errorf("%q is %d tokens", content, TextTokens(content))
	}
}

func TestParsePartial(t *testing.T) {
	const cutStream = "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"think\"}}]}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"The ans\"}}],\"usage\":{\"prompt_tokens\":19,\"completion_tokens\":4}}\n\n" +
		"data: {\"choices\":[{\"index\":0,\"del"
	a := ParsePartial(FormatOpenAIStream, []byte(cutStream))
	if a == nil || a.Message.Content == nil || *a.Message.Content != "The ans" || *a.Message.ReasoningContent != "think" || a.Finish != "" || a.Usage == nil || a.Usage.PromptTokens != 19 {
		t.Errorf("the cut stream reads %+v", a)
	}
	const anthropic = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"id\":\"m\",\"model\":\"c\",\"usage\":{\"input_tokens\":19,\"output_tokens\":1}}}\n\n" +
		"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n" +
		"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Hal\"}}\n\n"
	if a = ParsePartial(FormatAnthropicStream, []byte(anthropic)); a == nil || a.Message.Content == nil || *a.Message.Content != "Hal" || a.Usage == nil || a.Usage.PromptTokens != 19 {
		t.Errorf("the cut message reads %+v", a)
	}
	for _, raw := range []string{"", " \n", "<html>busy</html>", `{"error":{"message":"no"}}`, ": keep-alive\n\n", "data: [DONE]\n\n"} {
		for _, format := range []string{FormatOpenAIStream, FormatOpenAIJSON, FormatAnthropicStream, FormatAnthropicJSON, "no-such-format"} {
			if a := ParsePartial(format, []byte(raw)); a != nil {
				t.Errorf("%s %q reads %+v, want nothing", format, raw, a)
			}
		}
	}
}

func FuzzParsePartial(f *testing.F) {
	f.Add(FormatOpenAIStream, []byte("data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: {\"ch"))
	f.Add(FormatAnthropicStream, []byte("data: {\"type\":\"message_start\",\"message\":{}}\n\n"))
	f.Add(FormatOpenAIJSON, []byte(`{"choices":[{"message":{"content":"a"}}`))
	f.Fuzz(func(t *testing.T, format string, raw []byte) {
		if a := ParsePartial(format, raw); a != nil && a.Finish != "" {
			t.Errorf("a part ends with %q", a.Finish)
		}
	})
}

func TestBills(t *testing.T) {
	price := Price{Input: 3, CachedInput: 0.3, Output: 15, BatchDiscount: 0.5, GPUHour: 3.6}
	usage := chat.Usage{PromptTokens: 1000, CachedTokens: 400, CompletionTokens: 200}
	if got := price.Cost(usage); got != 600*3+400*3/10+200*15 {
		t.Errorf("tokens cost %d", got)
	}
	for _, tt := range []struct {
		bill Bill
		want int64
	}{
		{Bill{Usage: usage}, 4920},
		{Bill{Usage: usage, Batch: true}, 2460},
		{Bill{Share: time.Second}, 1000},
		{Bill{Share: 1500 * time.Microsecond}, 2}, // 1.5 micro-dollars, half up
		{Bill{Usage: usage, Share: time.Hour}, 4920 + 3_600_000},
		{Bill{Usage: chat.Usage{PromptTokens: math.MaxInt64}, Share: math.MaxInt64}, math.MaxInt64},
	} {
		if got := price.CostOf(tt.bill); got != tt.want {
			t.Errorf("%+v costs %d, want %d", tt.bill, got, tt.want)
		}
	}
	plain := Price{Input: 3, Output: 15, AsOf: "2026-11-01"}
	halved := plain
	halved.BatchDiscount = 0.5
	if plain.ID() == halved.ID() {
		t.Error("a discount does not change the price's id")
	}
	if (&Price{BatchDiscount: 1.5}).Validate() == nil || (&Price{GPUHour: math.Inf(1)}).Validate() == nil {
		t.Error("a price that is none is accepted")
	}
}

// TestShares runs three requests on one endpoint: one for the whole of six
// seconds, one for the middle two, one for the last.
func TestShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &share{}
		var whole, middle, last Reply
		first := s.begin()
		_ = sleep(t.Context(), 2*time.Second)
		second := s.begin()
		_ = sleep(t.Context(), 2*time.Second)
		s.end(second, &middle, nil)
		_ = sleep(t.Context(), time.Second)
		third := s.begin()
		_ = sleep(t.Context(), time.Second)
		s.end(third, &last, nil)
		s.end(first, &whole, nil)
		_ = sleep(t.Context(), time.Hour) // nobody pays for an idle endpoint
		var failed Error
		s.end(s.begin(), nil, &failed)
		if whole.Share != 4500*time.Millisecond || middle.Share != time.Second || last.Share != 500*time.Millisecond || failed.Share != 0 {
			t.Errorf("shares %v, %v, %v, %v", whole.Share, middle.Share, last.Share, failed.Share)
		}
	})
}

func TestAttemptsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := asking{}
		begun := time.Now()
		fail := func(class string, status int, partial string, sent bool) {
			started := time.Now()
			_ = sleep(t.Context(), time.Second)
			a.record(started, nil, &Error{Class: class, Status: status, Partial: []byte(partial), Excerpt: "words", sent: sent})
		}
		for range keptSent + 5 {
			fail(ClassRateLimited, 429, "", true)
		}
		fail(ClassNetwork, 0, "", false)
		fail(ClassNetwork, 0, "", true) // it had left, so the model may have been at work
		fail(ClassNetwork, 0, "", true)
		fail(ClassTruncated, 200, "half", true)
		a.record(time.Now(), &Reply{Status: 200, Raw: []byte("whole")}, nil)
		if got := Requests(a.attempts); got != keptSent+10 {
			t.Errorf("%d requests, want %d", got, keptSent+10)
		}
		if len(a.attempts) != 6 {
			t.Fatalf("%d attempts: %+v", len(a.attempts), a.attempts)
		}
		run := a.attempts[0]
		if run.Times != keptSent+5 || len(run.Each()) != keptSent+1 || run.Excerpt != "words" {
			t.Errorf("the run has %d times, %d of them told", run.Times, len(run.Each()))
		}
		for i, s := range run.Each() {
			if want := begun.Add(time.Duration(i) * time.Second); !s.Started.Equal(want) || s.Latency != time.Second {
				t.Fatalf("request %d started %v and took %v", i, s.Started, s.Latency)
			}
		}
		if !a.attempts[1].Unsent || a.attempts[2].Unsent || len(a.attempts[5].Each()) != 1 {
			t.Errorf("%+v", a.attempts[1:])
		}
	})
}

func BenchmarkFloorTokens(b *testing.B) {
	for name, text := range map[string]string{"english": "The quick brown fox jumps over the lazy dog. ", "chinese": "机器学习是人工智能的一个重要分支，它研究计算机。"} {
		text := strings.Repeat(text, 200)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				FloorTokens(text)
			}
		})
	}
}
