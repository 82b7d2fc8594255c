package mathexpr

import (
	"math/big"
	"strings"
)

type kind uint8

const (
	kindNumber   kind = iota // an expression, with what stands around it
	kindInfinity             // num is its sign
	kindTuple                // items in order, between open and close: tuples and intervals
	kindSet                  // items in any order, between braces
	kindList                 // items in any order, without brackets
	kindUnion                // sets and intervals, joined by symbols
	kindMatrix               // expr is the matrix
	kindNamed                // name = items[0], or name in items[0]
	kindRelation             // sides with symbols between: inequalities, equations
	kindRatio                // items, a:b
	kindText                 // text
)

// A Value is what a statement says.
type Value struct {
	kind kind

	expr     *node
	decimals int      // digits after the point as written, -1 where expr is no plain decimal
	decimal  bool     // expr holds a number that was written with a point
	percent  bool     //
	scale    *big.Rat // what a word such as million multiplies by; nil for none
	unit     string   // normalised; "" for none
	letters  string   // of a unit that may be variables: 3n, 2ab
	glued    bool     // nothing stands between the number and the letters
	base     int      // of a numeral such as 204_5; 0 for ten

	// identity says that the value ends an equation with variables, a+2z = 2z+a
	// = 101: it is met by such a one only.
	identity bool

	rounded *Value // what follows ≈: 18 of 17.6 ≈ 18

	sign        int // of an infinity
	open, close string
	items       []*Value
	offered     bool // a list that "or" or "and" joins, or that has spaces
	ordered     bool // a list of named values, in the order of their names

	name    string
	symbols []string
	sides   []*node

	text string
}

// Number is the value of a statement that is one rational number without
// variables, with its percent sign and its scale word applied.
func (v *Value) Number() (*big.Rat, bool) {
	if v.kind == kindNamed {
		v = v.items[0]
	}
	if v.kind != kindNumber || v.base != 0 {
		return nil, false
	}
	c := newCalculus()
	e, err := c.eval(v.full())
	if err != nil {
		return nil, false
	}
	return e.rational()
}

// Words is how many words a value that is nothing but words has, or its
// elements have; 0 for numbers and expressions.
func (v *Value) Words() int {
	n := 0
	if v.kind == kindText {
		n = strings.Count(v.text, " ") + 1
	}
	for _, item := range v.items {
		n += item.Words()
	}
	return n
}

// Solution tells whether the value says what one unknown is, x = 5 or x < 2, or
// is an equation, against working such as 9·2 = 18.
func (v *Value) Solution() bool {
	switch v.kind {
	case kindRelation:
		return true
	case kindNamed:
		return len(v.name) <= 1 || strings.ContainsAny(v.name[1:2], "_(,'")
	case kindTuple, kindSet, kindUnion:
		return true
	case kindList:
		for _, item := range v.items {
			if item.kind == kindNamed && !item.Solution() {
				return false
			}
		}
		return true
	}
	return false
}

// full is the expression with scale and percent applied.
func (v *Value) full() *node {
	n := v.scaled()
	if v.percent {
		n = with(opDiv, n, number(100))
	}
	return n
}

// scaled is the expression with the scale but without the percent sign.
func (v *Value) scaled() *node {
	if v.scale == nil {
		return v.expr
	}
	return times(v.expr, ratio(v.scale))
}

// bare tells whether nothing stands around the expression.
func (v *Value) bare() bool {
	return v.kind == kindNumber && !v.percent && v.scale == nil && v.unit == "" && v.base == 0
}

// setLike tells whether the value is a set of numbers.
func (v *Value) setLike() bool {
	switch v.kind {
	case kindTuple:
		return len(v.items) == 2
	case kindSet, kindUnion:
		return true
	}
	return false
}
