package verify

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

func TestNew(t *testing.T) {
	if got := Names(); !slices.Equal(got, []string{"choice", "code", "command", "contains", "exact", "format", "json_schema", "math", "regex", "tool_calls"}) {
		t.Errorf("Names() = %v", got)
	}
	needed := map[string]map[string]any{"code": {"language": "python"}, "command": {"command": []any{"true"}, "version": "1"}}
	for _, name := range Names() {
		v := mustNew(t, name, needed[name])
		if v.Name() != name || v.Version() == "" {
			t.Errorf("%s calls itself %q, version %q", name, v.Name(), v.Version())
		}
		got := v.Verify(context.Background(), Input{Content: "x"})
		if got.Verdict != datasets.Unknown && name != "format" { // which looks at the answer alone
			t.Errorf("%s of a task without gold or tests: %s, want unknown", name, got.Verdict)
		}
	}
	for _, tc := range []struct {
		name    string
		options map[string]any
		want    string
	}{
		{"maths", nil, `did you mean "math"?`},
		{"nothing", nil, "known: choice, code"},
		{"math", map[string]any{"tolerence": 1}, `did you mean "tolerance"?`},
		{"math", map[string]any{"tolerance": -1}, "want at least 0"},
		{"exact", map[string]any{"trim": "yes"}, "option trim: want true or false"},
		{"regex", map[string]any{"pattern": "("}, "option pattern: error parsing regexp"},
		{"regex", map[string]any{"pattern": "a", "group": 1}, "the pattern has 0 groups"},
		{"regex", map[string]any{"group": -2}, "option group"},
		{"json_schema", map[string]any{"schema": "{"}, "option schema"},
		{"json_schema", map[string]any{"schema": map[string]any{"type": 5}}, "option schema"},
		{"json_schema", map[string]any{"schema": map[string]any{"$ref": "https://example.com/s.json"}}, "put it under $defs"},
		{"json_schema", map[string]any{"schema": map[string]any{"$ref": "file:///etc/passwd"}}, "put it under $defs"},
		{"choice", map[string]any{"letters": "A-D"}, `unknown option "letters"`},
	} {
		if _, err := New(tc.name, tc.options); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("New(%q, %v): %v, want %s", tc.name, tc.options, err, tc.want)
		}
	}
}

func TestGuard(t *testing.T) {
	panics := &guarded{"p", "1", func(context.Context, Input) finding { panic("boom") }}
	if got := panics.Verify(context.Background(), Input{}); got.Verdict != datasets.Unknown || got.Reason != "internal error" {
		t.Errorf("a panic is %+v", got)
	}
	gold := "5"
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for name, v := range map[string]Verifier{"long": mustNew(t, "exact", nil), "cancelled": mustNew(t, "math", nil)} {
		in := Input{Content: "A: 5", Gold: &gold}
		c := context.Background()
		if name == "long" {
			in.Content = strings.Repeat("x", MaxContent+1)
		} else {
			c = ctx
		}
		if got := v.Verify(c, in); got.Verdict != datasets.Unknown {
			t.Errorf("%s: %s, want unknown", name, got.Verdict)
		}
	}
	long := strings.Repeat("é", 4000)
	got := mustNew(t, "exact", nil).Verify(context.Background(), Input{Content: long, Gold: &long})
	if got.Verdict != datasets.Pass || len(*got.Extracted) > maxExtracted || !strings.HasPrefix(long, *got.Extracted) {
		t.Errorf("extracted %d bytes of a long answer", len(*got.Extracted))
	}
}

type verdictCase struct {
	name    string
	options map[string]any
	content string
	gold    string
	tests   string
	want    string
}

func run(t *testing.T, verifier string, prompt *chat.Prompt, cases []verdictCase) {
	t.Helper()
	for _, tc := range cases {
		in := Input{Content: tc.content, Prompt: prompt}
		if tc.gold != "" {
			in.Gold = &tc.gold
		}
		if tc.tests != "" {
			in.Tests = &tc.tests
		}
		got := mustNew(t, verifier, tc.options).Verify(context.Background(), in)
		if got.Verdict != tc.want || got.Reason == "" {
			t.Errorf("%s: %s (%s, read %q), want %s", tc.name, got.Verdict, got.Reason, deref(got.Extracted), tc.want)
		}
	}
}

