package mathexpr

import "math/big"

type op uint8

const (
	opNum    op = iota // num
	opVar              // name
	opPi               // the constants
	opE                //
	opI                // the imaginary unit
	opAdd              // args
	opMul              // args
	opDiv              // args[0] / args[1]
	opNeg              // args[0]
	opPow              // args[0] ^ args[1]
	opRoot             // the root of args[0], of the degree num
	opFunc             // name of args, known: sin, ln, max
	opCall             // name of args, unknown: f(2)
	opAbs              // |args[0]|
	opFact             // args[0]!
	opBinom            // args[0] over args[1]
	opFloor            //
	opCeil             //
	opPM               // args[0] ± args[1], or ± args[0]
	opMP               // the same with ∓
	opMatrix           // args by rows of width columns
)

// A node is an expression as it was written.
type node struct {
	op      op
	num     *big.Rat
	name    string
	args    []*node
	columns int
}

func number(n int64) *node        { return &node{op: opNum, num: big.NewRat(n, 1)} }
func ratio(r *big.Rat) *node      { return &node{op: opNum, num: r} }
func with(o op, a ...*node) *node { return &node{op: o, args: a} }
func variable(name string) *node  { return &node{op: opVar, name: name} }
func power(base, exp *node) *node { return with(opPow, base, exp) }
func times(a, b *node) *node      { return with(opMul, a, b) }
func minus(a, b *node) *node      { return with(opAdd, a, with(opNeg, b)) }
func root(of *node, k *node) *node {
	if k == nil {
		return &node{op: opRoot, num: big.NewRat(2, 1), args: []*node{of}}
	}
	if k.op == opNum {
		return &node{op: opRoot, num: k.num, args: []*node{of}}
	}
	return power(of, with(opDiv, number(1), k))
}

// any tells whether something in the expression meets test.
func (n *node) any(test func(*node) bool) bool {
	if test(n) {
		return true
	}
	for _, a := range n.args {
		if a.any(test) {
			return true
		}
	}
	return false
}

func (n *node) has(o op) bool { return n.any(func(n *node) bool { return n.op == o }) }

// constant tells whether the expression has neither variables nor functions
// that nobody knows.
func (n *node) constant() bool {
	return !n.any(func(n *node) bool { return n.op == opVar || n.op == opCall })
}

// signs counts the ± and ∓ of an expression.
func (n *node) signs() int {
	count := 0
	n.any(func(n *node) bool {
		if n.op == opPM || n.op == opMP {
			count++
		}
		return false
	})
	return count
}

// choose replaces every ± by its upper or its lower sign.
func (n *node) choose(upper bool) *node {
	if len(n.args) == 0 {
		return n
	}
	c := *n
	c.args = make([]*node, len(n.args))
	for i, a := range n.args {
		c.args[i] = a.choose(upper)
	}
	if c.op == opPM || c.op == opMP {
		last := len(c.args) - 1
		if (c.op == opPM) != upper {
			c.args[last] = with(opNeg, c.args[last])
		}
		if last == 0 {
			return c.args[0]
		}
		c.op = opAdd
	}
	return &c
}
