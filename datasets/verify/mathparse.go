package verify

import (
	"math/big"
	"strings"
)

// readValue reads a statement as one value: a number (an expression of + - * /
// ^, fractions and square roots that come out rational) with its currency,
// percent sign, scale word and unit; a tuple, an interval, a set or a bare list
// of values; x = value; or a chain of equal expressions.
func readValue(statement string) (*value, error) {
	tokens, err := lex(inlineMath(statement))
	if err != nil {
		return nil, err
	}
	if len(tokens) > 0 && tokens[0].kind == tokWord && hedges[tokens[0].text] {
		tokens = tokens[1:]
	}
	parts := splitTop(tokens, "=")
	last, err := readList(parts[len(parts)-1], 0)
	if err != nil {
		return nil, err
	}
	for _, part := range parts[:len(parts)-1] {
		if isName(part) {
			continue
		}
		v, err := readList(part, 0)
		if err != nil {
			return nil, err
		}
		if v.kind != last.kind || v.kind == kindNumber && v.full().Cmp(last.full()) != 0 || v.kind > kindInfinity {
			return nil, errUnreadable
		}
	}
	return last, nil
}

// inlineMath drops the dollar signs that delimit LaTeX. As in Pandoc, a closing
// one follows no space and precedes no digit, so that $5 and $6 are amounts.
func inlineMath(s string) string {
	if len(s) > maxStatement || strings.Count(s, "$") < 2 {
		return s
	}
	var b strings.Builder
	for {
		open := dollarAt(s, 0)
		if open < 0 {
			break
		}
		shut := dollarAt(s, open+1)
		if shut <= open+1 || s[shut-1] == ' ' || s[open+1] == ' ' || shut+1 < len(s) && isDigit(rune(s[shut+1])) {
			break
		}
		b.WriteString(s[:open])
		b.WriteByte(' ')
		b.WriteString(s[open+1 : shut])
		b.WriteByte(' ')
		s = s[shut+1:]
	}
	b.WriteString(s)
	return b.String()
}

// dollarAt is the next dollar sign that no backslash escapes, or -1.
func dollarAt(s string, from int) int {
	for i := from; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case '$':
			return i
		}
	}
	return -1
}

// hedges may stand before a number that was rounded.
var hedges = map[string]bool{"approximately": true, "about": true, "roughly": true, "around": true}

// isName tells whether the left side of an equation only names what is sought,
// as x or Total cost.
func isName(tokens []token) bool {
	for _, t := range tokens {
		if t.kind != tokWord {
			return false
		}
	}
	return len(tokens) > 0 && len(tokens) <= 4
}

