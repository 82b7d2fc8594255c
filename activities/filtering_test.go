package activities

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// measure measures all answers, where the plan says so, in some parts.
func (r *run) measure(parts int) string {
	r.w.t.Helper()
	if !r.plan.Measure {
		return ""
	}
	in := wire.MergeMeasuresInput{BuildRef: r.ref}
	for part := range parts {
		first, end := part*r.plan.Shards/parts, (part+1)*r.plan.Shards/parts
		out := must[wire.MeasureOutput](r.w, wire.ActivityMeasure, wire.MeasureInput{BuildRef: r.ref, PlanKey: r.plan.Key, Part: part, First: first, Shards: end - first})
		in.Parts = append(in.Parts, out.SHA256)
	}
	return must[wire.MergeMeasuresOutput](r.w, wire.ActivityMergeMeasure, in).Key
}

// answered writes prompts with one recorded answer each, all of one domain.
func (w *world) answered(answers ...string) {
	w.t.Helper()
	var prompts, recorded strings.Builder
	for i, a := range answers {
		q := fmt.Sprintf("question %d", i)
		for b, row := range map[*strings.Builder]map[string]string{&prompts: {"q": q}, &recorded: {"q": q, "a": a}} {
			text, err := json.Marshal(row)
			if err != nil {
				w.t.Fatal(err)
			}
			b.Write(append(text, '\n'))
		}
	}
	w.file("p.jsonl", prompts.String())
	w.file("a.jsonl", recorded.String())
}

const answeredRecipe = `name: f
prompts: [{path: p.jsonl, domain: chat, fields: {prompt: q}}]
teachers: [{id: t, api: recorded, path: a.jsonl, fields: {prompt: q, content: a}}]
`

// candidates are the rows of a version's table, by the number in their prompt.
func (r *run) reasons() map[string]string {
	out := map[string]string{}
	for _, t := range r.refined() {
		for _, c := range t.Candidates {
			out[strings.TrimPrefix(t.Task.Prompt.LastUser(), "question ")] = strings.Join(c.RejectReasons, " ")
		}
	}
	return out
}

// TestLengthIsMeasuredOverTheBuild holds that the ratio to the median is that of
// all answers, whatever the parts they are measured in, and that a version that
// was made so reads again as it is.
func TestLengthIsMeasuredOverTheBuild(t *testing.T) {
	w := newWorld(t)
	var answers []string
	for i := range 30 {
		answers = append(answers, strings.TrimSpace(strings.Repeat("word ", 10+i%5)))
	}
	answers = append(answers, strings.Repeat("many words ", 40), "one")
	w.answered(answers...)
	recipe := answeredRecipe + "filter: [finish, {length: {max_ratio: 3, min_ratio: 0.2}}]\n"
	r := w.start(recipe).ask()
	if !r.plan.Measure {
		t.Fatal("the plan does not say that answers are measured")
	}
	key := r.measure(3)
	if again := r.measure(2); again != key {
		t.Errorf("in other parts the measures are %s, not %s", again, key)
	}
	r.stats = key
	r.refine()
	reasons := r.reasons()
	want := map[string]string{"30": "length:long", "31": "length:short"}
	for i := range 30 {
		want[fmt.Sprint(i)] = ""
	}
	if diff := cmp.Diff(want, reasons); diff != "" {
		t.Error(diff)
	}
	out, _ := r.seal()
	w.readsAgain(out)
}

func TestNothingIsMeasuredWithoutNeed(t *testing.T) {
	w := newWorld(t)
	w.answered("4")
	if r := w.start(answeredRecipe + "filter: [finish, {length: {max_tokens: 10}}]\n"); r.plan.Measure {
		t.Error("the plan measures answers though no filter needs it")
	}
}

