package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// GrowsElsewhere tells whether a recipe reads files that lie in other stores, by
// s3:// URL, where there may be more of them another day.
func GrowsElsewhere(r *recipe.Recipe) bool {
	for i := range r.Prompts {
		if isRemote(r.Prompts[i].Path) {
			return true
		}
	}
	for i := range r.Teachers {
		if isRemote(r.Teachers[i].Path) {
			return true
		}
	}
	return false
}

func isRemote(path string) bool { return strings.HasPrefix(path, "s3://") }

// RepinSources lists a recipe's files in other stores anew, and gives the digest
// of the list; what was uploaded when the recipe was submitted stays as it is.
// Where nothing changed there, the digest is the one that it was given.
func (a *Activities) RepinSources(ctx context.Context, in wire.RepinInput) (string, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	digest, err := a.repinSources(ctx, in)
	return digest, final(err)
}

func (a *Activities) repinSources(ctx context.Context, in wire.RepinInput) (string, error) {
	raw, err := readPinned(ctx, a.Bucket, recipeKey(in.RecipeDigest), in.RecipeDigest, maxRecipe)
	if err != nil {
		return "", fmt.Errorf("read the schedule's recipe: %w", err)
	}
	r, err := recipe.Parse(in.Dataset+".yaml", raw)
	if err != nil {
		return "", invalidRecipe("%v", err)
	}
	text, err := readPinned(ctx, a.Bucket, sourcesKey(in.SourcesDigest), in.SourcesDigest, maxSources)
	if err != nil {
		return "", fmt.Errorf("read the schedule's list of sources: %w", err)
	}
	var list Sources
	if err := json.Unmarshal(text, &list); err != nil {
		return "", fmt.Errorf("read the schedule's list of sources: %w", err)
	}
	if len(list.Prompts) != len(r.Prompts) {
		return "", badSource("the schedule's list of sources is not of its recipe; create the schedule again")
	}
	before := list
	before.Prompts = slices.Clone(list.Prompts)
	finder := sources.Finder{Remote: a.Remote}
	find := func(path string) ([]SourceFile, error) {
		files, err := finder.Find(ctx, path)
		if err != nil {
			return nil, err
		}
		return pinAll(ctx, a.Bucket, files, &Submission{})
	}
	for i := range r.Prompts {
		if path := r.Prompts[i].Path; isRemote(path) {
			if list.Prompts[i], err = find(path); err != nil {
				return "", r.ErrorAt(fmt.Sprintf("prompts[%d].path", i), err.Error(), "")
			}
		}
	}
	for i := range r.Teachers {
		if t := &r.Teachers[i]; isRemote(t.Path) {
			if list.Recorded[t.ID], err = find(t.Path); err != nil {
				return "", r.ErrorAt(fmt.Sprintf("teachers[%d].path", i), err.Error(), "")
			}
		}
	}
	if err := a.repinImages(ctx, r, &before, &list); err != nil {
		return "", err
	}
	text, err = json.Marshal(list)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	digest := hex.EncodeToString(sum[:])
	if _, err := objstore.CreateOrSame(ctx, a.Bucket, sourcesKey(digest), text); err != nil {
		return "", fmt.Errorf("write the list of sources: %w", err)
	}
	return digest, nil
}

// repinImages finds the images that files name which were not there before, and
// adds them to those that are known. What was known stays as it was found.
func (a *Activities) repinImages(ctx context.Context, r *recipe.Recipe, before, list *Sources) error {
	fresh, any := make([][]sources.File, len(list.Prompts)), false
	for i := range list.Prompts {
		var added []SourceFile
		for _, f := range list.Prompts[i] {
			if f.URL != "" && !slices.Contains(before.Prompts[i], f) {
				added = append(added, f)
			}
		}
		var err error
		if fresh[i], err = a.openSources(ctx, added); err != nil {
			return err
		}
		any = any || len(added) > 0
	}
	if !any {
		return nil
	}
	var mayAsk func(address string) error
	if a.MayAsk != nil {
		mayAsk = func(address string) error { return a.MayAsk(address, "") }
	}
	found, err := findImages(ctx, r, fresh, keepImage(a.Bucket, &Submission{}), mayAsk)
	if err != nil || found == nil {
		return err
	}
	defer found.Close()
	if list.Images != nil {
		text, err := readPinned(ctx, a.Bucket, list.Images.Key, list.Images.SHA256, maxImageIndex)
		if err != nil {
			return fmt.Errorf("read the schedule's list of images: %w", err)
		}
		if err := found.add(text); err != nil {
			return fmt.Errorf("read the schedule's list of images: %w", err)
		}
	}
	text, err := found.encode()
	if err != nil {
		return err
	}
	list.Images, err = pinImageIndex(ctx, a.Bucket, text)
	return err
}
