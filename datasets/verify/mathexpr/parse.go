package mathexpr

import (
	"math/big"
	"strings"
)

// A parser reads an expression. It builds a tree no larger than its tokens and
// computes nothing.
type parser struct {
	tokens   []token
	i        int
	depth    int
	negative bool // a minus stood before the currency: -$5
	decimal  bool // some number was written with a point or in scientific notation
	inside   int  // brackets and groups that are open: a unit stands outside of all
	bars     int  // open |
	money    bool // a currency stood before the number: letters after it are no variables
	letter   bool // a variable was read: a letter that follows is no unit
	added    bool // a plus or minus was read outside of all brackets: of 1+2m, m is no unit
}

func (p *parser) peek() token {
	if p.i < len(p.tokens) {
		return p.tokens[p.i]
	}
	return token{}
}

func (p *parser) at(i int) token {
	if i >= 0 && i < len(p.tokens) {
		return p.tokens[i]
	}
	return token{}
}

func (p *parser) take(symbol string) bool {
	if p.peek().is(symbol) {
		p.i++
		return true
	}
	return false
}

func (p *parser) down() error {
	if p.depth++; p.depth > maxDepth {
		return ErrTooLarge
	}
	return nil
}

// parseExpression reads tokens that are one expression and nothing else.
func parseExpression(tokens []token, depth int) (*node, bool, error) {
	p := &parser{tokens: tokens, depth: depth, inside: 1}
	n, err := p.sum()
	if err == nil && p.i < len(tokens) {
		err = ErrUnreadable
	}
	return n, p.decimal, err
}

