package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

const (
	// checkLimit bounds one check of readiness: probes of Kubernetes wait a
	// second by default, load balancers two to five.
	checkLimit = 900 * time.Millisecond
	// checkKeep is how long a finding counts: whoever may reach the address
	// must not be able to load Temporal or the store through it.
	checkKeep = time.Second
	// probeKey is an object that nobody has: asking for it tells whether the
	// store answers, and leaves nothing behind.
	probeKey = "health/probe"
)

// operatorFlags are the flags of the address that a service manager asks how
// this process is.
type operatorFlags struct {
	address string
	public  bool
}

func (f *operatorFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "listen", "", "HOST:PORT at which /healthz and /readyz answer (default: nowhere)")
	cmd.Flags().BoolVar(&f.public, "listen-public", false, "allow --listen beyond loopback: whoever reaches it may ask whether this process is ready")
}

// check refuses what could not be served, before anything starts.
func (f *operatorFlags) check() error {
	if f.address == "" {
		if f.public {
			return usage("--listen-public is of no use without --listen HOST:PORT")
		}
		return nil
	}
	host, err := listenHost("--listen", f.address, "want HOST:PORT, such as 127.0.0.1:8080")
	if err != nil {
		return err
	}
	if !f.public && !loopback(host) {
		return usage("--listen %s is not loopback; add --listen-public if others may ask whether this process is ready", f.address)
	}
	return nil
}

// A readyCheck is one thing without which this process does no work. Its error
// is shown to whoever asks: it says what, and nothing that is secret.
type readyCheck struct {
	name string
	run  func(context.Context) error
}

// An operator answers service managers and load balancers over HTTP:
//
//	/healthz  200 as long as the process runs
//	/readyz   200 while it can do work, else 503 with a line for each reason
type operator struct {
	checks   []readyCheck
	draining atomic.Bool
	now      func() time.Time

	mu     sync.Mutex // one round of checks at a time; the others wait for its finding
	at     time.Time
	faults []string

	server *http.Server
	done   chan error
	url    string
}

// startOperator answers at the address of the flags. It returns nil where there
// is none.
func startOperator(f operatorFlags, checks []readyCheck) (*operator, error) {
	if f.address == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", f.address)
	if err != nil {
		return nil, usage("--listen: %v", err)
	}
	o := &operator{checks: checks, now: time.Now, done: make(chan error, 1), url: "http://" + l.Addr().String()}
	o.server = &http.Server{
		Handler: o.handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second,
		WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}
	go func() { o.done <- o.server.Serve(l) }()
	return o, nil
}

func (o *operator) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if o.draining.Load() {
			reply(w, http.StatusServiceUnavailable, "draining: answers in flight are kept, nothing new begins")
			return
		}
		if faults := o.find(r.Context()); len(faults) > 0 {
			reply(w, http.StatusServiceUnavailable, strings.Join(faults, "\n"))
			return
		}
		reply(w, http.StatusOK, "ready")
	})
	return mux
}

func reply(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	fmt.Fprintln(w, printable(text))
}

// find runs the checks side by side, or repeats what was found a moment ago.
func (o *operator) find(ctx context.Context) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.at.IsZero() && o.now().Sub(o.at) < checkKeep {
		return o.faults
	}
	// Whoever asked may have gone; the finding is for the next one too.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkLimit)
	defer cancel()
	errs := make([]error, len(o.checks))
	var wg sync.WaitGroup
	for i, check := range o.checks {
		wg.Go(func() { errs[i] = check.run(ctx) })
	}
	wg.Wait()
	o.faults = nil
	for i, err := range errs {
		if err != nil {
			o.faults = append(o.faults, o.checks[i].name+": "+err.Error())
		}
	}
	o.at = o.now()
	return o.faults
}

// drain makes the process unready: it goes on answering while it ends.
func (o *operator) drain() {
	if o != nil {
		o.draining.Store(true)
	}
}

// endWith drains, closes the session, and answers until it is closed.
func (o *operator) endWith(s *session) {
	if o == nil {
		return // whoever opened the session closes it
	}
	o.drain()
	s.close()
	_ = o.server.Close() // what is asked now is asked again elsewhere
}

// ended gets why the address stopped answering by itself; it blocks for ever
// where there is none.
func (o *operator) ended() <-chan error {
	if o == nil {
		return nil
	}
	return o.done
}

// where is the line that serve and worker say of it, "" where there is none.
func (o *operator) where() string {
	if o == nil {
		return ""
	}
	return "\nhealth    " + o.url + "/readyz"
}

// readyChecks are what this process needs to work. Their messages name neither
// addresses nor causes of others: those are in this process's own log.
func (s *session) readyChecks() []readyCheck {
	return []readyCheck{
		{"temporal", func(ctx context.Context) error {
			if _, err := s.temporal.CheckHealth(ctx, &client.CheckHealthRequest{}); err != nil {
				s.app.log().Warn("not ready: Temporal does not answer", "error", err)
				return errors.New("does not answer")
			}
			return nil
		}},
		{"store", func(ctx context.Context) error {
			if _, err := s.bucket.Head(ctx, probeKey); err != nil && !errors.Is(err, objstore.ErrNotFound) {
				s.app.log().Warn("not ready: the store does not answer", "error", err)
				return errors.New("does not answer")
			}
			return nil
		}},
		{"home", func(context.Context) error {
			// Answers are written here before they count.
			f, err := os.CreateTemp(s.home.Path("worker"), ".probe-*")
			if err == nil {
				_, err = f.Write([]byte("ready\n"))
				err = errors.Join(err, f.Close(), os.Remove(f.Name()))
			}
			if err != nil {
				s.app.log().Warn("not ready: the home cannot be written", "error", err)
				return errors.New("cannot be written: no answer could be kept")
			}
			return nil
		}},
	}
}
