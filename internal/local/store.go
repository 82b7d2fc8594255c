//go:build !noembed

package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/home"
)

// store is the child process that serves S3.
type store struct {
	url  string
	pid  int
	pipe io.WriteCloser // the child lives as long as this is open
	done chan struct{}  // closed when the child has ended
	err  error          // why, once done is closed
}

// storeStartLimit bounds the wait for a child's report; it includes the wait
// for the lock of a killed predecessor's child.
const storeStartLimit = childLockWait + 10*time.Second

// startStore starts this very program again as the store of the home.
func startStore(ctx context.Context, h *home.Home, keys home.Keys, preferred int) (*store, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the store: %w", err)
	}
	out, err := openLog(h.Path("logs", "store.log"))
	if err != nil {
		return nil, fmt.Errorf("open the store's log: %w", err)
	}
	defer out.Close()
	line, err := json.Marshal(childConfig{
		Root:      h.Path("store"),
		SideCar:   h.Path("sidecar"),
		Lock:      h.Path("run", "store.lock"),
		Bucket:    Bucket,
		Region:    Region,
		AccessKey: keys.AccessKey,
		SecretKey: keys.SecretKey,
		Port:      preferred,
	})
	if err != nil {
		return nil, fmt.Errorf("start the store: %w", err)
	}
	reports, reportEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the store: %w", err)
	}
	defer reports.Close()

	cmd := exec.Command(program, childArgument)
	cmd.Dir = h.Dir
	cmd.Env = childEnvironment()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.ExtraFiles = []*os.File{reportEnd}
	cmd.SysProcAttr = childAttributes()
	pipe, err := cmd.StdinPipe()
	if err != nil {
		reportEnd.Close()
		return nil, fmt.Errorf("start the store: %w", err)
	}
	s := &store{pipe: pipe, done: make(chan struct{})}
	started := make(chan error, 1)
	go func() {
		// The kernel ends the child with the thread that made it, not with the
		// process, so this thread stays for as long as the child does.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := cmd.Start(); err != nil {
			started <- err
			return
		}
		s.pid = cmd.Process.Pid
		started <- nil
		s.err = cmd.Wait()
		close(s.done)
	}()
	err = <-started
	reportEnd.Close()
	if err != nil {
		return nil, fmt.Errorf("start the store: %w", err)
	}
	if err := s.ready(ctx, append(line, '\n'), reports); err != nil {
		s.kill(cmd.Process)
		return nil, fmt.Errorf("start the store: %w; its log is %s", err, out.Name())
	}
	return s, nil
}

// ready sends the configuration and waits for the child's report.
func (s *store) ready(ctx context.Context, config []byte, reports *os.File) error {
	if _, err := s.pipe.Write(config); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeStartLimit)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = reports.SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	line, err := bufio.NewReader(reports).ReadBytes('\n')
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, io.EOF) {
		return errors.New("it ended without a word")
	}
	if err != nil {
		return err
	}
	var report childReport
	if err := json.Unmarshal(line, &report); err != nil {
		return fmt.Errorf("read its report: %w", err)
	}
	if report.Error != "" {
		return errors.New(report.Error)
	}
	s.url = "http://" + report.Address
	return nil
}

func (s *store) kill(p *os.Process) {
	_ = s.pipe.Close()
	_ = p.Kill()
	<-s.done
}

// stop lets requests in flight end and waits for the child.
func (s *store) stop(ctx context.Context) error {
	if err := s.pipe.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	select {
	case <-s.done:
		return s.err
	case <-ctx.Done():
		return fmt.Errorf("wait for the store to end: %w", context.Cause(ctx))
	}
}

// childEnvironment is next to nothing: the store needs no settings and must
// not be moved by any.
func childEnvironment() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "LANG", "GOTRACEBACK", "GOCOVERDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}
