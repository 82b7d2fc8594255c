package activities

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/sdk/temporal"
	"go.uber.org/goleak"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

// TestMain makes this test's binary the supervisor of launches too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == launch.SuperviseArg {
		os.Exit(launch.Supervise(os.Args[2:]))
	}
	goleak.VerifyTestMain(m)
}

// withTrainer is a worker with a published version of sums, which can launch.
func withTrainer(t *testing.T) (*world, string) {
	t.Helper()
	w := newWorld(t)
	recordedSums(w, 40)
	out, _ := w.build(recordedSumsRecipe)
	w.launches(t.TempDir())
	return w, fmt.Sprintf("sums@%d", out.Version)
}

func (w *world) launches(dir string) {
	w.a.Trainers = Trainers{Dir: dir, Launchers: map[string]launch.Launcher{launch.CommandLauncher: &launch.Command{
		Root: dir,
		Claim: func(ctx context.Context, launchID, owner string) error {
			return training.Claim(ctx, w.bucket, launchID, owner)
		},
	}}}
}

// handOff trains with a script, which finds the rows that it should count in
// $ROWS_OF_TRAIN.
func handOff(ref, script string) wire.HandOffInput {
	return wire.HandOffInput{
		Ref: ref, Trainer: "trl", Launcher: launch.CommandLauncher, Model: "student", Attempt: 1,
		Command: []string{"sh", "-c", script}, Env: []string{"STARTS", "ROWS_OF_TRAIN", "STILLHOUSE_PYTHON"},
		Options: `{"max_length":512,"seed":7}`,
	}
}

func (w *world) objects(prefix string) string {
	w.t.Helper()
	var b strings.Builder
	for at, err := range w.bucket.List(context.Background(), prefix, "") {
		if err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintln(&b, at.Key, at.ETag)
	}
	return b.String()
}

func TestHandOff(t *testing.T) {
	w, ref := withTrainer(t)
	starts := filepath.Join(t.TempDir(), "starts")
	t.Setenv("STARTS", starts)
	t.Setenv("STILLHOUSE_PYTHON", "/nonexistent")
	t.Setenv("ROWS_OF_TRAIN", fmt.Sprint(w.trainRows()))
	in := handOff(ref, `echo started >>"$STARTS"; printf %s "$ROWS_OF_TRAIN" >"$STILLHOUSE_ROWS_FILE"`)

	prepared := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
	bundle := w.objects("handoff/")
	if again := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in); again != prepared || w.objects("handoff/") != bundle {
		t.Errorf("prepared again: %+v, want %+v; or another bundle", again, prepared)
	}
	in2 := in
	in2.Attempt = 2
	if other := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in2); other.LaunchID == prepared.LaunchID {
		t.Error("another attempt has the same id")
	}

	for range 3 {
		must[struct{}](w, wire.ActivityLaunch, in, prepared)
	}
	out := must[wire.HandOffOutput](w, wire.ActivityFollow, in, prepared)
	if out.State != string(launch.Succeeded) || out.ExitCode != 0 {
		t.Errorf("%+v", out)
	}
	must[struct{}](w, wire.ActivityLaunch, in, prepared) // it is over, and does not start again
	if text, err := os.ReadFile(starts); err != nil || string(text) != "started\n" {
		t.Errorf("it started: %q %v", text, err)
	}
	for _, key := range []string{out.Result, out.Record} {
		if _, err := w.bucket.Head(context.Background(), key); err != nil {
			t.Error(err)
		}
	}
	// Another worker does not start what this one has claimed.
	next := w.onBucket(w.bucket)
	next.launches(t.TempDir())
	_, err := call[struct{}](next, wire.ActivityLaunch, in, prepared)
	var application *temporal.ApplicationError
	if err == nil || !asApplication(err, &application) || !application.NonRetryable() || !strings.Contains(err.Error(), "--attempt 2") {
		t.Errorf("%v", err)
	}
}

func (w *world) trainRows() (n int64) {
	for _, f := range w.manifest("sums").Files {
		if f.Table == "train" {
			n += f.Rows
		}
	}
	return n
}

func TestHandOffOfATrainingThatFails(t *testing.T) {
	w, ref := withTrainer(t)
	t.Setenv("STARTS", filepath.Join(t.TempDir(), "starts"))
	t.Setenv("STILLHOUSE_PYTHON", "/nonexistent")
	in := handOff(ref, "exit 3")
	prepared := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
	must[struct{}](w, wire.ActivityLaunch, in, prepared)
	if out := must[wire.HandOffOutput](w, wire.ActivityFollow, in, prepared); out.State != string(launch.Failed) || out.ExitCode != 3 || out.Text == "" {
		t.Errorf("%+v", out)
	}
}

