package cli

import (
	"bytes"
	"testing"
)

func TestTalkHoldsNoControlSequences(t *testing.T) {
	var out bytes.Buffer
	a := &app{err: &out}
	a.say("one %s", "\x1b]0;mine\x07")
	a.warn("two %s\nthree", "\u009b2J\u202e")
	if want := "one \uFFFD]0;mine\uFFFD\ntwo \uFFFD2J\uFFFD\nthree\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
