package mathexpr

import (
	"strings"
)

// Read reads a statement. Its error is [ErrUnreadable] or [ErrTooLarge].
func Read(statement string) (*Value, error) {
	tokens, err := lex(inlineMath(statement))
	if err != nil {
		return nil, err
	}
	for len(tokens) > 0 && (tokens[0].kind == tokWord && hedges[tokens[0].text] || tokens[0].is("≈") || tokens[0].is(`\\`)) {
		tokens = tokens[1:]
	}
	if len(tokens) == 0 {
		return nil, ErrUnreadable
	}
	if v := readText(tokens); v != nil {
		return v, nil
	}
	return readList(tokens, 0)
}

// hedges may stand before a number that was rounded.
var hedges = map[string]bool{"approximately": true, "about": true, "roughly": true, "around": true}

// readText reads a statement that is nothing but words. One letter is none.
func readText(tokens []token) *Value {
	var words []string
	for _, t := range tokens {
		if t.kind != tokWord || t.word("and", "or", "degree") {
			return nil
		}
		words = append(words, t.text)
	}
	if len(words) == 1 && (tokens[0].letter() || tokens[0].word("pi", "infinity", "inf")) {
		return nil
	}
	switch text := strings.Join(words, " "); text {
	case "no solution", "no solutions", "no real solution", "no real solutions", "empty set", "the empty set":
		return &Value{kind: kindSet}
	case "all real numbers", "all reals", "all real values":
		return reals()
	default:
		return &Value{kind: kindText, text: text}
	}
}

