package kube

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/launch/kube"
)

var spec = launch.Spec{Remote: &launch.Remote{
	BundleURL: "https://store.example/bundle?sig=s3cr3t", BundleSHA256: strings.Repeat("1", 64),
	ClaimURL: "https://store.example/claim?sig=s3cr3t", ResultURL: "https://store.example/result?sig=s3cr3t",
}}

// newLauncher makes the launcher of a kind.
func newLauncher(kind, config string, change func(*kube.Config)) (*kube.Launcher, error) {
	c := kube.Config{Kubeconfig: config, Namespace: "training"}
	make := kube.NewJob
	switch kind {
	case "Job":
		c.Image, c.Resources = "trl:1", map[string]string{"nvidia.com/gpu": "8"}
	case "TrainJob":
		make, c.Runtime, c.Resources = kube.NewTrainJob, "torch-distributed", map[string]string{"nvidia.com/gpu": "8"}
	case "RayJob":
		make, c.Image, c.Nodes, c.RayVersion = kube.NewRayJob, "ray:2", 3, "2.60.0"
	}
	if change != nil {
		change(&c)
	}
	return make(c)
}

func launcher(t *testing.T, kind string, change func(*kube.Config)) *kube.Launcher {
	t.Helper()
	l, err := newLauncher(kind, kubeconfig(t), change)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// idOf is a launch id of a test's own.
func idOf(t *testing.T, more ...any) string {
	sum := sha256.Sum256([]byte(t.Name() + fmt.Sprint(more...)))
	return hex.EncodeToString(sum[:])
}

func name(id string) string { return "stillhouse-" + id[:32] }

func object(t *testing.T, kind, id string) *unstructured.Unstructured {
	t.Helper()
	o, err := api.Resource(resources[kind]).Namespace("training").Get(t.Context(), name(id), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func setStatus(t *testing.T, kind, id, status string) {
	t.Helper()
	patch := `{"status":` + status + `}`
	if _, err := api.Resource(resources[kind]).Namespace("training").Patch(t.Context(), name(id), types.MergePatchType, []byte(patch), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
}

func each(t *testing.T, test func(t *testing.T, kind string)) {
	for kind := range resources {
		t.Run(kind, func(t *testing.T) {
			front.reset(nil)
			test(t, kind)
		})
	}
}

// Submitted at once from sixteen sides, and again, a launch is one object.
func TestSubmittedOnce(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		created := 0
		var mu sync.Mutex
		front.reset(func(method, path string) bool {
			mu.Lock()
			defer mu.Unlock()
			if method == http.MethodPost && strings.HasPrefix(path, "/apis/") {
				created++
			}
			return true
		})
		id := idOf(t)
		var all sync.WaitGroup
		for range 16 {
			l := launcher(t, kind, nil)
			all.Go(func() {
				if _, err := l.Submit(t.Context(), id, spec); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		o := object(t, kind, id)
		if _, err := launcher(t, kind, nil).Submit(t.Context(), id, spec); err != nil {
			t.Error(err)
		}
		if again := object(t, kind, id); again.GetUID() != o.GetUID() || again.GetResourceVersion() != o.GetResourceVersion() {
			t.Error("a later submission changed it")
		}
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "s3cr3t") {
			t.Errorf("it holds a URL: %s", text)
		}
		secret := unstructured.Unstructured{Object: front.secret(name(id))}
		if owners := secret.GetOwnerReferences(); len(owners) != 1 || owners[0].UID != o.GetUID() {
			t.Errorf("its secret is owned by %v", owners)
		}
		if created == 0 {
			t.Error("nothing went through the proxy")
		}
	})
}

// Whatever request's answer is lost, the next submission finds one object.
func TestLostAnswers(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		for lose := range 3 { // get, create, secret
			id := idOf(t, lose)
			n := 0
			var mu sync.Mutex
			front.reset(func(string, string) bool {
				mu.Lock()
				defer mu.Unlock()
				n++
				return n != lose+1
			})
			l := launcher(t, kind, nil)
			_, first := l.Submit(t.Context(), id, spec)
			if first != nil && strings.Contains(first.Error(), "s3cr3t") {
				t.Errorf("the error quotes a URL: %v", first)
			}
			if _, err := l.Submit(t.Context(), id, spec); err != nil {
				t.Errorf("request %d lost: %v, then %v", lose, first, err)
			}
			if front.secret(name(id)) == nil {
				t.Errorf("request %d lost: it has no secret", lose)
			}
			object(t, kind, id)
		}
	})
}

// child submits in a process of its own, which the test kills.
func child() {
	l, err := newLauncher(os.Getenv("STILLHOUSE_KUBE_CHILD"), os.Getenv("STILLHOUSE_KUBE_CONFIG"), nil)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := l.Submit(context.Background(), os.Getenv("STILLHOUSE_KUBE_LAUNCH"), spec); err != nil {
		log.Fatal(err)
	}
}

// A process that is killed by kill -9 when its object was created, and before it
// knows, leaves a launch that the next one adopts and completes.
func TestKilledBetweenCreateAndRecord(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	each(t, func(t *testing.T, kind string) {
		config := kubeconfig(t)
		for round := range 10 {
			id := idOf(t, round)
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), "STILLHOUSE_KUBE_CHILD="+kind, "STILLHOUSE_KUBE_CONFIG="+config, "STILLHOUSE_KUBE_LAUNCH="+id)
			created := make(chan struct{})
			killed := make(chan struct{})
			var once sync.Once
			front.reset(func(method, path string) bool {
				if method != http.MethodPost || !strings.HasPrefix(path, "/apis/") {
					return true
				}
				once.Do(func() { close(created) })
				<-killed
				return false
			})
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			<-created
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Fatal("it was not killed")
			}
			close(killed)
			first := object(t, kind, id)
			if front.secret(name(id)) != nil {
				t.Fatal("it was killed too late")
			}
			front.reset(nil)
			if _, err := launcher(t, kind, nil).Submit(t.Context(), id, spec); err != nil {
				t.Fatal(err)
			}
			if object(t, kind, id).GetUID() != first.GetUID() || front.secret(name(id)) == nil {
				t.Error("it was not adopted and completed")
			}
		}
	})
}

