package mathexpr

import (
	"math/big"
	"strings"
	"unicode"
)

type tokenKind uint8

const (
	tokEnd     tokenKind = iota
	tokNumber            // num, decimals, raw
	tokVulgar            // ½ and the like: num
	tokWord              // text in lower case, raw as written: letters
	tokVar               // text: the name of a Greek or accented letter
	tokCommand           // text: frac, sqrt, sin, infty, begin …
	tokSymbol            // text: an operator, a relation, a bracket
	tokMoney             // text: the currency
)

type token struct {
	kind     tokenKind
	text     string
	raw      string // as written, of words and numbers
	num      *big.Rat
	decimals int  // digits after the point as written, -1 without a point
	spaced   bool // white space precedes
	prose    bool // inside a text command: a word, not letters that multiply
}

func (t token) is(symbol string) bool { return t.kind == tokSymbol && t.text == symbol }

func (t token) command(name string) bool { return t.kind == tokCommand && t.text == name }

// word tells whether t is one of the words, which are in lower case.
func (t token) word(words ...string) bool {
	if t.kind != tokWord {
		return false
	}
	for _, w := range words {
		if t.text == w {
			return true
		}
	}
	return false
}

// letter tells whether t is one letter, which may be a variable.
func (t token) letter() bool {
	return t.kind == tokVar || t.kind == tokWord && len([]rune(strings.TrimRight(t.raw, "'"))) == 1
}

// typographic maps a character to the symbol that means the same.
var typographic = map[rune]string{
	'−': "-", '–': "-", '×': "*", '·': "*", '⋅': "*", '∙': "*", '∗': "*", '÷': "/", '∕': "/", '⁄': "/",
	'％': "%", '，': ",", '（': "(", '）': ")", '＝': "=", '＋': "+", '－': "-", '：': ":", '；': ";",
	'≤': "<=", '⩽': "<=", '≥': ">=", '⩾': ">=", '≠': "!=", '≈': "≈", '≃': "≈", '≅': "≈",
	'∈': "in", '∪': "cup", '∩': "cap", '∖': "setminus", '±': "±", '∓': "∓", '⟨': "langle", '⟩': "rangle",
	'⌊': "lfloor", '⌋': "rfloor", '⌈': "lceil", '⌉': "rceil", '＜': "<", '＞': ">",
}

// vulgar are the fractions that have a character of their own.
var vulgar = map[rune][2]int64{
	'½': {1, 2}, '⅓': {1, 3}, '⅔': {2, 3}, '¼': {1, 4}, '¾': {3, 4}, '⅕': {1, 5}, '⅖': {2, 5}, '⅗': {3, 5},
	'⅘': {4, 5}, '⅙': {1, 6}, '⅚': {5, 6}, '⅐': {1, 7}, '⅛': {1, 8}, '⅜': {3, 8}, '⅝': {5, 8}, '⅞': {7, 8}, '⅑': {1, 9}, '⅒': {1, 10},
}

const superscripts, subscripts = "⁰¹²³⁴⁵⁶⁷⁸⁹", "₀₁₂₃₄₅₆₇₈₉"

// scriptDigit is the digit that r is in one of the two scripts, or -1.
func scriptDigit(script string, r rune) int64 {
	var n int64
	for _, d := range script {
		if d == r {
			return n
		}
		n++
	}
	return -1
}

// money names each currency sign as its unit word is named.
var money = map[rune]string{'$': "dollar", '€': "euro", '£': "pound", '¥': "yen", '₹': "rupee", '₽': "ruble", '₩': "won", '¢': "cent"}

// greek names the letters that LaTeX has commands for. Pi is a constant.
var greek = map[rune]string{
	'α': "alpha", 'β': "beta", 'γ': "gamma", 'δ': "delta", 'ε': "epsilon", 'ϵ': "epsilon", 'ζ': "zeta", 'η': "eta", 'θ': "theta",
	'ι': "iota", 'κ': "kappa", 'λ': "lambda", 'μ': "mu", 'ν': "nu", 'ξ': "xi", 'ρ': "rho", 'σ': "sigma", 'τ': "tau", 'υ': "upsilon",
	'φ': "phi", 'ϕ': "phi", 'χ': "chi", 'ψ': "psi", 'ω': "omega", 'Γ': "Gamma", 'Δ': "Delta", 'Θ': "Theta", 'Λ': "Lambda", 'Ξ': "Xi",
	'Π': "Pi", 'Σ': "Sigma", 'Φ': "Phi", 'Ψ': "Psi", 'Ω': "Omega",
}

var greekNames = func() map[string]string {
	names := map[string]string{"varepsilon": "epsilon", "vartheta": "theta", "varphi": "phi", "varrho": "rho", "varsigma": "sigma", "ell": "ell", "hbar": "hbar"}
	for _, name := range greek {
		names[name] = name
	}
	return names
}()

// functions maps the spellings of a function to its name.
var functions = map[string]string{
	"sin": "sin", "cos": "cos", "tan": "tan", "tg": "tan", "cot": "cot", "ctg": "cot", "sec": "sec", "csc": "csc", "cosec": "csc",
	"arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan", "arctg": "arctan", "asin": "arcsin", "acos": "arccos", "atan": "arctan",
	"sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "ln": "ln", "log": "log", "lg": "lg", "exp": "exp",
	"max": "max", "min": "min", "gcd": "gcd", "lcm": "lcm", "det": "det", "arg": "arg",
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func digits(s string) int {
	n := 0
	for n < len(s) && isDigit(rune(s[n])) {
		n++
	}
	return n
}

func isLetter(r rune) bool { return unicode.IsLetter(r) }
