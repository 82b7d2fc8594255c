package activities

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

const (
	// urlsLive is how long the URLs of a remote launch are signed for: the longest
	// that S3 allows, for the result is put when the training has ended.
	urlsLive = 7 * 24 * time.Hour
	// mostRemote bounds a remote training, so that its result can still be put.
	mostRemote = urlsLive - 2*time.Hour
	// endingGrace is how long a launch that was told to end may take, before we
	// say that nobody knows how it ended.
	endingGrace = time.Hour
)

// remoteOf signs what a launch on another machine needs: its own archive with a
// URL for each of the view's files, and a place for claim and result.
func (a *Activities) remoteOf(ctx context.Context, launcher string, b *training.Bundle) (*launch.Remote, error) {
	signer, ok := a.Bucket.(objstore.Presigner)
	if !ok {
		return nil, invalidRecipe("launcher %s runs on other machines, and this store can't give them URLs: use a store of the S3 kind (--store s3://…) that they can reach", launcher)
	}
	key := func(name string) string { return training.Key(b.LaunchID, name) }
	out := &launch.Remote{Expires: time.Now().Add(urlsLive).UTC()}
	var urls strings.Builder
	for _, f := range b.View.Files {
		u, err := signer.PresignGet(ctx, key(f.Name), urlsLive)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&urls, "%s\t%s\n", f.Name, u)
	}
	files := []training.File{{Name: training.URLsFile, Mode: 0o600, Data: []byte(urls.String())}}
	prefix := key("") + "/"
	for at, err := range a.Bucket.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		name := at.Key[len(prefix):]
		if !ownFile(name) || strings.HasPrefix(name, training.DataFolder+"/") {
			continue
		}
		text, _, err := objstore.ReadAll(ctx, a.Bucket, at.Key, maxBundleAll)
		if err != nil {
			return nil, fmt.Errorf("read the bundle: %w", err)
		}
		f := training.File{Name: name, Data: text}
		if name == training.RunFile {
			f.Mode = 0o755
		}
		files = append(files, f)
	}
	archive, err := training.Archive(files)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(archive)
	out.BundleSHA256 = hex.EncodeToString(sum[:])
	name := key(training.ArchiveName(out.BundleSHA256))
	if _, err := objstore.PutBytes(ctx, a.Bucket, name, archive, objstore.PutOptions{ContentType: "application/gzip"}); err != nil {
		return nil, fmt.Errorf("write the bundle: %w", err)
	}
	if out.BundleURL, err = signer.PresignGet(ctx, name, urlsLive); err != nil {
		return nil, err
	}
	if out.ClaimURL, err = signer.PresignPut(ctx, key(training.ClaimFile), urlsLive); err != nil {
		return nil, err
	}
	out.ResultURL, err = signer.PresignPut(ctx, key(training.ResultFile), urlsLive)
	return out, err
}

// ownFile tells whether an object of a bundle's folder is one that the launch
// runs with, and no record of it.
func ownFile(name string) bool {
	switch name {
	case training.ClaimFile, training.ResultFile, training.StateFile:
		return false
	}
	return filepath.IsLocal(name) && path.Clean(name) == name && !training.IsArchive(name)
}

