//go:build !race

package testdata

import "testing"

// Heavy skips a test over much data under the race detector, which makes it ten
// times slower: smaller tests run the same code there. Without -race it runs,
// and CI runs both.
func Heavy(testing.TB) {}
