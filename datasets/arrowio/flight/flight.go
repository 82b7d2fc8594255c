// Package flight is an Arrow Flight endpoint over the catalog: a trainer
// streams the record batches of a view, several files at once, and holds no
// credentials of the object store.
//
//	s, err := flight.New(catalog.Open(bucket), flight.Options{Token: token})
//	go s.Serve(listener)
//	defer s.Stop(ctx)
//
// A flight is a view of a split of a version. Its descriptor is the path
// [ref, view, split], or a command that is a [Request] in JSON; GetFlightInfo
// answers with one endpoint for each data file of the version. Nothing can be
// written.
//
// What it promises:
//   - Every call carries the token ("authorization: Bearer …"), or is refused.
//   - What goes out is held to the terms of the teachers, and every data file
//     to its digest before the first of its rows, as in an export.
//   - A ticket is good for the version that its flight info told of, and for
//     nothing else; one that was changed is refused.
//   - A stream that ended without an error is whole.
//   - Memory is bounded by the streams at once, whatever they stream.
package flight

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"

	"github.com/stillhouse-data/stillhouse/datasets/catalog"
)

// Options of a Server.
type Options struct {
	// Token is what every call has to carry; required, at least 16 bytes.
	Token string
	// Streams bounds how many streams may be read at once; DefaultStreams for
	// 0. One more is refused, not kept waiting: a reader that opens several and
	// reads them in turn would wait for itself.
	Streams int
	// TLS is the server's certificate; nil serves in the clear, which is for
	// loopback alone.
	TLS *tls.Config
	// Log tells of every stream; nil discards.
	Log *slog.Logger
}

const (
	// DefaultStreams are more than the loaders of one trainer open, and few
	// enough that their batches fit into any machine's memory.
	DefaultStreams = 16
	minTokenBytes  = 16

	// maxRequestBytes bounds what a client may send in one message.
	maxRequestBytes = 256 << 10
	// callsBeside are the calls of one connection beside its streams.
	callsBeside = 16
	// aliveAfter and aliveWithin find clients that are gone without a word:
	// they would hold a stream for ever.
	aliveAfter  = 30 * time.Second
	aliveWithin = 20 * time.Second
)

// A Server answers Arrow Flight's calls.
type Server struct {
	flight.BaseFlightServer

	catalog *catalog.Catalog
	log     *slog.Logger
	grpc    *grpc.Server
	token   [sha256.Size]byte // of the token
	key     []byte            // that tickets are signed with
	slots   chan struct{}     // holds one for each stream that is being read
	counts  counts
}

// New makes a server over a catalog. It listens nowhere before Serve.
func New(c *catalog.Catalog, opt Options) (*Server, error) {
	if len(opt.Token) < minTokenBytes {
		return nil, fmt.Errorf("serve Arrow Flight: the token has %d bytes; want at least %d", len(opt.Token), minTokenBytes)
	}
	if opt.Streams == 0 {
		opt.Streams = DefaultStreams
	}
	if opt.Streams < 1 || opt.Streams > 1024 {
		return nil, fmt.Errorf("serve Arrow Flight: %d streams at once; want 1 to 1024", opt.Streams)
	}
	s := &Server{
		catalog: c, log: opt.Log, token: sha256.Sum256([]byte(opt.Token)), key: ticketKey(opt.Token),
		slots: make(chan struct{}, opt.Streams),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	settings := []grpc.ServerOption{
		grpc.ChainUnaryInterceptor(s.unary),
		grpc.ChainStreamInterceptor(s.streaming),
		grpc.MaxRecvMsgSize(maxRequestBytes),
		grpc.MaxConcurrentStreams(uint32(opt.Streams + callsBeside)), //nolint:gosec // bounded above
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: aliveAfter, Timeout: aliveWithin}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 10 * time.Second, PermitWithoutStream: true}),
		grpc.ConnectionTimeout(20 * time.Second),
	}
	if opt.TLS != nil {
		settings = append(settings, grpc.Creds(credentials.NewTLS(opt.TLS)))
	}
	s.grpc = grpc.NewServer(settings...)
	flight.RegisterFlightServiceServer(s.grpc, s)
	return s, nil
}

// Serve answers calls on l until Stop, and closes it. It returns nil after
// Stop, else why it ended.
func (s *Server) Serve(l net.Listener) error {
	err := s.grpc.Serve(l)
	if err == nil || errors.Is(err, grpc.ErrServerStopped) {
		return nil
	}
	return fmt.Errorf("serve Arrow Flight on %s: %w", l.Addr(), err)
}

// Stop ends the server: it takes no more calls, lets streams go on until ctx
// ends, and then cuts them, which their readers see as an error.
func (s *Server) Stop(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
	}
}
