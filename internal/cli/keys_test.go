package cli

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stillhouse-data/stillhouse/internal/secrets"
)

// What bounds the keys of a cluster's worker bounds nobody on his own machine.
func TestWhatAWorkersVariablesAllow(t *testing.T) {
	folder, other := t.TempDir(), t.TempDir()
	for _, dir := range []string{folder, other} {
		if err := os.WriteFile(filepath.Join(dir, "k"), []byte("sk-canary-0123456789"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	inside, outside := secrets.Ref{File: filepath.Join(folder, "k")}, secrets.Ref{File: filepath.Join(other, "k")}
	variables := map[string]string{keyFoldersVariable: folder, keyHostsVariable: inside.File + "=api.example.com"}
	a := &app{lookup: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
	for _, c := range []struct {
		ref     secrets.Ref
		host    string
		cluster bool
		ok      bool
	}{
		{inside, "api.example.com", true, true}, {inside, "evil.net", true, false}, {outside, "api.example.com", true, false},
		{inside, "evil.net", false, true}, {outside, "evil.net", false, true},
	} {
		if _, err := a.keyring(c.cluster).KeyFor(c.ref, c.host); (err == nil) != c.ok {
			t.Errorf("%s to %s, of a cluster %v: %v, want it sent: %v", c.ref, c.host, c.cluster, err, c.ok)
		}
	}
	// By default the files of the account are out of reach, and set but empty the
	// list of hosts lets nothing go.
	variables = map[string]string{keyHostsVariable: "", "TEACHER_KEY": "x"}
	if _, err := a.keyring(true).KeyFor(inside, "api.example.com"); err == nil {
		t.Error("a worker of a cluster reads any file")
	}
	if _, err := a.keyring(true).KeyFor(secrets.Ref{Env: "TEACHER_KEY"}, "api.example.com"); err == nil {
		t.Error("an empty list of hosts lets a key go")
	}
}
