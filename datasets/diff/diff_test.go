package diff_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/diff"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func ptr[T any](v T) *T { return &v }

// A content is what a version of a test holds.
type content struct {
	train, test []datasets.Row
	pairs       []datasets.Pair
	prompts     []datasets.PromptRow
	candidates  []datasets.Candidate
	manifest    func(*catalog.Manifest)
}

// An answer is one candidate, and a row where it is chosen.
type answer struct {
	task, teacher, text, verdict string
	left                         string // why it is no row, "" where it is one
	rejected                     string
	failed                       string
	split                        string
}

func sampleOf(task, teacher string) string { return datasets.SampleID(task, teacher, "ask") }

// made makes the tables of answers, sorted by task as builds write them.
func made(answers ...answer) content {
	var c content
	seen := map[string]bool{}
	for _, a := range answers {
		id := fmt.Sprintf("%s/math/high", a.task)
		if a.split == "" {
			a.split = "train"
		}
		if !seen[id] {
			seen[id] = true
			c.prompts = append(c.prompts, datasets.PromptRow{
				TaskID: id, PromptID: a.task, Domain: "math", Effort: "high", Split: a.split, Status: datasets.StatusClean,
				Messages: []chat.Message{{Role: "user", Content: ptr("what is " + a.task + "?")}}, Copies: 1,
			})
		}
		if a.teacher == "" {
			continue
		}
		var verdict *string
		if a.verdict != "" {
			verdict = &a.verdict
		}
		cand := datasets.Candidate{
			SampleID: sampleOf(id, a.teacher), TaskID: id, PromptID: a.task, Domain: "math", Effort: "high", Split: a.split, Teacher: a.teacher, Verdict: verdict,
			Messages: []chat.Message{{Role: "user", Content: ptr("what is " + a.task + "?")}, {Role: "assistant", Content: ptr(a.text), Train: true}},
			Accepted: a.rejected == "" && a.failed == "", Selected: a.left == "" && a.rejected == "" && a.failed == "",
		}
		switch {
		case a.failed != "":
			cand.Error = &a.failed
		case a.rejected != "":
			cand.RejectReasons = []string{a.rejected}
		case a.left != "":
			cand.Unselected = &a.left
		}
		c.candidates = append(c.candidates, cand)
		if cand.Selected {
			if a.split == "test" {
				c.test = append(c.test, datasets.RowOf(&cand))
			} else {
				c.train = append(c.train, datasets.RowOf(&cand))
			}
		}
	}
	c.sort()
	return c
}

func (c *content) sort() {
	byTask := func(a, b datasets.Row) int { return cmp.Compare(a.TaskID, b.TaskID) }
	slices.SortStableFunc(c.train, byTask)
	slices.SortStableFunc(c.test, byTask)
	slices.SortStableFunc(c.prompts, func(a, b datasets.PromptRow) int { return cmp.Compare(a.TaskID, b.TaskID) })
	slices.SortStableFunc(c.candidates, func(a, b datasets.Candidate) int { return cmp.Compare(a.TaskID, b.TaskID) })
	slices.SortStableFunc(c.pairs, func(a, b datasets.Pair) int { return cmp.Compare(a.TaskID, b.TaskID) })
}

