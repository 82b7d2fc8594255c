// Package secrets reads the keys that a recipe refers to: from an environment
// variable, from a file, or from a secret store such as the AWS Secrets
// Manager. A key is read on the machine that asks with it and at the time of
// asking; it is held in memory alone, for minutes, and read again at once when
// an endpoint refuses it, so that a key can be rotated under a build that runs.
//
//	ring := secrets.New(secrets.Options{Lookup: os.LookupEnv})
//	key, err := ring.Key(secrets.Ref{File: "/run/secrets/teacher"})
//	…
//	if ring.Renew(ref, key) { … } // there is another key now
//
// No error of this package holds a key. [Keyring.Known] lists every key that
// was read, for whoever has to keep them out of what is written.
package secrets

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"
)

const (
	// freshFor is how long a key that was read from a file or a store is used
	// before it is read again.
	freshFor = 5 * time.Minute
	// staleFor is how long a key is used beyond that while its place cannot be
	// read: an outage of a secret store must not stop teachers whose key is
	// good.
	staleFor = time.Hour
	// failedFor is how long a failure is repeated to those who ask for the same
	// key, so that ten thousand asks do not make ten thousand requests.
	failedFor = 10 * time.Second
	// fetchLimit bounds one request to a secret store.
	fetchLimit = 15 * time.Second
	// maxSecret bounds what is read of a file or a store (64 KiB is the AWS
	// Secrets Manager's own bound), maxKey the key itself.
	maxSecret = 64 << 10
	maxKey    = 16 << 10
	// mostKnown bounds the keys that are remembered for redaction.
	mostKnown = 1024
)

// A Ref says where a key lies. Exactly one field is set.
type Ref struct {
	Env    string // name of an environment variable
	File   string // absolute path, or ~/… in the home of the account
	Secret string // name or ARN of a secret of a store, and #member of a JSON object
}

// String names the place in messages.
func (r Ref) String() string {
	switch {
	case r.Env != "":
		return "the variable " + r.Env
	case r.File != "":
		return "the file " + r.File
	case r.Secret != "":
		return "the secret " + r.Secret
	}
	return "no key"
}

// Options of New.
type Options struct {
	// Lookup reads environment variables, such as os.LookupEnv.
	Lookup func(string) (string, bool)
	// Fetch reads a secret of a store by its name or ARN, as text. nil means
	// that there is no store. An error that is worth another try later has a
	// method Temporary that says so.
	Fetch func(ctx context.Context, name string) (string, error)
	// Allow bounds what may be read; nil allows all that the account may read,
	// which is right where recipes are the account's own.
	Allow *Allow
}

// An Error is a key that could not be read. It never holds one.
type Error struct {
	Ref       Ref
	What      string // what is wrong with it
	Fix       string // the next step
	temporary bool
	cause     error
}

// Error says what was to be read, why it could not be and what to do.
func (e *Error) Error() string {
	return fmt.Sprintf("read the key from %s: %s; %s", e.Ref, e.What, e.Fix)
}

// Unwrap gives the cause, where there is one.
func (e *Error) Unwrap() error { return e.cause }

// Temporary tells whether reading it later may work.
func (e *Error) Temporary() bool { return e.temporary }

// A Keyring reads keys and remembers them for some minutes. It is safe for
// concurrent use.
type Keyring struct {
	options Options

	mu      sync.Mutex
	entries map[Ref]*entry
	known   []string // every key that was read, the newest last
}

// An entry is one key and what became of reading it. Its lock is held while it
// is read, so that all who want it wait for one reading.
type entry struct {
	mu     sync.Mutex
	key    string
	read   time.Time // when key was read
	failed time.Time // when reading failed last
	err    error
}

// New makes a keyring.
func New(o Options) *Keyring {
	return &Keyring{options: o, entries: map[Ref]*entry{}}
}

// Key is the key that lies at ref: from memory while it is fresh, else read
// anew. Every error is an [*Error].
func (k *Keyring) Key(ref Ref) (string, error) {
	e := k.entry(ref)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := time.Now()
	switch {
	case ref.Env != "": // reading it costs nothing
	case e.key != "" && now.Sub(e.read) < freshFor:
		return e.key, nil
	case !e.failed.IsZero() && now.Sub(e.failed) < failedFor:
		return e.lastGood(now)
	}
	return k.read(ref, e, now)
}

