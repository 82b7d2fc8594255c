package importer

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// Names of any text come through the recipe, and those that people can read stay
// readable in it.
func TestNamesInTheRecipeOfRecordedTeachers(t *testing.T) {
	for _, name := range []string{"教師モデル", "Ünï😀", "a\"b\\c: #d", "two\nlines\t\x1b[31m", "👩\u200d👧\u202e\u2028\ufeff\u0085\x7f", "null", "1e3"} {
		var got struct{ Model string }
		if err := yaml.Unmarshal([]byte("model: "+quoted(name)+"\n"), &got); err != nil || got.Model != name {
			t.Errorf("%q is read as %q, %v", name, got.Model, err)
		}
	}
	if text := quoted("教師モデル"); !strings.Contains(text, "教師モデル") {
		t.Errorf("written as %s", text)
	}
}
