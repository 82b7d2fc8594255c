// Package kube runs launches on Kubernetes: as a plain Job, as a TrainJob of
// Kubeflow Trainer v2, or as a RayJob of KubeRay, by the dynamic client.
//
// An object is named by its launch, and the API server takes a name once. What
// makes a launch start once: a create that is refused as existing adopts the
// object where its annotation holds the launch id, and fails where it doesn't;
// nothing is started again by the cluster (backoffLimit 0); and the bundle claims
// the launch before it trains, which also covers an object that was deleted.
//
// The URLs of a launch are in a Secret that the object owns and that goes with
// it. The object comes first, for only it has the identity that the Secret is
// owned by; its pods wait for the Secret. Whoever may read Secrets, or run pods,
// in the namespace may read the URLs.
//
// A cancelled launch is suspended, not deleted: its name stays taken, so that it
// can't start after all.
package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

// Name of the launcher in references.
const Name = "kubernetes"

const (
	// idAnnotation holds the whole launch id; a label has no room for it.
	idAnnotation = "stillhouse-data.github.io/launch-id"
	// cancelledAnnotation tells a launch that we suspended from one that waits in
	// a queue, which others make by suspending as well.
	cancelledAnnotation = "stillhouse-data.github.io/cancelled"
	managedBy           = "app.kubernetes.io/managed-by"
	owner               = "stillhouse"
)

// ErrForeign: an object of a launch's name is none of ours.
var ErrForeign = errors.New("an object of this name is not of this launch")

// errGone: the cluster answers, and has no such object.
var errGone = errors.New("the cluster has no such object")

// A Launcher runs launches as objects of one kind in one namespace.
type Launcher struct {
	kind    *kind
	config  Config
	connect func() (*cluster, error)
	now     func() time.Time
}

var _ launch.RemoteLauncher = (*Launcher)(nil)

// NewJob runs launches as plain Jobs (batch/v1); the cluster is not asked yet.
func NewJob(c Config) (*Launcher, error) { return newLauncher(&jobKind, c) }

// NewTrainJob runs launches as TrainJobs (trainer.kubeflow.org/v1alpha1).
func NewTrainJob(c Config) (*Launcher, error) { return newLauncher(&trainJobKind, c) }

// NewRayJob runs launches as RayJobs (ray.io/v1), each on a cluster of its own.
func NewRayJob(c Config) (*Launcher, error) { return newLauncher(&rayJobKind, c) }

func newLauncher(k *kind, c Config) (*Launcher, error) {
	if err := c.check(k); err != nil {
		return nil, fmt.Errorf("%s: %w", k.kind, err)
	}
	l := &Launcher{kind: k, config: c, now: time.Now}
	l.connect = connectOnce(&l.config)
	// What can't be put into a template is told now, not when a launch is ready.
	probe := launch.Spec{Remote: &launch.Remote{}}
	if _, err := l.manifest("", &probe); err != nil {
		return nil, fmt.Errorf("%s: template: %w", k.kind, err)
	}
	return l, nil
}

// Remote implements [launch.RemoteLauncher].
func (*Launcher) Remote() {}

// objectName is the same for every submission of a launch. It has 128 bits of
// its id, and room for what KubeRay and JobSet append (47 characters at most).
func objectName(launchID string) string {
	return "stillhouse-" + launchID[:min(32, len(launchID))]
}

// Submit implements [launch.Launcher].
func (l *Launcher) Submit(ctx context.Context, launchID string, spec launch.Spec) (launch.Ref, error) {
	if !training.ValidLaunchID(launchID) {
		return launch.Ref{}, fmt.Errorf("submit launch: %.80q is no launch id", launchID)
	}
	if spec.Remote == nil {
		return launch.Ref{}, fmt.Errorf("submit launch %s to kubernetes: it has no URLs", launchID)
	}
	if err := l.submit(ctx, launchID, &spec); err != nil {
		return launch.Ref{}, fmt.Errorf("submit launch %s as %s %s/%s: %w", launchID, l.kind.kind, l.config.Namespace, objectName(launchID), err)
	}
	return launch.Ref{Launcher: Name, LaunchID: launchID, Where: l.kind.resource.Resource + "/" + objectName(launchID) + " -n " + l.config.Namespace}, nil
}

func (l *Launcher) submit(ctx context.Context, launchID string, spec *launch.Spec) error {
	c, err := l.connect()
	if err != nil {
		return err
	}
	object, err := l.create(ctx, c, launchID, spec)
	if err != nil {
		return err
	}
	if l.kind.state(object).Phase.Final() || isCancelled(object) || object.GetDeletionTimestamp() != nil {
		return nil // it was started before, and must not start now
	}
	return l.giveSecrets(ctx, c, object, launchID, spec)
}

// create makes the object, or adopts the one that an earlier submission made.
func (l *Launcher) create(ctx context.Context, c *cluster, launchID string, spec *launch.Spec) (*unstructured.Unstructured, error) {
	object, err := l.get(ctx, c, launchID)
	if !errors.Is(err, errGone) {
		return object, err
	}
	manifest, err := l.manifest(launchID, spec)
	if err != nil {
		return nil, err
	}
	// A field that the cluster does not know is an error, not dropped in silence.
	options := metav1.CreateOptions{FieldManager: owner, FieldValidation: metav1.FieldValidationStrict}
	objects := c.objects.Resource(l.kind.resource).Namespace(l.config.Namespace)
	object, refused := objects.Create(ctx, manifest, options)
	if refused != nil && strings.Contains(refused.Error(), `unknown field "spec.activeDeadlineSeconds"`) {
		// Early releases of Trainer have none. Whoever follows the launch ends it.
		unstructured.RemoveNestedField(manifest.Object, "spec", "activeDeadlineSeconds")
		object, refused = objects.Create(ctx, manifest, options)
	}
	if refused == nil {
		return object, nil
	}
	refused = explain(refused, "create", l.kind, l.config.Namespace, spec.Redact)
	// It may be there all the same: the answer was lost, or somebody was faster.
	object, err = l.get(ctx, c, launchID)
	switch {
	case err == nil:
		return object, nil
	case errors.Is(err, errGone):
		return nil, refused
	case errors.Is(err, ErrForeign):
		return nil, err
	}
	return nil, errors.Join(refused, err)
}

