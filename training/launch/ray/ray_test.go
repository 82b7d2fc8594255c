package ray

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

const signature = "X-Amz-Signature=0123456789abcdef"

func spec() launch.Spec {
	return launch.Spec{
		Set: map[string]string{"HF_HOME": "/models"},
		Remote: &launch.Remote{
			BundleURL: "https://store.example/bundle.tar.gz?" + signature, BundleSHA256: digest("b"),
			ClaimURL: "https://store.example/claim.json?" + signature, ResultURL: "https://store.example/result.json?" + signature,
		},
	}
}

func at(t *testing.T, f *fake, change func(*Config)) *Launcher {
	t.Helper()
	c := Config{Config: rest.Config{URL: f.URL}}
	if change != nil {
		change(&c)
	}
	l, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestSubmit(t *testing.T) {
	f := newFake(t)
	l := at(t, f, func(c *Config) {
		c.GPUs, c.Work = 8, "/scratch"
		c.RuntimeEnv = map[string]any{"pip": []any{"trl==1.16.0"}, "env_vars": map[string]any{"NCCL_DEBUG": "WARN"}}
	})
	id := digest("a")
	ref, err := l.Submit(t.Context(), id, spec())
	if err != nil {
		t.Fatal(err)
	}
	if want := (launch.Ref{Launcher: "ray", LaunchID: id, Where: f.URL + "/api/jobs/" + id}); ref != want {
		t.Errorf("ref is %+v, want %+v", ref, want)
	}
	sent := f.jobs[id].sent
	if sent.SubmissionID != id || sent.GPUs != 8 || sent.Metadata["stillhouse_launch"] != id {
		t.Errorf("sent %+v", sent)
	}
	if strings.Contains(sent.Entrypoint, "store.example") || !strings.Contains(sent.Entrypoint, "/bin/sh") {
		t.Errorf("the entrypoint, which everybody on the machine can see, is %.200q", sent.Entrypoint)
	}
	vars := sent.RuntimeEnv["env_vars"].(map[string]any)
	if text := fmt.Sprint(vars); strings.Contains(text, signature) {
		t.Errorf("Ray would log %s", text)
	}
	var secrets map[string]any
	if err := json.Unmarshal([]byte(sent.Metadata[secretsKey]), &secrets); err != nil {
		t.Fatal(err)
	}
	maps.Copy(vars, secrets)
	for name, want := range map[string]string{
		launch.EnvBundleURL: spec().Remote.BundleURL, launch.EnvClaimURL: spec().Remote.ClaimURL, launch.EnvResultURL: spec().Remote.ResultURL,
		launch.EnvBundleSHA256: digest("b"), "HF_HOME": "/models", "NCCL_DEBUG": "WARN", "STILLHOUSE_WORK": "/scratch",
	} {
		if vars[name] != want {
			t.Errorf("%s is %v, want %s", name, vars[name], want)
		}
	}
	if sent.RuntimeEnv["pip"] == nil {
		t.Error("pip was dropped")
	}
	if len(l.config.RuntimeEnv["env_vars"].(map[string]any)) != 1 {
		t.Error("a launch's variables stay in the configuration")
	}

	if again, err := l.Submit(t.Context(), id, spec()); err != nil || again != ref || f.count() != 1 {
		t.Errorf("again: %+v, %v; %d started", again, err, f.count())
	}
}

// Whatever becomes of the answer to a submission, the launch starts once.
func TestSubmitWithoutAnAnswer(t *testing.T) {
	status := func(code int) func(w http.ResponseWriter, r *http.Request) bool {
		return answer(http.MethodPost, code, "upstream timed out")
	}
	for _, tc := range []struct {
		name          string
		before, after func(http.ResponseWriter, *http.Request) bool
		want          string // part of the error; none: it is adopted
		started       int
	}{
		{"lost after it was taken", nil, hangUp, "", 1},
		{"gateway gives up after it was taken", nil, status(http.StatusGatewayTimeout), "", 1},
		{"no agent", answer(http.MethodPost, http.StatusInternalServerError, "No available agent to submit job, please try again later."), nil, "No available agent", 0},
		{"another page", answer(http.MethodGet, http.StatusNotFound, "<h1>404 Not Found</h1>"), nil, "HTTP status 404", 0},
		{"no access", answer(http.MethodGet, http.StatusUnauthorized, "who are you?"), nil, "HTTP status 401", 0},
		{"not Ray", answer(http.MethodGet, http.StatusOK, "<html>"), nil, "does not answer like Ray", 0},
		{"another job", answer(http.MethodGet, http.StatusOK, `{"type": "SUBMISSION", "submission_id": "other", "status": "RUNNING"}`), nil, "another job", 0},
		{"down", hangUp, nil, "EOF", 0},
		{"moved", answer(http.MethodGet, http.StatusFound, ""), nil, "HTTP status 302", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f := newFake(t)
			l := at(t, f, nil)
			f.set(tc.before, tc.after)
			_, err := l.Submit(t.Context(), digest("a"), spec())
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
			f.set(nil, nil)
			if f.count() != tc.started {
				t.Errorf("%d started, want %d", f.count(), tc.started)
			}
			if _, err := l.Submit(t.Context(), digest("a"), spec()); err != nil || f.count() != 1 {
				t.Errorf("then: %v; %d started", err, f.count())
			}
		})
	}
}

