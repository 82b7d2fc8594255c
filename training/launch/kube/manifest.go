package kube

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/stillhouse-data/stillhouse/training"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

// A kind is a kind of object that launches run as.
type kind struct {
	resource schema.GroupVersionResource
	kind     string
	install  string // what to do where the cluster doesn't have it
	podLabel string // of the pods whose log is the launch's; its value is the object's name
	// base writes the manifest of a configuration without a template.
	base func(c *Config) map[string]any
	// put adds a launch's command and environment, and its limits.
	put func(object map[string]any, g *given) error
	// state maps what the object says.
	state func(*unstructured.Unstructured) launch.State
}

var (
	secretKind     = kind{resource: schema.GroupVersionResource{Version: "v1", Resource: "secrets"}, kind: "Secret", install: "is it a Kubernetes API server?"}
	podKind        = kind{resource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, kind: "Pod", install: secretKind.install}
	podLogKind     = kind{resource: schema.GroupVersionResource{Version: "v1", Resource: "pods/log"}, kind: "Pod", install: secretKind.install}
	secretResource = secretKind.resource

	jobKind = kind{
		resource: schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}, kind: "Job",
		install: "is it a Kubernetes API server?", podLabel: "batch.kubernetes.io/job-name",
		base: baseJob, put: putJob, state: conditionState,
	}
	trainJobKind = kind{
		resource: schema.GroupVersionResource{Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"}, kind: "TrainJob",
		install: "install Kubeflow Trainer v2", podLabel: "jobset.sigs.k8s.io/jobset-name",
		base: baseTrainJob, put: putTrainJob, state: conditionState,
	}
	rayJobKind = kind{
		resource: schema.GroupVersionResource{Group: "ray.io", Version: "v1", Resource: "rayjobs"}, kind: "RayJob",
		install: "install KubeRay", podLabel: "batch.kubernetes.io/job-name",
		base: baseRayJob, put: putRayJob, state: rayState,
	}
)

// A given is what a launch puts into a manifest.
type given struct {
	id      string
	command []string
	env     []any // of a container
	seconds int64 // how long it may take; 0: not limited
	ttl     int64 // seconds
}

// scriptKey is the bootstrap's script in the Secret, for platforms that pass a
// command through shells: it says nothing secret.
const scriptKey = "bootstrap.sh"

// decode reads JSON into what Kubernetes' objects are made of: whole numbers
// stay whole.
func decode(text []byte) (map[string]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var out map[string]any
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	v, err := numbers(out)
	if err != nil {
		return nil, err
	}
	out, _ = v.(map[string]any)
	return out, nil
}

func numbers(v any) (_ any, err error) {
	switch v := v.(type) {
	case map[string]any:
		for key := range v {
			if v[key], err = numbers(v[key]); err != nil {
				return nil, err
			}
		}
	case []any:
		for i := range v {
			if v[i], err = numbers(v[i]); err != nil {
				return nil, err
			}
		}
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n, nil
		}
		return v.Float64()
	}
	return v, nil
}

// checkTemplate refuses a manifest that is of another kind or that names itself.
func (k *kind) checkTemplate(t map[string]any) error {
	want := k.resource.GroupVersion().String()
	if t["apiVersion"] != want || t["kind"] != k.kind {
		return fmt.Errorf("template: it is %.80q of %.80q, want %s of %s", fmt.Sprint(t["kind"]), fmt.Sprint(t["apiVersion"]), k.kind, want)
	}
	if _, ok := t["status"]; ok {
		return errors.New("template: status: the cluster writes it; leave it out")
	}
	meta, err := child(t, "metadata")
	if err != nil {
		return fmt.Errorf("template: %w", err)
	}
	for key := range meta {
		if key != "labels" && key != "annotations" {
			return fmt.Errorf("template: metadata.%.80s: a template has labels and annotations; the rest is the launch's", key)
		}
	}
	for _, name := range []string{"labels", "annotations"} {
		values, err := child(meta, name)
		if err != nil {
			return fmt.Errorf("template: metadata.%w", err)
		}
		for key, value := range values {
			if _, ok := value.(string); !ok {
				return fmt.Errorf("template: metadata.%s.%.80s: want text in quotes", name, key)
			}
			if strings.HasPrefix(key, "stillhouse-data.github.io/") {
				return fmt.Errorf("template: metadata.%s.%.80s is ours", name, key)
			}
		}
	}
	return nil
}

// child returns the object at key, which is made where it is missing.
func child(in map[string]any, key string) (map[string]any, error) {
	switch v := in[key].(type) {
	case nil:
		out := map[string]any{}
		in[key] = out
		return out, nil
	case map[string]any:
		return v, nil
	default:
		return nil, fmt.Errorf("%s: want an object, not %T", key, v)
	}
}

// list returns the list at key, nil where it is missing.
func list(in map[string]any, key string) ([]any, error) {
	switch v := in[key].(type) {
	case nil:
		return nil, nil
	case []any:
		return v, nil
	default:
		return nil, fmt.Errorf("%s: want a list, not %T", key, v)
	}
}

