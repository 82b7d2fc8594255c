package slurm

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

// A cluster answers like the programs of release 22.05.8 did.
type cluster struct {
	queue, accounts string
	submitted       int
	argv            [][]string
	stdin           string
	sbatch          error // after it was taken, where lost is set
	lost            bool
}

func (c *cluster) run(_ context.Context, argv []string, stdin string) (string, string, error) {
	c.argv = append(c.argv, argv)
	switch argv[0] {
	case "squeue":
		return c.queue, "", nil
	case "sacct":
		if c.accounts == "" {
			return "", "Slurm accounting storage is disabled\n", errors.New("exit status 1")
		}
		return c.accounts, "", nil
	case "sbatch":
		if c.sbatch != nil && !c.lost {
			return "", "sbatch: error: Batch job submission failed: Invalid account " + signature, c.sbatch
		}
		c.submitted++
		c.stdin = stdin
		c.queue = "2|PENDING|0|N/A|N/A|Resources|\n"
		return "2;cluster\n", "", c.sbatch
	}
	return "", "", nil
}

func cli(t *testing.T, c *cluster, change func(*CLIConfig)) *CLI {
	t.Helper()
	config := CLIConfig{Job: Job{Work: "/scratch/me"}, Options: []string{"--partition=gpu", "--gpus-per-node=8"}}
	if change != nil {
		change(&config)
	}
	l, err := NewCLI(config)
	if err != nil {
		t.Fatal(err)
	}
	l.now, l.run = func() time.Time { return now }, c.run
	return l
}

func TestCLISubmit(t *testing.T) {
	c := &cluster{}
	l := cli(t, c, nil)
	id := digest("a")
	ref, err := l.Submit(t.Context(), id, spec())
	if want := (launch.Ref{Launcher: "slurm", LaunchID: id, Where: "job 2"}); err != nil || ref != want {
		t.Fatalf("%+v, %v", ref, err)
	}
	argv := c.argv[len(c.argv)-1]
	for _, want := range []string{
		"--job-name=stillhouse-" + id, "--comment=" + id, "--dependency=singleton", "--no-requeue", "--time=91",
		"--output=/scratch/me/stillhouse-" + id + "-%j.log", "--partition=gpu", "--gpus-per-node=8",
	} {
		if !slices.Contains(argv, want) {
			t.Errorf("%v has no %s", argv, want)
		}
	}
	for _, words := range c.argv {
		if strings.Contains(strings.Join(words, " "), signature) {
			t.Errorf("a command line that every user can see: %v", words)
		}
	}
	for _, want := range []string{"export STILLHOUSE_CLAIM_URL='" + spec().Remote.ClaimURL + "'\n", "STILLHOUSE_WORK="} {
		if !strings.Contains(c.stdin, want) {
			t.Errorf("the script has no %s: %s", want, c.stdin)
		}
	}
	if again, err := l.Submit(t.Context(), id, spec()); err != nil || again != ref || c.submitted != 1 {
		t.Errorf("again: %+v, %v; %d jobs", again, err, c.submitted)
	}
}

func TestCLISubmitWithoutAnAnswer(t *testing.T) {
	broken := errors.New("exit status 255")
	c := &cluster{sbatch: broken, lost: true}
	if ref, err := cli(t, c, nil).Submit(t.Context(), digest("a"), spec()); err != nil || ref.Where != "job 2" || c.submitted != 1 {
		t.Errorf("lost after it was taken: %+v, %v", ref, err)
	}
	c = &cluster{sbatch: broken}
	_, err := cli(t, c, nil).Submit(t.Context(), digest("a"), spec())
	if err == nil || !strings.Contains(err.Error(), "Invalid account") {
		t.Errorf("refused: %v", err)
	}
	c = &cluster{queue: "what is this\n"}
	if _, err := cli(t, c, nil).Submit(t.Context(), digest("a"), spec()); err == nil || c.submitted > 0 {
		t.Errorf("a list that can't be read: %v; %d jobs", err, c.submitted)
	}
}

