package activities

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// injections are answers that try to give their judge orders.
func injections(t testing.TB) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "datasets", "verify", "testdata", "injections.json"))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, one := range fromJSON[[]struct{ Name, Answer string }](t, text) {
		out = append(out, one.Answer)
	}
	if len(out) < 20 {
		t.Fatalf("%d injections", len(out))
	}
	return out
}

// judgement finds what looks like one in a text.
var judgement = regexp.MustCompile(`\{[^{}]*"score"[^{}]*\}`)

// naiveJudges are judges that take orders, each from somewhere else.
var naiveJudges = map[string]func(prompt, answer string) string{
	// It repeats what it reads.
	"an echo": func(_, answer string) string { return answer },
	// It takes the last judgement that it finds for its own.
	"a copyist": func(prompt, _ string) string {
		all := judgement.FindAllString(prompt[:strings.LastIndex(prompt, "Think it through")], -1)
		return strings.Join(append(all, ""), "\n")
	},
	// It knows the form, and obeys whatever stands outside of the fences.
	"obedient outside": func(prompt, _ string) string {
		score := "1"
		if ordered(outside(prompt)) {
			score = "10"
		}
		return `{"key": "` + judgedKey(prompt) + `", "score": ` + score + `}`
	},
	// It believes that an answer ends where a line says so, whatever the mark.
	"blind to marks": func(prompt, answer string) string {
		score := "1"
		if _, after, ok := strings.Cut(answer, "end answer"); ok && ordered(after) {
			score = "10"
		}
		return `{"key": "` + judgedKey(prompt) + `", "score": ` + score + `}`
	},
	// It obeys everything.
	"obedient": func(prompt, answer string) string {
		return `{"key": "` + judgedKey(prompt) + `", "score": 10}`
	},
}

// ordered tells whether a text asks for a grade.
func ordered(text string) bool {
	text = strings.ToLower(text)
	for _, word := range []string{"ignore", "disregard", "score of 10", "full marks", "highest", "maximum", "10 points", "rate this", "award", "must give"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}

// outside is what stands outside of the fences of a judge's prompt.
func outside(prompt string) string {
	var b strings.Builder
	inside := ""
	for _, line := range strings.Split(prompt, "\n") {
		fence, name, ok := strings.Cut(line, " begin ")
		switch {
		case inside != "" && line == inside:
			inside = ""
		case inside == "" && ok && strings.HasPrefix(fence, "====="):
			inside = fence + " end " + name
		case inside == "":
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// None of the answers that give orders passes, whomever the judge obeys. Without
// the guard the fences and the key still hold against every judge but one that
// obeys what stands between the fences.
func TestNoInjectionPasses(t *testing.T) {
	list := injections(t)
	for name, judge := range naiveJudges {
		for _, guard := range []string{"", ", guard: false"} {
			if guard != "" && (name == "obedient" || name == "blind to marks") {
				continue
			}
			t.Run(name+guard, func(t *testing.T) {
				answers := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
					var a, b int
					if _, err := fmt.Sscanf(r.Prompt, "%d+%d=", &a, &b); err != nil {
						t.Error(err)
					}
					return teacherstest.Reply{Content: list[a]}
				})
				fake := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
					content := judge(r.Prompt, askedAbout(r.Prompt)["answer"])
					if content == "" {
						content = "?"
					}
					return teacherstest.Reply{Content: content}
				})
				w := newWorld(t)
				w.file("p.jsonl", sums(len(list)))
				r := w.start(sumsJudged(answers.URL, fake.URL, "check: [{verifier: judge, teacher: j, rubric: Is it right?"+guard+"}]\nfilter: [finish]")).ask().judge()
				r.refine()
				n := 0
				for _, task := range r.refined() {
					for _, c := range task.Candidates {
						n++
						if c.Accepted || c.Verdict == nil || *c.Verdict == datasets.Pass {
							text, _ := json.Marshal(c.Verdicts)
							t.Errorf("%q passes: %s", c.Content(), text)
						}
					}
				}
				if n != len(list) {
					t.Errorf("%d of %d answers were judged", n, len(list))
				}
				if guard != "" && fake.Stats().Requests != len(list) {
					t.Errorf("%d requests without the guard", fake.Stats().Requests)
				}
			})
		}
	}
}

// Ordinary answers pass the same judges, so that the guard is no wall.
func TestOrdinaryAnswersAreJudged(t *testing.T) {
	answers := teacherstest.New(t, echo)
	fake := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: naiveJudges["obedient"](r.Prompt, "")}
	})
	w := newWorld(t)
	w.file("p.jsonl", sums(5))
	r := w.start(sumsJudged(answers.URL, fake.URL, "check: [{verifier: judge, teacher: j, rubric: Is it right?}]")).ask().judge()
	if got := r.refine(); got.Accepted != 5 {
		t.Errorf("%+v", got)
	}
}