// giveSecrets makes the Secret that the pods wait for.
func (l *Launcher) giveSecrets(ctx context.Context, c *cluster, object *unstructured.Unstructured, launchID string, spec *launch.Spec) error {
	secrets := c.objects.Resource(secretResource).Namespace(l.config.Namespace)
	_, err := secrets.Create(ctx, l.secret(object, launchID, spec), metav1.CreateOptions{FieldManager: owner})
	if !apierrors.IsAlreadyExists(err) {
		return explain(err, "create", &secretKind, l.config.Namespace, spec.Redact)
	}
	found, err := secrets.Get(ctx, objectName(launchID), metav1.GetOptions{})
	if err != nil {
		return explain(err, "get", &secretKind, l.config.Namespace, spec.Redact)
	}
	if found.GetAnnotations()[idAnnotation] != launchID {
		return fmt.Errorf("secret %s/%s: %w; delete or rename it", l.config.Namespace, found.GetName(), ErrForeign)
	}
	for _, o := range found.GetOwnerReferences() {
		if o.UID == object.GetUID() {
			return nil
		}
	}
	return fmt.Errorf("secret %s/%s belongs to a deleted %s of the same launch, and goes with it in a moment; submit again", l.config.Namespace, found.GetName(), l.kind.kind)
}

// get reads a launch's object. errGone: there is none.
func (l *Launcher) get(ctx context.Context, c *cluster, launchID string) (*unstructured.Unstructured, error) {
	object, err := c.objects.Resource(l.kind.resource).Namespace(l.config.Namespace).Get(ctx, objectName(launchID), metav1.GetOptions{})
	if apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse) {
		return nil, errGone
	}
	if err != nil {
		return nil, explain(err, "get", l.kind, l.config.Namespace, nil)
	}
	if object.GetAnnotations()[idAnnotation] != launchID {
		return nil, fmt.Errorf("%w: %s %s/%s has no annotation %s with its id; delete it if nobody needs it", ErrForeign, l.kind.kind, l.config.Namespace, objectName(launchID), idAnnotation)
	}
	return object, nil
}

// Status implements [launch.Launcher].
func (l *Launcher) Status(ctx context.Context, ref launch.Ref) (launch.State, error) {
	c, object, err := l.find(ctx, ref)
	if errors.Is(err, errGone) {
		return launch.State{Phase: launch.Unknown, Reason: fmt.Sprintf("the cluster has no %s %s/%s any more: it was deleted, or its time to live is over", l.kind.kind, l.config.Namespace, objectName(ref.LaunchID))}, nil
	}
	if err != nil {
		return launch.State{}, fmt.Errorf("status of launch %.80s: %w", ref.LaunchID, err)
	}
	s := l.kind.state(object)
	if isCancelled(object) {
		s = l.cancelled(ctx, c, object, s)
	}
	if s.Phase == launch.Running || s.Phase == launch.Failed {
		l.addPods(ctx, c, ref.LaunchID, &s)
	}
	return s, nil
}

// find connects and reads a launch's object.
func (l *Launcher) find(ctx context.Context, ref launch.Ref) (*cluster, *unstructured.Unstructured, error) {
	if !training.ValidLaunchID(ref.LaunchID) {
		return nil, nil, errors.New("it is no launch id")
	}
	c, err := l.connect()
	if err != nil {
		return nil, nil, err
	}
	object, err := l.get(ctx, c, ref.LaunchID)
	return c, object, err
}

// Cancel implements [launch.Launcher]. The object is suspended, which ends its
// pods, and marked, so that nobody takes it for one that waits; the Secret goes.
func (l *Launcher) Cancel(ctx context.Context, ref launch.Ref) error {
	if err := l.cancel(ctx, ref); err != nil {
		return fmt.Errorf("cancel launch %.80s: %w", ref.LaunchID, err)
	}
	return nil
}

func (l *Launcher) cancel(ctx context.Context, ref launch.Ref) error {
	c, object, err := l.find(ctx, ref)
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	if l.kind.state(object).Phase.Final() || object.GetDeletionTimestamp() != nil {
		return nil
	}
	objects := c.objects.Resource(l.kind.resource).Namespace(l.config.Namespace)
	if !isCancelled(object) {
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": object.GetUID(), "annotations": map[string]any{cancelledAnnotation: "true"}},
			"spec":     map[string]any{"suspend": true},
		})
		if err != nil {
			return err
		}
		if _, err := objects.Patch(ctx, object.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: owner}); err != nil && !apierrors.IsNotFound(err) {
			return explain(err, "patch", l.kind, l.config.Namespace, nil)
		}
	}
	err = c.objects.Resource(secretResource).Namespace(l.config.Namespace).Delete(ctx, objectName(ref.LaunchID), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return explain(err, "delete", &secretKind, l.config.Namespace, nil)
	}
	return nil
}
