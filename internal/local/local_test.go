//go:build !noembed

package local

import (
	"context"
	"os"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	temporallog "go.temporal.io/sdk/log"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"log/slog"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

// TestMain lets the test binary be the store's child, as main does.
func TestMain(m *testing.M) {
	if handled, code := ChildMain(os.Args[1:]); handled {
		os.Exit(code)
	}
	if handled, code := parentMain(os.Args[1:]); handled {
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// openHome makes an empty home and takes its lock for the test.
func openHome(t testing.TB) *home.Home {
	t.Helper()
	h, err := home.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	lock, err := h.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lock.Unlock(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// start runs the services for the test.
func start(t testing.TB, h *home.Home) *Services {
	t.Helper()
	begin := time.Now()
	s, err := Start(t.Context(), Options{Home: h, Binary: "test"})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("ready after %v", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(func() { stop(t, s) })
	return s
}

func stop(t testing.TB, s *Services) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	begin := time.Now()
	if err := s.Stop(ctx); err != nil {
		t.Error(err)
	}
	t.Logf("stopped after %v", time.Since(begin).Round(time.Millisecond))
}

// dial connects as the owner of the home does.
func dial(t testing.TB, e *home.Endpoints) client.Client {
	t.Helper()
	c, err := client.Dial(clientOptions(e, e.Token))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func clientOptions(e *home.Endpoints, token string) client.Options {
	withToken := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
		if token != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+token)
		}
		return invoke(ctx, method, req, reply, cc, opts...)
	}
	return client.Options{
		HostPort:          e.Temporal,
		Namespace:         e.Namespace,
		Logger:            temporallog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
		ConnectionOptions: client.ConnectionOptions{DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(withToken)}},
	}
}