// publish makes a version of it.
func (c content) publish(t testing.TB, cat *catalog.Catalog, name, build string) catalog.Version {
	t.Helper()
	m := catalog.Manifest{Dataset: name, BuildID: build, RecipeDigest: strings.Repeat("0", 64), Teachers: []catalog.ManifestTeacher{{ID: "k3"}, {ID: "r1"}}}
	stage(t, cat, &m, "train", "train", c.train)
	stage(t, cat, &m, "test", "test", c.test)
	stage(t, cat, &m, "pairs", "train", c.pairs)
	stage(t, cat, &m, "prompts", "all", c.prompts)
	stage(t, cat, &m, "candidates", "all", c.candidates)
	if c.manifest != nil {
		c.manifest(&m)
	}
	v, err := cat.Publish(t.Context(), m)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func stage[T any](t testing.TB, cat *catalog.Catalog, m *catalog.Manifest, table, split string, rows []T) {
	t.Helper()
	if len(rows) == 0 {
		return
	}
	path := filepath.Join(t.TempDir(), "file.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := parquetio.NewWriter[T](f, parquetio.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rows), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	ref, err := cat.Stage(t.Context(), m.Dataset, m.BuildID, table, split, 0, path)
	if err != nil {
		t.Fatal(err)
	}
	m.Files = append(m.Files, ref)
}

func compare(t testing.TB, a, b content, opt diff.Options) *diff.Report {
	t.Helper()
	cat := catalog.Open(mem.New("b"))
	a.publish(t, cat, "maths", "b1")
	b.publish(t, cat, "maths", "b2")
	r, err := diff.Compare(t.Context(), cat, "maths@1", "maths@2", opt)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func tableOf(t testing.TB, r *diff.Report, name string) diff.Table {
	t.Helper()
	for _, table := range r.Tables {
		if table.Table == name {
			return table
		}
	}
	t.Fatalf("no table %s in %+v", name, r.Tables)
	return diff.Table{}
}

// Every reason for which a row comes, goes or changes.
func TestWhyRowsChange(t *testing.T) {
	stays := answer{task: "00", teacher: "k3", text: "same", verdict: "pass"}
	k3 := func(text string) answer { return answer{task: "01", teacher: "k3", text: text, verdict: "pass"} }
	r1 := func(text string) answer { return answer{task: "01", teacher: "r1", text: text, verdict: "pass"} }
	with := func(a answer, change func(*answer)) answer { change(&a); return a }
	for _, tc := range []struct {
		name string
		a, b []answer
		edit func(a, b *content)
		want map[string][]diff.Tally // by table
	}{
		{name: "a new prompt", b: []answer{k3("1")}, want: map[string][]diff.Tally{
			"train": {{Name: "prompt", In: 1}}, "prompts": {{Name: "prompt", In: 1}},
		}},
		{name: "a prompt that is gone", a: []answer{k3("1")}, want: map[string][]diff.Tally{
			"train": {{Name: "prompt", Out: 1}}, "prompts": {{Name: "prompt", Out: 1}},
		}},
		{name: "a prompt that is now a duplicate", a: []answer{k3("1")}, b: []answer{{task: "01"}},
			edit: func(_, b *content) { b.prompts[1].Status = datasets.StatusDuplicate },
			want: map[string][]diff.Tally{
				"train": {{Name: "prompt_filter", Detail: "duplicate", Out: 1}}, "prompts": {{Name: "prompt_filter", Detail: "clean → duplicate", Changed: 1}},
			}},
		{name: "the other split", a: []answer{k3("1")}, b: []answer{with(k3("1"), func(a *answer) { a.split = "test" })}, want: map[string][]diff.Tally{
			"train": {{Name: "split", Out: 1}}, "test": {{Name: "split", In: 1}}, "prompts": {{Name: "split", Detail: "train → test", Changed: 1}},
		}},
		{name: "asked anew", a: []answer{k3("1")}, b: []answer{k3("one")}, want: map[string][]diff.Tally{
			"train": {{Name: "answer_changed", Changed: 1}},
		}},
		{name: "another verdict", a: []answer{with(k3("1"), func(a *answer) { a.verdict = "unknown" })}, b: []answer{k3("1")}, want: map[string][]diff.Tally{
			"train": {{Name: "verdict", Detail: "unknown → pass", Changed: 1}},
		}},
		{name: "it fails now", a: []answer{k3("1")}, b: []answer{with(k3("1"), func(a *answer) { a.verdict, a.rejected = "fail", "verdict:fail" })}, want: map[string][]diff.Tally{
			"train": {{Name: "verdict", Detail: "pass → fail", Out: 1}},
		}},
		{name: "it passes now", a: []answer{with(k3("1"), func(a *answer) { a.verdict, a.rejected = "fail", "verdict:fail" })}, b: []answer{k3("1")}, want: map[string][]diff.Tally{
			"train": {{Name: "verdict", Detail: "fail → pass", In: 1}},
		}},
		{name: "a filter", a: []answer{k3("1")}, b: []answer{with(k3("1"), func(a *answer) { a.rejected = "length" })}, want: map[string][]diff.Tally{
			"train": {{Name: "filter", Detail: "length", Out: 1}},
		}},
		{name: "the mixture", a: []answer{k3("1")}, b: []answer{with(k3("1"), func(a *answer) { a.left = "mix_cap:teacher" })}, want: map[string][]diff.Tally{
			"train": {{Name: "mixture", Detail: "mix_cap:teacher", Out: 1}},
		}},
		{name: "another answer chosen", a: []answer{k3("1"), with(r1("one"), func(a *answer) { a.left = "per_task" })},
			b: []answer{with(k3("1"), func(a *answer) { a.left = "per_task" }), r1("one")}, want: map[string][]diff.Tally{
				"train": {{Name: "choice", Detail: "per_task", Changed: 1}},
			}},
		{name: "another answer because the first was rejected", a: []answer{k3("1"), with(r1("one"), func(a *answer) { a.left = "per_task" })},
			b: []answer{with(k3("1"), func(a *answer) { a.rejected = "loop" }), r1("one")}, want: map[string][]diff.Tally{
				"train": {{Name: "filter", Detail: "loop", Changed: 1}},
			}},
		{name: "another teacher asked", a: []answer{k3("1")}, b: []answer{with(k3("1"), func(a *answer) { a.left = "policy" }), r1("one")}, want: map[string][]diff.Tally{
			"train": {{Name: "not_asked", Changed: 1}},
		}},
		{name: "a teacher that is gone", a: []answer{k3("1"), r1("one")}, b: []answer{k3("1")},
			edit: func(_, b *content) { b.manifest = func(m *catalog.Manifest) { m.Teachers = m.Teachers[:1] } }, want: map[string][]diff.Tally{
				"train": {{Name: "teacher", Detail: "r1", Out: 1}},
			}},
		{name: "an ask that failed", a: []answer{k3("1")}, b: []answer{with(k3("1"), func(a *answer) { a.failed = "timeout" })}, want: map[string][]diff.Tally{
			"train": {{Name: "failed", Detail: "timeout", Out: 1}},
		}},
		{name: "other columns", a: []answer{k3("1")}, b: []answer{k3("1")},
			edit: func(_, b *content) { b.train[1].Licence, b.train[1].Score = ptr("MIT"), ptr(0.5) }, want: map[string][]diff.Tally{
				"train": {{Name: "fields", Detail: "licence, score", Changed: 1}},
			}},
		{name: "a prompt's gold and route", a: []answer{k3("1")}, b: []answer{k3("1")},
			edit: func(_, b *content) { b.prompts[0].Gold, b.prompts[1].Route = ptr("7"), []string{"k3"} }, want: map[string][]diff.Tally{
				"prompts": {{Name: "fields", Detail: "gold", Changed: 1}, {Name: "route", Detail: "none → k3", Changed: 1}},
			}},
		{name: "no candidates to tell", a: []answer{k3("1")}, b: []answer{with(k3("1"), func(a *answer) { a.rejected = "length" })},
			edit: func(_, b *content) { b.candidates = nil }, want: map[string][]diff.Tally{
				"train": {{Name: "unknown", Out: 1}},
			}},
		{name: "pairs", a: []answer{k3("1")}, b: []answer{k3("1")},
			edit: func(a, b *content) {
				pair := func(chosen string) datasets.Pair {
					return datasets.Pair{TaskID: "01/math/high", Domain: "math", ChosenTeacher: "k3", RejectedTeacher: "r1",
						ChosenSampleID: ptr(sampleOf("01/math/high", chosen)), RejectedSampleID: ptr("x"), Chosen: []chat.Message{{Role: "assistant", Content: &chosen}}}
				}
				a.pairs, b.pairs = []datasets.Pair{pair("k3")}, []datasets.Pair{pair("k3"), pair("r1")}
			}, want: map[string][]diff.Tally{
				"pairs": {{Name: "not_asked", In: 1}},
			}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a, b := made(append(slices.Clone(tc.a), stays)...), made(append(slices.Clone(tc.b), stays)...)
			if tc.edit != nil {
				tc.edit(&a, &b)
			}
			r := compare(t, a, b, diff.Options{Examples: 5})
			got := map[string][]diff.Tally{}
			for _, table := range r.Tables {
				if len(table.Why) > 0 {
					got[table.Table] = table.Why
				}
			}
			if d := gocmp.Diff(tc.want, got); d != "" {
				t.Errorf("why (-want +got):\n%s", d)
			}
			if r.Unchanged {
				t.Error("it says that nothing changed")
			}
			if len(r.Examples) == 0 || r.Examples[0].TaskID == "" {
				t.Errorf("examples %+v", r.Examples)
			}
			adds(t, r)
		})
	}
}

// adds holds a report to its promise: its counts are the rows of both versions.
func adds(t testing.TB, r *diff.Report) {
	t.Helper()
	for _, table := range r.Tables {
		if a := table.Same + table.Changed + table.Out; a != r.A.Rows[table.Table] {
			t.Errorf("%s: the first version's rows add up to %d of %d: %+v", table.Table, a, r.A.Rows[table.Table], table)
		}
		if b := table.Same + table.Changed + table.In; b != r.B.Rows[table.Table] {
			t.Errorf("%s: the second version's rows add up to %d of %d: %+v", table.Table, b, r.B.Rows[table.Table], table)
		}
		for _, list := range [][]diff.Tally{table.Why, table.Domains} {
			var sum diff.Tally
			for _, tally := range list {
				sum.In, sum.Out, sum.Changed = sum.In+tally.In, sum.Out+tally.Out, sum.Changed+tally.Changed
			}
			if sum.In != table.In || sum.Out != table.Out || sum.Changed != table.Changed {
				t.Errorf("%s: %+v does not add up to %+v", table.Table, list, table)
			}
		}
		var net int64
		for _, tally := range table.Teachers {
			net += tally.In - tally.Out
		}
		if table.Table != "prompts" && net != table.In-table.Out {
			t.Errorf("%s: by teacher %+v, of %+v", table.Table, table.Teachers, table)
		}
	}
}

func TestUnchanged(t *testing.T) {
	a := made(answer{task: "01", teacher: "k3", text: "1"}, answer{task: "02", teacher: "r1", text: "2"})
	r := compare(t, a, a, diff.Options{Examples: 1})
	if !r.Unchanged || r.Tasks != 0 || !tableOf(t, r, "train").Identical || tableOf(t, r, "train").Same != 2 || len(r.Examples) > 0 {
		t.Errorf("%+v", r)
	}
	adds(t, r)

	// The same rows in other bytes are unchanged too.
	b := made(answer{task: "01", teacher: "k3", text: "1"}, answer{task: "02", teacher: "r1", text: "2"})
	cat := catalog.Open(mem.New("b"))
	a.publish(t, cat, "maths", "b1")
	first := b.train[:1]
	b.train = b.train[1:]
	b.manifest = func(m *catalog.Manifest) { // two files instead of one
		m.Files[0].Split = "train"
		rest := *m
		rest.Files = nil
		stage(t, cat, &rest, "train", "train", first)
		m.Files = slices.Insert(m.Files, 0, rest.Files[0])
	}
	b.publish(t, cat, "other", "b1")
	if r, err := diff.Compare(t.Context(), cat, "maths", "other", diff.Options{}); err != nil || !r.Unchanged || tableOf(t, r, "train").Identical || r.B.Dataset != "other" {
		t.Errorf("%+v, %v", r, err)
	}
}

// Against an oracle that holds all in memory.
func TestRandomVersions(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := func() []answer {
		var out []answer
		for n := range 60 {
			for _, teacher := range []string{"k3", "r1"} {
				if rng.IntN(3) == 0 {
					continue
				}
				out = append(out, answer{
					task: fmt.Sprintf("%02d", n), teacher: teacher, text: fmt.Sprint(rng.IntN(2)), verdict: []string{"", "pass", "unknown"}[rng.IntN(3)],
					left: []string{"", "", "policy", "mix"}[rng.IntN(4)], rejected: []string{"", "", "", "loop"}[rng.IntN(4)], split: []string{"train", "test"}[n%2*rng.IntN(2)],
				})
			}
		}
		return out
	}
	for range 6 {
		a, b := made(some()...), made(some()...)
		r := compare(t, a, b, diff.Options{})
		adds(t, r)
		for table, rows := range map[string][2][]datasets.Row{"train": {a.train, b.train}, "test": {a.test, b.test}} {
			same := int64(0)
			for _, x := range rows[0] {
				if slices.ContainsFunc(rows[1], func(y datasets.Row) bool { return gocmp.Equal(x, y, cmpopts.EquateEmpty()) }) {
					same++
				}
			}
			if got := tableOf(t, r, table); got.Same != same {
				t.Errorf("%s: %d rows are the same, want %d", table, got.Same, same)
			}
		}

		// In any order of rows the result is the same.
		for _, c := range []*content{&a, &b} {
			rng.Shuffle(len(c.train), func(i, j int) { c.train[i], c.train[j] = c.train[j], c.train[i] })
			rng.Shuffle(len(c.candidates), func(i, j int) { c.candidates[i], c.candidates[j] = c.candidates[j], c.candidates[i] })
			rng.Shuffle(len(c.prompts), func(i, j int) { c.prompts[i], c.prompts[j] = c.prompts[j], c.prompts[i] })
		}
		shuffled := compare(t, a, b, diff.Options{TempDir: t.TempDir()})
		for i := range r.Tables {
			// Which of two old answers a new one replaces depends on their order.
			x, y := r.Tables[i], shuffled.Tables[i]
			if x.Same != y.Same || x.In != y.In || x.Out != y.Out || x.Changed != y.Changed {
				t.Errorf("shuffled: %+v, sorted: %+v", y, x)
			}
		}
	}
}

// A column that is added to a table must be compared too.
func TestEveryColumnIsCompared(t *testing.T) {
	base := made(answer{task: "01", teacher: "k3", text: "1", verdict: "pass"})
	base.pairs = []datasets.Pair{{TaskID: "01/math/high", Domain: "math", ChosenTeacher: "k3", RejectedTeacher: "r1", ChosenSampleID: ptr("s"), RejectedSampleID: ptr("x")}}
	cat := catalog.Open(mem.New("b"))
	base.publish(t, cat, "maths", "b1")
	base.candidates = nil
	builds := 1
	for _, row := range []struct {
		table string
		at    func(*content) any
		skip  []string // names that rows are known by, or that follow from them
	}{
		{"train", func(c *content) any { return &c.train[0] }, []string{"PromptID", "Effort", "Domain"}},
		{"prompts", func(c *content) any { return &c.prompts[0] }, []string{"PromptID", "Effort", "Domain"}},
		{"pairs", func(c *content) any { return &c.pairs[0] }, []string{"PromptID", "Effort", "Domain", "CrossTeacher"}},
	} {
		kind := reflect.TypeOf(row.at(&base)).Elem()
		for i := range kind.NumField() {
			name := kind.Field(i).Name
			if slices.Contains(row.skip, name) {
				continue
			}
			changed := base
			changed.train, changed.prompts, changed.pairs = slices.Clone(base.train), slices.Clone(base.prompts), slices.Clone(base.pairs)
			alter(reflect.ValueOf(row.at(&changed)).Elem().Field(i))
			builds++
			changed.publish(t, cat, "maths", fmt.Sprintf("b%d", builds))
			r, err := diff.Compare(t.Context(), cat, "maths@1", "maths", diff.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if table := tableOf(t, r, row.table); table.In+table.Out+table.Changed == 0 {
				t.Errorf("%s: a change of %s is not seen", row.table, name)
			}
		}
	}
}

// alter makes a value another one.
func alter(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(v.String() + "~")
	case reflect.Int32, reflect.Int64:
		v.SetInt(v.Int() + 1)
	case reflect.Float64:
		v.SetFloat(v.Float() + 1)
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Pointer:
		p := reflect.New(v.Type().Elem())
		if !v.IsNil() {
			p.Elem().Set(v.Elem())
		}
		alter(p.Elem())
		v.Set(p)
	case reflect.Slice:
		s := reflect.MakeSlice(v.Type(), 0, v.Len()+1)
		s = reflect.AppendSlice(s, v)
		one := reflect.New(v.Type().Elem()).Elem()
		if one.Kind() == reflect.String {
			one.SetString("~")
		}
		v.Set(reflect.Append(s, one))
	}
}

func TestRecipesAndColumns(t *testing.T) {
	b := mem.New("b")
	cat := catalog.Open(b)
	recipe := func(key, text string) func(*catalog.Manifest) {
		if _, err := objstore.PutBytes(t.Context(), b, key, []byte(text), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		return func(m *catalog.Manifest) {
			m.Recipe, m.RecipeDigest = key, fmt.Sprintf("%064x", len(text))
			m.Teachers[0].Epoch = len(text) % 2
			m.Methods = []catalog.Method{{Kind: "verifier", Name: "math", Version: fmt.Sprint(len(text))}}
			m.Sources = []catalog.Source{{Path: "a.jsonl", SHA256: strings.Repeat(fmt.Sprint(len(text)%10), 64)}}
		}
	}
	one := made(answer{task: "01", teacher: "k3", text: "1"})
	one.manifest = recipe("recipes/a.yaml", `name: maths
prompts: [{path: a.jsonl}]
teachers:
  - {id: k3, model: kimi, params: {temperature: 1}}
  - {id: r1, model: r1}
filter: [finish, {length: {max_tokens: 10}}]
`)
	one.publish(t, cat, "maths", "b1")
	two := one
	two.manifest = recipe("recipes/b.yaml", `name: maths
# a comment
prompts: [{path: a.jsonl}]
teachers:
  - {id: r1, model: r1}
  - {id: k3, model: kimi, params: {temperature: 0.5, top_p: 1}}
filter: [finish, refusal, {length: {max_tokens: 20}}]
`)
	two.publish(t, cat, "maths", "b2")
	r, err := diff.Compare(t.Context(), cat, "maths@1", "maths@2", diff.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []diff.Change{
		{Path: "filter[length].length.max_tokens", A: ptr("10"), B: ptr("20")},
		{Path: "filter[refusal]", B: ptr("refusal")},
		{Path: "teachers[k3].params.temperature", A: ptr("1"), B: ptr("0.5")},
		{Path: "teachers[k3].params.top_p", B: ptr("1")},
	}
	if d := gocmp.Diff(want, r.Recipe); d != "" {
		t.Errorf("recipe (-want +got):\n%s", d)
	}
	if len(r.Methods) != 1 || r.Methods[0].Path != "verifier math" || len(r.Sources) != 1 || !r.Unchanged {
		t.Errorf("%+v", r)
	}

	// A table that one of them has not, and a recipe that is gone.
	three := one
	three.pairs = []datasets.Pair{{TaskID: "01/math/high", ChosenTeacher: "k3", RejectedTeacher: "r1"}}
	three.manifest = func(m *catalog.Manifest) { m.Recipe, m.RecipeDigest = "recipes/none.yaml", strings.Repeat("1", 64) }
	three.publish(t, cat, "maths", "b3")
	if r, err = diff.Compare(t.Context(), cat, "maths@2", "maths@3", diff.Options{}); err != nil {
		t.Fatal(err)
	}
	if d := gocmp.Diff([]diff.Change{{Path: "pairs", B: ptr("20 columns")}}, r.Schema); d != "" {
		t.Errorf("columns (-want +got):\n%s", d)
	}
	if len(r.Notes) != 1 || !strings.Contains(r.Notes[0], "recipe of maths@3 can't be read") || len(r.Recipe) != 0 {
		t.Errorf("notes %q", r.Notes)
	}
}

// Damage is an error and never a row that went.
func TestDamage(t *testing.T) {
	b := mem.New("b")
	cat := catalog.Open(b)
	made(answer{task: "01", teacher: "k3", text: "1"}).publish(t, cat, "maths", "b1")
	made(answer{task: "01", teacher: "k3", text: "2"}).publish(t, cat, "maths", "b2")
	_, m, err := cat.Resolve(t.Context(), "maths@1")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range m.Files {
		data, _, err := objstore.ReadAll(t.Context(), b, f.Key, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		broken := slices.Clone(data)
		broken[len(broken)/2] ^= 1
		for _, bytes := range [][]byte{broken, data[:len(data)/2], nil} {
			if bytes == nil {
				err = b.Delete(t.Context(), f.Key)
			} else {
				_, err = objstore.PutBytes(t.Context(), b, f.Key, bytes, objstore.PutOptions{})
			}
			if err != nil {
				t.Fatal(err)
			}
			// The prompts are the same, and read for the reasons.
			if _, err := diff.Compare(t.Context(), cat, "maths@1", "maths@2", diff.Options{}); !errors.Is(err, catalog.ErrDamaged) {
				t.Errorf("%s, %d bytes: %v", f.Key, len(bytes), err)
			}
		}
		if _, err := objstore.PutBytes(t.Context(), b, f.Key, data, objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := diff.Compare(t.Context(), cat, "maths@1", "maths@9", diff.Options{}); !errors.Is(err, catalog.ErrUnknown) {
		t.Errorf("no such version: %v", err)
	}
}
