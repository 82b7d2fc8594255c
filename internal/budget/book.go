package budget

import (
	"cmp"
	"slices"
	"time"
)

const (
	// LeaseFor is how long a wallet may lend out of a loan after it has last
	// reached the authority, and how long the authority waits for a wallet before
	// it takes what that has on loan for lost.
	LeaseFor = 30 * time.Second
	// heldShare is the part of a limit, in percent, that crashes may use up: what
	// was under way when a process died may have been spent, and stays charged. At
	// most three quarters of what is left of it are under way at once, so that a
	// crash after a crash costs less.
	heldShare = 16
	// loanShare is the part of what is free that one wallet gets beyond its need:
	// one in four, shared with the other wallets. Loans shrink as the budget does,
	// and what a machine that is lost takes with it stays within heldShare.
	loanShare = 4
	// forgetWallet and forgetJob bound what the book remembers.
	forgetWallet = 7 * 24 * time.Hour
	forgetJob    = 30 * 24 * time.Hour
	mostJobs     = 16
	// mostBytes bounds a book as text: it is one payload of the authority's
	// history, which takes 16 KiB.
	mostBytes = 15 << 10
	// hungryFor is how long wallets keep nothing spare after a need was denied.
	hungryFor = 10 * time.Second
)

// A Book is what an authority knows. The zero Book is empty; it is carried from
// one run of the authority to the next as it is.
type Book struct {
	Period  int64    `json:"period,omitempty"` // of the open account: when it began, in nanoseconds since 1970; 0: none is open
	Ended   int64    `json:"ended,omitempty"`  // accounts that have ended
	Limits  Limits   `json:"limits"`
	Jobs    []Job    `json:"jobs,omitempty"`
	Gone    []Sum    `json:"gone,omitempty"` // spent in this account by wallets that the book has forgotten
	Lost    int64    `json:"lost,omitempty"` // of these, what was under way when they died
	Month   string   `json:"month,omitempty"`
	InMonth int64    `json:"in_month,omitempty"` // spent in the month, without the wallets below
	Hungry  int64    `json:"hungry,omitempty"`   // seconds since 1970 until which nothing spare is kept
	Wallets []Wallet `json:"-"`                  // see MarshalJSON
}

// A Job is a build that is open.
type Job struct {
	ID     string `json:"id"`
	Build  string `json:"build"`
	Opened int64  `json:"opened"` // seconds since 1970
}

// A Sum is an amount of one pocket.
type Sum struct {
	Pocket string `json:"p,omitempty"`
	Micros int64  `json:"m"`
}

// A Wallet is what the book knows of one worker's wallet.
type Wallet struct {
	Worker  string
	Seq     int64
	Seen    int64 // seconds since 1970
	Lost    int64 // was under way when a process of it died
	Base    int64 // of what it has spent belongs to earlier months
	Pockets []Lent
}

// A Lent is what one pocket of a wallet has on loan.
type Lent struct {
	Pocket  string
	Granted int64 // may be spent in all
	Spent   int64 // of it is spent
}

// Open begins an account, or goes on with the one that is open, under the
// limits of the build.
func (b *Book) Open(now time.Time, o Open) {
	b.turn(now)
	o.Limits.Sort()
	if o.Anew && b.Period != 0 && !slices.ContainsFunc(b.Jobs, func(j Job) bool { return j.ID != o.Job || j.Build == o.Build }) {
		b.end()
	}
	b.Limits = o.Limits
	b.Jobs = slices.DeleteFunc(b.Jobs, func(j Job) bool {
		return j.ID == o.Job || now.Sub(time.Unix(j.Opened, 0)) > forgetJob
	})
	if len(b.Jobs) >= mostJobs {
		b.Jobs = slices.Delete(b.Jobs, 0, 1)
	}
	b.Jobs = append(b.Jobs, Job{ID: o.Job, Build: o.Build, Opened: now.Unix()})
	if b.Period == 0 {
		b.Period = now.UnixNano()
	}
}

