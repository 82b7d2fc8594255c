package recipe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A badRecipe is the least recipe with one thing changed, or a text of its own.
type badRecipe struct {
	name     string
	old, new string // of base
	whole    string // instead of base
	want     string // all errors, without the file's name
}

// base has its teacher at lines 8 to 11.
const base = `name: base
prompts:
  - path: p.jsonl
    domain: math
    efforts: [low, high]
    fields: {prompt: q, gold: a}
teachers:
  - id: t
    base_url: https://api.example.com/v1
    model: m
    api_key_env: KEY
check: [{verifier: math}]
`

func (b badRecipe) text() string {
	if b.whole != "" {
		return b.whole
	}
	return strings.Replace(base, b.old, b.new, 1)
}

const addAtEnd = "check: [{verifier: math}]\n"

func end(more string) string { return addAtEnd + more + "\n" }

var badRecipes = []badRecipe{
	// The file as a whole.
	{name: "empty", whole: " ", want: "1:1: the file is empty; write a recipe; stillhouse init makes one that works"},
	{name: "only a comment", whole: "# x\n", want: "1:1: the file is empty; write a recipe; stillhouse init makes one that works"},
	{name: "a list", whole: "- a\n", want: "1:1: is a list, want keys with values; write it as key: value"},
	{name: "two documents", whole: base + "---\n" + base, want: "14:1: a second document starts here; keep one recipe a file"},
	{name: "not UTF-8", old: "p.jsonl", new: "\xff.jsonl", want: "3:11: byte 0xff is not UTF-8; save the file as UTF-8"},
	{name: "a zero byte", old: "p.jsonl", new: "p\x00", want: "3:12: a zero byte; save the file as UTF-8 text"},
	{name: "too large", whole: strings.Repeat("# x\n", 1<<18+1), want: "1:1: the file is larger than 1 MiB; keep prompts in files of their own and name them under prompts"},
	{name: "broken", old: "[low, high]", new: "[low, high", want: "6:5: is not valid YAML: ',' or ']' must be specified; check the indentation (spaces, no tabs) and the quotes"},
	{name: "a tab", old: "    domain", new: "\tdomain", want: "4:1: is not valid YAML: found character '\t' that cannot start any token; check the indentation (spaces, no tabs) and the quotes"},
	{name: "nested without end", whole: "name: " + strings.Repeat("[", 100), want: "1:39: is nested too deeply or holds too much; a recipe has a few levels and a few thousand entries"},
	{name: "an alias to itself", old: "name: base", new: "name: &a [*a]", want: "1:10: name: is a list, want a text; write one value here"},
	{name: "an alias to itself within parameters", old: "    api_key_env: KEY", new: "    params: &p {a: *p}", want: "11:20: teachers[0].params" + strings.Repeat(".a", 29) + ": is nested too deeply; an alias may refer to itself; write the value out"},
	{name: "aliases that multiply", old: "    api_key_env: KEY", new: "    params:\n      a: &a [" + strings.Repeat("1,", 99) + "1]\n      b: &b [" + strings.Repeat("*a,", 99) + "*a]\n      c: [" + strings.Repeat("*b,", 99) + "*b]", want: "12:13: teachers[0].params.c[8][79]: the recipe holds too much; aliases multiply what they repeat; write fewer of them"},
	{name: "no such anchor", old: "name: base", new: "name: *none", want: `1:7: name: no anchor "&none" comes before this alias; write the value out`},
	{name: "a tag", old: "name: base", new: "name: !!str base", want: `1:7: name: a YAML tag is not allowed here; remove "!!str"`},
	{name: "a merge key", old: "    model: m", new: "    <<: {model: m}", want: "10:5: teachers[0]: merge keys (<<) are not allowed; write the keys out, or alias the whole value"},

	// Keys.
	{name: "unknown key", old: "check:", new: "chekc:", want: `12:1: chekc: unknown key "chekc"; did you mean "check"?`},
	{name: "unknown key inside", old: "    model: m", new: "    model: m\n    base-url: x", want: `11:5: teachers[0].base-url: unknown key "base-url"; did you mean "base_url"?`},
	{name: "unknown key of a small section", old: addAtEnd, new: end("gates: {zebra: 1}"), want: `13:9: gates.zebra: unknown key "zebra"; known here: min_rows, min_domain_rows, min_pairs, min_pass_rate, max_rejected, max_mix_shortfall, allow_drift, max_cost_usd`},
	{name: "a parameter in the wrong place", old: "    model: m", new: "    model: m\n    temperature: 1", want: `11:5: teachers[0].temperature: unknown key "temperature"; request parameters stand under params: {temperature: …}`},
	{name: "the key twice", old: "    model: m", new: "    model: m\n    model: n", want: "11:5: teachers[0].model: the key is there twice; the first is at line 10; remove one"},
	{name: "a key in the recipe", old: "api_key_env: KEY", new: "api_key: sk-secret", want: "11:5: teachers[0].api_key: a key must not be written into a recipe; put it in an environment variable and write api_key_env: NAME"},
	{name: "a missing key", old: "name: base\n", new: "", want: "1:1: name: is missing; add name: …"},
	{name: "no value", old: "path: p.jsonl", new: "path:", want: "3:10: prompts[0].path: has no value; give it one or remove the key"},
	{name: "an empty value", old: "path: p.jsonl", new: "path: ''", want: "3:11: prompts[0].path: is empty; give it a value or remove the key"},
	{name: "no prompts", old: "prompts:\n  - path: p.jsonl\n    domain: math\n    efforts: [low, high]\n    fields: {prompt: q, gold: a}\n", new: "prompts: []\n", want: "2:10: prompts: is an empty list; give it at least one entry"},
	{name: "a misspelt key beside options", old: "{verifier: math}", new: "{verifier: math, wehn: 'true'}", want: `12:26: check[0].wehn: unknown key "wehn"; did you mean "when"?`},

	// Types and ranges.
	{name: "a number for a text", old: "domain: math", new: "domain: 7", want: "4:13: prompts[0].domain: is a number, want a text; put it in quotes"},
	{name: "a map for a list", old: "teachers:\n  - id: t", new: "teachers:\n    id: t", want: "8:5: teachers: is a map, want a list; start each entry with a dash: - …"},
	{name: "a text for a map", old: "{prompt: q, gold: a}", new: "q", want: "6:13: prompts[0].fields: is a text, want keys with values; write it as key: value"},
	{name: "a text for a number", old: "    model: m", new: "    model: m\n    epoch: one", want: "11:12: teachers[0].epoch: is a text, want a whole number; write it without quotes and without a fraction"},
	{name: "a fraction", old: "    model: m", new: "    model: m\n    epoch: 1.5", want: "11:12: teachers[0].epoch: is a number, want a whole number; write it without quotes and without a fraction"},
	{name: "a negative limit", old: "    model: m", new: "    model: m\n    limits: {rpm: -1, concurrency: 0}", want: "11:19: teachers[0].limits.rpm: -1 is less than 0; write 0 or more\n11:36: teachers[0].limits.concurrency: 0 is less than 1; write 1 or more"},
	{name: "a negative price", old: "    model: m", new: "    model: m\n    price: {input: -0.1, as_of: May, output: .nan}", want: "11:20: teachers[0].price.input: -0.1 is less than 0; write 0 or more\n11:33: teachers[0].price.as_of: \"May\" is no day; write it such as 2026-11-01\n11:46: teachers[0].price.output: is a number, want a number; write it without quotes"},
	{name: "a duration without a unit", old: "    model: m", new: "    model: m\n    limits: {idle: 5, total: 0s, max_bytes: 64mb}", want: "11:20: teachers[0].limits.idle: is a number, want a number with a unit; write it such as 90s, 2m or 7d\n11:30: teachers[0].limits.total: \"0s\" is no duration above 0; write it such as 90s, 2m or 7d, at most 366d\n11:45: teachers[0].limits.max_bytes: \"64mb\" is no size; write it such as 64MiB, 10MB or 4096"},
	{name: "limits against each other", old: "    model: m", new: "    model: m\n    limits: {first_byte: 2h}", want: "11:13: teachers[0].limits: total (1h0m0s) is shorter than first_byte or idle; raise total or lower the other"},
	{name: "an unknown word", old: "    model: m", new: "    model: m\n    api: open-ai", want: `11:10: teachers[0].api: "open-ai" is none of openai, anthropic, openai-batch, anthropic-batch, recorded; did you mean "openai"?`},
	{name: "another version", old: "name: base", new: "apiVersion: stillhouse/v2\nname: base", want: `1:13: apiVersion: "stillhouse/v2" is none of stillhouse/v1; did you mean "stillhouse/v1"?`},
	{name: "no name for a dataset", old: "name: base", new: "name: My Data", want: `1:7: name: "My Data" is no name; start with a lower-case letter or a digit and use only those, '-', '_' and '.', at most 63`},
	{name: "an integer beyond 2^53", old: "    model: m", new: "    model: m\n    params: {seed: 9007199254740993}", want: "11:20: teachers[0].params.seed: is beyond 2^53 and would lose digits in JSON; write a smaller number, or a text in quotes"},
	{name: "no number of samples", old: addAtEnd, new: end("ask: {samples: 0, route: domains}"), want: "13:16: ask.samples: 0 is less than 1; write 1 or more\n13:26: ask.route: \"domains\" is no route; write domain, all, or rules: [{when: …, teachers: […]}]"},

	// Prompts.
	{name: "a domain with a slash", old: "domain: math", new: "domain: a/b", want: `4:13: prompts[0].domain: "a/b" holds a slash or a control character; use a short word such as math or high`},
	{name: "an effort twice", old: "[low, high]", new: "[low, low]", want: `5:20: prompts[0].efforts[1]: "low" is there twice; remove one`},
	{name: "a constant and a column", old: "gold: a}", new: "gold: a, domain: d, effort: e}", want: "6:42: prompts[0].fields.domain: stands beside domain; keep one of the two\n6:53: prompts[0].fields.effort: stands beside efforts; keep one of the two"},
	{name: "no template", old: "fields: {prompt: q, gold: a}", new: "fields: {gold: a}\n    template: '{{.q'", want: "7:15: prompts[0].template: is no template: template:1: unclosed action; fields stand in braces: {{.question}}"},
	{name: "a template and a field", old: "fields:", new: "template: '{{.q}}'\n    fields:", want: "7:22: prompts[0].fields.prompt: stands beside template; keep one of the two"},
	{name: "no field path", old: "prompt: q", new: "prompt: a..b", want: `6:22: prompts[0].fields.prompt: "a..b" is no field; write names joined by dots, such as answer.text`},
	{name: "no pattern", old: "domain: math", new: "domain: math\n    gold_pattern: '('", want: "5:19: prompts[0].gold_pattern: is no regular expression: missing closing ): `(`; RE2 syntax, in single quotes: '####\\s*(.+)$'"},
	{name: "a pattern without a group", old: "domain: math", new: "domain: math\n    gold_pattern: x", want: "5:19: prompts[0].gold_pattern: has no group; put parentheses around the answer: '####\\s*(.+)$'"},
	{name: "a pattern without gold", old: "fields: {prompt: q, gold: a}\n", new: "gold_pattern: (x)\n  - {path: b, domain: math, fields: {gold: g}}\n", want: "6:19: prompts[0].gold_pattern: has nothing to look in; add fields: {gold: …}, the column that holds the answer"},

	// Teachers.
	{name: "an id twice", old: "check:", new: "  - {id: t, base_url: 'http://localhost:1/v1', model: n}\ncheck:", want: `12:10: teachers[1].id: id "t" is taken by teachers[0]; give each teacher an id of its own: id: …`},
	{name: "an id with a space", old: "id: t", new: "id: a b", want: `8:9: teachers[0].id: "a b" is no id; use at most 64 printable characters, no slash and no space`},
	{name: "a reserved id", old: "id: t", new: "id: all", want: `8:9: teachers[0].id: "all" is a word of routes and reports; choose another id`},
	{name: "no model", old: "    model: m\n", new: "", want: "8:5: teachers[0].model: is missing; add model: … as the endpoint calls it"},
	{name: "no address", old: "    base_url: https://api.example.com/v1\n", new: "", want: "8:5: teachers[0].base_url: is missing; add base_url: https://…/v1"},
	{name: "no path of recorded answers", old: "    base_url: https://api.example.com/v1\n    model: m\n    api_key_env: KEY\n", new: "    api: recorded\n", want: "8:5: teachers[0].path: is missing; recorded answers are read from files: add path: …\n8:5: teachers[0].fields.content: is missing; name the column of the answer: fields: {content: …}, or of the conversation: fields: {messages: …}"},
	{name: "an address of recorded answers", old: "    model: m\n    api_key_env: KEY\n", new: "    api: recorded\n    path: x.jsonl\n    fields: {content: a}\n", want: "9:15: teachers[0].base_url: has no use for recorded answers; remove it, or write another api"},
	{name: "a path of an endpoint", old: "    model: m", new: "    model: m\n    path: x.jsonl", want: "11:11: teachers[0].path: is for recorded answers; remove it, or write api: recorded"},
	{name: "another scheme", old: "https://api.example.com/v1", new: "ftp://api.example.com/v1", want: `9:15: teachers[0].base_url: has scheme "ftp", want https or http; write it such as https://api.example.com/v1`},
	{name: "no scheme", old: "https://api.example.com/v1", new: "api.example.com/v1", want: `9:15: teachers[0].base_url: is no address; write it such as https://api.example.com/v1`},
	{name: "a password in the address", old: "https://api.example.com/v1", new: "https://u:secret@api.example.com/v1", want: `9:15: teachers[0].base_url: holds a user or a password; put the key in an environment variable and write api_key_env: NAME`},
	{name: "a query in the address", old: "example.com/v1", new: "example.com/v1?key=secret", want: `9:15: teachers[0].base_url: has a query or a fragment; end it at the version, such as /v1`},
	{name: "an address of one call", old: "example.com/v1", new: "example.com/v1/chat/completions", want: `9:15: teachers[0].base_url: names one call; end it before /chat/completions`},
	{name: "a key in the clear", old: "https://api.example.com/v1", new: "http://10.0.0.1/v1", want: `9:15: teachers[0].base_url: would send the key of api_key_env in the clear; use https, or remove api_key_env`},
	{name: "a key for a name", old: "api_key_env: KEY", new: "api_key_env: sk-secret", want: `11:18: teachers[0].api_key_env: is no variable's name; write the name of the variable that holds the key, never the key`},
	{name: "a key in a header", old: "    model: m", new: "    model: m\n    headers: {Authorization: Bearer secret, Content-Type: x}", want: "11:30: teachers[0].headers.Authorization: a key must not be written into a recipe; put it in an environment variable and write api_key_env: NAME\n11:59: teachers[0].headers.Content-Type: is set by the client; remove it"},
	{name: "keys in other headers", old: "    model: m", new: "    model: m\n    headers: {X-Auth-Token: secret, Ocp-Apim-Subscription-Key: secret, x-team: Bearer secret, X-Monkey: m}", want: "11:29: teachers[0].headers.X-Auth-Token: a key must not be written into a recipe; put it in an environment variable and write api_key_env: NAME\n11:64: teachers[0].headers.Ocp-Apim-Subscription-Key: a key must not be written into a recipe; put it in an environment variable and write api_key_env: NAME\n11:80: teachers[0].headers.x-team: a key must not be written into a recipe; put it in an environment variable and write api_key_env: NAME"},
	{name: "answers too large to keep", old: "    model: m", new: "    model: m\n    limits: {max_bytes: 1GiB}", want: "11:25: teachers[0].limits.max_bytes: 1GiB: so large an answer could not be kept; write 192MiB or less"},
	{name: "parameters of ours", old: "    model: m", new: "    model: m\n    params: {stream: true, n: 4}\n    params_by: {effort: {low: {model: x}}}", want: "11:22: teachers[0].params.stream: is not yours to set; answers are always streamed; remove it\n11:31: teachers[0].params.n: is not yours to set; one answer is asked at a time; write ask: {samples: …}\n12:39: teachers[0].params_by.effort.low.model: is not yours to set; write it as the teacher's model"},

	// Across sections.
	{name: "samples without an end", old: addAtEnd, new: end("ask: {samples: {min: 1, max: 4}}"), want: "13:16: ask.samples: min 1 and max 4, and nothing says when more than min are asked; add until_pass: 1, or write one number"},
	{name: "more passes than samples", old: addAtEnd, new: end("ask: {samples: {max: 4, until_pass: 5}}"), want: "13:37: ask.samples.until_pass: 5 is above max, 4; lower it or raise max"},
	{name: "samples until they pass, and no verifier", old: addAtEnd, new: "ask: {samples: {max: 4, until_pass: 1}}\n", want: "12:37: ask.samples.until_pass: until answers pass, and check has no free verifier that says so; add one under check (judges are asked after all answers have come), or write one number of samples"},
	{name: "drift of nobody", old: "check:", new: "    api: openai-batch\ndrift: {probe: 5}\ncheck:", want: "13:8: drift: no teacher can be probed: recorded answers do not change, and batches are not asked a few prompts; remove it"},
	{name: "an epoch that is a date", old: "    model: m", new: "    model: m\n    epoch: 20261130", want: "11:12: teachers[0].epoch: 20261130 is more than 999999; write 999999 or less"},
	{name: "samples of a batch that depend on each other", old: "check:", new: "    api: openai-batch\nask: {samples: {max: 4, until_pass: 1}}\ncheck:", want: "12:10: teachers[0].api: a batch's answers come together, so none of them can decide how many are asked; write one number under ask.samples, or another api"},
	{name: "a domain without a teacher", old: "    model: m", new: "    model: m\n    serves: [{domain: math, effort: [low]}]", want: `4:13: prompts[0].domain: no teacher serves domain "math" at effort "high"; add it to a teacher's serves, or remove serves to serve everything`},
	{name: "a domain without prompts", old: "    model: m", new: "    model: m\n    serves: [{domain: maths}, {domain: math}]", want: `11:23: teachers[0].serves[0].domain: no prompts have domain "maths"; did you mean "math"?`},
	{name: "an effort without prompts", old: "    model: m", new: "    model: m\n    params_by: {effort: {hihg: {a: 1}}}", want: `11:32: teachers[0].params_by.effort.hihg: no prompts have effort "hihg"; did you mean "high"?`},
	{name: "gold that is not there", old: ", gold: a", new: "", want: "12:20: check[0].verifier: math compares with a gold answer and no prompts have one; add fields: {gold: …} to the prompts, or remove the verifier"},
	{name: "code without tests", old: "verifier: math", new: "verifier: code, language: python", want: "12:20: check[0].verifier: code runs a task's tests and no prompts have any; add fields: {tests: …} to the prompts, or remove the verifier"},
	{name: "no schema", old: "verifier: math", new: "verifier: json_schema", want: "12:20: check[0].verifier: json_schema has no schema; add schema: {…}, or fields: {tests: …} to the prompts for one per task"},
	{name: "calls of no tool", old: "verifier: math", new: "verifier: tool_calls", want: "12:20: check[0].verifier: tool_calls checks calls against the tools that prompts declare and no prompts have any; add fields: {tools: …} to the prompts, or schema: false"},
	{name: "a policy without a verifier", old: addAtEnd, new: "merge: {policy: all_passing}\n", want: "12:17: merge.policy: all_passing needs a verifier and check has none; add one under check, or write policy: union"},
	{name: "a verdict without a verifier", old: addAtEnd, new: "merge: {policy: best_of, accept: pass}\n", want: "12:34: merge.accept: accept pass needs a verifier and check has none; add one under check, or write accept: any"},
	{name: "a pass rate without a verifier", old: addAtEnd, new: "gates: {min_pass_rate: {math: 0.5}}\n", want: "12:24: gates.min_pass_rate: a pass rate needs a verifier and check has none; add one under check, or remove the gate"},
	{name: "a pass rate of an unknown domain", old: addAtEnd, new: end("gates: {min_pass_rate: {mathe: 0.5, math: 2}}"), want: "13:43: gates.min_pass_rate.math: 2 is more than 1; write 1 or less"},
	{name: "splits that do not sum to 1", old: addAtEnd, new: end("output: {splits: {train: 0.9, tests: 0.2}}"), want: "13:18: output.splits: the shares sum to 1.1, want 1; such as {train: 0.98, test: 0.02}\n13:38: output.splits.tests: unknown split \"tests\"; did you mean \"test\"?"},
	{name: "an unknown filter", old: addAtEnd, new: end("filter: [finsh]"), want: `13:10: filter[0]: unknown filter "finsh"; did you mean "finish"?`},
	{name: "options of finish", old: addAtEnd, new: end("filter: [{finish: {max: 1}}, {finish: {}, length: {}}]"), want: "13:20: filter[0].finish.max: unknown key \"max\"; known here: when\n13:43: filter[1].length: a second filter in one entry; start a new entry with a dash"},
	{name: "options that finish has not", old: addAtEnd, new: end("filter: [{finish: {max: 1}}]"), want: "13:20: filter[0].finish.max: unknown key \"max\"; known here: when"},
	{name: "a value of finish", old: addAtEnd, new: end("filter: [{finish: true}]"), want: "13:19: filter[0].finish: is true or false, want keys with values; write it as key: value"},
	{name: "options of filters", old: addAtEnd, new: end("filter: [{length: {max_token: 5}}, {repetition: {total: 1}}, {pii: {action: hide}}, {language: {mixed: 2}}]"), want: "13:20: filter[0].length.max_token: unknown key \"max_token\"; did you mean \"max_tokens\"?\n13:57: filter[1].repetition.total: 1 is less than 2; write 2 or more\n13:77: filter[2].pii.action: \"hide\" is none of drop, mask; known here: drop, mask\n13:104: filter[3].language.mixed: 2 is more than 1; write 1 or less"},
	{name: "a length by its number", old: addAtEnd, new: end("filter: [{length: 500}]"), want: "13:19: filter[0].length: is a number, want keys with values; write it as key: value"},
	{name: "no limit of length", old: addAtEnd, new: end("filter: [length, expr]"), want: "13:10: filter[0]: length has no limit; write one, such as {length: {max_tokens: 16000}}\n13:18: filter[1]: expr has no expression; write what is to be kept, such as {expr: 'len(content) > 10'}"},
	{name: "no expression", old: addAtEnd, new: end("filter: [{expr: {reason: short}}]"), want: "13:17: filter[0].expr.keep: is missing; add keep: …"},
	{name: "a wrong expression", old: addAtEnd, new: end("filter: [{expr: 'len(contnt) > 10'}, {expr: {keep: 'true', reason: 'a b'}}]"), want: "13:22: filter[0].expr: unknown name \"contnt\"; did you mean \"content\"?\n13:68: filter[1].expr.reason: \"a b\" is no name; start with a lower-case letter or a digit and use only those, '-', '_' and '.', at most 63"},
	{name: "a hand-off without a student", old: addAtEnd, new: end("handoff: {trainer: trl}"), want: "13:10: handoff: there is no student to train; add student: {model: …}"},

	// Conditions.
	{name: "an unknown name", old: "{verifier: math}", new: "{verifier: math, when: domian == \"math\"}", want: `12:32: check[0].when: unknown name "domian"; did you mean "domain"?`},
	{name: "an unquoted word", old: "{verifier: math}", new: "{verifier: math, when: 'domain == math'}", want: `12:43: check[0].when: unknown name "math"; texts stand in quotes; known names: ` + strings.Join(whenWords, ", ")},
	{name: "no condition", old: "{verifier: math}", new: "{verifier: math, when: domain}", want: `12:32: check[0].when: is no expression: expected bool, but got string; write it such as domain == "math" and len(content) > 10`},
	{name: "a broken condition", old: "{verifier: math}", new: "{verifier: math, when: 'domain =='}", want: `12:41: check[0].when: is no expression: unexpected token EOF; write it such as domain == "math" and len(content) > 10`},
	{name: "a loop", old: "{verifier: math}", new: "{verifier: math, when: 'any(1..3, true)'}", want: "12:38: check[0].when: ranges are not allowed in a condition; compare fields with ==, in, contains, matches and join them with and, or, not"},
	{name: "an empty condition", old: "{verifier: math}", new: "{verifier: math, when: ' '}", want: "12:33: check[0].when: the expression is empty; remove the key to match everything"},

	// What this version does not carry out.
	{name: "a budget of nobody", old: addAtEnd, new: end("ask: {budget: {usd: 5, teachers: {x: 1}}}"), want: `13:38: ask.budget.teachers.x: no teacher has this id; did you mean "t"?`},
	{name: "rules", old: addAtEnd, new: end("ask: {route: {rules: [{when: 'content == \"math\"', teachers: [u]}, {teachers: [t], fallback: [t, nobody]}, {teachers: [t]}]}}"), want: "13:30: ask.route.rules[0].when: \"content\" is of an answer, and a task is routed before it has any; known of a task: domain, effort, gold, group, meta\n13:62: ask.route.rules[0].teachers[0]: no teacher has the id \"u\"; did you mean \"t\"?\n13:94: ask.route.rules[1].fallback[0]: teacher \"t\" is there already, as ask.route.rules[1].teachers[0]; it is asked once: remove one\n13:97: ask.route.rules[1].fallback[1]: no teacher has the id \"nobody\"; known here: t\n13:107: ask.route.rules[2]: is never reached: ask.route.rules[1] has no when and takes every task; move that one to the end"},
	{name: "an unknown profile", old: "    model: m", new: "    model: m\n    profile: openia", want: `11:14: teachers[0].profile: "openia" is none of anthropic, anthropic-compat, anthropic-generic, deepseek, deepseek-anthropic, generic, llamacpp, moonshot, moonshot-anthropic, ollama, openai, openrouter, sglang, vllm; did you mean "openai"?`},
	{name: "a profile of another protocol", old: "    model: m", new: "    model: m\n    api: anthropic\n    profile: {base: vllm, cap_field: max_completion_tokens, reasoning_history: reasoning}", want: "12:14: teachers[0].profile: \"vllm\" is for api: openai; write one of anthropic, anthropic-generic, deepseek-anthropic, moonshot-anthropic\n12:38: teachers[0].profile.cap_field: api: anthropic knows max_tokens only; remove it\n12:80: teachers[0].profile.reasoning_history: \"reasoning\" is not of api: anthropic; write thinking, thinking_signed or none"},
	{name: "other APIs", old: "    model: m", new: "    model: m\n    api: anthropic\n    limits: {tpm: -5}", want: "12:19: teachers[0].limits.tpm: -5 is less than 0; write 0 or more"},
	{name: "groups", old: addAtEnd, new: "check:\n  - {all: []}\n  - {verifier: exact, any: [{verifier: exact}]}\n  - {when: 'true'}\n  - {weighted: [{verifier: math, weight: 0}]}\n  - {first: [{verifier: math, weight: 2}], pass_at: 1, timeout: 5s}\n  - {any: [{any: [{any: [{verifier: math}]}]}]}\n  - {verifier: math, when: verdict == 'pass'}\n  - {all: [{verifier: math}], when: score > 1}\n", want: "13:11: check[0].all: is an empty group; give it at least one verifier\n14:28: check[1].any: stands beside verifier; an entry is one verifier or one group: start a new entry with a dash\n15:5: check[2]: names no verifier; write verifier: …, or a group: all, any, first or weighted\n16:5: check[3]: a weighted group needs a pass_at above 0 and at most 1; write the share of the weights from which it passes, such as pass_at: 0.7\n16:42: check[3].weighted[0].weight: is 0, so that the member counts for nothing; raise it, or remove the member\n17:39: check[4].first[0].weight: stands outside of a weighted group; remove it, or write weighted: [{verifier: …, weight: …}] with pass_at\n17:53: check[4].pass_at: is no key of a group; known beside first: when\n17:65: check[4].timeout: a group has no timeout; give it to a member\n18:25: check[5].any[0].any[0].any: is a group in a group in a group; two levels are the most\n19:28: check[6].when: looks at the verdict, and math is one of those that give it; only judge and reward are asked after the others; to ask one verifier where another does not know, write first: […]\n20:37: check[7].when: looks at the verdict, and the members of the group are what gives one; use it on a judge or a reward model, which are asked after the others"},
}

func TestBadRecipes(t *testing.T) {
	if _, err := Parse("r.yaml", []byte(base)); err != nil {
		t.Fatal(err)
	}
	for _, tc := range badRecipes {
		t.Run(tc.name, func(t *testing.T) {
			text := tc.text()
			if text == base {
				t.Fatal("the case changes nothing")
			}
			_, err := Parse("r.yaml", []byte(text))
			if err == nil {
				t.Fatal("accepted")
			}
			got := strings.ReplaceAll(err.Error(), "r.yaml:", "")
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
			if strings.Contains(got, "secret") {
				t.Error("the error shows a secret")
			}
		})
	}
}
