//go:build integration

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// drain is how long Ctrl-C may take: 10 s for answers in flight, and the end
// of the services.
const drain = 14 * time.Second

// TestInterrupt presses Ctrl-C: the command ends with 130, what was in flight
// is kept, and the next build pays for nothing twice.
func TestInterrupt(t *testing.T) {
	s := startSim(t, "-models", "a", "-ttft", "500ms", "-chunk", "400")
	h := newHouse(t)
	m := made{dir: t.TempDir(), name: "interrupted", teachers: teacher(s, "a", ", limits: {concurrency: 16}")}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": 150})
	recipe := m.write(t)

	p := h.start("build", recipe, "--yes")
	eventually(t, time.Minute, "some answers have come and others are in flight", func() bool {
		st := s.total()
		return st.Completed > 16 && st.Requests > st.Completed
	})
	pressed := time.Now()
	p.interrupt()
	if code := p.wait(drain); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	took := time.Since(pressed)
	if !strings.Contains(p.stderr(), "what has arrived is kept") {
		t.Errorf("the command says nothing of what is kept: %s", tail(p.stderr(), 500))
	}
	kept := s.total()
	if kept.Completed != kept.Requests || kept.Completed >= 150 {
		t.Errorf("%d requests, %d answers: what is in flight has to be waited for, and nothing more asked", kept.Requests, kept.Completed)
	}
	if left := processes(t, h.dir); len(left) != 0 {
		t.Errorf("processes that outlive Ctrl-C: %v", left)
	}

	r := h.build(recipe)
	sum := s.total()
	if r.Version != 1 || sum.Requests != 150 || sum.PaidTwice != 0 {
		t.Errorf("version %d; %d requests, %d paid twice; want each of 150 asked once", r.Version, sum.Requests, sum.PaidTwice)
	}
	t.Logf("Ctrl-C took %v; the next build %.1f s; %d answers kept; the next build asked %d; paid twice %d", took.Round(time.Millisecond), r.DurationS, kept.Completed, sum.Requests-kept.Requests, sum.PaidTwice)
}

// TestInterruptTwice presses Ctrl-C twice: the second one does not wait.
func TestInterruptTwice(t *testing.T) {
	s := startSim(t, "-models", "a", "-ttft", "1m", "-chunk", "400")
	h := newHouse(t)
	m := made{dir: t.TempDir(), name: "stopped", teachers: teacher(s, "a", "")}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": 20})
	p := h.start("build", m.write(t), "--yes")
	eventually(t, time.Minute, "a request is in flight", func() bool { return s.total().Requests > 0 })
	p.interrupt()
	holds(t, time.Second, "the first Ctrl-C waits for what is in flight", p.running)
	pressed := time.Now()
	p.interrupt()
	if code := p.wait(3 * time.Second); code != 130 {
		t.Errorf("exit code %d, want 130", code)
	}
	t.Logf("the second Ctrl-C took %v", time.Since(pressed).Round(time.Millisecond))
}