func TestSubmitAtOnce(t *testing.T) {
	for _, status := range []int{http.StatusInternalServerError, http.StatusBadRequest} {
		submitAtOnce(t, status)
	}
}

func submitAtOnce(t *testing.T, status int) {
	f := newFake(t)
	f.repeated = status
	var all sync.WaitGroup
	for range 16 {
		l := at(t, f, nil)
		all.Go(func() {
			if _, err := l.Submit(t.Context(), digest("a"), spec()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if f.count() != 1 {
		t.Errorf("%d started", f.count())
	}
}

// Ray answers a bad request with a stack trace that may quote it.
func TestErrorsHoldNoURLs(t *testing.T) {
	t.Setenv("WANDB_API_KEY", "wandb-secret")
	f := newFake(t)
	f.set(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		body, _ := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, "Traceback:\n%s\n%s\nValueError: runtime_env is not valid: %s", body, strings.Repeat("x", 50), body)
		return true
	}, nil)
	s := spec()
	s.Env = []string{"WANDB_API_KEY"}
	_, err := at(t, f, nil).Submit(t.Context(), digest("a"), s)
	if err == nil {
		t.Fatal("it was taken")
	}
	for _, secret := range []string{signature, "0123456789abcdef", "wandb-secret"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds %q: %v", secret, err)
		}
	}
}

func TestSubmitRefuses(t *testing.T) {
	f := newFake(t)
	l := at(t, f, nil)
	for name, submit := range map[string]func() (launch.Ref, error){
		"a path":  func() (launch.Ref, error) { return l.Submit(t.Context(), "../../jobs", spec()) },
		"no URLs": func() (launch.Ref, error) { return l.Submit(t.Context(), digest("a"), launch.Spec{}) },
	} {
		if _, err := submit(); err == nil || len(f.headers) > 0 {
			t.Errorf("%s: %v after %d requests", name, err, len(f.headers))
		}
	}
}

func TestStatus(t *testing.T) {
	f := newFake(t)
	l := at(t, f, nil)
	id := digest("a")
	ref, err := l.Submit(t.Context(), id, spec())
	if err != nil {
		t.Fatal(err)
	}
	code := func(c int) *int { return &c }
	for _, tc := range []struct {
		details
		phase  launch.Phase
		reason string
	}{
		{details{Status: "PENDING", Message: "waiting for resources"}, launch.Running, "waiting for resources"},
		{details{Status: "RUNNING"}, launch.Running, ""},
		{details{Status: "PAUSED"}, launch.Running, `Ray says "PAUSED"`},
		{details{Status: "SUCCEEDED", ExitCode: code(0)}, launch.Succeeded, ""},
		{details{Status: "STOPPED"}, launch.Cancelled, "stopped"},
		{details{Status: "FAILED", ExitCode: code(9), Message: "Job entrypoint command failed"}, launch.Failed, "Ray: FAILED: Job entrypoint command failed"},
		{details{Status: "FAILED", ErrorType: "RUNTIME_ENV_SETUP_FAILURE", Message: "see " + spec().Remote.BundleURL}, launch.Failed, "Ray: FAILED: RUNTIME_ENV_SETUP_FAILURE: see https://store.example/bundle.tar.gz?*"},
		{details{Status: "FAILED", ExitCode: code(training.ExitClaimed)}, launch.Unknown, "an earlier run has claimed the launch"},
		{details{Status: "FAILED", ExitCode: code(-9), Message: "killed"}, launch.Failed, "Ray: FAILED: killed"},
	} {
		tc.details.StartTime, tc.details.EndTime = 1764547200000, 1764547260000
		f.is(id, tc.details)
		s, err := l.Status(t.Context(), ref)
		if err != nil || s.Phase != tc.phase || s.Reason != tc.reason {
			t.Errorf("%+v: got %+v, %v, want %s %q", tc.details, s, err, tc.phase, tc.reason)
		}
		if s.Started.UnixMilli() != tc.StartTime || s.Phase.Final() != (s.Ended.UnixMilli() == tc.EndTime) {
			t.Errorf("%s: from %v to %v", tc.details.Status, s.Started, s.Ended)
		}
	}
}

// A job that the cluster has forgotten ended nobody knows how; an answer that
// may be a proxy's is no such word.
func TestStatusAfterARestart(t *testing.T) {
	f := newFake(t)
	l := at(t, f, nil)
	ref, err := l.Submit(t.Context(), digest("a"), spec())
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []func(http.ResponseWriter, *http.Request) bool{
		answer(http.MethodGet, http.StatusNotFound, "404: Not Found"),
		answer(http.MethodGet, http.StatusServiceUnavailable, ""),
		hangUp,
	} {
		f.set(before, nil)
		if s, err := l.Status(t.Context(), ref); err == nil {
			t.Errorf("a broken answer is taken for %+v", s)
		}
	}
	f.set(nil, nil)
	f.restart()
	s, err := l.Status(t.Context(), ref)
	if err != nil || s.Phase != launch.Unknown || !strings.Contains(s.Reason, "restarted") {
		t.Fatalf("%+v, %v", s, err)
	}
	seven := int64(7)
	done := &training.Result{State: training.ResultSucceeded, RowsSeen: &seven}
	if s := launch.Judge(s, done, nil, 7); s.Phase != launch.Succeeded {
		t.Errorf("with a result: %+v", s)
	}
	if s := launch.Judge(s, nil, training.ErrNoResult, 7); s.Phase != launch.Unknown {
		t.Errorf("without one: %+v", s)
	}
	if err := l.Cancel(t.Context(), ref); err != nil {
		t.Errorf("cancel what is gone: %v", err)
	}
	if _, err := l.Logs(t.Context(), ref, 100); !errors.Is(err, launch.ErrUnknownRef) {
		t.Errorf("logs of what is gone: %v", err)
	}
}

func TestCancel(t *testing.T) {
	f := newFake(t)
	l := at(t, f, nil)
	id := digest("a")
	ref, err := l.Submit(t.Context(), id, spec())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := l.Cancel(t.Context(), ref); err != nil || !f.jobs[id].stopped {
			t.Fatalf("%v; stopped %v", err, f.jobs[id].stopped)
		}
	}
	if s, err := l.Status(t.Context(), ref); err != nil || s.Phase != launch.Running {
		t.Errorf("before Ray has stopped it: %+v, %v", s, err)
	}
	f.set(answer(http.MethodPost, http.StatusInternalServerError, "no agent"), nil)
	if err := l.Cancel(t.Context(), ref); err == nil {
		t.Error("a refusal is no error")
	}
}

