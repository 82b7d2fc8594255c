package verify

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/internal/options"
)

// Languages that the code verifier runs.
var Languages = []string{"python", "go", "javascript", "shell"}

// Limits of the code verifier, beside what the recipe bounds.
const (
	maxSource = 1 << 20 // bytes of an answer's code
	maxTests  = 4 << 20 // bytes of a task's tests
	maxReason = 300     // bytes of a verdict's reason
)

// newCode runs an answer's code against the tests of its task.
//
// Options: language (one of [Languages]); timeout, the processor time of a run
// (default 10s); memory (default 512MiB); processes (default 64); disk, what a
// program may write (default 64MiB); output, what it may print (default 1MiB);
// entry_point, where neither the tests nor the metadata nor the prompt name the
// function; gold (default solution): solution says that the gold answer is a
// program, which is tried where an answer fails, ignore says that it is not.
//
// The shapes of tests are those of parseCodeTests.
func newCode(o *options.Set) *guarded {
	c := &codeVerifier{
		language: o.String("language", ""),
		entry:    o.String("entry_point", ""),
		gold:     o.String("gold", "solution"),
		limits: CodeLimits{
			Timeout:   duration(o, "timeout", 10*time.Second),
			Memory:    size(o, "memory", 512<<20),
			Processes: int(o.Int("processes", 64)),
			Disk:      size(o, "disk", 64<<20),
			Output:    size(o, "output", 1<<20),
		},
	}
	if alias, ok := languageAliases[c.language]; ok {
		c.language = alias
	}
	if !slices.Contains(Languages, c.language) {
		o.Fail("language", "want one of %s, got %q", strings.Join(Languages, ", "), c.language)
	}
	if c.gold != "solution" && c.gold != "ignore" {
		o.Fail("gold", "want solution or ignore, got %q", c.gold)
	}
	within(o, "timeout", c.limits.Timeout, 100*time.Millisecond, 10*time.Minute)
	within(o, "memory", c.limits.Memory, 16<<20, 64<<30)
	within(o, "processes", c.limits.Processes, 1, 4096)
	within(o, "disk", c.limits.Disk, 4<<10, 16<<30)
	within(o, "output", c.limits.Output, 1, 256<<20)
	return &guarded{"code", "1", c.judge}
}

// within refuses a limit that is out of range.
func within[T int | int64 | time.Duration](o *options.Set, name string, v, low, high T) {
	if v < low || v > high {
		o.Fail(name, "want %v to %v, got %v", low, high, v)
	}
}

type codeVerifier struct {
	language string
	entry    string
	gold     string
	limits   CodeLimits
	golds    goldMemo
}

func (c *codeVerifier) judge(ctx context.Context, in Input) finding {
	if in.Runner == nil {
		return unknown("no sandbox")
	}
	if in.Tests == nil || strings.TrimSpace(*in.Tests) == "" {
		return unknown("task has no tests")
	}
	if len(*in.Tests) > maxTests {
		return unknown("tests of the task too long")
	}
	tests, err := parseCodeTests(*in.Tests, c.language)
	if err != nil {
		return unknown("tests of the task not readable: " + err.Error())
	}
	p := &Program{Language: c.language, Entry: c.entry, Tests: tests.CodeTests, Limits: c.limits}
	if p.Entry == "" {
		p.Entry = first(tests.entry, metaText(in.Meta, "entry_point"))
	}
	if p.Prompt = tests.prompt; p.Prompt == "" && len(tests.Code) > 0 {
		p.Prompt = promptCode(in.Prompt, c.language)
	}
	p.Source = extractCode(in.Content, c.language, p.Entry)
	if len(p.Source) > maxSource {
		return fail("the code is too long", p.Source)
	}
	if strings.TrimSpace(p.Source) == "" {
		return finding{verdict: datasets.Fail, reason: "no code"}
	}
	out, err := in.Runner.Run(ctx, p)
	if err != nil {
		return unknown("cancelled")
	}
	return c.conclude(ctx, in, p, out)
}

// conclude makes a verdict of an outcome. What the answer did is fail; before
// it is said, the gold solution, where there is one, must pass what the answer
// did not.
func (c *codeVerifier) conclude(ctx context.Context, in Input, p *Program, out Outcome) finding {
	reason := clip(strings.Join(strings.Fields(out.Reason), " "), maxReason)
	switch out.Kind {
	case Passed:
		return pass(reason, p.Source)
	case Undecided:
		return unknown(reason).saw(p.Source)
	case Failed:
		why, ok := c.goldPasses(ctx, in, p)
		if !ok {
			return unknown(clip("the task's own solution does not pass: "+why, maxReason)).saw(p.Source)
		}
		return fail(reason, p.Source)
	case Faulty:
		return unknown("the tests do not run: " + reason).saw(p.Source)
	}
	return unknown("the sandbox did not run it: " + reason).saw(p.Source)
}

// goldPasses tells whether the task's own solution passes, or why not. A task
// without one is believed.
func (c *codeVerifier) goldPasses(ctx context.Context, in Input, p *Program) (why string, ok bool) {
	if c.gold == "ignore" || in.Gold == nil || strings.TrimSpace(*in.Gold) == "" || len(*in.Gold) > maxSource {
		return "", true
	}
	gold := *p
	gold.Source = extractCode(*in.Gold, c.language, p.Entry)
	out := c.golds.get(ctx, in.Runner, &gold)
	if out.Kind == Passed || out.Kind == Undecided {
		return "", true
	}
	return out.Reason, false
}

func first(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// duration is an option such as 10s, or a number of seconds.
func duration(o *options.Set, name string, def time.Duration) time.Duration {
	switch v := o.Any(name).(type) {
	case nil:
		return def
	case time.Duration:
		return v
	case string:
		if d, err := time.ParseDuration(v); err == nil {
			return d
		}
		o.Fail(name, "want a time such as 10s, got %q", v)
	case int:
		return time.Duration(v) * time.Second
	case int64:
		return time.Duration(v) * time.Second
	case uint64:
		return time.Duration(min(v, 1<<30)) * time.Second
	case float64:
		return time.Duration(v * float64(time.Second))
	default:
		o.Fail(name, "want a time such as 10s, got %v", v)
	}
	return def
}

// size is an option such as 512MiB, or a number of bytes.
func size(o *options.Set, name string, def int64) int64 {
	switch v := o.Any(name).(type) {
	case nil:
		return def
	case int:
		return int64(v)
	case int64:
		return v
	case uint64:
		return int64(min(v, 1<<62))
	case string:
		var n int64
		var unit string
		if _, err := fmt.Sscanf(v, "%d%s", &n, &unit); err == nil {
			for i, u := range []string{"KiB", "MiB", "GiB"} {
				if unit == u && n >= 0 && n < 1<<20 {
					return n << (10 * (i + 1))
				}
			}
		}
		o.Fail(name, "want a size such as 512MiB, got %q", v)
	default:
		o.Fail(name, "want a size such as 512MiB, got %v", v)
	}
	return def
}
