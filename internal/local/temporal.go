//go:build !noembed

package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/authorization"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	temporalserver "go.temporal.io/server/temporal"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

// temporalServer is the running server.
type temporalServer struct {
	address string // of the frontend
	config  *config.Config
	server  temporalserver.Server
	log     *serverLog
	file    *os.File
}

// startTries is how often a start is repeated when somebody else takes one of
// the ports between finding and opening it.
const startTries = 3

// startTemporal runs a whole Temporal server in this process. died is called
// at most once, when the server can't go on.
func startTemporal(ctx context.Context, h *home.Home, token string, verbose bool, preferred int, died func(error)) (*temporalServer, error) {
	mark, err := prepareDatabase(h)
	if err != nil {
		return nil, err
	}
	file, err := openLog(h.Path("logs", "temporal.log"))
	if err != nil {
		return nil, fmt.Errorf("open the Temporal server's log: %w", err)
	}
	level := slog.LevelError
	if verbose {
		level = slog.LevelInfo
	}
	out := slog.New(slog.NewJSONHandler(file, &slog.HandlerOptions{Level: level}))
	for try := 1; ; try++ {
		t, err := tryTemporal(ctx, h, mark, token, out, preferred, died)
		if err == nil {
			t.file = file
			return t, nil
		}
		if try == startTries || ctx.Err() != nil {
			file.Close()
			return nil, fmt.Errorf("start the Temporal server: %w; its log is %s", err, file.Name())
		}
		preferred = 0
	}
}

func tryTemporal(ctx context.Context, h *home.Home, mark stamp, token string, out *slog.Logger, preferred int, died func(error)) (*temporalServer, error) {
	cfg, hosts, err := serverConfig(h, mark, preferred)
	if err != nil {
		return nil, err
	}
	internode, err := newInternodeTLS()
	if err != nil {
		return nil, err
	}
	// Until the server is up a fatal fault fails the start; after that it is
	// the end of the services.
	var starting startFault
	log := newServerLog(out, func(err error) {
		if !starting.record(err) {
			died(fmt.Errorf("the Temporal server died: %w", err))
		}
	})
	g := &gate{token: token}
	options := []temporalserver.ServerOption{
		temporalserver.WithConfig(cfg),
		temporalserver.ForServices(services()),
		temporalserver.WithStaticHosts(hosts),
		temporalserver.WithLogger(log),
		temporalserver.WithAuthorizer(g),
		temporalserver.WithClaimMapper(func(*config.Config) authorization.ClaimMapper { return g }),
		temporalserver.WithTLSConfigFactory(internode),
		temporalserver.WithDynamicConfigClient(dynamicConfig()),
	}
	server, err := startServer(options, &starting)
	if err != nil {
		log.quiet.Store(true)
		if server != nil {
			_ = server.Stop()
		}
		return nil, err
	}
	t := &temporalServer{address: hosts[primitives.FrontendService].Self, config: cfg, server: server, log: log}
	if err := t.welcome(ctx, h, mark, token, &starting); err != nil {
		return nil, errors.Join(err, t.stop())
	}
	return t, nil
}

// welcome returns when the server answers for our namespace with all of our
// search attributes.
func (t *temporalServer) welcome(ctx context.Context, h *home.Home, mark stamp, token string, fault *startFault) error {
	conn, err := dialFrontend(t.address, token)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, welcomeLimit)
	defer cancel()
	if err := waitFrontend(ctx, conn, fault); err != nil {
		return err
	}
	if missing := mark.missingAttributes(); len(missing) > 0 {
		if err := addSearchAttributes(ctx, conn, missing); err != nil {
			return err
		}
		mark.SearchAttributes = slices.Sorted(maps.Keys(searchAttributes))
		return mark.write(h)
	}
	return nil
}

// addSearchAttributes brings an older database up to date and waits until the
// server's caches know it.
func addSearchAttributes(ctx context.Context, conn *grpc.ClientConn, missing map[string]enumspb.IndexedValueType) error {
	_, err := operatorservice.NewOperatorServiceClient(conn).AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: Namespace, SearchAttributes: missing,
	})
	if err != nil {
		return fmt.Errorf("add search attributes: %w", err)
	}
	client := workflowservice.NewWorkflowServiceClient(conn)
	for name := range missing {
		err := poll(ctx, func() error {
			_, err := client.CountWorkflowExecutions(ctx, &workflowservice.CountWorkflowExecutionsRequest{
				Namespace: Namespace, Query: name + " IS NULL",
			})
			return err
		})
		if err != nil {
			return fmt.Errorf("wait for the search attribute %s: %w", name, err)
		}
	}
	return nil
}

