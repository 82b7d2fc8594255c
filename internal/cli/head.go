package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

func init() { register(headCommand) }

// headFlags are the flags of head.
type headFlags struct {
	number       int
	table, where string
	full         bool
}

func headCommand(a *app) *cobra.Command {
	var f headFlags
	cmd := &cobra.Command{
		Use:   "head REF",
		Short: "Show the first rows of a table",
		Long: `Head shows rows as a person reads them; with --json it prints one JSON object a
line, as the table holds it. It stops reading at the last row that it shows.

--where takes a condition over the row's JSON field names (show --schema lists
them), such as
  teacher == "k3" && !accepted
  verdict == "fail" && (completion_tokens ?? 0) > 1000
  "verdict:fail" in reject_reasons
  messages[-1].content contains "\\boxed"
A field that is null is nil. Rows for which a condition can't be evaluated do
not match, and are counted on stderr.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.head(cmd.Context(), args[0], f) },
	}
	cmd.Flags().IntVarP(&f.number, "number", "n", 5, "most rows that are shown")
	cmd.Flags().StringVar(&f.table, "table", datasets.TableTrain, "table: train, test, pairs, candidates, prompts, attempts, judgements, logprobs or student_fit")
	cmd.Flags().StringVar(&f.where, "where", "", "condition that the rows meet")
	cmd.Flags().BoolVar(&f.full, "full", false, "texts in full, however long")
	return cmd
}

func (a *app) head(ctx context.Context, ref string, f headFlags) error {
	if f.number < 1 {
		return usage("-n %d: want 1 or more", f.number)
	}
	look, err := headOf(f)
	if err != nil {
		return err
	}
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	v, m, err := c.Resolve(ctx, ref)
	if err != nil {
		return err
	}
	if len(m.TableFiles(f.table)) == 0 {
		return usage("%s has no table %s; it has: %s", v.Ref(), f.table, strings.Join(m.Tables(), ", "))
	}
	return look(ctx, a, c, m)
}

// A look shows the first rows of one table of a version.
type look func(context.Context, *app, *catalog.Catalog, *catalog.Manifest) error

// headOf compiles the condition before the store is opened, so that a slip in
// it costs nothing.
func headOf(f headFlags) (look, error) {
	switch f.table {
	case datasets.TableTrain, datasets.TableTest:
		return headTable(f, entryOfRow)
	case datasets.TablePairs:
		return headTable(f, entryOfPair)
	case datasets.TableCandidates:
		return headTable(f, entryOfCandidate)
	case datasets.TablePrompts:
		return headTable(f, entryOfPrompt)
	case datasets.TableAttempts:
		return headTable(f, entryOfAttempt)
	case datasets.TableLogprobs:
		return headTable(f, entryOfLogprobs)
	case datasets.TableJudgements:
		return headTable(f, entryOfJudgement)
	case datasets.TableStudentFit:
		return headTable(f, entryOfFit)
	}
	return nil, usage("--table %s: want train, test, pairs, candidates, prompts, attempts, judgements, logprobs or student_fit", f.table)
}

func headTable[T any](f headFlags, describe func(*T) entry) (look, error) {
	var cond *where
	if f.where != "" {
		var err error
		if cond, err = compileWhere[T](f.where); err != nil {
			return nil, err
		}
	}
	return func(ctx context.Context, a *app, c *catalog.Catalog, m *catalog.Manifest) error {
		var read, shown, unfit int64
		var why error
		for row, err := range catalog.Head[T](ctx, c, m, f.table) {
			if err == nil {
				err = ctx.Err()
			}
			if errors.Is(err, parquetio.ErrDamaged) || errors.Is(err, objstore.ErrNotFound) {
				err = fmt.Errorf("%w; stillhouse verify %s@%d says what is damaged", err, m.Dataset, m.Parent+1)
			}
			if err != nil {
				return err
			}
			read++
			if cond != nil {
				ok, err := cond.match(&row)
				if err != nil {
					if unfit++; why == nil {
						why = err
					}
				}
				if !ok {
					continue
				}
			}
			shown++
			if a.json {
				err = writeRow(a.out, &row)
			} else {
				err = describe(&row).print(a.out, shown, f.full)
			}
			if err != nil {
				return err
			}
			if shown == int64(f.number) {
				break
			}
		}
		if unfit > 0 {
			a.warn("%s of %s rows did not match because the condition could not be evaluated, such as: %s; (field ?? 0) stands for a null", grouped(unfit), grouped(read), printable(why.Error()))
		}
		if shown == 0 {
			a.say("no row of %s matches; %s were read", f.table, grouped(read))
		}
		return nil
	}, nil
}

// writeRow writes a row as one line of JSON. Characters that a terminal would
// obey are escaped as JSON allows, also those that encoding/json leaves alone.
func writeRow(w io.Writer, row any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(row); err != nil {
		return err
	}
	out := make([]byte, 0, b.Len()+16)
	for _, r := range b.String() {
		if r >= 0x7f && printable(string(r)) != string(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
			continue
		}
		out = utf8.AppendRune(out, r)
	}
	_, err := w.Write(out)
	return err
}

// An entry is a row as a person reads it.
type entry struct {
	title    []string // facts, joined into the first line
	facts    [][2]string
	messages []chat.Message
}

const (
	// Bounds of what is shown without --full.
	maxShown     = 1500 // characters of a text
	maxShownLine = 20   // lines of a text
	maxTurns     = 24   // messages of a row
	maxFact      = 200  // characters of a fact

	indent = 14
)

// print writes an entry. Everything in it is untrusted.
func (e entry) print(w io.Writer, number int64, full bool) error {
	var b strings.Builder
	fmt.Fprintf(&b, "── %d ── %s\n", number, oneLine(strings.Join(e.title, "  ")))
	for _, f := range e.facts {
		if f[1] == "" {
			continue
		}
		text := oneLine(f[1])
		if !full {
			text = clip(text, maxFact)
		}
		fmt.Fprintf(&b, "%-*s%s\n", indent, f[0], text)
	}
	turns := e.messages
	if left := len(turns) - maxTurns; left > 0 && !full {
		fmt.Fprintf(&b, "%-*s… %d earlier messages; --full shows all\n", indent, "", left)
		turns = turns[left:]
	}
	for i := range turns {
		printTurn(&b, &turns[i], full)
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, b.String())
	return err
}

func printTurn(b *strings.Builder, m *chat.Message, full bool) {
	name := clip(oneLine(m.Role), indent-2)
	block := func(label string, text *string) {
		if text == nil {
			return
		}
		shown, left := *text, 0
		if !full {
			shown, left = bounded(*text)
		}
		for _, line := range strings.Split(printable(shown), "\n") {
			b.WriteString(strings.TrimRight(fmt.Sprintf("%-*s%s%s", indent, name, label, line), " "))
			b.WriteByte('\n')
			name, label = "", strings.Repeat(" ", utf8.RuneCountInString(label))
		}
		if left > 0 {
			fmt.Fprintf(b, "%-*s%s… %s more characters; --full shows all\n", indent, "", label, grouped(int64(left)))
		}
	}
	block("thinks: ", m.ReasoningContent)
	block("", m.Content)
	for i := range m.ToolCalls {
		call := fmt.Sprintf("%s(%s)", m.ToolCalls[i].Name, m.ToolCalls[i].Arguments)
		block("calls: ", &call)
	}
	if name != "" { // nothing was written
		fmt.Fprintf(b, "%-*s(empty)\n", indent, name)
	}
}

// bounded is the beginning of a text and how many characters it leaves out.
func bounded(s string) (shown string, left int) {
	n, lines := 0, 1
	for i, r := range s {
		if r == '\n' {
			lines++
		}
		if n == maxShown || lines > maxShownLine {
			return s[:i], utf8.RuneCountInString(s[i:])
		}
		n++
	}
	return s, 0
}

func entryOfRow(r *datasets.Row) entry {
	return entry{
		title: compact(r.Domain+" / "+r.Effort, "teacher "+r.Teacher, label("verdict ", r.Verdict), score(r.Score), tokens(r.CompletionTokens)),
		facts: [][2]string{{"sample", r.SampleID}, {"images", imagesFact(r.Images)}, {"meta", text(r.Meta)}},

		messages: r.Messages,
	}
}

func entryOfCandidate(c *datasets.Candidate) entry {
	state := "not accepted"
	switch {
	case c.Selected:
		state = "in the dataset"
	case c.Accepted:
		state = "accepted"
	}
	var verdicts []string
	for _, v := range c.Verdicts {
		verdicts = append(verdicts, strings.TrimSpace(v.Verifier+": "+v.Verdict+" "+v.Reason))
	}
	e := entry{
		title: compact(c.Domain+" / "+c.Effort, "teacher "+c.Teacher, label("verdict ", c.Verdict), score(c.Score), tokens(c.CompletionTokens), state),
		facts: [][2]string{
			{"sample", c.SampleID}, {"rejected", strings.Join(c.RejectReasons, ", ")}, {"left out", text(c.Unselected)}, {"verdicts", strings.Join(verdicts, "; ")},
			{"extracted", text(c.Extracted)}, {"gold", text(c.Gold)}, {"finish", text(c.FinishReason)},
			{"flags", strings.Join(c.Flags, ", ")}, {"error", strings.TrimSpace(text(c.Error) + " " + text(c.ErrorText))},
		},
		messages: c.Messages,
	}
	if c.CostMicros != nil {
		e.facts = append(e.facts, [2]string{"cost", money(*c.CostMicros)})
	}
	return e
}

func entryOfPrompt(p *datasets.PromptRow) entry {
	status := p.Status
	if p.StatusOf != nil {
		status += " of " + *p.StatusOf
	}
	copies := ""
	if p.Copies > 1 {
		copies = fmt.Sprintf("%d source rows are this prompt", p.Copies)
	}
	return entry{
		title: compact(p.Domain+" / "+p.Effort, "split "+p.Split, status),
		facts: [][2]string{
			{"prompt", p.PromptID}, {"route", routeInWords(p)}, {"gold", text(p.Gold)},
			{"passed", passedOf(p)}, {"agreed", agreedOn(p)}, {"flags", strings.Join(p.Flags, ", ")}, {"cluster", clusterFact(p)}, {"holds", contaminantsFact(p.ContaminatedBy)}, {"images", imagesFact(p.Images)}, {"source", p.Source}, {"copies", copies}, {"meta", text(p.Meta)},
		},
		messages: p.Messages,
	}
}

// compact leaves empty texts out.
func compact(parts ...string) []string {
	out := parts[:0]
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func label(name string, s *string) string {
	if s == nil {
		return ""
	}
	return name + *s
}

func score(v *float64) string {
	if v == nil {
		return ""
	}
	return fmt.Sprintf("score %.3g", *v)
}

func tokens(n *int64) string {
	if n == nil {
		return ""
	}
	return grouped(*n) + " tokens"
}
