package teacherstest

import (
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A Case is one scripted answer, byte for byte, as a server or a proxy has
// given it according to a public report. A client asks for it as the model
// "case-NAME".
type Case struct {
	Name   string
	Source string // the report
	Want   string // what a right client makes of it
	API    string // "" for chat completions, else anthropic

	Status      int // default 200
	ContentType string
	Header      map[string]string
	Stream      []string // pieces, flushed one after another, where a stream is asked for
	Plain       string   // the whole response otherwise; "" means that the stream is sent all the same
	Then        Fault    // Stall or Drip: what follows the last piece
	Once        bool     // the second request of a body gets an ordinary answer
}

// Cases are all of them, by name.
func Cases() []Case {
	all := slices.Concat(chatCases, errorCases, trapCases, messageCases)
	slices.SortFunc(all, func(a, b Case) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// NewCases starts a fake that answers the cases.
func NewCases(t testing.TB) *Server {
	t.Helper()
	byModel := map[string]Case{}
	for _, c := range Cases() {
		byModel["case-"+c.Name] = c
	}
	return New(t, func(r Request) Reply {
		c, ok := byModel[r.Model]
		switch {
		case !ok:
			return Reply{Status: http.StatusNotFound, Message: "the model " + r.Model + " does not exist", Type: "not_found_error"}
		case c.Once && r.Attempt > 0:
			return Reply{Content: "four"}
		}
		return c.reply(r)
	})
}

func (c *Case) reply(r Request) Reply {
	out := Reply{Status: c.Status, Header: c.Header, ContentType: c.ContentType, Fault: c.Then}
	if r.Stream && len(c.Stream) > 0 || c.Plain == "" {
		out.RawStream = c.Stream
		if out.ContentType == "" {
			out.ContentType = "text/event-stream"
		}
		return out
	}
	if out.ContentType == "" {
		out.ContentType = "application/json"
	}
	key := r.Header.Get("Authorization") + r.Header.Get("X-Api-Key")
	out.RawStream = []string{strings.ReplaceAll(c.Plain, "{KEY}", key)}
	return out
}

// sse makes events of data.
func sse(data ...string) []string {
	out := make([]string, len(data))
	for i, d := range data {
		out[i] = "data: " + d + "\n\n"
	}
	return out
}

const chunkHead = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[`

// chunk is a chat.completion.chunk with one delta.
func chunk(delta string) string {
	return chunkHead + `{"index":0,"delta":` + delta + `,"finish_reason":null}]}`
}

// ending is the chunk with the finish reason.
func ending(reason string) string {
	return chunkHead + `{"index":0,"delta":{},"finish_reason":"` + reason + `"}]}`
}

// used is the chunk with the usage.
func used(usage string) string { return chunkHead + `],"usage":` + usage + `}` }

// stream is a whole stream of these deltas that ends with a reason, its usage
// and [DONE].
func stream(reason, usage string, deltas ...string) []string {
	var data []string
	for _, d := range deltas {
		data = append(data, chunk(d))
	}
	return sse(append(data, ending(reason), used(usage), "[DONE]")...)
}

// completion is a whole chat.completion.
func completion(message, reason, usage string) string {
	return `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":` + message + `,"finish_reason":"` + reason + `"}],"usage":` + usage + `}`
}

const usage1913 = `{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32}`

const four = `{"content":"four"}`

const leak = `The weather is <|tool_calls_section_begin|><|tool_call_begin|>functions.w:0<|tool_call_argument_begin|>{}<|tool_call_end|>`

