// Package slurm runs launches as batch jobs of a Slurm cluster: [REST] by
// slurmrestd, [CLI] by sbatch, squeue, sacct and scancel, here or over ssh.
//
// Slurm takes any number of jobs of one name. What makes a launch start once:
// its job is named by the launch and looked for before a submission and after
// any answer that is not a yes; jobs of one name never run at the same time
// (dependency=singleton); and the bundle claims the launch before it trains.
// Jobs are not requeued, since a second run would find the claim taken.
//
// A job that has ended leaves the controller after MinJobAge, 5 minutes by
// default. Where nobody remembers it, the result in the store decides, and where
// there is none the launch's end is unknown.
package slurm

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

// Name of the launcher in references, by REST and by command line alike.
const Name = "slurm"

// A Job is what the jobs of all launches have in common.
type Job struct {
	// Work is a folder of the cluster, absolute, shared by its nodes: each
	// launch makes a folder of its own in it, beside its log. Required.
	Work string `yaml:"work"`
	// Setup is lines of a POSIX shell before the bundle is fetched, such as
	// module load cuda. They are kept with the job: no secrets.
	Setup string `yaml:"setup"`
	// Env gives variables to the job, such as HF_HOME: no secrets.
	Env map[string]string `yaml:"env"`
	// TimeLimit of a job, where the launch has no deadline, or a later one. 0:
	// the partition's own.
	TimeLimit time.Duration `yaml:"time_limit"`
}

func (j *Job) check() error {
	if !path.IsAbs(j.Work) || path.Clean(j.Work) != j.Work || strings.ContainsAny(j.Work, "\n%\\") {
		return fmt.Errorf("work: %q is no absolute folder of the cluster", j.Work)
	}
	if j.TimeLimit < 0 {
		return fmt.Errorf("time_limit: %s is negative", j.TimeLimit)
	}
	for name, value := range j.Env {
		if name == "" || strings.ContainsAny(name, "= \n") || strings.ContainsAny(value, "\n\x00") {
			return fmt.Errorf("env: %q can't be given to a job", name)
		}
	}
	return nil
}

// minutes is the time limit of a launch; 0: none.
func (j *Job) minutes(spec *launch.Spec, now time.Time) int64 {
	limit := j.TimeLimit
	if !spec.Deadline.IsZero() {
		if left := spec.Deadline.Sub(now); limit == 0 || left < limit {
			limit = max(left, time.Minute)
		}
	}
	return int64(math.Ceil(limit.Minutes()))
}

// script is what the job runs. Variables that are exported in it are those
// which come no other way.
func (j *Job) script(exports map[string]string) (string, error) {
	var s strings.Builder
	s.WriteString("#!/bin/sh\n")
	for _, name := range slices.Sorted(maps.Keys(exports)) {
		if !variable(name) {
			return "", fmt.Errorf("%q is no variable's name", name)
		}
		fmt.Fprintf(&s, "export %s=%s\n", name, training.Quote(exports[name]))
	}
	if j.Setup != "" {
		s.WriteString(strings.TrimRight(j.Setup, "\n") + "\n")
	}
	s.WriteString("exec")
	for _, word := range launch.Bootstrap() {
		s.WriteString(" " + training.Quote(word))
	}
	s.WriteString("\n")
	return s.String(), nil
}

func variable(name string) bool {
	for i, c := range []byte(name) {
		if c != '_' && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

// variables are those of a launch, and where it works.
func (j *Job) variables(spec *launch.Spec) map[string]string {
	_, vars := spec.Variables()
	all := maps.Clone(j.Env)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, vars)
	all["STILLHOUSE_WORK"] = j.Work
	return all
}

// jobName is the same for every submission of a launch, and of no other.
func jobName(launchID string) string { return "stillhouse-" + launchID }

// logFile is where Slurm writes what a job says; %j is the job's number.
func (j *Job) logFile(launchID string) string {
	return path.Join(j.Work, jobName(launchID)+"-%j.log")
}

func checkSubmission(launchID string, spec *launch.Spec) error {
	if err := checkID(launchID); err != nil {
		return err
	}
	if spec.Remote == nil {
		return errors.New("it has no URLs")
	}
	return nil
}

func checkID(launchID string) error {
	if !training.ValidLaunchID(launchID) {
		return fmt.Errorf("%.80q is no launch id", launchID)
	}
	return nil
}

// A job is one of Slurm's.
type job struct {
	id       string
	states   []string // base state and flags
	exit     *int     // of the script; nil: not known, or a signal's
	reason   string
	start    time.Time
	end      time.Time
	archived bool // the controller has forgotten it: it will not be queued again
}

// What states and flags mean. All others mean that it is not over; so does a
// flag that is beside an end, such as COMPLETING: the log may grow still.
var (
	succeeded = []string{"COMPLETED"}
	failed    = []string{"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "LAUNCH_FAILED", "RECONFIG_FAIL"}
	cancelled = []string{"CANCELLED"}
)

func (j *job) state() launch.State {
	s := launch.State{Phase: launch.Running, Started: j.start}
	base, others := "", 0
	for _, state := range j.states {
		state, _, _ = strings.Cut(state, " ") // CANCELLED by 1000
		switch {
		case state == "PREEMPTED" && j.archived:
			base, s.Phase = state, launch.Failed
		case slices.Contains(succeeded, state):
			base, s.Phase = state, launch.Succeeded
		case slices.Contains(failed, state):
			base, s.Phase = state, launch.Failed
		case slices.Contains(cancelled, state):
			base, s.Phase = state, launch.Cancelled
		default:
			others++
		}
	}
	if base == "" || others > 0 {
		s.Phase, s.Reason = launch.Running, rest.Excerpt(strings.Join(j.states, " "))
		if j.reason != "" && j.reason != "None" {
			s.Reason += ": " + rest.Excerpt(j.reason)
		}
		return s
	}
	s.Ended, s.ExitCode = j.end, j.exit
	switch s.Phase {
	case launch.Failed:
		s.Reason = "Slurm: " + base
		if j.reason != "" && j.reason != "None" {
			s.Reason += ": " + rest.Excerpt(j.reason)
		}
	case launch.Cancelled:
		s.Reason = "cancelled"
	}
	if s.Phase == launch.Failed && j.exit != nil && *j.exit == training.ExitClaimed {
		s.Phase, s.Reason = launch.Unknown, "an earlier run has claimed the launch"
	}
	return s
}

// judge tells the state of a launch by all jobs of its name. Where there is more
// than one, the one that counts is the one that got the claim.
func judge(jobs []job) (launch.State, bool) {
	var out launch.State
	for i := range jobs {
		s := jobs[i].state()
		switch {
		case i == 0, !s.Phase.Final():
			out = s
		case !out.Phase.Final():
		case out.Phase == launch.Unknown || s.Phase == launch.Succeeded:
			out = s
		}
		if !out.Phase.Final() {
			break
		}
	}
	return out, len(jobs) > 0
}

// forgotten is the state of a launch that no job is known of.
func forgotten(launchID string) launch.State {
	return launch.State{Phase: launch.Unknown, Reason: "Slurm knows no job named " + jobName(launchID) + " any more; it forgets those that have ended after MinJobAge"}
}

// waitStatus is the exit code in a status of wait(2); nil where a signal ended
// the process.
func waitStatus(status int64) *int {
	if status < 0 || status&0x7f != 0 {
		return nil
	}
	code := int(status >> 8 & 0xff)
	return &code
}
