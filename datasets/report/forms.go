package report

import (
	"fmt"
	"html/template"

	_ "embed"
)

//go:embed report.css
var pageStyle string

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
	"swing":        func(d float64) string { return fmt.Sprintf("%.2f", 100+96*max(-1, min(1, d))) },
}