// A stranger's object of the launch's name is refused, and left as it is.
func TestForeign(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		id := idOf(t)
		l := launcher(t, kind, nil)
		other := id[:63] + string("0123456789abcdef0"[strings.IndexByte("0123456789abcdef", id[63])+1])
		if _, err := l.Submit(t.Context(), other, spec); err != nil {
			t.Fatal(err)
		}
		before := object(t, kind, id)
		if _, err := l.Submit(t.Context(), id, spec); !errors.Is(err, kube.ErrForeign) {
			t.Errorf("submit: %v", err)
		}
		if err := l.Cancel(t.Context(), launch.Ref{LaunchID: id}); !errors.Is(err, kube.ErrForeign) {
			t.Errorf("cancel: %v", err)
		}
		if object(t, kind, id).GetResourceVersion() != before.GetResourceVersion() {
			t.Error("it was changed")
		}
	})
}

// What the server's schema refuses is told by its field; a misspelt one is not
// dropped in silence.
func TestRefused(t *testing.T) {
	front.reset(nil)
	for _, tc := range []struct{ kind, template, want string }{
		{"TrainJob", `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","spec":{"runtimeRef":{"kind":"ClusterTrainingRuntime"}}}`, "spec.runtimeRef.name"},
		{"TrainJob", `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","spec":{"runtimeRef":{"name":"r"},"trainer":{"imgae":"x"}}}`, "spec.trainer.imgae"},
		{"RayJob", `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"submissionMode":"Sideways","rayClusterSpec":{"headGroupSpec":{"template":{"spec":{"containers":[{"name":"h"}]}}}}}}`, "submissionMode"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"tempo":"fast","template":{"spec":{"containers":[{"name":"h"}]}}}}`, "spec.tempo"},
	} {
		l := launcher(t, tc.kind, func(c *kube.Config) {
			*c = kube.Config{Kubeconfig: c.Kubeconfig, Namespace: c.Namespace}
			if err := json.Unmarshal([]byte(tc.template), &c.Template); err != nil {
				t.Fatal(err)
			}
		})
		_, err := l.Submit(t.Context(), idOf(t, tc.want), spec)
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "mend the launcher's configuration") {
			t.Errorf("%v, want %s", err, tc.want)
		}
	}
}

// The rule that makes adopting safe: what runs can't be changed under its name.
func TestImmutable(t *testing.T) {
	front.reset(nil)
	id := idOf(t)
	if _, err := launcher(t, "TrainJob", nil).Submit(t.Context(), id, spec); err != nil {
		t.Fatal(err)
	}
	_, err := api.Resource(resources["TrainJob"]).Namespace("training").Patch(t.Context(), name(id), types.MergePatchType, []byte(`{"spec":{"trainer":{"image":"other"}}}`), metav1.PatchOptions{})
	if err == nil || !strings.Contains(err.Error(), "trainer is immutable") {
		t.Errorf("%v", err)
	}
}

func TestStatus(t *testing.T) {
	front.reset(nil)
	for _, tc := range []struct {
		kind, status string
		phase        launch.Phase
	}{
		{"Job", `{"conditions":[{"type":"Complete","status":"True"}]}`, launch.Succeeded},
		{"Job", `{"conditions":[{"type":"Failed","status":"True","reason":"DeadlineExceeded"}]}`, launch.Failed},
		{"TrainJob", `{"conditions":[{"type":"Complete","status":"True"}]}`, launch.Succeeded},
		{"TrainJob", `{"conditions":[{"type":"Failed","status":"True","reason":"DeadlineExceeded"}]}`, launch.Failed},
		{"RayJob", `{"jobDeploymentStatus":"Complete","jobStatus":"SUCCEEDED"}`, launch.Succeeded},
		{"RayJob", `{"jobDeploymentStatus":"Complete","jobStatus":"FAILED"}`, launch.Failed},
		{"RayJob", `{"jobDeploymentStatus":"ValidationFailed"}`, launch.Failed},
	} {
		l := launcher(t, tc.kind, nil)
		id := idOf(t, tc.kind, tc.status)
		ref, err := l.Submit(t.Context(), id, spec)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := l.Status(t.Context(), ref); err != nil || s.Phase != launch.Running {
			t.Errorf("%s at first: %+v, %v", tc.kind, s, err)
		}
		setStatus(t, tc.kind, id, tc.status)
		if s, err := l.Status(t.Context(), ref); err != nil || s.Phase != tc.phase {
			t.Errorf("%s %s: %+v, %v", tc.kind, tc.status, s, err)
		}
	}
}

// A cancelled launch is suspended once its cluster says so, has no URLs any more,
// and another submission does not start it; one that is deleted is unknown.
func TestCancel(t *testing.T) {
	each(t, func(t *testing.T, kind string) {
		id := idOf(t)
		l := launcher(t, kind, nil)
		ref, err := l.Submit(t.Context(), id, spec)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := l.Cancel(t.Context(), ref); err != nil {
				t.Fatal(err)
			}
		}
		if on, _, err := unstructured.NestedBool(object(t, kind, id).Object, "spec", "suspend"); err != nil || !on {
			t.Errorf("it is not suspended: %v", err)
		}
		setStatus(t, kind, id, `{"jobDeploymentStatus":"Suspended","conditions":[{"type":"Suspended","status":"True"}]}`)
		if _, err := l.Submit(t.Context(), id, spec); err != nil {
			t.Fatal(err)
		}
		if front.secret(name(id)) != nil {
			t.Error("it has a secret")
		}
		if s, err := l.Status(t.Context(), ref); err != nil || s.Phase != launch.Cancelled {
			t.Errorf("%+v, %v", s, err)
		}
		if err := api.Resource(resources[kind]).Namespace("training").Delete(t.Context(), name(id), metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if s, err := l.Status(t.Context(), ref); err != nil || s.Phase != launch.Unknown {
			t.Errorf("deleted: %+v, %v", s, err)
		}
	})
}

// A cluster that does not serve the kind says what to install.
func TestNotInstalled(t *testing.T) {
	front.reset(nil)
	if err := api.Resource(crds).Delete(t.Context(), "rayjobs.ray.io", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	l := launcher(t, "RayJob", nil)
	for range 1000 { // until the server has taken it away
		_, err := l.Submit(t.Context(), idOf(t), spec)
		if err != nil && strings.Contains(err.Error(), "install KubeRay") {
			return
		}
	}
	t.Error("it never told")
}
