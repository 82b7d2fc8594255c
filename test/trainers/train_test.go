//go:build trainers

package trainers

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/datasets/views/viewstest"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

// TestMain makes this test's binary the supervisor of launches too.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == launch.SuperviseArg {
		os.Exit(launch.Supervise(os.Args[2:]))
	}
	os.Exit(m.Run())
}

// The trainer's own word on how many rows it trains on.
var numExamples = regexp.MustCompile(`Num examples = ([0-9,]+)`)

// TestTrainTRL hands a version to TRL's own command line, twice: it is rendered,
// launched once by a supervisor, trained for two steps, and its result comes
// back. The trainer's own count of rows is the view's, and what its loss sees,
// by the rendered configuration, is the assistant's text.
func TestTrainTRL(t *testing.T) {
	python := environment(t, "trl")
	t.Setenv("PATH", filepath.Dir(python)+":"+os.Getenv("PATH"))
	t.Setenv("STILLHOUSE_PYTHON", python)
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HOME", t.TempDir())
	t.Setenv("CUDA_VISIBLE_DEVICES", "")
	student := filepath.Join(t.TempDir(), "student")
	if out, err := exec.CommandContext(t.Context(), python, "student.py", student).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	bucket := mem.New("b")
	cat, v, _ := viewstest.Publish(t, bucket)
	root := t.TempDir()
	command := &launch.Command{Root: root, Claim: func(ctx context.Context, id, owner string) error {
		return training.Claim(ctx, bucket, id, owner)
	}}
	a := &activities.Activities{
		Bucket: bucket, Catalog: cat, TempDir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
		Trainers: activities.Trainers{Dir: root, Launchers: map[string]launch.Launcher{launch.CommandLauncher: command}},
	}
	for _, c := range []struct{ method, view string }{{"sft", views.ViewMessages}, {"dpo", views.ViewPreference}} {
		t.Run(c.method, func(t *testing.T) {
			trainTRL(t, a, command, v, student, python, c.method, c.view)
		})
	}
}

func trainTRL(t *testing.T, a *activities.Activities, command *launch.Command, v catalog.Version, student, python, method, view string) {
	params := map[string]any{
		"max_steps": 2, "use_cpu": true, "bf16": false, "gradient_checkpointing": false, "save_strategy": "no", "logging_steps": 1,
		"per_device_train_batch_size": 2, "gradient_accumulation_steps": 1, "log_level": "info",
	}
	if method == "sft" {
		// One row has an earlier turn that is not to be trained, which TRL cannot
		// mask: a hand-off is refused until its user chooses.
		params["assistant_only_loss"] = true
	}
	options, err := json.Marshal(activities.HandOffOptions{Method: method, LeaveOutUnfit: true, Params: params})
	if err != nil {
		t.Fatal(err)
	}
	in := wire.HandOffInput{
		Ref: v.Ref(), Trainer: "trl", Launcher: launch.CommandLauncher, Model: student, Attempt: 1, Options: string(options),
		Env: []string{"STILLHOUSE_PYTHON", "HF_HUB_OFFLINE", "HF_HOME", "CUDA_VISIBLE_DEVICES"},
	}
	var p wire.HandOffPrepared
	do(t, a.PrepareHandOff, &p, in)
	do(t, a.LaunchTraining, nil, in, p)
	var out wire.HandOffOutput
	do(t, a.FollowTraining, &out, in, p)
	log, err := command.Logs(t.Context(), launch.Ref{LaunchID: p.LaunchID}, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if out.State != string(launch.Succeeded) {
		t.Fatalf("%+v\n%s", out, log)
	}
	dir := filepath.Join(a.Trainers.Dir, p.LaunchID, "bundle")
	text, err := os.ReadFile(filepath.Join(dir, training.HandoffFile))
	if err != nil {
		t.Fatal(err)
	}
	var b training.Bundle
	if err := json.Unmarshal(text, &b); err != nil {
		t.Fatal(err)
	}
	result, err := training.ReadResult(filepath.Join(dir, training.ResultFile), p.LaunchID)
	if err != nil {
		t.Fatal(err)
	}
	want := b.View.Rows["train"]
	if b.View.Name != view || want == 0 || result.RowsSeen == nil || *result.RowsSeen != want {
		t.Errorf("view %s of %d rows; the result is %+v", b.View.Name, want, result)
	}
	// It is told with commas between thousands; there are no thousands here.
	counted := numExamples.FindStringSubmatch(log)
	if counted == nil || counted[1] != strconv.FormatInt(want, 10) {
		t.Errorf("the trainer counted %q, not %d rows:\n%s", counted, want, log)
	}
	if !regexp.MustCompile(`'loss': '?[0-9.]+`).MatchString(log) {
		t.Errorf("no step has a loss:\n%s", log)
	}
	if _, err := os.Stat(filepath.Join(dir, training.OutputDir, "model.safetensors")); err != nil {
		t.Error(err)
	}
	t.Logf("%s, %d rows, %s to %s", result.Framework, want, result.StartedAt.Format(time.TimeOnly), result.EndedAt.Format(time.TimeOnly))
	if method == "sft" {
		labels(t, python, dir, b.Trainer.Configs[0], view)
	}
}

// labels holds what the loss sees, by a rendered configuration, to the rows.
func labels(t *testing.T, python, dir, config, view string) {
	t.Helper()
	rows := keptRows(t, view, views.Options{LeaveOutUnfit: true})
	text, err := json.Marshal(map[string]any{"rows": rows, "config": config})
	if err != nil {
		t.Fatal(err)
	}
	job := filepath.Join(t.TempDir(), "job.json")
	if err := os.WriteFile(job, text, 0o600); err != nil {
		t.Fatal(err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), python, filepath.Join(here, "trl_rendered.py"), job)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var problems []string
	if err := json.Unmarshal(out, &problems); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	for _, problem := range problems {
		t.Error(problem)
	}
}

// do runs an activity.
func do(t *testing.T, activity any, into any, args ...any) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(10 * time.Minute)
	env.RegisterActivity(activity)
	value, err := env.ExecuteActivity(activity, args...)
	if err == nil && into != nil {
		err = value.Get(into)
	}
	if err != nil {
		t.Fatal(fmt.Errorf("activity: %w", err))
	}
}
