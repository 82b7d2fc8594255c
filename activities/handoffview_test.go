package activities

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/datasets/views/viewstest"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/render"
)

// A method's bundle holds the view that it reads, laid out as the bundle says,
// with every file where its configuration looks for it.
func TestBundlesOfMethods(t *testing.T) {
	w, ref := withTrainer(t)
	for _, tc := range []struct {
		trainer string
		options HandOffOptions
		view    string
		reads   string // in the configuration
	}{
		{"trl", HandOffOptions{}, "messages", "data/train-00000-of-00001.parquet"},
		{"trl", HandOffOptions{View: "prompt_completion"}, "prompt_completion", "completion_only_loss: true"},
		{"llamafactory", HandOffOptions{Params: map[string]any{"template": "qwen3"}}, "sharegpt", "dataset: \"train_00000\""},
		{"llamafactory", HandOffOptions{View: "openai", Params: map[string]any{"template": "qwen3"}}, "openai", "dataset: \"train_00000\""},
		{"axolotl", HandOffOptions{}, "axolotl", "data/train-00000-of-00001.parquet"},
		{"ms-swift", HandOffOptions{}, "ms-swift", "data/train-00000-of-00001.parquet"},
	} {
		t.Run(tc.trainer+" "+tc.view, func(t *testing.T) {
			tc.options.MaxLength = 512
			prepared := must[wire.HandOffPrepared](w, wire.ActivityPrepare, methodOf(t, ref, tc.trainer, tc.options))
			b, err := w.a.readBundle(t.Context(), prepared.LaunchID)
			if err != nil {
				t.Fatal(err)
			}
			if b.View.Name != tc.view || b.Trainer.Name != tc.trainer || b.Trainer.Method != render.MethodSFT || b.View.Rows["train"] != w.trainRows() {
				t.Errorf("%+v of %+v", b.Trainer, b.View)
			}
			for _, f := range b.View.Files {
				if filepath.Dir(f.Name) != training.DataFolder || !strings.HasPrefix(f.Name, training.DataFolder+"/"+f.Split+"-") {
					t.Errorf("%s of split %s", f.Name, f.Split)
				}
				if o, err := w.bucket.Head(t.Context(), training.Key(b.LaunchID, f.Name)); err != nil || o.Size != f.Bytes {
					t.Errorf("%s: %+v, %v", f.Name, o, err)
				}
			}
			config := ""
			for _, name := range b.Trainer.Configs {
				text, _, err := objstore.ReadAll(t.Context(), w.bucket, training.Key(b.LaunchID, name), 1<<20)
				if err != nil {
					t.Fatal(err)
				}
				config += string(text)
			}
			if !strings.Contains(config, tc.reads) {
				t.Errorf("no %s in\n%s", tc.reads, config)
			}
			// The version's rows are short, and what is said of their length is
			// an estimate.
			if notes := strings.Join(b.Notes, "\n"); !strings.Contains(notes, "no row is likely that long, by an estimate") {
				t.Errorf("notes:\n%s", notes)
			}
		})
	}
}

func methodOf(t *testing.T, ref, trainer string, opt HandOffOptions) wire.HandOffInput {
	t.Helper()
	text, err := json.Marshal(opt)
	if err != nil {
		t.Fatal(err)
	}
	return wire.HandOffInput{Ref: ref, Trainer: trainer, Launcher: launch.CommandLauncher, Model: "student", Attempt: 1, Options: string(text)}
}

// What can't be handed over is said once, and not tried again.
func TestMethodsThatCannotBeHandedOver(t *testing.T) {
	w, ref := withTrainer(t)
	for _, tc := range []struct {
		name, trainer string
		options       HandOffOptions
		want          string
	}{
		{"no such method", "trl", HandOffOptions{Method: "ppo"}, "there are: dpo"},
		{"another's view", "trl", HandOffOptions{View: "sharegpt"}, "does not read view"},
		{"no pairs", "trl", HandOffOptions{Method: "dpo"}, "no preference pairs"},
		{"two teachers", "trl", HandOffOptions{Method: "gkd", MaxLength: 64}, "takes the weights of one teacher"},
		{"no template", "llamafactory", HandOffOptions{MaxLength: 64}, "--param template=NAME"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := call[wire.HandOffPrepared](w, wire.ActivityPrepare, methodOf(t, ref, tc.trainer, tc.options))
			var application *temporal.ApplicationError
			if !asApplication(err, &application) || !application.NonRetryable() || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an end with %q", err, tc.want)
			}
		})
	}
}

// Rows whose history holds answers that are not to be trained are counted: a
// trainer without a mask by turn must not train them unasked.
func TestPartlyTrainedRowsAreCounted(t *testing.T) {
	c, _, m := viewstest.Publish(t, mem.New("b"))
	var view training.View
	if err := (&Activities{Catalog: c}).measure(t.Context(), m, &view, 0); err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, r := range viewstest.Train(t) {
		last := len(r.Messages) - 1
		for i := range r.Messages[:last] {
			if r.Messages[i].Role == "assistant" && !r.Messages[i].Train {
				want = append(want, r.SampleID)
				break
			}
		}
	}
	if len(want) == 0 || view.Shares.Partly != int64(len(want)) {
		t.Errorf("counted %d; those with an untrained answer in their history are %q", view.Shares.Partly, want)
	}
}

func TestInOneFolder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"train/train-00000-of-00001.parquet", "test/test-00000-of-00001.parquet"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := views.Summary{Files: []views.File{
		{Path: "train/train-00000-of-00001.parquet", Split: "train"}, {Path: "test/test-00000-of-00001.parquet", Split: "test"}, {Path: "README.md"},
	}}
	if err := inOneFolder(&s, render.ViewSpec{TrainOnly: true}, dir); err != nil {
		t.Fatal(err)
	}
	want := []views.File{{Path: "data/train-00000-of-00001.parquet", Split: "train"}, {Path: "README.md"}}
	if diff := cmp.Diff(want, s.Files); diff != "" {
		t.Error(diff)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "data", "train-00000-of-00001.parquet")); err != nil || string(text) != "train/train-00000-of-00001.parquet" {
		t.Errorf("%s, %v", text, err)
	}
}
