package teachers

import (
	"path"
	"regexp"
	"strings"
)

// ModelDrifted tells whether another model answered than was asked. It is not
// another one where the answer names a dated snapshot or a variant of what was
// asked, spells a vendor before it or not, names the weights' file, or names
// nothing; nor where one of the aliases that the recipe allows is named.
func ModelDrifted(asked, answered string, aliases []string) bool {
	a, b := modelName(asked), modelName(answered)
	if a == "" || b == "" || sameModel(a, b) {
		return false
	}
	for _, alias := range aliases {
		if name := modelName(alias); name != "" && sameModel(name, b) {
			return false
		}
	}
	return true
}

// sameModel tells whether the second name can stand for the first. A model that
// was asked without a day may be answered by any of its snapshots, and one that
// was asked with a day by a name without: two different days are two models.
// The same holds for tags after a colon.
func sameModel(asked, answered string) bool {
	asked, askedTag, _ := strings.Cut(asked, ":")
	answered, tag, _ := strings.Cut(answered, ":")
	if askedTag != "" && tag != "" && askedTag != tag {
		return false
	}
	return asked == answered || undated(answered) == undated(pointers.ReplaceAllString(asked, "")) &&
		(!dated(asked) || !dated(answered))
}

// modelName is a name without what says where the model runs: folders of a
// weights' file, the vendor before a slash, and the file's ending.
func modelName(name string) string {
	name = strings.ReplaceAll(strings.ToLower(strings.TrimSpace(name)), "@", "-")
	name = strings.ReplaceAll(name, `\`, "/")
	name = path.Base(strings.TrimRight(name, "/"))
	if name == "." || name == "/" {
		return ""
	}
	name = strings.TrimSuffix(name, ".gguf")
	return strings.TrimSuffix(name, ".safetensors")
}

// pointers at the end of a name follow the newest snapshot.
var pointers = regexp.MustCompile(`-(?:latest|stable|preview|exp)$`)

// day is what vendors put behind a model's name for the day of a snapshot:
// -2026-10-23, -20261023, -1023, -10-23, @20261023, or its number: -001.
var day = regexp.MustCompile(`-(?:20\d\d-?\d\d-?\d\d|\d\d-\d\d|v?\d{3,4}|\d{6})$`)

func dated(name string) bool { return day.MatchString(pointers.ReplaceAllString(name, "")) }

// undated takes days and pointers off the end of a name.
func undated(name string) string {
	for {
		short := day.ReplaceAllString(pointers.ReplaceAllString(name, ""), "")
		if short == name || short == "" {
			return name
		}
		name = short
	}
}