func TestExact(t *testing.T) {
	run(t, "exact", nil, []verdictCase{
		{name: "equal", content: "Paris", gold: "Paris", want: "pass"},
		{name: "trimmed", content: " Paris\n", gold: "Paris", want: "pass"},
		{name: "not trimmed", options: map[string]any{"trim": false}, content: " Paris\n", gold: "Paris", want: "fail"},
		{name: "case", content: "paris", gold: "Paris", want: "fail"},
		{name: "any case", options: map[string]any{"case": false}, content: "paris", gold: "Paris", want: "pass"},
		{name: "more", content: "Paris, France", gold: "Paris", want: "fail"},
	})
}

func TestRegex(t *testing.T) {
	group := map[string]any{"pattern": `(?m)^Result: (\w+)( !)?$`, "group": 1}
	run(t, "regex", nil, []verdictCase{
		{name: "match", options: map[string]any{"pattern": `^\d{4}-\d{2}$`}, content: "2026-11", want: "pass"},
		{name: "no match", options: map[string]any{"pattern": `^\d{4}-\d{2}$`}, content: "Nov 2026", want: "fail"},
		{name: "any case", options: map[string]any{"pattern": "a|b", "case": false}, content: "B", want: "pass"},
		{name: "of the task's tests", content: "ab", tests: "^a", gold: "zzz", want: "pass"},
		{name: "of the task's gold", content: "ab", gold: "^b", want: "fail"},
		{name: "bad pattern of the task", content: "ab", tests: "(", want: "unknown"},
		{name: "long pattern of the task", content: "ab", tests: strings.Repeat("a", maxPattern+1), want: "unknown"},
		{name: "last group", options: group, content: "Result: a\nResult: b", gold: "b", want: "pass"},
		{name: "not the first group", options: group, content: "Result: a\nResult: b", gold: "a", want: "fail"},
		{name: "group without gold", options: group, content: "Result: a", want: "unknown"},
		{name: "group not in match", options: map[string]any{"pattern": `x|(y)`, "group": 1}, content: "x", gold: "y", want: "fail"},
		{name: "group beyond the task's pattern", options: map[string]any{"group": 2}, content: "x", tests: "(x)", gold: "x", want: "unknown"},
		{name: "group of the task's pattern", options: map[string]any{"pattern": "", "group": 0}, content: "x", tests: "x?", gold: "x", want: "pass"},
		{name: "matches without end", options: map[string]any{"pattern": "x*?", "group": 0}, content: strings.Repeat("y", maxMatches), gold: "x", want: "unknown"},
		{name: "a pattern that unfolds", content: strings.Repeat("x", 1000), tests: strings.Repeat("(x{0,999})", 800) + "y", want: "unknown"},
		{name: "many states over a long answer", content: strings.Repeat("x", maxRegexContent), tests: strings.Repeat("(x{0,999})", 40) + "y", want: "unknown"},
		{name: "many looks at a long answer", options: map[string]any{"pattern": `(?s)x.*y|x`, "group": 0}, content: strings.Repeat("x", maxRegexContent), gold: "x", want: "unknown"},
		{name: "letters of all scripts", options: map[string]any{"pattern": `(?i)^\p{L}+$`}, content: strings.Repeat("é", maxRegexContent/2), want: "pass"},
		{name: "long answer", options: map[string]any{"pattern": "x"}, content: strings.Repeat("x", maxRegexContent+1), want: "unknown"},
	})
}

