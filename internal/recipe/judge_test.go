package recipe

import (
	"fmt"
	"strings"
	"testing"
)

const judged = `name: judged
prompts: [{path: p.jsonl, fields: {prompt: q, gold: a}}]
teachers:
  - {id: t, base_url: https://a/v1, model: m}
  - {id: j, base_url: https://b/v1, model: judge}
  - {id: b, api: openai-batch, base_url: https://b/v1, model: judge, serves: [{}]}
  - {id: old, api: recorded, path: r.jsonl, fields: {content: a}}
check:
  - CHECK
`

func judgedWith(check string) (*Recipe, error) {
	return Parse("r.yaml", []byte(strings.Replace(judged, "CHECK", check, 1)))
}

func TestJudgesAreRead(t *testing.T) {
	r, err := judgedWith("{verifier: judge, teacher: j, rubric: notes/rubric.md, scale: [0, 5], samples: 3, effort: high, when: domain == \"default\"}")
	if err != nil {
		t.Fatal(err)
	}
	j, err := r.Check[0].Judging()
	if err != nil || j.Teacher != "j" || j.File != "notes/rubric.md" || j.Rubric != "" || j.Mode != JudgeScore || j.Min != 0 || j.Max != 5 || j.Samples != 3 || j.Effort != "high" || !j.Guard {
		t.Errorf("%+v %v", j, err)
	}
	if least, declared := j.Threshold(); least != 10.0/3 || !declared {
		t.Errorf("%v passes", least)
	}
	files, at := r.RubricFiles()
	if len(files) != 1 || files[0] != "notes/rubric.md" || at[files[0]] != "check[0].rubric" {
		t.Errorf("%q %v", files, at)
	}
	// A judge gives no answers of its own, unless it says what it serves.
	for _, route := range []string{"domain", "all"} {
		r.Ask.Route.Kind = route
		if ids, _ := r.RouteFor("default", "default"); strings.Join(ids, " ") != "t b old" {
			t.Errorf("%s: %q", route, ids)
		}
	}
	r.Teacher("j").Serves = []Serve{{Domain: "default"}}
	if ids, _ := r.RouteFor("default", "default"); strings.Join(ids, " ") != "t j b old" {
		t.Errorf("%q", ids)
	}

	r, err = judgedWith("{verifier: reward, teacher: j, form: vllm-classify, class: -1, params: {truncate_prompt_tokens: 4096}}")
	if err != nil {
		t.Fatal(err)
	}
	j, err = r.Check[0].Judging()
	if err != nil || j.Form != "vllm-classify" || j.Class != -1 || len(j.Params) != 1 {
		t.Errorf("%+v %v", j, err)
	}
	if _, declared := j.Threshold(); declared {
		t.Error("a reward model has a scale of its own")
	}

	// A text is a rubric, whatever it ends in.
	for text, file := range map[string]bool{"rubric.md": true, "a/b.TXT": true, "Is it right?": false, "Read the notes.txt": false, "helpful": false, "\"line\\nrubric.md\"": false} {
		r, err := judgedWith("{verifier: judge, teacher: j, rubric: " + text + "}")
		if err != nil {
			t.Fatal(err)
		}
		if files, _ := r.RubricFiles(); (len(files) == 1) != file {
			t.Errorf("%s: %q", text, files)
		}
	}
	if j, err = (&Check{Verifier: VerifierJudge, Options: map[string]any{"teacher": "j", "rubric": "x"}}).Judging(); err != nil {
		t.Fatal(err)
	}
	if least, _ := j.Threshold(); least != 7 {
		t.Errorf("%v of 1 to 10 passes", least)
	}
}

