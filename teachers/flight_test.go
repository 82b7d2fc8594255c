package teachers_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// An answer of 31 minutes: the model reasons in silence but for keep-alives,
// then writes. Nothing ends it under limits that allow it, and whoever looks
// sees what is waited for.
func TestAnAnswerMayTakeHalfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pieces []string
		for range 28 {
			pieces = append(pieces, ": keep-alive\n\n")
		}
		pieces = append(pieces,
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n",
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"four\"}}]}\n\n",
			"data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		s := &script{reply: func(_ int, r *http.Request) *http.Response {
			out := response(200, "")
			out.Body = &slowBody{ctx: r.Context(), pieces: pieces, every: time.Minute}
			return out
		}}
		c := teachers.NewClient(withLimits(teachers.Limits{NoProgress: 35 * time.Minute}), teachers.WithTransport(s))
		type outcome struct {
			reply *teachers.Reply
			err   error
		}
		done := make(chan outcome, 1)
		r := request(t, testConfig, "x")
		go func() {
			reply, err := c.Ask(t.Context(), r)
			done <- outcome{reply, err}
		}()
		<-time.After(20*time.Minute + time.Second)
		state := c.State()
		if state.Longest < 20*time.Minute || !strings.Contains(state.Why, "20m0s so far") || !strings.Contains(state.Why, "only keep-alives for 20m0s") || !strings.Contains(state.Why, "limits.") {
			t.Errorf("after 20 minutes: %+v", state)
		}
		got := <-done
		if got.err != nil {
			t.Fatal(got.err)
		}
		if got.reply.Latency < 30*time.Minute || got.reply.TTFT < 29*time.Minute || teachers.Requests(got.reply.Attempts) != 1 {
			t.Errorf("latency %s, first text after %s, %d requests", got.reply.Latency, got.reply.TTFT, teachers.Requests(got.reply.Attempts))
		}
		if state := c.State(); state.Longest != 0 || state.Why != "" {
			t.Errorf("afterwards: %+v", state)
		}
	})
}

// An answer of an hour whose text never stops coming passes the defaults.
func TestTheDefaultsAllowAnHourOfText(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pieces []string
		for range 58 {
			pieces = append(pieces, "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n")
		}
		pieces = append(pieces, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n")
		s := &script{reply: func(_ int, r *http.Request) *http.Response {
			out := response(200, "")
			out.Body = &slowBody{ctx: r.Context(), pieces: pieces, every: time.Minute}
			return out
		}}
		reply, err := teachers.NewClient(testConfig, teachers.WithTransport(s)).Ask(t.Context(), request(t, testConfig, "x"))
		if err != nil || reply.Latency < 59*time.Minute {
			t.Errorf("%v, %+v", err, reply)
		}
	})
}

func TestWhatARequestWaitsFor(t *testing.T) {
	for name, c := range map[string]struct {
		body  string
		block time.Duration // before the response begins
		want  string
	}{
		"no response":    {"", 10 * time.Minute, "no connection yet; limits.first_byte passes in"},
		"silence":        {"data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"f\"}}]}\n\n", 0, "silent for 1m30s; limits.idle passes in"},
		"nothing at all": {"", 0, "silent for"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &script{block: c.block, reply: func(_ int, r *http.Request) *http.Response {
					out := response(200, "")
					body := &slowBody{ctx: r.Context()}
					if c.body != "" {
						body.pieces = []string{c.body}
					}
					out.Body = body
					return out
				}}
				client := teachers.NewClient(withLimits(teachers.Limits{FirstByte: 20 * time.Minute}), teachers.WithTransport(s))
				r := request(t, testConfig, "x")
				done := make(chan error, 1)
				go func() { _, err := client.Ask(t.Context(), r); done <- err }()
				<-time.After(30 * time.Second)
				if why := client.State().Why; why != "" {
					t.Errorf("after half a minute it says %q", why)
				}
				<-time.After(time.Minute)
				if why := client.State().Why; !strings.Contains(why, c.want) {
					t.Errorf("it says %q, want %q", why, c.want)
				}
				<-done
			})
		})
	}
}
