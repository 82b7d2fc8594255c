package teachers_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// A keyring as a worker has one: the key may be rotated while asks run.
type rotating struct {
	mu      sync.Mutex
	current string // where it lies
	read    string // as it was read last
	renewed int
}

func (k *rotating) Key() (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.read, nil
}

func (k *rotating) Renew(used string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.renewed++
	k.read = k.current
	return k.read != used
}

func keyedScript(valid string) *script {
	return &script{reply: func(_ int, r *http.Request) *http.Response {
		if r.Header.Get("Authorization") != "Bearer "+valid {
			return response(401, `{"error":{"message":"Incorrect API key"}}`)
		}
		return response(200, wholeStream)
	}}
}

func TestARotatedKeyLosesNoAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ring := &rotating{current: "key-of-tuesday-0123", read: "key-of-monday-0123"}
		c := withKey("https://api.example.com/v1", "")
		c.Key, c.Renew = ring.Key, ring.Renew
		s := keyedScript("key-of-tuesday-0123")
		made := teachers.NewClient(c, teachers.WithTransport(s))
		var wg sync.WaitGroup
		for range 30 {
			r := request(t, c, "x")
			wg.Go(func() {
				reply, err := made.Ask(t.Context(), r)
				if err != nil {
					t.Error(err)
					return
				}
				if n := teachers.Requests(reply.Attempts); n > 2 || n == 2 && reply.Attempts[0].Class != teachers.ClassAuth {
					t.Errorf("attempts %+v: want the refused one in the ledger, and one more", reply.Attempts)
				}
			})
		}
		wg.Wait()
		if state := made.State(); state.Why != "" || state.Failed != 0 {
			t.Errorf("the teacher was stopped: %+v", state)
		}
	})
}

func TestAWrongKeyIsReadAnewOnce(t *testing.T) {
	ring := &rotating{current: "key-of-monday-0123", read: "key-of-monday-0123"}
	c := withKey("https://api.example.com/v1", "")
	c.Key, c.Renew = ring.Key, ring.Renew
	s := keyedScript("another")
	_, err := teachers.NewClient(c, teachers.WithTransport(s)).Ask(t.Context(), request(t, c, "x"))
	if e := asError(t, err, teachers.ClassAuth); !e.StopsTeacher() || len(s.sent) != 1 || ring.renewed != 1 {
		t.Errorf("%v after %d requests and %d readings", e, len(s.sent), ring.renewed)
	}
	// Keys that change with every reading are no reason to go on for ever.
	ring = &rotating{current: "a-second-wrong-key", read: "key-of-monday-0123"}
	c.Key, c.Renew = ring.Key, ring.Renew
	s = keyedScript("another")
	_, err = teachers.NewClient(c, teachers.WithTransport(s)).Ask(t.Context(), request(t, c, "x"))
	if asError(t, err, teachers.ClassAuth); len(s.sent) != 2 {
		t.Errorf("%d requests, want 2", len(s.sent))
	}
}

type passing struct{ error }

func (passing) Temporary() bool { return true }

func TestAKeyThatCannotBeReadForAWhileIsAskedForAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		c := withKey("https://api.example.com/v1", "")
		c.Key = func() (string, error) {
			if reads++; reads < 3 {
				return "", passing{errors.New("the secret store is busy")}
			}
			return canary, nil
		}
		made := teachers.NewClient(c, teachers.WithTransport(keyedScript(canary)))
		if _, err := made.Ask(t.Context(), request(t, c, "x")); err != nil {
			t.Fatal(err)
		}
		c.Key = func() (string, error) { return "", passing{errors.New("the secret store is busy")} }
		_, err := teachers.NewClient(c, teachers.WithTransport(keyedScript(canary))).Ask(t.Context(), request(t, c, "x"))
		if e := asError(t, err, teachers.ClassServer); e.StopsTeacher() || !strings.Contains(e.Error(), "secret store is busy") {
			t.Errorf("%v", e)
		}
	})
}

// The keys of other teachers stay out of what this one's endpoint says.
func TestKeysOfOtherTeachersAreTakenOutToo(t *testing.T) {
	const other = "sk-other-teacher-0123456789"
	c := withKey("https://api.example.com/v1", canary)
	c.Known = func() []string { return []string{other} }
	body := "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"" + other + "\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
	s := &script{reply: func(int, *http.Request) *http.Response { return response(200, body, "X-Request-Id", other+" "+canary) }}
	reply, err := teachers.NewClient(c, teachers.WithTransport(s)).Ask(t.Context(), request(t, c, "x"))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(reply.Raw), "other") || strings.Contains(reply.Headers["x-request-id"], "sk-") || reply.Headers["x-request-id"] == "" {
		t.Errorf("kept: %s, headers %v", reply.Raw, reply.Headers)
	}
}
