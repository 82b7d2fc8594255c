package flight

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/flight"

	"github.com/stillhouse-data/stillhouse/datasets/arrowio"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/views"
)

// unknown is how a flight info says that a number is not known.
const unknown = -1

// ListFlights implements flight.FlightServer: the newest version of every
// dataset, or of the one that the criteria's expression names, in every view
// that it has rows for and that its terms allow. Flights under other options
// are there as well and are asked for by name.
func (s *Server) ListFlights(c *flight.Criteria, out flight.FlightService_ListFlightsServer) error {
	ctx := out.Context()
	datasets, err := s.catalog.List(ctx)
	if err != nil {
		return statusOf(err)
	}
	for _, d := range datasets {
		if d.Version == 0 || d.Problem != "" || len(c.GetExpression()) > 0 && string(c.GetExpression()) != d.Name {
			continue
		}
		v, m, err := s.catalog.Resolve(ctx, d.Name)
		if errors.Is(err, catalog.ErrDamaged) || errors.Is(err, catalog.ErrUnknown) || errors.Is(err, catalog.ErrRemoved) {
			continue // since the list was made
		}
		if err != nil {
			return statusOf(err)
		}
		for _, view := range views.Names() {
			if err := s.listView(v, m, view, out); err != nil {
				return statusOf(err)
			}
		}
	}
	return nil
}

func (s *Server) listView(v catalog.Version, m *catalog.Manifest, view string, out flight.FlightService_ListFlightsServer) error {
	r := Request{Ref: v.Ref(), View: view}
	if err := r.check(); err != nil {
		return err
	}
	stream, err := s.view(v, m, r)
	if err != nil {
		return nil //nolint:nilerr // a view that may not go out is not in the list
	}
	for _, split := range stream.Splits() {
		one := r
		one.Split = split
		info, err := s.info(v, stream, one, &flight.FlightDescriptor{Type: flight.DescriptorPATH, Path: []string{r.Ref, view, split}})
		if err != nil {
			return err
		}
		if err := out.Send(info); err != nil {
			return err
		}
	}
	return nil
}

// GetFlightInfo implements flight.FlightServer.
func (s *Server) GetFlightInfo(ctx context.Context, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	r, v, stream, err := s.find(ctx, d)
	if err != nil {
		return nil, statusOf(err)
	}
	info, err := s.info(v, stream, r, d)
	return info, statusOf(err)
}

// GetSchema implements flight.FlightServer.
func (s *Server) GetSchema(ctx context.Context, d *flight.FlightDescriptor) (*flight.SchemaResult, error) {
	r, _, stream, err := s.find(ctx, d)
	if err != nil {
		return nil, statusOf(err)
	}
	schema, err := arrowio.Schema(stream.Row, r.stream())
	return &flight.SchemaResult{Schema: schema}, statusOf(err)
}

func (s *Server) find(ctx context.Context, d *flight.FlightDescriptor) (Request, catalog.Version, *views.Stream, error) {
	r, err := parse(d)
	if err != nil {
		return r, catalog.Version{}, nil, err
	}
	v, m, err := s.catalog.Resolve(ctx, r.Ref)
	if err != nil {
		return r, v, nil, err
	}
	stream, err := s.view(v, m, r)
	if err == nil && len(stream.Parts(r.Split)) == 0 {
		err = fmt.Errorf("%w: %s has no rows of split %s for view %s", views.ErrNoRows, v.Ref(), r.Split, r.View)
	}
	return r, v, stream, err
}

func (s *Server) view(v catalog.Version, m *catalog.Manifest, r Request) (*views.Stream, error) {
	opt := r.options()
	opt.Version = v
	return views.Open(s.catalog, m, r.View, opt)
}

func (s *Server) info(v catalog.Version, stream *views.Stream, r Request, d *flight.FlightDescriptor) (*flight.FlightInfo, error) {
	schema, err := arrowio.Schema(stream.Row, r.stream())
	if err != nil {
		return nil, err
	}
	r.Ref = v.Ref() // whatever the catalog says next
	info := &flight.FlightInfo{
		Schema: schema, FlightDescriptor: d, TotalRecords: unknown, TotalBytes: unknown, Ordered: true,
	}
	if stream.Exact() {
		info.TotalRecords = stream.AtMost(r.Split)
	}
	for i, file := range stream.Parts(r.Split) {
		signed, err := s.sign(ticket{Request: r, Manifest: v.ManifestSHA256, Part: i, SHA256: file.SHA256})
		if err != nil {
			return nil, err
		}
		// No location: where this came from.
		info.Endpoint = append(info.Endpoint, &flight.FlightEndpoint{Ticket: &flight.Ticket{Ticket: signed}})
	}
	return info, nil
}