func TestBadJudges(t *testing.T) {
	for _, tc := range []struct{ check, want string }{
		{"{verifier: judge, rubric: x}", "9:5: check[0]: teacher is missing; name the teacher that judges: teacher: ID"},
		{"{verifier: judge, teacher: k, rubric: x}", `9:32: check[0].teacher: no teacher has the id "k"; did you mean`},
		{"{verifier: judge, teacher: j}", "9:5: check[0]: rubric is missing; name a file, rubric: rubric.md, or write what counts"},
		{"{verifier: judge, teacher: j, rubric: ' '}", "9:43: check[0].rubric: is empty"},
		{"{verifier: judge, teacher: old, rubric: x}", `9:32: check[0].teacher: teacher "old" is recorded, and nothing can be asked of it`},
		{"{verifier: judge, teacher: b, rubric: x}", `9:32: check[0].teacher: teacher "b" is asked through a batch API, and a judge sees what is left of each shard as it comes; add a teacher of the same model with api: openai`},
		{"{verifier: judge, teacher: j, rubric: x, scale: [5, 1]}", "check[0].scale: is no range of scores; write the least and the most"},
		{"{verifier: judge, teacher: j, rubric: x, scale: 10}", "check[0].scale: is no range of scores"},
		{"{verifier: judge, teacher: j, rubric: x, pass_at: 11}", "check[0].pass_at: 11 is not on the scale from 1 to 10"},
		{"{verifier: judge, teacher: j, rubric: x, pass_at: high}", "check[0].pass_at: is no number"},
		{"{verifier: judge, teacher: j, rubric: x, samples: 17}", "check[0].samples: 17 is not a whole number from 1 to 16"},
		{"{verifier: judge, teacher: j, rubric: x, samples: 1.5}", "check[0].samples: 1.5 is not a whole number from 1 to 16"},
		{"{verifier: judge, teacher: j, rubric: x, mode: pairs}", `check[0].mode: "pairs" is none of score, pairwise; did you mean "pairwise"?`},
		{"{verifier: judge, teacher: j, rubric: x, mode: pairwise, pass_at: 1}", "check[0].pass_at: is no option where answers are compared"},
		{"{verifier: judge, teacher: j, rubric: x, mode: pairwise, ties: half}", `check[0].ties: "half" is none of pass, fail, unknown`},
		{"{verifier: judge, teacher: j, rubric: x, rubrik: y}", `check[0].rubrik: is no option of judge; did you mean "rubric"?`},
		{"{verifier: judge, teacher: j, rubric: x, timeout: 5s}", "check[0].timeout: is no option of judge; set the teacher's limits"},
		{"{verifier: judge, teacher: [j], rubric: x}", "check[0].teacher: is no text"},
		{"{verifier: judge, teacher: j, rubric: x, guard: 1}", "check[0].guard: is neither true nor false"},
		{"{verifier: reward, teacher: j}", "check[0]: form is missing; name the endpoint's form, one of vllm-score, vllm-pooling, vllm-classify, tei-rerank"},
		{"{verifier: reward, teacher: j, form: vllm}", `check[0].form: "vllm" is none of vllm-score`},
		{"{verifier: reward, teacher: j, form: vllm-score, class: -2}", "check[0].class: -2 is not a whole number from -1"},
		{"{verifier: reward, teacher: j, form: vllm-score, params: 3}", "check[0].params: is no map"},
		{"{verifier: reward, teacher: j, form: vllm-score, rubric: x}", "check[0].rubric: is no option of reward"},
	} {
		_, err := judgedWith(tc.check)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s:\n have %v\n want %s", tc.check, err, tc.want)
		}
	}
	plain := strings.Replace(judged, ", fields: {prompt: q, gold: a}", "", 1)
	for _, tc := range []struct{ text, want string }{
		{strings.Replace(plain, "CHECK", "{verifier: judge, teacher: j, rubric: x, mode: pairwise}", 1), "check[0].mode: pairwise compares with a gold answer and no prompts have one"},
		{strings.Replace(plain, "CHECK", "{verifier: judge, teacher: j, rubric: x}\nask: {samples: {max: 4, until_pass: 1}}", 1), "check has no free verifier"},
		{strings.Replace(plain, "CHECK", "{verifier: judge, teacher: j, rubric: x}\nmerge: {judge: {teacher: j, rubric: y}}", 1), "merge.judge: stands without policy: pairwise"},
	} {
		if _, err := Parse("r.yaml", []byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("have %v\nwant %s", err, tc.want)
		}
	}
	// Only a judge is left, and nobody to be judged.
	if _, err := Parse("r.yaml", []byte("name: n\nprompts: [{path: p.jsonl}]\nteachers: [{id: j, base_url: https://b/v1, model: m}]\ncheck: [{verifier: judge, teacher: j, rubric: x}]\n")); err == nil || !strings.Contains(err.Error(), `"default"; teacher j only judges: say what it serves, or add a teacher`) {
		t.Errorf("%v", err)
	}
}

// A teacher that judges is asked tasks under a rule only where it says what it
// serves, as under any other route.
func TestJudgesInRules(t *testing.T) {
	const text = `name: d
prompts: [{path: p.jsonl}]
teachers: [{id: a, model: m, base_url: http://localhost/v1}, {id: j, model: n, base_url: http://localhost/v1, identity: j%s}]
ask: {route: {rules: [{teachers: [a], fallback: [j]}]}}
check: [{verifier: judge, teacher: j, rubric: x}]
`
	if _, err := Parse("d.yaml", []byte(fmt.Sprintf(text, ""))); err == nil || !strings.Contains(err.Error(), `ask.route.rules[0].fallback[0]: teacher "j" only judges`) {
		t.Errorf("%v", err)
	}
	if _, err := Parse("d.yaml", []byte(fmt.Sprintf(text, ", serves: [{domain: default}]"))); err != nil {
		t.Error(err)
	}
}
