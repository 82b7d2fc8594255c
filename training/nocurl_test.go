package training

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// Images of trainers often have no curl: Python does all that it would.
func TestBootstrapWithoutCurl(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{
		"sh", "awk", "cat", "cut", "date", "dirname", "env", "grep", "gzip", "head", "mkdir", "mktemp", "mv", "rm", "sed", "sha256sum", "tar", "tr", "uname", "python3",
	} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("this machine has no %s", name)
		}
		if name == "python3" { // it may be a script that looks for another
			out, err := exec.Command(path, "-c", "import sys; print(sys.executable)").Output()
			if err != nil {
				t.Fatal(err)
			}
			path = strings.TrimSpace(string(out))
		}
		if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	const secret = "X-Amz-Signature=0123"
	var mu sync.Mutex
	stored, hits := map[string]string{}, map[string]int{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		hits[r.Method+r.URL.Path]++
		text, there := stored[r.URL.Path]
		switch {
		case r.URL.RawQuery != secret:
			w.WriteHeader(http.StatusForbidden)
		case r.Method == http.MethodGet && hits[r.Method+r.URL.Path] == 1 && strings.HasPrefix(r.URL.Path, "/data"):
			w.WriteHeader(http.StatusServiceUnavailable) // once
		case r.Method == http.MethodGet && there:
			_, _ = io.WriteString(w, text)
		case r.Method == http.MethodGet:
			w.WriteHeader(http.StatusNotFound)
		case there && r.Header.Get("If-None-Match") == "*":
			w.WriteHeader(http.StatusPreconditionFailed)
		default:
			body, _ := io.ReadAll(r.Body)
			stored[r.URL.Path] = string(body)
		}
	}))
	defer server.Close()
	read := func(path string) string {
		mu.Lock()
		defer mu.Unlock()
		return stored[path]
	}

	dir := runBundle(t, "sh", "-c", `! env | grep -q Signature && ! ls urls 2>/dev/null`)
	var files []File
	var urls strings.Builder
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		if strings.HasPrefix(name, DataFolder) {
			stored["/"+name] = string(text)
			urls.WriteString(name + "\t" + server.URL + "/" + name + "?" + secret + "\n")
			return err
		}
		files = append(files, File{Name: filepath.ToSlash(name), Data: text, Mode: 0o755})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	archive, err := Archive(append(files, File{Name: URLsFile, Data: []byte(urls.String())}))
	if err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	stored["/bundle"] = string(archive)
	mu.Unlock()
	start := func(sum string) (int, string) {
		cmd := exec.Command(filepath.Join(bin, "sh"), "-c", BootstrapScript)
		cmd.Dir = t.TempDir()
		cmd.Env = []string{
			"PATH=" + bin, "STILLHOUSE_BUNDLE_SHA256=" + sum, "STILLHOUSE_BUNDLE_URL=" + server.URL + "/bundle?" + secret,
			"STILLHOUSE_CLAIM_URL=" + server.URL + "/claim?" + secret, "STILLHOUSE_RESULT_URL=" + server.URL + "/result?" + secret,
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if strings.Contains(string(out), secret) {
			t.Errorf("a URL is in the output: %s", out)
		}
		return cmd.ProcessState.ExitCode(), string(out)
	}
	if code, out := start(strings.Repeat("0", 64)); code != ExitBadData || !strings.Contains(out, "not what was handed over") {
		t.Errorf("another archive: exit code %d: %s", code, out)
	}
	if code, out := start(sumOf(archive)); code != 0 {
		t.Fatalf("exit code %d: %s", code, out)
	}
	if r, err := ParseResult([]byte(read("/result")), digest("a")); err != nil || r.State != ResultSucceeded || *r.RowsSeen != 3 {
		t.Errorf("%+v %v in %q", r, err, read("/result"))
	}
	before := read("/result")
	if code, out := start(sumOf(archive)); code != ExitClaimed || read("/result") != before {
		t.Errorf("a second start: exit code %d: %s", code, out)
	}
}

func sumOf(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
