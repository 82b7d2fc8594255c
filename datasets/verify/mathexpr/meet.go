package mathexpr

import (
	"errors"
	"math/big"
	"slices"
	"strings"
)

// A Verdict is what a judgement says.
type Verdict uint8

const (
	Unknown Verdict = iota
	Pass
	Fail
)

// A Judgement of an answer against the gold. Reasons are few, so that a build
// can count by them.
type Judgement struct {
	Verdict Verdict
	Reason  string
}

var (
	judgeEqual     = Judgement{Pass, "equal"}
	judgeNear      = Judgement{Pass, "within tolerance"}
	judgeDiffers   = Judgement{Fail, "different"}
	judgeNoSign    = Judgement{Fail, "percent sign missing"}
	judgeSeveral   = Judgement{Fail, "several values offered"}
	judgeFewer     = Judgement{Fail, "fewer values than gold"}
	judgeSign      = Judgement{Unknown, "percent sign not in gold"}
	judgeScale     = Judgement{Unknown, "scale word on one side only"}
	judgeRounded   = Judgement{Unknown, "rounds to gold, outside tolerance"}
	judgeUnits     = Judgement{Unknown, "units differ"}
	judgeKinds     = Judgement{Unknown, "kinds of value differ"}
	judgeNames     = Judgement{Unknown, "names differ"}
	judgeOrder     = Judgement{Unknown, "order differs"}
	judgeWords     = Judgement{Unknown, "words differ"}
	judgeUnsolved  = Judgement{Unknown, "inequality where gold is a set"}
	judgeVariable  = Judgement{Unknown, "variable where gold has none"}
	judgeComma     = Judgement{Unknown, "decimal comma or two values"}
	judgeUndecided = Judgement{Unknown, "equality not decided"}
	judgeBig       = Judgement{Unknown, "too large to compare"}
	judgeNoValue   = Judgement{Unknown, "no value"}
)

// Meets judges an answer against the gold; the two are not symmetric. Decimals
// may be off by tolerance times the smaller of one and the gold, unless the
// gold is a whole number; nil is none.
//
//   - A gold with a name, x = 5, is met by 5, and a gold 5 by x = 5. A gold that
//     is an equation, 2x + z = 1, is never met by its right side alone.
//   - A gold that is an inequality is met by its set of solutions. A gold that is
//     a set is not met by an inequality, which may be the question repeated.
//   - A gold that is a tuple is met by its elements without brackets, in order.
func Meets(gold, answer *Value, tolerance *big.Rat) Judgement {
	if tolerance == nil {
		tolerance = new(big.Rat)
	}
	m := &meeting{calculus: newCalculus(), tolerance: tolerance}
	j := m.meets(gold, answer, 0)
	if rounded := unname(answer).rounded; j.Verdict == Fail && rounded != nil && m.meets(unname(gold), rounded, 0).Verdict == Pass {
		return judgeRounded
	}
	return j
}

// A meeting is one comparison.
type meeting struct {
	*calculus
	tolerance *big.Rat
}

func newRat() *big.Rat { return new(big.Rat) }

// fault is the judgement where something could not be computed.
func (m *meeting) fault(err error) Judgement {
	switch {
	case errors.Is(err, ErrTooLarge):
		return judgeBig
	case errors.Is(err, errNoSign):
		return judgeUndecided
	}
	return judgeNoValue
}

func (m *meeting) meets(gold, answer *Value, depth int) Judgement {
	if depth > 2*maxDepth {
		return judgeBig
	}
	if gold.kind == kindNamed || answer.kind == kindNamed {
		if j, done := m.meetsNamed(gold, answer, depth); done {
			return j
		}
		gold, answer = unname(gold), unname(answer)
	}
	if one := onlyItem(gold); one != nil && answer.kind == kindNumber {
		gold = one
	}
	if one := onlyItem(answer); one != nil && gold.kind == kindNumber {
		answer = one
	}
	gold, answer = expandSigns(gold), expandSigns(answer)
	if gold.kind != answer.kind {
		return m.meetsOther(gold, answer, depth)
	}
	if gold.identity && !answer.identity {
		return judgeKinds
	}
	switch gold.kind {
	case kindInfinity:
		return judge(gold.sign == answer.sign)
	case kindTuple:
		return m.meetsTuple(gold, answer, depth)
	case kindSet:
		return m.meetsElements(gold.items, answer.items, depth)
	case kindList:
		return m.meetsList(gold, answer, depth)
	case kindUnion:
		if len(gold.items) == len(answer.items) && plainUnion(gold) && plainUnion(answer) {
			if j := m.meetsElements(gold.items, answer.items, depth); j.Verdict == Pass {
				return j
			}
		}
		return m.meetsSets(gold, answer)
	case kindMatrix:
		return m.meetsMatrix(gold, answer)
	case kindRelation:
		return m.meetsRelation(gold, answer)
	case kindRatio:
		return m.meetsRatio(gold, answer, depth)
	case kindText:
		return meetsText(gold.text, answer.text)
	}
	return m.meetsNumber(gold, answer)
}

