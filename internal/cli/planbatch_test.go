package cli

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

func TestPlanSetsOnlineBesideBatch(t *testing.T) {
	count := activities.TeacherCount{Asks: 120_000, Answered: 20_000, PromptBytes: 400_000_000, Caps: 100_000 * 1000}
	for _, test := range []struct {
		teacher             string
		uses, says          string
		cost, online, batch float64
		hours, batches      float64
	}{
		{"api: openai, base_url: https://api.openai.com/v1, price: {input: 1, output: 2}", usesOnline,
			"online $260.00 in about", 260, 260, 130, -1, 2},
		{"api: openai-batch, base_url: https://api.openai.com/v1, price: {input: 1, output: 2}", usesBatch,
			"in batch $130.00 within 24h", 130, 260, 130, 24, 2},
		{"api: anthropic-batch, base_url: https://api.anthropic.com/v1, price: {input: 1, output: 2, batch_discount: 0.25}, batch: {rows: 30000}", usesBatch,
			"the recipe asks in batch (the other is api: anthropic)", 195, 260, 195, 24, 4},
		{"api: openai-batch, identity: x, batch: {folder: f, window: 48h}, price: {input: 1, output: 2}", usesBatch,
			"within 48h", 260, 260, 260, 48, 2},
		{"api: openai, base_url: https://elsewhere.example/v1, price: {input: 1, output: 2, batch_discount: 0.4}", usesOnline,
			"in batch $156.00", 260, 260, 156, -1, 2},
		{"api: openai, base_url: https://elsewhere.example/v1, price: {input: 1, output: 2}", "", "", 260, 0, 0, -1, 0},
		{"api: openai-batch, base_url: https://elsewhere.example/v1", usesBatch, "online not priced", 0, 0, 0, 24, 2},
	} {
		r, err := recipe.Parse("r.yaml", []byte("name: b\nprompts: [{path: p}]\nteachers: [{id: t, model: m, "+test.teacher+"}]\n"))
		if err != nil {
			t.Fatalf("%s: %v", test.teacher, err)
		}
		var p planReport
		p.addTeacher(&r.Teachers[0], count)
		got := p.Teachers[0]
		near := func(a, b float64) bool { return math.Abs(a-b) < 0.01 }
		if !near(got.CostUSD, test.cost) || !near(p.CostUSD, test.cost) || test.hours > 0 && !near(got.TimeS, test.hours*3600) {
			t.Errorf("%s: %+v", test.teacher, got)
		}
		if (got.Ways == nil) != (test.uses == "") {
			t.Errorf("%s: %+v", test.teacher, got.Ways)
			continue
		}
		var out bytes.Buffer
		p.printWays(&out)
		if !strings.Contains(out.String(), test.says) {
			t.Errorf("%s: says %q, want %q", test.teacher, out.String(), test.says)
		}
		if w := got.Ways; w != nil && (w.Uses != test.uses || !near(w.OnlineUSD, test.online) || !near(w.BatchUSD, test.batch) || float64(w.Batches) != test.batches) {
			t.Errorf("%s: %+v", test.teacher, w)
		}
	}
}
