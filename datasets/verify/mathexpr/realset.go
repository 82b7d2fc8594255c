package mathexpr

import "slices"

// A bound is one end of a span: a number, or an infinity where sign is not 0.
type bound struct {
	at       expr
	infinite int  // -1 or 1
	open     bool // the number itself is not in
}

// A span is what lies between two bounds; a point has one number as both.
type span struct{ lo, hi bound }

// A realSet is a set of real numbers as spans in ascending order that neither
// overlap nor touch.
type realSet []span

var allReals = realSet{{bound{infinite: -1, open: true}, bound{infinite: 1, open: true}}}

// compareBounds orders two numbers or infinities.
func (c *calculus) compareBounds(a, b bound) (int, error) {
	if a.infinite != 0 || b.infinite != 0 {
		return a.infinite - b.infinite, nil
	}
	d, err := c.sub(a.at, b.at)
	if err != nil {
		return 0, err
	}
	return c.sign(d)
}

// unite joins spans into a set.
func (c *calculus) unite(spans []span) (realSet, error) {
	var fault error
	compare := func(a, b bound) int {
		n, err := c.compareBounds(a, b)
		if err != nil {
			fault = err
		}
		return n
	}
	spans = slices.Clone(spans)
	slices.SortStableFunc(spans, func(a, b span) int {
		if n := compare(a.lo, b.lo); n != 0 {
			return n
		}
		switch {
		case a.lo.open == b.lo.open:
			return 0
		case b.lo.open:
			return -1
		}
		return 1
	})
	var out realSet
	for _, s := range spans {
		n := compare(s.lo, s.hi)
		if n > 0 || n == 0 && (s.lo.open || s.hi.open) {
			continue // nothing is in it
		}
		if len(out) > 0 {
			last := &out[len(out)-1]
			n := compare(last.hi, s.lo)
			if n > 0 || n == 0 && !(last.hi.open && s.lo.open) {
				if n := compare(s.hi, last.hi); n > 0 || n == 0 && !s.hi.open {
					last.hi = s.hi
				}
				continue
			}
		}
		out = append(out, s)
	}
	return out, fault
}

// complement is what is not in the set.
func complement(s realSet) []span {
	var out []span
	lo := bound{infinite: -1, open: true}
	for _, x := range s {
		hi := x.lo
		hi.open = !hi.open || hi.infinite != 0
		if hi.infinite >= 0 {
			out = append(out, span{lo, hi})
		}
		lo = x.hi
		lo.open = !lo.open || lo.infinite != 0
		if lo.infinite > 0 {
			return out
		}
	}
	return append(out, span{lo, bound{infinite: 1, open: true}})
}

func (c *calculus) intersect(a, b realSet) (realSet, error) {
	outside, err := c.unite(append(complement(a), complement(b)...))
	if err != nil {
		return nil, err
	}
	return c.unite(complement(outside))
}

// setOf is the set of real numbers that a value is. Its error is errNoSign for
// what is none, or has ends that cannot be ordered.
func (c *calculus) setOf(v *Value) (realSet, error) {
	switch v.kind {
	case kindNamed:
		return c.setOf(v.items[0])
	case kindTuple:
		return c.intervalOf(v)
	case kindNumber:
		b, err := c.boundOf(v)
		if err != nil {
			return nil, err
		}
		return realSet{{b, b}}, nil
	case kindSet, kindList:
		var spans []span
		for _, item := range v.items {
			b, err := c.boundOf(item)
			if err != nil || b.infinite != 0 {
				return nil, errNoSign
			}
			spans = append(spans, span{b, b})
		}
		return c.unite(spans)
	case kindRelation:
		return c.solve(v)
	case kindUnion:
		return c.unionOf(v)
	}
	return nil, errNoSign
}

func (c *calculus) intervalOf(v *Value) (realSet, error) {
	if len(v.items) != 2 || v.open != "(" && v.open != "[" || v.close != ")" && v.close != "]" {
		return nil, errNoSign
	}
	lo, err := c.boundOf(v.items[0])
	if err != nil {
		return nil, err
	}
	hi, err := c.boundOf(v.items[1])
	if err != nil {
		return nil, err
	}
	if n, err := c.compareBounds(lo, hi); err != nil || n >= 0 {
		return nil, errNoSign // (2, 1) is a pair, not an interval without numbers
	}
	lo.open = v.open == "(" || lo.infinite != 0
	hi.open = v.close == ")" || hi.infinite != 0
	return c.unite([]span{{lo, hi}})
}

func (c *calculus) boundOf(v *Value) (bound, error) {
	switch {
	case v.kind == kindInfinity:
		return bound{infinite: v.sign}, nil
	case !v.bare():
		return bound{}, errNoSign
	}
	e, err := c.eval(v.expr)
	return bound{at: e}, err
}

func (c *calculus) unionOf(v *Value) (realSet, error) {
	out, err := c.setOf(v.items[0])
	if err != nil {
		return nil, err
	}
	for i, symbol := range v.symbols {
		next, err := c.setOf(v.items[i+1])
		if err != nil {
			return nil, err
		}
		switch symbol {
		case "cup":
			out, err = c.unite(append(out, next...))
		case "cap":
			out, err = c.intersect(out, next)
		case "setminus":
			var rest realSet
			if rest, err = c.unite(complement(next)); err == nil {
				out, err = c.intersect(out, rest)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
