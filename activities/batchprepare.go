package activities

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/batches"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// PrepareBatches makes batches of all asks of a build to one teacher that
// nobody has answered and no open batch holds. Nothing of it is paid for yet.
// Run again, it finds the batches that it has made.
func (a *Activities) PrepareBatches(ctx context.Context, in wire.BatchPrepareInput) (*wire.BatchPrepareOutput, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.beat)()
	out, err := a.prepareBatches(ctx, in, note.set)
	return out, final(err)
}

// beat is what a note looks like to whoever watches asks.
func (n *noter) beat() any {
	n.mu.Lock()
	defer n.mu.Unlock()
	return wire.AskHeartbeat{Waiting: n.text}
}

func (a *Activities) prepareBatches(ctx context.Context, in wire.BatchPrepareInput, note func(string)) (*wire.BatchPrepareOutput, error) {
	rt, plan, err := a.planned(ctx, in.BuildRef, in.PlanKey)
	if err != nil {
		return nil, err
	}
	t := rt.teachers[in.Teacher]
	if t == nil {
		return nil, invalidRecipe("teacher %s is not in the recipe", in.Teacher)
	}
	service, err := a.service(t)
	if err != nil {
		return nil, err
	}
	for {
		p := &preparation{
			a: a, in: in, rt: rt, plan: plan, teacher: t, service: service, limits: batchLimits(t, service),
			store: batches.Open(a.Bucket, t.endpoint), out: &wire.BatchPrepareOutput{},
			since: buildBegan(in.BuildID), held: map[askID]int{}, seen: map[askID]bool{}, wanted: map[int]bool{},
		}
		again, err := p.run(ctx, note)
		if err != nil || !again {
			return p.out, err
		}
	}
}

// run goes over all asks once; again where some have to be looked at anew.
func (p *preparation) run(ctx context.Context, note func(string)) (again bool, err error) {
	defer p.discard()
	if err := p.readOpen(ctx); err != nil {
		return false, err
	}
	for shard := range p.plan.Shards {
		if !slices.Contains(p.plan.Cells[p.plan.Shards[shard].Cell].Teachers, p.in.Teacher) {
			continue
		}
		note(fmt.Sprintf("prepares batches: shard %d of %d", shard+1, len(p.plan.Shards)))
		if err := p.shard(ctx, shard); err != nil {
			return false, err
		}
	}
	if again, err := p.takeOver(ctx); again || err != nil {
		return again, err
	}
	if err := p.seal(ctx); err != nil {
		return false, err
	}
	if err := p.a.Answers.Flush(ctx); err != nil { // of asks that can't be sent
		return false, fmt.Errorf("keep answers: %w", err)
	}
	p.finish()
	return false, nil
}

// takeOver gives up what another build has prepared and not submitted of the
// asks that this one wants: that build may be gone for good, and the rest of its
// batch may be what nobody wants any more.
func (p *preparation) takeOver(ctx context.Context) (again bool, err error) {
	if p.in.Close {
		return false, nil
	}
	for i, st := range p.open {
		if !p.wanted[i] || !st.Unsubmitted() || st.BuildID == p.in.BuildID {
			continue
		}
		if err := p.drop(ctx, st); err != nil {
			return false, err
		}
		again = true
	}
	return again, nil
}

func (p *preparation) drop(ctx context.Context, st *batches.State) error {
	st.State = batches.Dropped
	if err := p.store.Save(ctx, st); err != nil {
		return raced(err)
	}
	return p.store.Close(ctx, st.Key)
}

// buildBegan is when a build was begun: its id says so.
func buildBegan(buildID string) time.Time {
	stamp, _, _ := strings.Cut(buildID, "-")
	at, err := time.Parse("20060102T150405Z", stamp)
	if err != nil {
		return time.Time{} // every failure counts as the build's own
	}
	return at
}

// askID is the beginning of an ask's id, as custom ids have it.
type askID [16]byte

func askIDOf(id string) (out askID) {
	_, _ = hex.Decode(out[:], []byte(id[:32])) // ids are hex
	return out
}

// A preparation is one PrepareBatches at work.
type preparation struct {
	a       *Activities
	in      wire.BatchPrepareInput
	rt      *runtime
	plan    *Plan
	teacher *teacher
	service batchService
	limits  teachers.BatchLimits
	store   *batches.Store
	since   time.Time // the build began
	list    *batches.List
	open    []*batches.State // on the list, by its order
	held    map[askID]int    // asks of open batches → index in open
	wanted  map[int]bool     // of open: has asks that this build waits for
	seen    map[askID]bool   // asks that this step has put into a batch, or refused
	file    *batches.File
	row     []byte
	out     *wire.BatchPrepareOutput
}