func TestChoice(t *testing.T) {
	prompt := &chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text("What is the capital?\nA) Rome\n(B) Paris\nC. New York City\nD: Paris, Texas")}}}
	run(t, "choice", prompt, []verdictCase{
		{name: "letter alone", content: "B", gold: "B", want: "pass"},
		{name: "wrong letter", content: "A", gold: "B", want: "fail"},
		{name: "answer is", content: "Rome is in Italy, so the answer is (B).", gold: "B", want: "pass"},
		{name: "with its text", content: "Answer: B) Paris", gold: "(B)", want: "pass"},
		{name: "bold", content: "**Answer: (B)** Paris", gold: "B", want: "pass"},
		{name: "boxed", content: `It is \boxed{\text{(B)}}`, gold: "B", want: "pass"},
		{name: "boxed letter", content: `It is $\boxed{B}$.`, gold: "B", want: "pass"},
		{name: "last line", content: "Rome is in Italy.\n\n**B. Paris**", gold: "B", want: "pass"},
		{name: "option and letter", content: "Final answer: Option B", gold: "B", want: "pass"},
		{name: "lower case in brackets", content: "The answer is (b)", gold: "B", want: "pass"},
		{name: "by text", content: "The answer is Paris.", gold: "B", want: "pass"},
		{name: "gold by text", content: "The answer is (B)", gold: "Paris", want: "pass"},
		{name: "gold by text, wrong letter", content: "The answer is (C)", gold: "Paris", want: "fail"},
		{name: "last statement counts", content: "The answer is A. No: the answer is B.", gold: "B", want: "pass"},
		{name: "two letters", content: "The answer is (A) or (B)", gold: "A", want: "unknown"},
		{name: "two letters, comma", content: "The answer is A, B", gold: "A", want: "unknown"},
		{name: "two letters, slash", content: "The answer is (A)/(B)", gold: "A", want: "unknown"},
		{name: "article", content: "The answer is A dog", gold: "A", want: "unknown"},
		{name: "pronoun", content: "I think it is Paris.", gold: "I", want: "unknown"},
		{name: "beyond J", content: "The answer is K", gold: "B", want: "unknown"},
		{name: "no statement", content: "Paris is nice. B is a letter, is it not", gold: "B", want: "unknown"},
		{name: "empty", content: "", gold: "B", want: "unknown"},
		{name: "gold is no option", content: "The answer is (B)", gold: "London", want: "unknown"},
		{name: "gold is no option, same text", content: "The answer is london.", gold: "London", want: "pass"},
	})
}

const person = `{"type":"object","required":["name","age"],"properties":{"name":{"type":"string"},"age":{"type":"integer","multipleOf":1}},"additionalProperties":false}`

func TestJSONSchema(t *testing.T) {
	asMap := map[string]any{"schema": map[string]any{"type": "array", "items": map[string]any{"type": "integer"}}}
	run(t, "json_schema", nil, []verdictCase{
		{name: "whole answer", tests: person, content: ` {"name":"Ann","age":5} `, want: "pass"},
		{name: "fenced", tests: person, content: "Here:\n```json\n{\"name\":\"Ann\",\n \"age\":5}\n```\nDone.", want: "pass"},
		{name: "fenced without a name", tests: person, content: "```\n{\"name\":\"Ann\",\"age\":5}\n```", want: "pass"},
		{name: "last fence counts", tests: person, content: "```json\n{}\n```\n```json\n{\"name\":\"Ann\",\"age\":5}\n```", want: "pass"},
		{name: "json fence before another", tests: person, content: "```json\n{\"name\":\"Ann\",\"age\":5}\n```\n```sh\nls\n```", want: "pass"},
		{name: "fence in a text", tests: `{"type":"string"}`, content: "\"```\"", want: "pass"},
		{name: "fence cut off", tests: person, content: "```json\n{\"name\":\"An", want: "fail"},
		{name: "missing key", tests: person, content: `{"name":"Ann"}`, want: "fail"},
		{name: "wrong type", tests: person, content: `{"name":"Ann","age":"5"}`, want: "fail"},
		{name: "extra key", tests: person, content: `{"name":"Ann","age":5,"x":1}`, want: "fail"},
		{name: "whole float is an integer", tests: person, content: `{"name":"Ann","age":5.0}`, want: "pass"},
		{name: "not JSON", tests: person, content: `{"name":`, want: "fail"},
		{name: "two documents", tests: person, content: `{"name":"Ann","age":5} {}`, want: "fail"},
		{name: "prose", tests: person, content: `Ann is 5.`, want: "fail"},
		{name: "a number", tests: `{"type":"integer"}`, content: `42`, want: "pass"},
		{name: "schema of the recipe", options: asMap, content: `[1,2]`, tests: person, want: "pass"},
		{name: "schema of the recipe broken", options: asMap, content: `[1,"2"]`, want: "fail"},
		{name: "no schema", content: `{}`, want: "unknown"},
		{name: "bad schema of the task", tests: `{"type":5}`, content: `{}`, want: "unknown"},
		{name: "remote schema of the task", tests: `{"$ref":"http://127.0.0.1/x"}`, content: `{}`, want: "unknown"},
		{name: "deep", tests: `{}`, content: strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000), want: "unknown"},
		{name: "deep and open", tests: `{}`, content: strings.Repeat(`{"a":`, 100_000), want: "unknown"},
		{name: "huge number", tests: person, content: `{"name":"Ann","age":1e999999999}`, want: "unknown"},
		{name: "long number", tests: person, content: `{"name":"Ann","age":` + strings.Repeat("9", 100_000) + `}`, want: "unknown"},
		{name: "long", tests: `{}`, content: `"` + strings.Repeat("x", maxJSON) + `"`, want: "unknown"},
	})
}

