// Package policy reads the file that says what a worker may do for the recipes
// of others: whom it may ask and with which key, what it may read, and what it
// may run. A recipe is trusted by the account that starts it and by nobody else;
// a worker of a cluster carries out those of whoever may start a workflow there.
//
//	p, err := policy.Load("policy.yaml")
//	…
//	err = p.Endpoint("https://api.example.com/v1", "EXAMPLE_API_KEY")
//
// What the file does not name is refused. A nil *Policy is that of a process
// that was given no file: it may ask anybody, and runs nothing.
package policy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// APIVersion of a policy file.
const APIVersion = "stillhouse/v1"

// maxFile bounds a policy file, in bytes.
const maxFile = 256 << 10

// A Policy is what a worker may do. Each list holds all that is allowed of its
// kind.
type Policy struct {
	APIVersion string     `yaml:"apiVersion"`
	Endpoints  []Endpoint `yaml:"endpoints"`
	// Sources are the beginnings of s3:// URLs that prompts, recorded answers and
	// images may be read from. A worker's own store is not one of them: it needs
	// no leave. Each ends with a slash or names one object.
	Sources []string `yaml:"sources"`
	Keys    Keys     `yaml:"keys"`
	Run     Run      `yaml:"run"`

	file string // for messages
}

// An Endpoint is somebody who may be asked.
type Endpoint struct {
	// URL is scheme://host[:port][/path]. A host that begins with *. stands for
	// all below it, and * for any. All below the path are meant.
	URL string `yaml:"url"`
	// Keys are those that may be sent there: a variable, a file or a secret, as
	// recipes write them. Without one it is asked without a key.
	Keys []string `yaml:"keys"`

	parsed place
}

// A place is the parts of an endpoint's URL.
type place struct {
	scheme, host, port, path string // the path as it is asked: decoded
	twisted                  bool   // see twisted
}

// Keys says where keys may lie that are no variables.
type Keys struct {
	Folders []string `yaml:"folders"` // absolute; files below them may be read
	Secrets []string `yaml:"secrets"` // beginnings of the names of secrets
}

// Run says what may run on the worker's machine, outside of any sandbox.
type Run struct {
	// Commands are the programs of the verifier command, as recipes write them;
	// * is any.
	Commands []string `yaml:"commands"`
	// Launchers are those of train, by name.
	Launchers []string `yaml:"launchers"`
}

// Load reads a policy file. An unknown key, a URL that is none and a relative
// folder are errors that name their place.
func Load(path string) (*Policy, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	p, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	p.file = path
	return p, nil
}

// Parse reads a policy from its text.
func Parse(text []byte) (p *Policy, err error) {
	if len(text) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	// The library has had panics on broken input.
	defer func() {
		if recover() != nil {
			p, err = nil, errors.New("it is not valid YAML; check the indentation and the quotes")
		}
	}()
	p = &Policy{file: "policy"}
	decoder := yaml.NewDecoder(bytes.NewReader(text), yaml.Strict())
	if err := decoder.Decode(p); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, errors.New("it is empty; an empty policy allows nothing and still says apiVersion: " + APIVersion)
		}
		return nil, errors.New(yaml.FormatError(err, false, true))
	}
	if err := decoder.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("it holds more than one YAML document; only one can hold")
	}
	return p, p.check()
}

func (p *Policy) check() error {
	if p.APIVersion != APIVersion {
		return fmt.Errorf("apiVersion is %q, want %s", p.APIVersion, APIVersion)
	}
	for i := range p.Endpoints {
		e := &p.Endpoints[i]
		var err error
		if e.parsed, err = pattern(e.URL); err != nil {
			return fmt.Errorf("endpoints[%d].url: %w", i, err)
		}
		if slices.Contains(e.Keys, "") {
			return fmt.Errorf("endpoints[%d].keys: a key has no name", i)
		}
	}
	for i, s := range p.Sources {
		bucket, key, ok := strings.Cut(strings.TrimPrefix(s, "s3://"), "/")
		if !strings.HasPrefix(s, "s3://") || bucket == "" || !ok {
			return fmt.Errorf("sources[%d]: %q is no s3://bucket/ or s3://bucket/prefix/", i, s)
		}
		if strings.Contains(key, "*") {
			return fmt.Errorf("sources[%d]: %q: all below a prefix is meant; leave out the *", i, s)
		}
	}
	for i, f := range p.Keys.Folders {
		if !filepath.IsAbs(f) {
			return fmt.Errorf("keys.folders[%d]: %q is not absolute", i, f)
		}
	}
	for at, list := range map[string][]string{"keys.secrets": p.Keys.Secrets, "run.commands": p.Run.Commands, "run.launchers": p.Run.Launchers} {
		if slices.Contains(list, "") {
			return fmt.Errorf("%s: an entry is empty", at)
		}
	}
	return nil
}

