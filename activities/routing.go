package activities

import (
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// route says whom a task is asked of, at first hand and after them.
func (p *planner) route(t *datasets.Task) error {
	var env *recipe.Env
	if p.recipe.Ask.Route.Kind == recipe.RouteRules {
		env = taskEnv(t)
	}
	r, err := p.recipe.RouteTask(t.Domain, t.Effort, env)
	if err != nil {
		return badSource("%s: %v; write the condition so that it fits every row, such as get(meta, \"level\") == \"hard\"", t.Source, err)
	}
	t.Route, t.RouteWhy, t.Fallback = r.Teachers, r.Why, r.Fallback
	return nil
}

// nobody is the error of a task that is asked of no teacher.
func (p *planner) nobody(t *datasets.Task) error {
	if p.recipe.Ask.Route.Kind == recipe.RouteRules {
		return badSource("%s: no rule of ask.route matches domain %q at effort %q, or the teachers of the one that does not serve it; add a last rule without when, which takes what is left", t.Source, t.Domain, t.Effort)
	}
	return badSource("%s: no teacher serves domain %q at effort %q; add it to a teacher's serves, or leave serves out to serve all", t.Source, t.Domain, t.Effort)
}

// routeKey tells apart whom tasks are asked of. Two rules may say different
// things of what is unknown.
func routeKey(t *datasets.Task) string {
	key := strings.Join(t.Route, "\x00")
	if len(t.Fallback) > 0 {
		key += "\x00\x00" + strings.Join(t.Fallback, "\x00") + "\x00\x00" + t.RouteWhy
	}
	return key
}
