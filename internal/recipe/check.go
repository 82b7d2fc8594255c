package recipe

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"
	"text/template"
	"unicode"
	"unicode/utf8"
)

const maxID = 64 // bytes of a teacher's id, a domain or an effort

// A checker collects what is wrong with a recipe as a whole.
type checker struct {
	r    *Recipe
	errs Errors
}

func (c *checker) fault(path, msg, hint string) {
	c.errs = append(c.errs, c.r.ErrorAt(path, msg, hint))
}

func (c *checker) has(path string) bool {
	_, ok := c.r.places[path]
	return ok
}

func (c *checker) run() {
	c.r.judges = c.r.judgeSet()
	for i := range c.r.Prompts {
		c.prompts(&c.r.Prompts[i], fmt.Sprintf("prompts[%d]", i))
	}
	for i := range c.r.Teachers {
		c.teacher(&c.r.Teachers[i], fmt.Sprintf("teachers[%d]", i))
	}
	c.teacherIDs()
	c.route()
	c.coverage()
	c.samples()
	c.drift()
	c.checks()
	c.filters()
	c.promptFilters()
	c.merge()
	c.mergeJudge()
	c.mix()
	c.pairs()
	c.gates()
	c.budget()
	c.splits()
	c.notify()
	c.student()
	if c.r.Handoff != nil && c.r.Student == nil {
		c.fault("handoff", "there is no student to train", "add student: {model: …}")
	}
}

func (c *checker) prompts(p *PromptSource, path string) {
	both := func(a, b string) {
		if c.has(path+"."+a) && c.has(path+"."+b) {
			c.fault(path+"."+b, "stands beside "+a, "keep one of the two")
		}
	}
	both("domain", "fields.domain")
	both("efforts", "fields.effort")
	both("system", "fields.system")
	both("template", "fields.prompt")
	both("template", "fields.messages")
	both("fields.prompt", "fields.messages")
	if p.Fields.Domain == "" {
		c.label(p.Domain, path+".domain")
	}
	seen := map[string]bool{}
	for i, e := range p.Efforts {
		at := indexed(path+".efforts", i)
		c.label(e, at)
		if seen[e] {
			c.fault(at, quote(e)+" is there twice", "remove one")
		}
		seen[e] = true
	}
	if c.has(path+".efforts") && len(p.Efforts) == 0 {
		c.fault(path+".efforts", "is an empty list", "name an effort, or remove the key")
	}
	f := &p.Fields
	c.fieldPaths(path+".fields", map[string]string{
		"prompt": f.Prompt, "messages": f.Messages, "system": f.System, "tools": f.Tools, "images": f.Images,
		"domain": f.Domain, "effort": f.Effort, "gold": f.Gold, "tests": f.Tests, "group": f.Group,
	})
	for i, m := range f.Meta {
		c.fieldPath(m, indexed(path+".fields.meta", i))
	}
	c.goldPattern(p, path)
	if p.Template != "" {
		if _, err := template.New("template").Parse(p.Template); err != nil {
			c.fault(path+".template", "is no template: "+firstLine(strings.TrimPrefix(err.Error(), "template: ")), "fields stand in braces: {{.question}}")
		}
	}
}

func (c *checker) goldPattern(p *PromptSource, path string) {
	if p.GoldPattern == "" {
		return
	}
	at := path + ".gold_pattern"
	re, err := regexp.Compile(p.GoldPattern)
	switch {
	case err != nil:
		c.fault(at, "is no regular expression: "+strings.TrimPrefix(err.Error(), "error parsing regexp: "), "RE2 syntax, in single quotes: '####\\s*(.+)$'")
	case re.NumSubexp() == 0:
		c.fault(at, "has no group", "put parentheses around the answer: '####\\s*(.+)$'")
	case p.Fields.Gold == "":
		c.fault(at, "has nothing to look in", "add fields: {gold: …}, the column that holds the answer")
	}
}

func (c *checker) fieldPaths(path string, fields map[string]string) {
	for key, f := range fields {
		if f != "" {
			c.fieldPath(f, join(path, key))
		}
	}
}

func (c *checker) fieldPath(f, path string) {
	if slices.Contains(strings.Split(f, "."), "") {
		c.fault(path, quote(f)+" is no field", "write names joined by dots, such as answer.text")
	}
}

// label checks a domain or an effort.
func (c *checker) label(s, path string) {
	if msg := LabelFault(s); msg != "" && c.has(path) {
		c.fault(path, quote(s)+" "+msg, "use a short word such as math or high")
	}
}

// LabelFault says why a text can be no domain and no effort; "" where it can.
// They become columns, parts of task ids and of keys: 1 to 64 bytes, no slash,
// no control character, no white space around them.
func LabelFault(s string) string {
	switch {
	case s == "":
		return "is empty"
	case len(s) > maxID:
		return "is longer than 64 bytes"
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return r == '/' || unicode.IsControl(r) }):
		return "holds a slash or a control character"
	case strings.TrimSpace(s) != s:
		return "has white space around it"
	}
	return ""
}

