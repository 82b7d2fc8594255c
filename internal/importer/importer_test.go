package importer_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/importer"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// write makes files of a source, by their paths, and gives its folder.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func prepare(t *testing.T, path string, choice importer.Choice, o importer.Options) (*importer.Plan, error) {
	t.Helper()
	src, err := importer.Open(t.Context(), sources.Finder{}, path, choice)
	if err != nil {
		return nil, err
	}
	if o.Dataset == "" {
		o.Dataset = "old"
	}
	o.TempDir = t.TempDir()
	return importer.Prepare(t.Context(), src, o)
}

// publish imports into a new store.
func publish(t *testing.T, path string, o importer.Options) (*catalog.Catalog, *importer.Result, *catalog.Manifest) {
	t.Helper()
	p, err := prepare(t, path, importer.Choice{}, o)
	if err != nil {
		t.Fatal(err)
	}
	c := catalog.Open(mem.New("store"))
	r, err := p.Publish(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_, m, err := c.Resolve(t.Context(), r.Dataset)
	if err != nil {
		t.Fatal(err)
	}
	return c, r, m
}

func rowsOf[T any](t *testing.T, c *catalog.Catalog, m *catalog.Manifest, table string) []T {
	t.Helper()
	var out []T
	for row, err := range catalog.ReadTable[T](t.Context(), c, m, table) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, row)
	}
	return out
}

// shown is a conversation in a line.
func shown(messages []chat.Message) string {
	var b strings.Builder
	for _, m := range messages {
		b.WriteString(m.Role[:1])
		if m.Train {
			b.WriteString("+")
		}
		b.WriteString(":")
		if m.ReasoningContent != nil {
			b.WriteString("(" + *m.ReasoningContent + ")")
		}
		if m.Content != nil {
			b.WriteString(*m.Content)
		}
		for _, c := range m.ToolCalls {
			b.WriteString("[" + c.Name + c.Arguments + "]")
		}
		b.WriteString(" ")
	}
	return strings.TrimSpace(b.String())
}

func TestShapes(t *testing.T) {
	for _, tc := range []struct {
		name, row string
		shape     string
		think     bool
		want      string
	}{
		{"messages", `{"messages":[{"role":"system","content":"be short"},{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning_content":"r"}]}`,
			sources.ShapeMessages, false, "s:be short u:q a+:(r)a"},
		{"messages as text", `{"messages":"[{\"role\":\"user\",\"content\":\"q\"},{\"role\":\"assistant\",\"content\":\"a\"}]"}`, sources.ShapeMessages, false, "u:q a+:a"},
		{"history is context where it says so", `{"messages":[{"role":"user","content":"1"},{"role":"assistant","content":"2","train":false},{"role":"user","content":"3"},{"role":"assistant","content":"4","weight":1}]}`,
			sources.ShapeMessages, false, "u:1 a:2 u:3 a+:4"},
		{"tools", `{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":{"x":1}}}]},{"role":"tool","tool_call_id":"c","content":"7"},{"role":"assistant","content":"a"}]}`,
			sources.ShapeMessages, false, `u:q a+:[f{"x":1}] t:7 a+:a`},
		{"sharegpt", `{"conversations":[{"from":"system","value":"s"},{"from":"human","value":"q"},{"from":"function_call","value":"{\"name\":\"f\",\"arguments\":{\"x\":1}}"},{"from":"observation","value":"7"},{"from":"gpt","value":"<think>\nr\n</think>\n\na"}]}`,
			sources.ShapeShareGPT, true, `s:s u:q a+:[f{"x":1}] t:7 a+:(r)a`},
		{"alpaca", `{"instruction":"add","input":"1 2","output":"3","system":"s","history":[["a","b"]]}`, sources.ShapeAlpaca, false, "s:s u:a a:b u:add\n1 2 a+:3"},
		{"prompt and completion", `{"prompt":"q","completion":"a"}`, sources.ShapePromptCompletion, false, "u:q a+:a"},
		{"both as messages", `{"prompt":[{"role":"user","content":"1"},{"role":"assistant","content":"2"},{"role":"user","content":"3"}],"completion":[{"role":"assistant","content":"4"}]}`,
			sources.ShapePromptCompletion, false, "u:1 a:2 u:3 a+:4"},
		{"question and answer", `{"question":"q","answer":"a"}`, sources.ShapePromptCompletion, false, "u:q a+:a"},
		{"non-Latin", `{"prompt":"日本語?","response":"はい 🙂"}`, sources.ShapePromptCompletion, false, "u:日本語? a+:はい 🙂"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := write(t, map[string]string{"x.jsonl": tc.row + "\n"})
			c, r, m := publish(t, dir, importer.Options{SplitThink: tc.think})
			rows := rowsOf[datasets.Row](t, c, m, datasets.TableTrain)
			if len(rows) != 1 || r.Rows["train"] != 1 {
				t.Fatalf("%d rows, %+v", len(rows), r)
			}
			if got := shown(rows[0].Messages); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
			if m.Imported.Shape != tc.shape || rows[0].Verdict != nil || rows[0].Teacher != importer.DefaultTeacher {
				t.Errorf("%+v %+v", m.Imported, rows[0])
			}
		})
	}
}

