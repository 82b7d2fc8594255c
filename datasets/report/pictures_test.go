//go:build chromium

package report

import (
	"fmt"
	"os"
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

// TestPictures writes pictures of pages to the folder that
// STILLHOUSE_PICTURES names, to be looked at.
func TestPictures(t *testing.T) {
	dir := os.Getenv("STILLHOUSE_PICTURES")
	if dir == "" {
		t.Skip("STILLHOUSE_PICTURES names no folder")
	}
	html := func(r *Report) string {
		var page strings.Builder
		if err := r.HTML(&page); err != nil {
			t.Fatal(err)
		}
		return page.String()
	}
	var versions strings.Builder
	if err := twoVersions().Report().HTML(&versions); err != nil {
		t.Fatal(err)
	}
	b := openTab(t, 1280, 900)
	for _, one := range []struct {
		name, page string
		width      int
		dark       bool
	}{
		{"nine-light", html(looked(t, 9, 300, 1, "", true)), 1280, false},
		{"nine-dark", html(looked(t, 9, 300, 1, "", true)), 1280, true},
		{"nine-phone", html(looked(t, 9, 60, 1, "", true)), 390, false},
		{"one", html(looked(t, 1, 60, 1, "", true)), 1280, false},
		{"nopass", html(looked(t, 3, 60, 1, "", false)), 1280, false},
		{"hostile", html(looked(t, 3, 60, 1, marks+strings.Repeat("W", 80), true)), 1280, true},
		{"forty", html(looked(t, 40, 120, 1, "", true)), 1280, false},
		{"versions", versions.String(), 1280, false},
	} {
		scheme := "light"
		if one.dark {
			scheme = "dark"
		}
		b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]any{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
		b.size(one.width, 900)
		b.show(one.page)
		b.picture(filepath.Join(dir, one.name+".png"))
		if one.name == "nine-light" {
			b.print(filepath.Join(dir, one.name+".pdf"))
		}
	}
	if lines := b.said(); len(lines) > 0 {
		t.Errorf("the console says: %s", lines)
	}
}
