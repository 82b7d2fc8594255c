package activities

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// The ledger: every request that goes to a teacher is in the answer store, in
// the record of what it brought or, where it brought nothing that could be
// charged, in the record after it. Most asks are answered at once, and have
// nothing but their answer.

// entries takes the attempts of an ask that no record tells of yet: all that
// were sent since the last one, and without the last where that one is the
// record's own.
func (a *asked) entries(attempts []teachers.Attempt, own bool) []answers.Run {
	rest := attempts[min(a.told, len(attempts)):]
	if own && len(rest) > 0 {
		rest = rest[:len(rest)-1]
	}
	a.told = len(attempts)
	var runs []answers.Run
	for i := range rest {
		at := &rest[i]
		run := answers.Run{Class: at.Class, Status: at.Status, Words: bounded(at.Excerpt), Unsent: at.Unsent}
		for _, s := range at.Each() {
			run.Sent = append(run.Sent, answers.At(s.Started, s.Latency))
		}
		run.More = at.Times - len(run.Sent)
		runs = append(runs, run)
	}
	return runs
}

// answerLedger is the ledger of an answer: "" where it came at the first
// request.
func (a *asked) answerLedger(reply *teachers.Reply) (string, error) {
	if len(reply.Attempts) < 2 && reply.Share == 0 {
		return "", nil
	}
	l := answers.Ledger{Earlier: a.entries(reply.Attempts, true), ShareUS: reply.Share.Microseconds()}
	return l.Text()
}

// lose makes a failed request durable that may be charged, while its ask goes
// on.
func (w *askWork) lose(ctx context.Context, ask *asked, e *teachers.Error) error {
	rec, err := w.failureRecord(ask, e)
	if err != nil {
		return err
	}
	if err := w.a.Answers.Append(context.WithoutCancel(ctx), rec); err != nil {
		return fmt.Errorf("keep a failure of teacher %s: %w", w.teacher.spec.ID, err)
	}
	w.charge(ask, e)
	w.health.lose(e, time.Now())
	return nil
}

// failureRecord is what is kept of a failure: its own request, or none where
// the ask ended without one.
func (w *askWork) failureRecord(ask *asked, e *teachers.Error) (*answers.Record, error) {
	own := !e.Started.IsZero()
	l := answers.Ledger{
		Earlier: ask.entries(e.Attempts, own), Unsent: own && !e.Sent(), None: !own, ShareUS: e.Share.Microseconds(),
	}
	text, err := l.Text()
	if err != nil {
		return nil, err
	}
	rec := &answers.Record{
		Ask: ask.ask, Teacher: w.teacher.spec.ID, Model: w.teacher.spec.Model,
		Raw: e.Partial, Format: e.Format, Status: e.Status, Started: e.Started, Latency: e.Latency,
		Attempts: int32(max(teachers.Requests(e.Attempts), 1)), ErrorClass: e.Class, ErrorText: bounded(e.Error()), Ledger: text,
	}
	if !own {
		rec.Started = time.Now()
	}
	return rec, nil
}

// charge counts what a failed request may cost.
func (w *askWork) charge(ask *asked, e *teachers.Error) {
	if !e.MayBeBilled() || w.teacher.price == nil {
		return
	}
	usage := lostUsage(e.Format, e.Partial, &ask.task.Prompt)
	cost := w.teacher.price.CostOf(teachers.Bill{Usage: usage, Share: e.Share})
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.CostMicros += cost
}

// dropped records an ask that our own stop ended, if anything was sent for it
// that no record tells of. It is asked again, and counts as no failure.
func (w *askWork) dropped(ctx context.Context, ask *asked, e *teachers.Error) error {
	if len(e.Attempts) <= ask.told {
		return nil
	}
	return w.lose(ctx, ask, e)
}

// lostUsage is what a failed request may be charged for: what the endpoint
// counted as far as it told, and at least the prompt and the text that arrived.
func lostUsage(format string, raw []byte, prompt *chat.Prompt) chat.Usage {
	part := teachers.ParsePartial(format, raw)
	if part == nil {
		return chat.Usage{PromptTokens: promptTokens(prompt), Estimated: true}
	}
	u := teachers.FillUsage(part, nil, func() int64 { return promptTokens(prompt) })
	part.Usage = nil
	written := teachers.FillUsage(part, nil, func() int64 { return 0 }).CompletionTokens
	// Some endpoints count as they go, others say 1 at the start.
	if u.CompletionTokens < written/2 {
		u.CompletionTokens, u.Estimated = written, true
	}
	return u
}

// messageOverhead is about what a chat template adds to a message.
const messageOverhead = 4

// promptTokens estimates the tokens of a prompt. Nothing is known of images.
func promptTokens(p *chat.Prompt) int64 {
	n := teachers.TextTokens(p.System) + teachers.TextTokens(p.Tools)
	eachText(p, func(text string) { n += teachers.TextTokens(text) })
	return n + messageOverhead*int64(len(p.Messages)+1)
}

// promptSize is what is known of a prompt's tokens.
func promptSize(p *chat.Prompt) teachers.PromptSize {
	s := teachers.PromptSize{Messages: int64(len(p.Messages)), Images: int64(len(p.Images))}
	add := func(text string) {
		s.Floor += teachers.FloorTokens(text)
		s.Bytes += int64(len(text))
	}
	eachText(p, add)
	if p.System != "" {
		add(p.System)
		s.Messages++
	}
	add(p.Tools)
	// Templates print tools more widely, and some print earlier reasoning.
	s.Bytes += int64(len(p.Tools))
	for i := range p.Messages {
		if r := p.Messages[i].ReasoningContent; r != nil {
			s.Bytes += int64(len(*r))
		}
	}
	return s
}

// eachText visits the texts of a prompt's messages that every endpoint reads.
// Reasoning is left out of some templates, and is not counted.
func eachText(p *chat.Prompt, visit func(string)) {
	for i := range p.Messages {
		m := &p.Messages[i]
		if m.Content != nil {
			visit(*m.Content)
		}
		for _, call := range m.ToolCalls {
			visit(call.Name)
			visit(call.Arguments)
		}
	}
}

// size is what is known of the tokens of an ask's prompt.
func (a *asked) size() teachers.PromptSize { return promptSize(&a.task.Prompt) }

// answered tells which asks need not be sent: those that an answer serves, and
// those of which a failure is kept that today's parser can read.
func (a *Activities) answered(ctx context.Context, asks []answers.Ask) ([]bool, error) {
	states, err := a.Answers.States(ctx, asks)
	if err != nil {
		return nil, err
	}
	known := make([]bool, len(asks))
	var failed []answers.Ask
	var place []int
	for i, state := range states {
		known[i] = state == answers.Served
		if state == answers.Failed {
			failed, place = append(failed, asks[i]), append(place, i)
		}
	}
	for start := 0; start < len(failed); start += lookupAnswers {
		end := min(start+lookupAnswers, len(failed))
		records, err := a.Answers.Lookup(ctx, failed[start:end])
		if err != nil {
			return nil, err
		}
		for i, rec := range records {
			known[place[start+i]] = rec != nil && (rec.Complete || revived(rec) != nil)
		}
	}
	return known, nil
}

// aliases are the names under which the teacher's model may answer.
func (t *teacher) aliases() []string {
	if t.spec.Weights == "" {
		return t.spec.AnswersAs
	}
	return append(slices.Clip(t.spec.AnswersAs), t.spec.Weights)
}
