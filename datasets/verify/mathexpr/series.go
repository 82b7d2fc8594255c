package mathexpr

import (
	"math"
	"math/big"
)

// maxArgument bounds the argument of exp, sin and cos, in bits before the point.
const maxArgument = 10

// piValue is π by Machin's formula, 16 arctan(1/5) − 4 arctan(1/239).
func (e *enclosures) piValue() (interval, error) {
	if e.pi != nil {
		return *e.pi, nil
	}
	a, err := e.arctanInverse(5)
	if err != nil {
		return interval{}, err
	}
	b, err := e.arctanInverse(239)
	if err != nil {
		return interval{}, err
	}
	times := func(x interval, n int64) interval {
		by := big.NewInt(n)
		return interval{new(big.Int).Mul(x.lo, by), new(big.Int).Mul(x.hi, by)}
	}
	pi := e.add(times(a, 16), e.neg(times(b, 4)))
	e.pi = &pi
	return pi, nil
}

// arctanInverse is arctan(1/n): each of its terms is rounded by less than two
// units, and what is left out is less than one.
func (e *enclosures) arctanInverse(n int64) (interval, error) {
	power := new(big.Int).Lsh(bigOne, e.precision)
	power.Quo(power, big.NewInt(n))
	square := big.NewInt(n * n)
	sum := new(big.Int).Set(power)
	k := int64(1)
	for ; power.Sign() > 0; k++ {
		if err := e.c.step(1 + int(e.precision)/512); err != nil {
			return interval{}, err
		}
		power.Quo(power, square)
		term := new(big.Int).Quo(power, big.NewInt(2*k+1))
		if k%2 == 1 {
			sum.Sub(sum, term)
		} else {
			sum.Add(sum, term)
		}
	}
	return widen(interval{sum, sum}, 4*k+4), nil
}

// widen moves both ends out by n units.
func widen(x interval, n int64) interval {
	by := big.NewInt(n)
	return interval{new(big.Int).Sub(x.lo, by), new(big.Int).Add(x.hi, by)}
}

// halvings is how often an argument is halved until it is below 1/256.
func (e *enclosures) halvings(x interval) (uint, error) {
	bits := max(x.lo.BitLen(), x.hi.BitLen()) - int(e.precision)
	if bits > maxArgument {
		return 0, errNoSign
	}
	return uint(max(0, bits+8)), nil
}

// exp sums the series of a small argument and squares. What the series leaves
// out is less than its last term.
func (e *enclosures) exp(x interval) (interval, error) {
	n, err := e.halvings(x)
	if err != nil {
		return interval{}, err
	}
	x = shift(x.lo, x.hi, n)
	sum, term := e.rational(one), e.rational(one)
	for k := int64(1); ; k++ {
		if term, err = e.mul(term, x); err != nil {
			return interval{}, err
		}
		term = divided(term, k)
		sum = e.add(sum, term)
		if small(term) {
			sum = widen(sum, 2)
			break
		}
	}
	for range n {
		if sum, err = e.mul(sum, sum); err != nil {
			return interval{}, err
		}
	}
	return sum, nil
}

// divided divides by a small positive number, outwards.
func divided(x interval, by int64) interval {
	d := big.NewInt(by)
	lo, _ := new(big.Int).DivMod(x.lo, d, new(big.Int))
	hi, rest := new(big.Int).DivMod(x.hi, d, new(big.Int))
	if rest.Sign() != 0 {
		hi.Add(hi, bigOne)
	}
	return interval{lo, hi}
}

// small tells whether an interval is within two units of zero.
func small(x interval) bool { return x.lo.BitLen() <= 1 && x.hi.BitLen() <= 1 }

