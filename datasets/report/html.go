package report

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"

	_ "embed"
)

//go:embed report.html.tmpl
var pageText string

//go:embed report.js
var pageScript string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"percent":  percent,
	"grouped":  grouped,
	"dollars":  func(usd *float64) string { return dollars(usd, 2) },
	"each":     func(usd *float64) string { return dollars(usd, 5) },
	"duration": duration,
	"name":     pageName,
	"x":        func(p float64) string { return fmt.Sprintf("%.2f", 4+192*p) },
	"pair":     func(v Versus) []string { return pairCells(&v) },
	"matches":  func(j JudgePreferences) [][]string { return preferenceRows(&j) },
	"apart":    func(s Scope) string { _, text := s.apart(); return text },
	"together": func(s Scope) []Versus { pairs, _ := s.apart(); return pairs },
	"coverage": func() string { return coverageLead },
	"alarm":    func(t Teacher) []string { return styleNotes(&t) },
	"chart":    func(s Scope) *chart { return s.costChart() },
	"matrix":   func(s Scope) [][]winCell { return s.winMatrix() },
	"spread":   spreadText,
	"fraction": fraction,
	"value":    func(usd *float64) string { return dollars(usd, 4) },
	"tokens":   func(f Figures) string { return grouped(f.PromptTokens + f.CompletionTokens) },
}).Funcs(formFuncs).Parse(plotsText + pageText))

// shownCells bounds the rows of domains that a page holds: domains may come from
// a column of anything.
const shownCells = 2000

// HTML writes the comparison as one page that needs nothing else: no request and
// no script but its own, which sorts tables and looks through prompts; without
// scripts it shows everything but the prompts. Light or dark as the reader's
// system is. What models and names say is text, never markup: the page's
// policy allows no other script to run either.
func (r *Report) HTML(w io.Writer) error {
	cells, more := byDomain(r.Cells), 0
	if len(cells) > shownCells {
		cells, more = cells[:shownCells], len(cells)-shownCells
	}
	strata, strataText := r.strataTable()
	fit, fitText := r.fitTable()
	return page.Execute(w, struct {
		About       string
		Teachers    []Teacher
		Spent       [][]string
		Conditions  []string
		Coverage    [][]string
		Strata      [][]string
		StrataText  []string
		Cells       []Cell
		MoreCells   int
		Scopes      []Scope
		Preferences *Preferences
		Fit         [][]string
		FitText     []string
		Drift       []Drift
		Spread      []Distribution
		Notes       []string
		Browser     *browser
		Script      template.JS
		Nonce       string
	}{r.About, r.Teachers, r.spendTable(), r.conditionLines(), r.coverageTable(), strata, strataText, cells, more, r.scopes(), r.Preferences, fit, fitText, r.Drift, r.Distributions, r.Notes, r.browser, template.JS(pageScript), scriptHash})
}

// scriptHash is what the page's policy allows to run.
var scriptHash = func() string {
	sum := sha256.Sum256([]byte(pageScript))
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}()

// scopes are those in which anybody is compared.
func (r *Report) scopes() []Scope {
	var out []Scope
	for _, s := range r.Comparison.shown() {
		if len(s.Pairs) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// spreadText is three percentiles.
func spreadText(s Spread) string {
	if s.P50 == nil {
		return "–"
	}
	return grouped(*s.P50) + " / " + grouped(*s.P95) + " / " + grouped(*s.P99)
}

func fraction(v *float64) string {
	if v == nil {
		return "–"
	}
	return fmt.Sprintf("%.3f", *v)
}
