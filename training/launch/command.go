package launch

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
)

// CommandLauncher is the name of [Command] in references.
const CommandLauncher = "command"

// Defaults of a Spec and a Command.
const (
	DefaultMaxLog = 16 << 20
	DefaultGrace  = 30 * time.Second
)

// BaseEnv names the variables that every launch gets from the launcher's
// environment: without them few programs run, and none is a secret.
var BaseEnv = []string{"PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "TZ"}

// lockPoll is how often a submission looks again at a lock that it waits for.
const lockPoll = 10 * time.Millisecond

// A Command runs launches as processes of this machine, each watched by a
// supervisor: a second process of our own program, in a session of its own, so
// that neither a signal to nor the death of the process that submitted it
// reaches the training.
//
// What makes it start once: every launch has a folder with a lock file. A
// submission takes the lock and hands it to the supervisor, which keeps it,
// and hands it on to the trainer; the supervisor's first act is to leave the
// mark that the launch was started. Whoever finds the lock taken or the mark
// there does not start. If everything dies before the mark, nothing was
// started, and the next submission does; after the mark nobody starts again.
type Command struct {
	// Root is the folder that holds a folder for each launch, absolute. Every
	// process that submits the same launches uses the same one.
	Root string
	// Claim makes this launcher the only one that may start a launch, such as
	// by [training.Claim]; owner is a token that is kept with the launch. Nil:
	// whoever shares Root is all there is.
	Claim func(ctx context.Context, launchID, owner string) error
	// Supervisor is the command line that ends in [Supervise]; the launch's
	// folder is appended. Default: this program with [SuperviseArg].
	Supervisor []string
	// Grace is how long a cancelled launch may take to end before it is
	// killed. Default: [DefaultGrace].
	Grace time.Duration
}

var _ Launcher = (*Command)(nil)

// A job is what the supervisor is told, job.json. It holds no secret: those
// are in the supervisor's environment.
type job struct {
	LaunchID string            `json:"launch_id"`
	Dir      string            `json:"dir"`
	Argv     []string          `json:"argv"`
	Set      map[string]string `json:"set"`
	Rows     int64             `json:"rows"`
	MaxLog   int64             `json:"max_log"`
	Grace    time.Duration     `json:"grace"`
}

// Submit implements [Launcher].
func (c *Command) Submit(ctx context.Context, launchID string, spec Spec) (Ref, error) {
	if err := check(launchID, &spec); err != nil {
		return Ref{}, fmt.Errorf("submit launch: %w", err)
	}
	f, err := c.folder(launchID)
	if err != nil {
		return Ref{}, fmt.Errorf("submit launch: %w", err)
	}
	ref := Ref{Launcher: CommandLauncher, LaunchID: launchID, Where: string(f)}
	if err := c.startOnce(ctx, f, launchID, spec); err != nil {
		return Ref{}, fmt.Errorf("submit launch %s: %w", launchID, err)
	}
	return ref, nil
}

func (c *Command) startOnce(ctx context.Context, f folder, launchID string, spec Spec) error {
	if err := os.MkdirAll(string(f), 0o700); err != nil {
		return err
	}
	lock, err := f.lockUnlessStarted(ctx)
	if err != nil || lock == nil {
		return err
	}
	// The supervisor has a copy of the lock when this one is closed.
	defer lock.Close()
	if f.has(cancelFile) {
		return nil
	}
	if c.Claim != nil {
		owner, err := f.owner()
		if err != nil {
			return err
		}
		if err := c.Claim(ctx, launchID, owner); err != nil {
			return err
		}
	}
	grace := c.Grace
	if grace == 0 {
		grace = DefaultGrace
	}
	text, err := json.Marshal(job{
		LaunchID: launchID, Dir: spec.Dir, Argv: spec.Argv, Set: spec.Set,
		Rows: spec.Rows, MaxLog: spec.MaxLog, Grace: grace,
	})
	if err != nil {
		return err
	}
	if err := f.write(jobFile, text); err != nil {
		return err
	}
	return c.supervise(ctx, f, lock, spec)
}

// supervise starts the supervisor and returns when it goes on by itself.
func (c *Command) supervise(ctx context.Context, f folder, lock *os.File, spec Spec) error {
	argv := c.Supervisor
	if len(argv) == 0 {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		argv = []string{self, SuperviseArg}
	}
	argv = append(argv[:len(argv):len(argv)], string(f))
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = string(f)
	cmd.Env = environment(spec.Env)
	cmd.ExtraFiles = []*os.File{lock}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("start supervisor %s: %w: %s", argv[0], err, training.Printable(string(out)))
	}
	return nil
}

