//go:build chromium

package report

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/chat"
)

// findChromium is the browser to look with.
func findChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("STILLHOUSE_REQUIRE_CHROMIUM") == "1" {
		t.Fatal("STILLHOUSE_REQUIRE_CHROMIUM is 1 and no chromium, chromium-browser or google-chrome is on PATH")
	}
	t.Skip("no chromium, chromium-browser or google-chrome is on PATH")
	return ""
}

// consoleLine is what the page's console says, in Chromium's log.
var consoleLine = regexp.MustCompile(`(?m)^.*CONSOLE.*$`)

// browse renders a page and gives the document as it then is, what the console
// said and how long all of it took.
func browse(t *testing.T, page string, args ...string) (dom string, console []string, took time.Duration) {
	t.Helper()
	chromium := findChromium(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "report.html")
	if err := os.WriteFile(file, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	args = append([]string{
		"--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--user-data-dir=" + filepath.Join(dir, "profile"),
		"--enable-logging=stderr", "--v=0", "--virtual-time-budget=3000", "--dump-dom",
	}, append(args, "file://"+file)...)
	cmd := exec.CommandContext(ctx, chromium, args...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	start := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", chromium, err, log.String())
	}
	return out.String(), consoleLine.FindAllString(log.String(), -1), time.Since(start)
}

// inBrowser is a report over some tasks whose texts would leave a mark on the
// document were any of them taken for markup.
func inBrowser(t *testing.T, tasks, teachers int, text string) string {
	t.Helper()
	var infos []TeacherInfo
	for i := range teachers {
		infos = append(infos, TeacherInfo{ID: fmt.Sprintf("teacher-%d%s", i, text), Model: text, Priced: true, PriceNote: text})
	}
	a := New(infos)
	a.ShowTexts(TextAll)
	for n := range tasks {
		prompt := fmt.Sprintf("prompt %d %s", n, text)
		for i := range infos {
			verdict, cost := []string{datasets.Pass, datasets.Fail}[(n*(i+2)/3+i)%2], int64(1000*(i+1))
			answer := fmt.Sprintf("answer of %d %s %s", i, text, strings.Repeat("and so on ", 40))
			a.Add(&datasets.Candidate{
				TaskID: fmt.Sprint(n), SampleID: fmt.Sprint(n, " ", i), Teacher: infos[i].ID, Domain: "d" + text, Effort: "x" + text, Verdict: &verdict,
				Accepted: verdict == datasets.Pass, CostMicros: &cost, RejectReasons: []string{text}, Flags: []string{text}, Gold: &prompt, Extracted: &answer,
				Messages: []chat.Message{{Role: chat.RoleUser, Content: &prompt}, {Role: chat.RoleAssistant, Content: &answer, ReasoningContent: &answer}},
			})
		}
	}
	for k, p := range []float64{1, 0, 0.5, 1} {
		err := a.AddPreference(Preference{Task: fmt.Sprint(k), Judge: "judge" + text, A: infos[k%2].ID, B: infos[1-k%2].ID, Win: p})
		if err != nil {
			t.Fatal(err)
		}
	}
	var page strings.Builder
	if err := a.Report().HTML(&page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// marks are what a text would do to the document were it markup or a script.
const marks = `</script><script>document.documentElement.setAttribute("data-marked","1");console.error("marked")</script>` +
	`"><img src=x onerror='document.documentElement.setAttribute("data-marked","2")'><iframe srcdoc="<b>"></iframe>` +
	`</style><style>body{display:none}</style><!--` + "\u2028\x00\x1b[2J"

// TestPageInChromium: the page shows its prompts, says nothing on the console,
// and no text in it is more than text.
func TestPageInChromium(t *testing.T) {
	dom, console, _ := browse(t, inBrowser(t, 30, 3, marks))
	for _, line := range console {
		t.Errorf("the console says: %s", line)
	}
	if strings.Contains(dom, `<html lang="en" data-marked`) || strings.Contains(dom, "<img") || strings.Contains(dom, "<iframe") {
		t.Error("a text became markup")
	}
	if n := strings.Count(dom, `<section class="prompt">`); n != 10 {
		t.Errorf("%d prompts are shown, want ten at once", n)
	}
	if n := strings.Count(dom, `<article class="answer `); n != 30 {
		t.Errorf("%d answers are shown, want three to each prompt", n)
	}
	for _, want := range []string{"1 to 10 of 30 prompts", "&lt;/script&gt;&lt;script&gt;", `<button type="button">teacher</button>`, `class="chart"`} {
		if !strings.Contains(dom, want) {
			t.Errorf("the rendered page lacks %q", want)
		}
	}
}

// TestPolicyInChromium: were a script or a request to get into the page, it would
// not run. This is also the proof that the marks of the other test are seen.
func TestPolicyInChromium(t *testing.T) {
	injected := `<script>document.documentElement.setAttribute("data-marked","1")</script><img src="http://127.0.0.1:9/x.png"></body>`
	page := strings.Replace(inBrowser(t, 3, 2, ""), "</body>", injected, 1)
	dom, console, _ := browse(t, page)
	if strings.Contains(dom, `data-marked="1"`) && strings.Contains(dom, `<html lang="en" data-marked`) {
		t.Error("a foreign script ran")
	}
	if len(console) < 2 {
		t.Errorf("the console says %q, want that the script and the image were refused", console)
	}
	open := regexp.MustCompile(`<meta http-equiv="Content-Security-Policy"[^>]*>`).ReplaceAllString(page, "")
	if dom, _, _ := browse(t, open); !strings.Contains(dom, `<html lang="en" data-marked="1"`) {
		t.Error("without a policy the script does not leave its mark: the test sees nothing")
	}
}

// TestLargePageInChromium: 2,000 prompts of nine teachers.
func TestLargePageInChromium(t *testing.T) {
	page := inBrowser(t, 2000, 9, "")
	dom, console, took := browse(t, page)
	if len(console) > 0 {
		t.Errorf("the console says: %s", console)
	}
	if !strings.Contains(dom, "1 to 10 of 2000 prompts") && !strings.Contains(dom, "1 to 10 of 2,000 prompts") {
		t.Error("the prompts are not shown")
	}
	t.Logf("a page of %d MB, in %v with the start of the browser", len(page)>>20, took)
	if took > time.Minute {
		t.Errorf("the page took %v to render", took)
	}
}
