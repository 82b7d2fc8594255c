package mathexpr

import "math/big"

// meetsMatrix compares entry by entry.
func (m *meeting) meetsMatrix(gold, answer *Value) Judgement {
	g, err := m.evalGrid(gold.expr)
	if err != nil {
		return m.fault(err)
	}
	a, err := m.evalGrid(answer.expr)
	if err != nil {
		return m.fault(err)
	}
	if g.columns != a.columns || len(g.cells) != len(a.cells) {
		return judgeDiffers
	}
	worst := judgeEqual
	for i := range g.cells {
		worst = worse(worst, m.near(g.cells[i], a.cells[i], -1, gold.decimal || answer.decimal))
	}
	return worst
}

// meetsRatio compares a : b with c : d. What may be a time of day is compared
// part by part.
func (m *meeting) meetsRatio(gold, answer *Value, depth int) Judgement {
	j := m.inOrder(gold.items, answer.items, depth)
	if j.Verdict == Pass || len(gold.items) != len(answer.items) || !plainRatio(gold) || !plainRatio(answer) {
		return j
	}
	for i := 1; i < len(gold.items); i++ {
		pair := func(v *Value) *Value {
			return quotient(&Value{items: []*Value{v.items[0], v.items[i]}})
		}
		if p := m.meets(pair(gold), pair(answer), depth+1); p.Verdict != Pass {
			return worse(p, j)
		}
	}
	if len(gold.items) == 2 && gold.items[1].decimals < 0 && twoDigits(gold.items[1]) && twoDigits(answer.items[1]) {
		return judgeUndecided
	}
	return judgeEqual
}

func twoDigits(v *Value) bool {
	return v.expr.op == opNum && v.expr.num.IsInt() && v.expr.num.Cmp(big.NewRat(60, 1)) < 0 && (v.expr.num.Sign() == 0 || v.expr.num.Cmp(big.NewRat(10, 1)) >= 0)
}

// opposites are the words that exclude each other.
var opposites = []map[string]bool{set("yes no"), set("true false"), set("odd even"), set("correct incorrect"), set("increasing decreasing"), set("convergent divergent")}

func meetsText(gold, answer string) Judgement {
	if gold == answer {
		return judgeEqual
	}
	for _, o := range opposites {
		if o[gold] && o[answer] {
			return judgeDiffers
		}
	}
	return judgeWords
}

// meetsSets compares sets of real numbers, exactly.
func (m *meeting) meetsSets(gold, answer *Value) Judgement {
	m.solved = nil
	g, err := m.setOf(gold)
	if err != nil {
		return m.fault(err)
	}
	a, err := m.setOf(answer)
	if err != nil {
		return m.fault(err)
	}
	for _, at := range m.solved {
		if at != m.solved[0] {
			return judgeNames // x > 1 and y > 1
		}
	}
	if len(g) != len(a) {
		return judgeDiffers
	}
	decimal := holdsDecimal(gold) || holdsDecimal(answer)
	worst := judgeEqual
	for i := range g {
		for _, ends := range [2][2]bound{{g[i].lo, a[i].lo}, {g[i].hi, a[i].hi}} {
			switch x, y := ends[0], ends[1]; {
			case x.infinite != y.infinite || x.open != y.open:
				return judgeDiffers
			case x.infinite == 0:
				worst = worse(worst, m.near(x.at, y.at, -1, decimal))
			}
		}
	}
	return worst
}

func holdsDecimal(v *Value) bool {
	for _, item := range v.items {
		if holdsDecimal(item) {
			return true
		}
	}
	return v.decimal
}
