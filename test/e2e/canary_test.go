//go:build integration

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/proto"
)

// An echo is an endpoint that repeats the key that it is sent with in every way
// that it can: a prompt "echo NAME" chooses one.
type echo struct {
	control string        // stands in every answer too, so that a search can be trusted
	held    chan struct{} // closes to let "hold" go on
	mu      sync.Mutex
	keys    []string // that were seen
}

var echoes = []string{
	"whole", "pieces", "reasoning", "refusal", "tool", "model", "escaped", "percent", "base64", "hex", "tokens", "header",
	"bad request", "server error", "plain error", "error in stream", "cut", "HTML", "retry", "hold",
}

func (e *echo) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	e.mu.Lock()
	if !slices.Contains(e.keys, key) {
		e.keys = append(e.keys, key)
	}
	all := strings.Join(e.keys, " ")
	e.mu.Unlock()
	w.Header().Set("X-Request-Id", key)
	w.Header().Set("X-Ratelimit-Echo", all)
	if strings.HasSuffix(r.URL.Path, "/models") {
		fmt.Fprintf(w, `{"data":[{"id":%q}]}`, key)
		return
	}
	var body struct {
		Model    string
		Messages []struct{ Content string }
	}
	if json.NewDecoder(r.Body).Decode(&body) != nil || len(body.Messages) == 0 {
		http.Error(w, key, http.StatusBadRequest)
		return
	}
	if body.Model == "locked" {
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"Incorrect API key provided: %s (%s)"}}`, key, all)
		return
	}
	how := strings.TrimPrefix(body.Messages[len(body.Messages)-1].Content, "echo ")
	if !slices.Contains(echoes, how) {
		how = "pieces" // a probe's question
	}
	e.answer(w, r, how, key, all)
}

func (e *echo) answer(w http.ResponseWriter, r *http.Request, how, key, all string) {
	switch how {
	case "bad request":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":"your headers: Authorization: Bearer %s"}}`, key)
		return
	case "server error":
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, `{"error":{"message":"headers %s"}}`, base64.StdEncoding.EncodeToString([]byte("Authorization: Bearer "+all)))
		return
	case "plain error":
		http.Error(w, "upstream said no to "+percent(key), http.StatusBadGateway)
		return
	case "HTML":
		fmt.Fprintf(w, "<html>%s</html>", key)
		return
	}
	var out strings.Builder
	delta := func(field, text string, more string) {
		b, _ := json.Marshal(text)
		fmt.Fprintf(&out, "data: {\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{%q:%s}%s}]}\n\n", field, b, more)
	}
	delta("content", e.control+" ", "")
	half := len(key) / 2
	switch how {
	case "whole", "hold":
		delta("content", "your key is "+all, "")
	case "pieces", "cut", "retry":
		for _, c := range "your key is " + all {
			delta("content", string(c), "")
		}
	case "reasoning", "refusal":
		field := map[string]string{"reasoning": "reasoning_content", "refusal": "refusal"}[how]
		delta(field, key[:half], "")
		delta(field, key[half:], "")
	case "tool":
		for i, part := range []string{`{"key":"` + key[:half], key[half:] + `"}`} {
			b, _ := json.Marshal(part)
			id := ""
			if i == 0 {
				id = `"id":"call_1",`
			}
			fmt.Fprintf(&out, "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,%s\"type\":\"function\",\"function\":{\"name\":\"f\",\"arguments\":%s}}]}}]}\n\n", id, b)
		}
	case "model":
		fmt.Fprintf(&out, "data: {\"model\":%q,\"system_fingerprint\":%q,\"choices\":[{\"index\":0,\"delta\":{\"content\":\"x\"}}]}\n\n", key, "fp_"+key)
	case "escaped":
		var b strings.Builder
		for _, c := range key {
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		fmt.Fprintf(&out, "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"%s\"}}]}\n\n", b.String())
	case "percent":
		delta("content", percent(key), "")
	case "base64":
		delta("content", base64.StdEncoding.EncodeToString([]byte("user:"+key)), "")
	case "hex":
		delta("content", hex.EncodeToString([]byte(key)), "")
	case "tokens":
		for i := 0; i < len(key); i += 4 {
			token := key[i:min(i+4, len(key))]
			numbers, _ := json.Marshal([]int{int(token[0])})
			delta("content", token, fmt.Sprintf(`,"logprobs":{"content":[{"token":%q,"logprob":-0.5,"bytes":%s,"top_logprobs":[{"token":%q,"logprob":-0.5}]}]}`, token, numbers, token))
		}
	case "error in stream":
		delta("content", key[:half], "")
		delta("content", key[half:], "")
		fmt.Fprintf(&out, "data: {\"error\":{\"message\":\"bad key %s\",\"code\":400}}\n\n", key)
	}
	if how != "cut" && how != "error in stream" {
		finish := "stop"
		if how == "tool" {
			finish = "tool_calls"
		}
		fmt.Fprintf(&out, "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":%q}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n", finish)
	}
	if how == "hold" {
		select {
		case <-e.held:
		case <-r.Context().Done():
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, out.String())
}

func percent(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}

// A search looks for keys and for the control word in everything that a home
// holds, decoded as far as it can be.
type search struct {
	t        testing.TB
	needles  map[string]string // text to its meaning
	control  []byte
	hits     []string
	controls map[string]int // by kind of place
	visited  map[string]int
	places   int
}

func newSearch(t testing.TB, control string, keys ...string) *search {
	s := &search{t: t, control: []byte(control), needles: map[string]string{}, controls: map[string]int{}, visited: map[string]int{}}
	for i, key := range keys {
		name := fmt.Sprintf("key %d", i)
		s.needles[key] = name
		// Parts of it must not be there either.
		for from := 8; from+12 <= len(key); from += 6 {
			s.needles[key[from:from+12]] = name + ", a part of it"
		}
		for before := range 3 {
			whole := base64.StdEncoding.EncodeToString(append(make([]byte, before), key...))
			s.needles[whole[4:len(whole)-4]] = name + " in base64"
		}
		s.needles[hex.EncodeToString([]byte(key))] = name + " in hexadecimal"
		s.needles[percent(key)] = name + " percent-encoded"
	}
	return s
}

var zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}

