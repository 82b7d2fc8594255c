package report

import (
	"fmt"
	"html/template"

	_ "embed"
)

//go:embed report.css
var pageStyle string

//go:embed plots.html.tmpl
var plotsText string

//go:embed versions.html.tmpl
var versionsText string

var versionsPage = template.Must(template.New("versions").Funcs(formFuncs).Parse(versionsText))

// formFuncs are what the pages of one version and of several share.
var formFuncs = template.FuncMap{
	"style":        func() template.CSS { return template.CSS(pageStyle) },
	"drifthead":    func() []string { return driftHead },
	"driftrow":     func(d Drift) []string { return d.row() },
	"driftreasons": driftReasons,
	"points":       points,
	"plotname":     func(s string) string { return plotLabel(name(s)) },
	"at":           func(v float64) string { return fmt.Sprintf("%.1f", v) },
	"boxtable": func(p boxPlot) figureTable {
		return figureTable{p.Title + " as a table", 2, []string{"teacher", "effort", "answers", "5 %", "25 %", "median", "75 %", "95 %"}, p.Table}
	},
	"overlaptable": func(p *overlapPlot) figureTable {
		return figureTable{"Who solves what as a table", 1, []string{"solved by exactly", "tasks"}, p.Table}
	},
	"boxplots": func(d []Distribution) []boxPlot { return (&Report{Distributions: d}).boxPlots() },
	"overlap":  func(t *Together) *overlapPlot { return t.overlap() },
	"growth":   func(t *Together) *growthPlot { return t.growth() },
	"swing":    func(d float64) string { return fmt.Sprintf("%.2f", 100+96*max(-1, min(1, d))) },
}

// A figureTable is what a plot shows, for who reads rather than looks.
type figureTable struct {
	Summary string
	Left    int // columns of text
	Head    []string
	Rows    []boxCells
}

// maxPageName is how much of a name from data a page shows, in characters.
const maxPageName = 80

// pageName is clean and bounded, for a page.
func pageName(s string) string {
	s = clean(s)
	if r := []rune(s); len(r) > maxPageName {
		return string(r[:maxPageName-1]) + "…"
	}
	return s
}
