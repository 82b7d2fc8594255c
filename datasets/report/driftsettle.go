package report

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// lengths compares lengths in pairs.
type lengths struct {
	pairs, longer, shorter int64
	before, now            float64
}

// add counts a pair of which both are known.
func (l *lengths) add(before, now *int64) {
	if before == nil || now == nil {
		return
	}
	l.pairs++
	l.before += float64(*before)
	l.now += float64(*now)
	l.longer += count(*now > *before)
	l.shorter += count(*now < *before)
}

// test gives both means and the p value of the sign test, which is the same sum
// as McNemar's; nil over nothing.
func (l *lengths) test() (before, now, p *float64) {
	if l.pairs == 0 {
		return nil, nil, nil
	}
	return ref(l.before / float64(l.pairs)), ref(l.now / float64(l.pairs)), ref(stats.McNemar(l.longer, l.shorter))
}

// countsReasoning tells whether the endpoint counted the reasoning of any pair.
// Where it did, tokens are compared: what it shows may be a summary.
func countsReasoning(pairs []DriftPair) bool {
	for _, p := range pairs {
		if p.Before != nil && p.After != nil && p.Before.Reasoning != nil && p.After.Reasoning != nil {
			return true
		}
	}
	return false
}

// SettleDrift adjusts the p values of the probes of one build by Holm over all
// of their tests, one family, and says anew what changed: the more teachers are
// probed, the more would seem to change by chance alone.
func SettleDrift(list []Drift) {
	var p []float64
	var adjusted []**float64
	for i := range list {
		d := &list[i]
		for _, test := range []struct{ p, holm **float64 }{{&d.PassP, &d.PassHolm}, {&d.LengthP, &d.LengthHolm}, {&d.ReasoningP, &d.ReasoningHolm}} {
			if *test.p != nil {
				p, adjusted = append(p, **test.p), append(adjusted, test.holm)
			}
		}
	}
	for i, v := range stats.Holm(p) {
		*adjusted[i] = &v
	}
	for i := range list {
		list[i].Family = len(p)
		list[i].judge()
	}
}

// judge says what changed. A fingerprint that changed is told and no proof:
// endpoints change theirs with every restart.
func (d *Drift) judge() {
	d.Changed, d.Why = false, []string{}
	say := func(format string, args ...any) {
		d.Changed, d.Why = true, append(d.Why, fmt.Sprintf(format, args...))
	}
	for _, m := range d.Models {
		if m.Before != m.Now {
			say("%d answers are of model %s, the first ones of %s", m.Pairs, m.Now, m.Before)
		}
	}
	shown := func(p *float64) bool { return p != nil && *p < driftLevel }
	if shown(d.PassHolm) {
		say("it passes %s %% where it passed %s %% (p = %.2g)", percent(d.PassNow.Value), percent(d.PassBefore.Value), *d.PassHolm)
	}
	if shown(d.LengthHolm) {
		say("its answers have %.0f tokens where they had %.0f (%d longer, %d shorter, p = %.2g)", *d.TokensNow, *d.TokensBefore, d.Longer, d.Shorter, *d.LengthHolm)
	}
	if shown(d.ReasoningHolm) {
		say("its reasoning has %.0f %s where it had %.0f (%d longer, %d shorter, p = %.2g)", *d.ReasoningNow, d.reasoningWords(), *d.ReasoningBefore, d.ThinksLonger, d.ThinksShorter, *d.ReasoningHolm)
	}
	d.TooFew = d.tooFew()
}

// tooFew tells whether not even pairs that all changed in one direction would
// have shown a change.
func (d *Drift) tooFew() bool {
	return !d.Changed && math.Ldexp(float64(max(1, d.Family)), 1-d.Pairs) >= driftLevel
}

// finding says what a probe showed.
func (d *Drift) finding() string {
	switch {
	case d.Changed:
		return "it changed"
	case d.TooFew:
		return "too few prompts to show a change"
	}
	return "no change shown"
}

func (d *Drift) reasoningWords() string { return strings.ReplaceAll(d.ReasoningUnit, "_", " ") }

// adjustedOr is the adjusted p value; the plain one in reports of before there
// were adjusted ones.
func adjustedOr(holm, p *float64) *float64 {
	if holm != nil {
		return holm
	}
	return p
}

