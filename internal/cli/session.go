package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	temporallog "go.temporal.io/sdk/log"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/dir"
	"github.com/stillhouse-data/stillhouse/internal/objstore/s3"
	"github.com/stillhouse-data/stillhouse/internal/sources"
)

// stopLimit bounds how long services and workers may take to end.
const stopLimit = 20 * time.Second

// remoteTemporal tells whether a Temporal server of the user's is named, by
// flag or by Temporal's own environment.
func (a *app) remoteTemporal() bool {
	return a.temporal != "" || a.env("TEMPORAL_ADDRESS") != "" || a.env("TEMPORAL_PROFILE") != ""
}

// checkPlaces refuses combinations that could not work.
func (a *app) checkPlaces() error {
	if a.store != "" {
		if err := a.checkStore(); err != nil {
			return err
		}
	}
	if a.remoteTemporal() && a.store == "" {
		return usage("--temporal needs --store: workers elsewhere cannot read the store that is embedded here; name one with --store s3://bucket/prefix")
	}
	return nil
}

func (a *app) checkStore() error {
	if _, _, err := s3.ParseURL(a.store); err != nil {
		return usage("--store: %v; want s3://bucket or s3://bucket/prefix", err)
	}
	return nil
}

func (a *app) openHome() (*home.Home, error) {
	h, err := home.Open(a.homeDir)
	if err != nil {
		return nil, usage("%v", err)
	}
	return h, nil
}

// readStore opens the store for reading, without starting anything: another
// store by --store, else the embedded store's files.
func (a *app) readStore(ctx context.Context) (objstore.Bucket, error) {
	if a.store != "" {
		return a.openRemoteStore(ctx)
	}
	h, err := a.openHome()
	if err != nil {
		return nil, err
	}
	return openFiles(h)
}

// filesName is what the embedded store is called.
func filesName(h *home.Home) string { return "store of " + h.Dir }

// openFiles opens the embedded store's plain files.
func openFiles(h *home.Home) (objstore.Bucket, error) {
	b, err := dir.Open(h.Path("store", "stillhouse"), filesName(h))
	if err != nil {
		return nil, fmt.Errorf("%w; run: stillhouse doctor, or name another folder with --home or STILLHOUSE_HOME", err)
	}
	return b, nil
}

// openRemoteStore opens the store that --store names. Nothing is sent yet, so
// what fails is the URL, or the environment that is to open it.
func (a *app) openRemoteStore(ctx context.Context) (objstore.Bucket, error) {
	if err := a.checkStore(); err != nil {
		return nil, err
	}
	b, err := s3.Open(ctx, a.s3Options(a.store))
	switch {
	case err == nil:
		return b, nil
	case errors.Is(err, objstore.ErrUnavailable), ctx.Err() != nil:
		return nil, fmt.Errorf("open store %s: %w", a.store, err)
	}
	return nil, usage("--store: %v", err)
}

// readCatalog opens the catalog for reading.
func (a *app) readCatalog(ctx context.Context) (*catalog.Catalog, error) {
	b, err := a.readStore(ctx)
	if err != nil {
		return nil, err
	}
	return catalog.Open(b), nil
}

// A session is an open store and Temporal, embedded or not. Where it owns the
// home's embedded services, it runs their workers too.
type session struct {
	app       *app
	home      *home.Home
	bucket    objstore.Bucket
	catalog   *catalog.Catalog
	temporal  client.Client
	endpoints *home.Endpoints // of embedded services
	lock      *home.Lock      // held while we own the services
	services  Services
	workers   *workers
	remote    bool // a Temporal server of the user's
	works     bool // the command may run the embedded services and their workers
	closing   sync.Once
}

// owns tells whether the embedded services end with this process.
func (s *session) owns() bool { return s.services != nil }

// open opens store and Temporal. With own it starts the embedded services
// where nobody runs them; without, it only attaches to running ones.
func (a *app) open(ctx context.Context, own bool) (*session, error) {
	if err := a.checkPlaces(); err != nil {
		return nil, err
	}
	if err := a.loadLaunchers(); err != nil {
		return nil, err
	}
	if err := a.loadLineage(); err != nil {
		return nil, err
	}
	if err := a.loadHistoryKeys(); err != nil {
		return nil, err
	}
	if err := a.loadRoots(); err != nil {
		return nil, err
	}
	h, err := a.openHome()
	if err != nil {
		return nil, err
	}
	s := &session{app: a, home: h, works: own}
	if a.remoteTemporal() {
		err = s.connectRemote(ctx)
	} else {
		err = s.connectEmbedded(ctx, own)
	}
	if err != nil {
		s.close()
		return nil, err
	}
	s.catalog = catalog.Open(s.bucket)
	return s, nil
}

