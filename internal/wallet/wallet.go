// Package wallet is the money that a worker has on loan. It borrows from the
// authority of a budget (package budget) in slices, pays for requests out of
// what it has borrowed without asking again, and remembers across the death of
// its process what it has spent, so that a worker which is started again on the
// same home charges only what was under way.
//
//	w := &wallet.Wallets{Dir: dir, Worker: name, Authority: authority}
//	use, err := w.Use("maths", open)      // as long as the build asks
//	purse, err := use.Purse("kimi-k3")    // a teachers.Purse
//
// A request's most is added to a counter in a file before the request is sent,
// and replaced by its cost when it is over. That counter, and nothing else, is
// what a crash leaves: the file names what may have been spent at every moment.
// docs/decisions tells why that is enough.
package wallet

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/budget"
)

// An Authority keeps the book of each dataset's budget.
type Authority interface {
	// Open announces a build that spends from the dataset's budget.
	Open(ctx context.Context, dataset string, o budget.Open) error
	// Lease tells what a wallet has spent and asks for what it may spend.
	Lease(ctx context.Context, dataset string, r budget.Request) (budget.Reply, error)
}

// Wallets are those of one worker, one for each dataset that it has asked
// teachers for.
type Wallets struct {
	Dir       string // of their files; one process at a time uses it
	Worker    string // name of the worker's home
	Authority Authority
	Log       *slog.Logger // nil: discarded

	mu     sync.Mutex
	open   map[string]*wallet
	closed bool
}

// A Use is one user of a dataset's wallet. End it with Done.
type Use struct {
	w    *wallet
	once sync.Once
}

// Use opens the wallet of a dataset for a build.
func (w *Wallets) Use(dataset string, o budget.Open) (*Use, error) {
	o.Limits.Sort()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, errClosed
	}
	one := w.open[dataset]
	if one == nil {
		var err error
		if one, err = w.make(dataset, o); err != nil {
			return nil, fmt.Errorf("open the wallet of %s: %w", dataset, err)
		}
		if w.open == nil {
			w.open = map[string]*wallet{}
		}
		w.open[dataset] = one
	}
	one.join(o)
	return &Use{w: one}, nil
}

// Done ends the use. Once nobody uses a wallet, it gives back what it has on
// loan.
func (u *Use) Done() { u.once.Do(u.w.leave) }

// Purse pays for the requests to one teacher.
func (u *Use) Purse(teacher string) (*Purse, error) { return u.w.purse(teacher) }

func (w *Wallets) make(dataset string, o budget.Open) (*wallet, error) {
	if err := os.MkdirAll(w.Dir, 0o700); err != nil {
		return nil, err
	}
	sum := sha256.Sum256([]byte(dataset))
	boot := bootID()
	f, err := openFile(filepath.Join(w.Dir, hex.EncodeToString(sum[:16])+".wallet"), boot)
	if err != nil {
		return nil, err
	}
	log := w.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	one := &wallet{
		dataset: dataset, worker: w.Worker, authority: w.Authority, log: log, boot: boot, file: f, opened: o,
		groups: map[string]*group{}, purses: map[string]*Purse{}, wake: make(chan struct{}, 1),
		stop: cancel, stopped: make(chan struct{}),
	}
	if err := one.regroup(); err != nil {
		cancel()
		return nil, errors.Join(err, f.f.Close())
	}
	go one.run(ctx)
	return one, nil
}

// Close ends all wallets. What they have on loan stays theirs: the next process
// of this home goes on with it. No request may be under way.
func (w *Wallets) Close() error {
	w.mu.Lock()
	w.closed = true
	all := w.open
	w.open = nil
	w.mu.Unlock()
	var errs []error
	for _, one := range all {
		errs = append(errs, one.close())
	}
	return errors.Join(errs...)
}