// dropArchives removes the archives of a launch that has ended: their URLs are
// of no more use.
func (a *Activities) dropArchives(ctx context.Context, launchID string) error {
	var keys []string
	for at, err := range a.Bucket.List(ctx, training.Key(launchID, "")+"/", "") {
		if err != nil {
			return err
		}
		if training.IsArchive(path.Base(at.Key)) {
			keys = append(keys, at.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return a.Bucket.Delete(ctx, keys...)
}

// CheckTraining looks once at a launch: it ends one whose time is over or that
// shall end, and records one that has ended. Its state is running where it is
// to be asked again.
func (a *Activities) CheckTraining(ctx context.Context, in wire.HandOffInput, p wire.HandOffPrepared) (*wire.HandOffOutput, error) {
	var note noter
	defer heartbeat(ctx, beatEvery, note.get)()
	out, err := a.checkTraining(ctx, in, p)
	return out, final(err)
}

func (a *Activities) checkTraining(ctx context.Context, in wire.HandOffInput, p wire.HandOffPrepared) (*wire.HandOffOutput, error) {
	l, err := a.launcher(in, p)
	if err != nil {
		return nil, err
	}
	state, err := a.look(ctx, l, in, p)
	if err != nil {
		return nil, err
	}
	if state.Phase.Final() {
		return a.recordTraining(ctx, p, state)
	}
	return &wire.HandOffOutput{LaunchID: p.LaunchID, State: string(state.Phase), Text: bounded(state.Reason)}, nil
}

// look asks a launcher how a launch is, ends it where it shall end, and holds
// what it says to what the launch left.
func (a *Activities) look(ctx context.Context, l launch.Launcher, in wire.HandOffInput, p wire.HandOffPrepared) (launch.State, error) {
	ref := a.refOf(in, p)
	late := !p.Until.IsZero() && !time.Now().Before(p.Until)
	if late || p.Cancel {
		if err := l.Cancel(ctx, ref); err != nil && !errors.Is(err, launch.ErrUnknownRef) {
			return launch.State{}, err
		}
	}
	state, err := l.Status(ctx, ref)
	switch {
	case errors.Is(err, launch.ErrUnknownRef) && (late || p.Cancel):
		state = launch.State{Phase: launch.Cancelled, Reason: "it was ended before it started"}
	case err != nil:
		return launch.State{}, err
	}
	if _, remote := l.(launch.RemoteLauncher); remote && state.Phase.Final() {
		if state, err = a.judgeRemote(ctx, p, state); err != nil {
			return launch.State{}, err
		}
	}
	told := toldAt(p, late)
	switch {
	case state.Phase == launch.Cancelled && late && !p.Cancel:
		state.Reason = "its time was over: it was to end by " + p.Until.UTC().Format(time.RFC3339)
	case state.Phase == launch.Cancelled && p.Cancel:
		state.Reason = "it was cancelled"
	case !state.Phase.Final() && !told.IsZero() && time.Since(told) > endingGrace:
		state.Phase, state.Reason = launch.Unknown, "it was told to end at "+told.UTC().Format(time.RFC3339)+" and had not an hour later; see "+ref.Where
	}
	return state, nil
}

// judgeRemote reads what a launch on another machine left in the store.
func (a *Activities) judgeRemote(ctx context.Context, p wire.HandOffPrepared, s launch.State) (launch.State, error) {
	bundle, err := a.readBundle(ctx, p.LaunchID)
	if err != nil {
		return s, err
	}
	var result *training.Result
	var why error
	text, _, err := objstore.ReadAll(ctx, a.Bucket, training.Key(p.LaunchID, training.ResultFile), training.MaxResultBytes)
	switch {
	case errors.Is(err, objstore.ErrNotFound):
		why = fmt.Errorf("it left no %s", training.ResultFile)
	case errors.Is(err, objstore.ErrTooLarge):
		why = fmt.Errorf("its %s is too large to be one", training.ResultFile)
	case err != nil:
		return s, fmt.Errorf("read the result: %w", err)
	default:
		result, why = training.ParseResult(text, p.LaunchID)
	}
	return launch.Judge(s, result, why, bundle.View.Rows[datasets.TableTrain]), nil
}

// refOf is the reference of a launch: what its launcher gave, or what a
// launcher finds it by where nobody kept that.
func (a *Activities) refOf(in wire.HandOffInput, p wire.HandOffPrepared) launch.Ref {
	ref := launch.Ref{Launcher: in.Launcher, LaunchID: p.LaunchID, Where: p.Where}
	if ref.Where == "" && in.Launcher == launch.CommandLauncher {
		ref.Where = filepath.Join(a.Trainers.Dir, p.LaunchID)
	}
	return ref
}

// specOf says what a launcher runs.
func (a *Activities) specOf(ctx context.Context, l launch.Launcher, in wire.HandOffInput, p wire.HandOffPrepared) (launch.Spec, error) {
	bundle, err := a.readBundle(ctx, p.LaunchID)
	if err != nil {
		return launch.Spec{}, err
	}
	spec := launch.Spec{Env: in.Env, Rows: bundle.View.Rows[datasets.TableTrain], Deadline: p.Until}
	if _, remote := l.(launch.RemoteLauncher); remote {
		if most := int64(mostRemote / time.Second); in.Timeout > most {
			return spec, invalidRecipe("a time limit of %s: a launch on another machine puts its result by a URL that is signed for %s at most; say at most %s", time.Duration(in.Timeout)*time.Second, urlsLive, mostRemote)
		}
		spec.Remote, err = a.remoteOf(ctx, in.Launcher, bundle)
		return spec, err
	}
	spec.Dir = a.bundleDir(p.LaunchID)
	if err := os.MkdirAll(spec.Dir, 0o700); err != nil {
		return launch.Spec{}, err
	}
	return spec, a.fetchBundle(ctx, p.LaunchID, spec.Dir)
}

// toldAt is when a launch was told to end; zero: it was not.
func toldAt(p wire.HandOffPrepared, late bool) time.Time {
	switch {
	case p.Cancel:
		return p.CancelledAt
	case late:
		return p.Until
	}
	return time.Time{}
}
