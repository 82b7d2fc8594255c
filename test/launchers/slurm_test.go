//go:build launchers

package launchers

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
	"github.com/stillhouse-data/stillhouse/training/launch/slurm"
)

// minJobAge is how long the cluster of the test remembers jobs that have ended.
const minJobAge = 6 * time.Second

// slurmConf is a cluster of this machine. The verbs are host, user, folder,
// three ports and minJobAge in seconds.
const slurmConf = `ClusterName=stillhouse
SlurmctldHost=%[1]s(127.0.0.1)
SlurmUser=%[2]s
SlurmdUser=%[2]s
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket=%[3]s/munge.socket
SlurmctldPort=%[4]s
SlurmdPort=%[5]s
StateSaveLocation=%[3]s/state
SlurmdSpoolDir=%[3]s/spool
SlurmctldPidFile=%[3]s/slurmctld.pid
SlurmdPidFile=%[3]s/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
MailProg=/bin/true
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
MinJobAge=%[6]d
NodeName=%[1]s NodeAddr=127.0.0.1 CPUs=4 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
`

// startSlurm starts munged, slurmctld, slurmd and slurmrestd from Debian's
// packages, and returns the socket of the last.
func startSlurm(t *testing.T) (socket string) {
	t.Helper()
	for _, program := range []string{"munged", "slurmctld", "slurmd", "slurmrestd", "sbatch"} {
		if _, err := exec.LookPath(program); err != nil {
			missing(t, "slurm", program+" is not in PATH: apt-get install munge slurmctld slurmd slurmrestd slurm-client")
		}
	}
	if os.Getuid() != 0 {
		missing(t, "slurm", "only root can start slurmd")
	}
	dir, err := os.MkdirTemp("/tmp", "slurm") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ = strings.Cut(host, ".")
	conf := filepath.Join(dir, "slurm.conf")
	text := fmt.Sprintf(slurmConf, host, me.Username, dir, freePort(t), freePort(t), int(minJobAge.Seconds()))
	for name, text := range map[string]string{"slurm.conf": text, "munge.key": strings.Repeat("a key of the test alone", 10)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"state", "spool"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("SLURM_CONF", conf)
	socket = filepath.Join(dir, "rest.sock")
	daemon(t, dir, "munged", "--foreground", "--force", "--key-file="+filepath.Join(dir, "munge.key"), "--socket="+filepath.Join(dir, "munge.socket"),
		"--pid-file="+filepath.Join(dir, "munged.pid"), "--seed-file="+filepath.Join(dir, "munged.seed"))
	until(t, "munged", time.Minute, func() (bool, string) {
		_, err := os.Stat(filepath.Join(dir, "munge.socket"))
		return err == nil, fmt.Sprint(err)
	})
	daemon(t, dir, "slurmctld", "-D", "-f", conf)
	daemon(t, dir, "slurmd", "-D", "-f", conf)
	t.Setenv("SLURMRESTD_SECURITY", "disable_user_check")
	daemon(t, dir, "slurmrestd", "-f", conf, "-s", "openapi/v0.0.38", "-a", "rest_auth/local", "unix:"+socket)
	until(t, "an idle node", time.Minute, func() (bool, string) {
		out, err := exec.Command("sinfo", "--noheader", "--format=%T").CombinedOutput()
		_, missing := os.Stat(socket)
		return err == nil && missing == nil && strings.TrimSpace(string(out)) == "idle", fmt.Sprintf("%s %v %v", out, err, missing)
	})
	return socket
}

// daemon starts a program that the test ends.
func daemon(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	log, err := os.Create(filepath.Join(dir, program+".log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			<-done
		}
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("%s:\n%s", program, text)
		}
	})
}

