package kube

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	servertesting "k8s.io/apiextensions-apiserver/pkg/cmd/server/testing"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/yaml"
)

// standIn serves Jobs: the server takes no custom resource of group batch.
const standIn = "batch.example.com"

var (
	crds      = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	resources = map[string]schema.GroupVersionResource{
		"Job":      {Group: standIn, Version: "v1", Resource: "jobs"},
		"TrainJob": {Group: "trainer.kubeflow.org", Version: "v1alpha1", Resource: "trainjobs"},
		"RayJob":   {Group: "ray.io", Version: "v1", Resource: "rayjobs"},
	}
)

// api is the real server, for what a cluster's controllers and users would do.
var api dynamic.Interface

// front is what launchers speak to.
var front *proxy

func TestMain(m *testing.M) {
	if os.Getenv("STILLHOUSE_KUBE_CHILD") != "" {
		child()
		return
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "stillhouse-kube")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	began := time.Now()
	etcd, err := startEtcd(dir)
	if err != nil {
		log.Fatal(err)
	}
	defer etcd.Close()
	nobody := filepath.Join(dir, "nobody")
	if err := os.WriteFile(nobody, []byte("{apiVersion: v1, kind: Config, current-context: nobody, contexts: [{name: nobody, context: {cluster: nobody, user: nobody}}], clusters: [{name: nobody, cluster: {server: 'http://127.0.0.1:1'}}], users: [{name: nobody, user: {}}]}"), 0o600); err != nil {
		log.Fatal(err)
	}
	server, err := servertesting.StartTestServer(quiet{}, nil, []string{
		"--etcd-prefix", "stillhouse", "--etcd-servers", "http://" + etcd.Clients[0].Addr().String(),
		"--authentication-skip-lookup", "--authentication-kubeconfig", nobody, "--authorization-kubeconfig", nobody, "--kubeconfig", nobody,
		"--enable-priority-and-fairness=false",
		"--disable-admission-plugins", "NamespaceLifecycle,MutatingAdmissionWebhook,ValidatingAdmissionWebhook,ValidatingAdmissionPolicy",
	}, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer server.TearDownFn()
	config := rest.CopyConfig(server.ClientConfig)
	config.QPS = -1
	if api, err = dynamic.NewForConfig(config); err != nil {
		log.Fatal(err)
	}
	if err := install(api); err != nil {
		log.Fatal(err)
	}
	if front, err = newProxy(config); err != nil {
		log.Fatal(err)
	}
	defer front.server.Close()
	log.Printf("the API server is up after %s", time.Since(began).Round(time.Millisecond))
	return m.Run()
}

func startEtcd(dir string) (*embed.Etcd, error) {
	c := embed.NewConfig()
	c.Dir = filepath.Join(dir, "etcd")
	c.LogLevel = "error"
	c.UnsafeNoFsync = true
	any, err := url.Parse("http://127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*any}, []url.URL{*any}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{*any}, []url.URL{*any}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		return nil, err
	}
	select {
	case <-e.Server.ReadyNotify():
		return e, nil
	case err := <-e.Err():
		return nil, err
	case <-time.After(time.Minute):
		e.Close()
		return nil, fmt.Errorf("etcd is not ready after a minute")
	}
}

// quiet is the log of a server that works.
type quiet struct{}

func (quiet) Errorf(f string, args ...any) { log.Printf(f, args...) }
func (quiet) Fatalf(f string, args ...any) { log.Fatalf(f, args...) }
func (quiet) Logf(string, ...any)          {}

// install defines the resources, and waits until each is served.
func install(api dynamic.Interface) error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	text, err := os.ReadFile("testdata/crds.yaml")
	if err != nil {
		return err
	}
	for _, one := range strings.Split(string(text), "\n---\n") {
		var o map[string]any
		if err := yaml.Unmarshal([]byte(one), &o); err != nil {
			return err
		}
		if _, err := api.Resource(crds).Create(ctx, &unstructured.Unstructured{Object: o}, metav1.CreateOptions{FieldValidation: metav1.FieldValidationStrict}); err != nil {
			return err
		}
	}
	for _, r := range resources {
		for {
			_, err := api.Resource(r).Namespace("training").List(ctx, metav1.ListOptions{})
			if err == nil {
				break
			}
			select {
			case <-ctx.Done():
				return fmt.Errorf("%s is not served: %w", r.Resource, err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	return nil
}

// A proxy passes requests for custom resources on to the server, keeps Secrets
// and pods itself, and may spoil what it answers.
type proxy struct {
	server  *httptest.Server
	mu      sync.Mutex
	secrets map[string]map[string]any
	pods    []any
	log     string
	// after is called when a request was carried out, before its answer is sent;
	// false loses the answer.
	after func(method, path string) bool
}

func newProxy(config *rest.Config) (*proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, err
	}
	p := &proxy{secrets: map[string]map[string]any{}}
	pass := httputil.NewSingleHostReverseProxy(target)
	pass.Transport = transport
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rec := httptest.NewRecorder()
		if strings.HasPrefix(r.URL.Path, "/api/v1/") {
			p.core(rec, r)
		} else {
			renamed(rec, r, pass)
		}
		p.mu.Lock()
		after := p.after
		p.mu.Unlock()
		if after != nil && !after(r.Method, r.URL.Path) {
			panic(http.ErrAbortHandler)
		}
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		w.Write(rec.Body.Bytes())
	}))
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0)
	return p, nil
}

