package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"
)

// Options of the demo's teachers.
type Options struct {
	Dir string       // where their ports are remembered (ports.json)
	Log *slog.Logger // default: discards
}

// Teachers are running until Stop.
type Teachers struct {
	All []Teacher // in the order of domain and effort

	servers []*http.Server
	serving sync.WaitGroup
}

// Start runs the nine teachers, each on a loopback port of its own. They
// listen where they did the last time as long as those ports are free, so that
// the same recipe continues after a kill.
func Start(ctx context.Context, opt Options) (*Teachers, error) {
	log := opt.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	path := filepath.Join(opt.Dir, "ports.json")
	last := rememberedPorts(path)
	t := &Teachers{}
	now := map[string]int{}
	for i := range characters {
		c := &characters[i]
		l, err := listen(ctx, last[c.model()])
		if err != nil {
			return nil, errors.Join(fmt.Errorf("start the demo teacher %s: %w", c.model(), err), t.Stop(ctx))
		}
		now[c.model()] = l.Addr().(*net.TCPAddr).Port
		t.serve(c, l, log)
	}
	if err := rememberPorts(path, now); err != nil {
		return nil, errors.Join(fmt.Errorf("remember the demo teachers' ports: %w", err), t.Stop(ctx))
	}
	return t, nil
}

func (t *Teachers) serve(c *character, l net.Listener, log *slog.Logger) {
	server := &http.Server{
		Handler:           c.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       time.Minute,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	t.servers = append(t.servers, server)
	t.All = append(t.All, Teacher{
		Model:   c.model(),
		BaseURL: "http://" + l.Addr().String() + "/v1",
		Domain:  c.domain,
		Effort:  c.effort,
	})
	t.serving.Go(func() {
		if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("demo teacher ended", "model", c.model(), "error", err)
		}
	})
}

// Stop lets answers in flight end until ctx does, then cuts them off.
func (t *Teachers) Stop(ctx context.Context) error {
	var err error
	for _, s := range t.servers {
		if s.Shutdown(ctx) != nil {
			err = errors.Join(err, s.Close())
		}
	}
	t.serving.Wait()
	return err
}

// listen takes the preferred loopback port if it is free, else any.
func listen(ctx context.Context, preferred int) (net.Listener, error) {
	var config net.ListenConfig
	if preferred > 0 && preferred < 1<<16 {
		if l, err := config.Listen(ctx, "tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(preferred))); err == nil {
			return l, nil
		}
	}
	return config.Listen(ctx, "tcp4", "127.0.0.1:0")
}

// rememberedPorts is empty where nothing is remembered, or nothing readable.
func rememberedPorts(path string) map[string]int {
	var ports map[string]int
	if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &ports) != nil {
		return nil
	}
	return ports
}

func rememberPorts(path string, ports map[string]int) error {
	text, err := json.MarshalIndent(ports, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(path, append(text, '\n'))
}

// writeFile replaces a file in one step; one that is the same already stays.
func writeFile(path string, text []byte) error {
	if have, err := os.ReadFile(path); err == nil && string(have) == string(text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
