package teachers_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// An endpoint that refuses for ever and names a rest of next to nothing is asked
// less and less often, not as often as the network carries.
func TestRestsOfNextToNothing(t *testing.T) {
	for _, header := range [][2]string{{"Retry-After-Ms", "0.01"}, {"Retry-After", "1e-9"}, {"Retry-After-Ms", "20"}} {
		t.Run(header[0]+" "+header[1], func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				s := &script{block: time.Millisecond}
				s.reply = func(n int, _ *http.Request) *http.Response {
					if n > 20_000 {
						cancel()
					}
					return response(429, `{"error":{"message":"slow down"}}`, header[0], header[1])
				}
				c := withKey("https://endpoint.invalid/v1", "")
				client := teachers.NewClient(c, teachers.WithTransport(s))
				defer client.Close()
				began := time.Now()
				_, err := client.Ask(ctx, request(t, c, "x"))
				if err == nil {
					t.Fatal("it was answered")
				}
				if n := len(s.sent); n > 5_000 {
					t.Errorf("%d requests of one ask within %s", n, time.Since(began))
				}
			})
		})
	}
}
