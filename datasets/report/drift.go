package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// A DriftSample is what is compared of one answer.
type DriftSample struct {
	Verdict     *string // nil where no verifier applies
	Tokens      *int64  // of the completion
	Model       string  // that answered; "" where the endpoint does not say
	Fingerprint string  // of the system that answered; "" where it does not say
}

// A DriftPair is a prompt's first answer and its answer to a probe; nil is one
// that failed.
type DriftPair struct{ Before, After *DriftSample }

// Drift compares what a teacher answers now with what it answered first, to the
// same prompts: a teacher that was changed behind its name shows here.
type Drift struct {
	Teacher string    `json:"teacher"`
	Probe   int       `json:"probe" jsonschema:"description=number of the probe; counted from 1"`
	At      time.Time `json:"at" jsonschema:"description=when the probe began"`

	Asked   int `json:"asked" jsonschema:"description=prompts that were asked again"`
	Pairs   int `json:"pairs" jsonschema:"description=prompts that were answered both times; what follows is about these"`
	Failed  int `json:"failed" jsonschema:"description=prompts that were not answered this time"`
	Unknown int `json:"unknown" jsonschema:"description=pairs that the verifier could not judge at least once; they are left out of pass_before and pass_now"`

	PassBefore *Proportion `json:"pass_before,omitempty" jsonschema:"description=of the pairs that were judged both times"`
	PassNow    *Proportion `json:"pass_now,omitempty"`
	Worse      int64       `json:"worse" jsonschema:"description=pairs that passed and now fail"`
	Better     int64       `json:"better" jsonschema:"description=pairs that failed and now pass"`
	PassP      *float64    `json:"pass_p,omitempty" jsonschema:"description=exact McNemar test of worse against better; two-sided"`

	TokensBefore *float64 `json:"tokens_before,omitempty" jsonschema:"description=mean completion tokens"`
	TokensNow    *float64 `json:"tokens_now,omitempty"`
	Longer       int64    `json:"longer" jsonschema:"description=pairs whose answer is longer now"`
	Shorter      int64    `json:"shorter"`
	LengthP      *float64 `json:"length_p,omitempty" jsonschema:"description=exact sign test of longer against shorter; two-sided"`

	Models       []DriftName `json:"models" jsonschema:"description=pairs by the models that answered; where both times are known"`
	Fingerprints []DriftName `json:"fingerprints" jsonschema:"description=pairs by the fingerprints of the systems that answered; where both times are known"`

	Changed bool     `json:"changed" jsonschema:"description=something differs more than chance explains; why says what"`
	Why     []string `json:"why"`
}

// A DriftName counts the pairs with a name before and a name now.
type DriftName struct {
	Before string `json:"before"`
	Now    string `json:"now"`
	Pairs  int64  `json:"pairs"`
}

const (
	// driftLevel is below which a difference is called a change: a probe is
	// repeated, and each has two tests.
	driftLevel = 0.01
	// driftNames bounds the names that are told apart.
	driftNames = 20
)

// CompareDrift compares a probe's answers with the first ones.
//
// Verdicts and lengths are compared in pairs, so that it does not matter which
// prompts the probe has: whether as many pairs turned from pass to fail as from
// fail to pass (McNemar's test, exact), and whether as many answers became
// longer as shorter (the sign test, exact; answers of equal length are left
// out). Both are two-sided and treat the prompts as independent. That no change
// is shown is no proof that there is none.
func CompareDrift(teacher string, probe int, at time.Time, pairs []DriftPair) Drift {
	d := Drift{Teacher: teacher, Probe: probe, At: at.UTC(), Asked: len(pairs), Why: []string{}}
	models, fingerprints := map[DriftName]int64{}, map[DriftName]int64{}
	var judged, passedBefore, passedNow, measured int64
	var before, now float64
	for _, p := range pairs {
		if p.After == nil {
			d.Failed++
		}
		if p.Before == nil || p.After == nil {
			continue
		}
		d.Pairs++
		a, b, ok := verdictsOf(p)
		switch {
		case !ok:
			d.Unknown += int(count(p.Before.Verdict != nil || p.After.Verdict != nil))
		default:
			judged++
			passedBefore += count(a)
			passedNow += count(b)
			d.Worse += count(a && !b)
			d.Better += count(b && !a)
		}
		if p.Before.Tokens != nil && p.After.Tokens != nil {
			measured++
			before += float64(*p.Before.Tokens)
			now += float64(*p.After.Tokens)
			d.Longer += count(*p.After.Tokens > *p.Before.Tokens)
			d.Shorter += count(*p.After.Tokens < *p.Before.Tokens)
		}
		countNames(models, p.Before.Model, p.After.Model)
		countNames(fingerprints, p.Before.Fingerprint, p.After.Fingerprint)
	}
	if judged > 0 {
		d.PassBefore, d.PassNow = proportion(passedBefore, judged), proportion(passedNow, judged)
		d.PassP = ref(stats.McNemar(d.Worse, d.Better))
	}
	if measured > 0 {
		d.TokensBefore, d.TokensNow = ref(before/float64(measured)), ref(now/float64(measured))
		d.LengthP = ref(stats.McNemar(d.Longer, d.Shorter)) // the sign test is the same sum
	}
	d.Models, d.Fingerprints = listNames(models), listNames(fingerprints)
	d.judge()
	return d
}