func (p *preparation) discard() {
	if p.file != nil {
		p.file.Discard()
	}
}

// unsubmittedFor is how long a batch may be prepared and not submitted, as during
// a pause, before it is given up.
const unsubmittedFor = 7 * 24 * time.Hour

// readOpen reads which asks are in open batches. Batches that are closed leave
// the list.
func (p *preparation) readOpen(ctx context.Context) error {
	var err error
	if p.list, err = p.store.List(ctx); err != nil {
		return err
	}
	for _, key := range p.list.Keys {
		st, err := p.store.Load(ctx, key)
		if errors.Is(err, objstore.ErrNotFound) {
			st, err = &batches.State{Record: batches.Record{Key: key, State: batches.Dropped}}, nil
		}
		if err != nil {
			return err
		}
		if st.Unsubmitted() && st.BuildID != p.in.BuildID && p.a.clock().Sub(st.Made) > unsubmittedFor {
			if err := p.drop(ctx, st); err != nil {
				return err
			}
			continue
		}
		if st.Closed() {
			if err := p.store.Close(ctx, key); err != nil {
				return err
			}
			continue
		}
		at := len(p.open)
		p.open = append(p.open, st)
		err = p.store.Asks(ctx, key, func(ask batches.Ask) error {
			p.held[askIDOf(ask.ID)] = at
			return nil
		})
		if errors.Is(err, objstore.ErrNotFound) {
			return batches.ErrRaced // it was collected this moment
		}
		if err != nil {
			return err
		}
	}
	// The list as it is after the cleaning: who changes it from here on is seen.
	now, err := p.store.List(ctx)
	if err != nil {
		return err
	}
	if len(now.Keys) != len(p.open) {
		return batches.ErrRaced
	}
	for i := range now.Keys {
		if now.Keys[i] != p.open[i].Key {
			return batches.ErrRaced
		}
	}
	p.list = now
	return nil
}

// raced turns a lost race for a record into one for the list: the step is done
// again either way.
func raced(err error) error {
	if errors.Is(err, batches.ErrMoved) {
		return batches.ErrRaced
	}
	return err
}

func (p *preparation) shard(ctx context.Context, shard int) error {
	tasks, err := p.a.tasks(ctx, p.plan, shard)
	if err != nil {
		return err
	}
	for chunk := range slices.Chunk(tasks, max(1, lookupAnswers/p.plan.Samples)) {
		var asks []asked
		for i := range chunk {
			more, err := p.teacher.asks(&chunk[i], p.plan.Samples)
			if err != nil {
				return err
			}
			asks = append(asks, more...)
		}
		if err := p.add(ctx, asks); err != nil {
			return err
		}
	}
	return nil
}

// add sorts asks into those that are answered, those that are under way and
// those that go into a batch.
func (p *preparation) add(ctx context.Context, asks []asked) error {
	keys := make([]answers.Ask, len(asks))
	for i := range asks {
		keys[i] = asks[i].ask
	}
	known, err := p.a.answered(ctx, keys)
	if err == nil {
		err = p.a.answeredBefore(ctx, p.teacher, asks, known)
	}
	if err != nil {
		return fmt.Errorf("look up answers: %w", err)
	}
	var missing []*asked
	for i := range asks {
		p.out.Asks++
		id := askIDOf(asks[i].ask.ID)
		switch at, held := p.held[id]; {
		case known[i]:
			p.out.Answered++
		case held:
			p.wanted[at] = true
		case p.seen[id]:
		case p.in.Close:
			p.out.Missing++
		default:
			missing = append(missing, &asks[i])
		}
	}
	return p.take(ctx, missing)
}

// take puts asks into batches. Those that this build has asked in vain wait for
// a round that is to retry them, and those that would only fail the same way for
// the next run.
func (p *preparation) take(ctx context.Context, missing []*asked) error {
	if len(missing) == 0 {
		return nil
	}
	keys := make([]answers.Ask, len(missing))
	for i := range missing {
		keys[i] = missing[i].ask
	}
	records, err := p.a.Answers.Lookup(ctx, keys)
	if err != nil {
		return fmt.Errorf("look up what failed: %w", err)
	}
	for i, ask := range missing {
		id := askIDOf(ask.ask.ID)
		if p.inVain(records[i]) || p.out.More || p.seen[id] {
			continue
		}
		p.seen[id] = true
		if err := p.put(ctx, ask); err != nil {
			return err
		}
		if p.out.More { // it did not fit any more
			delete(p.seen, id)
		}
	}
	return nil
}

// inVain tells whether an ask's last failure is one of this build, and is not to
// be retried now.
func (p *preparation) inVain(r *answers.Record) bool {
	if r == nil || r.Complete || r.Started.Before(p.since) {
		return false
	}
	return !p.in.Retry || !(&teachers.Error{Class: r.ErrorClass}).Temporary()
}

