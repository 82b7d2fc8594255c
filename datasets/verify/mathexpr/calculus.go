package mathexpr

import (
	"math/big"
)

// An expr is num/den.
type expr struct{ num, den poly }

func rationalExpr(r *big.Rat) expr { return expr{constantPoly(r), constantPoly(one)} }

// rational is the expression as a number, if it is one.
func (e expr) rational() (*big.Rat, bool) {
	n, ok := e.num.rational()
	if !ok {
		return nil, false
	}
	d, ok := e.den.rational()
	if !ok || d.Sign() == 0 {
		return nil, false
	}
	return new(big.Rat).Quo(n, d), true
}

type atomKind uint8

const (
	atomVariable atomKind = iota // name
	atomRoot                     // atom^degree = arg, the real one that is not negative where arg is positive
	atomI                        // atom² = −1
	atomAbs                      // atom² = arg², |arg|
	atomPi
	atomE
	atomPower // base^arg, with a name that is the base
	atomFunc  // a known function: sin cos ln arctan arcsin
	atomCall  // name(args), of which nothing is known
)

// An atom is what polynomials are made of.
type atom struct {
	kind   atomKind
	name   string
	degree int
	arg    expr
	args   []expr
	needs  map[int]bool // variables that it depends on, by index
	hazy   bool         // it depends on what nobody knows
	// algebraic says that it is a radical of rationals and radicals.
	algebraic bool
	u, l      int // see atomBound; 0 and 0 before it was asked for
}

// A calculus holds the atoms of one comparison and what it may still cost.
type calculus struct {
	atoms []atom
	steps int
	// fuzzy says that two atoms may be the same without being known to be: then
	// nothing is different for certain.
	fuzzy bool
	// solved are the unknowns of the inequalities that were solved.
	solved []int
	cache  map[int]*enclosures
}

func newCalculus() *calculus { return &calculus{} }

// find is the index of an atom that is like a, made if there is none.
func (c *calculus) find(a atom) (int, error) {
	for i := range c.atoms {
		b := &c.atoms[i]
		if a.kind != b.kind || a.name != b.name || a.degree != b.degree || len(a.args) != len(b.args) {
			continue
		}
		same, err := c.sameArguments(a, *b)
		if err != nil {
			return 0, err
		}
		if same == yes {
			return i, nil
		}
		if same == undecided {
			c.fuzzy = true
		}
	}
	if len(c.atoms) >= maxAtoms {
		return 0, ErrTooLarge
	}
	a.needs = make(map[int]bool)
	a.algebraic = a.kind == atomRoot || a.kind == atomAbs
	for _, arg := range append([]expr{a.arg}, a.args...) {
		for _, p := range []poly{arg.num, arg.den} {
			for i := range p.atoms() {
				for j := range c.atoms[i].needs {
					a.needs[j] = true
				}
				a.hazy = a.hazy || c.atoms[i].hazy
				a.algebraic = a.algebraic && c.atoms[i].algebraic
			}
		}
	}
	at := len(c.atoms)
	switch {
	case a.kind == atomVariable:
		a.needs[at] = true
	case a.kind == atomCall, a.kind == atomFunc && a.name == "log": // to the base ten or e, nobody says
		a.needs[at] = true
		a.hazy = true
	}
	c.atoms = append(c.atoms, a)
	return at, nil
}

func (c *calculus) sameArguments(a, b atom) (truth, error) {
	all := yes
	pairs := [][2]expr{{a.arg, b.arg}}
	for i := range a.args {
		pairs = append(pairs, [2]expr{a.args[i], b.args[i]})
	}
	for _, pair := range pairs {
		if pair[0].num == nil {
			continue
		}
		d, err := c.sub(pair[0], pair[1])
		if err != nil {
			return no, err
		}
		z, err := c.isZero(d)
		if err != nil {
			return no, err
		}
		if z == no {
			return no, nil
		}
		if z == undecided {
			all = undecided
		}
	}
	return all, nil
}

// atomExpr is the expression that is one atom to a power, which may be negative.
func (c *calculus) atomExpr(a atom, exponent int) (expr, error) {
	at, err := c.find(a)
	if err != nil {
		return expr{}, err
	}
	if exponent > maxDegree || exponent < -maxDegree {
		return expr{}, ErrTooLarge
	}
	if exponent < 0 {
		return c.normal(expr{constantPoly(one), poly{power1(at, -exponent): one}})
	}
	return c.normal(expr{poly{power1(at, exponent): one}, constantPoly(one)})
}