func ref[T any](v T) *T { return &v }

// verdictsOf tells whether each answer of a pair passes; ok where both are
// judged.
func verdictsOf(p DriftPair) (before, after, ok bool) {
	known := func(v *string) bool { return v != nil && (*v == datasets.Pass || *v == datasets.Fail) }
	if !known(p.Before.Verdict) || !known(p.After.Verdict) {
		return false, false, false
	}
	return *p.Before.Verdict == datasets.Pass, *p.After.Verdict == datasets.Pass, true
}

func countNames(names map[DriftName]int64, before, now string) {
	if before == "" || now == "" {
		return
	}
	key := DriftName{Before: before, Now: now}
	if _, known := names[key]; !known && len(names) >= driftNames-1 {
		key = DriftName{Before: Other, Now: Other}
	}
	names[key]++
}

// listNames lists pairs of names, the most frequent first.
func listNames(names map[DriftName]int64) []DriftName {
	out := []DriftName{}
	for key := range maps.Keys(names) {
		key.Pairs = names[key]
		out = append(out, key)
	}
	slices.SortFunc(out, func(a, b DriftName) int {
		return cmp.Or(cmp.Compare(b.Pairs, a.Pairs), cmp.Compare(a.Before, b.Before), cmp.Compare(a.Now, b.Now))
	})
	return out
}

// judge says what changed. A fingerprint that changed is told and no proof:
// endpoints change theirs with every restart.
func (d *Drift) judge() {
	say := func(format string, args ...any) {
		d.Changed, d.Why = true, append(d.Why, fmt.Sprintf(format, args...))
	}
	for _, m := range d.Models {
		if m.Before != m.Now {
			say("%d answers are of model %s, the first ones of %s", m.Pairs, m.Now, m.Before)
		}
	}
	if d.PassP != nil && *d.PassP < driftLevel {
		say("it passes %s %% where it passed %s %% (p = %.2g)", percent(d.PassNow.Value), percent(d.PassBefore.Value), *d.PassP)
	}
	if d.LengthP != nil && *d.LengthP < driftLevel {
		say("its answers have %.0f tokens where they had %.0f (p = %.2g)", *d.TokensNow, *d.TokensBefore, *d.LengthP)
	}
}

// Line says in one line what a probe showed.
func (d *Drift) Line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, probe %d of %s: %d of %d prompts answered both times", name(d.Teacher), d.Probe, d.At.Format(time.DateOnly), d.Pairs, d.Asked)
	if d.PassBefore != nil {
		fmt.Fprintf(&b, "; passed %s %%, now %s %% (%d worse, %d better, p = %.2g)", percent(d.PassBefore.Value), percent(d.PassNow.Value), d.Worse, d.Better, *d.PassP)
	}
	if d.TokensBefore != nil {
		fmt.Fprintf(&b, "; %.0f tokens, now %.0f (p = %.2g)", *d.TokensBefore, *d.TokensNow, *d.LengthP)
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
		b.WriteString("; no change shown")
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

// wrapped breaks a line between words; 0 is no width.
func wrapped(s string, width int) string {
	var b strings.Builder
	at := 0
	for _, word := range strings.Fields(s) {
		n := utf8.RuneCountInString(word)
		switch {
		case at == 0:
		case width > 0 && at+1+n > width:
			b.WriteString("\n  ")
			at = 2
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}
