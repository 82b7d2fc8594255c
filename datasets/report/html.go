package report

import (
	"fmt"
	"html/template"
	"io"

	_ "embed"
)

//go:embed report.html.tmpl
var pageText string

var page = template.Must(template.New("report").Funcs(template.FuncMap{
	"percent":  percent,
	"grouped":  grouped,
	"dollars":  func(usd *float64) string { return dollars(usd, 2) },
	"each":     func(usd *float64) string { return dollars(usd, 5) },
	"duration": duration,
	"name":     clean,
	"x":        func(p float64) string { return fmt.Sprintf("%.2f", 4+192*p) },
	"pair":     func(v Versus) []string { return pairCells(&v) },
	"matches":  func(j JudgePreferences) [][]string { return preferenceRows(&j) },
	"alarm":    func(t Teacher) []string { return styleNotes(&t) },
	"value":    func(usd *float64) string { return dollars(usd, 4) },
	"swing":    func(d float64) string { return fmt.Sprintf("%.2f", 100+96*max(-1, min(1, d))) },
	"tokens":   func(f Figures) string { return grouped(f.PromptTokens + f.CompletionTokens) },
}).Parse(pageText))

// HTML writes the comparison as one page that needs nothing else: no script, no
// request, light or dark as the reader's system is. Every name is escaped.
func (r *Report) HTML(w io.Writer) error {
	return page.Execute(w, struct {
		Teachers    []Teacher
		Cells       []Cell
		Scopes      []Scope
		Preferences *Preferences
		Drift       []Drift
		Notes       []string
	}{r.Teachers, byDomain(r.Cells), r.scopes(), r.Preferences, r.Drift, r.Notes})
}

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
