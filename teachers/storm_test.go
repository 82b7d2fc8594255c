//go:build storm && linux

package teachers_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// The storm: ten thousand streams open at once. Its endpoint is a process of
// its own, so that the client's memory and descriptors are the client's.

const (
	stormStreams = 10_000
	stormPieces  = 100 // events of each answer, of about 200 bytes
	stormMemory  = 1 << 30
	stormServer  = "STILLHOUSE_STORM_SERVER"
)

func init() {
	if os.Getenv(stormServer) != "" {
		serveStorm()
		os.Exit(0)
	}
}

// serveStorm answers until its stdin closes. Every stream gets a first piece at
// once and the others when all streams are open.
func serveStorm() {
	var open atomic.Int32
	all := make(chan struct{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		piece := func(delta, finish string) {
			fmt.Fprintf(w, "data: {\"id\":\"chatcmpl-0123456789\",\"object\":\"chat.completion.chunk\",\"created\":1796068570,\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":%q},\"finish_reason\":%s}]}\n\n", delta, finish)
			w.(http.Flusher).Flush()
		}
		piece("a first word of it", "null")
		if open.Add(1) == stormStreams {
			close(all)
		}
		select {
		case <-all:
		case <-r.Context().Done():
			return
		}
		for range stormPieces - 2 {
			piece("some more words of it", "null")
		}
		piece("", `"stop"`)
		_, _ = io.WriteString(w, "data: [DONE]\n\n")
	})}
	go func() { _ = server.Serve(listener) }()
	fmt.Println(listener.Addr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = server.Close()
}

// startStorm starts the endpoint and gives its base URL.
func startStorm(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), stormServer+"=1", "GOGC=50")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait()
	})
	addr, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return "http://" + strings.TrimSpace(addr) + "/v1"
}

// residents are the resident bytes of this process: now, and at most so far.
func residents(t *testing.T) (now, most int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		kib, _ := strconv.ParseInt(fields[1], 10, 64)
		switch fields[0] {
		case "VmRSS:":
			now = kib << 10
		case "VmHWM:":
			most = kib << 10
		}
	}
	return now, most
}

func TestTenThousandStreamsTakeLessThanAGiB(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	limit.Cur = limit.Max
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil || limit.Cur < stormStreams+500 {
		t.Skipf("a process may open %d files (%v); %d are needed: ulimit -n", limit.Cur, err, stormStreams+500)
	}
	url := startStorm(t)
	config := &teachers.Config{ID: "t", API: "openai", BaseURL: url, Model: "m",
		Limits: teachers.Limits{Concurrency: stormStreams, Connect: 2 * time.Minute, FirstByte: 5 * time.Minute}}
	made := client(t, config)
	goroutines := runtime.NumGoroutine()
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	var failures, pieces atomic.Int64
	for i := range stormStreams {
		r := request(t, config, fmt.Sprintf("question %d", i))
		wg.Go(func() {
			reply, err := made.Ask(ctx, r)
			if err != nil {
				if failures.Add(1) < 4 {
					t.Error(err)
				}
				return
			}
			answer, err := reply.Parse()
			if err != nil || answer.Message.ReasoningContent == nil {
				failures.Add(1)
				return
			}
			pieces.Add(int64(strings.Count(*answer.Message.ReasoningContent, "words of it")))
		})
	}
	ended := make(chan struct{})
	go func() { wg.Wait(); close(ended) }()
	peak := 0
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for waiting := true; waiting; {
		select {
		case <-ended:
			waiting = false
		case <-tick.C:
			peak = max(peak, made.State().InFlight)
		}
	}
	now, most := residents(t)
	t.Logf("%d streams at once, %d pieces: %d MiB resident at most, %d MiB now", peak, pieces.Load(), most>>20, now>>20)
	if failures.Load() > 0 || pieces.Load() != stormStreams*(stormPieces-2) {
		t.Errorf("%d failures, %d pieces, want %d", failures.Load(), pieces.Load(), stormStreams*(stormPieces-2))
	}
	if peak < stormStreams {
		t.Errorf("%d streams at once, want %d", peak, stormStreams)
	}
	if most >= stormMemory {
		t.Errorf("%d MiB resident, want less than %d", most>>20, stormMemory>>20)
	}
	made.Close()
	debug.FreeOSMemory()
	for range 100 {
		if runtime.NumGoroutine() <= goroutines+4 {
			return
		}
		<-tick.C
	}
	t.Errorf("%d goroutines are left, there were %d", runtime.NumGoroutine(), goroutines)
}
