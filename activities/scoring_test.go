package activities

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/verify"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

func assistantSays(text string) *chat.Message {
	return &chat.Message{Role: chat.RoleAssistant, Content: &text}
}

// questionsOf are answers to "2+2?".
func questionsOf(texts ...string) []verify.Question {
	prompt := &chat.Prompt{Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text("2+2?")}}}
	var out []verify.Question
	for _, text := range texts {
		out = append(out, verify.Question{Prompt: prompt, Answer: assistantSays(text), Gold: chat.Text("4")})
	}
	return out
}

func scored(t *testing.T, s verify.Scorer, questions []verify.Question) string {
	t.Helper()
	list, err := s.Score(context.Background(), questions)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, one := range list {
		if one.Value != nil {
			out = append(out, fmt.Sprint(*one.Value))
		} else {
			out = append(out, "? "+one.Why)
		}
	}
	return strings.Join(out, "|")
}

// scoringWorld is a worker with a recipe of one teacher, in a build.
func scoringWorld(t *testing.T, url string) (*world, *runtime, wire.BuildRef) {
	t.Helper()
	w := newWorld(t)
	w.file("p.jsonl", sums(1))
	rt, err := newRuntime(parsed(t, askRecipe("d", url, ", price: {input: 1, output: 1}")), &Sources{})
	if err != nil {
		t.Fatal(err)
	}
	return w, rt, wire.BuildRef{Dataset: "d", BuildID: wire.BuildID(time.Unix(1, 0), "d")}
}

func TestAJudgeIsNeverPaidTwice(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		switch {
		case strings.Contains(r.Prompt, "four"):
			return teacherstest.Reply{Content: judged(r, 9)}
		case strings.Contains(r.Prompt, "five"):
			return teacherstest.Reply{Content: "Hm, I would say " + judged(r, 2) + " or so"}
		}
		return teacherstest.Reply{Status: 400, Message: "too long"}
	})
	w, rt, ref := scoringWorld(t, server.URL)
	judge, err := w.a.judge(rt, ref, "t", "default", teachers.JudgeOptions{Rubric: "Is it right?"})
	if err != nil {
		t.Fatal(err)
	}
	const want = "9|? the judge's last line is no JSON object with a judgement alone|? the call failed: bad_request|9"
	questions := questionsOf("four", "five", "six", "four")
	if got := scored(t, judge, questions); got != want {
		t.Errorf("%s", got)
	}
	asked := server.Stats()
	if asked.Requests != 3 {
		t.Errorf("%+v", asked)
	}
	// Another worker finds what was said; what failed is asked again.
	other := newWorldOn(t, w.bucket)
	again, err := other.a.judge(rt, ref, "t", "default", teachers.JudgeOptions{Rubric: "Is it right?"})
	if err != nil {
		t.Fatal(err)
	}
	if got := scored(t, again, questions[:2]); got != "9|? the judge's last line is no JSON object with a judgement alone" {
		t.Errorf("%s", got)
	}
	if s := server.Stats(); s.Requests != asked.Requests || s.PaidTwice != 0 {
		t.Errorf("%+v", s)
	}
	// Another rubric is another judgement.
	if strict, err := other.a.judge(rt, ref, "t", "default", teachers.JudgeOptions{Rubric: "Be strict."}); err != nil || scored(t, strict, questions[:1]) != "9" {
		t.Errorf("%v", err)
	}
	if s := server.Stats(); s.Requests != asked.Requests+1 {
		t.Errorf("%+v", s)
	}
	if _, err := w.a.judge(rt, ref, "nobody", "default", teachers.JudgeOptions{Rubric: "x"}); err == nil {
		t.Error("nobody judges")
	}
}

func TestRewardModels(t *testing.T) {
	server := teacherstest.New(t, func(r teacherstest.Request) teacherstest.Reply {
		if r.Judged == "none" {
			return teacherstest.Reply{Raw: `{"data":[{"index":0,"score":NaN}]}`, ContentType: "application/json"}
		}
		return teacherstest.Reply{Scores: []float64{0.1, float64(len(r.Judged))}}
	})
	w, rt, ref := scoringWorld(t, server.URL)
	for form, want := range map[string]string{
		teachers.ScoreVLLM: "0.1|? the endpoint sent no finite number", teachers.PoolingVLLM: "4|? the endpoint sent no finite number",
	} {
		s, err := w.a.rewarder(rt, ref, "t", form, teachers.ScorerOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if got := scored(t, s, questionsOf("four", "none")); got != want {
				t.Errorf("%s: %s", form, got)
			}
		}
	}
	if s := server.Stats(); s.Requests != 4 {
		t.Errorf("%+v", s)
	}
	if _, err := w.a.rewarder(rt, ref, "t", "other", teachers.ScorerOptions{}); err == nil || !strings.Contains(err.Error(), "there are vllm-score") {
		t.Errorf("%v", err)
	}
}

func TestCompletionsAreScored(t *testing.T) {
	server := teacherstest.New(t, func(teacherstest.Request) teacherstest.Reply { return teacherstest.Reply{} })
	w, rt, ref := scoringWorld(t, server.URL)
	s, err := w.a.completions(rt, ref, "t", nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	prompt := questionsOf("")[0].Prompt
	for range 2 {
		list, why, err := s.score(context.Background(), prompt, [][]chat.Message{{*assistantSays("4")}, {*assistantSays("four")}})
		if err != nil || why[0]+why[1] != "" || list[0].Len() != 2 || list[1].Len() != 5 {
			t.Fatalf("%v %q", err, why)
		}
		row, ok := logprobRow(rt.teachers["t"].spec, &datasets.Candidate{SampleID: "s"}, list[1])
		if !ok || row.Tokens != 5 || row.TopK != 1 || string(*row.TokenBytes[0]) != "f" || row.TokenIDs[0] == nil {
			t.Errorf("%+v", row)
		}
	}
	if n := server.Stats().Requests; n != 3 { // the prompt once, and each completion
		t.Errorf("%d requests", n)
	}
}
