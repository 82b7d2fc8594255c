package activities

import (
	"encoding/json"
	"fmt"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report"
)

// A BuildResult is what `build --json` ends with, and the result in the
// build's record. Costs are at the recipe's prices.
type BuildResult struct {
	Dataset       string                   `json:"dataset"`
	Version       int64                    `json:"version" jsonschema:"description=the version that is newest now; 0: nothing is published"` // 0: nothing is published
	BuildID       string                   `json:"build_id"`
	Manifest      string                   `json:"manifest" jsonschema:"description=key of the manifest; empty where nothing is published"` // key, "" where nothing is published
	Tasks         int64                    `json:"tasks"`
	Filtered      *datasets.Filtered       `json:"filtered,omitempty" jsonschema:"description=what the filters of prompts found; absent without them"`
	Asks          int64                    `json:"asks" jsonschema:"description=answers that the tasks need: teachers times samples"` // answers that the tasks need: teachers × samples
	AnswersNew    int64                    `json:"answers_new" jsonschema:"description=bought by this build"`                         // bought by this build
	AnswersReused int64                    `json:"answers_reused" jsonschema:"description=were there already or recorded"`            // were there, or recorded
	Candidates    int64                    `json:"candidates"`
	Accepted      int64                    `json:"accepted"`
	Rejected      map[string]int64         `json:"rejected" jsonschema:"description=candidates by reject reason; one with two reasons counts twice"` // by reason
	Unselected    map[string]int64         `json:"unselected,omitempty" jsonschema:"description=accepted candidates that entered neither train nor test by reason"`
	Rows          map[string]int64         `json:"rows" jsonschema:"description=rows by split"` // by split
	Teachers      map[string]TeacherResult `json:"teachers"`
	Judged        *JudgedResult            `json:"judged,omitempty" jsonschema:"description=what judges and reward models were asked about the answers; absent where nobody was"`
	Pairs         int64                    `json:"pairs,omitempty" jsonschema:"description=rows of the table of preference pairs"`
	Mix           *report.Mix              `json:"mix,omitempty" jsonschema:"description=what the mixture took of the chosen rows; absent without one"`
	CostUSD       float64                  `json:"cost_usd" jsonschema:"description=spent by this build"`                                                                                                              // spent by this build
	FailedCostUSD float64                  `json:"failed_cost_usd,omitempty" jsonschema:"description=of cost_usd: for requests that brought no answer but may be charged; estimated where the endpoint did not count"` // of CostUSD
	Attempts      int64                    `json:"attempts,omitempty" jsonschema:"description=requests that this build sent"`
	UnpricedAsks  int64                    `json:"unpriced_asks" jsonschema:"description=answers of this build whose price is not known"` // answers of this build whose price is not known
	DurationS     float64                  `json:"duration_s"`
	Unchanged     bool                     `json:"unchanged" jsonschema:"description=nothing differed from the version that was there: nothing was published"` // version is the one that was there
	Gates         []string                 `json:"gates,omitempty" jsonschema:"description=gates that failed so that nothing was published"`
	Stopped       map[string]string        `json:"stopped,omitempty" jsonschema:"description=teachers that could not be used and why"` // teachers that could not be used, and why
	Budget        *BudgetResult            `json:"budget,omitempty" jsonschema:"description=how the budget stood; absent without one"`
	// Drift is what the probes of this build showed, by teacher.
	Drift  map[string]DriftResult `json:"drift,omitempty" jsonschema:"description=what the probes of this build showed by teacher; the report has the figures"`
	Report string                 `json:"report,omitempty" jsonschema:"description=key of report.json"` // key of report.json
}

// A TeacherResult counts one teacher's candidates, whichever build bought them.
type TeacherResult struct {
	Asks             int64   `json:"asks"`
	Answers          int64   `json:"answers"`
	Accepted         int64   `json:"accepted"`
	PromptTokens     int64   `json:"prompt_tokens"`
	CachedTokens     int64   `json:"cached_tokens"`
	CompletionTokens int64   `json:"completion_tokens"`
	ReasoningTokens  int64   `json:"reasoning_tokens"`
	CostUSD          float64 `json:"cost_usd"`
	Attempts         int64   `json:"attempts,omitempty" jsonschema:"description=requests that were sent for these asks"`
	FailedCostUSD    float64 `json:"failed_cost_usd,omitempty" jsonschema:"description=what requests that brought no answer may have cost besides"`

	micros int64
}

// A DriftResult says in short what a probe of a teacher showed.
type DriftResult struct {
	Probe    int    `json:"probe" jsonschema:"description=its number"`
	Asked    int    `json:"asked" jsonschema:"description=prompts that were asked once more"`
	Answered int    `json:"answered"`
	Changed  bool   `json:"changed" jsonschema:"description=the answers differ from the first ones more than chance explains"`
	TooFew   bool   `json:"too_few,omitempty" jsonschema:"description=no change is shown and with so few answers no test could have shown one"`
	Why      string `json:"why,omitempty" jsonschema:"description=what changed"`
}

const microsPerUSD = 1e6

// Bounds of what a result spells out. It goes into the build's entry in the
// catalog, which is small, and its summary into the workflow's history.
const (
	resultBytes   = 40 << 10
	resultReasons = 100 // reject reasons; an endpoint's words are in some of them
	resultGates   = 10
	resultText    = 320 // bytes of one gate, or of why one teacher was given up
	otherReasons  = "(other)"
)

// encode gives the result as JSON. What grows with the recipe or with an
// endpoint's words is cut to what fits.
func (r *BuildResult) encode() ([]byte, error) {
	if n := len(r.Gates); n > resultGates {
		r.Gates = append(r.Gates[:resultGates:resultGates], fmt.Sprintf("and %d more", n-resultGates))
	}
	for most := resultText; ; most /= 2 {
		for id, why := range r.Stopped {
			r.Stopped[id] = clipped(why, most)
		}
		for i := range r.Gates {
			r.Gates[i] = clipped(r.Gates[i], most)
		}
		for id, d := range r.Drift {
			d.Why = clipped(d.Why, most)
			r.Drift[id] = d
		}
		text, err := json.Marshal(r)
		if err != nil || len(text) <= resultBytes || most <= 1 {
			return text, err
		}
	}
}

// unselect counts why an accepted candidate is no row.
func (r *BuildResult) unselect(reason string) {
	if r.Unselected == nil {
		r.Unselected = map[string]int64{}
	}
	r.Unselected[reason]++
}

// reject counts a reject reason; once there are many, further ones together.
func (r *BuildResult) reject(reason string) {
	if _, known := r.Rejected[reason]; !known && len(r.Rejected) >= resultReasons-1 {
		reason = otherReasons
	}
	r.Rejected[reason]++
}
