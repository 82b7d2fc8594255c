package mathexpr

import (
	"maps"
	"math/big"
	"slices"
)

// An interval holds a real number between lo and hi, in units of 2^-precision.
// Every operation rounds outwards, so that the number stays inside.
type interval struct{ lo, hi *big.Int }

func (x interval) holdsZero() bool { return x.lo.Sign() <= 0 && x.hi.Sign() >= 0 }

// sign is 0 where the interval holds zero.
func (x interval) sign() int {
	switch {
	case x.lo.Sign() > 0:
		return 1
	case x.hi.Sign() < 0:
		return -1
	}
	return 0
}

func (x interval) width() *big.Int { return new(big.Int).Sub(x.hi, x.lo) }

// An enclosures computes intervals around the values of atoms at one precision,
// for variables at one point.
type enclosures struct {
	c         *calculus
	precision uint
	point     func(at int) *big.Rat
	known     map[int]interval
	pi        *interval
}

// enclose starts enclosures. The constants' ones are kept, for each precision.
func (c *calculus) enclose(precision int, point func(at int) *big.Rat) *enclosures {
	if point == nil {
		if e, ok := c.cache[precision]; ok {
			return e
		}
	}
	e := &enclosures{c: c, precision: uint(precision), point: point, known: make(map[int]interval)}
	if point == nil {
		if c.cache == nil {
			c.cache = make(map[int]*enclosures)
		}
		c.cache[precision] = e
	}
	return e
}

func sortedKeys[V any](m map[monomial]V) []monomial { return slices.Sorted(maps.Keys(m)) }

// spend counts an operation on numbers of this precision.
func (e *enclosures) spend(x interval) error {
	words := int(e.precision)/64 + 1 + max(x.lo.BitLen(), x.hi.BitLen())/64
	if words > 4*maxBits/64 {
		return ErrTooLarge
	}
	return e.c.step(1 + words/8 + words*words/4096)
}

func (e *enclosures) rational(r *big.Rat) interval {
	n := new(big.Int).Lsh(r.Num(), e.precision)
	lo, rest := new(big.Int).DivMod(n, r.Denom(), new(big.Int))
	if rest.Sign() == 0 {
		return interval{lo, lo}
	}
	return interval{lo, new(big.Int).Add(lo, bigOne)}
}

var bigOne = big.NewInt(1)

func (e *enclosures) add(x, y interval) interval {
	return interval{new(big.Int).Add(x.lo, y.lo), new(big.Int).Add(x.hi, y.hi)}
}

func (e *enclosures) neg(x interval) interval {
	return interval{new(big.Int).Neg(x.hi), new(big.Int).Neg(x.lo)}
}

// shift divides by 2^n, outwards.
func shift(lo, hi *big.Int, n uint) interval {
	up := new(big.Int).Neg(hi)
	up.Rsh(up, n)
	return interval{new(big.Int).Rsh(lo, n), up.Neg(up)}
}

func (e *enclosures) mul(x, y interval) (interval, error) {
	if err := e.spend(x); err != nil {
		return interval{}, err
	}
	if err := e.spend(y); err != nil {
		return interval{}, err
	}
	var lo, hi *big.Int
	for _, a := range []*big.Int{x.lo, x.hi} {
		for _, b := range []*big.Int{y.lo, y.hi} {
			p := new(big.Int).Mul(a, b)
			if lo == nil || p.Cmp(lo) < 0 {
				lo = p
			}
			if hi == nil || p.Cmp(hi) > 0 {
				hi = p
			}
		}
	}
	return shift(lo, hi, e.precision), nil
}

// inverse is errNoSign where the interval holds zero.
func (e *enclosures) inverse(x interval) (interval, error) {
	if x.holdsZero() {
		return interval{}, errNoSign
	}
	if err := e.spend(x); err != nil {
		return interval{}, err
	}
	n := new(big.Int).Lsh(bigOne, 2*e.precision)
	floor := func(d *big.Int) *big.Int {
		q, r := new(big.Int).QuoRem(n, d, new(big.Int))
		if r.Sign() != 0 && d.Sign() < 0 {
			q.Sub(q, bigOne)
		}
		return q
	}
	lo, hi := floor(x.hi), floor(x.lo)
	return interval{lo, hi.Add(hi, bigOne)}, nil
}

func (e *enclosures) div(x, y interval) (interval, error) {
	inverse, err := e.inverse(y)
	if err != nil {
		return interval{}, err
	}
	return e.mul(x, inverse)
}

func (e *enclosures) pow(x interval, n int) (interval, error) {
	out := e.rational(one)
	var err error
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			if out, err = e.mul(out, x); err != nil {
				return interval{}, err
			}
		}
		if n > 1 {
			if x, err = e.mul(x, x); err != nil {
				return interval{}, err
			}
		}
	}
	return out, nil
}

