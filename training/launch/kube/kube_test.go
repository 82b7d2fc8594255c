package kube

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

var (
	id    = strings.Repeat("0a", 32)
	later = strings.Repeat("0a", 31) + "0b" // the same name, another launch
)

const secretURL = "https://store.example/claim?X-Amz-Signature=s3cr3t"

func spec() launch.Spec {
	return launch.Spec{Remote: &launch.Remote{
		BundleURL: "https://store.example/bundle?X-Amz-Signature=s3cr3t", BundleSHA256: strings.Repeat("1", 64),
		ClaimURL: secretURL, ResultURL: "https://store.example/result?X-Amz-Signature=s3cr3t",
	}, Set: map[string]string{"NOTE": "$(HOME) costs $5"}}
}

// world is a launcher on client-go's fake, whose server numbers its objects.
type world struct {
	*Launcher
	fake *fake.FakeDynamicClient
	log  string // of every pod
	uid  int
}

func newWorld(t *testing.T, make func(Config) (*Launcher, error), c Config) *world {
	t.Helper()
	if c.Namespace == "" {
		c.Namespace = "training"
	}
	l, err := make(c)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Launcher: l, fake: fake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
		jobKind.resource: "JobList", trainJobKind.resource: "TrainJobList", rayJobKind.resource: "RayJobList",
		podKind.resource: "PodList", secretResource: "SecretList",
	})}
	w.fake.PrependReactor("create", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if create, ok := a.(clienttesting.CreateAction); ok {
			if o, ok := create.GetObject().(*unstructured.Unstructured); ok && o.GetUID() == "" {
				w.uid++
				o.SetUID(types.UID(fmt.Sprint("uid-", w.uid)))
			}
		}
		return false, nil, nil
	})
	l.connect = func() (*cluster, error) {
		return &cluster{objects: w.fake, podLog: func(context.Context, string, string, string, int64) (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(w.log)), nil
		}}, nil
	}
	return w
}

func kinds(t *testing.T) map[string]*world {
	return map[string]*world{
		"Job":      newWorld(t, NewJob, Config{Image: "trl:1", Resources: map[string]string{"nvidia.com/gpu": "8"}}),
		"TrainJob": newWorld(t, NewTrainJob, Config{Runtime: "torch-distributed"}),
		"RayJob":   newWorld(t, NewRayJob, Config{Image: "ray:2", Nodes: 3}),
	}
}

func (w *world) object(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	o, err := w.fake.Resource(w.kind.resource).Namespace("training").Get(t.Context(), objectName(id), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func (w *world) secretObject(t *testing.T) (*unstructured.Unstructured, error) {
	t.Helper()
	return w.fake.Resource(secretResource).Namespace("training").Get(t.Context(), objectName(id), metav1.GetOptions{})
}

func (w *world) setStatus(t *testing.T, status string) {
	t.Helper()
	o := w.object(t)
	s, err := decode([]byte(status))
	if err != nil {
		t.Fatal(err)
	}
	o.Object["status"] = s
	if _, err := w.fake.Resource(w.kind.resource).Namespace("training").Update(t.Context(), o, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func (w *world) addPod(t *testing.T, name, status string) {
	t.Helper()
	s, err := decode([]byte(status))
	if err != nil {
		t.Fatal(err)
	}
	pod := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Pod", "status": s,
		"metadata": map[string]any{"name": name, "namespace": "training", "labels": map[string]any{w.kind.podLabel: objectName(id)}},
		"spec":     map[string]any{"containers": []any{map[string]any{"name": "istio-proxy"}, map[string]any{"name": trainer}}},
	}}
	if _, err := w.fake.Resource(podKind.resource).Namespace("training").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func ref() launch.Ref { return launch.Ref{Launcher: Name, LaunchID: id} }

func count(w *world, verb, resource string) (n int) {
	for _, a := range w.fake.Actions() {
		if a.Matches(verb, resource) {
			n++
		}
	}
	return n
}

// A launch becomes one object that holds no secret, and a Secret that it owns.
func TestSubmit(t *testing.T) {
	for name, w := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			for range 3 {
				got, err := w.Submit(t.Context(), id, spec())
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(got.Where, objectName(id)) {
					t.Errorf("it is at %q", got.Where)
				}
			}
			if n := count(w, "create", w.kind.resource.Resource); n != 1 {
				t.Errorf("%d objects were created", n)
			}
			o := w.object(t)
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(text), "s3cr3t") || strings.Contains(string(text), "store.example") {
				t.Errorf("the object holds a URL: %s", text)
			}
			for _, want := range []string{launch.EnvClaimURL, `"secretKeyRef"`, strings.Repeat("1", 64), `$$(HOME) costs $$5`} {
				if !strings.Contains(string(text), want) {
					t.Errorf("the object has no %s: %s", want, text)
				}
			}
			if len(o.GetName()) > 47 || !dnsLabel.MatchString(o.GetName()) || o.GetName()[0] < 'a' {
				t.Errorf("its name is %q", o.GetName())
			}
			s, err := w.secretObject(t)
			if err != nil {
				t.Fatal(err)
			}
			if v, _, _ := unstructured.NestedString(s.Object, "stringData", launch.EnvClaimURL); v != secretURL {
				t.Errorf("the secret holds %q", v)
			}
			if owners := s.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != o.GetUID() || owners[0].Kind != name {
				t.Errorf("the secret is owned by %v", owners)
			}
		})
	}
}

