package report

import (
	"strings"
	"testing"
)

// A page that was mailed says what it is of.
func TestReportsSayWhatTheyAreOf(t *testing.T) {
	r := New(nil).Report()
	r.About = "maths@3 <b>|"
	var page, text strings.Builder
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	if err := r.Markdown(&text); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(page.String(), "Teacher comparison: maths@3 &lt;b&gt;|</"); n != 2 {
		t.Errorf("the page says it %d times, want title and heading", n)
	}
	if first, _, _ := strings.Cut(text.String(), "\n"); !strings.HasPrefix(first, "# Teacher comparison: maths") || strings.Contains(first, "<b>") || !strings.Contains(first, `\|`) {
		t.Errorf("Markdown begins with %q", first)
	}
}
