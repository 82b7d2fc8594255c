package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// attemptsOf are the rows of the attempts table by prompt.
func attemptsOf(w *world, dataset string) map[string][]datasets.Attempt {
	w.t.Helper()
	texts := map[string]string{}
	for _, p := range rows[datasets.PromptRow](w, dataset, datasets.TablePrompts) {
		texts[p.PromptID] = *p.Messages[len(p.Messages)-1].Content
	}
	out := map[string][]datasets.Attempt{}
	for _, a := range rows[datasets.Attempt](w, dataset, datasets.TableAttempts) {
		out[texts[a.PromptID]] = append(out[texts[a.PromptID]], a)
	}
	return out
}

// spell is an attempt in a few words.
func spell(a *datasets.Attempt) string {
	s := fmt.Sprintf("%d:", a.Number)
	if a.Status != nil {
		s += fmt.Sprint(*a.Status)
	}
	if a.Error != nil {
		s += " " + *a.Error
	}
	s += " " + a.Outcome
	if a.UsageSource != nil {
		s += " " + *a.UsageSource
	}
	if a.PartialContent != nil {
		s += fmt.Sprintf(" %q", *a.PartialContent)
	}
	return s
}

func TestEveryRequestIsARow(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		whole := teacherstest.Reply{Content: "forty-two and more", Usage: &chat.Usage{PromptTokens: 100, CachedTokens: 40, CompletionTokens: 10}}
		switch first := r.Attempt == 0; {
		case r.Prompt == "0+1=" && r.Attempt < 2:
			return teacherstest.Reply{Status: 429, Message: "slow down", RetryAfter: time.Millisecond}
		case r.Prompt == "1+2=" && first:
			return teacherstest.Reply{Content: "forty-two and more", Fault: teacherstest.NoFinish, NoUsage: true}
		case r.Prompt == "2+3=":
			return teacherstest.Reply{Status: 400, Message: "temperature must be below 2"}
		case r.Prompt == "3+4=" && first:
			return teacherstest.Reply{Content: "forty-two and more", Fault: teacherstest.MidReset}
		case r.Prompt == "4+5=":
			whole.NoUsage, whole.Usage = true, nil
		case r.Prompt == "5+6=" && first:
			return teacherstest.Reply{Status: 500, Message: "out of memory"}
		}
		return whole
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(8))
	recipe := askRecipe("a", server.URL, ", price: {input: 1, cached_input: 0.5, output: 2, as_of: 2026-11-01, source: list}")
	r := w.start(recipe).ask()
	r.refine()
	_, result := r.seal()

	all := attemptsOf(w, "a")
	for prompt, want := range map[string][]string{
		"0+1=": {"1:429 rate_limited answered", "2:429 rate_limited answered", "3:200 answer reported"},
		"1+2=": {`1:200 truncated answered estimated "forty-two and more"`, "2:200 answer reported"},
		"2+3=": {"1:400 bad_request undone"},
		"3+4=": {`1:200 truncated answered estimated "forty-two"`, "2:200 answer reported"},
		"4+5=": {"1:200 answer estimated"},
		"5+6=": {"1:500 server answered", "2:200 answer reported"},
		"6+7=": {"1:200 answer reported"},
	} {
		var got []string
		for i := range all[prompt] {
			got = append(got, spell(&all[prompt][i]))
		}
		if strings.Join(got, "; ") != strings.Join(want, "; ") {
			t.Errorf("%s\n got %q\nwant %q", prompt, got, want)
		}
	}
	requests, cost, lost := 0, int64(0), int64(0)
	ids := map[string]bool{}
	for _, list := range all {
		for _, a := range list {
			ids[a.AttemptID] = true
			requests += int(a.Times)
			cost += *a.CostMicros
			if a.Outcome != datasets.OutcomeAnswer {
				lost += *a.CostMicros
			}
			if a.Billable != (a.UsageSource != nil) || (*a.CostMicros > 0) != a.Billable || a.Billable != (a.PriceID != nil) {
				t.Errorf("%+v", a)
			}
			if a.StartedUS == nil || *a.StartedUS < r.started.UnixMicro() || *a.StartedUS > time.Now().UnixMicro() || a.LatencyMS == nil {
				t.Errorf("sent at %v, took %v", a.StartedUS, a.LatencyMS)
			}
		}
	}
	if n := server.Stats().Requests; requests != n || len(ids) != n || result.Attempts != int64(n) || result.Teachers["t"].Attempts != int64(n) {
		t.Errorf("%d rows with %d ids, %d in the result; the endpoint counted %d", requests, len(ids), result.Attempts, n)
	}
	// 60 tokens at the full price, 40 at half of it, 10 of output: 100
	// micro-dollars for each of the 6 answers that were counted.
	counted := int64(6 * (60 + 20 + 20))
	if result.CostUSD != float64(cost)/1e6 || result.FailedCostUSD != float64(lost)/1e6 || lost == 0 || cost-lost <= counted {
		t.Errorf("cost %v and %v in the result; %d and %d in the rows", result.CostUSD, result.FailedCostUSD, cost, lost)
	}
	if got := r.counts["t"].CostMicros; got != cost {
		t.Errorf("while asking %d micro-dollars were counted, and the ledger says %d", got, cost)
	}
	if a := all["2+3="][0]; a.ErrorText == nil || !strings.Contains(*a.ErrorText, "temperature must be below 2") {
		t.Errorf("the endpoint's words are lost: %+v", a)
	}
	m := w.manifest("a")
	if c := m.Teachers[0].Counts; m.CostMicros != cost || m.LostMicros != lost || c.Attempts != int64(requests) || c.FailedAttempts != 6 || c.LostMicros != lost {
		t.Errorf("manifest: %d, %d, %+v", m.CostMicros, m.LostMicros, c)
	}
	for _, c := range rows[datasets.Candidate](w, "a", datasets.TableCandidates) {
		if c.Error == nil && (c.PriceAsOf == nil || *c.PriceAsOf != "2026-11-01" || c.Parser == nil || *c.Parser != teachers.ParserVersion) {
			t.Errorf("price of %v, parser %v", c.PriceAsOf, c.Parser)
		}
	}

	// The next build asks for what failed; its version, if it published one,
	// would tell of both builds, and its own cost is what it paid itself.
	before := server.Stats().Requests
	w.file("p.jsonl", sums(9))
	_, second := w.build(recipe)
	if sent := server.Stats().Requests - before; sent != 2 || second.Attempts != 2 || second.CostUSD != 100/1e6 {
		t.Errorf("%d requests; %d for $%v in the result", sent, second.Attempts, second.CostUSD)
	}
	total := 0
	for _, list := range attemptsOf(w, "a") {
		total += len(list)
	}
	if total != server.Stats().Requests {
		t.Errorf("%d rows for %d requests of both builds", total, server.Stats().Requests)
	}
}

