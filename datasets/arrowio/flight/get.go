package flight

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/apache/arrow/go/v17/arrow/flight"

	"github.com/stillhouse-data/stillhouse/datasets/arrowio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
)

var (
	// errBusy: as many streams are being read as may be.
	errBusy = errors.New("too many streams at once")
	// errMoved: the version is not any more what the ticket's flight info told
	// of.
	errMoved = errors.New("the version has changed")
)

// rowsAtOnce is how many rows are held on their way into a record batch; each
// may have megabytes.
const rowsAtOnce = 16

// DoGet implements flight.FlightServer: the rows of one data file.
func (s *Server) DoGet(t *flight.Ticket, out flight.FlightService_DoGetServer) error {
	begun := time.Now()
	opened, err := s.open(t.GetTicket())
	if err != nil {
		return statusOf(err)
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		s.counts.refused.Add(1)
		return statusOf(fmt.Errorf("%w: %d are being read; read fewer at once, or start the server with --flight-streams %d", errBusy, cap(s.slots), 2*cap(s.slots)))
	}
	s.counts.open.Add(1)
	defer s.counts.open.Add(-1)
	rows, bytes, err := s.send(out.Context(), opened, out)
	s.counts.add(rows, bytes, err)
	r := opened.Request
	log := s.log.With("ref", r.Ref, "view", r.View, "split", r.Split, "part", opened.Part, "rows", rows, "bytes", bytes, "took", time.Since(begun), "peer", peerOf(out.Context()))
	if err != nil {
		log.Warn("an Arrow Flight stream broke off", "error", err)
		return statusOf(err)
	}
	log.Info("an Arrow Flight stream was read")
	return nil
}

// send streams what a ticket names, and counts it.
func (s *Server) send(ctx context.Context, t ticket, out flight.FlightService_DoGetServer) (rows, bytes int64, err error) {
	part, err := s.part(ctx, t)
	if err != nil {
		return 0, 0, err
	}
	w, err := arrowio.NewMessages(part.Row, t.Request.stream(), func(header, body []byte) error {
		return out.Send(&flight.FlightData{DataHeader: header, DataBody: body})
	})
	if err != nil {
		return 0, 0, err
	}
	for batch, err := range part.Batches(ctx, t.Request.Split, rowsAtOnce) {
		if err != nil {
			return w.Rows(), w.Bytes(), err
		}
		all := reflect.ValueOf(batch)
		for i := range all.Len() {
			if err := w.Write(all.Index(i).Addr().Interface()); err != nil {
				return w.Rows(), w.Bytes(), err
			}
		}
	}
	err = w.Close()
	return w.Rows(), w.Bytes(), err
}

// part opens what a ticket names, and holds it to what the flight info said.
func (s *Server) part(ctx context.Context, t ticket) (*views.Stream, error) {
	if err := t.Request.check(); err != nil {
		return nil, err
	}
	v, m, err := s.catalog.Resolve(ctx, t.Request.Ref)
	if err != nil {
		return nil, err
	}
	stream, err := s.view(v, m, t.Request)
	if err != nil {
		return nil, err
	}
	parts := stream.Parts(t.Request.Split)
	if v.ManifestSHA256 != t.Manifest || t.Part < 0 || t.Part >= len(parts) || parts[t.Part].SHA256 != t.SHA256 {
		return nil, fmt.Errorf("%w: rows of %s were purged since; ask for its flight info anew, and drop what was read of it", errMoved, v.Ref())
	}
	return stream.Part(t.Request.Split, t.Part)
}
