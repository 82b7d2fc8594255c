// Package budget is the book of what may be spent: which limits a dataset's
// builds have, what is spent, and what is on loan to whom. One authority keeps
// one [Book] for each dataset; the wallets of workers borrow from it and spend
// what they have borrowed without asking again (package wallet).
//
// The rule of the book: what is spent and what is on loan never add up to more
// than a limit. A loan counts as spent until the wallet that took it says
// otherwise, so that a worker which died, with requests on their way, can have
// spent no more than the book knows.
//
// All amounts are whole micro-dollars. The package is plain data and arithmetic:
// it reads no clock and is the same in every replay.
package budget

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrOver is the error of what a budget has no room for any more.
var ErrOver = errors.New("the budget is spent")

// MaxUSD bounds a limit, in US dollars.
const MaxUSD = 1e9

// Micros turns dollars into whole micro-dollars, rounded down: a limit is never
// taken for more than was written.
func Micros(usd float64) int64 {
	// What is written with six decimals may lie a hair below them as a float.
	const hair = 1e-3
	return int64(math.Floor(min(max(usd, 0), MaxUSD)*1e6 + hair))
}

// Limits are what the builds of one dataset may spend.
type Limits struct {
	// Build bounds an account: a build, with the earlier runs that it continues.
	Build int64 `json:"build"`
	// Teachers bounds single teachers within an account, by id.
	Teachers []TeacherLimit `json:"teachers,omitempty"`
	// Month bounds all accounts together within a calendar month (UTC); nil: no
	// limit.
	Month *int64 `json:"month,omitempty"`
}

// A TeacherLimit bounds one teacher.
type TeacherLimit struct {
	Teacher string `json:"teacher"`
	Micros  int64  `json:"micros"`
}

// Sort puts the teachers in the order of their ids, as all functions expect.
func (l *Limits) Sort() {
	slices.SortFunc(l.Teachers, func(a, b TeacherLimit) int { return cmp.Compare(a.Teacher, b.Teacher) })
}

// Teacher is the limit of one teacher.
func (l *Limits) Teacher(id string) (micros int64, limited bool) {
	i, found := slices.BinarySearchFunc(l.Teachers, id, func(t TeacherLimit, id string) int { return cmp.Compare(t.Teacher, id) })
	if !found {
		return 0, false
	}
	return l.Teachers[i].Micros, true
}

// Pocket is the pocket of the book that pays for a teacher: its own where it
// has a limit of its own, else the one that all others share, "".
func (l *Limits) Pocket(teacher string) string {
	if _, limited := l.Teacher(teacher); limited {
		return teacher
	}
	return ""
}

// Lines of a budget: the limits that a pocket is under.
const (
	LineBuild   = "build"
	LineTeacher = "teacher"
	LineMonth   = "month"
)

// An Open announces a build that spends under these limits. Those of the build
// that was opened last hold for the dataset.
type Open struct {
	Job    string `json:"job"` // workflow id: the same recipe over the same sources replaces its earlier run
	Build  string `json:"build"`
	Limits Limits `json:"limits"`
	// Anew begins an account of its own unless other builds are open: each run of
	// a schedule may spend its budget.
	Anew bool `json:"anew,omitempty"`
}

// A Close tells that a build has ended. One that ended within its budget
// (Complete) ends the account: the next build begins with nothing spent.
type Close struct {
	Job      string `json:"job"`
	Build    string `json:"build"`
	Complete bool   `json:"complete,omitempty"`
}

// A Request is what a wallet tells the authority and asks of it.
type Request struct {
	Worker string `json:"worker"` // name of the worker's home
	// Period is the account that the wallet's counts belong to. 0 where it has
	// none, also because it cannot know what it had spent, as after a power
	// failure: all that it had on loan is spent then.
	Period int64 `json:"period"`
	Seq    int64 `json:"seq"` // counts the wallet's requests: one that was overtaken changes nothing
	// Lost is what was under way whenever a process of this wallet died.
	Lost    int64    `json:"lost,omitempty"`
	Pockets []Pocket `json:"pockets,omitempty"`
}

// A Pocket is what one pocket of a wallet holds.
type Pocket struct {
	Pocket string `json:"pocket,omitempty"`
	Spent  int64  `json:"spent,omitempty"` // in this account, by this wallet
	Held   int64  `json:"held,omitempty"`  // reserved for what is under way
	Keep   int64  `json:"keep,omitempty"`  // on loan and not used, which the wallet does not give back
	Need   int64  `json:"need,omitempty"`  // beside Spent and Held: the least that lets one more ask be sent; 0: none waits
	Want   int64  `json:"want,omitempty"`  // beside Spent and Held: what it could use soon
}

// A Reply is the authority's answer to a Request.
type Reply struct {
	// Period names the account that is open; 0: none is, so that the build has to
	// be opened.
	Period int64 `json:"period,omitempty"`
	// Begin tells the wallet that its counts belong to an account that has ended:
	// it begins at what is under way, and asks again.
	Begin bool `json:"begin,omitempty"`
	// Seq says that the wallet's number is not above this one, which the authority
	// has had from it: it is a copy of an earlier state, such as a backup, so that
	// it cannot know what it has spent.
	Seq int64 `json:"seq,omitempty"`
	// Crowded says that the book is full: so many workers share no budget.
	Crowded bool   `json:"crowded,omitempty"`
	Loans   []Loan `json:"loans,omitempty"`
	// HeldMost is the most that the wallet may have under way at once, so that
	// crashes cannot use up the budget. One ask may always be.
	HeldMost int64 `json:"held_most,omitempty"`
	// Tight asks wallets to keep nothing that they do not need now, and to come
	// back soon.
	Tight bool `json:"tight,omitempty"`
}

// A Loan is what a pocket may spend in all, what it has spent already included.
type Loan struct {
	Pocket  string `json:"pocket,omitempty"`
	Granted int64  `json:"granted"`
	Spent   int64  `json:"spent,omitempty"`
	// Denied says which limit Need does not fit; Over that it never will, since
	// nothing is under way that could leave something.
	Denied *Line `json:"denied,omitempty"`
	Over   bool  `json:"over,omitempty"`
}

// A Line is how one limit stands.
type Line struct {
	Kind    string `json:"kind"` // build, teacher or month
	Teacher string `json:"teacher,omitempty"`
	Limit   int64  `json:"limit"`
	Spent   int64  `json:"spent"`
	// Held is what is on loan: under way, or kept ready by a worker.
	Held int64 `json:"held,omitempty"`
}

// Left is what a line still allows, never below 0.
func (l *Line) Left() int64 { return max(l.Limit-l.Spent-l.Held, 0) }

// Name is the limit in a user's words.
func (l *Line) Name() string {
	switch l.Kind {
	case LineTeacher:
		return "the budget of teacher " + l.Teacher
	case LineMonth:
		return "the month's budget"
	}
	return "the budget"
}

// Dollars writes micro-dollars exactly, with two decimals at least.
func Dollars(micros int64) string {
	sign := ""
	if micros < 0 {
		sign, micros = "-", -micros
	}
	s := fmt.Sprintf("%s$%d.%06d", sign, micros/1e6, micros%1e6)
	for cut := 0; cut < 4 && s[len(s)-1] == '0'; cut++ {
		s = s[:len(s)-1]
	}
	return s
}