// TestMeasuresAreBelievedByTheirDigest holds that measures that somebody has
// changed in the store end the build.
func TestMeasuresAreBelievedByTheirDigest(t *testing.T) {
	w := newWorld(t)
	w.answered("4", "5")
	r := w.start(answeredRecipe + "filter: [{length: {max_ratio: 3}}]\n").ask()
	r.stats = r.measure(1)
	if err := w.bucket.Delete(w.ctx, r.stats); err != nil {
		t.Fatal(err)
	}
	if _, err := w.bucket.Put(w.ctx, r.stats, strings.NewReader(`{"cells":{}}`), 12, objstore.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := call[wire.RefineCounts](w, wire.ActivityRefine, r.refineInput(0)); err == nil || !strings.Contains(err.Error(), "is not what was submitted") {
		t.Errorf("%v", err)
	}
}

// TestMaskedTextIsInNoTable holds that what is masked is masked everywhere in
// the version, while the verifier has read the answer as it was.
func TestMaskedTextIsInNoTable(t *testing.T) {
	w := newWorld(t)
	w.answered("Write to jane@gmx.net", "4")
	r := w.start(answeredRecipe + "check: [{verifier: regex, pattern: 'gmx'}]\nmerge: {policy: union, accept: any}\nfilter: [finish, {pii: {action: mask}}]\n").ask()
	r.refine()
	found := map[string]string{}
	for _, task := range r.refined() {
		c := task.Candidates[0]
		found[c.Content()] = *c.Verdict + " " + strings.Join(c.Flags, " ")
		if whole, _ := json.Marshal(task); strings.Contains(string(whole), "jane@gmx.net") {
			t.Errorf("the address is left: %s", whole)
		}
	}
	if diff := cmp.Diff(map[string]string{"Write to [EMAIL]": "pass pii_masked", "4": "fail "}, found); diff != "" {
		t.Error(diff)
	}
	out, _ := r.seal()
	w.readsAgain(out)
}

func TestFiltersOfARecipe(t *testing.T) {
	task := datasets.Task{TaskID: "1", Domain: "chat", Effort: "default", Meta: `{"level":"high"}`, Prompt: chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text("Write a poem.")}}}}
	const head = "name: j\nprompts: [{path: p.jsonl, fields: {meta: [level]}}]\nteachers: [{id: t1, model: m, base_url: \"http://localhost/v1\"}, {id: t2, model: m, base_url: \"http://localhost/v1\"}]\n"
	for _, tc := range []struct {
		filter, answer, want string
	}{
		{"[finish, refusal]", "I'm sorry, but I can't help with that.", "refusal"},
		{"[{refusal: {when: 'domain == \"math\"'}}]", "I'm sorry, but I can't help with that.", ""},
		{"[{expr: 'len(content) > 3'}]", "abc", "expr"},
		{"[{expr: {keep: 'len(content) > 3', reason: short}}]", "abc", "expr:short"},
		{"[{expr: 'len(content) > 3'}]", "abcd", ""},
		{"[{expr: 'meta.level > 3'}]", "abcd", "condition:expr"},
		{"[{expr: 'not (prompt contains \"poem\") and tool_calls == 0'}]", "abcd", "expr"},
		{"[{expr: 'verdict != \"pass\"'}]", "abcd", ""},
		{"[refusal, identity, {length: {max_tokens: 3}}]", "I'm sorry, but I can't help: I am ChatGPT.", "refusal identity length:long"},
	} {
		got := judgedTask(t, head+"filter: "+tc.filter+"\n", task, tc.answer)
		if reasons := strings.Join(got.Candidates[0].RejectReasons, " "); reasons != tc.want {
			t.Errorf("%s: %q, want %q", tc.filter, reasons, tc.want)
		}
	}
}

func TestMaskingAndLogprobsExcludeEachOther(t *testing.T) {
	const head = "name: j\nprompts: [{path: p.jsonl}]\nteachers: [{id: t1, model: m, base_url: \"http://localhost/v1\"}]\nlogprobs: {top: 5}\n"
	r := parsed(t, head+"filter: [finish, {pii: {action: mask}}]\n")
	if err := CheckRecipe(r); err == nil || !strings.Contains(err.Error(), "filter[1]: the filter pii masks answers") {
		t.Errorf("%v", err)
	}
	for _, good := range []string{"filter: [{pii: {action: drop}}]\n", "filter: [pii]\n"} {
		if err := CheckRecipe(parsed(t, head+good)); err != nil {
			t.Error(err)
		}
	}
}

// TestEveryDeclaredFilterIsMade holds that what a recipe may name there is.
func TestEveryDeclaredFilterIsMade(t *testing.T) {
	const head = "name: j\nprompts: [{path: p.jsonl}]\nteachers: [{id: t1, model: m, base_url: \"http://localhost/v1\"}]\nfilter: ["
	full := []string{
		"finish", "empty", "{refusal: {hedged: true}}", "{identity: {allow: [Kimi], cutoff: false, assistant: true}}", "{think: {required: true}}", "{control_tokens: {allow: [\"<tool_call>\"]}}",
		"{repetition: {paragraphs: 5, consecutive: 3, total: 20, loop: false, gopher: true}}", "{length: {min_tokens: 1, max_tokens: 9, min_ratio: 0.1, max_ratio: 4, min_answers: 3}}",
		"{language: {languages: [en, de], mixed: 0.3, reasoning: true}}", "{pii: {action: mask, kinds: [email, ip], allow: [\"@acme.com\"]}}", "{expr: {keep: 'true', reason: x}}",
	}
	r := parsed(t, head+strings.Join(full, ", ")+"]\n")
	steps, err := filtersOf(r)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range steps {
		names = append(names, s.filter.Name())
	}
	if !slices.Equal(names, []string{"finish", "empty", "refusal", "identity", "think", "control_tokens", "repetition", "length", "language", "pii", "expr"}) {
		t.Errorf("filters %v", names)
	}
	if err := CheckRecipe(parsed(t, head+"{language: {languages: [english]}}]\n")); err == nil || !strings.Contains(err.Error(), "filter[0].language.languages: filter language: option languages") {
		t.Errorf("%v", err)
	}
}
