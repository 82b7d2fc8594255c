package activities

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/wire"
)

// What endpoints say must not make a result that no entry holds: its build
// would never end.
func TestResultStaysSmall(t *testing.T) {
	r := BuildResult{Rejected: map[string]int64{}, Rows: map[string]int64{}, Teachers: map[string]TeacherResult{}, Stopped: map[string]string{}}
	for i := range wire.MaxTeachers {
		id := fmt.Sprintf("%062d", i)
		r.Teachers[id] = TeacherResult{Asks: 1e12, Answers: 1e12, PromptTokens: 1e15, CompletionTokens: 1e15, CostUSD: 1e9}
		r.Stopped[id] = strings.Repeat("<é", 500)
	}
	for i := range 5000 {
		r.Gates = append(r.Gates, strings.Repeat("<", 2000))
		r.reject(fmt.Sprintf("finish:%040d", i))
	}
	r.reject("finish:" + strings.Repeat("0", 40))
	text, err := r.encode()
	if err != nil || len(text) > resultBytes {
		t.Fatalf("%d bytes, %v", len(text), err)
	}
	back := fromJSON[BuildResult](t, text)
	if len(back.Stopped) != wire.MaxTeachers || len(back.Rejected) != resultReasons || back.Rejected[otherReasons] != 5000-resultReasons+1 || back.Rejected["finish:"+strings.Repeat("0", 40)] != 2 {
		t.Errorf("%d stopped, %d reasons, %d others", len(back.Stopped), len(back.Rejected), back.Rejected[otherReasons])
	}
	for _, why := range back.Stopped {
		if !utf8.ValidString(why) || strings.Contains(why, "\uFFFD") || len(why) < 4 {
			t.Fatalf("%q", why)
		}
	}
	out, err := json.Marshal((&seal{result: back}).output())
	if err != nil || len(out) > wire.MaxPayload {
		t.Errorf("a summary of %d bytes, %v", len(out), err)
	}
}

func TestGates(t *testing.T) {
	w := newWorld(t)
	recordedSums(w, 30)
	// Of 30, 6 are wrong of a, 10 of b: 44 of 60 pass, 22 of 30 in either domain or so.
	for gates, want := range map[string]string{
		"{min_rows: 50}": "",
		"{min_rows: 61}": "min_rows: 56 rows, and at least 61 are wanted: 5 too few",
		"{min_domain_rows: {math: 28, sums: 20}}":               "",
		"{min_domain_rows: {math: 30, algebra: 1}}":             "min_domain_rows: 0 rows of domain algebra, and at least 1 are wanted: 1 too few|min_domain_rows: 28 rows of domain math, and at least 30 are wanted: 2 too few",
		"{min_pass_rate: {math: 0.7, sums: 0.7}}":               "",
		"{min_pass_rate: {sums: 0.9, math: 0.9}}":               "min_pass_rate: 73.3 % of domain math pass (44 of 60), and at least 90.0 % are wanted: 16.7 % too few|min_pass_rate: 73.3 % of domain sums pass (44 of 60), and at least 90.0 % are wanted: 16.7 % too few",
		"{min_pass_rate: {algebra: 0.1}}":                       "min_pass_rate: nothing was judged in domain algebra",
		"{max_rejected: {any: 0.27, verdict: 0.27}}":            "",
		"{max_rejected: {any: 0.2, verdict: 0.25, refusal: 0}}": "max_rejected: 32 of 120 answers have a reject reason (26.7 %), and at most 20.0 % are allowed: 6.7 % too many; the commonest: verdict:fail 32|max_rejected: 32 of 120 answers have reason verdict (26.7 %), and at most 25.0 % are allowed: 1.7 % too many",
		"{max_cost_usd: 0}":                                     "",
		"{min_rows: 100, min_pass_rate: {math: 0.999}}":         "min_rows: 56 rows, and at least 100 are wanted: 44 too few|min_pass_rate: 73.3 % of domain math pass (44 of 60), and at least 99.9 % are wanted: 26.6 % too few",
		// With a mixture or pairs, what the gates see is what comes of them.
		"{min_rows: 21}\nmix: {total: 20}":           "min_rows: 20 rows, and at least 21 are wanted: 1 too few",
		"{max_mix_shortfall: 0.1}\nmix: {total: 70}": "max_mix_shortfall: 14 of 70 rows of the mixture are missing (20.0 %), and at most 10.0 % are allowed: 10.0 % too many; add prompts, lower mix.total or change its shares",
		"{max_mix_shortfall: 0.2}\nmix: {total: 70}": "",
		"{min_pairs: 24}\npairs: {}":                 "",
		"{min_pairs: 30}\npairs: {}":                 "min_pairs: 24 preference pairs, and at least 30 are wanted: 6 too few",
	} {
		name := fmt.Sprintf("gate%d", w.builds)
		recipe := strings.Replace(recordedSumsRecipe, "name: sums", "name: "+name, 1) + "gates: " + gates + "\n"
		out, result := w.build(recipe)
		if got := strings.Join(out.Gates, "|"); got != want || strings.Join(result.Gates, "|") != want {
			t.Errorf("%s: %q, want %q", gates, got, want)
		}
		if published := w.versions(name); published > 0 != (want == "") || (out.Version > 0) != (want == "") {
			t.Errorf("%s: %d versions, %+v", gates, published, out)
		}
	}
}

