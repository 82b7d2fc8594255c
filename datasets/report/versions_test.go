package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

var publishedAt = time.Date(2026, 11, 1, 9, 0, 0, 0, time.UTC)

func versionNamed(ref string, number int64) VersionInfo {
	return VersionInfo{Ref: ref, Dataset: strings.Split(ref, "@")[0], Number: number, Published: publishedAt.AddDate(0, 0, int(number)), Checks: []string{"math 3"}}
}

// offered is a candidate of a version: its answer is one of its own unless asked is
// given.
func offered(task, teacher, verdict, asked, text string) *datasets.Candidate {
	prompt, _, _ := strings.Cut(task, "/")
	c := &datasets.Candidate{
		TaskID: task, PromptID: prompt, SampleID: task + teacher + asked, AskID: asked, Teacher: teacher, ModelAsked: "m-" + teacher, Domain: "math", Effort: "high",
		Messages: []chat.Message{{Role: chat.RoleUser, Content: chat.Text("?")}, {Role: chat.RoleAssistant, Content: &text}},
	}
	if verdict != "" {
		c.Verdict = &verdict
	}
	return c
}

// twoVersions: ten tasks that both have and two that one alone has. Of the ten
// the first two answers are shared; of the other eight, six passed and now fail,
// one failed and now passes, one passes both times, and all are longer now.
func twoVersions() *VersionsAggregator {
	a := NewVersions()
	first := New([]TeacherInfo{{ID: "k3", Model: "m-k3"}})
	second := New([]TeacherInfo{{ID: "k3", Model: "m-k3"}, {ID: "other", Model: "m-other"}})
	var one, two []*datasets.Candidate
	for i := range 10 {
		before, now := datasets.Pass, datasets.Fail
		asked, text := fmt.Sprint("new ", i), "a longer answer"
		switch {
		case i < 2:
			now, asked, text = datasets.Pass, fmt.Sprint("old ", i), "short"
		case i == 8:
			before, now = datasets.Fail, datasets.Pass
		case i == 9:
			now = datasets.Pass
		}
		task := fmt.Sprintf("p%d/math/high", i)
		c := offered(task, "k3", before, fmt.Sprint("old ", i), "short")
		c.ModelAnswered = ref("m-1")
		d := offered(task, "k3", now, asked, text)
		d.ModelAnswered = ref([]string{"m-1", "m-2"}[min(1, i/2)])
		one, two = append(one, c), append(two, d)
		// The other teacher answers the same prompts at another effort, twice.
		for _, v := range []string{datasets.Pass, now} {
			e := offered(fmt.Sprintf("p%d/math/max", i), "other", v, fmt.Sprint("other ", i, v), "text")
			e.Effort = "max"
			two = append(two, e)
		}
	}
	one = append(one, offered("gone/math/high", "k3", datasets.Pass, "x", "short"))
	two = append(two, offered("come/math/high", "k3", datasets.Fail, "y", "short"))
	fallback := offered("p9/math/high", "k3", datasets.Fail, "z", "fallback")
	fallback.Flags = []string{datasets.FlagEscalated}
	two = append(two, fallback)
	for _, c := range one {
		first.Add(c)
	}
	for _, c := range two {
		second.Add(c)
	}
	a.Begin(versionNamed("maths@3", 3), first.Report().Teachers)
	for _, c := range one {
		a.Add(c)
	}
	a.Begin(versionNamed("maths@7", 7), second.Report().Teachers)
	for _, c := range two {
		a.Add(c)
	}
	return a
}

