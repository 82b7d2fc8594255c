package activities

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// choose evaluates the choice over one table of the version that was named.
func (w *purging) choose(ctx context.Context, m *catalog.Manifest) error {
	w.note("choosing rows of table %s", w.choice.Table)
	chosen := map[string]bool{}
	var err error
	switch w.choice.Table {
	case datasets.TableTrain, datasets.TableTest:
		err = chooseIn(ctx, w, m, chosen, func(r *datasets.Row) string { return r.SampleID })
	case datasets.TableCandidates:
		err = chooseIn(ctx, w, m, chosen, func(r *datasets.Candidate) string { return r.SampleID })
	case datasets.TablePrompts:
		err = chooseIn(ctx, w, m, chosen, func(r *datasets.PromptRow) string { return r.PromptID })
	default:
		err = fmt.Errorf("%w table %q: rows are chosen in train, test, candidates or prompts", catalog.ErrInvalid, w.choice.Table)
	}
	if err != nil {
		return err
	}
	if len(chosen) > maxPurgeIDs {
		return fmt.Errorf("%w choice: %d rows, at most %d in one purge; narrow the condition", catalog.ErrInvalid, len(chosen), maxPurgeIDs)
	}
	if w.choice.Scope() == catalog.PurgePrompts {
		w.plan.Prompts = listOf(chosen)
	} else {
		w.plan.Samples = listOf(chosen)
	}
	w.index()
	return nil
}

func chooseIn[T any](ctx context.Context, w *purging, m *catalog.Manifest, chosen map[string]bool, id func(*T) string) error {
	for row, err := range catalog.ReadTable[T](ctx, w.Catalog, m, w.choice.Table) {
		if err != nil {
			return err
		}
		ok := w.choice.IDs[id(&row)]
		if w.choice.Match != nil {
			if ok, err = w.choice.Match(&row); err != nil {
				if w.result.Unfit++; w.result.UnfitWhy == "" {
					w.result.UnfitWhy = err.Error()
				}
				continue
			}
		}
		if ok {
			w.result.Chosen++
			chosen[id(&row)] = true
		}
	}
	return nil
}

// follow finds everything that goes with what was chosen: the asks of the
// answers, the same answers in other versions and under other token caps, what
// judges were asked about them, and where all of it is kept.
func (w *purging) follow(ctx context.Context) error {
	versions, err := w.versions(ctx)
	if err != nil {
		return err
	}
	// Twice: the answers of the first look are known by their words in the other
	// versions.
	if _, err := w.findAsks(ctx, versions); err != nil {
		return err
	}
	lost, err := w.findAsks(ctx, versions)
	if err != nil {
		return err
	}
	w.note("looking for %d answers in the answer store", len(w.asks))
	keys, err := w.findKeys(ctx, w.asks)
	if err != nil {
		return err
	}
	for id := range lost {
		if keys.ids[id] {
			delete(lost, id)
		}
	}
	if err := w.underOtherCaps(ctx, versions, lost, keys); err != nil {
		return err
	}
	// The same asks under other caps are other samples of other versions.
	for endpoint, list := range keys.of {
		ids, err := w.Eraser.IDs(ctx, endpoint, list)
		if err != nil {
			return err
		}
		for id := range ids {
			w.asks[id] = true
		}
	}
	if _, err := w.findAsks(ctx, versions); err != nil {
		return err
	}
	if err := w.findUntold(ctx, versions, keys); err != nil {
		return err
	}
	if err := w.findJudged(ctx, versions, keys); err != nil {
		return err
	}
	w.result.Missing = int64(len(lost))
	for endpoint, list := range keys.of {
		for _, key := range list {
			w.plan.Keys[endpoint] = append(w.plan.Keys[endpoint], key.String())
		}
		w.result.Asks += int64(len(list))
	}
	if err := w.findObjects(ctx, versions); err != nil {
		return err
	}
	w.plan.Samples, w.plan.Tasks, w.plan.Asks = listOf(w.samples), listOf(w.tasks), listOf(w.asks)
	for _, v := range versions {
		rows, err := w.countIn(ctx, v.m)
		if err != nil {
			return err
		}
		if len(rows) > 0 {
			w.result.Versions = append(w.result.Versions, catalog.PurgedVersion{Version: v.v.Number, Before: v.v.ManifestSHA256, Rows: rows})
		}
	}
	return w.elsewhere(ctx)
}

