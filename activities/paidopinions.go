package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
)

// A judgedAsk is one question to a judge, between the refining of a shard and
// the seal.
type judgedAsk struct {
	Row   datasets.JudgeRow  `json:"row"`
	Fresh bool               `json:"fresh,omitempty"` // bought since the build started
	Paid  []datasets.Attempt `json:"paid,omitempty"`  // requests
	// Failed is what the endpoint said where the call failed.
	Failed string `json:"failed,omitempty"`
}

// A hearing gives the opinions of judges and reward models over what the answer
// store holds. It asks nobody, unless it is told how: then what is missing is
// asked first. Opinions depend on the stored replies alone.
type hearing struct {
	rt    *runtime
	look  history
	step  int       // replies that are read at once
	since time.Time // of the build
	// ask gets the replies to questions into the store; nil: nobody is asked.
	ask func(ctx context.Context, list []question) error

	said map[string][]judgedAsk // by task
	open map[string]bool        // answers, by sample id, about which a judge has yet to be asked
}

var (
	_ opinions = (*hearing)(nil)
	_ comparer = (*hearing)(nil)
)

// awaits tells whether a judge has yet to be asked about an answer.
func (h *hearing) awaits(sample string) bool { return h.open[sample] }

// A comparer compares the accepted answers to tasks for the merge policy.
type comparer interface {
	compare(ctx context.Context, tasks []*refinedTask) error
}

// hears tells whether anybody is asked about answers.
func (rt *runtime) hears() bool { return len(rt.paid) > 0 || rt.pairJudge != nil }

// hearing makes what the store holds heard; nil, which is no interface's nil,
// where the recipe asks nobody.
func (rt *runtime) hearing(look history, step int, since time.Time) *hearing {
	if !rt.hears() {
		return nil
	}
	return &hearing{rt: rt, look: look, step: step, since: since, said: map[string][]judgedAsk{}, open: map[string]bool{}}
}

// compareAll lets the merge policy's judge compare, where there is one.
func (rt *runtime) compareAll(ctx context.Context, paid opinions, tasks []*refinedTask) error {
	if c, ok := paid.(comparer); ok && rt.pairJudge != nil {
		return c.compare(ctx, tasks)
	}
	return nil
}

// An inquest is what one check wants to know of an answer, or of a pair.
type inquest struct {
	check *paidCheck
	task  *datasets.Task
	a, b  *datasets.Candidate // b: nil but for a pair

	why       string // nobody is asked
	questions []question
	readings  []reading
}

// opinions implements opinions.
func (h *hearing) opinions(ctx context.Context, wants []want) ([]datasets.Verdict, error) {
	list := make([]*inquest, len(wants))
	for i, w := range wants {
		p, ok := w.check.paid.(*paidCheck)
		if !ok {
			return nil, fmt.Errorf("verifier %s is not asked here", w.check.name())
		}
		list[i] = &inquest{check: p, task: w.task, a: w.candidate}
	}
	if err := h.hear(ctx, list); err != nil {
		return nil, err
	}
	out := make([]datasets.Verdict, len(list))
	for i, one := range list {
		out[i] = one.check.verdict(one.readings)
	}
	return out, nil
}

// hear gives each inquest its readings, and keeps what was said for the tables.
func (h *hearing) hear(ctx context.Context, list []*inquest) error {
	var all []question
	for _, one := range list {
		if err := h.begin(one); err != nil {
			return err
		}
		all = append(all, one.questions...)
	}
	if h.ask != nil && len(all) > 0 {
		if err := h.ask(ctx, all); err != nil {
			return err
		}
	}
	found, err := h.find(ctx, all)
	if err != nil {
		return err
	}
	for _, one := range list {
		n := len(one.questions)
		if err := h.close(one, found[:n]); err != nil {
			return err
		}
		found = found[n:]
	}
	return nil
}

// begin makes the questions of an inquest, and flags whom it is about.
func (h *hearing) begin(one *inquest) (err error) {
	for _, c := range []*datasets.Candidate{one.a, one.b} {
		if c == nil {
			continue
		}
		why, flag := one.check.mayAsk(one.task, c)
		if one.why = cmp.Or(one.why, why); flag != "" {
			addFlag(c, flag)
		}
		if one.check.judge != nil && h.rt.sameFamily(one.check.Teacher, c.Teacher) {
			addFlag(c, datasets.FlagSameFamily)
		}
	}
	if one.why == "" {
		one.questions, err = one.check.questions(one.task, one.a, one.b)
	}
	return err
}

// addFlag flags a candidate once. Its flags may be shared with others.
func addFlag(c *datasets.Candidate, flag string) {
	if slices.Contains(c.Flags, flag) {
		return
	}
	c.Flags = append(slices.Clone(c.Flags), flag)
	slices.Sort(c.Flags)
}

