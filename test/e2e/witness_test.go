//go:build integration

package e2e

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// A witness stands between the program and its endpoint and notes when each
// body was asked and when its answer had been handed over whole.
type witness struct {
	server *httptest.Server
	client *http.Client
	target string

	mu   sync.Mutex
	asks map[[sha256.Size]byte][]*request
	n    int // requests of all bodies
}

// A request is one request for a body, and when its answer had been handed
// over whole; zero where it never was.
type request struct {
	sent, done time.Time
}

func newWitness(t testing.TB, s *sim) *witness {
	w := &witness{target: "http://" + s.addr, asks: map[[sha256.Size]byte][]*request{}}
	w.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true}}
	w.server = httptest.NewServer(http.HandlerFunc(w.serve))
	t.Cleanup(w.server.Close)
	return w
}

func (w *witness) url() string { return w.server.URL + "/v1" }

func (w *witness) serve(rw http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the program was killed while it asked
	}
	ask := w.asked(body)
	out, err := http.NewRequestWithContext(r.Context(), r.Method, w.target+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	out.Header = r.Header.Clone()
	resp, err := w.client.Do(out)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	for name, values := range resp.Header {
		rw.Header()[name] = values
	}
	rw.WriteHeader(resp.StatusCode)
	if pass(rw, resp.Body) == nil && resp.StatusCode == http.StatusOK {
		w.whole(ask)
	}
}

// pass hands an answer over piece by piece, as it comes.
func pass(rw http.ResponseWriter, body io.Reader) error {
	flush := http.NewResponseController(rw)
	buf := make([]byte, 16<<10)
	for {
		n, err := body.Read(buf)
		if n > 0 {
			if _, werr := rw.Write(buf[:n]); werr != nil {
				return werr
			}
			if ferr := flush.Flush(); ferr != nil {
				return ferr
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (w *witness) asked(body []byte) *request {
	sum := sha256.Sum256(body)
	r := &request{sent: time.Now()}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asks[sum] = append(w.asks[sum], r)
	w.n++
	return r
}

func (w *witness) whole(r *request) {
	w.mu.Lock()
	defer w.mu.Unlock()
	r.done = time.Now()
}

// counts are the requests so far and the bodies that were answered whole.
func (w *witness) counts() (requests, answered int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.asks {
		for _, r := range all {
			if !r.done.IsZero() {
				answered++
				break
			}
		}
	}
	return w.n, answered
}

func (w *witness) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.asks)
	w.n = 0
}

// A life is the time from a process's start to its kill.
type life struct{ start, kill time.Time }

// firstAsk is sooner than any process can ask: its services start first. What
// is seen within it after a start, the process before has sent.
const firstAsk = 200 * time.Millisecond

// sent tells whether the process of this life sent a request: some reach us
// only after its kill.
func (l life) sent(r *request) bool {
	return r.sent.After(l.start.Add(firstAsk)) && r.sent.Before(l.kill.Add(firstAsk))
}

// inFlight counts the requests of a killed process whose answers had not been
// handed over some time before its kill.
func (w *witness) inFlight(l life, margin time.Duration) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, all := range w.asks {
		for _, r := range all {
			if l.sent(r) && (r.done.IsZero() || r.done.After(l.kill.Add(-margin))) {
				n++
			}
		}
	}
	return n
}

// askedAgain looks at every body that was asked again after its answer had
// been handed over to a process that lived: how many there are, and for how
// long the answer had been there, at most, when that process was killed.
func (w *witness) askedAgain(lives []life) (n int, oldest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.asks {
		for _, r := range all[:len(all)-1] {
			for _, l := range lives {
				if l.sent(r) && !r.done.IsZero() && r.done.Before(l.kill) {
					n++
					oldest = max(oldest, l.kill.Sub(r.done))
				}
			}
		}
	}
	return n, oldest
}
