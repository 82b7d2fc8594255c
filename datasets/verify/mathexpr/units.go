package mathexpr

import (
	"math/big"
	"strings"
)

// currencies are the words for money that may stand before a number.
var currencies = map[string]string{
	"usd": "dollar", "us": "dollar", "eur": "euro", "gbp": "pound", "jpy": "yen", "inr": "rupee", "rs": "rupee",
}

// leadingMoney reads $5, -$5, USD 5; it tells whether there was a currency.
func (p *parser) leadingMoney(v *Value) bool {
	at := p.i
	if len(p.tokens) > 1 && p.tokens[at].is("-") {
		p.negative = true
		at++
	}
	for _, t := range p.tokens[at:min(len(p.tokens), at+2)] {
		switch {
		case t.kind == tokMoney && (v.unit == "" || v.unit == t.text):
			v.unit = t.text
		case t.kind == tokWord && v.unit == "" && currencies[t.text] != "":
			v.unit = currencies[t.text]
		default:
			return p.afterMoney(v, at)
		}
		at++
	}
	return p.afterMoney(v, at)
}

func (p *parser) afterMoney(v *Value, at int) bool {
	if v.unit == "" {
		p.negative = false
		return false
	}
	p.i = at
	return true
}

// scales are the words that multiply.
var scales = map[string]int64{
	"dozen": 12, "dozens": 12, "hundred": 100, "hundreds": 100, "thousand": 1_000, "thousands": 1_000, "lakh": 100_000, "lakhs": 100_000,
	"million": 1_000_000, "millions": 1_000_000, "mn": 1_000_000, "crore": 10_000_000, "crores": 10_000_000,
	"billion": 1_000_000_000, "billions": 1_000_000_000, "bn": 1_000_000_000, "trillion": 1_000_000_000_000, "trillions": 1_000_000_000_000,
}

// notUnits are words after a number that make it another number, or several,
// or none.
var notUnits = set(`or and not no nor if but is isn't are was were to minus plus times squared cubed over
	divided multiplied factorial pi choose mod modulo remainder wrong incorrect where when for with than below negative less fewer short unless except without
	neither either cannot can't aren't wasn't false impossible excluded rejected instead rather
	half halves third thirds quarter quarters fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths
	ninth ninths tenth tenths twelfth twelfths hundredth hundredths thousandth thousandths millionth millionths`)

// knownUnits are the short words that are units where letters could be
// variables.
var knownUnits = set(`mm cm dm km nm um mg kg ml cl dl kl ft in yd mi oz lb lbs gal hr hrs min mins sec secs ms mph kph kmh
	usd eur gbp pct deg rad bps rpm ppm hz khz kw kwh mw pa kpa atm cal mol day days week year yrs yr cups cup eggs egg men man
	cats cat dogs dog cars car bus box bags bag pens pen hats hat pies pie ways way cent rs sq cc km² m² yuan ton tons pts pt unit boys girl girls`)

func set(words string) map[string]bool {
	m := make(map[string]bool)
	for _, w := range strings.Fields(words) {
		m[w] = true
	}
	return m
}

// unitLetters are the single letters that are read as units. Any other may be
// a variable, or k for thousand.
const unitLetters = "mgshldjnwvcf"

// isUnit tells whether a word may be one of a unit's. After a currency a single
// letter is none: $5m is five million.
func isUnit(word string, first, currency bool) bool {
	if len([]rune(word)) > 1 {
		return !notUnits[word]
	}
	if word == "a" {
		return !first || currency // 5 dollars a day, $5 a day
	}
	return strings.Contains(unitLetters, word) && !(first && currency)
}

// suffix reads percent sign, scale and unit up to the end.
func (p *parser) suffix(v *Value) error {
	for p.i < len(p.tokens) {
		t := p.peek()
		if t.kind != tokWord || scales[t.text] == 0 {
			break
		}
		p.i++
		factor := big.NewRat(scales[t.text], 1)
		if v.scale != nil {
			factor.Mul(factor, v.scale)
		}
		if v.scale, v.decimals = factor, -1; factor.Num().BitLen() > 256 {
			return ErrTooLarge
		}
	}
	if p.take("%") || p.percentWord() {
		v.percent = true
		v.decimals = -1
	}
	return p.units(v)
}