// chatCases are about what a whole answer holds.
var chatCases = []Case{
	{
		Name: "choice-usage", Source: "earendil-works/pi#2017; northes/go-moonshot#17; tldw_chatbook#1627", Want: "usage is read from the choice and counted once though a last chunk repeats it",
		Stream: sse(chunk(four), chunkHead+`{"index":0,"delta":{},"finish_reason":"stop","usage":`+usage1913+`}]}`, used(usage1913), "[DONE]"),
	},
	{
		Name: "cached-top-level", Source: "earendil-works/pi#8075", Want: "12 of 19 prompt tokens are cached",
		Stream: stream("stop", `{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,"cached_tokens":12}`, four),
		Plain:  completion(four, "stop", `{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,"cached_tokens":12}`),
	},
	{
		Name: "cached-included", Source: "BerriAI/litellm#6215, #14849", Want: "86 prompt tokens are billed in full and 1920 as cached",
		Stream: stream("stop", `{"prompt_tokens":2006,"completion_tokens":13,"prompt_tokens_details":{"cached_tokens":1920}}`, four),
		Plain:  completion(four, "stop", `{"prompt_tokens":2006,"completion_tokens":13,"prompt_tokens_details":{"cached_tokens":1920}}`),
	},
	{
		Name: "reasoning-renamed", Source: "vllm-project/vllm#50624; BerriAI/litellm#26501", Want: "reasoning is kept apart from the content, and once where both names carry it",
		Stream: stream("stop", usage1913, `{"reasoning":"two and "}`, `{"reasoning":"two","reasoning_content":"two"}`, four),
		Plain:  completion(`{"content":"four","reasoning":"two and two","reasoning_content":"two and two"}`, "stop", usage1913),
	},
	{
		Name: "reasoning-and-content", Source: "BerriAI/litellm#36327", Want: "one delta carries both",
		Stream: stream("stop", usage1913, `{"reasoning_content":"R","content":"A"}`),
		Plain:  completion(`{"content":"A","reasoning_content":"R"}`, "stop", usage1913),
	},
	{
		Name: "json-for-stream", Source: "measured on two Go SDKs", Want: "a whole completion that answers a stream request is read", ContentType: "application/json",
		Stream: []string{completion(four, "stop", usage1913)},
	},
	{
		Name: "many-comments", Source: "measured on a Go SDK, which gives up after 300", Want: "2,000 comments are passed over",
		Stream: append([]string{strings.Repeat(": keep-alive\n\n", 2000)}, stream("stop", usage1913, four)...),
	},
	{
		Name: "crlf-nospace", Source: "SSE as several proxies send it", Want: "lines end in CRLF, no space follows data:, the last event lacks its blank line",
		Stream: []string{"data:" + chunk(four) + "\r\n\r\n", "data:" + ending("stop") + "\r\n\r\n", "data:" + used(usage1913)},
	},
	{
		Name: "tools-same-index", Source: "NousResearch/hermes-agent#3468; huggingface/smolagents#1569", Want: "two calls, though both have index 0",
		Stream: stream("tool_calls", usage1913, `{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"a","arguments":"{\"x\":1}"}}]}`,
			`{"tool_calls":[{"index":0,"id":"t2","type":"function","function":{"name":"b","arguments":"{\"x\":2}"}}]}`),
	},
	{
		Name: "tools-interleaved", Source: "QwenLM/Qwen-Agent#943", Want: "two calls, whose later fragments have an index and no id",
		Stream: stream("tool_calls", usage1913, `{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"a","arguments":""}},{"index":1,"id":"t2","type":"function","function":{"name":"b","arguments":""}}]}`,
			`{"tool_calls":[{"index":1,"function":{"arguments":"{\"y\""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1}"}}]}`, `{"tool_calls":[{"index":1,"function":{"arguments":":2}"}}]}`),
	},
	{
		Name: "tools-object-args", Source: "SGLang's schema", Want: "arguments that are an object are kept as JSON text",
		Stream: stream("tool_calls", usage1913, `{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"a","arguments":{"x":1}}}]}`),
		Plain:  completion(`{"content":null,"tool_calls":[{"id":"t1","type":"function","function":{"name":"a","arguments":{"x":1}}}]}`, "tool_calls", usage1913),
	},
	{
		Name: "tools-broken-args", Source: "arguments cut by the token cap", Want: "the raw text is kept and marked invalid",
		Stream: stream("length", usage1913, `{"tool_calls":[{"index":0,"id":"t1","type":"function","function":{"name":"a","arguments":"{\"x\":"}}]}`),
	},
	{
		Name: "tool-tokens-leaked", Source: "vllm-project/vllm#54273, #53246", Want: "the answer is flagged as a parser's leak",
		Stream: stream("stop", usage1913, `{"content":"`+leak+`"}`),
		Plain:  completion(`{"content":"`+leak+`"}`, "stop", usage1913),
	},
	{
		Name: "prompt-truncated", Source: "ollama/ollama#4967, #17889", Want: "a prompt of 8,000 tokens was read as 2,050",
		Stream: stream("stop", `{"prompt_tokens":2050,"completion_tokens":13,"total_tokens":2063}`, four),
	},
	{
		Name: "logprob-null", Source: "sgl-project/sglang#26778; measured on two Go SDKs", Want: "a null and the sentinel -9999 stay null",
		Plain: `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"message":{"content":"four"},"logprobs":{"content":[{"token":"fo","logprob":null,"bytes":[102,111],"top_logprobs":[]},{"token":"ur","logprob":-9999.0,"bytes":[117,114],"top_logprobs":[]}]},"finish_reason":"stop"}],"usage":` + usage1913 + `}`,
	},
	{
		Name: "bad-utf8", Source: "servers that cut a character between two chunks", Want: "valid UTF-8, and a flag",
		Stream: stream("stop", usage1913, "{\"content\":\"caf\xc3\"}"),
	},
	{
		Name: "huge-line", Source: "vllm-project/vllm#50604", Want: "8,000,000 characters in one event",
		Stream: stream("stop", usage1913, `{"content":"`+strings.Repeat("0123456789", 800000)+`"}`),
	},
}

