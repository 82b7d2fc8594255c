package activities

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/lineage"
	"github.com/stillhouse-data/stillhouse/training/render"
)

// Trainers starts trainings on this worker.
type Trainers struct {
	// Dir holds a folder for each launch, absolute and lasting: a launch that
	// was started here is found here again.
	Dir string
	// Launchers by name, such as command.
	Launchers map[string]launch.Launcher
	// Lineage is told of launches; nil: nobody is.
	Lineage *lineage.Teller
}

// HandOffOptions are what a hand-off's input holds as JSON text.
type HandOffOptions struct {
	Method       string         `json:"method,omitempty"` // of the trainer; its usual one where absent
	View         string         `json:"view,omitempty"`   // of those that the method reads; its usual one where absent
	Tokenizer    string         `json:"tokenizer,omitempty"`
	ChatTemplate string         `json:"chat_template,omitempty"`
	MaxLength    int            `json:"max_length,omitempty"`
	Seed         int64          `json:"seed,omitempty"`
	Params       map[string]any `json:"params,omitempty"`
	// LeaveOutUnfit leaves out the rows that the view can't hold, and says how
	// many, instead of refusing.
	LeaveOutUnfit bool `json:"leave_out_unfit,omitempty"`
	// beside are the files that the view wrote beside its data.
	beside map[string][]byte
	// Template is the text of the trainer custom.
	Template string `json:"template,omitempty"`
}

const (
	followEvery  = time.Second
	maxBundleAll = 4 << 20 // of a bundle's own files, view files apart
)

// PrepareHandOff exports the view that the trainer reads, renders its
// configuration and uploads both as a bundle. The same input gives the same
// launch id and bytes.
func (a *Activities) PrepareHandOff(ctx context.Context, in wire.HandOffInput) (*wire.HandOffPrepared, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	out, err := a.prepareHandOff(ctx, in)
	return out, final(err)
}

func (a *Activities) prepareHandOff(ctx context.Context, in wire.HandOffInput) (*wire.HandOffPrepared, error) {
	v, m, err := a.Catalog.Resolve(ctx, in.Ref)
	if err != nil {
		return nil, err
	}
	var opt HandOffOptions
	if in.Options != "" {
		if err := json.Unmarshal([]byte(in.Options), &opt); err != nil {
			return nil, invalidRecipe("hand-off options: %v", err)
		}
	}
	dir, err := os.MkdirTemp(a.TempDir, "handoff-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	exported := filepath.Join(dir, "view")
	summary, err := a.exportFor(ctx, in, opt, v, m, exported)
	if err != nil {
		return nil, err
	}
	var measured training.View
	if err := a.measure(ctx, m, &measured, opt.MaxLength); err != nil {
		return nil, err
	}
	if opt.beside, err = besideView(exported); err != nil {
		return nil, err
	}
	bundle, rendered, err := bundleOf(in, opt, v, m, &summary, measured)
	if err != nil {
		return nil, invalidRecipe("%v", err)
	}
	files, err := bundle.Files(rendered)
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		if _, err := objstore.CreateOrSame(ctx, a.Bucket, training.Key(bundle.LaunchID, f.Name), f.Data); err != nil {
			return nil, fmt.Errorf("write the bundle: %w", err)
		}
	}
	for _, f := range bundle.View.Files {
		if _, err := objstore.CreateFileOrSame(ctx, a.Bucket, training.Key(bundle.LaunchID, f.Name), filepath.Join(exported, filepath.FromSlash(f.Name))); err != nil {
			return nil, fmt.Errorf("write the bundle: %w", err)
		}
	}
	return &wire.HandOffPrepared{LaunchID: bundle.LaunchID, Prefix: training.Key(bundle.LaunchID, "")}, nil
}

