package kube

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// The Role in the manual allows what launchers do, and nothing that they don't.
func TestRoleOfTheManual(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(testdata.Repository(t), "docs", "launchers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), "```yaml\napiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n")
	if !found {
		t.Fatal("the manual has no Role")
	}
	block, _, _ := strings.Cut(after, "\n---\n")
	var role struct {
		Rules []struct {
			APIGroups []string `yaml:"apiGroups"`
			Resources []string `yaml:"resources"`
			Verbs     []string `yaml:"verbs"`
		} `yaml:"rules"`
	}
	if err := yaml.Unmarshal([]byte(block), &role); err != nil {
		t.Fatal(err)
	}
	var allowed []string
	for _, r := range role.Rules {
		for _, group := range r.APIGroups {
			for _, resource := range r.Resources {
				for _, verb := range r.Verbs {
					allowed = append(allowed, verb+" "+resource+" "+group)
				}
			}
		}
	}
	done := []string{"get pods/log ", "get secrets "} // by the log's own request; after a Secret that is there
	for _, w := range kinds(t) {
		for range 2 {
			if _, err := w.Submit(t.Context(), id, spec()); err != nil {
				t.Fatal(err)
			}
		}
		w.addPod(t, "one", `{}`)
		if _, err := w.Logs(t.Context(), ref(), 10); err != nil {
			t.Fatal(err)
		}
		if err := w.Cancel(t.Context(), ref()); err != nil {
			t.Fatal(err)
		}
		before := len(w.fake.Actions())
		if _, err := w.Status(t.Context(), ref()); err != nil || len(w.fake.Actions()) == before {
			t.Fatalf("status asked nobody: %v", err)
		}
		for _, a := range w.fake.Actions() {
			if a.GetResource().Resource == "pods" && a.GetVerb() == "create" {
				continue // the test's own
			}
			done = append(done, a.GetVerb()+" "+a.GetResource().Resource+" "+a.GetResource().Group)
		}
	}
	slices.Sort(done)
	done = slices.Compact(done)
	slices.Sort(allowed)
	if !slices.Equal(done, allowed) {
		t.Errorf("launchers do\n%s\nand the manual's Role allows\n%s", strings.Join(done, "\n"), strings.Join(allowed, "\n"))
	}
}