// What starts a Job never starts it twice, and its script reaches the shell as
// it is.
func TestJobRunsOnce(t *testing.T) {
	w := newWorld(t, NewJob, Config{Image: "trl:1", TimeLimit: time.Hour})
	if _, err := w.Submit(t.Context(), id, spec()); err != nil {
		t.Fatal(err)
	}
	s, _, err := unstructured.NestedMap(w.object(t).Object, "spec")
	if err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"backoffLimit": 0, "completions": 1, "parallelism": 1, "activeDeadlineSeconds": 3600, "ttlSecondsAfterFinished": 604800} {
		if s[key] != want {
			t.Errorf("%s is %v, want %d", key, s[key], want)
		}
	}
	if got := field(s, "template", "spec", "restartPolicy"); got != "Never" {
		t.Errorf("restartPolicy is %q", got)
	}
	pod, _, _ := unstructured.NestedMap(s, "template", "spec")
	c, err := trainerOf(pod, trainer)
	if err != nil {
		t.Fatal(err)
	}
	args, _ := c["args"].([]any)
	if len(args) != 2 || strings.ReplaceAll(fmt.Sprint(args[1]), "$$", "$") != training.BootstrapScript {
		t.Errorf("its arguments are %q", args)
	}
}

// RayJobs have two plain words for Ray's shells, and all groups know the launch.
func TestRayJobEntrypoint(t *testing.T) {
	w := newWorld(t, NewRayJob, Config{Image: "ray:2", Nodes: 3})
	if _, err := w.Submit(t.Context(), id, spec()); err != nil {
		t.Fatal(err)
	}
	o := w.object(t).Object
	if got := field(o, "spec", "entrypoint"); got != "/bin/sh /stillhouse/bootstrap.sh" {
		t.Errorf("entrypoint is %q", got)
	}
	if got := field(o, "spec", "jobId"); got != id {
		t.Errorf("jobId is %q", got)
	}
	text, _ := json.Marshal(o)
	if n := strings.Count(string(text), `"secretName"`); n != 2 {
		t.Errorf("the secret is mounted by %d groups", n)
	}
	if !strings.Contains(string(text), `"replicas":2`) {
		t.Error("of 3 nodes there are not 2 workers")
	}
}

// A worker that died after the object and before its Secret leaves a launch that
// the next submission completes.
func TestSubmitCompletes(t *testing.T) {
	for name, w := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			died := errors.New("connection reset")
			w.fake.PrependReactor("create", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
				if died != nil {
					return true, nil, died
				}
				return false, nil, nil
			})
			if _, err := w.Submit(t.Context(), id, spec()); err == nil {
				t.Fatal("it did not tell")
			}
			died = nil
			if _, err := w.Submit(t.Context(), id, spec()); err != nil {
				t.Fatal(err)
			}
			if n := count(w, "create", w.kind.resource.Resource); n != 1 {
				t.Errorf("%d objects", n)
			}
			if _, err := w.secretObject(t); err != nil {
				t.Error(err)
			}
		})
	}
}

// A lost answer to a create that was carried out is no failure; a create that
// was not is, and quotes no URL.
func TestLostAnswers(t *testing.T) {
	for _, carried := range []bool{true, false} {
		w := newWorld(t, NewJob, Config{Image: "trl:1"})
		w.fake.PrependReactor("create", "jobs", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if carried {
				create, _ := a.(clienttesting.CreateAction)
				if err := w.fake.Tracker().Create(jobKind.resource, create.GetObject(), "training"); err != nil {
					return true, nil, err
				}
			}
			return true, nil, fmt.Errorf("read tcp: reset while %s", secretURL)
		})
		_, err := w.Submit(t.Context(), id, spec())
		if carried != (err == nil) {
			t.Errorf("carried out %v: %v", carried, err)
		}
		if err != nil && strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("the error quotes a URL: %v", err)
		}
	}
}

