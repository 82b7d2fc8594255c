package cli

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

// canary stands for a key. It must never be repeated.
const canary = "sk-canary-3f9c2a7d51"

// A badInput is a command that must be refused: with the right code, in words
// that name the place and the next step.
type badInput struct {
	name  string
	files map[string]string // beside the recipe r.yaml; a folder ends with /
	args  string            // by white space; default: plan r.yaml
	env   map[string]string
	code  int // default exitUsage
	say   []string
}

// recorded is a good recipe over p.jsonl; badly is one with a part replaced.
const recorded = `name: bad
prompts:
  - path: p.jsonl
    fields: {prompt: q, gold: a}
teachers:
  - id: r
    api: recorded
    path: p.jsonl
    fields: {prompt: q, content: c}
`

// asking is a good recipe that asks an endpoint.
const asking = `name: bad
prompts:
  - path: p.jsonl
    fields: {prompt: q, gold: a}
teachers:
  - id: t
    base_url: https://api.example.com/v1
    model: m
    api_key_env: TEACHER_KEY
`

const rowsOf = `{"q":"one","a":"1","c":"1"}
{"q":"two","a":"2","c":"2"}
`

func badly(recipe, old, new string) map[string]string {
	if !strings.Contains(recipe, old) {
		panic("the recipe has no " + old)
	}
	return map[string]string{"r.yaml": strings.Replace(recipe, old, new, 1)}
}

// with adds a file.
func with(files map[string]string, name, text string) map[string]string {
	files = maps.Clone(files)
	files[name] = text
	return files
}

func source(name, text string) map[string]string {
	return with(badly(recorded, "- path: p.jsonl", "- path: "+name), name, text)
}

func zipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		panic(err)
	}
	if err := z.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

