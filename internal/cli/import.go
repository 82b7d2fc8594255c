package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/importer"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

func init() { register(importCommand) }

// What an import becomes.
const (
	asVersion = "version"
	asTeacher = "teacher"
)

// importFlags are the flags of import.
type importFlags struct {
	importer.Options
	choice importer.Choice
	as     string
	fields []string
	think  string
	out    string
	dry    bool
}

func importCommand(a *app) *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import SRC NAME",
		Short: "Make a dataset that exists a version, or a recorded teacher",
		Long: `Import reads a dataset that exists, rows with whole conversations, and publishes
it as the next version of NAME. SRC is a file, a glob, a folder, a hub folder
with its README.md, or an s3:// URL. The formats are
` + sources.Formats + `.

What a row holds where is guessed from the first thousand rows and shown;
--shape and --map FIELD=COLUMN say it. Shapes: ` + strings.Join(sources.Shapes(), ", ") + `.
Fields: ` + strings.Join(sources.ConversationFieldNames(), ", ") + `.

Nothing is asked and no verifier runs: verdicts are null. Training on the rows
is unknown until --training says that the terms allow it.

--as teacher publishes nothing. It writes the answers into a folder, with a
recipe that names them as recorded teachers, so that a build checks, filters
and merges them beside others.`,
		Example: `  stillhouse import old-maths/ maths --licence apache-2.0 --training allowed
  stillhouse import 'runs/*.jsonl' runs --map messages=chat --teacher k2 --dry-run
  stillhouse import sharegpt.json chats --as teacher -o chats/`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			f.Dataset = args[1]
			return a.importDataset(cmd.Context(), args[0], &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.as, "as", asVersion, "version, or teacher for answers that a recipe names")
	flags.StringVar(&f.Shape, "shape", "", "shape of the rows; guessed where absent: "+strings.Join(sources.Shapes(), ", "))
	flags.StringArrayVar(&f.fields, "map", nil, "FIELD=COLUMN, a dotted path; FIELD= for none; may be repeated")
	flags.StringVar(&f.choice.Config, "config", "", "config of a hub folder")
	flags.StringVar(&f.choice.Split, "split", "", "split of the source to read alone")
	flags.StringVar(&f.Domain, "domain", "", "domain of rows that name none")
	flags.StringVar(&f.Effort, "effort", "", "effort of rows that name none")
	flags.StringVar(&f.Teacher, "teacher", "", "who answered, for rows that do not say ("+importer.DefaultTeacher+")")
	flags.StringVar(&f.Model, "model", "", "its model")
	flags.StringVar(&f.Licence, "licence", "", "licence of the answers; a hub folder's card says it too")
	flags.StringVar(&f.TermsURL, "terms-url", "", "where the terms are")
	flags.StringVar(&f.Training, "training", catalog.TrainingUnknown, "whether the terms allow training: allowed, forbidden, unknown")
	flags.Float64Var(&f.Test, "test", 0, "share of the prompts that become the test split, instead of the source's splits")
	flags.Int64Var(&f.Seed, "seed", 0, "seed of that split")
	flags.StringVar(&f.think, "think", "keep", "a leading <think>…</think> of an answer: keep it as text, or split it off as reasoning")
	flags.Int64Var(&f.BadRows, "bad-rows", 0, "how many rows that cannot be used may be left out; -1 for any number")
	flags.Int64Var(&f.Limit, "limit", 0, "most rows that are read; 0 for all")
	flags.StringVarP(&f.out, "output", "o", "", "folder for --as teacher; NAME where absent")
	flags.BoolVar(&f.dry, "dry-run", false, "read everything, say what would become of it, and write nothing")
	return cmd
}

// settle checks the flags and puts them into the options.
func (f *importFlags) settle() error {
	if f.as != asVersion && f.as != asTeacher {
		return usage("--as %s: there are %s and %s", f.as, asVersion, asTeacher)
	}
	if f.out != "" && f.as != asTeacher {
		return usage("-o names the folder of --as teacher; a version goes into the store")
	}
	if f.think != "keep" && f.think != "split" {
		return usage("--think %s: there are keep and split", f.think)
	}
	f.SplitThink = f.think == "split"
	if f.BadRows < -1 || f.Limit < 0 {
		return usage("--bad-rows takes a number or -1 for any, and --limit a number")
	}
	f.Map = map[string]string{}
	for _, m := range f.fields {
		field, column, ok := strings.Cut(m, "=")
		if !ok || !slices.Contains(sources.ConversationFieldNames(), field) {
			return usage("--map %s: want FIELD=COLUMN; fields: %s", m, strings.Join(sources.ConversationFieldNames(), ", "))
		}
		f.Map[field] = column
	}
	return nil
}

func (a *app) importDataset(ctx context.Context, name string, f *importFlags) error {
	if err := f.settle(); err != nil {
		return err
	}
	f.Progress = func(rows int64) { a.say("%s rows read", grouped(rows)) }
	src, err := importer.Open(ctx, a.finder(""), name, f.choice)
	if err != nil {
		return importError(err)
	}
	plan, err := importer.Prepare(ctx, src, f.Options)
	if err != nil {
		return importError(err)
	}
	a.sayPlan(plan)
	switch {
	case f.dry:
		return a.importDry(ctx, plan, f)
	case f.as == asTeacher:
		return a.importTeacher(ctx, plan, f)
	}
	return a.importVersion(ctx, plan)
}

