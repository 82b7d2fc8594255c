//go:build integration

package badinput

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// All bad input meets one home that serves, and that holds a good version.
// Whatever is done to it, that version stays as it is.
func TestNothingPublishedIsLost(t *testing.T) {
	h := &house{dir: filepath.Join(t.TempDir(), "home")}
	good := lay(t, map[string]string{"p.jsonl": rows(50), "r.yaml": goodRecipe})
	h.must(t, good, "build", "r.yaml")
	h.serve(t)
	data := filepath.Join(h.dir, "store", "stillhouse", "datasets", "good")
	before, shown := digests(t, data), h.show(t, "good")

	t.Run("endpoints", func(t *testing.T) {
		for i, b := range badEndpoints() {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				b.run(t, h, fmt.Sprintf("endpoint-%02d", i))
			})
		}
	})
	t.Run("builds", func(t *testing.T) {
		for i, b := range badBuilds() {
			t.Run(b.name, func(t *testing.T) {
				t.Parallel()
				b.run(t, h, fmt.Sprintf("build-%02d", i))
			})
		}
	})
	t.Run("commands", func(t *testing.T) {
		for _, c := range badCommands() {
			t.Run(c.name, func(t *testing.T) { c.run(t, h) })
		}
	})

	if diff := cmp.Diff(before, digests(t, data)); diff != "" {
		t.Errorf("what was published changed: %s", diff)
	}
	if now := h.show(t, "good"); now != shown {
		t.Errorf("another version is shown: %s, not %s", now, shown)
	}
	h.must(t, good, "verify", "good")
	var again result
	decode(t, h.must(t, good, "build", "r.yaml", "--json").out, &again)
	if !again.Unchanged || again.Version != 1 {
		t.Errorf("building it again: %+v, want version 1, unchanged", again)
	}
	for _, name := range []string{"endpoint-00", "build-00"} {
		if s := h.do(t, "", "show", name); s.code != exitUsage {
			t.Errorf("something of %s was published: %v", name, s)
		}
	}
	noCanary(t, h.dir)
}

// A badBuild is a build whose services are well.
type badBuild struct {
	name   string
	recipe string // %s is the dataset's name
	files  map[string]string
	want   want
}

const recordedRecipe = `name: %s
prompts:
  - path: p.jsonl
    fields: {prompt: q, gold: a}
teachers:
  - {id: r, api: recorded, path: p.jsonl, fields: {prompt: q, content: c}}
`

func changed(old, new string) string {
	if !strings.Contains(recordedRecipe, old) {
		panic("the recipe has no " + old)
	}
	return strings.Replace(recordedRecipe, old, new, 1)
}