// Efforts that a teacher takes alike share their asks, and are paid for once.
func TestSharedAsksAreOnePayment(t *testing.T) {
	server := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.file("p.jsonl", sums(10))
	recipe := strings.Replace(askRecipe("a", server.URL, ", price: {input: 1, output: 2}"), "path: p.jsonl,", "path: p.jsonl, efforts: [low, high],", 1)
	_, result := w.build(recipe)
	list := rows[datasets.Attempt](w, "a", datasets.TableAttempts)
	cost := int64(0)
	for _, a := range list {
		cost += *a.CostMicros
	}
	if len(list) != 10 || server.Stats().Requests != 10 || result.Candidates != 20 || result.CostUSD != float64(cost)/1e6 || cost == 0 {
		t.Errorf("%d rows for %d requests and %d candidates; $%v for %d micro-dollars", len(list), server.Stats().Requests, result.Candidates, result.CostUSD, cost)
	}
}

// Two homes asked for the same at the same time: both answers were paid for.
func TestSecondAnswersAreTold(t *testing.T) {
	server := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	r := w.start(askRecipe("a", server.URL, ", price: {input: 1, output: 2}")).ask()
	rt, plan, err := w.a.planned(context.Background(), r.ref, r.plan.Key)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := w.a.tasks(context.Background(), plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	asks, err := rt.teachers["t"].asks(&tasks[0], 1)
	if err != nil {
		t.Fatal(err)
	}
	found, err := w.a.Answers.Lookup(context.Background(), []answers.Ask{asks[0].ask})
	if err != nil {
		t.Fatal(err)
	}
	second := *found[0]
	second.Started = second.Started.Add(time.Second)
	if err := w.a.Answers.Append(context.Background(), &second); err != nil {
		t.Fatal(err)
	}
	r.refine()
	_, result := r.seal()
	outcomes := map[string]int{}
	cost := int64(0)
	for _, a := range rows[datasets.Attempt](w, "a", datasets.TableAttempts) {
		outcomes[a.Outcome]++
		cost += *a.CostMicros
	}
	if outcomes[datasets.OutcomeAnswer] != 3 || outcomes[datasets.OutcomeSpare] != 1 || result.CostUSD != float64(cost)/1e6 {
		t.Errorf("%v, $%v for %d", outcomes, result.CostUSD, cost)
	}
}

// An answer that the parser of its day could not read is no lost money: the
// next build reads it, and asks nobody.
func TestUnreadableAnswersAreReadAgain(t *testing.T) {
	server := teacherstest.New(t, answers42)
	w := newWorld(t)
	w.file("p.jsonl", sums(3))
	recipe := askRecipe("a", server.URL, ", price: {input: 1, output: 2}")
	r := w.start(recipe)
	rt, plan, err := w.a.planned(context.Background(), r.ref, r.plan.Key)
	if err != nil {
		t.Fatal(err)
	}
	tasks, err := w.a.tasks(context.Background(), plan, 0)
	if err != nil {
		t.Fatal(err)
	}
	unread := func(i int, raw string) {
		asks, err := rt.teachers["t"].asks(&tasks[i], 1)
		if err != nil {
			t.Fatal(err)
		}
		rec := &answers.Record{
			Ask: asks[0].ask, Teacher: "t", Model: "m", Format: teachers.FormatOpenAIJSON, Raw: []byte(raw), Status: 200,
			Started: time.Now(), Latency: time.Second, Attempts: 1, ErrorClass: teachers.ClassMalformed, ErrorText: "an older parser",
		}
		if err := w.a.Answers.Append(context.Background(), rec); err != nil {
			t.Fatal(err)
		}
	}
	unread(0, `{"model":"m","choices":[{"message":{"content":"read now"},"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":2}}`)
	unread(1, `{"model":"m","choices":[{"message":{"content":"still cut`)
	r.ask()
	if n := server.Stats().Requests; n != 2 {
		t.Errorf("%d requests, want 2: for what cannot be read and for what was never asked", n)
	}
	if c := r.counts["t"]; c.Reused != 1 || c.New != 2 {
		t.Errorf("%+v", c)
	}
	r.refine()
	r.seal()
	outcomes := map[string]int{}
	for _, a := range rows[datasets.Attempt](w, "a", datasets.TableAttempts) {
		outcomes[a.Outcome]++
	}
	if outcomes[datasets.OutcomeRecovered] != 1 || outcomes[datasets.OutcomeAnswered] != 1 || outcomes[datasets.OutcomeAnswer] != 2 {
		t.Errorf("%v", outcomes)
	}
	contents := map[string]int{}
	for _, c := range rows[datasets.Candidate](w, "a", datasets.TableCandidates) {
		contents[c.Content()]++
	}
	if contents["read now"] != 1 || contents["42"] != 2 {
		t.Errorf("%v", contents)
	}
}

// TestWhatStopsATeacher gives each refusal that no retry can help, in the forms
// that vendors give it: one request is enough, and its words are kept.
func TestWhatStopsATeacher(t *testing.T) {
	for name, tt := range map[string]struct {
		reply teacherstest.Reply
		class string
	}{
		"401":                       {teacherstest.Reply{Status: 401, Message: "no such key"}, teachers.ClassAuth},
		"403":                       {teacherstest.Reply{Status: 403, Message: "not your project"}, teachers.ClassAuth},
		"402":                       {teacherstest.Reply{Status: 402, Message: "insufficient balance"}, teachers.ClassQuota},
		"insufficient_quota in 429": {teacherstest.Reply{Status: 429, Message: "you exceeded your current quota", Type: "insufficient_quota", Code: "insufficient_quota", RetryAfter: time.Hour}, teachers.ClassQuota},
		"404":                       {teacherstest.Reply{Status: 404, Message: "no such model"}, teachers.ClassNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return tt.reply })
			good := teacherstest.New(t, answers42)
			w := newWorld(t)
			w.file("p.jsonl", sums(40))
			recipe := fmt.Sprintf("name: a\nprompts: [{path: p.jsonl, fields: {prompt: question}}]\nteachers:\n- {id: t, model: m, base_url: %s, limits: {concurrency: 1}}\n- {id: good, model: m, base_url: %s}\nask: {route: all}\n", server.URL, good.URL)
			r := w.start(recipe).ask()
			if s := r.reports["t"].Stopped; s == nil || s.Class != tt.class {
				t.Fatalf("stopped %+v, want %s", s, tt.class)
			}
			if n := server.Stats().Requests; n != 1 {
				t.Errorf("%d requests to a teacher that refuses all", n)
			}
			if n := good.Stats().Requests; n != 40 {
				t.Errorf("the other teacher was asked %d of 40", n)
			}
			r.refine()
			r.seal()
			found := 0
			for _, a := range rows[datasets.Attempt](w, "a", datasets.TableAttempts) {
				if a.Teacher != "t" {
					continue
				}
				found++
				if *a.Error != tt.class || a.Billable || a.Outcome != datasets.OutcomeUndone || a.ErrorText == nil || !strings.Contains(*a.ErrorText, tt.reply.Message) {
					t.Errorf("%+v", a)
				}
			}
			if found != 1 {
				t.Errorf("%d rows for one request", found)
			}
		})
	}
}

