package cli

import (
	"fmt"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// entryOfAttempt shows one request: what was asked of whom, what came of it and
// what it cost.
func entryOfAttempt(a *datasets.Attempt) entry {
	number := fmt.Sprintf("attempt %d", a.Number)
	if a.Times > 1 {
		number += fmt.Sprintf(" and %s more alike", grouped(int64(a.Times-1)))
	}
	cost := "not priced"
	switch {
	case a.CostMicros != nil:
		cost = money(*a.CostMicros)
	case !a.Billable:
		cost = "not charged"
	}
	e := entry{
		title: compact("teacher "+a.Teacher, number, label("", a.Error), a.Outcome, cost),
		facts: [][2]string{
			{"sample", a.SampleID}, {"ask", a.AskID}, {"sent", sentAt(a.StartedUS)}, {"status", statusText(a.Status)},
			{"took", millisText(a.LatencyMS)}, {"first token", millisText(a.TTFTMS)},
			{"usage", usageText(a)}, {"price", strings.TrimSpace(text(a.PriceID) + " " + text(a.PriceAsOf))},
			{"batch", text(a.Batch)}, {"said", text(a.ErrorText)},
		},
	}
	if a.PartialContent != nil || a.PartialReasoning != nil {
		e.messages = []chat.Message{{Role: "cut off", Content: a.PartialContent, ReasoningContent: a.PartialReasoning}}
	}
	return e
}

func sentAt(micros *int64) string {
	if micros == nil {
		return ""
	}
	return time.UnixMicro(*micros).UTC().Format("2006-01-02 15:04:05.000 UTC")
}

func statusText(status *int32) string {
	if status == nil {
		return "no response"
	}
	return fmt.Sprint("HTTP ", *status)
}

func millisText(ms *int64) string {
	if ms == nil {
		return ""
	}
	return (time.Duration(*ms) * time.Millisecond).String()
}

func usageText(a *datasets.Attempt) string {
	if a.PromptTokens == nil || a.CompletionTokens == nil {
		return ""
	}
	parts := fmt.Sprintf("%s prompt", grouped(*a.PromptTokens))
	for _, p := range []struct {
		n    *int64
		what string
	}{{a.CachedTokens, "cached"}, {a.CacheWriteTokens, "written to the cache"}} {
		if p.n != nil && *p.n > 0 {
			parts += fmt.Sprintf(" (%s %s)", grouped(*p.n), p.what)
		}
	}
	parts += fmt.Sprintf(", %s completion", grouped(*a.CompletionTokens))
	if a.ReasoningTokens != nil && *a.ReasoningTokens > 0 {
		parts += fmt.Sprintf(" (%s reasoning)", grouped(*a.ReasoningTokens))
	}
	return parts + ", " + text(a.UsageSource)
}

// ledger prints what requests cost that brought no answer, and what was seen in
// the answers. Both are worth a line only where there is any.
func (d *description) ledger() {
	var sent, failed, lost int64
	for i := range d.manifest.Teachers {
		c := &d.manifest.Teachers[i].Counts
		sent, failed, lost = sent+c.Attempts, failed+c.FailedAttempts, lost+c.LostMicros
	}
	if sent > 0 {
		outcome := "all of them answered"
		if failed > 0 {
			outcome = fmt.Sprintf("%s of them brought no answer and may have cost %s", grouped(failed), money(lost))
		}
		d.line("requests", "%s for these answers, %s; head %s --table %s lists them",
			grouped(sent), outcome, d.version.Ref(), datasets.TableAttempts)
	}
	for i := range d.manifest.Teachers {
		t := &d.manifest.Teachers[i]
		if len(t.Counts.Flags) > 0 {
			d.line("flags", "%s: %s", printable(t.ID), flagCounts(&t.Counts))
		}
	}
}

func flagCounts(c *catalog.TeacherCounts) string {
	var parts []string
	for _, flag := range sortedKeys(c.Flags) {
		parts = append(parts, grouped(c.Flags[flag])+" "+printable(flag))
	}
	return strings.Join(parts, ", ")
}
