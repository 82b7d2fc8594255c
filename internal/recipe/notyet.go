package recipe

import (
	"regexp"
	"slices"
)

// notYet lists what the contract declares and this version does not carry out.
// Such a key is refused: a recipe that means something must never run as if it
// did not. To carry one out, delete its line.
//
// A path has [] for every index. A value restricts the line to that word.
var notYet = []struct {
	path, value, instead string
}{
	{"output.report_text", "", "remove it"},
}

var index = regexp.MustCompile(`\[[0-9]+\]`)

func (c *checker) refuseNotYet() {
	for path := range c.r.places {
		shape := index.ReplaceAllString(path, "[]")
		i := slices.IndexFunc(notYet, func(n struct{ path, value, instead string }) bool {
			return n.path == shape && (n.value == "" || n.value == c.r.texts[path])
		})
		if i < 0 {
			continue
		}
		what := path
		if notYet[i].value != "" {
			what = notYet[i].value
		}
		c.fault(path, "not in this version: "+what, notYet[i].instead)
	}
}
