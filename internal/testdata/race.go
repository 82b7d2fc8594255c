//go:build race

package testdata

import "testing"

// Pure skips a test of pure code over much data under the race detector, which
// makes it ten times slower and has nothing to find in one goroutine. Without
// -race it runs, and CI runs both.
func Pure(t testing.TB) {
	t.Helper()
	t.Skip("pure code over much data: it runs without -race")
}
