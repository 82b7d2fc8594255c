package cli

import (
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

// A planWays compares the two ways in which a teacher's missing answers can be
// bought.
type planWays struct {
	Uses        string  `json:"uses"` // online or batch
	OnlineUSD   float64 `json:"online_usd"`
	OnlineTimeS float64 `json:"online_time_s"`
	BatchUSD    float64 `json:"batch_usd"`
	BatchTimeS  float64 `json:"batch_time_s"` // at most, where the endpoint keeps its word
	Batches     int64   `json:"batches"`      // files of requests, by the vendor's limit of rows
	other       string  // api of the way that is not used
}

// Words of planWays.Uses.
const (
	usesOnline = "online"
	usesBatch  = "batch"
)

// batchHosts are endpoints that are known to have a batch API at half the price.
var batchHosts = []string{"api.openai.com", "api.anthropic.com"}

// Rows of a batch file at the vendors.
const (
	openAIRows    = 50_000
	anthropicRows = 100_000
)

// compareWays sets an estimate for online asking beside one for a batch API,
// where the teacher has both. For a batch teacher the batch is what it costs and
// how long it takes.
func (pt *planTeacher) compareWays(t *recipe.Teacher) {
	discount := 0.0
	if t.Price != nil {
		discount = t.Price.BatchDiscount
	}
	known := slices.Contains(batchHosts, hostOf(t.BaseURL))
	if !t.IsBatch() && discount == 0 && !known {
		return
	}
	if discount == 0 && known && t.Price != nil {
		discount = 0.5
	}
	rows := int64(openAIRows)
	w := &planWays{Uses: usesOnline, OnlineUSD: pt.CostUSD, OnlineTimeS: pt.TimeS, BatchUSD: pt.CostUSD * (1 - discount),
		BatchTimeS: (24 * time.Hour).Seconds(), other: recipe.APIOpenAIBatch}
	if t.API == recipe.APIAnthropic || t.API == recipe.APIAnthropicBatch {
		rows, w.other = anthropicRows, recipe.APIAnthropicBatch
	}
	if t.IsBatch() {
		if t.Batch.Rows > 0 {
			rows = int64(t.Batch.Rows)
		}
		w.Uses, w.BatchTimeS, w.other = usesBatch, t.Batch.Window.Seconds(), t.API[:len(t.API)-len("-batch")]
		pt.CostUSD, pt.TimeS = w.BatchUSD, w.BatchTimeS
		pt.MostUSD *= 1 - discount
		if pt.Missing == 0 {
			pt.TimeS = 0
		}
	}
	w.Batches = (pt.Missing + rows - 1) / rows
	if pt.Missing > 0 {
		pt.Ways = w
	}
}

// printWays says what the other way would cost.
func (p *planReport) printWays(w io.Writer) {
	for _, t := range p.Teachers {
		if t.Ways == nil {
			continue
		}
		online, batch := "not priced", "not priced"
		if t.Priced {
			online, batch = fmt.Sprintf("$%.2f", t.Ways.OnlineUSD), fmt.Sprintf("$%.2f", t.Ways.BatchUSD)
		}
		fmt.Fprintf(w, "\n%s: online %s in about %s, in batch %s within %s; the recipe asks %s (the other is api: %s)", printable(t.ID),
			online, shortDuration(time.Duration(t.Ways.OnlineTimeS*float64(time.Second))),
			batch, window(time.Duration(t.Ways.BatchTimeS*float64(time.Second))),
			map[string]string{usesOnline: "online", usesBatch: "in batch"}[t.Ways.Uses], t.Ways.other)
	}
}

// window is a batch's time limit as vendors write it: 24h.
func window(d time.Duration) string {
	if d%time.Hour == 0 {
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return shortDuration(d)
}