// parquetFile is a good file of rows.
func parquetFile(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	w, err := parquetio.NewWriter[datasets.Row](&b, parquetio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := candidatesOf(1)[0]
	if err := w.Write([]datasets.Row{datasets.RowOf(&c)}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func badRecipes() []badInput {
	return []badInput{
		{name: "no recipe", args: "plan none.yaml", say: []string{"none.yaml: there is no such recipe", "stillhouse init"}},
		{name: "a folder for a recipe", files: map[string]string{"d.yaml/": ""}, args: "plan d.yaml", say: []string{"d.yaml: is a folder", "name the .yaml file"}},
		{name: "an empty recipe", files: map[string]string{"r.yaml": ""}, say: []string{"r.yaml:1:1: the file is empty", "stillhouse init"}},
		{name: "a binary recipe", files: map[string]string{"r.yaml": "\x7fELF\x02\x01\x01\x00\xff\xfe\x00"}, say: []string{"r.yaml:1:9: byte 0xff", "save the file as UTF-8"}},
		{name: "a recipe of 2 MB", files: map[string]string{"r.yaml": strings.Repeat("# and one more line of this\n", 80_000)}, say: []string{"r.yaml:1:1: the file is larger than 1 MiB", "keep prompts in files of their own"}},
		{name: "a recipe that is no YAML", files: badly(recorded, "    fields: {prompt: q, gold: a}", "\tfields: {prompt: q, gold: a}"), say: []string{"r.yaml:4:1:", "spaces, no tabs"}},
		{name: "nothing but faults", files: map[string]string{"r.yaml": "a: 1\n" + strings.Repeat("x: 1\n", 5000)}, say: []string{"r.yaml:1:1:", "and 38 more lines", "correct the first ones"}},
		{name: "an unknown key", files: badly(recorded, "teachers:", "techers:"), say: []string{`r.yaml:5:1: techers: unknown key "techers"`, `did you mean "teachers"?`}},
		{name: "an unknown key of a teacher", files: badly(asking, "model: m", "temperature: 0.2\n    model: m"), say: []string{"r.yaml:8:5: teachers[0].temperature", "params: {temperature: …}"}},
		{name: "a key that takes the terminal over", files: badly(recorded, "teachers:", "\"\\e[2J\\e]0;x\\a\": 1\nteachers:"), say: []string{"r.yaml:5:1:", "unknown key"}},
		{name: "a missing key", files: badly(recorded, "name: bad\n", ""), say: []string{"r.yaml:1:1: name: is missing", "add name: …"}},
		{name: "an id twice", files: badly(recorded, "  - id: r\n", "  - {id: r, api: recorded, path: p.jsonl, fields: {prompt: q, content: a}}\n  - id: r\n"), say: []string{`r.yaml:7:9: teachers[1].id: id "r" is taken by teachers[0]`, "an id of its own"}},
		{name: "a negative limit", files: badly(asking, "model: m", "model: m\n    limits: {concurrency: -4, rpm: -1}"), say: []string{"r.yaml:9:27: teachers[0].limits.concurrency: -4 is less than 1", "write 1 or more", "teachers[0].limits.rpm: -1"}},
		{name: "a limit without a unit", files: badly(asking, "model: m", "model: m\n    limits: {first_byte: 30}"), say: []string{"r.yaml:9:26:", "write it such as 90s"}},
		{name: "no samples", files: badly(recorded, "teachers:", "ask: {samples: 0}\nteachers:"), say: []string{"r.yaml:5:16: ask.samples: 0 is less than 1"}},
		{name: "a domain without a teacher", files: badly(recorded, "    api: recorded", "    serves: [{domain: code}]\n    api: recorded"), say: []string{"r.yaml:", `no teacher serves domain "default"`, "add it to a teacher's serves"}},
		{name: "a route to nobody", files: badly(recorded, "teachers:", "ask: {route: {rules: [{teachers: [gpt]}]}}\nteachers:"), say: []string{`ask.route.rules[0].teachers[0]: no teacher has the id "gpt"`, "known here: r"}},
		{name: "an unknown verifier", files: badly(recorded, "teachers:", "check: [{verifier: maths}]\nteachers:"), say: []string{`r.yaml:5:20: check[0].verifier: "maths" is none of`, `did you mean "math"?`}},
		{name: "a verifier's pattern that is none", files: badly(recorded, "teachers:", "check: [{verifier: regex, pattern: '('}]\nteachers:"), say: []string{"r.yaml:5:", "check[0]"}},
		{name: "a verifier's option that is none", files: badly(recorded, "teachers:", "check: [{verifier: exact, casing: lower}]\nteachers:"), say: []string{"r.yaml:5:", "check[0]", "casing"}},
		{name: "an unknown filter", files: badly(recorded, "teachers:", "filter: [finnish]\nteachers:"), say: []string{"r.yaml:5:10:", `did you mean "finish"?`}},
		{name: "a policy that needs a verifier", files: badly(recorded, "teachers:", "merge: {policy: all_passing}\nteachers:"), say: []string{"r.yaml:5:", "merge.policy", "check"}},
		{name: "splits that do not add up", files: badly(recorded, "teachers:", "output: {splits: {train: 0.7, test: 0.1}}\nteachers:"), say: []string{"r.yaml:5:", "output.splits"}},
		{name: "a condition that is none", files: badly(recorded, "teachers:", "check: [{verifier: exact, when: 'domain = \"x\"'}]\nteachers:"), say: []string{"r.yaml:5:41: check[0].when: is no expression", "write it such as"}},
		{name: "a token cap that is none", files: badly(asking, "model: m", "model: m\n    params: {max_tokens: many}"), say: []string{"r.yaml:9:13: teachers[0].params", "max_tokens", "not a positive number of tokens"}},
		{name: "a token cap given twice", files: badly(asking, "model: m", "model: m\n    params: {max_tokens: 10, max_completion_tokens: 20}"), say: []string{"r.yaml:9:13: teachers[0].params", "keep one of max_tokens and max_completion_tokens"}},
		{name: "an unset key variable", files: badly(asking, "name: bad", "name: unset"), args: "build r.yaml", say: []string{"r.yaml:9:18: teachers[0].api_key_env: variable TEACHER_KEY is not set", "export TEACHER_KEY=…"}},
		{name: "a key in the recipe", files: badly(asking, "api_key_env: TEACHER_KEY", "api_key: "+canary), say: []string{"r.yaml:9:5: teachers[0].api_key: a key must not be written into a recipe", "api_key_env: NAME"}},
		{name: "a key for its name", files: badly(asking, "TEACHER_KEY", canary), say: []string{"r.yaml:9:18:", "never the key"}},
		{name: "a key in a header", files: badly(asking, "api_key_env: TEACHER_KEY", "headers: {Authorization: Bearer "+canary+"}"), say: []string{"r.yaml:9:30:", "api_key_env: NAME"}},
		{name: "a key in the parameters", files: badly(asking, "api_key_env: TEACHER_KEY", "params: {api_key: "+canary+"}"), say: []string{"r.yaml:9:", "api_key_env: NAME"}},
		{name: "a key in the address", files: badly(asking, "https://api", "https://me:"+canary+"@api"), say: []string{"r.yaml:7:15: teachers[0].base_url", "api_key_env: NAME"}},
		{name: "a key in the query", files: badly(asking, "com/v1", "com/v1?key="+canary), say: []string{"r.yaml:7:15: teachers[0].base_url: has a query"}},
		{name: "a key in the clear", files: badly(asking, "https://api", "http://api"), env: map[string]string{"TEACHER_KEY": canary}, args: "build r.yaml", say: []string{"r.yaml:7:15: teachers[0].base_url: would send the key", "use https"}},
		{name: "a loopback teacher on a shared store", files: badly(asking, "https://api.example.com", "http://127.0.0.1:8000"), env: map[string]string{"TEACHER_KEY": canary, "AWS_REGION": "x"}, args: "build r.yaml --store s3://bucket", say: []string{"r.yaml:7:15:", "add identity: NAME"}},
		{name: "pairs of what nobody judges", files: badly(recorded, "teachers:", "pairs: {margin: 0.1}\nteachers:"), say: []string{"r.yaml:5:8: pairs:", "check has none", "remove it"}},
	}
}

func badSources(t *testing.T) []badInput {
	t.Helper()
	parquet := parquetFile(t)
	return []badInput{
		{name: "a missing file", files: badly(recorded, "- path: p.jsonl", "- path: gone/p.jsonl"), say: []string{"r.yaml:3:11: prompts[0].path: find gone/p.jsonl: no file matches", "check the path, which starts at the recipe's folder"}},
		{name: "a missing file of answers", files: badly(recorded, "    path: p.jsonl", "    path: gone.jsonl"), say: []string{"r.yaml:8:11: teachers[0].path: find gone.jsonl: no file matches"}},
		{name: "an empty file", files: source("e.jsonl", ""), say: []string{"r.yaml:3:11: prompts[0].path:", "e.jsonl is empty", "remove it or fill it"}},
		{name: "a folder without files", files: source("docs/", ""), say: []string{"r.yaml:3:11: prompts[0].path: find docs/: no file matches"}},
		{name: "a pattern that is none", files: badly(recorded, "- path: p.jsonl", "- path: '[p.jsonl'"), say: []string{"r.yaml:3:11:", "a [ in the pattern has no ]; close it"}},
		{name: "an unknown format", files: source("p.txt", "x"), say: []string{"r.yaml:3:11:", "p.txt is of no known format", ".jsonl"}},
		{name: "a URL of the web", files: badly(recorded, "- path: p.jsonl", "- path: https://example.com/p.jsonl"), say: []string{"r.yaml:3:11:", "want a path or an s3:// URL"}},
		{name: "a bad byte", files: source("b.jsonl", rowsOf+"{\"q\":\"\xff\"}\n"), say: []string{"b.jsonl:3: holds bytes that are not UTF-8", "save the file as UTF-8"}},
		{name: "a line of 30 MB", files: source("l.jsonl", rowsOf+`{"q":"`+strings.Repeat("long ", 6_000_000)+`"}`), say: []string{"l.jsonl:3: the line is larger than 16777216 bytes", "shorten it or split the file"}},
		{name: "lines that are no JSON", files: source("j.jsonl", strings.Repeat("question,answer\n", 10_000)), say: []string{"j.jsonl:1: is not JSON", "at least 5 bad row(s)", "raise bad_rows"}},
		{name: "rows without the field", files: source("f.jsonl", `{"question":"one"}`+"\n"), say: []string{"f.jsonl:1: has no field q", `its fields are "question"`}},
		{name: "a template with a field that is not there", files: with(map[string]string{"r.yaml": strings.Replace(recorded, "fields: {prompt: q, gold: a}", "template: 'Say {{.word}}'", 1)}, "p.jsonl", rowsOf), say: []string{"p.jsonl:1: template:", `"word"`, `its fields are "a", "c", "q"`}},
		{name: "a gold pattern that never matches", files: badly(recorded, "fields: {prompt: q, gold: a}", "fields: {prompt: q, gold: a}\n    gold_pattern: '####\\s*(.+)$'"), say: []string{"p.jsonl:1: gold_pattern finds nothing in field a", "2 bad row(s)"}},
		{name: "a domain of a column without a teacher", files: with(badly(recorded, "gold: a}\nteachers:\n  - id: r", "gold: a, domain: d}\nteachers:\n  - id: r\n    serves: [{domain: math}]"), "p.jsonl", `{"q":"one","a":"1","c":"1","d":"math"}`+"\n"+`{"q":"two","a":"2","c":"2","d":"law"}`+"\n"), say: []string{"p.jsonl:2: no teacher serves domain \"law\"", "add it to a teacher's serves"}},
		{name: "a CSV without a header", files: source("h.csv", "what is one,1\nwhat is two,2\n"), say: []string{"h.csv:2: has no field q", `"what is one"`}},
		{name: "a CSV of blank lines", files: source("h.csv", "\n\n"), say: []string{"h.csv: has no header: its first line is blank"}},
		{name: "a CSV of nothing but a header", files: source("h.csv", "q,a\n"), say: []string{"no prompts: h.csv hold no rows", "put rows into them"}},
		{name: "a CSV with a column twice", files: source("h.csv", "q,q\n1,2\n"), say: []string{`h.csv: header: column "q" is there twice`, "rename one"}},
		{name: "a JSON file that is an object", files: source("o.json", `{"rows":[]}`), say: []string{"o.json: holds an object, want an array of rows", ".jsonl"}},
		{name: "a JSON file cut off", files: source("o.json", `[{"q":"one"},{"q":`), say: []string{"o.json: the array ends too early, in row 2"}},
		{name: "a Parquet file cut off", files: source("t.parquet", parquet[:len(parquet)*2/3]), say: []string{"t.parquet: damaged Parquet file", "cut short"}},
		{name: "a Parquet file that is none", files: source("t.parquet", strings.Repeat("not parquet ", 100)), say: []string{"t.parquet: damaged Parquet file"}},
		{name: "a Parquet file without the column", files: source("t.parquet", parquet), say: []string{"t.parquet#1: has no field q", `"messages"`}},
		{name: "gzip that is none", files: source("z.jsonl.gz", rowsOf), say: []string{"z.jsonl.gz: is not gzip"}},
		{name: "gzip cut off", files: source("z.jsonl.gz", zipped(strings.Repeat(rowsOf, 2000))[:90]), say: []string{"z.jsonl.gz: after line"}},
		{name: "answers of a list for a text", files: with(badly(recorded, "fields: {prompt: q, gold: a}", "fields: {prompt: q, gold: a, effort: e}"), "p.jsonl", `{"q":"one","e":["low"],"c":"1"}`+"\n"), say: []string{"p.jsonl:1: field e is a list, want a text"}},
	}
}

func badLines() []badInput {
	return []badInput{
		{name: "an unknown command", args: "plna r.yaml", say: []string{`unknown command "plna"`, `did you mean "plan"?`}},
		{name: "an unknown command below another", args: "schedule creat x", say: []string{`"creat"`, `did you mean "create"?`}},
		{name: "an unknown flag", args: "plan r.yaml --bugdet 3", say: []string{"unknown flag: --bugdet", "stillhouse plan --help"}},
		{name: "no argument", args: "build", say: []string{"usage: stillhouse build RECIPE"}},
		{name: "too many arguments", args: "plan r.yaml s.yaml", say: []string{"usage: stillhouse plan RECIPE"}},
		{name: "a store that is none", args: "plan r.yaml --store garbage", say: []string{`--store: store "garbage"`, "want s3://bucket or s3://bucket/prefix"}},
		{name: "a store without a bucket", args: "build r.yaml --store s3://", say: []string{`--store: store "s3://" names no bucket`}},
		{name: "a store without credentials", args: "list --store s3://bucket", code: exitUnreachable, env: map[string]string{"AWS_EC2_METADATA_DISABLED": "true"}, say: []string{"s3://bucket", "no AWS credentials", "set AWS_ACCESS_KEY_ID"}},
		{name: "Temporal without a store", args: "build r.yaml --temporal 127.0.0.1:1", say: []string{"--temporal needs --store", "s3://bucket/prefix"}},
		{name: "nobody serves the home", args: "watch", say: []string{"no services are running", "stillhouse serve"}},
		{name: "a build that nobody would run", args: "build r.yaml --detach", say: []string{"build --detach needs services that outlive it", "stillhouse serve"}},
		{name: "a schedule that nobody would run", args: "schedule create nightly r.yaml --every 6h", say: []string{"schedule create needs services", "stillhouse serve"}},
		{name: "a dataset that is not there", args: "show nothing", say: []string{"nothing: no version has been published", "datasets there: maths, plain, secret"}},
		{name: "a version that is not there", args: "verify maths@99", say: []string{"maths@99: no such version"}},
		{name: "a reference that is none", args: "head maths@", say: []string{`invalid reference "maths@"`, "a version number, a tag or sha256:…"}},
		{name: "a path for a reference", args: "export ../../etc out", say: []string{`"../../etc"`}},
		{name: "a condition with a fault", args: "head maths --where teacher=1", say: []string{"--where: column 8:"}},
		{name: "a view that is not there", args: "export maths out --view parrots", say: []string{`unknown view "parrots"`, "there are: axolotl", "messages, "}},
		{name: "a folder that holds something else", files: map[string]string{"mine/thesis.txt": "Years of work."}, args: "export maths mine", code: exitFailed, say: []string{"destination is not empty", "name a new or empty folder"}},
		{name: "no such starter", args: "init --for gpt", say: []string{"--for gpt: want one of openai"}},
		{name: "a worker of nothing", args: "worker", say: []string{"worker needs a Temporal server", "--temporal HOST:PORT"}},
	}
}

// Every bad recipe, source and command line is refused in words that help, and
// costs nothing that was there before.
func TestBadInput(t *testing.T) {
	home := filepath.Join(t.TempDir(), "home")
	store := filepath.Join(home, "store", "stillhouse")
	if err := plant(store); err != nil {
		t.Fatal(err)
	}
	before := digestsOf(t, store)
	cases := slices.Concat(badRecipes(), badSources(t), badLines())
	if len(cases) < 70 {
		t.Errorf("%d cases", len(cases))
	}
	for _, bad := range cases {
		t.Run(bad.name, func(t *testing.T) { bad.run(t, home) })
	}
	if diff := cmp.Diff(before, digestsOf(t, store)); diff != "" {
		t.Errorf("the store changed: %s", diff)
	}
	a, _, talk := newApp(t, nil)
	if code := a.run(t.Context(), []string{"--home", home, "verify", "maths@2"}); code != exitDone {
		t.Errorf("what was published does not verify any more: %d: %s", code, talk)
	}
	noCanary(t, home)
}

func (b *badInput) run(t *testing.T, home string) {
	dir := t.TempDir()
	t.Chdir(dir)
	lay(t, dir, map[string]string{"r.yaml": recorded, "p.jsonl": rowsOf})
	lay(t, dir, b.files)
	args := strings.Fields(b.args)
	if len(args) == 0 {
		args = []string{"plan", "r.yaml"}
	}
	want := b.code
	if want == 0 {
		want = exitUsage
	}
	a, out, talk := newApp(t, b.env)
	for name, value := range b.env {
		t.Setenv(name, value)
	}
	code := a.run(t.Context(), append([]string{"--home", home}, args...))
	said := talk.String()
	if code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	for _, text := range b.say {
		if !strings.Contains(said, text) {
			t.Errorf("it does not say %q", text)
		}
	}
	if out.Len() > 0 {
		t.Errorf("stdout holds %q", out)
	}
	civil(t, said)
	if t.Failed() {
		t.Logf("it says: %s", said)
	}
}

// civil checks that a message is short, safe for a terminal and no dump.
func civil(t *testing.T, said string) {
	t.Helper()
	const most = 15
	if n := strings.Count(said, "\n"); n == 0 || n > most {
		t.Errorf("%d lines on stderr, want 1 to %d", n, most)
	}
	for line := range strings.Lines(said) {
		if len(line) > 1000 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	for _, never := range []string{"panic", "goroutine ", ".go:", "runtime error", "%!", "<nil>", canary} {
		if strings.Contains(said, never) {
			t.Errorf("it says %q", never)
		}
	}
	if said != printable(said) {
		t.Errorf("it holds control characters: %q", said)
	}
}

// lay writes files; a name that ends with / is a folder.
func lay(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if strings.HasSuffix(name, "/") {
			if err := os.MkdirAll(path, 0o700); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// digestsOf lists the files below a folder with their digests.
func digestsOf(t *testing.T, root string) map[string]string {
	t.Helper()
	out := map[string]string{}
	eachFile(t, root, func(path string, data []byte) { out[path] = fmt.Sprintf("%x", sha256.Sum256(data)) })
	return out
}

func noCanary(t *testing.T, root string) {
	t.Helper()
	eachFile(t, root, func(path string, data []byte) {
		if bytes.Contains(data, []byte(canary)) {
			t.Errorf("%s holds the key", path)
		}
	})
}

func eachFile(t *testing.T, root string, f func(path string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		f(path, data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A home that cannot be one is named, with what to do instead.
func TestBadHomes(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir, map[string]string{
		"r.yaml": recorded, "p.jsonl": rowsOf, "file": "x", "noRun/run": "x", "noStore/store": "x",
	})
	for _, tc := range []struct {
		name, home, args string
		code             int
		say              []string
	}{
		{"a file for a home", "file", "list", exitUsage, []string{"file can't be used", "--home or STILLHOUSE_HOME"}},
		{"a home below a file", "file/home", "plan r.yaml", exitUsage, []string{"file/home can't be used", "--home or STILLHOUSE_HOME"}},
		{"a file in place of a folder of the home", "noRun", "list", exitUsage, []string{"noRun can't be used", "--home or STILLHOUSE_HOME"}},
		{"a file in place of the store", "noStore", "list", exitUnreachable, []string{"noStore", "not a directory", "stillhouse doctor", "--home"}},
		{"a home where nothing can be made", "/proc/stillhouse", "list", exitUsage, []string{"/proc/stillhouse can't be used", "--home or STILLHOUSE_HOME"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Chdir(dir)
			a, _, talk := newApp(t, nil)
			code := a.run(t.Context(), append([]string{"--home", tc.home}, strings.Fields(tc.args)...))
			for _, text := range tc.say {
				if !strings.Contains(talk.String(), text) {
					t.Errorf("it does not say %q: %s", text, talk)
				}
			}
			if code != tc.code {
				t.Errorf("exit code %d, want %d: %s", code, tc.code, talk)
			}
			civil(t, talk.String())
		})
	}
}

// A home that this user may not write is refused; a superuser may write all.
func TestAHomeThatMayNotBeWritten(t *testing.T) {
	if syscall.Geteuid() == 0 {
		t.Skip("a superuser may write everywhere")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o500); err != nil {
		t.Fatal(err)
	}
	a, _, talk := newApp(t, nil)
	if code := a.run(t.Context(), []string{"--home", filepath.Join(dir, "home"), "list"}); code != exitUsage || !strings.Contains(talk.String(), "--home or STILLHOUSE_HOME") {
		t.Errorf("ended with %d: %s", code, talk)
	}
}

// A pipe would be waited for until somebody writes to it.
func TestPipesAreNotWaitedFor(t *testing.T) {
	dir := t.TempDir()
	lay(t, dir, map[string]string{"r.yaml": strings.Replace(recorded, "- path: p.jsonl", "- path: pipe.jsonl", 1), "p.jsonl": rowsOf})
	for _, name := range []string{"pipe.jsonl", "pipe.yaml"} {
		if err := syscall.Mkfifo(filepath.Join(dir, name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for recipe, want := range map[string]string{"r.yaml": "pipe.jsonl is not a plain file", "pipe.yaml": "want a recipe file"} {
		a, _, talk := newApp(t, nil)
		code := a.run(t.Context(), []string{"--home", a.homeDir, "plan", filepath.Join(dir, recipe)})
		if code != exitUsage || !strings.Contains(talk.String(), want) {
			t.Errorf("%s: ended with %d: %s", recipe, code, talk)
		}
	}
}
