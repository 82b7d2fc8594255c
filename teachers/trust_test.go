package teachers_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

func withKey(url, key string) *teachers.Config {
	return &teachers.Config{ID: "t", API: "openai", BaseURL: url, Model: "m", Key: func() (string, error) { return key, nil }}
}

func TestKeyGoesOutAsBearer(t *testing.T) {
	s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: r.Header.Get("Authorization")[:10] + "/" + r.Header.Get("X-Extra")}
	})
	c := withKey(s.URL, canary)
	c.Headers = map[string]string{"X-Extra": "yes"}
	a, _, err := ask(t, c, "x")
	if err != nil || deref(a.Message.Content) != "Bearer sk-/yes" {
		t.Errorf("answer %+v, error %v", a, err)
	}
}

func TestKeyGoesOutOnlyOverHTTPSOrToLoopback(t *testing.T) {
	for url, want := range map[string]bool{
		"http://api.example.com/v1": false, "http://10.0.0.8:8000/v1": false, "http://127.0.0.1.example.com/v1": false, "http://localhost.example.com": false,
		"https://api.example.com/v1": true, "http://127.0.0.1:8000/v1": true, "http://[::1]:8000/v1": true, "http://localhost:8000/v1": true,
	} {
		s := &script{reply: func(int, *http.Request) *http.Response { return response(200, wholeStream) }}
		ask := func(c *teachers.Config) error {
			_, err := teachers.NewClient(c, teachers.WithTransport(s)).Ask(t.Context(), request(t, c, "x"))
			return err
		}
		err := ask(withKey(url, canary))
		if sent := len(s.sent) == 1; sent != want || (err == nil) != want {
			t.Errorf("%s: the key was sent: %v, want %v (%v)", url, sent, want, err)
		}
		inHeader := withKey(url, "")
		inHeader.Headers = map[string]string{"Api-Key": canary}
		if err := ask(inHeader); (err == nil) != want {
			t.Errorf("%s with a key in a header: %v, want it sent: %v", url, err, want)
		}
		if err := ask(withKey(url, "")); err != nil {
			t.Errorf("%s without a key: %v", url, err)
		}
		if !want {
			if e := asError(t, err, teachers.ClassAuth); !e.StopsTeacher() || !strings.Contains(e.Error(), "https") {
				t.Errorf("%s: %v", url, e)
			}
		}
	}
}

func TestRedirectToAnotherHostGetsNothing(t *testing.T) {
	var elsewhere atomic.Int32
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
			return teacherstest.Reply{Status: status, Header: map[string]string{"Location": other.URL + "/v1/chat/completions?k=" + canary}}
		})
		_, _, err := ask(t, withKey(s.URL, canary), "x")
		e := asError(t, err, teachers.ClassBadRequest)
		if e.Status != status || !strings.Contains(e.Error(), "redirect") || strings.Contains(e.Error(), canary) {
			t.Errorf("%d: %v", status, e)
		}
	}
	if elsewhere.Load() != 0 {
		t.Errorf("the other host got %d requests", elsewhere.Load())
	}
}

func TestRedirectOnTheSameHostIsFollowed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path != "/v2" {
			http.Redirect(w, r, "/v2", http.StatusTemporaryRedirect)
			return
		}
		if r.Method == http.MethodPost && len(body) > 0 && r.Header.Get("Authorization") == "Bearer "+canary {
			_, _ = io.WriteString(w, wholeStream)
		}
	}))
	defer server.Close()
	if _, _, err := ask(t, withKey(server.URL, canary), "x"); err != nil {
		t.Error(err)
	}
}

// However an endpoint repeats the key, no text that leaves the client has it.
func TestNoErrorHoldsTheKey(t *testing.T) {
	const odd = `pass"word/&+ü-canary-42`
	for name, c := range map[string]struct {
		status int
		body   string
	}{
		"plain text":        {502, "headers: Authorization: Bearer %s"},
		"JSON error":        {400, `{"error":{"message":"bad key %s"}}`},
		"unauthorised":      {401, `{"error":{"message":"Incorrect API key provided: %s"}}`},
		"detail":            {422, `{"detail":[{"input":"%s"}]}`},
		"HTML":              {200, "<html>%s</html>"},
		"error in a stream": {200, "data: {\"error\":{\"message\":\"key %s\"}}\n\n"},
		"half an answer":    {200, "data: {\"choices\":[{\"delta\":{\"content\":\"key %s\"}}]}\n\n"},
		"at the cut":        {502, strings.Repeat(" ", 64<<10-20) + "%s"},
		"finish reason":     {200, `{"choices":[{"message":{"content":"%s"},"finish_reason":"abort"}]}`},
	} {
		for _, key := range []string{canary, odd} {
			t.Run(name+"/"+key[:4], func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					written := key
					if strings.Contains(c.body, "{") {
						written = strings.ReplaceAll(key, `"`, `\"`)
					}
					s := &script{reply: func(int, *http.Request) *http.Response {
						return response(c.status, strings.ReplaceAll(c.body, "%s", written))
					}}
					config := withKey("http://user:"+canary+"@127.0.0.1/v1?api_key="+canary, key)
					_, err := teachers.NewClient(config, teachers.WithTransport(s)).Ask(t.Context(), request(t, config, "x"))
					var e *teachers.Error
					if !errors.As(err, &e) {
						t.Fatalf("error %v, want an *Error", err)
					}
					all := fmt.Sprintf("%s %+v %#v %s", e, e, e, e.Partial)
					for _, part := range []string{"canary", key[:10]} {
						if strings.Contains(all, part) {
							t.Errorf("%q is in %s", part, all)
						}
					}
				})
			})
		}
	}
}

