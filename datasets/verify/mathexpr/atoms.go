package mathexpr

import (
	"math/big"
	"strconv"
	"strings"
)

// letter is the variable or the constant that a letter stands for.
func letter(raw string) *node {
	switch raw {
	case "e":
		return with(opE)
	case "i":
		return with(opI)
	}
	return variable(raw)
}

// named reads what may follow a variable's name: subscripts, primes, and the
// arguments of f, g and h.
func (p *parser) named(name string) (*node, error) {
	p.letter = true
	name, err := p.subscript(name)
	if err != nil {
		return nil, err
	}
	for p.take("'") {
		name += "'"
	}
	if strings.ContainsAny(name[:1], "fghFGHO") && p.peek().is("(") && !p.peek().spaced {
		args, err := p.arguments()
		if err != nil {
			return nil, err
		}
		return &node{op: opCall, name: name, args: args}, nil
	}
	if len(name) == 1 {
		return letter(name), nil
	}
	return variable(name), nil
}

func (p *parser) subscript(name string) (string, error) {
	if !p.take("_") {
		return name, nil
	}
	name += "_"
	t := p.peek()
	p.i++
	if !t.is("{") {
		if t.kind != tokNumber && t.kind != tokWord && t.kind != tokVar {
			return "", ErrUnreadable
		}
		return name + t.raw + varName(t), nil
	}
	for range 12 {
		t := p.peek()
		p.i++
		switch {
		case t.is("}"):
			return name, nil
		case t.kind == tokSymbol && t.text != "{" && t.text != "^":
			name += t.text
		case t.kind == tokNumber || t.kind == tokWord || t.kind == tokVar:
			name += t.raw + varName(t)
		default:
			return "", ErrUnreadable
		}
	}
	return "", ErrUnreadable
}

func varName(t token) string {
	if t.kind == tokVar {
		return t.text
	}
	return ""
}

// arguments reads (a, b) from its opening bracket on.
func (p *parser) arguments() ([]*node, error) {
	if !p.take("(") {
		return nil, ErrUnreadable
	}
	p.inside++
	defer func() { p.inside-- }()
	var args []*node
	for len(args) < 8 {
		a, err := p.sum()
		if err != nil {
			return nil, err
		}
		args = append(args, a)
		if p.take(")") {
			return args, nil
		}
		if !p.take(",") && !p.take(";") {
			break
		}
	}
	return nil, ErrUnreadable
}

// wordAtom reads a word as a function, a constant or letters that multiply.
func (p *parser) wordAtom(t token) (*node, error) {
	switch {
	case t.word("sqrt", "cbrt"):
		arg, err := p.arguments()
		if err != nil || len(arg) != 1 {
			return nil, ErrUnreadable
		}
		if t.text == "cbrt" {
			return root(arg[0], number(3)), nil
		}
		return root(arg[0], nil), nil
	case t.word("pi"):
		return with(opPi), nil
	case functions[t.text] != "":
		return p.function(functions[t.text])
	case len(strings.TrimRight(t.raw, "'")) == 1 && t.raw < "\x80":
		return p.named(t.raw)
	case len(t.raw) == 1:
		return nil, ErrUnreadable
	case t.prose || len(t.raw) > 4 || notUnits[t.text] || knownUnits[t.text] || letters(t.raw) != len(t.raw):
		return nil, ErrUnreadable
	}
	// xy is x times y; a subscript or an exponent belongs to the last letter.
	var n *node
	for i := range t.raw[:len(t.raw)-1] {
		f := letter(t.raw[i : i+1])
		if n != nil {
			f = times(n, f)
		}
		n = f
	}
	last, err := p.named(t.raw[len(t.raw)-1:])
	if err != nil {
		return nil, err
	}
	if p.take("^") {
		exponent, err := p.exponent()
		if err != nil {
			return nil, err
		}
		last = power(last, exponent)
	}
	return times(n, last), nil
}

