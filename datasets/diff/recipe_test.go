package diff

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Recipes are hostile: reading one ends, in bounds, and without a panic.
func FuzzFlatten(f *testing.F) {
	f.Add("a: 1")
	f.Add("teachers: [{id: k3}, {id: k3}]\nfilter: [a, {b: {c: 1}, when: x}]")
	f.Add("a: &x [*x]")
	f.Add("a: &a [1,2]\nb: [*a,*a]\nc: {? [1]: 2}")
	f.Add(strings.Repeat("[", 200))
	f.Add(strings.Repeat("a:\n ", 100))
	f.Fuzz(func(t *testing.T, text string) {
		out, err := flatten([]byte(text))
		if err != nil {
			return
		}
		if len(out) > maxRecipePaths+1 {
			t.Errorf("%d values", len(out))
		}
		for _, value := range out {
			if utf8.RuneCountInString(value) > maxValue+1 {
				t.Errorf("a value of %d bytes", len(value))
			}
		}
	})
}

func TestFlattenRefusesWhatIsTooMuch(t *testing.T) {
	if _, err := flatten([]byte("a: [" + strings.Repeat("1,", maxRecipePaths+10) + "1]")); err == nil {
		t.Error("too many values")
	}
	if _, err := flatten([]byte(strings.Repeat("[", maxDepth+2) + strings.Repeat("]", maxDepth+2))); err == nil {
		t.Error("too deep")
	}
}

func TestNaturally(t *testing.T) {
	for _, tc := range [][2]string{{"prompts[2]", "prompts[10]"}, {"a", "b"}, {"a", "ab"}, {"a1", "a1b"}, {"x[01].a", "x[1].b"}, {"a9z", "a10a"}} {
		if naturally(tc[0], tc[1]) >= 0 || naturally(tc[1], tc[0]) <= 0 {
			t.Errorf("%s is not before %s", tc[0], tc[1])
		}
	}
	if naturally("a1", "a1") != 0 {
		t.Error("equal paths differ")
	}
}
