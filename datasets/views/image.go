package views

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"sync"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// maxImageBytes bounds one image of a row; what is larger was never asked.
const maxImageBytes = 64 << 20

// imagesKept bounds the bytes of images that are kept for the next row that
// shows one of them.
const imagesKept = 64 << 20

// An Image of a row: its bytes in Parquet, and in JSON Lines the path of a file
// beside, from the folder of the export.
type Image struct {
	Bytes []byte `json:"bytes" parquet:"bytes,optional"`
	Path  string `json:"path" parquet:"path"`

	source datasets.Image
}

// MarshalJSON gives the path alone.
func (i Image) MarshalJSON() ([]byte, error) { return json.Marshal(i.Path) }

// HuggingFaceFeature is the type that the datasets library is told of.
func (Image) HuggingFaceFeature() string { return "Image" }

// An ImageColumn is the column of a row's images. A row without any has an empty list.
type ImageColumn struct {
	Images []Image `json:"images" parquet:"images,list"`
}

func (i *ImageColumn) pictures() []Image { return i.Images }

// extensions are those of the media types that prompts may have.
var extensions = map[string]string{"image/png": ".png", "image/jpeg": ".jpg", "image/webp": ".webp", "image/gif": ".gif"}

// imagesOf are the images of a row, without their bytes.
func imagesOf(images []datasets.Image) ImageColumn {
	out := ImageColumn{Images: make([]Image, len(images))}
	for i, im := range images {
		out.Images[i] = Image{Path: imagePath(im), source: im}
	}
	return out
}

// imagePath is where an image stands beside JSON Lines. Names from data never
// become paths: a digest that is none has been refused before anything is
// written there.
func imagePath(im datasets.Image) string {
	return "images/" + im.Digest + extensions[im.MediaType]
}

// noImages refuses the images of a row for a view or option without any.
func noImages(images []datasets.Image, opt *Options) error {
	if len(images) == 0 || opt.Images == ImagesColumn {
		return nil
	}
	return unfit("it has %s; --images column takes them", plural(len(images), "image"))
}

// oneUser refuses images of a row whose place the trainer would not know: it
// puts them into the first turn of the user, and teachers saw them in the last
// one of the prompt.
func oneUser(images []datasets.Image, messages []chat.Message) error {
	if len(images) == 0 {
		return nil
	}
	n := 0
	for i := range messages {
		if messages[i].Role == chat.RoleUser {
			n++
		}
	}
	if n != 1 {
		return unfit("it has images and %s of the user, and the trainer shows them in the first", plural(n, "turn"))
	}
	return nil
}

// placeholders puts the places of a row's images into the turn that teachers
// saw them in: the last one of the user before the answer. It refuses a text
// that has a place of its own.
func placeholders(images []datasets.Image, messages []chat.Message) error {
	if len(images) == 0 {
		return nil
	}
	last := -1
	for i := range messages {
		if strings.Contains(text(&messages[i]), imagePlaceholder) {
			return unfit("it has images, and its text holds %s, which the trainer would take for the place of one", imagePlaceholder)
		}
		if messages[i].Role == chat.RoleUser {
			last = i
		}
	}
	if last < 0 {
		return unfit("it has images and no turn of the user to show them in")
	}
	with := strings.Repeat(imagePlaceholder, len(images)) + "\n" + text(&messages[last])
	messages[last].Content = &with
	return nil
}

// A gallery reads the images of rows, each held to its digest.
type gallery struct {
	mu   sync.Mutex // parts of a stream share it
	kept map[string][]byte
	size int
	// named are the images that JSON Lines name, by path: they are written
	// beside.
	named map[string]datasets.Image
	order []string // of their paths, as they were named
}

// fill loads the images of a row, or notes their names where the form is JSON
// Lines.
func (g *gallery) fill(ctx context.Context, b objstore.Bucket, images []Image, form string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range images {
		if form == JSONL {
			g.name(images[i].Path, images[i].source)
			continue
		}
		var err error
		if images[i].Bytes, err = g.load(ctx, b, images[i].source); err != nil {
			return err
		}
	}
	return nil
}

func (g *gallery) load(ctx context.Context, b objstore.Bucket, im datasets.Image) ([]byte, error) {
	if data, ok := g.kept[im.Digest]; ok {
		return data, nil
	}
	data, _, err := objstore.ReadAll(ctx, b, im.Key, maxImageBytes)
	if err != nil {
		return nil, fmt.Errorf("image %s: %w", im.Key, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != im.Digest {
		return nil, fmt.Errorf("%w: image %s has other bytes than its digest %s says", catalog.ErrDamaged, im.Key, im.Digest)
	}
	if g.size+len(data) > imagesKept {
		clear(g.kept)
		g.size = 0
	}
	g.kept[im.Digest] = data
	g.size += len(data)
	return data, nil
}

// since tells, when it is called, which images were named after this.
func (g *gallery) since() func() map[string]datasets.Image {
	before := len(g.order)
	return func() map[string]datasets.Image {
		out := map[string]datasets.Image{}
		for _, name := range g.order[before:] {
			out[name] = g.named[name]
		}
		return out
	}
}

// names notes images that lines of an earlier run name.
func (g *gallery) names(images map[string]datasets.Image) {
	for _, name := range sortedKeys(images) {
		g.name(name, images[name])
	}
}

func (g *gallery) name(path string, im datasets.Image) {
	if _, ok := g.named[path]; !ok {
		g.named[path] = im
		g.order = append(g.order, path)
	}
}

// writeImages writes the images that JSON Lines name, as files of the export.
func writeImages(ctx context.Context, b objstore.Bucket, s sink, p *plan, about *about) error {
	for _, name := range sortedKeys(p.gallery.named) {
		im := p.gallery.named[name]
		data, err := p.gallery.load(ctx, b, im)
		if err != nil {
			return err
		}
		file, err := s.write(ctx, path.Clean(name), func(w io.Writer) (int64, error) {
			_, err := w.Write(data)
			return 0, err
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		about.Files = append(about.Files, file)
	}
	return nil
}
