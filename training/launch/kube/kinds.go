package kube

import (
	"errors"
	"fmt"
	"strings"
)

const (
	trainer   = "trainer"     // the container that trains, in a Job
	scriptDir = "/stillhouse" // where a RayJob's pods find the bootstrap
)

// podSpec is that of the pods of a Job or a RayJob.
func podSpec(c *Config, container map[string]any) map[string]any {
	container["image"] = c.Image
	if len(c.Resources) > 0 {
		container["resources"] = map[string]any{"requests": c.Resources, "limits": c.Resources}
	}
	spec := map[string]any{"containers": []any{container}, "automountServiceAccountToken": false, "enableServiceLinks": false}
	if len(c.NodeSelector) > 0 {
		spec["nodeSelector"] = c.NodeSelector
	}
	if len(c.Tolerations) > 0 {
		spec["tolerations"] = c.Tolerations
	}
	if c.ServiceAccount != "" {
		spec["serviceAccountName"] = c.ServiceAccount
		delete(spec, "automountServiceAccountToken") // it was named to be used
	}
	var pulls []any
	for _, name := range c.PullSecrets {
		pulls = append(pulls, map[string]any{"name": name})
	}
	if pulls != nil {
		spec["imagePullSecrets"] = pulls
	}
	return spec
}

func baseJob(c *Config) map[string]any {
	return map[string]any{"apiVersion": "batch/v1", "kind": "Job", "spec": map[string]any{
		"template": map[string]any{"spec": podSpec(c, map[string]any{"name": trainer})},
	}}
}

// putJob makes a Job run once: a pod that failed, was evicted or lost its node
// is not replaced, for the second would find the claim taken.
func putJob(object map[string]any, g *given) error {
	spec, err := child(object, "spec")
	if err != nil {
		return err
	}
	for _, key := range []string{"completions", "parallelism"} {
		if n, ok := spec[key]; ok && n != int64(1) {
			return fmt.Errorf("spec.%s: a launch is one pod", key)
		}
		spec[key] = int64(1)
	}
	for _, key := range []string{"suspend", "manualSelector", "selector", "backoffLimitPerIndex"} {
		if v, ok := spec[key]; ok && !(key == "suspend" && v == true) { // Kueue admits what is suspended
			return fmt.Errorf("spec.%s: leave it out", key)
		}
	}
	spec["backoffLimit"] = int64(0)
	spec["ttlSecondsAfterFinished"] = g.ttl
	spec["podReplacementPolicy"] = "Failed"
	spec["podFailurePolicy"] = map[string]any{"rules": []any{
		map[string]any{"action": "FailJob", "onPodConditions": []any{map[string]any{"type": "DisruptionTarget", "status": "True"}}},
	}}
	if g.seconds > 0 {
		spec["activeDeadlineSeconds"] = g.seconds
	}
	template, err := child(spec, "template")
	if err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	pod, err := child(template, "spec")
	if err != nil {
		return fmt.Errorf("spec.template.%w", err)
	}
	pod["restartPolicy"] = "Never"
	container, err := trainerOf(pod, trainer)
	if err != nil {
		return fmt.Errorf("spec.template.spec.%w", err)
	}
	setCommand(container, g)
	if err := addEnv(container, g.env); err != nil {
		return fmt.Errorf("spec.template.spec.containers: %w", err)
	}
	meta, err := child(template, "metadata")
	if err != nil {
		return fmt.Errorf("spec.template.%w", err)
	}
	labels, err := child(meta, "labels")
	if err != nil {
		return fmt.Errorf("spec.template.metadata.%w", err)
	}
	labels[managedBy] = owner
	return nil
}

// setCommand gives a container the bootstrap, which holds nothing secret.
func setCommand(container map[string]any, g *given) {
	container["command"] = []any{g.command[0]}
	var args []any
	for _, word := range g.command[1:] {
		args = append(args, literal(word))
	}
	container["args"] = args
}

func baseTrainJob(c *Config) map[string]any {
	kind := c.RuntimeKind
	if kind == "" {
		kind = "ClusterTrainingRuntime"
	}
	t := map[string]any{}
	if c.Image != "" {
		t["image"] = c.Image
	}
	if len(c.Resources) > 0 {
		t["resourcesPerNode"] = map[string]any{"requests": c.Resources, "limits": c.Resources}
	}
	return map[string]any{"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob", "spec": map[string]any{
		"runtimeRef": map[string]any{"apiGroup": "trainer.kubeflow.org", "kind": kind, "name": c.Runtime},
		"trainer":    t,
	}}
}

func putTrainJob(object map[string]any, g *given) error {
	spec, err := child(object, "spec")
	if err != nil {
		return err
	}
	if _, ok := spec["initializer"]; ok {
		return errors.New("spec.initializer: the bundle fetches its data itself, each file by its digest; leave it out")
	}
	if g.seconds > 0 {
		spec["activeDeadlineSeconds"] = g.seconds
	}
	t, err := child(spec, "trainer")
	if err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	if n, ok := t["numNodes"]; ok && n != int64(1) {
		return errors.New("spec.trainer.numNodes: each node would claim the launch for itself; want 1")
	}
	t["numNodes"] = int64(1)
	setCommand(t, g)
	if err := addEnv(t, g.env); err != nil {
		return fmt.Errorf("spec.trainer.%w", err)
	}
	return nil
}

