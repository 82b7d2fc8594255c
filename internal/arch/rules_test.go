package arch

import (
	"path"
	"strings"
)

// module is the import path of the repository's root.
const module = "github.com/stillhouse-data/stillhouse"

// ranks give the direction of imports: a package may import packages of ours
// of a lower rank, and of its own rank where the rank is shared. The longest
// prefix counts.
var ranks = []struct {
	prefix string
	rank   int
	shared bool // packages of this rank may import each other
}{
	{"test", 9, true}, // end-to-end tests see everything
	{"cmd", 7, false},
	{"internal/cli", 6, true},
	{"workflows", 5, false},
	{"activities", 4, false},
	{"internal/local", 3, true},
	{"internal/wire", 3, false},
	{"datasets", 2, true},
	{"teachers", 2, true},
	{"training", 2, true},
	{"internal", 2, true},
	{"internal/objstore", 1, true},
	{"internal/chat", 0, false},
	{"internal/version", 0, false},
}

// A ban says that packages under from import nothing under to. Both are paths
// below the module for packages of ours, else import paths; a path covers what
// lies below it.
type ban struct {
	from, to []string
	except   []string // packages under from that may
	reason   string
}

var bans = []ban{
	{
		from:   []string{"datasets"},
		to:     []string{"teachers", "training", "internal/answers", "internal/sources", "internal/recipe"},
		reason: "datasets gives records their meaning, wherever they came from; activities map one side to the other, and a verifier that needs a model takes a small interface",
	},
	{
		from:   []string{"teachers"},
		to:     []string{"datasets", "training", "internal/answers", "internal/objstore", "internal/recipe"},
		reason: "a teacher client knows requests and answers; what becomes of an answer is not its business",
	},
	{
		from:   []string{"training"},
		to:     []string{"teachers", "internal/answers", "internal/sources", "internal/recipe"},
		reason: "the hand-off describes a published version; how it was made is in the manifest",
	},
	{
		from:   []string{"internal/chat"},
		to:     []string{module},
		reason: "chat is what teachers and datasets both speak, so it depends on neither",
	},
	{
		from:   []string{"workflows"},
		to:     []string{"os", "os/exec", "net", "net/http", "io/fs", "math/rand", "math/rand/v2", "crypto/rand", "internal/objstore", "internal/answers", "internal/sources", "internal/recipe", "datasets/parquetio", "datasets/catalog", "teachers", "training/launch"},
		reason: "workflow code is replayed from history: whatever touches the world is an activity",
	},
	{
		from:   []string{"internal/wire"},
		to:     []string{"go.temporal.io", "internal/objstore", "internal/answers", "datasets/parquetio", "datasets/catalog", "net/http"},
		reason: "wire names and types are read by every side and recorded in histories; they stay plain data",
	},
	{
		from:   []string{"datasets/filter", "datasets/merge"},
		to:     []string{"os", "os/exec", "net", "net/http", "math/rand", "math/rand/v2", "crypto/rand", "internal/objstore"},
		reason: "filters and merge policies are pure: the same recipe over the same answers publishes the same bytes",
	},
	{
		from:   []string{""},
		to:     []string{"github.com/openai/openai-go", "github.com/anthropics/anthropic-sdk-go"},
		reason: "the vendors' clients lose data in silence; they are there for tests to compare ours with",
	},
	{
		from:   []string{""},
		to:     []string{"C"},
		reason: "the binary is static and cross-compiles without a C compiler",
	},
}

// A door is the only place through which heavy libraries come in.
type door struct {
	library []string
	through []string
	tests   bool // the tests of other packages keep to it as well
	reason  string
}

var doors = []door{
	{
		library: []string{"go.temporal.io/server", "github.com/temporalio/ui-server", "github.com/versity/versitygw"},
		through: []string{"internal/local"},
		tests:   true,
		reason:  "the embedded servers cost minutes of compiling; behind one package with the noembed tag, nothing else pays for them",
	},
	{
		library: []string{"go.temporal.io"},
		through: []string{"workflows", "activities", "internal/cli", "internal/local", "internal/codec"},
		reason:  "everything below the activities works, and is tested, without Temporal",
	},
	{
		library: []string{"github.com/aws"},
		through: []string{"internal/objstore/s3", "internal/local", "training/launch/sagemaker", "internal/secrets/awssecrets"},
		reason:  "the rest of the program knows objstore.Bucket, of which S3 is one implementation, and secrets.Keyring, which is given a function that fetches a secret; the embedded gateway's backend is declared in AWS's types",
	},
	{
		library: []string{"k8s.io", "sigs.k8s.io"},
		through: []string{"training/launch/kube"},
		reason:  "its modules move together, in the versions that the Temporal server links already; one package speaks to clusters",
	},
	{
		library: []string{"github.com/parquet-go/parquet-go"},
		through: []string{"datasets/parquetio", "internal/answers", "internal/pagezstd"},
		reason:  "one place declares schemas, bounds row groups and survives damaged files",
	},
	{
		library: []string{"github.com/apache/arrow", "github.com/apache/arrow-go"},
		through: []string{"datasets/arrowio"},
		reason:  "the door to a frozen module stays narrow enough to be moved by one package's change",
	},
	{
		library: []string{"github.com/openai/openai-go", "github.com/anthropics/anthropic-sdk-go"},
		through: []string{"teachers/crosscheck"},
		tests:   true,
		reason:  "they are large, and one package's tests compare ours with them",
	},
	{
		library: []string{"github.com/spf13/cobra"},
		through: []string{"internal/cli"},
		reason:  "a command's work is a function that a test can call without a command line",
	},
	{
		library: []string{module + "/internal/local"},
		through: []string{"cmd/stillhouse", "internal/local"},
		tests:   true,
		reason:  "one place links the embedded servers, so that every other package and test builds in seconds",
	},
}

// testSupport holds packages that only tests import: they link package testing
// or answer with made-up data.
var testSupport = []string{"internal/testdata", "internal/objstore/objstoretest"}

// noNames are package names that say where code was put, not what it is for.
var noNames = map[string]bool{
	"util": true, "utils": true, "common": true, "types": true, "helper": true, "helpers": true,
	"pkg": true, "shared": true, "misc": true, "base": true,
}

// maxLines bounds a file; under about 500 is the aim.
const maxLines = 600

// under tells whether pkg is one of the paths or lies below one. The empty
// path covers everything; packages of ours may be given without the module.
func under(pkg string, paths []string) bool {
	own, isOurs := ours(pkg)
	for _, p := range paths {
		switch {
		case p == "", pkg == p, strings.HasPrefix(pkg, p+"/"):
			return true
		case isOurs && (own == p || strings.HasPrefix(own, p+"/")):
			return true
		}
	}
	return false
}

// ours gives the path of a package below the module.
func ours(pkg string) (string, bool) {
	if pkg == module {
		return "", true
	}
	return strings.CutPrefix(pkg, module+"/")
}

// rankOf gives the rank of a package of ours; ok is false for a package whose
// place in the program nobody has declared.
func rankOf(own string) (rank int, shared, ok bool) {
	longest := -1
	for _, r := range ranks {
		if (own == r.prefix || strings.HasPrefix(own, r.prefix+"/")) && len(r.prefix) > longest {
			rank, shared, ok, longest = r.rank, r.shared, true, len(r.prefix)
		}
	}
	return rank, shared, ok
}

// supports tells whether a package exists for tests: the declared ones, and
// every package whose name ends in test.
func supports(own string) bool {
	return under(module+"/"+own, testSupport) || strings.HasSuffix(path.Base(own), "test")
}
