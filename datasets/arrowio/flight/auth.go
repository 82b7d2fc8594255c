package flight

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"runtime/debug"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// allowed refuses a call that does not carry the token.
func (s *Server) allowed(ctx context.Context) error {
	md, _ := metadata.FromIncomingContext(ctx)
	for _, value := range md.Get("authorization") {
		scheme, token, ok := strings.Cut(value, " ")
		sum := sha256.Sum256([]byte(token))
		if ok && strings.EqualFold(scheme, "bearer") && subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1 {
			return nil
		}
	}
	s.counts.unauthenticated.Add(1)
	return status.Error(codes.Unauthenticated, `the token is missing or wrong; send the header "authorization: Bearer TOKEN" with the token that stillhouse env prints`)
}

func (s *Server) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (_ any, err error) {
	if err := s.allowed(ctx); err != nil {
		return nil, err
	}
	defer s.survive(info.FullMethod, &err)
	return handle(ctx, req)
}

func (s *Server) streaming(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) (err error) {
	if err := s.allowed(stream.Context()); err != nil {
		return err
	}
	defer s.survive(info.FullMethod, &err)
	return handle(srv, stream)
}

// survive turns a panic of one call into its error: the embedded services of a
// whole machine run in this process.
func (s *Server) survive(method string, err *error) {
	if p := recover(); p != nil {
		s.log.Error("an Arrow Flight call panicked", "method", method, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
		*err = status.Error(codes.Internal, "the server failed; its log says how")
	}
}

func peerOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		return p.Addr.String()
	}
	return ""
}