func TestSlurm(t *testing.T) {
	socket := startSlurm(t)
	s := newStore(t)
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	work := t.TempDir()
	job := slurm.Job{Work: work, Setup: "umask 022\n", Env: map[string]string{"HF_HOME": "/models"}}
	byREST, err := slurm.NewREST(slurm.RESTConfig{API: rest.Config{URL: "unix://" + socket}, User: me.Username, Job: job, Fields: map[string]any{"partition": "main"}})
	if err != nil {
		t.Fatal(err)
	}
	byCLI, err := slurm.NewCLI(slurm.CLIConfig{Job: job, Options: []string{"--partition=main"}})
	if err != nil {
		t.Fatal(err)
	}
	// A login node's ssh gets a command for the shell there.
	byShell, err := slurm.NewCLI(slurm.CLIConfig{SSH: []string{"sh", "-c"}, Job: job})
	if err != nil {
		t.Fatal(err)
	}
	for name, l := range map[string]launch.Launcher{"REST": byREST, "CLI": byCLI, "CLI through a shell": byShell} {
		t.Run(name, func(t *testing.T) { trySlurm(t, l, s) })
	}

	t.Run("one submits, another follows", func(t *testing.T) {
		id, spec := handOver(t, s, "true")
		for _, l := range []launch.Launcher{byREST, byCLI, byShell} {
			if _, err := l.Submit(t.Context(), id, spec); err != nil {
				t.Fatal(err)
			}
		}
		if got := follow(t, byCLI, s, launch.Ref{LaunchID: id}); got.Phase != launch.Succeeded || s.triedToClaim(id) != 1 {
			t.Errorf("%+v after %d claims", got, s.triedToClaim(id))
		}
	})
	t.Run("many at once", func(t *testing.T) {
		id, spec := handOver(t, s, "touch trained; test $(ls .. | grep -c stillhouse-) -gt 0")
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := byREST.Submit(t.Context(), id, spec); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		// Slurm may have taken several of one name. They run one after the other,
		// and one alone trains.
		if got := follow(t, byREST, s, launch.Ref{LaunchID: id}); got.Phase != launch.Succeeded {
			t.Errorf("%+v", got)
		}
		until(t, "the end of all", time.Minute, func() (bool, string) {
			out, err := exec.Command("squeue", "--noheader", "--name=stillhouse-"+id).CombinedOutput()
			return err == nil && len(out) == 0, string(out)
		})
		trained, _ := filepath.Glob(filepath.Join(work, "stillhouse-*", "trained"))
		if len(trained) != 1 {
			t.Errorf("%d trained", len(trained))
		}
		t.Logf("%d jobs came as far as the claim", s.triedToClaim(id))
	})
}

func trySlurm(t *testing.T, l launch.Launcher, s *store) {
	t.Run("succeeds", func(t *testing.T) {
		id, spec := handOver(t, s, `echo "trained on $(cat data/*.jsonl | wc -l) rows with $HF_HOME and ${STILLHOUSE_BUNDLE_URL:-no URL}"; id -un`)
		ref, err := l.Submit(t.Context(), id, spec)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Submit(t.Context(), id, spec); err != nil {
			t.Fatal(err)
		}
		if got := follow(t, l, s, ref); got.Phase != launch.Succeeded || got.ExitCode == nil || *got.ExitCode != 0 || got.Started.IsZero() || got.Ended.IsZero() {
			t.Errorf("%+v\n%s", got, logs(t, l, ref))
		}
		if text := logs(t, l, ref); !strings.Contains(text, "trained on 3 rows with /models and no URL\n") || s.triedToClaim(id) != 1 {
			t.Errorf("%d claims; the log is %s", s.triedToClaim(id), text)
		}
		until(t, "Slurm to forget the job", 2*time.Minute, func() (bool, string) {
			state, err := l.Status(t.Context(), ref)
			return err == nil && state.Phase == launch.Unknown, fmt.Sprintf("%+v, %v", state, err)
		})
		if got := follow(t, l, s, ref); got.Phase != launch.Succeeded {
			t.Errorf("by its result alone: %+v", got)
		}
		// Slurm has forgotten it and takes it again; it does not train again.
		if _, err := l.Submit(t.Context(), id, spec); err != nil {
			t.Fatal(err)
		}
		until(t, "a second run", time.Minute, func() (bool, string) {
			state, err := l.Status(t.Context(), ref)
			return err == nil && s.triedToClaim(id) == 2 && state.Phase.Final(), fmt.Sprintf("%+v, %v", state, err)
		})
		if got := follow(t, l, s, ref); got.Phase != launch.Succeeded {
			t.Errorf("after a second start: %+v", got)
		}
	})
	t.Run("fails", func(t *testing.T) {
		id, spec := handOver(t, s, "exit 9")
		ref, err := l.Submit(t.Context(), id, spec)
		if err != nil {
			t.Fatal(err)
		}
		if got := follow(t, l, s, ref); got.Phase != launch.Failed || got.ExitCode == nil || *got.ExitCode != 9 {
			t.Errorf("%+v", got)
		}
	})
	t.Run("is cancelled", func(t *testing.T) {
		id, spec := handOver(t, s, "echo begun; sleep 600")
		ref, err := l.Submit(t.Context(), id, spec)
		if err != nil {
			t.Fatal(err)
		}
		begun(t, l, ref)
		if err := l.Cancel(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		got := follow(t, l, s, ref)
		// Whose end comes first, the trainer's or run.sh's, is up to the cluster.
		if got.Phase != launch.Cancelled || got.Result == nil || got.Result.State == training.ResultSucceeded || got.Result.ExitCode != 143 {
			t.Errorf("%+v of %+v", got, got.Result)
		}
		if err := l.Cancel(t.Context(), ref); err != nil {
			t.Errorf("once more at the end: %v", err)
		}
	})
}