// An object of the same name that is not of this launch is never adopted,
// cancelled or told of.
func TestForeign(t *testing.T) {
	for name, w := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			if _, err := w.Submit(t.Context(), later, spec()); err != nil {
				t.Fatal(err)
			}
			if _, err := w.Submit(t.Context(), id, spec()); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), idAnnotation) {
				t.Errorf("submit: %v", err)
			}
			if _, err := w.Status(t.Context(), ref()); !errors.Is(err, ErrForeign) {
				t.Errorf("status: %v", err)
			}
			if err := w.Cancel(t.Context(), ref()); !errors.Is(err, ErrForeign) {
				t.Errorf("cancel: %v", err)
			}
			if n := count(w, "patch", "*") + count(w, "delete", "*"); n != 0 {
				t.Errorf("it was changed %d times", n)
			}
		})
	}
}

// A Secret that somebody else made is not used.
func TestForeignSecret(t *testing.T) {
	w := newWorld(t, NewJob, Config{Image: "trl:1"})
	s := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret"}}
	s.SetName(objectName(id))
	if _, err := w.fake.Resource(secretResource).Namespace("training").Create(t.Context(), s, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Submit(t.Context(), id, spec()); !errors.Is(err, ErrForeign) {
		t.Errorf("%v", err)
	}
}

// A cancelled launch keeps its name, so that it can't start after all.
func TestCancel(t *testing.T) {
	for name, w := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			if err := w.Cancel(t.Context(), ref()); err != nil {
				t.Errorf("nothing to cancel: %v", err)
			}
			if _, err := w.Submit(t.Context(), id, spec()); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := w.Cancel(t.Context(), ref()); err != nil {
					t.Fatal(err)
				}
			}
			if on, _, _ := unstructured.NestedBool(w.object(t).Object, "spec", "suspend"); !on {
				t.Error("it is not suspended")
			}
			if s, err := w.Status(t.Context(), ref()); err != nil || s.Phase != launch.Running {
				t.Errorf("before the cluster has suspended it: %+v, %v", s, err)
			}
			w.setStatus(t, `{"jobDeploymentStatus":"Suspended","conditions":[{"type":"Suspended","status":"True"}]}`)
			if s, err := w.Status(t.Context(), ref()); err != nil || s.Phase != launch.Cancelled {
				t.Errorf("after: %+v, %v", s, err)
			}
			if _, err := w.Submit(t.Context(), id, spec()); err != nil {
				t.Fatal(err)
			}
			if _, err := w.secretObject(t); !apierrors.IsNotFound(err) {
				t.Errorf("the secret of a cancelled launch: %v", err)
			}
		})
	}
}