// A training goes on when its worker has lost the server, and ends when its
// hand-off is cancelled.
func TestOnlyACancelledHandOffEndsItsTraining(t *testing.T) {
	w, ref := withTrainer(t)
	starts := filepath.Join(t.TempDir(), "starts")
	t.Setenv("STARTS", starts)
	t.Setenv("STILLHOUSE_PYTHON", "/nonexistent")
	in := handOff(ref, `exec sleep 300`)
	prepared := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
	must[struct{}](w, wire.ActivityLaunch, in, prepared)

	lost, cancel := context.WithCancel(context.Background())
	cancel()
	w.ctx = lost
	if _, err := call[wire.HandOffOutput](w, wire.ActivityFollow, in, prepared); err == nil {
		t.Fatal("it ended")
	}
	w.ctx = context.Background()
	l := w.a.Trainers.Launchers[launch.CommandLauncher]
	launched := launch.Ref{Launcher: in.Launcher, LaunchID: prepared.LaunchID, Where: filepath.Join(w.a.Trainers.Dir, prepared.LaunchID)}
	if s, err := l.Status(context.Background(), launched); err != nil || s.Phase != launch.Running {
		t.Fatalf("the training is %+v %v", s, err)
	}
	cancelled, end := context.WithCancelCause(context.Background())
	end(temporal.NewCanceledError())
	w.ctx = cancelled
	if _, err := call[wire.HandOffOutput](w, wire.ActivityFollow, in, prepared); !temporal.IsCanceledError(err) {
		t.Errorf("%v", err)
	}
	w.ctx = context.Background()
	if out := must[wire.HandOffOutput](w, wire.ActivityFollow, in, prepared); out.State != string(launch.Cancelled) {
		t.Errorf("%+v", out)
	}
}

// A preparation that dies between any two operations gives the same bundle.
func TestPrepareSurvivesACrashAnywhere(t *testing.T) {
	w, ref := withTrainer(t)
	base := copyBucket(t, w.bucket)
	in := handOff(ref, "true")
	want := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
	bundle := w.objects("handoff/")
	for n := 0; ; n++ {
		b := copyBucket(t, base)
		c := &crash{left: n}
		c.hits(b)
		_, err := call[wire.HandOffPrepared](w.onBucket(b), wire.ActivityPrepare, in)
		if err == nil {
			break
		}
		b.Fault, b.Lost = nil, nil
		next := w.onBucket(b)
		if got, err := call[wire.HandOffPrepared](next, wire.ActivityPrepare, in); err != nil || got != want || next.objects("handoff/") != bundle {
			t.Fatalf("crash after operation %d: %+v %v\n%s", n, got, err, next.objects("handoff/"))
		}
	}
}

func TestHandOffRefuses(t *testing.T) {
	w, ref := withTrainer(t)
	for name, in := range map[string]wire.HandOffInput{
		"no such trainer": {Ref: ref, Trainer: "x", Launcher: launch.CommandLauncher, Model: "m", Attempt: 1},
		"bad options":     {Ref: ref, Trainer: "trl", Launcher: launch.CommandLauncher, Model: "m", Attempt: 1, Options: "{"},
	} {
		_, err := call[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
		var application *temporal.ApplicationError
		if !asApplication(err, &application) || !application.NonRetryable() {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := handOff(ref, "true")
	prepared := must[wire.HandOffPrepared](w, wire.ActivityPrepare, good)
	evil := prepared
	evil.LaunchID = "../../etc"
	if _, err := call[struct{}](w, wire.ActivityLaunch, good, evil); err == nil || !strings.Contains(err.Error(), "launch id") {
		t.Errorf("%v", err)
	}
	good.Launcher = "slurm"
	if _, err := call[struct{}](w, wire.ActivityLaunch, good, prepared); err == nil || !strings.Contains(err.Error(), "slurm") {
		t.Errorf("%v", err)
	}
}

// Whoever can write to the store must not write elsewhere on a worker.
func TestFetchStaysInItsFolder(t *testing.T) {
	w, ref := withTrainer(t)
	in := handOff(ref, "true")
	p := must[wire.HandOffPrepared](w, wire.ActivityPrepare, in)
	for _, name := range []string{"data/../../../escaped", "claim.json", "result.json"} {
		if _, err := objstore.PutBytes(context.Background(), w.bucket, training.Key(p.LaunchID, "")+"/"+name, []byte("x"), objstore.PutOptions{}); err != nil {
			t.Log(name, err) // the store may refuse the key by itself
		}
	}
	dir := w.a.bundleDir(p.LaunchID)
	if err := w.a.fetchBundle(context.Background(), p.LaunchID, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"../escaped", "../../escaped", "claim.json", "result.json"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	if info, err := os.Stat(filepath.Join(dir, training.RunFile)); err != nil || info.Mode().Perm()&0o100 == 0 {
		t.Errorf("%v %v", info, err)
	}
	err := filepath.WalkDir(w.a.Trainers.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == w.a.Trainers.Dir {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s can be entered by others: %v", path, info.Mode())
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
