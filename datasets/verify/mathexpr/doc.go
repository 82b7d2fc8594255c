// Package mathexpr reads what a mathematical statement says, plain or LaTeX,
// and decides whether one statement meets another.
//
//	gold, err := mathexpr.Read(`\frac{\sqrt{12}}{2}`)
//	answer, err := mathexpr.Read(`\sqrt 3`)
//	j := mathexpr.Meets(gold, answer, nil) // pass, equal
//
// A statement is a number with its percent sign, scale word and unit; an
// expression with variables, roots, powers, logarithms and trigonometry; a
// tuple, an interval, a set, a union of sets, a bare list; a matrix; an
// equation, an inequality or a chain of them; a ratio; or words.
//
// Equality is decided, never guessed. Expressions become fractions of
// polynomials over the rationals, in variables and in the radicals, constants
// and functions that they hold, with the relations between those (√3·√3 = 3,
// i² = −1, sin² + cos² = 1). Two expressions are equal if their difference is
// the zero polynomial, or if it is an algebraic number below the least that it
// could be (see [separation]); they differ if the polynomial is one that cannot
// vanish, or if an interval of exact arithmetic around the difference leaves
// zero out. What is neither is undecided. No floating-point number ever decides.
//
// Everything is bounded: the length of a statement, its nesting, the digits of
// a number, and the steps of one comparison, which are counted and not timed so
// that the same input gets the same verdict on every machine. A tower of powers
// is never computed. What exceeds a bound is [ErrTooLarge].
package mathexpr

import "errors"

// Limits of one statement.
const (
	maxStatement = 4 << 10  // bytes
	maxTokens    = 1024     // tokens
	maxDepth     = 32       // nested brackets, fractions, roots and powers
	maxDigits    = 1000     // digits of one number as written
	maxExponent  = 10_000   // of scientific notation, and of a power of a number
	maxItems     = 128      // elements of a collection, or of a matrix
	maxBits      = 32 << 10 // of a numerator or denominator, about 9,864 digits
)

// Limits of one comparison.
const (
	maxSteps  = 120_000 // a step multiplies two terms, or two words of a long number
	maxTerms  = 2_000   // of one polynomial
	maxAtoms  = 40      // different variables, radicals and functions
	maxDegree = 4_096   // of one variable
)

var (
	// ErrUnreadable says that a statement is none that this package knows.
	ErrUnreadable = errors.New("not readable")
	// ErrTooLarge says that a statement or a comparison exceeds a limit.
	ErrTooLarge = errors.New("too large")
)
