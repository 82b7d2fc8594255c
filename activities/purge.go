package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A Purger erases rows of a dataset and the answers behind them for good: from
// every version, from the segments of answers of every endpoint, and from what
// else the store keeps of them. Versions keep their numbers and say that they
// were purged; the answer store keeps a tombstone for each ask, so that nobody
// pays for it again.
//
// Everything that it does is safe to do again. What is to be erased is written
// down first, without a word of it, and whoever runs a purge of the dataset
// after an interruption finishes that one.
type Purger struct {
	Bucket  objstore.Bucket
	Catalog *catalog.Catalog
	Eraser  *answers.Eraser
	TempDir string // of this machine
	Log     *slog.Logger
	// By is who purges, as the record names them; Reason is their words.
	By, Reason string
	// Delete deletes objects, with all versions that the store keeps of them;
	// nil: the bucket's.
	Delete func(ctx context.Context, keys ...string) error
	// Note is told how far it is, in words; may be nil.
	Note func(string)
}

// A PurgeChoice says which rows are purged: those of one table of a version for
// which Match says yes, or those with the given ids.
type PurgeChoice struct {
	// Table is train, test or candidates, whose rows are answers, or prompts,
	// whose rows are prompts with all that was answered to them.
	Table string
	// Match is given a pointer to a row of the table.
	Match func(row any) (bool, error)
	// IDs are sample ids, of table prompts prompt ids; Match is nil.
	IDs map[string]bool
}

// Scope is what such rows stand for.
func (c *PurgeChoice) Scope() string {
	if c.Table == datasets.TablePrompts {
		return catalog.PurgePrompts
	}
	return catalog.PurgeAnswers
}

// A PurgeResult is what `purge --json` prints.
type PurgeResult struct {
	Dataset  string                  `json:"dataset"`
	Ref      string                  `json:"ref" jsonschema:"description=version in which the rows were chosen"`
	Purge    string                  `json:"purge,omitempty" jsonschema:"description=id of the purge; absent of a dry run"`
	Record   string                  `json:"record,omitempty" jsonschema:"description=key of its record"`
	DryRun   bool                    `json:"dry_run"`
	Finished string                  `json:"finished,omitempty" jsonschema:"description=id of a purge that had been interrupted and was finished first"`
	Scope    string                  `json:"scope" jsonschema:"enum=answers,enum=prompts"`
	Chosen   int64                   `json:"chosen" jsonschema:"description=rows that were chosen"`
	Unfit    int64                   `json:"unfit,omitempty" jsonschema:"description=rows for which the condition could not be evaluated; they were not chosen"`
	UnfitWhy string                  `json:"unfit_why,omitempty"`
	Asks     int64                   `json:"asks" jsonschema:"description=asks whose answers go from the answer store"`
	Judged   int64                   `json:"judged_asks" jsonschema:"description=of these: questions to judges about the answers"`
	Missing  int64                   `json:"missing_asks" jsonschema:"description=asks of which the answer store holds nothing: purged before or failed without a record"`
	Versions []catalog.PurgedVersion `json:"versions" jsonschema:"description=what is erased or blanked in each version"`
	Counts   map[string]int64        `json:"counts" jsonschema:"description=what else was erased\\, by kind; absent of a dry run"`
	// Elsewhere counts candidates of other datasets over the same answers.
	Elsewhere map[string]int64 `json:"elsewhere" jsonschema:"description=rows of other datasets that hold the same answers or prompts\\, and keep them"`
	Notes     []string         `json:"notes" jsonschema:"description=what is left to whoever purges"`
}

// purgePlan is what is to be erased, in ids and digests alone.
type purgePlan struct {
	Scope   string              `json:"scope"`
	Samples []string            `json:"samples"`
	Prompts []string            `json:"prompts"`
	Tasks   []string            `json:"tasks"` // of the samples
	Asks    []string            `json:"asks"`  // of teachers and judges
	Keys    map[string][]string `json:"keys"`  // of answers, by endpoint
	Objects []string            `json:"objects"`
}

// maxPurgeIDs bounds the samples of one purge: its plan is in memory.
const maxPurgeIDs = 5_000_000