// Line says in one line what a probe showed.
func (d *Drift) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, probe %d of %s: %d of %d prompts answered both times", name(d.Teacher), d.Probe, d.At.Format(time.DateOnly), d.Pairs, d.Asked)
	if p := adjustedOr(d.PassHolm, d.PassP); d.PassBefore != nil && d.PassNow != nil && p != nil {
		fmt.Fprintf(&b, "; passed %s %%, now %s %% (%d worse, %d better, p = %.2g)", percent(d.PassBefore.Value), percent(d.PassNow.Value), d.Worse, d.Better, *p)
	}
	if p := adjustedOr(d.LengthHolm, d.LengthP); d.TokensBefore != nil && d.TokensNow != nil && p != nil {
		fmt.Fprintf(&b, "; %.0f tokens, now %.0f (p = %.2g)", *d.TokensBefore, *d.TokensNow, *p)
	}
	if p := adjustedOr(d.ReasoningHolm, d.ReasoningP); d.ReasoningBefore != nil && d.ReasoningNow != nil && p != nil {
		fmt.Fprintf(&b, "; %.0f %s of reasoning, now %.0f (p = %.2g)", *d.ReasoningBefore, clean(d.reasoningWords()), *d.ReasoningNow, *p)
	}
	if n, of := changedNames(d.Models); n > 0 {
		fmt.Fprintf(&b, "; another model answers in %d of %d", n, of)
	}
	if n, of := changedNames(d.Fingerprints); n > 0 {
		fmt.Fprintf(&b, "; another fingerprint in %d of %d", n, of)
	}
	if d.Changed {
		b.WriteString("; IT CHANGED")
	} else {
		b.WriteString("; " + d.finding())
	}
	return b.String()
}

func changedNames(names []DriftName) (changed, of int64) {
	for _, n := range names {
		of += n.Pairs
		if n.Before != n.Now || n.Before == Other {
			changed += n.Pairs
		}
	}
	return changed, of
}

// driftHead and driftRow are the table of probes on a page and in Markdown.
var driftHead = []string{"teacher", "probe", "finding", "both answered", "pass %", "p", "tokens", "p", "reasoning", "p", "other model", "other fingerprint"}

func (d *Drift) row() []string {
	row := []string{name(d.Teacher), fmt.Sprintf("%d, %s", d.Probe, d.At.Format(time.DateOnly)), d.finding(), fmt.Sprintf("%d of %d", d.Pairs, d.Asked), "-", "-", "-", "-", "-", "-", "-", "-"}
	if d.PassBefore != nil && d.PassNow != nil {
		row[4], row[5] = percent(d.PassBefore.Value)+" → "+percent(d.PassNow.Value), pValue(adjustedOr(d.PassHolm, d.PassP))
	}
	if d.TokensBefore != nil && d.TokensNow != nil {
		row[6], row[7] = fmt.Sprintf("%.0f → %.0f", *d.TokensBefore, *d.TokensNow), pValue(adjustedOr(d.LengthHolm, d.LengthP))
	}
	if d.ReasoningBefore != nil && d.ReasoningNow != nil {
		row[8], row[9] = fmt.Sprintf("%.0f → %.0f", *d.ReasoningBefore, *d.ReasoningNow), pValue(adjustedOr(d.ReasoningHolm, d.ReasoningP))
	}
	if n, of := changedNames(d.Models); of > 0 {
		row[10] = fmt.Sprintf("%d of %d", n, of)
	}
	if n, of := changedNames(d.Fingerprints); of > 0 {
		row[11] = fmt.Sprintf("%d of %d", n, of)
	}
	return row
}

// driftLines writes what the report's probes showed; nothing where there were
// none. Lines are broken between words where they are wider than width.
func (r *Report) driftLines(w io.Writer, width int) error {
	for i := range r.Drift {
		lead := "\n"
		if i > 0 {
			lead = ""
		}
		if _, err := io.WriteString(w, lead+wrapped("drift of "+r.Drift[i].Line(), width)+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// driftNote says how changes are found.
func driftNote(list []Drift) string {
	return fmt.Sprintf("Drift: a fixed sample of prompts was asked once more, and the answers are compared in pairs with the first ones, of which the versions before were made; they enter no table. Verdicts by McNemar's exact test, lengths of answers and of reasoning by the sign test, all two-sided and adjusted by Holm over the %d tests of this build's probes; a change is said where the adjusted p < %g, or where another model answered. That no change is shown is no proof that there is none.", list[0].Family, driftLevel)
}

// drift writes the probes as a table, and why a change is said.
func (m *markdown) drift(list []Drift) {
	var rows [][]string
	for i := range list {
		rows = append(rows, list[i].row())
	}
	m.table(3, driftHead, rows)
	m.list(driftReasons(list))
}

// driftReasons say what changed, a line a reason.
func driftReasons(list []Drift) []string {
	var out []string
	for i := range list {
		for _, why := range list[i].Why {
			out = append(out, name(list[i].Teacher)+": "+clean(why))
		}
	}
	return out
}
