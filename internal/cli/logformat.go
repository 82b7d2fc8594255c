package cli

import (
	"context"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"
)

// Forms of what a process that runs for long says on stderr.
const (
	logText = "text"
	logJSON = "json"
)

// addLogFlag gives a command that runs for long the form of its log.
func (a *app) addLogFlag(cmd *cobra.Command) {
	form := a.env("STILLHOUSE_LOG_FORMAT")
	if form == "" {
		form = logText
	}
	cmd.Flags().StringVar(&a.logFlag, "log-format", form, "what goes to stderr: text, or json for one object a line (STILLHOUSE_LOG_FORMAT)")
}

func (a *app) checkLogFormat() error {
	if a.logFlag != logText && a.logFlag != logJSON {
		return usage("--log-format %s: want text or json", a.logFlag)
	}
	a.logFormat = a.logFlag
	return nil
}

// logAt is the program's log from a level on.
func (a *app) logAt(level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if a.logFormat == logJSON {
		return slog.New(slog.NewJSONHandler(a.err, o))
	}
	return slog.New(slog.NewTextHandler(a.err, o))
}

// talkAsJSON says what is for people as log lines, so that whoever collects the
// log finds an object in every line.
func (a *app) talkAsJSON(text string) {
	log, level := a.logAt(slog.LevelInfo), slog.LevelInfo
	if rest, ok := strings.CutPrefix(text, "warning: "); ok {
		text, level = rest, slog.LevelWarn
	}
	for line := range strings.Lines(text) {
		log.Log(context.Background(), level, strings.TrimSuffix(line, "\n"))
	}
}
