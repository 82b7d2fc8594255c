// Package version says which build of the program this is. `make build` and
// `make release` stamp the variables at link time; a binary built by `go build`
// or `go install` alone falls back to what the Go toolchain recorded.
//
//	go build -ldflags "-X github.com/stillhouse-data/stillhouse/internal/version.Version=v1.2.3" ./cmd/stillhouse
package version

import (
	"runtime"
	"runtime/debug"
)

// Stamped at link time; empty in a build that nobody stamped. Read them
// through [Get].
var (
	Version string // a tag such as v1.2.3, or git describe's words
	Commit  string // full hex of the commit
	Date    string // of the commit, RFC 3339 in UTC
)

// Unknown stands for a part that neither the linker nor the toolchain knows.
const Unknown = "unknown"

// Info is one build of the program. No field is empty.
type Info struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Date     string `json:"date"`
	Modified bool   `json:"modified"` // built from a tree with uncommitted changes
	Go       string `json:"go"`
	Platform string `json:"platform"` // such as linux/amd64
}

// Get returns the stamped values, and where one is missing what the toolchain
// recorded of the module and its version control.
func Get() Info {
	build, _ := debug.ReadBuildInfo()
	return from(Version, Commit, Date, build)
}

// String is one line for people: version, commit, toolchain and platform.
func (i Info) String() string {
	commit := i.Commit
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if i.Modified {
		commit += "+changes"
	}
	return "stillhouse " + i.Version + " (" + commit + ", " + i.Date + ", " + i.Go + ", " + i.Platform + ")"
}

func from(version, commit, date string, build *debug.BuildInfo) Info {
	info := Info{
		Version: version, Commit: commit, Date: date,
		Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH,
	}
	if build != nil {
		if info.Version == "" && build.Main.Version != "(devel)" {
			info.Version = build.Main.Version
		}
		for _, s := range build.Settings {
			switch s.Key {
			case "vcs.revision":
				info.Commit = first(info.Commit, s.Value)
			case "vcs.time":
				info.Date = first(info.Date, s.Value)
			case "vcs.modified":
				info.Modified = s.Value == "true"
			}
		}
	}
	info.Version = first(info.Version, Unknown)
	info.Commit = first(info.Commit, Unknown)
	info.Date = first(info.Date, Unknown)
	return info
}

func first(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