// sinCos sums the series of a small argument and doubles the angle.
func (e *enclosures) sinCos(x interval) (sine, cosine interval, err error) {
	n, err := e.halvings(x)
	if err != nil {
		return
	}
	x = shift(x.lo, x.hi, n)
	sine, cosine = x, e.rational(one)
	term := x
	for k := int64(2); ; k++ {
		if term, err = e.mul(term, x); err != nil {
			return
		}
		term = divided(term, k)
		signed := term
		if k%4 == 2 || k%4 == 3 {
			signed = e.neg(term)
		}
		if k%2 == 0 {
			cosine = e.add(cosine, signed)
		} else {
			sine = e.add(sine, signed)
		}
		if small(term) && k > 2 {
			sine, cosine = widen(sine, 2), widen(cosine, 2)
			break
		}
	}
	for range n {
		var product, square interval
		if product, err = e.mul(sine, cosine); err != nil {
			return
		}
		if square, err = e.mul(sine, sine); err != nil {
			return
		}
		sine = e.add(product, product)
		cosine = e.add(e.rational(one), e.neg(e.add(square, square)))
	}
	return
}

// ln is y + ln(x·e^-y) for a y near it, of which the second part is a short
// series. Which y is chosen decides how fast it is, not how right.
func (e *enclosures) ln(x interval) (interval, error) {
	if x.sign() <= 0 {
		return interval{}, errNoSign
	}
	bits := x.lo.BitLen()
	mantissa, _ := new(big.Float).SetInt(x.lo).Float64()
	guess := math.Log(mantissa) - float64(e.precision)*math.Ln2
	if bits > 900 { // beyond a float
		top, _ := new(big.Float).SetInt(new(big.Int).Rsh(x.lo, uint(bits-64))).Float64()
		guess = math.Log(top) + float64(bits-64-int(e.precision))*math.Ln2
	}
	if math.IsInf(guess, 0) || math.IsNaN(guess) {
		return interval{}, errNoSign
	}
	// Coarse, so that processors that round logarithms otherwise choose the same.
	y := new(big.Rat).SetFloat64(math.Round(guess*(1<<20)) / (1 << 20))
	inverse, err := e.exp(e.rational(new(big.Rat).Neg(y)))
	if err != nil {
		return interval{}, err
	}
	near, err := e.mul(x, inverse)
	if err != nil {
		return interval{}, err
	}
	t := e.add(near, e.neg(e.rational(one)))
	if max(t.lo.BitLen(), t.hi.BitLen()) > int(e.precision)-4 {
		return interval{}, errNoSign // x is known too coarsely
	}
	sum, power := t, t
	for k := int64(2); ; k++ {
		if power, err = e.mul(power, t); err != nil {
			return interval{}, err
		}
		term := divided(power, k)
		if k%2 == 0 {
			term = e.neg(term)
		}
		sum = e.add(sum, term)
		if small(power) || k > int64(e.precision) {
			// The rest of the series is below twice its next power.
			rest := power.width()
			sum = widen(interval{new(big.Int).Sub(sum.lo, rest), new(big.Int).Add(sum.hi, rest)}, 4)
			break
		}
	}
	return e.add(e.rational(y), sum), nil
}

// arctan halves the angle, arctan(x) = 2 arctan(x / (1 + √(1 + x²))), until the
// series is short.
func (e *enclosures) arctan(x interval) (interval, error) {
	const halves = 8
	for range halves {
		square, err := e.mul(x, x)
		if err != nil {
			return interval{}, err
		}
		r, err := e.root(e.add(e.rational(one), square), 2)
		if err != nil {
			return interval{}, err
		}
		if x, err = e.div(x, e.add(e.rational(one), r)); err != nil {
			return interval{}, err
		}
	}
	square, err := e.mul(x, x)
	if err != nil {
		return interval{}, err
	}
	sum, power := x, x
	for k := int64(1); ; k++ {
		if power, err = e.mul(power, square); err != nil {
			return interval{}, err
		}
		term := divided(power, 2*k+1)
		if k%2 == 1 {
			term = e.neg(term)
		}
		sum = e.add(sum, term)
		if small(power) || k > int64(e.precision) {
			rest := power.width()
			sum = widen(interval{new(big.Int).Sub(sum.lo, rest), new(big.Int).Add(sum.hi, rest)}, 4)
			break
		}
	}
	return interval{new(big.Int).Lsh(sum.lo, halves), new(big.Int).Lsh(sum.hi, halves)}, nil
}
