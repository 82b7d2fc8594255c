package cli

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/internal/version"
)

func init() { register(versionCommand) }

func versionCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Say which build of the program this is",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.json {
				return a.printJSON(struct {
					version.Info
					Embedded bool `json:"embedded"` // carries the embedded services
				}{version.Get(), a.carriesServices()})
			}
			fmt.Fprintln(a.out, version.Get())
			if a.carriesServices() {
				fmt.Fprintln(a.out, "embedded services: a Temporal server and an S3 store")
			} else {
				fmt.Fprintln(a.out, "embedded services: none; builds need --temporal and --store")
			}
			return nil
		},
	}
}

// carriesServices tells whether this binary has the embedded services. The
// build tag that leaves them out leaves a stub in, which the toolchain's record
// of the build tells apart.
func (a *app) carriesServices() bool {
	return a.embedded != nil && !builtWithTag("noembed")
}

func builtWithTag(tag string) bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-tags" && slices.Contains(strings.Split(s.Value, ","), tag) {
			return true
		}
	}
	return false
}
