package teacherstest

import "strings"

// event is one event of a messages stream.
func event(kind, rest string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
}

const (
	startUsage = `{"input_tokens":7,"cache_creation_input_tokens":2,"cache_read_input_tokens":10,"output_tokens":1}`
	endUsage   = `{"output_tokens":13}`
)

func messageStart(usage string) string {
	return event("message_start", `,"message":{"id":"m1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":`+usage+`}`)
}

func blockStart(index, block string) string {
	return event("content_block_start", `,"index":`+index+`,"content_block":`+block)
}

func blockDelta(index, delta string) string {
	return event("content_block_delta", `,"index":`+index+`,"delta":`+delta)
}

func blockStop(index string) string { return event("content_block_stop", `,"index":`+index) }

func messageEnd(reason string) []string {
	return []string{event("message_delta", `,"delta":{"stop_reason":"`+reason+`","stop_sequence":null},"usage":`+endUsage), event("message_stop", "")}
}

// messageStream is a stream of these events between the first and the last.
func messageStream(reason string, events ...string) []string {
	return append(append([]string{messageStart(startUsage)}, events...), messageEnd(reason)...)
}

func textBlock(index, text string) string {
	return blockStart(index, `{"type":"text","text":""}`) + blockDelta(index, `{"type":"text_delta","text":"`+text+`"}`) + blockStop(index)
}

func wholeMessage(content, reason string) string {
	return `{"id":"m1","type":"message","role":"assistant","model":"m","content":` + content + `,"stop_reason":"` + reason + `","stop_sequence":null,"usage":{"input_tokens":7,"cache_creation_input_tokens":2,"cache_read_input_tokens":10,"output_tokens":13}}`
}

