package cli

import (
	"testing"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// The time of a plan is that of the strictest limit.
func TestPlanTimeHonoursEveryLimit(t *testing.T) {
	for name, c := range map[string]struct {
		limits recipe.Limits
		want   float64 // seconds for 1,000 asks of 400 bytes and 800 tokens each
	}{
		"nothing declared": {recipe.Limits{}, 1000 * 20.0 / recipe.AssumedConcurrency},
		"concurrency":      {recipe.Limits{Concurrency: 100}, 200},
		"rpm":              {recipe.Limits{Concurrency: 100, RPM: 60}, 1000},
		"tpm":              {recipe.Limits{Concurrency: 100, RPM: 600, TPM: 9000}, 6000},
		"a generous tpm":   {recipe.Limits{Concurrency: 100, TPM: 90_000_000}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			var p planReport
			p.addTeacher(&recipe.Teacher{ID: "t", Model: "m", API: recipe.APIOpenAI, Limits: c.limits}, activities.TeacherCount{Asks: 1000, PromptBytes: 400_000, Caps: -1})
			if got := p.Teachers[0].TimeS; got != c.want {
				t.Errorf("%v s, want %v", got, c.want)
			}
		})
	}
}
