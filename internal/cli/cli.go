// Package cli is the command line: one file per command, each a run function
// that a test can call without it. Data goes to stdout, talk and progress to
// stderr; with --json a command's data is one JSON object.
package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/worker"
	"golang.org/x/term"

	"github.com/stillhouse-data/stillhouse/internal/codec"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/policy"
	"github.com/stillhouse-data/stillhouse/training/launch"
	"github.com/stillhouse-data/stillhouse/training/lineage"
)

// Embedded are the services that the binary carries. The command gives them
// in, so that this package builds in seconds without them.
type Embedded interface {
	// Start runs the embedded Temporal server and store. The caller holds the
	// home's lock.
	Start(ctx context.Context, h *home.Home, log *slog.Logger, verbose bool) (Services, error)
	// Demo starts the demo's teachers and writes its recipe into the home.
	Demo(ctx context.Context, h *home.Home) (Demo, error)
}

// Services are running embedded services.
type Services interface {
	Endpoints() home.Endpoints
	Stop(ctx context.Context) error
	Done() <-chan struct{} // closed when one of them died by itself
	Err() error
}

// A Demo is the running demo teachers and what was written for them.
type Demo struct {
	Recipe string // path
	Stop   func(context.Context) error
}

// An app is the command line's surroundings: what tests replace.
type app struct {
	out, err io.Writer
	in       io.Reader
	terminal bool // err is a terminal
	lookup   func(string) (string, bool)
	embedded Embedded
	binary   string

	// Global flags.
	homeDir, store, temporal string
	namespace                string
	json, quiet, verbose     bool
	caFile                   string
	roots                    *x509.CertPool // of --ca and the system; nil: the system's
	logFlag                  string         // --log-format of worker and serve
	logFormat                string         // logJSON once one of them runs with it; else text
	sandbox                  sandboxFlags
	commands                 allowedCommands
	policyFile               string
	policy                   *policy.Policy // nil: there is none
	launchersFile            string
	launchers                map[string]launch.Launcher // beside command
	lineage                  *lineage.Teller
	history                  codec.Keys // that encrypt histories; none before they are read

	// interrupted is closed at the first Ctrl-C.
	interrupted chan struct{}
}

// Main runs the command line and returns its exit code.
func Main(args []string, embedded Embedded, binary string) int {
	a := &app{
		out: os.Stdout, err: os.Stderr, in: os.Stdin,
		terminal: term.IsTerminal(int(os.Stderr.Fd())) && term.IsTerminal(int(os.Stdin.Fd())),
		lookup:   os.LookupEnv, embedded: embedded, binary: binary,
		interrupted: make(chan struct{}),
	}
	// The SDK would name this build by the digest of the whole binary, which
	// takes a third of a second to read.
	worker.SetBinaryChecksum("stillhouse " + binary)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go a.signals(cancel)
	return a.run(ctx, args)
}

// signals closes interrupted at the first Ctrl-C or SIGTERM; a second one
// stops the program at once. Work that drains must not be cut by ctx, so ctx
// ends only for commands that do not drain: those watch interrupted.
func (a *app) signals(cancel context.CancelFunc) {
	c := make(chan os.Signal, 2)
	signal.Notify(c, os.Interrupt, syscall.SIGTERM)
	<-c
	close(a.interrupted)
	cancel()
	<-c
	os.Exit(exitInterrupted)
}

