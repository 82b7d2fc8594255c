package verify

import (
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// CombineVersion changes whenever the same verdicts could combine differently.
const CombineVersion = "1"

// How the verdicts of several verifiers become one.
const (
	// All passes where all pass; fails where one fails; else it is unknown.
	All = "all"
	// Any passes where one passes; fails where all fail; else it is unknown.
	Any = "any"
	// First is the first verdict, in order, that is not unknown; unknown where
	// there is none.
	First = "first"
	// Weighted adds up what each part is worth (see Part.Weight) and passes from
	// PassAt on. A part that is unknown may be worth anything: where the others
	// decide, they do; else it is unknown.
	Weighted = "weighted"
)

// CombineKinds lists them.
func CombineKinds() []string { return []string{All, Any, First, Weighted} }

// A Rule says how parts combine.
type Rule struct {
	Kind   string  // one of CombineKinds
	PassAt float64 // of Weighted: the least share of the weights, 0 to 1
}

// A Part is what one verifier, or a group of them, said of an answer.
type Part struct {
	// Verdict of the part; of no use while it is Open.
	Verdict datasets.Verdict
	// Open tells that the part has not been asked yet, because that costs
	// something.
	Open bool
	// Weight is what the part counts for under Weighted, above 0. A part that
	// passes is worth all of it and one that fails nothing, unless it gives a
	// score: that is worth its place between Low and High, or between 0 and 1
	// where High is not above Low.
	Weight    float64
	Low, High float64
}

// A Combined is what the parts say together.
type Combined struct {
	// Verdict, score and extracted answer; Verdict.Verdict is "" where there are
	// no parts. Verifier is the rule's kind.
	datasets.Verdict
	// Next is the part to ask next, which is open; -1 where no part that is open
	// would change the verdict. Until it is asked, the verdict is unknown.
	Next int
}

// Combine gives the verdict of the parts, in their order. Of open parts it asks
// for as few as it takes: the first one that may still decide.
//
// The extracted answer and the score are the deciding part's under Any and
// First; under All the first extracted answer and the last score that a part
// gives; under Weighted the first extracted answer, and as the score the share
// of the weights, which is left out while a part is unknown.
func (r Rule) Combine(parts []Part) Combined {
	if len(parts) == 0 {
		return Combined{Next: -1}
	}
	var out Combined
	switch r.Kind {
	case Any:
		out = combineAny(parts)
	case First:
		out = combineFirst(parts)
	case Weighted:
		out = r.combineWeighted(parts)
	default:
		out = combineAll(parts)
	}
	out.Verifier, out.Version = r.Kind, CombineVersion
	return out
}

// undecided is a combination for which a part must be asked first.
func undecided(next int) Combined {
	return Combined{Verdict: datasets.Verdict{Verdict: datasets.Unknown, Reason: "not asked"}, Next: next}
}

func combined(verdict, reason string, extracted *string, score *float64) Combined {
	return Combined{Verdict: datasets.Verdict{Verdict: verdict, Reason: reason, Extracted: extracted, Score: score}, Next: -1}
}

// decided is a combination that one part decides.
func decided(p *Part) Combined {
	v := &p.Verdict
	return combined(v.Verdict, because(v), v.Extracted, v.Score)
}

func because(v *datasets.Verdict) string {
	return fmt.Sprintf("%s: %s", v.Verifier, v.Verdict)
}

// gathered is the first extracted answer and the last score of parts.
func gathered(parts []Part) (extracted *string, score *float64) {
	for i := range parts {
		if parts[i].Open {
			continue
		}
		v := &parts[i].Verdict
		if extracted == nil {
			extracted = v.Extracted
		}
		if v.Score != nil {
			score = v.Score
		}
	}
	return extracted, score
}

// firstWith is the first part with a verdict, or -1; firstOpen the first open one.
func firstWith(parts []Part, verdict string) int {
	for i := range parts {
		if !parts[i].Open && parts[i].Verdict.Verdict == verdict {
			return i
		}
	}
	return -1
}

func firstOpen(parts []Part) int {
	for i := range parts {
		if parts[i].Open {
			return i
		}
	}
	return -1
}

func combineAll(parts []Part) Combined {
	extracted, score := gathered(parts)
	if i := firstWith(parts, datasets.Fail); i >= 0 {
		return combined(datasets.Fail, because(&parts[i].Verdict), extracted, score)
	}
	if i := firstOpen(parts); i >= 0 {
		return undecided(i)
	}
	if i := firstWith(parts, datasets.Unknown); i >= 0 {
		return combined(datasets.Unknown, because(&parts[i].Verdict), extracted, score)
	}
	return combined(datasets.Pass, "all pass", extracted, score)
}

func combineAny(parts []Part) Combined {
	if i := firstWith(parts, datasets.Pass); i >= 0 {
		return decided(&parts[i])
	}
	if i := firstOpen(parts); i >= 0 {
		return undecided(i)
	}
	extracted, score := gathered(parts)
	if i := firstWith(parts, datasets.Unknown); i >= 0 {
		return combined(datasets.Unknown, because(&parts[i].Verdict), extracted, score)
	}
	return combined(datasets.Fail, "none passes", extracted, score)
}

func combineFirst(parts []Part) Combined {
	for i := range parts {
		if parts[i].Open {
			return undecided(i)
		}
		if parts[i].Verdict.Verdict != datasets.Unknown {
			return decided(&parts[i])
		}
	}
	extracted, score := gathered(parts)
	return combined(datasets.Unknown, "none knows", extracted, score)
}

func (r Rule) combineWeighted(parts []Part) Combined {
	var sum, least, most float64
	for i := range parts {
		p := &parts[i]
		sum += p.Weight
		worth, known := p.worth()
		switch {
		case known:
			least += p.Weight * worth
			most += p.Weight * worth
		default:
			most += p.Weight
		}
	}
	if sum <= 0 {
		return combined(datasets.Unknown, "no weights", nil, nil)
	}
	least, most = least/sum, most/sum
	extracted, _ := gathered(parts)
	// Shares are sums of fractions: a last bit decides nothing.
	const slack = 1e-9
	if most+slack < r.PassAt {
		return combined(datasets.Fail, r.share(least, most), extracted, shareScore(least, most))
	}
	if i := firstOpen(parts); i >= 0 {
		return undecided(i)
	}
	verdict := datasets.Unknown
	if least+slack >= r.PassAt {
		verdict = datasets.Pass
	}
	return combined(verdict, r.share(least, most), extracted, shareScore(least, most))
}

func (r Rule) share(least, most float64) string {
	if least == most {
		return fmt.Sprintf("%.4g of at least %.4g", least, r.PassAt)
	}
	return fmt.Sprintf("%.4g to %.4g of at least %.4g", least, most, r.PassAt)
}

func shareScore(least, most float64) *float64 {
	if least != most {
		return nil
	}
	return &least
}

// worth is what a part is worth, 0 to 1, and whether that is known.
func (p *Part) worth() (float64, bool) {
	switch v := &p.Verdict; {
	case p.Open || v.Verdict == datasets.Unknown:
		return 0, false
	case v.Score != nil && p.High > p.Low:
		return clamp((*v.Score - p.Low) / (p.High - p.Low)), true
	case v.Score != nil:
		return clamp(*v.Score), true
	case v.Verdict == datasets.Pass:
		return 1, true
	}
	return 0, true
}

func clamp(x float64) float64 {
	if !(x > 0) { // NaN too
		return 0
	}
	return min(x, 1)
}
