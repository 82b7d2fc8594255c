package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

const whole = `apiVersion: stillhouse/v1
endpoints:
  - url: https://api.example.com/v1
    keys: [EXAMPLE_KEY, /run/secrets/k]
  - {url: 'https://*.eu.example.com', keys: [EU_KEY]}
  - {url: 'http://127.0.0.1:8000'}
  - {url: 'https://*:8443', keys: [ANY]}
sources: [s3://prompts/team/, s3://prompts/one.jsonl]
keys: {folders: [/run/secrets], secrets: [stillhouse/]}
run: {commands: [/usr/bin/judge], launchers: [ray]}
`

func TestEndpoint(t *testing.T) {
	p, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		url, key string
		ok       bool
	}{
		{"https://api.example.com/v1", "EXAMPLE_KEY", true},
		{"https://API.example.com:443/v1/", "/run/secrets/k", true},
		{"https://api.example.com./v1/deep", "EXAMPLE_KEY", true},
		{"https://api.example.com/v1", "", true},
		{"https://api.example.com/v1", "EU_KEY", false},
		{"https://api.example.com/v10", "EXAMPLE_KEY", false},
		{"https://api.example.com/v1/../v2", "EXAMPLE_KEY", false},
		{"https://api.example.com/v1/%2e%2e/v2", "EXAMPLE_KEY", false},
		{"https://api.example.com/v1/.%2E/v2", "EXAMPLE_KEY", false},
		{"https://api.example.com/v1/x%2f..%2f..%2fv2", "EXAMPLE_KEY", false},
		{"https://api.example.com/v1/%252e%252e/v2", "EXAMPLE_KEY", false},
		{"https://api.example.com/v1/..%5Cv2", "EXAMPLE_KEY", false},
		{"https://api.example.com/v1/..;/v2", "EXAMPLE_KEY", false},
		{"https://api.example.com/v1%2Fdeep", "EXAMPLE_KEY", false},
		{"https://api.example.com/%761/a%20b..c", "EXAMPLE_KEY", true},
		{"https://api.example.com/", "EXAMPLE_KEY", false},
		{"http://api.example.com/v1", "EXAMPLE_KEY", false},
		{"https://api.example.com:444/v1", "EXAMPLE_KEY", false},
		{"https://api.example.com.evil.net/v1", "EXAMPLE_KEY", false},
		{"https://api.example.com@evil.net/v1", "EXAMPLE_KEY", false},
		{"https://a.eu.example.com", "EU_KEY", true},
		{"https://a.b.eu.example.com/x", "EU_KEY", true},
		{"https://eu.example.com", "EU_KEY", false},
		{"https://evileu.example.com", "EU_KEY", false},
		{"http://127.0.0.1:8000/v1", "", true},
		{"http://127.0.0.1:8000/v1", "EXAMPLE_KEY", false},
		{"http://127.0.0.1:8001/v1", "", false},
		{"https://whoever.net:8443/", "ANY", true},
		{"not a url", "", false},
	} {
		if err := p.Endpoint(c.url, c.key); (err == nil) != c.ok {
			t.Errorf("%s with %q: %v, want allowed: %v", c.url, c.key, err, c.ok)
		}
	}
	if err := (*Policy)(nil).Endpoint("https://x", "K"); err != nil {
		t.Errorf("without a policy: %v", err)
	}
}

func TestSourceCommandLauncher(t *testing.T) {
	p, err := Parse([]byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	for address, ok := range map[string]bool{
		"s3://prompts/team/a.jsonl": true, "s3://prompts/team/": true, "s3://prompts/one.jsonl": true,
		"s3://prompts/one.jsonl.old": false, "s3://prompts/team/../other/a": false, "s3://prompts/team/a..b/50%;c": true, "s3://prompts/team": false, "s3://prompts/teams/a": false, "s3://other/team/a": false,
	} {
		if err := p.Source(address); (err == nil) != ok {
			t.Errorf("%s: %v, want allowed: %v", address, err, ok)
		}
	}
	var none *Policy
	for name, c := range map[string]struct {
		err error
		ok  bool
	}{
		"named command": {p.Command("/usr/bin/judge"), true}, "other command": {p.Command("/bin/sh"), false},
		"command without a policy": {none.Command("/usr/bin/judge"), false},
		"named launcher":           {p.Launcher("ray"), true}, "other launcher": {p.Launcher("command"), false},
		"launcher without a policy": {none.Launcher("ray"), false},
	} {
		if (c.err == nil) != c.ok {
			t.Errorf("%s: %v, want allowed: %v", name, c.err, c.ok)
		}
	}
	empty, err := Parse([]byte("apiVersion: stillhouse/v1\n"))
	if err != nil {
		t.Fatal(err)
	}
	if empty.Endpoint("https://x", "") == nil || empty.Source("s3://b/x") == nil || empty.Command("x") == nil {
		t.Error("an empty policy allows something")
	}
}

func TestBadPolicies(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "empty",
		"apiVersion: v2":                    "want stillhouse/v1",
		"endpoints: []":                     "apiVersion",
		"apiVersion: stillhouse/v1\nx: 1":   "unknown field",
		"apiVersion: [\n":                   "",
		"apiVersion: stillhouse/v1\n---\na": "more than one",
		"apiVersion: stillhouse/v1\nendpoints: [{url: api.example.com}]":             "endpoints[0].url",
		"apiVersion: stillhouse/v1\nendpoints: [{url: 'https://a*.com'}]":            "a * stands for",
		"apiVersion: stillhouse/v1\nendpoints: [{url: 'https://*example.com'}]":      "a * stands for",
		"apiVersion: stillhouse/v1\nendpoints: [{url: 'https://u:p@a.com'}]":         "no more",
		"apiVersion: stillhouse/v1\nendpoints: [{url: 'https://a.com', keys: ['']}]": "no name",
		"apiVersion: stillhouse/v1\nsources: [prompts/]":                             "sources[0]",
		"apiVersion: stillhouse/v1\nsources: ['s3://b']":                             "sources[0]",
		"apiVersion: stillhouse/v1\nsources: ['s3://b/*']":                           "leave out the *",
		"apiVersion: stillhouse/v1\nkeys: {folders: [secrets]}":                      "not absolute",
		"apiVersion: stillhouse/v1\nrun: {commands: ['']}":                           "run.commands",
		"apiVersion: stillhouse/v1\n" + strings.Repeat("# ", maxFile):                "larger than",
	} {
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, want %q", text, err, want)
		}
	}
	file := filepath.Join(t.TempDir(), "p.yaml")
	if _, err := Load(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a missing file: %v", err)
	}
	if err := os.WriteFile(file, []byte(whole), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Endpoint("https://other.net", ""); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("the refusal does not name the file: %v", err)
	}
}

// The page shows a policy that may be copied.
func TestThePolicyOfThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testdata.Repository(t), "docs", "policy.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	p, err := Parse([]byte(text))
	if err != nil || p.Endpoint("https://api.moonshot.ai/v1", "MOONSHOT_API_KEY") != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(whole))
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		for _, e := range p.Endpoints {
			if e.parsed.host == "" || strings.Contains(strings.TrimPrefix(e.parsed.host, "*"), "*") {
				t.Errorf("%q was taken as %+v", e.URL, e.parsed)
			}
		}
	})
}