// commandAtom reads what a LaTeX command begins.
func (p *parser) commandAtom(t token) (*node, error) {
	switch t.text {
	case "frac":
		return p.frac()
	case "sqrt":
		return p.sqrt()
	case "pi":
		return with(opPi), nil
	case "fn":
		return p.function(t.raw)
	case "binom":
		n, err := p.frac()
		if err != nil {
			return nil, err
		}
		n.op = opBinom
		return n, nil
	case "accent":
		return p.accent()
	case "begin":
		return p.matrix(t.raw)
	}
	return nil, ErrUnreadable
}

// accent reads \vec{v} and the like as a variable of its own.
func (p *parser) accent() (*node, error) {
	name := "^"
	if !p.take("{") {
		t := p.peek()
		p.i++
		if !t.letter() {
			return nil, ErrUnreadable
		}
		return variable(name + t.raw + varName(t)), nil
	}
	for range 8 {
		t := p.peek()
		p.i++
		switch {
		case t.is("}"):
			return variable(name), nil
		case t.kind == tokWord || t.kind == tokVar:
			name += t.raw + varName(t)
		default:
			return nil, ErrUnreadable
		}
	}
	return nil, ErrUnreadable
}

func (p *parser) sqrt() (*node, error) {
	var degree *node
	if p.take("[") {
		k, err := p.until("]")
		if err != nil {
			return nil, err
		}
		degree = k
	}
	var of *node
	var err error
	switch t := p.peek(); {
	case p.take("{"):
		of, err = p.until("}")
	case p.take("("):
		of, err = p.until(")")
	case t.kind == tokNumber:
		p.i++
		of = ratio(t.num)
	default:
		of, err = p.argument()
	}
	if err != nil {
		return nil, err
	}
	return root(of, degree), nil
}

// function reads a known function: \sin^2 x, \log_2(8), ln x, max(1, 2).
func (p *parser) function(name string) (*node, error) {
	if err := p.down(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	var base, exponent *node
	var err error
	for base == nil || exponent == nil {
		if base == nil && p.take("_") {
			if base, err = p.scriptArgument(); err != nil {
				return nil, err
			}
			continue
		}
		if exponent != nil || !p.take("^") {
			break
		}
		if exponent, err = p.scriptArgument(); err != nil {
			return nil, err
		}
	}
	args, err := p.functionArguments()
	if err != nil {
		return nil, err
	}
	if exponent != nil && exponent.op == opNeg && exponent.args[0].op == opNum && exponent.args[0].num.Cmp(one) == 0 {
		if name = "arc" + name; functions[name] != name { // \sin^{-1} x
			return nil, ErrUnreadable
		}
		exponent = nil
	}
	var n *node
	switch {
	case base != nil && name == "log" && len(args) == 1:
		n = with(opDiv, &node{op: opFunc, name: "ln", args: args}, &node{op: opFunc, name: "ln", args: []*node{base}})
	case base != nil:
		return nil, ErrUnreadable
	case name == "lg" && len(args) == 1:
		n = with(opDiv, &node{op: opFunc, name: "ln", args: args}, &node{op: opFunc, name: "ln", args: []*node{number(10)}})
	case name == "exp" && len(args) == 1:
		n = power(with(opE), args[0])
	default:
		n = &node{op: opFunc, name: name, args: args}
	}
	if exponent != nil {
		n = power(n, exponent)
	}
	return n, nil
}

// scriptArgument reads what stands after ^ or _ of a function.
func (p *parser) scriptArgument() (*node, error) {
	if p.take("{") {
		return p.until("}")
	}
	t := p.peek()
	if t.kind == tokNumber && len(t.raw) > 1 && p.at(p.i-1).is("_") {
		// \log_28 is \log_2 8
		p.replace(token{kind: tokNumber, num: mustRat(t.raw[1:]), decimals: -1, raw: t.raw[1:]})
		return number(int64(t.raw[0] - '0')), nil
	}
	return p.atom()
}

func mustRat(s string) *big.Rat {
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return new(big.Rat)
	}
	return r
}