// bundleOf describes a hand-off. Nothing in it depends on when it is made.
func bundleOf(in wire.HandOffInput, opt HandOffOptions, v catalog.Version, m *catalog.Manifest, s *views.Summary, measured training.View) (*training.Bundle, *training.Rendered, error) {
	view := training.View{Name: s.View, Rows: map[string]int64{}, Lengths: measured.Lengths, Shares: measured.Shares}
	for _, f := range s.Files {
		if f.Split == "" || f.Rows == 0 {
			continue
		}
		view.Files = append(view.Files, training.ViewFile{Name: f.Path, Split: f.Split, Bytes: f.Bytes, Rows: f.Rows, SHA256: f.SHA256})
		view.Rows[f.Split] += f.Rows
	}
	student := training.Student{Model: in.Model, Tokenizer: opt.Tokenizer, ChatTemplate: opt.ChatTemplate, MaxLength: opt.MaxLength}
	rendered, err := render.Render(in.Trainer, opt.Method, render.Input{
		Dataset: m.Dataset, Version: v.Number, View: view, Student: student,
		Seed: opt.Seed, Command: in.Command, Params: opt.Params, Teachers: taught(m, s.View), Template: opt.Template, Beside: opt.beside, Lengths: estimated(view.Lengths, opt.MaxLength),
	})
	if err != nil {
		return nil, nil, err
	}
	id, err := training.LaunchID(v.ManifestSHA256, rendered, in.Attempt)
	if err != nil {
		return nil, nil, err
	}
	b := &training.Bundle{
		APIVersion: training.APIVersion, LaunchID: id, Attempt: in.Attempt, CreatedAt: m.CreatedAt,
		Dataset: training.Dataset{Name: m.Dataset, Version: v.Number, BuildID: m.BuildID, Manifest: v.Manifest, ManifestDigest: v.ManifestSHA256},
		View:    view, Student: student, Trainer: rendered.Trainer,
		Claim: training.ClaimFile, Result: training.ResultFile, Notes: append(slices.Clone(rendered.Notes), s.Warnings...),
	}
	for _, why := range slices.Sorted(maps.Keys(s.LeftOut)) {
		b.Notes = append(b.Notes, fmt.Sprintf("%d rows are left out: %s", s.LeftOut[why], why))
	}
	rows := m.TeacherRows()
	for _, t := range m.Teachers {
		if rows[t.ID] == 0 {
			continue
		}
		terms := t.Terms.Training
		if terms == "" {
			terms = training.TrainingUnknown
		}
		b.Teachers = append(b.Teachers, training.Teacher{
			ID: t.ID, Model: t.Model, Rows: rows[t.ID], Licence: t.Terms.Licence, TermsURL: t.Terms.URL, Training: terms,
		})
	}
	return b, rendered, nil
}

// LaunchTraining starts a prepared hand-off, once, whatever dies meanwhile.
func (a *Activities) LaunchTraining(ctx context.Context, in wire.HandOffInput, p wire.HandOffPrepared) (*wire.HandOffLaunched, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	out, err := a.launchTraining(ctx, in, p)
	return out, final(err)
}

func (a *Activities) launchTraining(ctx context.Context, in wire.HandOffInput, p wire.HandOffPrepared) (*wire.HandOffLaunched, error) {
	l, err := a.launcher(in, p)
	if err != nil {
		return nil, err
	}
	spec, err := a.specOf(ctx, l, in, p)
	if err != nil {
		return nil, err
	}
	ref, err := l.Submit(ctx, p.LaunchID, spec)
	if errors.Is(err, training.ErrClaimed) {
		return nil, invalidRecipe("%v; train again with --attempt %d if that one will never start", err, in.Attempt+1)
	}
	if err != nil {
		return nil, err
	}
	a.tellStart(ctx, p)
	return &wire.HandOffLaunched{Where: bounded(ref.Where), Remote: spec.Remote != nil}, nil
}

func (a *Activities) launcher(in wire.HandOffInput, p wire.HandOffPrepared) (launch.Launcher, error) {
	if !training.ValidLaunchID(p.LaunchID) {
		return nil, invalidRecipe("launch id %q is none", p.LaunchID)
	}
	l := a.Trainers.Launchers[in.Launcher]
	if l == nil {
		return nil, invalidRecipe("launcher %q does not run on this worker", in.Launcher)
	}
	return l, nil
}

// bundleDir is the folder that a launch runs in.
func (a *Activities) bundleDir(launchID string) string {
	return filepath.Join(a.Trainers.Dir, launchID, "bundle")
}

