package activities

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
	"github.com/stillhouse-data/stillhouse/datasets/report"
)

// The order of rows is the same in memory and on disk, and can be read again.
func TestMixSortOnDisk(t *testing.T) {
	dir := t.TempDir()
	disk, memory := mixSort{dir: dir, chunk: 7}, mixSort{dir: dir, chunk: mixChunk}
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 100 {
		row := merge.Row{Key: mixKey(5, fmt.Sprint(r.IntN(90))), Index: int64(i), Kind: int32(i % 3)}
		row.Values[1] = int32(-i)
		for _, s := range []*mixSort{&disk, &memory} {
			if err := s.add(row); err != nil {
				t.Fatal(err)
			}
		}
	}
	read := func(s *mixSort) (out []merge.Row) {
		for row, err := range s.all() {
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, row)
		}
		return out
	}
	for _, s := range []*mixSort{&disk, &memory} {
		if err := s.finish(); err != nil {
			t.Fatal(err)
		}
	}
	want := read(&memory)
	if len(want) != 100 || !slices.IsSortedFunc(want, func(a, b merge.Row) int { return merge.CompareRows(&a, &b) }) {
		t.Fatalf("%d rows in memory", len(want))
	}
	for range 2 {
		if got := read(&disk); !slices.Equal(got, want) {
			t.Fatal("the order on disk is another one")
		}
	}
	for range disk.all() {
		break // whoever stops early leaves nothing open
	}
	// A file that was cut is an error, not a shorter mixture.
	if err := disk.file.Truncate(3 * mixBytes); err != nil {
		t.Fatal(err)
	}
	var failed error
	for _, err := range disk.all() {
		failed = err
	}
	if failed == nil {
		t.Error("half a file is read as if it were whole")
	}
	if err := disk.close(); err != nil {
		t.Fatal(err)
	}
}

func TestSourceFile(t *testing.T) {
	for where, want := range map[string]string{
		"a/p.jsonl:17": "a/p.jsonl", "p.parquet#3": "p.parquet", "p": "p", "s3://b/p.jsonl:1": "s3://b/p.jsonl", "c:x": "c:x", ":3": ":3",
	} {
		if got := sourceFile(where); got != want {
			t.Errorf("%s: %s, want %s", where, got, want)
		}
	}
}

// counted counts the rows of both splits by something of theirs.
func counted(w *world, dataset string, by func(*datasets.Row) string) map[string]int {
	out := map[string]int{}
	for _, table := range []string{datasets.TableTrain, datasets.TableTest} {
		for _, row := range rows[datasets.Row](w, dataset, table) {
			out[by(&row)]++
		}
	}
	return out
}

func TestMixtureGivesTheDeclaredShares(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 60)
	all := recordedSumsRecipe + "merge: {policy: all_passing}\n"
	recipe := all + "mix: {by: domain, weights: {math: 3, sums: 1}, total: 80}\n"
	_, result := w.build(recipe)
	got := counted(w, "sums", func(r *datasets.Row) string { return r.Domain })
	if got["math"] != 60 || got["sums"] != 20 || result.Rows["train"]+result.Rows["test"] != 80 {
		t.Errorf("%v %v", got, result.Rows)
	}
	m := result.Mix
	if m == nil || m.Chosen != 176 || m.Target != 80 || m.Rows != 80 || m.Short != 0 || len(m.Kinds) != 2 || m.Kinds[0].Share != 0.75 {
		t.Errorf("%+v", m)
	}
	if result.Unselected[merge.LeftMix] != 96 {
		t.Errorf("%v", result.Unselected)
	}
	for _, c := range rows[datasets.Candidate](w, "sums", datasets.TableCandidates) {
		if c.Selected == (c.Unselected != nil) && c.Accepted || !c.Accepted && (c.Selected || c.Unselected != nil) {
			t.Fatalf("%s: accepted %v, selected %v, %v", c.SampleID, c.Accepted, c.Selected, c.Unselected)
		}
	}
	bytes := w.digests("sums", stable...)

	// The same rows, however tasks lie in shards and whatever is built beside.
	again, _ := w.build(recipe + "# again\n")
	if !again.Unchanged || !slices.Equal(bytes, w.digests("sums", stable...)) {
		t.Error("the same mixture gives other bytes")
	}
	if _, other := w.build(strings.Replace(recipe, "splits:", "seed: 8, splits:", 1)); other.Unchanged {
		t.Error("the seed changes nothing")
	}

	// What is short is said, and nothing is repeated.
	_, result = w.build(all + "mix: {by: domain, alpha: 0, total: 400}\n")
	got = counted(w, "sums", func(r *datasets.Row) string { return r.SampleID })
	if len(got) != 176 || result.Mix.Short != 224 || result.Mix.Kinds[0].Short() != 200-result.Mix.Kinds[0].Chosen {
		t.Errorf("%d rows, %+v", len(got), result.Mix)
	}
}

