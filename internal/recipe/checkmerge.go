package recipe

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// A Difficulty bounds the pass rates of tasks: of the answers that every task is
// asked for, the share of those judged that pass.
type Difficulty struct {
	// Least pass rate, 0 where absent; 0.125 leaves out what nearly nobody solves.
	Min float64 `yaml:"min" min:"0" max:"1"`
	// Largest pass rate, 1 where absent; 0.875 leaves out what nearly everybody solves.
	Max *float64 `yaml:"max" min:"0" max:"1"`
}

// passingPolicies choose by verdict, and choosingPolicies choose one answer
// where nobody says how many.
var (
	passingPolicies  = []string{AllPassing, ShortestPassing, CheapestPassing}
	choosingPolicies = []string{BestOf, Pairwise, ShortestPassing, CheapestPassing, OwnerFirst}
)

func (r *Recipe) choosesOne() bool { return slices.Contains(choosingPolicies, r.Policy()) }

// comparesAnswers tells whether the merge policy needs what an answer says and not
// whether it is right, so that verifiers may read answers without a gold.
func (r *Recipe) comparesAnswers() bool {
	return (r.Merge.Policy == Vote || r.Merge.Policy == Agreement) && r.Merge.Accept != "" && r.Merge.Accept != AcceptPass
}

func (c *checker) merge() {
	m := &c.r.Merge
	c.onlyUnder("share", Vote)
	c.onlyUnder("margin", Vote)
	c.onlyUnder("agree", Agreement)
	if m.NearDuplicates != nil && m.AnswerDuplicates == "keep" {
		c.fault("merge.near_duplicates", "stands beside answer_duplicates: keep", "keep one of the two")
	}
	if d := m.Difficulty; d != nil && d.Max != nil && d.Min > *d.Max {
		c.fault("merge.difficulty", fmt.Sprintf("min %g is above max %g", d.Min, *d.Max), "such as {min: 0.125, max: 0.875}")
	}
	c.comparing()
	if m.Policy == CheapestPassing && !slices.ContainsFunc(c.r.Teachers, func(t Teacher) bool { return t.Price != nil }) {
		c.fault("merge.policy", "cheapest_passing needs prices and no teacher has one", "add price: {input: …, output: …} to the teachers, or write policy: shortest_passing")
	}
	if c.r.HasVerifier() {
		return
	}
	if slices.Contains(passingPolicies, m.Policy) {
		c.fault("merge.policy", m.Policy+" needs a verifier and check has none", "add one under check, or write policy: union")
	}
	if m.Accept == AcceptPass || m.Accept == AcceptPassOrUnknown {
		c.fault("merge.accept", "accept "+m.Accept+" needs a verifier and check has none", "add one under check, or write accept: any")
	}
	if m.Difficulty != nil {
		c.fault("merge.difficulty", "a pass rate needs a verifier and check has none", "add one under check, or remove it")
	}
}

// comparing checks the policies that compare answers with each other.
func (c *checker) comparing() {
	m := &c.r.Merge
	if m.Policy == Agreement && m.Agree > len(c.r.Teachers) {
		c.fault("merge.agree", fmt.Sprintf("%d teachers are to agree and there are %d", m.Agree, len(c.r.Teachers)), "lower it")
	}
	if m.Policy == Agreement && m.Agree == 0 && len(c.r.Teachers) < 2 {
		c.fault("merge.policy", "agreement needs two teachers and there is one", "add a teacher, or write policy: vote, which counts its samples")
	}
	known := len(c.r.Check) > 0 && !slices.ContainsFunc(c.r.Check, func(k Check) bool { return !slices.Contains(goldVerifiers, k.Verifier) || k.When != nil })
	if (m.Policy == Vote || m.Policy == Agreement) && known && (m.Accept == "" || m.Accept == AcceptPass) {
		c.fault("merge.policy", m.Policy+" would choose among answers that are known to be right: only those that pass are accepted",
			"add accept: any, which compares all of them; or write policy: all_passing")
	}
}

// onlyUnder refuses an option of another policy.
func (c *checker) onlyUnder(key, policy string) {
	if c.has("merge."+key) && c.r.Policy() != policy {
		c.fault("merge."+key, "has no meaning under policy: "+c.r.Policy(), "remove it, or write policy: "+policy)
	}
}

// PairsSame is the word of pairs.teachers for pairs of one teacher alone.
const PairsSame = "same"

// CapWords are what a cap of the mixture may be of.
func CapWords() []string { return []string{"teacher", "source", "prompt", "domain", "effort"} }

