package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/policy"
	"github.com/stillhouse-data/stillhouse/internal/secrets"
)

// What bounds the keys of a cluster's worker bounds nobody on his own machine.
func TestWhatAWorkersPolicyAllows(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{folder, other} {
		if err := os.WriteFile(filepath.Join(dir, "k"), []byte("sk-canary-0123456789"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inside, outside := secrets.Ref{File: filepath.Join(folder, "k")}, secrets.Ref{File: filepath.Join(other, "k")}
	p, err := policy.Parse([]byte("apiVersion: stillhouse/v1\nkeys: {folders: [" + folder + "]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	nothing, err := policy.Parse([]byte("apiVersion: stillhouse/v1\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name    string
		policy  *policy.Policy
		ref     secrets.Ref
		cluster bool
		ok      bool
	}{
		{"in a folder of the policy", p, inside, true, true}, {"outside of them", p, outside, true, false},
		{"a policy that names no folder", nothing, inside, true, false}, {"a policy on this machine", nothing, inside, false, false},
		{"a cluster's worker without one", nil, inside, true, false}, {"the user's own machine", nil, outside, false, true},
	} {
		a := &app{lookup: func(string) (string, bool) { return "", false }, policy: c.policy}
		if _, err := a.keyring(c.cluster).Key(c.ref); (err == nil) != c.ok {
			t.Errorf("%s: %v, want it read: %v", c.name, err, c.ok)
		}
	}
}