// Close ends a build. The account ends with it where it was complete and no
// other build of the dataset is open.
func (b *Book) Close(now time.Time, c Close) {
	b.turn(now)
	i := slices.IndexFunc(b.Jobs, func(j Job) bool { return j.ID == c.Job && j.Build == c.Build })
	if i < 0 {
		return
	}
	b.Jobs = slices.Delete(b.Jobs, i, i+1)
	if c.Complete && len(b.Jobs) == 0 && b.Period != 0 {
		b.end()
	}
}

// end ends the account.
func (b *Book) end() {
	for len(b.Wallets) > 0 {
		b.forget(0)
	}
	b.Period, b.Gone, b.Lost, b.Hungry = 0, nil, 0, 0
	b.Ended++
}

// turn begins a new month: what was granted before belongs to the old one.
func (b *Book) turn(now time.Time) {
	month := now.UTC().Format("2006-01")
	if month == b.Month || month < b.Month {
		return
	}
	b.Month, b.InMonth = month, 0
	for i := range b.Wallets {
		w := &b.Wallets[i]
		w.Base = 0
		for _, p := range w.Pockets {
			w.Base += p.Spent
		}
	}
}

// forget takes a wallet out of the book. Whatever it has on loan is spent.
func (b *Book) forget(i int) {
	w := &b.Wallets[i]
	b.Lost += w.Lost
	b.InMonth -= w.Base
	for _, p := range w.Pockets {
		b.InMonth += p.Granted
		b.Lost += p.Granted - p.Spent
		b.gone(p.Pocket, p.Granted)
	}
	b.Wallets = slices.Delete(b.Wallets, i, i+1)
}

func (b *Book) gone(pocket string, micros int64) {
	for i := range b.Gone {
		if b.Gone[i].Pocket == pocket {
			b.Gone[i].Micros += micros
			return
		}
	}
	b.Gone = append(b.Gone, Sum{Pocket: pocket, Micros: micros})
}

// Lease takes in what a wallet has spent and gives it what it may spend.
func (b *Book) Lease(now time.Time, r Request) Reply {
	b.turn(now)
	if b.Period == 0 {
		return Reply{}
	}
	i := slices.IndexFunc(b.Wallets, func(w Wallet) bool { return w.Worker == r.Worker })
	if r.Period != b.Period && !b.takesOver(i, &r) {
		if i >= 0 {
			b.forget(i)
		}
		return Reply{Period: b.Period, Begin: true}
	}
	if i < 0 {
		if i = b.admit(now, &r); i < 0 {
			return Reply{Period: b.Period, Crowded: true}
		}
	}
	w := &b.Wallets[i]
	switch {
	case w.repeats(&r):
		return Reply{Period: b.Period, Loans: w.loans(), HeldMost: b.heldMost(now), Tight: now.Unix() < b.Hungry}
	case r.Seq <= w.Seq:
		// It was overtaken, and nobody waits for the answer. Or its wallet was put
		// back to an earlier state, and does not know what it has spent.
		return Reply{Period: b.Period, Seq: w.Seq}
	}
	w.Seq, w.Seen, w.Lost = r.Seq, now.Unix(), r.Lost
	b.takeIn(w, &r)
	loans := b.lend(now, w, &r)
	return Reply{Period: b.Period, Loans: loans, HeldMost: b.heldMost(now), Tight: now.Unix() < b.Hungry}
}

// takesOver tells whether the counts of an older account are this one's: those
// of a wallet that has lent from an authority whose book was lost.
func (b *Book) takesOver(known int, r *Request) bool {
	return known < 0 && r.Period != 0 && r.Period < b.Period && b.Ended == 0
}

// admit makes room for a wallet and gives its place; -1: there is none.
func (b *Book) admit(now time.Time, r *Request) int {
	for i := len(b.Wallets) - 1; i >= 0; i-- {
		if now.Sub(time.Unix(b.Wallets[i].Seen, 0)) > forgetWallet {
			b.forget(i)
		}
	}
	w := Wallet{Worker: r.Worker, Seen: now.Unix()}
	for _, p := range r.Pockets {
		w.pocket(p.Pocket)
	}
	b.Wallets = append(b.Wallets, w)
	if b.size() > mostBytes {
		b.Wallets = b.Wallets[:len(b.Wallets)-1]
		return -1
	}
	return len(b.Wallets) - 1
}

