package teachers_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A header that is kept is cut, and a key that stood across the end goes with the
// rest of it.
func TestAKeyAtTheEndOfACutHeader(t *testing.T) {
	for cut := 1; cut < len(canary); cut++ {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Request-Id", strings.Repeat("r", 256-cut)+canary)
			_, _ = w.Write([]byte(wholeStream))
		}))
		_, reply, err := ask(t, withKey(s.URL, canary), "x")
		s.Close()
		if err != nil {
			t.Fatal(err)
		}
		if id := reply.Headers["x-request-id"]; !strings.HasPrefix(id, "rrrr") || cut >= 4 && strings.Contains(id, canary[:4]) {
			t.Fatalf("%d bytes of the key are kept: %q", cut, id)
		}
	}
}