// A purgedVersion is one version of the dataset, with its manifest.
type versionToPurge struct {
	v catalog.Version
	m *catalog.Manifest
}

// versions are those of the dataset whose manifests are there, withdrawn ones
// included: their files may be there too.
func (w *purging) versions(ctx context.Context) ([]versionToPurge, error) {
	list, err := w.Catalog.Versions(ctx, w.version.Dataset)
	if err != nil {
		return nil, err
	}
	var out []versionToPurge
	for i := len(list) - 1; i >= 0; i-- {
		m, err := w.Catalog.ManifestOf(ctx, list[i])
		if list[i].Removed != nil && errors.Is(err, objstore.ErrNotFound) {
			continue // gc has taken it
		}
		if err != nil {
			return nil, err
		}
		out = append(out, versionToPurge{list[i], m})
	}
	return out, nil
}

// A lostAnswer is a candidate whose answer is not found under its own ask.
type lostAnswer struct {
	task, teacher string
	sample        int
	version       int // index of the versions
}

// findAsks goes through the candidates of all versions: what is chosen names
// asks, and whatever was made of these is chosen too, as are the same words of
// the same model to the same prompt: under a larger token cap an answer is known
// by another ask. It returns the asks that an answer should be found of.
func (w *purging) findAsks(ctx context.Context, versions []versionToPurge) (map[string]lostAnswer, error) {
	answered := map[string]lostAnswer{}
	for i, v := range versions {
		w.note("looking through the candidates of %s", v.v.Ref())
		for c, err := range catalog.ReadTable[datasets.Candidate](ctx, w.Catalog, v.m, datasets.TableCandidates) {
			if err != nil {
				return nil, err
			}
			words := wordsOf(&c)
			if !w.samples[c.SampleID] && !w.prompts[c.PromptID] && !w.asks[c.AskID] && !w.words[words] {
				continue
			}
			w.samples[c.SampleID], w.tasks[c.TaskID], w.asks[c.AskID] = true, true, true
			if words != "" {
				w.words[words] = true
			}
			if c.Error == nil {
				answered[c.AskID] = lostAnswer{c.TaskID, c.Teacher, int(c.SampleIndex), i}
			}
		}
	}
	return answered, nil
}

// wordsOf is a digest over an answer, its prompt and its model; "" where there
// is no answer.
func wordsOf(c *datasets.Candidate) string {
	answer := c.Answer()
	if answer == nil {
		return ""
	}
	text, err := json.Marshal([]any{c.PromptID, c.ModelAsked, c.SampleIndex, answer.Content, answer.ReasoningContent, answer.ToolCalls})
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return string(sum[:])
}

// foundKeys are the keys of answers by endpoint, and the asks that they are of.
type foundKeys struct {
	of  map[string][]answers.Key
	has map[answers.Key]bool
	ids map[string]bool
}

func (f *foundKeys) add(endpoint, id string, key answers.Key) bool {
	f.ids[id] = true
	if f.has[key] {
		return false
	}
	f.has[key] = true
	f.of[endpoint] = append(f.of[endpoint], key)
	return true
}

func (w *purging) findKeys(ctx context.Context, ids map[string]bool) (*foundKeys, error) {
	f := &foundKeys{of: map[string][]answers.Key{}, has: map[answers.Key]bool{}, ids: map[string]bool{}}
	return f, w.addKeys(ctx, f, ids)
}

func (w *purging) addKeys(ctx context.Context, f *foundKeys, ids map[string]bool) error {
	if len(ids) == 0 {
		return nil
	}
	endpoints, err := w.Eraser.Endpoints(ctx)
	if err != nil {
		return err
	}
	for _, endpoint := range endpoints {
		found, err := w.Eraser.Find(ctx, endpoint, ids)
		if err != nil {
			return err
		}
		for id, key := range found {
			f.add(endpoint, id, key)
		}
	}
	return nil
}