func baseRayJob(c *Config) map[string]any {
	ports := []any{
		map[string]any{"containerPort": int64(6379), "name": "gcs-server"},
		map[string]any{"containerPort": int64(8265), "name": "dashboard"},
		map[string]any{"containerPort": int64(10001), "name": "client"},
	}
	cluster := map[string]any{"headGroupSpec": map[string]any{
		"rayStartParams": map[string]any{},
		"template":       map[string]any{"spec": podSpec(c, map[string]any{"name": "ray-head", "ports": ports})},
	}}
	if c.RayVersion != "" {
		cluster["rayVersion"] = c.RayVersion
	}
	if workers := int64(c.Nodes) - 1; workers > 0 {
		cluster["workerGroupSpecs"] = []any{map[string]any{
			"groupName": "workers", "replicas": workers, "minReplicas": workers, "maxReplicas": workers,
			"rayStartParams": map[string]any{},
			"template":       map[string]any{"spec": podSpec(c, map[string]any{"name": "ray-worker"})},
		}}
	}
	return map[string]any{"apiVersion": "ray.io/v1", "kind": "RayJob", "spec": map[string]any{"rayClusterSpec": cluster}}
}

// putRayJob gives the launch to a cluster of its own. Ray's clients and shells
// each read the entrypoint in their way, so it is two plain words, and the script
// a file of the Secret.
func putRayJob(object map[string]any, g *given) error {
	spec, err := child(object, "spec")
	if err != nil {
		return err
	}
	if _, ok := spec["clusterSelector"]; ok {
		return errors.New("spec.clusterSelector: a cluster that is there can't be given the launch's Secret; name it by the kind ray, by its dashboard")
	}
	if _, ok := spec["entrypoint"]; ok {
		return errors.New("spec.entrypoint: it is the bundle's; leave it out")
	}
	if mode, ok := spec["submissionMode"]; ok && mode == "InteractiveMode" {
		return errors.New("spec.submissionMode: InteractiveMode waits for somebody to submit")
	}
	if text, ok := spec["runtimeEnvYAML"].(string); ok && strings.Contains(text, "working_dir") {
		return errors.New("spec.runtimeEnvYAML: working_dir: the bundle makes its own folder; leave it out")
	}
	spec["entrypoint"] = "/bin/sh " + scriptDir + "/" + scriptKey
	spec["jobId"] = g.id
	spec["backoffLimit"] = int64(0)
	spec["shutdownAfterJobFinishes"] = true
	spec["ttlSecondsAfterFinished"] = g.ttl
	if g.seconds > 0 {
		spec["activeDeadlineSeconds"] = g.seconds
	}
	cluster, err := child(spec, "rayClusterSpec")
	if err != nil {
		return fmt.Errorf("spec.%w", err)
	}
	head, err := child(cluster, "headGroupSpec")
	if err != nil {
		return fmt.Errorf("spec.rayClusterSpec.%w", err)
	}
	if err := putRayGroup(head, g); err != nil {
		return fmt.Errorf("spec.rayClusterSpec.headGroupSpec.%w", err)
	}
	workers, err := list(cluster, "workerGroupSpecs")
	if err != nil {
		return fmt.Errorf("spec.rayClusterSpec.%w", err)
	}
	for i, group := range workers {
		group, ok := group.(map[string]any)
		if !ok {
			return fmt.Errorf("spec.rayClusterSpec.workerGroupSpecs[%d]: want an object", i)
		}
		if err := putRayGroup(group, g); err != nil {
			return fmt.Errorf("spec.rayClusterSpec.workerGroupSpecs[%d].%w", i, err)
		}
	}
	return nil
}

// putRayGroup gives the launch to the pods of a group: a driver may run on any
// of them.
func putRayGroup(group map[string]any, g *given) error {
	template, err := child(group, "template")
	if err != nil {
		return err
	}
	pod, err := child(template, "spec")
	if err != nil {
		return fmt.Errorf("template.%w", err)
	}
	all, ok := pod["containers"].([]any)
	if !ok || len(all) == 0 {
		return errors.New("template.spec.containers: there is none")
	}
	container, ok := all[0].(map[string]any) // KubeRay runs Ray in the first
	if !ok {
		return errors.New("template.spec.containers: want a list of objects")
	}
	if err := addEnv(container, g.env); err != nil {
		return fmt.Errorf("template.spec.containers: %w", err)
	}
	if err := appendTo(pod, "volumes", map[string]any{"name": "stillhouse", "secret": map[string]any{
		"secretName": objectName(g.id), "items": []any{map[string]any{"key": scriptKey, "path": scriptKey}},
	}}); err != nil {
		return fmt.Errorf("template.spec.%w", err)
	}
	if err := appendTo(container, "volumeMounts", map[string]any{"name": "stillhouse", "mountPath": scriptDir, "readOnly": true}); err != nil {
		return fmt.Errorf("template.spec.containers: %w", err)
	}
	return nil
}

// appendTo adds a named object to a list, which must not have the name.
func appendTo(in map[string]any, key string, what map[string]any) error {
	own, err := list(in, key)
	if err != nil {
		return err
	}
	for _, o := range own {
		o, ok := o.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: want a list of objects", key)
		}
		if o["name"] == what["name"] {
			return fmt.Errorf("%s: %v is the launch's; call yours otherwise", key, what["name"])
		}
	}
	in[key] = append(own, what)
	return nil
}
