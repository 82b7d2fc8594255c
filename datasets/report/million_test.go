package report

import (
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// BenchmarkMillion is a whole report over a million candidates with texts, in
// every form: nine teachers at three efforts, with prompts to browse. It reports
// seconds and the most memory that was in use.
func BenchmarkMillion(b *testing.B) {
	const tasks, teachers = 111_112, 9
	for b.Loop() {
		stop := watchMemory()
		start := time.Now()
		var infos []TeacherInfo
		for i := range teachers {
			infos = append(infos, TeacherInfo{ID: fmt.Sprint("teacher-", i), Priced: true})
		}
		a := New(infos)
		a.ShowTexts(TextAll)
		millionth(tasks, teachers, a.Add)
		r := a.Report()
		for _, write := range []func(io.Writer) error{r.HTML, r.Markdown, r.JSON, func(w io.Writer) error { return r.Table(w, 80) }} {
			if err := write(io.Discard); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/report")
		b.ReportMetric(float64(stop())/(1<<20), "MiB-peak")
	}
}

// BenchmarkVersionsMillion compares two versions of half a million candidates
// each.
func BenchmarkVersionsMillion(b *testing.B) {
	for b.Loop() {
		stop := watchMemory()
		start := time.Now()
		a := NewVersions()
		for v := range 2 {
			a.Begin(versionNamed(fmt.Sprintf("d@%d", v+1), int64(v+1)), nil)
			millionth(55_556, 9, func(c *datasets.Candidate) {
				if v == 1 && c.Teacher == "teacher-0" {
					c.AskID += "anew"
				}
				a.Add(c)
			})
		}
		r := a.Report()
		if len(r.Same) != 9 || len(r.Different) != 72 || r.Same[0].Common != 55_556 || r.Same[0].Reused != 0 || r.Same[1].Reused != 55_556 {
			b.Fatalf("%d, %d: %+v", len(r.Same), len(r.Different), r.Same[0])
		}
		if err := r.HTML(io.Discard); err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "s/report")
		b.ReportMetric(float64(stop())/(1<<20), "MiB-peak")
	}
}

// millionth gives each teacher's answer to each task.
func millionth(tasks, teachers int, add func(*datasets.Candidate)) {
	pass, fail, cost, tokens := datasets.Pass, datasets.Fail, int64(1234), int64(321)
	question := "What is it? " + strings.Repeat("Tell me more. ", 10)
	x := uint32(1)
	for task := range tasks {
		id := fmt.Sprintf("%032x", task)
		for i := range teachers {
			x = x*1664525 + 1013904223
			verdict := &pass
			if x>>16%12 < uint32(i+2) {
				verdict = &fail
			}
			answer := fmt.Sprintf("%d: %s", x, strings.Repeat("and then we add the two, ", int(x>>20%20)))
			latency, first := int64(x>>12%60_000), int64(x>>14%900)
			add(&datasets.Candidate{
				TaskID: id + "/math/high", PromptID: id, SampleID: fmt.Sprint(id, i), AskID: fmt.Sprint(id, i), Domain: "math", Effort: []string{"low", "high", "max"}[task%3],
				Teacher: fmt.Sprint("teacher-", i), Verdict: verdict, Accepted: verdict == &pass, CostMicros: &cost, CompletionTokens: &tokens, LatencyMS: &latency, TTFTMS: &first,
				Messages: []chat.Message{{Role: chat.RoleUser, Content: &question}, {Role: chat.RoleAssistant, Content: &answer, ReasoningContent: &question}},
			})
		}
	}
}

// watchMemory looks at what the process has of the system until it is stopped,
// and gives the most that it saw.
func watchMemory() func() uint64 {
	runtime.GC()
	held := func() uint64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.Sys - m.HeapReleased
	}
	var most atomic.Uint64
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			most.Store(max(most.Load(), held()))
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	return func() uint64 {
		close(done)
		<-ended
		return max(most.Load(), held())
	}
}
