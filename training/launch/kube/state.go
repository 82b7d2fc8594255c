package kube

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/rest"
)

const (
	mostPods     = 64      // that are looked at of one launch
	mostLogLines = 20_000  // that are asked for
	mostLog      = 8 << 20 // bytes that are kept at most
)

// field reads a text of an object, whatever the object is.
func field(o map[string]any, path ...string) string {
	s, _, err := unstructured.NestedString(o, path...)
	if err != nil {
		return ""
	}
	return s
}

func when(text string) time.Time {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}

func isCancelled(o *unstructured.Unstructured) bool {
	return o.GetAnnotations()[cancelledAnnotation] == "true"
}

// condition returns an object's condition where it is true.
func condition(o *unstructured.Unstructured, name string) map[string]any {
	all, _, err := unstructured.NestedFieldNoCopy(o.Object, "status", "conditions")
	if err != nil {
		return nil
	}
	list, _ := all.([]any)
	for _, c := range list {
		if c, ok := c.(map[string]any); ok && c["type"] == name && c["status"] == "True" {
			return c
		}
	}
	return nil
}

// conditionState maps the conditions of a Job or a TrainJob. What else they may
// say one day is no end.
func conditionState(o *unstructured.Unstructured) launch.State {
	s := launch.State{Phase: launch.Running, Started: when(field(o.Object, "status", "startTime"))}
	if c := condition(o, "Failed"); c != nil {
		s.Phase, s.Ended = launch.Failed, when(field(c, "lastTransitionTime"))
		s.Reason = o.GetKind() + ": " + reasonOf(c)
		return s
	}
	if c := condition(o, "Complete"); c != nil {
		s.Phase, s.Ended = launch.Succeeded, when(field(c, "lastTransitionTime"))
		return s
	}
	for _, name := range []string{"FailureTarget", "SuccessCriteriaMet"} {
		if c := condition(o, name); c != nil {
			s.Reason = "it is ending: " + reasonOf(c)
			return s
		}
	}
	if c := condition(o, "Suspended"); c != nil {
		s.Reason = "it is suspended and waits"
	}
	return s
}

func reasonOf(c map[string]any) string {
	reason, message := rest.Excerpt(field(c, "reason")), rest.Excerpt(field(c, "message"))
	switch {
	case reason == "" && message == "":
		return "without a reason"
	case reason == "":
		return message
	case message == "":
		return reason
	}
	return reason + ": " + message
}

// rayState maps a RayJob's two statuses: that it is complete tells nothing of
// how the job ended.
func rayState(o *unstructured.Unstructured) launch.State {
	s := launch.State{Phase: launch.Running, Started: when(field(o.Object, "status", "startTime"))}
	deployment, job := field(o.Object, "status", "jobDeploymentStatus"), field(o.Object, "status", "jobStatus")
	why := func(head string) string {
		parts := []string{head}
		for _, name := range []string{"reason", "message"} {
			if text := rest.Excerpt(field(o.Object, "status", name)); text != "" {
				parts = append(parts, text)
			}
		}
		return strings.Join(parts, ": ")
	}
	switch deployment {
	case "Failed", "ValidationFailed":
		s.Phase, s.Reason = launch.Failed, why("RayJob: "+deployment)
	case "Complete":
		switch job {
		case "SUCCEEDED":
			s.Phase = launch.Succeeded
		case "FAILED":
			s.Phase, s.Reason = launch.Failed, why("RayJob: FAILED")
		case "STOPPED":
			s.Phase, s.Reason = launch.Cancelled, "stopped"
		default:
			s.Phase, s.Reason = launch.Unknown, "KubeRay says that it is complete, and of its job "+strconv.Quote(rest.Excerpt(job))
		}
	case "Suspended":
		s.Reason = "it is suspended and waits"
	case "", "Initializing", "Waiting", "Running":
		s.Reason = why(deployment)
		if deployment == "Running" || deployment == "" {
			s.Reason = ""
		}
	default:
		s.Reason = "KubeRay says " + strconv.Quote(rest.Excerpt(deployment))
	}
	if s.Phase.Final() {
		s.Ended = when(field(o.Object, "status", "endTime"))
	}
	return s
}

// cancelled is the state of an object that we suspended: over when its pods are.
func (l *Launcher) cancelled(ctx context.Context, c *cluster, o *unstructured.Unstructured, s launch.State) launch.State {
	if s.Phase.Final() {
		return s
	}
	done := condition(o, "Suspended") != nil || field(o.Object, "status", "jobDeploymentStatus") == "Suspended"
	if done {
		pods, err := l.pods(ctx, c, o.GetName())
		if err != nil {
			pods = nil // the condition alone tells
		}
		done = !slices.ContainsFunc(pods, func(p unstructured.Unstructured) bool {
			phase := field(p.Object, "status", "phase")
			return phase == "Running"
		})
	}
	if !done {
		s.Reason = "it was told to end"
		return s
	}
	return launch.State{Phase: launch.Cancelled, Reason: "cancelled", Started: s.Started}
}

