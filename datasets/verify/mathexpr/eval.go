package mathexpr

import (
	"math/big"
)

// eval makes an expression of a tree. Its error is ErrTooLarge, or
// ErrUnreadable for what has no value, such as 1/0.
func (c *calculus) eval(n *node) (expr, error) {
	if err := c.step(1); err != nil {
		return expr{}, err
	}
	switch n.op {
	case opNum:
		return rationalExpr(n.num), nil
	case opVar:
		return c.atomExpr(atom{kind: atomVariable, name: n.name}, 1)
	case opPi:
		return c.atomExpr(atom{kind: atomPi}, 1)
	case opE:
		return c.atomExpr(atom{kind: atomE}, 1)
	case opI:
		return c.atomExpr(atom{kind: atomI}, 1)
	case opPow:
		return c.evalPower(n)
	case opMatrix, opPM, opMP:
		return expr{}, ErrUnreadable
	}
	args := make([]expr, len(n.args))
	for i, a := range n.args {
		e, err := c.eval(a)
		if err != nil {
			return expr{}, err
		}
		args[i] = e
	}
	switch n.op {
	case opAdd:
		return c.add(args[0], args[1])
	case opMul:
		return c.mul(args[0], args[1])
	case opDiv:
		return c.div(args[0], args[1])
	case opNeg:
		return neg(args[0]), nil
	case opRoot:
		k := degreeOf(n.num)
		if k == 0 {
			return expr{}, ErrUnreadable
		}
		return c.root(args[0], k)
	case opAbs:
		return c.abs(args[0])
	case opFact:
		return c.factorial(args[0])
	case opBinom:
		return c.binomial(args[0], args[1])
	case opFloor, opCeil:
		return c.rounded(n.op, args[0])
	case opFunc:
		return c.function(n.name, args)
	case opCall:
		return c.atomExpr(atom{kind: atomCall, name: n.name, args: args}, 1)
	}
	return expr{}, ErrUnreadable
}

func (c *calculus) evalPower(n *node) (expr, error) {
	exponent, err := c.eval(n.args[1])
	if err != nil {
		return expr{}, err
	}
	r, fixed := exponent.rational()
	if fixed && (r.Num().BitLen() > 16 || r.Denom().BitLen() > 8) {
		return expr{}, ErrTooLarge // before the base is looked at: 5^(5^(5^5))
	}
	base, err := c.eval(n.args[0])
	if err != nil {
		return expr{}, err
	}
	if !fixed {
		return c.generalPower(base, exponent)
	}
	zero, err := c.isZero(base)
	if err != nil {
		return expr{}, err
	}
	if zero == yes {
		if r.Sign() <= 0 {
			return expr{}, ErrUnreadable
		}
		return base, nil
	}
	p := int(r.Num().Int64())
	if p > maxExponent || p < -maxExponent {
		return expr{}, ErrTooLarge
	}
	if r.IsInt() {
		return c.pow(base, p)
	}
	k := degreeOf(new(big.Rat).SetInt(r.Denom()))
	if k == 0 {
		return expr{}, ErrTooLarge
	}
	of, err := c.root(base, k)
	if err != nil {
		return expr{}, err
	}
	return c.pow(of, p)
}