func (a *Activities) readBundle(ctx context.Context, launchID string) (*training.Bundle, error) {
	text, _, err := objstore.ReadAll(ctx, a.Bucket, training.Key(launchID, training.HandoffFile), maxBundleAll)
	if err != nil {
		return nil, fmt.Errorf("read the bundle: %w", err)
	}
	var b training.Bundle
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, fmt.Errorf("read the bundle: %w", err)
	}
	return &b, b.Validate()
}

// fetchBundle copies a bundle from the store into dir; files that are there
// already stay. run.sh verifies every digest before it trains.
func (a *Activities) fetchBundle(ctx context.Context, launchID, dir string) error {
	prefix := training.Key(launchID, "") + "/"
	for at, err := range a.Bucket.List(ctx, prefix, "") {
		if err != nil {
			return err
		}
		name := at.Key[len(prefix):]
		if !ownFile(name) {
			continue
		}
		path := filepath.Join(dir, filepath.FromSlash(name))
		if info, err := os.Stat(path); err == nil && info.Size() == at.Size {
			continue
		}
		mode := os.FileMode(0o600)
		if name == training.RunFile {
			mode = 0o700
		}
		if err := objstore.Download(ctx, a.Bucket, at.Key, path, mode); err != nil {
			return fmt.Errorf("fetch the bundle: %w", err)
		}
	}
	return nil
}

// FollowTraining waits for the end of a launch and records it in the store.
func (a *Activities) FollowTraining(ctx context.Context, in wire.HandOffInput, p wire.HandOffPrepared) (*wire.HandOffOutput, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	out, err := a.followTraining(ctx, in, p, note.set)
	return out, final(err)
}

func (a *Activities) followTraining(ctx context.Context, in wire.HandOffInput, p wire.HandOffPrepared, note func(string)) (*wire.HandOffOutput, error) {
	l, err := a.launcher(in, p)
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(followEvery)
	defer tick.Stop()
	for {
		state, err := a.look(ctx, l, in, p)
		if err != nil {
			return nil, err
		}
		if state.Phase.Final() {
			return a.recordTraining(ctx, p, state)
		}
		note(string(state.Phase))
		select {
		case <-ctx.Done():
			// Cancelling the hand-off cancels the launch. A worker that stops,
			// or has lost its server, leaves it running and finds it again.
			if temporal.IsCanceledError(context.Cause(ctx)) {
				if err := l.Cancel(context.WithoutCancel(ctx), a.refOf(in, p)); err != nil {
					a.Log.Warn("the launch was not cancelled", "launch", p.LaunchID, "error", err)
				}
			}
			return nil, ctx.Err()
		case <-a.Stopping:
			return nil, errStopping
		case <-tick.C:
		}
	}
}

func (a *Activities) recordTraining(ctx context.Context, p wire.HandOffPrepared, state launch.State) (*wire.HandOffOutput, error) {
	out := &wire.HandOffOutput{LaunchID: p.LaunchID, State: string(state.Phase), Text: bounded(state.Reason)}
	if state.ExitCode != nil {
		out.ExitCode = *state.ExitCode
	}
	if state.Result != nil {
		out.Result = training.Key(p.LaunchID, training.ResultFile)
		if err := a.putRecord(ctx, out.Result, state.Result); err != nil {
			return nil, err
		}
	}
	out.Record = training.Key(p.LaunchID, training.StateFile)
	result := state.Result
	state.Result = nil
	if err := a.putRecord(ctx, out.Record, state); err != nil {
		return nil, err
	}
	if err := a.dropArchives(ctx, p.LaunchID); err != nil {
		a.Log.Warn("the archive of a launch was not removed; its URLs end by themselves", "launch", p.LaunchID, "error", err)
	}
	a.tellEnd(ctx, p, state, result)
	return out, nil
}

func (a *Activities) putRecord(ctx context.Context, key string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if _, err := objstore.PutBytes(ctx, a.Bucket, key, text, objstore.PutOptions{ContentType: "application/json"}); err != nil {
		return fmt.Errorf("record the training's end: %w", err)
	}
	return nil
}