func judge(equal bool) Judgement {
	if equal {
		return judgeEqual
	}
	return judgeDiffers
}

func unname(v *Value) *Value {
	if v.kind == kindNamed {
		return v.items[0]
	}
	return v
}

// onlyItem is the one element of a set or a list.
func onlyItem(v *Value) *Value {
	if (v.kind == kindSet || v.kind == kindList) && len(v.items) == 1 {
		return unname(v.items[0])
	}
	return nil
}

// expandSigns makes a list of a ± b. With more than one sign it stays as it is,
// and is met by the same text only.
func expandSigns(v *Value) *Value {
	if v.kind != kindNumber || v.expr.signs() != 1 {
		return v
	}
	upper, lower := *v, *v
	upper.expr, lower.expr = v.expr.choose(true), v.expr.choose(false)
	return &Value{kind: kindList, offered: true, items: []*Value{&upper, &lower}}
}

// meetsNamed judges where a side has a name. It is done where the names decide.
func (m *meeting) meetsNamed(gold, answer *Value, depth int) (Judgement, bool) {
	switch {
	case gold.kind == kindNamed && answer.kind == kindNamed:
		j := m.meets(gold.items[0], answer.items[0], depth+1)
		if sameName(gold.name, answer.name) {
			return j, true
		}
		if g, ok := equation(gold); ok {
			if a, ok := equation(answer); ok {
				if same := m.meetsRelation(g, a); same.Verdict == Pass {
					return same, true
				}
			}
		}
		if j.Verdict == Pass {
			return judgeNames, true
		}
		return j, true
	case gold.kind == kindNamed && answer.kind == kindRelation:
		if g, ok := equation(gold); ok {
			return m.meetsRelation(g, answer), true
		}
		return judgeKinds, true
	case gold.kind == kindRelation:
		if a, ok := equation(answer); ok {
			return m.meetsRelation(gold, a), true
		}
	}
	return Judgement{}, false
}

// equation is x = value as a relation, if the name is one variable.
func equation(v *Value) (*Value, bool) {
	if len([]rune(v.name)) != 1 || v.items[0].kind != kindNumber || !v.items[0].bare() {
		return nil, false
	}
	return &Value{kind: kindRelation, symbols: []string{"="}, sides: []*node{letter(v.name), v.items[0].expr}}, true
}

// sameName compares names. W(n) and W(x) are one function.
func sameName(a, b string) bool {
	function := func(s string) string {
		head, argument, ok := strings.Cut(s, "(")
		if ok && len(head) == 1 && len(argument) == 2 && argument[0] > '9' {
			return head + "()"
		}
		return s
	}
	return function(a) == function(b)
}

// meetsOther judges values of different kinds.
func (m *meeting) meetsOther(gold, answer *Value, depth int) Judgement {
	switch g, a := gold.kind, answer.kind; {
	case g == kindTuple && a == kindList || g == kindTuple && a == kindSet && answer.offered:
		if gold.open != "(" || gold.close != ")" || len(gold.items) != len(answer.items) {
			return judgeKinds
		}
		return m.inOrder(gold.items, answer.items, depth)
	case g == kindList && a == kindTuple && !(answer.open == "(" && answer.close == ")" || answer.open == "langle"):
		return judgeKinds // 1, 2 and (1, 2]
	case g == kindList && a == kindTuple && gold.ordered:
		return m.inOrder(gold.items, answer.items, depth)
	case g == kindList && a == kindTuple:
		if j := m.inOrder(gold.items, answer.items, depth); j.Verdict == Pass && len(gold.items) == len(answer.items) {
			return j
		}
		return judgeKinds
	case g == kindList && a == kindSet, g == kindSet && a == kindList:
		return m.meetsElements(gold.items, answer.items, depth)
	case g == kindRelation && (answer.setLike() || a == kindList):
		return m.meetsSets(gold, answer)
	case gold.setLike() && (a == kindRelation || a == kindUnion && relations(answer)):
		return judgeUnsolved
	case gold.setLike() && answer.setLike():
		return m.meetsSets(gold, answer)
	case g == kindUnion && relations(gold) && a == kindRelation, g == kindRelation && a == kindUnion:
		return m.meetsSets(gold, answer)
	case g == kindRatio && a == kindNumber && plainRatio(gold) && len(gold.items) == 2:
		return m.meets(quotient(gold), answer, depth+1)
	case a == kindRatio && g == kindNumber && plainRatio(answer) && len(answer.items) == 2:
		return m.meets(gold, quotient(answer), depth+1)
	case g == kindNumber && (a == kindList || a == kindSet):
		if !answer.offered && a == kindList {
			return judgeComma
		}
		if compound(answer) {
			return judgeUnits // 18 dollars and 50 cents
		}
		return judgeSeveral
	case (g == kindList || g == kindSet) && a == kindNumber:
		if !gold.offered && g == kindList {
			return judgeComma
		}
		return judgeFewer
	}
	return judgeKinds
}

