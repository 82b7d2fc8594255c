package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stillhouse-data/stillhouse/activities"
	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
)

func init() { register(planCommand) }

func planCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "plan RECIPE",
		Short: "Check a recipe and say what building it would ask and cost",
		Long:  "Plan reads the recipe and its prompts, asks no teacher, and says how many asks\neach teacher would get, how many are answered already, and what the rest costs.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r, err := a.readRecipe(args[0])
			if err != nil {
				return err
			}
			p, err := a.makePlan(cmd.Context(), r)
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(p)
			}
			p.print(a.out)
			return nil
		},
	}
}

// Assumptions of an estimate, stated beside it.
const (
	assumedAnswerTokens = 800              // of an answer, where nothing else is known
	assumedAnswerTime   = 20 * time.Second // of an answer of that length
)

// A planReport is what plan says.
type planReport struct {
	Dataset     string        `json:"dataset"`
	Recipe      string        `json:"recipe"`
	Prompts     int64         `json:"prompts"`
	Tasks       int64         `json:"tasks"`
	Duplicates  int64         `json:"duplicates"`
	Conflicts   int64         `json:"gold_conflicts"`
	BadRows     int64         `json:"bad_rows"`
	Cells       []planCell    `json:"cells"`
	Teachers    []planTeacher `json:"teachers"`
	Asks        int64         `json:"asks"`
	Answered    int64         `json:"answered"`
	Missing     int64         `json:"missing"`
	MoreAsks    int64         `json:"more_asks"`            // may follow, where how many are asked depends on the answers
	JudgeAsks   int64         `json:"judge_asks,omitempty"` // questions about answers, if nothing rejects any before
	CostUSD     float64       `json:"cost_usd"`             // estimate for what is missing
	MostUSD     float64       `json:"most_usd"`             // every answer at its token cap; 0 where one has none
	Unpriced    int64         `json:"unpriced_asks"`        // of what is missing
	Budget      *planBudget   `json:"budget,omitempty"`
	Assumptions []string      `json:"assumptions"`
	Warnings    []string      `json:"warnings"`
	// Filtered is what the filters of prompts found; absent without them.
	Filtered *datasets.Filtered `json:"filtered,omitempty"`

	caches bool // that some prompts begin alike is said
}

type planCell struct {
	Domain   string   `json:"domain"`
	Effort   string   `json:"effort"`
	Tasks    int64    `json:"tasks"`
	Teachers []string `json:"teachers"`
	Fallback []string `json:"fallback,omitempty" jsonschema:"description=teachers that are asked one after the other where all before them fail"`
}

// route is whom a cell is asked of, in words.
func (c *planCell) route() string {
	out := strings.Join(c.Teachers, ", ")
	if len(c.Fallback) > 0 {
		out += "; where they fail " + strings.Join(c.Fallback, ", then ")
	}
	return out
}

type planTeacher struct {
	ID           string  `json:"id"`
	Model        string  `json:"model"`
	Asks         int64   `json:"asks"`
	Answered     int64   `json:"answered"`
	Missing      int64   `json:"missing"`
	PromptTokens int64   `json:"prompt_tokens"` // of what is missing; estimate
	AnswerTokens int64   `json:"answer_tokens"`
	CostUSD      float64 `json:"cost_usd"`
	MostUSD      float64 `json:"most_usd"`
	CachedTokens int64   `json:"cached_tokens"`   // of prompt_tokens, as a context cache would have them; estimate
	CacheSaves   float64 `json:"cache_saves_usd"` // of cost_usd, where the endpoint has such a cache
	Priced       bool    `json:"priced"`
	TimeS        float64 `json:"time_s"`               // under its limits
	MoreAsks     int64   `json:"more_asks"`            // may follow, where how many are asked depends on the answers
	JudgeAsks    int64   `json:"judge_asks,omitempty"` // questions about answers, if nothing rejects any before
	cap          int64   // largest sum of caps; -1 where an ask has none

	// Ways compares asking online with asking in batch, where there are both.
	Ways *planWays `json:"online_and_batch,omitempty"`
}

