package version

import (
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestFrom(t *testing.T) {
	recorded := &debug.BuildInfo{
		Main: debug.Module{Version: "v0.3.1-0.20261101120000-0123456789ab"},
		Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef0123456789abcdef01234567"},
			{Key: "vcs.time", Value: "2026-11-01T12:00:00Z"},
			{Key: "vcs.modified", Value: "true"},
		},
	}
	platform := runtime.GOOS + "/" + runtime.GOARCH
	for _, tc := range []struct {
		name                  string
		version, commit, date string
		build                 *debug.BuildInfo
		want                  Info
	}{
		{
			name: "nothing known",
			want: Info{Version: Unknown, Commit: Unknown, Date: Unknown, Go: runtime.Version(), Platform: platform},
		},
		{
			name:  "toolchain only",
			build: recorded,
			want: Info{
				Version: recorded.Main.Version, Commit: recorded.Settings[0].Value, Date: "2026-11-01T12:00:00Z",
				Modified: true, Go: runtime.Version(), Platform: platform,
			},
		},
		{
			name:    "the stamp wins",
			version: "v1.2.3", commit: "feed", date: "2026-12-01T00:00:00Z", build: recorded,
			want: Info{
				Version: "v1.2.3", Commit: "feed", Date: "2026-12-01T00:00:00Z",
				Modified: true, Go: runtime.Version(), Platform: platform,
			},
		},
		{
			name:  "devel is no version",
			build: &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}},
			want:  Info{Version: Unknown, Commit: Unknown, Date: Unknown, Go: runtime.Version(), Platform: platform},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, from(tc.version, tc.commit, tc.date, tc.build)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestStringShortensTheCommit(t *testing.T) {
	got := Info{
		Version: "v1.2.3", Commit: "0123456789abcdef0123456789abcdef01234567", Date: "2026-12-01T00:00:00Z",
		Modified: true, Go: "go1.26.8", Platform: "linux/amd64",
	}.String()
	want := "stillhouse v1.2.3 (0123456789ab+changes, 2026-12-01T00:00:00Z, go1.26.8, linux/amd64)"
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestGetHasNoEmptyField(t *testing.T) {
	info := Get()
	for _, field := range []string{info.Version, info.Commit, info.Date, info.Go, info.Platform} {
		if strings.TrimSpace(field) == "" {
			t.Errorf("empty field in %+v", info)
		}
	}
}
