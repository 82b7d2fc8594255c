package activities

import (
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/temporal"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// A RecipeError is a fault of the recipe that shows only beside its sources.
// No retry mends it.
type RecipeError struct{ Text string }

func (e *RecipeError) Error() string { return e.Text }

// A SourceError is a fault of a prompt file or of recorded answers. No retry
// mends it.
type SourceError struct{ Text string }

func (e *SourceError) Error() string { return e.Text }

func invalidRecipe(format string, args ...any) error {
	return &RecipeError{fmt.Sprintf(format, args...)}
}

func badSource(format string, args ...any) error {
	return &SourceError{fmt.Sprintf(format, args...)}
}

// mostFinal bounds an error's text in a workflow's history, in bytes.
const mostFinal = 8 << 10

// final turns the errors that no retry can mend into the application errors
// that workflows know; others pass through and are retried.
func final(err error) error {
	var recipeErr *RecipeError
	var sourceErr *SourceError
	var fault *recipe.Error
	switch {
	case errors.As(err, &fault):
		return temporal.NewNonRetryableApplicationError(clipped(fault.Error(), mostFinal), wire.ErrInvalidRecipe, nil)
	case errors.As(err, &recipeErr):
		return temporal.NewNonRetryableApplicationError(clipped(recipeErr.Text, mostFinal), wire.ErrInvalidRecipe, nil)
	case errors.As(err, &sourceErr):
		return temporal.NewNonRetryableApplicationError(clipped(sourceErr.Text, mostFinal), wire.ErrBadSource, nil)
	}
	return err
}

// bounded cuts a text of an endpoint or of a file to what history and tables
// may hold.
func bounded(s string) string { return clipped(s, 1000) }

// clipped cuts a text between two characters, at most so many bytes long.
func clipped(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
