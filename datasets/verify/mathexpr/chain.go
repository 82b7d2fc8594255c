package mathexpr

import (
	"slices"
	"strings"
)

// readChain reads parts with relations between them: x = 5, 9*2 = 18, x ≈ 3.1,
// 1 < x ≤ 2, x in [0, 1].
func readChain(parts [][]token, between []token, depth int) (*Value, error) {
	if len(parts) > 16 {
		return nil, ErrTooLarge
	}
	for i, t := range between {
		if t.is("in") {
			if i != len(between)-1 || i > 0 || !isName(parts[0]) {
				return nil, ErrUnreadable
			}
			v, err := readThing(parts[1], depth+1)
			if err != nil {
				return nil, err
			}
			return &Value{kind: kindNamed, name: nameOf(parts[0]), items: []*Value{v}}, nil
		}
	}
	for _, t := range between {
		if !t.is("=") && !t.is("≈") && t.kind == tokSymbol {
			return readRelation(parts, between, depth)
		}
	}
	return readEquation(parts, between, depth)
}

// readEquation reads a chain of = and ≈. What comes after ≈ is a rounded form
// of what was exact before.
func readEquation(parts [][]token, between []token, depth int) (*Value, error) {
	name := ""
	if len(parts) == 2 && between[0].is("=") && !isName(parts[0]) && len(parts[1]) == 1 && isName(parts[1]) && !lettered(parts[0]) {
		parts = [][]token{parts[1], parts[0]} // 5 = x
	}
	if isName(parts[0]) {
		name = nameOf(parts[0])
		parts, between = parts[1:], between[1:]
	}
	var rounded *Value
	for i, t := range between {
		if !t.is("=") {
			rounded, _ = readThing(parts[len(parts)-1], depth+1)
			parts, between = parts[:i+1], between[:i]
			break
		}
	}
	values := make([]*Value, 0, len(parts))
	for i, part := range parts {
		if i < len(parts)-1 && isName(part) {
			continue // x = y = 5
		}
		v, err := readThing(part, depth+1)
		if err != nil {
			return nil, err
		}
		values = append(values, v)
	}
	last := values[len(values)-1]
	if rounded != nil {
		exact := *last
		exact.rounded = rounded
		last = &exact
	}
	if len(values) > 1 {
		switch agree, err := chained(values); {
		case err != nil:
			return nil, err
		case !agree && name == "":
			return readRelation(parts, between, depth)
		case !agree:
			return nil, ErrUnreadable
		case name == "" && !values[0].expr.constant():
			whole := *last
			whole.identity = true
			return &whole, nil
		}
	}
	if name == "" {
		return last, nil
	}
	return &Value{kind: kindNamed, name: name, items: []*Value{last}}, nil
}

// lettered tells whether a letter is among the tokens.
func lettered(tokens []token) bool {
	return slices.ContainsFunc(tokens, func(t token) bool { return t.kind == tokWord || t.kind == tokVar })
}

// chained tells whether values are one value in steps, as 9·2 = 18, against an
// equation. Steps that contradict each other cannot be read. Of a chain with
// variables all but the last step must be the same expression.
func chained(values []*Value) (bool, error) {
	for _, v := range values {
		if v.kind != kindNumber || v.expr.signs() > 0 {
			for _, w := range values {
				if w.kind == kindNumber && !w.expr.constant() {
					return false, nil
				}
			}
			return false, ErrUnreadable
		}
	}
	last := len(values) - 1
	variables := false
	for _, v := range values {
		variables = variables || !v.expr.constant()
	}
	if variables {
		if len(values) < 3 || !values[last].expr.constant() {
			return false, nil
		}
		values = values[:last]
	}
	c := newCalculus()
	for i := 1; i < len(values); i++ {
		zero, err := c.equal(values[i-1].full(), values[i].full())
		if err != nil {
			return false, err
		}
		if values[i-1].percent != values[i].percent && zero != yes {
			zero, err = c.equal(values[i-1].scaled(), values[i].scaled())
			if err != nil {
				return false, err
			}
		}
		if zero != yes {
			return false, errUnlessVariables(variables)
		}
	}
	return true, nil
}

func errUnlessVariables(variables bool) error {
	if variables {
		return nil
	}
	return ErrUnreadable
}

// readRelation reads sides that are plain expressions.
func readRelation(parts [][]token, between []token, depth int) (*Value, error) {
	v := &Value{kind: kindRelation}
	for i, part := range parts {
		if len(part) == 0 {
			return nil, ErrUnreadable
		}
		var side *node
		if inf := infinity(part); inf != nil && (i == 0 || i == len(parts)-1) {
			side = &node{op: opCall, name: "infinity", num: ratio(one).num}
			if inf.sign < 0 {
				side = with(opNeg, side)
			}
		} else {
			n, decimal, err := parseExpression(part, depth+1)
			if err != nil {
				return nil, err
			}
			if n.signs() > 0 {
				return nil, ErrUnreadable
			}
			side = n
			v.decimal = v.decimal || decimal
		}
		v.sides = append(v.sides, side)
		if i < len(between) {
			v.symbols = append(v.symbols, between[i].text)
		}
	}
	if len(parts) == 1 {
		return nil, ErrUnreadable
	}
	return v, nil
}

// isName tells whether the left side of an equation only names what is sought,
// as x, a_1, f(2), |AB|, (p, q), V_1 : V_2 or Total cost. A number is part of a
// name only as a subscript or an argument.
func isName(tokens []token) bool {
	if len(tokens) == 0 || len(tokens) > 16 {
		return false
	}
	words := 0
	for i, t := range tokens {
		before := token{}
		if i > 0 {
			before = tokens[i-1]
		}
		switch t.kind {
		case tokWord:
			if t.word("pi") || functions[t.text] != "" {
				return false
			}
			words++
		case tokVar:
			words++
		case tokCommand:
			if t.text != "accent" && t.text != "mark" && t.text != "frac" {
				return false
			}
		case tokNumber:
			subscript := before.is("_") || before.is("{") && i > 1 && tokens[i-2].is("_")
			argument := (before.is("(") || before.is(",")) && tokens[0].kind == tokWord && tokens[0].letter()
			if !subscript && !argument {
				return false
			}
		case tokSymbol:
			if !strings.Contains("( ) { } _ | , : ' /", t.text) {
				return false
			}
		default:
			return false
		}
	}
	return words > 0 && words <= 6 && tokens[0].kind != tokNumber
}

// nameOf is the name without brackets and spaces.
func nameOf(tokens []token) string {
	var b strings.Builder
	for i, t := range tokens {
		switch {
		case t.is("{"), t.is("}"):
		case t.kind == tokWord, t.kind == tokNumber:
			if i > 0 && t.spaced {
				b.WriteByte(' ')
			}
			b.WriteString(t.raw)
		default:
			b.WriteString(t.text)
		}
	}
	return b.String()
}
