package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// judged is a task to which some answers were given, after the recipe's checks,
// filters and merge.
func judgedTask(t *testing.T, recipe string, task datasets.Task, answers ...string) *refinedTask {
	t.Helper()
	rt, err := newRuntime(parsed(t, recipe), &Sources{})
	if err != nil {
		t.Fatal(err)
	}
	out := &refinedTask{Task: task, Status: datasets.StatusUnanswered}
	for i, answer := range answers {
		c := datasets.Candidate{SampleID: fmt.Sprint(i), TaskID: task.TaskID, Domain: task.Domain, Effort: task.Effort, Teacher: fmt.Sprintf("t%d", i+1), ModelAsked: "m"}
		if class, failed := strings.CutPrefix(answer, "!"); failed {
			c.Error = &class
		} else {
			finish := "stop"
			c.FinishReason = &finish
			c.Messages = []chat.Message{{Role: chat.RoleAssistant, Content: &answer, Train: true}}
		}
		out.Candidates = append(out.Candidates, c)
	}
	if err := rt.judge(context.Background(), nil, nil, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestJudge(t *testing.T) {
	const head = `name: j
prompts: [{path: p.jsonl, fields: {gold: gold, meta: [level], domain: domain}}]
teachers: [{id: t1, model: m, base_url: http://localhost/v1}, {id: t2, model: m, base_url: http://localhost/v1}, {id: t3, model: m, base_url: http://localhost/v1}]
`
	four := "4"
	math := datasets.Task{TaskID: "1", Domain: "math", Effort: "default", Gold: &four, Meta: `{"level":3}`}
	other := datasets.Task{TaskID: "1", Domain: "chat", Effort: "default", Meta: `{"level":"high"}`}
	for _, tc := range []struct {
		name, more string
		task       datasets.Task
		answers    []string
		want       string // by answer: verdict, accepted (+), selected (*), reject reasons
		status     string
	}{
		{"the best passes", "check: [{verifier: math}]", math, []string{"A: 5", "A: 4", "A: 4.0"}, "fail verdict:fail|pass+*|pass+", "clean"},
		{"unknown is not fail", "check: [{verifier: math}]", math, []string{"who knows"}, "unknown verdict:unknown", "clean"},
		{"unknown may be accepted", "check: [{verifier: math}]\nmerge: {accept: pass_or_unknown}", math, []string{"who knows", "A: 5", "A: 4"}, "unknown+|fail verdict:fail|pass+*", "clean"},
		{"anything may be accepted", "check: [{verifier: math}]\nmerge: {accept: any, policy: union}", math, []string{"A: 5", "A: 4"}, "fail+*|pass+*", "clean"},
		{"only what passes", "check: [{verifier: math}]\nmerge: {accept: any, policy: all_passing}", math, []string{"A: 5", "A: 4"}, "fail+|pass+*", "clean"},
		{"no verifier", "filter: [finish]", math, []string{"A: 5", "hm"}, "none+*|none+*", "clean"},
		{"no verifier applies", "check: [{verifier: math, when: domain == \"math\"}]", other, []string{"hello"}, "none+*", "clean"},
		{"two verifiers, one fails", "check: [{verifier: math}, {verifier: regex, pattern: 'because'}]", math, []string{"A: 4", "because\nA: 4"}, "fail verdict:fail|pass+*", "clean"},
		{"a condition on metadata", "check: [{verifier: math, when: meta.level > 2}]", math, []string{"A: 5"}, "fail verdict:fail", "clean"},
		{"a condition that metadata do not fit", "check: [{verifier: math, when: meta.level > 2}]", other, []string{"hello"}, "none condition:math", "clean"},
		{"a filter sees the verdict", "check: [{verifier: math}]\nmerge: {accept: any, policy: union}\nfilter: [{finish: {when: verdict != \"unknown\"}}]", math, []string{" ", "A: 4", "!network"}, "unknown+*|pass+*|none error:network", "clean"},
		{"a failed ask", "check: [{verifier: math}]", math, []string{"!network", "A: 4"}, "none error:network|pass+*", "clean"},
		{"all asks failed", "check: [{verifier: math}]", math, []string{"!network", "!not_asked"}, "none error:network|none error:not_asked", "unanswered"},
		{"failed, and no filter says so", "filter: []", math, []string{"!network"}, "none error:network", "unanswered"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := judgedTask(t, head+tc.more+"\n", tc.task, tc.answers...)
			var got []string
			for _, c := range r.Candidates {
				s := "none"
				if c.Verdict != nil {
					s = *c.Verdict
				}
				if c.Accepted {
					s += "+"
				}
				if c.Selected {
					s += "*"
				}
				got = append(got, strings.TrimSpace(s+" "+strings.Join(c.RejectReasons, ",")))
				if c.Accepted == (len(c.RejectReasons) > 0) {
					t.Errorf("accepted %v with reasons %v", c.Accepted, c.RejectReasons)
				}
			}
			if s := strings.Join(got, "|"); s != tc.want || r.Status != tc.status {
				t.Errorf("%s, %s; want %s, %s", s, r.Status, tc.want, tc.status)
			}
		})
	}
}

func TestRecordedAnswers(t *testing.T) {
	w := newWorld(t)
	w.file("p.jsonl", `{"question":"plain"}
{"question":"two samples"}
{"question":"with reasoning"}
{"question":"cut off"}
{"question":"calls a tool"}
{"question":"nobody answered"}
{"question":"a system text","system":"be brief"}
`)
	w.file("old.jsonl", `{"messages":[{"role":"user","content":"plain"},{"role":"assistant","content":"yes"}],"model":"old-1","tokens":7}
{"messages":[{"role":"user","content":"two samples"},{"role":"assistant","content":"one"}]}
{"messages":[{"role":"user","content":"two samples"},{"role":"assistant","content":"two"}]}
{"messages":[{"role":"user","content":"two samples"},{"role":"assistant","content":"three"}]}
{"messages":[{"role":"user","content":"with reasoning"},{"role":"assistant","content":"yes","reasoning_content":"hm"}]}
{"messages":[{"role":"user","content":"cut off"},{"role":"assistant","content":"ye"}],"why":"length"}
{"messages":[{"role":"user","content":"calls a tool"},{"role":"assistant","content":null,"tool_calls":[{"id":"1","type":"function","function":{"name":"f","arguments":"{\"a\":1}"}}]}]}
{"messages":[{"role":"user","content":"no answer here"}]}
{"messages":[{"role":"user","content":"asked by nobody"},{"role":"assistant","content":"yes"}]}
{"messages":[{"role":"user","content":"a system text"},{"role":"assistant","content":"ok"}]}
`)
	r := w.start(`name: rec
prompts: [{path: p.jsonl, fields: {system: system}}]
teachers: [{id: old, api: recorded, path: old.jsonl, fields: {messages: messages, model: model, completion_tokens: tokens, finish: why}, terms: {licence: MIT}}]
ask: {samples: 2}
`)
	in := wire.ImportInput{BuildRef: r.ref, Teacher: "old"}
	if out := must[wire.ImportOutput](w, wire.ActivityImport, in); out.Rows != 10 || out.BadRows != 1 || out.Added != 8 {
		t.Errorf("%+v", out)
	}
	if out := must[wire.ImportOutput](w, wire.ActivityImport, in); out.Added != 0 {
		t.Errorf("the second time: %+v", out)
	}
	if c := r.ask().counts["old"]; c.Asks != 14 || c.Reused != 7 || c.Failed != 7 || c.New != 0 {
		t.Errorf("%+v", c)
	}
	r.refine()
	got := map[string][]datasets.Candidate{}
	for _, task := range r.refined() {
		got[task.Task.Prompt.LastUser()] = task.Candidates
		if want := map[bool]string{true: datasets.StatusUnanswered, false: datasets.StatusClean}[task.Task.Prompt.LastUser() == "nobody answered"]; task.Status != want {
			t.Errorf("%s is %s", task.Task.Prompt.LastUser(), task.Status)
		}
	}
	plain := got["plain"][0]
	if plain.Content() != "yes" || *plain.ModelAnswered != "old-1" || *plain.CompletionTokens != 7 || plain.UsageEstimated || plain.PromptTokens != nil || plain.LatencyMS != nil || plain.CostMicros != nil || *plain.Licence != "MIT" {
		t.Errorf("%+v", plain)
	}
	if c := got["plain"][1]; c.Error == nil || *c.Error != classNotRecorded || c.RejectReasons[0] != "error:not_recorded" {
		t.Errorf("%+v", c)
	}
	if c := got["two samples"]; c[0].Content() != "one" || c[1].Content() != "two" || !c[1].Selected {
		t.Errorf("%+v", c)
	}
	if c := got["with reasoning"][0]; c.ReasoningField == nil || *c.Answer().ReasoningContent != "hm" || c.CompletionTokens != nil {
		t.Errorf("%+v", c)
	}
	if c := got["cut off"][0]; c.Accepted || c.RejectReasons[0] != "truncated" {
		t.Errorf("%+v", c)
	}
	if c := got["calls a tool"][0]; len(c.Answer().ToolCalls) != 1 || c.Answer().ToolCalls[0].Arguments != `{"a":1}` || c.ArgsValid == nil || !*c.ArgsValid || !c.Selected {
		t.Errorf("%+v", c)
	}
	if c := got["a system text"][0]; c.Content() != "ok" {
		t.Errorf("%+v", c)
	}
}

// Recordings are found by their prompts alone, so two that differ in the system
// text are two samples of one.
func TestRecordedSamplesCountByPrompt(t *testing.T) {
	w := newWorld(t)
	w.file("p.jsonl", `{"question":"q"}`)
	w.file("old.jsonl", `{"question":"q","s":"be brief","a":"one"}`+"\n"+`{"question":"q","s":"be long","a":"two"}`+"\n")
	r := w.start("name: rec\nprompts: [{path: p.jsonl}]\nteachers: [{id: old, api: recorded, path: old.jsonl, fields: {prompt: question, system: s, content: a}}]\nask: {samples: 2}\n").ask()
	r.refine()
	if c := r.refined()[0].Candidates; c[0].Content() != "one" || c[1].Content() != "two" {
		t.Errorf("%+v", c)
	}
}

func TestUsageAndCosts(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		switch r.Prompt {
		case "0+1=":
			return teacherstest.Reply{Content: "12345678", NoUsage: true}
		case "1+2=":
			return teacherstest.Reply{Content: "x", Usage: &chat.Usage{PromptTokens: 1000, CachedTokens: 400, CompletionTokens: 50, ReasoningTokens: 20}}
		}
		return teacherstest.Reply{Status: 400, Message: "no"}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	r := w.start(askRecipe("a", server.URL, ", price: {input: 2, cached_input: 0.5, output: 10, source: list, as_of: 2026-11-01}")).ask()
	r.refine()
	byPrompt := map[string]datasets.Candidate{}
	for _, task := range r.refined() {
		byPrompt[task.Task.Prompt.LastUser()] = task.Candidates[0]
	}
	if c := byPrompt["0+1="]; !c.UsageEstimated || *c.CompletionTokens != 2 || *c.PromptTokens < 10 || *c.CostMicros != 2**c.PromptTokens+10*2 {
		t.Errorf("%+v", c)
	}
	if c := byPrompt["1+2="]; c.UsageEstimated || *c.CostMicros != 2*600+400/2+10*50 || *c.ReasoningTokens != 20 || *c.CachedTokens != 400 || c.PriceID == nil {
		t.Errorf("%+v", c)
	}
	if c := byPrompt["2+3="]; c.CostMicros != nil || c.PromptTokens != nil || *c.Error != teachers.ClassBadRequest || c.Attempts != 1 {
		t.Errorf("%+v", c)
	}
	_, result := r.seal()
	spent := *byPrompt["0+1="].CostMicros + *byPrompt["1+2="].CostMicros
	if result.CostUSD != float64(spent)/1e6 || result.UnpricedAsks != 0 || result.Teachers["t"].CostUSD != result.CostUSD || result.Teachers["t"].ReasoningTokens != 20 {
		t.Errorf("%+v", result)
	}
	// What an earlier build paid is not spent again.
	if _, again := w.build(askRecipe("b", server.URL, ", price: {input: 2, cached_input: 0.5, output: 10}")); again.CostUSD != 0 || again.AnswersReused != 2 || again.Teachers["t"].CostUSD != result.CostUSD {
		t.Errorf("%+v", again)
	}
}

// Whatever a model writes, the tables stay well-formed and say what it wrote.
func TestHostileAnswers(t *testing.T) {
	long := strings.Repeat("very long ", 400_000)
	replies := map[string]teacherstest.Reply{
		"0+1=": {Content: "nul \x00 and \x1b[31mred\u202e <|im_end|><|im_start|>system"},
		"1+2=": {ContentType: "application/json", Raw: "{\"choices\":[{\"message\":{\"role\":\"assistant\",\"content\":\"bad \xff\xfe bytes\"},\"finish_reason\":\"stop\"}]}"},
		"2+3=": {Content: long},
		"3+4=": {Content: "x", Model: strings.Repeat("m", 100_000), Finish: "stop"},
		"4+5=": {ToolCalls: []chat.ToolCall{{ID: "\x00", Name: strings.Repeat("n", 10_000), Arguments: "{not json"}}, Finish: "tool_calls"},
		"5+6=": {Content: "x", Usage: &chat.Usage{PromptTokens: -5, CompletionTokens: 1 << 60}},
		"6+7=": {ContentType: "application/json", Raw: `{"choices":[{"message":{"role":"assistant","content":"\ud800 half"},"finish_reason":"stop"}]}`},
	}
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply { return replies[r.Prompt] })
	w := newWorld(t)
	w.file("p.jsonl", sums(len(replies)))
	out, result := w.build(askRecipe("h", server.URL, ", price: {input: 1, output: 1}") + "check: [{verifier: math}]\nmerge: {accept: any, policy: union}\n")
	if out.Version != 1 || result.Candidates != int64(len(replies)) {
		t.Fatalf("%+v", result)
	}
	w.verify("h")
	list := rows[datasets.Candidate](w, "h", datasets.TableCandidates)
	for _, c := range list {
		if c.Error != nil {
			t.Errorf("%s: %s", *c.Messages[0].Content, *c.ErrorText)
		}
		for _, m := range c.Messages {
			if m.Content != nil && !utf8.ValidString(*m.Content) {
				t.Error("content that is not UTF-8")
			}
		}
		switch *c.Messages[0].Content {
		case "0+1=":
			if !strings.Contains(c.Content(), "\x00") || !strings.Contains(strings.Join(c.Flags, " "), teachers.FlagControlTokens) {
				t.Errorf("%q %v", c.Content(), c.Flags)
			}
		case "1+2=", "6+7=":
			if !strings.Contains(c.Content(), "\uFFFD") || !strings.Contains(strings.Join(c.Flags, " "), teachers.FlagBadUTF8) {
				t.Errorf("%q %v", c.Content(), c.Flags)
			}
		case "2+3=":
			if c.Content() != long {
				t.Errorf("%d bytes", len(c.Content()))
			}
		case "4+5=":
			if c.ArgsValid == nil || *c.ArgsValid {
				t.Errorf("%+v", c.ArgsValid)
			}
		}
	}
}

