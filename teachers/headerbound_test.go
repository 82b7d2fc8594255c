package teachers

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Headers are read before any bound on answers counts, and those of thousands of
// responses at once must fit.
func TestHeadersAreBounded(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Ratelimit-Filler", strings.Repeat("f", 4<<20))
	}))
	defer s.Close()
	transport := newTransport(Limits{})
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(r)
	if err == nil {
		response.Body.Close()
		t.Fatal("headers of 4 MiB are taken")
	}
	if !strings.Contains(err.Error(), "header") {
		t.Error(err)
	}
}