// Renew reads the key at ref anew after an endpoint refused used. It tells
// whether another key is there now; where somebody else has renewed it already,
// nothing is read.
func (k *Keyring) Renew(ref Ref, used string) bool {
	e := k.entry(ref)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.key != "" && e.key != used && ref.Env == "" {
		return true
	}
	now := time.Now()
	if now.Sub(e.read) < failedFor && ref.Env == "" && e.key == used {
		return false // it was read a moment ago, and this is what was there
	}
	key, err := k.read(ref, e, now)
	return err == nil && key != used
}

// Known are the keys that were read, in no order that matters.
func (k *Keyring) Known() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.known)
}

func (k *Keyring) entry(ref Ref) *entry {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.entries[ref]
	if e == nil {
		e = &entry{}
		k.entries[ref] = e
	}
	return e
}

// read reads the key. The entry is locked.
func (k *Keyring) read(ref Ref, e *entry, now time.Time) (string, error) {
	key, err := k.fetch(ref)
	if err == nil {
		e.key, e.read, e.failed, e.err = key, now, time.Time{}, nil
		k.remember(key)
		return key, nil
	}
	e.failed, e.err = now, err
	if ref.Env != "" {
		return "", err
	}
	return e.lastGood(now)
}

// lastGood is the key that was good before its place could not be read any
// more, while that is not long ago and is expected to pass.
func (e *entry) lastGood(now time.Time) (string, error) {
	var failure *Error
	if e.key != "" && now.Sub(e.read) < freshFor+staleFor && errors.As(e.err, &failure) && failure.temporary {
		return e.key, nil
	}
	return "", e.err
}

func (k *Keyring) remember(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if slices.Contains(k.known, key) {
		return
	}
	if len(k.known) == mostKnown {
		k.known = slices.Delete(k.known, 0, 1)
	}
	k.known = append(k.known, key)
}

func (k *Keyring) fetch(ref Ref) (string, error) {
	var text string
	var err error
	switch {
	case ref.Env != "":
		return k.variable(ref)
	case ref.File != "":
		text, err = k.file(ref)
	case ref.Secret != "":
		text, err = k.secret(ref)
	default:
		return "", &Error{Ref: ref, What: "the recipe names none", Fix: "write api_key_env: NAME"}
	}
	if err != nil {
		return "", err
	}
	return valid(ref, text)
}

func (k *Keyring) variable(ref Ref) (string, error) {
	if v, ok := k.options.Lookup(ref.Env); ok && strings.TrimSpace(v) != "" {
		return valid(ref, v)
	}
	return "", &Error{Ref: ref, What: "it is not set on this machine", Fix: "run: export " + ref.Env + "=… where the teacher is asked"}
}

// secret reads a secret of the store.
func (k *Keyring) secret(ref Ref) (string, error) {
	name, member, hasMember := strings.Cut(ref.Secret, "#")
	if k.options.Fetch == nil {
		return "", &Error{Ref: ref, What: "no secret store can be reached from here", Fix: "use api_key_env or api_key_file"}
	}
	if err := k.options.Allow.secret(ref, name); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), fetchLimit)
	defer cancel()
	text, err := k.options.Fetch(ctx, name)
	if err != nil {
		var t interface{ Temporary() bool }
		return "", &Error{Ref: ref, What: err.Error(), Fix: "check its name, the region and what this machine's AWS role may read",
			temporary: errors.As(err, &t) && t.Temporary(), cause: err}
	}
	if !hasMember {
		return text, nil
	}
	var object map[string]any
	// The error would quote the secret.
	if json.Unmarshal([]byte(text), &object) != nil {
		return "", &Error{Ref: ref, What: "it is no JSON object, so it has no member " + member, Fix: "leave out #" + member + ", or store an object"}
	}
	value, ok := object[member].(string)
	if !ok {
		return "", &Error{Ref: ref, What: "its object has no text under " + member, Fix: "write one of its members after #"}
	}
	return value, nil
}

// valid is a key without the white space around it.
func valid(ref Ref, text string) (string, error) {
	key := strings.TrimSpace(strings.TrimPrefix(text, "\uFEFF"))
	switch {
	case key == "":
		return "", &Error{Ref: ref, What: "it is empty", Fix: "put the key there, and nothing else"}
	case len(key) > maxKey, strings.ContainsFunc(key, func(r rune) bool { return unicode.IsControl(r) || r == unicode.ReplacementChar }):
		return "", &Error{Ref: ref, What: "it is no key: longer than one line of 16 KiB, or with control characters", Fix: "put the key there, and nothing else"}
	}
	return key, nil
}
