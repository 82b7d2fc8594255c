package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

func init() { register(doctorCommand) }

func doctorCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine and the services, and say how to fix what is wrong",
		Long:  "Doctor checks the home, the services that run on it, disk space, the store and\nTemporal where they are named, and the environment. Each line says ok, warn or\nfail, and what to do. It exits with 1 if any check fails.\nTeachers are checked with: stillhouse probe RECIPE",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return a.doctor(cmd.Context()) },
	}
}

// States of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// A check is one line of doctor.
type check struct {
	Name  string `json:"name"`
	State string `json:"state"`         // ok, warn or fail
	Found string `json:"found"`         // what is the case
	Fix   string `json:"fix,omitempty"` // what to do about it
}

const (
	// doctorLimit bounds each check that goes over the network.
	doctorLimit = 10 * time.Second
	// lockLimit bounds the wait for a process that is just starting.
	lockLimit = 3 * time.Second

	lowSpace  = 5 << 30   // bytes; less is a warning
	noSpace   = 512 << 20 // bytes; less is a failure
	lowFiles  = 1024      // open files of a process; fewer is a warning
	tempSpace = 1 << 30   // bytes of the temporary folder; less is a warning
)

// A physician gathers checks.
type physician struct {
	app    *app
	home   *home.Home // nil where it can't be used
	checks []check
}

func (a *app) doctor(ctx context.Context) error {
	p := &physician{app: a}
	p.program()
	p.openHome()
	p.services(ctx)
	p.space()
	p.sandbox(ctx)
	p.variables()
	p.store(ctx)
	p.temporal(ctx)
	if err := ctx.Err(); err != nil {
		return err
	}
	failed := slices.ContainsFunc(p.checks, func(c check) bool { return c.State == checkFail })
	if a.json {
		if err := a.printJSON(map[string]any{"ok": !failed, "checks": p.checks}); err != nil {
			return err
		}
	} else {
		p.print()
	}
	if failed {
		return &codedError{code: exitFailed}
	}
	return nil
}

func (p *physician) print() {
	for _, c := range p.checks {
		fmt.Fprintf(p.app.out, "%-5s %-14s %s\n", c.State, c.Name, oneLine(c.Found))
		if c.Fix != "" {
			fmt.Fprintf(p.app.out, "%-20s fix: %s\n", "", oneLine(c.Fix))
		}
	}
}

func (p *physician) ok(name, found string, args ...any) {
	p.checks = append(p.checks, check{Name: name, State: checkOK, Found: fmt.Sprintf(found, args...)})
}

func (p *physician) warn(name, fix, found string, args ...any) {
	p.checks = append(p.checks, check{name, checkWarn, fmt.Sprintf(found, args...), fix})
}

func (p *physician) fail(name, fix, found string, args ...any) {
	p.checks = append(p.checks, check{name, checkFail, fmt.Sprintf(found, args...), fix})
}

// program checks what this process is and may do.
func (p *physician) program() {
	if p.app.carriesServices() {
		p.ok("program", "%s/%s, with embedded services", runtime.GOOS, runtime.GOARCH)
	} else {
		p.warn("program", "install a release, or name a Temporal server and a store with --temporal and --store",
			"%s/%s, without embedded services: it can look at datasets, and cannot build alone", runtime.GOOS, runtime.GOARCH)
	}
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil && limit.Cur < lowFiles {
		p.warn("open files", fmt.Sprintf("raise it before a build: ulimit -n %d", 4*lowFiles), "a process may open %d files; many teachers at once need more", limit.Cur)
	}
}

func (p *physician) openHome() {
	h, err := p.app.openHome()
	if err != nil {
		p.fail("home", "name a folder that you can write: --home DIR, or STILLHOUSE_HOME", "%v", err)
		return
	}
	p.home = h
	p.ok("home", "%s can be written", h.Dir)
	keys := h.Path("keys.json")
	if info, err := os.Stat(keys); err == nil && info.Mode().Perm()&0o077 != 0 {
		p.fail("keys", "chmod 600 "+quoted(keys)+", or remove it to have new ones made", "other users can read %s (mode %04o)", keys, info.Mode().Perm())
	}
}

// services checks the lock of the home and what its holder runs.
func (p *physician) services(ctx context.Context) {
	if p.home == nil {
		return
	}
	short, cancel := context.WithTimeout(ctx, lockLimit)
	defer cancel()
	e, err := p.home.ReadEndpoints(short)
	switch {
	case errors.Is(err, home.ErrNotRunning):
		p.ok("services", "none run on this home; build, demo and serve start them")
		return
	case err != nil:
		p.warn("services", "wait for the process to start up; if it does not, end it: what has arrived is kept", "%v", err)
		return
	}
	p.ok("lock", "process %d (%s) runs the services since %s", e.PID, dash(e.Binary), e.Started.Local().Format(time.DateTime))
	fix := fmt.Sprintf("stop process %d and start it again: stillhouse serve; what is under way goes on", e.PID)
	p.reachable(ctx, "embedded store", fix, e.S3, func(ctx context.Context) error {
		b, err := openEmbeddedStore(ctx, e)
		if err != nil {
			return err
		}
		return checkStore(ctx, b, false)
	})
	p.reachable(ctx, "embedded server", fix, e.Temporal, func(ctx context.Context) error {
		return dial(ctx, client.Options{
			HostPort: e.Temporal, Namespace: e.Namespace, Logger: quietLog(p.app), HeadersProvider: bearer(e.Token),
		})
	})
}