// What is exported and imported is what it was: same messages, prompts, tasks.
func TestRoundTrip(t *testing.T) {
	row := `{"messages":[{"role":"system","content":"s"},{"role":"user","content":"%d ключ"},{"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[{"id":"c","type":"function","name":"f","arguments":"{\"b\": 1, \"a\": null}"}]},{"role":"tool","tool_call_id":"c","name":"f","content":""},{"role":"assistant","content":"a","reasoning_content":"rr"}],"tools":"[{\"type\":\"function\",\"function\":{\"name\":\"f\"}}]"}`
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, row+"\n", i)
	}
	dir := write(t, map[string]string{"train.jsonl": text.String(), "test.jsonl": fmt.Sprintf(row, 1000)})
	c, _, m := publish(t, dir, importer.Options{})
	want := rowsOf[datasets.Row](t, c, m, datasets.TableTrain)
	for _, form := range []string{views.Parquet, views.JSONL} {
		out := filepath.Join(t.TempDir(), "out")
		v, _, err := c.Resolve(t.Context(), "old")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := views.Export(t.Context(), c, m, "messages", views.Folder(out), views.Options{Version: v, Form: form}); err != nil {
			t.Fatal(err)
		}
		c2, r, m2 := publish(t, out, importer.Options{Dataset: "again"})
		if r.Rows["train"] != 300 || r.Rows["test"] != 1 {
			t.Errorf("%+v", r)
		}
		if diff := cmp.Diff(want, rowsOf[datasets.Row](t, c2, m2, datasets.TableTrain)); diff != "" {
			t.Error(diff)
		}
		if f := m2.Imported.From; f == nil || f.Dataset != "old" || f.Version != 1 || f.View != "messages" {
			t.Errorf("%+v", f)
		}
	}
	// A table of a version comes back too, with everything that it says.
	out := filepath.Join(t.TempDir(), "table")
	if _, err := views.ExportTable(t.Context(), c, m, "train", views.Folder(out), views.Options{}); err != nil {
		t.Fatal(err)
	}
	c2, _, m2 := publish(t, out, importer.Options{Dataset: "again"})
	if diff := cmp.Diff(want, rowsOf[datasets.Row](t, c2, m2, datasets.TableTrain)); diff != "" {
		t.Error(diff)
	}
}

// One row of each sample stays, a prompt is in one split, and the same import
// again changes nothing.
func TestMerging(t *testing.T) {
	dir := write(t, map[string]string{
		"data/train-00000-of-00001.jsonl":      `{"prompt":"q","completion":"a"}` + "\n" + `{"prompt":"q","completion":"a"}` + "\n" + `{"prompt":"q","completion":"b"}` + "\n",
		"data/validation-00000-of-00001.jsonl": `{"prompt":"q","completion":"c"}` + "\n" + `{"prompt":"p","completion":"c","gold":"7"}` + "\n",
		"notes.json":                           `[{"not":"rows"}]`,
	})
	c, r, m := publish(t, dir, importer.Options{Licence: "cc-by-4.0", Training: catalog.TrainingAllowed})
	want := &importer.Result{Dataset: "old", Version: 1, BuildID: r.BuildID, Rows: map[string]int64{"train": 3, "test": 1},
		Read: 5, BadReasons: []string{}, Duplicates: 1, Moved: 1, Prompts: 2}
	if diff := cmp.Diff(want, r); diff != "" {
		t.Error(diff)
	}
	tasks := rowsOf[datasets.PromptRow](t, c, m, datasets.TablePrompts)
	if len(tasks) != 2 {
		t.Fatalf("%d tasks", len(tasks))
	}
	for _, task := range tasks {
		switch task.Messages[0].Content {
		default:
			if *task.Messages[0].Content == "p" && (task.Gold == nil || *task.Gold != "7" || task.Split != "test") {
				t.Errorf("%+v", task)
			}
			if *task.Messages[0].Content == "q" && (task.Copies != 4 || task.Split != "train") {
				t.Errorf("%+v", task)
			}
		}
	}
	if got := m.Teachers[0]; got.ID != "imported" || got.Terms.Licence != "cc-by-4.0" || got.Terms.Training != "allowed" || got.API != importer.API {
		t.Errorf("%+v", got)
	}
	p, err := prepare(t, dir, importer.Choice{}, importer.Options{Licence: "cc-by-4.0", Training: catalog.TrainingAllowed})
	if err != nil {
		t.Fatal(err)
	}
	again, err := p.Publish(t.Context(), c)
	if err != nil || !again.Unchanged || again.Version != 1 {
		t.Errorf("%+v %v", again, err)
	}
	if report, err := c.Verify(t.Context(), "old", nil); err != nil || len(report.Problems) > 0 {
		t.Errorf("%+v %v", report, err)
	}
}

