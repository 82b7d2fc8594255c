package activities

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBesideView(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"teacher_map.json": "{}", "README.md": "# card"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := besideView(dir)
	if err != nil || len(got) != 1 || string(got["teacher_map.json"]) != "{}" {
		t.Errorf("got %q, %v", got, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "compression_config.yaml"), make([]byte, maxBeside+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := besideView(dir); err == nil || !strings.Contains(err.Error(), "has more than") {
		t.Errorf("a file of more than %d bytes: got %v", maxBeside, err)
	}
}
