package home

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// Endpoints are the addresses and credentials of the services that the holder
// of a home runs, all on loopback.
type Endpoints struct {
	PID       int    `json:"pid"`        // the process that runs them and holds the lock
	Temporal  string `json:"temporal"`   // gRPC frontend, host:port
	Namespace string `json:"namespace"`  //
	Token     string `json:"token"`      // goes as "authorization: Bearer <token>" with every call to Temporal
	UI        string `json:"ui"`         // URL of the web page with its token, "" where it does not run
	S3        string `json:"s3"`         // URL of the store
	AccessKey string `json:"access_key"` //
	SecretKey string `json:"secret_key"` //
	Bucket    string `json:"bucket"`     //
	Region    string `json:"region"`     //
	// Flight is the URL of the Arrow Flight endpoint, "" where it does not run.
	// Its token goes as "authorization: Bearer <token>" with every call.
	Flight      string    `json:"flight,omitempty"`
	FlightToken string    `json:"flight_token,omitempty"`
	Started     time.Time `json:"started"` //
	Binary      string    `json:"binary"`  // version of the program that runs them
}

// ErrNotRunning says that no process runs the services of this home.
var ErrNotRunning = errors.New("no services are running")

// startLimit bounds how long a reader waits for a holder that has not said
// where its services are; they are ready within 3 s.
const (
	startLimit = 15 * time.Second
	startPoll  = 20 * time.Millisecond
)

// WriteEndpoints tells other processes where the services are. The caller
// holds the lock; e.PID is set to this process.
func (h *Home) WriteEndpoints(e *Endpoints) error {
	e.PID = os.Getpid()
	text, err := json.MarshalIndent(e, "", "  ")
	if err != nil {
		return fmt.Errorf("write endpoints: %w", err)
	}
	if err := h.WriteFile(h.endpointsPath(), append(text, '\n')); err != nil {
		return fmt.Errorf("write endpoints: %w", err)
	}
	return nil
}

// ReadEndpoints finds the services of the process that holds the home. While
// that process is still starting it waits, until ctx ends or 15 s have passed.
// With no live holder it returns [ErrNotRunning]; what a dead one left behind
// is not believed.
func (h *Home) ReadEndpoints(ctx context.Context) (*Endpoints, error) {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	tick := time.NewTicker(startPoll)
	defer tick.Stop()
	for {
		running, err := h.running()
		if err != nil {
			return nil, fmt.Errorf("look at the lock of home %s: %w", h.Dir, err)
		}
		if !running {
			return nil, fmt.Errorf("home %s: %w; start them with: stillhouse serve", h.Dir, ErrNotRunning)
		}
		e, err := h.endpoints()
		if err != nil {
			return nil, err
		}
		if e != nil {
			return e, nil
		}
		select {
		case <-ctx.Done():
			who := readHolder(h.lockPath())
			return nil, fmt.Errorf("home %s is held by process %d, which offers no services: %w", h.Dir, who.PID, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// endpoints is nil where the holder has not written them.
func (h *Home) endpoints() (*Endpoints, error) {
	text, err := os.ReadFile(h.endpointsPath())
	if missing(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read endpoints: %w", err)
	}
	var e Endpoints
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("read %s: %w; restart the process that holds the home", h.endpointsPath(), err)
	}
	if e.PID != readHolder(h.lockPath()).PID || !alive(e.PID) {
		return nil, nil
	}
	return &e, nil
}

// alive closes the moment in which a new holder has the lock but its
// predecessor's files are still there.
func alive(pid int) bool {
	err := syscall.Kill(pid, 0)
	return err == nil || errors.Is(err, syscall.EPERM)
}

func (h *Home) endpointsPath() string { return h.Path("run", "endpoints.json") }
