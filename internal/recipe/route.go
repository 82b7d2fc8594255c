package recipe

import (
	"fmt"
	"slices"
)

// RuleWhy begins why a rule routes a task.
const RuleWhy = "rule "

// What RouteRule.Unknown may say.
const (
	UnknownKeep     = "keep"
	UnknownEscalate = "escalate"
)

// maxFallback bounds the rounds of a shard: each refines it once more.
const maxFallback = 8

// A TaskRoute is whom a task is asked of.
type TaskRoute struct {
	Teachers []string // at first hand, in the rule's or the recipe's order
	Fallback []string // one after the other, each where all before it failed
	Why      string   // such as "all", "domain math, effort high" or `rule 1: domain == "math"`
}

// RouteTask says whom a task is asked of: under rules, by the first one whose
// condition holds. env is what a condition sees of the task; it may be nil where
// the recipe has no rules. Teachers of a rule that do not serve the task's domain
// at its effort are left out. The error is that of a condition.
func (r *Recipe) RouteTask(domain, effort string, env *Env) (TaskRoute, error) {
	if r.Ask.Route.Kind != RouteRules {
		teachers, why := r.RouteFor(domain, effort)
		return TaskRoute{Teachers: teachers, Why: why}, nil
	}
	for i := range r.Ask.Route.Rules {
		rule := &r.Ask.Route.Rules[i]
		why := fmt.Sprintf("%s%d", RuleWhy, i+1)
		if rule.When != nil {
			match, err := rule.When.Match(*env)
			if err != nil {
				return TaskRoute{}, fmt.Errorf("ask.route.rules[%d]: %w", i, err)
			}
			if !match {
				continue
			}
			why += ": " + rule.When.String()
		}
		return TaskRoute{
			Teachers: r.serving(rule.Teachers, domain, effort), Fallback: r.serving(rule.Fallback, domain, effort), Why: why,
		}, nil
	}
	return TaskRoute{}, nil
}

// serving are those of some teachers that serve a task.
func (r *Recipe) serving(ids []string, domain, effort string) (out []string) {
	for _, id := range ids {
		if t := r.Teacher(id); t != nil && t.ServesTask(domain, effort) {
			out = append(out, id)
		}
	}
	return out
}

// UnknownEscalates tells whether the rule that routed a task sends it on although
// an answer is unknown and not failed. why is the task's.
func (r *Recipe) UnknownEscalates(why string) bool {
	var n int
	if _, err := fmt.Sscanf(why, RuleWhy+"%d", &n); err != nil || n < 1 || n > len(r.Ask.Route.Rules) {
		return false
	}
	return r.Ask.Route.Rules[n-1].Unknown == UnknownEscalate
}

// Escalates tells whether any task may go on to a fallback.
func (r *Recipe) Escalates() bool { return len(r.Fallbacks()) > 0 }

// Fallbacks are the ids of the teachers that a rule names as a fallback, in the
// recipe's order.
func (r *Recipe) Fallbacks() (out []string) {
	for i := range r.Teachers {
		id := r.Teachers[i].ID
		if slices.ContainsFunc(r.Ask.Route.Rules, func(rule RouteRule) bool { return slices.Contains(rule.Fallback, id) }) {
			out = append(out, id)
		}
	}
	return out
}

// taskWords are the words of a condition that are known of a task.
var taskWords = []string{"domain", "effort", "gold", "group", "meta"}

// route checks the rules of ask.route.
func (c *checker) route() {
	var open string // the rule that takes every task
	for i := range c.r.Ask.Route.Rules {
		rule, path := &c.r.Ask.Route.Rules[i], indexed("ask.route.rules", i)
		if open != "" {
			c.fault(path, "is never reached: "+open+" has no when and takes every task", "move that one to the end")
		} else if rule.When == nil {
			open = path
		}
		for _, word := range rule.When.candidateWords() {
			c.fault(path+".when", quote(word)+" is of an answer, and a task is routed before it has any", "known of a task: domain, effort, gold, group, meta")
		}
		seen := map[string]string{}
		c.ruleTeachers(rule.Teachers, path+".teachers", seen)
		c.ruleTeachers(rule.Fallback, path+".fallback", seen)
		for n, id := range rule.Fallback {
			if t := c.r.Teacher(id); t != nil && t.IsBatch() {
				c.fault(indexed(path+".fallback", n), "teacher "+quote(id)+" is asked through a batch API, and a fallback is asked while the build goes on", "add a teacher of the same model with another api")
			}
		}
		if len(rule.Fallback) > maxFallback {
			c.fault(path+".fallback", fmt.Sprintf("has %d teachers, want at most %d", len(rule.Fallback), maxFallback), "remove some")
		}
	}
}

// ruleTeachers checks a rule's teachers; seen are those that it has named.
func (c *checker) ruleTeachers(ids []string, path string, seen map[string]string) {
	known := make([]string, len(c.r.Teachers))
	for i := range c.r.Teachers {
		known[i] = c.r.Teachers[i].ID
	}
	for n, id := range ids {
		at := indexed(path, n)
		switch first := seen[id]; {
		case !slices.Contains(known, id):
			c.fault(at, "no teacher has the id "+quote(id), didYouMean(id, known))
		case first != "":
			c.fault(at, "teacher "+quote(id)+" is there already, as "+first, "it is asked once: remove one")
		case c.r.OnlyJudges(id):
			c.fault(at, "teacher "+quote(id)+" only judges, and is asked no tasks", "say what it serves, such as serves: [{domain: math}], or name another")
		default:
			seen[id] = at
		}
	}
}

// candidateWords are the words of a condition that are not known of a task.
func (w *When) candidateWords() (out []string) {
	if w == nil {
		return nil
	}
	for _, word := range whenWords {
		if w.Uses(word) && !slices.Contains(taskWords, word) {
			out = append(out, word)
		}
	}
	return out
}