// functionArguments reads (x), or the product that follows without brackets.
func (p *parser) functionArguments() ([]*node, error) {
	p.inside++
	defer func() { p.inside-- }()
	if p.peek().is("(") {
		args, err := p.arguments()
		if err == nil && p.take("^") {
			return nil, ErrUnreadable // \sin(x)^2 is read in two ways
		}
		return args, err
	}
	var n *node
	for {
		t := p.peek()
		isFactor := t.kind == tokNumber && n == nil || t.kind == tokVar || t.kind == tokVulgar || t.command("pi") || t.command("frac") || t.command("sqrt") ||
			t.kind == tokWord && !t.prose && functions[t.text] == "" && (len(t.raw) == 1 || t.text == "pi")
		if !isFactor {
			break
		}
		f, err := p.power()
		if err != nil {
			return nil, err
		}
		if p.peek().word("degree") {
			p.i++
			f = with(opDiv, times(f, with(opPi)), number(180))
		}
		if n != nil {
			f = times(n, f)
		}
		n = f
	}
	if n == nil || p.peek().is("(") || p.peek().is("/") {
		return nil, ErrUnreadable
	}
	return []*node{n}, nil
}

// matrixEnvironments hold matrices. A vmatrix is a determinant.
var matrixEnvironments = map[string]bool{"pmatrix": true, "bmatrix": true, "matrix": true, "array": true, "smallmatrix": true, "Bmatrix": true}

// matrix reads rows up to \end.
func (p *parser) matrix(env string) (*node, error) {
	if !matrixEnvironments[env] {
		return nil, ErrUnreadable
	}
	p.inside++
	defer func() { p.inside-- }()
	m := &node{op: opMatrix}
	row := 0
	for {
		if end := p.peek(); end.command("end") && row == 0 && len(m.args) > 0 {
			p.i++ // a last \\ before \end
			return m, matched(end, env)
		}
		n, err := p.sum()
		if err != nil {
			return nil, err
		}
		if m.args = append(m.args, n); len(m.args) > maxItems {
			return nil, ErrTooLarge
		}
		row++
		t := p.peek()
		p.i++
		if t.is("&") {
			continue
		}
		if m.columns == 0 {
			m.columns = row
		}
		if row != m.columns {
			return nil, ErrUnreadable
		}
		switch row = 0; {
		case t.is(`\\`):
		case t.command("end"):
			return m, matched(t, env)
		default:
			return nil, ErrUnreadable
		}
	}
}

func matched(end token, env string) error {
	if end.raw != env {
		return ErrUnreadable
	}
	return nil
}

// baseOf reads a numeral such as 204_5 or 1a_{16}: its digits and its base.
func baseOf(tokens []token) (value *big.Rat, base int, ok bool) {
	if len(tokens) < 3 || tokens[0].kind != tokNumber || tokens[0].decimals >= 0 || !tokens[1].is("_") {
		return nil, 0, false
	}
	rest := tokens[2:]
	if len(rest) == 3 && rest[0].is("{") && rest[2].is("}") {
		rest = rest[1:2]
	}
	if len(rest) != 1 || rest[0].kind != tokNumber || !rest[0].num.IsInt() || !rest[0].num.Num().IsInt64() {
		return nil, 0, false
	}
	base = int(min(rest[0].num.Num().Int64(), 99))
	if base < 2 || base > 36 {
		return nil, 0, false
	}
	n, valid := new(big.Int).SetString(tokens[0].raw, base)
	if !valid {
		return nil, 0, false
	}
	return new(big.Rat).SetInt(n), base, true
}

// degreeOf is the degree of a root, from 2 to 100, or 0.
func degreeOf(r *big.Rat) int {
	if !r.IsInt() || len(r.Num().String()) > 3 {
		return 0
	}
	k, _ := strconv.Atoi(r.Num().String())
	if k < 2 || k > 100 {
		return 0
	}
	return k
}