// takeIn books what a wallet has spent and gives back.
func (b *Book) takeIn(w *Wallet, r *Request) {
	// A wallet tells of all its pockets; one that is missing has become part of
	// another, because its teacher has no limit of its own any more.
	w.Pockets = slices.DeleteFunc(w.Pockets, func(l Lent) bool {
		return !slices.ContainsFunc(r.Pockets, func(p Pocket) bool { return p.Pocket == l.Pocket })
	})
	for _, p := range r.Pockets {
		lent := w.pocket(p.Pocket)
		used := p.Spent + p.Held
		// A wallet keeps at most what it was granted; what it has used beyond that,
		// because something cost more than it can cost, is spent all the same.
		lent.Granted = max(min(lent.Granted, used+max(p.Keep, 0)), used)
		lent.Spent = p.Spent
	}
	// What comes back of an earlier month, as of a batch that has ended since,
	// was not spent in that one: it is no more money for this one.
	spent := int64(0)
	for _, p := range w.Pockets {
		spent += p.Spent
	}
	w.Base = min(w.Base, max(spent, 0))
}

// repeats tells whether the request is the last one once more, because its
// answer was lost on the way.
func (w *Wallet) repeats(r *Request) bool {
	if r.Seq != w.Seq || len(r.Pockets) != len(w.Pockets) {
		return false
	}
	for _, p := range r.Pockets {
		i := slices.IndexFunc(w.Pockets, func(l Lent) bool { return l.Pocket == p.Pocket })
		if i < 0 || w.Pockets[i].Spent != p.Spent {
			return false
		}
	}
	return true
}

// loans are the wallet's as they stand.
func (w *Wallet) loans() []Loan {
	loans := make([]Loan, 0, len(w.Pockets))
	for _, p := range w.Pockets {
		loans = append(loans, Loan{Pocket: p.Pocket, Granted: p.Granted, Spent: p.Spent})
	}
	return loans
}

func (w *Wallet) pocket(name string) *Lent {
	for i := range w.Pockets {
		if w.Pockets[i].Pocket == name {
			return &w.Pockets[i]
		}
	}
	w.Pockets = append(w.Pockets, Lent{Pocket: name})
	return &w.Pockets[len(w.Pockets)-1]
}

// lend grants every pocket its need, whole or not at all, and then what is
// spare.
func (b *Book) lend(now time.Time, w *Wallet, r *Request) []Loan {
	loans := w.loans()
	for _, p := range r.Pockets {
		lent, loan := w.pocket(p.Pocket), find(loans, p.Pocket)
		kept := lent.Granted - p.Spent - p.Held
		if p.Need <= kept {
			continue
		}
		if line := b.tightest(p.Pocket); line.Left() < p.Need-kept {
			loan.Denied, loan.Over = &line, p.Held <= 0 && !b.mayFree(now, w, p.Pocket, line.Kind)
			b.Hungry = now.Add(hungryFor).Unix()
			continue
		}
		lent.Granted += p.Need - kept
	}
	b.lendSpare(now, w, r, loans)
	return b.state(w, loans)
}

func (b *Book) lendSpare(now time.Time, w *Wallet, r *Request, loans []Loan) {
	for _, p := range r.Pockets {
		if find(loans, p.Pocket).Denied != nil {
			continue // a part of what it needs would help nobody
		}
		lent := w.pocket(p.Pocket)
		line := b.tightest(p.Pocket)
		more := min(p.Want-(lent.Granted-p.Spent-p.Held), line.Left()/(loanShare*b.live(now)), b.heldMost(now))
		lent.Granted += max(more, 0)
	}
}

func (b *Book) state(w *Wallet, loans []Loan) []Loan {
	for i := range loans {
		lent := w.pocket(loans[i].Pocket)
		loans[i].Granted, loans[i].Spent = lent.Granted, lent.Spent
	}
	return loans
}

func find(loans []Loan, pocket string) *Loan {
	return &loans[slices.IndexFunc(loans, func(l Loan) bool { return l.Pocket == pocket })]
}

