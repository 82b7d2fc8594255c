//go:build integration

package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With a key, Temporal's database holds no input or result in the clear. The same
// search finds them in a home without one.
func TestHistoriesAreSealed(t *testing.T) {
	t.Parallel()
	database := func(h *house) []byte {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(h.dir, "temporal", "temporal.db*"))
		if err != nil || len(files) == 0 {
			t.Fatalf("the database of %s: %v, %v", h.dir, files, err)
		}
		var all []byte
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, text...)
		}
		return all
	}
	words := []string{`"recipe_digest"`, `"build_id"`, `"plan_key"`, `"selected"`}
	open, sealed := newHouse(t), newHouse(t)
	sealed.more = []string{"STILLHOUSE_CODEC_KEY=" + strings.Repeat("k", 42) + "g="}
	for _, h := range []*house{open, sealed} {
		h.run(0, "demo", "--quiet")
	}
	if strings.Contains(string(database(open)), "binary/stillhouse-sealed") {
		t.Error("a home without a key has sealed payloads")
	}
	text := database(sealed)
	if !bytes.Contains(text, []byte("binary/stillhouse-sealed")) {
		t.Error("a home with a key has no sealed payloads")
	}
	for _, word := range words {
		if !bytes.Contains(database(open), []byte(word)) {
			t.Errorf("%s is not in a database in the clear either: the test looks for the wrong word", word)
		}
		if bytes.Contains(text, []byte(word)) {
			t.Errorf("%s stands in the clear in the database of a home with a key", word)
		}
	}
}
