// Package arch holds the architecture of the program as a test: who may import
// whom, through which package each heavy library comes in, and the few rules of
// form that every file keeps. A failure names the rule and why it is there.
//
// Where a rule stands in the way of something good, change the rule here in a
// commit of its own that says why; ARCHITECTURE.md explains the directions.
package arch

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

func TestRepositoryKeepsTheRules(t *testing.T) {
	for _, broken := range judge(t, os.DirFS(testdata.Repository(t))) {
		t.Error(broken)
	}
}

// judge returns what breaks a rule, a line each.
func judge(t *testing.T, root fs.FS) []string {
	t.Helper()
	files, err := readTree(root)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	documented := map[string]bool{}
	for i := range files {
		f := &files[i]
		documented[f.pkg] = documented[f.pkg] || f.syntax.Doc != nil
		for _, imported := range f.imports {
			out = append(out, judgeImport(f, imported)...)
		}
		out = append(out, judgeForm(f)...)
	}
	for pkg, ok := range documented {
		if !ok {
			out = append(out, fmt.Sprintf("package %s has no package comment: a newcomer reads it first; say what the package is for and what it promises", pkg))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// judgeImport holds one import of one file to the directions, bans and doors.
func judgeImport(f *file, imported string) []string {
	var out []string
	broken := func(rule, reason string) {
		out = append(out, fmt.Sprintf("%s imports %s: %s; %s", f.name, imported, rule, reason))
	}
	own, _ := ours(f.pkg)
	if theirs, isOurs := ours(imported); isOurs {
		if supports(theirs) {
			if !f.test && !supports(own) && !under(f.pkg, []string{"test"}) {
				broken("only tests import it", "it links package testing or answers with made-up data")
			}
		} else if !f.test {
			out = append(out, judgeRank(f, own, imported, theirs)...)
		}
	}
	for _, b := range bans {
		if !f.test && under(f.pkg, b.from) && under(imported, b.to) && !under(f.pkg, b.except) {
			broken("packages of this place do not", b.reason)
		}
	}
	for _, d := range doors {
		if !under(imported, d.library) || under(f.pkg, d.through) || under(f.pkg, []string{"test"}) || f.test && !d.tests {
			continue
		}
		broken("it comes in only through "+strings.Join(d.through, ", "), d.reason)
	}
	return out
}

// judgeRank holds an import of ours to the direction of the program.
func judgeRank(f *file, own, imported, theirs string) []string {
	from, _, ok := rankOf(own)
	if !ok {
		return []string{fmt.Sprintf("package %s has no place in the program: add it to ranks in internal/arch, beside what it works with", f.pkg)}
	}
	to, shared, ok := rankOf(theirs)
	if !ok || to < from || to == from && shared {
		return nil // an undeclared package is told of at its own imports
	}
	return []string{fmt.Sprintf("%s imports %s: imports run cmd → internal/cli → workflows → activities → the parts → internal/chat; nothing points back, so that each part can be read and tested without what uses it", f.name, imported)}
}

// judgeForm holds one file to the rules of names, length and waiting.
func judgeForm(f *file) []string {
	var out []string
	if name := f.syntax.Name.Name; noNames[name] || noNames[path.Base(f.pkg)] {
		out = append(out, fmt.Sprintf("package %s: no package is called %s; a name states the one idea of a package", f.pkg, name))
	}
	if f.lines > maxLines {
		out = append(out, fmt.Sprintf("%s has %d lines, more than %d: split it by idea; about 500 is the aim", f.name, f.lines, maxLines))
	}
	if f.test && f.sleeps() {
		out = append(out, fmt.Sprintf("%s calls time.Sleep: wait for the condition itself, or use testing/synctest; sleeping tests are slow where they pass and flaky where they fail", f.name))
	}
	return out
}

// TestJudgeFindsWhatIsBroken shows every rule a small program that breaks it.
func TestJudgeFindsWhatIsBroken(t *testing.T) {
	doc := "// Package x is for this test.\n"
	src := func(imports ...string) string {
		s := doc + "package x\n"
		for _, i := range imports {
			s += "import _ \"" + i + "\"\n"
		}
		return s
	}
	for _, tc := range []struct {
		name, file, src string
		want            string // part of the only complaint; "" for none
	}{
		{"a part", "datasets/merge/a.go", src("sort", module+"/datasets", module+"/internal/chat"), ""},
		{"points back", "datasets/catalog/a.go", src(module + "/activities"), "nothing points back"},
		{"cli to cmd", "internal/cli/a.go", src(module + "/cmd/stillhouse"), "nothing points back"},
		{"objstore to datasets", "internal/objstore/s3/a.go", src(module + "/datasets"), "nothing points back"},
		{"wire to local", "internal/wire/a.go", src(module + "/internal/wire/b"), "nothing points back"},
		{"no place", "service/a.go", src(module + "/datasets"), "has no place in the program"},
		{"datasets to teachers", "datasets/a.go", src(module + "/teachers"), "activities map one side to the other"},
		{"teachers to datasets", "teachers/a.go", src(module + "/datasets"), "not its business"},
		{"chat to ours", "internal/chat/a.go", src(module + "/internal/version"), "nothing points back"},
		{"workflow with a file", "workflows/a.go", src("os"), "replayed from history"},
		{"workflow with durations", "workflows/a.go", src("time", "go.temporal.io/sdk/workflow"), ""},
		{"wire with Temporal", "internal/wire/a.go", src("go.temporal.io/sdk/temporal"), "stay plain data"},
		{"impure filter", "datasets/filter/a.go", src("net/http"), "are pure"},
		{"cgo", "datasets/a.go", src("C"), "without a C compiler"},
		{"server outside local", "internal/cli/a.go", src("go.temporal.io/server/temporal"), "cost minutes of compiling"},
		{"server in a test", "workflows/a_test.go", src("go.temporal.io/server/temporal"), "cost minutes of compiling"},
		{"gateway under a tag", "internal/objstore/a.go", "//go:build embed\n\n" + src("github.com/versity/versitygw/embedgw"), "cost minutes of compiling"},
		{"Temporal below activities", "datasets/a.go", src("go.temporal.io/sdk/client"), "without Temporal"},
		{"Temporal in a test", "internal/recipe/a_test.go", src("go.temporal.io/sdk/testsuite"), ""},
		{"AWS outside its door", "activities/a.go", src("github.com/aws/aws-sdk-go-v2/service/s3"), "objstore.Bucket"},
		{"AWS in its door", "internal/objstore/s3/a.go", src("github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"), ""},
		{"AWS in the door of secrets", "internal/secrets/awssecrets/a.go", src("github.com/aws/aws-sdk-go-v2/service/secretsmanager"), ""},
		{"AWS beside the door of secrets", "internal/secrets/a.go", src("github.com/aws/aws-sdk-go-v2/service/secretsmanager"), "secrets.Keyring"},
		{"parquet outside its door", "internal/sources/a.go", src("github.com/parquet-go/parquet-go"), "survives damaged files"},
		{"a vendor's client", "teachers/crosscheck/a.go", src("github.com/openai/openai-go/v3"), "lose data in silence"},
		{"a vendor's client in its test", "teachers/crosscheck/a_test.go", src("github.com/openai/openai-go/v3/option", "github.com/anthropics/anthropic-sdk-go/v2"), ""},
		{"a vendor's client in another test", "teachers/a_test.go", src("github.com/anthropics/anthropic-sdk-go/v2"), "one package's tests"},
		{"cobra outside cli", "cmd/stillhouse/a.go", src("github.com/spf13/cobra"), "without a command line"},
		{"local outside cmd", "internal/cli/a.go", src(module + "/internal/local"), "builds in seconds"},
		{"local in cmd", "cmd/stillhouse/a.go", src(module+"/internal/local", module+"/internal/cli"), ""},
		{"fake in the program", "teachers/a.go", src(module + "/teachers/teacherstest"), "only tests import it"},
		{"fake in a test", "teachers/a_test.go", src(module + "/teachers/teacherstest"), ""},
		{"bad name", "internal/util/a.go", src(), "no package is called"},
		{"no package comment", "datasets/merge/a.go", "package merge\n", "has no package comment"},
		{"long file", "datasets/merge/a.go", src() + strings.Repeat("\n", maxLines), "split it by idea"},
		{"sleeping test", "datasets/merge/a_test.go", doc + "package merge\nimport clock \"time\"\nfunc f() { clock.Sleep(1) }\n", "calls time.Sleep"},
		{"sleep in a bubble", "datasets/merge/a_test.go", doc + "package merge\nimport (\n\"testing/synctest\"\n\"time\"\n)\nfunc f() { synctest.Wait(); time.Sleep(1) }\n", ""},
		{"sleep that is none", "datasets/merge/a_test.go", doc + "package merge\ntype t struct{}\nfunc (t) Sleep() {}\nfunc f(time t) { time.Sleep() }\n", ""},
		{"ignored folder", "bin/a.go", src("C"), ""},
		{"test data", "datasets/testdata/a.go", src("C"), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := judge(t, fstest.MapFS{
				".gitignore": {Data: []byte("/bin/\n*.test\n")},
				tc.file:      {Data: []byte(tc.src)},
			})
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("complains of a tree that is fine: %q", got)
			case tc.want != "" && (len(got) == 0 || !strings.Contains(strings.Join(got, "\n"), tc.want)):
				t.Errorf("got %q, want a complaint with %q", got, tc.want)
			}
		})
	}
}