// importError makes what the user can mend by other words a usage error.
func importError(err error) error {
	var file *sources.FileError
	if errors.Is(err, importer.ErrUsage) || errors.As(err, &file) {
		if errors.Is(err, sources.ErrNoFiles) && file != nil {
			return usage("%s: no file matches; check the path", file.Name)
		}
		return usage("%v", err)
	}
	return err
}

// sayPlan shows what is read and as what.
func (a *app) sayPlan(p *importer.Plan) {
	src := p.Source
	config := ""
	if src.Config != "" {
		config = ", config " + src.Config
	}
	a.say("%s: %s, %s%s", src.Name, counted(len(src.Files), "file"), sized(src.Bytes), config)
	if e := src.Export; e != nil {
		a.say("  it is view %s of %s@%d, exported before", e.View, e.Dataset, e.Version)
	}
	for _, note := range src.Notes {
		a.say("  %s", note)
	}
	columns := p.Fields.Columns()
	parts := make([]string, 0, len(columns))
	for _, field := range sortedKeys(columns) {
		parts = append(parts, field+"="+columns[field])
	}
	a.say("  shape %s: %s", p.Shape, strings.Join(parts, " "))
	if c := p.Sample; c != nil {
		a.say("  first row, %s: %s", c.Where, sketch(c))
	}
}

// sketch shows a conversation in a line.
func sketch(c *sources.Conversation) string {
	var parts []string
	for _, m := range append(c.Prompt.All(), c.Turns...) {
		parts = append(parts, m.Role+" "+sketchTurn(&m))
	}
	const most = 6
	if len(parts) > most {
		parts = append(parts[:most:most], fmt.Sprintf("… %d turns in all", len(parts)))
	}
	return strings.Join(parts, " | ")
}

func sketchTurn(m *chat.Message) string {
	text := ""
	if m.Content != nil {
		text = fmt.Sprintf("%q", clip(*m.Content, 40))
	}
	if m.ReasoningContent != nil {
		text = strings.TrimSpace(text + " with reasoning")
	}
	if n := len(m.ToolCalls); n > 0 {
		text = strings.TrimSpace(fmt.Sprintf("%s with %d tool calls", text, n))
	}
	return text
}

func (a *app) importVersion(ctx context.Context, p *importer.Plan) error {
	b, closeStore, err := a.writeStore(ctx)
	if err != nil {
		return err
	}
	defer closeStore()
	r, err := p.Publish(ctx, catalog.Open(b))
	if err != nil {
		return importError(err)
	}
	a.sayBad(r.Bad, r.BadReasons)
	if a.json {
		return a.printJSON(r)
	}
	ref := fmt.Sprintf("%s@%d", r.Dataset, r.Version)
	if r.Unchanged {
		fmt.Fprintf(a.out, "%s holds these rows already; nothing was published\n", ref)
		return nil
	}
	fmt.Fprintf(a.out, "%s: %s\n", ref, imported(r))
	if p.Terms() == catalog.TrainingUnknown {
		a.say("whether the terms allow training is not known; exports warn of it. Where they do: --training allowed")
	}
	a.say("look at it: stillhouse head %s", ref)
	return nil
}

func imported(r *importer.Result) string {
	return fmt.Sprintf("%s train, %s test rows of %s prompts%s%s", grouped(r.Rows[datasets.TableTrain]), grouped(r.Rows[datasets.TableTest]), grouped(r.Prompts),
		some(r.Duplicates, ", %s duplicates left out"), some(r.Moved, ", %s rows moved from test to train, which has their prompts"))
}

func (a *app) sayBad(n int64, reasons []string) {
	if n == 0 {
		return
	}
	a.warn("%s rows cannot be used and were left out:", grouped(n))
	for _, reason := range reasons {
		a.warn("  %s", reason)
	}
	if int64(len(reasons)) < n {
		a.warn("  and %s more", grouped(n-int64(len(reasons))))
	}
}

func (a *app) importDry(ctx context.Context, p *importer.Plan, f *importFlags) error {
	r, err := p.Count(ctx)
	if err != nil {
		return importError(err)
	}
	a.sayBad(r.Bad, r.BadReasons)
	if a.json {
		return a.printJSON(r)
	}
	what := "would become the next version of " + f.Dataset
	if f.as == asTeacher {
		what = "would be written as recorded answers"
	}
	fmt.Fprintf(a.out, "%s %s; nothing was written\n", imported(r), what)
	return nil
}

func (a *app) importTeacher(ctx context.Context, p *importer.Plan, f *importFlags) error {
	dir := f.out
	if dir == "" {
		dir = f.Dataset
	}
	r, err := p.WriteRecorded(ctx, filepath.Clean(dir))
	if err != nil {
		return importError(err)
	}
	a.sayBad(r.Bad, r.BadReasons)
	if a.json {
		return a.printJSON(r)
	}
	fmt.Fprintf(a.out, "%s answers of %d teachers in %s\n\n%s\n", grouped(r.Rows), len(r.Teachers), printable(r.Dir), printable(r.Lines))
	a.say("these lines are in %s, with paths that start there; see what a build would do: stillhouse plan %s", r.Recipe, r.Recipe)
	return nil
}
