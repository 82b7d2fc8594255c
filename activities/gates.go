package activities

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/merge"
)

// failedGates lists the gates that the build did not pass, in words: which one,
// what there is, what is wanted and how far it is from that.
func (s *seal) failedGates() []string {
	var out []string
	g := s.rt.recipe.Gates
	rows := s.result.Rows["train"] + s.result.Rows["test"]
	switch {
	case rows < int64(g.MinRows):
		out = append(out, tooFew("min_rows", rows, int64(g.MinRows), "rows"))
	case rows == 0:
		out = append(out, s.nothingAccepted())
	}
	for _, d := range slices.Sorted(maps.Keys(g.MinDomainRows)) {
		if n := s.rows[d]; n < int64(g.MinDomainRows[d]) {
			out = append(out, tooFew("min_domain_rows", n, int64(g.MinDomainRows[d]), "rows of domain "+d))
		}
	}
	if s.result.Pairs < int64(g.MinPairs) {
		out = append(out, tooFew("min_pairs", s.result.Pairs, int64(g.MinPairs), "preference pairs"))
	}
	out = append(out, s.failedPassRates()...)
	out = append(out, s.refused.over(g.MaxRejected)...)
	if m := s.result.Mix; m != nil && g.MaxMixShortfall != nil && m.Target > 0 {
		if share := float64(m.Short) / float64(m.Target); share > *g.MaxMixShortfall {
			out = append(out, fmt.Sprintf("max_mix_shortfall: %s of %s rows of the mixture are missing (%s), and at most %s are allowed: %s too many; add prompts, lower mix.total or change its shares",
				grouped(m.Short), grouped(m.Target), percent(share), percent(*g.MaxMixShortfall), percent(share-*g.MaxMixShortfall)))
		}
	}
	if g.AllowDrift != nil && !*g.AllowDrift {
		for _, id := range slices.Sorted(maps.Keys(s.result.Drift)) {
			if d := s.result.Drift[id]; d.Changed {
				out = append(out, fmt.Sprintf("allow_drift: teacher %s changed: %s; ask it anew with --refresh %s or by raising its epoch, or allow it", id, d.Why, id))
			}
		}
		for _, id := range slices.Sorted(maps.Keys(s.standing)) {
			d := s.standing[id]
			out = append(out, fmt.Sprintf("allow_drift: teacher %s changed, as probe %d of %s showed, and was not asked anew since: %s; ask it anew with --refresh %s or by raising its epoch, or allow it",
				id, d.Probe, d.At.Format(time.DateOnly), clipped(strings.Join(d.Why, "; "), resultText), id))
		}
	}
	if g.MaxCostUSD != nil && s.result.CostUSD > *g.MaxCostUSD {
		out = append(out, fmt.Sprintf("max_cost_usd: the build cost $%.2f, and at most $%.2f are wanted: $%.2f too much", s.result.CostUSD, *g.MaxCostUSD, s.result.CostUSD-*g.MaxCostUSD))
	}
	return out
}

// failedPassRates lists the domains that pass too seldom.
func (s *seal) failedPassRates() []string {
	var out []string
	least := s.rt.recipe.Gates.MinPassRate
	for _, d := range slices.Sorted(maps.Keys(least)) {
		p := s.passed[d]
		if p[1] == 0 {
			out = append(out, "min_pass_rate: nothing was judged in domain "+d)
		} else if rate := float64(p[0]) / float64(p[1]); rate < least[d] {
			out = append(out, fmt.Sprintf("min_pass_rate: %s of domain %s pass (%s of %s), and at least %s are wanted: %s too few",
				percent(rate), d, grouped(p[0]), grouped(p[1]), percent(least[d]), percent(least[d]-rate)))
		}
	}
	return out
}

func tooFew(gate string, there, wanted int64, of string) string {
	return fmt.Sprintf("%s: %s %s, and at least %s are wanted: %s too few", gate, grouped(there), of, grouped(wanted), grouped(wanted-there))
}

// rejections count answers by reject reason, for the gates on them.
type rejections struct {
	answers, rejected int64
	// by counts an answer once for each of its reasons and for what stands
	// before their colons.
	by map[string]int64
}

// anyReason is the word for all reasons together.
const anyReason = "any"

// mostReasons bounds the reasons that are told apart; an endpoint's words are
// in some of them.
const mostReasons = 1000

func (r *rejections) add(reasons []string) {
	r.answers++
	if len(reasons) == 0 {
		return
	}
	r.rejected++
	if r.by == nil {
		r.by = map[string]int64{}
	}
	names := make([]string, 0, 2*len(reasons))
	for _, reason := range reasons {
		names = append(names, reason)
		if kind, _, ok := strings.Cut(reason, ":"); ok {
			names = append(names, kind)
		}
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if _, known := r.by[name]; known || len(r.by) < mostReasons {
			r.by[strings.Clone(name)]++
		}
	}
}

// over lists the reasons that too many answers have.
func (r *rejections) over(most map[string]float64) []string {
	var out []string
	for _, reason := range slices.Sorted(maps.Keys(most)) {
		n, what := r.by[reason], "reason "+reason
		if reason == anyReason {
			n, what = r.rejected, "a reject reason"
		}
		if r.answers == 0 || float64(n)/float64(r.answers) <= most[reason] {
			continue
		}
		share := float64(n) / float64(r.answers)
		text := fmt.Sprintf("max_rejected: %s of %s answers have %s (%s), and at most %s are allowed: %s too many",
			grouped(n), grouped(r.answers), what, percent(share), percent(most[reason]), percent(share-most[reason]))
		if reason == anyReason {
			text += "; " + r.commonest()
		}
		out = append(out, text)
	}
	return out
}

// commonest names the reasons that most answers have.
func (r *rejections) commonest() string {
	names := slices.SortedFunc(maps.Keys(r.by), func(a, b string) int { return cmp.Or(cmp.Compare(r.by[b], r.by[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, name := range names {
		if len(parts) == 3 {
			break
		}
		if kinds := name + ":"; !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, kinds) }) {
			parts = append(parts, fmt.Sprintf("%s %s", name, grouped(r.by[name])))
		}
	}
	return "the commonest: " + strings.Join(parts, ", ")
}

// percent is a share in per cent, with enough digits that what is little does
// not look like nothing.
func percent(share float64) string {
	if share != 0 && math.Abs(share) < 0.0005 {
		return strconv.FormatFloat(100*share, 'g', 2, 64) + " %"
	}
	return strconv.FormatFloat(100*share, 'f', 1, 64) + " %"
}

// grouped writes n with a comma before each three digits.
func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// nothingSelected says what became of all answers that were accepted.
func (s *seal) nothingSelected() string {
	counts := s.result.Unselected
	reasons := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b)) })
	var parts []string
	for _, reason := range reasons {
		parts = append(parts, fmt.Sprintf("%s %s", reason, grouped(counts[reason])))
	}
	text := fmt.Sprintf("of %s accepted answers none became a row: %s; ", grouped(s.result.Accepted), strings.Join(parts, ", "))
	if m := s.result.Mix; m != nil && m.Chosen > 0 {
		return text + "the mixture left nothing: a cap is smaller than the share of one value, or every weight is of what is not there"
	}
	if n := counts[merge.LeftNotJudged]; n > 0 && n == s.result.Accepted {
		return text + "nothing that the judge said of them can be read; give it more tokens, a model that keeps to the form of its last line, or see above why it could not be asked"
	}
	return text + "loosen the merge policy"
}
