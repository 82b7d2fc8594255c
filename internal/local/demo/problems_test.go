package demo

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// verifierOf is the verifier that the recipe names for the problem.
func verifierOf(t testing.TB, p *problem) verify.Verifier {
	t.Helper()
	name := map[string]string{Math: "math", Science: "choice", Structured: "regex"}[p.domain]
	if p.kind == kindSchema {
		name = "json_schema"
	}
	v, err := verify.New(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func input(t testing.TB, p *problem, content string) verify.Input {
	t.Helper()
	in := verify.Input{
		Content: content,
		Prompt:  &chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text(p.question)}}},
	}
	if p.gold != "" {
		in.Gold = &p.gold
	}
	if tests, ok := p.tests.(string); ok {
		in.Tests = &tests
	} else if p.tests != nil {
		text, err := json.Marshal(p.tests)
		if err != nil {
			t.Fatal(err)
		}
		schema := string(text)
		in.Tests = &schema
	}
	return in
}

func TestProblemsAreManyAndDifferent(t *testing.T) {
	seen := map[string]bool{}
	kinds := map[string]int{}
	for domain, list := range problems() {
		if len(list) != perDomain {
			t.Errorf("%s has %d problems, want %d", domain, len(list), perDomain)
		}
		for i := range list {
			p := &list[i]
			if seen[p.question] {
				t.Errorf("asked twice: %s", p.question)
			}
			seen[p.question] = true
			kinds[p.kind]++
			if len(p.slips) == 0 || len(p.steps) == 0 {
				t.Errorf("nothing to get wrong, or no way to get there: %s", p.question)
			}
		}
	}
	if kinds[kindPattern] != perDomain/2 || kinds[kindSchema] != perDomain/2 {
		t.Errorf("kinds of structured prompts: %v", kinds)
	}
}

// In every teacher's style the right answer passes and every slip fails; none
// is unknown.
func TestVerifiersTellRightFromWrong(t *testing.T) {
	for i := range characters {
		c := &characters[i]
		t.Run(c.model(), func(t *testing.T) {
			for i := range problems()[c.domain] {
				p := &problems()[c.domain][i]
				v := verifierOf(t, p)
				says := func(answer string) datasets.Verdict {
					return v.Verify(context.Background(), input(t, p, c.say(p, answer, p.steps)))
				}
				if got := says(p.answer); got.Verdict != datasets.Pass {
					t.Errorf("%s\nright answer %q: %s, %s", p.question, c.say(p, p.answer, p.steps), got.Verdict, got.Reason)
				}
				for _, s := range p.slips {
					if got := says(s.answer); got.Verdict != datasets.Fail {
						t.Errorf("%s\nwrong answer %q: %s, %s", p.question, c.say(p, s.answer, p.steps), got.Verdict, got.Reason)
					}
				}
			}
		})
	}
}

func TestSkillsShow(t *testing.T) {
	for i := range characters {
		c := &characters[i]
		right := 0
		for i := range problems()[c.domain] {
			p := &problems()[c.domain][i]
			r := c.answer(p.question, "")
			if got := verifierOf(t, p).Verify(t.Context(), input(t, p, r.content)); got.Verdict == datasets.Pass {
				right++
			}
		}
		share := float64(right) / perDomain
		t.Logf("%s: %.2f, skill %.2f", c.model(), share, c.skill)
		// Four standard deviations of a binomial at 120 prompts.
		if share < c.skill-0.18 || share > c.skill+0.18 {
			t.Errorf("%s gets %.2f right, its skill is %.2f", c.model(), share, c.skill)
		}
	}
}

func TestEffortThinksLonger(t *testing.T) {
	for _, domain := range []string{Math, Science, Structured} {
		p := &problems()[domain][0]
		var before int
		for _, effort := range []string{Low, High, Max} {
			c := characterOf("demo-" + domain + "-" + effort)
			n := tokens(c.answer(p.question, "").reasoning)
			if n <= before {
				t.Errorf("%s thinks in %d tokens, the effort below it in %d", c.model(), n, before)
			}
			before = n
		}
	}
}

func TestAnswersAreTheSameAgain(t *testing.T) {
	c := characterOf("demo-math-low")
	different := false
	for i := range problems()[Math] {
		q := problems()[Math][i].question
		first, again := c.answer(q, "1"), c.answer(q, "1")
		if first != again {
			t.Fatalf("two answers to one request: %s", q)
		}
		different = different || first.content != c.answer(q, "2").content
	}
	if !different {
		t.Error("another seed never gives another answer")
	}
}

// The prompts are part of answers' identity: a change of one byte here asks
// everything anew, and must be meant.
func TestPromptsDoNotDrift(t *testing.T) {
	for domain, want := range map[string]string{
		Math:       "e9cb05f66a74270b",
		Science:    "0193fdd213b7afab",
		Structured: "4ad8016687fbe1e1",
	} {
		text, err := promptFile(domain)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(text)
		if got := hex.EncodeToString(sum[:8]); got != want {
			t.Errorf("%s prompts changed: digest %s, was %s", domain, got, want)
		}
	}
}

func TestUnknownPromptIsAnsweredHonestly(t *testing.T) {
	r := characterOf("demo-math-max").answer("Who wrote Faust?", "")
	if r.content == "" || r.reasoning == "" || !strings.Contains(r.content, simulated) {
		t.Errorf("%+v", r)
	}
}