// makePlan plans a recipe here, against the answers that the store holds.
func (a *app) makePlan(ctx context.Context, r *recipe.Recipe) (*planReport, error) {
	return a.makePlanAnew(ctx, r, "")
}

// makePlanAnew is makePlan for a build that asks some teachers anew, listed as a
// build holds them.
func (a *app) makePlanAnew(ctx context.Context, r *recipe.Recipe, refresh string) (*planReport, error) {
	p, _, err := a.makePlanOf(ctx, r, refresh, 0)
	return p, err
}

// makePlanOf is makePlanAnew for a sample of so many tasks; 0: all.
func (a *app) makePlanOf(ctx context.Context, r *recipe.Recipe, refresh string, sample int) (*planReport, *activities.Plan, error) {
	prompts, recorded, err := activities.FindSources(ctx, r, a.finder(r.Dir))
	if err != nil {
		return nil, nil, err
	}
	counter, err := activities.NewCounter(r, prompts, recorded)
	if err != nil {
		return nil, nil, err
	}
	if err := a.knowEpochs(ctx, r, counter, refresh); err != nil {
		return nil, nil, err
	}
	temp, err := os.MkdirTemp("", "stillhouse-plan-*")
	if err != nil {
		return nil, nil, err
	}
	defer os.RemoveAll(temp)
	reader, err := a.answersReader(ctx, temp)
	if err != nil {
		return nil, nil, err
	}
	if reader != nil {
		defer reader.Close()
		counter.Answered, counter.Lookup = reader.Answered, reader.Lookup
	}
	sink := func(ctx context.Context, s activities.Shard, tasks []datasets.Task) (activities.Shard, error) {
		return s, counter.Count(ctx, tasks)
	}
	options := activities.ReadOptions()
	found, err := activities.FindImages(ctx, r, prompts, nil)
	if err != nil {
		return nil, nil, err
	}
	defer found.Close()
	if found != nil {
		options.Images = found
	}
	filtered, err := a.filterPrompts(ctx, r, prompts, options, temp)
	if err != nil {
		return nil, nil, err
	}
	plan, err := activities.MakeFilteredSample(ctx, sample, r, prompts, options, filtered, temp, sink, func(string) {})
	if err != nil {
		return nil, nil, err
	}
	return describePlan(r, plan, counter), plan, nil
}

// answersReader opens the answers for reading; nil where there are none yet.
func (a *app) answersReader(ctx context.Context, temp string) (*answers.Reader, error) {
	b, err := a.readStore(ctx)
	if err != nil {
		return nil, err
	}
	for _, err := range b.List(ctx, "answers/", "") {
		if err != nil {
			return nil, err
		}
		return answers.OpenReader(b, temp)
	}
	return nil, nil
}

func describePlan(r *recipe.Recipe, plan *activities.Plan, c *activities.Counter) *planReport {
	p := &planReport{
		Dataset: r.Name, Recipe: r.File, Prompts: plan.Prompts, Tasks: plan.Tasks,
		Duplicates: plan.Duplicates, Conflicts: plan.Conflicts, BadRows: plan.BadRows, Filtered: plan.Filtered,
		Assumptions: []string{
			fmt.Sprintf("an answer has %d tokens where the recipe sets no lower cap, and takes %s", assumedAnswerTokens, assumedAnswerTime),
			"a token has 4 bytes; prices are the recipe's, without cache discounts",
		},
		Warnings: []string{},
	}
	for _, cell := range plan.Cells {
		if len(cell.Teachers) == 0 {
			continue // the filters of prompts left them out
		}
		p.Cells = append(p.Cells, planCell{cell.Domain, cell.Effort, cell.Tasks, cell.Teachers, cell.Fallback})
	}
	slices.SortFunc(p.Cells, func(x, y planCell) int {
		return strings.Compare(x.Domain+"\x00"+x.Effort, y.Domain+"\x00"+y.Effort)
	})
	for i := range r.Teachers {
		p.addTeacher(&r.Teachers[i], c.Teachers[r.Teachers[i].ID])
	}
	p.Warnings = append(p.Warnings, c.Notes()...)
	p.addBudget(r, c)
	if d := r.Drift; d != nil {
		p.Warnings = append(p.Warnings, fmt.Sprintf("each teacher is asked up to %d prompts once more when its last probe is older than %s; that is not in these figures", d.Probe, days(d.Every)))
	}
	if plan.Filtered != nil {
		p.Warnings = append(p.Warnings, plan.Filtered.Warnings...)
	}
	if plan.Conflicts > 0 {
		p.Warnings = append(p.Warnings, fmt.Sprintf("%d duplicate row(s) have another gold answer than the row before; the first row's is used", plan.Conflicts))
	}
	for _, bad := range plan.BadRowsSeen {
		p.Warnings = append(p.Warnings, "skipped "+bad)
	}
	return p
}

