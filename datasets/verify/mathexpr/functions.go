package mathexpr

import (
	"math/big"
)

// function is a known function's value: exact where the argument allows it,
// else an atom.
func (c *calculus) function(name string, args []expr) (expr, error) {
	switch name {
	case "max", "min", "gcd", "lcm":
		return c.ofNumbers(name, args)
	}
	if len(args) != 1 {
		return expr{}, ErrUnreadable
	}
	switch x := args[0]; name {
	case "sin", "cos", "tan", "cot", "sec", "csc":
		return c.trigonometry(name, x)
	case "ln", "log":
		return c.logarithm(name, x)
	case "arcsin", "arccos", "arctan":
		return c.inverse(name, x)
	case "sinh", "cosh", "tanh":
		return c.hyperbolic(name, x)
	}
	return expr{}, ErrUnreadable
}

func (c *calculus) ofNumbers(name string, args []expr) (expr, error) {
	var best *big.Rat
	for _, a := range args {
		r, ok := a.rational()
		if !ok {
			return c.atomExpr(atom{kind: atomCall, name: name, args: args}, 1)
		}
		switch {
		case best == nil:
			best = r
		case name == "max" && r.Cmp(best) > 0, name == "min" && r.Cmp(best) < 0:
			best = r
		case name == "gcd" || name == "lcm":
			if !r.IsInt() || !best.IsInt() || r.Sign() <= 0 || best.Sign() <= 0 {
				return expr{}, ErrUnreadable
			}
			g := new(big.Int).GCD(nil, nil, best.Num(), r.Num())
			if name == "lcm" {
				g = new(big.Int).Mul(best.Num(), new(big.Int).Quo(r.Num(), g))
			}
			best = new(big.Rat).SetInt(g)
			if err := c.spend(best); err != nil {
				return expr{}, err
			}
		}
	}
	if best == nil {
		return expr{}, ErrUnreadable
	}
	return rationalExpr(best), nil
}

func (c *calculus) trigonometry(name string, x expr) (expr, error) {
	s, k, err := c.sinCos(x)
	if err != nil {
		return expr{}, err
	}
	switch name {
	case "sin":
		return s, nil
	case "cos":
		return k, nil
	case "tan":
		return c.div(s, k)
	case "cot":
		return c.div(k, s)
	case "sec":
		return c.div(rationalExpr(one), k)
	}
	return c.div(rationalExpr(one), s)
}

// maxMultiple is the largest n for which sin(nx) is written in sin x and cos x.
const maxMultiple = 8

// sinCos gives sine and cosine. A sum in the argument is expanded, so that
// identities between multiples and sums of angles are identities between
// polynomials; multiples of π/12 are exact.
func (c *calculus) sinCos(x expr) (sine, cosine expr, err error) {
	sine, cosine = expr{poly{}, constantPoly(one)}, rationalExpr(one)
	if d, ok := x.den.rational(); !ok || d.Cmp(one) != 0 || len(x.num) > 6 {
		return c.angle(x)
	}
	for _, m := range x.num.monomials() {
		a := x.num[m]
		var s, k expr
		if at, exponent := atomOf(m); exponent == 1 && c.atoms[at].kind == atomPi && a.Denom().BitLen() < 5 && 12%a.Denom().Int64() == 0 {
			s, k, err = c.twelfth(a)
		} else {
			s, k, err = c.multiple(m, a)
		}
		if err != nil {
			return
		}
		if sine, cosine, err = c.addAngles(sine, cosine, s, k); err != nil {
			return
		}
	}
	return
}

// atomOf is the only atom of a monomial, with its exponent; 0 if there are more.
func atomOf(m monomial) (at, exponent int) {
	if len(m) != 3 {
		return 0, 0
	}
	return m.at(0)
}

func (c *calculus) addAngles(s, k, s2, k2 expr) (sine, cosine expr, err error) {
	products := [4]expr{}
	for i, pair := range [4][2]expr{{s, k2}, {k, s2}, {k, k2}, {s, s2}} {
		if products[i], err = c.mul(pair[0], pair[1]); err != nil {
			return
		}
	}
	if sine, err = c.add(products[0], products[1]); err != nil {
		return
	}
	cosine, err = c.sub(products[2], products[3])
	return
}

