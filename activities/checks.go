package activities

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// A check is an entry of the recipe's list, or a member of a group in it: one of
// a free verifier, a paid one and a group.
type check struct {
	when     *recipe.When
	verifier verify.Verifier // free: it looks at the answer alone
	paid     paidVerifier
	rule     verify.Rule // of a group
	members  []*check
	options  map[string]any // as the recipe gives them
	weight   float64        // within a weighted group
	id       int            // place among all checks of the recipe, depth first
	below    []*check       // itself and all below it, depth first
}

// A paidVerifier judges by what a model says. It asks nothing itself: a
// verdict's opinions come from whoever carries out the judging.
type paidVerifier interface {
	// Name is what a recipe calls the verifier.
	Name() string
	// Version changes whenever the same opinion could become another verdict.
	Version() string
	// Scale is the range of its scores; 0, 0 where it gives none.
	Scale() (low, high float64)
}

// A want is an opinion without which the verdict of a candidate is not decided.
type want struct {
	check     *check // a paid one
	task      *datasets.Task
	candidate *datasets.Candidate
}

// scale is the range of a check's scores; 0, 0 stands for 0 to 1.
func (k *check) scale() (low, high float64) {
	if k.paid != nil {
		return k.paid.Scale()
	}
	if s, ok := k.verifier.(interface{ Scale() (low, high float64) }); ok {
		return s.Scale()
	}
	return 0, 0
}

// name is what reasons call a check.
func (k *check) name() string {
	switch {
	case k.verifier != nil:
		return k.verifier.Name()
	case k.paid != nil:
		return k.paid.Name()
	}
	return k.rule.Kind
}

// all is a check and all below it, depth first, in the order of their ids.
func (k *check) all() []*check {
	if k.below == nil {
		return []*check{k}
	}
	return k.below
}

// checkMaker makes the checks of a recipe ready.
type checkMaker struct {
	r     *recipe.Recipe
	rt    *runtime
	count int
}

// make makes the check whose members are the recipe's, and counts them all.
func (m *checkMaker) make() (*check, int, error) {
	root := &check{rule: verify.Rule{Kind: verify.All}, id: m.next()}
	for i := range m.r.Check {
		k, err := m.one(&m.r.Check[i], fmt.Sprintf("check[%d]", i))
		if err != nil {
			return nil, 0, err
		}
		root.add(k)
	}
	root.close()
	return root, m.count, nil
}

// add takes a member into a group.
func (k *check) add(m *check) { k.members = append(k.members, m) }

// close ends a group.
func (k *check) close() {
	k.below = []*check{k}
	for _, m := range k.members {
		k.below = slices.Concat(k.below, m.all())
	}
}

func (m *checkMaker) next() int {
	m.count++
	return m.count - 1
}

func (m *checkMaker) one(c *recipe.Check, path string) (*check, error) {
	k := &check{when: c.When, id: m.next(), weight: 1, options: c.Options}
	if c.Weight != nil {
		k.weight = *c.Weight
	}
	if kind, members := c.Group(); kind != "" {
		k.rule.Kind = kind
		k.rule.PassAt, _ = c.PassAt()
		for i := range members {
			member, err := m.one(&members[i], fmt.Sprintf("%s.%s[%d]", path, kind, i))
			if err != nil {
				return nil, err
			}
			k.add(member)
		}
		k.close()
		return k, nil
	}
	if recipe.Paid(c.Verifier) {
		p, err := m.rt.newPaid(c)
		if err != nil {
			return nil, m.r.ErrorAt(path, err.Error(), "")
		}
		k.paid = p
		return k, nil
	}
	v, err := verify.New(c.Verifier, optionsOf(c))
	if err != nil {
		return nil, m.r.ErrorAt(path+optionIn(err, c.Options), err.Error(), "")
	}
	k.verifier = v
	return k, nil
}

// optionIn is the option that an error of a verifier or filter is about, as the
// end of its path in the recipe.
func optionIn(err error, options map[string]any) string {
	for name := range options {
		if strings.Contains(err.Error(), "option "+strconv.Quote(name)) || strings.Contains(err.Error(), "option "+name+":") {
			return "." + name
		}
	}
	return ""
}

// optionsOf are a verifier's options, with the keys that the recipe declares for
// all of them and a verifier that runs code has as its own.
func optionsOf(c *recipe.Check) map[string]any {
	if c.Timeout == 0 || !verify.RunsCode(c.Verifier) && c.Verifier != verify.CommandName {
		return c.Options
	}
	options := maps.Clone(c.Options)
	if options == nil {
		options = map[string]any{}
	}
	options["timeout"] = c.Timeout
	return options
}