// errorCases are about answers that are none.
var errorCases = []Case{
	{
		Name: "eof-no-finish", Source: "2389-research/tracker#544", Want: "an answer that ends cleanly without a finish reason is cut",
		Stream: sse(chunk(`{"content":"the answer is fo"}`)),
	},
	{
		Name: "error-in-stream", Source: "open-octo/octo-agent#910", Want: "an error in the middle of a stream with status 200",
		Stream: sse(chunk(`{"content":"the "}`), `{"error":{"message":"upstream failed","code":502}}`),
	},
	{
		Name: "error-event", Source: "open-octo/octo-agent#910", Want: "the same as an event of type error with a flat object",
		Stream: append(sse(chunk(`{"content":"the "}`)), "event: error\ndata: {\"object\":\"error\",\"message\":\"engine died\",\"code\":500}\n\n"),
	},
	{
		Name: "error-null", Source: "measured on a Go SDK", Want: "\"error\":null is no error",
		Stream: sse(`{"error":null,"choices":[{"index":0,"delta":{"content":"four"},"finish_reason":null}]}`, `{"error":null,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, used(usage1913), "[DONE]"),
	},
	{
		Name: "stall", Source: "deepseek-ai/DeepSeek-V3#1608", Want: "the idle limit passes on an open and silent connection",
		Stream: sse(chunk(`{"content":"the "}`)), Then: Stall,
	},
	{
		Name: "stall-comments", Source: "deepseek-ai/DeepSeek-V3#1608", Want: "comments are no progress",
		Stream: sse(chunk(`{"content":"the "}`)), Then: Drip,
	},
	{
		Name: "flat-400", Source: "vLLM and SGLang", Want: "the server's words in a flat error object", Status: 400,
		Plain: `{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 9000 tokens.","type":"BadRequestError","param":null,"code":400}`,
	},
	{
		Name: "detail-422", Source: "FastAPI", Want: "the server's words in a list of details", Status: 422,
		Plain: `{"detail":[{"loc":["body","messages"],"msg":"field required","type":"value_error.missing"}]}`,
	},
	{
		Name: "quota-429", Source: "OpenAI's insufficient_quota", Want: "a 429 that no waiting helps", Status: 429,
		Plain: `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`,
	},
	{
		Name: "empty-200", Source: "bespokelabsai/curator#463", Want: "a 200 without a body is worth another try", ContentType: "application/json", Plain: " ",
	},
	{
		Name: "echo-secret", Source: "bespokelabsai/curator#141", Want: "an error that repeats the key", Status: 502, ContentType: "text/plain",
		Plain: "upstream error, request headers: {KEY}",
	},
}
