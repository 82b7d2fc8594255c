package teachers_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// askAll asks n prompts at once and returns the answers by number.
func askAll(t *testing.T, config *teachers.Config, n int) []*teachers.Answer {
	t.Helper()
	c := client(t, config)
	answers := make([]*teachers.Answer, n)
	var wg sync.WaitGroup
	for i := range n {
		r := request(t, config, fmt.Sprintf("question %d", i))
		wg.Go(func() {
			reply, err := c.Ask(t.Context(), r)
			if err != nil {
				t.Errorf("question %d: %v", i, err)
				return
			}
			answer, err := reply.Parse()
			if err != nil {
				t.Errorf("question %d: %v", i, err)
				return
			}
			answers[i] = answer
		})
	}
	wg.Wait()
	if s := c.State(); s.InFlight != 0 || s.Waiting != 0 || s.Done != int64(n) || s.Failed != 0 {
		t.Errorf("state %+v after %d answers", s, n)
	}
	return answers
}

// Every fault that teachersim can inject hits a fifth of the first two
// attempts. Every answer must come, none may be paid for twice, and nothing
// may be asked again before the endpoint allows it.
func TestNoFaultLosesAnAnswerOrBuysOneTwice(t *testing.T) {
	const n = 80
	for _, fault := range []string{"http429", "http500", "http503", "http529", "html502", "reset", "midreset", "miderror",
		"hang", "badjson", "empty", "error200", "length", "filter", "wrongmodel"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			s := startSim(t, "-models", "m", "-synthetic-tokens", "60", "-faults", fmt.Sprintf(`{%q:0.2}`, fault))
			config := &teachers.Config{ID: "t", API: "openai", BaseURL: s.URL(), Model: "m",
				Limits: teachers.Limits{Concurrency: 24, FirstByte: 2 * time.Second}}
			finishes := map[string]int{}
			for _, a := range askAll(t, config, n) {
				if a != nil {
					finishes[a.Finish]++
				}
			}
			stats := s.stats(t, "m")
			if stats.Faults[fault] == 0 {
				t.Errorf("no fault was injected: %+v", stats)
			}
			if stats.UniqueCompleted != n || stats.PaidTwice != 0 || stats.EarlyRetries != 0 {
				t.Errorf("the endpoint's accounts: %+v, want %d answers, none paid twice, no early retry", stats, n)
			}
			// A cut or filtered answer is a result, and is paid for.
			results := map[string]string{"length": "length", "filter": "content_filter"}
			if want, ok := results[fault]; ok && (finishes[want] != stats.Faults[fault] || stats.Requests != n) {
				t.Errorf("finish reasons %v and %d requests, want %d of %s and no retry", finishes, stats.Requests, stats.Faults[fault], want)
			}
		})
	}
}

func TestDeclaredLimitsAreKept(t *testing.T) {
	s := startSim(t, "-models", "m", "-synthetic-tokens", "20", "-ttft", "5ms", "-max-concurrent", "7", "-rpm", "2000")
	config := &teachers.Config{ID: "t", API: "openai", BaseURL: s.URL(), Model: "m",
		Limits: teachers.Limits{Concurrency: 7, RPM: 2000}}
	askAll(t, config, 100)
	if stats := s.stats(t, "m"); stats.RateLimited > 0 || stats.PeakConcurrency > 7 {
		t.Errorf("the endpoint's accounts: %+v, want no 429 and at most 7 at once", stats)
	}
}