// TestAttach starts the same build twice: the second command follows the first
// one's, and takes it over when that process is killed.
func TestAttach(t *testing.T) {
	s := startSim(t, "-models", "a", "-ttft", "50ms", "-chunk", "400")
	h := newHouse(t)
	m := made{dir: t.TempDir(), name: "attached", teachers: teacher(s, "a", "")}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": 900})
	recipe := m.write(t)

	first := h.start("build", recipe, "--yes")
	eventually(t, time.Minute, "the first answer", func() bool { return s.total().Completed > 0 })
	second := h.start("build", recipe, "--json", "--yes")
	second.said("goes on")
	var status struct {
		BuildID string `json:"build_id"`
		Phase   string `json:"phase"`
	}
	decodeJSON(t, h.run(0, "status", "--json").stdout(), &status)
	if !strings.Contains(second.stderr(), status.BuildID) {
		t.Errorf("the second command follows another build than %s: %s", status.BuildID, second.stderr())
	}
	second.said("asks ") // it sees how the build stands
	if err := syscall.Kill(first.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	killed := time.Now()
	second.said("going on in this one")
	noticed := time.Since(killed)
	if code := second.wait(commandLimit); code != 0 {
		t.Fatalf("the second command ended with %d:\n%s", code, tail(second.stderr(), 2000))
	}
	r := second.result()
	if r.BuildID != status.BuildID || r.Version != 1 || r.Candidates != 900 {
		t.Errorf("the build that was taken over: %+v; want %s to publish version 1", r, status.BuildID)
	}
	sum := s.total()
	if sum.UniqueCompleted != 900 || sum.PaidTwice > 8+sum.PeakConcurrency {
		t.Errorf("%d answers, %d paid twice; want 900, and twice only what was in flight", sum.UniqueCompleted, sum.PaidTwice)
	}
	t.Logf("both commands follow %s; taken over %v after the kill; %d requests for 900 asks, paid twice %d", r.BuildID, noticed.Round(time.Millisecond), sum.Requests, sum.PaidTwice)
}

// TestTakeOver has three commands on one build: when the one that runs it is
// killed, another takes over and the third follows it there. A command that
// only watches runs nothing by itself.
func TestTakeOver(t *testing.T) {
	s := startSim(t, "-models", "a", "-ttft", "50ms", "-chunk", "400")
	h := newHouse(t)
	m := made{dir: t.TempDir(), name: "handed", teachers: teacher(s, "a", "")}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": 1200})
	recipe := m.write(t)

	first := h.start("build", recipe, "--yes")
	eventually(t, time.Minute, "the first answer", func() bool { return s.total().Completed > 0 })
	second := h.start("build", recipe, "--json", "--yes")
	second.said("asks ")
	third := h.start("watch", "--json")
	third.said("asks ")
	if err := syscall.Kill(first.cmd.Process.Pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	second.said("going on in this one")
	third.said(fmt.Sprintf("process %d runs this build now", second.cmd.Process.Pid))
	for _, p := range []*process{second, third} {
		if code := p.wait(commandLimit); code != 0 {
			t.Fatalf("%s ended with %d:\n%s", p.name, code, tail(p.stderr(), 2000))
		}
	}
	if a, b := second.result(), third.result(); a.Version != 1 || a.BuildID != b.BuildID {
		t.Errorf("the two that were left saw %+v and %+v; want version 1 of one build", a, b)
	}

	m.name, m.rest = "watched", "ask: {samples: 2}\n"
	recipe = m.write(t)
	runs := h.start("build", recipe, "--yes")
	runs.said("asks ")
	only := h.start("watch")
	only.said("asks ")
	runs.kill()
	if code := only.wait(time.Minute); code != 6 {
		t.Errorf("watching what nobody runs any more: exit code %d, want 6", code)
	}
	if left := processes(t, h.dir); len(left) != 0 {
		t.Errorf("processes that run though nobody builds: %v", left)
	}
}

// TestServeIsNeeded asks for what would die with the command.
func TestServeIsNeeded(t *testing.T) {
	h := newHouse(t)
	m := made{dir: t.TempDir(), name: "refused", teachers: "  - {base_url: 'http://127.0.0.1:9/v1', model: a}\n"}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": 1})
	recipe := m.write(t)
	for _, args := range [][]string{
		{"build", recipe, "--detach"},
		{"schedule", "create", "nightly", recipe, "--every", "1h"},
		{"env"}, {"watch"}, {"pause"}, {"cancel"}, {"schedule", "list"},
	} {
		if p := h.run(2, args...); !strings.Contains(p.stderr(), "stillhouse serve") {
			t.Errorf("%s: %q does not name stillhouse serve", strings.Join(args, " "), p.stderr())
		}
	}
}

// serve runs the embedded services until the test ends.
func (h *house) serve() *process {
	h.t.Helper()
	p := h.start("serve")
	p.said("Ctrl-C ends them")
	h.t.Cleanup(func() {
		if !p.running() {
			return
		}
		p.interrupt()
		if code := p.wait(drain); code != 0 {
			h.t.Errorf("serve ended with %d, want 0", code)
		}
		if left := processes(h.t, h.dir); len(left) != 0 {
			h.t.Errorf("processes that outlive serve: %v", left)
		}
	})
	return p
}

// detach starts a build on the running services and gives its id.
func (h *house) detach(recipe string) string {
	h.t.Helper()
	var started struct {
		BuildID string `json:"build_id"`
	}
	decodeJSON(h.t, h.run(0, "build", recipe, "--detach", "--json").stdout(), &started)
	return started.BuildID
}

// status asks how a build stands.
func (h *house) status(build string) (s struct {
	BuildID string `json:"build_id"`
	Phase   string `json:"phase"`
	Paused  bool   `json:"paused"`
	Why     string `json:"why"`
	State   string `json:"state"` // of one that has ended
}) {
	h.t.Helper()
	decodeJSON(h.t, h.run(0, "status", build, "--json").stdout(), &s)
	return s
}

// TestServe runs builds on services that outlive them.
func TestServe(t *testing.T) {
	s := startSim(t, "-models", "a", "-ttft", "20ms", "-chunk", "400")
	h := newHouse(t)
	h.serve()

	made := func(t *testing.T, name string, n int) string {
		t.Helper()
		m := made{dir: filepath.Join(t.TempDir(), name), name: name, teachers: teacher(s, "a", ", epoch: "+fmt.Sprint(len(name)))}
		prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": n})
		return m.write(t)
	}

	t.Run("a second serve is refused", func(t *testing.T) {
		h := h.on(t)
		if p := h.run(2, "serve"); !strings.Contains(p.stderr(), "serves home") {
			t.Errorf("it says %q", p.stderr())
		}
	})
	t.Run("detach and watch", func(t *testing.T) {
		h, s := h.on(t), s.on(t)
		s.reset()
		id := h.detach(made(t, "watched", 300))
		if st := h.status(id); st.BuildID != id {
			t.Errorf("status is of %q, want %s", st.BuildID, id)
		}
		p := h.start("watch", id, "--json")
		if code := p.wait(commandLimit); code != 0 {
			t.Fatalf("watch ended with %d: %s", code, p.stderr())
		}
		if r := p.result(); r.BuildID != id || r.Version != 1 || r.AnswersNew != 300 {
			t.Errorf("watched: %+v; want version 1 by %s", r, id)
		}
		if st := h.status(id); st.State != "done" {
			t.Errorf("status of the build that has ended: %+v", st)
		}
	})
	t.Run("pause and resume", func(t *testing.T) {
		h, s := h.on(t), s.on(t)
		s.reset()
		const asks = 1200
		id := h.detach(made(t, "paused", asks))
		eventually(t, time.Minute, "the first answers", func() bool { return s.total().Completed > 20 })
		h.run(0, "pause", id, "--reason", "the budget meeting")
		if st := h.status(id); !st.Paused || st.Why != "the budget meeting" {
			t.Errorf("status of the paused build: %+v", st)
		}
		// Batches in flight end.
		last, since := 0, time.Now()
		eventually(t, time.Minute, "no request for 1.5 s", func() bool {
			if n := s.total().Requests; n != last {
				last, since = n, time.Now()
			}
			return time.Since(since) > 1500*time.Millisecond
		})
		if last >= asks {
			t.Fatalf("all %d asks were sent before the pause: this test shows nothing", last)
		}
		h.run(0, "resume", id)
		if code := h.start("watch", id).wait(commandLimit); code != 0 {
			t.Errorf("watch ended with %d", code)
		}
		if st := s.total(); st.Requests != asks || st.PaidTwice != 0 {
			t.Errorf("%d requests, %d paid twice; want %d and none", st.Requests, st.PaidTwice, asks)
		}
		t.Logf("paused at %d of %d asks", last, asks)
	})
	t.Run("cancel", func(t *testing.T) {
		h, s := h.on(t), s.on(t)
		s.reset()
		const asks = 1000
		recipe := made(t, "cancelled", asks)
		id := h.detach(recipe)
		watch := h.start("watch", id)
		eventually(t, time.Minute, "the first answers", func() bool { return s.total().Completed > 20 })
		h.run(0, "cancel", id)
		if code := watch.wait(drain); code != 130 {
			t.Errorf("watch ended with %d, want 130", code)
		}
		if st := h.status(id); st.State != "cancelled" {
			t.Errorf("status of the cancelled build: %+v", st)
		}
		kept := s.total()
		if kept.Completed != kept.Requests || kept.Completed >= asks {
			t.Errorf("%d requests and %d answers at the cancel", kept.Requests, kept.Completed)
		}
		r := h.build(recipe)
		if st := s.total(); st.Requests != asks || st.PaidTwice != 0 || r.AnswersReused != int64(kept.Completed) {
			t.Errorf("the next build: %d requests in all, %d paid twice, %d reused; want %d, none and %d", st.Requests, st.PaidTwice, r.AnswersReused, asks, kept.Completed)
		}
		t.Logf("cancelled at %d of %d answers; the next build asked the other %d", kept.Completed, asks, r.AnswersNew)
	})
}
