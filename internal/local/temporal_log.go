//go:build !noembed

package local

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"sync/atomic"

	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/log/tag"
)

// serverLog writes what the Temporal server says to a file as JSON lines.
type serverLog struct {
	out   *slog.Logger
	quiet *atomic.Bool // while stopping: the server's workers complain about each other's end
	fatal func(error)  // called once for a fault that the server can't live with
}

func newServerLog(out *slog.Logger, fatal func(error)) *serverLog {
	return &serverLog{out: out, quiet: new(atomic.Bool), fatal: fatal}
}

// With keeps the server's own habit of adding tags cheap.
func (l *serverLog) With(tags ...tag.Tag) log.Logger {
	attrs := make([]any, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), value(t))
	}
	return &serverLog{out: l.out.With(attrs...), quiet: l.quiet, fatal: l.fatal}
}

func (l *serverLog) write(level slog.Level, msg string, tags []tag.Tag) {
	if l.quiet.Load() || !l.out.Enabled(context.Background(), level) {
		return
	}
	attrs := make([]slog.Attr, len(tags))
	for i, t := range tags {
		attrs[i] = slog.Any(t.Key(), value(t))
	}
	l.out.LogAttrs(context.Background(), level, msg, attrs...)
}

// value spells errors out; a JSON handler would print most of them as {}.
func value(t tag.Tag) any {
	switch v := t.Value().(type) {
	case error:
		return v.Error()
	case fmt.Stringer:
		return v.String()
	default:
		return v
	}
}

func (l *serverLog) Debug(msg string, tags ...tag.Tag)  { l.write(slog.LevelDebug, msg, tags) }
func (l *serverLog) Info(msg string, tags ...tag.Tag)   { l.write(slog.LevelInfo, msg, tags) }
func (l *serverLog) Warn(msg string, tags ...tag.Tag)   { l.write(slog.LevelWarn, msg, tags) }
func (l *serverLog) Error(msg string, tags ...tag.Tag)  { l.write(slog.LevelError, msg, tags) }
func (l *serverLog) DPanic(msg string, tags ...tag.Tag) { l.write(slog.LevelError, msg, tags) }

func (l *serverLog) Panic(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	panic(msg)
}

// Fatal ends the calling goroutine where the server expects the process to
// end: the process has answers to keep, and is told instead.
func (l *serverLog) Fatal(msg string, tags ...tag.Tag) {
	l.write(slog.LevelError, msg, tags)
	err := fmt.Errorf("%s", msg)
	for _, t := range tags {
		if cause, ok := t.Value().(error); ok {
			err = fmt.Errorf("%s: %w", msg, cause)
		}
	}
	l.fatal(err)
	runtime.Goexit()
}

// maxLog is the size from which a log file starts anew.
const maxLog = 16 << 20

// openLog opens a log file to append to.
func openLog(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, err
	}
	mode := os.O_WRONLY | os.O_CREATE | os.O_APPEND
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		mode |= os.O_TRUNC
	}
	return os.OpenFile(path, mode, 0o600)
}
