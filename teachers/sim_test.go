package teachers_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// A sim is a running teachersim: a separate program that speaks many dialects,
// injects faults and keeps accounts on the server's side.
type sim struct {
	base string // http://127.0.0.1:port
}

// URL is the base URL of its chat completions.
func (s *sim) URL() string { return s.base + "/v1" }

type simStats struct {
	Requests        int            `json:"requests"`
	Completed       int            `json:"completed"`
	UniqueCompleted int            `json:"unique_completed"`
	PaidTwice       int            `json:"paid_twice"`
	EarlyRetries    int            `json:"early_retries"`
	PeakConcurrency int            `json:"peak_concurrency"`
	RateLimited     int            `json:"rate_limited"`
	Faults          map[string]int `json:"faults"`
}

func (s *sim) stats(t testing.TB, model string) simStats {
	t.Helper()
	var all map[string]simStats
	s.get(t, "/admin/stats", &all)
	return all[model]
}

func (s *sim) get(t testing.TB, path string, into any) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(s.base + path)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		t.Fatal(err)
	}
}

var simBinary struct {
	once sync.Once
	dir  string
	err  error
}

func closeSims() {
	if simBinary.dir != "" {
		_ = os.RemoveAll(simBinary.dir)
	}
}

// buildSim builds the program once for all tests.
func buildSim(t testing.TB) string {
	t.Helper()
	source := testdata.Path(t, "tools/teachersim")
	simBinary.once.Do(func() {
		simBinary.dir, simBinary.err = os.MkdirTemp("", "teachersim")
		if simBinary.err != nil {
			return
		}
		build := exec.Command("go", "build", "-o", filepath.Join(simBinary.dir, "teachersim"), ".")
		build.Dir = source
		build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
		if out, err := build.CombinedOutput(); err != nil {
			simBinary.err = fmt.Errorf("build teachersim: %w\n%s", err, out)
		}
	})
	if simBinary.err != nil {
		t.Fatal(simBinary.err)
	}
	return filepath.Join(simBinary.dir, "teachersim")
}

// startSim runs teachersim until the test ends.
func startSim(t testing.TB, args ...string) *sim {
	t.Helper()
	binary := buildSim(t)
	var lastErr error
	for range 5 {
		// The program cannot tell which port it got, so we choose a free one
		// and try again where another process was quicker.
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := listener.Addr().String()
		listener.Close()
		command := exec.Command(binary, append([]string{"-addr", addr}, args...)...)
		var out strings.Builder
		command.Stderr = &out
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		exited := make(chan error, 1)
		go func() { exited <- command.Wait() }()
		stop := func() {
			_ = command.Process.Kill()
			<-exited
		}
		if lastErr = waitForPort(addr, exited); lastErr != nil {
			stop()
			lastErr = fmt.Errorf("%w\n%s", lastErr, out.String())
			continue
		}
		t.Cleanup(stop)
		return &sim{base: "http://" + addr}
	}
	t.Fatalf("teachersim does not start: %v", lastErr)
	return nil
}

func waitForPort(addr string, exited chan error) error {
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-exited:
			exited <- err
			return fmt.Errorf("it ended at once: %w", err)
		case <-deadline:
			return fmt.Errorf("nobody listens on %s after 20s", addr)
		case <-tick.C:
		}
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return nil
		}
	}
}

// user is a prompt of one user message.
func user(text string) *chat.Prompt {
	return &chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text(text)}}}
}

func request(t testing.TB, c *teachers.Config, text string) *teachers.Request {
	t.Helper()
	r, err := teachers.BuildRequest(c, user(text), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// client makes a client that is closed at the end of the test.
func client(t testing.TB, c *teachers.Config, options ...teachers.Option) *teachers.Client {
	t.Helper()
	made := teachers.NewClient(c, options...)
	t.Cleanup(made.Close)
	return made
}

// asks asks one prompt and reads the answer. It checks on the way that what
// the client read while the response came in is what Parse reads from the
// bytes.
func ask(t testing.TB, c *teachers.Config, text string) (*teachers.Answer, *teachers.Reply, error) {
	t.Helper()
	reply, err := client(t, c).Ask(t.Context(), request(t, c, text))
	if err != nil {
		return nil, nil, err
	}
	return parsed(t, reply), reply, nil
}