// pattern reads the URL of an endpoint of a policy.
func pattern(text string) (place, error) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "https" && scheme != "http" {
		return place{}, fmt.Errorf("%q: want https://host or http://host", text)
	}
	// A * is no part of a host that net/url reads everywhere.
	at, err := url.Parse(scheme + "://" + strings.Replace(rest, "*", "any-host", 1))
	if err != nil || at.Host == "" || at.User != nil || at.RawQuery != "" || at.Fragment != "" {
		return place{}, fmt.Errorf("%q: want scheme://host[:port][/path] and no more", text)
	}
	p := placeOf(at)
	if strings.Contains(rest, "*") {
		p.host = strings.Replace(p.host, "any-host", "*", 1)
		if below, ok := strings.CutPrefix(p.host, "*"); !ok || below != "" && below[0] != '.' || strings.Contains(below+p.path, "*") {
			return place{}, fmt.Errorf("%q: a * stands for a whole host, or at its beginning before a dot", text)
		}
	}
	return p, nil
}

func placeOf(u *url.URL) place {
	p := place{
		scheme: strings.ToLower(u.Scheme), host: strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")),
		port: u.Port(), path: strings.TrimRight(u.Path, "/"), twisted: twisted(u),
	}
	if p.port == "" {
		p.port = map[string]string{"https": "443", "http": "80"}[p.scheme]
	}
	return p
}

// covers tells whether a place is meant by the endpoint of a policy.
func (p place) covers(at place) bool {
	host := p.host == at.host
	if below, wild := strings.CutPrefix(p.host, "*"); wild {
		host = strings.HasSuffix(at.host, below)
	}
	if p.scheme != at.scheme || p.port != at.port || !host || at.twisted {
		return false
	}
	return at.path == p.path || strings.HasPrefix(at.path, p.path+"/")
}

// twisted tells whether servers may take a path for another one, so that what it
// begins with says nothing: it goes up, or hides a slash or what goes up behind
// an escape.
func twisted(u *url.URL) bool {
	raw := strings.ToLower(u.EscapedPath())
	return goesUp(u.Path) || strings.Contains(u.Path, "%") || strings.Contains(raw, "%2f") || strings.Contains(raw, "%5c")
}

// goesUp tells whether a part of a path is .. or begins with it and a semicolon,
// which some servers read as the same.
func goesUp(path string) bool {
	parts := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '\\' })
	return slices.ContainsFunc(parts, func(part string) bool { return part == ".." || strings.HasPrefix(part, "..;") })
}

// An Error is what a policy does not allow.
type Error struct {
	What string // was to be done
	Fix  string // what would allow it
}

// Error says what is not allowed and what would allow it.
func (e *Error) Error() string { return e.What + "; " + e.Fix }

// Endpoint tells whether the endpoint at an address may be asked with a key,
// which is named as recipes name it; "" is none.
func (p *Policy) Endpoint(base, key string) error {
	if p == nil {
		return nil
	}
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return errors.New("base_url is no address") // it may hold a password
	}
	at, known := placeOf(u), false
	for _, e := range p.Endpoints {
		if !e.parsed.covers(at) {
			continue
		}
		if known = true; key == "" || slices.Contains(e.Keys, key) {
			return nil
		}
	}
	where := u.Scheme + "://" + u.Host
	if known {
		return &Error{"this worker does not send the key " + key + " to " + where,
			fmt.Sprintf("name the key below that endpoint in %s, if it may have it", p.file)}
	}
	return &Error{"this worker does not ask " + where, fmt.Sprintf("name it among the endpoints of %s, if it may be asked", p.file)}
}

// Source tells whether an object of another store may be read, or listed below
// its folder.
func (p *Policy) Source(address string) error {
	if p == nil {
		return nil
	}
	for _, s := range p.Sources {
		if address == s || strings.HasPrefix(address, s) && strings.HasSuffix(s, "/") && !goesUp(address[len(s):]) {
			return nil
		}
	}
	return &Error{"this worker does not read " + address, fmt.Sprintf("name its prefix among the sources of %s, with a slash at the end", p.file)}
}

// Command tells whether a program may judge answers on this machine.
func (p *Policy) Command(program string) error {
	if p != nil && (slices.Contains(p.Run.Commands, program) || slices.Contains(p.Run.Commands, "*")) {
		return nil
	}
	return &Error{"this worker does not run " + program, "name it in run.commands of the file that --policy names"}
}

// Launcher tells whether trainings may be started by a launcher.
func (p *Policy) Launcher(name string) error {
	if p != nil && slices.Contains(p.Run.Launchers, name) {
		return nil
	}
	return &Error{"this worker does not start trainings by the launcher " + name, "name it in run.launchers of the file that --policy names"}
}