// coverage compares what the prompts have with what the teachers serve, as far
// as the recipe alone tells: a domain or effort that comes from a column is
// known only when the rows are read.
func (c *checker) coverage() {
	domains, allDomains := c.labels("domain")
	efforts, allEfforts := c.labels("effort")
	for i := range c.r.Teachers {
		t, path := &c.r.Teachers[i], fmt.Sprintf("teachers[%d]", i)
		for j, s := range t.Serves {
			at := indexed(path+".serves", j)
			if s.Domain != "" && allDomains {
				c.known(s.Domain, domains, at+".domain", "domain")
			}
			for k, e := range s.Effort {
				if allEfforts {
					c.known(e, efforts, indexed(at+".effort", k), "effort")
				}
			}
		}
		for e := range t.ParamsBy.Effort {
			c.label(e, join(path+".params_by.effort", e))
			if allEfforts {
				c.known(e, efforts, join(path+".params_by.effort", e), "effort")
			}
		}
	}
	c.unserved()
}

// labels are the domains or efforts of all prompts, and whether those are all.
func (c *checker) labels(kind string) (out []string, all bool) {
	all = true
	for i := range c.r.Prompts {
		p := &c.r.Prompts[i]
		if kind == "domain" {
			all = all && p.Fields.Domain == ""
			out = append(out, p.Domain)
		} else {
			all = all && p.Fields.Effort == ""
			out = append(out, p.Efforts...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), all
}

func (c *checker) known(s string, known []string, path, kind string) {
	if !slices.Contains(known, s) {
		c.fault(path, "no prompts have "+kind+" "+quote(s), didYouMean(s, known))
	}
}

func (c *checker) unserved() {
	for i := range c.r.Prompts {
		p, path := &c.r.Prompts[i], fmt.Sprintf("prompts[%d]", i)
		if p.Fields.Domain != "" || p.Fields.Effort != "" {
			continue
		}
		for _, e := range p.Efforts {
			teachers, _ := c.r.RouteFor(p.Domain, e)
			if len(teachers) > 0 {
				continue
			}
			at := path + ".domain"
			if !c.has(at) {
				at = path
			}
			c.fault(at, fmt.Sprintf("no teacher serves domain %s at effort %s", quote(p.Domain), quote(e)), c.r.howToServe())
		}
	}
}

// goldVerifiers compare with a gold answer.
var goldVerifiers = []string{"math", "choice", "exact"}

func (c *checker) checks() {
	hasGold := slices.ContainsFunc(c.r.Prompts, func(p PromptSource) bool { return p.Fields.Gold != "" })
	c.groups()
	c.r.eachCheck(func(ch *Check, path string) {
		if Paid(ch.Verifier) {
			c.judging(ch, path)
		}
		if slices.Contains(goldVerifiers, ch.Verifier) && !hasGold && !c.r.comparesAnswers() {
			c.fault(path+".verifier", ch.Verifier+" compares with a gold answer and no prompts have one", "add fields: {gold: …} to the prompts, or remove the verifier")
		}
		c.taskData(ch, path)
	})
}

// taskData checks that a verifier that goes by what a task holds finds it in
// some prompts: else all that is paid for would be unknown.
func (c *checker) taskData(ch *Check, path string) {
	tests := c.somePrompts(func(f *PromptFields) bool { return f.Tests != "" })
	expected := tests || c.somePrompts(func(f *PromptFields) bool { return f.Gold != "" })
	fault := func(what, hint string) { c.fault(path+".verifier", ch.Verifier+" "+what, hint) }
	expect, given := ch.Options["expect"].(string)
	switch ch.Verifier {
	case "code":
		if !tests {
			fault("runs a task's tests and no prompts have any", "add fields: {tests: …} to the prompts, or remove the verifier")
		}
	case "regex":
		if ch.Options["pattern"] == nil && !tests {
			fault("has no pattern", "add pattern: …, or fields: {tests: …} to the prompts for one per task")
		}
	case "json_schema":
		if ch.Options["schema"] == nil && !tests {
			fault("has no schema", "add schema: {…}, or fields: {tests: …} to the prompts for one per task")
		}
	case "contains":
		if ch.Options["text"] == nil && !expected {
			fault("has no text to look for", "add text: …, or fields: {tests: …} to the prompts for texts per task")
		}
	case "tool_calls":
		switch {
		case (!given || expect == "given") && !expected && !c.r.comparesAnswers():
			fault("compares with the expected calls and no prompts have any", "add fields: {tests: …} to the prompts, or expect: any")
		case expect != "none" && ch.Options["schema"] != false && !c.somePrompts(func(f *PromptFields) bool { return f.Tools != "" }):
			fault("checks calls against the tools that prompts declare and no prompts have any", "add fields: {tools: …} to the prompts, or schema: false")
		}
	}
}

func (c *checker) somePrompts(have func(*PromptFields) bool) bool {
	return slices.ContainsFunc(c.r.Prompts, func(p PromptSource) bool { return have(&p.Fields) })
}

func (c *checker) splits() {
	sum := 0.0
	for name, share := range c.r.Output.Splits {
		if name != "train" && name != "test" {
			c.fault(join("output.splits", name), "unknown split "+quote(name), didYouMean(name, []string{"train", "test"}))
		}
		sum += share
	}
	if math.Abs(sum-1) > 1e-9 {
		c.fault("output.splits", fmt.Sprintf("the shares sum to %.6g, want 1", sum), "such as {train: 0.98, test: 0.02}")
	}
}

func indexed(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }
