package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// looked is a report to look at: so many teachers, of which the i-th passes the
// more tasks the smaller i is, in up to three domains at two efforts.
func looked(t testing.TB, teachers, tasks, domains int, text string, passes bool) *Report {
	t.Helper()
	var infos []TeacherInfo
	for i := range teachers {
		infos = append(infos, TeacherInfo{ID: fmt.Sprintf("teacher-%d%s", i, text), Model: fmt.Sprintf("vendor/model-%d%s", i, text), Priced: i%5 != 4, PriceNote: "price list, 2026-11-01"})
	}
	a := New(infos)
	a.ShowTexts(TextSample)
	for n := range tasks {
		domain, effort := []string{"math", "code", "chat"}[n%domains], []string{"high", "low"}[n/3%2]
		prompt := fmt.Sprintf("Question %d: what is %d + %d? %s", n, n, n+1, text)
		for i := range infos {
			hash := (n*7919 + i*104729 + n*i*31) % 1000
			verdict := datasets.Fail
			if passes && hash < 880-600*i/max(1, teachers) {
				verdict = datasets.Pass
			}
			cost, latency, first := int64(300*(i+1)+hash), int64(400+200*i+hash*(3+i)), int64(60+hash/4+20*i)
			answer := strings.Repeat(fmt.Sprintf("Step %d of teacher %d. ", n, i), 1+hash/60+4*(n/3%2)) + text
			thought := strings.Repeat("thinking of it, ", 1+hash/12)
			c := &datasets.Candidate{
				TaskID: fmt.Sprint(n), SampleID: fmt.Sprint(n, " ", i), Teacher: infos[i].ID, Domain: domain + text, Effort: effort, Verdict: &verdict,
				Accepted: verdict == datasets.Pass, CostMicros: &cost, LatencyMS: &latency, TTFTMS: &first, Gold: &prompt, Extracted: &domain,
				PromptTokens: ref(int64(80)), CompletionTokens: ref(int64(hash)),
				Messages: []chat.Message{{Role: chat.RoleUser, Content: &prompt}, {Role: chat.RoleAssistant, Content: &answer}},
			}
			if i%2 == 0 {
				c.Messages[1].ReasoningContent = &thought
			}
			if verdict == datasets.Fail {
				c.RejectReasons = []string{"verdict:fail"}
			}
			a.Add(c)
		}
	}
	return a.Report()
}

// whole is a report with one of everything that a page shows.
func whole(t testing.TB) *Report {
	t.Helper()
	r := looked(t, 4, 36, 2, "", true)
	changed := []DriftPair{}
	for range 12 {
		p := pairOf(datasets.Pass, datasets.Fail, 100, 50)
		p.Before.Thought, p.After.Thought, p.After.Model = ref(int64(400)), ref(int64(200)), "m-2"
		changed = append(changed, p)
	}
	r.Drift = []Drift{CompareDrift("teacher-0", 2, probedAt, changed), CompareDrift("teacher-1", 1, probedAt, []DriftPair{pairOf(datasets.Pass, datasets.Pass, 10, 10)})}
	SettleDrift(r.Drift)
	var list []Preference
	for n := range 12 {
		list = append(list, Preference{Task: fmt.Sprint(n), Judge: "judge-1", A: "teacher-0", B: "teacher-1", Win: []float64{1, 0, 0.5}[n%3], Longer: ref(float64(10 - n))},
			Preference{Task: fmt.Sprint(n), Judge: "judge-2", A: "teacher-1", B: "teacher-2", Win: []float64{1, 0}[n%2]})
	}
	if err := r.SetPreferences(list); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestWholeReportIsGolden: every form of a report with one of everything.
func TestWholeReportIsGolden(t *testing.T) {
	r := whole(t)
	var page, md, wide, narrow bytes.Buffer
	for _, err := range []error{r.HTML(&page), r.Markdown(&md), r.Table(&wide, 0), r.Table(&narrow, 80)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	golden(t, filepath.Join("testdata", "whole.html"), page.Bytes())
	golden(t, filepath.Join("testdata", "whole.md"), md.Bytes())
	golden(t, filepath.Join("testdata", "whole.txt"), wide.Bytes())
	golden(t, filepath.Join("testdata", "whole-80.txt"), narrow.Bytes())
	for line := range strings.Lines(narrow.String()) {
		if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
			t.Errorf("%d columns where 80 fit: %s", n, line)
		}
	}
	if strings.Contains(page.String(), "ZgotmplZ") {
		t.Error("the template refused a value")
	}
	text, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	schema, err := Schema()
	if err != nil {
		t.Fatal(err)
	}
	validate(t, schema, text)
}