// compound tells whether a list is one quantity in several units.
func compound(v *Value) bool {
	units := map[string]bool{}
	for _, item := range v.items {
		if item.kind != kindNumber || item.unit == "" || units[item.unit] {
			return false
		}
		units[item.unit] = true
	}
	return true
}

// relations tells whether a union is made of inequalities.
func relations(v *Value) bool { return len(v.items) > 0 && v.items[0].kind == kindRelation }

func plainUnion(v *Value) bool {
	for i, s := range v.symbols {
		if s != "cup" || v.items[i].kind == kindRelation {
			return false
		}
	}
	return true
}

// plainRatio tells whether a ratio is of expressions without units.
func plainRatio(v *Value) bool {
	return !slices.ContainsFunc(v.items, func(item *Value) bool { return !item.bare() })
}

// quotient is a plain ratio as a number.
func quotient(v *Value) *Value {
	return &Value{kind: kindNumber, decimals: -1, expr: with(opDiv, v.items[0].expr, v.items[1].expr)}
}

func (m *meeting) meetsTuple(gold, answer *Value, depth int) Judgement {
	if len(gold.items) != len(answer.items) || gold.open != answer.open || gold.close != answer.close {
		return judgeDiffers
	}
	return m.inOrder(gold.items, answer.items, depth)
}

func (m *meeting) inOrder(gold, answer []*Value, depth int) Judgement {
	if len(gold) != len(answer) {
		return judgeDiffers
	}
	worst := judgeEqual
	for i := range gold {
		worst = worse(worst, m.meets(unname(gold[i]), unname(answer[i]), depth+1))
	}
	return worst
}

// meetsList compares lists. Where only one side has names, their order counts.
func (m *meeting) meetsList(gold, answer *Value, depth int) Judgement {
	if gold.ordered != answer.ordered && len(gold.items) == len(answer.items) {
		j := m.inOrder(gold.items, answer.items, depth)
		if j.Verdict != Pass && m.meetsElements(gold.items, answer.items, depth).Verdict == Pass {
			return judgeOrder
		}
		return j
	}
	return m.meetsElements(gold.items, answer.items, depth)
}

// meetsElements pairs every element of gold with its own of answer.
func (m *meeting) meetsElements(gold, answer []*Value, depth int) Judgement {
	if len(gold) != len(answer) {
		if gold, answer = m.distinct(gold, depth), m.distinct(answer, depth); len(gold) != len(answer) {
			return judgeDiffers
		}
	}
	used := make([]bool, len(answer))
	worst := judgeEqual
	for _, near := range []bool{false, true} {
		var left []*Value
		for _, g := range gold {
			best, at := judgeDiffers, -1
			for i, a := range answer {
				if used[i] {
					continue
				}
				j := m.meets(g, a, depth+1)
				if j == judgeBig {
					return j
				}
				if at < 0 || worse(best, j) == best {
					best, at = j, i
				}
				if best == judgeEqual {
					break
				}
			}
			switch {
			case best == judgeEqual || near && best.Verdict == Pass:
				used[at] = true
				worst = worse(worst, best)
			case near:
				worst = worse(worst, best)
			default:
				left = append(left, g)
			}
		}
		gold = left
	}
	return worst
}

// distinct drops elements that are equal to one before.
func (m *meeting) distinct(items []*Value, depth int) []*Value {
	var out []*Value
	for _, v := range items {
		if !slices.ContainsFunc(out, func(o *Value) bool { return m.meets(o, v, depth+1) == judgeEqual }) {
			out = append(out, v)
		}
	}
	return out
}

// worse is the judgement that decides a whole: fail before unknown before pass.
func worse(a, b Judgement) Judgement {
	rank := func(j Judgement) int {
		switch {
		case j == judgeEqual:
			return 0
		case j.Verdict == Pass:
			return 1
		case j.Verdict == Unknown:
			return 2
		}
		return 3
	}
	if rank(b) > rank(a) {
		return b
	}
	return a
}
