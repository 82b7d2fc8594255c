package report

import (
	"cmp"
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
	Reasoning   *int64  // tokens of the reasoning; nil where the endpoint does not count them
	Thought     *int64  // code points of the reasoning; nil where it is not shown
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
	Refresh int       `json:"refresh,omitempty" jsonschema:"description=number of the refresh that the first answers are of; 0 where the teacher was not asked anew before"`

	Asked   int `json:"asked" jsonschema:"description=prompts that were asked again"`
	Pairs   int `json:"pairs" jsonschema:"description=prompts that were answered both times; what follows is about these"`
	Failed  int `json:"failed" jsonschema:"description=prompts that were not answered this time"`
	Unknown int `json:"unknown" jsonschema:"description=pairs that the verifier could not judge at least once; they are left out of pass_before and pass_now"`

	PassBefore *Proportion `json:"pass_before,omitempty" jsonschema:"description=of the pairs that were judged both times"`
	PassNow    *Proportion `json:"pass_now,omitempty"`
	Worse      int64       `json:"worse" jsonschema:"description=pairs that passed and now fail"`
	Better     int64       `json:"better" jsonschema:"description=pairs that failed and now pass"`
	PassP      *float64    `json:"pass_p,omitempty" jsonschema:"description=exact McNemar test of worse against better; two-sided"`
	PassHolm   *float64    `json:"pass_p_holm,omitempty" jsonschema:"description=pass_p adjusted over the family"`

	TokensBefore *float64 `json:"tokens_before,omitempty" jsonschema:"description=mean completion tokens"`
	TokensNow    *float64 `json:"tokens_now,omitempty"`
	Longer       int64    `json:"longer" jsonschema:"description=pairs whose answer is longer now"`
	Shorter      int64    `json:"shorter"`
	LengthP      *float64 `json:"length_p,omitempty" jsonschema:"description=exact sign test of longer against shorter; two-sided"`
	LengthHolm   *float64 `json:"length_p_holm,omitempty" jsonschema:"description=length_p adjusted over the family"`

	ReasoningUnit   string   `json:"reasoning_unit,omitempty" jsonschema:"description=what reasoning is measured in: tokens where the endpoint counts them and else code_points of what it shows; absent where neither is known"`
	ReasoningBefore *float64 `json:"reasoning_before,omitempty" jsonschema:"description=mean length of the reasoning; of the pairs where both are known"`
	ReasoningNow    *float64 `json:"reasoning_now,omitempty"`
	ThinksLonger    int64    `json:"thinks_longer,omitempty" jsonschema:"description=pairs whose reasoning is longer now"`
	ThinksShorter   int64    `json:"thinks_shorter,omitempty"`
	ReasoningP      *float64 `json:"reasoning_p,omitempty" jsonschema:"description=exact sign test of thinks_longer against thinks_shorter; two-sided"`
	ReasoningHolm   *float64 `json:"reasoning_p_holm,omitempty" jsonschema:"description=reasoning_p adjusted over the family"`
	Family          int      `json:"family,omitempty" jsonschema:"description=tests of all teachers' probes of the build that Holm's adjustment is over"`

	Models       []DriftName `json:"models" jsonschema:"description=pairs by the models that answered; where both times are known"`
	Fingerprints []DriftName `json:"fingerprints" jsonschema:"description=pairs by the fingerprints of the systems that answered; where both times are known"`

	// TooFew is not set where the models that answered show a change.
	TooFew  bool     `json:"too_few,omitempty" jsonschema:"description=nothing changed more than chance explains and with so few pairs no test could have shown it"`
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
	// driftLevel is below which an adjusted difference is called a change: a
	// probe is repeated.
	driftLevel = 0.01
	// driftNames bounds the names that are told apart.
	driftNames = 20
)

// CompareDrift compares a probe's answers with the first ones.
//
// Verdicts and lengths are compared in pairs, so that it does not matter which
// prompts the probe has: whether as many pairs turned from pass to fail as from
// fail to pass (McNemar's test, exact), and whether as many answers, and as many
// reasonings, became longer as shorter (the sign test, exact; equal lengths are
// left out). All are two-sided and treat the prompts as independent. Their p
// values are adjusted among themselves; [SettleDrift] adjusts them over the
// probes of several teachers. That no change is shown is no proof that there is
// none.
func CompareDrift(teacher string, probe int, at time.Time, pairs []DriftPair) Drift {
	d := Drift{Teacher: teacher, Probe: probe, At: at.UTC(), Asked: len(pairs), Why: []string{}}
	models, fingerprints := map[DriftName]int64{}, map[DriftName]int64{}
	var judged, passedBefore, passedNow int64
	var length, thought lengths
	inTokens := countsReasoning(pairs)
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
		length.add(p.Before.Tokens, p.After.Tokens)
		if inTokens {
			thought.add(p.Before.Reasoning, p.After.Reasoning)
		} else {
			thought.add(p.Before.Thought, p.After.Thought)
		}
		countNames(models, p.Before.Model, p.After.Model)
		countNames(fingerprints, p.Before.Fingerprint, p.After.Fingerprint)
	}
	if judged > 0 {
		d.PassBefore, d.PassNow = proportion(passedBefore, judged), proportion(passedNow, judged)
		d.PassP = ref(stats.McNemar(d.Worse, d.Better))
	}
	d.TokensBefore, d.TokensNow, d.LengthP = length.test()
	d.Longer, d.Shorter = length.longer, length.shorter
	if d.ReasoningBefore, d.ReasoningNow, d.ReasoningP = thought.test(); d.ReasoningP != nil {
		d.ThinksLonger, d.ThinksShorter, d.ReasoningUnit = thought.longer, thought.shorter, "code_points"
		if inTokens {
			d.ReasoningUnit = "tokens"
		}
	}
	d.Models, d.Fingerprints = listNames(models), listNames(fingerprints)
	list := []Drift{d}
	SettleDrift(list)
	return list[0]
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