// splitTop splits at a symbol outside all brackets; there is at least one part.
func splitTop(tokens []token, symbols ...string) [][]token {
	var parts [][]token
	depth, start := 0, 0
	for i, t := range tokens {
		if t.kind != tokSymbol {
			continue
		}
		switch t.text {
		case "(", "[", "{", "set{":
			depth++
		case ")", "]", "}", "set}":
			depth--
		}
		for _, s := range symbols {
			if depth == 0 && t.text == s {
				parts = append(parts, tokens[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, tokens[start:])
}

// readList reads one value, or several with commas between as a list.
func readList(tokens []token, depth int) (*value, error) {
	parts := splitTop(tokens, ",", ";")
	if len(parts) == 1 {
		return readItem(tokens, depth)
	}
	return readItems(parts, depth, &value{kind: kindSet})
}

func readItems(parts [][]token, depth int, into *value) (*value, error) {
	for _, part := range parts {
		item, err := readItem(part, depth)
		if err != nil {
			return nil, err
		}
		into.items = append(into.items, *item)
	}
	return into, nil
}

// readItem reads a collection, an infinity or a quantity.
func readItem(tokens []token, depth int) (*value, error) {
	if len(tokens) == 0 {
		return nil, errUnreadable
	}
	if depth > maxDepth {
		return nil, errTooLarge
	}
	if inner, open, shut, ok := bracketed(tokens); ok {
		parts := splitTop(inner, ",", ";")
		switch {
		case open == "{" || open == "set{":
			return readItems(parts, depth+1, &value{kind: kindSet})
		case len(parts) > 1:
			return readItems(parts, depth+1, &value{kind: kindTuple, open: open, close: shut})
		}
	}
	if v := infinity(tokens); v != nil {
		return v, nil
	}
	return readQuantity(tokens, depth)
}

// bracketed tells whether the first token's bracket is closed by the last one.
func bracketed(tokens []token) (inner []token, open, shut string, ok bool) {
	depth := 0
	for i, t := range tokens {
		if t.kind == tokSymbol {
			switch t.text {
			case "(", "[", "{", "set{":
				depth++
			case ")", "]", "}", "set}":
				depth--
			}
		}
		if depth == 0 {
			end := len(tokens) - 1
			return tokens[1:max(1, end)], tokens[0].text, tokens[end].text, i == end && i > 0
		}
	}
	return nil, "", "", false
}

func infinity(tokens []token) *value {
	sign := int64(1)
	if len(tokens) == 2 && (tokens[0].is("-") || tokens[0].is("+")) {
		if tokens[0].is("-") {
			sign = -1
		}
		tokens = tokens[1:]
	}
	if len(tokens) == 1 && (tokens[0].kind == tokCommand && tokens[0].text == "infty" || tokens[0].kind == tokWord && (tokens[0].text == "infinity" || tokens[0].text == "inf")) {
		return &value{kind: kindInfinity, num: big.NewRat(sign, 1)}
	}
	return nil
}

// readQuantity reads a number with what stands around it.
func readQuantity(tokens []token, depth int) (*value, error) {
	p := &parser{tokens: tokens, depth: depth}
	v := &value{kind: kindNumber, decimals: -1}
	sign := p.leadingMoney(v)
	plain := p.peek()
	num, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.i == 1 || sign && p.i == 2 || (plain.is("-") || plain.is("+")) && p.i == 2 {
		v.decimals = p.tokens[p.i-1].decimals
	}
	v.num = num
	if sign && p.negative {
		v.num = new(big.Rat).Neg(num)
	}
	if err := p.suffix(v); err != nil {
		return nil, err
	}
	return v, nil
}

// A parser evaluates as it reads, so that nothing is built that was not
// bounded.
type parser struct {
	tokens   []token
	i        int
	depth    int
	negative bool // a minus stood before the currency: -$5
}

func (p *parser) peek() token {
	if p.i < len(p.tokens) {
		return p.tokens[p.i]
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

func tooLarge(n *big.Rat) bool { return n.Num().BitLen() > maxBits || n.Denom().BitLen() > maxBits }

func bounded(n *big.Rat) (*big.Rat, error) {
	if tooLarge(n) {
		return nil, errTooLarge
	}
	return n, nil
}

func (p *parser) sum() (*big.Rat, error) {
	if p.depth++; p.depth > maxDepth {
		return nil, errTooLarge
	}
	defer func() { p.depth-- }()
	total, err := p.product()
	for err == nil {
		minus := p.peek().is("-")
		if !minus && !p.peek().is("+") {
			return total, nil
		}
		p.i++
		var term *big.Rat
		if term, err = p.product(); err != nil {
			break
		}
		if minus {
			term = new(big.Rat).Neg(term)
		}
		total, err = bounded(new(big.Rat).Add(total, term))
	}
	return nil, err
}

func (p *parser) product() (*big.Rat, error) {
	total, err := p.signed()
	divided := false
	for err == nil {
		t := p.peek()
		var factor *big.Rat
		switch {
		case t.is("*") && p.factorAt(p.i+1), p.isTimes():
			p.i++
			if factor, err = p.signed(); err == nil {
				total, err = bounded(new(big.Rat).Mul(total, factor))
			}
		case t.is("/") && p.factorAt(p.i+1):
			p.i++
			divided = true
			if factor, err = p.signed(); err == nil {
				if factor.Sign() == 0 {
					return nil, errUnreadable
				}
				total, err = bounded(new(big.Rat).Quo(total, factor))
			}
		case t.is("(") || t.kind == tokCommand && t.text != "infty":
			if divided { // 1/2(3) is read in two ways
				return nil, errUnreadable
			}
			if factor, err = p.power(); err == nil {
				total, err = bounded(new(big.Rat).Mul(total, factor))
			}
		default:
			return total, nil
		}
	}
	return nil, err
}

// factorAt tells whether a number can begin at token i, as against a unit.
func (p *parser) factorAt(i int) bool {
	if i >= len(p.tokens) {
		return false
	}
	t := p.tokens[i]
	return t.kind != tokWord && t.kind != tokMoney || t.kind == tokWord && t.text == "sqrt"
}

// isTimes tells whether a letter x stands between two numbers.
func (p *parser) isTimes() bool {
	t := p.peek()
	return t.kind == tokWord && t.text == "x" && p.i > 0 && p.tokens[p.i-1].kind == tokNumber &&
		p.i+1 < len(p.tokens) && p.tokens[p.i+1].kind == tokNumber
}

func (p *parser) signed() (*big.Rat, error) {
	negative := false
	for {
		switch {
		case p.take("-"):
			negative = !negative
		case p.take("+"):
		default:
			n, err := p.power()
			if err == nil && negative {
				n = new(big.Rat).Neg(n)
			}
			return n, err
		}
	}
}

func (p *parser) power() (*big.Rat, error) {
	base, err := p.atom()
	if err != nil || !p.take("^") {
		return base, err
	}
	if p.depth++; p.depth > maxDepth {
		return nil, errTooLarge
	}
	defer func() { p.depth-- }()
	exponent, err := p.exponent()
	if err != nil {
		return nil, err
	}
	return raise(base, exponent)
}

func (p *parser) exponent() (*big.Rat, error) {
	if p.take("{") {
		return p.until("}")
	}
	return p.signed()
}

// raise gives base^exponent for a whole exponent, or a half one where the root
// is rational. It is too large before it is computed.
func raise(base, exponent *big.Rat) (*big.Rat, error) {
	if !exponent.IsInt() {
		if exponent.Cmp(big.NewRat(1, 2)) == 0 {
			return root(base)
		}
		return nil, errUnreadable
	}
	if !exponent.Num().IsInt64() {
		return nil, errTooLarge
	}
	e := exponent.Num().Int64()
	if e > maxExponent || e < -maxExponent {
		return nil, errTooLarge
	}
	if base.Sign() == 0 && e <= 0 {
		return nil, errUnreadable
	}
	n := e
	if n < 0 {
		n = -n
	}
	if int64(max(base.Num().BitLen(), base.Denom().BitLen())-1)*n > maxBits {
		return nil, errTooLarge
	}
	num := new(big.Int).Exp(base.Num(), big.NewInt(n), nil)
	den := new(big.Int).Exp(base.Denom(), big.NewInt(n), nil)
	if e < 0 {
		num, den = den, num
	}
	return bounded(new(big.Rat).SetFrac(num, den))
}

// root is the square root where it is rational; others are not readable.
func root(n *big.Rat) (*big.Rat, error) {
	if n.Sign() < 0 {
		return nil, errUnreadable
	}
	num, den := new(big.Int).Sqrt(n.Num()), new(big.Int).Sqrt(n.Denom())
	r := new(big.Rat).SetFrac(num, den)
	if new(big.Rat).Mul(r, r).Cmp(n) != 0 {
		return nil, errUnreadable
	}
	return r, nil
}

func (p *parser) atom() (*big.Rat, error) {
	t := p.peek()
	p.i++
	switch {
	case t.kind == tokNumber:
		return p.mixed(t)
	case t.kind == tokVulgar:
		return t.num, nil
	case t.is("("):
		return p.until(")")
	case t.kind == tokCommand && t.text == "frac":
		return p.frac()
	case t.kind == tokCommand && t.text == "sqrt":
		return p.sqrt()
	case t.kind == tokWord && t.text == "sqrt" && p.peek().is("("):
		return p.sqrt()
	}
	return nil, errUnreadable
}

// mixed reads what may follow a whole number as its fraction: 2 1/2, 2½,
// 2\frac{1}{2}.
func (p *parser) mixed(whole token) (*big.Rat, error) {
	next := p.peek()
	if whole.decimals >= 0 || !whole.num.IsInt() {
		return whole.num, nil
	}
	switch {
	case next.kind == tokVulgar:
		p.i++
		return new(big.Rat).Add(whole.num, next.num), nil
	case next.kind == tokCommand && next.text == "frac":
		at := p.i
		p.i++
		part, err := p.frac()
		if err != nil {
			return nil, err
		}
		if part.Sign() < 0 || part.Cmp(big.NewRat(1, 1)) >= 0 {
			p.i = at // 2\frac{3}{2} is a product
			return whole.num, nil
		}
		return bounded(new(big.Rat).Add(whole.num, part))
	case next.kind == tokNumber && next.spaced && p.i+2 < len(p.tokens) && p.tokens[p.i+1].is("/") && p.tokens[p.i+2].kind == tokNumber:
		den := p.tokens[p.i+2].num
		if den.Sign() == 0 || next.num.Cmp(den) >= 0 {
			return nil, errUnreadable
		}
		p.i += 3
		return bounded(new(big.Rat).Add(whole.num, new(big.Rat).Quo(next.num, den)))
	}
	return whole.num, nil
}

// until reads an expression up to a closing bracket.
func (p *parser) until(shut string) (*big.Rat, error) {
	n, err := p.sum()
	if err != nil {
		return nil, err
	}
	if !p.take(shut) {
		return nil, errUnreadable
	}
	return n, nil
}

func (p *parser) frac() (*big.Rat, error) {
	num, err := p.argument()
	if err != nil {
		return nil, err
	}
	den, err := p.argument()
	if err != nil {
		return nil, err
	}
	if den.Sign() == 0 {
		return nil, errUnreadable
	}
	return bounded(new(big.Rat).Quo(num, den))
}

// argument is a braced expression. Of \frac12 the digits are taken one by one.
func (p *parser) argument() (*big.Rat, error) {
	if p.take("{") {
		return p.until("}")
	}
	t := p.peek()
	if t.kind != tokNumber || !t.num.IsInt() || t.decimals >= 0 {
		return nil, errUnreadable
	}
	written := t.num.Num().String()
	if len(written) == 1 {
		p.i++
		return t.num, nil
	}
	if len(written) != 2 {
		return nil, errUnreadable
	}
	// Leave the second digit for the second argument. The tokens are shared
	// with what was split off them, never read twice.
	second, _ := new(big.Rat).SetString(written[1:])
	rest := make([]token, len(p.tokens))
	copy(rest, p.tokens)
	rest[p.i] = token{kind: tokNumber, num: second, decimals: -1}
	p.tokens = rest
	first, _ := new(big.Rat).SetString(written[:1])
	return first, nil
}

func (p *parser) sqrt() (*big.Rat, error) {
	var n *big.Rat
	var err error
	switch t := p.peek(); {
	case p.take("{"):
		n, err = p.until("}")
	case p.take("("):
		n, err = p.until(")")
	case t.kind == tokNumber:
		p.i++
		n = t.num
	default:
		return nil, errUnreadable
	}
	if err != nil {
		return nil, err
	}
	return root(n)
}