func TestWhoAsks(t *testing.T) {
	f := unstartedFake()
	f.StartTLS()
	t.Cleanup(f.Close)
	dir := t.TempDir()
	ca, token := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "token")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
	if err := errors.Join(os.WriteFile(ca, text, 0o600), os.WriteFile(token, []byte("from-a-file\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PROXY_KEY", "from-a-variable")
	l := at(t, f, func(c *Config) { c.CA, c.Token, c.Headers = ca, token, map[string]string{"X-Proxy": "PROXY_KEY"} })
	if _, err := l.Submit(t.Context(), digest("a"), spec()); err != nil {
		t.Fatal(err)
	}
	for _, h := range f.headers {
		if h.Get("Authorization") != "Bearer from-a-file" || h.Get("X-Proxy") != "from-a-variable" {
			t.Errorf("headers are %v", h)
		}
	}
	if err := os.WriteFile(token, []byte("renewed"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Submit(t.Context(), digest("b"), spec()); err != nil || f.headers[len(f.headers)-1].Get("Authorization") != "Bearer renewed" {
		t.Errorf("%v: a renewed token is not sent", err)
	}
	asked := len(f.headers)
	if _, err := at(t, f, nil).Submit(t.Context(), digest("c"), spec()); err == nil {
		t.Error("a certificate of nobody's is taken")
	}
	t.Setenv("PROXY_KEY", "")
	if _, err := l.Submit(t.Context(), digest("c"), spec()); err == nil || !strings.Contains(err.Error(), "PROXY_KEY") {
		t.Errorf("a missing key: %v", err)
	}
	if len(f.headers) != asked {
		t.Error("it was asked all the same")
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range []struct {
		config Config
		want   string
	}{
		{Config{}, "url"},
		{Config{Config: rest.Config{URL: "ray://127.0.0.1:10001"}}, "want http"},
		{Config{Config: rest.Config{URL: "http://ray.example:8265"}}, "plaintext"},
		{Config{Config: rest.Config{URL: "https://me:pw@ray.example"}}, "credentials are named"},
		{Config{Config: rest.Config{URL: "https://ray.example", CA: "/no/such/file"}}, "ca"},
		{Config{Config: rest.Config{URL: "https://ray.example", Cert: "/x"}}, "key"},
		{Config{Config: rest.Config{URL: "https://ray.example", Timeout: -time.Second}}, "timeout"},
		{Config{Config: rest.Config{URL: "https://ray.example"}, GPUs: -1}, "gpus"},
		{Config{Config: rest.Config{URL: "https://ray.example"}, RuntimeEnv: map[string]any{"working_dir": "."}}, "working_dir"},
		{Config{Config: rest.Config{URL: "https://ray.example"}, RuntimeEnv: map[string]any{"env_vars": []any{}}}, "env_vars"},
	} {
		_, err := New(tc.config)
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "pw") {
			t.Errorf("%+v: got %v, want %q", tc.config, err, tc.want)
		}
	}
	if _, err := New(Config{Config: rest.Config{URL: "http://ray.internal:8265", Plaintext: true}}); err != nil {
		t.Error(err)
	}
}

func TestASlowAnswerEnds(t *testing.T) {
	f := newFake(t)
	l := at(t, f, func(c *Config) { c.Timeout = 20 * time.Millisecond })
	f.set(func(_ http.ResponseWriter, r *http.Request) bool { <-r.Context().Done(); return true }, nil)
	if _, err := l.Submit(t.Context(), digest("a"), spec()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestLogs(t *testing.T) {
	f := newFake(t)
	l := at(t, f, nil)
	id := digest("a")
	ref, err := l.Submit(t.Context(), id, spec())
	if err != nil {
		t.Fatal(err)
	}
	f.jobs[id].log = strings.Repeat("a line\n", 1000) + "Größe \U0001f600 \"x\"\\\n\x1b[31mred\nthe end\n"
	for _, tc := range []struct {
		tail int
		want string
	}{
		{0, ""}, {8, "the end\n"}, {9, "the end\n"}, {3, "nd\n"},
		{1 << 20, strings.Repeat("a line\n", 1000) + "Größe \U0001f600 \"x\"\\\n[31mred\nthe end\n"},
		{40, "Größe \U0001f600 \"x\"\\\n[31mred\nthe end\n"},
	} {
		if got, err := l.Logs(t.Context(), ref, tc.tail); err != nil || got != tc.want {
			t.Errorf("tail of %d: %q, %v, want %q", tc.tail, got, err, tc.want)
		}
	}
	for _, broken := range []string{`{"logs": "a`, `{"logs": "a\`, `{"logs": "a\u00`, `{"logs": "a\q"}`, `{"log": ""}`, ``} {
		f.set(answer(http.MethodGet, http.StatusOK, broken), nil)
		if got, err := l.Logs(t.Context(), ref, 100); err == nil {
			t.Errorf("%s is taken for the log %q", broken, got)
		}
	}
}

func FuzzLogTail(f *testing.F) {
	f.Add(`{"logs": "a\u00e9\ud83d\ude00\n\\\"b"}`, 3)
	f.Add(`{"logs":"\ud83d"}`, 100)
	f.Fuzz(func(t *testing.T, text string, tail int) {
		got, err := logTail(strings.NewReader(text), tail%1000)
		if err == nil && len(got) > max(0, tail%1000) {
			t.Errorf("%d bytes of at most %d", len(got), tail)
		}
	})
}
