package activities

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/images"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

const (
	// imageWave is how many rows' images are found before the next rows are read,
	imageWave = 256
	// or so many bytes of them that stand in the rows themselves,
	imageWaveBytes = 64 << 20
	// and imagesAtOnce how many of them at the same time.
	imagesAtOnce = 16
	// maxImageIndex bounds the list of a build's images: about two million.
	maxImageIndex = 512 << 20
	// maxImageRef bounds a path or an address: what servers take of one.
	maxImageRef = 8 << 10
)

// An Images is what the image references of a recipe's prompt files mean: found
// when a build is submitted, and read by its workers. It is safe for concurrent
// use.
type Images struct {
	put     func(context.Context, *images.Image) error // nil: nothing is kept
	fetcher *images.Fetcher

	mu      sync.Mutex
	folders map[string]*images.Folder
	entries map[imageKey]*imageEntry
	closed  bool // of a worker: what is not known is not looked for
}

// An imageKey is the hash of a reference and of the file that it stands in:
// paths are relative to that.
type imageKey [16]byte

// An imageEntry is what one reference means: an image, or why it means none.
type imageEntry struct {
	File      string `json:"file,omitempty"` // digest of the prompt file, for a path
	Ref       string `json:"ref"`
	Digest    string `json:"digest,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
	Fault     string `json:"fault,omitempty"`
}

// FindImages finds the images of every prompt that r asks about, and keeps
// their bytes with put, if that is not nil. An image that a row names in vain
// is the row's fault and no error. Close what it returns; it is nil where the
// recipe names no field of images.
func FindImages(ctx context.Context, r *recipe.Recipe, prompts [][]sources.File, put func(context.Context, *images.Image) error) (*Images, error) {
	return findImages(ctx, r, prompts, put, nil)
}

// findImages is FindImages that asks no address for which mayAsk, where it is
// given, has an error: that of a row's fault.
func findImages(ctx context.Context, r *recipe.Recipe, prompts [][]sources.File, put func(context.Context, *images.Image) error, mayAsk func(address string) error) (*Images, error) {
	if !slices.ContainsFunc(r.Prompts, func(p recipe.PromptSource) bool { return p.Fields.Images != "" }) {
		return nil, nil
	}
	found := &Images{put: put, fetcher: images.NewFetcher(mayAsk), folders: map[string]*images.Folder{}, entries: map[imageKey]*imageEntry{}}
	for i := range r.Prompts {
		if err := found.source(ctx, &r.Prompts[i], prompts[i]); err != nil {
			found.Close()
			return nil, fmt.Errorf("prompts[%d].fields.images: %w", i, err)
		}
	}
	return found, nil
}

// Close closes what was opened to find images.
func (im *Images) Close() {
	if im == nil {
		return
	}
	im.mu.Lock()
	defer im.mu.Unlock()
	if im.fetcher != nil {
		im.fetcher.Close()
	}
	for _, f := range im.folders {
		_ = f.Close()
	}
	im.folders = nil
}

// An imageRow is a row whose images are being found.
type imageRow struct {
	file sources.File
	refs []sources.ImageRef
	bad  bool
}

// source finds the images of one source's rows, up to its limit.
func (im *Images) source(ctx context.Context, src *recipe.PromptSource, files []sources.File) error {
	if src.Fields.Images == "" {
		return nil
	}
	mapper, err := sources.NewMapper(src)
	if err != nil {
		return err
	}
	left := src.Limit
	var wave []imageRow
	held := 0 // bytes of the wave's references
	full := func() bool {
		return len(wave) == imageWave || held >= imageWaveBytes || src.Limit > 0 && len(wave) == left
	}
	end := func() error { // of a wave
		good, err := im.wave(ctx, wave)
		left -= good
		clear(wave)
		wave, held = wave[:0], 0
		return err
	}
	for _, f := range files {
		probe := mapper.With(ctx, f, noImages{})
		for row, err := range sources.Rows(ctx, f, ReadOptions()) {
			var rowError *sources.RowError
			var refs []sources.ImageRef
			if err == nil {
				refs, err = mapper.ImageRefs(row)
			}
			if err == nil {
				_, err = probe.Items(row)
			}
			if errors.As(err, &rowError) {
				continue // the plan tells of it
			}
			if err != nil {
				return err
			}
			for i := range refs {
				held += len(refs[i].Text) + len(refs[i].Data)
			}
			if wave = append(wave, imageRow{file: f, refs: refs}); full() {
				if err := end(); err != nil {
					return err
				}
			}
			if src.Limit > 0 && left <= 0 {
				return nil
			}
		}
	}
	return end()
}

// noImages stands for images while a row is looked at for other faults.
type noImages struct{}

func (noImages) Image(context.Context, sources.File, sources.ImageRef) (chat.Image, int64, error) {
	return chat.Image{}, 0, nil
}

// wave finds the images of some rows at once, and counts the rows that have all
// of theirs.
func (im *Images) wave(ctx context.Context, rows []imageRow) (good int, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var wg sync.WaitGroup
	slots := make(chan struct{}, imagesAtOnce)
	var mu sync.Mutex
	for i := range rows {
		for _, ref := range rows[i].refs {
			slots <- struct{}{}
			if ctx.Err() != nil {
				<-slots
				break
			}
			wg.Go(func() {
				defer func() { <-slots }()
				_, _, err := im.Image(ctx, rows[i].file, ref)
				var known *images.Fault
				switch {
				case errors.As(err, &known):
					mu.Lock()
					rows[i].bad = true
					mu.Unlock()
				case err != nil:
					stop(err)
				}
			})
		}
	}
	wg.Wait()
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	for i := range rows {
		if !rows[i].bad {
			good++
		}
	}
	return good, nil
}

// Image is what a reference in a file means.
func (im *Images) Image(ctx context.Context, f sources.File, ref sources.ImageRef) (chat.Image, int64, error) {
	if ref.Data != nil || images.IsDataURI(ref.Text) {
		i, err := inline(ref)
		if err != nil {
			return chat.Image{}, 0, err
		}
		return imageOf(i), int64(len(i.Data)), im.keep(ctx, i)
	}
	if len(ref.Text) > maxImageRef {
		return chat.Image{}, 0, images.NewFault(ref.Text, "is longer than any path or address that is read")
	}
	key, e := keyOfImage(f, ref.Text)
	im.mu.Lock()
	known := im.entries[key]
	im.mu.Unlock()
	if known == nil && im.closed {
		return chat.Image{}, 0, &images.Fault{Ref: "of this row", Reason: "it was not there when the build was started; start the build again"}
	}
	if known == nil {
		i, err := im.find(ctx, f, ref.Text)
		var fault *images.Fault
		switch {
		case errors.As(err, &fault):
			e.Fault = fault.Error()
		case err != nil:
			return chat.Image{}, 0, err
		default:
			if err := im.keep(ctx, i); err != nil {
				return chat.Image{}, 0, err
			}
			e.Digest, e.MediaType, e.Bytes = i.Digest, i.MediaType, int64(len(i.Data))
		}
		im.mu.Lock()
		if known = im.entries[key]; known == nil { // the first of two counts
			im.entries[key], known = &e, &e
		}
		im.mu.Unlock()
	}
	if known.Fault != "" {
		return chat.Image{}, 0, &storedFault{known.Fault}
	}
	return chat.Image{Digest: known.Digest, MediaType: known.MediaType, Key: imageStoreKey(known.Digest, known.MediaType)}, known.Bytes, nil
}

// A storedFault is a fault as the index has it.
type storedFault struct{ text string }

func (s *storedFault) Error() string { return s.text }

// As makes it a fault of the row.
func (s *storedFault) As(target any) bool {
	if to, ok := target.(**images.Fault); ok {
		*to = &images.Fault{Reason: s.text}
		return true
	}
	return false
}

func inline(ref sources.ImageRef) (*images.Image, error) {
	if ref.Data != nil {
		return images.Of("in the row", ref.Data)
	}
	return images.DataURI(ref.Text)
}

func imageOf(i *images.Image) chat.Image {
	return chat.Image{Digest: i.Digest, MediaType: i.MediaType, Key: imageStoreKey(i.Digest, i.MediaType)}
}

// imageStoreKey is where an image's bytes are. No name of the data is in it.
func imageStoreKey(digest, mediaType string) string {
	return "sources/" + digest + "/image" + images.Extension(mediaType)
}

func keyOfImage(f sources.File, ref string) (imageKey, imageEntry) {
	e := imageEntry{Ref: ref}
	if !images.IsAddress(ref) {
		if e.File = f.SHA256; e.File == "" {
			e.File = f.Key
		}
	}
	sum := sha256.Sum256([]byte(e.File + "\x00" + e.Ref))
	return imageKey(sum[:16]), e
}

func (im *Images) keep(ctx context.Context, i *images.Image) error {
	if im.put == nil {
		return nil
	}
	return im.put(ctx, i)
}

func (im *Images) find(ctx context.Context, f sources.File, ref string) (*images.Image, error) {
	if images.IsAddress(ref) {
		return im.fetcher.Fetch(ctx, ref)
	}
	if f.Path == "" {
		return nil, images.NewFault(ref, "is a path in a prompt file that lies in a store; name images there by https address or data URI")
	}
	folder, err := im.folder(filepath.Dir(f.Path))
	if err != nil {
		return nil, err
	}
	return folder.Read(ref)
}

func (im *Images) folder(dir string) (*images.Folder, error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	if f := im.folders[dir]; f != nil {
		return f, nil
	}
	f, err := images.OpenFolder(dir)
	if err == nil {
		im.folders[dir] = f
	}
	return f, err
}

// encode writes the index as JSON lines, in one order whatever was found first.
func (im *Images) encode() ([]byte, error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	list := make([]*imageEntry, 0, len(im.entries))
	for _, e := range im.entries {
		list = append(list, e)
	}
	slices.SortFunc(list, func(a, b *imageEntry) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Ref, b.Ref)) })
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	for _, e := range list {
		if err := enc.Encode(e); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// decodeImages reads an index.
func decodeImages(text []byte) (*Images, error) {
	im := &Images{entries: map[imageKey]*imageEntry{}, closed: true}
	err := im.add(text)
	for _, e := range im.entries {
		e.File, e.Ref = "", "" // the key says it
	}
	return im, err
}

// add takes the entries of an index in, over those that are there.
func (im *Images) add(text []byte) error {
	im.mu.Lock()
	defer im.mu.Unlock()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, sources.MaxLine)
	for lines.Scan() {
		var e imageEntry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return err
		}
		sum := sha256.Sum256([]byte(e.File + "\x00" + e.Ref))
		im.entries[imageKey(sum[:16])] = &e
	}
	return lines.Err()
}

// pinImages finds the images that a recipe's prompts name, uploads them, and
// then the index of what each reference means; nil where there are none.
func pinImages(ctx context.Context, b objstore.Bucket, r *recipe.Recipe, prompts [][]sources.File, out *Submission) (*SourceFile, error) {
	found, err := FindImages(ctx, r, prompts, keepImage(b, out))
	if err != nil || found == nil {
		return nil, err
	}
	defer found.Close()
	text, err := found.encode()
	if err != nil {
		return nil, err
	}
	return pinImageIndex(ctx, b, text)
}

// keepImage uploads an image that is not there yet.
func keepImage(b objstore.Bucket, out *Submission) func(context.Context, *images.Image) error {
	var mu sync.Mutex
	return func(ctx context.Context, i *images.Image) error {
		key := imageStoreKey(i.Digest, i.MediaType)
		if at, err := b.Head(ctx, key); err == nil && at.Size == int64(len(i.Data)) {
			return nil
		}
		if _, err := objstore.PutBytes(ctx, b, key, i.Data, objstore.PutOptions{ContentType: i.MediaType}); err != nil {
			return fmt.Errorf("upload an image: %w", err)
		}
		mu.Lock()
		defer mu.Unlock()
		out.Uploaded += int64(len(i.Data))
		return nil
	}
}

// pinImageIndex uploads an index by its digest.
func pinImageIndex(ctx context.Context, b objstore.Bucket, text []byte) (*SourceFile, error) {
	if len(text) > maxImageIndex {
		return nil, fmt.Errorf("the prompts name more images than fit an index of %d MiB; split the recipe", maxImageIndex>>20)
	}
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	p := &SourceFile{Name: "images.jsonl", Key: "sources/" + digest + "/images.jsonl", SHA256: digest, Size: int64(len(text))}
	if _, err := objstore.PutBytes(ctx, b, p.Key, text, objstore.PutOptions{ContentType: "application/jsonl"}); err != nil {
		return nil, fmt.Errorf("upload the list of images: %w", err)
	}
	return p, nil
}

// readOptions are how a build's prompt files are read, with their images.
func (a *Activities) readOptions(ctx context.Context, rt *runtime) (sources.Options, error) {
	o := ReadOptions()
	f := rt.sources.Images
	if f == nil {
		return o, nil
	}
	text, err := readPinned(ctx, a.Bucket, f.Key, f.SHA256, maxImageIndex)
	if err != nil {
		return o, fmt.Errorf("read the build's list of images: %w", err)
	}
	known, err := decodeImages(text)
	if err != nil {
		return o, fmt.Errorf("read the build's list of images: %w", err)
	}
	o.Images = known
	return o, nil
}

// image gives a teacher's client the bytes of a prompt's image.
func (a *Activities) image(ctx context.Context, im chat.Image) ([]byte, error) {
	data, _, err := objstore.ReadAll(ctx, a.Bucket, im.Key, images.MaxBytes)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != im.Digest {
		return nil, fmt.Errorf("%s in the store is not the image that was submitted; start the build again", im.Key)
	}
	return data, nil
}
