package slurm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

// DefaultCommandTimeout bounds one call of a program of Slurm's.
const DefaultCommandTimeout = time.Minute

// maxOutput bounds what is kept of what a program says.
const maxOutput = 8 << 20

// A CLIConfig says where Slurm's programs run and what jobs ask for.
type CLIConfig struct {
	// SSH is the command that runs another one on a login node, such as
	// [ssh, -oBatchMode=yes, login1]: it gets one more argument, which a POSIX
	// shell reads there. Empty: the programs are on this machine.
	SSH []string `yaml:"ssh"`
	// Pass names the variables that the programs see beside [launch.BaseEnv],
	// SLURM_CONF and SSH_AUTH_SOCK. Without SSH, jobs see them too.
	Pass []string `yaml:"pass"`
	Job  `yaml:",inline"`
	// Options are those of sbatch, such as --partition=gpu and --gpus-per-node=8.
	Options []string `yaml:"options"`
	// Timeout bounds one call. Default: [DefaultCommandTimeout].
	Timeout time.Duration `yaml:"timeout"`
}

// oursAsOptions belong to the launch.
var oursAsOptions = regexp.MustCompile(`^(--(job-name|comment|dependency|requeue|no-requeue|output|error|chdir|export|export-file|parsable|time|array|wrap|wait|test-only|kill-on-invalid-dep)(=.*)?|-[JdoeDtaWQ].*)$`)

// CLI runs launches by Slurm's programs.
type CLI struct {
	config CLIConfig
	now    func() time.Time
	run    runner
}

var _ launch.RemoteLauncher = (*CLI)(nil)

// A runner runs a program with a text to read, and returns what it said. Err is
// not nil where it did not run or ended with an exit code other than 0.
type runner func(ctx context.Context, argv []string, stdin string) (stdout, stderr string, err error)

// NewCLI checks a configuration; nothing is run yet.
func NewCLI(c CLIConfig) (*CLI, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("slurm: %w", err)
	}
	for _, o := range c.Options {
		switch {
		case !strings.HasPrefix(o, "-") || strings.ContainsAny(o, "\n\x00"):
			return nil, fmt.Errorf("slurm: options: %q is none; write --name=value", o)
		case oursAsOptions.MatchString(o):
			return nil, fmt.Errorf("slurm: options: %s is set for each launch; leave it out", o)
		}
	}
	if c.Timeout < 0 {
		return nil, fmt.Errorf("slurm: timeout: %s is negative", c.Timeout)
	}
	if c.Timeout == 0 {
		c.Timeout = DefaultCommandTimeout
	}
	l := &CLI{config: c, now: time.Now}
	l.run = l.exec
	return l, nil
}

// Remote implements [launch.RemoteLauncher].
func (*CLI) Remote() {}