func (c *checker) mix() {
	m := c.r.Mix
	if m == nil {
		return
	}
	if m.By == "" && m.Total == 0 && len(m.Caps) == 0 {
		c.fault("mix", "says nothing", "such as {by: domain, alpha: 0.5} or {total: 100000}")
		return
	}
	var ways []string
	for _, w := range []struct {
		key   string
		given bool
	}{{"alpha", m.Alpha != nil}, {"most", m.Most > 0}, {"weights", c.has("mix.weights")}} {
		if w.given {
			ways = append(ways, w.key)
		}
	}
	for _, w := range ways[min(1, len(ways)):] {
		c.fault("mix."+w, "stands beside "+ways[0], "shares are made in one way: keep one of the two")
	}
	if m.By == "" && len(ways) > 0 {
		c.fault("mix."+ways[0], "there is nothing that the shares are of", "add by: domain, effort, teacher or source")
	}
	c.mixWeights(m)
	for _, key := range sorted(m.Caps) {
		share, at := m.Caps[key], join("mix.caps", key)
		switch {
		case !slices.Contains(CapWords(), key):
			c.fault(at, "unknown cap "+quote(key), didYouMean(key, CapWords()))
		case share == 0:
			c.fault(at, "leaves no row", "write a share above 0")
		case key == "teacher" && share*float64(len(c.r.Teachers)) < 1-1e-9:
			c.fault(at, fmt.Sprintf("%d teachers with at most %g of the rows each cannot make up a dataset", len(c.r.Teachers), share),
				fmt.Sprintf("write %.3g or more", math.Ceil(1000/float64(len(c.r.Teachers)))/1000))
		}
	}
}

// mixWeights checks the names of fixed shares, as far as the recipe knows them.
func (c *checker) mixWeights(m *Mix) {
	if !c.has("mix.weights") {
		return
	}
	sum := 0.0
	for _, w := range m.Weights {
		sum += w
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		c.fault("mix.weights", "give nothing to anything", "such as {math: 2, code: 1}")
		return
	}
	known, all := c.kinds(m.By)
	if !all {
		return
	}
	for _, name := range sorted(m.Weights) {
		if !slices.Contains(known, name) {
			c.fault(join("mix.weights", name), "nothing has "+m.By+" "+quote(name), didYouMean(name, known))
		}
	}
	var missing []string
	for _, name := range known {
		if _, ok := m.Weights[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		c.fault("mix.weights", "no weight for "+m.By+" "+strings.Join(missing, ", "), "add one; 0 leaves its rows out")
	}
}

// kinds are the values of what shares are of, and whether those are all.
func (c *checker) kinds(by string) (names []string, all bool) {
	switch by {
	case "domain", "effort":
		return c.labels(by)
	case "teacher":
		for i := range c.r.Teachers {
			names = append(names, c.r.Teachers[i].ID)
		}
		slices.Sort(names)
		return names, true
	}
	return nil, false // files are found when the build starts
}

// rejectKinds are what stands before the colon of a reject reason. An endpoint's
// words are reasons too, so that only what resembles one of these is refused.
var rejectKinds = []string{
	"any", "verdict", "condition", "truncated", "content_filter", "finish", "error", "empty", "refusal", "identity", "cutoff",
	"assistant", "think", "control_tokens", "repetition", "length", "language", "pii", "expr", "secret_redacted",
}

func (c *checker) pairs() {
	if c.r.Pairs == nil || c.r.HasVerifier() {
		return
	}
	c.fault("pairs", "which answer is better is what a verifier says, and check has none", "add one under check, or remove it")
}

func (c *checker) gates() {
	g := &c.r.Gates
	for reason := range g.MaxRejected {
		kind, _, _ := strings.Cut(reason, ":")
		if best, close := nearest(kind, rejectKinds); close && kind != best {
			c.fault(join("gates.max_rejected", reason), "no answer is rejected as "+quote(reason)+", so the gate would never be missed", "did you mean "+quote(best)+"?")
		}
	}
	if len(g.MinPassRate) > 0 && !c.r.HasVerifier() {
		c.fault("gates.min_pass_rate", "a pass rate needs a verifier and check has none", "add one under check, or remove the gate")
	}
	if domains, all := c.labels("domain"); all {
		for d := range g.MinPassRate {
			c.known(d, domains, join("gates.min_pass_rate", d), "domain")
		}
		for d := range g.MinDomainRows {
			c.known(d, domains, join("gates.min_domain_rows", d), "domain")
		}
	}
	if g.MinPairs > 0 && c.r.Pairs == nil {
		c.fault("gates.min_pairs", "there are no pairs to count", "add pairs: {}, or remove the gate")
	}
	if g.MaxMixShortfall != nil && c.r.Mix == nil {
		c.fault("gates.max_mix_shortfall", "there is no mixture", "add mix: {…}, or remove the gate")
	}
	if g.AllowDrift != nil && !*g.AllowDrift && c.r.Drift == nil {
		c.fault("gates.allow_drift", "nothing is probed", "add drift: {probe: 50}, or remove the gate")
	}
}

func sorted(m map[string]float64) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}
