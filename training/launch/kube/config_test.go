package kube

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/training/launch"
)

func template(t *testing.T, text string) map[string]any {
	t.Helper()
	out, err := decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// What can't become a launch is refused before there is one, by the name of the
// field.
func TestConfigRefused(t *testing.T) {
	job, train, ray := NewJob, NewTrainJob, NewRayJob
	for _, tc := range []struct {
		make func(Config) (*Launcher, error)
		c    Config
		want string
	}{
		{job, Config{Image: "x", Namespace: "Bad_Name"}, "namespace"},
		{job, Config{Image: "x", Namespace: "n", Kubeconfig: "relative"}, "kubeconfig"},
		{job, Config{Image: "x", Namespace: "n", InCluster: true, Context: "c"}, "in_cluster"},
		{job, Config{Namespace: "n"}, "image"},
		{job, Config{Image: "x", Namespace: "n", Nodes: 2}, "RayJob"},
		{job, Config{Image: "x", Namespace: "n", Runtime: "r"}, "runtime"},
		{job, Config{Image: "x", Namespace: "n", Work: "../x"}, "work"},
		{job, Config{Image: "x", Namespace: "n", Env: map[string]string{"A=B": ""}}, "env"},
		{job, Config{Image: "x", Namespace: "n", Resources: map[string]string{"cpu": "lots"}}, "resources"},
		{job, Config{Image: "x", Namespace: "n", TTL: -1}, "ttl"},
		{job, Config{Image: "x", Namespace: "n", Tolerations: []map[string]any{{"x": math.NaN()}}}, "tolerations"},
		{train, Config{Namespace: "n"}, "runtime"},
		{train, Config{Namespace: "n", Runtime: "r", RuntimeKind: "Pod"}, "runtime_kind"},
		{train, Config{Namespace: "n", Runtime: "r", ServiceAccount: "s"}, "template"},
		{ray, Config{Namespace: "n", Image: "x", Nodes: -1}, "nodes"},
	} {
		if _, err := tc.make(tc.c); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %s", tc.c, err, tc.want)
		}
	}
}

// A template is somebody's own, and may say anything; what it says is an error
// by its place, never a panic.
func TestTemplateRefused(t *testing.T) {
	const pod = `{"template":{"spec":{"containers":[{"name":"a"}]}}}`
	for _, tc := range []struct{ kind, text, want string }{
		{"Job", `{"apiVersion":"v1","kind":"Pod"}`, "want Job of batch/v1"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","metadata":[]}`, "metadata"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"name":"x"}}`, "metadata.name"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"ownerReferences":[]}}`, "ownerReferences"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"labels":{"a":1}}}`, "labels.a"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","metadata":{"annotations":{"` + idAnnotation + `":"x"}}}`, "is ours"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","status":{}}`, "status"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job"}`, "containers"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":7}`, "spec"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"parallelism":2,"template":{}}}`, "parallelism"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"selector":{}}}`, "selector"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"containers":[null]}}}}`, "containers"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}}}`, "call the one that trains"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"containers":[{"env":{}}]}}}}`, "env"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"containers":[{"env":[1]}]}}}}`, "env"},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"containers":[{"env":[{"name":"` + launch.EnvClaimURL + `"}]}]}}}}`, launch.EnvClaimURL},
		{"Job", `{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"metadata":{"labels":1},"spec":{"containers":[{}]}}}}`, "labels"},
		{"TrainJob", `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","spec":{"initializer":{}}}`, "initializer"},
		{"TrainJob", `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","spec":{"trainer":{"numNodes":4}}}`, "numNodes"},
		{"TrainJob", `{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","spec":{"trainer":[]}}`, "trainer"},
		{"RayJob", `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"clusterSelector":{"a":"b"}}}`, "clusterSelector"},
		{"RayJob", `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"entrypoint":"x"}}`, "entrypoint"},
		{"RayJob", `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"submissionMode":"InteractiveMode"}}`, "submissionMode"},
		{"RayJob", `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"runtimeEnvYAML":"working_dir: /x"}}`, "working_dir"},
		{"RayJob", `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"rayClusterSpec":{"headGroupSpec":` + pod + `,"workerGroupSpecs":{}}}}`, "workerGroupSpecs"},
		{"RayJob", `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"rayClusterSpec":{"headGroupSpec":` + pod + `,"workerGroupSpecs":[3]}}}`, "workerGroupSpecs[0]"},
		{"RayJob", `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"rayClusterSpec":{"headGroupSpec":{"template":{"spec":{"volumes":[{"name":"stillhouse"}],"containers":[{}]}}}}}}`, "volumes"},
		{"RayJob", `{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"rayClusterSpec":{"headGroupSpec":{"template":{"spec":{"containers":[]}}}}}}`, "containers"},
	} {
		make := map[string]func(Config) (*Launcher, error){"Job": NewJob, "TrainJob": NewTrainJob, "RayJob": NewRayJob}[tc.kind]
		if _, err := make(Config{Namespace: "n", Template: template(t, tc.text)}); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %s", tc.text, err, tc.want)
		}
	}
	if _, err := NewJob(Config{Namespace: "n", Image: "x", Template: map[string]any{}}); err == nil || !strings.Contains(err.Error(), "image: it stands in the template") {
		t.Errorf("%v", err)
	}
}

