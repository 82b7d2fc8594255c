package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Options configure a [Store].
type Options struct {
	Bucket objstore.Bucket
	// Dir holds journal and cache, on a disk of this machine. One store at a
	// time opens it.
	Dir string
	// Worker names this home in the store's journal: 1 to 100 letters,
	// digits, dots, dashes or underscores. Default: a random name that is
	// kept in Dir.
	Worker string
	Log    *slog.Logger // default: discarded
	// CacheBytes bounds the segments that are kept on the local disk;
	// default 20 GiB.
	CacheBytes int64

	tune *tuning // of tests; nil: defaults
}

// A Store keeps answers for one worker. It is safe for concurrent use.
type Store struct {
	*Reader
	worker string
	log    *slog.Logger
	lock   *os.File
	jrnl   journal

	stop    context.CancelFunc // ends the goroutines
	running sync.WaitGroup
	moveNow chan struct{}
	kick    chan struct{} // a round of commits is wanted
	hurry   chan struct{} // and at once: memory is full, or the store closes

	mu      sync.Mutex
	pieces  []*piece    // oldest first
	pending []*entry    // durable, waiting for a commit, oldest first
	working []*entry    // of these, those that a commit has in hand
	waiting map[Key]int // keys of both
	memory  int64       // bytes of both that are held in memory
	round   *round      // the commit that runs
	next    *round      // the commit that comes after it, which anyone may join
	closed  bool
	ended   bool // no round runs any more

	compactions chan rangeID
	compacting  map[rangeID]bool
}

// A round is one commit and those who wait for it.
type round struct {
	done chan struct{}
	err  error
}

// Open opens the store and indexes the records that an earlier process of this
// home left in its journal. A second store on the same Dir is an error.
func Open(ctx context.Context, opt Options) (_ *Store, err error) {
	if opt.Bucket == nil || opt.Dir == "" {
		return nil, errors.New("open answers: Options.Bucket and Options.Dir are needed")
	}
	tune := defaults()
	if opt.tune != nil {
		tune = *opt.tune
	}
	if opt.CacheBytes > 0 {
		tune.cacheBytes = opt.CacheBytes
	}
	s := &Store{
		log:         opt.Log,
		moveNow:     make(chan struct{}, 1),
		kick:        make(chan struct{}, 1),
		hurry:       make(chan struct{}, 1),
		waiting:     make(map[Key]int),
		compactions: make(chan rangeID, 64),
		compacting:  make(map[rangeID]bool),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	journalDir := filepath.Join(opt.Dir, "journal")
	if err := os.MkdirAll(journalDir, 0o700); err != nil {
		return nil, fmt.Errorf("open answers: %w", err)
	}
	if s.lock, err = lockDir(opt.Dir); err != nil {
		return nil, fmt.Errorf("open answers: %w", err)
	}
	defer func() {
		if err != nil {
			s.lock.Close()
		}
	}()
	if s.worker, err = workerName(opt.Dir, opt.Worker); err != nil {
		return nil, fmt.Errorf("open answers: %w", err)
	}
	if s.Reader, err = newReader(opt.Bucket, filepath.Join(opt.Dir, "cache"), &tune); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.cache.close()
		}
	}()
	s.jrnl = journal{dir: journalDir, tune: s.tune, begun: s.begun, durable: s.durable, finished: s.finished}
	last, err := s.recover(ctx)
	if err != nil {
		return nil, fmt.Errorf("open answers: recover %s: %w", journalDir, err)
	}
	s.start(last)
	return s, nil
}

func (s *Store) start(last int64) {
	s.jrnl.start(last)
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.running.Go(func() { s.commitRounds(ctx) })
	s.running.Go(func() { s.move(ctx) })
	s.running.Go(func() { s.compactRanges(ctx) })
}

// Worker is the name of this home in the store's journal.
func (s *Store) Worker() string { return s.worker }

