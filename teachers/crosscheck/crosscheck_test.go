package crosscheck

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// exchanges is how many recorded exchanges are compared, a quarter each of the
// two protocols, plain and streamed.
const exchanges = 300

// TestExchanges has real answers of a real model go over a wire in both
// protocols, plain and streamed, and holds our reading of every byte to the
// vendor's.
func TestExchanges(t *testing.T) {
	rows := answersOf(t, "data/alpacaeval/gpt-4o-2024-05-13.jsonl", exchanges/4)
	s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply { return replyOf(rows, r.Prompt) })
	n := 0
	for i, row := range rows {
		for _, api := range []string{"openai", "anthropic"} {
			for _, stream := range []bool{false, true} {
				n++
				record := &recorded{api: api, stream: stream, raw: exchange(t, s.URL, api, stream, row.Instruction)}
				agree(t, record, row.Instruction)
				if i == 0 && !strings.Contains(record.raw, "usage") {
					t.Fatalf("the endpoint sends no usage: %s", record.raw)
				}
			}
		}
	}
	if n != exchanges {
		t.Errorf("%d exchanges, want %d", n, exchanges)
	}
}

func agree(t *testing.T, r *recorded, question string) {
	t.Helper()
	ours, err := r.byUs()
	if err != nil {
		t.Fatalf("%s: ours: %v", r.format(), err)
	}
	theirs, err := r.bySDK(t.Context())
	if err != nil {
		t.Fatalf("%s: theirs: %v", r.format(), err)
	}
	if ours.Content == "" && len(ours.Calls) == 0 || ours.Prompt == 0 || ours.Finish == "" {
		t.Errorf("%s: nothing was read: %+v", r.format(), ours)
	}
	if diff := cmp.Diff(theirs, ours); diff != "" {
		t.Errorf("%s, %.60q: theirs (-) and ours (+):\n%s", r.format(), question, diff)
	}
}

type row struct{ Instruction, Output string }

func answersOf(t *testing.T, file string, n int) []row {
	t.Helper()
	raw, err := os.ReadFile(testdata.Path(t, file))
	if err != nil {
		t.Fatal(err)
	}
	var rows []row
	seen := map[string]bool{}
	for line := range bytes.Lines(raw) {
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatal(err)
		}
		if r.Output == "" || seen[r.Instruction] {
			continue
		}
		seen[r.Instruction] = true
		if rows = append(rows, r); len(rows) == n {
			return rows
		}
	}
	t.Fatalf("%s has %d answers, want %d", file, len(rows), n)
	return nil
}

// replyOf is the recorded answer, with what real ones have beside text: every
// third has reasoning, every fifth calls tools, every seventh was cut.
func replyOf(rows []row, question string) teacherstest.Reply {
	for i, r := range rows {
		if r.Instruction != question {
			continue
		}
		reply := teacherstest.Reply{Content: r.Output, Pieces: 1 + i%40, Usage: &chat.Usage{
			PromptTokens: int64(100 + i), CachedTokens: int64(i), CompletionTokens: int64(len(r.Output)/4 + 1),
		}}
		if i%3 == 0 {
			reply.Reasoning = "Let me think about it: " + r.Instruction
		}
		if i%5 == 0 {
			args, _ := json.Marshal(map[string]string{"text": r.Output})
			reply.ToolCalls = []chat.ToolCall{{ID: "t1", Type: "function", Name: "save", Arguments: string(args)}, {ID: "t2", Type: "function", Name: "now", Arguments: "{}"}}
			reply.Finish = "tool_calls"
		}
		if i%7 == 0 {
			reply.Finish = "length"
		}
		return reply
	}
	return teacherstest.Reply{Status: http.StatusNotFound, Message: "not recorded"}
}

// exchange asks the endpoint and records the response.
func exchange(t *testing.T, base, api string, stream bool, question string) string {
	t.Helper()
	path, body := "/chat/completions", map[string]any{"model": "gpt-4o", "messages": []any{map[string]string{"role": "user", "content": question}}}
	if api == "anthropic" {
		path, body["max_tokens"] = "/messages", 8192
	}
	if stream {
		body["stream"], body["stream_options"] = true, map[string]bool{"include_usage": true}
	}
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+path, bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("anthropic-version", "2023-06-01")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("status %d, %v: %s", response.StatusCode, err, got)
	}
	return string(got)
}