// environment gives the variables of BaseEnv and of names, and no other.
func environment(names []string) []string {
	var env []string
	seen := map[string]bool{}
	for _, name := range append(BaseEnv[:len(BaseEnv):len(BaseEnv)], names...) {
		if value, ok := os.LookupEnv(name); ok && !seen[name] {
			env = append(env, name+"="+value)
		}
		seen[name] = true
	}
	return env
}

// Status implements [Launcher].
func (c *Command) Status(_ context.Context, ref Ref) (State, error) {
	f, err := c.existing(ref)
	if err != nil {
		return State{}, err
	}
	state, err := f.state()
	if err != nil {
		return State{}, fmt.Errorf("status of launch %s: %w", ref.LaunchID, err)
	}
	return state, nil
}

// Cancel implements [Launcher].
func (c *Command) Cancel(_ context.Context, ref Ref) error {
	f, err := c.existing(ref)
	if err != nil {
		return err
	}
	if f.has(exitFile) {
		return nil
	}
	if err := f.cancel(); err != nil {
		return fmt.Errorf("cancel launch %s: %w", ref.LaunchID, err)
	}
	return nil
}

// Logs implements [Launcher].
func (c *Command) Logs(_ context.Context, ref Ref, tail int) (string, error) {
	f, err := c.existing(ref)
	if err != nil {
		return "", err
	}
	text, err := readTail(f.path(logFile), tail)
	if err != nil {
		return "", fmt.Errorf("logs of launch %s: %w", ref.LaunchID, err)
	}
	return text, nil
}

// folder is the folder of a launch. A launch id that passes is hex, so that
// no caller's text becomes a path.
func (c *Command) folder(launchID string) (folder, error) {
	if !training.ValidLaunchID(launchID) {
		return "", fmt.Errorf("%.80q is no launch id", launchID)
	}
	if !filepath.IsAbs(c.Root) {
		return "", fmt.Errorf("folder of launches %q is not absolute", c.Root)
	}
	return folder(filepath.Join(c.Root, launchID)), nil
}

func (c *Command) existing(ref Ref) (folder, error) {
	f, err := c.folder(ref.LaunchID)
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(string(f)); errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("launch %s: %w in %s", ref.LaunchID, ErrUnknownRef, c.Root)
	} else if err != nil {
		return "", err
	}
	return f, nil
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// check fills in defaults and says what is wrong with a submission.
func check(launchID string, spec *Spec) error {
	if !training.ValidLaunchID(launchID) {
		return fmt.Errorf("%.80q is no launch id", launchID)
	}
	if !filepath.IsAbs(spec.Dir) {
		return fmt.Errorf("dir %q is not absolute", spec.Dir)
	}
	if info, err := os.Stat(spec.Dir); err != nil {
		return fmt.Errorf("dir: %w", err)
	} else if !info.IsDir() {
		return fmt.Errorf("dir %s is no folder", spec.Dir)
	}
	if len(spec.Argv) == 0 {
		spec.Argv = []string{"/bin/sh", training.RunFile}
	}
	for _, name := range spec.Env {
		if !envName.MatchString(name) {
			return fmt.Errorf("env: %q is no variable's name", name)
		}
	}
	for name := range spec.Set {
		if !envName.MatchString(name) {
			return fmt.Errorf("set: %q is no variable's name", name)
		}
	}
	if spec.MaxLog < 0 || spec.Rows < 0 {
		return fmt.Errorf("max_log %d and rows %d can't be negative", spec.MaxLog, spec.Rows)
	}
	if spec.MaxLog == 0 {
		spec.MaxLog = DefaultMaxLog
	}
	return nil
}

// newOwner is a random token.
func newOwner() string { return rand.Text() }
