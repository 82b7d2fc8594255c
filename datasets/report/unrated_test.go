package report

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// What a budget kept from being asked, what a recording does not have and what
// was purged is no failure: it is in no rate and on no side of a comparison.
func TestWhatWasNeverAskedIsNoFailure(t *testing.T) {
	a := New([]TeacherInfo{{ID: "dear", Priced: true}, {ID: "cheap", Priced: true}})
	versions := NewVersions()
	versions.Begin(versionNamed("maths@1", 1), nil)
	add := func(c *datasets.Candidate) {
		a.Add(c)
		versions.Add(c)
	}
	for i := range 100 {
		task := fmt.Sprintf("p%d/math/high", i)
		dear := offered(task, "dear", datasets.Pass, fmt.Sprint("d", i), "x")
		switch {
		case i >= 40:
			dear = offered(task, "dear", "", fmt.Sprint("d", i), "")
			dear.Messages, dear.Error = nil, ref([]string{datasets.ErrorNotAsked, datasets.ErrorNotRecorded, datasets.ErrorPurged}[i%3])
		case i >= 36: // asked, and failed: its own
			dear.Messages, dear.Verdict, dear.Error = nil, nil, ref("timeout")
		default:
			dear.CostMicros, dear.Accepted = ref(int64(10)), true
		}
		verdict := datasets.Pass
		if i%2 == 0 {
			verdict = datasets.Fail
		}
		cheap := offered(task, "cheap", verdict, fmt.Sprint("c", i), "y")
		cheap.CostMicros = ref(int64(1))
		add(dear)
		add(cheap)
	}
	r := a.Report()
	s := r.Comparison.Scopes[0]
	dear, v := s.Teachers[0], s.Pairs[0]
	if dear.Tasks != 40 || dear.Errored != 4 || dear.Rate.Value != 0.9 || v.Common != 40 || s.Coverage[0][1] != 40 || s.Together.Tasks != 40 {
		t.Errorf("%+v\n%+v, want the 40 tasks that it was asked, of which 4 failed", dear, v)
	}
	if v.Finding != FavoursA {
		t.Errorf("finding %s, want a: it passes 36 of 40 where the other passes 20", v.Finding)
	}
	f := r.Teachers[0].Figures
	if f.PassOfAll.Of != 40 || f.PassOfAll.Count != 36 || f.Asks != 100 || f.UnpricedAsks != 4+20 {
		t.Errorf("pass of all %+v of %d asks, %d unpriced", f.PassOfAll, f.Asks, f.UnpricedAsks)
	}
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "20 of 100 asks of dear were never made") || !strings.Contains(notes, "20 answers of dear were purged") ||
		!strings.Contains(notes, "To 20 of 100 tasks no answer of dear is recorded") {
		t.Errorf("notes %s", notes)
	}
	versions.Begin(versionNamed("maths@2", 2), nil)
	for i := range 100 {
		versions.Add(offered(fmt.Sprintf("p%d/math/high", i), "dear", datasets.Pass, fmt.Sprint("d", i), "x"))
	}
	if same := versions.Report().Same[0]; same.Common != 40 || same.Reused != 36 {
		t.Errorf("%d tasks in common, %d reused; want 40 that were asked, 36 of them the same answers: what failed is asked anew", same.Common, same.Reused)
	}
}

// Where answers are asked until one passes, the share of those that pass is not
// the rate of the teacher: 0.69 where it is a half. Rates are of the answers that
// were asked whatever came of them.
func TestRatesWhereAnswersDecideHowManyThereAre(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	a := New([]TeacherInfo{{ID: "x"}, {ID: "y"}})
	a.SetConditions(Conditions{Least: 2, Accounting: accounting})
	versions := NewVersions()
	info := versionNamed("maths@1", 1)
	info.Conditions = &Conditions{Least: 2}
	versions.Begin(info, nil)
	const tasks, most = 4000, 16
	solved := int64(0)
	for i := range tasks {
		task := fmt.Sprintf("p%d/math/high", i)
		for _, teacher := range []string{"x", "y"} {
			passed := false
			for n := 0; n < 2 || n < most && !passed; n++ {
				verdict := datasets.Fail
				if random.Float64() < 0.5 {
					verdict, passed = datasets.Pass, true
				}
				c := offered(task, teacher, verdict, fmt.Sprint(teacher, n), "x")
				c.SampleIndex = int32(n)
				a.Add(c)
				versions.Add(c)
			}
			solved += count(passed && teacher == "x")
		}
	}
	r := a.Report()
	s := r.Comparison.Scopes[0]
	for _, one := range s.Teachers {
		if math.Abs(one.Rate.Value-0.5) > 0.02 || one.Samples != 2*tasks {
			t.Errorf("%s: rate %.3f over %d samples, want a half over the first two of each task", one.Teacher, one.Rate.Value, one.Samples)
		}
		if k := one.PassAt[len(one.PassAt)-1]; k.K != 2 || k.Tasks != tasks || math.Abs(k.Value-0.75) > 0.02 {
			t.Errorf("%s: pass@k %+v, want pass@2 of three quarters over all tasks", one.Teacher, one.PassAt)
		}
	}
	if got := s.Together.Values[0].Solved; got != solved {
		t.Errorf("solves %d, want %d: later answers count there", got, solved)
	}
	if !strings.Contains(strings.Join(r.Notes, "\n"), "those after the first 2 were asked because") {
		t.Errorf("notes %q", r.Notes)
	}
	for _, row := range versions.versions[0].by["x"].rows {
		if row.samples != 2 {
			t.Fatalf("%d samples of a task in a comparison of versions, want the first 2", row.samples)
		}
	}
}

// No form tells what versions cost without what the costs are of.
func TestCostsOfVersionsHaveTheirConditions(t *testing.T) {
	r := twoVersions().Report()
	priced := func(v *VersionFigures) { v.Teachers[0].CostUSD = ref(1.5) }
	priced(&r.Versions[0])
	priced(&r.Versions[1])
	r.Versions[1].Conditions = &Conditions{
		Prompts: []string{"gsm8k.jsonl"}, Tasks: 21, Samples: "one answer of each teacher",
		Teachers: []TeacherConditions{{Teacher: "k3", Model: "m-k3", API: "openai", Params: `{"max_tokens":400}`, Prices: "list of November"}},
	}
	for name, write := range map[string]func(*bytes.Buffer) error{
		"table": func(b *bytes.Buffer) error { return r.Table(b, 0) },
		"md":    func(b *bytes.Buffer) error { return r.Markdown(b) },
		"html":  func(b *bytes.Buffer) error { return r.HTML(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"do not quote them", "gsm8k.jsonl", "400}", "list of November", "Costs are all spend for a teacher"} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
}
