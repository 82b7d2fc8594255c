package mathexpr

import "math/big"

// A grid is the value of a matrix, by rows.
type grid struct {
	columns int
	cells   []expr
}

func (g grid) rows() int { return len(g.cells) / g.columns }

// evalGrid gives the value of a tree that holds matrices: sums, differences and
// products of matrices, and their products with numbers. A number is a grid of
// no columns.
func (c *calculus) evalGrid(n *node) (grid, error) {
	if !n.has(opMatrix) {
		e, err := c.eval(n)
		return grid{0, []expr{e}}, err
	}
	if n.op == opMatrix {
		g := grid{columns: n.columns}
		for _, a := range n.args {
			e, err := c.eval(a)
			if err != nil {
				return grid{}, err
			}
			g.cells = append(g.cells, e)
		}
		return g, nil
	}
	args := make([]grid, len(n.args))
	for i, a := range n.args {
		g, err := c.evalGrid(a)
		if err != nil {
			return grid{}, err
		}
		args[i] = g
	}
	switch n.op {
	case opNeg:
		return c.scaleGrid(args[0], neg(rationalExpr(one)))
	case opAdd:
		return c.addGrid(args[0], args[1])
	case opMul:
		return c.mulGrid(args[0], args[1])
	case opDiv:
		if args[1].columns == 0 {
			inverse, err := c.div(rationalExpr(one), args[1].cells[0])
			if err != nil {
				return grid{}, err
			}
			return c.scaleGrid(args[0], inverse)
		}
	}
	return grid{}, ErrUnreadable
}

func (c *calculus) scaleGrid(g grid, by expr) (grid, error) {
	out := grid{columns: g.columns}
	for _, cell := range g.cells {
		e, err := c.mul(cell, by)
		if err != nil {
			return grid{}, err
		}
		out.cells = append(out.cells, e)
	}
	return out, nil
}

func (c *calculus) addGrid(a, b grid) (grid, error) {
	if a.columns != b.columns || len(a.cells) != len(b.cells) {
		return grid{}, ErrUnreadable
	}
	out := grid{columns: a.columns}
	for i := range a.cells {
		e, err := c.add(a.cells[i], b.cells[i])
		if err != nil {
			return grid{}, err
		}
		out.cells = append(out.cells, e)
	}
	return out, nil
}

func (c *calculus) mulGrid(a, b grid) (grid, error) {
	switch {
	case a.columns == 0:
		return c.scaleGrid(b, a.cells[0])
	case b.columns == 0:
		return c.scaleGrid(a, b.cells[0])
	case a.columns != b.rows():
		return grid{}, ErrUnreadable
	}
	out := grid{columns: b.columns}
	for i := range a.rows() {
		for j := range b.columns {
			sum := rationalExpr(new(big.Rat))
			for k := range a.columns {
				product, err := c.mul(a.cells[i*a.columns+k], b.cells[k*b.columns+j])
				if err != nil {
					return grid{}, err
				}
				if sum, err = c.add(sum, product); err != nil {
					return grid{}, err
				}
			}
			out.cells = append(out.cells, sum)
		}
	}
	return out, nil
}
