package activities

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/batches"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

const (
	// heldRows and heldBytes bound the rows that are kept together.
	heldRows  = 256
	heldBytes = 16 << 20
	// refusedBytes bounds the evidence of rows that did not belong.
	refusedBytes = 8 << 20
	// mostSeen bounds how many of them are known again when their file is read
	// again: a file of results may hold any number of lines.
	mostSeen = 1 << 16
)

// unsentLedger marks a request that never left.
const unsentLedger = `{"unsent":true}`

// A batchReading reads the results of one batch. State is per row: a row has an
// answer, or a reason why it has none, whatever the batch as a whole is said to
// be.
type batchReading struct {
	job     *batchJob
	batch   *teachers.Batch
	rows    []batchRow
	at      map[string]int  // custom id → index
	asks    map[string]bool // beginnings of ask ids, as custom ids have them
	ledger  string
	started time.Time
	proved  bool // a row was ours
	inFile  int  // rows of ours in the file that is being read
	outcome batches.Outcome

	held      []heldRow
	heldBytes int
	refused   bytes.Buffer
	strangers int64             // rows of another model
	stranger  string            // which
	seen      map[[16]byte]bool // rows that were refused already: a file may be read again
}

type batchRow struct {
	ask      batches.Ask
	answered bool
	kept     bool // its failure is in the store, with what came
	failure  *teachers.Error
	cost     int64
	// estimated: the endpoint counted no tokens.
	estimated bool
}

// A heldRow is an answer on its way to the store.
type heldRow struct {
	at     int
	record *answers.Record
	answer *teachers.Answer // nil where it could not be read
}

