package cli

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/training/launch"
)

// maxLaunchers bounds a file of launchers, in bytes.
const maxLaunchers = 256 << 10

// launcherName is what a launcher may be called; policies and recipes name it.
var launcherName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,62}$`)

// A launcherKind makes a launcher from its configuration, which decode reads
// strictly into a struct with yaml tags. Nobody is asked yet.
type launcherKind func(decode func(into any) error) (launch.Launcher, error)

// launcherKinds are the kinds of launchers that a file may name; each kind's
// file adds its own.
var launcherKinds = map[string]launcherKind{}

// A launchersFile says which launchers there are beside command: by a name of
// the user's choice, an object of one key, the kind, with its configuration.
type launchersFile struct {
	APIVersion string                         `yaml:"apiVersion"`
	Launchers  map[string]map[string]ast.Node `yaml:"launchers"`
}

// addLaunchersFlag declares the file that says where trainings may run.
func (a *app) addLaunchersFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.launchersFile, "launchers", "", "file that says where trainings may run beside this machine (docs/training.md); or STILLHOUSE_LAUNCHERS")
}

// loadLaunchers reads the file.
func (a *app) loadLaunchers() error {
	if a.launchersFile == "" {
		a.launchersFile = a.env("STILLHOUSE_LAUNCHERS")
	}
	if a.launchersFile == "" {
		return nil
	}
	f, err := os.Open(a.launchersFile)
	if err != nil {
		return usage("--launchers: %v", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxLaunchers+1))
	if err != nil {
		return usage("--launchers: %v", err)
	}
	if a.launchers, err = parseLaunchers(text); err != nil {
		return usage("--launchers %s: %v", a.launchersFile, err)
	}
	return nil
}

func parseLaunchers(text []byte) (_ map[string]launch.Launcher, err error) {
	if len(text) > maxLaunchers {
		return nil, fmt.Errorf("it is larger than %d bytes", maxLaunchers)
	}
	// The library has had panics on broken input.
	defer func() {
		if recover() != nil {
			err = errors.New("it is not valid YAML; check the indentation and the quotes")
		}
	}()
	var file launchersFile
	if err := yaml.UnmarshalWithOptions(text, &file, yaml.Strict()); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, true))
	}
	if file.APIVersion != "stillhouse/v1" {
		return nil, fmt.Errorf("apiVersion is %q, want stillhouse/v1", file.APIVersion)
	}
	out := map[string]launch.Launcher{}
	for _, name := range slices.Sorted(maps.Keys(file.Launchers)) {
		l, err := parseLauncher(name, file.Launchers[name])
		if err != nil {
			return nil, fmt.Errorf("launchers.%s: %w", name, err)
		}
		out[name] = l
	}
	return out, nil
}

func parseLauncher(name string, of map[string]ast.Node) (launch.Launcher, error) {
	if !launcherName.MatchString(name) || name == launch.CommandLauncher {
		return nil, errors.New("want a name of a-z, 0-9, '.', '_' and '-', and not command, which is this machine")
	}
	if len(of) != 1 {
		return nil, fmt.Errorf("it has %d kinds, want one of: %s", len(of), strings.Join(slices.Sorted(maps.Keys(launcherKinds)), ", "))
	}
	for kind, node := range of {
		make, ok := launcherKinds[kind]
		if !ok {
			return nil, fmt.Errorf("no kind %q; there are: %s", kind, strings.Join(slices.Sorted(maps.Keys(launcherKinds)), ", "))
		}
		return make(func(into any) error {
			if node == nil {
				return nil
			}
			if err := yaml.NodeToValue(node, into, yaml.Strict()); err != nil {
				return errors.New(yaml.FormatError(err, false, true))
			}
			return nil
		})
	}
	return nil, nil
}

// knowsLauncher refuses a launcher that nobody here could start by. On a
// Temporal server of the user's the workers know their own.
func (s *session) knowsLauncher(name string) error {
	if s.remote || !s.owns() {
		return nil
	}
	all := s.trainers().Launchers
	if all[name] == nil {
		if s.app.policy.Launcher(name) != nil && s.app.policy != nil {
			return s.app.policy.Launcher(name)
		}
		return usage("no launcher %s; there are: %s. Others are named by the file of --launchers", name, strings.Join(slices.Sorted(maps.Keys(all)), ", "))
	}
	return nil
}