func TestOneTeacherInTwoVersions(t *testing.T) {
	r := twoVersions().Report()
	if len(r.Versions) != 2 || r.Versions[0].Tasks != 11 || r.Versions[1].Tasks != 21 {
		t.Errorf("versions %+v", r.Versions)
	}
	if len(r.Same) != 1 || len(r.Different) != 1 {
		t.Fatalf("%d of one teacher, %d of different ones; want one each", len(r.Same), len(r.Different))
	}
	x := r.Same[0]
	if x.Common != 10 || x.Reused != 2 || x.Unit != "tasks" || *x.Both != 3 || *x.AOnly != 6 || *x.BOnly != 1 || *x.Neither != 0 {
		t.Errorf("%+v both %d a %d b %d", x, *x.Both, *x.AOnly, *x.BOnly)
	}
	// Six against one: 2·(1+7)/2^7. Eight longer and none shorter: 2·2^-8.
	near := func(a, b float64) bool { return math.Abs(a-b) < 1e-12 }
	if !near(*x.P, 0.125) || !near(x.Length.P, math.Ldexp(1, -7)) || x.Length.Longer != 8 || x.Length.Shorter != 0 || x.Length.Tasks != 10 {
		t.Errorf("p %g, length %+v", *x.P, x.Length)
	}
	if x.Length.A != 5 || x.Length.B != (2*5+8*15)/10.0 || x.Reasoning != nil {
		t.Errorf("length %+v, reasoning %+v", x.Length, x.Reasoning)
	}
	// Two tests in the family: the smaller counts twice.
	if r.SameFamily != 2 || !near(*x.Length.PHolm, math.Ldexp(1, -6)) || !near(*x.PHolm, 0.125) || x.Finding != NoneShown {
		t.Errorf("family %d, adjusted %g and %g, %s", r.SameFamily, *x.PHolm, *x.Length.PHolm, x.Finding)
	}
	if x.change() != "no difference shown, longer answers" {
		t.Error(x.change())
	}
	// Only what was asked anew says which model answers today.
	if len(x.Models) != 1 || x.Models[0] != (DriftName{"m-1", "m-2", 8}) {
		t.Errorf("models %+v", x.Models)
	}

	// Another effort is another task and the same prompt: ten prompts, one
	// sample against two.
	y := r.Different[0]
	if y.Unit != "prompts" || y.Common != 10 || y.ATeacher != "k3" || y.BTeacher != "other" || y.Test != TestSignFlip || y.Length != nil || r.DifferentFamily != 1 {
		t.Errorf("%+v", y)
	}
	// k3 passes 9 of 10; the other 4 prompts in full (the first two, 8 and 9) and half of the other six.
	if want := 0.9 - (4+6*0.5)/10; math.Abs(y.Difference.Value-want) > 1e-12 {
		t.Errorf("difference %g, want %g", y.Difference.Value, want)
	}
}

// TestVersionsOfGSM8K: figures of the same comparison within one version,
// computed independently of this program.
func TestVersionsOfGSM8K(t *testing.T) {
	labels := gsm8kLabels(t)
	a := NewVersions()
	for v, id := range []string{"175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning"} {
		a.Begin(versionNamed(fmt.Sprintf("d@%d", v+1), int64(v+1)), nil)
		for n, one := range labels {
			verdict := datasets.Fail
			if one[v] {
				verdict = datasets.Pass
			}
			a.Add(offered(fmt.Sprintf("%04d/math/default", n), id, verdict, fmt.Sprint(id, n), "text"))
		}
	}
	r := a.Report()
	if len(r.Same) != 0 || len(r.Different) != 6 || r.DifferentFamily != 6 {
		t.Fatalf("%d and %d, family %d", len(r.Same), len(r.Different), r.DifferentFamily)
	}
	for i, want := range []struct {
		b, c int64
		p    float64
	}{{306, 79, 1.240053425e-32}, {360, 76, 2.891394635e-45}, {499, 43, 1.656933362e-99}, {209, 152, .0031506568803606}, {293, 64, 3.928874710e-36}, {260, 88, 7.466006443e-21}} {
		x := r.Different[i]
		if *x.AOnly != want.b || *x.BOnly != want.c || math.Abs(*x.P-want.p) > 1e-9*want.p || x.Finding != FavoursA {
			t.Errorf("%s against %s: %d/%d, p %g, %s; want %d/%d, %g", x.ATeacher, x.BTeacher, *x.AOnly, *x.BOnly, *x.P, x.Finding, want.b, want.c, want.p)
		}
	}
}

func TestVersionsThatHaveNothingInCommon(t *testing.T) {
	a := NewVersions()
	a.Begin(versionNamed("a@1", 1), nil)
	a.Add(offered("p/math/high", "k3", datasets.Pass, "1", "x"))
	a.Begin(versionNamed("b@1", 1), nil)
	a.Add(offered("q/math/high", "k3", datasets.Pass, "2", "x"))
	a.Add(offered("p/math/high", "mute", "", "3", "x")) // nothing judged it, and the other was
	a.Begin(versionNamed("c@1", 1), nil)
	r := a.Report()
	if len(r.Same) != 1 || r.Same[0].Finding != NotComparable || r.Same[0].Common != 0 || r.Same[0].Difference != nil || r.Same[0].Length != nil || r.SameFamily != 0 {
		t.Errorf("%+v", r.Same)
	}
	if len(r.Different) != 1 || r.Different[0].Common != 1 {
		t.Errorf("%+v", r.Different)
	}
	for _, write := range []func(*bytes.Buffer) error{
		func(b *bytes.Buffer) error { return r.Table(b, 80) }, func(b *bytes.Buffer) error { return r.Markdown(b) },
		func(b *bytes.Buffer) error { return r.HTML(b) }, func(b *bytes.Buffer) error { return r.JSON(b) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "not comparable") && !strings.Contains(b.String(), "not_comparable") {
			t.Errorf("it does not say that they are not comparable:\n%.2000s", b.String())
		}
	}
	if r := NewVersions().Report(); len(r.Versions) != 0 || r.Same == nil || r.Different == nil {
		t.Errorf("of nothing: %+v", r)
	}
}

