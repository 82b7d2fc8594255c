package flight

import (
	"context"
	"errors"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/stillhouse-data/stillhouse/datasets/arrowio"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// statuses are what clients branch on, by what an error wraps. pyarrow makes
// InvalidArgument an ArrowInvalid, NotFound a KeyError, PermissionDenied and
// Unauthenticated errors of those names, Unavailable a
// FlightUnavailableError, and says the rest in words.
var statuses = []struct {
	err  error
	code codes.Code
}{
	{context.Canceled, codes.Canceled},
	{context.DeadlineExceeded, codes.DeadlineExceeded},
	{errRequest, codes.InvalidArgument},
	{errTicket, codes.InvalidArgument},
	{errBusy, codes.ResourceExhausted},
	{errMoved, codes.FailedPrecondition},
	{views.ErrUnknownView, codes.InvalidArgument},
	{views.ErrForbidden, codes.PermissionDenied},
	{views.ErrNoRows, codes.NotFound},
	{views.ErrUnsupported, codes.FailedPrecondition},
	{catalog.ErrInvalid, codes.InvalidArgument},
	{catalog.ErrRemoved, codes.NotFound},
	{catalog.ErrUnknown, codes.NotFound},
	{catalog.ErrDamaged, codes.DataLoss},
	{arrowio.ErrRowTooLarge, codes.FailedPrecondition},
	{objstore.ErrUnavailable, codes.Unavailable},
}

// statusOf is err as a client sees it.
func statusOf(err error) error {
	if err == nil {
		return nil
	}
	for _, s := range statuses {
		if errors.Is(err, s.err) {
			return status.Error(s.code, err.Error())
		}
	}
	if s, ok := status.FromError(err); ok { // of a connection that broke
		return s.Err()
	}
	return status.Error(codes.Internal, err.Error())
}