func TestNetworkErrorHoldsNoSecret(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String() + "/v1?api_key=" + canary
	listener.Close() // nobody is there
	_, _, err = ask(t, withKey(url, canary), "x")
	e := asError(t, err, teachers.ClassNetwork)
	if strings.Contains(e.Error(), "canary") || !strings.Contains(e.Error(), "refused") || len(e.Attempts) != 1 || e.Attempts[0].Times != 5 {
		t.Errorf("%v, attempts %+v", e, e.Attempts)
	}
}

func TestAnswerThatEchoesTheKeyIsKeptWithoutIt(t *testing.T) {
	s := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "your key is " + canary + ".", Pieces: 1}
	})
	a, reply, err := ask(t, withKey(s.URL, canary), "x")
	if err != nil {
		t.Fatal(err)
	}
	if deref(a.Message.Content) != "your key is "+teachers.RedactedInAnswer+"." || strings.Contains(string(reply.Raw), "canary") ||
		!slices.Contains(a.Flags, teachers.FlagSecretRedacted) {
		t.Errorf("content %q, flags %v, raw %s", deref(a.Message.Content), a.Flags, reply.Raw)
	}
}

func TestKeyThatCannotBeReadStopsTheTeacher(t *testing.T) {
	c := withKey("http://127.0.0.1:1/v1", "")
	c.Key = func() (string, error) { return "", errors.New("variable TEACHER_KEY is not set") }
	_, _, err := ask(t, c, "x")
	if e := asError(t, err, teachers.ClassAuth); !strings.Contains(e.Error(), "TEACHER_KEY") {
		t.Error(e)
	}
}

func TestResponseIsBoundedAfterDecompression(t *testing.T) {
	var sent atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		block := []byte("data: {\"choices\":[{\"delta\":{\"content\":\"" + strings.Repeat("a", 1<<20) + "\"}}]}\n\n")
		for range 64 {
			if _, err := z.Write(block); err != nil {
				return
			}
			sent.Add(1)
		}
	}))
	defer server.Close()
	c := withKey(server.URL, "")
	c.Limits.MaxBytes = 5 << 20
	_, _, err := ask(t, c, "x")
	e := asError(t, err, teachers.ClassTooLarge)
	if e.Temporary() || len(e.Partial) > 6<<20 || len(e.Attempts) != 1 {
		t.Errorf("%v after %d bytes, %+v", e, len(e.Partial), e.Attempts)
	}
}

