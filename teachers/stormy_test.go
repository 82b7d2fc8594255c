package teachers_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// Three teachers at once: one refuses nine of ten requests for a minute, one
// takes 31 minutes for an answer, one is well. No ask is lost, refusals use up
// no attempt, and the third is as fast as it would be alone.
func TestOneTeachersStormSlowsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const asks, atOnce = 200, 20
		begin := time.Now()
		storm := &script{block: 200 * time.Millisecond, reply: func(n int, _ *http.Request) *http.Response {
			if time.Since(begin) < time.Minute && n%10 != 9 {
				return response(429, `{"error":{"message":"slow down"}}`, "Retry-After", "1")
			}
			return response(200, wholeStream)
		}}
		slow := &script{reply: func(_ int, r *http.Request) *http.Response {
			var pieces []string
			for range 30 {
				pieces = append(pieces, "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"hm\"}}]}\n\n")
			}
			out := response(200, "")
			out.Body = &slowBody{ctx: r.Context(), every: time.Minute, pieces: append(pieces, wholeStream)}
			return out
		}}
		well := &script{block: time.Second, reply: func(int, *http.Request) *http.Response { return response(200, wholeStream) }}

		var wg sync.WaitGroup
		var mu sync.Mutex
		took := map[string]time.Duration{}
		classes := map[string]map[string]int{}
		ask := func(name string, s *script, n int) {
			c := teachers.NewClient(withLimits(teachers.Limits{Concurrency: atOnce}), teachers.WithTransport(s))
			for i := range n {
				r := request(t, testConfig, fmt.Sprint(name, i))
				wg.Go(func() {
					reply, err := c.Ask(t.Context(), r)
					if err != nil {
						t.Errorf("%s: %v", name, err)
						return
					}
					mu.Lock()
					defer mu.Unlock()
					took[name] = max(took[name], time.Since(begin))
					if classes[name] == nil {
						classes[name] = map[string]int{}
					}
					for _, a := range reply.Attempts {
						classes[name][a.Class] += a.Times
					}
				})
			}
		}
		ask("storm", storm, asks)
		ask("slow", slow, 5)
		ask("well", well, asks)
		wg.Wait()
		if took["well"] > (asks/atOnce)*time.Second+time.Second {
			t.Errorf("the third teacher took %s for %d asks of a second, %d at once", took["well"], asks, atOnce)
		}
		if took["slow"] < 31*time.Minute || took["slow"] > 32*time.Minute || classes["slow"][""] != 5 {
			t.Errorf("the long answers took %s: %v", took["slow"], classes["slow"])
		}
		for class, n := range classes["storm"] {
			if class != "" && class != teachers.ClassRateLimited {
				t.Errorf("%d attempts of the first teacher ended as %s", n, class)
			}
		}
		if classes["storm"][""] != asks || classes["storm"][teachers.ClassRateLimited] == 0 || took["storm"] > 10*time.Minute {
			t.Errorf("the first teacher took %s: %v", took["storm"], classes["storm"])
		}
		t.Logf("storm: %s, %v; slow: %s; well: %s", took["storm"], classes["storm"], took["slow"], took["well"])
	})
}
