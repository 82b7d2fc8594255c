package demo

import (
	"net"
	"net/url"
	"os"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

func portOf(t *testing.T, address string) int {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// nine are the teachers as Start would return them.
func nine() []Teacher {
	var all []Teacher
	for i := range characters {
		c := &characters[i]
		all = append(all, Teacher{Model: c.model(), BaseURL: "http://127.0.0.1:" + strconv.Itoa(40001+i) + "/v1", Domain: c.domain, Effort: c.effort})
	}
	return all
}

func TestRecipeIsValidAndAsksWhatItSays(t *testing.T) {
	dir := t.TempDir()
	path, err := Write(dir, nine())
	if err != nil {
		t.Fatal(err)
	}
	r, err := recipe.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Teachers) != 9 || len(r.Prompts) != 3 || r.Name != RecipeName {
		t.Errorf("%d teachers, %d sources, name %s", len(r.Teachers), len(r.Prompts), r.Name)
	}
	tasks := map[string]int{}
	for i := range r.Prompts {
		src := &r.Prompts[i]
		files, err := sources.Find(r.Dir, src.Path)
		if err != nil {
			t.Fatal(err)
		}
		for item, err := range sources.Items(t.Context(), files, src, sources.Options{}) {
			if err != nil {
				t.Fatal(err)
			}
			tasks[item.Domain+" "+item.Effort]++
			p, known := byQuestion()[*item.Prompt.Messages[len(item.Prompt.Messages)-1].Content]
			if !known {
				t.Fatalf("no teacher knows the prompt %+v", item.Prompt)
			}
			if p.tests == nil {
				if item.Gold == nil || *item.Gold != p.gold {
					t.Errorf("gold of %q", p.question)
				}
				continue
			}
			want := input(t, p, "").Tests
			if item.Tests == nil {
				t.Fatalf("no tests for %q", p.question)
			}
			if pattern, ok := p.tests.(string); ok && *item.Tests != pattern {
				t.Errorf("tests of %q: %s, want %s", p.question, *item.Tests, *want)
			}
		}
	}
	want := map[string]int{}
	for _, domain := range []string{Math, Science, Structured} {
		for _, effort := range []string{Low, High, Max} {
			want[domain+" "+effort] = perDomain
		}
	}
	if diff := cmp.Diff(want, tasks); diff != "" {
		t.Errorf("tasks (-want +got):\n%s", diff)
	}
}

func TestWriteIsTheSameAgain(t *testing.T) {
	dir := t.TempDir()
	path, err := Write(dir, nine())
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Write(dir, nine()); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Error(diff)
	}
	if _, err := Write(dir, []Teacher{{Model: "gpt-9"}}); err == nil {
		t.Error("a stranger was taken for a demo teacher")
	}
}