// Verdicts of other means are said to be that.
func TestVersionsThatWereCheckedOtherwise(t *testing.T) {
	a := NewVersions()
	a.Begin(versionNamed("a@1", 1), nil)
	other := versionNamed("a@2", 2)
	other.Checks = []string{"math 4"}
	a.Begin(other, nil)
	if notes := strings.Join(a.Report().Notes, "\n"); !strings.Contains(notes, "checked by different means (math 3; math 4)") {
		t.Error(notes)
	}
}

// The order of tasks decides nothing.
func TestVersionsIgnoreOrder(t *testing.T) {
	var candidates [2][]*datasets.Candidate
	r := rand.New(rand.NewPCG(3, 4))
	for v := range candidates {
		for n := range 40 {
			for _, teacher := range []string{"a", "b"} {
				c := offered(fmt.Sprintf("p%d/math/high", n), teacher, []string{datasets.Pass, datasets.Fail, datasets.Unknown}[r.IntN(3)], fmt.Sprint(v, n), strings.Repeat("x", r.IntN(9)))
				c.Fingerprint = ref(fmt.Sprint("fp-", r.IntN(3)))
				candidates[v] = append(candidates[v], c)
			}
		}
	}
	text := func() string {
		a := NewVersions()
		for v := range candidates {
			a.Begin(versionNamed(fmt.Sprintf("d@%d", v+1), int64(v+1)), nil)
			for _, c := range candidates[v] {
				a.Add(c)
			}
		}
		b, err := json.Marshal(a.Report())
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	want := text()
	for range 5 {
		for v := range candidates {
			r.Shuffle(len(candidates[v]), func(i, j int) { candidates[v][i], candidates[v][j] = candidates[v][j], candidates[v][i] })
			slices.SortStableFunc(candidates[v], func(a, b *datasets.Candidate) int { return strings.Compare(a.TaskID, b.TaskID) })
			if r.IntN(2) == 0 {
				slices.Reverse(candidates[v])
			}
		}
		if got := text(); got != want {
			t.Fatalf("the order matters:\n%s\n%s", want, got)
		}
	}
}

func TestVersionsForms(t *testing.T) {
	r := twoVersions().Report()
	for _, width := range []int{0, 80} {
		var b bytes.Buffer
		if err := r.Table(&b, width); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("testdata", fmt.Sprintf("versions-%d.txt", width)), b.Bytes())
	}
	var md, page, doc bytes.Buffer
	for _, err := range []error{r.Markdown(&md), r.HTML(&page), r.JSON(&doc)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	golden(t, filepath.Join("testdata", "versions.md"), md.Bytes())
	golden(t, filepath.Join("testdata", "versions.html"), page.Bytes())
	schema, err := VersionsSchema()
	if err != nil {
		t.Fatal(err)
	}
	golden(t, filepath.Join(testdata.Repository(t), "docs", "contract", "report-versions.schema.json"), schema)
	validate(t, schema, doc.Bytes())
}

// Names of datasets, teachers and models come from outside: nothing in them
// steers a terminal, becomes markup or makes a table wider than the terminal.
func TestVersionsOfHostileNames(t *testing.T) {
	bad := "evil\x1b[2J<script>alert(1)</script>|[x](http://x)" + strings.Repeat("long ", 30)
	a := NewVersions()
	for v := range 3 {
		info := versionNamed(fmt.Sprintf("d@%d", v+1), int64(v+1))
		info.Ref, info.Checks = bad+info.Ref, []string{bad, fmt.Sprint(v)}
		figures := New([]TeacherInfo{{ID: bad, Model: bad}})
		a.Begin(info, figures.Report().Teachers)
		for n := range 12 {
			for _, teacher := range []string{bad, bad + "2"} {
				c := offered(fmt.Sprintf("p%d/math/high", n), teacher, []string{datasets.Pass, datasets.Fail}[min(1, v)], fmt.Sprint(v, n), strings.Repeat("x", v))
				c.ModelAsked, c.ModelAnswered, c.Fingerprint = fmt.Sprint(bad, v), ref(fmt.Sprint(bad, v)), ref(fmt.Sprint(bad, v))
				a.Add(c)
			}
		}
	}
	r := a.Report()
	var table, md, page bytes.Buffer
	for _, err := range []error{r.Table(&table, 80), r.Markdown(&md), r.HTML(&page)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for what, text := range map[string]string{"table": table.String(), "Markdown": md.String(), "page": page.String()} {
		if strings.ContainsRune(text, 0x1b) {
			t.Errorf("an escape character is in the %s", what)
		}
	}
	for _, b := range []string{"<script>alert", "ZgotmplZ"} {
		if strings.Contains(page.String(), b) || strings.Contains(md.String(), b) {
			t.Errorf("a name became markup: %s", b)
		}
	}
	if strings.Contains(md.String(), "[x](") {
		t.Error("a name became a link")
	}
}
