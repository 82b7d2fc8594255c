package verify

import (
	"math/big"
	"slices"
	"strings"
)

type valueKind int

const (
	kindNumber valueKind = iota
	kindInfinity
	kindTuple // items in order, between open and close: tuples and intervals
	kindSet   // items in any order: sets and bare lists
)

// A value is what a statement says.
type value struct {
	kind valueKind

	num      *big.Rat // as written, before percent and scale; of infinity the sign
	decimals int      // digits after the point as written, -1 where num is no plain decimal
	percent  bool
	scale    *big.Rat // what a word such as million multiplies by; nil for none
	unit     string   // normalised; "" for none

	open, close string
	items       []value
}

var hundred = big.NewRat(100, 1)

// full is the number with scale and percent applied.
func (v *value) full() *big.Rat {
	n := v.num
	if v.scale != nil {
		n = new(big.Rat).Mul(n, v.scale)
	}
	if v.percent {
		n = new(big.Rat).Quo(n, hundred)
	}
	return n
}

// scaled is the number with the scale but without the percent sign.
func (v *value) scaled() *big.Rat {
	plain := *v
	plain.percent = false
	return plain.full()
}

// A judgement of an answer's value against the gold's. Reasons are few, so that
// a build can count by them.
type judgement struct{ verdict, reason string }

var (
	judgeEqual   = judgement{"pass", "equal"}
	judgeNear    = judgement{"pass", "within tolerance"}
	judgeDiffers = judgement{"fail", "different"}
	judgeNoSign  = judgement{"fail", "percent sign missing"}
	judgeSign    = judgement{"unknown", "percent sign not in gold"}
	judgeScale   = judgement{"unknown", "scale word on one side only"}
	judgeRounded = judgement{"unknown", "rounds to gold, outside tolerance"}
	judgeUnits   = judgement{"unknown", "units differ"}
	judgeKinds   = judgement{"unknown", "kinds of value differ"}
)

// meets judges answer against gold; the two are not symmetric.
func meets(gold, answer *value, tolerance *big.Rat) judgement {
	if gold.kind != answer.kind {
		return judgeKinds
	}
	switch gold.kind {
	case kindInfinity:
		if gold.num.Cmp(answer.num) == 0 {
			return judgeEqual
		}
		return judgeDiffers
	case kindTuple:
		return meetsTuple(gold, answer, tolerance)
	case kindSet:
		return meetsSet(gold, answer, tolerance)
	}
	return meetsNumber(gold, answer, tolerance)
}

func meetsTuple(gold, answer *value, tolerance *big.Rat) judgement {
	if len(gold.items) != len(answer.items) || gold.open != answer.open || gold.close != answer.close {
		return judgeDiffers
	}
	worst := judgeEqual
	for i := range gold.items {
		worst = worse(worst, meets(&gold.items[i], &answer.items[i], tolerance))
	}
	return worst
}

// meetsSet pairs every element of gold with its own of answer. Both are
// ordered by value first, so elements that are equal, exactly or nearly, stand
// at the same place.
func meetsSet(gold, answer *value, tolerance *big.Rat) judgement {
	if len(gold.items) != len(answer.items) {
		return judgeDiffers
	}
	for _, v := range []*value{gold, answer} {
		for i := range v.items {
			if v.items[i].kind != kindNumber {
				return meetsTuple(&value{items: gold.items}, &value{items: answer.items}, tolerance)
			}
		}
	}
	order := func(a, b value) int { return a.full().Cmp(b.full()) }
	g, a := slices.SortedFunc(slices.Values(gold.items), order), slices.SortedFunc(slices.Values(answer.items), order)
	return meetsTuple(&value{items: g}, &value{items: a}, tolerance)
}

// worse is the judgement that decides a whole: fail before unknown before pass.
func worse(a, b judgement) judgement {
	rank := func(j judgement) int {
		switch {
		case j == judgeEqual:
			return 0
		case j.verdict == "pass":
			return 1
		case j.verdict == "unknown":
			return 2
		}
		return 3
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}

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
func meetsNumber(gold, answer *value, tolerance *big.Rat) judgement {
	if u := unitsAgree(gold.unit, answer.unit); !u {
		return judgeUnits
	}
	j := near(gold.full(), answer.full(), gold.decimals, tolerance)
	if j.verdict == "pass" {
		return j
	}
	bare := gold.scaled().Cmp(answer.scaled()) == 0
	switch {
	case gold.percent && !answer.percent && bare:
		return judgeNoSign
	case !gold.percent && answer.percent && bare && gold.num.IsInt():
		return judgeEqual
	case !gold.percent && answer.percent && bare:
		return judgeSign
	case (gold.scale == nil) != (answer.scale == nil) && gold.num.Cmp(answer.num) == 0:
		return judgeScale
	}
	return j
}

// unitsAgree tells whether the numbers may be compared as they stand. A single
// letter in the gold may be a variable, so the answer must have it too. What an
// amount of money is paid for or per does not change the amount.
func unitsAgree(gold, answer string) bool {
	if gold == "" || gold == answer || answer == "" && len(gold) > 1 {
		return true
	}
	currency, _, _ := strings.Cut(gold, " ")
	other, _, _ := strings.Cut(answer, " ")
	return currency == other && isMoney[currency]
}

var isMoney = func() map[string]bool {
	names := make(map[string]bool)
	for _, name := range money {
		names[name] = true
	}
	return names
}()

// near compares two numbers: a whole gold exactly, another within tolerance
// times the smaller of 1 and the gold. An answer that is outside but rounds to
// a gold with two or more decimals is unknown: nobody said how the gold was
// rounded.
func near(gold, answer *big.Rat, decimals int, tolerance *big.Rat) judgement {
	if gold.Cmp(answer) == 0 {
		return judgeEqual
	}
	if gold.IsInt() {
		return judgeDiffers
	}
	distance := new(big.Rat).Sub(answer, gold)
	distance.Abs(distance)
	bound := new(big.Rat).Abs(gold)
	if one := big.NewRat(1, 1); bound.Cmp(one) > 0 {
		bound = one
	}
	if distance.Cmp(bound.Mul(bound, tolerance)) <= 0 {
		return judgeNear
	}
	if decimals >= 2 {
		half := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals)), nil)
		if distance.Cmp(new(big.Rat).SetFrac(big.NewInt(1), half.Lsh(half, 1))) <= 0 {
			return judgeRounded
		}
	}
	return judgeDiffers
}
