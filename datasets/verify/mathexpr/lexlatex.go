package mathexpr

import (
	"strings"
	"unicode/utf8"
)

// symbolCommands are the LaTeX commands for what has a symbol here.
var symbolCommands = map[string]string{
	"cdot": "*", "times": "*", "ast": "*", "div": "/",
	"le": "<=", "leq": "<=", "leqslant": "<=", "ge": ">=", "geq": ">=", "geqslant": ">=", "ne": "!=", "neq": "!=",
	"lt": "<", "gt": ">", "approx": "≈", "simeq": "≈", "approxeq": "≈",
	"in": "in", "cup": "cup", "cap": "cap", "setminus": "setminus", "backslash": "setminus", "pm": "±", "mp": "∓",
	"mid": "|", "vert": "|", "lvert": "|", "rvert": "|", "colon": ":",
	"lfloor": "lfloor", "rfloor": "rfloor", "lceil": "lceil", "rceil": "rceil", "prime": "'",
}

// atomCommands are the commands that the parser reads itself.
var atomCommands = map[string]string{
	"frac": "frac", "dfrac": "frac", "tfrac": "frac", "cfrac": "frac", "sqrt": "sqrt", "infty": "infty", "pi": "pi",
	"binom": "binom", "dbinom": "binom", "tbinom": "binom", "emptyset": "emptyset", "varnothing": "emptyset",
	"overline": "accent", "bar": "accent", "hat": "accent", "widehat": "accent", "vec": "accent", "overrightarrow": "accent", "tilde": "accent",
	"angle": "mark", "triangle": "mark",
	"ldots": "dots", "dots": "dots", "cdots": "dots",
	"pmod": "pmod", "bmod": "mod", "mod": "mod",
}

// plainCommands only say how something looks.
var plainCommands = map[string]bool{
	"left": true, "right": true, "big": true, "Big": true, "bigg": true, "Bigg": true, "bigl": true, "bigr": true, "Bigl": true, "Bigr": true,
	"biggl": true, "biggr": true, "middle": true, "displaystyle": true, "textstyle": true, "quad": true, "qquad": true, "limits": true,
	"hline": true, "space": true, "nolimits": true,
}

// textCommands hold words, or one letter in another face.
var textCommands = map[string]bool{
	"text": true, "textbf": true, "textit": true, "textrm": true, "textnormal": true, "texttt": true, "textsf": true, "mathrm": true, "mathbf": true,
	"mathit": true, "mathsf": true, "mathcal": true, "mbox": true, "hbox": true, "operatorname": true, "boxed": true, "fbox": true, "boldsymbol": true, "bm": true,
}

// command reads a LaTeX command.
func (l *lexer) command() error {
	rest := l.s[l.i+1:]
	n := letters(rest)
	if n == 0 {
		return l.shortCommand(rest)
	}
	l.i += 1 + n
	name := rest[:n]
	switch {
	case symbolCommands[name] != "":
		return l.bracketOrSymbol(symbolCommands[name])
	case atomCommands[name] != "":
		l.emit(token{kind: tokCommand, text: atomCommands[name]})
	case functions[name] != "":
		l.emit(token{kind: tokCommand, text: "fn", raw: functions[name]})
	case greekNames[name] != "":
		l.emit(token{kind: tokVar, text: greekNames[name]})
	case plainCommands[name]:
		l.plain(name)
	case textCommands[name]:
		return l.textCommand(name)
	case strings.HasPrefix(name, "quad"):
		l.i -= n - len("quad") // \quadx, as some collections have it
		l.spaced = true
	default:
		return l.oddCommand(name)
	}
	return nil
}

// plain skips a command of looks, and the point that stands for no bracket.
func (l *lexer) plain(name string) {
	l.spaced = true
	if name == "left" || name == "right" {
		if tail := strings.TrimLeft(l.s[l.i:], " "); strings.HasPrefix(tail, ".") {
			l.i = len(l.s) - len(tail) + 1
		}
	}
}

