package cli

import (
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// routeInWords is whom a task was asked of and why, and whom it went on to.
func routeInWords(p *datasets.PromptRow) string {
	out := strings.Join(p.Route, ", ") + " (" + p.RouteReason + ")"
	if len(p.Escalated) > 0 {
		out += "; they failed, then " + strings.Join(p.Escalated, ", then ")
	}
	return out
}
