package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

func init() { register(purgeCommand) }

// purgeFlags are the flags of purge.
type purgeFlags struct {
	table, where, ids, reason string
	list, yes                 bool
}

func purgeCommand(a *app) *cobra.Command {
	var f purgeFlags
	cmd := &cobra.Command{
		Use:   "purge REF",
		Short: "Erase rows and the answers behind them for good",
		Long: `Purge erases rows of a dataset, and the answers that they were made of, from every
version of it and from the answer store. It first shows what would go and changes
nothing; with --yes it does it. That cannot be undone.

--where is the condition of head, over the rows of --table in the version that REF
names:
  stillhouse purge maths --where 'messages[-1].content contains "…"'
  stillhouse purge maths --table candidates --where 'teacher == "k3"' --yes
Rows of train, test and candidates are answers: the answer goes from every version,
with what judges said of it, and nobody is asked for it again. Rows of prompts are
prompts: they go with all that was answered to them, and no build of this dataset
takes them up again. --ids names sample ids (of table prompts: prompt ids) in a
file instead, one a line.

Versions keep their numbers and say that they were purged; the digests that they
had before name nothing any more. A record of who, when and how many stays, without
a word of what it was: stillhouse purge REF --list shows all.

No build of the dataset may run or be paused meanwhile. An interrupted purge holds
builds back until it is finished: run purge with --yes again.
What was exported, trained or backed up is yours to deal with.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.purge(cmd.Context(), args[0], f) },
	}
	cmd.Flags().StringVar(&f.table, "table", datasets.TableTrain, "table in which rows are chosen: train, test, candidates or prompts")
	cmd.Flags().StringVar(&f.where, "where", "", "condition that the rows meet")
	cmd.Flags().StringVar(&f.ids, "ids", "", "file of ids, one a line; - is the standard input")
	cmd.Flags().StringVar(&f.reason, "reason", "", "why, for the record; do not repeat here what is to be forgotten")
	cmd.Flags().BoolVar(&f.list, "list", false, "show the records of the dataset's purges")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do it; without, it is only shown what would go")
	return cmd
}

const (
	maxReason  = 500     // characters
	maxIDsFile = 1 << 30 // bytes
)

func (a *app) purge(ctx context.Context, ref string, f purgeFlags) error {
	r, err := catalog.ParseRef(ref)
	if err != nil {
		return err
	}
	if f.list {
		return a.listPurges(ctx, r.Name)
	}
	choice, err := a.purgeChoice(f)
	if err != nil {
		return err
	}
	if choice == nil && !f.yes {
		return usage("purge what? give --where with a condition, or --ids FILE")
	}
	b, exclusive, closeStore, err := a.purgeStore(ctx, f.yes)
	if err != nil {
		return err
	}
	defer closeStore()
	return a.purgeIn(ctx, b, exclusive, ref, r.Name, choice, f)
}

// purgeChoice reads the flags that say what is purged; nil where none does.
func (a *app) purgeChoice(f purgeFlags) (*activities.PurgeChoice, error) {
	if f.where != "" && f.ids != "" {
		return nil, usage("--where and --ids are two ways to choose; give one")
	}
	if len([]rune(f.reason)) > maxReason {
		return nil, usage("--reason: at most %d characters", maxReason)
	}
	choice := &activities.PurgeChoice{Table: f.table}
	var err error
	switch f.table {
	case datasets.TableTrain, datasets.TableTest:
		choice.Match, err = matcher[datasets.Row](f.where)
	case datasets.TableCandidates:
		choice.Match, err = matcher[datasets.Candidate](f.where)
	case datasets.TablePrompts:
		choice.Match, err = matcher[datasets.PromptRow](f.where)
	default:
		return nil, usage("--table %s: rows are purged by train, test, candidates or prompts; what was made of them in other tables goes with them", f.table)
	}
	switch {
	case err != nil:
		return nil, err
	case f.where != "":
		return choice, nil
	case f.ids == "":
		return nil, nil
	}
	choice.IDs, err = a.readIDs(f.ids)
	return choice, err
}

// matcher compiles a condition over rows of T; nil where there is none.
func matcher[T any](source string) (func(any) (bool, error), error) {
	if source == "" {
		return nil, nil
	}
	cond, err := compileWhere[T](source)
	if err != nil {
		return nil, err
	}
	return cond.match, nil
}

func (a *app) readIDs(path string) (map[string]bool, error) {
	in := a.in
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, usage("--ids: %v", err)
		}
		defer file.Close()
		in = file
	}
	ids := map[string]bool{}
	lines := bufio.NewScanner(in)
	total := 0
	for n := 1; lines.Scan(); n++ {
		id := strings.TrimSpace(lines.Text())
		if id == "" {
			continue
		}
		if len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
			return nil, usage("--ids %s, line %d: %.80q is not an id of 32 hex digits; show REF --schema says which column has them", path, n, id)
		}
		if total += len(id); total > maxIDsFile {
			return nil, usage("--ids %s: more than %s; purge in parts", path, sized(maxIDsFile))
		}
		ids[id] = true
	}
	if err := lines.Err(); err != nil {
		return nil, usage("--ids %s: %v", path, err)
	}
	if len(ids) == 0 {
		return nil, usage("--ids %s: it holds no id", path)
	}
	return ids, nil
}

// purgeStore opens the store: for a look, the files or the named store; to erase,
// for writing. Where the embedded store is nobody else's meanwhile, what this
// home's journal holds is indexed first, so that it is erased too.
func (a *app) purgeStore(ctx context.Context, write bool) (b objstore.Bucket, exclusive bool, done func(), err error) {
	if !write {
		b, err = a.readStore(ctx)
		return b, false, func() {}, err
	}
	b, done, err = a.writeStore(ctx)
	if err != nil || a.store != "" {
		return b, false, done, err
	}
	h, err := a.openHome()
	if err != nil {
		done()
		return nil, false, nil, err
	}
	store, err := answers.Open(ctx, answers.Options{Bucket: b, Dir: h.Path("worker"), Log: a.log()})
	if err != nil {
		// A running serve has it, and indexes its journal by itself.
		a.say("the home's worker runs; its journal is waited for where it holds such answers")
		return b, false, done, nil
	}
	_, adopted := store.AdoptOrphans(ctx, func(string) bool { return false })
	if err := errors.Join(adopted, store.Close(ctx)); err != nil {
		done()
		return nil, false, nil, fmt.Errorf("index what the home's journal holds: %w", err)
	}
	return b, true, done, nil
}

func (a *app) purgeIn(ctx context.Context, b objstore.Bucket, exclusive bool, ref, name string, choice *activities.PurgeChoice, f purgeFlags) (err error) {
	temp, err := os.MkdirTemp("", "stillhouse-purge-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	reader, err := answers.OpenReader(b, "")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, reader.Close()) }()
	notes := &reparseNotes{app: a}
	defer notes.end()
	p := &activities.Purger{
		Bucket: b, Catalog: catalog.Open(b), TempDir: temp, Log: a.log(), By: whoami(), Reason: f.reason, Note: notes.show,
		Eraser: &answers.Eraser{Reader: reader, Exclusive: exclusive},
	}
	if e, ok := b.(objstore.Eraser); ok {
		p.Delete = e.Erase
		p.Eraser.Delete = e.Erase
	}
	var finished *activities.PurgeResult
	if f.yes {
		if finished, err = p.Finish(ctx, name); err != nil {
			return err
		}
		if finished != nil {
			a.dropCopies()
			a.say("finished purge %s, which had been interrupted", finished.Purge)
		}
	} else if err := a.tellOpenPurge(ctx, p.Catalog, name); err != nil {
		return err
	}
	if choice == nil {
		notes.end()
		if finished == nil {
			return usage("no purge of %s was interrupted; to begin one give --where with a condition, or --ids FILE", name)
		}
		return a.printPurged(finished, f.table)
	}
	found, plan, err := p.Plan(ctx, ref, *choice)
	notes.end()
	if err != nil {
		return err
	}
	if finished != nil {
		found.Finished = finished.Purge
	}
	if found.Unfit > 0 {
		a.warn("%s rows were not chosen because the condition could not be evaluated, such as: %s; (field ?? 0) stands for a null", grouped(found.Unfit), found.UnfitWhy)
	}
	if plan == nil || !f.yes {
		return a.printPurged(found, f.table)
	}
	done, err := p.Erase(ctx, plan)
	notes.end()
	if err != nil {
		return err
	}
	a.dropCopies()
	done.Finished = found.Finished
	return a.printPurged(done, f.table)
}

// tellOpenPurge says that a purge was interrupted, where only a look is wanted.
func (a *app) tellOpenPurge(ctx context.Context, c *catalog.Catalog, name string) error {
	purges, err := c.Purges(ctx, name)
	if err != nil {
		return err
	}
	for _, one := range purges {
		if one.State == catalog.PurgeRunning {
			a.warn("purge %s of %s, begun %s, has not ended, and builds of %s wait for it; finish it with: stillhouse purge %s --yes",
				one.ID, name, one.Started.Local().Format(time.DateTime), name, name)
		}
	}
	return nil
}

// dropCopies deletes what this home's worker keeps of segments of answers: they
// are read again from the store when they are needed.
func (a *app) dropCopies() {
	h, err := a.openHome()
	if err != nil {
		return
	}
	for _, pattern := range []string{"*.parquet", "*.keys"} {
		files, err := filepath.Glob(h.Path("worker", "cache", pattern))
		if err != nil {
			continue
		}
		for _, file := range files {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				a.warn("a copy of answers stays at %s: %v; remove it", file, err)
			}
		}
	}
}

// whoami names who runs this, for a record.
func whoami() string {
	name := "somebody"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if host, err := os.Hostname(); err == nil {
		return name + "@" + host
	}
	return name
}

// printPurged tells what went, or would go, of the rows that were chosen in a
// table.
func (a *app) printPurged(r *activities.PurgeResult, table string) error {
	if a.json {
		return a.printJSON(r)
	}
	kind := "answer"
	if r.Scope == catalog.PurgePrompts {
		kind = "prompt"
	}
	switch {
	case r.DryRun && r.Chosen == 0:
		fmt.Fprintf(a.out, "no row of %s matches in table %s; nothing to purge\n", r.Ref, table)
		a.say("other tables may hold such rows: --table train, test, candidates (also what was not accepted) or prompts")
		return nil
	case r.DryRun:
		fmt.Fprintf(a.out, "%s of %s would be purged\n", counted(r.Chosen, kind), r.Ref)
	default:
		fmt.Fprintf(a.out, "purged %ss of %s; record %s\n", kind, r.Ref, r.Record)
	}
	for _, v := range r.Versions {
		var rows []string
		for _, table := range sortedKeys(v.Rows) {
			rows = append(rows, fmt.Sprintf("%s %s", table, grouped(v.Rows[table])))
		}
		fmt.Fprintf(a.out, "  %s@%d: %s\n", r.Dataset, v.Version, strings.Join(rows, ", "))
	}
	if r.DryRun {
		fmt.Fprintf(a.out, "  answer store: %s asks, of these %s questions to judges\n", grouped(r.Asks), grouped(r.Judged))
	} else {
		for _, what := range sortedKeys(r.Counts) {
			if r.Counts[what] > 0 {
				fmt.Fprintf(a.out, "  %s: %s\n", strings.ReplaceAll(what, "_", " "), grouped(r.Counts[what]))
			}
		}
	}
	if r.Missing > 0 {
		a.warn("of %s asks the answer store holds nothing: they were purged before, or nothing was kept", grouped(r.Missing))
	}
	for _, name := range sortedKeys(r.Elsewhere) {
		a.warn("dataset %s holds %s rows of the same, and keeps them; purge them there too: stillhouse purge %s --table candidates --where …", name, grouped(r.Elsewhere[name]), name)
	}
	for _, note := range r.Notes {
		a.warn("%s", note)
	}
	if r.DryRun {
		a.say("nothing was changed; --yes does it, for good")
	}
	return nil
}

func (a *app) listPurges(ctx context.Context, name string) error {
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	purges, err := c.Purges(ctx, name)
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(map[string]any{"dataset": name, "purges": append([]catalog.Purge{}, purges...)})
	}
	if len(purges) == 0 {
		fmt.Fprintf(a.out, "nothing was purged from %s\n", name)
	}
	for _, p := range purges {
		fmt.Fprintf(a.out, "%s  %s  %s  %s %s  by %s%s\n", p.ID, p.Started.Local().Format(time.DateTime), p.State, grouped(p.IDs), p.Scope,
			oneLine(p.By), oneLine(reasonOf(p.Reason)))
	}
	return nil
}

func reasonOf(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}
