package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/spell"
	"github.com/stillhouse-data/stillhouse/teachers"
)

func init() { register(probeCommand) }

func probeCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "probe RECIPE [TEACHER...]",
		Short: "Ask each teacher a few cheap questions and say what its endpoint can do",
		Long: `Probe sends each teacher of a recipe, or those that are named, about eight
short requests, which cost a cent or two of an expensive model. It says whether
the endpoint is reachable and takes the key, which model answered, how answers
stream, where reasoning and token counts come, whether the token cap is kept,
and whether seeds, logprobs, tools and images work. Where that is other than
what the program assumes, it says what to write as the teacher's profile.

It needs no store and no Temporal server, publishes nothing and keeps no answer;
it does not count against a budget. It exits with 5 where a teacher's key,
account, model or address must be changed, and with 1 where one cannot be
reached.`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.probe(cmd.Context(), args[0], args[1:])
		},
	}
}

// probeText bounds what an endpoint's words take of the screen.
const probeText = 300

func (a *app) probe(ctx context.Context, path string, ids []string) error {
	r, err := a.readRecipe(path)
	if err != nil {
		return err
	}
	if err := checkProbed(r, ids); err != nil {
		return err
	}
	p, err := activities.NewProbe(r, ids, a.keyring(false))
	if err != nil {
		return err
	}
	if p.Teachers() == 0 {
		return usage("%s: all its teachers are recorded; there is nobody to probe", path)
	}
	a.say("%s", printable(beforeProbe(p)))
	report := p.Run(ctx, func(t *teachers.ProbeResult) {
		a.say("probed %s: %s, %d requests, %s", oneLine(t.Teacher), t.State, t.Requests, probeCost(t))
	})
	if a.json {
		err = a.printJSON(report)
	} else {
		err = printProbe(a.out, report)
	}
	if err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return probeExit(report)
}

// checkProbed refuses teachers that the recipe does not have or that cannot be
// asked.
func checkProbed(r *recipe.Recipe, ids []string) error {
	for _, id := range ids {
		t := r.Teacher(id)
		if t == nil {
			var known []string
			nearest, least := "", len(id)/2+1
			for i := range r.Teachers {
				known = append(known, r.Teachers[i].ID)
				if d := spell.Distance(id, r.Teachers[i].ID); d < least {
					nearest, least = r.Teachers[i].ID, d
				}
			}
			if nearest != "" {
				return usage("%s has no teacher %q; did you mean %q?", r.File, id, nearest)
			}
			return usage("%s has no teacher %q; it has %s", r.File, id, strings.Join(known, ", "))
		}
		if t.API == recipe.APIRecorded {
			return usage("teacher %s is recorded; there is nobody to probe", id)
		}
	}
	return nil
}

func beforeProbe(p *activities.Probe) string {
	usd, unpriced := p.MostUSD()
	text := fmt.Sprintf("probing %d teacher(s) with about 8 requests each", p.Teachers())
	if unpriced < p.Teachers() {
		text += fmt.Sprintf(": at most %s", money(int64(usd*1e6)))
	}
	if unpriced > 0 {
		text += fmt.Sprintf("; %d of them without a price, about 1,500 tokens each", unpriced)
	}
	return text
}

func probeCost(t *teachers.ProbeResult) string {
	if !t.Priced {
		return "no price"
	}
	return money(int64(t.CostUSD*1e6 + 0.5))
}

// probeExit is how a probe ends.
func probeExit(report *activities.ProbeReport) error {
	code := exitDone
	for _, t := range report.Teachers {
		switch t.State {
		case teachers.ProbeUnusable:
			code = worstOf(code, exitTeacher)
		case teachers.ProbeUnreachable, teachers.ProbeFailed:
			code = worstOf(code, exitFailed)
		}
	}
	if code == exitDone {
		return nil
	}
	return &codedError{code: code}
}

// printProbe shows what was found: a line for each teacher, then what there is
// to say about some.
func printProbe(w io.Writer, report *activities.ProbeReport) error {
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "teacher\tstate\tanswered by\tstream\treasoning\tusage\tcap\tseed\tlogprobs\ttools\timages\tcontext\tfirst text\twhole\tcost")
	for _, t := range report.Teachers {
		cells := []string{t.Teacher, t.State, dash(t.ModelAnswered), yesNo(t.Streaming), "-", dash(t.UsagePlace), "-", "-", "-", "-", "-", "-", "-", "-", probeCost(t)}
		if t.State == teachers.ProbeOK {
			cells[4] = dash(t.ReasoningField)
			cells[6] = t.Cap
			if t.Cap == teachers.AbilityYes {
				cells[6] = t.CapField
			}
			cells[7], cells[8], cells[9], cells[10] = ability(t.Seed), ability(t.Logprobs), ability(t.Tools), ability(t.Images)
			if t.TopLogprobs != nil && *t.TopLogprobs > 0 {
				cells[8] = fmt.Sprintf("top %d", *t.TopLogprobs)
			}
			if t.ContextLength != nil {
				cells[11] = grouped(*t.ContextLength)
			}
			cells[12], cells[13] = seconds(t.FirstTextS), seconds(t.LatencyS)
		}
		for i := range cells {
			cells[i] = brief(cells[i], 40)
		}
		fmt.Fprintln(tw, strings.Join(cells, "\t"))
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	for _, t := range report.Teachers {
		aboutProbed(&b, t)
	}
	fmt.Fprintf(&b, "\nIt cost %s of at most %s.\n", money(int64(report.CostUSD*1e6+0.5)), money(int64(report.MostUSD*1e6+0.5)))
	_, err := io.WriteString(w, b.String())
	return err
}

// aboutProbed says what is wrong with a teacher, what to know, and what to
// write into the recipe.
func aboutProbed(w io.Writer, t *teachers.ProbeResult) {
	var lines []string
	if t.State != teachers.ProbeOK {
		lines = append(lines, t.State+": "+t.Error)
	}
	lines = append(lines, t.Notes...)
	if t.Profile != nil {
		lines = append(lines, "write into the recipe: profile: "+flowYAML(t.Profile))
	}
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", oneLine(t.Teacher))
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\n", brief(line, probeText*2))
	}
}

// brief is untrusted text as a cell or a line, cut to so many characters.
func brief(s string, most int) string {
	s = oneLine(s)
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}

// flowYAML is a suggestion as it stands in a recipe: {key: value, …}. Its
// values are words, numbers and truth values.
func flowYAML(p *teachers.ProbeProfile) string {
	text, err := json.Marshal(p)
	var members map[string]any
	if err != nil || json.Unmarshal(text, &members) != nil {
		return "{}"
	}
	var parts []string
	for _, name := range sortedKeys(members) {
		parts = append(parts, fmt.Sprintf("%s: %v", name, members[name]))
	}
	if i := slices.IndexFunc(parts, func(s string) bool { return strings.HasPrefix(s, "base:") }); i > 0 {
		base := parts[i]
		parts = slices.Insert(slices.Delete(parts, i, i+1), 0, base)
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

func ability(s string) string {
	switch s {
	case teachers.AbilityUntried:
		return "-"
	case teachers.AbilityUnproven:
		return "?"
	}
	return s
}

func yesNo(b *bool) string {
	switch {
	case b == nil:
		return "-"
	case *b:
		return "yes"
	}
	return "no"
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Millisecond).String()
}