func (p *parser) percentWord() bool {
	switch t := p.peek(); {
	case t.word("percent", "percents", "percentage", "pct"):
		p.i++
		return true
	case t.word("per") && p.at(p.i+1).word("cent"):
		p.i += 2
		return true
	}
	return false
}

// maxUnitWords is how many words after a number still are its unit.
const maxUnitWords = 8

func (p *parser) units(v *Value) error {
	var words []string
	for p.i < len(p.tokens) {
		t := p.peek()
		switch {
		case t.kind == tokWord && isUnit(t.text, len(words) == 0, v.unit != ""):
			words = append(words, singular(t.text))
		case t.kind == tokMoney:
			words = append(words, t.text)
		case (t.is("/") || t.is("*")) && len(words) > 0:
			words = append(words, t.text)
		case t.is("^") && len(words) > 0:
			p.i++
			e, err := p.exponent()
			if err != nil {
				return err
			}
			text, ok := smallExponent(e)
			if !ok {
				return ErrUnreadable
			}
			words = append(words, "^"+text)
			continue
		default:
			return ErrUnreadable
		}
		p.i++
	}
	if len(words) > maxUnitWords {
		return ErrUnreadable
	}
	if t := p.at(p.i - 1); len(words) == 1 && v.unit == "" && t.kind == tokWord && !t.prose && len(t.raw) <= 4 && letters(t.raw) == len(t.raw) && !knownUnits[t.text] && (len(t.raw) == 1 || !t.spaced) {
		v.letters, v.glued = t.raw, !t.spaced
	}
	unit := strings.Join(words, " ")
	if v.unit != "" && unit != "" && unit != v.unit {
		unit = v.unit + " " + unit // $5 per day
	} else if unit == "" {
		unit = v.unit
	}
	v.unit = unit
	return nil
}

// smallExponent is the exponent of a unit as written.
func smallExponent(e *node) (string, bool) {
	sign := ""
	if e.op == opNeg {
		sign, e = "-", e.args[0]
	}
	if e.op != opNum || e.num.Num().BitLen() > 16 || e.num.Denom().BitLen() > 16 {
		return "", false
	}
	return sign + e.num.RatString(), true
}

// unitNames are the short and the long names of the same unit.
var unitNames = map[string]string{
	"meter": "m", "metre": "m", "kilometer": "km", "kilometre": "km", "centimeter": "cm", "centimetre": "cm", "millimeter": "mm", "millimetre": "mm",
	"gram": "g", "kilogram": "kg", "kilo": "kg", "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h", "liter": "l", "litre": "l",
	"foot": "ft", "feet": "ft", "inch": "in", "inche": "in", "mile": "mi", "pound": "pound", "lb": "pound", "usd": "dollar", "buck": "dollar",
	"hrs": "h", "mins": "min", "secs": "s", "lbs": "pound", "yr": "year", "yrs": "year",
	"degree": "degree", "deg": "degree", "per": "/",
}

func singular(word string) string {
	if len(word) > 3 && strings.HasSuffix(word, "s") && !strings.HasSuffix(word, "ss") {
		word = word[:len(word)-1]
	}
	if long, ok := unitNames[word]; ok {
		return long
	}
	return word
}

// unitsAgree tells whether the numbers may be compared as they stand. A single
// letter in the gold may be a variable, so the answer must have it too. What an
// amount of money is paid for or per does not change the amount.
func unitsAgree(gold, answer string) bool {
	if gold == "" || gold == answer || answer == "" && len(gold) > 1 {
		return true
	}
	currency, _, _ := strings.Cut(gold, " ")
	other, _, _ := strings.Cut(answer, " ")
	return currency == other && isMoney[currency]
}

var isMoney = func() map[string]bool {
	names := make(map[string]bool)
	for _, name := range money {
		names[name] = true
	}
	return names
}()
