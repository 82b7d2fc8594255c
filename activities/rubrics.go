package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// rubric is the text of a file that says how is judged; "" where it is not here.
func (s *Sources) rubric(file string) string { return s.texts[file] }

// ReadRubrics reads the files that say how is judged, by their names in the
// recipe. The error is a *[recipe.Error] at the place that names the file.
func ReadRubrics(r *recipe.Recipe, dir string) (map[string]string, error) {
	files, at := r.RubricFiles()
	if len(files) == 0 {
		return nil, nil
	}
	out := map[string]string{}
	for _, file := range files {
		text, err := readRubric(dir, file)
		if err != nil {
			return nil, r.ErrorAt(at[file], err.Error(), "name a text file with what counts, or write it here")
		}
		out[file] = text
	}
	return out, nil
}

func readRubric(dir, file string) (string, error) {
	path := file
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	f, err := os.Open(path)
	if err != nil {
		var fault *os.PathError
		if errors.As(err, &fault) {
			err = fault.Err
		}
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", errors.New("is no file")
	}
	data, err := io.ReadAll(io.LimitReader(f, recipe.MaxRubric+1))
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot be read: %w", err)
	case len(data) > recipe.MaxRubric:
		return "", fmt.Errorf("has more than %d bytes", recipe.MaxRubric)
	case !utf8.Valid(data):
		return "", errors.New("is no UTF-8 text")
	case strings.TrimSpace(string(data)) == "":
		return "", errors.New("is empty")
	}
	return string(data), nil
}

// pinRubrics uploads the rubrics by digest.
func pinRubrics(ctx context.Context, b objstore.Bucket, r *recipe.Recipe, dir string, out *Submission) (map[string]SourceFile, error) {
	texts, err := ReadRubrics(r, dir)
	if err != nil || len(texts) == 0 {
		return nil, err
	}
	pinned := map[string]SourceFile{}
	for file, text := range texts {
		sum := sha256.Sum256([]byte(text))
		digest := hex.EncodeToString(sum[:])
		f := SourceFile{Name: filepath.Base(file), Key: "sources/" + digest + "/" + component(file), SHA256: digest, Size: int64(len(text))}
		if at, err := b.Head(ctx, f.Key); err != nil || at.Size != f.Size {
			if _, err := objstore.PutBytes(ctx, b, f.Key, []byte(text), objstore.PutOptions{ContentType: "text/plain; charset=utf-8"}); err != nil {
				return nil, fmt.Errorf("upload %s: %w", file, err)
			}
			out.Uploaded += f.Size
		}
		pinned[file] = f
	}
	return pinned, nil
}

// readRubrics fetches the rubrics of a build.
func (s *Sources) readRubrics(ctx context.Context, b objstore.Bucket) error {
	texts := map[string]string{}
	for file, f := range s.Rubrics {
		data, err := readPinned(ctx, b, f.Key, f.SHA256, recipe.MaxRubric)
		if err != nil {
			return fmt.Errorf("read the build's rubric %s: %w", file, err)
		}
		texts[file] = string(data)
	}
	s.texts = texts
	return nil
}

// rubricSources are the rubrics as a manifest lists them, so that a version can
// be judged again without the build.
func (s *Sources) rubricSources(r *recipe.Recipe) []catalog.Source {
	var out []catalog.Source
	files, _ := r.RubricFiles()
	for _, file := range files {
		if f, ok := s.Rubrics[file]; ok {
			out = append(out, catalog.Source{Path: file, Key: f.Key, SHA256: f.SHA256, Bytes: f.Size})
		}
	}
	return out
}

// sourcesOf are the rubrics that a version names.
func sourcesOf(ctx context.Context, b objstore.Bucket, r *recipe.Recipe, m *catalog.Manifest) (*Sources, error) {
	s := &Sources{Rubrics: map[string]SourceFile{}}
	files, _ := r.RubricFiles()
	for _, file := range files {
		for _, one := range m.Sources {
			if one.Path == file && one.Bytes <= recipe.MaxRubric && one.Key != "" {
				s.Rubrics[file] = SourceFile{Key: one.Key, SHA256: one.SHA256, Size: one.Bytes}
			}
		}
		if _, ok := s.Rubrics[file]; !ok {
			return nil, fmt.Errorf("its manifest does not name %s, by which its answers were judged", file)
		}
	}
	return s, s.readRubrics(ctx, b)
}
