package activities

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/images"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
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

// A countedReader counts what was read of a file.
type countedReader struct {
	io.Reader
	n *atomic.Int64
}

func (c countedReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.n.Add(int64(n))
	return n, err
}

func (countedReader) Close() error { return nil }

// Rows may hold their images themselves: those of a few hundred rows together
// need not fit the memory.
func TestInlineImagesAreFoundAFewAtATime(t *testing.T) {
	testdata.Heavy(t)
	image := base64.StdEncoding.EncodeToString(append(bytes.Clone(pixel), make([]byte, 4<<20)...))
	var file bytes.Buffer
	for i := range 20 {
		fmt.Fprintf(&file, `{"prompt":"q%d","i":"data:image/png;base64,%s"}`+"\n", i, image)
	}
	var read atomic.Int64
	var first sync.Once
	before := int64(0) // read before an image was kept
	f := sources.File{Name: "p.jsonl", Key: "k", Size: int64(file.Len()), SHA256: "d", Open: func(context.Context) (io.ReadCloser, error) {
		return countedReader{bytes.NewReader(file.Bytes()), &read}, nil
	}}
	r := parsed(t, "name: d\nprompts: [{path: p.jsonl, fields: {images: i}}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
	im, err := FindImages(t.Context(), r, [][]sources.File{{f}}, func(context.Context, *images.Image) error {
		first.Do(func() { before = read.Load() })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	im.Close()
	if most := int64(imageWaveBytes + 3*len(image)); before == 0 || before > most {
		t.Errorf("%d bytes of rows were held at once, want at most %d of %d", before, most, file.Len())
	}
}
