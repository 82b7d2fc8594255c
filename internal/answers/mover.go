package answers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

const journalPrefix = root + "/journal/"

// moveEvery is how often pieces are looked at that no event announced.
const moveEvery = time.Second

// uploadAttempts is how many names a piece is tried under.
const uploadAttempts = 5

// move copies finished pieces to the store, so that losing this disk loses
// little, and deletes pieces whose records are all in the index.
func (s *Store) move(ctx context.Context) {
	tick := time.NewTicker(moveEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.moveNow:
		case <-tick.C:
			s.flushOverdue()
		}
		if err := s.moveOnce(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("answers: journal not copied to the store yet", "error", err)
		}
	}
}

// moveOnce handles every piece that is finished now. One runs at a time.
func (s *Store) moveOnce(ctx context.Context) error {
	s.mu.Lock()
	var done, unsaved []*piece
	for _, p := range s.pieces {
		switch {
		case p.finished && p.waiting == 0:
			done = append(done, p)
		case p.finished && p.uploaded == "":
			unsaved = append(unsaved, p)
		}
	}
	s.mu.Unlock()
	var errs []error
	for _, p := range done {
		errs = append(errs, s.deletePiece(ctx, p))
	}
	for _, p := range unsaved {
		errs = append(errs, s.uploadPiece(ctx, p))
	}
	return errors.Join(errs...)
}

func (s *Store) pieceKey(seq int64) string {
	return journalPrefix + s.worker + "/" + pieceName(seq) + ".zst"
}

// uploadPiece copies a piece to the store. A piece of that name may be there:
// ours, when the answer to an earlier try was lost, or a longer or shorter one
// when two copies of a home ran. Then ours takes the next free name.
func (s *Store) uploadPiece(ctx context.Context, p *piece) error {
	seq := p.seq
	for attempt := 1; ; attempt++ {
		key := s.pieceKey(seq)
		_, err := objstore.CreateFileOrSame(ctx, s.bucket, key, p.path)
		if errors.Is(err, objstore.ErrPrecondition) && attempt < uploadAttempts {
			seq = max(seq+1, time.Now().UnixMicro())
			continue
		}
		if err != nil {
			return fmt.Errorf("copy journal to the store: %w", err)
		}
		s.mu.Lock()
		p.uploaded = key
		s.mu.Unlock()
		return nil
	}
}

// deletePiece deletes a piece whose records are in the index, first in the
// store: while the local file is there, the deletion is not forgotten.
func (s *Store) deletePiece(ctx context.Context, p *piece) error {
	if p.uploaded != "" {
		if err := s.bucket.Delete(ctx, p.uploaded); err != nil {
			return fmt.Errorf("delete indexed journal: %w", err)
		}
	}
	if err := os.Remove(p.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("delete indexed journal: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces = slices.DeleteFunc(s.pieces, func(q *piece) bool { return p == q })
	return nil
}