// find looks up what was said.
func (h *hearing) find(ctx context.Context, all []question) ([]answers.History, error) {
	out := make([]answers.History, 0, len(all))
	for part := range slices.Chunk(all, max(h.step, 1)) {
		keys := make([]answers.Ask, len(part))
		for i := range part {
			keys[i] = part[i].asked.ask
		}
		found, err := h.look(ctx, keys)
		if err != nil {
			return nil, fmt.Errorf("look up what judges said: %w", err)
		}
		// Earlier epochs belong to one teacher at a time.
		byTeacher := map[*teacher][]int{}
		var order []*teacher
		for i := range part {
			if len(part[i].asked.older) == 0 {
				continue
			}
			t := part[i].check.base
			if byTeacher[t] == nil {
				order = append(order, t)
			}
			byTeacher[t] = append(byTeacher[t], i)
		}
		for _, t := range order {
			places := byTeacher[t]
			ones, theirs := make([]*asked, len(places)), make([]answers.History, len(places))
			for n, i := range places {
				ones[n], theirs[n] = &part[i].asked, found[i]
			}
			w := walker{t: t, look: h.look}
			if err := w.older(ctx, ones, theirs); err != nil {
				return nil, err
			}
			for n, i := range places {
				found[i] = theirs[n]
			}
		}
		out = append(out, found...)
	}
	return out, nil
}

// close reads what was found, and keeps a row of each question.
func (h *hearing) close(one *inquest, found []answers.History) error {
	rows := make([]judgedAsk, len(one.questions))
	for i := range one.questions {
		q := &one.questions[i]
		r, row, err := h.read(one, q, &found[i])
		if err != nil {
			return err
		}
		one.readings = append(one.readings, r)
		rows[i] = row
		q.asked.request = nil
	}
	if len(one.questions) == 0 {
		one.readings = []reading{{why: one.why}, {why: one.why}}
		if one.check.kind == datasets.KindScore {
			one.readings = one.readings[:1]
		}
		row := h.row(one)
		row.Why = &one.why
		rows = []judgedAsk{{Row: row}}
	}
	for i := 0; one.check.kind != datasets.KindScore && i+1 < len(rows); i += 2 {
		if a, b := rows[i].Row.Outcome, rows[i+1].Row.Outcome; a != nil && b != nil {
			same := *a == *b
			rows[i].Row.Consistent, rows[i+1].Row.Consistent = &same, &same
		}
	}
	h.said[one.task.TaskID] = append(h.said[one.task.TaskID], rows...)
	return nil
}

// row is what is known before anything was said.
func (h *hearing) row(one *inquest) datasets.JudgeRow {
	p, t := one.check, one.task
	row := datasets.JudgeRow{
		TaskID: t.TaskID, PromptID: t.PromptID, Domain: t.Domain, Effort: t.Effort,
		Judge: p.Teacher, JudgeModel: p.base.spec.Model, Verifier: p.Verifier, Version: p.Version(), Rubric: optional(p.rubric),
		Kind: p.kind, SampleA: one.a.SampleID, TeacherA: one.a.Teacher,
		SameFamily: p.judge != nil && h.rt.sameFamily(p.Teacher, one.a.Teacher),
	}
	if p.pair {
		row.Verifier = "pairwise"
	}
	if b := one.b; b != nil {
		row.SampleB, row.TeacherB = &b.SampleID, &b.Teacher
		row.SameFamily = row.SameFamily || h.rt.sameFamily(p.Teacher, b.Teacher)
	}
	return row
}

// read reads what a question brought, and what it cost.
func (h *hearing) read(one *inquest, q *question, found *answers.History) (reading, judgedAsk, error) {
	out := judgedAsk{Row: h.row(one)}
	row := &out.Row
	row.Order, row.Opinion, row.AskID = optional(q.order), int32(q.nth), optional(q.asked.ask.ID)
	rec := found.Record
	said := candidate(q.check.wire, q.asked.task, &q.asked, rec)
	said.SampleID = one.a.SampleID
	paid, err := paymentOf(q.check.wire, &said, &q.asked, found)
	if err != nil {
		return reading{}, out, fmt.Errorf("read what teacher %s was paid: %w", q.check.Teacher, err)
	}
	out.Paid, out.Fresh = paid.attempts(&said), rec != nil && !rec.Started.Before(h.since)
	var r reading
	switch {
	case rec == nil:
		r.why = "the judge was not asked"
		h.open[one.a.SampleID] = true
	case said.Error != nil:
		r.why = "the call failed: " + *said.Error
		out.Failed = textOf(said.ErrorText)
	default:
		answer, err := parse(rec)
		if err != nil {
			r.why = "what came cannot be read: " + bounded(err.Error())
			break
		}
		r = q.read(answer)
		if text := said.Content(); text != "" {
			row.Reply = optional(clipped(h.rt.masked(text, one.task.Domain), keptReply))
		}
		row.PromptTokens, row.CachedTokens = said.PromptTokens, said.CachedTokens
		row.CompletionTokens, row.ReasoningTokens = said.CompletionTokens, said.ReasoningTokens
		row.CostMicros, row.LatencyMS = said.CostMicros, said.LatencyMS
	}
	row.Score, row.Outcome, row.Why = r.score, optional(r.outcome), optional(r.why)
	return r, out, nil
}