// However few tasks are in memory at once, what comes out is the same.
func TestRefineInPieces(t *testing.T) {
	for answers, want := range map[int]int{0: 32, 1: 32, 8: 32, 9: 28, 40: 6, 256: 1, 40 * 1024: 1} {
		if got := chunkOf(answers); got != want {
			t.Errorf("%d answers: %d tasks at once, want %d", answers, got, want)
		}
	}
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: fmt.Sprint(r.Prompt, " ", r.Seed != nil && *r.Seed > 20)}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(40))
	r := w.start(askRecipe("a", server.URL, ", limits: {concurrency: 64}") + "ask: {samples: 40}\n").ask()
	rt, plan, err := w.a.planned(context.Background(), r.ref, r.plan.Key)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := w.a.tasks(context.Background(), plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	all, err := rt.refine(context.Background(), w.a.historyAsOf(time.Now()), lookupAnswers, r.started, tasks)
	if err != nil {
		t.Fatal(err)
	}
	r.refine()
	if got, want := asRefined(t, r.refined()), asRefined(t, all); got != want {
		t.Error("refining in pieces gives other candidates")
	}
	for _, task := range all {
		for i, c := range task.Candidates {
			if int(c.SampleIndex) != i || c.Content() != fmt.Sprint(task.Task.Prompt.LastUser(), " ", i > 20) || !task.fresh(i) {
				t.Fatalf("candidate %d of %s: %+v", i, task.Task.Prompt.LastUser(), c)
			}
		}
	}
}

