package recipe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kinds of groups of verifiers.
const (
	GroupAll      = "all"
	GroupAny      = "any"
	GroupFirst    = "first"
	GroupWeighted = "weighted"
)

// maxGroups is how deep groups may stand in each other.
const maxGroups = 2

// Group is the kind of a check that is a group, with its members; "" for a
// single verifier.
func (c *Check) Group() (kind string, members []Check) {
	for _, g := range []struct {
		kind    string
		members []Check
	}{{GroupAll, c.All}, {GroupAny, c.Any}, {GroupFirst, c.First}, {GroupWeighted, c.Weighted}} {
		if g.members != nil {
			return g.kind, g.members
		}
	}
	return "", nil
}

// PassAt is the share of the weights from which a weighted group passes.
func (c *Check) PassAt() (float64, bool) {
	switch v := c.Options["pass_at"].(type) {
	case float64:
		return v, v > 0 && v <= 1
	case int64:
		return float64(v), v == 1
	}
	return 0, false
}

// eachOf visits the verifiers of a list and of the groups in it.
func eachOf(list []Check, path string, visit func(c *Check, at string)) {
	for i := range list {
		c, at := &list[i], indexed(path, i)
		if kind, members := c.Group(); kind != "" {
			eachOf(members, at+"."+kind, visit)
		} else {
			visit(c, at)
		}
	}
}

// groups checks how verifiers are grouped.
func (c *checker) groups() {
	for i := range c.r.Check {
		c.group(&c.r.Check[i], indexed("check", i), "", 0)
	}
}

// group checks one entry of check, or one member of a group of a kind.
func (c *checker) group(ch *Check, path, of string, depth int) {
	var kinds []string
	for _, key := range []string{"verifier", GroupAll, GroupAny, GroupFirst, GroupWeighted} {
		if c.has(path + "." + key) {
			kinds = append(kinds, key)
		}
	}
	if ch.Weight != nil && of != GroupWeighted {
		c.fault(path+".weight", "stands outside of a weighted group", "remove it, or write weighted: [{verifier: …, weight: …}] with pass_at")
	}
	if ch.Weight != nil && *ch.Weight == 0 {
		c.fault(path+".weight", "is 0, so that the member counts for nothing", "raise it, or remove the member")
	}
	if len(kinds) > 1 {
		c.fault(path+"."+kinds[1], "stands beside "+kinds[0], "an entry is one verifier or one group: start a new entry with a dash")
		return
	}
	if len(kinds) == 0 {
		c.fault(path, "names no verifier", "write verifier: …, or a group: all, any, first or weighted")
		return
	}
	kind, members := ch.Group()
	if kind == "" {
		c.verdictWords(ch, path)
		return
	}
	if ch.When.Uses(VerdictWords...) {
		c.fault(path+".when", "looks at the verdict, and the members of the group are what gives one", "use it on a judge or a reward model, which are asked after the others")
	}
	if depth == maxGroups {
		c.fault(path+"."+kind, "is a group in a group in a group", "two levels are the most")
		return
	}
	if len(members) == 0 {
		c.fault(path+"."+kind, "is an empty group", "give it at least one verifier")
	}
	c.groupKeys(ch, path, kind)
	for i := range members {
		c.group(&members[i], indexed(path+"."+kind, i), kind, depth+1)
	}
}

// groupKeys refuses what a group has no use for.
func (c *checker) groupKeys(ch *Check, path, kind string) {
	known := []string{"when"}
	if kind == GroupWeighted {
		known = append(known, "pass_at")
		if _, ok := ch.PassAt(); !ok {
			at := path + ".pass_at"
			if !c.has(at) {
				at = path
			}
			c.fault(at, "a weighted group needs a pass_at above 0 and at most 1", "write the share of the weights from which it passes, such as pass_at: 0.7")
		}
	}
	if c.has(path + ".timeout") {
		c.fault(path+".timeout", "a group has no timeout", "give it to a member")
	}
	for _, key := range slices.Sorted(maps.Keys(ch.Options)) {
		if !slices.Contains(known, key) {
			c.fault(join(path, key), "is no key of a group", fmt.Sprintf("known beside %s: %s", kind, strings.Join(known, ", ")))
		}
	}
}

// verdictWords refuses a condition that looks at a verdict which nobody has
// given yet.
func (c *checker) verdictWords(ch *Check, path string) {
	if !Paid(ch.Verifier) && ch.When.Uses(VerdictWords...) {
		c.fault(path+".when", "looks at the verdict, and "+ch.Verifier+" is one of those that give it", "only judge and reward are asked after the others; to ask one verifier where another does not know, write first: […]")
	}
}
