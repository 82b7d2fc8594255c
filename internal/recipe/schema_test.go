package recipe

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

var update = flag.Bool("update", false, "write the golden files")

func TestSchemaIsCommitted(t *testing.T) {
	got, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join(testdata.Repository(t), "docs", "contract", "recipe.schema.json")
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("the schema moved; run go test ./internal/recipe -update and read the difference:\n%s", diff)
	}
}

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	if err := c.AddResource(SchemaID, doc); err != nil {
		t.Fatal(err)
	}
	schema, err := c.Compile(SchemaID)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func document(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	asJSON, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// A recipe with keys that few have.
const rare = `name: rare
prompts: [{path: p.jsonl, fields: {images: i, tests: t}}]
teachers: [{model: m, api: anthropic-batch, base_url: https://x/v1, limits: {tpm: 5, max_bytes: 1024}}]
ask: {route: {rules: [{when: domain == "default", teachers: [m]}]}, samples: 4, budget: {usd: 250}}
check: [{verifier: code, language: python, timeout: 10s}]
filter: [refusal, {length: {max_tokens: 16000}, when: sample == 0}, {expr: len(content) > 10}]
prompt_filter: [duplicate, {near_duplicate: {jaccard: 0.8}}, {contamination: {against: [e.jsonl], ngram: 8, action: drop}}]
logprobs: {top: 20}
output: {report_text: sample}
`

func TestSchemaAcceptsRecipes(t *testing.T) {
	schema := compiled(t)
	for name, text := range map[string][]byte{"full": readFile(t, "full.yaml"), "least": readFile(t, "least.yaml"), "base": []byte(base), "rare": []byte(rare)} {
		if err := schema.Validate(document(t, text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestRareKeysAreCarriedOut(t *testing.T) {
	r, err := Parse("r.yaml", []byte(rare))
	if err != nil {
		t.Fatal(err)
	}
	if r.Output.ReportText != "sample" {
		t.Errorf("report_text is %q", r.Output.ReportText)
	}
}

func TestSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	schema := compiled(t)
	shape := regexp.MustCompile(`unknown key|is missing; add (name|prompts|teachers)|, want (a text|a number|a whole|a list|keys)|is none of|is (less|more) than|is no (size|day|route|name)|is empty; give|empty list; give`)
	n := 0
	for _, tc := range badRecipes {
		if tc.whole != "" || !shape.MatchString(tc.want) || strings.Contains(tc.want, "misspelt") || strings.Contains(tc.want, "alias") || tc.name == "a misspelt key beside options" || strings.Contains(tc.new, ".nan") {
			continue
		}
		n++
		if err := schema.Validate(document(t, []byte(tc.text()))); err == nil {
			t.Errorf("%s: the schema accepts it", tc.name)
		}
	}
	if n < 15 {
		t.Errorf("%d cases, want at least 15", n)
	}
}

// Every declared field has a comment, which is its description, and a default
// that can be set.
func TestDeclarations(t *testing.T) {
	docs, err := comments()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[reflect.Type]bool{}
	var walk func(t reflect.Type)
	walk = func(typ reflect.Type) {
		for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
			typ = typ.Elem()
		}
		if typ.Kind() != reflect.Struct || seen[typ] {
			return
		}
		seen[typ] = true
		for _, f := range sectionOf(typ).fields {
			if docs[typ.Name()+"."+f.name] == "" {
				t.Errorf("%s.%s has no comment", typ.Name(), f.name)
			}
			setDefault(reflect.New(f.typ).Elem(), &f)
			walk(f.typ)
		}
	}
	walk(reflect.TypeFor[Recipe]())
	walk(typeSamples)
	walk(reflect.TypeFor[RouteRule]())
	if len(seen) < 20 {
		t.Errorf("%d sections, want all of them", len(seen))
	}
	names := map[string]bool{}
	for _, n := range whenWords {
		names[n] = true
	}
	env := reflect.TypeFor[Env]()
	for i := range env.NumField() {
		if word := env.Field(i).Tag.Get("expr"); !names[word] {
			t.Errorf("%s is not among the words of a condition", word)
		}
	}
	if env.NumField() != len(whenWords) {
		t.Errorf("%d words, %d fields", len(whenWords), env.NumField())
	}
}