// Short answers are read many at once; long ones a few, for good once some were
// too large for more.
func TestPaceOfRefining(t *testing.T) {
	rt := &runtime{recipe: &recipe.Recipe{}}
	size := 0
	p := pace{rt: rt, each: 2}
	look := p.measured(func(_ context.Context, asks []answers.Ask) ([]answers.History, error) {
		out := make([]answers.History, len(asks))
		for i := range out[1:] {
			out[i+1].Record = &answers.Record{Raw: make([]byte, size)}
		}
		return out, nil
	})
	if p.step() != lookupAnswers || p.tasks() != refineChunk {
		t.Errorf("at first %d answers of %d tasks", p.step(), p.tasks())
	}
	for bytes, want := range map[int]int{10: lookupMost, 8 << 10: 127, 1 << 20: lookupAnswers} {
		p.answers, p.bytes, size = 0, 0, bytes
		if _, err := look(t.Context(), make([]answers.Ask, 30)); err != nil {
			t.Fatal(err)
		}
		if p.step() != want || p.tasks() != max(refineChunk, want/2) {
			t.Errorf("%d bytes: %d answers of %d tasks, want %d", bytes, p.step(), p.tasks(), want)
		}
	}
	p.answers, p.bytes, p.long = 29, 290, true
	if p.step() != lookupAnswers {
		t.Errorf("after too much: %d", p.step())
	}
}

// Short and long answers beside each other are all refined.
func TestRefineOfShortAndLongAnswers(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		long := 0
		if r.Seed != nil && *r.Seed >= 20 {
			long = 2_000
		}
		return teacherstest.Reply{Content: r.Prompt + strings.Repeat(" and so on", long)}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(60))
	r := w.start(askRecipe("a", server.URL, ", limits: {concurrency: 64}") + "ask: {samples: 24}\n").ask()
	counts := r.refine()
	if counts.Candidates != 60*24 || counts.Accepted != 60*24 {
		t.Errorf("%+v", counts)
	}
}
