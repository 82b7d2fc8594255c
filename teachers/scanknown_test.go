package teachers

import "testing"

// FuzzEndOfKnown holds the short way over a value to the one that checks it,
// and to its bounds on what is no JSON.
func FuzzEndOfKnown(f *testing.F) {
	for _, s := range []string{`{"a":[1,"}]",{"b":"\\\""}],"c":null} `, `[]`, `"x\"y" `, `-1.5e3,`, `{"a":`, `[[[`, `"open`, ``, `}`, `{"a" : NaN }`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		short := endOfKnown(b, 0)
		if short < 0 || short > len(b) {
			t.Fatalf("%d of %d bytes", short, len(b))
		}
		if end, err := skipValue(b, 0, 0); err == nil && end != short {
			t.Fatalf("%q ends at %d, not at %d", b, end, short)
		}
		for c := inside(b); c.next(); {
			if len(c.value) > len(b) {
				t.Fatal("a member larger than the whole")
			}
		}
	})
}
