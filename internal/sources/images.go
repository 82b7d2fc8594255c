package sources

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/images"
)

const (
	// maxImages bounds the images of one prompt,
	maxImages = 64
	// and maxImageBytes what they weigh together: all of them go into one
	// request, as base64.
	maxImageBytes = 64 << 20
)

// An ImageRef is how a row names an image: by text (a path, a data URI or an
// https address) or by the bytes themselves, as image columns of Parquet files
// have them.
type ImageRef struct {
	Text string
	Data []byte // nil: Text counts
}

// An ImageSource knows what the references of prompt files mean.
type ImageSource interface {
	// Image is what a reference in a file means, and the size of its bytes. The
	// error is an *[images.Fault] where the row is at fault.
	Image(ctx context.Context, f File, ref ImageRef) (chat.Image, int64, error)
}

// With gives a mapper that finds the images of the rows of one file. Without
// it, a row that names images is refused. The mapper itself stays as it is.
func (m *Mapper) With(ctx context.Context, f File, source ImageSource) *Mapper {
	if source == nil || m.images.name == "" {
		return m
	}
	with := *m
	with.image = func(ref ImageRef) (chat.Image, int64, error) { return source.Image(ctx, f, ref) }
	return &with
}

// HasImages tells whether the source names a field of images.
func (m *Mapper) HasImages() bool { return m.images.name != "" }

// ImageRefs are the images that a row names, in its order. The error is a
// *[RowError].
func (m *Mapper) ImageRefs(row Row) ([]ImageRef, error) {
	refs, err := m.imageRefs(row.Values)
	if err != nil {
		return nil, &RowError{Where: row.Where, Reason: err.Error()}
	}
	return refs, nil
}

func (m *Mapper) imageRefs(values map[string]any) ([]ImageRef, error) {
	v, ok := m.images.find(values)
	if !ok {
		return nil, nil
	}
	if s, isText := v.(string); isText {
		s = strings.TrimSpace(s)
		if s == "" {
			return nil, nil
		}
		if s[0] == '[' || s[0] == '{' { // of a CSV file
			parsed, err := parseJSON(s)
			if err != nil {
				return nil, fmt.Errorf("field %s is no JSON: %w", m.images.name, err)
			}
			v = parsed
		}
	}
	list, isList := v.([]any)
	if !isList {
		list = []any{v}
	}
	if len(list) > maxImages {
		return nil, fmt.Errorf("field %s holds %d images; a prompt may have %d", m.images.name, len(list), maxImages)
	}
	refs := make([]ImageRef, len(list))
	for i := range list {
		var err error
		if refs[i], err = imageRef(list[i]); err != nil {
			return nil, fmt.Errorf("field %s: image %d %w", m.images.name, i+1, err)
		}
	}
	return refs, nil
}

// imageRef reads one reference: a text, bytes, or an object as data sets and
// requests have them.
func imageRef(v any) (ImageRef, error) {
	switch t := v.(type) {
	case string:
		if t = strings.TrimSpace(t); t == "" {
			return ImageRef{}, errors.New("is an empty text")
		}
		return ImageRef{Text: t}, nil
	case []byte:
		return ImageRef{Data: t}, nil
	case map[string]any:
		if data, ok := t["bytes"].([]byte); ok {
			return ImageRef{Data: data}, nil
		}
		for _, key := range []string{"image_url", "url", "path", "image"} {
			switch inner := t[key].(type) {
			case string:
				return imageRef(inner)
			case map[string]any:
				if url, ok := inner["url"].(string); ok {
					return imageRef(url)
				}
			}
		}
		return ImageRef{}, errors.New("is an object without bytes, path or url")
	}
	return ImageRef{}, fmt.Errorf("is %s, want a path, a data URI or an https address", kindOf(v))
}

// imagesOf finds the images of a row.
func (m *Mapper) imagesOf(values map[string]any) ([]chat.Image, error) {
	refs, err := m.imageRefs(values)
	if err != nil || len(refs) == 0 {
		return nil, err
	}
	if m.image == nil {
		return nil, errors.New("has images, which are not read here")
	}
	out := make([]chat.Image, len(refs))
	var bytes int64
	for i := range refs {
		var n int64
		if out[i], n, err = m.image(refs[i]); err != nil {
			return nil, imageError(err)
		}
		if bytes += n; bytes > maxImageBytes {
			return nil, fmt.Errorf("its images are larger than %d MiB together; make them smaller", maxImageBytes>>20)
		}
	}
	return out, nil
}

// A wayError is a failure on the way to an image, which is not the row's fault.
type wayError struct{ err error }

func (w *wayError) Error() string { return w.err.Error() }

// imageError tells a row's fault from one of the way to its images.
func imageError(err error) error {
	var known *images.Fault
	if errors.As(err, &known) {
		return err
	}
	return &wayError{err}
}
