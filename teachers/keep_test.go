package teachers_test

import (
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stillhouse-data/stillhouse/teachers"
)

func whole(int, *http.Request) *http.Response { return response(200, wholeStream) }

// As many answers may be on their way to the disk as requests in flight; while
// they are, no request is sent.
func TestASlowDiskSlowsAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: whole}
		c := teachers.NewClient(withLimits(teachers.Limits{Concurrency: 2}), teachers.WithTransport(s))
		defer c.Close()
		var keeping atomic.Int32
		goOn := make(chan struct{})
		var wg sync.WaitGroup
		for range 9 {
			wg.Go(func() {
				if err := c.AskAndKeep(t.Context(), t.Context(), request(t, testConfig, "x"), func(*teachers.Reply) error {
					keeping.Add(1)
					<-goOn
					return nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if n := keeping.Load(); n != 2 {
			t.Errorf("%d answers are being kept at once, want 2", n)
		}
		if n := len(s.sent); n != 4 {
			t.Errorf("%d requests were sent while two answers are being kept, want 4", n)
		}
		close(goOn)
		wg.Wait()
		if n := keeping.Load(); n != 9 {
			t.Errorf("%d answers were kept, want 9", n)
		}
	})
}

func TestAFailureToKeepIsTheCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{reply: whole}
		c := teachers.NewClient(testConfig, teachers.WithTransport(s))
		defer c.Close()
		full := errors.New("disk full")
		if err := c.AskAndKeep(t.Context(), t.Context(), request(t, testConfig, "x"), func(*teachers.Reply) error { return full }); !errors.Is(err, full) {
			t.Errorf("error %v, want %v", err, full)
		}
	})
}
