package activities

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// library is documents with questions about each, in the order of a seed.
func library(documents, questions int, seed uint64) []promptRowIn {
	var rows []promptRowIn
	for d := range documents {
		text := strings.Repeat(fmt.Sprintf("document %d says so. ", d), 300)
		for q := range questions {
			rows = append(rows, promptRowIn{Question: text + fmt.Sprintf("Question %d?", q), Domain: "math"})
		}
	}
	rand.New(rand.NewPCG(seed, 1)).Shuffle(len(rows), func(i, j int) { rows[i], rows[j] = rows[j], rows[i] })
	return rows
}

const libraryRecipe = `name: p
prompts: [{path: one.jsonl, fields: {prompt: question, domain: domain, group: group}}]
teachers: [{id: every, model: m, base_url: http://localhost/v1, limits: {concurrency: 4}}]
`

// runs counts the places where the tasks of a plan go from one group to another.
func (b *plannedBuild) runs(group func(prompt string) string) int {
	n, last := 0, ""
	for _, tasks := range b.tasks {
		for i := range tasks {
			if g := group(tasks[i].Prompt.LastUser()); g != last {
				n, last = n+1, g
			}
		}
	}
	return n
}

func document(prompt string) string {
	name, _, _ := strings.Cut(prompt, " says")
	return name
}

func TestPromptsThatBeginAlikeAreBesideEachOther(t *testing.T) {
	r := parsed(t, libraryRecipe)
	rows := library(30, 17, 1)
	for i := range 200 { // short ones share nothing
		rows = append(rows, promptRowIn{Question: fmt.Sprint("short ", i), Domain: "math"})
	}
	b, err := plan(t.TempDir(), r, unbounded, []sources.File{textFile("one.jsonl", jsonl(rows))})
	if err != nil {
		t.Fatal(err)
	}
	b.check(t, r)
	grouped := &plannedBuild{Plan: b.Plan}
	for i, s := range b.Shards {
		if s.Shared != nil {
			grouped.tasks = append(grouped.tasks, b.tasks[i])
		} else if slices.ContainsFunc(b.tasks[i], longTask) {
			t.Errorf("shard %d holds documents and is not ordered by them", i)
		}
	}
	if n := grouped.runs(document); n != 30 {
		t.Errorf("30 documents are in %d places", n)
	}
	// A batch takes whole documents, as they fit.
	for _, batch := range b.batches("every") {
		s := b.Shards[batch.shard]
		if s.Shared == nil || batch.end == s.Tasks {
			continue
		}
		before, after := b.tasks[batch.shard][batch.end-1], b.tasks[batch.shard][batch.end]
		if document(before.Prompt.LastUser()) == document(after.Prompt.LastUser()) {
			t.Errorf("a batch of shard %d ends at %d, within a document", batch.shard, batch.end)
		}
	}
}

func longTask(t datasets.Task) bool { return len(t.Prompt.LastUser()) >= prefixLeast }

// What is ordered by groups does not depend on the order of the rows, nor on
// the memory that there is.
func TestTheOrderOfGroupsIsThatOfThePrompts(t *testing.T) {
	r := parsed(t, libraryRecipe)
	dir := t.TempDir()
	want := ""
	for seed := range uint64(4) {
		for _, spill := range []int64{unbounded, 200_000, 1} {
			b, err := plan(dir, r, spill, []sources.File{textFile("one.jsonl", jsonl(library(12, 6, seed)))})
			if err != nil {
				t.Fatal(err)
			}
			for i := range b.tasks { // where a task was read first differs, of course
				for j := range b.tasks[i] {
					b.tasks[i][j].Source = ""
				}
			}
			if got := asJSON(b); want == "" {
				want = got
			} else if got != want {
				t.Fatalf("seed %d, %d bytes of memory: the plan is another", seed, spill)
			}
		}
	}
}

func TestDeclaredGroupsAreBesideEachOther(t *testing.T) {
	r := parsed(t, libraryRecipe)
	var rows []promptRowIn
	for i := range 300 {
		rows = append(rows, promptRowIn{Question: fmt.Sprintf("g%d question %d", i%10, i), Domain: "math", Group: fmt.Sprint("g", i%10)})
		rows = append(rows, promptRowIn{Question: fmt.Sprint("alone ", i), Domain: "math", Group: fmt.Sprint("alone ", i)})
	}
	b, err := plan(t.TempDir(), r, 1, []sources.File{textFile("one.jsonl", jsonl(rows))})
	if err != nil {
		t.Fatal(err)
	}
	b.check(t, r)
	grouped := 0
	for i, s := range b.Shards {
		if s.Shared != nil {
			grouped += len(b.tasks[i])
			one := &plannedBuild{Plan: b.Plan}
			one.tasks = append(one.tasks, b.tasks[i])
			if n := one.runs(func(p string) string { g, _, _ := strings.Cut(p, " "); return g }); n != 10 {
				t.Errorf("10 groups are in %d places", n)
			}
		}
	}
	if grouped != 300 {
		t.Errorf("%d tasks are ordered by groups, want the 300 that share one", grouped)
	}
}

