package activities

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// An event of a health: an answer, or a failure of a class, so long after the
// one before, n times.
type event struct {
	class string // "" is an answer
	after time.Duration
	n     int
}

func TestWhenATeacherIsGivenUp(t *testing.T) {
	const second = time.Second
	answer := event{n: 1}
	for _, tc := range []struct {
		name   string
		events []event
		want   string // class; "" where it goes on
		after  int    // failures in all when it is given up
	}{
		{"a wrong key, at once", []event{{teachers.ClassAuth, 0, 1}}, "auth", 1},
		{"no money left, after answers", []event{answer, answer, {teachers.ClassQuota, 0, 1}}, "quota", 1},
		{"no such model", []event{{teachers.ClassNotFound, 0, 1}}, "not_found", 1},
		{"nobody listens", []event{{teachers.ClassNetwork, 0, 10}}, classUnreachable, 3},
		{"two connections are lost", []event{{teachers.ClassNetwork, 0, 2}}, "", 0},
		{"nobody listens for a while, then answers", []event{{teachers.ClassNetwork, 0, 2}, answer, {teachers.ClassNetwork, 0, 40}}, "", 0},
		{"errors for ever", []event{{teachers.ClassServer, second, 100}}, "server", 9},
		{"errors for ever, from many at once", []event{{teachers.ClassServer, 0, 256}, {teachers.ClassServer, 9 * second, 1}}, "server", 257},
		{"errors for some seconds", []event{{teachers.ClassServer, 0, 256}}, "", 0},
		{"empty answers for ever", []event{{teachers.ClassEmpty, 4 * second, 100}}, "empty", 8},
		{"another protocol", []event{{teachers.ClassMalformed, 4 * second, 100}}, "malformed", 8},
		{"errors of all kinds", []event{{teachers.ClassNetwork, 2 * second, 1}, {teachers.ClassServer, 2 * second, 3}, {teachers.ClassTruncated, 2 * second, 9}}, "truncated", 8},
		{"some errors among answers", []event{{teachers.ClassServer, second, 7}, answer, {teachers.ClassServer, second, 50}, answer}, "", 0},
		{"an endpoint that restarts", []event{answer, {teachers.ClassNetwork, second, 100}, answer, {teachers.ClassNetwork, second, 100}}, "", 0},
		{"an endpoint that died", []event{answer, {teachers.ClassNetwork, second, 1000}}, "network", 121},
		{"an endpoint that died, seldom asked", []event{answer, {teachers.ClassNetwork, time.Minute, 1000}}, "network", 64},
		{"parameters that nobody takes", []event{{teachers.ClassBadRequest, 0, 1000}}, "bad_request", 64},
		{"some prompts that nobody takes", []event{answer, {teachers.ClassBadRequest, second, 1000}}, "bad_request", 121},
		{"prompts that are too long", []event{{teachers.ClassContextOverflow, second, 1000}}, "", 0},
		{"answers that are too long", []event{{teachers.ClassTooLarge, second, 1000}}, "", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHealth()
			now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
			failures, after := 0, 0
			for _, e := range tc.events {
				for range e.n {
					now = now.Add(e.after)
					if e.class == "" {
						h.succeeded()
						continue
					}
					failures++
					h.failed(&teachers.Error{Class: e.class, Teacher: "t", URL: "http://127.0.0.1/v1", Excerpt: "words"}, now, now)
					if h.stop() != nil && after == 0 {
						after = failures
					}
				}
			}
			got := ""
			if s := h.stop(); s != nil {
				got = s.Class
				if !strings.Contains(s.Text, "http://127.0.0.1/v1") || !strings.Contains(s.Text, "words") {
					t.Errorf("the text %q does not say where and why", s.Text)
				}
			}
			if got != tc.want || after != tc.after {
				t.Errorf("given up as %q after %d failures, want %q after %d", got, after, tc.want, tc.after)
			}
		})
	}
}