func badBuilds() []badBuild {
	prompts := func(name string) string { return changed("path: p.jsonl\n", "path: "+name+"\n") }
	answers := func(name string) string { return changed("path: p.jsonl,", "path: "+name+",") }
	refused := func(say ...string) want { return want{exitUsage, say, 0} }
	held := func(say ...string) want {
		return want{exitGate, append([]string{"nothing was published"}, say...), 0}
	}
	return []badBuild{
		{"a missing file", prompts("gone.jsonl"), nil, refused("r.yaml:3:11: prompts[0].path: find gone.jsonl: no file matches", "check the path")},
		{"a bad byte", prompts("b.jsonl"), map[string]string{"b.jsonl": rows(2) + "{\"q\":\"\xff\"}\n"}, refused("b.jsonl:3: holds bytes that are not UTF-8", "save the file as UTF-8")},
		{"a line of 30 MB", prompts("l.jsonl"), map[string]string{"l.jsonl": rows(2) + `{"q":"` + strings.Repeat("long ", 6_000_000) + `"}`}, refused("l.jsonl:3: the line is larger than 16777216 bytes")},
		{"a JSON file that is an object", prompts("o.json"), map[string]string{"o.json": `{"rows":[]}`}, refused("o.json: holds an object, want an array of rows")},
		{"a JSON file cut off", prompts("o.json"), map[string]string{"o.json": `[{"q":"x"},{"q":`}, refused("o.json: the array ends too early, in row 2")},
		{"a Parquet file that is none", prompts("t.parquet"), map[string]string{"t.parquet": strings.Repeat("x", 2000)}, refused("t.parquet: damaged Parquet file")},
		{"gzip that is none", prompts("z.jsonl.gz"), map[string]string{"z.jsonl.gz": rows(2)}, refused("z.jsonl.gz: is not gzip")},
		{"a domain of a column without a teacher", "name: %s\nprompts: [{path: d.jsonl, fields: {prompt: q, domain: d}}]\nteachers: [{id: r, api: recorded, path: p.jsonl, fields: {prompt: q, content: c}, serves: [{domain: math}]}]\n", map[string]string{"d.jsonl": `{"q":"one","d":"math"}` + "\n" + `{"q":"two","d":"law"}` + "\n"}, refused(`d.jsonl:2: no teacher serves domain "law"`, "add it to a teacher's serves")},
		{"a gold pattern that never matches", changed("gold: a}", "gold: a}\n    gold_pattern: '####(.*)'"), nil, refused("p.jsonl:1: gold_pattern finds nothing in field a", "raise bad_rows")},
		{"recorded answers that are an object", answers("o.json"), map[string]string{"o.json": `{"rows":[]}`}, refused("teacher r: read o.json: holds an object, want an array of rows")},
		{"recorded answers cut off", answers("o.json"), map[string]string{"o.json": `[{"q":"x","c":"1"},{"q":`}, refused("teacher r: read o.json: the array ends too early")},
		{"recorded answers to other prompts", answers("o.jsonl"), map[string]string{"o.jsonl": `{"q":"something else","c":"1"}` + "\n"}, held("no answer was accepted")},
		{"a gate on the rows", recordedRecipe + "gates: {min_rows: 1000}\n", nil, held("min_rows", "1,000", "980 too few")},
		{"a gate on the pass rate", recordedRecipe + "check: [{verifier: regex, pattern: '^no$'}]\nmerge: {accept: any}\ngates: {min_pass_rate: {default: 0.5}}\n", nil, held("min_pass_rate", "default")},
		{"nothing that passes", recordedRecipe + "check: [{verifier: regex, pattern: '^no$'}]\n", nil, held("no answer was accepted")},
	}
}

func (b *badBuild) run(t *testing.T, h *house, name string) {
	files := map[string]string{"p.jsonl": rows(20), "r.yaml": fmt.Sprintf(b.recipe, name)}
	for n, text := range b.files {
		files[n] = text
	}
	b.want.check(t, h.do(t, lay(t, files), "build", "r.yaml", "--json"))
}

// A badCommand meets services that run.
type badCommand struct {
	name string
	args string
	want want
}

func badCommands() []badCommand {
	refused := func(say ...string) want { return want{exitUsage, say, 0} }
	return []badCommand{
		{"a home that is served", "serve", refused("serves home")},
		{"a build that is not there", "status nothing", refused("no build nothing", "leave it out for the newest")},
		{"a build that is not there, to watch", "watch nothing", refused("no build nothing is running")},
		{"a build that is not there, to cancel", "cancel nothing", refused("no build nothing is running")},
		{"a schedule that never comes", "schedule create s r.yaml --cron never", refused("create schedule s", "CronString")},
		{"a schedule without a time", "schedule create s r.yaml", refused("give either --cron or --every")},
		{"a schedule that is not there", "schedule trigger nothing", refused("no schedule nothing", "stillhouse schedule list")},
		{"a trainer that is not there", "train good --trainer parrot", refused(`no trainer "parrot"`, "there are: axolotl", "trl")},
		{"a training without a student", "train good", refused("student.model", "--model")},
		{"a tag that is none", "tag good@1 latest", refused(`invalid tag "latest"`)},
		{"a version that is not there", "tag good@7 best", refused("good@7: no such version")},
		{"a folder of somebody else", "export good theirs", want{exitFailed, []string{"destination is not empty", "name a new or empty folder"}, 0}},
	}
}

func (c *badCommand) run(t *testing.T, h *house) {
	dir := lay(t, map[string]string{"p.jsonl": rows(2), "r.yaml": fmt.Sprintf(recordedRecipe, "good"), "theirs/thesis.txt": "Years of work."})
	c.want.check(t, h.do(t, dir, strings.Fields(c.args)...))
	text, err := os.ReadFile(filepath.Join(dir, "theirs", "thesis.txt"))
	if err != nil || string(text) != "Years of work." {
		t.Errorf("the folder of somebody else holds %q, %v", text, err)
	}
}
