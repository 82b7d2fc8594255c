// Package testdata finds the real prompts, answers and tools that tests run
// on. They live outside the repository, in the folder that STILLHOUSE_TESTDATA
// names (default: shared, beside the repository).
package testdata

import (
	"os"
	"path/filepath"
	"testing"
)

// Path returns the absolute path of a file or folder of the test data. The
// test is skipped where it is absent, and fails instead where
// STILLHOUSE_REQUIRE_TESTDATA=1 says that it must be there.
func Path(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(root(t), filepath.FromSlash(name))
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("STILLHOUSE_REQUIRE_TESTDATA") == "1" {
			t.Fatalf("test data: %v; set STILLHOUSE_TESTDATA to the folder that holds %s", err, name)
		}
		t.Skipf("test data %s is not here; set STILLHOUSE_TESTDATA to run this test", name)
	}
	return path
}

func root(t testing.TB) string {
	t.Helper()
	if dir := os.Getenv("STILLHOUSE_TESTDATA"); dir != "" {
		if filepath.IsAbs(dir) {
			return dir
		}
		return filepath.Join(Repository(t), dir)
	}
	return filepath.Join(Repository(t), "..", "shared")
}

// Repository is the folder that holds go.mod.
func Repository(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the working directory")
		}
		dir = parent
	}
}