func (c *calculus) add(a, b expr) (expr, error) {
	if x, ok := a.rational(); ok {
		if y, ok := b.rational(); ok {
			sum := new(big.Rat).Add(x, y)
			return rationalExpr(sum), c.spend(sum)
		}
	}
	if samePoly(a.den, b.den) {
		num, err := c.addPoly(a.num, b.num)
		if err != nil {
			return expr{}, err
		}
		return c.normal(expr{num, a.den})
	}
	left, err := c.mulPoly(a.num, b.den)
	if err != nil {
		return expr{}, err
	}
	right, err := c.mulPoly(b.num, a.den)
	if err != nil {
		return expr{}, err
	}
	num, err := c.addPoly(left, right)
	if err != nil {
		return expr{}, err
	}
	den, err := c.mulPoly(a.den, b.den)
	if err != nil {
		return expr{}, err
	}
	return c.normal(expr{num, den})
}

func samePoly(p, q poly) bool {
	if len(p) != len(q) {
		return false
	}
	for m, a := range p {
		if b, ok := q[m]; !ok || a.Cmp(b) != 0 {
			return false
		}
	}
	return true
}

func neg(a expr) expr { return expr{negPoly(a.num), a.den} }

func (c *calculus) sub(a, b expr) (expr, error) { return c.add(a, neg(b)) }

func (c *calculus) mul(a, b expr) (expr, error) {
	num, err := c.mulPoly(a.num, b.num)
	if err != nil {
		return expr{}, err
	}
	den, err := c.mulPoly(a.den, b.den)
	if err != nil {
		return expr{}, err
	}
	return c.normal(expr{num, den})
}

// div fails where b is zero, or might be.
func (c *calculus) div(a, b expr) (expr, error) {
	z, err := c.isZero(b)
	if err != nil {
		return expr{}, err
	}
	if z != no && !(z == undecided && len(b.num) > 0) {
		return expr{}, ErrUnreadable
	}
	return c.mul(a, expr{b.den, b.num})
}

// pow raises to a whole power. It is too large before it is computed.
func (c *calculus) pow(a expr, n int) (expr, error) {
	if n < 0 {
		z, err := c.isZero(a)
		if err != nil {
			return expr{}, err
		}
		if z != no {
			return expr{}, ErrUnreadable
		}
		a, n = expr{a.den, a.num}, -n
	}
	if r, ok := a.rational(); ok {
		bits := max(r.Num().BitLen(), r.Denom().BitLen()) - 1
		if bits > 0 && n > maxBits/bits {
			return expr{}, ErrTooLarge
		}
		exponent := big.NewInt(int64(n))
		p := new(big.Rat).SetFrac(new(big.Int).Exp(r.Num(), exponent, nil), new(big.Int).Exp(r.Denom(), exponent, nil))
		return rationalExpr(p), c.spend(p)
	}
	num, err := c.powPoly(a.num, n)
	if err != nil {
		return expr{}, err
	}
	den, err := c.powPoly(a.den, n)
	if err != nil {
		return expr{}, err
	}
	return c.normal(expr{num, den})
}

// normal applies the relations of the atoms, makes the denominator's first
// coefficient one, and cancels the atoms that divide both.
func (c *calculus) normal(e expr) (expr, error) {
	for range 64 {
		if err := c.step((len(e.num) + len(e.den)) / 4); err != nil {
			return expr{}, err
		}
		at, up := c.reducible(e)
		if at < 0 {
			return c.cancel(e), nil
		}
		a := &c.atoms[at]
		value := rationalExpr(big.NewRat(-1, 1)) // i²
		degree := 2
		switch a.kind {
		case atomRoot:
			value, degree = a.arg, a.degree
		case atomAbs:
			var err error
			if value, err = c.mul(a.arg, a.arg); err != nil {
				return expr{}, err
			}
		case atomFunc: // cos² = 1 − sin²
			sine, err := c.atomExpr(atom{kind: atomFunc, name: "sin", arg: a.arg}, 2)
			if err != nil {
				return expr{}, err
			}
			if value, err = c.sub(rationalExpr(one), sine); err != nil {
				return expr{}, err
			}
		}
		side, other := e.num, e.den
		if !up {
			side, other = e.den, e.num
		}
		side, times, err := c.replacePowers(side, at, degree, value)
		if err != nil {
			return expr{}, err
		}
		if other, err = c.mulPoly(other, times); err != nil {
			return expr{}, err
		}
		if e = (expr{side, other}); !up {
			e = expr{other, side}
		}
	}
	return expr{}, ErrTooLarge
}

