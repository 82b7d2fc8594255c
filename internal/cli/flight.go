package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/datasets/arrowio/flight"
	"github.com/stillhouse-data/stillhouse/internal/home"
)

// flightOff is the value of --flight that turns the endpoint off.
const flightOff = "off"

// flightStop is how long streams may go on once the services end.
const flightStop = 5 * time.Second

// flightFlags are the flags of serve that are of the Arrow Flight endpoint.
type flightFlags struct {
	address   string
	cert, key string
	streams   int
}

func (f *flightFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.address, "flight", "", "HOST:PORT of the Arrow Flight endpoint, or off (default: a port on loopback, the same one each time)")
	cmd.Flags().StringVar(&f.cert, "flight-cert", "", "certificate file (PEM) of the Arrow Flight endpoint; needed beyond loopback")
	cmd.Flags().StringVar(&f.key, "flight-key", "", "key file (PEM) of that certificate")
	cmd.Flags().IntVar(&f.streams, "flight-streams", flight.DefaultStreams, "how many Arrow Flight streams may be read at once")
}

// check refuses what could not be served, before anything starts.
func (f *flightFlags) check() error {
	if (f.cert == "") != (f.key == "") {
		return usage("--flight-cert and --flight-key go together")
	}
	if f.streams < 1 || f.streams > 1024 {
		return usage("--flight-streams %d: want 1 to 1024", f.streams)
	}
	if f.address == "" || f.address == flightOff {
		return nil
	}
	host, err := listenHost("--flight", f.address, "want HOST:PORT, such as 127.0.0.1:8815, or off")
	if err != nil {
		return err
	}
	if !loopback(host) && f.cert == "" {
		return usage("--flight %s is not loopback: the token and the rows would go out in the clear; name a certificate with --flight-cert and --flight-key", f.address)
	}
	return nil
}

// A flightService is the running Arrow Flight endpoint.
type flightService struct {
	server *flight.Server
	url    string
	done   chan error // gets why it ended by itself
}

// startFlight serves the session's catalog. It returns nil where it is off.
func (s *session) startFlight(f flightFlags) (*flightService, error) {
	if f.address == flightOff {
		return nil, nil
	}
	keys, err := s.home.Keys()
	if err != nil {
		return nil, err
	}
	opt := flight.Options{Token: keys.FlightToken, Streams: f.streams, Log: s.app.log()}
	scheme := "grpc"
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return nil, usage("--flight-cert and --flight-key: %v", err)
		}
		opt.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
		scheme = "grpc+tls"
	}
	server, err := flight.New(s.catalog, opt)
	if err != nil {
		return nil, err
	}
	l, err := listenFlight(s.home, f.address)
	if err != nil {
		return nil, err
	}
	out := &flightService{server: server, url: scheme + "://" + l.Addr().String(), done: make(chan error, 1)}
	go func() { out.done <- server.Serve(l) }()
	s.endpoints.Flight, s.endpoints.FlightToken = out.url, keys.FlightToken
	if err := s.home.WriteEndpoints(s.endpoints); err != nil {
		out.stop()
		return nil, err
	}
	return out, nil
}

// listenFlight listens where the flag says, else on loopback at the port of the
// last time if nobody took it.
func listenFlight(h *home.Home, address string) (net.Listener, error) {
	if address != "" {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, usage("--flight: %v", err)
		}
		return l, nil
	}
	remembered := h.Path("run", "flight.port")
	text, _ := os.ReadFile(remembered) // unreadable: any port
	last := strings.TrimSpace(string(text))
	var l net.Listener
	if n, err := strconv.Atoi(last); err == nil && n > 0 && n < 1<<16 {
		l, _ = net.Listen("tcp4", "127.0.0.1:"+last) // taken: another one
	}
	if l == nil {
		var err error
		if l, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
			return nil, fmt.Errorf("open a port for Arrow Flight: %w", err)
		}
	}
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if port != last {
		if err := h.WriteFile(remembered, []byte(port+"\n")); err != nil {
			return nil, errors.Join(fmt.Errorf("remember the port of Arrow Flight: %w", err), l.Close())
		}
	}
	return l, nil
}

// ended gets why the endpoint ended by itself; it blocks for ever where it is
// off.
func (f *flightService) ended() <-chan error {
	if f == nil {
		return nil
	}
	return f.done
}

func (f *flightService) stop() {
	if f == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flightStop)
	defer cancel()
	f.server.Stop(ctx)
}

// where is what serve says of it.
func (f *flightService) where() string {
	if f == nil {
		return "off"
	}
	return f.url + " (stillhouse env prints its token)"
}
