package cli

import (
	"errors"
	"fmt"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/secrets"
	"github.com/stillhouse-data/stillhouse/internal/secrets/awssecrets"
)

// keyring reads the teachers' keys. On this machine a recipe is its user's own
// and may name any file that he may read; a worker of a cluster is bounded, and
// so is whoever was given a policy.
func (a *app) keyring(cluster bool) *secrets.Keyring {
	o := secrets.Options{Lookup: a.lookup, Fetch: awssecrets.New().Fetch}
	switch {
	case a.policy != nil:
		o.Allow = &secrets.Allow{Folders: a.policy.Keys.Folders, Prefixes: a.policy.Keys.Secrets}
	case cluster:
		o.Allow = &secrets.Allow{Folders: secrets.MountFolders, Prefixes: []string{secrets.DefaultSecretPrefix}}
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
