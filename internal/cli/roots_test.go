package cli

import (
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/teachers"
)

// A teacher whose certificate a private authority signed is asked with --ca, and
// with nothing else: no other certificate is taken, and none goes unverified.
func TestPrivateAuthority(t *testing.T) {
	served := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"4"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
	}))
	defer served.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: served.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	ask := func(file string) error {
		a, _, _ := newApp(t, nil)
		a.caFile = file
		if err := a.loadRoots(); err != nil {
			return err
		}
		client := teachers.NewClient(&teachers.Config{
			ID: "inside", API: "openai", BaseURL: served.URL + "/v1", Model: "m",
		}, teachers.WithRoots(a.roots))
		defer client.Close()
		_, err := client.Ask(t.Context(), &teachers.Request{Body: []byte(`{"messages":[{"content":"2+2?","role":"user"}],"model":"m"}`)})
		return err
	}
	if err := ask(ca); err != nil {
		t.Errorf("with its authority: %v", err)
	}
	if err := ask(""); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("without it: %v, want a fault of its certificate", err)
	}
	for file, want := range map[string]string{
		ca + ".no":       "no such file",
		filepath.Dir(ca): "is no file of certificates",
		"roots_test.go":  "holds no certificate",
	} {
		if err := ask(file); err == nil || !strings.Contains(err.Error(), want) || exitCode(err) != exitUsage {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}