func (s *session) connectRemote(ctx context.Context) error {
	var err error
	s.remote = true
	if s.bucket, err = s.app.openRemoteStore(ctx); err != nil {
		return err
	}
	options, err := envconfig.LoadDefaultClientOptions()
	if err != nil {
		return usage("Temporal's environment or profile file: %v", err)
	}
	if s.app.temporal != "" {
		options.HostPort = s.app.temporal
	}
	if s.app.namespace != "" {
		options.Namespace = s.app.namespace
	}
	options.Logger = quietLog(s.app)
	s.app.encrypt(&options)
	if s.temporal, err = client.DialContext(ctx, options); err != nil {
		return &codedError{exitUnreachable, fmt.Sprintf("Temporal at %s: %v; check the address, and its TLS and key settings", options.HostPort, err)}
	}
	return nil
}

// connectEmbedded attaches to the home's running services, or starts them.
func (s *session) connectEmbedded(ctx context.Context, own bool) error {
	if own {
		lock, e, err := takeOrFind(ctx, s.home)
		switch {
		case err != nil:
			return err
		case lock != nil:
			s.lock = lock
			return s.start(ctx)
		}
		return s.attach(ctx, e)
	}
	e, err := s.home.ReadEndpoints(ctx)
	if err != nil {
		if errors.Is(err, home.ErrNotRunning) {
			return usage("no services are running in home %s; start them with: stillhouse serve", s.home.Dir)
		}
		return &codedError{exitUnreachable, err.Error()}
	}
	return s.attach(ctx, e)
}

// start runs the embedded services and their workers in this process.
func (s *session) start(ctx context.Context) error {
	if s.app.embedded == nil {
		return usage("this binary carries no embedded services; name a Temporal server with --temporal and a store with --store")
	}
	var err error
	if s.services, err = s.app.embedded.Start(ctx, s.home, s.app.log(), s.app.verbose); err != nil {
		return startError(s.home, err)
	}
	e := s.services.Endpoints()
	if err := s.attach(ctx, &e); err != nil {
		return err
	}
	if err := releaseLost(ctx, s.temporal, e.Namespace); err != nil {
		return fmt.Errorf("take over what an earlier process left: %w", err)
	}
	if s.workers, err = startWorkers(ctx, s, roleAll, nil); err != nil {
		return startError(s.home, err)
	}
	return s.home.WriteEndpoints(&e)
}

// startError is why the embedded services did not start: the home's disk, its
// files or this machine are at fault, and no recipe.
func startError(h *home.Home, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("%w; look at home %s with: stillhouse doctor", err, h.Dir)
}

func (s *session) attach(ctx context.Context, e *home.Endpoints) error {
	var err error
	s.endpoints = e
	if s.app.store != "" {
		s.bucket, err = s.app.openRemoteStore(ctx)
	} else {
		s.bucket, err = s3.Open(ctx, s3.Options{
			URL: "s3://" + e.Bucket, Endpoint: e.S3, Region: e.Region,
			AccessKey: e.AccessKey, SecretKey: e.SecretKey, PathStyle: s3.PathStyleOn,
		})
	}
	if err != nil {
		return err
	}
	s.catalog = catalog.Open(s.bucket)
	options := client.Options{
		HostPort: e.Temporal, Namespace: e.Namespace, Logger: quietLog(s.app),
		HeadersProvider: bearer(e.Token),
	}
	s.app.encrypt(&options)
	s.temporal, err = client.DialContext(ctx, options)
	if err != nil {
		return &codedError{exitUnreachable, fmt.Sprintf("the embedded Temporal server of process %d at %s: %v", e.PID, e.Temporal, err)}
	}
	return nil
}

// bearer sends the embedded server's token with every call.
type bearer string

// GetHeaders implements client.HeadersProvider.
func (b bearer) GetHeaders(context.Context) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + string(b)}, nil
}

// close ends the session: workers first, which keep what is in flight. Only the
// first call does anything.
func (s *session) close() { s.closing.Do(s.end) }

func (s *session) end() {
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	if s.workers != nil {
		s.workers.stop(ctx)
	}
	if s.temporal != nil {
		s.temporal.Close()
	}
	if s.services != nil {
		if err := s.services.Stop(ctx); err != nil {
			s.app.log().Warn("the embedded services did not end cleanly", "error", err)
		}
	}
	if s.lock != nil {
		if err := s.lock.Unlock(); err != nil {
			s.app.log().Warn("the home's lock was not released", "error", err)
		}
	}
}

// quietLog keeps the SDK's own log to what matters.
func quietLog(a *app) temporallog.Logger {
	level := slog.LevelError + 1 // a lost connection is an error of the call that met it
	if a.verbose {
		level = slog.LevelInfo
	}
	return temporallog.NewStructuredLogger(a.logAt(level))
}

// finder finds the files that a recipe names, also in other stores.
func (a *app) finder(recipeDir string) sources.Finder {
	return sources.Finder{Dir: recipeDir, Remote: a.listRemote}
}

// loopback tells whether an address is this machine's.
func loopback(host string) bool {
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip != nil {
		return ip.IsLoopback()
	}
	return host == "localhost"
}
