package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets/verify"
)

// TestDeepGoTakesLittle: an answer is read in this process, so that what it
// nests must not grow there.
func TestDeepGoTakesLittle(t *testing.T) {
	const deep = 20_000
	for _, source := range []string{
		"package main\n\nfunc F() {" + strings.Repeat("{", deep) + strings.Repeat("}", deep) + "}\n",
		"package main\n\nvar x = " + strings.Repeat("(", deep) + "1" + strings.Repeat(")", deep) + "\n\nfunc F() {}\n",
		"package main\n\nfunc F() { x := " + strings.Repeat("func() {", deep) + strings.Repeat("}", deep) + " }\n",
		"func F(x " + strings.Repeat("[]", deep) + "int) {}\n",
	} {
		begun := time.Now()
		f, fault := readGoAnswer(&verify.Program{Source: source, Entry: "F"})
		if took := time.Since(begun); took > 3*time.Second {
			t.Errorf("%.40q: took %v", source, took)
		}
		if fault == nil && len(f.source) > 2*len(source)+100 {
			t.Errorf("%.40q: %d bytes became %d", source, len(source), len(f.source))
		}
	}
}

func TestGoAnswersAreRenamedInPlace(t *testing.T) {
	for _, tc := range []struct{ source, want string }{
		{"package foo // here\n\nfunc F() {}\n\nfunc main() { F() }\n", "package main // here\n\nfunc F() {}\n\nfunc answerMain() { F() }\n"},
		{"func F() {}", "package main\n\nfunc F() {}"},
		{"// what it is\npackage main\n\nfunc F() { main := 1; _ = main }\n", "// what it is\npackage main\n\nfunc F() { main := 1; _ = main }\n"},
	} {
		f, fault := readGoAnswer(&verify.Program{Source: tc.source, Entry: "F"})
		if fault != nil {
			t.Fatal(fault.Reason)
		}
		if string(f.source) != tc.want {
			t.Errorf("%q, want %q", f.source, tc.want)
		}
	}
}
