// Package options reads the options of a verifier, a filter or a policy from
// the map that a recipe gives, strictly: an unknown option is an error that
// names the nearest known one, a value of the wrong type says what was found.
//
//	o := options.Read("verifier math", given)
//	tolerance := o.Float("tolerance", 0.001)
//	if err := o.Err(); err != nil { … }
package options

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sort"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/spell"
)

// A Set is the options given to one owner. Each accessor declares an option;
// Err then refuses what nobody declared.
type Set struct {
	owner string
	given map[string]any
	known []string
	errs  []error
}

// Read starts reading the options of owner, such as "verifier math".
func Read(owner string, given map[string]any) *Set {
	return &Set{owner: owner, given: given}
}

// Bool is the option name, or def where it is absent.
func (s *Set) Bool(name string, def bool) bool { return value(s, name, def, "true or false") }

// String is the option name, or def where it is absent.
func (s *Set) String(name, def string) string { return value(s, name, def, "a text") }

// Int is the option name, or def where it is absent. A float without a
// fraction is an integer, because YAML and JSON readers differ there.
func (s *Set) Int(name string, def int64) int64 {
	v, ok := s.declare(name)
	if !ok {
		return def
	}
	switch n := v.(type) {
	case int:
		return int64(n)
	case int64:
		return n
	case uint64:
		if n <= math.MaxInt64 {
			return int64(n)
		}
	case float64:
		if n == math.Trunc(n) && math.Abs(n) < 1<<53 {
			return int64(n)
		}
	}
	s.wrong(name, v, "a whole number")
	return def
}

// Float is the option name, or def where it is absent; never NaN or infinite.
func (s *Set) Float(name string, def float64) float64 {
	v, ok := s.declare(name)
	if !ok {
		return def
	}
	switch n := v.(type) {
	case int:
		return float64(n)
	case int64:
		return float64(n)
	case uint64:
		return float64(n)
	case float64:
		if !math.IsNaN(n) && !math.IsInf(n, 0) {
			return n
		}
	}
	s.wrong(name, v, "a number")
	return def
}

// Any is the option name as it was given, or nil where it is absent.
func (s *Set) Any(name string) any {
	v, _ := s.declare(name)
	return v
}

// Fail records that the option name has a value that cannot be used.
func (s *Set) Fail(name, format string, args ...any) {
	s.errs = append(s.errs, fmt.Errorf("%s: option %s: %s", s.owner, name, fmt.Sprintf(format, args...)))
}

// Err is nil, or says of every option that is unknown or wrong what to do.
func (s *Set) Err() error {
	names := make([]string, 0, len(s.given))
	for name := range s.given {
		if !slices.Contains(s.known, name) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	errs := s.errs
	for _, name := range names {
		errs = append(errs, fmt.Errorf("%s: unknown option %q; %s", s.owner, name, Hint(name, s.known)))
	}
	return errors.Join(errs...)
}

func (s *Set) declare(name string) (any, bool) {
	s.known = append(s.known, name)
	v, ok := s.given[name]
	return v, ok && v != nil
}

func (s *Set) wrong(name string, v any, want string) {
	s.Fail(name, "want %s, got %v (%T)", want, v, v)
}

func value[T any](s *Set, name string, def T, want string) T {
	v, ok := s.declare(name)
	if !ok {
		return def
	}
	t, ok := v.(T)
	if !ok {
		s.wrong(name, v, want)
		return def
	}
	return t
}

// Make makes the part of a kind, such as verifier or filter, that a recipe
// names, from its options. The error of an unknown name or option names the
// nearest known one.
func Make[T any](kind string, makers map[string]func(*Set) T, name string, given map[string]any) (T, error) {
	var none T
	maker, ok := makers[name]
	if !ok {
		return none, fmt.Errorf("%s %q is unknown; %s", kind, name, Hint(name, Names(makers)))
	}
	set := Read(kind+" "+name, given)
	made := maker(set)
	if err := set.Err(); err != nil {
		return none, err
	}
	return made, nil
}

// Names lists what makers make, sorted.
func Names[T any](makers map[string]func(*Set) T) []string {
	return slices.Sorted(maps.Keys(makers))
}

// Hint names the known name nearest to name, or lists them all where none is
// near.
func Hint(name string, known []string) string {
	if near := Nearest(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	if len(known) == 0 {
		return "there is none"
	}
	sorted := slices.Clone(known)
	sort.Strings(sorted)
	return "known: " + strings.Join(sorted, ", ")
}

// Nearest is the known name at the smallest edit distance of at most a third
// of the longer one's length (at least 1), or "". Ties go to the first in
// alphabetical order.
func Nearest(name string, known []string) string {
	best, bestDistance := "", math.MaxInt
	if len(name) > 64 {
		return ""
	}
	for _, k := range known {
		d := spell.Distance(strings.ToLower(name), strings.ToLower(k))
		if d > max(1, max(len(name), len(k))/3) {
			continue
		}
		if d < bestDistance || d == bestDistance && k < best {
			best, bestDistance = k, d
		}
	}
	return best
}