func TestTroubleIsToldUntilAnAnswerComes(t *testing.T) {
	h := newHealth()
	now := time.Now()
	fail := func() {
		h.failed(&teachers.Error{Class: teachers.ClassServer, Status: 502, Excerpt: "<html>\n<body>"}, now, now)
	}
	want := func(text string) {
		t.Helper()
		if got := h.trouble(); got != text {
			t.Errorf("%q, want %q", got, text)
		}
	}
	want("")
	fail()
	want("no answer yet: server (HTTP 502): <html>")
	h.succeeded()
	want("")
	fail()
	want("fails: server (HTTP 502): <html>")
}

// Once the money has run out nothing more is sent, and an answer that is under
// way, which is paid for, is waited for and kept.
func TestGivingUpKeepsWhatIsUnderWay(t *testing.T) {
	var requests atomic.Int64
	refused := make(chan struct{})
	var once sync.Once
	server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply {
		if requests.Add(1) == 1 {
			<-refused
			return teacherstest.Reply{Content: "42"}
		}
		once.Do(func() { close(refused) })
		return teacherstest.Reply{Status: 402, Message: "no money"}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(200))
	recipe := func(concurrency int) string {
		return fmt.Sprintf(`
name: broke
prompts: [{path: p.jsonl}]
teachers: [{id: t, model: m, base_url: %q, limits: {concurrency: %d}}]
`, server.URL, concurrency)
	}
	r := w.start(recipe(2))
	out := r.askBatch("t", 0)
	if out.Stopped == nil || out.Stopped.Class != teachers.ClassQuota {
		t.Fatalf("%+v, want the teacher given up for its quota", out)
	}
	if out.Counts.New != 1 || requests.Load() > 4 {
		t.Errorf("%d answers of %d requests, want 1 of about 2", out.Counts.New, requests.Load())
	}
	sent := requests.Load()
	if out := r.askBatch("t", 1); out.Stopped == nil || out.Counts.New+out.Counts.Failed != 0 || requests.Load() != sent {
		t.Errorf("the next batch of the same build asks again: %+v", out)
	}
	if out := w.start(recipe(3)).askBatch("t", 0); requests.Load() == sent || out.Stopped == nil || out.Counts.Reused != 1 {
		t.Errorf("another build does not ask again: %+v", out)
	}
}

// Until the first answer only so many asks are under way; from then on any.
func TestFirstAsksAreFew(t *testing.T) {
	h := newHealth()
	for range 3 {
		if err := h.begin(t.Context(), 3); err != nil {
			t.Fatal(err)
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if err := h.begin(gone, 3); err == nil {
		t.Fatal("a fourth began")
	}
	began := make(chan error)
	go func() { began <- h.begin(t.Context(), 3) }()
	h.end()
	if err := <-began; err != nil {
		t.Fatal(err)
	}
	for range 5 {
		go func() { began <- h.begin(t.Context(), 3) }()
	}
	h.succeeded()
	for range 5 {
		if err := <-began; err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		h.end()
	}
	if h.underWay != 0 {
		t.Errorf("%d are under way", h.underWay)
	}
}

// A teacher that never answered is given up for requests that may be charged,
// before their asks have used up all of theirs.
func TestRetriesOfATeacherThatNeverAnswers(t *testing.T) {
	start := time.Now()
	for name, c := range map[string]struct {
		class    string
		answered bool
		want     int // requests until it is given up; 0: never
	}{
		"cut off":                  {teachers.ClassNetwork, false, lostNetwork},
		"truncated":                {teachers.ClassTruncated, false, lostTimes * 10},
		"too large":                {teachers.ClassTooLarge, false, 0},
		"our own stop":             {teachers.ClassCancelled, false, 0},
		"one that answered before": {teachers.ClassNetwork, true, 0},
	} {
		h := newHealth()
		for range 10 {
			if err := h.begin(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		if c.answered {
			h.succeeded()
		}
		given := 0
		for i := 1; i <= 100 && given == 0; i++ {
			h.lose(&teachers.Error{Class: c.class, Started: start}, start.Add(neverFor))
			if h.stop() != nil {
				given = i
			}
		}
		if given != c.want {
			t.Errorf("%s: given up after %d, want %d", name, given, c.want)
		}
		h = newHealth()
		for range 100 {
			h.lose(&teachers.Error{Class: c.class, Started: start}, start.Add(neverFor-1))
		}
		if h.stop() != nil {
			t.Errorf("%s: given up at once", name)
		}
	}
}