// underOtherCaps finds the answers that serve an ask of a larger token cap than
// they were asked under: nothing is kept under such an ask's own id. The recipe
// of the version says what its key is.
func (w *purging) underOtherCaps(ctx context.Context, versions []versionToPurge, lost map[string]lostAnswer, keys *foundKeys) error {
	byVersion := map[int]map[string]map[string]lostAnswer{} // then by task and ask
	for id, one := range lost {
		if byVersion[one.version] == nil {
			byVersion[one.version] = map[string]map[string]lostAnswer{}
		}
		if byVersion[one.version][one.task] == nil {
			byVersion[one.version][one.task] = map[string]lostAnswer{}
		}
		byVersion[one.version][one.task][id] = one
	}
	for i, tasks := range byVersion {
		v := versions[i]
		rt, err := w.runtimeOf(ctx, v)
		if err != nil {
			w.Log.Warn("purge: the recipe of a version can't be read any more, so answers that serve it under another token cap are not looked for", "version", v.v.Ref(), "error", err)
			continue
		}
		for row, err := range catalog.ReadTable[datasets.PromptRow](ctx, w.Catalog, v.m, datasets.TablePrompts) {
			if err != nil {
				return err
			}
			for id, one := range tasks[row.TaskID] {
				task, err := taskOfRow(&row)
				t := rt.teachers[one.teacher]
				if err != nil || t == nil {
					continue
				}
				ask, err := t.ask(&task, one.sample)
				if err != nil {
					continue
				}
				for _, a := range append([]answers.Ask{ask.ask}, ask.older...) {
					if a.ID == id {
						keys.add(a.Endpoint, id, a.Key)
						delete(lost, id)
					}
				}
			}
		}
	}
	return nil
}

// recipeOf is the recipe that made a version.
func (p *Purger) recipeOf(ctx context.Context, m *catalog.Manifest) (*recipe.Recipe, error) {
	if m.RecipeDigest == "" {
		return nil, errors.New("no recipe made it")
	}
	raw, err := readPinned(ctx, p.Bucket, recipeKey(m.RecipeDigest), m.RecipeDigest, maxRecipe)
	if err != nil {
		return nil, err
	}
	return recipe.Parse(m.Dataset+".yaml", raw)
}

// runtimeOf makes the recipe of a version ready, as far as asks follow from it.
func (w *purging) runtimeOf(ctx context.Context, v versionToPurge) (*runtime, error) {
	r, err := w.recipeOf(ctx, v.m)
	if err != nil {
		return nil, err
	}
	files, err := sourcesOf(ctx, w.Bucket, r, v.m)
	if err != nil {
		return nil, err
	}
	rt, err := newRuntime(r, files)
	if err != nil {
		return nil, err
	}
	for i := range v.m.Teachers {
		if t := rt.teachers[v.m.Teachers[i].ID]; t != nil {
			t.endpoint = v.m.Teachers[i].Identity
			t.anew.Refresh = v.m.Teachers[i].Refresh
		}
	}
	return rt, nil
}

// findJudged finds what judges were asked about the answers, and what the
// student was: their questions hold them, and their words may. Of a purged
// prompt the student was also asked alone; the ledger has that request.
func (w *purging) findJudged(ctx context.Context, versions []versionToPurge, keys *foundKeys) error {
	judged := map[string]bool{}
	for _, v := range versions {
		for row, err := range catalog.ReadTable[datasets.JudgeRow](ctx, w.Catalog, v.m, datasets.TableJudgements) {
			if err != nil {
				return err
			}
			if w.judges(&row) && row.AskID != nil {
				judged[*row.AskID] = true
			}
		}
		for row, err := range catalog.ReadTable[datasets.FitRow](ctx, w.Catalog, v.m, datasets.TableStudentFit) {
			if err != nil {
				return err
			}
			if w.fit(&row) != rowStays && row.AskID != nil {
				judged[*row.AskID] = true
			}
		}
		if w.plan.Scope != catalog.PurgePrompts {
			continue
		}
		for row, err := range catalog.ReadTable[datasets.Attempt](ctx, w.Catalog, v.m, datasets.TableAttempts) {
			if err != nil {
				return err
			}
			if row.AskID != "" && w.prompts[row.PromptID] && !w.asks[row.AskID] {
				judged[row.AskID] = true
			}
		}
	}
	before := len(keys.has)
	if err := w.addKeys(ctx, keys, judged); err != nil {
		return err
	}
	for id := range judged {
		w.asks[id] = true
	}
	w.result.Judged = int64(len(keys.has) - before)
	return nil
}

