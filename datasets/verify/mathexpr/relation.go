package mathexpr

// joinRelations joins inequalities that "or" or "and" stands between. It is nil
// where something else is among them.
func joinRelations(items []*Value, or bool) *Value {
	v := &Value{kind: kindUnion, items: items}
	for i, item := range items {
		if item.kind != kindRelation {
			return nil
		}
		if i > 0 {
			symbol := "cap"
			if or {
				symbol = "cup"
			}
			v.symbols = append(v.symbols, symbol)
		}
	}
	return v
}

// solve is the set of an inequality's solutions, where every part of it is
// linear in one and the same unknown, or in its absolute value.
func (c *calculus) solve(v *Value) (realSet, error) {
	out := allReals
	unknown := -1
	for i, symbol := range v.symbols {
		part, err := c.solveOne(v.sides[i], v.sides[i+1], symbol, &unknown)
		if err != nil {
			return nil, err
		}
		if out, err = c.intersect(out, part); err != nil {
			return nil, err
		}
	}
	if unknown >= 0 {
		c.solved = append(c.solved, unknown)
	}
	return out, nil
}

func isInfinity(n *node) bool {
	if n.op == opNeg {
		n = n.args[0]
	}
	return n.op == opCall && n.name == "infinity"
}

var flipped = map[string]string{"<": ">", ">": "<", "<=": ">=", ">=": "<=", "!=": "!=", "=": "="}

func (c *calculus) solveOne(left, right *node, symbol string, unknown *int) (realSet, error) {
	switch {
	case isInfinity(left):
		left, right, symbol = right, left, flipped[symbol]
		fallthrough
	case isInfinity(right):
		if isInfinity(left) || symbol == "" || symbol == "=" || (right.op == opNeg) != (symbol == ">" || symbol == ">=") {
			return nil, errNoSign
		}
		return allReals, nil // x < ∞
	case left.op == opAbs && right.constant():
		return c.solveAbs(left.args[0], right, symbol, unknown)
	case right.op == opAbs && left.constant():
		return c.solveAbs(right.args[0], left, flipped[symbol], unknown)
	}
	d, err := c.difference(left, right)
	if err != nil {
		return nil, err
	}
	if _, ok := d.den.rational(); !ok {
		return nil, errNoSign
	}
	at := -1
	for i := range d.num.atoms() {
		if a := &c.atoms[i]; a.kind == atomVariable || a.kind == atomCall {
			if at >= 0 {
				return nil, errNoSign
			}
			at = i
		} else if len(a.needs) > 0 && a.kind != atomCall || a.kind == atomI {
			return nil, errNoSign
		}
	}
	if at < 0 || d.num.degree(at) != 1 || *unknown >= 0 && *unknown != at {
		return nil, errNoSign
	}
	*unknown = at
	slope := expr{d.num.coefficient(at, 1), constantPoly(one)}
	sign, err := c.sign(slope)
	if err != nil || sign == 0 {
		return nil, errNoSign
	}
	x, err := c.div(neg(expr{d.num.coefficient(at, 0), constantPoly(one)}), slope)
	if err != nil {
		return nil, err
	}
	if sign < 0 {
		symbol = flipped[symbol]
	}
	b := bound{at: x}
	end := bound{at: x, open: true}
	least, most := bound{infinite: -1, open: true}, bound{infinite: 1, open: true}
	switch symbol {
	case "<":
		return realSet{{least, end}}, nil
	case "<=":
		return realSet{{least, b}}, nil
	case ">":
		return realSet{{end, most}}, nil
	case ">=":
		return realSet{{b, most}}, nil
	case "!=":
		return realSet{{least, end}, {end, most}}, nil
	case "=":
		return realSet{{b, b}}, nil
	}
	return nil, errNoSign
}

// solveAbs solves |u| < r: −r < u < r, and |u| > r: u < −r or u > r.
func (c *calculus) solveAbs(u, r *node, symbol string, unknown *int) (realSet, error) {
	upper, err := c.solveOne(u, r, symbol, unknown)
	if err != nil {
		return nil, err
	}
	lower, err := c.solveOne(with(opNeg, u), r, symbol, unknown)
	if err != nil {
		return nil, err
	}
	if e, err := c.eval(r); err != nil {
		return nil, err
	} else if sign, err := c.sign(e); err != nil || sign < 0 {
		return nil, errNoSign
	}
	if symbol == "<" || symbol == "<=" || symbol == "!=" {
		return c.intersect(upper, lower)
	}
	return c.unite(append(upper, lower...))
}