// What others suspend, such as Kueue, waits and is not cancelled.
func TestSuspendedByOthers(t *testing.T) {
	for name, w := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			if _, err := w.Submit(t.Context(), id, spec()); err != nil {
				t.Fatal(err)
			}
			w.setStatus(t, `{"jobDeploymentStatus":"Suspended","conditions":[{"type":"Suspended","status":"True"}]}`)
			if s, err := w.Status(t.Context(), ref()); err != nil || s.Phase != launch.Running || !strings.Contains(s.Reason, "waits") {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}

func TestStates(t *testing.T) {
	for _, tc := range []struct {
		kind, status string
		phase        launch.Phase
		reason       string
	}{
		{"Job", `{}`, launch.Running, ""},
		{"Job", `{"conditions":[{"type":"SuccessCriteriaMet","status":"True"}]}`, launch.Running, "ending"},
		{"Job", `{"conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}`, launch.Succeeded, ""},
		{"Job", `{"conditions":[{"type":"Complete","status":"False"}]}`, launch.Running, ""},
		{"Job", `{"conditions":[{"type":"FailureTarget","status":"True","reason":"DeadlineExceeded"}]}`, launch.Running, "DeadlineExceeded"},
		{"Job", `{"conditions":[{"type":"Failed","status":"True","reason":"BackoffLimitExceeded","message":"no\u001b[2J more"}]}`, launch.Failed, "BackoffLimitExceeded: no[2J more"},
		{"Job", `{"conditions":"none"}`, launch.Running, ""},
		{"Job", `{"conditions":[1,null,{"type":7}]}`, launch.Running, ""},
		{"TrainJob", `{"conditions":[{"type":"Complete","status":"True"}]}`, launch.Succeeded, ""},
		{"TrainJob", `{"conditions":[{"type":"Failed","status":"True","reason":"TrainingRuntimeNotSupported"}]}`, launch.Failed, "TrainingRuntimeNotSupported"},
		{"RayJob", `{}`, launch.Running, ""},
		{"RayJob", `{"jobDeploymentStatus":"Initializing"}`, launch.Running, "Initializing"},
		{"RayJob", `{"jobDeploymentStatus":"Running","jobStatus":"SUCCEEDED"}`, launch.Running, ""},
		{"RayJob", `{"jobDeploymentStatus":"Retrying"}`, launch.Running, "Retrying"},
		{"RayJob", `{"jobDeploymentStatus":"Complete","jobStatus":"SUCCEEDED"}`, launch.Succeeded, ""},
		{"RayJob", `{"jobDeploymentStatus":"Complete","jobStatus":"FAILED","message":"exit 1"}`, launch.Failed, "exit 1"},
		{"RayJob", `{"jobDeploymentStatus":"Complete","jobStatus":"STOPPED"}`, launch.Cancelled, "stopped"},
		{"RayJob", `{"jobDeploymentStatus":"Complete"}`, launch.Unknown, "complete"},
		{"RayJob", `{"jobDeploymentStatus":"Failed","reason":"DeadlineExceeded"}`, launch.Failed, "DeadlineExceeded"},
		{"RayJob", `{"jobDeploymentStatus":"ValidationFailed","message":"bad name"}`, launch.Failed, "bad name"},
		{"RayJob", `{"jobDeploymentStatus":["Failed"]}`, launch.Running, ""},
		{"RayJob", `[]`, launch.Running, ""},
	} {
		var status any
		if err := json.Unmarshal([]byte(tc.status), &status); err != nil {
			t.Fatal(err)
		}
		k := map[string]*kind{"Job": &jobKind, "TrainJob": &trainJobKind, "RayJob": &rayJobKind}[tc.kind]
		s := k.state(&unstructured.Unstructured{Object: map[string]any{"kind": tc.kind, "status": status}})
		if s.Phase != tc.phase || !strings.Contains(s.Reason, tc.reason) {
			t.Errorf("%s %s: %s %q, want %s %q", tc.kind, tc.status, s.Phase, s.Reason, tc.phase, tc.reason)
		}
	}
}

// Pods tell why a launch waits, with which code it ended, and what it said.
func TestPods(t *testing.T) {
	w := newWorld(t, NewJob, Config{Image: "trl:1"})
	if _, err := w.Submit(t.Context(), id, spec()); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Logs(t.Context(), ref(), 100); !errors.Is(err, launch.ErrUnknownRef) {
		t.Errorf("no pod: %v", err)
	}
	w.addPod(t, "one", `{"containerStatuses":[{"name":"trainer","state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}},{"name":"istio-proxy","state":{"terminated":{"exitCode":9}}}]}`)
	if s, err := w.Status(t.Context(), ref()); err != nil || s.Phase != launch.Running || !strings.Contains(s.Reason, "ImagePullBackOff: no such image") {
		t.Errorf("%+v, %v", s, err)
	}
	w.setStatus(t, `{"conditions":[{"type":"Failed","status":"True"}]}`)
	w.addPod(t, "two", `{"containerStatuses":[{"name":"trainer","state":{"terminated":{"exitCode":75}}}]}`)
	if s, err := w.Status(t.Context(), ref()); err != nil || s.Phase != launch.Unknown || s.ExitCode == nil || *s.ExitCode != training.ExitClaimed {
		t.Errorf("a second run: %+v, %v", s, err)
	}
	w.log = strings.Repeat("x", 300_000) + "\nloss \x1b[31m1.5\xff\n" + secretURL + "\n"
	got, err := w.Logs(t.Context(), ref(), 80)
	if err != nil || got != "loss [31m1.5\nhttps://store.example/claim?*\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// Without rights the error names what to allow; with the object gone nobody
// knows how it ended.
func TestRefusals(t *testing.T) {
	w := newWorld(t, NewTrainJob, Config{Runtime: "torch-distributed"})
	refuse := func(verb, resource string, err error) {
		w.fake.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
	}
	if s, err := w.Status(t.Context(), ref()); err != nil || s.Phase != launch.Unknown || !strings.Contains(s.Reason, "deleted") {
		t.Errorf("gone: %+v, %v", s, err)
	}
	refuse("create", "trainjobs", apierrors.NewForbidden(trainJobKind.resource.GroupResource(), "", errors.New("account x")))
	if _, err := w.Submit(t.Context(), id, spec()); err == nil || !strings.Contains(err.Error(), "may not create trainjobs.trainer.kubeflow.org in namespace training") {
		t.Errorf("%v", err)
	}
	refuse("get", "trainjobs", apierrors.NewGenericServerResponse(404, "get", trainJobKind.resource.GroupResource(), objectName(id), "404 page not found", 0, true))
	if _, err := w.Status(t.Context(), ref()); err == nil || !strings.Contains(err.Error(), "install Kubeflow Trainer") {
		t.Errorf("a cluster without TrainJobs: %v", err)
	}
	refuse("get", "trainjobs", context.Canceled)
	if _, err := w.Status(t.Context(), ref()); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
