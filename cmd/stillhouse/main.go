// Command stillhouse builds multi-teacher distillation datasets. This file is
// the one place that links the embedded services.
package main

import (
	"context"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/stillhouse-data/stillhouse/internal/cli"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/local"
	"github.com/stillhouse-data/stillhouse/internal/local/demo"
	"github.com/stillhouse-data/stillhouse/internal/version"
	"github.com/stillhouse-data/stillhouse/training/launch"
)

// memoryLimit is the size, in bytes, from which on the garbage collector works
// harder. With the program's own text it keeps a process under 500 MiB.
const memoryLimit = 320 << 20

// gcPercent lets garbage grow to twice what is in use before it is collected,
// as long as memoryLimit is far.
const gcPercent = 200

func main() {
	// Some processes of ours are this program again: the embedded store and
	// the supervisor of a training.
	if handled, code := local.ChildMain(os.Args[1:]); handled {
		os.Exit(code)
	}
	if len(os.Args) > 1 && os.Args[1] == launch.SuperviseArg {
		os.Exit(launch.Supervise(os.Args[2:]))
	}
	// A process stays near this size whatever it builds; GOMEMLIMIT overrides it.
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(cli.Main(os.Args[1:], embedded{}, version.Get().Version))
}

// embedded gives the command line what this binary carries.
type embedded struct{}

func (embedded) Start(ctx context.Context, h *home.Home, log *slog.Logger, verbose bool) (cli.Services, error) {
	s, err := local.Start(ctx, local.Options{Home: h, Log: log, Binary: version.Get().Version, Verbose: verbose})
	if err != nil {
		return nil, err
	}
	return services{s}, nil
}

func (embedded) Demo(ctx context.Context, h *home.Home) (cli.Demo, error) {
	t, err := demo.Start(ctx, demo.Options{Dir: h.Path("demo")})
	if err != nil {
		return cli.Demo{}, err
	}
	path, err := demo.Write(h.Path("demo"), t.All)
	if err != nil {
		_ = t.Stop(ctx)
		return cli.Demo{}, err
	}
	return cli.Demo{Recipe: path, Stop: t.Stop}, nil
}

type services struct{ *local.Services }

func (s services) Endpoints() home.Endpoints { return s.Services.Endpoints }