// textCommand opens a text. A single letter in it is that letter.
func (l *lexer) textCommand(name string) error {
	tail := strings.TrimLeft(l.s[l.i:], " ")
	if !strings.HasPrefix(tail, "{") {
		if r, n := utf8.DecodeRuneInString(tail); strings.HasPrefix(name, "math") && isLetter(r) {
			l.i = len(l.s) - len(tail) + n
			l.emit(token{kind: tokWord, text: strings.ToLower(string(r)), raw: string(r)})
			return nil
		}
		return ErrUnreadable
	}
	inner, _, ok := strings.Cut(tail[1:], "}")
	if fn := functions[strings.TrimSpace(inner)]; ok && fn != "" && strings.HasPrefix(name, "op") {
		l.i = len(l.s) - len(tail) + len(inner) + 2
		l.emit(token{kind: tokCommand, text: "fn", raw: fn})
		return nil
	}
	l.i = len(l.s) - len(tail) + 1
	l.spaced = true
	if name == "boxed" || name == "fbox" {
		l.open = append(l.open, 'b')
		return nil
	}
	l.open = append(l.open, 't')
	l.prose++
	return nil
}

func (l *lexer) oddCommand(name string) error {
	switch name {
	case "lbrace":
		return l.set("set{")
	case "rbrace":
		return l.set("set}")
	case "langle", "rangle":
		return l.bracketOrSymbol(name)
	case "circ", "degree":
		if l.last().is("{") {
			return l.bracedDegree()
		}
		if l.last().is("^") {
			l.tokens = l.tokens[:len(l.tokens)-1]
		}
		l.emit(token{kind: tokWord, text: "degree", raw: "degree"})
	case "mathbb":
		tail := strings.TrimLeft(l.s[l.i:], " ")
		for _, form := range []string{"{R}", "R"} {
			if strings.HasPrefix(tail, form) {
				l.i = len(l.s) - len(tail) + len(form)
				l.emit(token{kind: tokCommand, text: "reals"})
				return nil
			}
		}
		return ErrUnreadable
	case "begin", "end":
		tail := l.s[l.i:]
		env, _, ok := strings.Cut(strings.TrimPrefix(tail, "{"), "}")
		if !ok || !strings.HasPrefix(tail, "{") {
			return ErrUnreadable
		}
		l.i += len(env) + 2
		if env == "array" && name == "begin" { // \begin{array}{cc}
			if columns := l.s[l.i:]; strings.HasPrefix(columns, "{") {
				if end := strings.IndexByte(columns, '}'); end > 0 {
					l.i += end + 1
				}
			}
		}
		if name == "begin" {
			l.open = append(l.open, 'e')
		} else if _, err := l.shut("e"); err != nil {
			return err
		}
		l.emit(token{kind: tokCommand, text: name, raw: env})
	default:
		return ErrUnreadable
	}
	return nil
}

// bracedDegree reads ^{\circ}: the caret and the opening brace are there.
func (l *lexer) bracedDegree() error {
	tail := strings.TrimLeft(l.s[l.i:], " ")
	if n := len(l.tokens); n < 2 || !l.tokens[n-2].is("^") || !strings.HasPrefix(tail, "}") {
		return ErrUnreadable
	}
	l.tokens = l.tokens[:len(l.tokens)-2]
	l.open = l.open[:len(l.open)-1]
	l.i = len(l.s) - len(tail) + 1
	l.emit(token{kind: tokWord, text: "degree", raw: "degree"})
	return nil
}

// shortCommand reads a command of one character that is no letter.
func (l *lexer) shortCommand(rest string) error {
	if rest == "" {
		return ErrUnreadable
	}
	l.i += 2
	switch rest[0] {
	case '\\':
		l.symbol(`\\`)
	case ',', ';', ':', '!', ' ', '(', ')', '[', ']', '\n':
		l.spaced = true
	case '%':
		l.symbol("%")
	case '$':
		l.emit(token{kind: tokMoney, text: money['$']})
	case '{':
		return l.set("set{")
	case '}':
		return l.set("set}")
	case '|':
		l.symbol("|")
	default:
		return ErrUnreadable
	}
	return nil
}

func (l *lexer) set(text string) error {
	if text == "set{" {
		l.open = append(l.open, 's')
	} else if _, err := l.shut("s"); err != nil {
		return err
	}
	l.symbol(text)
	return nil
}
