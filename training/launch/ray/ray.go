// Package ray runs launches as jobs of a Ray cluster, by the REST API of its
// dashboard (Ray 2.10 and later, also behind a proxy).
//
// A launch's id is its submission id, which Ray takes only once: a submission
// looks first, and looks again after any answer that is not a yes, for Ray
// refuses a repeated id with a stack trace (under status 500 of release 2.60, 400
// of earlier ones), and a lost answer says nothing. The table of jobs dies with the cluster unless its GCS is kept
// in Redis; a job that is no longer there has ended nobody knows how, and the
// claim in the store keeps a second submission from training a second time.
//
// Whoever may use a Ray dashboard may run anything on its cluster and read what
// its jobs were given. The URLs of a launch are no safer than that, which is
// why they are good for one object each, and for a while.
package ray

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

// Name of the launcher in references.
const Name = "ray"

// A Config says which cluster runs launches and what each of them gets.
type Config struct {
	rest.Config `yaml:",inline"` // of the dashboard, such as http://127.0.0.1:8265
	// CPUs, GPUs, Memory (bytes) and Resources are kept for the process that
	// runs the trainer. A trainer that asks Ray for workers of its own asks for
	// their GPUs itself: 0 then.
	CPUs      float64            `yaml:"cpus"`
	GPUs      float64            `yaml:"gpus"`
	Memory    int64              `yaml:"memory"`
	Resources map[string]float64 `yaml:"resources"`
	// RuntimeEnv is Ray's own, such as pip or image_uri; env_vars may be in it
	// and are no place for secrets. It must not name a working_dir: the bundle
	// makes its own.
	RuntimeEnv map[string]any `yaml:"runtime_env"`
	// Work is the folder in which each launch makes one of its own. Default:
	// the current folder of Ray's workers, which goes with the cluster.
	Work string `yaml:"work"`
}

// A Launcher runs launches as Ray jobs.
type Launcher struct {
	api    *rest.Client
	config Config
}

var _ launch.RemoteLauncher = (*Launcher)(nil)

// New checks a configuration; the cluster is not asked yet.
func New(c Config) (*Launcher, error) {
	if c.CPUs < 0 || c.GPUs < 0 || c.Memory < 0 {
		return nil, fmt.Errorf("ray: cpus %g, gpus %g and memory %d can't be negative", c.CPUs, c.GPUs, c.Memory)
	}
	if _, ok := c.RuntimeEnv["working_dir"]; ok {
		return nil, errors.New("ray: runtime_env.working_dir: the bundle makes its own folder; leave it out")
	}
	if vars, ok := c.RuntimeEnv["env_vars"]; ok {
		if _, ok := vars.(map[string]any); !ok {
			return nil, errors.New("ray: runtime_env.env_vars: want names with values")
		}
	}
	api, err := rest.New(c.Config)
	if err != nil {
		return nil, fmt.Errorf("ray: %w", err)
	}
	return &Launcher{api: api, config: c}, nil
}

// Remote implements [launch.RemoteLauncher].
func (*Launcher) Remote() {}

// A submission is what POST /api/jobs/ takes.
type submission struct {
	Entrypoint   string             `json:"entrypoint"`
	SubmissionID string             `json:"submission_id"`
	RuntimeEnv   map[string]any     `json:"runtime_env"`
	Metadata     map[string]string  `json:"metadata"`
	CPUs         float64            `json:"entrypoint_num_cpus,omitempty"`
	GPUs         float64            `json:"entrypoint_num_gpus,omitempty"`
	Memory       int64              `json:"entrypoint_memory,omitempty"`
	Resources    map[string]float64 `json:"entrypoint_resources,omitempty"`
}

// A details is what Ray knows of a job. Its runtime_env holds our secrets and
// is not read.
type details struct {
	Type         string `json:"type"`
	SubmissionID string `json:"submission_id"`
	Status       string `json:"status"`
	Message      string `json:"message"`
	ErrorType    string `json:"error_type"`
	StartTime    int64  `json:"start_time"` // Unix milliseconds
	EndTime      int64  `json:"end_time"`
	ExitCode     *int   `json:"driver_exit_code"`
}

// errGone: the cluster answers, and has no such job.
var errGone = errors.New("the cluster has no such job")