// meetsRelation compares equations and inequalities. A relation keeps its
// solutions when its sides are multiplied by one number, and a negative one
// turns an inequality around.
func (m *meeting) meetsRelation(gold, answer *Value) Judgement {
	if len(gold.symbols) == len(answer.symbols) {
		if j := m.sameRelations(gold, answer); j.Verdict != Unknown {
			return j
		}
	}
	return m.meetsSets(gold, answer)
}

// sameRelations compares part by part, in this order or the other.
func (m *meeting) sameRelations(gold, answer *Value) Judgement {
	n := len(gold.symbols)
	backwards := true
	for i := range n {
		backwards = backwards && flipped[gold.symbols[i]] == answer.symbols[n-1-i]
	}
	forwards := judgeEqual
	for i := range n {
		forwards = worse(forwards, m.sameRelation(gold.sides[i], gold.sides[i+1], gold.symbols[i], answer.sides[i], answer.sides[i+1], answer.symbols[i]))
	}
	if forwards == judgeEqual || !backwards || n == 1 {
		return forwards
	}
	turned := judgeEqual
	for i := range n {
		k := n - 1 - i
		turned = worse(turned, m.sameRelation(gold.sides[i], gold.sides[i+1], gold.symbols[i], answer.sides[k+1], answer.sides[k], flipped[answer.symbols[k]]))
	}
	if turned == judgeEqual {
		return turned
	}
	return judgeUndecided
}

func (m *meeting) sameRelation(goldLeft, goldRight *node, goldSymbol string, left, right *node, symbol string) Judgement {
	if isInfinity(goldLeft) || isInfinity(goldRight) || isInfinity(left) || isInfinity(right) {
		return judgeUndecided
	}
	g, err := m.difference(goldLeft, goldRight)
	if err != nil {
		return m.fault(err)
	}
	a, err := m.difference(left, right)
	if err != nil {
		return m.fault(err)
	}
	if len(g.num) == 0 || len(a.num) == 0 {
		return judgeUndecided
	}
	// g and a have the same solutions if g = k·a for a number k that is not 0.
	k, ok, err := m.factorBetween(g, a)
	switch {
	case err != nil:
		return m.fault(err)
	case ok && k > 0 && goldSymbol == symbol, ok && k < 0 && flipped[symbol] == goldSymbol:
		return judgeEqual
	case ok:
		return judgeDiffers
	}
	if goldSymbol == "=" && symbol == "=" && m.linear(g) && m.linear(a) {
		return judgeDiffers
	}
	return judgeUndecided
}

// factorBetween finds the sign of a constant k with g = k·a, if there is one.
func (c *calculus) factorBetween(g, a expr) (sign int, ok bool, err error) {
	first := g.num.monomials()[0]
	for _, m := range g.num.monomials() {
		if len(m) > len(first) {
			first = m
		}
	}
	other, shared := a.num[first]
	if !shared {
		return 0, false, nil
	}
	ratio := rationalExpr(newRat().Quo(g.num[first], other))
	scaled, err := c.mul(a, ratio)
	if err != nil {
		return 0, false, err
	}
	d, err := c.sub(g, scaled)
	if err != nil {
		return 0, false, err
	}
	z, err := c.isZero(d)
	if err != nil || z != yes {
		return 0, false, err
	}
	r, _ := ratio.rational()
	return r.Sign(), true, nil
}

// linear tells whether an expression is a polynomial of the first degree with
// rational coefficients.
func (c *calculus) linear(e expr) bool {
	if d, ok := e.den.rational(); !ok || d.Sign() == 0 {
		return false
	}
	for m := range e.num {
		if m == "" {
			continue
		}
		at, exponent := atomOf(m)
		if exponent != 1 || c.atoms[at].kind != atomVariable {
			return false
		}
	}
	return true
}