func TestJSONSchemaReasonsNameTheKeyword(t *testing.T) {
	schema := person
	v := mustNew(t, "json_schema", nil)
	for content, want := range map[string]string{`{"name":"Ann"}`: "does not fit the schema: required", `{"name":1,"age":5}`: "does not fit the schema: type"} {
		if got := v.Verify(context.Background(), Input{Content: content, Tests: &schema}); got.Reason != want {
			t.Errorf("%s: reason %q, want %q", content, got.Reason, want)
		}
	}
}

// A schema whose alternatives double at every step would take longer than the
// universe is old.
func TestJSONSchemaIsMetered(t *testing.T) {
	doubling := func(keyword string) string {
		var b strings.Builder
		b.WriteString(`{"$ref":"#/$defs/s0","$defs":{"s60":{"type":"string"}`)
		for i := range 60 {
			fmt.Fprintf(&b, `,"s%d":{"%s":[{"$ref":"#/$defs/s%d"},{"$ref":"#/$defs/s%d"}]}`, i, keyword, i+1, i+1)
		}
		return b.String() + `}}`
	}
	v := mustNew(t, "json_schema", nil)
	for name, in := range map[string]struct{ schema, content string }{
		"any":     {doubling("anyOf"), "5"},
		"one":     {doubling("oneOf"), "5"},
		"all":     {doubling("allOf"), `"5"`},
		"negated": {`{"$defs":{"s":{"type":"object","patternProperties":{"a":{"$ref":"#/$defs/s"},"a.?":{"$ref":"#/$defs/s"}}}},"not":{"$ref":"#/$defs/s"}}`, strings.Repeat(`{"a":`, 60) + "{}" + strings.Repeat("}", 60)},
	} {
		got := v.Verify(context.Background(), Input{Content: in.content, Tests: &in.schema})
		if got.Verdict != "unknown" || got.Reason != "schema too costly to judge" {
			t.Errorf("%s: %s (%s)", name, got.Verdict, got.Reason)
		}
	}
	tree := `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"l":{"$ref":"#/$defs/n"},"r":{"$ref":"#/$defs/n"},"v":{"type":"integer"}},"required":["v"]}}}`
	for content, want := range map[string]string{`{"v":1,"l":{"v":2},"r":{"v":3,"l":{"v":4}}}`: "pass", `{"v":1,"l":{"v":2},"r":{"v":3,"l":{}}}`: "fail"} {
		if got := v.Verify(context.Background(), Input{Content: content, Tests: &tree}); got.Verdict != want {
			t.Errorf("%s: %s (%s), want %s", content, got.Verdict, got.Reason, want)
		}
	}
	long := "[" + strings.Repeat("1,", 200_000) + "1]"
	for schema, want := range map[string]string{`{"items":{"type":"integer"}}`: "pass", `{"uniqueItems":true}`: "fail", `{"items":{"enum":[1,2,3]}}`: "pass"} {
		if got := v.Verify(context.Background(), Input{Content: long, Tests: &schema}); got.Verdict != want {
			t.Errorf("%s over a long array: %s (%s), want %s", schema, got.Verdict, got.Reason, want)
		}
	}
	text := strings.Repeat("x", 500_000)
	for schema, want := range map[string]string{
		`{"pattern":"^x+$","maxLength":500000}`:                                  "pass",
		`{"pattern":"` + strings.Repeat("(x{0,999})", 20) + `y"}`:                "unknown",
		`{"pattern":"` + strings.Repeat("(x{0,999})", 2000) + `y"}`:              "unknown",
		`{"patternProperties":{"` + strings.Repeat("(x{0,999})", 20) + `y":{}}}`: "unknown",
	} {
		content := `"` + text + `"`
		if strings.Contains(schema, "Properties") {
			content = `{"` + text + `":1}`
		}
		if got := v.Verify(context.Background(), Input{Content: content, Tests: &schema}); got.Verdict != want {
			t.Errorf("%.60s over a long text: %s (%s), want %s", schema, got.Verdict, got.Reason, want)
		}
	}
	dynamic := `{"$dynamicRef":"#a"}`
	if got := v.Verify(context.Background(), Input{Content: "1", Tests: &dynamic}); got.Verdict != "unknown" {
		t.Errorf("a dynamic reference is %s", got.Verdict)
	}
}

