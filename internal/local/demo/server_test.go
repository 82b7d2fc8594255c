package demo

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// startAll runs the teachers for the test.
func startAll(t *testing.T, dir string) *Teachers {
	t.Helper()
	running, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := running.Stop(ctx); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return running
}

func post(t *testing.T, url string, body string) (*http.Response, []byte) {
	t.Helper()
	resp, err := http.Post(url+"/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, text
}

func chatBody(t *testing.T, model, question string, more string) string {
	t.Helper()
	q, err := json.Marshal(question)
	if err != nil {
		t.Fatal(err)
	}
	return `{"model":"` + model + `","messages":[{"role":"user","content":` + string(q) + `}]` + more + `}`
}

type wholeAnswer struct {
	ID                string
	Model             string
	SystemFingerprint string `json:"system_fingerprint"`
	Choices           []struct {
		Message struct {
			Content          string
			ReasoningContent string `json:"reasoning_content"`
		}
		Delta struct {
			Content          string
			ReasoningContent string `json:"reasoning_content"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage *struct {
		PromptTokens     int `json:"prompt_tokens"`
		CompletionTokens int `json:"completion_tokens"`
		Details          struct {
			ReasoningTokens int `json:"reasoning_tokens"`
		} `json:"completion_tokens_details"`
	}
}

func TestNineTeachersAnswerOverHTTP(t *testing.T) {
	running := startAll(t, t.TempDir())
	if len(running.All) != 9 {
		t.Fatalf("%d teachers", len(running.All))
	}
	for _, teacher := range running.All {
		t.Run(teacher.Model, func(t *testing.T) {
			question := problems()[teacher.Domain][0].question
			resp, text := post(t, teacher.BaseURL, chatBody(t, teacher.Model, question, ""))
			var whole wholeAnswer
			if err := json.Unmarshal(text, &whole); err != nil || resp.StatusCode != http.StatusOK || len(whole.Choices) != 1 {
				t.Fatalf("%s %v\n%s", resp.Status, err, text)
			}
			c := whole.Choices[0]
			if whole.Model != teacher.Model || whole.SystemFingerprint != "simulated" || c.FinishReason != "stop" || c.Message.Content == "" || c.Message.ReasoningContent == "" {
				t.Errorf("%s", text)
			}
			if u := whole.Usage; u == nil || u.PromptTokens == 0 || u.CompletionTokens <= u.Details.ReasoningTokens {
				t.Errorf("usage: %s", text)
			}
			content, reasoning, finish, usage := stream(t, teacher, question)
			if content != c.Message.Content || reasoning != c.Message.ReasoningContent || finish != "stop" {
				t.Errorf("the stream says %q (%q, %s), the whole answer %q", content, reasoning, finish, c.Message.Content)
			}
			if !usage {
				t.Error("the stream has no usage")
			}
		})
	}
}

// stream reads a streamed answer and puts its deltas together.
func stream(t *testing.T, teacher Teacher, question string) (content, reasoning, finish string, usage bool) {
	t.Helper()
	_, text := post(t, teacher.BaseURL, chatBody(t, teacher.Model, question, `,"stream":true,"stream_options":{"include_usage":true}`))
	done := false
	lines := bufio.NewScanner(bytes.NewReader(text))
	for lines.Scan() {
		data, ok := strings.CutPrefix(lines.Text(), "data: ")
		if !ok {
			continue
		}
		if data == "[DONE]" {
			done = true
			continue
		}
		var chunk wholeAnswer
		if err := json.Unmarshal([]byte(data), &chunk); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		usage = usage || chunk.Usage != nil
		for _, c := range chunk.Choices {
			content += c.Delta.Content
			reasoning += c.Delta.ReasoningContent
			finish += c.FinishReason
		}
	}
	if !done {
		t.Errorf("the stream does not end with [DONE]:\n%s", text)
	}
	return content, reasoning, finish, usage
}

// Our own client takes every teacher's answer for whole.
func TestOurClientReadsTheTeachers(t *testing.T) {
	running := startAll(t, t.TempDir())
	for _, teacher := range running.All {
		config := &teachers.Config{ID: teacher.Model, API: "openai", BaseURL: teacher.BaseURL, Model: teacher.Model}
		client := teachers.NewClient(config)
		defer client.Close()
		p := &problems()[teacher.Domain][1]
		ask, err := teachers.BuildRequest(config, &chat.Prompt{
			Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text(p.question)}},
		}, map[string]any{"reasoning_effort": teacher.Effort}, 0)
		if err != nil {
			t.Fatal(err)
		}
		reply, err := client.Ask(t.Context(), ask)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := reply.Parse()
		if err != nil {
			t.Fatal(err)
		}
		if answer.Finish != "stop" || answer.Fingerprint != simulated || answer.Model != teacher.Model || answer.Usage == nil ||
			answer.ReasoningField != "reasoning_content" || len(answer.Flags) > 0 || requests(reply) != 1 {
			t.Errorf("%s: %+v", teacher.Model, answer)
		}
		if verdict := verifierOf(t, p).Verify(t.Context(), input(t, p, *answer.Message.Content)).Verdict; verdict == datasets.Unknown {
			t.Errorf("%s: nobody can tell whether %q is right", teacher.Model, *answer.Message.Content)
		}
	}
}

func requests(r *teachers.Reply) int { return teachers.Requests(r.Attempts) }

func TestTeacherSaysThatItIsSimulated(t *testing.T) {
	running := startAll(t, t.TempDir())
	resp, err := http.Get(running.All[0].BaseURL + "/models")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(`"simulated":true`)) || !bytes.Contains(text, []byte(running.All[0].Model)) {
		t.Errorf("%s", text)
	}
}

func TestBadRequests(t *testing.T) {
	server := httptest.NewServer(characterOf("demo-math-low").handler())
	defer server.Close()
	url := server.URL + "/v1"
	for name, test := range map[string]struct {
		body   string
		status int
		says   string
	}{
		"not JSON":        {`{`, http.StatusBadRequest, "chat completion"},
		"another model":   {chatBody(t, "gpt-9", "hi", ""), http.StatusNotFound, "model_not_found"},
		"two choices":     {chatBody(t, "demo-math-low", "hi", `,"n":2`), http.StatusBadRequest, "n must be 1"},
		"no user message": {`{"model":"demo-math-low","messages":[]}`, http.StatusBadRequest, "no user message"},
		"an image":        {`{"model":"demo-math-low","messages":[{"role":"user","content":[{"type":"image_url"}]}]}`, http.StatusBadRequest, "image_url"},
		"a number":        {`{"model":"demo-math-low","messages":[{"role":"user","content":7}]}`, http.StatusBadRequest, "content"},
		"too large":       {chatBody(t, "demo-math-low", strings.Repeat("x", maxRequest), ""), http.StatusRequestEntityTooLarge, "read the body"},
	} {
		resp, text := post(t, url, test.body)
		if resp.StatusCode != test.status || !bytes.Contains(text, []byte(test.says)) {
			t.Errorf("%s: %s\n%s", name, resp.Status, text)
		}
	}
	resp, err := http.Get(url + "/embeddings")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("another address: %s", resp.Status)
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestTokenCapCutsTheAnswer(t *testing.T) {
	server := httptest.NewServer(characterOf("demo-math-max").handler())
	defer server.Close()
	defer http.DefaultClient.CloseIdleConnections()
	question := problems()[Math][0].question
	for _, limit := range []string{`"max_tokens":5`, `"max_completion_tokens":5`} {
		_, text := post(t, server.URL+"/v1", chatBody(t, "demo-math-max", question, ","+limit))
		var whole wholeAnswer
		if err := json.Unmarshal(text, &whole); err != nil || whole.Choices[0].FinishReason != "length" || whole.Usage.CompletionTokens > 5 {
			t.Errorf("%s: %v\n%s", limit, err, text)
		}
	}
}

func TestPortsStay(t *testing.T) {
	dir := t.TempDir()
	first, err := Start(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	taken, err := listen(t.Context(), portOf(t, first.All[4].BaseURL))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	second := startAll(t, dir)
	for i := range first.All {
		same := first.All[i] == second.All[i]
		if i != 4 && !same {
			t.Errorf("%s moved from %s to %s", first.All[i].Model, first.All[i].BaseURL, second.All[i].BaseURL)
		}
		if i == 4 && same {
			t.Errorf("%s is where another listens", first.All[i].Model)
		}
	}
}

func TestStopEndsStreams(t *testing.T) {
	running, err := Start(t.Context(), Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var asking sync.WaitGroup
	for range 8 {
		asking.Go(func() {
			teacher := running.All[2]
			resp, err := http.Post(teacher.BaseURL+"/chat/completions", "application/json",
				strings.NewReader(chatBody(t, teacher.Model, problems()[Math][0].question, `,"stream":true`)))
			if err == nil {
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
	}
	if err := running.Stop(ctx); err != nil {
		t.Error(err)
	}
	asking.Wait()
	http.DefaultClient.CloseIdleConnections()
}

func FuzzRequest(f *testing.F) {
	f.Add([]byte(`{"model":"demo-math-low","messages":[{"role":"user","content":"hi"}],"stream":true}`))
	f.Add([]byte(`{"model":"demo-math-low","messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}],"max_tokens":-1}`))
	f.Add([]byte(`{"messages":null,"n":0}`))
	quick := *characterOf("demo-math-low")
	quick.firstToken, quick.stream = 0, 0
	handler := quick.handler()
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", bytes.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		if w.Code >= 500 || w.Body.Len() == 0 {
			t.Errorf("%d\n%s", w.Code, w.Body)
		}
	})
}
