package mathexpr

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// Known constants to 60 places; the last one is cut, not rounded.
var known = []struct{ expression, digits string }{
	{`\pi`, "3.141592653589793238462643383279502884197169399375105820974944"},
	{`e`, "2.718281828459045235360287471352662497757247093699959574966967"},
	{`\sqrt2`, "1.414213562373095048801688724209698078569671875376948073176679"},
	{`\sqrt[3]{2}`, "1.259921049894873164767210607278228350570251464701507980081975"},
	{`\ln 2`, "0.693147180559945309417232121458176568075500134360255254120680"},
	{`\ln 10`, "2.302585092994045684017991454684364207601101488628772976033327"},
	{`\sin 1`, "0.841470984807896506652502321630298999622563060798371065672751"},
	{`\cos 1`, "0.540302305868139717400936607442976603732310420617922227670097"},
	{`\arctan 2`, "1.107148717794090503017065460178537040070047645401432646676539"},
	{`e^{\pi}`, "23.140692632779269005729086367948547380266106242600211993445046"},
	{`2^{\sqrt2}`, "2.665144142690225188650297249873139848274211313714659492835979"},
	{`\arcsin\frac13`, "0.339836909454121937096392513391764066388244690332458071431923"},
}

func TestEnclosuresHoldKnownDigits(t *testing.T) {
	for _, k := range known {
		for _, precision := range []int{firstPrecision, 150, nextPrecision, 3000} {
			v, err := Read(k.expression)
			if err != nil {
				t.Fatal(err)
			}
			c := newCalculus()
			x, err := c.eval(v.expr)
			if err != nil {
				t.Fatal(err)
			}
			e := c.enclose(precision, nil)
			got, err := e.expr(x)
			if err != nil {
				t.Fatalf("%s at %d: %v", k.expression, precision, err)
			}
			// The number is between the digits and one unit of their last place
			// more, so its interval must touch theirs.
			lo, _ := new(big.Rat).SetString(k.digits)
			hi := new(big.Rat).Add(lo, mustRat("1e-60"))
			if e.rational(lo).lo.Cmp(got.hi) > 0 || e.rational(hi).hi.Cmp(got.lo) < 0 {
				t.Errorf("%s at %d bits is outside of its interval", k.expression, precision)
			}
			if got.width().BitLen() > 24 {
				t.Errorf("%s at %d bits: an interval of %d bits", k.expression, precision, got.width().BitLen())
			}
		}
	}
}

// Functions of rationals agree with the float64 ones, which are wrong by a few
// units in the last place.
func TestEnclosuresAgreeWithFloats(t *testing.T) {
	functions := map[string]struct {
		exact func(*enclosures, interval) (interval, error)
		float func(float64) float64
	}{
		"exp":    {(*enclosures).exp, math.Exp},
		"ln":     {(*enclosures).ln, math.Log},
		"arctan": {(*enclosures).arctan, math.Atan},
		"sqrt":   {func(e *enclosures, x interval) (interval, error) { return e.root(x, 2) }, math.Sqrt},
		"cbrt":   {func(e *enclosures, x interval) (interval, error) { return e.root(x, 3) }, math.Cbrt},
		"sin":    {func(e *enclosures, x interval) (interval, error) { return e.function("sin", x) }, math.Sin},
		"cos":    {func(e *enclosures, x interval) (interval, error) { return e.function("cos", x) }, math.Cos},
	}
	rapid.Check(t, func(t *rapid.T) {
		n, d := rapid.Int64Range(1, 10_000).Draw(t, "n"), rapid.Int64Range(1, 1_000).Draw(t, "d")
		x := big.NewRat(n, d)
		f, _ := x.Float64()
		if f > 300 {
			t.Skip("exp overflows soon after")
		}
		for name, fn := range functions {
			e := newCalculus().enclose(firstPrecision, nil)
			got, err := fn.exact(e, e.rational(x))
			if err != nil {
				t.Fatalf("%s(%v): %v", name, x, err)
			}
			mid, _ := new(big.Rat).SetFrac(new(big.Int).Add(got.lo, got.hi), new(big.Int).Lsh(bigOne, firstPrecision+1)).Float64()
			want := fn.float(f)
			if math.Abs(mid-want) > 1e-12*max(1, math.Abs(want)) {
				t.Fatalf("%s(%v) = %v, want %v", name, x, mid, want)
			}
			if got.lo.Cmp(got.hi) > 0 {
				t.Fatalf("%s(%v): the ends are swapped", name, x)
			}
		}
	})
}

// Interval operations hold what the operation gives for numbers inside.
func TestIntervalsAreClosed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(label string) *big.Rat {
			return big.NewRat(rapid.Int64Range(-1000, 1000).Draw(t, label), rapid.Int64Range(1, 999).Draw(t, label+" den"))
		}
		a, b := draw("a"), draw("b")
		e := newCalculus().enclose(firstPrecision, nil)
		inside := func(what string, x interval, err error, r *big.Rat) {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			if of := e.rational(r); of.lo.Cmp(x.hi) > 0 || of.hi.Cmp(x.lo) < 0 {
				t.Fatalf("%s of %v and %v is outside", what, a, b)
			}
		}
		x, y := e.rational(a), e.rational(b)
		inside("sum", e.add(x, y), nil, new(big.Rat).Add(a, b))
		product, err := e.mul(x, y)
		inside("product", product, err, new(big.Rat).Mul(a, b))
		if b.Sign() != 0 {
			quotient, err := e.div(x, y)
			inside("quotient", quotient, err, new(big.Rat).Quo(a, b))
		}
		cube, err := e.pow(x, 3)
		inside("cube", cube, err, new(big.Rat).Mul(a, new(big.Rat).Mul(a, a)))
		inside("third", divided(x, 3), nil, new(big.Rat).Quo(a, big.NewRat(3, 1)))
	})
}

// A polynomial of radicals that is not zero is at least as large as the bound
// says, for the nearest misses that small sums of square roots have.
func TestSeparationHolds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCalculus()
		sum := number(0)
		for i := range rapid.IntRange(1, 4).Draw(t, "terms") {
			r := root(number(rapid.Int64Range(2, 60).Draw(t, "radicand")), number(int64(2+i%2)))
			sum = with(opAdd, sum, times(number(rapid.Int64Range(-9, 9).Draw(t, "factor")), r))
		}
		x, err := c.eval(minus(sum, number(rapid.Int64Range(-40, 40).Draw(t, "whole"))))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := x.rational(); ok {
			t.Skip("rational")
		}
		bits := c.separation(x.num)
		if bits > maxPrecision {
			t.Skip("beyond the precision of a proof")
		}
		e := c.enclose(bits+32, nil)
		v, err := e.poly(x.num)
		if err != nil {
			t.Fatal(err)
		}
		z, err := c.isZero(x)
		if err != nil {
			t.Fatal(err)
		}
		if z == undecided {
			t.Fatalf("%v is undecided", x.num)
		}
		if z == no && v.holdsZero() {
			t.Fatalf("%v is not zero, and not seen at the bound of %d bits", x.num, bits)
		}
	})
}
