//go:build unix

package teachers_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// The two benchmarks ask the same endpoint the same bodies with the same
// concurrency; the bare loop reads every response to its end and looks at
// nothing. Compare their answers/s, and on a busy machine their CPU time.
const benchmarkConcurrency = 64

// parallel runs do b.N times, benchmarkConcurrency at once.
func parallel(b *testing.B, do func(i int) error) {
	b.Helper()
	b.ReportAllocs()
	b.ResetTimer()
	cpu := cpuTime(b)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range benchmarkConcurrency {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= b.N {
					return
				}
				if err := do(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "answers/s")
	b.ReportMetric(float64((cpuTime(b)-cpu).Microseconds())/float64(b.N), "cpu-µs/op")
}

// cpuTime is the time that this process has used, which says more than the
// clock on a machine with other work. The endpoint is another process.
func cpuTime(b *testing.B) time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		b.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}

func benchmarkConfig(s *sim) *teachers.Config {
	return &teachers.Config{ID: "t", API: "openai", BaseURL: s.URL(), Model: "m", Limits: teachers.Limits{Concurrency: benchmarkConcurrency},
		Key: func() (string, error) { return canary, nil }}
}

func BenchmarkClient(b *testing.B) {
	s := startSim(b, "-models", "m", "-chunk", "4096")
	config := benchmarkConfig(s)
	builder, err := teachers.NewBuilder(config, nil)
	if err != nil {
		b.Fatal(err)
	}
	c := client(b, config)
	parallel(b, func(i int) error {
		r, err := builder.Request(user(fmt.Sprintf("question %d", i)), 0)
		if err != nil {
			return err
		}
		reply, err := c.Ask(b.Context(), r)
		if err != nil {
			return err
		}
		_, err = reply.Parse()
		return err
	})
}

func BenchmarkBareLoop(b *testing.B) {
	s := startSim(b, "-models", "m", "-chunk", "4096")
	c := &http.Client{Transport: &http.Transport{MaxIdleConns: benchmarkConcurrency, MaxIdleConnsPerHost: benchmarkConcurrency}}
	defer c.CloseIdleConnections()
	parallel(b, func(i int) error {
		body := fmt.Sprintf(`{"stream":true,"stream_options":{"include_usage":true},"messages":[{"content":"question %d","role":"user"}],"model":"m"}`, i)
		response, err := c.Post(s.URL()+"/chat/completions", "application/json", bytes.NewReader([]byte(body)))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		return err
	})
}

// The stream of a reasoning model: thousands of events of a few bytes.
func BenchmarkParseLongStream(b *testing.B) {
	deltas := make([]string, 4000)
	for i := range deltas {
		deltas[i] = fmt.Sprintf(`{"reasoning_content":"token%d "}`, i)
	}
	raw := []byte(events("stop", append(deltas, `{"content":"four"}`)...))
	b.SetBytes(int64(len(raw)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := teachers.Parse(teachers.FormatOpenAIStream, raw); err != nil {
			b.Fatal(err)
		}
	}
}
