package crosscheck

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// endpointVar makes this test's binary an endpoint of its own instead.
const endpointVar = "STILLHOUSE_CROSSCHECK_ENDPOINT"

func TestMain(m *testing.M) {
	if os.Getenv(endpointVar) != "" {
		serve()
		return
	}
	os.Exit(m.Run())
}

// serve answers every request with fixed bytes until standard input ends, so
// that what a benchmark measures is the client: the endpoint is another
// process and does next to nothing.
func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(listener.Addr())
	mux := http.NewServeMux()
	for path, f := range fixtures {
		plain, stream := f.plain(), f.events()
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			if !strings.Contains(string(body), `"stream":true`) || r.Header.Get("X-Plain") != "" {
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, plain)
				return
			}
			w.Header().Set("Content-Type", "text/event-stream")
			for _, piece := range stream {
				_, _ = io.WriteString(w, piece)
				w.(http.Flusher).Flush()
			}
		})
	}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	fmt.Fprintln(os.Stderr, http.Serve(listener, mux))
}

// endpoint starts that process and returns its base URL without a version.
func endpoint(t testing.TB) string {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), endpointVar+"=1")
	command.Stderr = os.Stderr
	input, err := command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		input.Close()
		_ = command.Wait()
	})
	addr, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(addr)
}

// A fixture is one answer in one protocol, plain and streamed.
type fixture struct {
	plain  func() string
	events func() []string
}

// answerText is about 1.5 KB, the middle of what GSM8K's recorded answers and
// AlpacaEval's are.
var answerText = strings.Repeat("The farmer sells the remaining eggs at the market for two dollars each. ", 20)

// pieces cuts a text into n parts.
func pieces(text string, n int) []string {
	var out []string
	size := (len(text) + n - 1) / n
	for len(text) > size {
		out, text = append(out, text[:size]), text[size:]
	}
	return append(out, text)
}

// Events of the short and the long stream. Between two flushes lie several
// events, as a busy server sends them.
const (
	shortEvents = 8
	longEvents  = 1000
	flushEvery  = 20
)

var fixtures = map[string]fixture{
	"/v1/chat/completions":      {plainChat, func() []string { return flushed(chatEvents(pieces(answerText, shortEvents))) }},
	"/v1/messages":              {plainMessage, func() []string { return flushed(messageEvents(pieces(answerText, shortEvents))) }},
	"/long/v1/chat/completions": {plainChat, func() []string { return flushed(chatEvents(tokens(longEvents))) }},
	"/long/v1/messages":         {plainMessage, func() []string { return flushed(messageEvents(tokens(longEvents))) }},
}

func tokens(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("token%d ", i)
	}
	return out
}

func flushed(events []string) []string {
	var out []string
	for len(events) > flushEvery {
		out, events = append(out, strings.Join(events[:flushEvery], "")), events[flushEvery:]
	}
	return append(out, strings.Join(events, ""))
}

func plainChat() string {
	return fmt.Sprintf(`{"id":"chatcmpl-1","object":"chat.completion","created":1790000000,"model":"m","system_fingerprint":"fp_1","choices":[{"index":0,"message":{"role":"assistant","content":%q,"refusal":null},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":19,"completion_tokens":360,"total_tokens":379,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":{"reasoning_tokens":0}}}`, answerText)
}

func chatEvents(parts []string) []string {
	const head = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1790000000,"model":"m","system_fingerprint":"fp_1","choices":[`
	out := []string{head + `{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}` + "\n\n"}
	for _, p := range parts {
		out = append(out, fmt.Sprintf(head+`{"index":0,"delta":{"content":%q},"logprobs":null,"finish_reason":null}]}`+"\n\n", p))
	}
	return append(out, head+`{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}`+"\n\n",
		head+`],"usage":{"prompt_tokens":19,"completion_tokens":360,"total_tokens":379}}`+"\n\n", "data: [DONE]\n\n")
}

func plainMessage() string {
	return fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":19,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":360}}`, answerText)
}

func messageEvents(parts []string) []string {
	event := func(kind, rest string) string {
		return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
	}
	out := []string{
		event("message_start", `,"message":{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":19,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":1}}`),
		event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`),
	}
	for _, p := range parts {
		out = append(out, event("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%q}`, p)))
	}
	return append(out, event("content_block_stop", `,"index":0`),
		event("message_delta", `,"delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":360}`), event("message_stop", ""))
}
