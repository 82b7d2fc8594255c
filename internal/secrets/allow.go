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

// identities are the folders below those of secrets in which a platform mounts
// the proofs of who a worker is: the account of a Kubernetes pod, and what cloud
// providers, meshes and vaults give for one. They are no key of a teacher, and an
// endpoint that got one would be the worker.
var identities = []string{
	"kubernetes.io", "serviceaccount", "eks.amazonaws.com", "pods.eks.amazonaws.com", "azure", "tokens", "istio",
	"workload-spiffe-credentials", "workload-spiffe-uds", "spiffe.io", "vault.hashicorp.com",
}

// file tells whether a file may be read; path has no links in it any more.
func (a *Allow) file(ref Ref, path string) error {
	if a == nil {
		return nil
	}
	proof := false
	for _, folder := range a.Folders {
		rest, inside := within(path, folder)
		if inside && !isIdentity(rest) {
			return nil
		}
		proof = proof || inside
	}
	if proof {
		return &Error{Ref: ref, What: "platforms keep there the proof of who a worker is, which is no teacher's key",
			Fix: "move the key elsewhere, or name its very folder in keys.folders of the worker's policy"}
	}
	return &Error{Ref: ref, What: "it is outside the folders that this worker reads keys from (" + strings.Join(a.Folders, ", ") + ")",
		Fix: "move it there, or name its folder in keys.folders of the worker's policy"}
}

// isIdentity tells whether a path below a folder of keys leads through one of
// identities.
func isIdentity(rest string) bool {
	return slices.ContainsFunc(strings.Split(filepath.Dir(rest), "/"), func(part string) bool { return slices.Contains(identities, part) })
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
		Fix: "name it so, or name its beginning in keys.secrets of the worker's policy"}
}

// below tells whether a path is inside a folder, which may itself be a link.
func below(path, folder string) bool {
	_, inside := within(path, folder)
	return inside
}

// within is what of a path comes after a folder, which may itself be a link.
func within(path, folder string) (rest string, inside bool) {
	if !filepath.IsAbs(folder) {
		return "", false
	}
	folders := []string{filepath.Clean(folder)}
	if resolved, err := filepath.EvalSymlinks(folder); err == nil {
		folders = append(folders, resolved)
	}
	for _, f := range folders {
		if rest, inside = strings.CutPrefix(path, strings.TrimSuffix(f, "/")+"/"); inside {
			return rest, true
		}
	}
	return "", false
}