// Append makes the record durable in the local journal and returns; many
// callers share one sync. The record must not be changed afterwards. An error
// of the disk refuses this and every later record. When ctx ends first the
// record may have been kept or not.
func (s *Store) Append(ctx context.Context, r *Record) error {
	if err := r.validate(); err != nil {
		return fmt.Errorf("keep answer %s: %w", r.ID, err)
	}
	r = r.normal()
	frame, err := appendFrame(nil, r)
	if err != nil {
		return fmt.Errorf("keep answer %s: %w", r.ID, err)
	}
	req := &request{
		frame: frame,
		entry: &entry{ask: r.Ask, record: r, size: r.size(), since: time.Now()},
		done:  make(chan error, 1),
	}
	if err := s.jrnl.submit(req); err != nil {
		return fmt.Errorf("keep answer %s: %w", r.ID, err)
	}
	select {
	case err := <-req.done:
		if err != nil {
			return fmt.Errorf("keep answer %s: %w", r.ID, err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("keep answer %s: %w", r.ID, ctx.Err())
	}
}

func (s *Store) begun(p *piece) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces = append(s.pieces, p)
}

func (s *Store) finished(p *piece) {
	s.mu.Lock()
	p.finished = true
	s.mu.Unlock()
	wake(s.moveNow)
}

// durable queues records for the index once the disk has them.
func (s *Store) durable(batch []*request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range batch {
		s.admit(r.entry)
	}
	if s.memory >= s.tune.flushBytes {
		s.join()
		wake(s.hurry)
	}
}

// admit is called with the lock held.
func (s *Store) admit(e *entry) {
	e.piece.waiting++
	s.waiting[e.ask.Key]++
	s.pending = append(s.pending, e)
	if e.record == nil {
		return
	}
	if s.memory+e.size > s.tune.spillBytes {
		e.record = nil
		return
	}
	s.memory += e.size
}

// settle takes a record that is in the index out of the books, with the lock
// held.
func (s *Store) settle(e *entry) {
	e.indexed = true
	e.piece.waiting--
	if s.waiting[e.ask.Key]--; s.waiting[e.ask.Key] == 0 {
		delete(s.waiting, e.ask.Key)
	}
	if e.record != nil {
		s.memory -= e.size
		e.record = nil
	}
}

// Lookup is [Reader.Lookup]. Records of these keys that were appended here and
// are not in the index yet are put there first, so that every reader gets the
// same answer.
func (s *Store) Lookup(ctx context.Context, asks []Ask) ([]*Record, error) {
	if err := s.flushKeys(ctx, asks); err != nil {
		return nil, fmt.Errorf("look up answers: %w", err)
	}
	return s.Reader.Lookup(ctx, asks)
}

// Answered is [Reader.Answered], with [Store.Lookup]'s addition.
func (s *Store) Answered(ctx context.Context, asks []Ask) ([]bool, error) {
	if err := s.flushKeys(ctx, asks); err != nil {
		return nil, fmt.Errorf("look up answers: %w", err)
	}
	return s.Reader.Answered(ctx, asks)
}

func (s *Store) flushKeys(ctx context.Context, asks []Ask) error {
	s.mu.Lock()
	needed := false
	for i := range asks {
		needed = needed || s.waiting[asks[i].Key] > 0
	}
	s.mu.Unlock()
	if !needed {
		return nil
	}
	return s.Flush(ctx)
}

// Close refuses further records, indexes what is pending, and ends the store's
// goroutines. Where the object store can't be reached it returns an error;
// nothing is lost then: the journal keeps the records for the next Open.
func (s *Store) Close(ctx context.Context) error {
	s.mu.Lock()
	already := s.closed
	s.closed = true
	s.mu.Unlock()
	if already {
		return nil
	}
	s.jrnl.stop()
	wake(s.hurry)
	err := s.Flush(ctx)
	s.stop()
	s.running.Wait()
	err = errors.Join(err, s.moveOnce(ctx))
	err = errors.Join(err, s.Reader.Close(), s.lock.Close())
	if err != nil {
		return fmt.Errorf("close answers: %w", err)
	}
	return nil
}

// wake leaves a signal where none is waiting already.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func writeBytes(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(data))
		return err
	}
}
