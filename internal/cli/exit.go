package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/home"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// Exit codes. If several apply the one that comes first in exitOrder is taken.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitGate        = 3
	exitBudget      = 4
	exitTeacher     = 5
	exitUnreachable = 6
	exitInterrupted = 130
)

// exitCodes is the one table from code to meaning: the help prints it and the
// code below it is held to it by a test.
var exitCodes = []struct {
	code    int
	meaning string
}{
	{exitDone, "done"},
	{exitFailed, "failed"},
	{exitUsage, "bad usage, recipe or sources"},
	{exitGate, "published nothing, because a gate failed"},
	{exitBudget, "stopped at the budget"},
	{exitTeacher, "some teacher is unusable (key, quota, model, address); the rest is done"},
	{exitUnreachable, "store or Temporal unreachable"},
	{exitInterrupted, "interrupted; the work is kept"},
}

// exitOrder ranks codes where several apply.
var exitOrder = []int{exitInterrupted, exitUsage, exitUnreachable, exitFailed, exitGate, exitBudget, exitTeacher}

// worstOf picks, of the codes that apply, the one to exit with.
func worstOf(codes ...int) int {
	for _, c := range exitOrder {
		for _, have := range codes {
			if have == c {
				return c
			}
		}
	}
	return exitDone
}

// A usageError is wrong use of the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error { return &usageError{fmt.Sprintf(format, args...)} }

// A codedError ends the command with a given code. An empty text says that
// everything has been said already.
type codedError struct {
	code int
	text string
}

func (e *codedError) Error() string { return e.text }

// exitCode is the code that an error ends the command with.
func exitCode(err error) int {
	var coded *codedError
	var use *usageError
	var faults recipe.Errors
	var fault *recipe.Error
	var recipeErr *activities.RecipeError
	var sourceErr *activities.SourceError
	var app *temporal.ApplicationError
	var locked *home.ErrLocked
	var unavailable *serviceerror.Unavailable
	var silent *serviceerror.DeadlineExceeded
	var refused *serviceerror.InvalidArgument // such as a cron expression
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &coded):
		return coded.code
	case errors.As(err, &use), errors.As(err, &faults), errors.As(err, &fault),
		errors.As(err, &recipeErr), errors.As(err, &sourceErr),
		errors.Is(err, catalog.ErrInvalid), errors.Is(err, catalog.ErrUnknown), errors.As(err, &refused):
		return exitUsage
	case errors.As(err, &app) && (app.Type() == wire.ErrInvalidRecipe || app.Type() == wire.ErrBadSource):
		return exitUsage
	case errors.Is(err, context.Canceled), temporal.IsCanceledError(err):
		return exitInterrupted
	case errors.Is(err, objstore.ErrUnavailable), errors.As(err, &unavailable), errors.As(err, &silent), errors.As(err, &locked),
		errors.Is(err, context.DeadlineExceeded):
		return exitUnreachable
	}
	return exitFailed
}

// message is what an error says to the user: an activity's own words, without
// the layers that carried them.
func message(err error) string {
	var app *temporal.ApplicationError
	var silent *serviceerror.DeadlineExceeded
	text := err.Error()
	switch {
	case errors.As(err, &app):
		text = app.Message()
	case errors.As(err, &silent):
		text += "; Temporal does not answer: look with stillhouse doctor, then run the same command again"
	case errors.Is(err, catalog.ErrDamaged) && !strings.Contains(text, "stillhouse verify"):
		text += "; stillhouse verify REF says what is damaged and what to do"
	}
	return fewLines(text)
}

// mostLines bounds an error on a terminal: what comes first is what to correct
// first, and more would scroll it away.
const mostLines = 13

func fewLines(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(lines) <= mostLines {
		return text
	}
	kept := lines[:mostLines-1]
	return fmt.Sprintf("%s\n… and %d more lines like these; correct the first ones", strings.Join(kept, "\n"), len(lines)-len(kept))
}

// exitHelp is the table as the help shows it.
func exitHelp() string {
	var b strings.Builder
	b.WriteString("Exit codes:\n")
	for _, e := range exitCodes {
		fmt.Fprintf(&b, "  %-4d %s\n", e.code, e.meaning)
	}
	return b.String()
}