// startServer builds and starts the server in a goroutine of its own, which a
// fatal fault ends.
func startServer(options []temporalserver.ServerOption, fault *startFault) (server temporalserver.Server, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		server, err = temporalserver.NewServer(options...)
		if err == nil {
			err = server.Start()
		}
	}()
	<-done
	return server, errors.Join(fault.err(), err)
}

// startFault keeps the first fatal fault of a start.
type startFault struct {
	mu      sync.Mutex
	fault   error
	started bool
}

// record reports whether the fault belongs to the start.
func (f *startFault) record(err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.started {
		return false
	}
	f.fault = errors.Join(f.fault, err)
	return true
}

func (f *startFault) err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.fault
}

// up ends the start, unless it has failed.
func (f *startFault) up() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.started = f.fault == nil
	return f.fault
}

// services are the server's parts. The internal frontend is for its own
// workers (schedules, deletions), which know no token.
func services() []string {
	return append([]string{string(primitives.InternalFrontendService)}, temporalserver.DefaultServices...)
}

func serverConfig(h *home.Home, mark stamp, preferred int) (*config.Config, map[primitives.ServiceName]static.Hosts, error) {
	cfg := &config.Config{
		Global: config.Global{
			Membership: config.Membership{MaxJoinDuration: 30 * time.Second, BroadcastAddress: loopback},
		},
		Persistence: config.Persistence{
			DefaultStore:     sqliteplugin.PluginName,
			VisibilityStore:  sqliteplugin.PluginName,
			NumHistoryShards: 1, // fixed for the life of the database; more gain nothing on one connection
			DataStores:       map[string]config.DataStore{sqliteplugin.PluginName: {SQL: sqlConfig(h)}},
		},
		DCRedirectionPolicy: config.DCRedirectionPolicy{Policy: "noop"},
		Services:            map[string]config.Service{},
		Archival: config.Archival{
			History:    config.HistoryArchival{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchival{State: config.ArchivalDisabled},
		},
		NamespaceDefaults: config.NamespaceDefaults{Archival: config.ArchivalNamespaceDefaults{
			History:    config.HistoryArchivalNamespaceDefaults{State: config.ArchivalDisabled},
			Visibility: config.VisibilityArchivalNamespaceDefaults{State: config.ArchivalDisabled},
		}},
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for _, name := range services() {
		want := 0
		if name == string(primitives.FrontendService) {
			want = preferred
		}
		port, err := reservePort(want)
		if err != nil {
			return nil, nil, err
		}
		cfg.Services[name] = config.Service{RPC: config.RPC{GRPCPort: port, BindOnIP: loopback}}
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(net.JoinHostPort(loopback, strconv.Itoa(port)))
	}
	cfg.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10,
		MasterClusterName:        clusterName,
		CurrentClusterName:       clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
			Enabled:                true,
			InitialFailoverVersion: 1,
			RPCAddress:             hosts[primitives.FrontendService].Self,
			ClusterID:              mark.ClusterID,
		}},
	}
	return cfg, hosts, nil
}

// dynamicConfig fits the server to one machine and one user.
func dynamicConfig() dynamicconfig.StaticClient {
	return dynamicconfig.StaticClient{
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key():                 8096, // workflows held in memory; the default is 128,000
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,  // the default of 10 is for a shared cluster
	}
}

// welcomeLimit bounds a start. Adding search attributes, once after an upgrade,
// waits for the server's caches.
const (
	welcomeLimit = 60 * time.Second
	welcomePoll  = 20 * time.Millisecond
)

func waitFrontend(ctx context.Context, conn *grpc.ClientConn, fault *startFault) error {
	client := workflowservice.NewWorkflowServiceClient(conn)
	err := poll(ctx, func() error {
		if fault.err() != nil {
			return nil
		}
		_, err := client.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: Namespace})
		return err
	})
	if err != nil {
		return fmt.Errorf("wait for the server's first answer: %w", err)
	}
	return fault.up()
}

// poll repeats a call until it succeeds or ctx ends.
func poll(ctx context.Context, call func() error) error {
	tick := time.NewTicker(welcomePoll)
	defer tick.Stop()
	for {
		err := call()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %v)", context.Cause(ctx), err)
		case <-tick.C:
		}
	}
}

// dialFrontend connects with the token to a frontend of our own.
func dialFrontend(address, token string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithPerRPCCredentials(tokenCredentials(token)),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)),
	)
}

// tokenCredentials send the token with every call, over loopback only.
type tokenCredentials string

func (t tokenCredentials) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": bearer + string(t)}, nil
}

func (tokenCredentials) RequireTransportSecurity() bool { return false }

func (t *temporalServer) stop() error {
	t.log.quiet.Store(true)
	err := t.server.Stop()
	if t.file != nil {
		err = errors.Join(err, t.file.Close())
	}
	return err
}
