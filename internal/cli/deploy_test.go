package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/stillhouse-data/stillhouse/internal/policy"
)

// deployFile reads a file of the folder deploy.
func deployFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// takes holds a command line of a deployment to the program: its command, its
// flags and their values are ones that the program starts with.
func takes(t *testing.T, where string, args []string) (o operatorFlags) {
	t.Helper()
	a, _, _ := newApp(t, nil)
	cmd, rest, err := a.root().Find(args)
	if err != nil || cmd.Name() != "worker" {
		t.Fatalf("%s: %q starts %v: %v", where, args, cmd, err)
	}
	if err := cmd.ParseFlags(rest); err != nil {
		t.Fatalf("%s: %q: %v", where, args, err)
	}
	if left := cmd.Flags().Args(); len(left) > 0 {
		t.Errorf("%s: %q is left over", where, left)
	}
	o.address, _ = cmd.Flags().GetString("listen")
	o.public, _ = cmd.Flags().GetBool("listen-public")
	if err := o.check(); err != nil || o.address == "" {
		t.Errorf("%s: the address of --listen: %v", where, err)
	}
	if home, _ := cmd.Flags().GetString("home"); home == "" || a.policyFile == "" {
		t.Errorf("%s: a worker of a cluster has a home and a policy: %q", where, args)
	}
	return o
}

// ours are the variables of a text that the program must know.
var ours = regexp.MustCompile(`STILLHOUSE_[A-Z_]+`)

func known(t *testing.T, where, text string) {
	t.Helper()
	a, _, _ := newApp(t, nil)
	root := a.root()
	help := root.PersistentFlags().FlagUsages()
	if worker, _, err := root.Find([]string{"worker"}); err == nil {
		help += worker.LocalFlags().FlagUsages()
	}
	for _, name := range ours.FindAllString(text, -1) {
		if !strings.Contains(help, name) {
			t.Errorf("%s: %s is no variable of the program", where, name)
		}
	}
}

func durationOf(t *testing.T, where, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	return d
}

func TestTheServiceOfSystemdStarts(t *testing.T) {
	text := deployFile(t, "systemd/stillhouse-worker.service")
	set := map[string]string{}
	for _, line := range strings.Split(text, "\n") {
		if name, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			set[name] = value
		}
	}
	args := strings.Fields(set["ExecStart"])
	if len(args) < 2 || filepath.Base(args[0]) != "stillhouse" {
		t.Fatalf("ExecStart=%s", set["ExecStart"])
	}
	takes(t, "systemd", args[1:])
	known(t, "systemd", text)
	if stop := durationOf(t, "TimeoutStopSec", set["TimeoutStopSec"]); stop < 2*stopLimit {
		t.Errorf("it is killed %s after it was told to end; it may take %s", stop, stopLimit)
	}
	if set["KillSignal"] != "SIGTERM" || set["StateDirectory"] != "stillhouse" || !strings.Contains(set["ExecStart"], "/var/lib/stillhouse") {
		t.Error("the home is not the folder that the service may write, or it is not told to drain")
	}
}

func TestTheWorkersOfKubernetesStart(t *testing.T) {
	type probe struct {
		HTTPGet struct{ Path, Port string } `yaml:"httpGet"`
	}
	var set struct {
		Kind string
		Spec struct {
			Template struct {
				Spec struct {
					Grace      int `yaml:"terminationGracePeriodSeconds"`
					Containers []struct {
						Args           []string
						LivenessProbe  probe `yaml:"livenessProbe"`
						ReadinessProbe probe `yaml:"readinessProbe"`
						Ports          []struct {
							Name          string
							ContainerPort int `yaml:"containerPort"`
						}
						VolumeMounts []struct{ Name, MountPath string } `yaml:"volumeMounts"`
					}
				}
			}
			VolumeClaimTemplates []struct{ Metadata struct{ Name string } } `yaml:"volumeClaimTemplates"`
		}
	}
	text := deployFile(t, "kubernetes/worker.yaml")
	first, _, _ := strings.Cut(text, "\n---\n")
	if err := yaml.Unmarshal([]byte(first), &set); err != nil {
		t.Fatal(err)
	}
	if set.Kind != "StatefulSet" || len(set.Spec.Template.Spec.Containers) != 1 || len(set.Spec.VolumeClaimTemplates) != 1 {
		t.Fatalf("%+v: a worker keeps its home", set)
	}
	if grace := time.Duration(set.Spec.Template.Spec.Grace) * time.Second; grace < 2*stopLimit {
		t.Errorf("a pod is killed %s after it was told to end; it may take %s", grace, stopLimit)
	}
	c := set.Spec.Template.Spec.Containers[0]
	o := takes(t, "kubernetes", c.Args)
	if len(c.Ports) != 1 || !strings.HasSuffix(o.address, ":8686") || c.Ports[0].ContainerPort != 8686 {
		t.Errorf("it listens at %s, and its port is %v", o.address, c.Ports)
	}
	known(t, "kubernetes", deployFile(t, "kubernetes/kustomization.yaml"))

	// The probes ask what is answered.
	served := httptest.NewServer((&operator{now: time.Now}).handler())
	defer served.Close()
	for _, p := range []probe{c.LivenessProbe, c.ReadinessProbe} {
		res, err := http.Get(served.URL + p.HTTPGet.Path)
		if err != nil {
			t.Fatal(err)
		}
		if res.Body.Close(); res.StatusCode != http.StatusOK || p.HTTPGet.Port != c.Ports[0].Name {
			t.Errorf("probe %+v: %s", p.HTTPGet, res.Status)
		}
	}
	if c.LivenessProbe.HTTPGet.Path == c.ReadinessProbe.HTTPGet.Path {
		t.Error("a worker is killed where its Temporal does not answer: liveness is /healthz")
	}

	// The policy that comes with it is one, and allows nothing.
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(deployFile(t, "kubernetes/policy.yaml")), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := policy.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Endpoint("https://api.example.com/v1", "SOME_KEY"); err == nil {
		t.Error("the policy as it stands lets workers ask anybody")
	}
}