func TestCLIStatus(t *testing.T) {
	for _, tc := range []struct {
		queue, accounts string
		phase           launch.Phase
		code            int
		reason          string
	}{
		{"2|RUNNING|0|2026-12-01T04:14:30|NONE|None|\n", "", launch.Running, -1, "RUNNING"},
		{"2|COMPLETING|0|2026-12-01T04:14:30|NONE|None|\n", "", launch.Running, -1, "COMPLETING"},
		{"3|FAILED|1792|2026-12-01T04:14:30|2026-12-01T04:14:30|NonZeroExitCode|\n", "", launch.Failed, 7, "Slurm: FAILED: NonZeroExitCode"},
		{"3|FAILED|7:0|2026-12-01T04:14:30|2026-12-01T04:14:30|NonZeroExitCode|\n", "", launch.Failed, 7, "Slurm: FAILED: NonZeroExitCode"},
		{"2                   |CANCELLED|36608|N/A|N/A|None|\n", "", launch.Cancelled, 143, "cancelled"},
		{"2|PREEMPTED|0|N/A|N/A|None|\n", "", launch.Running, -1, "PREEMPTED"},
		{"3|FAILED|19200|N/A|N/A|None|\n2|COMPLETED|0|N/A|N/A|None|\n", "", launch.Succeeded, 0, ""},
		{"", "2|COMPLETED|0:0|2026-12-01T04:14:30|2026-12-01T04:14:31|None\n", launch.Succeeded, 0, ""},
		{"", "2|CANCELLED by 1000|0:15|2026-12-01T04:14:30|2026-12-01T04:14:31|None\n", launch.Cancelled, -1, "cancelled"},
		{"", "2|PREEMPTED|0:0|2026-12-01T04:14:30|2026-12-01T04:14:31|None\n", launch.Failed, 0, "Slurm: PREEMPTED"},
		{"", "2|COMPLETED|0:0|a|b|None\n3|FAILED|75:0|a|b|NonZeroExitCode\n", launch.Succeeded, 0, ""},
		{"", "", launch.Unknown, -1, forgotten(digest("a")).Reason},
	} {
		s, err := cli(t, &cluster{queue: tc.queue, accounts: tc.accounts}, nil).Status(t.Context(), launch.Ref{LaunchID: digest("a")})
		got := -1
		if s.ExitCode != nil {
			got = *s.ExitCode
		}
		if err != nil || s.Phase != tc.phase || got != tc.code || s.Reason != tc.reason {
			t.Errorf("%s%s: %+v with code %d, %v, want %s %d %q", tc.queue, tc.accounts, s, got, err, tc.phase, tc.code, tc.reason)
		}
	}
}

func TestCLICancel(t *testing.T) {
	c := &cluster{queue: "3|PENDING|0|N/A|N/A|Dependency|\n2|RUNNING|0|N/A|N/A|None|\n1|FAILED|256|N/A|N/A|None|\n"}
	if err := cli(t, c, nil).Cancel(t.Context(), launch.Ref{LaunchID: digest("a")}); err != nil || !slices.Equal(c.argv[len(c.argv)-1], []string{"scancel", "3", "2"}) {
		t.Errorf("%v: %v", err, c.argv)
	}
	c = &cluster{}
	if err := cli(t, c, nil).Cancel(t.Context(), launch.Ref{LaunchID: digest("a")}); err != nil || len(c.argv) != 1 {
		t.Errorf("%v: %v", err, c.argv)
	}
}