func TestPrefixChainsAgreeAsFarAsPromptsDo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shared := rapid.IntRange(0, 40_000).Draw(t, "shared")
		tailA := rapid.IntRange(0, 20_000).Draw(t, "tail a")
		tailB := rapid.IntRange(0, 20_000).Draw(t, "tail b")
		system := rapid.IntRange(0, shared).Draw(t, "system")
		prompt := func(tail int, fill string) *chat.Prompt {
			return &chat.Prompt{System: strings.Repeat("s", system), Messages: []chat.Message{{
				Role: chat.RoleUser, Content: chat.Text(strings.Repeat("u", shared-system) + strings.Repeat(fill, tail)),
			}}}
		}
		a, b := prefixChain(prompt(tailA, "a")), prefixChain(prompt(tailB, "b"))
		same := 0
		for same < min(len(a), len(b)) && a[same] == b[same] {
			same++
		}
		// The role and the ends of the parts are in what is shared.
		length := shared + len(chat.RoleUser) + 3
		want := 0
		for want < len(prefixSizes) && prefixSizes[want] <= length {
			want++
		}
		if tailA > 0 && tailB > 0 && (same < want-1 || same > want) {
			t.Fatalf("%d links are shared of %d bytes, want %d", same, length, want)
		}
		if same > 0 && prefixSizes[same-1] > length {
			t.Fatalf("%d bytes are taken for shared of %d", prefixSizes[same-1], length)
		}
		if again := prefixChain(prompt(tailA, "a")); !slices.Equal(a, again) {
			t.Fatal("the chain of a prompt changed")
		}
		if sharedLinks(a.key(), b.key()) != byte(same) {
			t.Fatalf("keys share %d links, chains %d", sharedLinks(a.key(), b.key()), same)
		}
	})
}

func TestSightingsForgetNoLinkPastTheirExactCount(t *testing.T) {
	var s sightings
	r := rand.New(rand.NewPCG(1, 2))
	links := make([]uint64, exactSightings+1000)
	for i := range links {
		links[i] = r.Uint64()
		s.note(links[i])
		if i%2 == 0 {
			s.note(links[i])
		}
	}
	wrong := 0
	for i, link := range links {
		switch shared := s.shared(link); {
		case i%2 == 0 && !shared:
			t.Fatalf("link %d was seen twice and is not shared", i)
		case i%2 == 1 && shared:
			wrong++
		}
	}
	if wrong > len(links)/100 {
		t.Errorf("%d of %d links are taken for shared", wrong, len(links))
	}
}

// A plan that was written before shards told what their tasks share still cuts
// the batches that it cut then.
func TestShardsOfOldPlansAreCutAsBefore(t *testing.T) {
	var s Shard
	if err := json.Unmarshal([]byte(`{"cell":0,"seq":0,"tasks":150,"key":"k"}`), &s); err != nil {
		t.Fatal(err)
	}
	for start, want := range map[int]int{0: 64, 64: 128, 128: 150} {
		if got := s.cut(start, 64); got != want {
			t.Errorf("a batch from %d ends at %d, want %d", start, got, want)
		}
	}
}

// Groups order the asking and nothing else: however the rows lie, the tables are
// sorted by ids and hold the same bytes.
func TestGroupsDecideNoByte(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: fmt.Sprintf("%d characters", len(r.Prompt))}
	})
	recipe := func(name string) string {
		return strings.Replace(askRecipe(name, server.URL, ""), "gold: gold", "group: group", 1) +
			"output: {splits: {train: 0.8, test: 0.2}, seed: 3}\n"
	}
	w := newWorld(t)
	var want []string
	for seed := range uint64(3) {
		lines := library(40, 9, seed)
		for i := range 50 {
			lines = append(lines, promptRowIn{Question: fmt.Sprint("short ", i)})
		}
		rand.New(rand.NewPCG(seed, 9)).Shuffle(len(lines), func(i, j int) { lines[i], lines[j] = lines[j], lines[i] })
		w.file("p.jsonl", jsonl(lines))
		name := fmt.Sprint("d", seed)
		w.build(recipe(name))
		got := w.digests(name, datasets.TableTrain, datasets.TableTest)
		if want == nil {
			want = got
		}
		if !slices.Equal(got, want) {
			t.Errorf("rows in order %d: %v, want %v", seed, got, want)
		}
		last := ""
		for _, row := range rows[datasets.Row](w, name, datasets.TableTrain) {
			if row.TaskID <= last {
				t.Fatalf("%s comes after %s", row.TaskID, last)
			}
			last = row.TaskID
		}
	}
	if s := server.Stats(); s.Completed != 40*9+50 {
		t.Errorf("%+v", s)
	}
}

// Of the questions about one document the first is sent alone, in a build as it
// is; the first ones of all documents are sent at once.
func TestTheFirstQuestionOfADocumentGoesAlone(t *testing.T) {
	const documents = 12
	var mu sync.Mutex
	started, read := map[string]int{}, map[string]bool{}
	early := 0
	all := make(chan struct{}) // documents are begun
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		name := document(r.Prompt)
		mu.Lock()
		started[name]++
		if started[name] > 1 && !read[name] {
			early++
		}
		if started[name] == 1 && len(started) == documents {
			close(all)
		}
		mu.Unlock()
		select {
		case <-all:
		case <-r.Done:
		}
		mu.Lock()
		read[name] = true
		mu.Unlock()
		return teacherstest.Reply{Content: "yes"}
	})
	w := newWorld(t)
	w.file("p.jsonl", jsonl(library(documents, 5, 5)))
	r := w.start(strings.Replace(askRecipe("a", server.URL, ", limits: {concurrency: 24}"), ", gold: gold", "", 1)).ask()
	if c := r.counts["t"]; c.New != documents*5 {
		t.Fatalf("%+v", c)
	}
	if early != 0 {
		t.Errorf("%d questions were sent before the first of their document was read", early)
	}
}