func (a *app) run(ctx context.Context, args []string) int {
	root := a.root()
	root.SetArgs(args)
	root.SetOut(a.out)
	root.SetErr(a.err)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	code := exitCode(err)
	if text := message(err); text != "" && !(code == exitInterrupted && errors.Is(err, context.Canceled)) {
		if a.logFormat == logJSON {
			a.logAt(slog.LevelError).Error(printable(text), "exit_code", code)
		} else {
			fmt.Fprintf(a.err, "stillhouse: %s\n", printable(text))
		}
	}
	return code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "stillhouse",
		Short: "Build multi-teacher distillation datasets",
		Long: `Stillhouse asks many teacher models, checks and filters what they answer,
merges it by a declared policy, and publishes versioned Parquet datasets with a
report that compares the teachers. Every answer that was paid for is kept.

Start with:  stillhouse demo

` + exitHelp(),
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usage("%v; see %s --help", err, cmd.CommandPath())
	})
	f := root.PersistentFlags()
	f.StringVar(&a.homeDir, "home", a.env("STILLHOUSE_HOME"), "folder of everything local (STILLHOUSE_HOME; default: the XDG data folder)")
	f.StringVar(&a.store, "store", a.env("STILLHOUSE_STORE"), "s3://bucket/prefix to use instead of the embedded store (STILLHOUSE_STORE)")
	f.StringVar(&a.temporal, "temporal", a.env("STILLHOUSE_TEMPORAL"), "HOST:PORT of a Temporal server to use instead of the embedded one (STILLHOUSE_TEMPORAL)")
	f.StringVar(&a.namespace, "namespace", "", "Temporal namespace (default: the profile's, else default)")
	f.StringVar(&a.caFile, "ca", a.env("STILLHOUSE_CA_FILE"), "file (PEM) of further authorities that vouch for teachers and webhooks (STILLHOUSE_CA_FILE)")
	f.BoolVar(&a.json, "json", false, "print data as JSON on stdout")
	f.BoolVarP(&a.quiet, "quiet", "q", false, "no progress")
	f.BoolVarP(&a.verbose, "verbose", "v", false, "log more, to the logs folder of the home and to stderr")
	for _, add := range commands {
		root.AddCommand(add(a))
	}
	wrapArgs(root)
	return root
}

// commands makes each command; their files add to it.
var commands []func(*app) *cobra.Command

func register(f ...func(*app) *cobra.Command) { commands = append(commands, f...) }

// wrapArgs makes errors of positional arguments and unknown commands usage
// errors.
func wrapArgs(cmd *cobra.Command) {
	if check := cmd.Args; check != nil {
		cmd.Args = func(cmd *cobra.Command, args []string) error {
			if err := check(cmd, args); err != nil {
				return usage("%v; %s", err, nextUse(cmd, args))
			}
			return nil
		}
	}
	for _, sub := range cmd.Commands() {
		wrapArgs(sub)
	}
}

// nextUse says how a command wants to be called.
func nextUse(cmd *cobra.Command, args []string) string {
	help := "see " + cmd.CommandPath() + " --help"
	if !cmd.HasSubCommands() {
		return "usage: " + cmd.UseLine() + "; " + help
	}
	if len(args) > 0 {
		cmd.SuggestionsMinimumDistance = 2
		if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
			return fmt.Sprintf("did you mean %q? %s", near[0], help)
		}
	}
	return help
}

func (a *app) env(name string) string {
	v, _ := a.lookup(name)
	return v
}

// say prints talk for a person, unless --quiet.
func (a *app) say(format string, args ...any) {
	if !a.quiet {
		a.warn(format, args...)
	}
}

// warn prints what a person has to know, also with --quiet. Names and words of
// others may be in it.
func (a *app) warn(format string, args ...any) {
	text := printable(fmt.Sprintf(format, args...))
	if a.logFormat == logJSON {
		a.talkAsJSON(text)
		return
	}
	fmt.Fprintln(a.err, text)
}

// log is where the program's own log goes.
func (a *app) log() *slog.Logger {
	if a.verbose {
		return a.logAt(slog.LevelDebug)
	}
	return a.logAt(slog.LevelWarn)
}

// printable makes untrusted text safe for a terminal: control characters and
// escape sequences become visible.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case r < 0x20 || r == 0x7f || (r >= 0x80 && r < 0xa0) || bidi(r):
			return '\uFFFD'
		}
		return r
	}, s)
}

// bidi tells the characters that turn the direction of text around: they make
// a line read as something else than it is.
func bidi(r rune) bool {
	return (r >= 0x202a && r <= 0x202e) || (r >= 0x2066 && r <= 0x2069)
}