// manifest is the object of a launch.
func (l *Launcher) manifest(launchID string, spec *launch.Spec) (*unstructured.Unstructured, error) {
	var object map[string]any
	var err error
	if l.config.Template != nil {
		object, err = plain(l.config.Template)
	} else {
		object, err = plain(l.kind.base(&l.config))
	}
	if err != nil {
		return nil, err
	}
	meta, err := child(object, "metadata")
	if err != nil {
		return nil, err
	}
	meta["name"], meta["namespace"] = objectName(launchID), l.config.Namespace
	labels, err := child(meta, "labels")
	if err != nil {
		return nil, err
	}
	labels[managedBy] = owner
	annotations, err := child(meta, "annotations")
	if err != nil {
		return nil, err
	}
	annotations[idAnnotation] = launchID
	env, err := l.environment(launchID, spec)
	if err != nil {
		return nil, err
	}
	g := given{id: launchID, command: launch.Bootstrap(), env: env, seconds: l.seconds(spec), ttl: int64(l.config.TTL.Seconds())}
	if err := l.kind.put(object, &g); err != nil {
		return nil, err
	}
	return &unstructured.Unstructured{Object: object}, nil
}

// seconds is the limit of a launch; 0: none.
func (l *Launcher) seconds(spec *launch.Spec) int64 {
	limit := l.config.TimeLimit
	if !spec.Deadline.IsZero() {
		if left := spec.Deadline.Sub(l.now()); limit == 0 || left < limit {
			limit = max(left, time.Minute)
		}
	}
	return int64(math.Ceil(limit.Seconds()))
}

// environment lists a launch's variables: what is secret by reference alone.
func (l *Launcher) environment(launchID string, spec *launch.Spec) ([]any, error) {
	values := maps.Clone(l.config.Env)
	if values == nil {
		values = map[string]string{}
	}
	maps.Copy(values, spec.PublicVariables())
	values["STILLHOUSE_WORK"] = l.config.Work
	secrets := spec.SecretVariables()
	for name := range secrets {
		delete(values, name)
	}
	var out []any
	for _, name := range slices.Sorted(maps.Keys(values)) {
		if !variable.MatchString(name) {
			return nil, fmt.Errorf("%.80q is no variable's name", name)
		}
		out = append(out, map[string]any{"name": name, "value": literal(values[name])})
	}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		if !variable.MatchString(name) {
			return nil, fmt.Errorf("%.80q is no variable's name", name)
		}
		out = append(out, map[string]any{"name": name, "valueFrom": map[string]any{
			"secretKeyRef": map[string]any{"name": objectName(launchID), "key": name},
		}})
	}
	return out, nil
}

// literal keeps Kubernetes from expanding $(NAME) in a value or an argument.
func literal(text string) string { return strings.ReplaceAll(text, "$", "$$") }

// secret holds what is secret of a launch, and goes with its object.
func (l *Launcher) secret(object *unstructured.Unstructured, launchID string, spec *launch.Spec) *unstructured.Unstructured {
	data := map[string]any{scriptKey: training.BootstrapScript}
	for name, value := range spec.SecretVariables() {
		data[name] = value
	}
	out := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "immutable": true, "stringData": data,
	}}
	out.SetName(objectName(launchID))
	out.SetNamespace(l.config.Namespace)
	out.SetLabels(map[string]string{managedBy: owner})
	out.SetAnnotations(map[string]string{idAnnotation: launchID})
	out.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: l.kind.resource.GroupVersion().String(), Kind: l.kind.kind, Name: object.GetName(), UID: object.GetUID(),
	}})
	return out
}

// addEnv adds a launch's variables to a container, which must not have them.
func addEnv(container map[string]any, env []any) error {
	own, err := list(container, "env")
	if err != nil {
		return err
	}
	ours := map[string]bool{}
	for _, e := range env {
		if e, ok := e.(map[string]any); ok {
			ours[fmt.Sprint(e["name"])] = true
		}
	}
	for _, e := range own {
		e, ok := e.(map[string]any)
		if !ok {
			return errors.New("env: want a list of objects with name and value")
		}
		if name := fmt.Sprint(e["name"]); ours[name] {
			return fmt.Errorf("env: %.80s is the launch's; leave it out", name)
		}
	}
	container["env"] = append(slices.Clone(own), env...)
	return nil
}

// trainerOf finds the container of a pod that trains: the one of that name, or
// the only one.
func trainerOf(podSpec map[string]any, name string) (map[string]any, error) {
	all, ok := podSpec["containers"].([]any)
	if !ok || len(all) == 0 {
		return nil, errors.New("containers: there is none")
	}
	for _, c := range all {
		c, ok := c.(map[string]any)
		if !ok {
			return nil, errors.New("containers: want a list of objects")
		}
		if len(all) == 1 || c["name"] == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("containers: call the one that trains %s", name)
}