// messageCases are those of the messages protocol.
var messageCases = []Case{
	{
		Name: "messages-usage", API: "anthropic", Source: "BerriAI/litellm#6215, #14849", Want: "input_tokens excludes what was read from a cache or written to one: 19 prompt tokens, 10 cached, 2 written",
		Stream: messageStream("end_turn", textBlock("0", "four")), Plain: wholeMessage(`[{"type":"text","text":"four"}]`, "end_turn"),
	},
	{
		Name: "messages-usage-at-the-end", API: "anthropic", Source: "gateways that know the prompt's tokens at the end only", Want: "the counts of message_delta complete those of message_start",
		Stream: []string{messageStart(`{"input_tokens":0,"output_tokens":0}`), textBlock("0", "four"),
			event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"input_tokens":7,"cache_read_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":1,"ephemeral_1h_input_tokens":1},"output_tokens":13,"output_tokens_details":{"thinking_tokens":5}}`),
			event("message_stop", "")},
	},
	{
		Name: "messages-thinking", API: "anthropic", Source: "Anthropic's extended thinking", Want: "thinking is reasoning, with its signature; pings are passed over",
		Stream: messageStream("end_turn", blockStart("0", `{"type":"thinking","thinking":"","signature":""}`), event("ping", ""), blockDelta("0", `{"type":"thinking_delta","thinking":"two and "}`),
			blockDelta("0", `{"type":"thinking_delta","thinking":"two"}`), blockDelta("0", `{"type":"signature_delta","signature":"c2ln"}`), blockStop("0"), textBlock("1", "four")),
		Plain: wholeMessage(`[{"type":"thinking","thinking":"two and two","signature":"c2ln"},{"type":"text","text":"four"}]`, "end_turn"),
	},
	{
		Name: "messages-redacted", API: "anthropic", Source: "Anthropic's redacted thinking", Want: "what is encrypted is told of and stays in the raw response",
		Stream: messageStream("end_turn", blockStart("0", `{"type":"redacted_thinking","data":"RW5j"}`), blockStop("0"), textBlock("1", "four")),
		Plain:  wholeMessage(`[{"type":"redacted_thinking","data":"RW5j"},{"type":"text","text":"four"}]`, "end_turn"),
	},
	{
		Name: "messages-interleaved", API: "anthropic", Source: "Anthropic's interleaved thinking", Want: "several blocks of thinking and text are read in order",
		Stream: messageStream("end_turn", blockStart("0", `{"type":"thinking","thinking":"one"}`), blockStop("0"), textBlock("1", "fo"), blockStart("2", `{"type":"thinking","thinking":"two"}`), blockStop("2"), textBlock("3", "ur")),
		Plain:  wholeMessage(`[{"type":"thinking","thinking":"one"},{"type":"text","text":"fo"},{"type":"thinking","thinking":"two"},{"type":"text","text":"ur"}]`, "end_turn"),
	},
	{
		Name: "messages-tools", API: "anthropic", Source: "Anthropic's fine-grained tool streaming", Want: "arguments are put together from pieces, and {} where none came",
		Stream: messageStream("tool_use", blockStart("0", `{"type":"tool_use","id":"t1","name":"a","input":{}}`), blockDelta("0", `{"type":"input_json_delta","partial_json":""}`), blockDelta("0", `{"type":"input_json_delta","partial_json":"{\"x\""}`),
			blockDelta("0", `{"type":"input_json_delta","partial_json":":1}"}`), blockStop("0"), blockStart("1", `{"type":"tool_use","id":"t2","name":"b","input":{}}`), blockStop("1")),
		Plain: wholeMessage(`[{"type":"tool_use","id":"t1","name":"a","input":{"x":1}},{"type":"tool_use","id":"t2","name":"b","input":{}}]`, "tool_use"),
	},
	{
		Name: "messages-tools-at-once", API: "anthropic", Source: "gateways that send a call's input with its start", Want: "the input of the start counts where no pieces come",
		Stream: messageStream("tool_use", blockStart("0", `{"type":"tool_use","id":"t1","name":"a","input":{"x":1}}`), blockStop("0")),
	},
	{
		Name: "messages-tools-cut", API: "anthropic", Source: "arguments cut by the token cap", Want: "the raw text is kept and marked invalid",
		Stream: messageStream("max_tokens", blockStart("0", `{"type":"tool_use","id":"t1","name":"a","input":{}}`), blockDelta("0", `{"type":"input_json_delta","partial_json":"{\"x\":"}`), blockStop("0")),
	},
	{
		Name: "messages-server-tools", API: "anthropic", Source: "Anthropic's web search", Want: "blocks of the server's own tools are no text of the answer, and are told of",
		Stream: messageStream("end_turn", blockStart("0", `{"type":"server_tool_use","id":"s1","name":"web_search","input":{}}`), blockDelta("0", `{"type":"input_json_delta","partial_json":"{\"query\":\"x\"}"}`), blockStop("0"),
			blockStart("1", `{"type":"web_search_tool_result","tool_use_id":"s1","content":[]}`), blockStop("1"), textBlock("2", "four")),
	},
	{
		Name: "messages-refusal", API: "anthropic", Source: "Anthropic's stop reasons", Want: "a refusal is a result",
		Plain: wholeMessage(`[]`, "refusal"),
	},
	{
		Name: "messages-context-exceeded", API: "anthropic", Source: "Anthropic's stop reasons", Want: "the context ended the answer, as a cap does",
		Stream: messageStream("model_context_window_exceeded", textBlock("0", "four")),
	},
	{
		Name: "messages-pause", API: "anthropic", Source: "Anthropic's stop reasons", Want: "a paused turn is a result that did not end by itself",
		Stream: messageStream("pause_turn", textBlock("0", "fo")),
	},
	{
		Name: "messages-no-stop-event", API: "anthropic", Source: "proxies that end the stream after message_delta", Want: "the stop reason was there, so the answer is whole",
		Stream: messageStream("end_turn", textBlock("0", "four"))[:3],
	},
	{
		Name: "messages-no-stop-reason", API: "anthropic", Source: "2389-research/tracker#544", Want: "message_stop without a stop reason is a cut answer",
		Stream: []string{messageStart(startUsage), textBlock("0", "fo"), event("message_stop", "")},
	},
	{
		Name: "messages-cut", API: "anthropic", Source: "2389-research/tracker#544", Want: "a stream that ends cleanly without a stop reason is cut",
		Stream: []string{messageStart(startUsage), textBlock("0", "fo")},
	},
	{
		Name: "messages-pings-only", API: "anthropic", Source: "deepseek-ai/DeepSeek-V3#1608", Want: "pings and comments are no progress",
		Stream: []string{messageStart(startUsage), strings.Repeat(event("ping", ""), 3)}, Then: Drip,
	},
	{
		Name: "messages-error-event", API: "anthropic", Source: "Anthropic's streaming errors", Want: "an error in the middle of a stream",
		Stream: []string{messageStart(startUsage), textBlock("0", "fo"), event("error", `,"error":{"type":"api_error","message":"Internal server error"}`)},
	},
	{
		Name: "messages-unnamed-events", API: "anthropic", Source: "gateways that leave the event lines out", Want: "the type in the data is enough",
		Stream: sse(`{"type":"message_start","message":{"model":"m","usage":{"input_tokens":19}}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"four"}}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":13}}`, `{"type":"message_stop"}`),
	},
	{
		Name: "messages-json-for-stream", API: "anthropic", Source: "measured on two Go SDKs", Want: "a whole message that answers a stream request is read", ContentType: "application/json",
		Stream: []string{wholeMessage(`[{"type":"text","text":"four"}]`, "end_turn")},
	},
	{
		Name: "messages-think-tags", API: "anthropic", Source: "open models behind this protocol without a reasoning parser", Want: "inline tags are reasoning here too",
		Stream: messageStream("end_turn", textBlock("0", `<think>two and two</think>four`)),
	},
	{
		Name: "messages-new-event", API: "anthropic", Source: "Anthropic's versioning policy", Want: "events and deltas that nobody knows yet are passed over",
		Stream: messageStream("end_turn", event("weather_report", `,"sky":"blue"`), textBlock("0", "four"), blockDelta("0", `{"type":"citations_delta","citation":{}}`)),
	},
}
