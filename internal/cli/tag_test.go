package cli

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

// storeOnly is embedded services of which only the store is there.
type storeOnly struct {
	server           *httptest.Server
	started, stopped int
	refuse           error
}

func (s *storeOnly) Start(context.Context, *home.Home, *slog.Logger, bool) (Services, error) {
	if s.refuse != nil {
		return nil, s.refuse
	}
	s.started++
	return s, nil
}

func (s *storeOnly) Demo(context.Context, *home.Home) (Demo, error) {
	return Demo{}, errors.New("no demo")
}

func (s *storeOnly) Endpoints() home.Endpoints {
	return home.Endpoints{
		S3: s.server.URL, AccessKey: "key", SecretKey: "secret", Bucket: "sample", Region: "us-east-1",
		Temporal: "127.0.0.1:1", Namespace: "default", Binary: "test",
	}
}

func (s *storeOnly) Stop(context.Context) error {
	s.stopped++
	return nil
}

func (s *storeOnly) Done() <-chan struct{} { return nil }
func (s *storeOnly) Err() error            { return nil }

func newStoreOnly(t *testing.T) *storeOnly {
	t.Helper()
	server, err := serveSample()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	return &storeOnly{server: server}
}

// Where nobody runs the store, tag starts it for the moment, without workers,
// and gives the home back.
func TestTagStartsTheStore(t *testing.T) {
	a, out, talk := newApp(t, nil)
	store := newStoreOnly(t)
	a.embedded = store
	if code := a.run(t.Context(), []string{"--home", a.homeDir, "tag", "maths@2", "prod"}); code != exitDone {
		t.Fatalf("ended with %d: %s", code, talk)
	}
	if out.String() != "maths@prod is maths@2\n" {
		t.Errorf("said %q", out)
	}
	if store.started != 1 || store.stopped != 1 {
		t.Errorf("started %d times, stopped %d times", store.started, store.stopped)
	}
	unlocked(t, a)
}

func unlocked(t *testing.T, a *app) {
	t.Helper()
	h, err := a.openHome()
	if err != nil {
		t.Fatal(err)
	}
	lock, err := h.Lock()
	if err != nil {
		t.Fatalf("the home is still held: %v", err)
	}
	if err := lock.Unlock(); err != nil {
		t.Error(err)
	}
}

// A store that does not start, and a tag that is refused, leave the home free.
func TestTagGivesTheHomeBack(t *testing.T) {
	a, _, talk := newApp(t, nil)
	store := newStoreOnly(t)
	a.embedded = store
	store.refuse = errors.New("no port is free")
	if code := a.run(t.Context(), []string{"--home", a.homeDir, "tag", "maths@2", "prod"}); code != exitFailed || !strings.Contains(talk.String(), "no port is free") {
		t.Errorf("ended with %d: %s", code, talk)
	}
	unlocked(t, a)
	store.refuse = nil
	if code := a.run(t.Context(), []string{"--home", a.homeDir, "tag", "maths@7", "prod"}); code != exitUsage {
		t.Errorf("ended with %d: %s", code, talk)
	}
	unlocked(t, a)
	if store.stopped != 1 {
		t.Errorf("stopped %d times", store.stopped)
	}
}

// serving makes a home look as if this process served it.
func serving(t *testing.T, a *app, store *storeOnly) {
	t.Helper()
	h, err := a.openHome()
	if err != nil {
		t.Fatal(err)
	}
	lock, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
	e := store.Endpoints()
	if err := h.WriteEndpoints(&e); err != nil {
		t.Fatal(err)
	}
}

// Where somebody serves the home, tag writes to their store.
func TestTagAttaches(t *testing.T) {
	a, out, talk := newApp(t, nil)
	store := newStoreOnly(t)
	a.embedded = store
	serving(t, a, store)
	if code := a.run(t.Context(), []string{"--home", a.homeDir, "tag", "maths@best", "prod"}); code != exitDone {
		t.Fatalf("ended with %d: %s", code, talk)
	}
	if out.String() != "maths@prod is maths@1\n" || store.started != 0 || store.stopped != 0 {
		t.Errorf("said %q, started %d, stopped %d", out, store.started, store.stopped)
	}
}

// The embedded store's own endpoint is opened with its own keys.
func TestExportToTheEmbeddedStore(t *testing.T) {
	store := newStoreOnly(t)
	a, out, talk := newApp(t, map[string]string{"AWS_ENDPOINT_URL": store.server.URL + "/"})
	if err := plant(filepath.Join(a.homeDir, "store", "stillhouse")); err != nil {
		t.Fatal(err)
	}
	serving(t, a, store)
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	if code := a.run(t.Context(), []string{"--home", a.homeDir, "export", "maths", "s3://sample/out"}); code != exitDone {
		t.Fatalf("ended with %d: %s", code, talk)
	}
	if !strings.Contains(out.String(), "in s3://sample/out: 12 rows") {
		t.Errorf("said %q", out)
	}
}

// Doctor looks at the services that run, and names the process to look at.
func TestDoctorOfRunningServices(t *testing.T) {
	a, out, _ := newApp(t, nil)
	store := newStoreOnly(t)
	a.embedded = store
	serving(t, a, store)
	if code := a.run(t.Context(), []string{"--home", a.homeDir, "doctor"}); code != exitFailed {
		t.Errorf("ended with %d although the server does not answer", code)
	}
	for _, want := range []string{"ok    lock ", "ok    embedded store ", "fail  embedded server", "fix: stop process "} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("a key is shown:\n%s", out)
	}
}
