//go:build chromium

package report

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPictures writes pictures of pages to the folder that
// STILLHOUSE_PICTURES names, to be looked at.
func TestPictures(t *testing.T) {
	dir := os.Getenv("STILLHOUSE_PICTURES")
	if dir == "" {
		t.Skip("STILLHOUSE_PICTURES names no folder")
	}
	html := func(r *Report) string {
		var page strings.Builder
		if err := r.HTML(&page); err != nil {
			t.Fatal(err)
		}
		return page.String()
	}
	var versions strings.Builder
	if err := twoVersions().Report().HTML(&versions); err != nil {
		t.Fatal(err)
	}
	b := openTab(t, 1280, 900)
	for _, one := range []struct {
		name, page string
		width      int
		dark       bool
	}{
		{"nine-light", html(looked(t, 9, 300, 1, "", true)), 1280, false},
		{"nine-dark", html(looked(t, 9, 300, 1, "", true)), 1280, true},
		{"nine-phone", html(looked(t, 9, 60, 1, "", true)), 390, false},
		{"one", html(looked(t, 1, 60, 1, "", true)), 1280, false},
		{"nopass", html(looked(t, 3, 60, 1, "", false)), 1280, false},
		{"hostile", html(looked(t, 3, 60, 1, marks+strings.Repeat("W", 80), true)), 1280, true},
		{"forty", html(looked(t, 40, 120, 1, "", true)), 1280, false},
		{"versions", versions.String(), 1280, false},
	} {
		scheme := "light"
		if one.dark {
			scheme = "dark"
		}
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		b.size(one.width, 900)
		b.show(one.page)
		b.picture(filepath.Join(dir, one.name+".png"))
		if one.name == "nine-light" {
			b.print(filepath.Join(dir, one.name+".pdf"))
		}
	}
	if lines := b.said(); len(lines) > 0 {
		t.Errorf("the console says: %s", lines)
	}
}
