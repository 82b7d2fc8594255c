package activities

import (
	"cmp"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// A payment is what the requests of one candidate's ask cost, between the
// refining of its shard and the seal. Most are one request that brought the
// answer, and what the candidate tells of it is not said again.
type payment struct {
	At     int64              `json:"a,omitempty"` // microseconds since 1970
	Status int32              `json:"s,omitempty"`
	Bytes  int64              `json:"b,omitempty"`
	Rows   []datasets.Attempt `json:"r,omitempty"` // all of them, where there are more, or it failed
}

// paymentOf is what was paid for a candidate. Recorded answers cost nothing
// here, and what was never asked for neither.
func paymentOf(t *teacher, c *datasets.Candidate, ask *asked, h *answers.History) (payment, error) {
	rec := h.Record
	if t.config == nil || rec == nil || rec.Purged() {
		return payment{}, nil
	}
	if len(h.Others) == 0 && rec.Complete && rec.Ledger == "" && c.Error == nil {
		return payment{At: rec.Started.UnixMicro(), Status: int32(rec.Status), Bytes: int64(len(rec.Raw))}, nil
	}
	l := lister{t: t, c: c, prompt: &ask.task.Prompt}
	for _, other := range h.Others {
		if err := l.add(other, false); err != nil {
			return payment{}, err
		}
	}
	if err := l.add(rec, true); err != nil {
		return payment{}, err
	}
	slices.SortStableFunc(l.rows, func(a, b datasets.Attempt) int {
		return cmp.Or(cmp.Compare(number(a.StartedUS), number(b.StartedUS)), cmp.Compare(a.Number, b.Number))
	})
	return payment{Rows: l.rows}, nil
}

// attempts are the rows of a candidate's payment.
func (p *payment) attempts(c *datasets.Candidate) []datasets.Attempt {
	if p.Rows != nil || p.At == 0 {
		return p.Rows
	}
	row := attemptRow(c, time.UnixMicro(p.At), 1)
	row.Status, row.Bytes, row.Outcome, row.Billable = &p.Status, p.Bytes, datasets.OutcomeAnswer, true
	row.LatencyMS, row.TTFTMS = c.LatencyMS, c.TTFTMS
	asCandidate(&row, c)
	return []datasets.Attempt{row}
}

func attemptRow(c *datasets.Candidate, started time.Time, n int32) datasets.Attempt {
	at := started.UnixMicro()
	return datasets.Attempt{
		AttemptID: datasets.AttemptID(c.AskID, started, n), PromptID: c.PromptID, TaskID: c.TaskID, SampleID: c.SampleID,
		AskID: c.AskID, Teacher: c.Teacher, ModelAsked: c.ModelAsked, Number: n, Times: 1, StartedUS: &at,
	}
}

// asCandidate gives the row of an answer the tokens and the cost of its
// candidate.
func asCandidate(row *datasets.Attempt, c *datasets.Candidate) {
	row.PromptTokens, row.CachedTokens, row.CacheWriteTokens = c.PromptTokens, c.CachedTokens, c.CacheWriteTokens
	row.CompletionTokens, row.ReasoningTokens = c.CompletionTokens, c.ReasoningTokens
	row.UsageSource = usageSource(c.UsageEstimated)
	row.CostMicros, row.PriceID, row.PriceAsOf = c.CostMicros, c.PriceID, c.PriceAsOf
}

func usageSource(estimated bool) *string {
	source := datasets.UsageReported
	if estimated {
		source = datasets.UsageEstimated
	}
	return &source
}

// A lister makes the rows of one ask from its records.
type lister struct {
	t      *teacher
	c      *datasets.Candidate
	prompt *chat.Prompt
	rows   []datasets.Attempt
}

// add lists a record and the requests before it; chosen is the one that the
// candidate was made from.
func (l *lister) add(rec *answers.Record, chosen bool) error {
	ledger, err := answers.ReadLedger(rec.Ledger)
	if err != nil {
		return err
	}
	before := 0
	for i := range ledger.Earlier {
		before += ledger.Earlier[i].Requests()
	}
	n := rec.Attempts - int32(before) + 1
	if !ledger.None {
		n--
	}
	for i := range ledger.Earlier {
		n = l.run(&ledger.Earlier[i], n)
	}
	if ledger.None {
		return nil
	}
	row := attemptRow(l.c, rec.Started, rec.Attempts)
	row.Status = httpStatus(rec.Status)
	row.LatencyMS = millis(rec.Latency.Milliseconds())
	if rec.TTFT > 0 {
		row.TTFTMS = millis(rec.TTFT.Milliseconds())
	}
	row.Bytes, row.Batch, row.ShareUS = int64(len(rec.Raw)), optional(ledger.Batch), positive(ledger.ShareUS)
	row.Outcome = l.failed()
	answered := chosen && l.c.Error == nil
	switch {
	case answered && rec.Complete:
		row.Outcome = datasets.OutcomeAnswer
	case answered:
		row.Outcome = datasets.OutcomeRecovered
	case rec.Complete:
		row.Outcome = datasets.OutcomeSpare
	}
	if !rec.Complete {
		row.Error, row.ErrorText = optional(rec.ErrorClass), optional(rec.ErrorText)
	}
	l.price(&row, rec, ledger, answered)
	l.rows = append(l.rows, row)
	return nil
}

// price fills in what a record's own request cost.
func (l *lister) price(row *datasets.Attempt, rec *answers.Record, ledger *answers.Ledger, answered bool) {
	if answered {
		row.Billable = true
		asCandidate(row, l.c)
		return
	}
	row.Billable = rec.Complete || teachers.MayBeBilled(rec.Status, !ledger.Unsent)
	if !row.Billable {
		l.free(row)
		return
	}
	var usage chat.Usage
	if answer, err := parse(rec); err == nil {
		usage = usageOf(answer, rec.Headers, l.prompt)
	} else {
		usage = lostUsage(rec.Format, rec.Raw, l.prompt)
		if part := teachers.ParsePartial(rec.Format, rec.Raw); part != nil {
			row.PartialContent, row.PartialReasoning = cutText(part.Message.Content), cutText(part.Message.ReasoningContent)
		}
	}
	row.PromptTokens, row.CachedTokens, row.CacheWriteTokens = &usage.PromptTokens, &usage.CachedTokens, &usage.CacheWriteTokens
	row.CompletionTokens, row.ReasoningTokens = &usage.CompletionTokens, &usage.ReasoningTokens
	row.UsageSource = usageSource(usage.Estimated)
	row.CostMicros, row.PriceID, row.PriceAsOf = l.t.cost(usage, rec, ledger)
}

// partialBytes bounds the text of a cut answer in the table; all of it is in
// the answer store.
const partialBytes = 1 << 20

func cutText(s *string) *string {
	if s == nil || len(*s) <= partialBytes {
		return s
	}
	short := clipped(*s, partialBytes)
	return &short
}

// run lists requests that failed alike and cost nothing, the first of them
// with number n, and gives the number after the last.
func (l *lister) run(r *answers.Run, n int32) int32 {
	for i, sent := range r.Sent {
		row := attemptRow(l.c, sent.Started(), n)
		row.Status, row.LatencyMS = httpStatus(r.Status), millis(sent.Latency().Milliseconds())
		row.Error, row.ErrorText = optional(r.Class), optional(r.Words)
		row.Outcome = l.failed()
		if i == len(r.Sent)-1 {
			row.Times += int32(r.More)
		}
		l.free(&row)
		l.rows = append(l.rows, row)
		n++
	}
	return n + int32(r.More)
}

// free prices a request that nobody charges for.
func (l *lister) free(row *datasets.Attempt) {
	if l.t.price != nil {
		none := int64(0)
		row.CostMicros = &none
	}
}

func (l *lister) failed() string {
	if l.c.Error == nil {
		return datasets.OutcomeAnswered
	}
	return datasets.OutcomeUndone
}

// cost is what the tokens and the time of a record's request cost at the
// teacher's price; nothing without one.
func (t *teacher) cost(usage chat.Usage, rec *answers.Record, ledger *answers.Ledger) (micros *int64, id, asOf *string) {
	if t.price == nil {
		return nil, nil, nil
	}
	bill := teachers.Bill{Usage: usage, Batch: ledger.Batch != "", Share: time.Duration(ledger.ShareUS) * time.Microsecond}
	if bill.Share == 0 && t.price.GPUHour > 0 && !bill.Batch {
		bill.Share = teachers.ShareOf(rec.Latency, t.spec.Limits.AtOnce())
	}
	cost := t.price.CostOf(bill)
	return &cost, &t.priceID, optional(t.price.AsOf)
}

// revived is the answer in a failure that today's parser can read and the one
// of that day could not; nil for none.
func revived(rec *answers.Record) *teachers.Answer {
	if rec.Complete || rec.Format == "" || len(rec.Raw) == 0 || rec.Status < 200 || rec.Status > 299 {
		return nil
	}
	answer, err := parse(rec)
	if err != nil {
		return nil
	}
	return answer
}

func httpStatus(status int) *int32 {
	if status == 0 {
		return nil
	}
	n := int32(status)
	return &n
}

func positive(n int64) *int64 {
	if n <= 0 {
		return nil
	}
	return &n
}
