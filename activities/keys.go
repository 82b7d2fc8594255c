package activities

import (
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/secrets"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// keyring reads the teachers' keys: the worker's own, else one that reads
// variables and files.
func (a *Activities) keyring() *secrets.Keyring {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.Keys == nil {
		a.Keys = secrets.New(secrets.Options{Lookup: a.Lookup})
	}
	return a.Keys
}

// useKeys gives every teacher of a recipe its key, which is read where and when
// the teacher is asked.
func (rt *runtime) useKeys(ring *secrets.Keyring) {
	for _, t := range rt.teachers {
		if t.config != nil {
			useKey(t.config, t.spec, ring)
		}
	}
}

func useKey(c *teachers.Config, spec *recipe.Teacher, ring *secrets.Keyring) {
	c.Known = ring.Known
	if !spec.HasKey() {
		return
	}
	ref := keyRef(spec)
	c.Key = func() (string, error) { return ring.Key(ref) }
	c.Renew = func(used string) bool { return ring.Renew(ref, used) }
}

// keyRef is where a teacher's key lies.
func keyRef(spec *recipe.Teacher) secrets.Ref {
	return secrets.Ref{Env: spec.APIKeyEnv, File: spec.APIKeyFile, Secret: spec.APIKeySecret}
}
