package options

import (
	"math"
	"strings"
	"testing"
)

func TestSetReads(t *testing.T) {
	o := Read("verifier x", map[string]any{
		"flag": true, "text": "a", "int": 3, "uint": uint64(4), "whole": 5.0, "float": 0.5, "any": []any{1}, "null": nil,
	})
	if !o.Bool("flag", false) || o.String("text", "") != "a" || o.Int("int", 0) != 3 || o.Int("uint", 0) != 4 || o.Int("whole", 0) != 5 || o.Float("float", 0) != 0.5 || o.Float("int", 0) != 3 {
		t.Error("an option is not read as given")
	}
	if o.Bool("absent", true) != true || o.Int("null", 7) != 7 || o.Any("any") == nil {
		t.Error("a default is not given")
	}
	if err := o.Err(); err != nil {
		t.Error(err)
	}
}

func TestSetRefuses(t *testing.T) {
	for _, tc := range []struct {
		name  string
		given any
		read  func(*Set)
		want  string
	}{
		{"tolerence", 1, func(o *Set) { o.Float("tolerance", 0) }, `verifier x: unknown option "tolerence"; did you mean "tolerance"?`},
		{"zebra", 1, func(o *Set) { o.Float("tolerance", 0); o.Bool("case", true) }, `known: case, tolerance`},
		{"zebra", 1, func(*Set) {}, "there is none"},
		{"case", "yes", func(o *Set) { o.Bool("case", true) }, "verifier x: option case: want true or false, got yes (string)"},
		{"n", 1.5, func(o *Set) { o.Int("n", 0) }, "want a whole number, got 1.5"},
		{"n", uint64(math.MaxUint64), func(o *Set) { o.Int("n", 0) }, "want a whole number"},
		{"f", math.NaN(), func(o *Set) { o.Float("f", 0) }, "want a number"},
		{"f", math.Inf(1), func(o *Set) { o.Float("f", 0) }, "want a number"},
		{"s", 5, func(o *Set) { o.String("s", "") }, "want a text, got 5"},
	} {
		o := Read("verifier x", map[string]any{tc.name: tc.given})
		tc.read(o)
		if err := o.Err(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s=%v: %v, want %s", tc.name, tc.given, err, tc.want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"math", "exact", "choice", "json_schema"}
	for name, want := range map[string]string{"maths": "math", "Exact": "exact", "jsonschema": "json_schema", "foo": "", "": "", strings.Repeat("m", 100): ""} {
		if got := Nearest(name, known); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", name, got, want)
		}
	}
}