// However many tasks bring a schema of their own, few stay compiled.
func TestTaskSchemasAreForgotten(t *testing.T) {
	v := &schemaVerifier{compiled: make(map[[sha256.Size]byte]*meteredSchema)}
	for i := range 3 * maxSchemas {
		if v.ofTask(fmt.Sprintf(`{"minimum":%d}`, i)) == nil {
			t.Fatal("schema does not compile")
		}
	}
	if n := len(v.compiled); n > maxSchemas {
		t.Errorf("%d schemas are kept", n)
	}
}

func FuzzFindJSON(f *testing.F) {
	for _, seed := range []string{"{}", "```json\n{}\n```", "````\n```\n[1]\n````", `"x"`, "1e400", "[[[["} {
		f.Add(seed)
	}
	schema := `{"type":["object","array"],"items":{"type":"number","multipleOf":3}}`
	v := mustNew(f, "json_schema", nil)
	f.Fuzz(func(t *testing.T, content string) {
		if found, ok := findJSON(content); ok && (found == "" || len(found) > len(content)+1) {
			t.Errorf("found %q in %q", found, content)
		}
		first := v.Verify(context.Background(), Input{Content: content, Tests: &schema})
		if first.Reason == "internal error" {
			t.Errorf("panic on %q", content)
		}
		fenced := "```json\n" + content + "\n```"
		if second := v.Verify(context.Background(), Input{Content: fenced, Tests: &schema}); first.Verdict == "pass" && !strings.Contains(content, "```") && second.Verdict != "pass" {
			t.Errorf("%q passes bare, but %s fenced", content, second.Verdict)
		}
	})
}

func FuzzChoice(f *testing.F) {
	for _, seed := range []string{"B", "The answer is (B)", `\boxed{\text{B}}`, "A or B"} {
		f.Add(seed)
	}
	v := mustNew(f, "choice", nil)
	f.Fuzz(func(t *testing.T, content string) {
		passes := 0
		for _, gold := range strings.Split("ABCDEFGHIJ", "") {
			got := v.Verify(context.Background(), Input{Content: content, Gold: &gold})
			if got.Reason == "internal error" {
				t.Errorf("panic on %q", content)
			}
			if got.Verdict == "pass" {
				passes++
			}
		}
		if passes > 1 {
			t.Errorf("%q passes for %d letters", content, passes)
		}
	})
}
