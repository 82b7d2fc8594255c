package activities

import (
	"errors"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// classPurged is the error of a candidate whose answer was purged. It is not
// asked again: the answer store holds a tombstone in its place.
const classPurged = datasets.ErrorPurged

var errPurged = errors.New("the answer was purged; nobody is asked again")

// mostBegun bounds how many builds a worker remembers to have seen.
const mostBegun = 256

// begins is called with the build of every activity. At the first one of a build
// it lets go of what the worker knows of indexes of answers: since then a purge
// may have erased some, also in ranges that are closed. While a build runs its
// dataset is not purged.
func (a *Activities) begins(buildID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.begun[buildID] || a.Answers == nil {
		return
	}
	if a.begun == nil || len(a.begun) >= mostBegun {
		a.begun = map[string]bool{}
	}
	a.begun[buildID] = true
	a.Answers.Refresh()
}

// purgedBoth tells whether an answer was purged before either was made.
func purgedBoth(a, b *datasets.Candidate) bool {
	of := func(c *datasets.Candidate) bool { return c.Error != nil && *c.Error == classPurged }
	return of(a) && of(b)
}
