package teacherstest

// trapCases are further ways in which endpoints of the chat-completions
// protocol surprise their clients.
var trapCases = []Case{
	// Where the text is.
	{
		Name: "think-closing-tag-only", Source: "vllm-project/vllm#36207", Want: "the template put the opening tag in the prompt",
		Stream: stream("stop", usage1913, `{"content":"two and two"}`, `{"content":"\n</thi"}`, `{"content":"nk>\n\nfour"}`),
		Plain:  completion(`{"content":"two and two\n</think>\n\nfour"}`, "stop", usage1913),
	},
	{
		Name: "reasoning-details-encrypted", Source: "OpenRouter's documentation", Want: "the readable part is reasoning; the encrypted one stays in the raw response",
		Stream: stream("stop", usage1913, `{"reasoning":"R","reasoning_details":[{"type":"reasoning.text","text":"R","signature":null}]}`, `{"reasoning_details":[{"type":"reasoning.encrypted","data":"b64=="}]}`, four),
	},
	{
		Name: "reasoning-summary", Source: "OpenRouter's documentation", Want: "a summary is marked as one",
		Plain: completion(`{"content":"four","reasoning_details":[{"type":"reasoning.summary","summary":"S"}]}`, "stop", usage1913),
	},
	{
		Name: "content-parts", Source: "Mistral's form of content", Want: "text parts are the content, thinking parts the reasoning",
		Stream: stream("stop", usage1913, `{"content":[{"type":"thinking","thinking":[{"type":"text","text":"two and two"}]}]}`, `{"content":[{"type":"text","text":"four"}]}`),
		Plain:  completion(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"two and two"}]},{"type":"text","text":"four"}]}`, "stop", usage1913),
	},
	{
		Name: "refusal", Source: "OpenAI's structured outputs", Want: "a refusal is apart from the content, which is null",
		Stream: stream("stop", usage1913, `{"content":null,"refusal":"I cannot "}`, `{"refusal":"help."}`),
		Plain:  completion(`{"content":null,"refusal":"I cannot help."}`, "stop", usage1913),
	},
	{
		Name: "terminator-leaked", Source: "vllm-project/vllm#54273", Want: "a message terminator at the end is a parser's leak",
		Stream: stream("stop", usage1913, `{"content":"four<|close|>"}`),
	},
	{
		Name: "tools-in-reasoning", Source: "vllm-project/vllm#53246", Want: "a tools block inside the reasoning is a parser's leak",
		Stream: stream("stop", usage1913, `{"reasoning":"so I call <|tool_call_begin|>w<|tool_call_end|>"}`, `{"content":""}`),
	},
	{
		Name: "whole-message-at-the-end", Source: "gateways that repeat the message in the last event", Want: "the text is read once",
		Stream: sse(chunk(four), `{"id":"c1","choices":[{"index":0,"message":{"role":"assistant","content":"four"},"finish_reason":"stop"}]}`, used(usage1913), "[DONE]"),
	},
	// Tool calls.
	{
		Name: "tools-no-index", Source: "Ollama and others", Want: "calls without an index are told apart by their ids",
		Stream: stream("tool_calls", usage1913, `{"tool_calls":[{"id":"t1","function":{"name":"a","arguments":"{}"}},{"id":"t2","function":{"name":"b","arguments":"{\"y\":2}"}}]}`),
	},
	{
		Name: "tools-no-id", Source: "llama.cpp and gateways", Want: "calls without ids are told apart by their index",
		Stream: stream("tool_calls", usage1913, `{"tool_calls":[{"index":0,"function":{"name":"a","arguments":"{\"x\""}}]}`, `{"tool_calls":[{"index":1,"function":{"name":"b","arguments":"{}"}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":":1}"}}]}`),
	},
	{
		Name: "function-call", Source: "the form before tool calls", Want: "one call without an id",
		Stream: stream("function_call", usage1913, `{"function_call":{"name":"a","arguments":"{\"x\""}}`, `{"function_call":{"arguments":":1}"}}`),
	},
	// How it ended.
	{
		Name: "finish-empty", Source: "sgl-project/sglang#3912", Want: "an empty finish reason in every event is none; the last one counts",
		Stream: sse(chunkHead+`{"index":0,"delta":{"content":"four"},"finish_reason":""}]}`, ending("stop"), ending(""), used(usage1913), "[DONE]"),
	},
	{
		Name: "finish-twice", Source: "sgl-project/sglang#8417", Want: "a finish reason that is sent twice is one",
		Stream: sse(chunk(four), ending("stop"), ending("stop"), used(usage1913), "[DONE]"),
	},
	{
		Name: "finish-only-done", Source: "BerriAI/litellm#10686", Want: "[DONE] without a finish reason is a cut answer",
		Stream: sse(chunk(four), used(usage1913), "[DONE]"),
	},
	{
		Name: "finish-abort", Source: "SGLang's finish reasons", Want: "an aborted answer is cut",
		Stream: stream("abort", usage1913, four),
	},
	{
		Name: "finish-error", Source: "OpenRouter's finish reasons", Want: "an answer that ended with error is none",
		Stream: sse(chunk(`{"content":"fo"}`), chunkHead+`{"index":0,"delta":{},"finish_reason":"error","native_finish_reason":"MALFORMED"}]}`, "[DONE]"),
	},
	{
		Name: "finish-no-resource", Source: "DeepSeek's finish reasons", Want: "the endpoint is overloaded, which is worth waiting for", Once: true,
		Stream: stream("insufficient_system_resource", usage1913, `{"content":"fo"}`),
	},
	{
		Name: "finish-native", Source: "OpenRouter's and vLLM's further fields", Want: "stop_reason and native_finish_reason beside the finish reason change nothing",
		Stream: sse(chunk(four), chunkHead+`{"index":0,"delta":{},"finish_reason":"stop","stop_reason":151645,"matched_stop":"</s>","native_finish_reason":"end"}]}`, used(usage1913), "[DONE]"),
	},
	{
		Name: "error-after-whole", Source: "ggml-org/llama.cpp#20729", Want: "an error after a whole answer costs nothing but a flag",
		Stream: sse(chunk(four), ending("stop"), `{"error":{"message":"slot failed","code":500}}`),
	},
	{
		Name: "error-before-finish", Source: "ggml-org/llama.cpp#20729", Want: "all of the text came, and then an error in place of the end",
		Stream: sse(chunk(four), `{"error":{"message":"slot failed","code":500,"type":"server_error"}}`),
	},
	// Usage.
	{
		Name: "usage-deepseek", Source: "DeepSeek's usage", Want: "hits are cached tokens, misses are not",
		Plain: completion(four, "stop", `{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,"prompt_cache_hit_tokens":16,"prompt_cache_miss_tokens":3,"completion_tokens_details":{"reasoning_tokens":5}}`),
	},
	{
		Name: "usage-null-details", Source: "vLLM without enable-prompt-tokens-details", Want: "null details are no cached tokens",
		Plain: completion(four, "stop", `{"prompt_tokens":19,"completion_tokens":13,"prompt_tokens_details":null,"completion_tokens_details":null}`),
	},
	{
		Name: "usage-zero", Source: "lmnr-python#324", Want: "zero tokens for an answer are no usage",
		Plain: completion(four, "stop", `{"prompt_tokens":0,"completion_tokens":0,"total_tokens":0}`),
	},
	{
		Name: "usage-in-every-event", Source: "vLLM's continuous_usage_stats", Want: "growing counts are not added up",
		Stream: sse(`{"choices":[{"index":0,"delta":{"content":"fo"}}],"usage":{"prompt_tokens":19,"completion_tokens":6}}`, `{"choices":[{"index":0,"delta":{"content":"ur"}}],"usage":{"prompt_tokens":19,"completion_tokens":12}}`,
			`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":13}}`, "[DONE]"),
	},
	{
		Name: "usage-cost", Source: "OpenRouter's usage", Want: "a cost beside the counts changes no count",
		Plain: completion(four, "stop", `{"prompt_tokens":19,"completion_tokens":13,"total_tokens":32,"cost":0.0123,"is_byok":false,"cost_details":{"upstream_inference_cost":null}}`),
	},
	// The stream itself.
	{
		Name: "blank-lines-before-json", Source: "DeepSeek's documentation", Want: "blank lines keep a plain response alive", ContentType: "application/json",
		Stream: []string{"\n", "\n\n", "\n", completion(four, "stop", usage1913)},
	},
	{
		Name: "processing-comments", Source: "OpenRouter's documentation", Want: "comments before and between events",
		Stream: append([]string{": OPENROUTER PROCESSING\n\n", ": OPENROUTER PROCESSING\n\n"}, stream("stop", usage1913, four)...),
	},
	{
		Name: "joined-events", Source: "proxies that join two objects in one event", Want: "both are read",
		Stream: sse(chunk(`{"content":"fo"}`)+chunk(`{"content":"ur"}`), ending("stop"), used(usage1913), "[DONE]"),
	},
	{
		Name: "named-events", Source: "gateways that name every event and number it", Want: "id, retry and event lines change nothing",
		Stream: []string{"id: 1\nretry: 100\nevent: message\ndata: " + chunk(four) + "\n\n", "id: 2\nevent: message\ndata: " + ending("stop") + "\n\n", "event: done\ndata: [DONE]\n\n"},
	},
	{
		Name: "nan-logprob", Source: "measured on two Go SDKs, which fail", Want: "-Infinity and NaN are no numbers of JSON, and the answer is read all the same",
		Plain: `{"choices":[{"index":0,"message":{"content":"four"},"logprobs":{"content":[{"token":"fo","logprob":-Infinity},{"token":"ur","logprob":NaN}]},"finish_reason":"stop"}],"usage":` + usage1913 + `}`,
	},
	// Errors in a 200.
	{
		Name: "error-flat", Source: "vLLM and SGLang", Want: "a flat error object in the place of an answer", ContentType: "application/json",
		Stream: []string{`{"object":"error","message":"engine died","type":"InternalServerError","code":500}`},
	},
	{
		Name: "error-spaced", Source: "measured on a Go SDK, which overlooks it", Want: "white space before the key changes nothing",
		Stream: sse(chunk(`{"content":"fo"}`), `{ "error" : { "message" : "upstream failed" } }`),
	},
	{
		Name: "error-and-choices", Source: "OpenRouter's mid-stream errors", Want: "an error beside choices is an error",
		Stream: sse(chunk(`{"content":"fo"}`), `{"id":"c1","error":{"code":502,"message":"Provider disconnected"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}`),
	},
	{
		Name: "error-rate-in-200", Source: "gateways that answer 200 and the real status in the body", Want: "a rate limit is one wherever it stands", Once: true, ContentType: "application/json",
		Stream: []string{`{"error":{"message":"Rate limit exceeded","code":429}}`},
	},
	// Errors with a status.
	{
		Name: "html-502", Source: "nginx in front of an endpoint", Want: "a proxy's page is no answer; it is asked again", Status: 502, ContentType: "text/html", Once: true,
		Plain: "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>",
	},
	{
		Name: "html-200", Source: "captive portals and login pages", Want: "a page with status 200 is no answer", ContentType: "text/html",
		Plain: "<html><body>please log in</body></html>",
	},
	{
		Name: "overloaded-429", Source: "pawwork#740; Moonshot", Want: "an overloaded engine is waited for", Status: 429, Once: true, Header: map[string]string{"Retry-After-Ms": "5"},
		Plain: `{"error":{"message":"The engine is currently overloaded, please try again later","type":"engine_overloaded_error"}}`,
	},
	{
		Name: "content-filter-400", Source: "Moonshot's error codes", Want: "the endpoint refuses this prompt; other prompts go on", Status: 400,
		Plain: `{"error":{"message":"The request was rejected because it was considered high risk","type":"content_filter"}}`,
	},
	{
		Name: "too-long-moonshot", Source: "Moonshot's error codes", Want: "the prompt does not fit", Status: 400,
		Plain: `{"error":{"message":"Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)","type":"invalid_request_error"}}`,
	},
	{
		Name: "too-long-input", Source: "Moonshot's error codes", Want: "the prompt does not fit", Status: 400,
		Plain: `{"error":{"message":"Input token length too long","type":"invalid_request_error"}}`,
	},
	{
		Name: "reasoning-not-returned", Source: "opencode#24135", Want: "a request that lacks the reasoning of earlier turns is bad", Status: 400,
		Plain: `{"error":{"message":"Missing reasoning_content field in the assistant message at message index 1","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`,
	},
	{
		Name: "payment-402", Source: "DeepSeek and OpenRouter", Want: "no money is left: the teacher stops", Status: 402,
		Plain: `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`,
	},
	{
		Name: "wrong-platform-401", Source: "keys of one Moonshot platform on the other", Want: "the key is not this endpoint's: the teacher stops", Status: 401,
		Plain: `{"error":{"message":"Invalid Authentication","type":"invalid_authentication_error"}}`,
	},
	{
		Name: "conflict-409", Source: "OpenAI's SDK retries it", Want: "a lock timeout is asked again", Status: 409, Once: true, Plain: `{"error":{"message":"lock timeout"}}`,
	},
	{
		Name: "timeout-408", Source: "OpenAI's SDK retries it", Want: "a request timeout is asked again", Status: 408, Once: true, Plain: `{"error":{"message":"timeout"}}`,
	},
	{
		Name: "too-large-413", Source: "proxies with a limit on the body", Want: "the prompt does not fit", Status: 413, ContentType: "text/html", Plain: "<html>413 Request Entity Too Large</html>",
	},
	{
		Name: "code-number", Source: "gateways with number codes", Want: "a number as the code is read", Status: 400, Plain: `{"error":{"message":"bad parameter","code":20015}}`,
	},
	{
		Name: "error-text", Source: "Ollama", Want: "an error that is a text", Status: 404, Plain: `{"error":"model \"m\" not found, try pulling it first"}`,
	},
	{
		Name: "other-model", Source: "aliases that end and routers that fall back", Want: "the model that answered is told",
		Plain: `{"id":"c1","model":"m-2026-fallback","system_fingerprint":"fp_9","provider":"Elsewhere","choices":[{"index":0,"message":{"content":"four"},"finish_reason":"stop"}],"usage":` + usage1913 + `}`,
	},
}
