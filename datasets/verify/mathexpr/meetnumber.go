package mathexpr

import (
	"math/big"
)

// meetsNumber holds the rules for percent signs, scale words and units:
//
//   - a gold with a percent sign is met with the sign (10 % by 10 %) or by the
//     same quantity (10 % by 0.1), never by the bare number;
//   - a gold without it is met by the same quantity (2 by 200 %); a whole
//     number also by its percentage (10 by 10 %), because then the question
//     asked for percent;
//   - a scale word counts (2 million is 2,000,000); a number that would be equal
//     without it is unknown;
//   - units that only the answer has are dropped, and so are words and
//     currencies that only the gold has; different units are unknown.
func (m *meeting) meetsNumber(gold, answer *Value) Judgement {
	if gold.base != answer.base {
		return judgeUnits
	}
	if gold.unit != answer.unit && mayMultiply(gold, answer) && mayMultiply(answer, gold) {
		// 3n may be three newtons or a product.
		gold, answer = multiplied(gold), multiplied(answer)
	}
	if !unitsAgree(gold.unit, answer.unit) {
		return judgeUnits
	}
	g, err := m.eval(gold.full())
	if err != nil {
		return m.fault(err)
	}
	a, err := m.eval(answer.full())
	if err != nil {
		return m.fault(err)
	}
	decimal := gold.decimal || answer.decimal
	j := m.near(g, a, gold.decimals, decimal)
	switch {
	case j.Verdict == Pass && gold.unit == "" && answer.letters != "" && answer.glued:
		return judgeVariable // of 2ab the letters are hardly a unit
	case j.Verdict == Pass:
		return j
	case gold.unit == "" && productOfLetter(answer.expr) && gold.expr.constant():
		return judgeVariable // 5x may be five times
	case gold.unit == "degree" && answer.unit == "" && answer.expr.has(opPi):
		return m.meetsNumber(radians(gold), answer)
	case answer.unit == "degree" && gold.unit == "" && gold.expr.has(opPi):
		return m.meetsNumber(gold, radians(answer))
	case !gold.percent && !answer.percent && gold.scale == nil && answer.scale == nil:
		return j
	}
	bare, err := m.equal(gold.scaled(), answer.scaled())
	if err != nil {
		return m.fault(err)
	}
	plain, err := m.equal(gold.expr, answer.expr)
	if err != nil {
		return m.fault(err)
	}
	whole, isNumber := g.rational()
	switch {
	case gold.percent && !answer.percent && bare == yes:
		return judgeNoSign
	case !gold.percent && answer.percent && bare == yes && isNumber && whole.IsInt():
		return judgeEqual
	case !gold.percent && answer.percent && bare == yes:
		return judgeSign
	case (gold.scale == nil) != (answer.scale == nil) && plain == yes:
		return judgeScale
	}
	return j
}

// letterUnit tells whether the unit may be variables.
func letterUnit(v *Value) bool { return v.letters != "" && v.scale == nil && !v.percent }

// radians is an angle in degrees as a number.
func radians(v *Value) *Value {
	return &Value{kind: kindNumber, expr: with(opDiv, times(v.expr, with(opPi)), number(180)), decimals: -1, decimal: v.decimal}
}

// mayMultiply tells whether the letters after v are variables, if it has any:
// the other side has variables too.
func mayMultiply(v, other *Value) bool {
	return v.unit == "" || letterUnit(v) && (letterUnit(other) || other.unit == "" && !other.expr.constant())
}

// multiplied reads a unit's letters as variables.
func multiplied(v *Value) *Value {
	if !letterUnit(v) {
		return v
	}
	w := *v
	w.unit, w.letters, w.decimals = "", "", -1
	for i := range v.letters {
		w.expr = times(w.expr, letter(v.letters[i:i+1]))
	}
	return &w
}

// productOfLetter tells whether an expression is a number times one letter.
func productOfLetter(n *node) bool {
	return n.op == opMul && n.args[0].constant() && n.args[1].op == opVar
}

// near compares two expressions: exactly, or, where one was written as a
// decimal and the gold is no whole number, within tolerance times the smaller
// of 1 and the gold. An answer that is outside but rounds to a gold with two or
// more decimals is unknown: nobody said how the gold was rounded.
func (m *meeting) near(gold, answer expr, decimals int, decimal bool) Judgement {
	g, gok := gold.rational()
	a, aok := answer.rational()
	if gok && aok {
		return m.nearNumbers(g, a, decimals, decimal)
	}
	d, err := m.sub(gold, answer)
	if err != nil {
		return m.fault(err)
	}
	zero, err := m.isZero(d)
	if err != nil {
		return m.fault(err)
	}
	switch {
	case zero == yes:
		return judgeEqual
	case decimal && !(gok && g.IsInt()):
		if j, ok := m.nearReals(gold, d, decimals); ok {
			return j
		}
	}
	if zero == no {
		return judgeDiffers
	}
	return judgeUndecided
}

func (m *meeting) nearNumbers(gold, answer *big.Rat, decimals int, decimal bool) Judgement {
	switch {
	case gold.Cmp(answer) == 0:
		return judgeEqual
	case gold.IsInt() || !decimal:
		return judgeDiffers
	}
	distance := new(big.Rat).Sub(answer, gold)
	distance.Abs(distance)
	size := new(big.Rat).Abs(gold)
	if size.Cmp(one) > 0 {
		size = one
	}
	if distance.Cmp(new(big.Rat).Mul(size, m.tolerance)) <= 0 {
		return judgeNear
	}
	if half, ok := halfPlace(decimals); ok && distance.Cmp(half) <= 0 {
		return judgeRounded
	}
	return judgeDiffers
}

// halfPlace is half a unit of the last decimal place, from two places on.
func halfPlace(decimals int) (*big.Rat, bool) {
	if decimals < 2 {
		return nil, false
	}
	place := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)
	return new(big.Rat).SetFrac(big.NewInt(1), place.Lsh(place, 1)), true
}

// nearReals compares where a side is irrational: both ends of an interval
// around the distance must be inside.
func (m *meeting) nearReals(gold, difference expr, decimals int) (Judgement, bool) {
	for _, e := range []expr{gold, difference} {
		for _, p := range []poly{e.num, e.den} {
			for at := range p.atoms() {
				if a := &m.atoms[at]; a.hazy || len(a.needs) > 0 || a.kind == atomI {
					return Judgement{}, false
				}
			}
		}
	}
	e := m.enclose(nextPrecision, nil)
	g, err := e.expr(gold)
	if err != nil {
		return Judgement{}, false
	}
	d, err := e.expr(difference)
	if err != nil {
		return Judgement{}, false
	}
	size := e.rational(one).lo
	for _, end := range []*big.Int{g.lo, g.hi} {
		if abs := new(big.Int).Abs(end); abs.Cmp(size) < 0 {
			size = abs
		}
	}
	within := func(limit *big.Int) bool {
		return new(big.Int).Abs(d.lo).Cmp(limit) <= 0 && new(big.Int).Abs(d.hi).Cmp(limit) <= 0
	}
	limit := new(big.Int).Mul(size, m.tolerance.Num())
	if within(limit.Quo(limit, m.tolerance.Denom())) {
		return judgeNear, true
	}
	if half, ok := halfPlace(decimals); ok && within(e.rational(half).lo) {
		return judgeRounded, true
	}
	return Judgement{}, false
}