// sdkDiffers lists the cases that a vendor's client reads otherwise than we do,
// with what it does. "plain" after a name is the plain form.
var sdkDiffers = map[string]string{
	// What was cut passes for whole.
	"eof-no-finish":           "returns a cut answer as if it were whole",
	"finish-only-done":        "returns an answer without a finish reason",
	"finish-abort":            "returns an aborted answer",
	"finish-error":            "returns an answer that ended with an error",
	"finish-no-resource":      "returns an answer that the endpoint broke off",
	"finish-empty":            "lets an empty finish reason overwrite the one before",
	"stall":                   "returns a cut answer as if it were whole",
	"stall-comments":          "returns a cut answer as if it were whole",
	"messages-cut":            "returns a cut answer as if it were whole",
	"messages-no-stop-reason": "returns an answer without a stop reason",
	"messages-pings-only":     "returns an empty answer",
	"messages-tools-cut":      "makes {} of arguments that were cut",
	// What came is lost.
	"crlf-nospace":            "loses a last event without a blank line, and the usage with it",
	"error-null":              "takes \"error\":null for an error",
	"error-after-whole":       "throws a whole answer away for an error after it",
	"joined-events":           "refuses two objects in one event",
	"nan-logprob plain":       "refuses a response with numbers that JSON does not have",
	"messages-unnamed-events": "overlooks events without an event line",
	"function-call":           "does not put the older form of calls together",
	// What came is mixed up.
	"tools-same-index":     "joins two calls into one",
	"tools-no-index":       "joins two calls into one",
	"usage-in-every-event": "adds growing counts up",
	"bad-utf8":             "gives text that is no UTF-8",
	// What it has no field for.
	"cached-top-level":             "knows the cached tokens of its own vendor only",
	"cached-top-level plain":       "knows the cached tokens of its own vendor only",
	"usage-deepseek plain":         "knows the cached tokens of its own vendor only",
	"messages-usage-at-the-end":    "wants the sum beside the parts of what was written to the cache",
	"content-parts":                "gives a list of parts as its JSON text",
	"content-parts plain":          "gives a list of parts as its JSON text",
	"reasoning-summary plain":      "has no reasoning",
	"think-closing-tag-only":       "leaves reasoning in the content",
	"think-closing-tag-only plain": "leaves reasoning in the content",
	"messages-think-tags":          "leaves reasoning in the content",
}

// TestCases holds our reading of every case with status 200 to the vendor's:
// they agree, also that an answer is none, but for the cases of the list. A
// case that comes to agree fails too, so that the list stays true.
func TestCases(t *testing.T) {
	unseen := map[string]bool{}
	for name := range sdkDiffers {
		unseen[name] = true
	}
	for _, c := range teacherstest.Cases() {
		if c.Status != 0 && c.Status != http.StatusOK || c.Name == "huge-line" {
			continue
		}
		record := recorded{api: c.API, stream: true, raw: strings.Join(c.Stream, "")}
		if c.API == "" {
			record.api = "openai"
		}
		if c.Stream != nil {
			delete(unseen, c.Name)
			compareCase(t, c.Name, &record)
		}
		if c.Plain != "" {
			delete(unseen, c.Name+" plain")
			compareCase(t, c.Name+" plain", &recorded{api: record.api, raw: c.Plain})
		}
	}
	for name := range unseen {
		t.Errorf("%s: there is no such case", name)
	}
}

func compareCase(t *testing.T, name string, r *recorded) {
	t.Helper()
	ours, ourErr := r.byUs()
	theirs, theirErr := r.bySDK(t.Context())
	diff := cmp.Diff(theirs, ours)
	if (ourErr == nil) != (theirErr == nil) {
		diff = "errors: theirs " + said(theirErr) + ", ours " + said(ourErr)
	}
	switch why, listed := sdkDiffers[name]; {
	case diff == "" && listed:
		t.Errorf("%s: both agree by now, though the list says that theirs %s", name, why)
	case diff != "" && !listed:
		t.Errorf("%s: theirs (-) and ours (+):\n%s", name, diff)
	}
}

func said(err error) string {
	if err == nil {
		return "none"
	}
	return err.Error()
}