// TestFlagsOfAnswers: another model, and a prompt of which a part was read.
func TestFlagsOfAnswers(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		reply := teacherstest.Reply{Content: "42"}
		switch {
		case strings.HasPrefix(r.Prompt, "0+1="):
			reply.Model = "m-mini"
		case strings.HasPrefix(r.Prompt, "1+2="):
			reply.Model = "m-2026-11-01"
		case strings.HasPrefix(r.Prompt, "4+5="):
			reply.Model = "/models/local.gguf"
		case strings.HasPrefix(r.Prompt, "2+3="):
			reply.Usage = &chat.Usage{PromptTokens: 205, CompletionTokens: 1}
		case strings.HasPrefix(r.Prompt, "3+4="):
			reply.Usage = &chat.Usage{PromptTokens: 50_000, CompletionTokens: 1}
		}
		return reply
	})
	w := newWorld(t)
	w.file("p.jsonl", strings.ReplaceAll(sums(6), `="`, `= `+strings.Repeat("and so on ", 300)+`"`))
	w.build(askRecipe("a", server.URL, ", answers_as: [local]"))
	got := map[string]string{}
	for _, c := range rows[datasets.Candidate](w, "a", datasets.TableCandidates) {
		got[(*c.Messages[0].Content)[:4]] = strings.Join(c.Flags, " ")
	}
	for prompt, want := range map[string]string{
		"0+1=": teachers.FlagModelDrift, "1+2=": "", "2+3=": teachers.FlagPromptTruncated, "3+4=": teachers.FlagPromptInflated, "4+5=": "",
	} {
		if got[prompt] != want {
			t.Errorf("%s: flags %q, want %q", prompt, got[prompt], want)
		}
	}
	if f := w.manifest("a").Teachers[0].Counts.Flags; f[teachers.FlagModelDrift] != 1 || f[teachers.FlagPromptTruncated] != 1 || f[teachers.FlagPromptInflated] != 1 || len(f) != 3 {
		t.Errorf("%v", f)
	}
}
