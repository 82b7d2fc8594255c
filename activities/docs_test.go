package activities

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// What the lines of a page leave out of a recipe, by key.
var restOfARecipe = []struct{ key, text string }{
	{"name", "name: docs\n"},
	{"prompts", `prompts:
  - {path: a.jsonl, domain: math, fields: {prompt: question, gold: answer, tools: tools}}
  - {path: b.jsonl, domain: code, fields: {prompt: question, gold: answer, tests: tests}}
  - {path: c.jsonl, domain: chat, fields: {prompt: question}}
`},
	{"teachers", `teachers:
  - {id: k3, base_url: "https://a.example/v1", model: kimi-k3, api_key_env: K, params: {max_tokens: 100}, price: {input: 1, output: 2}}
  - {id: kimi-k3, base_url: "https://b.example/v1", model: kimi-k3, api_key_env: K, params: {max_tokens: 100}, price: {input: 1, output: 2}}
  - {id: small, base_url: "https://c.example/v1", model: s, api_key_env: K, params: {max_tokens: 100}, price: {input: 1, output: 2}}
  - {id: medium, base_url: "https://d.example/v1", model: m, api_key_env: K, params: {max_tokens: 100}, price: {input: 1, output: 2}}
  - {id: j, base_url: "https://e.example/v1", model: j, api_key_env: K, params: {max_tokens: 100}, price: {input: 1, output: 2}}
  - {id: judge-1, base_url: "https://f.example/v1", model: j, api_key_env: K, params: {max_tokens: 100}, price: {input: 1, output: 2}}
`},
	{"check", "check: [{verifier: contains, text: x}]\n"},
}

var (
	yamlBlock = regexp.MustCompile("(?ms)^( *)```yaml\n(.*?)^ *```$")
	lineKey   = regexp.MustCompile(`^ *([a-z_A-Z]+):`)
)

// Lines of a recipe that a page shows are lines that a recipe may hold: a
// reader copies them.
func TestRecipesOfThePagesAreAccepted(t *testing.T) {
	root := testdata.Repository(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rubric.md"), []byte("Is it right?"), 0o600); err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		if base := filepath.Base(page); base == "policy.md" || base == "launchers.md" { // their YAML is no recipe
			continue
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range yamlBlock.FindAllStringSubmatch(string(text), -1) {
			for _, lines := range alternatives(strings.ReplaceAll(m[2], "\n"+m[1], "\n")) {
				n++
				whole := wholeRecipe(lines)
				r, err := recipe.Parse(filepath.Join(dir, "r.yaml"), []byte(whole))
				if err == nil {
					err = CheckRecipe(r)
				}
				if err != nil {
					t.Errorf("%s: %v\n%s", filepath.Base(page), err, whole)
				}
			}
		}
	}
	if n < 45 {
		t.Errorf("%d pieces of recipes, want those of all pages", n)
	}
}

// A word that a verifier does not know is shown where it stands.
func TestOptionsAreShownWhereTheyStand(t *testing.T) {
	for check, want := range map[string]string{
		"{verifier: math, tolerence: 1}":           `r.yaml:13:37: check[0].tolerence: verifier math: unknown option "tolerence"; did you mean "tolerance"?`,
		"{any: [{verifier: math, tolerance: -1}]}": `r.yaml:13:44: check[0].any[0].tolerance: verifier math: option tolerance`,
	} {
		r, err := recipe.Parse("r.yaml", []byte(wholeRecipe("check: ["+check+"]\n")))
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckRecipe(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", check, err, want)
		}
	}
}

// alternatives are the pieces of a block that cannot stand in one recipe
// together: lines that say the same key, and keys of a teacher.
func alternatives(block string) []string {
	block = strings.ReplaceAll(block, "…", "x.example")
	indent := block[:len(block)-len(strings.TrimLeft(block, " "))]
	block = strings.TrimPrefix(strings.ReplaceAll("\n"+block, "\n"+indent, "\n"), "\n")
	if indent != "" && !strings.HasPrefix(block, "- ") {
		var out []string
		for _, line := range strings.SplitAfter(block, "\n") {
			switch {
			case line == "":
			case strings.HasPrefix(line, " "):
				out[len(out)-1] += "    " + line
			default:
				api := ""
				if strings.HasPrefix(line, "batch:") {
					api = "api: openai-batch\n    "
				}
				out = append(out, "teachers:\n  - id: one\n    model: m\n    base_url: https://x.example/v1\n    "+api+line)
			}
		}
		return out
	}
	variants := []string{""}
	last := ""
	for _, line := range strings.SplitAfter(block, "\n") {
		key := lineKey.FindString(line)
		if key == "" || key != last {
			for i := range variants {
				variants[i] += line
			}
		} else {
			prior := variants[len(variants)-1]
			cut := strings.LastIndex(strings.TrimSuffix(prior, "\n"), "\n") + 1
			variants = append(variants, prior[:cut]+line)
		}
		last = key
	}
	return variants
}

// wholeRecipe is a recipe around some of its lines.
func wholeRecipe(lines string) string {
	if strings.HasPrefix(lines, "- ") {
		section := "check"
		switch {
		case strings.Contains(lines, "duplicate"):
			section = "prompt_filter"
		case strings.Contains(lines, "- id:"):
			section = "teachers"
		}
		lines = section + ":\n" + strings.TrimSuffix("  "+strings.ReplaceAll(lines, "\n", "\n  "), "  ")
	}
	out := ""
	for _, part := range restOfARecipe {
		if part.key == "prompts" && strings.Contains(lines, "serves: [{domain: math, effort: [high, max]}]") {
			part.text = "prompts: [{path: a.jsonl, domain: math, efforts: [high, max]}]\n"
		}
		if !regexp.MustCompile(`(?m)^` + part.key + `:`).MatchString(lines) {
			out += part.text
		}
	}
	return out + lines
}
