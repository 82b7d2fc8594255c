//go:build integration

package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A sim is a running teachersim.
type sim struct {
	t    testing.TB
	addr string
	p    *process
}

// simStats are the accounts of one model, as the endpoint keeps them.
type simStats struct {
	Requests         int            `json:"requests"`
	Completed        int            `json:"completed"` // answers that were billed
	UniqueCompleted  int            `json:"unique_completed"`
	PaidTwice        int            `json:"paid_twice"`
	PromptTokens     int            `json:"prompt_tokens"`     // billed
	CompletionTokens int            `json:"completion_tokens"` // billed
	CachedTokens     int            `json:"cached_tokens"`     // of the prompt tokens
	PeakConcurrency  int            `json:"peak_concurrency"`
	Faults           map[string]int `json:"faults"`
	RateLimited      int            `json:"rate_limited"`
	EarlyRetries     int            `json:"early_retries"`
	NotInRecording   int            `json:"not_in_recording"`
}

const simStarts = 8

// startSim starts teachersim on a free loopback port.
func startSim(t testing.TB, args ...string) *sim {
	t.Helper()
	for range simStarts {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if s := trySim(t, addr, args); s != nil {
			return s
		}
	}
	t.Fatalf("teachersim found no free port in %d tries", simStarts)
	return nil
}

// again starts teachersim anew on the same address, with empty accounts.
func (s *sim) again(args ...string) *sim {
	s.t.Helper()
	s.p.kill()
	for range simStarts {
		if n := trySim(s.t, s.addr, args); n != nil {
			return n
		}
	}
	s.t.Fatalf("teachersim does not start again on %s", s.addr)
	return nil
}

// trySim is nil where somebody else took the port.
func trySim(t testing.TB, addr string, args []string) *sim {
	t.Helper()
	s := &sim{t, addr, startProcess(t, teachersim(t), append([]string{"-addr", addr}, args...), nil)}
	up := false
	eventually(t, 30*time.Second, "teachersim answers or ends", func() bool {
		if !s.p.running() {
			return true
		}
		resp, err := http.Get("http://" + addr + "/v1/models")
		if err == nil {
			resp.Body.Close()
			up = true
		}
		return up
	})
	if up && s.p.running() {
		return s
	}
	if !strings.Contains(s.p.stderr(), "address already in use") {
		t.Fatalf("teachersim: %s", s.p.stderr())
	}
	return nil
}

// on is the same endpoint for a subtest.
func (s *sim) on(t testing.TB) *sim { return &sim{t, s.addr, s.p} }

func (s *sim) url() string { return "http://" + s.addr + "/v1" }

func (s *sim) stats() map[string]simStats {
	s.t.Helper()
	resp, err := http.Get("http://" + s.addr + "/admin/stats")
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var all map[string]simStats
	if err := json.NewDecoder(resp.Body).Decode(&all); err != nil {
		s.t.Fatal(err)
	}
	return all
}

// total adds the accounts of all models.
func (s *sim) total() simStats {
	s.t.Helper()
	sum := simStats{Faults: map[string]int{}}
	for _, st := range s.stats() {
		sum.Requests += st.Requests
		sum.Completed += st.Completed
		sum.UniqueCompleted += st.UniqueCompleted
		sum.PaidTwice += st.PaidTwice
		sum.PeakConcurrency += st.PeakConcurrency
		sum.RateLimited += st.RateLimited
		sum.EarlyRetries += st.EarlyRetries
		sum.NotInRecording += st.NotInRecording
		for f, n := range st.Faults {
			sum.Faults[f] += n
		}
	}
	return sum
}

func (s *sim) reset() {
	s.t.Helper()
	resp, err := http.Post("http://"+s.addr+"/admin/reset", "", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
}