// pods are those of a launch, the newest first.
func (l *Launcher) pods(ctx context.Context, c *cluster, name string) ([]unstructured.Unstructured, error) {
	list, err := c.objects.Resource(podKind.resource).Namespace(l.config.Namespace).List(ctx, metav1.ListOptions{LabelSelector: l.kind.podLabel + "=" + name, Limit: mostPods})
	if err != nil {
		return nil, explain(err, "list", &podKind, l.config.Namespace, nil)
	}
	slices.SortStableFunc(list.Items, func(a, b unstructured.Unstructured) int {
		return b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time)
	})
	return list.Items, nil
}

// addPods tells what the pods of a launch say beyond it: why one waits, and with
// what code one ended. Where we may not see pods, the object alone tells.
func (l *Launcher) addPods(ctx context.Context, c *cluster, launchID string, s *launch.State) {
	pods, err := l.pods(ctx, c, objectName(launchID))
	if err != nil {
		return
	}
	for i := range pods {
		statuses, _, err := unstructured.NestedFieldNoCopy(pods[i].Object, "status", "containerStatuses")
		list, ok := statuses.([]any)
		if err != nil || !ok {
			continue
		}
		for _, status := range list {
			status, ok := status.(map[string]any)
			if !ok || len(list) > 1 && !slices.Contains(trainers, field(status, "name")) {
				continue
			}
			if s.Phase == launch.Running && s.Reason == "" {
				if reason := field(status, "state", "waiting", "reason"); reason != "" && reason != "ContainerCreating" && reason != "PodInitializing" {
					s.Reason = fmt.Sprintf("pod %s waits: %s", rest.Excerpt(pods[i].GetName()), rest.Excerpt(reason+": "+field(status, "state", "waiting", "message")))
				}
			}
			code, found, err := unstructured.NestedInt64(status, "state", "terminated", "exitCode")
			if s.Phase == launch.Failed && l.kind.kind != "RayJob" && s.ExitCode == nil && found && err == nil && code >= 0 && code <= 255 {
				exit := int(code)
				s.ExitCode = &exit
			}
		}
	}
	if s.ExitCode != nil && *s.ExitCode == training.ExitClaimed {
		s.Phase, s.Reason = launch.Unknown, "an earlier run has claimed the launch"
	}
}

// trainers are the containers whose log and exit code are the launch's, where a
// pod has others beside.
var trainers = []string{trainer, "node", "ray-job-submitter"}

// Logs implements [launch.Launcher]. They are those of the newest pod; of a
// RayJob what its submitter repeats of the driver.
func (l *Launcher) Logs(ctx context.Context, ref launch.Ref, tail int) (string, error) {
	if !training.ValidLaunchID(ref.LaunchID) {
		return "", fmt.Errorf("logs of launch: %.80q is no launch id", ref.LaunchID)
	}
	if tail <= 0 {
		return "", nil
	}
	text, err := l.logs(ctx, objectName(ref.LaunchID), min(tail, mostLog))
	if err != nil {
		return "", fmt.Errorf("logs of launch %s: %w", ref.LaunchID, err)
	}
	return text, nil
}

func (l *Launcher) logs(ctx context.Context, name string, tail int) (string, error) {
	c, err := l.connect()
	if err != nil {
		return "", err
	}
	pods, err := l.pods(ctx, c, name)
	if err != nil {
		return "", err
	}
	if len(pods) == 0 {
		return "", fmt.Errorf("%w: no pod in namespace %s has the label %s=%s: it has not started, or its pods are gone", launch.ErrUnknownRef, l.config.Namespace, l.kind.podLabel, name)
	}
	pod := pods[0]
	from, err := c.podLog(ctx, l.config.Namespace, pod.GetName(), containerOf(pod.Object), mostLogLines)
	if err != nil {
		return "", explain(err, "get", &podLogKind, l.config.Namespace, nil)
	}
	defer from.Close()
	text, err := lastBytes(from, tail+1)
	if err != nil {
		return "", fmt.Errorf("read the log of pod %s: %w", rest.Excerpt(pod.GetName()), err)
	}
	return rest.LastLines(text, tail), nil
}

// containerOf names the container of a pod that trains.
func containerOf(pod map[string]any) string {
	all, _, err := unstructured.NestedFieldNoCopy(pod, "spec", "containers")
	if err != nil {
		return ""
	}
	list, _ := all.([]any)
	first := ""
	for _, c := range list {
		c, ok := c.(map[string]any)
		if !ok {
			continue
		}
		name := field(c, "name")
		if slices.Contains(trainers, name) {
			return name
		}
		if first == "" {
			first = name
		}
	}
	return first
}

// lastBytes reads to the end and keeps the last n bytes.
func lastBytes(r io.Reader, n int) ([]byte, error) {
	var keep []byte
	chunk := make([]byte, 32<<10)
	for {
		got, err := r.Read(chunk)
		keep = append(keep, chunk[:got]...)
		if len(keep) > 2*n+len(chunk) {
			keep = append(keep[:0], keep[len(keep)-n:]...)
		}
		if err == io.EOF {
			return keep[max(0, len(keep)-n):], nil
		}
		if err != nil {
			return nil, err
		}
	}
}
