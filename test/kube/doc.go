// Package kube runs the Kubernetes launchers against a real API server: that of
// k8s.io/apiextensions-apiserver with an embedded etcd, in the test's own process
// and on loopback. It has a module of its own, since the server's modules are no
// business of the program.
//
// It holds: TrainJobs, RayJobs and Jobs are created once, however often, at once
// and after whose death they are submitted; a second submission adopts the first
// and refuses a stranger's; what the schema or a rule refuses is told readably;
// statuses map; a cancelled launch is suspended and does not start again.
//
// The server serves custom resources alone. The definitions in testdata are ours,
// with the fields, defaults and rules that matter of Kubeflow Trainer's and
// KubeRay's. Jobs are a custom resource here under a group of another name, since
// batch/v1 and its validation are in kube-apiserver. No controller runs: statuses
// are written by the test. Secrets and pods, which the server has not, are kept by
// the test.
//
//	make kube
package kube