func TestHubFolder(t *testing.T) {
	card := "---\nlicense: mit\nconfigs:\n- config_name: easy\n  data_files:\n  - split: train\n    path: easy/*.jsonl\n  - split: test\n    path: 'easy/held*.jsonl'\n- config_name: hard\n  data_files: hard.jsonl\n---\n# card\n"
	files := map[string]string{
		"README.md":      card,
		"easy/a.jsonl":   `{"prompt":"1","completion":"a"}`,
		"easy/held.json": "{}",
		"hard.jsonl":     `{"prompt":"2","completion":"a"}`,
	}
	dir := write(t, files)
	if _, err := prepare(t, dir, importer.Choice{}, importer.Options{}); !errors.Is(err, importer.ErrUsage) || !strings.Contains(err.Error(), "several configs (easy, hard)") {
		t.Errorf("%v", err)
	}
	if _, err := prepare(t, dir, importer.Choice{Config: "easy"}, importer.Options{}); err == nil || !strings.Contains(err.Error(), "no such file of rows") {
		t.Errorf("%v", err)
	}
	p, err := prepare(t, dir, importer.Choice{Config: "hard"}, importer.Options{})
	if err != nil || len(p.Source.Files) != 1 || p.Source.Card.Licence != "mit" {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := prepare(t, dir, importer.Choice{Config: "none"}, importer.Options{}); err == nil || !strings.Contains(err.Error(), "it has: easy, hard") {
		t.Errorf("%v", err)
	}
	if _, err := prepare(t, dir, importer.Choice{Config: "hard", Split: "dev"}, importer.Options{}); err == nil || !strings.Contains(err.Error(), "no split") {
		t.Errorf("%v", err)
	}
}

// Rows that can't be used are counted, told of and bounded; files that can't be
// read are errors that say why.
func TestBadInput(t *testing.T) {
	good := `{"prompt":"q","completion":"a"}`
	bad := strings.Join([]string{
		`not json`, `{"prompt":"q"}`, `{"prompt":"","completion":"a"}`, `{"prompt":["x"],"completion":"a"}`,
		`{"prompt":` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + `,"completion":"a"}`,
		`{"prompt":"` + strings.Repeat("x", sources.MaxLine) + `","completion":"a"}`,
		"{\"prompt\":\"\xff\xfe\",\"completion\":\"a\"}",
		`{"prompt":"q","completion":"a","domain":"a/b"}`,
	}, "\n")
	dir := write(t, map[string]string{"x.jsonl": good + "\n" + bad + "\n"})
	o := importer.Options{BadRows: 8, Map: map[string]string{"domain": "domain"}}
	_, r, m := publish(t, dir, o)
	if r.Bad != 8 || len(r.BadReasons) != 5 || r.Rows["train"] != 1 || m.Imported.BadRows != 8 {
		t.Errorf("%+v", r)
	}
	o.BadRows = 7
	p, err := prepare(t, dir, importer.Choice{}, o)
	if err != nil {
		t.Fatal(err)
	}
	c := catalog.Open(mem.New("store"))
	if _, err := p.Publish(t.Context(), c); !errors.Is(err, importer.ErrTooManyBad) || !strings.Contains(err.Error(), "--bad-rows") {
		t.Errorf("%v", err)
	}
	if _, _, err := c.Latest(t.Context(), "old"); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("something was published: %v", err)
	}
	if in, err := c.Builds(t.Context(), "old"); err != nil || len(in) != 1 || in[0].State != catalog.BuildFailed {
		t.Errorf("%+v %v", in, err)
	}
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"nothing":            {map[string]string{"a.txt": "x"}, "no file of rows"},
		"no rows":            {map[string]string{"a.jsonl": "\n"}, "holds"},
		"two formats":        {map[string]string{"a.jsonl": good, "b.csv": "prompt,completion\nq,a\n"}, "several formats"},
		"no columns":         {map[string]string{"a.jsonl": `{"x":1,"y":"z"}`}, `no conversation was found in its columns: "x", "y"`},
		"pairs":              {map[string]string{"a.jsonl": `{"prompt":"q","chosen":"a","rejected":"b"}`}, "preference pairs"},
		"no answer":          {map[string]string{"a.jsonl": `{"messages":[{"role":"user","content":"q"}]}`}, "does not end with the assistant"},
		"arrow":              {map[string]string{"data-00000-of-00001.arrow": "x", "state.json": "{}"}, "save_to_disk"},
		"anchors":            {map[string]string{"a.jsonl": good, "README.md": "---\na: &x [1]\nb: [*x, *x]\n---\n"}, "anchor"},
		"anchors that hide":  {map[string]string{"a.jsonl": good, "README.md": "---\na: {&é b: [1]}\n---\n"}, "anchor"},
		"a card of brackets": {map[string]string{"a.jsonl": good, "README.md": "---\nlicense: " + strings.Repeat("[", 500_000) + "\n---\n"}, "holds too much"},
		"a card of dashes":   {map[string]string{"a.jsonl": good, "README.md": "---\nlicense: " + strings.Repeat("- ", 20_000) + "x\n---\n"}, "nested too deeply"},
		"a deep card":        {map[string]string{"a.jsonl": good, "README.md": "---\nlicense: " + strings.Repeat("[", 20_000) + "x\n---\n"}, "nested too deeply"},
		"broken card":        {map[string]string{"a.jsonl": good, "README.md": "---\na: [\n---\n"}, "YAML"},
		"damaged":            {map[string]string{"a.parquet": "PAR1 nothing of it PAR1"}, "damaged"},
		"images":             {map[string]string{"a.jsonl": `{"prompt":"q","completion":"a","images":["a.png"]}`}, "images"},
		"card outside":       {map[string]string{"a.jsonl": good, "README.md": "---\nconfigs:\n- config_name: d\n  data_files: ../../etc/passwd\n---\n"}, "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := write(t, tc.files)
			p, err := prepare(t, dir, importer.Choice{}, importer.Options{})
			if err == nil {
				_, err = p.Publish(t.Context(), catalog.Open(mem.New("store")))
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}

// Names in the data may be as long as a row, and a version's manifest may not.
func TestLongNames(t *testing.T) {
	long := strings.Repeat("é", 5000)
	dir := write(t, map[string]string{"a.jsonl": `{"prompt":"q","completion":"a","teacher":"k","model":"` + long + `","licence":"` + long + `"}`})
	_, _, m := publish(t, dir, importer.Options{})
	if got := m.Teachers[0]; got.Model != long[:200] || got.Terms.Licence != long[:200] {
		t.Errorf("%d bytes of a model and %d of a licence", len(got.Model), len(got.Terms.Licence))
	}
}

// What stands in a card's place and is no file is no card; nobody waits for it.
func TestAPipeIsNoCard(t *testing.T) {
	dir := write(t, map[string]string{"a.jsonl": `{"prompt":"q","completion":"a"}`})
	if err := syscall.Mkfifo(filepath.Join(dir, "README.md"), 0o600); err != nil {
		t.Skip(err)
	}
	if _, err := prepare(t, dir, importer.Choice{}, importer.Options{}); err != nil {
		t.Error(err)
	}
}

// Recorded answers are a recipe that this program reads.
func TestRecorded(t *testing.T) {
	dir := write(t, map[string]string{"x.jsonl": strings.Join([]string{
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a","reasoning_content":"r"}],"teacher":"K2: \"x\"\n","gold":"7"}`,
		`{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"b"}],"teacher":"k1","gold":"7","domain":"math"}`,
	}, "\n")})
	o := importer.Options{Training: catalog.TrainingAllowed, Licence: "a: {b", BadRows: 1}
	p, err := prepare(t, dir, importer.Choice{}, o)
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	r, err := p.WriteRecorded(t.Context(), out)
	if err != nil {
		t.Fatal(err)
	}
	if r.Rows != 1 || r.Bad != 1 || len(r.Teachers) != 1 { // a name with a line break is no label
		t.Errorf("%+v", r)
	}
	if _, err := p.WriteRecorded(t.Context(), out); !errors.Is(err, importer.ErrUsage) {
		t.Errorf("%v", err)
	}
	var line map[string]any
	files, err := sources.Find(out, "answers-*.jsonl.gz")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	for row, err := range sources.Rows(t.Context(), files[0], sources.Options{}) {
		if err != nil {
			t.Fatal(err)
		}
		line = row.Values
	}
	text, _ := json.Marshal(line)
	want := `{"domain":"math","effort":"default","gold":"7","messages":[{"content":"q","role":"user"},{"content":"b","role":"assistant"}],"model":"k1","prompt":[{"content":"q","role":"user"}]}`
	if string(text) != want {
		t.Errorf("%s", text)
	}
}
