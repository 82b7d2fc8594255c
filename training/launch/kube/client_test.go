package kube

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/stillhouse-data/stillhouse/training/launch"
)

// dial connects a launcher to a server of the test's.
func dial(t *testing.T, handler http.HandlerFunc) *Launcher {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	l, err := NewJob(Config{Image: "x", Namespace: "training"})
	if err != nil {
		t.Fatal(err)
	}
	l.connect = func() (*cluster, error) {
		config := &rest.Config{Host: server.URL, BearerToken: "s3cr3t"}
		config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bounded{next} })
		return connect(config)
	}
	return l
}

// A redirect is not followed: it would take the account's token with it.
func TestNoRedirect(t *testing.T) {
	var visits atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { visits.Add(1) }))
	defer elsewhere.Close()
	l := dial(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer s3cr3t" {
			t.Error("it came without the token")
		}
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	})
	if _, err := l.Status(t.Context(), ref()); err == nil || strings.Contains(err.Error(), "s3cr3t") {
		t.Errorf("%v", err)
	}
	if n := visits.Load(); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// A log is asked for by its pod and container, and what is refused names the
// right.
func TestLogRequest(t *testing.T) {
	const pods = `{"apiVersion":"v1","kind":"PodList","metadata":{},"items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"istio"},{"name":"trainer"}]}}]}`
	var asked atomic.Value
	var refuse atomic.Bool
	l := dial(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/pods") {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(pods))
			return
		}
		asked.Store(r.URL.RequestURI())
		if refuse.Load() {
			w.WriteHeader(http.StatusForbidden)
		}
		w.Write([]byte("one\ntwo\n"))
	})
	got, err := l.Logs(t.Context(), ref(), 5)
	if err != nil || got != "two\n" {
		t.Errorf("%q, %v", got, err)
	}
	if want := "/api/v1/namespaces/training/pods/p/log?container=trainer&tailLines=20000"; asked.Load() != want {
		t.Errorf("it asked for %v, want %s", asked.Load(), want)
	}
	refuse.Store(true)
	if _, err := l.Logs(t.Context(), ref(), 5); err == nil || !strings.Contains(err.Error(), "may not get pods/log in namespace training") {
		t.Errorf("%v", err)
	}
}

// An answer that never ends, and ones that are no objects, are errors.
func TestHostileAnswers(t *testing.T) {
	for name, answer := range map[string]string{
		"endless":    `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"` + strings.Repeat("x", maxAnswer) + `"}}`,
		"no JSON":    "<html>login</html>",
		"list":       "[]",
		"number":     "7",
		"odd object": `{"apiVersion":"batch/v1","kind":"Job","metadata":{"annotations":["` + idAnnotation + `"],"name":{}},"status":[]}`,
	} {
		l := dial(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.Write([]byte(answer))
		})
		s, err := l.Status(t.Context(), ref())
		if err == nil {
			t.Errorf("%s: %+v", name, s)
		} else if len(err.Error()) > 4000 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
		if _, err := l.Submit(t.Context(), id, launch.Spec{Remote: spec().Remote}); err == nil {
			t.Errorf("%s: submitted", name)
		}
	}
}