// judges tells whether a judgement is about what is purged.
func (w *purging) judges(row *datasets.JudgeRow) bool {
	return w.samples[row.SampleA] || row.SampleB != nil && w.samples[*row.SampleB] || w.prompts[row.PromptID]
}

// findObjects finds, where prompts are purged, the pinned files that hold them
// and the images that nothing else shows.
func (w *purging) findObjects(ctx context.Context, versions []versionToPurge) error {
	if w.plan.Scope != catalog.PurgePrompts {
		return nil
	}
	objects, images := map[string]bool{}, map[string]bool{}
	for _, v := range versions {
		for row, err := range catalog.ReadTable[datasets.PromptRow](ctx, w.Catalog, v.m, datasets.TablePrompts) {
			if err != nil {
				return err
			}
			if !w.prompts[row.PromptID] {
				continue
			}
			for _, im := range row.Images {
				images[im.Key] = true
			}
			for _, s := range v.m.Sources {
				if name := path.Base(s.Key); s.Key == "" || !strings.HasPrefix(row.Source, name) && !strings.Contains(row.Source, path.Base(s.Path)) {
					continue
				}
				if !strings.HasPrefix(s.Key, "sources/") {
					w.addNote("%s is yours: take the prompts out of it, for the next build reads it again", s.Key)
					continue
				}
				objects[s.Key] = true
			}
		}
	}
	if len(objects) > 0 {
		w.addNote("take the prompts out of your own prompt files too; as long as they are there, builds of %s pass over them", w.version.Dataset)
	}
	if len(images) > 0 {
		if err := w.stillShown(ctx, images); err != nil {
			return err
		}
	}
	for key := range images {
		if strings.HasPrefix(key, "sources/") {
			objects[key] = true
		}
	}
	w.plan.Objects = listOf(objects)
	return nil
}

// stillShown takes out the images that prompts which stay show, in any dataset.
func (w *purging) stillShown(ctx context.Context, images map[string]bool) error {
	list, err := w.Catalog.List(ctx)
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.Version == 0 {
			continue
		}
		all := &purging{Purger: w.Purger, version: catalog.Version{Dataset: d.Name}}
		versions, err := all.versions(ctx)
		if err != nil {
			return err
		}
		for _, v := range versions {
			for row, err := range catalog.ReadTable[datasets.PromptRow](ctx, w.Catalog, v.m, datasets.TablePrompts) {
				if err != nil {
					return err
				}
				if d.Name == w.version.Dataset && w.prompts[row.PromptID] {
					continue
				}
				for _, im := range row.Images {
					delete(images, im.Key)
				}
			}
		}
	}
	return nil
}

func (w *purging) addNote(format string, args ...any) {
	note := fmt.Sprintf(format, args...)
	for _, there := range w.result.Notes {
		if there == note {
			return
		}
	}
	w.result.Notes = append(w.result.Notes, note)
}

// elsewhere counts what other datasets made of the same answers or prompts.
// They are products of their own, with their own purges.
func (w *purging) elsewhere(ctx context.Context) error {
	list, err := w.Catalog.List(ctx)
	if err != nil {
		return err
	}
	for _, d := range list {
		if d.Name == w.version.Dataset || d.Version == 0 || d.Problem != "" {
			continue
		}
		w.note("looking whether %s holds them too", d.Name)
		_, m, err := w.Catalog.Latest(ctx, d.Name)
		if err != nil {
			return err
		}
		for c, err := range catalog.ReadTable[datasets.Candidate](ctx, w.Catalog, m, datasets.TableCandidates) {
			if err != nil {
				return err
			}
			if w.asks[c.AskID] && c.Error == nil || w.prompts[c.PromptID] {
				w.result.Elsewhere[d.Name]++
			}
		}
	}
	return nil
}
