package demo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// RecipeName is the demo's dataset.
const RecipeName = "demo"

// Write makes dir and writes the three prompt files and the recipe that asks
// the teachers; it returns the recipe's path. For the same teachers at the
// same addresses it writes the same bytes.
func Write(dir string, teachers []Teacher) (recipe string, err error) {
	for _, domain := range []string{Math, Science, Structured} {
		text, err := promptFile(domain)
		if err != nil {
			return "", fmt.Errorf("write the demo's %s prompts: %w", domain, err)
		}
		if err := writeFile(filepath.Join(dir, domain+".jsonl"), text); err != nil {
			return "", fmt.Errorf("write the demo's %s prompts: %w", domain, err)
		}
	}
	text, err := recipeFile(teachers)
	if err != nil {
		return "", fmt.Errorf("write the demo's recipe: %w", err)
	}
	recipe = filepath.Join(dir, "demo.yaml")
	if err := writeFile(recipe, text); err != nil {
		return "", fmt.Errorf("write the demo's recipe: %w", err)
	}
	return recipe, nil
}

// promptFile is a domain's prompts as JSON lines.
func promptFile(domain string) ([]byte, error) {
	var out bytes.Buffer
	lines := json.NewEncoder(&out)
	lines.SetEscapeHTML(false)
	for _, p := range problems()[domain] {
		var row any
		if domain == Structured {
			row = struct {
				Instruction string `json:"instruction"`
				Kind        string `json:"kind"`
				Tests       any    `json:"tests"`
			}{p.question, p.kind, p.tests}
		} else {
			row = struct {
				Question string `json:"question"`
				Answer   string `json:"answer"`
			}{p.question, p.gold}
		}
		if err := lines.Encode(row); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

const recipeHead = `# The recipe of "stillhouse demo". Every teacher in it is SIMULATED: a program on
# this machine that looks answers up and gets some of them wrong on purpose.
# Skills, prices and latencies are made up. To go on with a real model, run
#   stillhouse init --for openai
apiVersion: stillhouse/v1
name: ` + RecipeName + `
prompts:
  - path: math.jsonl
    domain: math
    efforts: [low, high, max]
    fields: {prompt: question, gold: answer}
  - path: science.jsonl
    domain: science
    efforts: [low, high, max]
    fields: {prompt: question, gold: answer}
  - path: structured.jsonl
    domain: structured
    efforts: [low, high, max]
    fields: {prompt: instruction, tests: tests, meta: [kind]}
teachers:
`

const recipeTail = `check:
  - {verifier: math, when: domain == "math"}
  - {verifier: choice, when: domain == "science"}
  - {verifier: regex, when: domain == "structured" && meta.kind == "pattern"}
  - {verifier: json_schema, when: domain == "structured" && meta.kind == "schema"}
merge: {policy: best_of}
output: {splits: {train: 0.95, test: 0.05}, seed: 7}
`

func recipeFile(teachers []Teacher) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(recipeHead)
	for _, t := range teachers {
		c := characterOf(t.Model)
		if c == nil {
			return nil, fmt.Errorf("%s is no demo teacher", t.Model)
		}
		fmt.Fprintf(&b, `  - id: %[1]s
    base_url: %[2]s
    model: %[1]s
    identity: %[1]s
    serves: [{domain: %[3]s, effort: [%[4]s]}]
    params_by: {effort: {%[5]s}}
    limits: {concurrency: %[6]d}
    price: {input: %.2[7]f, output: %.2[8]f, source: simulated}
    terms: {licence: CC0-1.0, training: allowed}
`, t.Model, t.BaseURL, c.domain, strings.Join(c.serves(), ", "), effortParams(c), c.concurrency, c.input, c.output)
	}
	b.WriteString(recipeTail)
	return b.Bytes(), nil
}

// effortParams sends each task's effort on, as reasoning endpoints expect it.
func effortParams(c *character) string {
	var by []string
	for _, e := range c.serves() {
		by = append(by, fmt.Sprintf("%[1]s: {reasoning_effort: %[1]s}", e))
	}
	return strings.Join(by, ", ")
}