// reducible finds the newest atom that stands in a power that its relation
// replaces, in the numerator (up) or the denominator.
func (c *calculus) reducible(e expr) (at int, up bool) {
	at = -1
	for _, p := range []poly{e.num, e.den} {
		for m := range p {
			for i := 0; i < len(m); i += 3 {
				a, exponent := m.at(i)
				if degree := c.relation(a); degree > 0 && exponent >= degree && a > at {
					at = a
				}
			}
		}
	}
	return at, at >= 0 && e.num.degree(at) >= c.relation(at)
}

// relation is the power of an atom that is something simpler, or 0.
func (c *calculus) relation(at int) int {
	switch a := &c.atoms[at]; {
	case a.kind == atomRoot:
		return a.degree
	case a.kind == atomI, a.kind == atomAbs, a.kind == atomFunc && a.name == "cos":
		return 2
	}
	return 0
}

// replacePowers writes value for atom^degree. The result is to be divided by
// times.
func (c *calculus) replacePowers(p poly, at, degree int, value expr) (out, times poly, err error) {
	most := p.degree(at) / degree
	powers := func(q poly) ([]poly, error) {
		list := []poly{constantPoly(one)}
		for i := 1; i <= most; i++ {
			next, err := c.mulPoly(list[i-1], q)
			if err != nil {
				return nil, err
			}
			list = append(list, next)
		}
		return list, nil
	}
	nums, err := powers(value.num)
	if err != nil {
		return nil, nil, err
	}
	dens, err := powers(value.den)
	if err != nil {
		return nil, nil, err
	}
	out = poly{}
	for _, m := range p.monomials() {
		e := m.of(at)
		rest, err := m.without(at).times(power1(at, e%degree))
		if err != nil {
			return nil, nil, err
		}
		term, err := c.mulPoly(nums[e/degree], dens[most-e/degree])
		if err != nil {
			return nil, nil, err
		}
		if term, err = c.mulPoly(term, poly{rest: p[m]}); err != nil {
			return nil, nil, err
		}
		if out, err = c.addPoly(out, term); err != nil {
			return nil, nil, err
		}
	}
	return out, dens[most], nil
}

// cancel divides numerator and denominator by what all of their terms share.
func (c *calculus) cancel(e expr) expr {
	if len(e.num) == 0 {
		return expr{poly{}, constantPoly(one)}
	}
	if d, ok := e.den.rational(); ok {
		if d.Sign() == 0 || d.Cmp(one) == 0 {
			return e
		}
		return expr{scalePoly(e.num, new(big.Rat).Inv(d)), constantPoly(one)}
	}
	if len(e.den) == 0 {
		return e
	}
	lead := e.den[e.den.monomials()[0]]
	if lead.Cmp(one) != 0 {
		inverse := new(big.Rat).Inv(lead)
		e = expr{scalePoly(e.num, inverse), scalePoly(e.den, inverse)}
	}
	for at := range e.den.atoms() {
		least := maxDegree
		for _, p := range []poly{e.num, e.den} {
			for m := range p {
				least = min(least, m.of(at))
			}
		}
		if least > 0 {
			e = expr{lower(e.num, at, least), lower(e.den, at, least)}
		}
	}
	if samePoly(e.num, e.den) {
		return rationalExpr(one)
	}
	if d, ok := e.den.rational(); ok && d.Cmp(one) != 0 && d.Sign() != 0 {
		return expr{scalePoly(e.num, new(big.Rat).Inv(d)), constantPoly(one)}
	}
	return e
}

func lower(p poly, at, by int) poly {
	out := make(poly, len(p))
	for m, a := range p {
		e := m.of(at)
		rest := m.without(at)
		lowered, _ := rest.times(power1(at, e-by))
		out[lowered] = a
	}
	return out
}
