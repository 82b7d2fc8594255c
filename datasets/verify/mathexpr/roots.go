package mathexpr

import (
	"math/big"
)

// A primePower is one factor of a positive rational. The last one may be a
// product of primes too large to find.
type primePower struct {
	prime    *big.Int
	exponent int
}

// maxPrime is the largest prime that is looked for.
const maxPrime = 2_000

// factor splits a positive rational into prime powers. What is left after the
// primes below maxPrime counts as one prime; if it is none, equal radicals may
// look different, and the proof by [separation] finds them equal.
func (c *calculus) factor(r *big.Rat) ([]primePower, error) {
	var out []primePower
	for _, part := range []struct {
		n    *big.Int
		sign int
	}{{r.Num(), 1}, {r.Denom(), -1}} {
		n := new(big.Int).Set(part.n)
		if err := c.step(maxPrime/16 + n.BitLen()*n.BitLen()/64); err != nil {
			return nil, err
		}
		quotient, rest := new(big.Int), new(big.Int)
		for p := int64(2); p < maxPrime && n.Cmp(big.NewInt(1)) > 0; p++ {
			if n.IsInt64() && p*p > n.Int64() {
				break
			}
			divisor := big.NewInt(p)
			exponent := 0
			for {
				quotient.QuoRem(n, divisor, rest)
				if rest.Sign() != 0 {
					break
				}
				n.Set(quotient)
				exponent++
			}
			if exponent > 0 {
				out = append(out, primePower{divisor, part.sign * exponent})
			}
		}
		if n.Cmp(big.NewInt(1)) > 0 {
			base, exponent := perfectPower(n)
			out = append(out, primePower{base, part.sign * exponent})
		}
	}
	return out, nil
}

// perfectPower writes n as base^exponent with the largest exponent up to 12.
func perfectPower(n *big.Int) (*big.Int, int) {
	if n.BitLen() < 22 {
		return n, 1
	}
	for k := 12; k > 1; k-- {
		if b := integerRoot(n, k); new(big.Int).Exp(b, big.NewInt(int64(k)), nil).Cmp(n) == 0 {
			return b, k
		}
	}
	return n, 1
}

// integerRoot is the whole part of the k-th root of n, which is not negative.
func integerRoot(n *big.Int, k int) *big.Int {
	if n.Sign() == 0 {
		return new(big.Int)
	}
	if k == 2 {
		return new(big.Int).Sqrt(n)
	}
	// Newton's method from above.
	x := new(big.Int).Lsh(big.NewInt(1), uint(n.BitLen()/k+1))
	degree, less := big.NewInt(int64(k)), big.NewInt(int64(k-1))
	for {
		y := new(big.Int).Exp(x, less, nil)
		y.Quo(n, y)
		y.Add(y, new(big.Int).Mul(x, less))
		y.Quo(y, degree)
		if y.Cmp(x) >= 0 {
			return x
		}
		x = y
	}
}

// root is the real k-th root of e, or √|e|·i of a negative e. A root of a
// product is split where that holds for real numbers: rational factors and
// factors that are known to be positive stand alone.
func (c *calculus) root(e expr, k int) (expr, error) {
	if len(e.num) == 0 {
		return e, nil
	}
	sign, err := c.sign(e)
	switch {
	case err != nil && err != errNoSign:
		return expr{}, err
	case err == nil && sign < 0 && k%2 == 1:
		r, err := c.root(neg(e), k)
		return neg(r), err
	case err == nil && sign < 0 && k == 2:
		r, err := c.root(neg(e), k)
		if err != nil {
			return expr{}, err
		}
		i, err := c.atomExpr(atom{kind: atomI}, 1)
		if err != nil {
			return expr{}, err
		}
		return c.mul(i, r)
	case err == nil && sign < 0:
		return expr{}, ErrUnreadable
	}
	if r, ok := e.rational(); ok {
		return c.rationalRoot(r, k)
	}
	content := new(big.Rat).Quo(contentOf(e.num), contentOf(e.den))
	out, err := c.rationalRoot(content, k)
	if err != nil {
		return expr{}, err
	}
	e = expr{scalePoly(e.num, new(big.Rat).Inv(contentOf(e.num))), scalePoly(e.den, new(big.Rat).Inv(contentOf(e.den)))}
	rest, err := c.primitiveRoot(e, k)
	if err != nil {
		return expr{}, err
	}
	return c.mul(out, rest)
}