// exec runs a program here, or over ssh.
func (l *CLI) exec(ctx context.Context, argv []string, stdin string) (string, string, error) {
	ctx, cancel := context.WithTimeout(ctx, l.config.Timeout)
	defer cancel()
	if len(l.config.SSH) > 0 {
		words := make([]string, len(argv))
		for i, word := range argv {
			words[i] = training.Quote(word)
		}
		argv = append(slices.Clone(l.config.SSH), strings.Join(words, " "))
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	for _, name := range slices.Concat(launch.BaseEnv, []string{"SLURM_CONF", "SSH_AUTH_SOCK"}, l.config.Pass) {
		// sbatch hands on what it sees, and a node has no folder of this machine's.
		if value, ok := os.LookupEnv(name); ok && name != "TMPDIR" {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bounded
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err == nil && stdout.over {
		err = fmt.Errorf("it says more than %d bytes", maxOutput)
	}
	return stdout.String(), stderr.String(), err
}

// A bounded buffer keeps the beginning of what it is given.
type bounded struct {
	bytes.Buffer
	over bool
}

// Write never fails.
func (b *bounded) Write(p []byte) (int, error) {
	room := max(0, maxOutput-b.Len())
	b.over = b.over || len(p) > room
	b.Buffer.Write(p[:min(len(p), room)])
	return len(p), nil
}

// failure is why a program of Slurm's did not do what it was told.
func failure(program, stderr string, err error) error {
	if text := rest.Excerpt(stderr); text != "" {
		return fmt.Errorf("%s: %w: %s", program, err, text)
	}
	return fmt.Errorf("%s: %w", program, err)
}

// Submit implements [launch.Launcher].
func (l *CLI) Submit(ctx context.Context, launchID string, spec launch.Spec) (launch.Ref, error) {
	if err := checkSubmission(launchID, &spec); err != nil {
		return launch.Ref{}, fmt.Errorf("submit launch to slurm: %w", err)
	}
	id, err := l.submit(ctx, launchID, &spec)
	if err != nil {
		return launch.Ref{}, fmt.Errorf("submit launch %s to slurm: %w", launchID, err)
	}
	return launch.Ref{Launcher: Name, LaunchID: launchID, Where: "job " + id}, nil
}

func (l *CLI) submit(ctx context.Context, launchID string, spec *launch.Spec) (string, error) {
	found, err := l.find(ctx, launchID)
	if err != nil {
		return "", err
	}
	if len(found) > 0 {
		return found[0].id, nil
	}
	// The script comes by a pipe, and with it the URLs: neither another user's
	// list of processes nor a file on the way shows them. Slurm keeps it for the
	// owner of the job alone.
	script, err := l.config.script(l.config.variables(spec))
	if err != nil {
		return "", err
	}
	log := l.config.logFile(launchID)
	argv := []string{
		"sbatch", "--parsable", "--job-name=" + jobName(launchID), "--comment=" + launchID,
		"--dependency=singleton", "--no-requeue", "--chdir=" + l.config.Work, "--output=" + log, "--error=" + log, "--export=ALL",
	}
	if limit := l.config.minutes(spec, l.now()); limit > 0 {
		argv = append(argv, "--time="+strconv.FormatInt(limit, 10))
	}
	stdout, stderr, refused := l.run(ctx, append(argv, l.config.Options...), script)
	if refused == nil {
		id, _, _ := strings.Cut(strings.TrimSpace(stdout), ";") // a cluster's name may follow
		if _, err := strconv.ParseUint(id, 10, 64); err == nil {
			return id, nil
		}
		refused = fmt.Errorf("it names no job: %q", rest.Excerpt(spec.Redact(stdout)))
	}
	refused = failure("sbatch", spec.Redact(stderr), refused)
	// It may be there all the same: the line broke, or the answer came too late.
	found, err = l.find(ctx, launchID)
	if err != nil {
		return "", errors.Join(refused, err)
	}
	if len(found) == 0 {
		return "", refused
	}
	return found[0].id, nil
}

// find lists the launch's jobs that the controller remembers, the newest first.
func (l *CLI) find(ctx context.Context, launchID string) ([]job, error) {
	stdout, stderr, err := l.run(ctx, []string{
		"squeue", "--noheader", "--states=all", "--me", "--name=" + jobName(launchID),
		"--Format=JobID:|,State:|,exit_code:|,StartTime:|,EndTime:|,Reason:|",
	}, "")
	if err != nil {
		return nil, failure("squeue", stderr, err)
	}
	return parseTable(stdout, false)
}

// accounted lists the jobs that slurmdbd remembers. Where there is none, there
// are none.
func (l *CLI) accounted(ctx context.Context, launchID string) ([]job, error) {
	stdout, stderr, err := l.run(ctx, []string{
		"sacct", "--noheader", "--parsable2", "--allocations", "--name=" + jobName(launchID),
		"--starttime=" + l.now().AddDate(0, 0, -90).Format("2006-01-02"),
		"--format=JobIDRaw,State,ExitCode,Start,End,Reason",
	}, "")
	if err != nil && strings.Contains(stderr, "accounting storage is disabled") {
		return nil, nil
	}
	if err != nil {
		return nil, failure("sacct", stderr, err)
	}
	jobs, err := parseTable(stdout, true)
	slices.Reverse(jobs) // squeue gives the newest first
	return jobs, err
}

// parseTable reads lines of id, state, exit code, start, end and reason.
func parseTable(text string, archived bool) ([]job, error) {
	var jobs []job
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		f := strings.Split(line, "|")
		if len(f) < 6 {
			return nil, fmt.Errorf("a line of jobs has %d fields, not 6: %.200q", len(f), line)
		}
		id := strings.TrimSpace(f[0])
		if _, err := strconv.ParseUint(id, 10, 64); err != nil {
			return nil, fmt.Errorf("a line of jobs begins with %.40q, not with a job's number", id)
		}
		jobs = append(jobs, job{
			id: id, states: []string{strings.TrimSpace(f[1])}, exit: exitCode(strings.TrimSpace(f[2])),
			start: localTime(f[3]), end: localTime(f[4]), reason: strings.TrimSpace(f[5]), archived: archived,
		})
	}
	return jobs, nil
}

// exitCode reads CODE:SIGNAL, or a status of wait(2).
func exitCode(text string) *int {
	if code, signal, ok := strings.Cut(text, ":"); ok {
		n, err := strconv.Atoi(code)
		if err != nil || n < 0 || n > 255 || signal != "0" {
			return nil
		}
		return &n
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return waitStatus(n)
}

// localTime reads a time of the cluster's zone, which is taken for ours.
func localTime(text string) time.Time {
	t, err := time.ParseInLocation("2006-01-02T15:04:05", strings.TrimSpace(text), time.Local)
	if err != nil {
		return time.Time{} // Unknown, N/A, NONE
	}
	return t.UTC()
}

// Status implements [launch.Launcher].
func (l *CLI) Status(ctx context.Context, ref launch.Ref) (launch.State, error) {
	if err := checkID(ref.LaunchID); err != nil {
		return launch.State{}, fmt.Errorf("status of launch: %w", err)
	}
	found, err := l.find(ctx, ref.LaunchID)
	if err == nil && len(found) == 0 {
		found, err = l.accounted(ctx, ref.LaunchID)
	}
	if err != nil {
		return launch.State{}, fmt.Errorf("status of launch %s: %w", ref.LaunchID, err)
	}
	if s, ok := judge(found); ok {
		return s, nil
	}
	return forgotten(ref.LaunchID), nil
}

// Cancel implements [launch.Launcher]. Slurm sends SIGTERM, and SIGKILL after
// its KillWait.
func (l *CLI) Cancel(ctx context.Context, ref launch.Ref) error {
	if err := checkID(ref.LaunchID); err != nil {
		return fmt.Errorf("cancel launch: %w", err)
	}
	found, err := l.find(ctx, ref.LaunchID)
	if err != nil {
		return fmt.Errorf("cancel launch %s: %w", ref.LaunchID, err)
	}
	argv := []string{"scancel"}
	for _, j := range found {
		if !j.state().Phase.Final() {
			argv = append(argv, j.id)
		}
	}
	if len(argv) == 1 {
		return nil
	}
	if _, stderr, err := l.run(ctx, argv, ""); err != nil {
		return fmt.Errorf("cancel launch %s: %w", ref.LaunchID, failure("scancel", stderr, err))
	}
	return nil
}

// Logs implements [launch.Launcher].
func (l *CLI) Logs(ctx context.Context, ref launch.Ref, tail int) (string, error) {
	if err := checkID(ref.LaunchID); err != nil {
		return "", fmt.Errorf("logs of launch: %w", err)
	}
	if len(l.config.SSH) == 0 {
		text, err := localLog(&l.config.Job, ref.LaunchID, tail)
		if err != nil {
			return "", fmt.Errorf("logs of launch %s: %w", ref.LaunchID, err)
		}
		return text, nil
	}
	if tail <= 0 {
		return "", nil
	}
	tail = min(tail, maxOutput-1)
	before, after, _ := strings.Cut(l.config.logFile(ref.LaunchID), "%j")
	script := fmt.Sprintf("f=$(ls -t %s*%s | head -n 1) && tail -c %d \"$f\"", training.Quote(before), training.Quote(after), tail+1)
	stdout, stderr, err := l.run(ctx, []string{"sh", "-c", script}, "")
	if err != nil {
		return "", fmt.Errorf("logs of launch %s: %w", ref.LaunchID, failure("tail", stderr, err))
	}
	return rest.LastLines([]byte(stdout), tail), nil
}
