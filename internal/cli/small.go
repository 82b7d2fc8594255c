package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/url"
	"os"
	"strconv"
	"strings"

	commonpb "go.temporal.io/api/common/v1"
	workflowpb "go.temporal.io/api/workflow/v1"
)

// printJSON prints data as one line of JSON where --json asks for it, fit for a
// terminal.
func (a *app) printJSON(v any) error {
	if !a.json {
		return nil
	}
	return writeRow(a.out, v)
}

func (s *session) namespace() string {
	switch {
	case s.endpoints != nil:
		return s.endpoints.Namespace
	case s.app.namespace != "":
		return s.app.namespace
	case s.app.env("TEMPORAL_NAMESPACE") != "":
		return s.app.env("TEMPORAL_NAMESPACE")
	}
	return "default"
}

func execution(id, runID string) *commonpb.WorkflowExecution {
	return &commonpb.WorkflowExecution{WorkflowId: id, RunId: runID}
}

func randomText() string { return rand.Text() }

func hostOf(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return ""
	}
	return u.Hostname()
}

// listenHost checks the address to listen at that a flag gives, and returns its
// host. want is said where it is none.
func listenHost(flag, address, want string) (string, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return "", usage("%s %s: %s", flag, address, want)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return "", usage("%s %s: %s is no port", flag, address, port)
	}
	return host, nil
}

// readSmall reads a file that a flag or a variable names: a plain one of at most
// that many bytes, which is called what where it is none.
func readSmall(from, file string, most int64, what string) ([]byte, error) {
	info, err := os.Stat(file)
	switch {
	case err != nil:
		return nil, usage("%s: %v", from, err)
	case !info.Mode().IsRegular() || info.Size() > most:
		return nil, usage("%s: %s is no file of %s", from, file, what)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, usage("%s: %v", from, err)
	}
	return text, nil
}

// readLine reads a person's answer; it gives up when ctx ends.
func readLine(ctx context.Context, in io.Reader) (string, error) {
	type answer struct {
		line string
		err  error
	}
	c := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(in).ReadString('\n')
		c <- answer{line, err}
	}()
	select {
	case <-ctx.Done():
		return "", ctx.Err()
	case a := <-c:
		return a.line, a.err
	}
}

func isYes(line string) bool {
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}

// executionInfo is one row of a list of workflows.
type executionInfo = workflowpb.WorkflowExecutionInfo