// angle makes atoms of sine and cosine; the sign of the argument comes first.
func (c *calculus) angle(x expr) (sine, cosine expr, err error) {
	negative := false
	if ms := x.num.monomials(); len(ms) > 0 && x.num[ms[0]].Sign() < 0 {
		x, negative = neg(x), true
	}
	if sine, err = c.atomExpr(atom{kind: atomFunc, name: "sin", arg: x}, 1); err != nil {
		return
	}
	if negative {
		sine = neg(sine)
	}
	cosine, err = c.atomExpr(atom{kind: atomFunc, name: "cos", arg: x}, 1)
	return
}

// multiple is sine and cosine of a·m, written in those of m over a's denominator.
func (c *calculus) multiple(m monomial, a *big.Rat) (sine, cosine expr, err error) {
	n := new(big.Int).Abs(a.Num())
	if n.Cmp(big.NewInt(maxMultiple)) > 0 {
		return c.angle(expr{poly{m: a}, constantPoly(one)})
	}
	s, k, err := c.angle(expr{poly{m: new(big.Rat).SetFrac(big.NewInt(1), a.Denom())}, constantPoly(one)})
	if err != nil {
		return
	}
	sine, cosine = s, k
	for range n.Int64() - 1 {
		if sine, cosine, err = c.addAngles(sine, cosine, s, k); err != nil {
			return
		}
	}
	if a.Sign() < 0 {
		sine = neg(sine)
	}
	return
}

// twelfth is sine and cosine of a·π, where 12·a is whole.
func (c *calculus) twelfth(a *big.Rat) (sine, cosine expr, err error) {
	twelfths := new(big.Int).Mul(a.Num(), new(big.Int).Quo(big.NewInt(12), a.Denom()))
	m := new(big.Int).Mod(twelfths, big.NewInt(24)).Int64()
	sine, cosine = expr{poly{}, constantPoly(one)}, rationalExpr(one)
	half := rationalExpr(big.NewRat(1, 2))
	root2, err := c.rationalRoot(big.NewRat(1, 2), 2)
	if err != nil {
		return
	}
	root3, err := c.rationalRoot(big.NewRat(3, 4), 2)
	if err != nil {
		return
	}
	// As few steps of a quarter, a sixth and a twelfth turn of π as there are.
	for m > 0 {
		s, k, step := rationalExpr(one), expr{poly{}, constantPoly(one)}, int64(6)
		switch {
		case m >= 6:
		case m >= 4:
			s, k, step = root3, half, 4
		case m >= 3:
			s, k, step = root2, root2, 3
		case m >= 2:
			s, k, step = half, root3, 2
		default: // π/12 is π/3 − π/4
			if sine, cosine, err = c.addAngles(sine, cosine, root3, half); err == nil {
				sine, cosine, err = c.addAngles(sine, cosine, neg(root2), root2)
			}
			return
		}
		if sine, cosine, err = c.addAngles(sine, cosine, s, k); err != nil {
			return
		}
		m -= step
	}
	return
}

// logarithm splits off the factors that are known to be positive.
func (c *calculus) logarithm(name string, x expr) (expr, error) {
	zero, err := c.isZero(x)
	if err != nil {
		return expr{}, err
	}
	if sign, err := c.sign(x); zero == yes || err == nil && sign < 0 {
		return expr{}, ErrUnreadable
	}
	out := expr{poly{}, constantPoly(one)}
	addLog := func(times int, arg expr) error {
		l, err := c.logarithmOf(name, arg)
		if err != nil {
			return err
		}
		if l, err = c.mul(l, rationalExpr(big.NewRat(int64(times), 1))); err != nil {
			return err
		}
		out, err = c.add(out, l)
		return err
	}
	d, constantDen := x.den.rational()
	if !constantDen || d.Cmp(one) != 0 || len(x.num) != 1 {
		return c.logarithmOf(name, x)
	}
	m := x.num.monomials()[0]
	coefficient := x.num[m]
	if coefficient.Sign() < 0 {
		return c.logarithmOf(name, x)
	}
	primes, err := c.factor(coefficient)
	if err != nil {
		return expr{}, err
	}
	for _, p := range primes {
		if err := addLog(p.exponent, rationalExpr(new(big.Rat).SetInt(p.prime))); err != nil {
			return expr{}, err
		}
	}
	rest := monomial("")
	for i := 0; i < len(m); i += 3 {
		at, exponent := m.at(i)
		if !c.positive(at) {
			rest += m[i : i+3]
			continue
		}
		if err := addLog(exponent, expr{poly{power1(at, 1): one}, constantPoly(one)}); err != nil {
			return expr{}, err
		}
	}
	if rest != "" {
		if err := addLog(1, expr{poly{rest: one}, constantPoly(one)}); err != nil {
			return expr{}, err
		}
	}
	return out, nil
}