// reachable checks something behind an address.
func (p *physician) reachable(ctx context.Context, name, fix, address string, try func(context.Context) error) {
	ctx, cancel := context.WithTimeout(ctx, doctorLimit)
	defer cancel()
	if err := try(ctx); err != nil {
		p.fail(name, fix, "%s: %v", address, err)
		return
	}
	p.ok(name, "%s answers", address)
}

// checkStore asks a store whether it is there, and with probe whether it does
// what publishing rests on.
func checkStore(ctx context.Context, b objstore.Bucket, probe bool) error {
	if c, ok := b.(interface{ Check(context.Context) error }); ok {
		if err := c.Check(ctx); err != nil {
			return err
		}
	}
	if c, ok := b.(interface{ Probe(context.Context) error }); ok && probe {
		return c.Probe(ctx)
	}
	return nil
}

func dial(ctx context.Context, options client.Options) error {
	c, err := client.DialContext(ctx, options)
	if err != nil {
		return err
	}
	c.Close()
	return nil
}

// space checks the disks of the home and of temporary files.
func (p *physician) space() {
	if p.home != nil {
		free, err := freeBytes(p.home.Dir)
		fix := "free some, or move to a larger disk: --home DIR"
		switch {
		case err != nil:
			p.warn("disk", "look at the disk by hand: df "+quoted(p.home.Dir), "the free space of %s is not known: %v", p.home.Dir, err)
		case free < noSpace:
			p.fail("disk", fix, "%s free for %s; a build would fail", sized(free), p.home.Dir)
		case free < lowSpace:
			p.warn("disk", fix, "%s free for %s; a large build may not fit", sized(free), p.home.Dir)
		default:
			p.ok("disk", "%s free for %s", sized(free), p.home.Dir)
		}
	}
	temp := os.TempDir()
	f, err := os.CreateTemp(temp, "stillhouse-doctor-*")
	if err != nil {
		p.fail("temporary", "name a folder that you can write: TMPDIR", "temporary files can't be made: %v", err)
		return
	}
	_ = errors.Join(f.Close(), os.Remove(f.Name()))
	if free, err := freeBytes(temp); err == nil && free < tempSpace {
		p.warn("temporary", "name a larger folder: TMPDIR", "%s free in %s, where large files are put while they are read", sized(free), temp)
		return
	}
	p.ok("temporary", "%s can be written", temp)
}

func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(uint64(s.Bavail) * uint64(s.Bsize)), nil //nolint:unconvert // the fields' types differ between systems
}

// ownVariables are the variables that this program reads.
var ownVariables = []string{"STILLHOUSE_HOME", "STILLHOUSE_STORE", "STILLHOUSE_TEMPORAL", kmsKeyVariable, pathStyleVariable}

// otherVariables are of this name and read by others: by tests, and by shells
// that took over what env prints.
var otherVariables = []string{
	"STILLHOUSE_BUCKET", "STILLHOUSE_TEMPORAL_UI", "STILLHOUSE_TEMPORAL_TOKEN", "STILLHOUSE_TESTDATA", "STILLHOUSE_REQUIRE_TESTDATA",
}

// variables checks the environment and what it says together with the flags.
// Values that may be secrets are not shown.
func (p *physician) variables() {
	var set []string
	for _, name := range ownVariables {
		if v := p.app.env(name); v != "" {
			set = append(set, name+"="+v)
		}
	}
	for _, name := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_PROFILE", "AWS_PROFILE", "AWS_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"} {
		if v := p.app.env(name); v != "" {
			set = append(set, name+"="+v)
		}
	}
	for _, pair := range os.Environ() {
		name, _, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "STILLHOUSE_") && !slices.Contains(ownVariables, name) && !slices.Contains(otherVariables, name) {
			p.warn("variables", "it is read by nobody; there are "+strings.Join(ownVariables, ", "), "%s is set", name)
		}
	}
	if err := p.app.checkPlaces(); err != nil {
		p.fail("variables", "see stillhouse --help", "%v", err)
		return
	}
	if len(set) == 0 {
		p.ok("variables", "none is set that matters here")
		return
	}
	p.ok("variables", "%s", strings.Join(set, ", "))
}

// store checks the store that --store names: that it answers, and that it
// honours the conditions which publishing rests on.
func (p *physician) store(ctx context.Context) {
	if !strings.HasPrefix(p.app.store, "s3://") {
		return // none, or one that variables has refused
	}
	const fix = "check the bucket's name, its region, the endpoint (AWS_ENDPOINT_URL) and the credentials"
	p.reachable(ctx, "store", fix, p.app.store, func(ctx context.Context) error {
		b, err := p.app.openRemoteStore(ctx)
		if err != nil {
			return err
		}
		return checkStore(ctx, b, true)
	})
}

// temporal checks the server that is named by flag, variable or profile.
func (p *physician) temporal(ctx context.Context) {
	a := p.app
	if !a.remoteTemporal() || a.checkPlaces() != nil || p.home == nil {
		return // none, or one that variables has refused
	}
	address := a.temporal
	if address == "" {
		address = a.env("TEMPORAL_ADDRESS")
	}
	if address == "" {
		address = "profile " + a.env("TEMPORAL_PROFILE")
	}
	const fix = "check the address, and its TLS and key settings (TEMPORAL_TLS…, TEMPORAL_API_KEY)"
	p.reachable(ctx, "temporal", fix, address, func(ctx context.Context) error {
		s := &session{app: a, home: p.home}
		defer s.close()
		return s.connectRemote(ctx)
	})
}