// pairsOf are the answers to a task that are compared, as pairs: of the best by
// score, then teacher order, then id, each with every other.
func (h *hearing) pairsOf(t *refinedTask) [][2]*datasets.Candidate {
	var list []*datasets.Candidate
	for i := range t.Candidates {
		if c := &t.Candidates[i]; c.Accepted {
			list = append(list, c)
		}
	}
	place := map[string]int{}
	for i := range h.rt.recipe.Teachers {
		place[h.rt.recipe.Teachers[i].ID] = i
	}
	slices.SortFunc(list, func(a, b *datasets.Candidate) int {
		return cmp.Or(compareScores(b.Score, a.Score), cmp.Compare(place[a.Teacher], place[b.Teacher]), cmp.Compare(a.SampleID, b.SampleID))
	})
	list = list[:min(len(list), h.rt.recipe.Merge.Judge.Most)]
	slices.SortFunc(list, func(a, b *datasets.Candidate) int { return cmp.Compare(a.SampleID, b.SampleID) })
	var pairs [][2]*datasets.Candidate
	for i, a := range list {
		for _, b := range list[i+1:] {
			pairs = append(pairs, [2]*datasets.Candidate{a, b})
		}
	}
	return pairs
}

// compareScores orders scores; an unknown one is below all others.
func compareScores(a, b *float64) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(boolInt(a != nil), boolInt(b != nil))
	}
	return cmp.Compare(*a, *b)
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// compare implements comparer.
func (h *hearing) compare(ctx context.Context, tasks []*refinedTask) error {
	var list []*inquest
	var of []*refinedTask
	for _, t := range tasks {
		t.Judgements = nil
		for _, pair := range h.pairsOf(t) {
			one := &inquest{check: h.rt.pairJudge, task: &t.Task, a: pair[0], b: pair[1]}
			if sameAnswer(one.a, one.b) {
				// Nobody needs to be paid to see it.
				one.readings = []reading{{outcome: datasets.JudgedTie}, {outcome: datasets.JudgedTie}}
				t.Judgements = append(t.Judgements, h.judgement(one))
				continue
			}
			list = append(list, one)
			of = append(of, t)
		}
	}
	if err := h.hear(ctx, list); err != nil {
		return err
	}
	for i, one := range list {
		of[i].Judgements = append(of[i].Judgements, h.judgement(one))
	}
	return nil
}

// sameAnswer tells whether two answers are one text.
func sameAnswer(a, b *datasets.Candidate) bool {
	return a.Content() == b.Content() && len(a.Answer().ToolCalls)+len(b.Answer().ToolCalls) == 0
}

// judgement is what both orders of a comparison say.
func (h *hearing) judgement(one *inquest) datasets.Judgement {
	p := one.check
	j := datasets.Judgement{
		TaskID: one.task.TaskID, PromptID: one.task.PromptID, Domain: one.task.Domain, Effort: one.task.Effort,
		Judge: p.Teacher, Version: p.Version(), SampleA: one.a.SampleID, SampleB: one.b.SampleID, TeacherA: one.a.Teacher, TeacherB: one.b.Teacher,
		AFirst: cmp.Or(one.readings[0].outcome, datasets.Unknown), BFirst: cmp.Or(one.readings[1].outcome, datasets.Unknown),
	}
	j.Outcome, j.Reason = bothOrders(one.readings[0], one.readings[1])
	if h.rt.sameFamily(p.Teacher, one.a.Teacher) || h.rt.sameFamily(p.Teacher, one.b.Teacher) {
		j.Flags = []string{datasets.FlagSameFamily}
	}
	return j
}

// judgeHeard judges tasks by all verifiers, and keeps what judges said.
func (rt *runtime) judgeHeard(ctx context.Context, heard *hearing, more gatherer, out []refinedTask) error {
	tasks := make([]*refinedTask, len(out))
	for i := range out {
		tasks[i] = &out[i]
	}
	if heard == nil {
		return rt.judge(ctx, nil, more, tasks...)
	}
	if err := rt.judge(ctx, heard, more, tasks...); err != nil {
		return err
	}
	for _, t := range tasks {
		t.Judged = heard.said[t.Task.TaskID]
	}
	return nil
}
