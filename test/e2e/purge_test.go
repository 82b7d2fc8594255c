//go:build integration

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// purgedWord is said to one prompt alone, in one piece.
const purgedWord = "XQZV-the-word-that-must-go"

// sayer is a teacher that counts its requests.
func sayer(t *testing.T) (url string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		requests.Add(1)
		said := "nothing of note"
		if strings.Contains(string(body), "math question 7:") {
			said = purgedWord
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, delta := range []string{`{"role":"assistant","content":` + quotedJSON(said) + `}`, `{}`} {
			finish := "null"
			if delta == "{}" {
				finish = `"stop"`
			}
			fmt.Fprintf(w, "data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":\"a\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1", requests
}

func quotedJSON(s string) string {
	text, _ := json.Marshal(s) // a string always is JSON
	return string(text)
}

// tableDigests are the digests of the tables that depend on nothing but recipe
// and answers, from the manifest in the home's store.
func tableDigests(h *house, r *result) string {
	h.t.Helper()
	text, err := os.ReadFile(filepath.Join(h.dir, "store", "stillhouse", filepath.FromSlash(r.Manifest)))
	if err != nil {
		h.t.Fatal(err)
	}
	var m struct {
		Files []struct{ Table, Split, SHA256 string }
	}
	decodeJSON(h.t, string(text), &m)
	var out strings.Builder
	for _, f := range m.Files {
		switch f.Table {
		case "train", "test", "pairs", "prompts":
			fmt.Fprintln(&out, f.Table, f.Split, f.SHA256)
		}
	}
	return out.String()
}

// TestRebuildFromAnswersAlone loses everything but the answers: another home,
// with an empty Temporal and no version, gives the same bytes and asks nobody.
// Then rows are purged, with a kill in the middle, and no file of the home holds
// the word any more.
func TestRebuildFromAnswersAlone(t *testing.T) {
	url, requests := sayer(t)
	m := made{dir: t.TempDir(), name: "lost", teachers: fmt.Sprintf("  - {id: a, base_url: '%s', model: a}\n", url)}
	prompts(t, filepath.Join(m.dir, "prompts.jsonl"), map[string]int{"math": 60, "code": 20})
	recipe := m.write(t)
	first := newHouse(t)
	want := first.build(recipe)
	if want.Version != 1 || requests.Load() != 80 {
		t.Fatalf("%+v after %d requests", want, requests.Load())
	}

	h := newHouse(t)
	to := filepath.Join(h.dir, "store", "stillhouse")
	// The embedded store, which this makes, passes every check.
	t.Log("\n" + h.run(0, "store", "doctor").stdout())
	// With what the store keeps beside the bytes.
	if out, err := exec.Command("cp", "-a", filepath.Join(first.dir, "store", "stillhouse", "answers"), to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	got := h.build(recipe)
	if requests.Load() != 80 {
		t.Errorf("the rebuild asked %d times", requests.Load()-80)
	}
	if a, b := tableDigests(first, want), tableDigests(h, got); a != b || a == "" {
		t.Errorf("the rebuild gives other bytes:\n%s\n%s", a, b)
	}

	// A look changes nothing.
	where := fmt.Sprintf("messages[-1].content == %q", purgedWord)
	look := h.run(0, "purge", "lost", "--where", where, "--json")
	var plan struct {
		Chosen, Asks int64
		DryRun       bool `json:"dry_run"`
	}
	decodeJSON(t, look.stdout(), &plan)
	if plan.Chosen != 1 || plan.Asks != 1 || !plan.DryRun {
		t.Fatalf("%s", look.stdout())
	}
	p := h.start("purge", "lost", "--where", where, "--yes")
	eventually(t, time.Minute, "the purge has begun", func() bool {
		_, err := os.Stat(filepath.Join(to, "datasets", "lost", "purges", "open.json"))
		return err == nil || !p.running()
	})
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
	done := h.run(0, "purge", "lost", "--where", where, "--yes")
	if text := done.stdout() + done.stderr(); !strings.Contains(text, "purged answers") && !strings.Contains(text, "finished purge") && !strings.Contains(text, "nothing to purge") {
		t.Errorf("said: %s", text)
	}
	s := newSearch(t, "nothing of note", purgedWord)
	s.folder(h.dir)
	s.none()
	if s.controls["parquet"] == 0 {
		t.Error("the search found nothing at all")
	}
	h.run(0, "verify", "lost")
	h.run(0, "report", "lost")
	again := h.build(recipe)
	if requests.Load() != 80 || !again.Unchanged {
		t.Errorf("after the purge: %d requests, %+v", requests.Load()-80, again)
	}
	if out := h.run(0, "purge", "lost", "--list").stdout(); !strings.Contains(out, "done") {
		t.Errorf("the list: %s", out)
	}
}