func reals() *Value {
	return &Value{kind: kindTuple, open: "(", close: ")", items: []*Value{{kind: kindInfinity, sign: -1}, {kind: kindInfinity, sign: 1}}}
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

// nesting is what token t does to the depth of brackets.
func nesting(t token) int {
	switch {
	case t.command("begin"):
		return 1
	case t.command("end"):
		return -1
	case t.kind != tokSymbol:
		return 0
	}
	switch t.text {
	case "(", "[", "{", "set{", "langle", "lfloor", "lceil":
		return 1
	case ")", "]", "}", "set}", "rangle", "rfloor", "rceil":
		return -1
	}
	return 0
}

// splitTop splits at the tokens outside all brackets that at chooses; there is
// at least one part.
func splitTop(tokens []token, at func(token) bool) (parts [][]token, between []token) {
	depth, start := 0, 0
	for i, t := range tokens {
		depth += nesting(t)
		if depth == 0 && nesting(t) == 0 && at(t) {
			parts = append(parts, tokens[start:i])
			between = append(between, t)
			start = i + 1
		}
	}
	return append(parts, tokens[start:]), between
}

func isComma(t token) bool     { return t.is(",") || t.is(";") }
func isSemicolon(t token) bool { return t.is(";") || t.is(`\\`) }
func isSeparator(t token) bool { return isComma(t) || t.word("and", "or") || t.is(`\\`) }

// readList reads one value, or several with commas, "and" or "or" between.
// Semicolons separate what commas join: p = 5, q = 2; p = 7, q = 2.
func readList(tokens []token, depth int) (*Value, error) {
	if depth > maxDepth {
		return nil, ErrTooLarge
	}
	parts, between := splitTop(tokens, isSeparator)
	if outer, _ := splitTop(tokens, isSemicolon); len(outer) > 1 && len(parts) > len(outer) && depth == 0 {
		v, err := readItems(outer, &Value{kind: kindList, offered: true}, func(part []token) (*Value, error) {
			v, err := readList(part, depth+1)
			if err == nil && v.kind == kindList {
				v = &Value{kind: kindTuple, open: "(", close: ")", items: unnamed(v.items)}
			}
			return v, err
		})
		return v, err
	}
	if len(parts) == 1 {
		return readItem(tokens, depth)
	}
	v := &Value{kind: kindList}
	full := parts[:0]
	or, all := false, len(between) > 0
	for i, part := range parts {
		if i < len(between) {
			or = or || between[i].word("or")
			all = all && between[i].word("and", "or")
			v.offered = v.offered || !between[i].is(",")
		}
		v.offered = v.offered || len(part) > 0 && i > 0 && part[0].spaced
		if len(part) == 0 {
			// "1, and 2" has nothing between comma and word.
			if i > 0 && i < len(between) && (between[i].kind == tokWord || between[i-1].is(`\\`)) || i == len(parts)-1 && between[i-1].is(`\\`) {
				continue
			}
			return nil, ErrUnreadable
		}
		full = append(full, part)
	}
	if len(full) == 1 {
		return readItem(full[0], depth)
	}
	v, err := readItems(full, v, func(part []token) (*Value, error) { return readItem(part, depth) })
	if err != nil {
		return nil, err
	}
	if someWords(v.items) {
		return nil, ErrUnreadable // "5 and a half"
	}
	if all {
		if joined := joinRelations(v.items, or); joined != nil {
			return joined, nil
		}
	}
	return nameList(v), nil
}

// someWords tells whether some items are words and others are not.
func someWords(items []*Value) bool {
	words := 0
	for _, v := range items {
		if unname(v).kind == kindText {
			words++
		}
	}
	return words > 0 && words < len(items)
}

// unnamed gives the values of x = 1, y = 2.
func unnamed(items []*Value) []*Value {
	out := make([]*Value, len(items))
	for i, v := range items {
		out[i] = v
		if v.kind == kindNamed {
			out[i] = v.items[0]
		}
	}
	return out
}

// nameList marks a list whose items have different names: their order tells
// which is which where the other side has no names. Of x = 1, 2 and of x = 1,
// x = 2 it does not.
func nameList(v *Value) *Value {
	seen := map[string]bool{}
	for i, item := range v.items {
		if item.kind != kindNamed || seen[item.name] {
			if i > 0 && len(seen) == 1 && (item.kind != kindNamed || seen[item.name]) {
				continue
			}
			return v
		}
		seen[item.name] = true
	}
	v.ordered = len(seen) == len(v.items)
	return v
}

func readItems(parts [][]token, into *Value, read func([]token) (*Value, error)) (*Value, error) {
	if len(parts) > maxItems {
		return nil, ErrTooLarge
	}
	for _, part := range parts {
		item, err := read(part)
		if err != nil {
			return nil, err
		}
		if item.kind == kindNumber && item.expr.signs() == 1 && into.kind != kindTuple {
			// a ± b stands for two elements.
			upper, lower := *item, *item
			upper.expr, lower.expr = item.expr.choose(true), item.expr.choose(false)
			into.items = append(into.items, &upper, &lower)
			into.offered = true
			continue
		}
		into.items = append(into.items, item)
	}
	return into, nil
}

// readItem reads a chain of equal things, an inequality, or one thing.
func readItem(tokens []token, depth int) (*Value, error) {
	if len(tokens) == 0 {
		return nil, ErrUnreadable
	}
	if depth > maxDepth {
		return nil, ErrTooLarge
	}
	parts, between := splitTop(tokens, func(t token) bool {
		switch {
		case t.kind != tokSymbol:
			return t.word("approximately")
		case t.text == "=", t.text == "<", t.text == ">", t.text == "<=", t.text == ">=", t.text == "!=", t.text == "≈", t.text == "in":
			return true
		}
		return false
	})
	if len(parts) == 1 {
		return readThing(tokens, depth)
	}
	return readChain(parts, between, depth)
}

// readThing reads a union, a collection, an infinity, a matrix, a ratio or a
// quantity.
func readThing(tokens []token, depth int) (*Value, error) {
	if len(tokens) == 0 {
		return nil, ErrUnreadable
	}
	parts, between := splitTop(tokens, func(t token) bool { return t.is("cup") || t.is("cap") || t.is("setminus") })
	if len(parts) > 1 {
		v, err := readItems(parts, &Value{kind: kindUnion}, func(part []token) (*Value, error) { return readThing(part, depth+1) })
		if err != nil {
			return nil, err
		}
		for _, t := range between {
			v.symbols = append(v.symbols, t.text)
		}
		return v, nil
	}
	switch {
	case len(tokens) == 1 && tokens[0].command("emptyset"):
		return &Value{kind: kindSet}, nil
	case len(tokens) == 1 && tokens[0].command("reals"):
		return reals(), nil
	}
	if inner, open, shut, ok := bracketed(tokens); ok {
		elements, _ := splitTop(inner, isComma)
		item := func(part []token) (*Value, error) { return readItem(part, depth+1) }
		switch {
		case (open == "{" || open == "set{") && len(inner) == 0:
			return &Value{kind: kindSet}, nil
		case open == "{" || open == "set{":
			return readItems(elements, &Value{kind: kindSet, offered: open == "{"}, item)
		case len(elements) > 1:
			return readItems(elements, &Value{kind: kindTuple, open: open, close: shut}, item)
		case open == "(" && depth < maxDepth && isCollection(inner):
			return readThing(inner, depth+1)
		}
	}
	if v := infinity(tokens); v != nil {
		return v, nil
	}
	if sides, _ := splitTop(tokens, func(t token) bool { return t.is(":") }); len(sides) > 1 {
		return readItems(sides, &Value{kind: kindRatio}, func(part []token) (*Value, error) { return readQuantity(part, depth) })
	}
	return readQuantity(tokens, depth)
}

// isCollection tells whether brackets only group what they hold.
func isCollection(tokens []token) bool {
	_, open, _, ok := bracketed(tokens)
	return ok && (open == "(" || open == "[" || open == "set{") || len(tokens) > 0 && tokens[0].command("begin")
}

// bracketed tells whether the first token's bracket is closed by the last one.
func bracketed(tokens []token) (inner []token, open, shut string, ok bool) {
	depth := 0
	for i, t := range tokens {
		depth += nesting(t)
		if depth == 0 {
			end := len(tokens) - 1
			if t.command("end") || t.is("rfloor") || t.is("rceil") {
				return nil, "", "", false
			}
			return tokens[1:max(1, end)], tokens[0].text, tokens[end].text, i == end && i > 0
		}
	}
	return nil, "", "", false
}

func infinity(tokens []token) *Value {
	sign := 1
	if len(tokens) == 2 && (tokens[0].is("-") || tokens[0].is("+")) {
		if tokens[0].is("-") {
			sign = -1
		}
		tokens = tokens[1:]
	}
	if len(tokens) == 1 && (tokens[0].command("infty") || tokens[0].word("infinity", "inf", "oo")) {
		return &Value{kind: kindInfinity, sign: sign}
	}
	return nil
}

// readQuantity reads an expression with what stands around it.
func readQuantity(tokens []token, depth int) (*Value, error) {
	if len(tokens) == 0 {
		return nil, ErrUnreadable
	}
	if words := readText(tokens); words != nil {
		return words, nil
	}
	if n, base, ok := baseOf(tokens); ok {
		return &Value{kind: kindNumber, expr: ratio(n), decimals: -1, base: base}, nil
	}
	p := &parser{tokens: tokens, depth: depth}
	v := &Value{kind: kindNumber, decimals: -1}
	money := p.leadingMoney(v)
	p.money = money
	first := p.i
	n, err := p.sum()
	if err != nil {
		return nil, err
	}
	if t := p.at(p.i - 1); t.kind == tokNumber && (p.i == first+1 || p.i == first+2 && (p.at(first).is("-") || p.at(first).is("+"))) {
		v.decimals = t.decimals
	}
	v.expr, v.decimal = n, p.decimal
	if money && p.negative {
		v.expr = with(opNeg, n)
	}
	if err := p.suffix(v); err != nil {
		return nil, err
	}
	if n.has(opMatrix) {
		if !v.bare() {
			return nil, ErrUnreadable
		}
		v.kind = kindMatrix
	}
	return v, nil
}