func (j *batchJob) reading(ctx context.Context, b *teachers.Batch) (*batchReading, error) {
	ledger, err := (&answers.Ledger{Batch: j.st.Batch}).Text()
	if err != nil {
		return nil, err
	}
	r := &batchReading{
		job: j, batch: b, at: map[string]int{}, asks: map[string]bool{}, ledger: ledger, started: j.st.Submitted, seen: map[[16]byte]bool{},
	}
	if j.st.BuildID != j.in.BuildID {
		// An earlier build submitted it, which has no result that its cost could
		// be in: it is bought by the one that fetched it.
		r.started = j.a.clock()
	}
	err = j.store.Asks(ctx, j.st.Key, func(ask batches.Ask) error {
		r.at[batches.CustomID(ask.ID, ask.Body, j.st.Key)] = len(r.rows)
		r.asks[ask.ID[:32]] = true
		r.rows = append(r.rows, batchRow{ask: ask})
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(r.rows) != j.st.Rows {
		return nil, fmt.Errorf("batch %s has %d rows, and its record says %d", j.st.Key, len(r.rows), j.st.Rows)
	}
	for _, e := range b.Errors {
		if e.Line > 0 && e.Line <= len(r.rows) {
			r.rows[e.Line-1].failure = &teachers.Error{Class: permanentClass(e.Class), Excerpt: fmt.Sprintf("line %d of its batch was refused: %s: %s", e.Line, e.Code, e.Message)}
		}
	}
	return r, nil
}

// permanentClass: what is said of one line is a fault of that line.
func permanentClass(class string) string {
	if (&teachers.Error{Class: class}).Temporary() {
		return teachers.ClassBadRequest
	}
	return class
}

func (r *batchReading) close() { r.held = nil }

// row takes one row of a file of results.
func (r *batchReading) row(ctx context.Context, row *teachers.BatchRow) error {
	at, known := r.at[row.CustomID]
	if !known {
		why := batches.Misfit(row.CustomID, r.job.st.Key, r.asks)
		if row.CustomID == "" && row.Failure != nil {
			why = row.Failure.Excerpt
		}
		r.refuse(row, why)
		return nil
	}
	r.proved = true
	r.inFile++
	mine := &r.rows[at]
	if mine.answered {
		if row.Body != nil && !r.again(ctx, at, row) {
			r.outcome.Duplicates++
			r.refuse(row, "the row came twice; the first is kept")
		}
		return nil
	}
	if row.Failure != nil {
		mine.failure = row.Failure
		return nil
	}
	answer, perr := teachers.Parse(row.Format, row.Body)
	if perr == nil && teachers.ModelDrifted(r.job.teacher.spec.Model, answer.Model, r.job.teacher.aliases()) {
		return r.strange(ctx, at, row, answer.Model)
	}
	if perr != nil {
		e := *asTeacherError(perr)
		return r.holdFailure(ctx, at, row, &e)
	}
	rec := r.record(mine, row)
	mine.answered = true
	rec.Complete, rec.Finish = true, answer.Finish
	return r.hold(ctx, heldRow{at, rec, answer})
}

// again tells whether a row is the one that was kept, read once more because its
// file was fetched again.
func (r *batchReading) again(ctx context.Context, at int, row *teachers.BatchRow) bool {
	for i := range r.held {
		if h := &r.held[i]; h.at == at {
			return bytes.Equal(h.record.Raw, row.Body)
		}
	}
	found, err := r.job.a.Answers.Lookup(ctx, []answers.Ask{r.rows[at].ask.Ask})
	return err == nil && found[0] != nil && bytes.Equal(found[0].Raw, row.Body)
}

func asTeacherError(err error) *teachers.Error {
	var e *teachers.Error
	if errors.As(err, &e) {
		return e
	}
	return &teachers.Error{Class: teachers.ClassMalformed, Excerpt: err.Error()}
}

// holdFailure keeps what came of a row that was paid for and is no answer.
func (r *batchReading) holdFailure(ctx context.Context, at int, row *teachers.BatchRow, e *teachers.Error) error {
	mine := &r.rows[at]
	e.Teacher = "teacher " + r.job.teacher.spec.ID
	mine.failure = e
	if mine.kept {
		return nil
	}
	mine.kept = true
	rec := r.record(mine, row)
	rec.ErrorClass, rec.ErrorText = e.Class, bounded(e.Error())
	return r.hold(ctx, heldRow{at: at, record: rec})
}

// strange refuses an answer of another model than was asked: it was paid for,
// and is kept as evidence with its failure.
func (r *batchReading) strange(ctx context.Context, at int, row *teachers.BatchRow, model string) error {
	if r.rows[at].kept {
		return nil
	}
	r.strangers++
	r.stranger = model
	e := &teachers.Error{Class: teachers.ClassMismatch, Status: row.Status,
		Excerpt: fmt.Sprintf("model %q answered, and %q was asked", clipped(model, 100), r.job.teacher.spec.Model)}
	r.refuse(row, e.Excerpt)
	evidence := *row
	evidence.Format = "" // today's parser reads it, and it must not come back as an answer
	return r.holdFailure(ctx, at, &evidence, e)
}

// refuse keeps a row that is no answer to any ask of the batch.
func (r *batchReading) refuse(row *teachers.BatchRow, why string) {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", why)
	_, _ = sum.Write(row.Raw) // a hash takes everything
	mark := [16]byte(sum.Sum(nil))
	if r.seen[mark] {
		return
	}
	if len(r.seen) < mostSeen {
		r.seen[mark] = true
	}
	r.outcome.Refused++
	if r.refused.Len() >= refusedBytes {
		return
	}
	line, err := json.Marshal(map[string]any{"line": row.Line, "custom_id": clipped(row.CustomID, 200), "why": why, "row": strings.ToValidUTF8(string(row.Raw), "\uFFFD")})
	if err == nil && r.refused.Len()+len(line) < refusedBytes {
		r.refused.Write(append(line, '\n'))
	}
}

// keepRefused writes the rows that did not belong beside the batch's record.
func (r *batchReading) keepRefused(ctx context.Context) error {
	if r.refused.Len() == 0 {
		return nil
	}
	key := r.job.store.RefusedKey(r.job.st.Key)
	r.job.a.Log.Warn("a batch brought rows that do not belong to it; they are kept", "teacher", r.job.teacher.spec.ID,
		"batch", r.job.st.Batch, "rows", r.outcome.Refused, "key", key)
	if _, err := objstore.PutBytes(ctx, r.job.a.Bucket, key, r.refused.Bytes(), objstore.PutOptions{ContentType: "application/x-ndjson"}); err != nil {
		return fmt.Errorf("keep rows that were refused: %w", err)
	}
	return nil
}

// record is what is kept of a row.
func (r *batchReading) record(mine *batchRow, row *teachers.BatchRow) *answers.Record {
	rec := &answers.Record{
		Ask: mine.ask.Ask, Teacher: r.job.teacher.spec.ID, Model: r.job.teacher.spec.Model, Started: r.started,
		Latency: max(r.job.a.clock().Sub(r.started), 0), Attempts: 1, Ledger: r.ledger,
	}
	if row != nil {
		rec.Format, rec.Raw, rec.Status = row.Format, bytes.Clone(row.Body), row.Status
		if row.RequestID != "" {
			rec.Headers = map[string]string{"x-request-id": clipped(row.RequestID, 200)}
		}
	}
	return rec
}

func (r *batchReading) hold(ctx context.Context, h heldRow) error {
	r.held = append(r.held, h)
	if r.heldBytes += len(h.record.Raw); len(r.held) >= heldRows || r.heldBytes >= heldBytes {
		return r.flush(ctx)
	}
	return nil
}

// flush makes the rows that are held durable, but for those that a collection
// before this one has kept.
func (r *batchReading) flush(ctx context.Context) error {
	if len(r.held) == 0 {
		return nil
	}
	held := r.held
	r.held, r.heldBytes = nil, 0
	keys := make([]answers.Ask, len(held))
	for i := range held {
		keys[i] = held[i].record.Ask
	}
	there, err := r.job.a.Answers.Lookup(ctx, keys)
	if err != nil {
		return fmt.Errorf("look up answers: %w", err)
	}
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(heldRows)
	for i := range held {
		if h := &held[i]; !kept(there[i], h.record) {
			group.Go(func() error { return r.job.a.keepRow(gctx, h.record) })
		}
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i := range held {
		r.count(&held[i])
	}
	return nil
}

// kept tells whether a record is in the store already, from a collection that
// did not come to its end. An answer that was bought otherwise does not make
// this one unpaid, so that it is kept beside it.
func kept(there, rec *answers.Record) bool {
	if there == nil {
		return false
	}
	if rec.Complete {
		return there.Complete && bytes.Equal(there.Raw, rec.Raw)
	}
	return there.Complete || there.Ledger == rec.Ledger && there.ErrorClass == rec.ErrorClass && there.ErrorText == rec.ErrorText
}

// count adds an answer to what the batch brought.
func (r *batchReading) count(h *heldRow) {
	o, t := &r.outcome, r.job.teacher
	if h.answer == nil {
		return
	}
	o.Answered++
	u := h.usage(r.rows[h.at].ask.BodyBytes)
	o.PromptTokens += u.PromptTokens
	o.CachedTokens += u.CachedTokens
	o.CompletionTokens += u.CompletionTokens
	if t.price == nil {
		o.Unpriced++
		return
	}
	cost := t.price.CostOf(teachers.Bill{Usage: u, Batch: true})
	r.rows[h.at].cost, r.rows[h.at].estimated = cost, u.Estimated
	o.CostMicros += cost
}

// usage is what the endpoint counted, or an estimate where it counted nothing.
func (h *heldRow) usage(bodyBytes int) chat.Usage {
	if h.answer.Usage != nil {
		return *h.answer.Usage
	}
	text := 0
	for _, s := range []*string{h.answer.Message.Content, h.answer.Message.ReasoningContent} {
		if s != nil {
			text += len(*s)
		}
	}
	return chat.Usage{PromptTokens: teachers.EstimateTokens(bodyBytes), CompletionTokens: teachers.EstimateTokens(text), Estimated: true}
}

// rest keeps why the other rows have no answer.
func (r *batchReading) rest(ctx context.Context) error {
	for i := range r.rows {
		row := &r.rows[i]
		if row.answered {
			continue
		}
		e := row.failure
		if e == nil {
			r.outcome.Missing++
			e = r.missing()
			row.failure = e
		}
		r.outcome.Failed++
		if row.kept {
			continue
		}
		e.Teacher = "teacher " + r.job.teacher.spec.ID
		rec := r.record(row, nil)
		rec.Status, rec.Raw, rec.ErrorClass, rec.ErrorText = e.Status, e.Partial, e.Class, bounded(e.Error())
		if notRun(e) {
			rec.Ledger = unsentBatch(r.job.st.Batch)
		}
		if err := r.hold(ctx, heldRow{at: i, record: rec}); err != nil {
			return err
		}
	}
	return r.flush(ctx)
}

// notRun tells whether a row never came to the model.
func notRun(e *teachers.Error) bool {
	return e.Status == 0 && len(e.Partial) == 0 && e.Class != teachers.ClassTruncated && e.Class != teachers.ClassMalformed
}

func unsentBatch(id string) string {
	text, err := (&answers.Ledger{Batch: id, Unsent: true}).Text()
	if err != nil {
		return unsentLedger // strings and flags are always JSON
	}
	return text
}

// missing is a row that no file of results mentions.
func (r *batchReading) missing() *teachers.Error {
	switch r.batch.Ended {
	case teachers.BatchExpired:
		return &teachers.Error{Class: teachers.ClassExpired, Excerpt: "the batch expired before this row was answered"}
	case teachers.BatchCancelled:
		return &teachers.Error{Class: teachers.ClassCancelled, Excerpt: "the batch was cancelled before this row was answered"}
	case teachers.BatchFailed:
		return &teachers.Error{Class: teachers.ClassServer, Excerpt: "the batch was refused because of other rows"}
	}
	return &teachers.Error{Class: teachers.ClassTruncated, Excerpt: "the batch is completed, and its files do not mention this row"}
}

// stopped gives a teacher up of which every answer came from another model:
// more of them would be paid for in vain.
func (r *batchReading) stopped() *wire.TeacherFailed {
	if r.strangers == 0 || r.outcome.Answered > 0 {
		return nil
	}
	return &wire.TeacherFailed{Class: teachers.ClassMismatch, Text: bounded(fmt.Sprintf(
		"model %q answered all %d rows of batch %s, and %q was asked; write model: %q if that is the one you mean, or answers_as: [%q] if it is the same",
		clipped(r.stranger, 100), r.strangers, r.job.st.Batch, r.job.teacher.spec.Model, clipped(r.stranger, 100), clipped(r.stranger, 100)))}
}

// keepRow makes one record durable.
func (a *Activities) keepRow(ctx context.Context, rec *answers.Record) error {
	if err := a.Answers.Append(context.WithoutCancel(ctx), rec); err != nil {
		return fmt.Errorf("keep a row of teacher %s: %w", rec.Teacher, err)
	}
	return nil
}

// clock is the time, by the clock of tests where they have one.
func (a *Activities) clock() time.Time {
	if a.Now != nil {
		return a.Now().UTC()
	}
	return time.Now().UTC()
}

// batchCost is what an online cost becomes at the batch price.
func batchCost(p *teachers.Price, online int64) int64 {
	return int64(float64(online)*(1-min(max(p.BatchDiscount, 0), 1)) + 1)
}