func (p *planReport) addTeacher(t *recipe.Teacher, c activities.TeacherCount) {
	for _, note := range t.ProfileNotes() {
		p.Warnings = append(p.Warnings, fmt.Sprintf("teacher %s: %s", t.ID, note))
	}
	pt := planTeacher{
		ID: t.ID, Model: t.Model, Asks: c.Asks, Answered: c.Answered, Missing: c.Asks - c.Answered,
		Priced: t.Price != nil, PromptTokens: c.PromptBytes / 4, cap: c.Caps,
	}
	if t.API == recipe.APIRecorded {
		pt.Missing = 0
		if c.Asks > 0 && c.Answered == 0 {
			p.Warnings = append(p.Warnings, fmt.Sprintf("teacher %s: its recorded answers are read when the build runs; they must hold exactly these prompts", t.ID))
		}
		p.Teachers = append(p.Teachers, pt)
		p.Asks += pt.Asks
		p.Answered += pt.Answered
		return
	}
	pt.AnswerTokens = pt.Missing * assumedAnswerTokens
	if c.Caps >= 0 {
		pt.AnswerTokens = min(pt.AnswerTokens, c.Caps)
	}
	pt.CachedTokens, pt.MoreAsks = c.CachedBytes/4, c.MoreAsks
	pt.JudgeAsks = c.JudgeAsks
	pt.PromptTokens += c.JudgeBytes / 4
	pt.AnswerTokens += c.JudgeReplies
	if t.Price != nil {
		pt.CacheSaves = float64(pt.CachedTokens) * (t.Price.Input - *t.Price.CachedInput) / 1e6
		pt.CostUSD = (float64(pt.PromptTokens)*t.Price.Input + float64(pt.AnswerTokens)*t.Price.Output) / 1e6
		if c.Caps >= 0 {
			pt.MostUSD = (float64(pt.PromptTokens+c.MoreBytes/4)*t.Price.Input + float64(c.Caps+c.MoreCaps+c.JudgeCaps)*t.Price.Output) / 1e6
		}
	} else {
		p.Unpriced += pt.Missing
	}
	pt.TimeS = float64(pt.Missing+pt.JudgeAsks) * assumedAnswerTime.Seconds() / float64(t.Limits.AtOnce())
	if t.Limits.RPM > 0 {
		pt.TimeS = max(pt.TimeS, float64(pt.Missing+pt.JudgeAsks)*60/float64(t.Limits.RPM))
	}
	if t.Limits.TPM > 0 {
		pt.TimeS = max(pt.TimeS, float64(pt.PromptTokens+pt.AnswerTokens)*60/float64(t.Limits.TPM))
	}
	if pt.JudgeAsks > 0 {
		p.assume("judges are asked about every answer and have said nothing yet; they read 800 tokens of each, and write 300")
	}
	if t.Limits.Concurrency == 0 && pt.Missing > 0 {
		p.assume(fmt.Sprintf("a teacher that declares no concurrency takes %d requests at once", recipe.AssumedConcurrency))
	}
	pt.compareWays(t)
	if pt.CachedTokens > 0 && !p.caches {
		p.caches = true
		p.Assumptions = append(p.Assumptions, "prompts that begin alike are asked one after the other, and an endpoint with a context cache bills what the one before began with as cached; the costs are without that")
	}
	p.Teachers = append(p.Teachers, pt)
	p.Asks += pt.Asks
	p.Answered += pt.Answered
	p.Missing += pt.Missing
	p.MoreAsks += pt.MoreAsks
	p.JudgeAsks += pt.JudgeAsks
	p.CostUSD += pt.CostUSD
	p.MostUSD += pt.MostUSD
}

