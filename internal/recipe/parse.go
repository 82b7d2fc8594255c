package recipe

import "errors"

// Load reads a recipe from a file. The error is an Errors, or says that the
// file cannot be read.
func Load(path string) (*Recipe, error) { return nil, errors.New("load") }

// Parse reads a recipe from its bytes; name is the file's name for messages,
// and its folder is where relative paths start. The error is an Errors.
func Parse(name string, data []byte) (*Recipe, error) { return nil, errors.New("parse") }

// CheckEnv reports every key variable that is not set. It is apart from
// loading because plan asks no teacher and needs no key.
func (r *Recipe) CheckEnv(lookup func(name string) (string, bool)) error { return nil }

// CheckStore reports every teacher whose answers could be mixed up with
// another machine's on a shared store.
func (r *Recipe) CheckStore(remote bool) error { return nil }

// String is the expression as it was written.
func (w *When) String() string { return "" }

// Match evaluates the condition.
func (w *When) Match(env Env) (bool, error) { return false, nil }

// Schema is the JSON Schema of a recipe.
func Schema() ([]byte, error) { return nil, nil }