// GiveBack waits until every wallet that nobody uses has told the authority
// what it has spent and has nothing on loan, or until ctx ends.
func (w *Wallets) GiveBack(ctx context.Context) error {
	w.mu.Lock()
	all := make([]*wallet, 0, len(w.open))
	for _, one := range w.open {
		all = append(all, one)
	}
	w.mu.Unlock()
	for _, one := range all {
		if err := one.settled(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Why says why a dataset's asks to a teacher wait for money; "" where they do
// not.
func (w *Wallets) Why(dataset, teacher string) string {
	w.mu.Lock()
	one := w.open[dataset]
	w.mu.Unlock()
	if one == nil {
		return ""
	}
	return one.why(teacher)
}

var errClosed = errors.New("the worker's wallets are closed: it is stopping")

// An OverError is a request that its budget has no room for. It is
// [budget.ErrOver].
type OverError struct {
	Line budget.Line // the limit, and how it stood
	Need int64       // micro-dollars that the request can cost at most
}

func (e *OverError) Error() string {
	return fmt.Sprintf("%s of %s is spent: %s are left and the next ask can cost %s", e.Line.Name(),
		budget.Dollars(e.Line.Limit), budget.Dollars(e.Line.Left()), budget.Dollars(e.Need))
}

// Is makes it [budget.ErrOver].
func (e *OverError) Is(target error) bool { return target == budget.ErrOver }

// A group is the teachers that one pocket of the book pays for.
type group struct {
	pocket  string
	limit   int64 // may be charged in all
	charged int64 // of all its teachers
	held    int64
	denied  *budget.Line // of its last need
	flow    int64        // reserved since the last request to the authority
	pace    int64        // what is reserved in spareFor, as measured then
	largest int64        // amount that was reserved since the last account began
}

func (g *group) unused() int64 { return g.limit - g.charged }

// A wallet is one dataset's.
type wallet struct {
	dataset   string
	worker    string
	authority Authority
	log       *slog.Logger
	boot      string
	wake      chan struct{} // a request to the authority is wanted
	stop      context.CancelFunc
	stopped   chan struct{}

	mu       sync.Mutex
	file     *file
	opened   budget.Open
	groups   map[string]*group
	purses   map[string]*Purse
	queue    []*waiter // oldest first
	users    int
	broken   error // of the disk: nothing can be reserved any more
	leaseEnd time.Time
	asked    time.Time // when the authority was asked last
	held     int64
	heldMost int64
	tight    bool
	wanted   bool          // a request to the authority is wanted
	clean    bool          // the authority knows all, and nothing is on loan
	told     chan struct{} // closed and made anew after each request
	trouble  string        // why the authority could not be asked
}

// A waiter is a request that waits for money.
type waiter struct {
	purse  *Purse
	amount int64
	spent  bool       // it counts as spent at once, not as under way
	done   chan error // gets one value
}

func (w *wallet) join(o budget.Open) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.users++
	if o.Build < w.opened.Build {
		return
	}
	same := len(o.Limits.Teachers) == len(w.opened.Limits.Teachers)
	for i := range o.Limits.Teachers {
		same = same && o.Limits.Teachers[i].Teacher == w.opened.Limits.Teachers[i].Teacher
	}
	w.opened = o
	if same {
		return
	}
	if err := w.regroup(); err != nil {
		w.fail(err)
	}
}

func (w *wallet) leave() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.users--; w.users == 0 {
		w.want()
	}
}

// regroup puts every teacher into the group of its pocket. What was on loan and
// not used is given back with the next request.
func (w *wallet) regroup() error {
	w.groups = map[string]*group{}
	w.held = 0
	for i := range w.file.entries {
		e := &w.file.entries[i]
		g := w.group(e.teacher)
		g.charged += e.charged
		g.held += e.held
		w.held += e.held
		if p := w.purses[e.teacher]; p != nil {
			p.group = g
		}
	}
	for _, g := range w.groups {
		g.limit = g.charged
	}
	return nil
}

func (w *wallet) group(teacher string) *group {
	pocket := w.opened.Limits.Pocket(teacher)
	g := w.groups[pocket]
	if g == nil {
		g = &group{pocket: pocket}
		w.groups[pocket] = g
	}
	return g
}

func (w *wallet) purse(teacher string) (*Purse, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.purses[teacher]; p != nil {
		return p, nil
	}
	i, err := w.file.entry(teacher)
	if err != nil {
		return nil, fmt.Errorf("open the wallet of %s: %w", w.dataset, err)
	}
	p := &Purse{w: w, teacher: teacher, entry: i, group: w.group(teacher)}
	w.purses[teacher] = p
	return p, nil
}

// fail refuses everything from now on. It is called with the lock held.
func (w *wallet) fail(err error) {
	if w.broken == nil {
		w.broken = fmt.Errorf("the wallet of %s cannot be written, and nothing is spent that it does not hold: %w; free space or repair the disk, then start again", w.dataset, err)
	}
	for _, one := range w.queue {
		one.done <- w.broken
	}
	w.queue = nil
}

func (w *wallet) close() error {
	w.stop()
	<-w.stopped
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail(errClosed)
	if err := w.file.close(w.boot); err != nil {
		return fmt.Errorf("close the wallet of %s: %w", w.dataset, err)
	}
	return nil
}

// why says why a teacher's asks wait.
func (w *wallet) why(teacher string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	waiting := false
	for _, one := range w.queue {
		waiting = waiting || one.purse.teacher == teacher
	}
	if !waiting {
		return ""
	}
	g := w.group(teacher)
	switch {
	case w.trouble != "":
		return "waits: budget: " + w.trouble
	case g.denied != nil:
		return fmt.Sprintf("waits: budget: %s left of %s, %s under way", budget.Dollars(g.denied.Left()),
			budget.Dollars(g.denied.Limit), budget.Dollars(w.held))
	}
	return fmt.Sprintf("waits: budget: at most %s under way at once, so that a crash costs no more", budget.Dollars(max(w.heldMost, w.held)))
}
