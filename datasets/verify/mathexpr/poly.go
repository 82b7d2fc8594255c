package mathexpr

import (
	"math/big"
	"slices"
)

// A monomial is a product of atoms: pairs of an atom's index and its exponent,
// by index, three bytes each. "" is 1.
type monomial string

func power1(atom, exponent int) monomial {
	if exponent == 0 {
		return ""
	}
	return monomial([]byte{byte(atom), byte(exponent >> 8), byte(exponent)})
}

func (m monomial) at(i int) (atom, exponent int) {
	return int(m[i]), int(m[i+1])<<8 | int(m[i+2])
}

// of is the exponent of an atom.
func (m monomial) of(atom int) int {
	for i := 0; i < len(m); i += 3 {
		if a, e := m.at(i); a == atom {
			return e
		}
	}
	return 0
}

// without drops an atom.
func (m monomial) without(atom int) monomial {
	for i := 0; i < len(m); i += 3 {
		if int(m[i]) == atom {
			return m[:i] + m[i+3:]
		}
	}
	return m
}

func (m monomial) times(o monomial) (monomial, error) {
	switch {
	case m == "":
		return o, nil
	case o == "":
		return m, nil
	}
	out := make([]byte, 0, len(m)+len(o))
	i, j := 0, 0
	for i < len(m) || j < len(o) {
		switch {
		case j == len(o) || i < len(m) && m[i] < o[j]:
			out = append(out, m[i:i+3]...)
			i += 3
		case i == len(m) || o[j] < m[i]:
			out = append(out, o[j:j+3]...)
			j += 3
		default:
			a, e := m.at(i)
			_, f := o.at(j)
			if e+f > maxDegree {
				return "", ErrTooLarge
			}
			out = append(out, byte(a), byte((e+f)>>8), byte(e+f))
			i, j = i+3, j+3
		}
	}
	return monomial(out), nil
}

// A poly is a polynomial in atoms over the rationals: no coefficient is zero.
type poly map[monomial]*big.Rat

func constantPoly(r *big.Rat) poly {
	if r.Sign() == 0 {
		return poly{}
	}
	return poly{"": r}
}

// rational is the polynomial as a number, if it is one.
func (p poly) rational() (*big.Rat, bool) {
	switch len(p) {
	case 0:
		return new(big.Rat), true
	case 1:
		r, ok := p[""]
		return r, ok
	}
	return nil, false
}

// monomials are those of p in one order, the same on every machine.
func (p poly) monomials() []monomial {
	out := make([]monomial, 0, len(p))
	for m := range p {
		out = append(out, m)
	}
	if len(out) > 1 {
		slices.Sort(out)
	}
	return out
}

// atoms are the indexes that occur in p.
func (p poly) atoms() map[int]bool {
	out := make(map[int]bool)
	for m := range p {
		for i := 0; i < len(m); i += 3 {
			out[int(m[i])] = true
		}
	}
	return out
}

func (p poly) degree(atom int) int {
	d := 0
	for m := range p {
		d = max(d, m.of(atom))
	}
	return d
}

// coefficient is what multiplies atom^exponent.
func (p poly) coefficient(atom, exponent int) poly {
	out := poly{}
	for m, c := range p {
		if m.of(atom) == exponent {
			out[m.without(atom)] = c
		}
	}
	return out
}

// group collects the terms of p by the part of their monomial whose atoms are
// chosen: p is the sum of every part times what it maps to.
func (p poly) group(chosen func(atom int) bool) map[monomial]poly {
	out := make(map[monomial]poly)
	for m, c := range p {
		part, rest := make([]byte, 0, len(m)), make([]byte, 0, len(m))
		for i := 0; i < len(m); i += 3 {
			if chosen(int(m[i])) {
				part = append(part, m[i:i+3]...)
			} else {
				rest = append(rest, m[i:i+3]...)
			}
		}
		if out[monomial(part)] == nil {
			out[monomial(part)] = poly{}
		}
		out[monomial(part)][monomial(rest)] = c
	}
	return out
}

func tooLarge(n *big.Rat) bool { return n.Num().BitLen() > maxBits || n.Denom().BitLen() > maxBits }

// spend counts what an operation on a number costs.
func (c *calculus) spend(n *big.Rat) error {
	if tooLarge(n) {
		return ErrTooLarge
	}
	return c.step(1 + (n.Num().BitLen()+n.Denom().BitLen())/256)
}

func (c *calculus) step(n int) error {
	if c.steps += n; c.steps > maxSteps {
		return ErrTooLarge
	}
	return nil
}

func (c *calculus) addPoly(p, q poly) (poly, error) {
	out := make(poly, len(p)+len(q))
	for m, a := range p {
		out[m] = a
	}
	for m, b := range q {
		a, ok := out[m]
		if !ok {
			out[m] = b
			continue
		}
		sum := new(big.Rat).Add(a, b)
		if err := c.spend(sum); err != nil {
			return nil, err
		}
		if sum.Sign() == 0 {
			delete(out, m)
		} else {
			out[m] = sum
		}
	}
	if len(out) > maxTerms {
		return nil, ErrTooLarge
	}
	return out, c.step(len(out))
}

func (c *calculus) mulPoly(p, q poly) (poly, error) {
	out := make(poly, max(len(p), len(q)))
	// In order, so that a limit is met at the same step on every machine.
	left, right := p.monomials(), q.monomials()
	for _, m := range left {
		for _, n := range right {
			a, b := p[m], q[n]
			mn, err := m.times(n)
			if err != nil {
				return nil, err
			}
			product := new(big.Rat).Mul(a, b)
			if before, ok := out[mn]; ok {
				product.Add(product, before)
			}
			if err := c.spend(product); err != nil {
				return nil, err
			}
			if product.Sign() == 0 {
				delete(out, mn)
			} else {
				out[mn] = product
			}
			if len(out) > maxTerms {
				return nil, ErrTooLarge
			}
		}
	}
	return out, nil
}

func (c *calculus) powPoly(p poly, n int) (poly, error) {
	out := constantPoly(one)
	for ; n > 0; n >>= 1 {
		var err error
		if n&1 == 1 {
			if out, err = c.mulPoly(out, p); err != nil {
				return nil, err
			}
		}
		if n > 1 {
			if p, err = c.mulPoly(p, p); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

func negPoly(p poly) poly {
	out := make(poly, len(p))
	for m, a := range p {
		out[m] = new(big.Rat).Neg(a)
	}
	return out
}

func scalePoly(p poly, by *big.Rat) poly {
	out := make(poly, len(p))
	for m, a := range p {
		out[m] = new(big.Rat).Mul(a, by)
	}
	return out
}

var one = big.NewRat(1, 1)
