package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// methods says by what the rows were checked and chosen, and what the mixture
// of a version left out.
func (d *description) methods() {
	for _, kind := range []string{catalog.MethodPromptFilter, catalog.MethodVerifier, catalog.MethodFilter, catalog.MethodPolicy, catalog.MethodPairs, catalog.MethodMix} {
		var parts []string
		for _, m := range d.manifest.Methods {
			if m.Kind != kind {
				continue
			}
			part := m.Name + " v" + m.Version
			if options := onOneLine(m.Options); options != "" {
				part += " " + clip(options, maxFact)
			}
			if m.When != "" {
				part += " when " + clip(m.When, maxFact)
			}
			parts = append(parts, part)
		}
		name := map[string]string{catalog.MethodPromptFilter: "prompts by", catalog.MethodVerifier: "checked by", catalog.MethodFilter: "filtered by", catalog.MethodPolicy: "merged by", catalog.MethodPairs: "paired by", catalog.MethodMix: "mixed by"}[kind]
		d.line(name, "%s", strings.Join(parts, "; "))
	}
	if d.report != nil && d.report.Mix != nil {
		for _, line := range d.report.Mix.Lines() {
			d.line("mixture", "%s", strings.TrimPrefix(line, "Mixture: "))
		}
	}
}

// onOneLine is JSON on a line: a manifest is indented, and escapes the signs of
// expressions.
func onOneLine(text json.RawMessage) string {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	var v any
	if in.Decode(&v) != nil {
		return ""
	}
	var line bytes.Buffer
	out := json.NewEncoder(&line)
	out.SetEscapeHTML(false)
	if out.Encode(v) != nil {
		return ""
	}
	return strings.TrimSpace(line.String())
}

// entryOfPair shows the prompt with the better answer, then the worse one.
func entryOfPair(p *datasets.Pair) entry {
	margin := ""
	if p.Margin != nil {
		margin = fmt.Sprintf("margin %.3g", *p.Margin)
	}
	cross := ""
	if p.CrossTeacher {
		cross = "of two teachers"
	}
	side := func(teacher string, verdict *string, points *float64) string {
		return strings.Join(compact(teacher, text(verdict), score(points)), "  ")
	}
	e := entry{
		title: compact(p.Domain+" / "+p.Effort, margin, cross),
		facts: [][2]string{
			{"chosen", side(p.ChosenTeacher, p.ChosenVerdict, p.ChosenScore)},
			{"rejected", side(p.RejectedTeacher, p.RejectedVerdict, p.RejectedScore)},
			{"images", imagesFact(p.Images)},
		},
	}
	e.messages = append(e.messages, p.Prompt...)
	e.messages = append(append(e.messages, sideOf(p.Chosen, "chosen")...), sideOf(p.Rejected, "rejected")...)
	return e
}

// sideOf are the messages of one side of a pair, whose answers are called by it.
func sideOf(messages []chat.Message, side string) []chat.Message {
	out := slices.Clone(messages)
	for i := range out {
		if out[i].Role == chat.RoleAssistant {
			out[i].Role = side
		}
	}
	return out
}

// passedOf says how hard a task is.
func passedOf(p *datasets.PromptRow) string {
	if p.Judged == nil || p.Passed == nil {
		return ""
	}
	return fmt.Sprintf("%d of %d judged answers", *p.Passed, *p.Judged)
}

// agreedOn says what the teachers agreed on.
func agreedOn(p *datasets.PromptRow) string {
	if p.LabelVotes == nil || p.LabelShare == nil || p.LabelMargin == nil {
		return ""
	}
	label := "nothing"
	if p.Label != nil {
		label = *p.Label
	}
	return fmt.Sprintf("%s: %.0f %% of %d votes, a lead of %d", label, 100**p.LabelShare, *p.LabelVotes, *p.LabelMargin)
}

// summarizeChoice says what became of accepted answers that are no rows, and
// what the pairs and the mixture brought.
func summarizeChoice(w io.Writer, r *activities.BuildResult) {
	if len(r.Unselected) > 0 {
		fmt.Fprintf(w, "  accepted and not chosen: %s\n", printable(reasons(r.Unselected)))
	}
	if r.Pairs > 0 {
		fmt.Fprintf(w, "  %s preference pairs\n", grouped(r.Pairs))
	}
	if r.Mix != nil {
		for _, line := range r.Mix.Lines() {
			fmt.Fprintf(w, "  %s\n", printable(line))
		}
	}
}
