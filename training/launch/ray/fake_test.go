package ray

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A fake is a Ray dashboard with what surprises callers of the real one: a
// repeated id is an error with a stack trace that may quote the request (status
// 500 of Ray 2.60, as test/launchers saw it; 400 of earlier releases),
// /api/jobs without its slash is nobody's, stopping takes a while, a restart
// forgets every job. It keeps what it was sent.
type fake struct {
	*httptest.Server

	mu       sync.Mutex
	jobs     map[string]*job
	repeated int                                           // status of a repeated id
	started  int                                           // jobs that Ray has taken
	headers  []http.Header                                 // of every request
	before   func(http.ResponseWriter, *http.Request) bool // true: it has answered
	after    func(http.ResponseWriter, *http.Request) bool // of a POST that was taken
}

type job struct {
	details
	sent    submission
	stopped bool
	log     string
}

func newFake(t *testing.T) *fake {
	t.Helper()
	f := unstartedFake()
	f.Start()
	t.Cleanup(f.Close)
	return f
}

func unstartedFake() *fake {
	f := &fake{jobs: map[string]*job{}, repeated: http.StatusInternalServerError}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/jobs/{$}", f.post)
	mux.HandleFunc("GET /api/jobs/{id}", f.withJob(func(w http.ResponseWriter, j *job) {
		text, _ := json.Marshal(j.details)
		fmt.Fprintf(w, `{"runtime_env": {"env_vars": {"A": "secret"}}, "job_id": null, %s`, text[1:])
	}))
	mux.HandleFunc("POST /api/jobs/{id}/stop", f.withJob(func(w http.ResponseWriter, j *job) {
		j.stopped = true // the status follows later
		io.WriteString(w, `{"stopped": true}`)
	}))
	mux.HandleFunc("GET /api/jobs/{id}/logs", f.withJob(func(w http.ResponseWriter, j *job) {
		text, _ := json.Marshal(map[string]string{"logs": j.log})
		w.Write(text)
	}))
	f.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.headers = append(f.headers, r.Header.Clone())
		if f.before != nil && f.before(w, r) {
			return
		}
		mux.ServeHTTP(w, r)
	}))
	return f
}

func (f *fake) post(w http.ResponseWriter, r *http.Request) {
	var s submission
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if f.jobs[s.SubmissionID] != nil {
		w.WriteHeader(f.repeated)
		fmt.Fprintf(w, "Traceback (most recent call last):\n  File \"job_head.py\", line 300, in submit_job\n    %v\nValueError: Job with submission_id %s already exists. Please use a different submission_id.\n", s.RuntimeEnv, s.SubmissionID)
		return
	}
	f.started++
	f.jobs[s.SubmissionID] = &job{sent: s, details: details{Type: "SUBMISSION", SubmissionID: s.SubmissionID, Status: "PENDING", StartTime: 1764547200000}}
	if f.after != nil && f.after(w, r) {
		return
	}
	fmt.Fprintf(w, `{"job_id": %q, "submission_id": %q}`, s.SubmissionID, s.SubmissionID)
}

func (f *fake) withJob(do func(http.ResponseWriter, *job)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		j := f.jobs[r.PathValue("id")]
		if j == nil {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprintf(w, "Job %s does not exist", r.PathValue("id"))
			return
		}
		do(w, j)
	}
}

// is sets what Ray says of a job.
func (f *fake) is(id string, d details) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d.Type, d.SubmissionID = "SUBMISSION", id
	f.jobs[id].details = d
}

// restart is a cluster that comes up again without its table of jobs.
func (f *fake) restart() {
	f.mu.Lock()
	defer f.mu.Unlock()
	clear(f.jobs)
}

func (f *fake) set(before, after func(http.ResponseWriter, *http.Request) bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before, f.after = before, after
}

func (f *fake) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.started
}

// answer gives every request of a method an answer of its own.
func answer(method string, status int, text string) func(http.ResponseWriter, *http.Request) bool {
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method {
			return false
		}
		w.WriteHeader(status)
		io.WriteString(w, text)
		return true
	}
}

// hangUp ends the connection without an answer.
func hangUp(http.ResponseWriter, *http.Request) bool { panic(http.ErrAbortHandler) }

func digest(c string) string { return strings.Repeat(c, 64) }