// root is the k-th root of a positive interval, or of any where k is odd.
func (e *enclosures) root(x interval, k int) (interval, error) {
	switch s := x.sign(); {
	case s < 0 && k%2 == 1:
		r, err := e.root(e.neg(x), k)
		if err != nil {
			return interval{}, err
		}
		return e.neg(r), nil
	case s <= 0:
		return interval{}, errNoSign
	}
	up := uint(k-1) * e.precision
	if up > 4*maxBits {
		return interval{}, ErrTooLarge
	}
	words := (int(up) + x.hi.BitLen()) / 64
	if err := e.c.step(8 + words*words/64); err != nil {
		return interval{}, err
	}
	lo := integerRoot(new(big.Int).Lsh(x.lo, up), k)
	hi := integerRoot(new(big.Int).Lsh(x.hi, up), k)
	return interval{lo, hi.Add(hi, bigOne)}, nil
}

// poly encloses a polynomial's value.
func (e *enclosures) poly(p poly) (interval, error) {
	sum := interval{new(big.Int), new(big.Int)}
	for _, m := range p.monomials() {
		term := e.rational(p[m])
		for i := 0; i < len(m); i += 3 {
			at, exponent := m.at(i)
			a, err := e.atom(at)
			if err != nil {
				return interval{}, err
			}
			if a, err = e.pow(a, exponent); err != nil {
				return interval{}, err
			}
			if term, err = e.mul(term, a); err != nil {
				return interval{}, err
			}
		}
		sum = e.add(sum, term)
	}
	return sum, nil
}

func (e *enclosures) expr(x expr) (interval, error) {
	num, err := e.poly(x.num)
	if err != nil {
		return interval{}, err
	}
	if d, ok := x.den.rational(); ok && d.Cmp(one) == 0 {
		return num, nil
	}
	den, err := e.poly(x.den)
	if err != nil {
		return interval{}, err
	}
	return e.div(num, den)
}

// atom encloses an atom's value. Its error is errNoSign where it has none, or
// none at this precision.
func (e *enclosures) atom(at int) (interval, error) {
	if x, ok := e.known[at]; ok {
		return x, nil
	}
	x, err := e.atomValue(at)
	if err == nil {
		e.known[at] = x
	}
	return x, err
}

func (e *enclosures) atomValue(at int) (interval, error) {
	a := &e.c.atoms[at]
	switch a.kind {
	case atomVariable:
		if e.point == nil {
			return interval{}, errNoSign
		}
		return e.rational(e.point(at)), nil
	case atomPi:
		return e.piValue()
	case atomE:
		return e.exp(e.rational(one))
	case atomI, atomCall:
		return interval{}, errNoSign
	}
	if a.kind == atomPower && a.name == "" {
		return e.anyPower(a)
	}
	x, err := e.expr(a.arg)
	if err != nil {
		return interval{}, err
	}
	switch a.kind {
	case atomRoot:
		return e.root(x, a.degree)
	case atomAbs:
		if x.sign() < 0 {
			return e.neg(x), nil
		} else if x.sign() == 0 {
			return interval{}, errNoSign
		}
		return x, nil
	case atomPower:
		if a.name == "e" {
			return e.exp(x)
		}
		base, _ := new(big.Rat).SetString(a.name)
		l, err := e.ln(e.rational(base))
		if err != nil {
			return interval{}, err
		}
		if x, err = e.mul(x, l); err != nil {
			return interval{}, err
		}
		return e.exp(x)
	}
	return e.function(a.name, x)
}

// anyPower is base^exponent of a positive base.
func (e *enclosures) anyPower(a *atom) (interval, error) {
	base, err := e.expr(a.args[0])
	if err != nil {
		return interval{}, err
	}
	exponent, err := e.expr(a.args[1])
	if err != nil {
		return interval{}, err
	}
	l, err := e.ln(base)
	if err != nil {
		return interval{}, err
	}
	if l, err = e.mul(l, exponent); err != nil {
		return interval{}, err
	}
	return e.exp(l)
}

func (e *enclosures) function(name string, x interval) (interval, error) {
	switch name {
	case "sin":
		s, _, err := e.sinCos(x)
		return s, err
	case "cos":
		_, k, err := e.sinCos(x)
		return k, err
	case "ln":
		return e.ln(x)
	case "arctan":
		return e.arctan(x)
	case "arcsin": // arctan(x / √(1 − x²))
		square, err := e.mul(x, x)
		if err != nil {
			return interval{}, err
		}
		r, err := e.root(e.add(e.rational(one), e.neg(square)), 2)
		if err != nil {
			return interval{}, err
		}
		if x, err = e.div(x, r); err != nil {
			return interval{}, err
		}
		return e.arctan(x)
	}
	return interval{}, errNoSign
}
