package objstore_test

import (
	"errors"
	"path"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

func TestValidKey(t *testing.T) {
	for _, key := range []string{
		"a", "a/b", "with space", "ünï/日本", "a+b=c", "..a", "...", ".hidden", "a%2F",
		strings.Repeat("x", 255), strings.TrimSuffix(strings.Repeat("abc/", 256), "/"),
		".sgwtmpx", "x.sgwtmp.1",
	} {
		if err := objstore.ValidKey(key); err != nil {
			t.Errorf("%.40q: %v", key, err)
		}
	}
	for key, why := range map[string]string{
		"":                               "empty",
		"/a":                             "slash",
		"a/":                             "slash",
		"a//b":                           "slash",
		".":                              `"."`,
		"a/../b":                         `".."`,
		"a/./b":                          `"."`,
		"\xff":                           "UTF-8",
		"a\x00":                          "byte 1",
		"tab\t":                          "byte 3",
		"del\x7f":                        "byte 3",
		"c1\u0085":                       "byte 2",
		"\uffff":                         "byte 0",
		strings.Repeat("x", 256):         "256 bytes",
		strings.Repeat("é", 128):         "256 bytes",
		strings.Repeat("abc/", 256) + "": "slash",
		strings.Repeat("abc/", 300):      "1200 bytes",
		".sgwtmp":                        "own",
		"a/.vgwlocks/b":                  "own",
		"a/.b.sgwtmp.17":                 "own",
	} {
		err := objstore.ValidKey(key)
		if !errors.Is(err, objstore.ErrInvalidKey) || !strings.Contains(err.Error(), why) {
			t.Errorf("%.40q: error %v, want one about %s", key, err, why)
		}
	}
}

func TestJoinPrefix(t *testing.T) {
	for _, test := range [][3]string{{"", "k", "k"}, {"p", "k", "p/k"}, {"p/q", "k/l", "p/q/k/l"}, {"p", "", "p/"}, {"", "", ""}} {
		if got := objstore.JoinPrefix(test[0], test[1]); got != test[2] {
			t.Errorf("%q + %q = %q", test[0], test[1], got)
		}
	}
}

// A valid key is a clean relative path that stays below where it starts.
func FuzzValidKey(f *testing.F) {
	for _, seed := range []string{"a/b", "../a", "a//b", "a/./b", "\xff", ".sgwtmp/x", "a\u202eb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, key string) {
		if objstore.ValidKey(key) != nil {
			return
		}
		if path.Clean("/root/"+key) != "/root/"+key {
			t.Fatalf("%q is not clean", key)
		}
		if len(key) > objstore.MaxKeyBytes || strings.ContainsAny(key, "\x00\n\r\t\x1b") {
			t.Fatalf("%q passed", key)
		}
	})
}