// look searches bytes and what they hold compressed.
func (s *search) look(kind, place string, data []byte) {
	s.places++
	s.visited[kind]++
	for needle, what := range s.needles {
		if bytes.Contains(data, []byte(needle)) {
			s.hits = append(s.hits, fmt.Sprintf("%s (%s): %s", place, kind, what))
		}
	}
	if bytes.Contains(data, s.control) {
		s.controls[kind]++
	}
	if bytes.HasPrefix(data, []byte("PAR1")) {
		s.parquet(place, data)
		return
	}
	for at := 0; ; {
		i := bytes.Index(data[at:], zstdMagic)
		if i < 0 {
			return
		}
		at += i
		d, err := zstd.NewReader(bytes.NewReader(data[at:]), zstd.WithDecoderMaxMemory(1<<28))
		if err != nil {
			s.t.Fatal(err)
		}
		text, _ := io.ReadAll(d) // what follows the frame is not of it
		d.Close()
		if len(text) > 0 {
			s.look(kind+", zstd", place, text)
		}
		at += len(zstdMagic)
	}
}

// parquet searches every value of a table; raw answers in it are compressed.
func (s *search) parquet(place string, data []byte) {
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		s.t.Fatalf("%s: %v", place, err)
	}
	for _, group := range f.RowGroups() {
		rows := group.Rows()
		buf := make([]parquet.Row, 64)
		for {
			n, err := rows.ReadRows(buf)
			for _, row := range buf[:n] {
				var text []byte
				for _, v := range row {
					if v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray {
						text = append(append(text, v.ByteArray()...), 0)
					}
				}
				s.look("parquet", place, text)
			}
			if err == io.EOF {
				break
			}
			if err != nil {
				s.t.Fatalf("%s: %v", place, err)
			}
		}
		if err := rows.Close(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// folder searches every file below a folder.
func (s *search) folder(dir string) {
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			return nil // it was moved on while we looked
		}
		if err != nil {
			return err
		}
		s.look("file"+filepath.Ext(path), path, data)
		s.look("name", path, []byte(path))
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// histories searches every event of every workflow of the running services.
func (s *search) histories(vars map[string]string) {
	ctx := context.Background()
	c, err := client.Dial(client.Options{HostPort: vars["TEMPORAL_ADDRESS"], Namespace: vars["TEMPORAL_NAMESPACE"], HeadersProvider: bearer(vars["STILLHOUSE_TEMPORAL_TOKEN"])})
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	var token []byte
	for {
		page, err := c.ListWorkflow(ctx, &workflowservice.ListWorkflowExecutionsRequest{PageSize: 100, NextPageToken: token})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, e := range page.Executions {
			about, err := proto.Marshal(e)
			if err != nil {
				s.t.Fatal(err)
			}
			s.look("execution", e.Execution.WorkflowId, about)
			events := c.GetWorkflowHistory(ctx, e.Execution.WorkflowId, e.Execution.RunId, false, 0)
			for events.HasNext() {
				event, err := events.Next()
				if err != nil {
					s.t.Fatal(err)
				}
				text, err := proto.Marshal(event)
				if err != nil {
					s.t.Fatal(err)
				}
				s.look("history", e.Execution.WorkflowId, text)
			}
		}
		if token = page.NextPageToken; len(token) == 0 {
			return
		}
	}
}

func (s *search) none() {
	s.t.Helper()
	slices.Sort(s.hits)
	for _, hit := range slices.Compact(s.hits) {
		s.t.Errorf("found in %s", hit)
	}
}

func canaryKey(t testing.TB, name string) string {
	t.Helper()
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		t.Fatal(err)
	}
	return "sk-" + name + "-" + hex.EncodeToString(b)
}

// TestNoKeyIsKept asks endpoints that repeat the key in answers, errors and
// headers, kills the build on the way, and then looks for the key everywhere.
func TestNoKeyIsKept(t *testing.T) {
	inEnv, inFile := canaryKey(t, "env"), canaryKey(t, "file")
	e := &echo{control: "control-" + canaryKey(t, "word"), held: make(chan struct{})}
	server := httptest.NewServer(e)
	t.Cleanup(server.Close)
	dir := t.TempDir()
	keyFile := filepath.Join(dir, "key")
	if err := os.WriteFile(keyFile, []byte(inFile+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var lines strings.Builder
	for _, how := range echoes {
		fmt.Fprintf(&lines, "{\"prompt\":\"echo %s\"}\n", how)
	}
	write(t, filepath.Join(dir, "prompts.jsonl"), lines.String())
	teacher := func(id, key string) string {
		return fmt.Sprintf("  - {id: %s, base_url: %q, model: %s, %s, limits: {concurrency: 32, total: 30s, first_byte: 30s, idle: 20s}, price: {input: 1, output: 1}}\n", id, server.URL+"/"+id+"/v1", id, key)
	}
	recipe := write(t, filepath.Join(dir, "recipe.yaml"), "name: canary\nprompts: [{path: prompts.jsonl}]\nask: {route: all}\nteachers:\n"+
		teacher("env", "api_key_env: CANARY_KEY")+teacher("file", "api_key_file: "+keyFile)+teacher("locked", "api_key_env: CANARY_KEY"))
	h := newHouse(t)
	h.more = []string{"CANARY_KEY=" + inEnv}
	var said []*process

	// Killed while one answer is under way and the others are in the journal.
	killed := h.start("build", recipe, "--json", "--yes", "--verbose")
	eventually(t, commandLimit, "the endpoint has seen both keys", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return len(e.keys) == 2
	})
	journal := func() bool {
		found, _ := filepath.Glob(filepath.Join(h.dir, "worker", "*"))
		return len(found) > 0
	}
	eventually(t, commandLimit, "there is a journal", journal)
	killed.kill()
	said = append(said, killed)
	early := newSearch(t, e.control, inEnv, inFile)
	early.folder(h.dir)
	early.none()

	close(e.held)
	build := h.run(5, "build", recipe, "--json", "--yes", "--verbose")
	said = append(said, build)
	r := build.result()
	h.serve()
	_, vars := h.store()
	said = append(said, h.run(5, "probe", recipe), h.run(5, "probe", recipe, "--json"))
	for _, args := range [][]string{{"show", "canary"}, {"head", "canary"}, {"head", "canary", "--table", "candidates", "--json"}, {"report", "canary"}, {"verify", "canary"}, {"status"}, {"list"}, {"doctor"}} {
		p := h.start(args...)
		p.wait(commandLimit)
		said = append(said, p)
	}
	after := newSearch(t, e.control, inEnv, inFile)
	after.histories(vars)
	after.folder(h.dir)
	for _, p := range said {
		after.look("output", "stdout of "+p.name, []byte(p.stdout()))
		after.look("output", "stderr of "+p.name, []byte(p.stderr()))
	}
	after.none()
	t.Logf("%d places were searched, the control word was found in %v", after.places, after.controls)
	if after.controls["parquet"] == 0 || after.controls["output"] == 0 || len(after.needles) < 20 || after.visited["history"] < 50 || after.visited["execution"] < 4 {
		t.Errorf("the search does not find what is there: %v of %v", after.controls, after.visited)
	}

	flagged := 0
	for _, c := range h.candidates("canary") {
		if slices.Contains(c.Flags, "secret_redacted") {
			flagged++
			if c.Accepted || !slices.Contains(c.RejectReasons, "secret_redacted") {
				t.Errorf("%s of %s: an answer that held a key was accepted", c.TaskID, c.Teacher)
			}
		}
	}
	// Of each open teacher those whose answers hold it, errors and headers apart.
	if flagged < 20 {
		t.Errorf("%d candidates are flagged, want at least 20 of %d asks", flagged, r.Asks)
	}
}
