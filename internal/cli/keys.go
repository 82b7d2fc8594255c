package cli

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/secrets"
	"github.com/stillhouse-data/stillhouse/internal/secrets/awssecrets"
)

// Variables that say what a worker of a cluster may read for the recipes of
// others.
const (
	keyFoldersVariable  = "STILLHOUSE_KEY_FOLDERS"  // folders of key files, as in PATH
	secretNamesVariable = "STILLHOUSE_SECRET_NAMES" // beginnings of the names of secrets, with commas between them
	keyHostsVariable    = "STILLHOUSE_KEY_HOSTS"    // which key goes to which hosts: KEY=HOST,HOST;KEY=HOST
)

// keyring reads the teachers' keys. On this machine a recipe is its user's own
// and may name any file that he may read; a worker of a cluster is bounded.
func (a *app) keyring(cluster bool) *secrets.Keyring {
	o := secrets.Options{Lookup: a.lookup, Fetch: awssecrets.New().Fetch}
	if cluster {
		o.Allow = &secrets.Allow{Folders: secrets.MountFolders, Prefixes: []string{secrets.DefaultSecretPrefix}}
		if list := a.env(keyFoldersVariable); list != "" {
			o.Allow.Folders = filepath.SplitList(list)
		}
		if list := a.env(secretNamesVariable); list != "" {
			o.Allow.Prefixes = nil
			for _, p := range strings.Split(list, ",") {
				o.Allow.Prefixes = append(o.Allow.Prefixes, strings.TrimSpace(p))
			}
		}
	}
	if text, ok := a.lookup(keyHostsVariable); ok && cluster {
		o.Allow.Hosts = secrets.ParseHosts(text)
	}
	return secrets.New(o)
}

// checkKeys reports every key that cannot be read on this machine, before
// anything is asked. Secrets of a store are left to the worker: reading them
// takes time and is written into the store's own log.
func (a *app) checkKeys(r *recipe.Recipe) error {
	if err := r.CheckEnv(a.lookup); err != nil {
		return err
	}
	ring := a.keyring(false)
	var errs recipe.Errors
	for i := range r.Teachers {
		file := r.Teachers[i].APIKeyFile
		if file == "" {
			continue
		}
		_, err := ring.Key(secrets.Ref{File: file})
		var e *secrets.Error
		if errors.As(err, &e) {
			errs = append(errs, r.ErrorAt(fmt.Sprintf("teachers[%d].api_key_file", i), e.What, e.Fix))
		}
	}
	if len(errs) > 0 {
		return errs
	}
	return nil
}