func (p *parser) sum() (*node, error) {
	if err := p.down(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	total, err := p.product()
	for err == nil {
		t := p.peek()
		if t.kind != tokSymbol {
			return total, nil
		}
		kind := opAdd
		switch t.text {
		case "+", "-":
		case "±":
			kind = opPM
		case "∓":
			kind = opMP
		default:
			return total, nil
		}
		p.i++
		p.added = p.added || p.inside == 0
		var term *node
		if term, err = p.product(); err != nil {
			break
		}
		if t.text == "-" {
			term = with(opNeg, term)
		}
		total = with(kind, total, term)
	}
	return nil, err
}

func (p *parser) product() (*node, error) {
	total, err := p.signed()
	divided := false
	for err == nil {
		t := p.peek()
		var factor *node
		switch {
		case t.is("*") && p.factorAt(p.i+1), p.isTimes():
			p.i++
			if factor, err = p.signed(); err == nil {
				total = times(total, factor)
			}
		case t.is("/") && p.factorAt(p.i+1):
			p.i++
			divided = true
			if factor, err = p.signed(); err == nil {
				total = with(opDiv, total, factor)
			}
		case p.startsFactor():
			if divided { // 1/2(3) and 1/2x are read in two ways
				return nil, ErrUnreadable
			}
			if factor, err = p.power(); err == nil {
				total = times(total, factor)
			}
		default:
			return total, nil
		}
	}
	return nil, err
}

// startsFactor tells whether a factor follows without a sign between: 2x, 2(3),
// 3√2. A number never does, and a word only where it is no unit.
func (p *parser) startsFactor() bool {
	switch t := p.peek(); t.kind {
	case tokCommand:
		switch t.text {
		case "infty", "emptyset", "reals", "end", "dots", "mark", "pmod", "mod":
			return false
		}
		return true
	case tokVar:
		return true
	case tokWord:
		return p.letters(p.i)
	case tokSymbol:
		return t.text == "(" || t.text == "[" && p.i > 0 && !t.spaced || t.text == "lfloor" || t.text == "lceil" || t.text == "|" && p.bars == 0
	}
	return false
}

// factorAt tells whether a factor can begin at token i, as against a unit.
func (p *parser) factorAt(i int) bool {
	t := p.at(i)
	switch t.kind {
	case tokEnd, tokMoney:
		return false
	case tokWord:
		return p.letters(i)
	}
	return true
}

// isTimes tells whether a letter x stands between two numbers.
func (p *parser) isTimes() bool {
	t, before := p.peek(), p.at(p.i-1)
	hexadecimal := before.raw == "0" && !t.spaced // 0x1F
	return t.word("x") && before.kind == tokNumber && p.at(p.i+1).kind == tokNumber && !hexadecimal
}

// letters tells whether the word at i is variables or a function, and no unit.
func (p *parser) letters(i int) bool {
	t := p.at(i)
	switch fn := functions[t.text]; {
	case fn != "" && p.at(i+1).is("("), t.word("sqrt", "pi", "cbrt"):
		return !t.prose
	case fn != "" && fn != "min":
		return !t.prose && (p.at(i+1).letter() || p.at(i+1).kind == tokNumber || p.at(i+1).is("^") || p.at(i+1).is("_"))
	}
	if p.money && p.inside == 0 {
		return false
	}
	if t.prose && p.inside == 0 && p.i == i && p.unitTail(i) {
		return false // 3\times 10^8\text{ m}
	}
	if len(t.raw) == 1 {
		return p.inside > 0 || p.letter || p.added && !t.spaced || p.at(i-1).kind != tokNumber || !p.unitTail(i)
	}
	return !t.prose && len(t.raw) <= 4 && !t.spaced && !knownUnits[t.text] && !notUnits[t.text] && scales[t.text] == 0 && (p.inside > 0 || p.letter || p.added || !p.unitTail(i) || t.raw != t.text || !vowel(t.raw))
}

func vowel(s string) bool { return strings.ContainsAny(s, "aeiou") }

// unitTail tells whether all that follows from i may be a unit: words, /, ^ and
// exponents.
func (p *parser) unitTail(i int) bool {
	if t := p.at(i); len(t.raw) == 1 && (t.raw != t.text || !strings.Contains(unitLetters, t.text)) {
		return false
	}
	for ; i < len(p.tokens); i++ {
		t := p.tokens[i]
		switch {
		case t.kind == tokWord, t.is("."):
		case (t.is("/") || t.is("*")) && p.at(i+1).kind == tokWord:
		case t.is("^") && p.at(i+1).kind == tokNumber:
			i++
		case t.is("^") && p.at(i+1).is("-") && p.at(i+2).kind == tokNumber:
			i += 2
		case t.is("^") && p.at(i+1).is("{"):
			for i++; i < len(p.tokens) && !p.tokens[i].is("}"); i++ {
			}
		default:
			return false
		}
	}
	return true
}

func (p *parser) signed() (*node, error) {
	negative := false
	for {
		switch t := p.peek(); {
		case p.take("-"):
			negative = !negative
		case p.take("+"):
		case t.is("±"), t.is("∓"):
			p.i++
			n, err := p.power()
			if err != nil || negative {
				return nil, ErrUnreadable
			}
			if t.text == "±" {
				return with(opPM, n), nil
			}
			return with(opMP, n), nil
		default:
			n, err := p.power()
			if err == nil && negative {
				n = with(opNeg, n)
			}
			return n, err
		}
	}
}

func (p *parser) power() (*node, error) {
	base, err := p.postfix()
	if err != nil || !p.take("^") {
		return base, err
	}
	if err := p.down(); err != nil {
		return nil, err
	}
	defer func() { p.depth-- }()
	exponent, err := p.exponent()
	if err != nil {
		return nil, err
	}
	return power(base, exponent), nil
}

func (p *parser) exponent() (*node, error) {
	if p.take("{") {
		return p.until("}")
	}
	if t := p.peek(); t.kind == tokWord && !t.prose && len(t.raw) > 1 && t.raw < "\x80" && functions[t.text] == "" && t.text != "pi" && t.text != "sqrt" {
		// LaTeX raises one letter: e^xy is e^x times y.
		p.replace(token{kind: tokWord, text: t.text[1:], raw: t.raw[1:]})
		return letter(t.raw[:1]), nil
	}
	return p.signed()
}

// postfix reads an atom and the factorials after it.
func (p *parser) postfix() (*node, error) {
	n, err := p.atom()
	for err == nil && p.take("!") {
		n = with(opFact, n)
	}
	return n, err
}

func (p *parser) atom() (*node, error) {
	t := p.peek()
	p.i++
	switch t.kind {
	case tokNumber:
		p.decimal = p.decimal || t.decimals >= 0 || strings.ContainsAny(t.raw, "eE")
		return p.mixed(t)
	case tokVulgar:
		return ratio(t.num), nil
	case tokVar:
		return p.named(t.text)
	case tokWord:
		return p.wordAtom(t)
	case tokCommand:
		return p.commandAtom(t)
	case tokSymbol:
		switch t.text {
		case "(":
			return p.until(")")
		case "[":
			return p.until("]")
		case "{":
			return p.until("}")
		case "|":
			p.bars++
			n, err := p.until("|")
			p.bars--
			return with(opAbs, n), err
		case "lfloor":
			n, err := p.until("rfloor")
			return with(opFloor, n), err
		case "lceil":
			n, err := p.until("rceil")
			return with(opCeil, n), err
		}
	}
	return nil, ErrUnreadable
}

// mixed reads what may follow a whole number as its fraction: 2 1/2, 2½,
// 2\frac{1}{2}.
func (p *parser) mixed(whole token) (*node, error) {
	next := p.peek()
	if whole.decimals >= 0 || !whole.num.IsInt() {
		return ratio(whole.num), nil
	}
	switch {
	case next.kind == tokVulgar:
		p.i++
		return ratio(new(big.Rat).Add(whole.num, next.num)), nil
	case next.command("frac"):
		at := p.i
		p.i++
		part, err := p.frac()
		if err != nil {
			return nil, err
		}
		if num, den := part.args[0], part.args[1]; num.op == opNum && den.op == opNum && num.num.Sign() >= 0 && num.num.Cmp(den.num) < 0 {
			return with(opAdd, ratio(whole.num), part), nil
		}
		p.i = at // 2\frac{3}{2} is a product
	case next.kind == tokNumber && next.spaced && p.at(p.i+1).is("/") && p.at(p.i+2).kind == tokNumber:
		den := p.tokens[p.i+2].num
		if den.Sign() == 0 || next.num.Cmp(den) >= 0 {
			return nil, ErrUnreadable
		}
		p.i += 3
		return ratio(new(big.Rat).Add(whole.num, new(big.Rat).Quo(next.num, den))), nil
	}
	return ratio(whole.num), nil
}

// until reads an expression up to a closing bracket.
func (p *parser) until(shut string) (*node, error) {
	p.inside++
	n, err := p.sum()
	p.inside--
	if err != nil {
		return nil, err
	}
	if !p.take(shut) {
		return nil, ErrUnreadable
	}
	return n, nil
}

func (p *parser) frac() (*node, error) {
	num, err := p.argument()
	if err != nil {
		return nil, err
	}
	den, err := p.argument()
	if err != nil {
		return nil, err
	}
	return with(opDiv, num, den), nil
}

// argument is a braced expression, one letter or one digit. Of \frac12 the
// digits are taken one by one.
func (p *parser) argument() (*node, error) {
	if p.take("{") {
		return p.until("}")
	}
	t := p.peek()
	switch {
	case t.kind == tokVar || t.command("pi") || t.kind == tokWord && len(t.raw) == 1:
		p.inside++
		n, err := p.atom()
		p.inside--
		return n, err
	case t.kind == tokCommand && (t.text == "frac" || t.text == "sqrt"):
		return p.atom()
	case t.kind == tokWord && len(t.raw) == 2: // \frac ab
		p.replace(token{kind: tokWord, text: t.text[1:], raw: t.raw[1:]})
		return letter(t.raw[:1]), nil
	}
	if t.kind != tokNumber || t.decimals >= 0 || len(t.raw) > 2 || digits(t.raw) != len(t.raw) {
		return nil, ErrUnreadable
	}
	if len(t.raw) == 1 {
		p.i++
		return ratio(t.num), nil
	}
	p.replace(token{kind: tokNumber, num: big.NewRat(int64(t.raw[1]-'0'), 1), decimals: -1, raw: t.raw[1:]})
	return number(int64(t.raw[0] - '0')), nil
}

// replace puts a token in the place of the next one. The tokens are shared with
// what was split off them, never read twice.
func (p *parser) replace(t token) {
	rest := make([]token, len(p.tokens))
	copy(rest, p.tokens)
	rest[p.i] = t
	p.tokens = rest
}