func TestMixtureKeepsCaps(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 60)
	recipe := recordedSumsRecipe + "merge: {policy: all_passing}\nmix: {caps: {teacher: 0.5, prompt: 0.02}}\n"
	_, result := w.build(recipe)
	total := int(result.Rows["train"] + result.Rows["test"])
	byTeacher := counted(w, "sums", func(r *datasets.Row) string { return r.Teacher })
	for id, n := range byTeacher {
		if 2*n > total {
			t.Errorf("%s has %d of %d rows", id, n, total)
		}
	}
	// A prompt has two or four rows, and may have 0.02 of them.
	most := 0
	for _, n := range counted(w, "sums", func(r *datasets.Row) string { return r.PromptID }) {
		most = max(most, n)
	}
	if total == 0 || float64(most) > 0.02*float64(total) {
		t.Errorf("a prompt has %d of %d rows", most, total)
	}
	if result.Unselected["mix_cap:prompt"] == 0 {
		t.Errorf("%v", result.Unselected)
	}
	left := int64(0)
	for _, c := range result.Mix.Caps {
		left += c.Left
	}
	if left != result.Mix.Short || result.Mix.Chosen-int64(total) != left {
		t.Errorf("%+v of %d rows", result.Mix, total)
	}

	// Caps that nothing can meet publish nothing, and say why.
	out, _ := w.build(recordedSumsRecipe + "mix: {caps: {prompt: 0.001}}\n")
	if want := "of 176 accepted answers none became a row: mix_cap:prompt 112, per_task 64; the mixture left nothing"; len(out.Gates) != 1 || !strings.HasPrefix(out.Gates[0], want) {
		t.Errorf("%q, want %q", out.Gates, want)
	}
}

// A mixture that names a source takes the rows of that file.
func TestMixtureBySource(t *testing.T) {
	w := newWorld(t)
	for _, name := range []string{"one", "two"} {
		var b strings.Builder
		for i := range 20 {
			fmt.Fprintf(&b, `{"question":"%s %d","gold":"%d","a":"A: %d"}`+"\n", name, i, i, i)
		}
		w.file(name+".jsonl", b.String())
	}
	recipe := `name: files
prompts: [{path: one.jsonl, fields: {prompt: question, gold: gold}}, {path: two.jsonl, fields: {prompt: question, gold: gold}}]
teachers: [{id: a, api: recorded, path: '*.jsonl', fields: {prompt: question, content: a}}]
check: [{verifier: math}]
mix: {by: source, weights: {one.jsonl: 1, three.jsonl: 1}, total: 20}
`
	_, result := w.build(recipe)
	if result.Rows["train"] != 10 || result.Mix.Short != 10 || result.Unselected[merge.LeftMixWeight] != 20 || result.Unselected[merge.LeftMix] != 10 {
		t.Errorf("%v %+v %v", result.Rows, result.Mix, result.Unselected)
	}
}

