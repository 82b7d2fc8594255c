package launch

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
)

// Variables that a remote launch is given beside those of its [Spec].
const (
	EnvBundleURL    = "STILLHOUSE_BUNDLE_URL"    // GET: the bundle's archive; secret
	EnvBundleSHA256 = "STILLHOUSE_BUNDLE_SHA256" // its digest
	EnvClaimURL     = "STILLHOUSE_CLAIM_URL"     // PUT, once: the claim; secret
	EnvResultURL    = "STILLHOUSE_RESULT_URL"    // PUT: result.json; secret
)

// A Remote is how a launch on another machine gets its bundle and gives its
// result back: by presigned URLs of one object each, for a while. The other
// machine never holds credentials of the store.
//
// The URLs are secrets while they live. A launcher hands them over as
// environment variables by the means that its platform has for secrets, never in
// a command line, a label, a name or an error. Printing a Remote shows none.
type Remote struct {
	BundleURL    string
	BundleSHA256 string // hex
	ClaimURL     string
	ResultURL    string
	Expires      time.Time // when the URLs end; a launch that starts later fails before it trains
}

// Secrets are the variables of a Remote that are secret.
func (r *Remote) Secrets() map[string]string {
	return map[string]string{EnvBundleURL: r.BundleURL, EnvClaimURL: r.ClaimURL, EnvResultURL: r.ResultURL}
}

// Public are the variables of a Remote that anybody may see.
func (r *Remote) Public() map[string]string {
	return map[string]string{EnvBundleSHA256: r.BundleSHA256}
}

// String tells nothing secret.
func (r Remote) String() string {
	return fmt.Sprintf("bundle %.12s until %s", r.BundleSHA256, r.Expires.UTC().Format(time.RFC3339))
}

// GoString tells nothing secret either.
func (r Remote) GoString() string { return r.String() }

// MarshalJSON refuses: a Remote belongs into no history and no file.
func (r Remote) MarshalJSON() ([]byte, error) {
	return nil, fmt.Errorf("a remote launch's URLs are secrets and are not written down")
}

// Bootstrap is the command of a remote launch: it fetches the bundle's archive,
// holds it to its digest, unpacks it into a folder of its own, and runs its
// run.sh, which claims the launch before it trains. It is the same for every
// launch and holds no secret. It needs a POSIX shell, tar, gzip, sha256sum or
// shasum, and curl or Python 3.
//
// The folder is made below STILLHOUSE_WORK, or below the current one.
func Bootstrap() []string {
	return []string{"/bin/sh", "-c", training.BootstrapScript}
}

// Variables are all variables of a remote launch, for platforms that have but
// one place for them: secrets, what anybody may see, what the spec sets, and
// what it passes on from this process's environment. Names come sorted.
func (s *Spec) Variables() (names []string, values map[string]string) {
	values = map[string]string{}
	for _, name := range s.Env {
		if v, ok := os.LookupEnv(name); ok {
			values[name] = v
		}
	}
	maps.Copy(values, s.Set)
	if s.Remote != nil {
		maps.Copy(values, s.Remote.Public())
		maps.Copy(values, s.Remote.Secrets())
	}
	return slices.Sorted(maps.Keys(values)), values
}

// SecretVariables are the variables of a launch whose values no one else may
// see: the URLs, and what is passed on from this process's environment.
func (s *Spec) SecretVariables() map[string]string {
	_, all := s.Variables()
	for name := range s.Set {
		delete(all, name)
	}
	if s.Remote != nil {
		for name := range s.Remote.Public() {
			delete(all, name)
		}
		maps.Copy(all, s.Remote.Secrets())
	}
	return all
}

// PublicVariables are the variables of a launch that are no secrets.
func (s *Spec) PublicVariables() map[string]string {
	out := maps.Clone(s.Set)
	if out == nil {
		out = map[string]string{}
	}
	if s.Remote != nil {
		maps.Copy(out, s.Remote.Public())
	}
	return out
}

// Redact takes the values of secrets out of a text that another system wrote,
// such as an error that quotes a request.
func (s *Spec) Redact(text string) string {
	for name, value := range s.SecretVariables() {
		if len(value) >= 6 {
			text = strings.ReplaceAll(text, value, "<"+name+">")
		}
	}
	return text
}

// A RemoteLauncher runs launches on machines that share no folder with this
// one. Its Submit needs Spec.Remote, and ignores Spec.Dir. Its Status tells what
// the platform says: [Succeeded] there means that the platform saw it end well.
// Whether the launch did is decided by [Judge], from the result in the store.
type RemoteLauncher interface {
	Launcher
	// Remote is a mark.
	Remote()
}

// Judge weighs what a platform says of an ended launch against the result that
// the launch left: only a valid result of the rows that were handed over is a
// success. Result is nil where there is none, and why says why.
func Judge(s State, result *training.Result, why error, rows int64) State {
	if !s.Phase.Final() {
		return s
	}
	s.Result = result
	// A second start of a launch ends at once, and says nothing of the first.
	second := s.Phase == Failed && s.ExitCode != nil && *s.ExitCode == training.ExitClaimed
	if result == nil {
		none := "it left no valid result"
		if why != nil {
			none = why.Error()
		}
		switch {
		case second:
			s.Phase, s.Reason = Unknown, "an earlier start has claimed this launch, and "+none
		case s.Phase == Succeeded:
			s.Phase, s.Reason = Unknown, "the platform says that it ended well, but "+none
		case s.Reason == "" && s.Phase == Failed:
			s.Reason = "the platform says that it failed"
		}
		return s
	}
	if s.ExitCode == nil || second {
		code := result.ExitCode
		s.ExitCode = &code
	}
	switch {
	case s.Phase == Cancelled:
	case result.State != training.ResultSucceeded:
		if s.Phase = Failed; result.State == training.ResultCancelled {
			s.Phase = Cancelled
		}
		s.Reason = joinReasons(s.Reason, result.Error)
	case s.Phase == Failed && !second:
		s.Phase, s.Reason = Unknown, joinReasons(s.Reason, "the platform says that it failed, and its result that it succeeded")
	default: // the result is proof where the platform has forgotten the launch
		s.Phase, s.Reason = judgeRows(result, rows)
	}
	return s
}

// judgeRows is the phase of a launch that says it succeeded.
func judgeRows(result *training.Result, rows int64) (Phase, string) {
	switch {
	case rows > 0 && result.RowsSeen == nil:
		return Unknown, fmt.Sprintf("it says that it succeeded, but not on how many of the %d rows; install pyarrow where it runs, so that run.sh can count", rows)
	case rows > 0 && *result.RowsSeen != rows:
		return Unknown, fmt.Sprintf("it says that it succeeded, but on %d rows, not on the %d that were handed over", *result.RowsSeen, rows)
	}
	return Succeeded, ""
}

func joinReasons(a, b string) string {
	switch {
	case a == "":
		return b
	case b == "" || strings.Contains(a, b):
		return a
	}
	return a + ": " + b
}
