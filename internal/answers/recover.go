package answers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// maxPieceBytes bounds a piece that is read: one record may pass the size at
// which a piece is finished.
const maxPieceBytes = 1 << 30

// recover indexes what an earlier process left: in this home's journal, and in
// the store under this home's name (after the home was restored from an older
// copy). It returns the last number of a piece.
func (s *Store) recover(ctx context.Context) (last int64, err error) {
	pieces, err := listPieces(s.jrnl.dir)
	if err != nil {
		return 0, err
	}
	local := make(map[string]bool)
	for _, p := range pieces {
		last = max(last, p.seq)
		local[s.pieceKey(p.seq)] = true
		if err := s.recoverPiece(p); err != nil {
			return 0, err
		}
	}
	keys, err := s.listJournal(ctx, journalPrefix+s.worker+"/")
	if err != nil {
		return 0, err
	}
	for _, key := range keys {
		if local[key] {
			s.found(key)
			continue
		}
		if _, err := s.adopt(ctx, key); err != nil {
			return 0, err
		}
	}
	if err := s.indexRecovered(ctx); err != nil {
		return 0, err
	}
	return last, s.moveOnce(ctx)
}

// listJournal lists the pieces under a prefix, to the end before any is
// deleted.
func (s *Store) listJournal(ctx context.Context, prefix string) (keys []string, err error) {
	for attr, err := range s.bucket.List(ctx, prefix, "") {
		if err != nil {
			return nil, fmt.Errorf("list journals: %w", err)
		}
		keys = append(keys, attr.Key)
	}
	return keys, nil
}

// found notes that a local piece is in the store too.
func (s *Store) found(key string) {
	for _, p := range s.pieces {
		if s.pieceKey(p.seq) == key {
			p.uploaded = key
		}
	}
}

// recoverPiece queues a piece's records and cuts a torn end off.
func (s *Store) recoverPiece(p *piece) error {
	info, err := os.Stat(p.path)
	if err != nil {
		return err
	}
	if info.Size() > maxPieceBytes {
		return fmt.Errorf("%s has %d bytes, at most %d: move it away to start without its answers", p.path, info.Size(), maxPieceBytes)
	}
	data, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	s.pieces = append(s.pieces, p)
	p.finished = true
	report, err := scanFrames(data, func(off, n int, r *Record) error {
		s.admit(&entry{piece: p, offset: int64(off), length: n, ask: r.Ask, record: r, size: r.size()})
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	if torn := len(data) - report.end; torn > 0 {
		s.log.Info("answers: cut a torn end off the journal; nobody was told that it was kept", "piece", p.path, "bytes", torn)
		if err := os.Truncate(p.path, int64(report.end)); err != nil {
			return err
		}
		report.damaged -= torn
	}
	if report.damaged > 0 {
		s.log.Warn("answers: journal is damaged; the rest of it is kept", "piece", p.path, "bytes", report.damaged)
	}
	return nil
}

// indexRecovered indexes what was queued, except what the index has already, as
// after a crash between index and deletion.
func (s *Store) indexRecovered(ctx context.Context) error {
	for len(s.pending) > 0 {
		items, err := s.loadPart(s.pending)
		if err != nil {
			return err
		}
		fresh, err := s.unseen(ctx, items)
		if err != nil {
			return err
		}
		if err := s.commit(ctx, fresh, func([]item) {}); err != nil {
			return err
		}
		s.indexed(items)
		s.pending = s.pending[len(items):]
	}
	return nil
}

// unknown returns the items that tell the index something: answers to what no
// answer serves, and failures that are newer than those it has. Of items that
// say the same the first is returned.
func (s *Store) unknown(ctx context.Context, items []item) ([]item, error) {
	asks := make([]Ask, len(items))
	for i, it := range items {
		asks[i] = it.record.Ask
	}
	hits, err := s.findFresh(ctx, asks)
	if err != nil {
		return nil, err
	}
	var fresh []item
	seen := make(map[Key][]*Record)
	for i, it := range items {
		h := &hits[i]
		if h.served || h.failed && !it.record.Complete && micros(it.record.Started) <= h.started {
			continue
		}
		if serves(seen[it.record.Key], it.record.Ask) {
			continue
		}
		if it.record.Complete {
			seen[it.record.Key] = append(seen[it.record.Key], it.record)
		}
		fresh = append(fresh, it)
	}
	return fresh, nil
}

func serves(records []*Record, a Ask) bool {
	for _, r := range records {
		if r.Serves(a) {
			return true
		}
	}
	return false
}

// AdoptOrphans indexes what workers that are no longer live left in the store's
// journal, and returns how many records that were. Two callers may do it at
// once: the first wins for every ask, as always.
func (s *Store) AdoptOrphans(ctx context.Context, live func(worker string) bool) (total int, err error) {
	alive := map[string]bool{s.worker: true}
	keys, err := s.listJournal(ctx, journalPrefix)
	if err != nil {
		return 0, fmt.Errorf("adopt journals: %w", err)
	}
	for _, key := range keys {
		worker, _, ok := strings.Cut(strings.TrimPrefix(key, journalPrefix), "/")
		if !ok {
			continue
		}
		if _, asked := alive[worker]; !asked {
			alive[worker] = live(worker)
		}
		if alive[worker] {
			continue
		}
		n, err := s.adopt(ctx, key)
		total += n
		if err != nil {
			return total, fmt.Errorf("adopt journals: %w", err)
		}
	}
	return total, nil
}

// adopt indexes a piece that is in the store alone, and deletes it.
func (s *Store) adopt(ctx context.Context, key string) (added int, err error) {
	data, _, err := objstore.ReadAll(ctx, s.bucket, key, maxPieceBytes)
	if errors.Is(err, objstore.ErrNotFound) {
		return 0, nil // another worker was faster
	}
	if err != nil {
		return 0, err
	}
	batch := &batch{store: s, fresh: s.unseen}
	report, err := scanFrames(data, func(_, _ int, r *Record) error { return batch.add(ctx, r) })
	if err == nil {
		err = batch.commit(ctx)
	}
	if err != nil {
		return batch.added, fmt.Errorf("%s: %w", key, err)
	}
	if report.damaged > 0 {
		s.log.Warn("answers: adopted a damaged journal; what could be read is kept", "key", key, "bytes", report.damaged)
	}
	return batch.added, s.bucket.Delete(ctx, key)
}
