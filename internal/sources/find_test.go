package sources

import (
	"bufio"
	"context"
	"errors"
	"io"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

func newReader(s string) *bufio.Reader { return bufio.NewReader(strings.NewReader(s)) }

// tree writes files, one character each unless the name says empty.
func tree(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		text := "x"
		if strings.Contains(name, "empty") {
			text = ""
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFind(t *testing.T) {
	dir := tree(t, "a.jsonl", "b.jsonl.gz", "c.csv", "README.md", "data/1.json", "data/2.parquet", "data/deep/3.ndjson",
		"data/.hidden.jsonl", ".git/x.jsonl", "odd[1].jsonl", "only/empty.jsonl", "docs/x.md")
	if err := os.Symlink(filepath.Join(dir, "a.jsonl"), filepath.Join(dir, "data", "link.jsonl")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, filepath.Join(dir, "data", "loop")); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		pattern string
		want    string // names, or the error after "! "
	}{
		{"a.jsonl", "a.jsonl"},
		{"./a.jsonl", "a.jsonl"},
		{"*.jsonl", "a.jsonl odd[1].jsonl"},
		{"odd[1].jsonl", "odd[1].jsonl"},
		{"[ab].jsonl*", "a.jsonl b.jsonl.gz"},
		{"[!b].jsonl", "a.jsonl"},
		{"?.csv", "c.csv"},
		{"data", "data/1.json data/2.parquet data/deep/3.ndjson data/link.jsonl"},
		{"data/", "data/1.json data/2.parquet data/deep/3.ndjson data/link.jsonl"},
		{"data/**/*.ndjson", "data/deep/3.ndjson"},
		{"**/*.json", "data/1.json"},
		{"data/*", "data/1.json data/2.parquet data/link.jsonl"},
		{"none.jsonl", "! find none.jsonl: no file matches in DIR; check the path, which starts at the recipe's folder"},
		{"data/*.csv", "! find data/*.csv: no file matches in DIR/data; check the path, which starts at the recipe's folder"},
		{"gone/*.csv", "! find gone/*.csv: no file matches in DIR/gone; check the path, which starts at the recipe's folder"},
		{"docs", "! find docs: no file matches in DIR/docs; check the path, which starts at the recipe's folder"},
		{"README.md", "! find README.md: README.md is of no known format; use one of " + Formats},
		{"only", "! find only: DIR/only/empty.jsonl is empty; remove it or fill it"},
		{"[x.jsonl", "! find [x.jsonl: a [ in the pattern has no ]; close it"},
		{"http://host/x.jsonl", "! find http://host/x.jsonl: want a path or an s3:// URL"},
		{"s3://bucket/x.jsonl", "! find s3://bucket/x.jsonl: no store is open here; download the files and name them by path"},
	} {
		t.Run(tc.pattern, func(t *testing.T) {
			files, err := Find(dir, tc.pattern)
			got := make([]string, len(files))
			for i, f := range files {
				rel, _ := filepath.Rel(dir, f.Path)
				got[i] = filepath.ToSlash(rel)
				// SHA-256 of "x".
				if f.SHA256 != "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881" || f.Size != 1 {
					t.Errorf("%s: size %d, digest %s", f.Path, f.Size, f.SHA256)
				}
			}
			text := strings.Join(got, " ")
			if err != nil {
				text = "! " + strings.ReplaceAll(err.Error(), dir, "DIR")
			}
			if text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
			}
		})
	}
	if _, err := Find(dir, "none.jsonl"); !errors.Is(err, ErrNoFiles) {
		t.Errorf("%v is not ErrNoFiles", err)
	}
}

func TestFindRefusesWhatIsNoFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("/dev/null", filepath.Join(dir, "null.jsonl")); err != nil {
		t.Fatal(err)
	}
	if _, err := Find(dir, "null.jsonl"); err == nil || !strings.Contains(err.Error(), "is not a plain file") {
		t.Errorf("error %v, want one about a plain file", err)
	}
}

func TestFindRemote(t *testing.T) {
	listed := map[string][]File{
		"s3://b/ok/*.jsonl": {{Name: "2.jsonl", Key: "ok/2.jsonl", Size: 1}, {Name: "1.jsonl", Key: "ok/1.jsonl", Size: 1}},
		"s3://b/empty":      {{Name: "1.jsonl", Key: "1.jsonl"}},
		"s3://b/odd":        {{Name: "1.txt", Key: "1.txt", Size: 1}},
	}
	f := Finder{Remote: func(_ context.Context, url string) ([]File, error) {
		if url == "s3://b/down" {
			return nil, io.ErrUnexpectedEOF
		}
		return listed[url], nil
	}}
	files, err := f.Find(context.Background(), "s3://b/ok/*.jsonl")
	if err != nil || len(files) != 2 || files[0].Key != "ok/1.jsonl" {
		t.Errorf("got %v, %v; want the two files by key", files, err)
	}
	var got []string
	for _, url := range []string{"s3://b/none", "s3://b/empty", "s3://b/odd", "s3://b/down"} {
		_, err := f.Find(context.Background(), url)
		if err == nil {
			t.Fatalf("%s: no error", url)
		}
		got = append(got, err.Error())
	}
	want := []string{
		"find s3://b/none: no file matches; check bucket and prefix",
		"find s3://b/empty: 1.jsonl is empty; remove it or fill it",
		"find s3://b/odd: 1.txt is of no known format; use one of " + Formats,
		"find s3://b/down: unexpected EOF",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func itemsOf(t testing.TB, dir, pattern string, src *recipe.PromptSource) iter.Seq2[Item, error] {
	t.Helper()
	files, err := Find(dir, pattern)
	if err != nil {
		t.Fatal(err)
	}
	return Items(context.Background(), files, src, Options{})
}
