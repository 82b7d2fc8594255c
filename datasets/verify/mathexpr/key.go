package mathexpr

import (
	"math/big"
	"slices"
	"strconv"
	"strings"
)

// Key is a text that values have in common only if they are equal: 1/2, 0.5,
// \frac{2}{4} and 50 % have one key, and so have {1, 2} and "2 and 1". Names,
// units and currencies are not in it. Equal values may still have two keys,
// where it takes a proof to tell: [Meets] is what decides. It is false for what
// is too large or has no value.
func (v *Value) Key() (string, bool) {
	k := &keys{newCalculus(), make(map[int]string)}
	s, err := k.value(v, 0)
	return s, err == nil && s != ""
}

type keys struct {
	*calculus
	names map[int]string // of atoms
}

func (k *keys) value(v *Value, depth int) (string, error) {
	if depth > 2*maxDepth {
		return "", ErrTooLarge
	}
	if only := onlyItem(v); only != nil {
		v = only
	}
	v = expandSigns(unname(v))
	switch v.kind {
	case kindNumber:
		e, err := k.eval(multiplied(v).full())
		if err != nil {
			return "", err
		}
		s, err := k.expr(e, 0)
		if v.base != 0 {
			s += "_" + strconv.Itoa(v.base)
		}
		return s, err
	case kindInfinity:
		return map[int]string{1: "∞", -1: "-∞"}[v.sign], nil
	case kindText:
		return v.text, nil
	case kindMatrix:
		g, err := k.evalGrid(v.expr)
		if err != nil {
			return "", err
		}
		cells := make([]string, len(g.cells))
		for i, cell := range g.cells {
			if cells[i], err = k.expr(cell, 0); err != nil {
				return "", err
			}
		}
		return "matrix" + strconv.Itoa(g.columns) + "(" + strings.Join(cells, ",") + ")", nil
	case kindRelation:
		return k.relationKey(v)
	}
	items := make([]string, len(v.items))
	for i, item := range v.items {
		s, err := k.value(item, depth+1)
		if err != nil {
			return "", err
		}
		items[i] = s
	}
	switch v.kind {
	case kindTuple:
		return v.open + strings.Join(items, ",") + v.close, nil
	case kindRatio:
		return strings.Join(items, ":"), nil
	case kindUnion:
		if !plainUnion(v) {
			return strings.Join(v.symbols, ",") + "(" + strings.Join(items, ",") + ")", nil
		}
		slices.Sort(items)
		return strings.Join(items, "∪"), nil
	}
	slices.Sort(items)
	return "{" + strings.Join(items, ",") + "}", nil
}

func (k *keys) relationKey(v *Value) (string, error) {
	var b strings.Builder
	for i, side := range v.sides {
		e, err := k.eval(side)
		if err != nil {
			return "", err
		}
		s, err := k.expr(e, 0)
		if err != nil {
			return "", err
		}
		b.WriteString(s)
		if i < len(v.symbols) {
			b.WriteString(v.symbols[i])
		}
	}
	return b.String(), nil
}

// maxKey bounds a key, in bytes.
const maxKey = 16 << 10

// expr writes an expression by the names of its atoms, so that it does not
// depend on the order in which they were met.
func (k *keys) expr(e expr, depth int) (string, error) {
	if r, ok := e.rational(); ok {
		return r.RatString(), nil
	}
	num, err := k.terms(e.num, depth)
	if err != nil {
		return "", err
	}
	den, err := k.terms(e.den, depth)
	if err != nil {
		return "", err
	}
	// Make the first coefficient of the denominator one.
	lead := den[0].coefficient
	s := joinTerms(num, lead)
	if len(den) > 1 || den[0].name != "" {
		s = "(" + s + ")/(" + joinTerms(den, lead) + ")"
	}
	if len(s) > maxKey {
		return "", ErrTooLarge
	}
	return s, nil
}

type term struct {
	name        string
	coefficient *big.Rat
}

func joinTerms(terms []term, lead *big.Rat) string {
	parts := make([]string, len(terms))
	for i, t := range terms {
		c := new(big.Rat).Quo(t.coefficient, lead)
		switch {
		case t.name == "":
			parts[i] = c.RatString()
		case c.Cmp(one) == 0:
			parts[i] = t.name
		default:
			parts[i] = c.RatString() + "*" + t.name
		}
	}
	return strings.Join(parts, "+")
}

func (k *keys) terms(p poly, depth int) ([]term, error) {
	var terms []term
	for m, coefficient := range p {
		var factors []string
		for i := 0; i < len(m); i += 3 {
			at, exponent := m.at(i)
			name, err := k.atomName(at, depth)
			if err != nil {
				return nil, err
			}
			if exponent > 1 {
				name += "^" + strconv.Itoa(exponent)
			}
			factors = append(factors, name)
		}
		slices.Sort(factors)
		terms = append(terms, term{strings.Join(factors, "*"), coefficient})
	}
	slices.SortFunc(terms, func(a, b term) int { return strings.Compare(a.name, b.name) })
	return terms, nil
}

func (k *keys) atomName(at, depth int) (string, error) {
	if depth > maxDepth {
		return "", ErrTooLarge
	}
	if name, ok := k.names[at]; ok {
		return name, nil
	}
	a := &k.atoms[at]
	var args []string
	for _, arg := range append([]expr{a.arg}, a.args...) {
		if arg.num == nil {
			continue
		}
		s, err := k.expr(arg, depth+1)
		if err != nil {
			return "", err
		}
		args = append(args, s)
	}
	name := map[atomKind]string{atomRoot: "root" + strconv.Itoa(a.degree), atomI: "i", atomAbs: "abs", atomPi: "pi", atomE: "e", atomPower: "pow " + a.name}[a.kind]
	if name == "" {
		name = a.name
	}
	if len(args) > 0 {
		name += "(" + strings.Join(args, ",") + ")"
	}
	if len(name) > maxKey {
		return "", ErrTooLarge
	}
	k.names[at] = name
	return name, k.step(1 + len(name)/16)
}
