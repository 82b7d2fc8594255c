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
// the teacher is asked. Keys that lie on this machine are read at once too: an
// endpoint that has two teachers' keys may repeat either in an answer to the
// other, and what is not known cannot be taken out. Secrets of a store are not:
// this worker may have no right to those of teachers that it does not serve.
//
// mayAsk decides, where it is given, who is asked with which key.
func (rt *runtime) useKeys(ring *secrets.Keyring, mayAsk func(baseURL, key string) error) {
	for _, t := range rt.teachers {
		if t.config == nil {
			continue
		}
		useKey(t.config, t.spec, ring, mayAsk)
		if t.spec.APIKeyEnv != "" || t.spec.APIKeyFile != "" {
			_, _ = ring.Key(keyRef(t.spec)) // told of when the teacher is asked
		}
	}
	for _, p := range rt.paid {
		if p.wire != p.base { // another form of its endpoint
			useKey(p.wire.config, p.base.spec, ring, mayAsk)
		}
	}
}

func useKey(c *teachers.Config, spec *recipe.Teacher, ring *secrets.Keyring, mayAsk func(baseURL, key string) error) {
	c.Known = ring.Known
	if mayAsk != nil {
		if err := mayAsk(c.BaseURL, spec.APIKeyEnv+spec.APIKeyFile+spec.APIKeySecret); err != nil {
			c.Key = func() (string, error) { return "", err }
			return
		}
	}
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