// contentOf is the positive rational that leaves whole coefficients without a
// common divisor.
func contentOf(p poly) *big.Rat {
	num, den := new(big.Int), big.NewInt(1)
	for _, a := range p {
		num.GCD(nil, nil, num, new(big.Int).Abs(a.Num()))
		common := new(big.Int).GCD(nil, nil, den, a.Denom())
		den.Mul(den, new(big.Int).Quo(a.Denom(), common))
	}
	return new(big.Rat).SetFrac(num, den)
}

func (c *calculus) rationalRoot(r *big.Rat, k int) (expr, error) {
	primes, err := c.factor(r)
	if err != nil {
		return expr{}, err
	}
	out := rationalExpr(one)
	for _, p := range primes {
		whole, rest := p.exponent/k, p.exponent%k
		if rest < 0 {
			whole, rest = whole-1, rest+k
		}
		base := rationalExpr(new(big.Rat).SetInt(p.prime))
		f, err := c.pow(base, whole)
		if err != nil {
			return expr{}, err
		}
		if out, err = c.mul(out, f); err != nil {
			return expr{}, err
		}
		if rest == 0 {
			continue
		}
		g := gcd(rest, k)
		if f, err = c.atomExpr(atom{kind: atomRoot, degree: k / g, arg: base}, rest/g); err != nil {
			return expr{}, err
		}
		if out, err = c.mul(out, f); err != nil {
			return expr{}, err
		}
	}
	return out, nil
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// primitiveRoot is the root of what has no rational factor.
func (c *calculus) primitiveRoot(e expr, k int) (expr, error) {
	d, ok := e.den.rational()
	if !ok || d.Cmp(one) != 0 || len(e.num) != 1 {
		return c.atomExpr(atom{kind: atomRoot, degree: k, arg: e}, 1)
	}
	m := e.num.monomials()[0]
	if e.num[m].Sign() < 0 {
		return c.atomExpr(atom{kind: atomRoot, degree: k, arg: e}, 1)
	}
	out, rest := rationalExpr(one), monomial("")
	for i := 0; i < len(m); i += 3 {
		at, exponent := m.at(i)
		if !c.positive(at) {
			rest += m[i : i+3]
			continue
		}
		f, err := c.atomRoot(at, exponent, k)
		if err != nil {
			return expr{}, err
		}
		if out, err = c.mul(out, f); err != nil {
			return expr{}, err
		}
	}
	switch {
	case rest == "":
		return out, nil
	case len(rest) == 3:
		if at, exponent := rest.at(0); k%2 == 1 || gcd(exponent, k) == 1 {
			f, err := c.atomRoot(at, exponent, k)
			if err != nil {
				return expr{}, err
			}
			return c.mul(out, f)
		}
	}
	f, err := c.atomExpr(atom{kind: atomRoot, degree: k, arg: expr{poly{rest: one}, constantPoly(one)}}, 1)
	if err != nil {
		return expr{}, err
	}
	return c.mul(out, f)
}

// atomRoot is the k-th root of an atom's power. A root of a root is one root.
func (c *calculus) atomRoot(at, exponent, k int) (expr, error) {
	g := gcd(exponent, k)
	exponent, k = exponent/g, k/g
	base := expr{poly{power1(at, 1): one}, constantPoly(one)}
	if k == 1 {
		return c.pow(base, exponent)
	}
	if a := c.atoms[at]; a.kind == atomRoot && a.degree*k <= 100 && (a.degree%2 == 0 || c.positive(at)) {
		return c.atomExpr(atom{kind: atomRoot, degree: a.degree * k, arg: a.arg}, exponent)
	}
	return c.atomExpr(atom{kind: atomRoot, degree: k, arg: base}, exponent)
}

// positive tells whether an atom is a constant that is known to be positive, or
// e to any power.
func (c *calculus) positive(at int) bool {
	a := &c.atoms[at]
	switch a.kind {
	case atomPi, atomE:
		return true
	case atomPower:
		return a.name != ""
	case atomRoot, atomFunc:
		sign, err := c.sign(expr{poly{power1(at, 1): one}, constantPoly(one)})
		return err == nil && sign > 0
	}
	return false
}
