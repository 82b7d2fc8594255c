package activities

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// reparse reads a version again, with what another machine has: the store.
func (w *world) reparse(ref string, dry bool) (*ReparseResult, error) {
	w.t.Helper()
	reader, err := answers.OpenReader(w.bucket, w.t.TempDir())
	if err != nil {
		w.t.Fatal(err)
	}
	defer reader.Close()
	p := Reparser{Sandbox: w.a.Sandbox, Bucket: w.bucket, Catalog: catalog.Open(w.bucket), Answers: reader, TempDir: w.a.TempDir, Log: slog.New(slog.DiscardHandler), DryRun: dry}
	return p.Run(context.Background(), ref)
}

// asAnOlderParser publishes the newest version of a dataset once more, with its
// candidates as change leaves them.
func (w *world) asAnOlderParser(dataset string, change func(*datasets.Candidate)) {
	w.t.Helper()
	old := w.manifest(dataset)
	t := newTables(w.t.TempDir())
	add := func(err error) {
		if err != nil {
			w.t.Fatal(err)
		}
	}
	for _, row := range rows[datasets.PromptRow](w, dataset, datasets.TablePrompts) {
		add(t.prompts.add(row))
	}
	for _, c := range rows[datasets.Candidate](w, dataset, datasets.TableCandidates) {
		change(&c)
		add(t.candidates.add(c))
		if c.Selected {
			add(t.train.add(datasets.RowOf(&c)))
		}
	}
	for _, a := range rows[datasets.Attempt](w, dataset, datasets.TableAttempts) {
		add(t.attempts.add(a))
	}
	add(t.close())
	m := *old
	m.BuildID, m.Files = "20250101T000000Z-0badcafe", nil
	for _, table := range t.all() {
		refs, err := table.stage(context.Background(), w.a.Catalog, dataset, m.BuildID)
		add(err)
		m.Files = append(m.Files, refs...)
	}
	_, err := w.a.Catalog.Publish(context.Background(), m)
	add(err)
}

func TestReparse(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		reply := teacherstest.Reply{Content: "42", Reasoning: "six times seven", Finish: "stop"}
		if r.Prompt == "1+2=" {
			reply = teacherstest.Reply{Status: 400, Message: "no"}
		}
		return reply
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(300)) // more than a window
	recorded := `{"messages":[{"role":"user","content":"3+4="}],"answer":"seven"}` + "\n"
	w.file("old.jsonl", recorded)
	recipe := fmt.Sprintf(`name: a
prompts: [{path: p.jsonl, system: Answer with a number., fields: {prompt: question, gold: gold}}]
teachers:
- {id: t, model: m, base_url: %s, price: {input: 1, output: 2}}
- {id: old, model: m0, api: recorded, path: old.jsonl, fields: {messages: messages, content: answer}}
ask: {route: all}
`, server.URL)
	w.build(recipe)
	want := w.digests("a", stable...)

	// Nothing changes as long as nothing has changed.
	asked := server.Stats().Requests
	got, err := w.reparse("a", false)
	if err != nil {
		t.Fatal(err)
	}
	if !got.Unchanged || got.Changed != 0 || got.Version != 1 || got.Tasks != 300 || got.Answers != 300 || got.Newer != 0 || got.Held != "" {
		t.Errorf("%+v", got)
	}
	if n := w.versions("a"); n != 1 {
		t.Errorf("%d versions", n)
	}

	// An older parser took reasoning for content, lost a count, and gave up on
	// some answers.
	n := 0
	w.asAnOlderParser("a", func(c *datasets.Candidate) {
		if c.Teacher != "t" || c.Error != nil {
			return
		}
		n++
		m := &c.Messages[len(c.Messages)-1]
		switch {
		case n <= 20:
			m.Content, m.ReasoningContent, m.ReasoningKind, c.ReasoningField = chat.Text("<think>six times seven</think>42"), nil, nil, nil
		case n <= 25:
			class := teachers.ClassMalformed
			*c = datasets.Candidate{
				SampleID: c.SampleID, TaskID: c.TaskID, PromptID: c.PromptID, Domain: c.Domain, Effort: c.Effort, Split: c.Split, Teacher: c.Teacher,
				ModelAsked: c.ModelAsked, AskID: c.AskID, ParamsAsked: c.ParamsAsked, Messages: c.Messages[:len(c.Messages)-1], Error: &class,
				RejectReasons: []string{"error:malformed"},
			}
		case n <= 28:
			c.CompletionTokens, c.UsageEstimated = nil, true
		case n == 29:
			c.FinishReason = chat.Text("length")
		}
	})
	if slices.Equal(w.digests("a", stable...), want) {
		t.Fatal("the tables of an older parser are those of today's")
	}
	dry, err := w.reparse("a@2", true)
	if err != nil {
		t.Fatal(err)
	}
	if dry.Version != 2 || dry.Held == "" || dry.Changed != 29 || w.versions("a") != 2 {
		t.Errorf("a dry run: %+v, %d versions", dry, w.versions("a"))
	}
	got, err = w.reparse("a", false)
	if err != nil {
		t.Fatal(err)
	}
	fields := map[string]int64{fieldContent: 25, fieldReasoning: 25, fieldFinish: 6, fieldUsage: 8, fieldModel: 5, fieldError: 5}
	if diff := cmp.Diff(fields, got.Fields); diff != "" {
		t.Errorf("fields (-want +got):\n%s", diff)
	}
	if got.Changed != 29 || got.Recovered != 5 || got.Lost != 0 || got.Unchanged || got.Read != 2 || got.Version != 3 || got.Held != "" {
		t.Errorf("%+v", got)
	}
	if diff := cmp.Diff(want, w.digests("a", stable...)); diff != "" {
		t.Errorf("the tables are not those that today's parser made before (-want +got):\n%s", diff)
	}
	m := w.manifest("a")
	if m.CostMicros != 0 || m.Counts.AnswersNew != 0 || m.Notes["reparsed"] != "a@2" || len(m.Sources) == 0 || m.Teachers[0].Counts.CostMicros == 0 {
		t.Errorf("manifest: cost %d, %+v, notes %v", m.CostMicros, m.Counts, m.Notes)
	}
	if server.Stats().Requests != asked {
		t.Errorf("%d requests while reading again", server.Stats().Requests-asked)
	}
	if left := len(rows[datasets.Attempt](w, "a", datasets.TableAttempts)); left != asked {
		t.Errorf("%d attempts are told of, %d were made", left, asked)
	}

	// An older version is reported on; its rows do not go before newer ones.
	got, err = w.reparse("a@2", false)
	if err != nil || got.Changed != 29 || got.Held == "" || got.Version != 3 || w.versions("a") != 3 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := w.reparse("nobody", false); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("%v", err)
	}
}
