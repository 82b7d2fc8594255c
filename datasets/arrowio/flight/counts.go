package flight

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/apache/arrow/go/v17/arrow/flight"
)

// counts tell what the server did since it began.
type counts struct {
	open, whole, broken, refused, unauthenticated, rows, bytes atomic.Int64
}

func (c *counts) add(rows, bytes int64, err error) {
	c.rows.Add(rows)
	c.bytes.Add(bytes)
	if err != nil {
		c.broken.Add(1)
	} else {
		c.whole.Add(1)
	}
}

// Stats are what a server did since it began.
type Stats struct {
	Open            int64 `json:"streams_open"`
	Whole           int64 `json:"streams_whole"`
	Broken          int64 `json:"streams_broken"`
	Refused         int64 `json:"streams_refused"` // too many at once
	Unauthenticated int64 `json:"calls_unauthenticated"`
	Rows            int64 `json:"rows"`
	Bytes           int64 `json:"bytes"`
}

// Stats gives the counts of this moment.
func (s *Server) Stats() Stats {
	c := &s.counts
	return Stats{
		Open: c.open.Load(), Whole: c.whole.Load(), Broken: c.broken.Load(), Refused: c.refused.Load(),
		Unauthenticated: c.unauthenticated.Load(), Rows: c.rows.Load(), Bytes: c.bytes.Load(),
	}
}

const statsAction = "stats"

// ListActions implements flight.FlightServer.
func (s *Server) ListActions(_ *flight.Empty, out flight.FlightService_ListActionsServer) error {
	return out.Send(&flight.ActionType{Type: statsAction, Description: "counts of streams, rows and bytes since the server began, as JSON"})
}

// DoAction implements flight.FlightServer. No action changes anything.
func (s *Server) DoAction(a *flight.Action, out flight.FlightService_DoActionServer) error {
	if a.GetType() != statsAction {
		return statusOf(fmt.Errorf("%w: action %.40q; there is: %s", errRequest, a.GetType(), statsAction))
	}
	text, err := json.Marshal(s.Stats())
	if err != nil {
		return statusOf(err)
	}
	return out.Send(&flight.Result{Body: text})
}
