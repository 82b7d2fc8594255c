package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// The examples of the manual are launchers, and what is misspelt in them is an
// error that says where.
func TestLaunchersOfTheManual(t *testing.T) {
	manual, err := os.ReadFile(filepath.Join(testdata.Repository(t), "docs", "launchers.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, block := range strings.Split(string(manual), "```yaml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		if !strings.Contains(text, "launchers:") || strings.Contains(text, "run:") {
			continue
		}
		all, err := parseLaunchers([]byte(text))
		if err != nil {
			t.Errorf("%v in\n%s", err, text)
			continue
		}
		for name := range all {
			found[name] = true
		}
		for _, key := range []string{"url:", "work:", "options:"} {
			if broken := strings.Replace(text, key, "x"+key, 1); broken != text {
				if _, err := parseLaunchers([]byte(broken)); err == nil {
					t.Errorf("x%s is taken", key)
				}
			}
		}
	}
	for _, name := range []string{"ray", "hpc", "login", "k8s", "kubeflow", "kuberay", "queued"} {
		if !found[name] {
			t.Errorf("the manual has no launcher %s", name)
		}
	}
}