// Over ssh a command is one argument for the shell there, and the job's
// environment is not that of the worker.
func TestCLIOverAShell(t *testing.T) {
	work := t.TempDir()
	t.Setenv("AWS_SECRET_ACCESS_KEY", "worker's own")
	l, err := NewCLI(CLIConfig{SSH: []string{"sh", "-c"}, Job: Job{Work: work}})
	if err != nil {
		t.Fatal(err)
	}
	out, _, err := l.run(t.Context(), []string{"sh", "-c", `cat; printf '[%s]' "$1" "${AWS_SECRET_ACCESS_KEY:-none}"`, "sh", "it's $HOME"}, "read")
	if err != nil || out != "read[it's $HOME][none]" {
		t.Errorf("%q, %v", out, err)
	}
	if _, stderr, err := l.run(t.Context(), []string{"sh", "-c", "echo no >&2; exit 3"}, ""); err == nil || stderr != "no\n" {
		t.Errorf("%q, %v", stderr, err)
	}
	ref := launch.Ref{LaunchID: digest("a")}
	if _, err := l.Logs(t.Context(), ref, 100); err == nil {
		t.Error("no log is one")
	}
	older, newer := filepath.Join(work, jobName(digest("a"))+"-2.log"), filepath.Join(work, jobName(digest("a"))+"-10.log")
	text := "first\nfetched https://store.example/x?" + signature + "\nthe end\n"
	if err := errors.Join(os.WriteFile(older, []byte("old\n"), 0o600), os.Chtimes(older, now.AddDate(-1, 0, 0), now.AddDate(-1, 0, 0)), os.WriteFile(newer, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	here := cli(t, &cluster{}, func(c *CLIConfig) { c.Work = work })
	for _, who := range []*CLI{l, here} {
		for tail, want := range map[int]string{0: "", 8: "the end\n", 10: "the end\n", 1000: "first\nfetched https://store.example/x?*\nthe end\n"} {
			if got, err := who.Logs(t.Context(), ref, tail); err != nil || got != want {
				t.Errorf("tail of %d: %q, %v", tail, got, err)
			}
		}
	}
	if err := errors.Join(os.Remove(newer), os.Remove(older), os.Symlink("/etc/passwd", newer)); err != nil {
		t.Fatal(err)
	}
	if got, err := here.Logs(t.Context(), ref, 100); err == nil {
		t.Errorf("a link is followed: %q", got)
	}
}

func TestNewRefuses(t *testing.T) {
	job := Job{Work: "/scratch"}
	api := rest.Config{URL: "https://slurm.example"}
	for name, fails := range map[string]func() error{
		"no work":       func() error { _, err := NewCLI(CLIConfig{}); return err },
		"relative work": func() error { _, err := NewCLI(CLIConfig{Job: Job{Work: "x"}}); return err },
		"work with a %": func() error { _, err := NewCLI(CLIConfig{Job: Job{Work: "/x/%u"}}); return err },
		"our option":    func() error { _, err := NewCLI(CLIConfig{Job: job, Options: []string{"--job-name=x"}}); return err },
		"our short one": func() error { _, err := NewCLI(CLIConfig{Job: job, Options: []string{"-Jx"}}); return err },
		"no option":     func() error { _, err := NewCLI(CLIConfig{Job: job, Options: []string{"gpu"}}); return err },
		"time":          func() error { _, err := NewCLI(CLIConfig{Job: Job{Work: "/x", TimeLimit: -1}}); return err },
		"timeout":       func() error { _, err := NewCLI(CLIConfig{Job: job, Timeout: -1}); return err },
		"env": func() error {
			_, err := NewCLI(CLIConfig{Job: Job{Work: "/x", Env: map[string]string{"a=b": ""}}})
			return err
		},
		"no url":  func() error { _, err := NewREST(RESTConfig{Job: job}); return err },
		"version": func() error { _, err := NewREST(RESTConfig{API: api, Job: job, Version: "../v0.0.1"}); return err },
		"our field": func() error {
			_, err := NewREST(RESTConfig{API: api, Job: job, Fields: map[string]any{"script": ""}})
			return err
		},
		"clear text": func() error {
			_, err := NewREST(RESTConfig{API: rest.Config{URL: "http://slurm.example"}, Job: job})
			return err
		},
		"relative socket": func() error {
			_, err := NewREST(RESTConfig{API: rest.Config{URL: "unix://run/x"}, Job: job})
			return err
		},
	} {
		if fails() == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if _, err := NewCLI(CLIConfig{Job: job, Options: []string{"--gpus-per-node=8", "--account=a", "-pgpu", "--exclusive"}}); err != nil {
		t.Error(err)
	}
}