// Plan looks for what a purge would erase, and changes nothing. The second
// result is what [Purger.Erase] carries out.
func (p *Purger) Plan(ctx context.Context, ref string, choice PurgeChoice) (*PurgeResult, *PurgePlan, error) {
	v, m, err := p.Catalog.Resolve(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	w := &purging{Purger: p, choice: choice, version: v, result: &PurgeResult{
		Dataset: v.Dataset, Ref: v.Ref(), DryRun: true, Scope: choice.Scope(), Versions: []catalog.PurgedVersion{},
		Counts: map[string]int64{}, Elsewhere: map[string]int64{}, Notes: []string{},
	}}
	w.plan = &purgePlan{Scope: choice.Scope(), Keys: map[string][]string{}}
	if err := w.choose(ctx, m); err != nil {
		return nil, nil, fmt.Errorf("purge %s: %w", v.Ref(), err)
	}
	if w.result.Chosen == 0 {
		return w.result, nil, nil
	}
	if err := w.follow(ctx); err != nil {
		return nil, nil, fmt.Errorf("purge %s: %w", v.Ref(), err)
	}
	return w.result, &PurgePlan{result: w.result, plan: w.plan}, nil
}

// A PurgePlan is what [Purger.Plan] has found.
type PurgePlan struct {
	result *PurgeResult
	plan   *purgePlan
}

// Erase carries a plan out. No build of the dataset may run or be paused
// (catalog.ErrBuilding); none begins or publishes meanwhile.
func (p *Purger) Erase(ctx context.Context, found *PurgePlan) (*PurgeResult, error) {
	r, now := *found.result, time.Now()
	text, err := json.Marshal(found.plan)
	if err != nil {
		return nil, err
	}
	ids := found.plan.Samples
	if found.plan.Scope == catalog.PurgePrompts {
		ids = found.plan.Prompts
	}
	sum := sha256.Sum256([]byte(strings.Join(ids, "\n") + "\n"))
	record := catalog.Purge{
		ID: wire.BuildID(now, fmt.Sprintf("purge %s %d", r.Ref, now.UnixNano())), Dataset: r.Dataset, Ref: r.Ref, Scope: r.Scope,
		By: p.By, Reason: p.Reason, Started: now.UTC().Truncate(time.Millisecond), IDs: int64(len(ids)), IDsSHA256: hex.EncodeToString(sum[:]),
	}
	if err := p.Catalog.BeginPurge(ctx, record, text); err != nil {
		return nil, err
	}
	done, err := p.carryOut(ctx, &record, found.plan)
	if err != nil {
		return nil, err
	}
	done.Chosen, done.Asks, done.Judged, done.Missing, done.Elsewhere = r.Chosen, r.Asks, r.Judged, r.Missing, r.Elsewhere
	done.Notes = append(slices.Clone(r.Notes), done.Notes...)
	return done, nil
}

// Finish carries out what an interrupted purge of the dataset has left; nil
// where there is none.
func (p *Purger) Finish(ctx context.Context, dataset string) (*PurgeResult, error) {
	record, text, err := p.Catalog.OpenPurge(ctx, dataset)
	if err != nil || record == nil {
		return nil, err
	}
	var plan purgePlan
	if err := json.Unmarshal(text, &plan); err != nil {
		return nil, fmt.Errorf("%w: the plan of purge %s of %s is not the JSON it should be: %w", catalog.ErrDamaged, record.ID, dataset, err)
	}
	return p.carryOut(ctx, record, &plan)
}

// carryOut erases, in an order in which every interruption leaves what is needed
// to go on: the answers first, so that nothing that reads them brings them back,
// then what was made of them.
func (p *Purger) carryOut(ctx context.Context, record *catalog.Purge, plan *purgePlan) (*PurgeResult, error) {
	w := &purging{Purger: p, plan: plan, record: record, version: catalog.Version{Dataset: record.Dataset}, result: &PurgeResult{
		Dataset: record.Dataset, Ref: record.Ref, Purge: record.ID, Record: "datasets/" + record.Dataset + "/purges/" + record.ID + ".json", Scope: plan.Scope,
		Counts: map[string]int64{}, Elsewhere: map[string]int64{}, Notes: []string{},
	}}
	if record.Counts != nil {
		w.result.Counts = maps.Clone(record.Counts) // of what was done before the interruption
	}
	w.index()
	fail := func(err error) (*PurgeResult, error) {
		return nil, fmt.Errorf("purge %s of %s: %w; what is done stays done: run the same command again to finish", record.ID, record.Dataset, err)
	}
	for _, step := range []func(context.Context) error{
		w.promptList, w.eraseAnswers, w.eraseBatches, w.eraseWork, w.eraseVersions, w.eraseLeftovers, w.eraseHandoffs, w.eraseObjects,
	} {
		if err := p.Catalog.StillPurging(ctx, record.Dataset, record.ID); err != nil {
			return fail(err)
		}
		if err := step(ctx); err != nil {
			return fail(err)
		}
		record.Counts = w.result.Counts
		if err := p.Catalog.NotePurge(ctx, record); err != nil {
			return fail(err)
		}
	}
	w.result.Versions = record.Versions
	if err := p.Catalog.EndPurge(ctx, record); err != nil {
		return fail(err)
	}
	return w.result, nil
}

// purging is one run.
type purging struct {
	*Purger
	choice  PurgeChoice
	version catalog.Version // in which was chosen
	record  *catalog.Purge
	plan    *purgePlan
	result  *PurgeResult

	// The plan's, as sets.
	samples, prompts, tasks, asks map[string]bool
	words                         map[string]bool         // of answers, see wordsOf; while choosing
	left                          map[string][]leftAnswer // what these tasks keep in the version at hand
	least                         int                     // answers of a teacher that every task of that version was asked for
}

func (w *purging) note(format string, args ...any) {
	if w.Note != nil {
		w.Note(fmt.Sprintf(format, args...))
	}
}

func (w *purging) delete(ctx context.Context, keys ...string) error {
	if len(keys) == 0 {
		return nil
	}
	if w.Delete != nil {
		return w.Delete(ctx, keys...)
	}
	return w.Bucket.Delete(ctx, keys...)
}

// index makes sets of the plan's lists.
func (w *purging) index() {
	w.samples, w.prompts, w.tasks, w.asks = setOf(w.plan.Samples), setOf(w.plan.Prompts), setOf(w.plan.Tasks), setOf(w.plan.Asks)
	w.words = map[string]bool{}
}

func setOf(list []string) map[string]bool {
	set := make(map[string]bool, len(list))
	for _, s := range list {
		set[s] = true
	}
	return set
}

func listOf(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }

// promptList records which prompts no build makes tasks of again. It comes
// first: it holds digests, and is of use also where the rest breaks off.
func (w *purging) promptList(ctx context.Context) error {
	if w.plan.Scope != catalog.PurgePrompts {
		return nil
	}
	digests := make([]string, 0, len(w.plan.Prompts))
	for _, id := range w.plan.Prompts {
		digests = append(digests, catalog.PromptDigest(id))
	}
	return w.Catalog.AddPurgedPrompts(ctx, w.record.Dataset, digests)
}

// eraseAnswers erases from the segments of answers.
func (w *purging) eraseAnswers(ctx context.Context) error {
	for _, endpoint := range slices.Sorted(maps.Keys(w.plan.Keys)) {
		keys := make([]answers.Key, 0, len(w.plan.Keys[endpoint]))
		for _, text := range w.plan.Keys[endpoint] {
			key, err := answers.ParseKey(text)
			if err != nil {
				return err
			}
			keys = append(keys, key)
		}
		w.note("erasing %d answers of endpoint %s", len(keys), endpoint)
		sum, err := w.Eraser.Erase(ctx, endpoint, keys)
		if err != nil {
			return err
		}
		w.result.Counts["answers"] += sum.Records
		w.result.Counts["segments"] += sum.Segments + sum.Unnamed
		if sum.Waiting > 0 {
			return fmt.Errorf("%d segments of endpoint %s were just written and are named by no index yet; wait an hour, until they are leftovers", sum.Waiting, endpoint)
		}
		if err := w.journalsHold(ctx, func() ([]string, error) { return w.Eraser.Journals(ctx, endpoint, keys) }); err != nil {
			return err
		}
	}
	return nil
}
