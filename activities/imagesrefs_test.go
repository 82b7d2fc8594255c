package activities

import (
	"errors"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/images"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// References come with the data. One of any length or of any characters is its
// row's fault, fills no index and reaches no terminal as it is.
func TestHostileImageReferences(t *testing.T) {
	r := parsed(t, "name: d\nprompts: [{path: p.jsonl, fields: {images: i}}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
	im, err := FindImages(t.Context(), r, [][]sources.File{{}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	stored := sources.File{Name: "p.jsonl", Key: "sources/d/p.jsonl", SHA256: "d"}
	for _, ref := range []string{strings.Repeat("\x01", 16<<20), "https://host.invalid/" + strings.Repeat("a", maxImageRef), "\x1b]0;mine\x07\n" + strings.Repeat("é", 400)} {
		_, _, err := im.Image(t.Context(), stored, sources.ImageRef{Text: ref})
		var known *images.Fault
		if !errors.As(err, &known) || len(err.Error()) > 1000 || strings.ContainsAny(err.Error(), "\x01\x1b\x07\n") {
			t.Errorf("%.300q", err)
		}
	}
	text, err := im.encode()
	if err != nil || len(text) > 8<<10 {
		t.Errorf("an index of %d bytes, %v", len(text), err)
	}
	if _, err := decodeImages(text); err != nil {
		t.Error(err)
	}
}