// Submit implements [launch.Launcher].
func (l *Launcher) Submit(ctx context.Context, launchID string, spec launch.Spec) (launch.Ref, error) {
	if !training.ValidLaunchID(launchID) {
		return launch.Ref{}, fmt.Errorf("submit launch: %.80q is no launch id", launchID)
	}
	if spec.Remote == nil {
		return launch.Ref{}, fmt.Errorf("submit launch %s to ray: it has no URLs", launchID)
	}
	if err := l.submit(ctx, launchID, &spec); err != nil {
		return launch.Ref{}, fmt.Errorf("submit launch %s to ray: %w", launchID, err)
	}
	return launch.Ref{Launcher: Name, LaunchID: launchID, Where: l.api.URL() + jobPath(launchID)}, nil
}

func (l *Launcher) submit(ctx context.Context, launchID string, spec *launch.Spec) error {
	if _, err := l.job(ctx, launchID); !errors.Is(err, errGone) {
		return err // it is there, or nobody knows
	}
	_, refused := l.api.Redacting(spec.Redact).Do(ctx, http.MethodPost, "/api/jobs/", l.submission(launchID, spec))
	if refused == nil {
		return nil
	}
	// It may be there all the same: the answer was lost, or somebody was faster.
	switch _, err := l.job(ctx, launchID); {
	case err == nil:
		return nil
	case errors.Is(err, errGone):
		return refused
	default:
		return errors.Join(refused, err)
	}
}

func (l *Launcher) submission(launchID string, spec *launch.Spec) submission {
	vars := spec.PublicVariables()
	if l.config.Work != "" {
		vars["STILLHOUSE_WORK"] = l.config.Work
	}
	secrets, err := json.Marshal(spec.SecretVariables())
	if err != nil {
		secrets = nil // texts can't fail
	}
	env := maps.Clone(l.config.RuntimeEnv)
	if env == nil {
		env = map[string]any{}
	}
	all := map[string]any{}
	if own, ok := env["env_vars"].(map[string]any); ok {
		maps.Copy(all, own)
	}
	for name, value := range vars {
		all[name] = value
	}
	env["env_vars"] = all
	return submission{
		Entrypoint: shell(append([]string{"python3", "-c", takeSecrets}, launch.Bootstrap()...)), SubmissionID: launchID, RuntimeEnv: env,
		Metadata: map[string]string{"stillhouse_launch": launchID, secretsKey: string(secrets)},
		CPUs:     l.config.CPUs, GPUs: l.config.GPUs, Memory: l.config.Memory, Resources: l.config.Resources,
	}
}

// secretsKey is the metadata that holds the launch's secret variables. Ray writes
// env_vars of a runtime environment to a log that every user of the machine can
// read (runtime_env_agent.log, seen with 2.60); metadata it does not.
const secretsKey = "stillhouse_secrets"

// takeSecrets is Python that moves them into the environment, out of what Ray
// hands on to drivers, and becomes the command that follows.
const takeSecrets = `import json, os, sys
config = json.loads(os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"])
os.environ.update(json.loads(config["metadata"].pop("` + secretsKey + `")))
os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"] = json.dumps(config)
os.execv(sys.argv[1], sys.argv[1:])`

// shell writes a command for the shell that Ray gives it to.
func shell(argv []string) string {
	words := make([]string, len(argv))
	for i, word := range argv {
		words[i] = training.Quote(word)
	}
	return strings.Join(words, " ")
}

func jobPath(launchID string) string { return "/api/jobs/" + launchID }

// job asks for a job. errGone is Ray's own word: the 404 of a proxy, or of a
// dashboard that has no jobs, is another error.
func (l *Launcher) job(ctx context.Context, launchID string) (*details, error) {
	text, err := l.api.Do(ctx, http.MethodGet, jobPath(launchID), nil)
	if err != nil {
		return nil, gone(err)
	}
	var d details
	if err := json.Unmarshal(text, &d); err != nil {
		return nil, fmt.Errorf("%s does not answer like Ray: %w", l.api.URL(), err)
	}
	if d.SubmissionID != launchID || d.Type != "SUBMISSION" {
		return nil, fmt.Errorf("%s answers with another job: type %.20q, submission %.80q", l.api.URL(), d.Type, d.SubmissionID)
	}
	return &d, nil
}

