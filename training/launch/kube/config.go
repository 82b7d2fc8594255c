package kube

import (
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"time"
)

// A Config says which cluster runs launches and what each of them gets. Fields
// that shape pods belong to the manifest that we write; where Template gives
// one, they stand in it and are refused here.
type Config struct {
	// Kubeconfig is the absolute path of a file; default: KUBECONFIG, else the
	// user's own. Context is one of its contexts; default: its current one.
	Kubeconfig string `yaml:"kubeconfig"`
	Context    string `yaml:"context"`
	// InCluster takes the service account of the pod that we run in.
	InCluster bool `yaml:"in_cluster"`
	// Namespace of the launches. Required.
	Namespace string `yaml:"namespace"`
	// Plaintext says that the network to the API server is trusted, so that http
	// beyond loopback, or a certificate that nobody checks, is allowed.
	Plaintext bool `yaml:"plaintext"`
	// Timeout of one request. Default: 30 s.
	Timeout time.Duration `yaml:"timeout"`

	// Image that holds the trainer. Required without Template, but for a TrainJob,
	// whose runtime may name one.
	Image string `yaml:"image"`
	// Resources that a container asks for and may not exceed, such as
	// nvidia.com/gpu: "8".
	Resources map[string]string `yaml:"resources"`
	// NodeSelector, Tolerations, ServiceAccount and PullSecrets are those of the
	// pods, of a Job or a RayJob.
	NodeSelector   map[string]string `yaml:"node_selector"`
	Tolerations    []map[string]any  `yaml:"tolerations"`
	ServiceAccount string            `yaml:"service_account"`
	PullSecrets    []string          `yaml:"pull_secrets"`
	// Nodes is how many there are, the head among them; of a RayJob alone.
	// Default: 1.
	Nodes int `yaml:"nodes"`
	// Runtime is the runtime of a TrainJob, and RuntimeKind its kind, by default
	// ClusterTrainingRuntime.
	Runtime     string `yaml:"runtime"`
	RuntimeKind string `yaml:"runtime_kind"`
	// RayVersion is that of a RayJob's image.
	RayVersion string `yaml:"ray_version"`

	// Env gives variables to the launch: no secrets.
	Env map[string]string `yaml:"env"`
	// Work is the folder in which each launch makes one of its own. Default: /tmp,
	// which goes with the pod.
	Work string `yaml:"work"`
	// TimeLimit of a launch, where it has no deadline, or a later one. 0: none.
	TimeLimit time.Duration `yaml:"time_limit"`
	// TTL is how long what has ended is kept, with its log. Default: a week. A
	// TrainJob has none and is kept.
	TTL time.Duration `yaml:"ttl"`
	// Template is a manifest of the launcher's kind, without name and namespace.
	// Names, labels, environment and command are put into it.
	Template map[string]any `yaml:"template"`
}

const (
	defaultTimeout = 30 * time.Second
	defaultTTL     = 7 * 24 * time.Hour
)

var (
	dnsLabel     = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	dnsSubdomain = regexp.MustCompile(`^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$`)
	variable     = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// quantity is one of Kubernetes, such as 8, 500m or 64Gi.
	quantity = regexp.MustCompile(`^[0-9]+(\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|e[0-9]+)?$`)
)

// check fills in what is left out and refuses what the kind does not take.
func (c *Config) check(k *kind) error {
	if err := c.checkCluster(); err != nil {
		return err
	}
	if err := c.checkLaunch(); err != nil {
		return err
	}
	if c.Template != nil {
		if used := c.shaping(); used != "" {
			return fmt.Errorf("%s: it stands in the template, where there is one", used)
		}
		var err error
		if c.Template, err = plain(c.Template); err != nil {
			return fmt.Errorf("template: %w", err)
		}
		return k.checkTemplate(c.Template)
	}
	return c.checkShape(k)
}

