package activities

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stillhouse-data/stillhouse/datasets/dedup"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// nearOptions are those of the recipe's near_duplicate step; nil where it has
// none.
func nearOptions(r *recipe.Recipe) *dedup.NearOptions {
	for i := range r.PromptFilter {
		s := r.PromptFilter[i].NearDuplicate
		if s == nil {
			continue
		}
		o := dedup.NearOptions{Bands: s.Bands, Rows: s.Rows, Shingle: s.Shingle, AnyValues: s.AnyValues}
		if s.Jaccard != nil {
			o.Jaccard = *s.Jaccard
		}
		o = o.WithDefaults()
		return &o
	}
	return nil
}

// sign writes the signatures of a part, without the prompts that say to the word
// what an earlier one says.
func (w *filterWork) sign(ctx context.Context, plan *filterPlan, unit int) error {
	if unit < 0 || unit >= len(plan.Parts) {
		return fmt.Errorf("filter prompts: no part %d to sign", unit)
	}
	var said orderSet
	if err := w.same(ctx, func(order, _ uint64) error { said.add(order); return nil }); err != nil {
		return err
	}
	return w.produce(ctx, stageSigns, unit, func(out io.Writer) error {
		part, err := dedup.NewPartWriter(out, *nearOptions(w.recipe))
		if err != nil {
			return err
		}
		err = w.compared(ctx, plan, unit, unit+1, w.step(recipe.NearDuplicate), func(p *filterPrompt) error {
			if said.has(uint64(p.Order)) {
				return nil
			}
			return part.Add(dedup.PromptDocument(uint64(p.Order), p.Domain, &p.Prompt))
		})
		if err != nil {
			return err
		}
		return part.Close()
	})
}

// band writes the pairs that one band of all signatures proposes.
func (w *filterWork) band(ctx context.Context, plan *filterPlan, unit int) error {
	dir, err := os.MkdirTemp(w.temp, "filter-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	keys, err := w.units(ctx, stageSigns, len(plan.Parts))
	if err != nil {
		return err
	}
	parts := make([]*dedup.Part, len(keys))
	for i, key := range keys {
		at, err := w.bucket.Head(ctx, key)
		if err != nil {
			return err
		}
		if parts[i], err = dedup.OpenPart(objstore.NewReaderAt(ctx, w.bucket, key, at.Size), at.Size); err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
	}
	w.beat(fmt.Sprintf("filtering prompts: pairs of band %d", unit))
	return w.produce(ctx, stagePairs, unit, func(out io.Writer) error {
		_, err := dedup.Pairs(ctx, *nearOptions(w.recipe), parts, unit, dir, out)
		return err
	})
}

// produce writes the file of a unit and puts it into the store, named by its
// content.
func (w *filterWork) produce(ctx context.Context, stage string, unit int, write func(io.Writer) error) error {
	f, err := os.CreateTemp(w.temp, "filter-*")
	if err != nil {
		return err
	}
	defer func() {
		_ = f.Close()
		_ = os.Remove(f.Name())
	}()
	out := bufio.NewWriterSize(f, 1<<18)
	if err := errors.Join(write(out), out.Flush()); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	digest, _, err := fileDigest(f.Name())
	if err != nil {
		return err
	}
	key := workPrefix(w.dataset, w.buildID, stage) + unitName(unit) + "-" + digest + ".bin"
	if _, err := objstore.CreateFileOrSame(ctx, w.bucket, key, f.Name()); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

// near gives the prompts that say nearly what an earlier one says, by order.
func (w *filterWork) near(ctx context.Context, plan *filterPlan, found func(dedup.Match) error) (err error) {
	o := nearOptions(w.recipe)
	if o == nil {
		return nil
	}
	dir, err := os.MkdirTemp(w.temp, "filter-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// Signatures are looked into here and there: that is done on this disk.
	var files []*os.File
	defer func() {
		for _, f := range files {
			err = errors.Join(err, f.Close())
		}
	}()
	fetch := func(stage string, count int) ([]*os.File, error) {
		keys, err := w.units(ctx, stage, count)
		if err != nil {
			return nil, err
		}
		from := len(files)
		for i, key := range keys {
			f, err := w.fetch(ctx, key, filepath.Join(dir, fmt.Sprintf("%s-%d", stage, i)))
			if err != nil {
				return nil, err
			}
			files = append(files, f)
		}
		return files[from:], nil
	}
	signs, err := fetch(stageSigns, len(plan.Parts))
	if err != nil {
		return err
	}
	parts := make([]*dedup.Part, len(signs))
	for i, f := range signs {
		info, err := f.Stat()
		if err != nil {
			return err
		}
		if parts[i], err = dedup.OpenPart(f, info.Size()); err != nil {
			return err
		}
	}
	proposed, err := fetch(stagePairs, o.Bands)
	if err != nil {
		return err
	}
	pairs := make([]io.Reader, len(proposed))
	for i, f := range proposed {
		pairs[i] = f
	}
	w.beat("filtering prompts: comparing")
	_, err = dedup.Verify(ctx, *o, parts, pairs, found)
	return err
}

// fetch copies an object to this disk and opens it.
func (w *filterWork) fetch(ctx context.Context, key, path string) (*os.File, error) {
	if err := objstore.Download(ctx, w.bucket, key, path, 0o600); err != nil {
		return nil, err
	}
	return os.Open(path)
}