func gone(err error) error {
	var status *rest.StatusError
	if errors.As(err, &status) && status.Status == http.StatusNotFound && strings.HasPrefix(status.Text, "Job ") && strings.HasSuffix(status.Text, " does not exist") {
		return errGone
	}
	return err
}

// Status implements [launch.Launcher].
func (l *Launcher) Status(ctx context.Context, ref launch.Ref) (launch.State, error) {
	if !training.ValidLaunchID(ref.LaunchID) {
		return launch.State{}, fmt.Errorf("status of launch: %.80q is no launch id", ref.LaunchID)
	}
	d, err := l.job(ctx, ref.LaunchID)
	if errors.Is(err, errGone) {
		return launch.State{Phase: launch.Unknown, Reason: "the Ray cluster at " + l.api.URL() + " no longer has the job: it was restarted, or the job was deleted"}, nil
	}
	if err != nil {
		return launch.State{}, fmt.Errorf("status of launch %s: %w", ref.LaunchID, err)
	}
	return d.state(), nil
}

// state maps what Ray says. What Ray may say one day that we do not know is no
// end.
func (d *details) state() launch.State {
	s := launch.State{Phase: launch.Running, Started: milliseconds(d.StartTime), ExitCode: d.ExitCode}
	switch d.Status {
	case "SUCCEEDED":
		s.Phase = launch.Succeeded
	case "FAILED":
		s.Phase, s.Reason = launch.Failed, d.why()
	case "STOPPED":
		s.Phase, s.Reason = launch.Cancelled, "stopped"
	case "PENDING":
		s.Reason = rest.Excerpt(d.Message)
	case "RUNNING":
	default:
		s.Reason = "Ray says " + strconv.Quote(rest.Excerpt(d.Status))
	}
	if !s.Phase.Final() {
		s.ExitCode = nil
		return s
	}
	s.Ended = milliseconds(d.EndTime)
	if s.ExitCode != nil && (*s.ExitCode < 0 || *s.ExitCode > 255) {
		s.ExitCode = nil // a signal's, with Ray's own sign; the reason tells
	}
	if s.ExitCode != nil && *s.ExitCode == training.ExitClaimed {
		s.Phase, s.Reason = launch.Unknown, "an earlier run has claimed the launch"
	}
	return s
}

func (d *details) why() string {
	parts := []string{"Ray: FAILED"}
	if d.ErrorType != "" {
		parts = append(parts, rest.Excerpt(d.ErrorType))
	}
	if d.Message != "" {
		parts = append(parts, rest.Excerpt(d.Message))
	}
	return strings.Join(parts, ": ")
}

func milliseconds(t int64) time.Time {
	if t <= 0 {
		return time.Time{}
	}
	return time.UnixMilli(t).UTC()
}

// Cancel implements [launch.Launcher]. Ray stops the job some time later:
// SIGTERM, and SIGKILL after RAY_JOB_STOP_WAIT_TIME_S of the cluster.
func (l *Launcher) Cancel(ctx context.Context, ref launch.Ref) error {
	if !training.ValidLaunchID(ref.LaunchID) {
		return fmt.Errorf("cancel launch: %.80q is no launch id", ref.LaunchID)
	}
	_, err := l.api.Do(ctx, http.MethodPost, jobPath(ref.LaunchID)+"/stop", nil)
	if err != nil && !errors.Is(gone(err), errGone) {
		return fmt.Errorf("cancel launch %s: %w", ref.LaunchID, err)
	}
	return nil
}

// Logs implements [launch.Launcher]. Ray gives the whole log or nothing, so it
// is read through and only its end is kept.
func (l *Launcher) Logs(ctx context.Context, ref launch.Ref, tail int) (string, error) {
	if !training.ValidLaunchID(ref.LaunchID) {
		return "", fmt.Errorf("logs of launch: %.80q is no launch id", ref.LaunchID)
	}
	var text string
	err := l.api.Stream(ctx, jobPath(ref.LaunchID)+"/logs", func(r io.Reader) (err error) {
		text, err = logTail(r, tail)
		return err
	})
	if errors.Is(gone(err), errGone) {
		return "", fmt.Errorf("logs of launch %s: %w at %s", ref.LaunchID, launch.ErrUnknownRef, l.api.URL())
	}
	if err != nil {
		return "", fmt.Errorf("logs of launch %s: %w", ref.LaunchID, err)
	}
	return text, nil
}
