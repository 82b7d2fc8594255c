// Package launch starts a training launch once, follows it and ends it, on
// whatever runs it. [Command] runs it as a process of this machine; other
// launchers hand it to a cluster.
//
// Every launcher keeps three promises. Submit is idempotent: for one launch id
// the trainer starts at most once, whatever dies between a submission and its
// answer. Status is the truth that the launcher has, never a guess: where it
// cannot know how a launch ended it says [Unknown]. And nothing that a launch
// says of itself is believed further than [training.ParseResult] allows.
package launch

import (
	"context"
	"errors"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
)

// ErrUnknownRef: the launcher has no launch of that reference.
var ErrUnknownRef = errors.New("no such launch")

// A Phase of a launch.
type Phase string

// Phases. All but Running are final.
const (
	Running   Phase = "running"
	Succeeded Phase = "succeeded" // ended well and left a valid result for the rows that were handed over
	Failed    Phase = "failed"
	Cancelled Phase = "cancelled"
	Unknown   Phase = "unknown" // over, but nobody can tell how; never started again by itself
)

// Final tells whether the phase will not change any more.
func (p Phase) Final() bool { return p != Running }

// A Ref names a submitted launch. It is plain data, safe to keep in a
// workflow's history.
type Ref struct {
	Launcher string `json:"launcher"`        // such as command
	LaunchID string `json:"launch_id"`       // 64 hex digits
	Where    string `json:"where,omitempty"` // for people: a folder, a job's name, a URL
}

// A Spec says what is run. Nothing in it is read by a shell.
type Spec struct {
	// Dir is the bundle's folder, absolute; the launch runs in it and leaves
	// result.json there.
	Dir string `json:"dir"`
	// Argv is the program and its arguments. Default: /bin/sh run.sh.
	Argv []string `json:"argv,omitempty"`
	// Env names the variables that are passed on from the launcher's own
	// environment, beside [BaseEnv]. Everything else is withheld.
	Env []string `json:"env,omitempty"`
	// Set gives variables of its own to the launch. They are written to disk:
	// no secrets.
	Set map[string]string `json:"set,omitempty"`
	// Rows is the number of rows to be trained on. A launch that reports
	// another number has not succeeded. 0: not checked.
	Rows int64 `json:"rows,omitempty"`
	// MaxLog bounds what is kept of the output, in bytes; the newest is kept.
	// Default: [DefaultMaxLog].
	MaxLog int64 `json:"max_log,omitempty"`
	// Deadline is when the launch shall be over, for platforms that can enforce
	// it themselves; zero: never. Whoever follows it enforces it anyway.
	Deadline time.Time `json:"deadline,omitzero"`
	// Remote is how a launch on another machine gets its bundle; nil for one on
	// this machine. It is never written down.
	Remote *Remote `json:"-"`
}

// A State is what a launcher knows of a launch.
type State struct {
	Phase    Phase            `json:"phase"`
	ExitCode *int             `json:"exit_code,omitempty"`
	Reason   string           `json:"reason,omitempty"` // why it is not Succeeded, for people
	Started  time.Time        `json:"started,omitzero"`
	Ended    time.Time        `json:"ended,omitzero"`
	Result   *training.Result `json:"result,omitempty"` // what the launch said of itself
}

// A Launcher runs launches.
type Launcher interface {
	// Submit starts the launch unless it was started before, and returns its
	// reference either way. It fails with [training.ErrClaimed] where another
	// launcher has started it. After any other error nothing is known: submit
	// again.
	Submit(ctx context.Context, launchID string, spec Spec) (Ref, error)
	// Status fails with ErrUnknownRef where nothing was submitted.
	Status(ctx context.Context, ref Ref) (State, error)
	// Cancel asks the launch to end and returns when it was told. A launch
	// that is over stays as it is; one that was not started will not start.
	Cancel(ctx context.Context, ref Ref) error
	// Logs returns the last bytes of the output, at most tail, cut at the
	// start of a line where there is one.
	Logs(ctx context.Context, ref Ref, tail int) (string, error)
}