// mayFree tells whether a line may get something back from another pocket: what
// is under way there, or kept by a wallet that is alive.
func (b *Book) mayFree(now time.Time, own *Wallet, pocket, kind string) bool {
	for i := range b.Wallets {
		w := &b.Wallets[i]
		if !w.alive(now) {
			continue
		}
		for _, p := range w.Pockets {
			if kind == LineTeacher && p.Pocket != pocket || w == own && p.Pocket == pocket {
				continue
			}
			if p.Granted > p.Spent {
				return true
			}
		}
	}
	return false
}

func (w *Wallet) alive(now time.Time) bool {
	return now.Sub(time.Unix(w.Seen, 0)) <= LeaseFor
}

// live is how many wallets are alive; the one that asks is.
func (b *Book) live(now time.Time) int64 {
	n := int64(0)
	for i := range b.Wallets {
		if b.Wallets[i].alive(now) {
			n++
		}
	}
	return max(n, 1)
}

// heldMost is what one wallet may have under way at once.
func (b *Book) heldMost(now time.Time) int64 {
	limit, lost := b.Limits.Build, b.Lost
	if m := b.Limits.Month; m != nil {
		limit = min(limit, *m)
	}
	for i := range b.Wallets {
		w := &b.Wallets[i]
		lost += w.Lost
		if w.alive(now) {
			continue
		}
		for _, p := range w.Pockets {
			lost += p.Granted - p.Spent
		}
	}
	return max((limit/100*heldShare-lost)*3/4/b.live(now), 0)
}

// Lines are how the limits stand, the build's first.
func (b *Book) Lines() []Line {
	lines := []Line{b.line(LineBuild, "")}
	if b.Limits.Month != nil {
		lines = append(lines, b.line(LineMonth, ""))
	}
	for _, t := range b.Limits.Teachers {
		lines = append(lines, b.line(LineTeacher, t.Teacher))
	}
	return lines
}

// tightest is, of the limits that a pocket is under, the one that leaves least.
func (b *Book) tightest(pocket string) Line {
	lines := []Line{b.line(LineBuild, "")}
	if b.Limits.Month != nil {
		lines = append(lines, b.line(LineMonth, ""))
	}
	if pocket != "" {
		lines = append(lines, b.line(LineTeacher, pocket))
	}
	// Left of an overdrawn line is 0, as that of a full one.
	return slices.MinFunc(lines, func(x, y Line) int { return cmp.Compare(x.Left(), y.Left()) })
}

// line adds up one limit.
func (b *Book) line(kind, pocket string) Line {
	l := Line{Kind: kind, Teacher: pocket, Limit: b.Limits.Build}
	switch kind {
	case LineMonth:
		l.Spent = b.InMonth
		if m := b.Limits.Month; m != nil {
			l.Limit = *m
		}
	case LineTeacher:
		l.Limit, _ = b.Limits.Teacher(pocket)
	}
	for _, g := range b.Gone {
		if kind == LineBuild || kind == LineTeacher && g.Pocket == pocket {
			l.Spent += g.Micros
		}
	}
	for i := range b.Wallets {
		for _, p := range b.Wallets[i].Pockets {
			if kind == LineTeacher && p.Pocket != pocket {
				continue
			}
			l.Spent += p.Spent
			l.Held += p.Granted - p.Spent
		}
		if kind == LineMonth {
			l.Spent -= b.Wallets[i].Base
		}
	}
	return l
}

// A Status is how a book stands, for whoever looks.
type Status struct {
	Open  bool      `json:"open"`
	Since time.Time `json:"since"` // when the open account began
	Lines []Line    `json:"lines,omitempty"`
	Lost  int64     `json:"lost,omitempty"` // of what is spent: what was under way when a worker died
}

// Status is how the book stood when it was written last.
func (b *Book) Status() Status {
	s := Status{Open: b.Period != 0, Lines: b.Lines(), Lost: b.Lost}
	if s.Open {
		s.Since = time.Unix(0, b.Period).UTC()
	}
	for i := range b.Wallets {
		s.Lost += b.Wallets[i].Lost
	}
	return s
}