// assume states an assumption once.
func (p *planReport) assume(text string) {
	if !slices.Contains(p.Assumptions, text) {
		p.Assumptions = append(p.Assumptions, text)
	}
}

func (p *planReport) print(w io.Writer) {
	fmt.Fprintf(w, "%s: %s tasks of %s prompts", p.Dataset, grouped(p.Tasks), grouped(p.Prompts))
	if p.Duplicates > 0 {
		fmt.Fprintf(w, " (%s duplicate rows merged)", grouped(p.Duplicates))
	}
	fmt.Fprintf(w, "\n")
	printFiltered(w, p.Filtered)
	fmt.Fprintln(w)
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(tw, "domain\teffort\ttasks\tteachers")
	for _, c := range p.Cells {
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", printable(c.Domain), printable(c.Effort), grouped(c.Tasks), printable(c.route()))
	}
	_ = tw.Flush()
	fmt.Fprintln(w)
	tw = tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "teacher\tasks\tanswered\tto ask\tprompt tokens\tanswer tokens\tcost\tat most\ttime\t")
	for _, t := range p.Teachers {
		cost, most := "not priced", "-"
		if t.Priced {
			cost = fmt.Sprintf("$%.2f", t.CostUSD)
			if t.cap >= 0 {
				most = fmt.Sprintf("$%.2f", t.MostUSD)
			} else {
				most = "no cap"
			}
		}
		if t.Missing == 0 && t.MoreAsks == 0 && t.JudgeAsks == 0 {
			cost, most = "-", "-"
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", printable(t.ID), grouped(t.Asks), grouped(t.Answered), grouped(t.Missing),
			grouped(t.PromptTokens), grouped(t.AnswerTokens), cost, most, shortDuration(time.Duration(t.TimeS*float64(time.Second))))
	}
	_ = tw.Flush()
	for _, t := range p.Teachers {
		if t.CachedTokens == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s: a context cache holds about %s of its prompt tokens", printable(t.ID), share(t.CachedTokens, t.PromptTokens))
		if t.CacheSaves > 0 {
			fmt.Fprintf(w, ", which saves $%.2f", t.CacheSaves)
		}
	}
	p.printWays(w)
	fmt.Fprintf(w, "\n%s asks, %s answered already, %s to ask, about $%.2f", grouped(p.Asks), grouped(p.Answered), grouped(p.Missing), p.CostUSD)
	if p.MoreAsks > 0 {
		fmt.Fprintf(w, "; up to %s more asks where too few answers pass, at most $%.2f in all", grouped(p.MoreAsks), p.MostUSD)
	}
	if p.JudgeAsks > 0 {
		fmt.Fprintf(w, "; up to %s questions to judges are in these figures", grouped(p.JudgeAsks))
	}
	if p.Unpriced > 0 {
		fmt.Fprintf(w, " and %s asks without a price", grouped(p.Unpriced))
	}
	fmt.Fprintf(w, "\nEstimates: %s.\n", strings.Join(p.Assumptions, "; "))
	if p.Budget != nil {
		p.Budget.print(w, p.CostUSD)
	}
	for _, warning := range p.Warnings {
		fmt.Fprintf(w, "Note: %s\n", printable(warning))
	}
}
