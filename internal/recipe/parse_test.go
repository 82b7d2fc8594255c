package recipe

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func load(t testing.TB, name string) *Recipe {
	t.Helper()
	r, err := Load(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func number(f float64) *float64 { return &f }

func TestLeastRecipeHasDefaults(t *testing.T) {
	r := load(t, "least.yaml")
	want := &Recipe{
		APIVersion: "stillhouse/v1",
		Name:       "least",
		Prompts:    []PromptSource{{Path: "p.jsonl", Domain: "default", Efforts: []string{"default"}}},
		Teachers: []Teacher{{
			ID: "m", API: "openai", BaseURL: "http://localhost:8000/v1", Model: "m",
			Limits: Limits{Connect: 10 * time.Second, FirstByte: 2 * time.Minute, Idle: 5 * time.Minute, Total: time.Hour, MaxBytes: 64 << 20},
			Terms:  Terms{Training: "unknown"},
		}},
		Ask:    Ask{Route: Route{Kind: "domain"}, Samples: Samples{Min: 1, Max: 1}},
		Filter: []FilterStep{{Name: "finish"}},
		Output: Output{Splits: map[string]float64{"train": 1}, ReportText: "sample"},
		File:   "testdata/least.yaml",
		Dir:    "testdata",
	}
	if diff := cmp.Diff(want, r, cmpopts.IgnoreFields(Recipe{}, "Raw"), cmpopts.IgnoreUnexported(Recipe{})); diff != "" {
		t.Error(diff)
	}
	if r.Policy() != Union {
		t.Errorf("policy %s, want union where nothing is verified", r.Policy())
	}
}

func TestFullRecipe(t *testing.T) {
	r := load(t, "full.yaml")
	k3 := r.Teacher("k3")
	want := &Teacher{
		ID: "k3", API: "openai", BaseURL: "https://api.example.com/v1", Model: "kimi-k3", APIKeyEnv: "EXAMPLE_API_KEY",
		Identity: "kimi-k3-eu", Epoch: 1,
		Serves: []Serve{{Domain: "math", Effort: []string{"high", "max"}}, {Domain: "chat"}},
		Params: map[string]any{"max_completion_tokens": int64(32768), "temperature": 0.7, "stop": nil, "tags": []any{"a", map[string]any{"b": true}}},
		ParamsBy: ParamsBy{Effort: map[string]map[string]any{
			"high": {"reasoning_effort": "high"},
			"max":  {"reasoning_effort": "max", "temperature": int64(1)},
		}},
		Headers: map[string]string{"x-team": "data"},
		Limits:  Limits{Concurrency: 256, RPM: 3000, Connect: 20 * time.Second, FirstByte: 2 * time.Minute, Idle: 5 * time.Minute, NoProgress: 8 * time.Minute, Total: 90 * time.Minute, MaxBytes: 64 << 20},
		Price:   &Price{Input: 3, CachedInput: number(0.3), CacheWrite: number(3), Output: 15, BatchDiscount: 0.5, AsOf: "2026-11-01", Source: "price list"},
		Terms:   Terms{Licence: "other", URL: "https://example.com/terms", Training: "allowed"},
		Weights: "moonshotai/Kimi-K3", ScoreURL: "http://127.0.0.1:8000",
	}
	if diff := cmp.Diff(want, k3); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]any{"max_completion_tokens": int64(32768), "temperature": int64(1), "stop": nil, "tags": k3.Params["tags"], "reasoning_effort": "max"}, k3.ParamsFor("max")); diff != "" {
		t.Error(diff)
	}
	if k3.Params["reasoning_effort"] != nil {
		t.Error("ParamsFor changed the teacher")
	}
	qwen := r.Teacher("Qwen-Qwen3-8B")
	if qwen == nil || qwen.Params["temperature"] != 0.7 {
		t.Errorf("teacher of Qwen/Qwen3-8B is %+v, want an id without a slash and the aliased parameters", qwen)
	}
	if last := r.Teacher("last-month"); last.Model != "last-month" {
		t.Errorf("model %q of recorded answers, want the id", last.Model)
	}
	if r.Teacher("none") != nil {
		t.Error("found a teacher that is not there")
	}
	if diff := cmp.Diff([]string{"high"}, r.Prompts[1].Efforts); diff != "" {
		t.Errorf("one word where a list may be: %s", diff)
	}
	if diff := cmp.Diff(map[string]any{"pattern": "^[A-D]$"}, r.Check[1].Options); diff != "" {
		t.Error(diff)
	}
	if got := r.Check[1].When.String(); got != `domain == "chat" and len(content) > 3` || r.Check[1].Timeout != 10*time.Second {
		t.Errorf("when %q, timeout %s", got, r.Check[1].Timeout)
	}
	if r.Filter[0].When != nil || r.Filter[1].Name != "finish" || r.Filter[1].When.String() != "completion_tokens > 10" {
		t.Errorf("filters %+v", r.Filter)
	}
	if r.Handoff.Timeout != 48*time.Hour || r.Handoff.Params["learning_rate"] != 1e-5 {
		t.Errorf("hand-off %+v", r.Handoff)
	}
	if r.Policy() != BestOf || r.Merge.PerTask != 2 {
		t.Errorf("merge %+v", r.Merge)
	}
}

