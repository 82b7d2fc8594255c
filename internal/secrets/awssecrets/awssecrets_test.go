package awssecrets

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/secrets"
)

const canary = "sk-canary-0123456789abcdef"

// serve answers as the service does, and points the environment at it.
func serve(t *testing.T, answer func(name string) (status int, body any)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var in struct{ SecretId string }
		body, _ := io.ReadAll(r.Body)
		if r.Header.Get("X-Amz-Target") != "secretsmanager.GetSecretValue" || !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 ") || json.Unmarshal(body, &in) != nil {
			http.Error(w, "not a signed GetSecretValue", http.StatusBadRequest)
			return
		}
		status, out := answer(in.SecretId)
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out)
	}))
	t.Cleanup(s.Close)
	for name, value := range map[string]string{
		"AWS_ENDPOINT_URL_SECRETS_MANAGER": s.URL, "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "eu-west-1",
		"AWS_CONFIG_FILE": "/dev/null", "AWS_SHARED_CREDENTIALS_FILE": "/dev/null", "AWS_EC2_METADATA_DISABLED": "true", "AWS_PROFILE": "",
		"AWS_MAX_ATTEMPTS": "1",
	} {
		t.Setenv(name, value)
	}
	return s
}

type fault struct {
	Type    string `json:"__type"`
	Message string `json:"message"`
}

func TestSecretsAreRead(t *testing.T) {
	const arn = "arn:aws:secretsmanager:us-east-2:123456789012:secret:teachers/all-AbCdEf"
	serve(t, func(name string) (int, any) {
		switch name {
		case "teachers/text":
			return 200, map[string]any{"Name": name, "SecretString": canary}
		case "teachers/binary":
			return 200, map[string]any{"Name": name, "SecretBinary": []byte(canary)}
		case arn:
			return 200, map[string]any{"SecretString": `{"moonshot":"` + canary + `"}`}
		}
		return 400, fault{"ResourceNotFoundException", "Secrets Manager can't find the specified secret."}
	})
	ring := secrets.New(secrets.Options{Lookup: func(string) (string, bool) { return "", false }, Fetch: New().Fetch})
	for _, name := range []string{"teachers/text", "teachers/binary", arn + "#moonshot"} {
		if key, err := ring.Key(secrets.Ref{Secret: name}); err != nil || key != canary {
			t.Errorf("%s: %q, %v", name, key, err)
		}
	}
	_, err := ring.Key(secrets.Ref{Secret: "teachers/none"})
	var e *secrets.Error
	if !errors.As(err, &e) || e.Temporary() || !strings.Contains(err.Error(), "ResourceNotFoundException") || !strings.Contains(err.Error(), "eu-west-1") {
		t.Errorf("a secret that is not there: %v", err)
	}
}

func TestWhichFailuresPass(t *testing.T) {
	answer := fault{}
	status := 400
	s := serve(t, func(string) (int, any) { return status, answer })
	f := New()
	fetch := func() *Error {
		t.Helper()
		_, err := f.Fetch(t.Context(), "s")
		var e *Error
		if !errors.As(err, &e) {
			t.Fatalf("error %v", err)
		}
		return e
	}
	for code, temporary := range map[string]bool{"AccessDeniedException": false, "DecryptionFailure": false, "ThrottlingException": true, "InternalServiceError": true} {
		status, answer = 400, fault{code, "no"}
		if strings.HasPrefix(code, "Internal") {
			status = 500
		}
		if e := fetch(); e.Temporary() != temporary || !strings.Contains(e.Error(), code) {
			t.Errorf("%s: temporary %v: %v", code, e.Temporary(), e)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := f.Fetch(ended, "s"); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that was given up: %v", err)
	}
	s.Close()
	if e := fetch(); !e.Temporary() {
		t.Errorf("no connection: %v", e)
	}
}

func TestWithoutCredentialsOrRegion(t *testing.T) {
	serve(t, func(string) (int, any) { return 200, map[string]any{"SecretString": canary} })
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "")
	var e *Error
	if _, err := New().Fetch(t.Context(), "s"); !errors.As(err, &e) || e.Temporary() || !strings.Contains(e.Error(), "AWS_PROFILE") {
		t.Errorf("without credentials: %v", err)
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_REGION", "")
	if _, err := New().Fetch(t.Context(), "s"); !errors.As(err, &e) || !strings.Contains(e.Error(), "AWS_REGION") {
		t.Errorf("without a region: %v", err)
	}
	if secret, err := New().Fetch(t.Context(), "arn:aws:secretsmanager:us-east-2:123456789012:secret:s-AbCdEf"); err != nil || secret != canary {
		t.Errorf("an ARN brings its region: %q, %v", secret, err)
	}
}
