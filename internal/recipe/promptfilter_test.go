package recipe

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPromptFilters(t *testing.T) {
	r, err := Parse("r.yaml", []byte(base+`prompt_filter:
  - duplicate
  - {near_duplicate: {jaccard: 0.9, bands: 14, rows: 8, shingle: 4, max_cluster: 10, max_source_loss: 0.2, any_values: true, action: flag}, when: domain == "math"}
  - contamination: {against: eval/*.jsonl}
  - contamination:
      against: [a.jsonl, s3://b/*.parquet]
      ngram: 13
      share: 0.8
      fields: {question: q.text, answer: a}
      action: drop
      when: effort == "high"
`))
	if err != nil {
		t.Fatal(err)
	}
	ptr := func(f float64) *float64 { return &f }
	want := []PromptStep{
		{Name: Duplicate, Duplicate: &DuplicateStep{Action: ActionDrop}},
		{Name: NearDuplicate, NearDuplicate: &NearDuplicateStep{
			Jaccard: ptr(0.9), Bands: 14, Rows: 8, Shingle: 4, MaxCluster: 10, MaxSourceLoss: ptr(0.2), AnyValues: true, Action: ActionFlag,
		}},
		{Name: Contamination, Contamination: &ContaminationStep{Against: []string{"eval/*.jsonl"}, Ngram: 8, Action: ActionFlag}},
		{Name: Contamination, Contamination: &ContaminationStep{
			Against: []string{"a.jsonl", "s3://b/*.parquet"}, Ngram: 13, Share: ptr(0.8), Fields: EvalFields{Question: "q.text", Answer: "a"}, Action: ActionDrop,
		}},
	}
	got := r.PromptFilter
	for i, when := range []string{"", `domain == "math"`, "", `effort == "high"`} {
		if got[i].When.String() != when {
			t.Errorf("step %d applies when %q, want %q", i, got[i].When, when)
		}
		got[i].When = nil
		if c := got[i].Contamination; c != nil {
			c.When = nil
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestBadPromptFilters(t *testing.T) {
	for _, tc := range []struct{ filter, want string }{
		{"[duplicates]", `prompt_filter[0]: unknown filter of prompts "duplicates"; did you mean "duplicate"?`},
		{"[contamination]", "prompt_filter[0].against: is missing; write {contamination: {against: [eval/*.jsonl]}}"},
		{"[{contamination: {ngram: 8}}]", "prompt_filter[0].contamination.against: is missing; add against: …"},
		{"[{contamination: {against: []}}]", "prompt_filter[0].contamination.against: is an empty list; give it at least one entry"},
		{"[{contamination: {against: e.jsonl, ngram: 1}}]", "prompt_filter[0].contamination.ngram: 1 is less than 2"},
		{"[{contamination: {against: e.jsonl, share: 1}}]", "prompt_filter[0].contamination.share: 1 is more than 0.99"},
		{"[{contamination: {against: e.jsonl, action: delete}}]", `prompt_filter[0].contamination.action: "delete" is none of drop, flag`},
		{"[{contamination: {against: e.jsonl, fields: {gold: a}}}]", `prompt_filter[0].contamination.fields.gold: unknown key "gold"; known here: question, answer`},
		{"[{contamination: {against: e.jsonl, fields: {question: a..b}}}]", `prompt_filter[0].contamination.fields.question: "a..b" is no field`},
		{"[{near_duplicate: {jacard: 0.8}}]", `prompt_filter[0].near_duplicate.jacard: unknown key "jacard"; did you mean "jaccard"?`},
		{"[{near_duplicate: {jaccard: 0.1}}]", "prompt_filter[0].near_duplicate.jaccard: 0.1 is less than 0.3"},
		{"[{near_duplicate: {bands: 1000}}]", "prompt_filter[0].near_duplicate.bands: 1000 is more than 256"},
		{"[duplicate, {duplicate: {action: flag}}]", "prompt_filter[1]: duplicate is there twice; remove one"},
		{"[{duplicate: {}, near_duplicate: {}}]", "prompt_filter[0].near_duplicate: a second filter in one entry; start a new entry with a dash"},
		{"[{when: domain == \"a\"}]", "prompt_filter[0]: no filter is named"},
		{`[{duplicate: {when: domain == "a"}, when: domain == "b"}]`, "when is there twice"},
		{`[{when: domain == "a", duplicate: {when: domain == "b"}}]`, "when is there twice"},
		{`[{duplicate: {}, when: content == "x"}]`, "prompt_filter[0].when: a prompt is filtered before it is answered, and the condition looks at an answer; use domain, effort, gold, group and meta"},
		{`[{duplicate: {when: verdict == "pass"}}]`, "a prompt is filtered before it is answered"},
		{"duplicate", "prompt_filter: is a text, want a list"},
		{"[[duplicate]]", "prompt_filter[0]: is a list, want keys with values"},
		{"[" + strings.Repeat("{contamination: {against: e.jsonl}}, ", 33) + "]", "prompt_filter: has 33 steps, more than 32; name several files under one against"},
	} {
		t.Run(tc.filter[:min(len(tc.filter), 50)], func(t *testing.T) {
			_, err := Parse("r.yaml", []byte(base+"prompt_filter: "+tc.filter+"\n"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
