package training

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"
)

// MaxResultBytes bounds result.json. What the trainer's machine writes is
// untrusted: a larger file is no result.
const MaxResultBytes = 64 << 10

// Bounds of what is kept of a result.
const (
	maxText    = 4096
	maxMetrics = 256
)

// States that a launch may report of itself.
const (
	ResultSucceeded = "succeeded"
	ResultFailed    = "failed"
	ResultCancelled = "cancelled"
)

// ErrNoResult: the launch left no result.json, or one that cannot be read.
var ErrNoResult = errors.New("no valid result")

// A Result is result.json: what a launch says of itself when it has ended. It
// is untrusted; [ParseResult] bounds it, and success needs more than its word.
type Result struct {
	APIVersion       string             `json:"apiVersion" jsonschema:"const=stillhouse/v1"`
	LaunchID         string             `json:"launch_id" jsonschema:"pattern=^[0-9a-f]{64}$"`
	State            string             `json:"state" jsonschema:"enum=succeeded,enum=failed,enum=cancelled"`
	ExitCode         int                `json:"exit_code" jsonschema:"minimum=0,maximum=255"`
	StartedAt        time.Time          `json:"started_at"`
	EndedAt          time.Time          `json:"ended_at"`
	RowsSeen         *int64             `json:"rows_seen,omitempty" jsonschema:"minimum=0,description=Rows of the train split that were loaded; absent where nobody counted"`
	RowsFrom         string             `json:"rows_from,omitempty" jsonschema:"enum=trainer,enum=files,description=Who counted: the trainer or run.sh in the files it verified"`
	Framework        string             `json:"framework,omitempty" jsonschema:"maxLength=4096,description=Such as trl 1.16.0"`
	Checkpoint       string             `json:"checkpoint,omitempty" jsonschema:"maxLength=4096,description=Where the trained model is; for people and never opened by us"`
	CheckpointDigest string             `json:"checkpoint_digest,omitempty" jsonschema:"maxLength=4096"`
	RunURL           string             `json:"run_url,omitempty" jsonschema:"maxLength=4096,description=Page of the run at a tracker"`
	Metrics          map[string]float64 `json:"metrics,omitempty" jsonschema:"maxProperties=256"`
	Error            string             `json:"error,omitempty" jsonschema:"maxLength=4096"`
}

// ParseResult reads what a launch said of itself. Every error wraps
// [ErrNoResult]. Unknown fields are ignored, so that newer trainers' reports
// can be read; texts are stripped of control characters.
func ParseResult(data []byte, launchID string) (*Result, error) {
	if len(data) > MaxResultBytes {
		return nil, fmt.Errorf("%w: %s is larger than %d bytes", ErrNoResult, ResultFile, MaxResultBytes)
	}
	if !utf8.Valid(data) {
		return nil, fmt.Errorf("%w: %s is not UTF-8", ErrNoResult, ResultFile)
	}
	var r Result
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&r); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoResult, ResultFile, err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%w: %s goes on after its object", ErrNoResult, ResultFile)
	}
	if err := r.check(launchID); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrNoResult, ResultFile, err)
	}
	for _, text := range []*string{&r.Framework, &r.Checkpoint, &r.CheckpointDigest, &r.RunURL, &r.Error} {
		*text = cut(Printable(*text))
	}
	return &r, nil
}

func (r *Result) check(launchID string) error {
	switch {
	case r.APIVersion != APIVersion:
		return fmt.Errorf("apiVersion is %.40q, not %s", r.APIVersion, APIVersion)
	case r.LaunchID != launchID:
		return fmt.Errorf("launch_id is %.80q, not %s", r.LaunchID, launchID)
	case r.State != ResultSucceeded && r.State != ResultFailed && r.State != ResultCancelled:
		return fmt.Errorf("state is %.40q, not succeeded, failed or cancelled", r.State)
	case r.ExitCode < 0 || r.ExitCode > 255:
		return fmt.Errorf("exit_code %d is outside 0 to 255", r.ExitCode)
	case r.State == ResultSucceeded && r.ExitCode != 0:
		return fmt.Errorf("state is succeeded with exit_code %d", r.ExitCode)
	case r.RowsSeen != nil && *r.RowsSeen < 0:
		return fmt.Errorf("rows_seen is %d", *r.RowsSeen)
	case r.RowsFrom != "" && r.RowsFrom != "trainer" && r.RowsFrom != "files":
		return fmt.Errorf("rows_from is %.40q, not trainer or files", r.RowsFrom)
	case len(r.Metrics) > maxMetrics:
		return fmt.Errorf("%d metrics are more than %d", len(r.Metrics), maxMetrics)
	}
	for name, v := range r.Metrics {
		if len(name) > maxText || name != Printable(name) {
			return fmt.Errorf("metric name %.40q is no name", name)
		}
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return fmt.Errorf("metric %s is not a number", name)
		}
	}
	return nil
}

// ReadResult reads result.json of a launch's folder, which the trainer's
// processes could write to: it follows no link, waits on no pipe and reads no
// more than the bound. Errors wrap [ErrNoResult] where there is no usable
// result, and only there.
func ReadResult(path, launchID string) (*Result, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("%w: the launch left no %s", ErrNoResult, ResultFile)
	case errors.Is(err, syscall.ELOOP):
		return nil, fmt.Errorf("%w: %s is a link", ErrNoResult, ResultFile)
	case err != nil:
		return nil, fmt.Errorf("read result: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%w: %s is not a plain file", ErrNoResult, ResultFile)
	}
	data, err := io.ReadAll(io.LimitReader(f, MaxResultBytes+1))
	if err != nil {
		return nil, fmt.Errorf("read result: %w", err)
	}
	return ParseResult(data, launchID)
}

// Printable drops from a text what could steer a terminal: control characters
// but line feeds and tabs, and overrides of text direction.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return -1
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069:
			return -1 // text direction overrides
		}
		return r
	}, s)
}

// cut bounds a text to maxText bytes.
func cut(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