func (c *Config) checkCluster() error {
	switch {
	case c.InCluster && (c.Kubeconfig != "" || c.Context != ""):
		return errors.New("in_cluster takes the pod's own account: leave kubeconfig and context out")
	case c.Kubeconfig != "" && !filepath.IsAbs(c.Kubeconfig):
		return fmt.Errorf("kubeconfig: %q is no absolute path", c.Kubeconfig)
	case !dnsLabel.MatchString(c.Namespace):
		return fmt.Errorf("namespace: %q is no name of one; it is required", c.Namespace)
	case c.Timeout < 0 || c.TimeLimit < 0 || c.TTL < 0:
		return fmt.Errorf("timeout %s, time_limit %s and ttl %s can't be negative", c.Timeout, c.TimeLimit, c.TTL)
	}
	if c.Timeout == 0 {
		c.Timeout = defaultTimeout
	}
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	return nil
}

func (c *Config) checkLaunch() error {
	if c.Work == "" {
		c.Work = "/tmp"
	}
	if !path.IsAbs(c.Work) || path.Clean(c.Work) != c.Work {
		return fmt.Errorf("work: %q is no absolute folder of the container", c.Work)
	}
	for name := range c.Env {
		if !variable.MatchString(name) {
			return fmt.Errorf("env: %q is no variable's name", name)
		}
	}
	return nil
}

// shaping names a field that shapes pods and is given; "" where none is.
func (c *Config) shaping() string {
	for _, f := range []struct {
		name  string
		given bool
	}{
		{"image", c.Image != ""}, {"resources", len(c.Resources) > 0}, {"node_selector", len(c.NodeSelector) > 0},
		{"tolerations", len(c.Tolerations) > 0}, {"service_account", c.ServiceAccount != ""}, {"pull_secrets", len(c.PullSecrets) > 0},
		{"nodes", c.Nodes != 0}, {"runtime", c.Runtime != ""}, {"runtime_kind", c.RuntimeKind != ""}, {"ray_version", c.RayVersion != ""},
	} {
		if f.given {
			return f.name
		}
	}
	return ""
}

func (c *Config) checkShape(k *kind) error {
	train, ray := k.kind == "TrainJob", k.kind == "RayJob"
	switch {
	case c.Image == "" && !train:
		return errors.New("image: say which image holds the trainer, or give a template")
	case c.Runtime == "" && train:
		return errors.New("runtime: say which ClusterTrainingRuntime it is, such as torch-distributed")
	case (c.Runtime != "" || c.RuntimeKind != "") && !train:
		return errors.New("runtime: only a TrainJob has one")
	case c.Runtime != "" && !dnsSubdomain.MatchString(c.Runtime):
		return fmt.Errorf("runtime: %q is no name of one", c.Runtime)
	case c.RuntimeKind != "" && c.RuntimeKind != "ClusterTrainingRuntime" && c.RuntimeKind != "TrainingRuntime":
		return fmt.Errorf("runtime_kind: %q, want ClusterTrainingRuntime or TrainingRuntime", c.RuntimeKind)
	case c.RayVersion != "" && !ray:
		return errors.New("ray_version: only a RayJob has one")
	case c.Nodes < 0:
		return fmt.Errorf("nodes: %d is less than 1", c.Nodes)
	case c.Nodes > 1 && !ray:
		return errors.New("nodes: each node of this kind would claim the launch for itself, and only the first would train; for more than one node use a RayJob or Slurm")
	case train && (len(c.NodeSelector) > 0 || len(c.Tolerations) > 0 || c.ServiceAccount != "" || len(c.PullSecrets) > 0):
		return errors.New("node_selector, tolerations, service_account and pull_secrets of a TrainJob stand in its runtime, or in a template")
	}
	for name, value := range c.Resources {
		if name == "" || !quantity.MatchString(value) {
			return fmt.Errorf("resources: %q of %q is no quantity, such as 8, 500m or 64Gi", value, name)
		}
	}
	for i, t := range c.Tolerations {
		p, err := plain(t)
		if err != nil {
			return fmt.Errorf("tolerations: %w", err)
		}
		c.Tolerations[i] = p
	}
	return nil
}

// plain copies what a file said into what Kubernetes' objects are made of. Its
// own copying panics on anything else.
func plain(in map[string]any) (map[string]any, error) {
	text, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("it can't be written as JSON: %w", err)
	}
	out, err := decode(text)
	if err != nil {
		return nil, err
	}
	return out, nil
}
