//go:build chromium

package report

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// pageOf is a report's page.
func pageOf(t testing.TB, r *Report) string {
	t.Helper()
	var page strings.Builder
	if err := r.HTML(&page); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

// A stop is where the focus stands.
type stop struct {
	What    string  // tag, with id or text
	Order   float64 // its place in the document
	Visible bool    // within the window
	Outline bool    // and told apart from what has no focus
}

const focused = `(() => {
  const e = document.activeElement;
  if (!e || e === document.body) { return {What: "", Order: -1}; }
  const r = e.getBoundingClientRect(), s = getComputedStyle(e);
  return {
    What: e.tagName.toLowerCase() + (e.id ? "#" + e.id : " " + e.textContent.trim().slice(0, 30)),
    Order: Array.prototype.indexOf.call(document.querySelectorAll("*"), e),
    Visible: r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth && r.width > 0,
    Outline: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 1,
  };
})()`

// TestKeyboardWalk goes through the whole page by the tabulator alone: every
// stop can be seen and is marked, they come in the order of the page, and the
// walk ends where it began.
func TestKeyboardWalk(t *testing.T) {
	r := looked(t, 3, 24, 2, "", true)
	r.Drift = []Drift{CompareDrift("teacher-0", 1, probedAt, []DriftPair{pairOf(datasets.Pass, datasets.Fail, 1, 2)})}
	b := openTab(t, 1100, 800)
	b.show(pageOf(t, r))

	b.press("Tab")
	if s := eval[stop](b, focused); s.What != "a Skip to the figures" || !s.Visible || !s.Outline {
		t.Errorf("the first stop is %+v, want the link that skips", s)
	}
	b.press("Enter")
	if hash := eval[string](b, "location.hash"); hash != "#teachers" {
		t.Errorf("the link leads to %q", hash)
	}
	b.show(pageOf(t, r))

	var walk []stop
	for range 3000 {
		b.press("Tab")
		s := eval[stop](b, focused)
		if s.Order < 0 {
			break // back at the document: no trap
		}
		if len(walk) > 0 && s.Order <= walk[len(walk)-1].Order {
			if s.Order == walk[0].Order {
				break
			}
			t.Fatalf("after %+v comes %+v: not in the order of the page", walk[len(walk)-1], s)
		}
		walk = append(walk, s)
	}
	if len(walk) == 0 || len(walk) == 3000 {
		t.Fatalf("%d stops", len(walk))
	}
	for _, s := range walk {
		if !s.Visible || !s.Outline {
			t.Errorf("%+v cannot be seen", s)
		}
	}
	want := eval[[]string](b, `Array.from(document.querySelectorAll("a[href], button, input, select, summary")).filter(e => e.checkVisibility()).map(e => e.tagName.toLowerCase() + (e.id ? "#" + e.id : " " + e.textContent.trim().slice(0, 30)))`)
	at := 0
	for _, w := range want {
		i := slices.IndexFunc(walk[at:], func(s stop) bool { return s.What == w })
		if i < 0 {
			t.Fatalf("the walk never stops at %q", w)
		}
		at += i + 1
	}
	t.Logf("%d stops, of which %d do something", len(walk), len(want))

	// And back.
	b.press("Shift+Tab")
	last := eval[stop](b, focused)
	b.press("Shift+Tab")
	if before := eval[stop](b, focused); before.Order >= last.Order && last.Order >= 0 {
		t.Errorf("back from %+v is %+v", last, before)
	}
	quiet(t, b)
}

func quiet(t *testing.T, b *tab) {
	t.Helper()
	for _, line := range b.said() {
		t.Errorf("the console says: %.500s", line)
	}
}

// TestKeyboardSorts: the heading of a column is a button.
func TestKeyboardSorts(t *testing.T) {
	b := openTab(t, 1100, 800)
	b.show(pageOf(t, looked(t, 3, 24, 2, "", true)))
	column := `Array.from(document.querySelector("table.sortable").tBodies[0].rows).map(r => parseFloat(r.cells[3].textContent))`
	sorted := `document.querySelector("table.sortable").tHead.rows[0].cells[3].getAttribute("aria-sort")`
	eval[any](b, `document.querySelector("table.sortable").tHead.rows[0].cells[3].querySelector("button").focus()`)
	b.press("Enter")
	if s := eval[string](b, sorted); s != "descending" {
		t.Errorf("after Enter the column is %q", s)
	}
	b.press(" ")
	if s := eval[string](b, sorted); s != "ascending" {
		t.Errorf("after Space the column is %q", s)
	}
	if up := eval[[]float64](b, column); len(up) != 3 || !slices.IsSorted(up) || up[0] == up[2] {
		t.Errorf("ascending are %v", up)
	}
	b.press("Enter")
	down := eval[[]float64](b, column)
	if slices.Reverse(down); !slices.IsSorted(down) {
		t.Errorf("descending are, from the end, %v", down)
	}
	if s := eval[stop](b, focused); !strings.HasPrefix(s.What, "button pass") {
		t.Errorf("sorting takes the focus to %+v", s)
	}
	quiet(t, b)
}

// changes gives what the count of prompts says once it has changed, or at once
// where it says so already.
func changes(want string) string {
	return fmt.Sprintf(`new Promise(done => {
  const count = document.getElementById("prompts-count"), want = %q;
  const look = () => { if (count.textContent.startsWith(want)) { done(count.textContent); return true; } };
  if (look()) { return; }
  const seen = new MutationObserver(() => { if (look()) { seen.disconnect(); } });
  seen.observe(count, {childList: true, characterData: true, subtree: true});
  setTimeout(() => done("still " + count.textContent), 10000);
})`, want)
}

// TestKeyboardBrowses looks through prompts without a mouse: searches, chooses,
// turns the page both ways, opens and closes a reasoning.
func TestKeyboardBrowses(t *testing.T) {
	b := openTab(t, 1100, 800)
	b.show(pageOf(t, looked(t, 3, 45, 3, "", true)))
	eval[any](b, `document.getElementById("prompts-on").focus()`)
	b.press("Enter")
	if got := eval[string](b, changes("11 to 20 of 45")); strings.HasPrefix(got, "still") {
		t.Fatal(got)
	}
	for range 3 {
		b.press(" ")
	}
	if got := eval[string](b, changes("41 to 45 of 45")); strings.HasPrefix(got, "still") {
		t.Fatal(got)
	}
	// At the end the button does nothing more, says so, and keeps the focus.
	b.press("Enter")
	if s := eval[stop](b, focused); s.What != "button#prompts-on" {
		t.Errorf("at the end the focus is at %+v", s)
	}
	if got := eval[string](b, `document.getElementById("prompts-on").getAttribute("aria-disabled") + document.getElementById("prompts-count").textContent`); !strings.HasPrefix(got, "true41 to 45") {
		t.Errorf("at the end: %s", got)
	}
	b.press("Shift+Tab")
	if s := eval[stop](b, focused); s.What != "button#prompts-back" {
		t.Errorf("before it is %+v", s)
	}
	b.press("Enter")
	if got := eval[string](b, changes("31 to 40 of 45")); strings.HasPrefix(got, "still") {
		t.Error(got)
	}

	eval[any](b, `document.getElementById("prompts-find").focus()`)
	b.call("Input.insertText", map[string]any{"text": "question 17:"}, nil)
	if got := eval[string](b, changes("1 to 1 of 1 ")); strings.HasPrefix(got, "still") {
		t.Fatal(got)
	}
	if s := eval[stop](b, focused); s.What != "input#prompts-find" {
		t.Errorf("a search takes the focus to %+v", s)
	}
	open := `document.querySelector("#prompts details").open`
	eval[any](b, `document.querySelector("#prompts summary").focus()`)
	b.press("Enter")
	if !eval[bool](b, open) {
		t.Error("Enter does not open a reasoning")
	}
	b.press(" ")
	if eval[bool](b, open) {
		t.Error("Space does not close it")
	}

	eval[any](b, `document.getElementById("prompts-find").value = ""; document.getElementById("prompts-show").focus()`)
	b.press("End") // the last choice
	b.press("Tab")
	if got := eval[string](b, changes("no prompt is like that")); strings.HasPrefix(got, "still") {
		t.Error(got)
	}
	quiet(t, b)
}

// TestPagesHaveNoSidewaysScroll: whatever names are, a page is as wide as its
// window, on a phone too; what is wider scrolls by itself.
func TestPagesHaveNoSidewaysScroll(t *testing.T) {
	b := openTab(t, 390, 800)
	var versions strings.Builder
	if err := twoVersions().Report().HTML(&versions); err != nil {
		t.Fatal(err)
	}
	for name, page := range map[string]string{
		"nine": pageOf(t, looked(t, 9, 30, 2, "", true)), "hostile": pageOf(t, looked(t, 3, 12, 2, marks+strings.Repeat("W", 300), true)), "versions": versions.String(),
	} {
		for _, width := range []int{390, 1280} {
			b.size(width, 800)
			b.show(page)
			if wide := eval[int](b, "document.documentElement.scrollWidth"); wide > width {
				what := eval[string](b, `Array.from(document.querySelectorAll("body *")).filter(e => !e.parentElement.closest(".wide") && !e.classList.contains("skip") && e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map(e => e.outerHTML.slice(0, 150)).join("\n")`)
				t.Errorf("%s is %d wide in a window of %d: %s", name, wide, width, what)
			}
			if eval[bool](b, `document.documentElement.hasAttribute("data-marked")`) {
				t.Errorf("%s: a text was taken for markup", name)
			}
		}
	}
	quiet(t, b)
}

// TestLargePageStaysFluid: with 2,000 prompts of nine teachers no search, choice
// or turn of the page keeps a reader waiting. The bound is generous: what is
// measured is some tens of milliseconds.
func TestLargePageStaysFluid(t *testing.T) {
	b := openTab(t, 1280, 900)
	b.show(inBrowser(t, 2000, 9, ""))
	for _, one := range [][2]string{
		{"search", `find.value = "answer of 7"; find.dispatchEvent(new Event("input"))`},
		{"search of one", `find.value = "prompt 1234 "; find.dispatchEvent(new Event("input"))`},
		{"choice", `find.value = ""; show.value = "disagree"; show.dispatchEvent(new Event("change"))`},
		{"next", `document.getElementById("prompts-on").click()`},
		{"all of them back", `show.value = ""; show.dispatchEvent(new Event("change"))`},
		{"sort", `document.querySelector("table.sortable th button").click(); count.textContent += " "`},
	} {
		what, act := one[0], one[1]
		took := eval[float64](b, fmt.Sprintf(`new Promise(done => {
  const count = document.getElementById("prompts-count"), find = document.getElementById("prompts-find"), show = document.getElementById("prompts-show");
  const start = performance.now();
  const seen = new MutationObserver(() => { seen.disconnect(); requestAnimationFrame(() => setTimeout(() => done(performance.now() - start))); });
  seen.observe(count, {childList: true, characterData: true, subtree: true});
  %s;
})`, act))
		t.Logf("%s: %.0f ms", what, took)
		if took > float64((2 * time.Second).Milliseconds()) {
			t.Errorf("%s keeps a reader waiting for %.0f ms", what, took)
		}
	}
	quiet(t, b)
}
