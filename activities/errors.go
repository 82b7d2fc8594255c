package activities

import (
	"errors"
	"fmt"

	"go.temporal.io/sdk/temporal"

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

// final turns the errors that no retry can mend into the application errors
// that workflows know; others pass through and are retried.
func final(err error) error {
	var recipeErr *RecipeError
	var sourceErr *SourceError
	switch {
	case errors.As(err, &recipeErr):
		return temporal.NewNonRetryableApplicationError(recipeErr.Text, wire.ErrInvalidRecipe, nil)
	case errors.As(err, &sourceErr):
		return temporal.NewNonRetryableApplicationError(sourceErr.Text, wire.ErrBadSource, nil)
	}
	return err
}
