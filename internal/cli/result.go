package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/report"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// maxReport bounds a report that is read back for the terminal.
const maxReport = 64 << 20

// printResult prints how a build ended: one JSON object with --json, else a
// summary with the comparison of the teachers.
// priceNote says what the prices are where they are not a recipe's for real.
func (a *app) printResult(r *activities.BuildResult, s *session, priceNote string) error {
	if a.json {
		for _, g := range r.Gates {
			a.warn("%s: nothing was published: %s", printable(r.Dataset), printable(g))
		}
		for _, line := range givenUp(r) {
			a.warn("%s", line)
		}
		return a.printJSON(r)
	}
	var b bytes.Buffer
	summarize(&b, r, priceNote)
	if r.Report != "" {
		if err := printReport(&b, s.bucket, r.Report, a.width()); err != nil {
			return err
		}
	}
	s.places(&b, r)
	_, err := io.WriteString(a.out, printable(b.String()))
	return err
}

// summarize says in words what came of a build.
func summarize(w io.Writer, r *activities.BuildResult, priceNote string) {
	rows := r.Rows["train"] + r.Rows["test"]
	switch {
	case len(r.Gates) > 0:
		fmt.Fprintf(w, "\n%s: nothing was published\n", oneLine(r.Dataset))
		for _, g := range r.Gates {
			fmt.Fprintf(w, "  %s\n", printable(g))
		}
	case r.Unchanged:
		fmt.Fprintf(w, "\n%s@%d is unchanged: nothing new to publish\n", oneLine(r.Dataset), r.Version)
	default:
		fmt.Fprintf(w, "\n%s@%d published: %s rows (%s train, %s test)\n", oneLine(r.Dataset), r.Version,
			grouped(rows), grouped(r.Rows["train"]), grouped(r.Rows["test"]))
	}
	fmt.Fprintf(w, "  %s tasks, %s asks: %s answers new, %s reused, %s failed; %s accepted\n", grouped(r.Tasks), grouped(r.Asks),
		grouped(r.AnswersNew), grouped(r.AnswersReused), grouped(r.Asks-r.AnswersNew-r.AnswersReused), grouped(r.Accepted))
	if r.Filtered != nil {
		fmt.Fprint(w, "  ")
		printFiltered(w, r.Filtered)
		for _, warning := range r.Filtered.Warnings {
			fmt.Fprintf(w, "  note: %s\n", printable(warning))
		}
	}
	if len(r.Rejected) > 0 {
		fmt.Fprintf(w, "  not accepted: %s\n", printable(reasons(r.Rejected)))
	}
	summarizeJudged(w, r)
	summarizeChoice(w, r)
	fmt.Fprintf(w, "  spent %s%s", money(int64(r.CostUSD*1e6)), priceNote)
	if r.UnpricedAsks > 0 {
		fmt.Fprintf(w, ", and %s answers have no price", grouped(r.UnpricedAsks))
	}
	fmt.Fprintf(w, ", in %.1f s\n", r.DurationS)
	if r.Budget != nil {
		fmt.Fprintf(w, "  %s\n", budgetNote(r.Budget))
	}
	summarizeDrift(w, r)
	for _, line := range givenUp(r) {
		fmt.Fprintf(w, "  %s\n", line)
	}
}

// givenUp says which teachers were given up, and why.
func givenUp(r *activities.BuildResult) []string {
	var out []string
	if b := r.Budget; b != nil && len(b.Stopped) > 0 {
		out = append(out, printable(overBudget(r)))
	}
	for _, id := range sortedKeys(r.Stopped) {
		if r.Budget != nil && slices.Contains(r.Budget.Stopped, id) {
			continue
		}
		why := strings.TrimPrefix(r.Stopped[id], "teacher "+id+": ")
		out = append(out, printable(fmt.Sprintf("teacher %s was given up: %s", id, firstLine(why))))
	}
	return out
}

// reasons lists counts, the largest first.
func reasons(counts map[string]int64) string {
	keys := sortedKeys(counts)
	slices.SortStableFunc(keys, func(a, b string) int { return int(counts[b] - counts[a]) })
	const most = 8
	var parts []string
	for i, k := range keys {
		if i == most {
			parts = append(parts, fmt.Sprintf("%d more kinds", len(keys)-most))
			break
		}
		parts = append(parts, fmt.Sprintf("%s %s", k, grouped(counts[k])))
	}
	return strings.Join(parts, ", ")
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// printReport prints a stored comparison as a table.
func printReport(w io.Writer, b objstore.Bucket, key string, width int) error {
	text, _, err := objstore.ReadAll(context.Background(), b, key, maxReport)
	if err != nil {
		return err
	}
	var r report.Report
	if err := json.Unmarshal(text, &r); err != nil {
		return fmt.Errorf("read %s: %w", key, err)
	}
	fmt.Fprintln(w)
	return r.Table(w, width)
}

// places says where everything is.
func (s *session) places(w io.Writer, r *activities.BuildResult) {
	if r.Version == 0 {
		return
	}
	ref := fmt.Sprintf("%s@%d", r.Dataset, r.Version)
	fmt.Fprintln(w)
	if s.app.store != "" {
		fmt.Fprintf(w, "  dataset     %s/datasets/%s/\n", s.bucket, r.Dataset)
	} else {
		fmt.Fprintf(w, "  dataset     %s\n", s.home.Path("store", "stillhouse", "datasets", r.Dataset))
	}
	if r.Report != "" {
		page := strings.TrimSuffix(r.Report, ".json") + ".html"
		if s.app.store != "" {
			fmt.Fprintf(w, "  comparison  %s/%s\n", s.bucket, page)
		} else {
			fmt.Fprintf(w, "  comparison  %s\n", s.home.Path("store", "stillhouse", page))
		}
	}
	self := s.app.self()
	fmt.Fprintf(w, "  look at it  %s show %s   %s head %s   %s verify %s\n", self, ref, self, ref, self, ref)
}

// width is how wide stdout is; 100 where it is no terminal.
func (a *app) width() int {
	if f, ok := a.out.(interface{ Fd() uintptr }); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 40 {
			return w
		}
	}
	return 100
}