// What a template says stays beside what is put into it.
func TestTemplate(t *testing.T) {
	w := newWorld(t, NewJob, Config{Template: template(t, `{"apiVersion":"batch/v1","kind":"Job",
		"metadata":{"labels":{"kueue.x-k8s.io/queue-name":"gpus"}},
		"spec":{"suspend":true,"template":{"spec":{"priorityClassName":"low","containers":[
			{"name":"sidecar"},{"name":"trainer","image":"me:1","env":[{"name":"HF_HOME","value":"/hf"}]}]}}}}`)})
	if _, err := w.Submit(t.Context(), id, spec()); err != nil {
		t.Fatal(err)
	}
	o := w.object(t)
	if o.GetLabels()["kueue.x-k8s.io/queue-name"] != "gpus" || o.GetLabels()[managedBy] != owner {
		t.Errorf("labels %v", o.GetLabels())
	}
	if got := field(o.Object, "spec", "template", "spec", "priorityClassName"); got != "low" {
		t.Errorf("priorityClassName is %q", got)
	}
	if suspended, ok := o.Object["spec"].(map[string]any); !ok || suspended["suspend"] != true {
		t.Error("it does not wait for its queue")
	}
	if w.config.Template["metadata"].(map[string]any)["name"] != nil {
		t.Error("the template itself was changed")
	}
}

func FuzzTemplate(f *testing.F) {
	f.Add(`{"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"spec":{"containers":[{"env":[{"name":"A"}]}]}}}}`)
	f.Add(`{"apiVersion":"ray.io/v1","kind":"RayJob","spec":{"rayClusterSpec":{"headGroupSpec":{"template":{"spec":{"containers":[{}]}}}}}}`)
	f.Add(`{"apiVersion":"trainer.kubeflow.org/v1alpha1","kind":"TrainJob","spec":{"trainer":{"env":null}}}`)
	f.Fuzz(func(t *testing.T, text string) {
		in, err := decode([]byte(text))
		if err != nil {
			return
		}
		for _, make := range []func(Config) (*Launcher, error){NewJob, NewTrainJob, NewRayJob} {
			l, err := make(Config{Namespace: "n", Template: in})
			if err != nil {
				continue
			}
			s := spec()
			o, err := l.manifest(id, &s)
			if err != nil {
				t.Fatal(err)
			}
			if o.DeepCopy().GetName() != objectName(id) {
				t.Fatal("it has another name")
			}
		}
	})
}

// A kubeconfig that would send its token in the clear is refused.
func TestTransport(t *testing.T) {
	for _, tc := range []struct {
		server, extra string
		plaintext, ok bool
	}{
		{"https://k8s.example:6443", "", false, true},
		{"http://k8s.example:6443", "", false, false},
		{"http://k8s.example:6443", "", true, true},
		{"http://127.0.0.1:8001", "", false, true},
		{"https://k8s.example:6443", "insecure-skip-tls-verify: true, ", false, false},
	} {
		file := filepath.Join(t.TempDir(), "config")
		text := `{apiVersion: v1, kind: Config, current-context: a, contexts: [{name: a, context: {cluster: c, user: u}}],
clusters: [{name: c, cluster: {` + tc.extra + `server: "` + tc.server + `"}}], users: [{name: u, user: {token: s3cr3t}}]}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c := Config{Kubeconfig: file, Plaintext: tc.plaintext}
		_, err := c.restConfig()
		if (err == nil) != tc.ok {
			t.Errorf("%s %s plaintext %v: %v", tc.server, tc.extra, tc.plaintext, err)
		}
		c.Context = "missing"
		if _, err := c.restConfig(); err == nil || !strings.Contains(err.Error(), "missing") || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%v", err)
		}
	}
}