func TestDigestIsOfTheBytes(t *testing.T) {
	one, err := Parse("a.yaml", readFile(t, "least.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	two, err := Parse("b.yaml", append(readFile(t, "least.yaml"), "# more\n"...))
	if err != nil {
		t.Fatal(err)
	}
	if one.Digest() == two.Digest() || len(one.Digest()) != 64 {
		t.Errorf("digests %s and %s", one.Digest(), two.Digest())
	}
	if one.Digest() != load(t, "least.yaml").Digest() {
		t.Error("the same bytes have two digests")
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestLoadErrors(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"none.yaml": "/none.yaml: there is no such recipe; check the path, or make a recipe with: stillhouse init",
		".":         ": is a folder or a device, want a recipe file; name the .yaml file",
		"pipe.yaml": "/pipe.yaml: is a folder or a device, want a recipe file; name the .yaml file",
	} {
		_, err := Load(filepath.Join(dir, name))
		var faults Errors
		if !errors.As(err, &faults) || err.Error() != dir+want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
		if errors.Is(err, os.ErrNotExist) != (name == "none.yaml") {
			t.Errorf("%s: %v hides the cause", name, err)
		}
	}
}

func TestRoutes(t *testing.T) {
	r := load(t, "full.yaml")
	route := func(domain, effort string) string {
		teachers, why := r.RouteFor(domain, effort)
		return strings.Join(teachers, " ") + ": " + why
	}
	for _, tc := range [][3]string{
		{"math", "high", "k3 Qwen-Qwen3-8B last-month: domain math, effort high"},
		{"math", "low", "Qwen-Qwen3-8B last-month: domain math, effort low"},
		{"chat", "low", "k3 Qwen-Qwen3-8B last-month: domain chat, effort low"},
	} {
		if got := route(tc[0], tc[1]); got != tc[2] {
			t.Errorf("%s/%s: got %s, want %s", tc[0], tc[1], got, tc[2])
		}
	}
	r.Ask.Route.Kind = RouteAll
	if got := route("math", "low"); got != "k3 Qwen-Qwen3-8B last-month: all" {
		t.Errorf("got %s, want all teachers", got)
	}
}

func TestCheckEnv(t *testing.T) {
	r := load(t, "full.yaml")
	set := func(value string, ok bool) func(string) (string, bool) {
		return func(string) (string, bool) { return value, ok }
	}
	if err := r.CheckEnv(set("x", true)); err != nil {
		t.Error(err)
	}
	want := `testdata/full.yaml:22:18: teachers[0].api_key_env: variable EXAMPLE_API_KEY is not set; run: export EXAMPLE_API_KEY=… (teacher "k3")`
	for _, lookup := range []func(string) (string, bool){set("", false), set(" ", true)} {
		if err := r.CheckEnv(lookup); err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

func TestCheckStore(t *testing.T) {
	base := string(readFile(t, "least.yaml"))
	for _, tc := range []struct {
		host    string
		private bool
	}{
		{"localhost", true}, {"127.0.0.1", true}, {"127.8.8.8", true}, {"[::1]", true}, {"10.0.0.8", true}, {"192.168.1.2", true},
		{"172.16.0.1", true}, {"169.254.1.1", true}, {"100.64.1.1", true}, {"[fd00::1]", true}, {"[fe80::1%25eth0]", true}, {"0.0.0.0", true},
		{"gpu-7", true}, {"gpu.local", true}, {"vllm.svc.internal", true}, {"LOCALHOST.", true},
		{"8.8.8.8", false}, {"api.example.com", false}, {"172.32.0.1", false}, {"[2001:4860::1]", false}, {"localhost.example.com", false},
	} {
		r, err := Parse("r.yaml", []byte(strings.Replace(base, "localhost", tc.host, 1)))
		if err != nil {
			t.Fatalf("%s: %v", tc.host, err)
		}
		if err := r.CheckStore(false); err != nil {
			t.Errorf("%s, local store: %v", tc.host, err)
		}
		if err := r.CheckStore(true); (err != nil) != tc.private {
			t.Errorf("%s, shared store: %v, private is %v", tc.host, err, tc.private)
		}
		r.Teachers[0].Identity = "mine"
		if err := r.CheckStore(true); err != nil {
			t.Errorf("%s with an identity: %v", tc.host, err)
		}
	}
}

func TestErrorAt(t *testing.T) {
	r := load(t, "full.yaml")
	for path, want := range map[string]string{
		"check[1].pattern":      "testdata/full.yaml:49:14: check[1].pattern: is odd; mend it",
		"check[1].pattern.deep": "testdata/full.yaml:49:14: check[1].pattern.deep: is odd; mend it",
		"check[0].marker":       "testdata/full.yaml:43:5: check[0].marker: is odd; mend it",
		"nowhere":               "testdata/full.yaml: nowhere: is odd; mend it",
	} {
		if got := r.ErrorAt(path, "is odd", "mend it").Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

func TestErrorsAs(t *testing.T) {
	_, err := Parse("r.yaml", []byte("nmae: x\n"))
	var all Errors
	var one *Error
	if !errors.As(err, &all) || !errors.As(err, &one) || len(all) != 4 || one.Line != 1 {
		t.Errorf("%v is no list of errors with places", err)
	}
}

func TestManyFaultsAreBounded(t *testing.T) {
	var lines strings.Builder
	for i := range 200 {
		lines.WriteString("key" + strings.Repeat("x", i) + ": 1\n")
	}
	_, err := Parse("r.yaml", []byte(lines.String()))
	var all Errors
	if !errors.As(err, &all) || len(all) != maxFault {
		t.Fatalf("%d errors, want %d", len(all), maxFault)
	}
	if last := all[maxFault-1].Error(); last != "r.yaml:47:1: 154 more faults follow; correct the first ones" {
		t.Errorf("the last is %s", last)
	}
}

func TestUnits(t *testing.T) {
	for text, want := range map[string]time.Duration{"90s": 90 * time.Second, "2m": 2 * time.Minute, "7d": 168 * time.Hour, "1d12h": 36 * time.Hour, "1h30m": 90 * time.Minute, "0.5s": 500 * time.Millisecond} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "-1s", "d", "367d", "1w", "9999d9999h", "1d-2h"} {
		if got, err := ParseDuration(text); err == nil && got > 0 && text != "1d-2h" {
			t.Errorf("%q is read as %s", text, got)
		}
	}
	for text, want := range map[string]ByteSize{"64MiB": 64 << 20, "10MB": 10e6, "4096": 4096, "1 GiB": 1 << 30, "7B": 7, "2TB": 2e12} {
		if got, err := ParseByteSize(text); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "MiB", "-1", "1.5MiB", "64mib", "9999999999TiB", "1e3"} {
		if got, err := ParseByteSize(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	for size, want := range map[ByteSize]string{64 << 20: "64MiB", 1000: "1000", 0: "0", math.MaxInt64: "9223372036854775807", 1 << 40: "1TiB"} {
		if got := size.String(); got != want {
			t.Errorf("%d: %s, want %s", size, got, want)
		}
		if back, err := ParseByteSize(size.String()); err != nil || back != size {
			t.Errorf("%s does not come back: %d, %v", size, back, err)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"prompts", "teachers", "prompt_filter", "check", "merge"}
	for word, want := range map[string]string{
		"promts": "prompts", "Teachers": "teachers", "prompt-filter": "prompt_filter", "chekc": "check", "marge": "merge", "teacher": "teachers",
	} {
		if got, close := nearest(word, known); got != want || !close {
			t.Errorf("%s: %s, %v; want %s", word, got, close, want)
		}
	}
	if _, close := nearest("zzz", known); close {
		t.Error("zzz is close to something")
	}
}

// FuzzParse holds that no file brings the parser down, that every fault has a
// place inside the file, and that what is accepted is within its bounds.
func FuzzParse(f *testing.F) {
	f.Add(readFile(f, "full.yaml"))
	f.Add(readFile(f, "least.yaml"))
	for _, tc := range badRecipes {
		f.Add([]byte(tc.text()))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := Parse("f.yaml", data)
		if err == nil {
			if r.Name == "" || len(r.Prompts) == 0 || len(r.Teachers) == 0 || len(r.Output.Splits) == 0 {
				t.Fatalf("accepted without what is needed: %+v", r)
			}
			for i := range r.Teachers {
				if l := r.Teachers[i].Limits; r.Teachers[i].ID == "" || l.Concurrency < 0 || l.Total <= 0 || l.MaxBytes < 1 {
					t.Fatalf("accepted teacher %+v", r.Teachers[i])
				}
			}
			return
		}
		var all Errors
		if !errors.As(err, &all) || len(all) == 0 || len(all) > maxFault {
			t.Fatalf("%v is no list of errors", err)
		}
		lines := strings.Count(string(data), "\n") + strings.Count(string(data), "\r") + 1
		for _, e := range all {
			if e.Line < 1 || e.Line > lines+1 || e.Col < 1 || e.Msg == "" || e.Hint == "" {
				t.Fatalf("%d lines, but the error is %#v", lines, e)
			}
		}
	})
}

func TestFiltersOfExpressions(t *testing.T) {
	const base = "name: d\nprompts: [{path: p.jsonl}]\nteachers: [{base_url: \"https://t.example/v1\", model: m}]\n"
	r, err := Parse("r.yaml", []byte(base+"filter:\n- expr: len(content) > 10\n- expr: {keep: verdict == \"pass\", reason: wrong, when: sample == 0}\n- {length: {max_ratio: 4}, when: domain == \"chat\"}\n- {refusal: }\n- language: {languages: en}\n"))
	if err != nil {
		t.Fatal(err)
	}
	f := r.Filter
	if f[0].Expr.String() != "len(content) > 10" || f[0].Options["keep"] != "len(content) > 10" || f[0].Expr.Uses(VerdictWords...) {
		t.Errorf("a bare expression: %+v", f[0])
	}
	if f[1].Expr.String() != `verdict == "pass"` || f[1].Reason != "wrong" || f[1].When.String() != "sample == 0" || !f[1].Expr.Uses(VerdictWords...) {
		t.Errorf("an expression with a reason: %+v", f[1])
	}
	if f[2].Options["max_ratio"] == nil || f[2].When.String() != `domain == "chat"` {
		t.Errorf("options beside a condition: %+v", f[2])
	}
	if f[3].Name != "refusal" || f[3].Options != nil || f[4].Options["languages"] == nil {
		t.Errorf("no options, and a list of one: %+v %+v", f[3], f[4])
	}
}
