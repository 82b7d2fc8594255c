package recipe

import (
	"strings"
	"testing"
)

// What merge, mix, pairs and gates say against themselves or against the rest
// of the recipe. Each case is added to base, or replaces its verifier.
func TestBadMerges(t *testing.T) {
	free := func(more string) string { return strings.Replace(base, addAtEnd, more+"\n", 1) }
	with := func(more string) string { return base + more + "\n" }
	for _, tc := range []struct{ name, text, want string }{
		{"a share without a vote", with("merge: {share: 0.6}"), "13:16: merge.share: has no meaning under policy: best_of; remove it, or write policy: vote"},
		{"agree without agreement", with("merge: {policy: vote, accept: any, agree: 2}"), "13:43: merge.agree: has no meaning under policy: vote; remove it, or write policy: agreement"},
		{"nobody to agree with", with("merge: {policy: agreement, accept: any}"), "13:17: merge.policy: agreement needs two teachers and there is one; add a teacher, or write policy: vote, which counts its samples"},
		{"too many to agree", with("merge: {policy: agreement, accept: any, agree: 3}"), "13:48: merge.agree: 3 teachers are to agree and there are 1; lower it"},
		{"a vote of the right ones", with("merge: {policy: vote}"), "13:17: merge.policy: vote would choose among answers that are known to be right: only those that pass are accepted; add accept: any, which compares all of them; or write policy: all_passing"},
		{"near and all", with("merge: {answer_duplicates: keep, near_duplicates: 0.9}"), "13:51: merge.near_duplicates: stands beside answer_duplicates: keep; keep one of the two"},
		{"difficulty upside down", with("merge: {difficulty: {min: 0.9, max: 0.1}}"), "13:21: merge.difficulty: min 0.9 is above max 0.1; such as {min: 0.125, max: 0.875}"},
		{"difficulty of nothing", free("merge: {difficulty: {min: 0.1}}"), "12:21: merge.difficulty: a pass rate needs a verifier and check has none; add one under check, or remove it"},
		{"no prices", with("merge: {policy: cheapest_passing}"), "13:17: merge.policy: cheapest_passing needs prices and no teacher has one; add price: {input: …, output: …} to the teachers, or write policy: shortest_passing"},
		{"shortest of what", free("merge: {policy: shortest_passing}"), "12:17: merge.policy: shortest_passing needs a verifier and check has none; add one under check, or write policy: union"},
		{"an empty mix", with("mix: {by: ''}"), "13:11: mix.by: is empty; give it a value or remove the key"},
		{"a mix of nothing", with("mix: {alpha: 0.5}"), "13:6: mix: says nothing; such as {by: domain, alpha: 0.5} or {total: 100000}"},
		{"two ways", with("mix: {by: domain, alpha: 0.5, most: 5, weights: {math: 1}}"), "13:37: mix.most: stands beside alpha; shares are made in one way: keep one of the two\n13:49: mix.weights: stands beside alpha; shares are made in one way: keep one of the two"},
		{"weights of nothing", with("mix: {total: 5, weights: {math: 1}}"), "13:26: mix.weights: there is nothing that the shares are of; add by: domain, effort, teacher or source"},
		{"a weight of nobody", with("mix: {by: domain, weights: {maths: 1}}"), "13:28: mix.weights: no weight for domain math; add one; 0 leaves its rows out\n13:36: mix.weights.maths: nothing has domain \"maths\"; did you mean \"math\"?"},
		{"weights of zero", with("mix: {by: effort, weights: {low: 0, high: 0}}"), "13:28: mix.weights: give nothing to anything; such as {math: 2, code: 1}"},
		{"a cap of nothing", with("mix: {caps: {teachers: 0.5}}"), "13:24: mix.caps.teachers: unknown cap \"teachers\"; did you mean \"teacher\"?"},
		{"a cap that leaves nothing", with("mix: {caps: {domain: 0}}"), "13:22: mix.caps.domain: leaves no row; write a share above 0"},
		{"a cap that one teacher can't keep", with("mix: {caps: {teacher: 0.5}}"), "13:23: mix.caps.teacher: 1 teachers with at most 0.5 of the rows each cannot make up a dataset; write 1 or more"},
		{"pairs of equals", free("pairs: {margin: 1}"), "12:8: pairs: which answer is better is what a verifier says, and check has none; add one under check, or remove it"},
		{"gates of nothing", with("gates: {min_pairs: 1, max_mix_shortfall: 0.1, allow_drift: false, min_domain_rows: {maths: 5}}"), "13:20: gates.min_pairs: there are no pairs to count; add pairs: {}, or remove the gate\n13:42: gates.max_mix_shortfall: there is no mixture; add mix: {…}, or remove the gate\n13:60: gates.allow_drift: nothing is probed; add drift: {probe: 50}, or remove the gate\n13:92: gates.min_domain_rows.maths: no prompts have domain \"maths\"; did you mean \"math\"?"},
		{"a reason of nothing", with("gates: {max_rejected: {refusl: 0.1, verdict: 0.5, 'repetition:loop': 0, 'verdit:fail': 0.1}}"), "13:32: gates.max_rejected.refusl: no answer is rejected as \"refusl\", so the gate would never be missed; did you mean \"refusal\"?\n13:88: gates.max_rejected.verdit:fail: no answer is rejected as \"verdit:fail\", so the gate would never be missed; did you mean \"verdict\"?"},
		{"a share above all", with("gates: {max_rejected: {refusal: 2}}"), "13:33: gates.max_rejected.refusal: 2 is more than 1; write 1 or less"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := Parse("r.yaml", []byte(tc.text))
			if err == nil {
				t.Fatal("accepted")
			}
			if got := strings.ReplaceAll(err.Error(), "r.yaml:", ""); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestGoodMerges(t *testing.T) {
	for _, more := range []string{
		"merge: {policy: vote, accept: any, share: 0.75, margin: 2, per_teacher: 1}",
		"merge: {policy: best_of, near_duplicates: 0.9, difficulty: {min: 0.125, max: 0.875}}",
		"merge: {policy: owner_first, answer_duplicates: per_task}",
		"mix: {by: domain, weights: {math: 1}, total: 100, caps: {teacher: 1, prompt: 0.01, source: 0.5}}",
		"mix: {by: source, weights: {p.jsonl: 1}}",
		"mix: {total: 10}",
		"pairs: {}",
		"pairs: {margin: 0.1, max_per_task: 2, max_length_ratio: 2, teachers: same}\ngates: {min_pairs: 3, max_rejected: {any: 0.5, verdict: 0.4}}",
	} {
		if _, err := Parse("r.yaml", []byte(base+more+"\n")); err != nil {
			t.Errorf("%s: %v", more, err)
		}
	}
	// A vote needs no gold, and nothing else may do without.
	goldless := strings.Replace(base, ", gold: a", "", 1)
	if _, err := Parse("r.yaml", []byte(goldless+"merge: {policy: vote, accept: pass_or_unknown}\n")); err != nil {
		t.Error(err)
	}
	if _, err := Parse("r.yaml", []byte(goldless+"merge: {policy: best_of, accept: any}\n")); err == nil || !strings.Contains(err.Error(), "no prompts have one") {
		t.Errorf("%v", err)
	}
	r, err := Parse("r.yaml", []byte(base+"merge: {policy: vote, accept: any}\n"))
	if err != nil || r.Merge.PerTask != 0 {
		t.Errorf("the winners of a vote are capped at %d, %v", r.Merge.PerTask, err)
	}
	r, err = Parse("r.yaml", []byte(base+"merge: {policy: shortest_passing}\npairs: {}\n"))
	if err != nil || r.Merge.PerTask != 1 || r.Pairs.MaxPerTask != 1 || r.Pairs.Teachers != "any" {
		t.Errorf("%+v %v", r, err)
	}
}
