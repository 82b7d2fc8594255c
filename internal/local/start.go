//go:build !noembed

package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

// Services are the running embedded services. They end by Stop, or all
// together when one of them dies.
type Services struct {
	Endpoints home.Endpoints

	temporal *temporalServer
	store    *store
	ui       *webUI

	stopping chan struct{}
	stopOnce sync.Once
	done     chan struct{} // closed when a service died by itself
	dieOnce  sync.Once
	err      error
}

// Start runs the embedded services of a home whose lock the caller holds, and
// writes their endpoints there. It returns when all of them answer; after a
// kill they come up on the same files and, where nobody took them, the same
// ports.
func Start(ctx context.Context, opt Options) (*Services, error) {
	log := opt.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	keys, err := opt.Home.Keys()
	if err != nil {
		return nil, fmt.Errorf("start the embedded services: %w", err)
	}
	s := &Services{stopping: make(chan struct{}), done: make(chan struct{})}
	last := lastPorts(opt.Home)
	var group errgroup.Group
	group.Go(func() (err error) {
		s.store, err = startStore(ctx, opt.Home, keys, last.S3)
		return err
	})
	group.Go(func() (err error) {
		s.temporal, err = startTemporal(ctx, opt.Home, keys.Token, opt.Verbose, last.Temporal, s.die)
		return err
	})
	err = group.Wait()
	if err == nil && !opt.NoUI {
		s.ui, err = startUI(s.temporal.address, keys.Token, keys.UIToken, last.UI, log)
	}
	if err == nil {
		err = s.announce(opt, keys, last)
	}
	if err != nil {
		cleanup, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("start the embedded services: %w", err), s.Stop(cleanup))
	}
	go s.watchStore()
	return s, nil
}

// announce fills the endpoints in and writes them to the home.
func (s *Services) announce(opt Options, keys home.Keys, last ports) error {
	s.Endpoints = home.Endpoints{
		Temporal:  s.temporal.address,
		Namespace: Namespace,
		Token:     keys.Token,
		S3:        s.store.url,
		AccessKey: keys.AccessKey,
		SecretKey: keys.SecretKey,
		Bucket:    Bucket,
		Region:    Region,
		Started:   time.Now().UTC().Truncate(time.Second),
		Binary:    opt.Binary,
	}
	now := ports{Temporal: portOf(s.temporal.address), S3: portOf(s.store.url), UI: last.UI}
	if s.ui != nil {
		s.Endpoints.UI = s.ui.url
		now.UI = portOf(s.ui.url)
	}
	if now != last {
		if err := rememberPorts(opt.Home, now); err != nil {
			return fmt.Errorf("remember the ports: %w", err)
		}
	}
	return opt.Home.WriteEndpoints(&s.Endpoints)
}

// portOf reads the port of a URL or of host:port.
func portOf(address string) int {
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(port)
	return n
}

// watchStore reports a store that ends without having been asked to.
func (s *Services) watchStore() {
	select {
	case <-s.stopping:
	case <-s.store.done:
		s.die(fmt.Errorf("the store died: %w", s.store.err))
	}
}

// die reports a service that ended by itself. While stopping, that is its task.
func (s *Services) die(err error) {
	select {
	case <-s.stopping:
		return
	default:
	}
	s.dieOnce.Do(func() {
		s.err = err
		close(s.done)
	})
}

// Done is closed when a service died by itself; see Err. The caller stops the
// rest and starts them again, or ends.
func (s *Services) Done() <-chan struct{} { return s.done }

// Err says why Done is closed; nil before.
func (s *Services) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// Stop ends the services, the store last: the others may still write. It may
// be called more than once.
func (s *Services) Stop(ctx context.Context) (err error) {
	s.stopOnce.Do(func() {
		close(s.stopping)
		if s.ui != nil {
			err = errors.Join(err, stopWithin(ctx, s.ui.stop))
		}
		if s.temporal != nil {
			err = errors.Join(err, stopWithin(ctx, s.temporal.stop))
		}
		if s.store != nil {
			err = errors.Join(err, s.store.stop(ctx))
		}
		if err != nil {
			err = fmt.Errorf("stop the embedded services: %w", err)
		}
	})
	return err
}