// generalPower is base^exponent with a variable or an irrational number in the
// exponent. A base that is a positive rational is split into primes and a sum
// in the exponent into a product, so that 2^(x+1) is 2·2^x and 4^x is (2^x)².
func (c *calculus) generalPower(base, exponent expr) (expr, error) {
	type factor struct {
		name  string
		base  *node
		times int
	}
	var factors []factor
	r, rational := base.rational()
	at, single := c.single(base)
	switch {
	case rational && r.Sign() > 0:
		primes, err := c.factor(r)
		if err != nil {
			return expr{}, err
		}
		for _, p := range primes {
			factors = append(factors, factor{p.prime.String(), ratio(new(big.Rat).SetInt(p.prime)), p.exponent})
		}
	case single && c.atoms[at].kind == atomE:
		factors = append(factors, factor{"e", with(opE), 1})
	default:
		return c.atomExpr(atom{kind: atomPower, args: []expr{base, exponent}}, 1)
	}
	_, constantDen := exponent.den.rational()
	out := rationalExpr(one)
	for _, f := range factors {
		for _, m := range exponent.num.monomials() {
			scaled := new(big.Rat).Mul(exponent.num[m], big.NewRat(int64(f.times), 1))
			if scaled.Num().BitLen() > 12 || scaled.Denom().BitLen() > 7 {
				return expr{}, ErrTooLarge
			}
			var e expr
			var err error
			if m == "" && constantDen {
				e, err = c.evalPower(power(f.base, ratio(scaled)))
			} else {
				part, perr := c.normal(expr{poly{m: big.NewRat(1, scaled.Denom().Int64())}, exponent.den})
				if perr != nil {
					return expr{}, perr
				}
				e, err = c.atomExpr(atom{kind: atomPower, name: f.name, arg: part}, int(scaled.Num().Int64()))
			}
			if err != nil {
				return expr{}, err
			}
			if out, err = c.mul(out, e); err != nil {
				return expr{}, err
			}
		}
	}
	return out, nil
}

// single is the atom that an expression is, if it is one.
func (c *calculus) single(e expr) (int, bool) {
	if d, ok := e.den.rational(); !ok || d.Cmp(one) != 0 || len(e.num) != 1 {
		return 0, false
	}
	for m, a := range e.num {
		if len(m) == 3 && a.Cmp(one) == 0 {
			at, exponent := m.at(0)
			return at, exponent == 1
		}
	}
	return 0, false
}

func (c *calculus) abs(e expr) (expr, error) {
	if sign, err := c.sign(e); err == nil {
		if sign < 0 {
			return neg(e), nil
		}
		return e, nil
	} else if err != errNoSign {
		return expr{}, err
	}
	// |−x| is |x|: the first coefficient is positive.
	if ms := e.num.monomials(); len(ms) > 0 && e.num[ms[0]].Sign() < 0 {
		e = neg(e)
	}
	return c.atomExpr(atom{kind: atomAbs, arg: e}, 1)
}

// maxFactorial is the largest number whose factorial is computed: it has 9,003
// bits.
const maxFactorial = 1_000

func (c *calculus) factorial(e expr) (expr, error) {
	r, ok := e.rational()
	if !ok {
		return c.atomExpr(atom{kind: atomCall, name: "!", args: []expr{e}}, 1)
	}
	if !r.IsInt() || r.Sign() < 0 {
		return expr{}, ErrUnreadable
	}
	if r.Num().BitLen() > 16 || r.Num().Int64() > maxFactorial {
		return expr{}, ErrTooLarge
	}
	n := r.Num().Int64()
	return rationalExpr(new(big.Rat).SetInt(new(big.Int).MulRange(1, n))), c.step(int(n))
}

func (c *calculus) binomial(n, k expr) (expr, error) {
	a, ok := n.rational()
	b, also := k.rational()
	if !ok || !also {
		return c.atomExpr(atom{kind: atomCall, name: "binom", args: []expr{n, k}}, 1)
	}
	if !a.IsInt() || !b.IsInt() || a.Sign() < 0 || b.Sign() < 0 {
		return expr{}, ErrUnreadable
	}
	if a.Num().BitLen() > 16 || b.Num().BitLen() > 16 || a.Num().Int64() > 4*maxFactorial {
		return expr{}, ErrTooLarge
	}
	return rationalExpr(new(big.Rat).SetInt(new(big.Int).Binomial(a.Num().Int64(), b.Num().Int64()))), c.step(int(a.Num().Int64()))
}

func (c *calculus) rounded(o op, e expr) (expr, error) {
	r, ok := e.rational()
	if !ok {
		return c.atomExpr(atom{kind: atomCall, name: map[op]string{opFloor: "floor", opCeil: "ceil"}[o], args: []expr{e}}, 1)
	}
	floor, rest := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if o == opCeil && rest.Sign() != 0 {
		floor.Add(floor, big.NewInt(1))
	}
	return rationalExpr(new(big.Rat).SetInt(floor)), nil
}