// logarithmOf is the logarithm of one factor.
func (c *calculus) logarithmOf(name string, x expr) (expr, error) {
	if at, ok := c.single(x); ok {
		switch a := c.atoms[at]; {
		case a.kind == atomE && name == "ln":
			return rationalExpr(one), nil
		case a.kind == atomPower && a.name == "e" && name == "ln":
			return a.arg, nil
		case a.kind == atomRoot:
			l, err := c.logarithm(name, a.arg)
			if err != nil {
				return expr{}, err
			}
			return c.mul(l, rationalExpr(big.NewRat(1, int64(a.degree))))
		}
	}
	return c.atomExpr(atom{kind: atomFunc, name: name, arg: x}, 1)
}

// inverse knows the angles of 0, ½ and 1.
func (c *calculus) inverse(name string, x expr) (expr, error) {
	pi, err := c.atomExpr(atom{kind: atomPi}, 1)
	if err != nil {
		return expr{}, err
	}
	of := func(r *big.Rat) (expr, error) { return c.mul(pi, rationalExpr(r)) }
	if name == "arccos" {
		s, err := c.inverse("arcsin", x)
		if err != nil {
			return expr{}, err
		}
		right, err := of(big.NewRat(1, 2))
		if err != nil {
			return expr{}, err
		}
		return c.sub(right, s)
	}
	if r, ok := x.rational(); ok {
		if name == "arcsin" && new(big.Rat).Abs(r).Cmp(one) > 0 {
			return expr{}, ErrUnreadable
		}
		sign := int64(r.Sign())
		switch size := new(big.Rat).Abs(r); {
		case sign == 0:
			return x, nil
		case size.Cmp(one) == 0 && name == "arcsin":
			return of(big.NewRat(sign, 2))
		case size.Cmp(one) == 0:
			return of(big.NewRat(sign, 4))
		case size.Cmp(big.NewRat(1, 2)) == 0 && name == "arcsin":
			return of(big.NewRat(sign, 6))
		}
	}
	if ms := x.num.monomials(); len(ms) > 0 && x.num[ms[0]].Sign() < 0 {
		e, err := c.atomExpr(atom{kind: atomFunc, name: name, arg: neg(x)}, 1)
		return neg(e), err
	}
	return c.atomExpr(atom{kind: atomFunc, name: name, arg: x}, 1)
}

// hyperbolic writes the functions in powers of e.
func (c *calculus) hyperbolic(name string, x expr) (expr, error) {
	e, err := c.atomExpr(atom{kind: atomE}, 1)
	if err != nil {
		return expr{}, err
	}
	var p expr
	if r, ok := x.rational(); ok {
		p, err = c.evalPower(power(with(opE), ratio(r)))
	} else {
		p, err = c.generalPower(e, x)
	}
	if err != nil {
		return expr{}, err
	}
	inverse, err := c.div(rationalExpr(one), p)
	if err != nil {
		return expr{}, err
	}
	sum, err := c.add(p, inverse)
	if err != nil {
		return expr{}, err
	}
	difference, err := c.sub(p, inverse)
	if err != nil {
		return expr{}, err
	}
	half := rationalExpr(big.NewRat(1, 2))
	switch name {
	case "sinh":
		return c.mul(difference, half)
	case "cosh":
		return c.mul(sum, half)
	}
	return c.div(difference, sum)
}