// A share that is met exactly is met, whatever a product would be rounded to.
func TestRejectedShareThatIsMetExactly(t *testing.T) {
	var r rejections
	for i := range 100 {
		r.add([]string{"empty"}[:map[bool]int{true: 1}[i < 29]])
	}
	if got := r.over(map[string]float64{"empty": 0.29, "any": 0.29}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	if got := r.over(map[string]float64{"empty": 0.28}); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

func TestNothingAcceptedPublishesNothing(t *testing.T) {
	w := newWorld(t)
	w.file("sums.jsonl", `{"question":"1+1=","gold":"2","domain":"math","a":"A: 3","b":"A: 4"}`+"\n")
	out, result := w.build(recordedSumsRecipe)
	if out.Version != 0 || len(out.Gates) != 1 || w.versions("sums") != 0 || result.Manifest != "" || result.Candidates != 4 {
		t.Errorf("%+v %+v", out, result)
	}
	in, err := w.a.Catalog.Build(t.Context(), "sums", out.BuildID)
	if err != nil || in.Live() || in.Reason != out.Gates[0] {
		t.Errorf("%+v %v", in, err)
	}
}

// The words with which a teacher was given up come from its candidates.
func TestStoppedTeachersSayWhy(t *testing.T) {
	s := &seal{in: wire.SealInput{Streams: []wire.StreamSummary{
		{Teacher: "auth", Stopped: &wire.TeacherFailed{Class: "auth"}},
		{Teacher: "gone", Stopped: &wire.TeacherFailed{Class: classUnreachable}},
		{Teacher: "silent", Stopped: &wire.TeacherFailed{Class: "quota"}},
		{Teacher: "fine"},
	}}}
	r := parsed(t, "name: x\nprompts: [{path: x.jsonl}]\nteachers: [{model: m, base_url: http://localhost/v1}]\n")
	s.rt, s.plan = &runtime{recipe: r}, &Plan{}
	s.begin()
	failed := func(teacher, class, text string) datasets.Candidate {
		return datasets.Candidate{Teacher: teacher, Error: &class, ErrorText: &text}
	}
	s.tally(&refinedTask{Candidates: []datasets.Candidate{
		failed("auth", "network", "not this one"), failed("auth", "auth", "wrong key"), failed("auth", "auth", "the second is not needed"),
		failed("gone", "network", "connection refused"), failed("fine", "auth", "nobody gave it up"), failed("silent", classNotAsked, "x"),
	}})
	want := map[string]string{"auth": "wrong key", "gone": "connection refused", "silent": "quota"}
	if fmt.Sprint(s.result.Stopped) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", s.result.Stopped, want)
	}
}
