package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// A SourceFile is a prompt or answer file as a build reads it: pinned by digest
// where it was uploaded, by ETag and size where it lies in a store already.
type SourceFile struct {
	Name   string `json:"name"`
	Key    string `json:"key,omitempty"` // in our store
	URL    string `json:"url,omitempty"` // s3://…, outside our prefix
	ETag   string `json:"etag,omitempty"`
	SHA256 string `json:"sha256,omitempty"`
	Size   int64  `json:"size"`
}

// Sources lists every file that a recipe names, in the order that it is read.
type Sources struct {
	Prompts  [][]SourceFile          `json:"prompts"`            // by index of the recipe's prompts
	Recorded map[string][]SourceFile `json:"recorded,omitempty"` // by id of the recorded teacher
	// Rubrics are the files that say how is judged, by their names in the recipe.
	Rubrics map[string]SourceFile `json:"rubrics,omitempty"`
	texts   map[string]string     // of them
	// Images is the list of what the image references of the prompts mean.
	Images *SourceFile `json:"images,omitempty"`
	// Evals are the evaluation sets, by index of the recipe's prompt_filter.
	Evals [][]EvalFile `json:"evals,omitempty"`
}

// A Submission is a recipe and its files in the store, by digest.
type Submission struct {
	RecipeDigest  string
	SourcesDigest string
	Uploaded      int64 // bytes that were not there yet
}

// FindSources lists the files that r names. Where some cannot be used, the
// error is a [recipe.Error] at the place of the path.
func FindSources(ctx context.Context, r *recipe.Recipe, f sources.Finder) (prompts [][]sources.File, recorded map[string][]sources.File, err error) {
	for i := range r.Prompts {
		files, err := f.Find(ctx, r.Prompts[i].Path)
		if err != nil {
			return nil, nil, atPath(r, fmt.Sprintf("prompts[%d].path", i), err)
		}
		prompts = append(prompts, files)
	}
	recorded = map[string][]sources.File{}
	for i := range r.Teachers {
		t := &r.Teachers[i]
		if t.API != recipe.APIRecorded {
			continue
		}
		files, err := f.Find(ctx, t.Path)
		if err != nil {
			return nil, nil, atPath(r, fmt.Sprintf("teachers[%d].path", i), err)
		}
		recorded[t.ID] = files
	}
	return prompts, recorded, nil
}

// atPath puts a fault of files at the place that names them. A store that
// cannot be reached is no fault of the recipe.
func atPath(r *recipe.Recipe, path string, err error) error {
	var file *sources.FileError
	var source *SourceError
	if errors.As(err, &file) || errors.As(err, &source) {
		return r.ErrorAt(path, err.Error(), "")
	}
	return fmt.Errorf("%s: %w", path, err)
}

// Submit uploads the recipe and every local file that it names, by digest, so
// that workers read the store only. What is there already is not sent again.
func Submit(ctx context.Context, b objstore.Bucket, r *recipe.Recipe, f sources.Finder) (*Submission, error) {
	prompts, recorded, err := FindSources(ctx, r, f)
	if err != nil {
		return nil, err
	}
	out := &Submission{RecipeDigest: r.Digest()}
	if _, err := objstore.PutBytes(ctx, b, recipeKey(out.RecipeDigest), r.Raw, objstore.PutOptions{ContentType: "application/yaml"}); err != nil {
		return nil, fmt.Errorf("upload the recipe: %w", err)
	}
	list := Sources{Recorded: map[string][]SourceFile{}}
	for _, files := range prompts {
		pinned, err := pinAll(ctx, b, files, out)
		if err != nil {
			return nil, err
		}
		list.Prompts = append(list.Prompts, pinned)
	}
	for id, files := range recorded {
		if list.Recorded[id], err = pinAll(ctx, b, files, out); err != nil {
			return nil, err
		}
	}
	if list.Images, err = pinImages(ctx, b, r, prompts, out); err != nil {
		return nil, err
	}
	if list.Rubrics, err = pinRubrics(ctx, b, r, f.Dir, out); err != nil {
		return nil, err
	}
	if list.Evals, err = pinEvals(ctx, b, r, f, out); err != nil {
		return nil, err
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(text)
	out.SourcesDigest = hex.EncodeToString(sum[:])
	if _, err := objstore.PutBytes(ctx, b, sourcesKey(out.SourcesDigest), text, objstore.PutOptions{ContentType: "application/json"}); err != nil {
		return nil, fmt.Errorf("upload the list of sources: %w", err)
	}
	return out, nil
}

func pinAll(ctx context.Context, b objstore.Bucket, files []sources.File, out *Submission) ([]SourceFile, error) {
	pinned := make([]SourceFile, 0, len(files))
	for _, f := range files {
		p, sent, err := pin(ctx, b, f)
		if err != nil {
			return nil, fmt.Errorf("upload %s: %w", f.Name, err)
		}
		out.Uploaded += sent
		pinned = append(pinned, p)
	}
	return pinned, nil
}

// pin uploads a local file under its digest; a file in a store is named as it is.
func pin(ctx context.Context, b objstore.Bucket, f sources.File) (SourceFile, int64, error) {
	if f.Path == "" {
		return SourceFile{Name: f.Name, URL: f.Key, SHA256: f.SHA256, Size: f.Size}, 0, nil
	}
	file, err := os.Open(f.Path)
	if err != nil {
		return SourceFile{}, 0, err
	}
	defer file.Close()
	before, err := file.Stat()
	if err != nil {
		return SourceFile{}, 0, err
	}
	digest, size, err := digestOf(file)
	if err != nil {
		return SourceFile{}, 0, err
	}
	p := SourceFile{Name: f.Name, Key: "sources/" + digest + "/" + component(f.Name), SHA256: digest, Size: size}
	if f.SHA256 != "" && f.SHA256 != digest {
		return SourceFile{}, 0, errChanging
	}
	if at, err := b.Head(ctx, p.Key); err == nil && at.Size == size {
		return p, 0, nil
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return SourceFile{}, 0, err
	}
	if _, err := b.Put(ctx, p.Key, file, size, objstore.PutOptions{}); err != nil {
		return SourceFile{}, 0, err
	}
	if after, err := file.Stat(); err != nil || after.Size() != size || !after.ModTime().Equal(before.ModTime()) {
		// What is there now may not be what its key says.
		return SourceFile{}, 0, errors.Join(errChanging, b.Delete(ctx, p.Key))
	}
	return p, size, nil
}

// errChanging is a file whose digest would not name its content.
var errChanging = errors.New("it changed while it was read; start again when nobody writes to it")

func fileDigest(path string) (digest string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	return digestOf(f)
}

func digestOf(r io.Reader) (digest string, size int64, err error) {
	h := sha256.New()
	if size, err = io.Copy(h, r); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
}

// RecipeKey is where a pinned recipe is kept.
func RecipeKey(digest string) string { return recipeKey(digest) }

func recipeKey(digest string) string  { return "recipes/" + digest + ".yaml" }
func sourcesKey(digest string) string { return "sources/" + digest + "/sources.json" }