// put puts one ask into the batch that is being made, and begins the next where
// that is full.
func (p *preparation) put(ctx context.Context, ask *asked) error {
	b := batches.Ask{Ask: ask.ask, Body: batches.BodyDigest(ask.request.Body), BodyBytes: len(ask.request.Body), Most: p.most(ask.request)}
	row, err := p.service.AppendRow(ctx, p.row[:0], batches.DraftID(ask.ask.ID, b.Body), ask.request)
	if err != nil {
		return p.unsendable(ctx, ask, err)
	}
	p.row = row
	if int64(len(row)) > p.limits.Bytes {
		return p.unsendable(ctx, ask, &teachers.Error{
			Teacher: "teacher " + p.teacher.spec.ID, Class: teachers.ClassTooLarge,
			Excerpt: fmt.Sprintf("the request has %d bytes, and a whole batch file at most %d", len(row), p.limits.Bytes),
		})
	}
	poor := p.file != nil && p.in.Most > 0 && p.file.Most()+b.Most > p.in.Most
	if p.file != nil && (poor || p.file.Rows() >= p.limits.Rows || p.file.Bytes()+int64(len(row)) > p.limits.Bytes) {
		if err := p.seal(ctx); err != nil {
			return err
		}
		if poor || len(p.open) >= wire.MostOpenBatches {
			p.out.More = true
			return nil
		}
	}
	if p.file == nil {
		if p.file, err = batches.NewFile(p.a.TempDir); err != nil {
			return err
		}
	}
	return p.file.Add(b, row)
}

// most is what one row can cost at most.
func (p *preparation) most(r *teachers.Request) int64 {
	price := p.teacher.price
	if price == nil {
		return 0
	}
	return batchCost(price, r.MostCost())
}

// unsendable keeps why an ask can't be sent; it is no answer, and no reason to
// hold the others up.
func (p *preparation) unsendable(ctx context.Context, ask *asked, err error) error {
	var e *teachers.Error
	if !errors.As(err, &e) {
		return err
	}
	return p.a.keepRow(ctx, &answers.Record{
		Ask: ask.ask, Teacher: p.teacher.spec.ID, Model: p.teacher.spec.Model, Started: p.a.clock(), Attempts: 1,
		ErrorClass: e.Class, ErrorText: bounded(e.Error()), Ledger: unsentLedger,
	})
}

// seal closes the batch that is being made.
func (p *preparation) seal(ctx context.Context) error {
	if p.file == nil {
		return nil
	}
	spec := p.teacher.spec
	st, list, err := p.store.Make(ctx, p.list, p.file, batches.Record{
		API: spec.API, Teacher: spec.ID, Model: spec.Model, Account: p.teacher.account(), Dataset: p.in.Dataset, BuildID: p.in.BuildID, Made: p.a.clock(),
	})
	for errors.Is(err, batches.ErrRaced) && st != nil {
		if err := p.rebase(ctx); err != nil {
			return err
		}
		list, err = p.store.Add(ctx, p.list, st.Key)
	}
	if err != nil {
		return err
	}
	p.list = list
	p.wanted[len(p.open)] = true
	p.open = append(p.open, st)
	p.file.Discard()
	p.file = nil
	return nil
}

// rebase takes in what other builds, and other teachers of this one, have opened
// and closed meanwhile. ErrRaced where that touches what this step has put into
// batches: then all of it is done again.
func (p *preparation) rebase(ctx context.Context) error {
	now, err := p.store.List(ctx)
	if err != nil {
		return err
	}
	came, _, all := now.Since(p.list)
	if !all {
		return batches.ErrRaced
	}
	for _, key := range came {
		st, err := p.store.Load(ctx, key)
		if err != nil {
			return err
		}
		at := len(p.open)
		p.open = append(p.open, st)
		err = p.store.Asks(ctx, key, func(ask batches.Ask) error {
			id := askIDOf(ask.ID)
			if p.seen[id] {
				return batches.ErrRaced
			}
			p.held[id] = at
			return nil
		})
		switch {
		case errors.Is(err, batches.ErrRaced), errors.Is(err, objstore.ErrNotFound):
			return batches.ErrRaced
		case err != nil:
			return err
		}
	}
	p.list = now
	return nil
}

// finish lists what this build waits for.
func (p *preparation) finish() {
	for i, st := range p.open {
		switch {
		case !p.wanted[i]:
		case len(p.out.Submit)+len(p.out.Open) >= wire.MostOpenBatches:
			p.out.More = true
		case st.Unsubmitted():
			p.out.Submit = append(p.out.Submit, st.Key)
		default:
			p.out.Open = append(p.out.Open, st.Key)
		}
	}
}
