// Package e2e proves on the real program what Stillhouse promises: known truth
// from recorded answers to published rows, the same over HTTP with faults,
// kill -9 at any moment, paying for the difference alone, nothing left behind,
// and the lifetimes of builds.
//
// The tests run one binary (STILLHOUSE_BIN, or one that they build) against
// teachersim, which keeps the accounts on the server's side: what was asked,
// what was billed and what was billed twice. They need the test data that
// internal/testdata finds, and the build tag integration:
//
//	make integration
//	CGO_ENABLED=0 go test -tags integration -run TestKill -v ./test/e2e
package e2e
