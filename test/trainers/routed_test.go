//go:build trainers

package trainers

import (
	"os/exec"
	"path/filepath"
	"testing"
)

// The configurations that are golden files of training/render are taken by
// their trainers' own parsers, with the teachers that they name.
func TestRenderedConfigurationsAreTaken(t *testing.T) {
	for trainer, names := range map[string][]string{"verl": {"verl-sft-plain", "verl-sft-params", "verl-opd"}, "trl": {"trl-opd"}} {
		t.Run(trainer, func(t *testing.T) {
			t.Parallel()
			python := environment(t, trainer)
			for _, name := range names {
				golden := filepath.Join("..", "..", "training", "render", "testdata", name+".golden")
				if out, err := exec.CommandContext(t.Context(), python, "routed_check.py", trainer, golden).CombinedOutput(); err != nil {
					t.Errorf("%s: %v\n%s", name, err, out)
				}
			}
		})
	}
}
