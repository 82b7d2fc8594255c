package secrets

import (
	"path/filepath"
	"slices"
	"strings"
)

// MountFolders is where container platforms put secrets: Docker, Podman and
// Kubernetes. They choose the files' modes, and 0444 is common there.
var MountFolders = []string{"/run/secrets", "/var/run/secrets"}

// DefaultSecretPrefix is the beginning of the names of secrets that a worker of
// a cluster reads where it was told nothing else.
const DefaultSecretPrefix = "stillhouse/"

// An Allow bounds which files and secrets are read. A worker of a cluster
// carries out the recipes of others: without a bound, a recipe could send any
// file of the worker, or any secret of its role, to an address of its own
// choice.
type Allow struct {
	Folders  []string // absolute; files below them may be read
	Prefixes []string // of the names of secrets
}

// file tells whether a file may be read; path has no links in it any more.
func (a *Allow) file(ref Ref, path string) error {
	if a == nil || slices.ContainsFunc(a.Folders, func(folder string) bool { return below(path, folder) }) {
		return nil
	}
	return &Error{Ref: ref, What: "it is outside the folders that this worker reads keys from (" + strings.Join(a.Folders, ", ") + ")",
		Fix: "move it there, or name its folder in STILLHOUSE_KEY_FOLDERS of the worker"}
}

// secret tells whether a secret may be read. An ARN counts by the name in it.
func (a *Allow) secret(ref Ref, name string) error {
	if strings.HasPrefix(name, "arn:") {
		if _, own, ok := strings.Cut(name, ":secret:"); ok {
			name = own
		}
	}
	if a == nil || slices.ContainsFunc(a.Prefixes, func(p string) bool { return p != "" && strings.HasPrefix(name, p) }) {
		return nil
	}
	return &Error{Ref: ref, What: "this worker reads only secrets whose names begin with " + strings.Join(a.Prefixes, " or "),
		Fix: "name it so, or name its beginning in STILLHOUSE_SECRET_NAMES of the worker"}
}

// below tells whether a path is inside a folder, which may itself be a link.
func below(path, folder string) bool {
	folders := []string{filepath.Clean(folder)}
	if resolved, err := filepath.EvalSymlinks(folder); err == nil {
		folders = append(folders, resolved)
	}
	return slices.ContainsFunc(folders, func(f string) bool {
		return strings.HasPrefix(path, strings.TrimSuffix(f, "/")+"/")
	})
}
