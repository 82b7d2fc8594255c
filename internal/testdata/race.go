//go:build race

package testdata

import "testing"

// Heavy skips a test over much data under the race detector, which makes it ten
// times slower: smaller tests run the same code there. Without -race it runs,
// and CI runs both.
func Heavy(t testing.TB) {
	t.Helper()
	t.Skip("over much data: it runs without -race")
}
