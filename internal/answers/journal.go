package answers

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const pieceSuffix = ".log"

// A piece is one file of the journal. The journal's goroutine writes it until
// it is finished; then the mover copies it to the store, and deletes both when
// all of its records are in the index.
type piece struct {
	seq  int64 // microseconds since 1970 when it was begun, so never used again
	path string

	// Guarded by the store's lock.
	waiting  int    // records that are not in the index yet
	finished bool   // nothing is written to it any more
	uploaded string // its key in the store; "": it is not there
}

func pieceName(seq int64) string { return fmt.Sprintf("%020d", seq) }

// An entry is a record of the journal that is not in the index yet.
type entry struct {
	piece  *piece
	offset int64
	length int
	ask    Ask
	size   int64
	since  time.Time

	// Guarded by the store's lock.
	record  *Record // nil: read it back from the piece
	indexed bool
}

// load returns the entry's record, from the journal where memory let it go.
func (e *entry) load() (*Record, error) {
	if e.record != nil {
		return e.record, nil
	}
	f, err := os.Open(e.piece.path)
	if err != nil {
		return nil, fmt.Errorf("read journal back: %w", err)
	}
	defer f.Close()
	frame := make([]byte, e.length)
	if _, err := f.ReadAt(frame, e.offset); err != nil {
		return nil, fmt.Errorf("read journal back: %s at %d: %w", e.piece.path, e.offset, err)
	}
	if len(wholeFrame(frame)) != e.length {
		return nil, fmt.Errorf("read journal back: %s at %d: %w", e.piece.path, e.offset, errRecord)
	}
	r, err := decodeFrame(frame)
	if err != nil {
		return nil, fmt.Errorf("read journal back: %s at %d: %w", e.piece.path, e.offset, err)
	}
	return r, nil
}

// A request is one Append on its way through the journal.
type request struct {
	frame []byte
	entry *entry
	done  chan error
}

// A journal appends records to files on the local disk. One goroutine writes:
// it takes whatever callers wait, writes and syncs it at once, and answers them
// all. The first error of the disk is kept, and everything after it refused:
// what a failed sync left on the disk can't be known.
type journal struct {
	dir      string
	tune     *tuning
	begun    func(*piece)           // before the first record of a piece is written
	durable  func(batch []*request) // before the callers are answered
	finished func(*piece)
	fault    func(op string) error // of tests; nil otherwise

	closing  sync.RWMutex // held shared while a request is handed over
	closed   bool
	requests chan *request
	stopped  chan struct{}
	err      atomic.Pointer[error]

	// Of the goroutine alone.
	file    *os.File
	current *piece
	written int64
	last    int64
	age     *time.Timer
	buf     []byte
	busy    bool // several waited for the last sync
}

// groupRows is how many records are written without waiting for more.
const groupRows = 64

var errClosed = errors.New("the store of answers is closed")

// start runs the journal; its pieces have numbers above last.
func (j *journal) start(last int64) {
	j.last = last
	j.requests = make(chan *request, 1024)
	j.stopped = make(chan struct{})
	j.age = time.NewTimer(time.Hour)
	j.age.Stop()
	go j.run()
}

// submit hands a request over. Its done channel gets the outcome.
func (j *journal) submit(r *request) error {
	j.closing.RLock()
	defer j.closing.RUnlock()
	if j.closed {
		return errClosed
	}
	j.requests <- r
	return nil
}

// stop refuses further records, writes those that were handed over, and
// finishes the piece.
func (j *journal) stop() {
	j.closing.Lock()
	already := j.closed
	j.closed = true
	j.closing.Unlock()
	if !already {
		close(j.requests)
	}
	<-j.stopped
}

// failed is the error that ended the journal, or nil.
func (j *journal) failed() error {
	if err := j.err.Load(); err != nil {
		return *err
	}
	return nil
}

func (j *journal) run() {
	defer close(j.stopped)
	defer j.finish()
	for {
		select {
		case <-j.age.C:
			j.finish()
		case r, more := <-j.requests:
			if !more {
				return
			}
			j.group(r)
		}
	}
}

// group writes the first request together with all that wait behind it, and
// with those that come within a moment where many come: what a sync costs
// hardly depends on how much it writes.
func (j *journal) group(first *request) {
	batch, bytes := []*request{first}, len(first.frame)
	var moment <-chan time.Time
	next := func() (*request, bool) {
		select {
		case r, more := <-j.requests:
			return r, more
		default:
		}
		if !j.busy || len(batch) >= groupRows {
			return nil, false
		}
		if moment == nil {
			moment = time.After(j.tune.groupWait)
		}
		select {
		case r, more := <-j.requests:
			return r, more
		case <-moment:
			return nil, false
		}
	}
	for bytes < j.tune.groupBytes {
		r, more := next()
		if !more {
			break
		}
		batch = append(batch, r)
		bytes += len(r.frame)
	}
	j.busy = len(batch) > 1
	err := j.failed()
	if err == nil {
		if err = j.write(batch); err != nil {
			err = fmt.Errorf("write journal of answers: %w; no further answer is accepted: free space or repair the disk, then start again", err)
			j.err.Store(&err)
		}
	}
	if err == nil {
		j.durable(batch)
		// Only now: a finished piece in which nothing waits is deleted.
		if j.written >= j.tune.pieceBytes {
			j.finish()
		}
	}
	for _, r := range batch {
		r.done <- err
	}
}

func (j *journal) write(batch []*request) error {
	if j.file == nil {
		if err := j.begin(); err != nil {
			return err
		}
	}
	j.buf = j.buf[:0]
	for _, r := range batch {
		r.entry.piece = j.current
		r.entry.offset = j.written + int64(len(j.buf))
		r.entry.length = len(r.frame)
		j.buf = append(j.buf, r.frame...)
	}
	if err := j.inject("write"); err != nil {
		return err
	}
	if _, err := j.file.Write(j.buf); err != nil {
		return err
	}
	if err := j.inject("sync"); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.written += int64(len(j.buf))
	if cap(j.buf) > 4*j.tune.groupBytes {
		j.buf = nil
	}
	return nil
}

// begin creates the next piece.
func (j *journal) begin() error {
	if err := j.inject("create"); err != nil {
		return err
	}
	j.last = max(j.last+1, time.Now().UnixMicro())
	path := filepath.Join(j.dir, pieceName(j.last)+pieceSuffix)
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := syncDir(j.dir); err != nil {
		f.Close()
		return err
	}
	j.file, j.written = f, 0
	j.current = &piece{seq: j.last, path: path}
	j.age.Reset(j.tune.pieceAge)
	j.begun(j.current)
	return nil
}

// finish closes the piece. Its content was synced before it was answered for,
// so an error of close loses nothing.
func (j *journal) finish() {
	j.age.Stop()
	if j.file == nil {
		return
	}
	j.file.Close()
	j.file = nil
	j.finished(j.current)
	j.current = nil
}

func (j *journal) inject(op string) error {
	if j.fault == nil {
		return nil
	}
	return j.fault(op)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// listPieces returns the pieces in a journal's folder, oldest first.
func listPieces(dir string) ([]*piece, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var pieces []*piece
	for _, f := range files {
		name, isPiece := strings.CutSuffix(f.Name(), pieceSuffix)
		if seq, err := strconv.ParseInt(name, 10, 64); isPiece && err == nil && pieceName(seq) == name {
			pieces = append(pieces, &piece{seq: seq, path: filepath.Join(dir, f.Name())})
		}
	}
	slices.SortFunc(pieces, func(a, b *piece) int { return int(a.seq - b.seq) })
	return pieces, nil
}