// The logprobs table says what entered the dataset, after the mixture.
func TestMixtureInLogprobs(t *testing.T) {
	left, err := newLeftRows(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range [][2]string{{"a", "1"}, {"a", "3"}, {"c", "5"}, {"x", "9"}} {
		if err := left.add(row[0], row[1]); err != nil {
			t.Fatal(err)
		}
	}
	given := []datasets.LogprobRow{}
	for _, row := range [][2]string{{"a", "1"}, {"a", "2"}, {"b", "1"}, {"c", "4"}, {"c", "5"}, {"d", "6"}} {
		given = append(given, datasets.LogprobRow{TaskID: row[0], SampleID: row[1], Selected: row[1] != "6"})
	}
	stream, err := left.from(func(yield func(datasets.LogprobRow, error) bool) {
		for _, row := range given {
			if !yield(row, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for row, err := range stream {
		if err != nil {
			t.Fatal(err)
		}
		if row.Selected {
			got = append(got, row.TaskID+row.SampleID)
		}
	}
	if want := []string{"a2", "b1", "c4"}; !slices.Equal(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
	if err := left.close(); err != nil {
		t.Fatal(err)
	}
}

func TestDifficultyLeavesTasksOut(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 30)
	// Of 30 problems, 6 are wrong of a, 10 of b, 2 of both: 16 are all right.
	_, result := w.build(recordedSumsRecipe + "merge: {difficulty: {min: 0.1, max: 0.9}}\n")
	if n := result.Rows["train"] + result.Rows["test"]; n != 2*12 || result.Unselected[merge.LeftDifficulty] != 2*16 {
		t.Errorf("%d rows, %v", n, result.Unselected)
	}
	rates := map[float64]int{}
	for _, p := range rows[datasets.PromptRow](w, "sums", datasets.TablePrompts) {
		if p.PassRate == nil || *p.Judged != 2 || len(p.PassAt) != 2 || p.Label != nil {
			t.Fatalf("%+v", p)
		}
		rates[*p.PassRate]++
	}
	if rates[0] != 4 || rates[0.5] != 24 || rates[1] != 32 {
		t.Errorf("%v", rates)
	}
}

func TestPairsAreATable(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 30)
	out, result := w.build(recordedSumsRecipe + "pairs: {}\n")
	pairs := rows[datasets.Pair](w, "sums", datasets.TablePairs)
	// One of the two is right in 12 of 30 problems, at two efforts.
	if result.Pairs != 24 || len(pairs) != 24 {
		t.Fatalf("%d pairs, the result says %d", len(pairs), result.Pairs)
	}
	for _, p := range pairs {
		if !p.CrossTeacher || len(p.Prompt) != 1 || len(p.Chosen) != 1 || *p.Chosen[0].Content == *p.Rejected[0].Content || *p.ChosenVerdict != datasets.Pass || *p.RejectedVerdict != datasets.Fail {
			t.Fatalf("%+v", p)
		}
	}
	m := w.manifest("sums")
	for _, f := range m.TableFiles(datasets.TablePairs) {
		for _, p := range rows[datasets.PromptRow](w, "sums", datasets.TablePrompts) {
			if p.Split == "" {
				t.Fatalf("%s has no split", f.Key)
			}
		}
	}
	splits := map[string]int64{}
	for _, p := range pairs {
		splits[*p.Split]++
	}
	for _, f := range m.TableFiles(datasets.TablePairs) {
		if splits[f.Split] != f.Rows {
			t.Errorf("%s: %d rows, %v", f.Split, f.Rows, splits)
		}
	}
	if n := m.PairTeachers(); n["a"] != 24 || n["b"] != 24 {
		t.Errorf("%v", n)
	}
	if out.Version != 1 || m.SchemaFingerprint[datasets.TablePairs] == "" {
		t.Errorf("%+v", out)
	}
	want := []string{"verifier math", "filter finish", "policy best_of", "pairs pairs"}
	var got []string
	for _, method := range m.Methods {
		got = append(got, method.Kind+" "+method.Name)
		if method.Version == "" {
			t.Errorf("%s %s has no version", method.Kind, method.Name)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("methods %q, want %q", got, want)
	}
	p := m.Methods[len(m.Methods)-1]
	if got := fromJSON[map[string]any](t, p.Options); p.Kind != catalog.MethodPairs || got["teachers"] != "any" || got["max_per_task"] != 1.0 || len(got) != 3 {
		t.Errorf("%+v %v", p, got)
	}
}

// What a result says of a mixture is bounded, however files are called.
func TestResultOfAMixtureIsSmall(t *testing.T) {
	m := &mixture{}
	for i := range 400 {
		m.result.Kinds = append(m.result.Kinds, report.MixKind{Name: fmt.Sprintf("%s%03d", strings.Repeat("x", 3000), i), Target: int64(i)})
	}
	s := &seal{report: report.New(nil)}
	s.mixIs(m)
	text, err := s.result.encode()
	if err != nil || len(text) > resultBytes || len(s.result.Mix.Kinds) != resultKinds {
		t.Errorf("%d bytes, %d kinds, %v", len(text), len(s.result.Mix.Kinds), err)
	}
	if len(m.result.Kinds) != 400 || len(m.result.Kinds[0].Name) != 3003 {
		t.Error("the report's figures were cut too")
	}
}

// BenchmarkMixture decides over rows of several kinds under caps, on disk.
func BenchmarkMixture(b *testing.B) {
	const n = 1_000_000
	r := parsed(b, `name: x
prompts: [{path: x.jsonl, fields: {prompt: q, domain: d, gold: g}}]
teachers: [{id: a, api: recorded, path: x.jsonl, fields: {content: a}}, {id: b, api: recorded, path: x.jsonl, fields: {content: a}}, {id: c, api: recorded, path: x.jsonl, fields: {content: a}}]
mix: {by: domain, alpha: 0.5, caps: {teacher: 0.5, prompt: 0.001}}
`)
	task := refinedTask{Candidates: make([]datasets.Candidate, 4)}
	b.ReportAllocs()
	for b.Loop() {
		m, err := newMixture(r, b.TempDir(), false)
		if err != nil {
			b.Fatal(err)
		}
		for i := range n / 4 {
			task.Task.PromptID, task.Task.Domain = fmt.Sprintf("%032d", i), []string{"math", "math", "math", "code", "chat"}[i%5]
			for j := range task.Candidates {
				c := &task.Candidates[j]
				c.SampleID, c.Teacher, c.Selected = fmt.Sprintf("%d/%d", i, j), []string{"a", "a", "b", "c"}[j], true
			}
			if err := m.see(&task); err != nil {
				b.Fatal(err)
			}
		}
		if err := m.settle(); err != nil {
			b.Fatal(err)
		}
		if m.result.Rows == 0 {
			b.Fatal("nothing was taken")
		}
		if err := m.close(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
