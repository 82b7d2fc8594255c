package cli

import (
	"bufio"
	"context"
	"crypto/rand"
	"io"
	"net/url"
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
