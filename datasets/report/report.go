// Package report compares teachers: how often each is right, what it costs,
// how it answers, with uncertainty. An [Aggregator] takes candidates one by one
// in any order and keeps counts only, so a report over millions of candidates
// needs no more memory than one over a thousand.
//
//	a := report.New(teachers)
//	for … { a.Add(candidate) }
//	r := a.Report()
//	r.Table(os.Stdout, 100)
package report

import "github.com/stillhouse-data/stillhouse/datasets"

// FormatVersion of [Report]. It rises only when a field changes its meaning;
// new optional fields do not raise it.
const FormatVersion = 1

// TeacherInfo is what a report says of a teacher beside its candidates.
type TeacherInfo struct {
	ID     string
	Model  string
	Priced bool // the recipe states prices
	// PriceNote says where the prices are from and of what date, such as
	// "input 3.00, output 15.00 USD per million tokens; price list, 2026-11-01".
	PriceNote string
}

// A Report is the comparison of the teachers of one version, as report.json.
type Report struct {
	FormatVersion int          `json:"format_version" jsonschema:"description=rises only when a field changes its meaning"`
	Teachers      []Teacher    `json:"teachers" jsonschema:"description=one entry a teacher over everything it was asked; in the recipe's order"`
	Cells         []Cell       `json:"cells" jsonschema:"description=one entry for each teacher and domain and effort; in the order of teachers then by domain and effort"`
	Comparison    *Comparison  `json:"comparison,omitempty" jsonschema:"description=the teachers against each other on common tasks; absent where nothing was judged"`
	Mix           *Mix         `json:"mix,omitempty" jsonschema:"description=what the mixture took of the chosen rows; absent without one"`
	Preferences   *Preferences `json:"preferences,omitempty" jsonschema:"description=what judges prefer; absent where nobody judged pairs"`
	// Filtered is what the filters of prompts found.
	Filtered *datasets.Filtered `json:"filtered,omitempty" jsonschema:"description=what the filters of prompts found; absent without them"`
	// Distributions are how lengths and times spread.
	Distributions []Distribution `json:"distributions,omitempty" jsonschema:"description=how lengths and times spread by teacher and effort; in the order of measures and teachers and efforts"`
	Drift         []Drift        `json:"drift,omitempty" jsonschema:"description=what probes of this build showed; one entry for each teacher that was probed"`
	// Unattributed is what was spent beside the answers.
	Unattributed []Unattributed `json:"unattributed,omitempty" jsonschema:"description=what was spent and is in no teacher's figures"`
	// StudentFit is how likely the answers are to the student.
	StudentFit *StudentFit `json:"student_fit,omitempty" jsonschema:"description=how likely the accepted answers of each teacher are to the student; absent where nobody scored them"`
	// Stratification says how a sample was drawn.
	Stratification *Stratification `json:"stratification,omitempty" jsonschema:"description=how the tasks of a bake-off were drawn; absent where all tasks were asked"`
	Conditions     *Conditions     `json:"conditions,omitempty" jsonschema:"description=what the costs and durations are of; without it they are no comparison"`
	Notes          []string        `json:"notes" jsonschema:"description=how the figures were made and where the prices are from"`

	// About says in its page and in Markdown what the comparison is of, such as
	// maths@3.
	About string `json:"-"`

	browser *browser // prompts and answers, for the page alone
}

// A Teacher's figures over all of its asks.
type Teacher struct {
	Teacher   string `json:"teacher"`
	Model     string `json:"model"`
	Priced    bool   `json:"priced" jsonschema:"description=the recipe states prices for it"`
	PriceNote string `json:"price_note" jsonschema:"description=source and date of the prices"`
	Figures
	Requests
	Style *Style `json:"style,omitempty" jsonschema:"description=how it answers; absent where it gave no text"`
}

// A Cell is a teacher's figures in one domain at one effort.
type Cell struct {
	Teacher string `json:"teacher"`
	Domain  string `json:"domain"`
	Effort  string `json:"effort"`
	Figures
}

// Figures count asks and what came of them.
type Figures struct {
	Asks      int64            `json:"asks" jsonschema:"description=candidates: answers and asks that failed for good or were never made"`
	Answers   int64            `json:"answers" jsonschema:"description=asks that were answered"`
	Errors    map[string]int64 `json:"errors" jsonschema:"description=asks that failed by class of error"`
	Truncated int64            `json:"truncated" jsonschema:"description=answers that ended at the token limit"`

	Pass    int64 `json:"pass"`
	Fail    int64 `json:"fail"`
	Unknown int64 `json:"unknown" jsonschema:"description=answers that the verifier could not judge; never counted as fail"`
	None    int64 `json:"none" jsonschema:"description=answers that no verifier judged"`

	// PassOfJudged is pass/(pass+fail). PassOfAll is pass/asks, failed asks and
	// unknown verdicts included, over the cells where a verifier judged
	// anything. Both are null where nothing was judged.
	PassOfJudged *Proportion `json:"pass_of_judged" jsonschema:"nullable,description=pass/(pass+fail)"`
	PassOfAll    *Proportion `json:"pass_of_all" jsonschema:"nullable,description=pass of all asks in the domains where a verifier judged anything; failed asks and unknown verdicts count as not passed; asks that were never made and purged answers are left out"`

	Accepted int64 `json:"accepted"`
	Selected int64 `json:"selected" jsonschema:"description=rows in train or test"`

	PromptTokens     int64    `json:"prompt_tokens"`
	CachedTokens     int64    `json:"cached_tokens" jsonschema:"description=of prompt_tokens"`
	CachedShare      *float64 `json:"cached_share,omitempty" jsonschema:"description=cached_tokens/prompt_tokens: what the endpoint's context cache paid for; absent where no prompt tokens are known"`
	CompletionTokens int64    `json:"completion_tokens" jsonschema:"description=reasoning included"`
	ReasoningTokens  int64    `json:"reasoning_tokens" jsonschema:"description=of completion_tokens"`
	EstimatedUsage   int64    `json:"estimated_usage" jsonschema:"description=answers whose tokens we estimated because the endpoint sent no count"`

	CostUSD            *float64 `json:"cost_usd" jsonschema:"nullable,description=what its answers cost: rejected ones too; null where nothing is priced; spend has what else was spent for them"`
	CostPerAcceptedUSD *float64 `json:"cost_per_accepted_usd" jsonschema:"nullable,description=all spend over accepted rows: spend.usd/accepted; null where an answer is not priced or none is accepted"`
	Spend              *Spend   `json:"spend,omitempty" jsonschema:"description=all that was spent for its answers by what it was spent on"`
	UnpricedAsks       int64    `json:"unpriced_asks" jsonschema:"description=asks that were made and whose cost is not known"`

	LatencyP50MS *int64 `json:"latency_p50_ms" jsonschema:"nullable,description=request sent to answer whole; null where not measured"`
	LatencyP95MS *int64 `json:"latency_p95_ms" jsonschema:"nullable"`
}

// A Proportion with its 95 % interval by Wilson's score method.
type Proportion struct {
	Count int64   `json:"count"`
	Of    int64   `json:"of"`
	Value float64 `json:"value"`
	Low   float64 `json:"low" jsonschema:"description=lower end of the Wilson 95 % interval"`
	High  float64 `json:"high" jsonschema:"description=upper end of the Wilson 95 % interval"`
}
