package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// refreshOf reads --refresh.
func refreshOf(r *recipe.Recipe, ids []string) (string, error) {
	list, err := activities.RefreshOf(r, ids)
	var fault *activities.RecipeError
	if errors.As(err, &fault) {
		return "", usage("%s", fault.Text)
	}
	return list, err
}

// sameRefresh refuses to follow a build that runs already and does not ask anew
// what this command was told to: it would end well and have done something else.
func sameRefresh(run *run, refresh string) error {
	if refresh == "" {
		return nil
	}
	has := strings.Split(run.Refresh, "/")
	for id := range strings.SplitSeq(refresh, "/") {
		if !slices.Contains(has, id) {
			return fmt.Errorf("build %s runs already and does not ask teacher %s anew; wait for its end (stillhouse watch %s) or stop it (stillhouse cancel %s), then run this command again",
				run.buildID, id, run.buildID, run.buildID)
		}
	}
	return nil
}

// knowEpochs tells a counter what the dataset has asked anew.
func (a *app) knowEpochs(ctx context.Context, r *recipe.Recipe, counter *activities.Counter, refresh string) error {
	c, err := a.readCatalog(ctx)
	if err != nil {
		return err
	}
	known, err := c.Epochs(ctx, r.Name)
	if err != nil {
		return err
	}
	return counter.Know(known, refresh)
}

// days writes a time as a recipe does.
func days(d time.Duration) string {
	const day = 24 * time.Hour
	if d >= day && d%day == 0 {
		return fmt.Sprintf("%dd", d/day)
	}
	return d.String()
}
