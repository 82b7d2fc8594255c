//go:build noembed

package local

import (
	"context"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

// Services are the running embedded services.
type Services struct {
	Endpoints home.Endpoints
}

// Start refuses with [ErrNotEmbedded].
func Start(context.Context, Options) (*Services, error) { return nil, ErrNotEmbedded }

// Stop ends the services.
func (*Services) Stop(context.Context) error { return nil }

// Done is closed when a service died by itself; see Err.
func (*Services) Done() <-chan struct{} { return nil }

// Err says why Done is closed.
func (*Services) Err() error { return nil }

// ChildMain does nothing in this build.
func ChildMain([]string) (handled bool, code int) { return false, 0 }
