package answers

import (
	"context"
	"fmt"
	"iter"
	"sync/atomic"
)

// Import indexes recorded answers of one endpoint, in bulk and past the
// journal: whoever has them can give them again. It skips what the index has
// already, holds about 64 MiB at a time, and returns how many it added.
func (s *Store) Import(ctx context.Context, endpoint string, records iter.Seq2[*Record, error]) (added int, err error) {
	batch := &batch{store: s, fresh: s.unknown}
	for r, err := range records {
		if err == nil && r.Endpoint != endpoint {
			err = fmt.Errorf("answer %s belongs to endpoint %q, not to %q", r.ID, r.Endpoint, endpoint)
		}
		if err == nil {
			err = batch.add(ctx, r)
		}
		if err != nil {
			return batch.added, fmt.Errorf("import answers: %w", err)
		}
	}
	if err := batch.commit(ctx); err != nil {
		return batch.added, fmt.Errorf("import answers: %w", err)
	}
	return batch.added, nil
}

// A batch collects records and commits them whenever they are many.
type batch struct {
	store *Store
	fresh func(context.Context, []item) ([]item, error) // what is worth indexing
	items []item
	bytes int64
	added int
}

func (b *batch) add(ctx context.Context, r *Record) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("answer %s: %w", r.ID, err)
	}
	b.items = append(b.items, item{record: r.normal()})
	b.bytes += r.size()
	if b.bytes < b.store.tune.batchBytes && len(b.items) < b.store.tune.batchRows {
		return nil
	}
	return b.commit(ctx)
}

func (b *batch) commit(ctx context.Context) error {
	if len(b.items) == 0 {
		return nil
	}
	fresh, err := b.fresh(ctx, b.items)
	if err != nil {
		return err
	}
	var added atomic.Int64
	err = b.store.commit(ctx, fresh, func(done []item) { added.Add(int64(len(done))) })
	b.added += int(added.Load())
	b.items, b.bytes = nil, 0
	return err
}
