package mathexpr

import (
	"errors"
	"math/big"
)

// truth is what is known of a claim.
type truth uint8

const (
	undecided truth = iota
	yes
	no
)

// errNoSign says that an expression has no sign that could be found out: it has
// variables, or is complex.
var errNoSign = errors.New("no sign")

// Precisions of the enclosures, in bits after the point.
const (
	firstPrecision = 96
	nextPrecision  = 512
	maxPrecision   = 16 << 10 // for a proof that two radicals are equal
)

// equal tells whether two trees have the same value.
func (c *calculus) equal(a, b *node) (truth, error) {
	d, err := c.difference(a, b)
	if err != nil {
		return undecided, err
	}
	return c.isZero(d)
}

func (c *calculus) difference(a, b *node) (expr, error) {
	x, err := c.eval(a)
	if err != nil {
		return expr{}, err
	}
	y, err := c.eval(b)
	if err != nil {
		return expr{}, err
	}
	return c.sub(x, y)
}

// isZero decides whether an expression is zero for all values of its variables.
// No means that it is not the zero function.
func (c *calculus) isZero(e expr) (truth, error) {
	return c.zeroPoly(e.num)
}

func (c *calculus) zeroPoly(p poly) (truth, error) {
	if len(p) == 0 {
		return yes, nil
	}
	if _, ok := p.rational(); ok {
		return no, nil
	}
	inside := make(map[int]bool) // what other atoms depend on
	hazy := c.fuzzy
	variables := false
	for at := range p.atoms() {
		a := &c.atoms[at]
		hazy = hazy || a.hazy
		for needed := range a.needs {
			variables = true
			if needed != at {
				inside[needed] = true
			}
		}
	}
	if hazy {
		return undecided, nil
	}
	// Variables that stand in no radical and no function are free of the rest:
	// every coefficient must vanish. So are i, and π where nothing else is
	// transcendental.
	free := func(at int) bool {
		a := &c.atoms[at]
		return a.kind == atomVariable && !inside[at] || a.kind == atomI || c.transcendental(p, at)
	}
	groups := p.group(free)
	if len(groups) > 1 || groups[""] == nil {
		all := yes
		for _, m := range sortedKeys(groups) {
			z, err := c.zeroPoly(groups[m])
			if err != nil {
				return undecided, err
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
	if variables {
		return c.differsSomewhere(p)
	}
	return c.zeroConstant(p)
}

// transcendental tells whether the atom is π or e and all others of p are
// algebraic: then it is like a variable (Lindemann).
func (c *calculus) transcendental(p poly, at int) bool {
	if k := c.atoms[at].kind; k != atomPi && k != atomE {
		return false
	}
	for other := range p.atoms() {
		if k := c.atoms[other].kind; other != at && k != atomI && k != atomVariable && !c.atoms[other].algebraic {
			return false
		}
	}
	return true
}

// zeroConstant decides of a polynomial in real constants.
func (c *calculus) zeroConstant(p poly) (truth, error) {
	for _, precision := range []int{firstPrecision, nextPrecision} {
		x, err := c.enclose(precision, nil).poly(p)
		switch {
		case err == errNoSign:
			continue // a wider one may do, as where a divisor is small
		case err != nil:
			return undecided, err
		case !x.holdsZero():
			return no, nil
		}
	}
	for at := range p.atoms() {
		if !c.atoms[at].algebraic {
			return undecided, nil
		}
	}
	bits := c.separation(p)
	if bits > maxPrecision {
		return undecided, nil
	}
	x, err := c.enclose(bits+32, nil).poly(p)
	switch {
	case err == errNoSign:
		return undecided, nil
	case err != nil:
		return undecided, err
	case !x.holdsZero():
		return no, nil
	case x.width().BitLen() > 24:
		return undecided, nil
	}
	// It is smaller than any such number that is not zero.
	return yes, nil
}

// separation bounds an algebraic number away from zero: a polynomial p in
// radicals that is not zero is at least 2^-separation in size, or its value
// times the common denominator of the coefficients is. It is the bound of
// Burnikel, Funke, Mehlhorn, Schirra and Schmitt (A Separation Bound for Real
// Algebraic Expressions, ESA 2001): |E| ≥ 1 / (u(E)^(D−1) · l(E)), with D the
// product of the degrees of the radicals.
func (c *calculus) separation(p poly) int {
	degree := 1
	seen := make(map[int]bool)
	c.radicals(p, seen)
	for at := range seen {
		d := 2
		if c.atoms[at].kind == atomRoot {
			d = c.atoms[at].degree
		}
		if degree *= d; degree > maxPrecision {
			return 2 * maxPrecision
		}
	}
	u, l := c.bound(p)
	bits := (degree-1)*min(u, maxLog) + l
	return min(bits/bitUnit, maxPrecision) + contentOf(p).Denom().BitLen() + 8
}

// Logarithms to base two are counted in whole units, rounded up, so that every
// machine has the same.
const (
	bitUnit = 64
	maxLog  = 1 << 30
)

func (c *calculus) radicals(p poly, seen map[int]bool) {
	for at := range p.atoms() {
		if !seen[at] {
			seen[at] = true
			c.radicals(c.atoms[at].arg.num, seen)
			c.radicals(c.atoms[at].arg.den, seen)
		}
	}
}

// bound gives the logarithms to base two of u(p) and l(p), in units, for p with
// its coefficients made whole.
func (c *calculus) bound(p poly) (u, l int) {
	content := contentOf(p)
	for i, m := range p.monomials() {
		// A term has u and l of its atoms' powers multiplied.
		whole := new(big.Rat).Quo(p[m], content)
		tu, tl := bitUnit*whole.Num().BitLen(), 0
		for i := 0; i < len(m); i += 3 {
			at, exponent := m.at(i)
			au, al := c.atomBound(at)
			tu, tl = min(tu+exponent*au, maxLog), min(tl+exponent*al, maxLog)
		}
		// u(a+b) is u(a)l(b) + l(a)u(b), l(a+b) is l(a)l(b).
		if i == 0 {
			u, l = tu, tl
		} else {
			u, l = min(max(u+tl, l+tu)+bitUnit, maxLog), min(l+tl, maxLog)
		}
	}
	return u, l
}

func (c *calculus) atomBound(at int) (u, l int) {
	a := &c.atoms[at]
	if a.u == 0 && a.l == 0 {
		a.u, a.l = c.radicalBound(a)
	}
	return a.u, a.l
}

func (c *calculus) radicalBound(a *atom) (u, l int) {
	nu, nl := c.bound(a.arg.num)
	du, dl := c.bound(a.arg.den)
	// The contents of both count as well.
	content := new(big.Rat).Quo(contentOf(a.arg.num), contentOf(a.arg.den))
	u = min(nu+dl+bitUnit*content.Num().BitLen(), maxLog)
	l = min(nl+du+bitUnit*content.Denom().BitLen(), maxLog)
	if a.kind == atomAbs {
		return u, l
	}
	k := a.degree
	if u >= l {
		return (u+(k-1)*l)/k + 1, l
	}
	return u, ((k-1)*u+l)/k + 1
}

// samples is how many points are tried to tell two functions apart.
const samples = 3

// differsSomewhere looks for a point at which p is provably not zero. All
// variables are positive there, where roots and logarithms have values.
func (c *calculus) differsSomewhere(p poly) (truth, error) {
	for i := range samples {
		x, err := c.enclose(firstPrecision, samplePoint(i)).poly(p)
		switch {
		case err == errNoSign:
		case err != nil:
			return undecided, err
		case !x.holdsZero():
			return no, nil
		}
	}
	return undecided, nil
}

// samplePoint gives each variable a value of its own: between 2 and 7, or below
// one in the second point, so that arcsin has values too.
func samplePoint(i int) func(at int) *big.Rat {
	return func(at int) *big.Rat {
		switch i {
		case 0:
			return big.NewRat(int64(29+7*at%67), 13)
		case 1:
			return big.NewRat(int64(3+5*at%23), 31)
		}
		return big.NewRat(int64(41+11*at%53), 17)
	}
}

// sign is the sign of a constant. Its error is errNoSign for what has variables
// or cannot be told from zero.
func (c *calculus) sign(e expr) (int, error) {
	if r, ok := e.rational(); ok {
		return r.Sign(), nil
	}
	for _, p := range []poly{e.num, e.den} {
		for at := range p.atoms() {
			if a := &c.atoms[at]; a.hazy || len(a.needs) > 0 || a.kind == atomI {
				return 0, errNoSign
			}
		}
	}
	for _, precision := range []int{firstPrecision, nextPrecision} {
		x, err := c.enclose(precision, nil).expr(e)
		if err == errNoSign {
			continue
		}
		if err != nil {
			return 0, err
		}
		if s := x.sign(); s != 0 {
			return s, nil
		}
	}
	z, err := c.isZero(e)
	if err != nil {
		return 0, err
	}
	if z == yes {
		return 0, nil
	}
	return 0, errNoSign
}