// renamed passes a request on, with group batch by its other name.
func renamed(w *httptest.ResponseRecorder, r *http.Request, to http.Handler) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	body = bytes.ReplaceAll(body, []byte(`"apiVersion":"batch/v1"`), []byte(`"apiVersion":"`+standIn+`/v1"`))
	out := r.Clone(r.Context())
	out.Body, out.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	out.URL.Path = strings.Replace(r.URL.Path, "/apis/batch/", "/apis/"+standIn+"/", 1)
	out.Header.Del("Accept-Encoding") // the answer is read below
	to.ServeHTTP(w, out)
	text := bytes.ReplaceAll(w.Body.Bytes(), []byte(`"apiVersion":"`+standIn+`/v1"`), []byte(`"apiVersion":"batch/v1"`))
	w.Body = bytes.NewBuffer(text)
	w.Header().Del("Content-Length")
}

// reset forgets what was kept, and returns to answering.
func (p *proxy) reset(after func(method, path string) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.secrets, p.pods, p.log, p.after = map[string]map[string]any{}, nil, "", after
}

func (p *proxy) secret(name string) map[string]any {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.secrets[name]
}

func (p *proxy) core(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")[4:] // api v1 namespaces NAMESPACE
	answer := func(code int, v any) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(code)
		json.NewEncoder(w).Encode(v)
	}
	refuse := func(code int, reason string) {
		answer(code, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Failure", Code: int32(code), Reason: metav1.StatusReason(reason), Message: parts[0] + " " + reason})
	}
	switch {
	case parts[0] == "pods" && len(parts) == 3:
		io.WriteString(w, p.log)
	case parts[0] == "pods":
		answer(200, map[string]any{"apiVersion": "v1", "kind": "PodList", "items": append([]any{}, p.pods...)})
	case r.Method == http.MethodPost:
		var o map[string]any
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			refuse(400, "BadRequest")
			return
		}
		u := unstructured.Unstructured{Object: o}
		if p.secrets[u.GetName()] != nil {
			refuse(409, "AlreadyExists")
			return
		}
		p.secrets[u.GetName()] = o
		answer(201, o)
	case p.secrets[parts[len(parts)-1]] == nil:
		refuse(404, "NotFound")
	case r.Method == http.MethodDelete:
		delete(p.secrets, parts[1])
		answer(200, metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: "Success"})
	default:
		answer(200, p.secrets[parts[1]])
	}
}

// kubeconfig of the proxy.
func kubeconfig(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	fmt.Fprintf(&b, "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c, user: u}}], clusters: [{name: c, cluster: {server: %q}}], users: [{name: u, user: {}}]}", front.server.URL)
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
