package cli

import (
	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/internal/policy"
)

// addPolicyFlag declares the file that says what the process may do for the
// recipes of others.
func (a *app) addPolicyFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.policyFile, "policy", "", "file that says whom to ask with which key, what to read and what to run for recipes (docs/policy.md)")
}

// loadPolicy reads it. Without one the process asks whom a recipe names.
func (a *app) loadPolicy() error {
	if a.policyFile == "" {
		return nil
	}
	p, err := policy.Load(a.policyFile)
	if err != nil {
		return usage("--policy: %v", err)
	}
	a.policy = p
	return nil
}
