package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The example of Kubernetes in the documentation is taken as it stands.
func TestTheDocumentedClustersAreTaken(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "launchers.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Kubernetes\n")
	_, block, _ := strings.Cut(section, "```yaml\n")
	block, _, found := strings.Cut(block, "```")
	if !found {
		t.Fatal("the section has no example")
	}
	a, _, _ := newApp(t, nil)
	a.launchersFile = filepath.Join(t.TempDir(), "launchers.yaml")
	if err := os.WriteFile(a.launchersFile, []byte(block), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := a.loadLaunchers(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"k8s", "trainer", "ray"} {
		if a.launchers[name] == nil {
			t.Errorf("there is no launcher %s", name)
		}
	}
}
