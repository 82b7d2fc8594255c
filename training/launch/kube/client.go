package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	launchrest "github.com/stillhouse-data/stillhouse/training/launch/rest"
)

// maxAnswer bounds what is read of one answer, in bytes.
const maxAnswer = 32 << 20

// A cluster is a connection to one.
type cluster struct {
	objects dynamic.Interface
	// podLog opens the end of a container's log, of so many lines.
	podLog func(ctx context.Context, namespace, pod, container string, lines int64) (io.ReadCloser, error)
}

// connectOnce connects at the first use, and again where that failed.
func connectOnce(c *Config) func() (*cluster, error) {
	var mu sync.Mutex
	var made *cluster
	return func() (*cluster, error) {
		mu.Lock()
		defer mu.Unlock()
		if made != nil {
			return made, nil
		}
		config, err := c.restConfig()
		if err != nil {
			return nil, err
		}
		made, err = connect(config)
		return made, err
	}
}

func (c *Config) restConfig() (*rest.Config, error) {
	config, err := c.load()
	if err != nil {
		return nil, err
	}
	if err := c.checkTransport(config); err != nil {
		return nil, err
	}
	config.Timeout = c.Timeout
	config.UserAgent = "stillhouse"
	config.WarningHandler = rest.NoWarnings{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return &bounded{next} })
	return config, nil
}

func (c *Config) load() (*rest.Config, error) {
	if c.InCluster {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("in_cluster: %w", err)
		}
		return config, nil
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if c.Kubeconfig != "" {
		rules.ExplicitPath = c.Kubeconfig
	}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: c.Context}).ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	return config, nil
}

// checkTransport refuses to send an account's token where others can read it.
func (c *Config) checkTransport(config *rest.Config) error {
	host := config.Host
	if !strings.Contains(host, "://") {
		host = "https://" + host
	}
	u, err := url.Parse(host)
	if err != nil {
		return errors.New("kubeconfig: its server is no URL")
	}
	if (u.Scheme != "https" || config.Insecure) && !launchrest.Loopback(u.Hostname()) && !c.Plaintext {
		return fmt.Errorf("kubeconfig: %s is not reached over https with a certificate that is checked: give one, or plaintext: true where the network between is trusted", u.Host)
	}
	return nil
}

func connect(config *rest.Config) (*cluster, error) {
	made, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	httpClient := *made
	// The transport would give our token to wherever a redirect points.
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	objects, err := dynamic.NewForConfigAndClient(config, &httpClient)
	if err != nil {
		return nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, err
	}
	return &cluster{objects: objects, podLog: func(ctx context.Context, namespace, pod, container string, lines int64) (io.ReadCloser, error) {
		return openLog(ctx, &httpClient, base, namespace, pod, container, lines)
	}}, nil
}

func openLog(ctx context.Context, client *http.Client, base *url.URL, namespace, pod, container string, lines int64) (io.ReadCloser, error) {
	at := base.JoinPath("api/v1/namespaces", namespace, "pods", pod, "log")
	at.RawQuery = url.Values{"container": {container}, "tailLines": {fmt.Sprint(lines)}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, nil
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // what came of it is worth telling
	return nil, apierrors.NewGenericServerResponse(resp.StatusCode, "get", podLogKind.resource.GroupResource(), pod, launchrest.Excerpt(string(text)), 0, true)
}

// bounded cuts answers that are too large to be one.
type bounded struct{ next http.RoundTripper }

func (b *bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(req)
	if err == nil && resp.Body != nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}

// WrappedRoundTripper lets client-go find the transport below.
func (b *bounded) WrappedRoundTripper() http.RoundTripper { return b.next }

// explain says what the API server refused, in which words to ask for it, and
// nothing secret.
func explain(err error, verb string, k *kind, namespace string, redact func(string) string) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if redact != nil {
		text = redact(text)
	}
	text = launchrest.Excerpt(text)
	what := k.resource.Resource
	if k.resource.Group != "" {
		what += "." + k.resource.Group
	}
	switch {
	case apierrors.IsForbidden(err) && strings.Contains(text, "quota"):
		return &clusterError{fmt.Sprintf("%s %s in namespace %s is over a quota: %s", verb, what, namespace, text), err}
	case apierrors.IsForbidden(err):
		return &clusterError{fmt.Sprintf("may not %s %s in namespace %s: give the worker's account a Role with that verb (docs/launchers.md has one): %s", verb, what, namespace, text), err}
	case apierrors.IsUnauthorized(err):
		return &clusterError{fmt.Sprintf("the cluster does not know us (%s %s): renew the credentials of the kubeconfig: %s", verb, what, text), err}
	case apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse):
		return &clusterError{fmt.Sprintf("the cluster has no %s of version %s: %s: %s", what, k.resource.Version, k.install, text), err}
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		return &clusterError{fmt.Sprintf("the cluster takes no such %s: %s: mend the launcher's configuration", k.kind, text), err}
	}
	return &clusterError{fmt.Sprintf("%s %s in namespace %s: %s", verb, what, namespace, text), err}
}

// A clusterError is what an API server said, without what is secret; its cause
// is not shown.
type clusterError struct {
	text  string
	cause error
}

func (e *clusterError) Error() string { return e.text }

// Is tells a context's end, which callers look for.
func (e *clusterError) Is(target error) bool {
	return (target == context.Canceled || target == context.DeadlineExceeded) && errors.Is(e.cause, target)
}