// Bodies are read to the end, so that a thousand asks need no thousand
// connections.
func TestConnectionsAreUsedAgain(t *testing.T) {
	var opened atomic.Int32
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		switch r.URL.Query().Get("as") {
		case "json":
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"four"},"finish_reason":"stop"}]}`)
		case "error":
			http.Error(w, "no", http.StatusBadRequest)
		default:
			_, _ = io.WriteString(w, wholeStream)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for _, as := range []string{"stream", "json", "error"} {
		opened.Store(0)
		c := withKey(server.URL+"?as="+as, "")
		made := client(t, c)
		for range 20 {
			_, _ = made.Ask(t.Context(), request(t, c, "x"))
		}
		if n := opened.Load(); n != 1 {
			t.Errorf("%s: %d connections for 20 asks one after another, want 1", as, n)
		}
	}
}

func TestConcurrencyIsUsedAndKept(t *testing.T) {
	const limit = 12
	release := make(chan struct{})
	arrived := make(chan struct{}, 100)
	s := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		arrived <- struct{}{}
		<-release
		return teacherstest.Reply{Content: "x"}
	})
	c := withKey(s.URL, "")
	c.Limits.Concurrency = limit
	made := client(t, c)
	var wg sync.WaitGroup
	for i := range 40 {
		r := request(t, c, fmt.Sprint(i))
		wg.Go(func() {
			if _, err := made.Ask(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	for range limit {
		<-arrived
	}
	if state := made.State(); state.InFlight != limit || state.InFlight+state.Waiting > 40 {
		t.Errorf("state %+v, want %d in flight", state, limit)
	}
	close(release)
	wg.Wait()
	if stats := s.Stats(); stats.PeakConcurrency != limit || stats.Completed != 40 || stats.PaidTwice != 0 {
		t.Errorf("the endpoint's accounts: %+v, want a peak of %d", stats, limit)
	}
}

func TestCancelOfAStalledAnswer(t *testing.T) {
	begun := make(chan struct{})
	s := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		close(begun)
		return teacherstest.Reply{Content: "half an answer", Fault: teacherstest.Stall}
	})
	c := withKey(s.URL, "")
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		<-begun
		cancel(errors.New("the build was paused"))
	}()
	_, err := client(t, c).Ask(ctx, request(t, c, "x"))
	if e := asError(t, err, teachers.ClassCancelled); !strings.Contains(e.Error(), "the build was paused") || !errors.Is(e, context.Canceled) {
		t.Error(e)
	}
}

func TestImagesAreSentAsBytes(t *testing.T) {
	var got string
	s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		got = string(r.Body)
		return teacherstest.Reply{Content: r.Prompt}
	})
	c := withKey(s.URL, "")
	p := user("what is it?")
	p.Images = []chat.Image{{Digest: "d1", MediaType: "image/png"}, {Digest: "d2", MediaType: "image/jpeg"}}
	r, err := teachers.BuildRequest(c, p, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client(t, c).Ask(t.Context(), r)
	asError(t, err, teachers.ClassBadRequest)
	load := func(_ context.Context, im chat.Image) ([]byte, error) { return []byte("bytes of " + im.Digest), nil }
	if _, err := client(t, c, teachers.WithImages(load)).Ask(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"url":"data:image/png;base64,Ynl0ZXMgb2YgZDE="`, `"url":"data:image/jpeg;base64,Ynl0ZXMgb2YgZDI="`, `"stream":true`} {
		if !strings.Contains(got, want) {
			t.Errorf("sent %s, want %s in it", got, want)
		}
	}
}

// The fake's own faults, as other packages use them.
func TestFakeEndpointFaults(t *testing.T) {
	for fault, class := range map[teacherstest.Fault]string{
		teacherstest.Reset: teachers.ClassNetwork, teacherstest.MidReset: teachers.ClassTruncated, teacherstest.MidError: teachers.ClassServer,
		teacherstest.NoFinish: teachers.ClassTruncated, teacherstest.Stall: teachers.ClassTimeout, teacherstest.Drip: teachers.ClassTimeout,
		teacherstest.Empty: teachers.ClassEmpty,
	} {
		t.Run(class, func(t *testing.T) {
			t.Parallel()
			s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
				if r.Attempt == 0 {
					return teacherstest.Reply{Content: "half an answer", Fault: fault}
				}
				return teacherstest.Reply{Content: "whole", Reasoning: "hm", ReasoningField: "reasoning"}
			})
			c := withKey(s.URL, "")
			c.Limits = teachers.Limits{Idle: 200 * time.Millisecond, NoProgress: 300 * time.Millisecond}
			a, reply, err := ask(t, c, "x")
			if err != nil {
				t.Fatal(err)
			}
			if deref(a.Message.Content) != "whole" || a.ReasoningField != "reasoning" || a.Usage == nil {
				t.Errorf("answer %+v", a)
			}
			if len(reply.Attempts) != 2 || reply.Attempts[0].Class != class {
				t.Errorf("attempts %+v, want the first to be %s", reply.Attempts, class)
			}
			if stats := s.Stats(); stats.Requests != 2 || stats.Completed != 1 || stats.PaidTwice != 0 {
				t.Errorf("the endpoint's accounts: %+v", stats)
			}
		})
	}
}

func TestFakeEndpointCountsEarlyRetries(t *testing.T) {
	s := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if r.Attempt == 0 {
			return teacherstest.Reply{Status: 429, RetryAfter: 80 * time.Millisecond}
		}
		return teacherstest.Reply{Content: "x", ToolCalls: []chat.ToolCall{{ID: "1", Name: "f", Arguments: "{}"}}, Finish: "tool_calls"}
	})
	c := withKey(s.URL, "")
	a, _, err := ask(t, c, "obeys")
	if err != nil || len(a.Message.ToolCalls) != 1 || s.Stats().EarlyRetries != 0 {
		t.Errorf("answer %+v, error %v, accounts %+v", a, err, s.Stats())
	}
	impatient := request(t, c, "does not")
	for range 2 {
		response, err := http.Post(s.URL+"/chat/completions", "application/json", strings.NewReader(string(impatient.Body)))
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	if s.Stats().EarlyRetries != 1 {
		t.Errorf("accounts %+v, want one early retry", s.Stats())
	}
}
