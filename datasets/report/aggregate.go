package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// maxCells bounds the memory of an aggregator: domains may come from a column
// of hostile data. What comes later is counted in one cell a teacher.
const maxCells = 10_000

// Other is the domain and effort of the cell that takes what no longer got a
// cell of its own, and the class of such errors.
const Other = "(other)"

// maxErrorClasses bounds the classes that one cell tells apart.
const maxErrorClasses = 64

// An Aggregator counts candidates. Its memory depends on the number of
// teachers, domains and efforts alone. It is not safe for use by several
// goroutines.
type Aggregator struct {
	teachers []TeacherInfo
	cells    map[cellKey]*tally
	samples  bool // some task had more than one sample of a teacher
	lumped   bool // some cell was not kept apart
	drift    []Drift
	mix      *Mix
	requests map[string]*requestTally // by teacher

	grid         grid
	gridTeachers map[string]int // numbers of the grid
	jury         jury
	manners      map[string]*manner // by teacher
	shelf        shelf
	ledger       ledger
	fit          fitting
	conditions   *Conditions
}

type cellKey struct{ teacher, domain, effort string }

// New makes an aggregator over the teachers, in the order in which the report
// is to list them. Candidates of other teachers are counted too and listed
// last, by id, as not priced.
func New(teachers []TeacherInfo) *Aggregator {
	return &Aggregator{teachers: slices.Clone(teachers), cells: make(map[cellKey]*tally), gridTeachers: map[string]int{}}
}

// Add counts one candidate. It keeps nothing of it but some numbers. Candidates
// of one task are to follow each other; the order of tasks decides nothing.
func (a *Aggregator) Add(c *datasets.Candidate) {
	if c.SampleIndex > 0 {
		a.samples = true
	}
	at := placed{cell: a.cell(cellKey{c.Teacher, c.Domain, c.Effort})}
	at.cell.add(c)
	a.requestsOf(c.Teacher).answer(c)
	a.mannerOf(c.Teacher).add(c)
	a.shelf.add(c)
	if firstHand(c) && answerable(c) {
		number := a.number(c.Teacher)
		a.grid.add(c, number)
		if a.grid.at != nil {
			at.grid, at.row = a.grid.at, a.grid.rows[number]
		}
	}
	a.ledger.place(c, at)
}

func (a *Aggregator) mannerOf(teacher string) *manner {
	m := a.manners[teacher]
	if m == nil {
		if a.manners == nil {
			a.manners = map[string]*manner{}
		}
		m = &manner{}
		a.manners[strings.Clone(teacher)] = m
	}
	return m
}

// number is the grid's number of a teacher.
func (a *Aggregator) number(teacher string) int {
	n, ok := a.gridTeachers[teacher]
	if !ok {
		n = len(a.gridTeachers)
		a.gridTeachers[strings.Clone(teacher)] = n
	}
	return n
}

// AddDrift adds what a probe of a teacher showed.
func (a *Aggregator) AddDrift(d Drift) { a.drift = append(a.drift, d) }

func (a *Aggregator) cell(key cellKey) *tally {
	t := a.cells[key]
	if t == nil && len(a.cells) >= maxCells {
		a.lumped = true
		key.domain, key.effort = Other, Other
		t = a.cells[key]
	}
	if t == nil {
		// The strings of a candidate may share a large buffer with it.
		key = cellKey{strings.Clone(key.teacher), strings.Clone(key.domain), strings.Clone(key.effort)}
		t = &tally{errors: make(map[string]int64)}
		a.cells[key] = t
	}
	return t
}

// Report gives the figures over what was added so far.
func (a *Aggregator) Report() *Report {
	infos := a.listed()
	place := make(map[string]int, len(infos))
	r := &Report{FormatVersion: FormatVersion, Teachers: make([]Teacher, len(infos)), Cells: []Cell{}}
	totals := make([]*tally, len(infos))
	for i, info := range infos {
		place[info.ID] = i
		totals[i] = &tally{errors: make(map[string]int64)}
	}
	keys := slices.SortedFunc(maps.Keys(a.cells), func(x, y cellKey) int {
		return cmp.Or(cmp.Compare(place[x.teacher], place[y.teacher]), cmp.Compare(x.domain, y.domain), cmp.Compare(x.effort, y.effort))
	})
	for _, key := range keys {
		t, i := a.cells[key], place[key.teacher]
		totals[i].merge(t)
		r.Cells = append(r.Cells, Cell{Teacher: key.teacher, Domain: key.domain, Effort: key.effort, Figures: t.figures(infos[i].Priced)})
	}
	for i, info := range infos {
		r.Teachers[i] = Teacher{
			Teacher: info.ID, Model: info.Model, Priced: info.Priced, PriceNote: info.PriceNote,
			Figures:  totals[i].figures(info.Priced),
			Requests: a.requestsOf(info.ID).figures(),
			Style:    a.mannerOf(info.ID).style(),
		}
	}
	r.Drift = a.drift
	r.Distributions = a.distributions(infos)
	r.Mix = a.mix
	r.Comparison = a.comparison(infos)
	r.Preferences = a.jury.preferences(infos)
	r.Unattributed, r.Conditions = a.ledger.unattributed(), a.conditionsOf(r)
	r.StudentFit = a.fit.report(infos)
	r.browser = a.shelf.browser()
	r.Notes = a.notes(r)
	return r
}

// listed is the declared teachers and, by id, those that only candidates name.
func (a *Aggregator) listed() []TeacherInfo {
	infos, known := slices.Clone(a.teachers), make(map[string]bool)
	for _, info := range infos {
		known[info.ID] = true
	}
	for _, key := range slices.SortedFunc(maps.Keys(a.cells), func(x, y cellKey) int { return cmp.Compare(x.teacher, y.teacher) }) {
		if !known[key.teacher] {
			known[key.teacher] = true
			infos = append(infos, TeacherInfo{ID: key.teacher})
		}
	}
	return infos
}

// notes say what a reader needs to know before quoting a figure.
func (a *Aggregator) notes(r *Report) []string {
	notes := []string{
		"pass_of_judged is pass/(pass+fail). pass_of_all is pass over all asks where a verifier judged anything: failed asks, truncated answers and unknown verdicts count as not passed. Unknown is never counted as fail.",
		"Intervals of pass_of_judged and pass_of_all are Wilson's score intervals at 95 %. Teachers that were asked different tasks are not compared by them, but by the comparison of pairs.",
		accounting,
		"Latency is from the request to the end of the answer, at the concurrency of the build; percentiles are exact below 128 ms and within 1.6 % above.",
	}
	for _, t := range r.Teachers {
		switch {
		case !t.Priced:
			notes = append(notes, fmt.Sprintf("%s is not priced: no cost is stated for it.", clean(t.Teacher)))
		case t.PriceNote == "":
			notes = append(notes, fmt.Sprintf("Prices of %s: source and date are not stated.", clean(t.Teacher)))
		default:
			notes = append(notes, fmt.Sprintf("Prices of %s: %s.", clean(t.Teacher), strings.TrimSuffix(clean(t.PriceNote), ".")))
		}
		if t.Priced && t.UnpricedAsks > 0 {
			notes = append(notes, fmt.Sprintf("The cost of %d of %d asks of %s is not known; cost_usd leaves them out.", t.UnpricedAsks, t.Asks, clean(t.Teacher)))
		}
		if t.EstimatedUsage > 0 {
			notes = append(notes, fmt.Sprintf("%s sent no usage for %d answers; their tokens and costs are estimates.", clean(t.Teacher), t.EstimatedUsage))
		}
		notes = append(notes, unratedNotes(&t)...)
		notes = append(notes, spendNotes(&t)...)
		notes = append(notes, requestNotes(&t)...)
		notes = append(notes, styleNotes(&t)...)
	}
	notes = append(notes, r.StudentFit.notes()...)
	notes = append(notes, unattributedNotes(r.Unattributed)...)
	if a.samples {
		notes = append(notes, "Some tasks have several samples of one teacher. pass_of_judged and pass_of_all count samples, and their intervals treat them as independent and are too narrow; the rates of the comparison are means over tasks, and their intervals are not.")
	}
	if n := a.grid.least; n > 0 {
		notes = append(notes, leastNote(n))
	}
	notes = append(notes, r.Comparison.notes(a.grid.lost)...)
	if len(r.Drift) > 0 {
		notes = append(notes, driftNote(r.Drift))
	}
	if a.mix != nil {
		notes = append(notes, a.mix.Lines()...)
	}
	if a.lumped {
		notes = append(notes, fmt.Sprintf("More than %d cells: what came later is counted under %s.", maxCells, Other))
	}
	return notes
}

// A tally is the counts of one cell or of several.
type tally struct {
	asks, answers, truncated                     int64
	errors                                       map[string]int64
	pass, fail, unknown, none                    int64
	judgedAsks                                   int64 // asks of the merged cells where anything was judged
	accepted, selected                           int64
	prompt, cached, completion, reasoning        int64
	estimated, unpriced, unpricedAnswers, priced int64
	unrated                                      int64 // asks that say nothing of the teacher
	costMicros, sharedMicros, ms                 int64
	spent                                        [spentKinds]spentTally // beside the answers
	latency                                      sketch
}

func (t *tally) add(c *datasets.Candidate) {
	t.asks++
	t.unrated += count(!answerable(c))
	if c.Error != nil {
		t.addError(*c.Error, 1)
	} else {
		t.answers++
		if truncated(c) {
			t.truncated++
		}
		t.addVerdict(c.Verdict)
		if c.CostMicros == nil {
			t.unpricedAnswers++
		}
		if c.LatencyMS != nil {
			t.latency.add(*c.LatencyMS, 1)
			t.ms += known(c.LatencyMS)
		}
	}
	t.accepted += count(c.Accepted)
	t.selected += count(c.Selected)
	t.prompt += known(c.PromptTokens)
	t.cached += known(c.CachedTokens)
	t.completion += known(c.CompletionTokens)
	t.reasoning += known(c.ReasoningTokens)
	t.estimated += count(c.UsageEstimated)
	switch {
	case unasked(c): // it cost nothing
	case c.CostMicros == nil:
		t.unpriced++
	default:
		t.priced++
		t.costMicros += *c.CostMicros
	}
}

func (t *tally) addError(class string, n int64) {
	if _, ok := t.errors[class]; !ok && len(t.errors) >= maxErrorClasses-1 {
		class = Other
	}
	t.errors[strings.Clone(class)] += n
}

func (t *tally) addVerdict(verdict *string) {
	switch {
	case verdict == nil:
		t.none++
	case *verdict == datasets.Pass:
		t.pass++
	case *verdict == datasets.Fail:
		t.fail++
	default:
		t.unknown++
	}
}

func (t *tally) judged() int64 { return t.pass + t.fail + t.unknown }

// merge adds the counts of one cell.
func (t *tally) merge(c *tally) {
	t.asks += c.asks
	t.answers += c.answers
	t.truncated += c.truncated
	for _, class := range slices.Sorted(maps.Keys(c.errors)) {
		t.addError(class, c.errors[class])
	}
	t.pass += c.pass
	t.fail += c.fail
	t.unknown += c.unknown
	t.none += c.none
	t.unrated += c.unrated
	if c.judged() > 0 {
		t.judgedAsks += c.asks - c.unrated
	}
	t.accepted += c.accepted
	t.selected += c.selected
	t.prompt += c.prompt
	t.cached += c.cached
	t.completion += c.completion
	t.reasoning += c.reasoning
	t.estimated += c.estimated
	t.unpriced += c.unpriced
	t.unpricedAnswers += c.unpricedAnswers
	t.priced += c.priced
	t.costMicros += c.costMicros
	t.sharedMicros += c.sharedMicros
	t.ms += c.ms
	for i := range t.spent {
		t.spent[i].merge(&c.spent[i])
	}
	t.latency.merge(&c.latency)
}

func (t *tally) figures(priced bool) Figures {
	f := Figures{
		Asks: t.asks, Answers: t.answers, Errors: maps.Clone(t.errors), Truncated: t.truncated,
		Pass: t.pass, Fail: t.fail, Unknown: t.unknown, None: t.none,
		Accepted: t.accepted, Selected: t.selected,
		PromptTokens: t.prompt, CachedTokens: t.cached, CompletionTokens: t.completion, ReasoningTokens: t.reasoning,
		EstimatedUsage: t.estimated, UnpricedAsks: t.unpriced,
		LatencyP50MS: t.latency.quantile(50), LatencyP95MS: t.latency.quantile(95),
	}
	if t.prompt > 0 {
		share := float64(t.cached) / float64(t.prompt)
		f.CachedShare = &share
	}
	if t.judged() > 0 {
		all := t.judgedAsks
		if all == 0 { // a cell, not a sum of cells
			all = t.asks - t.unrated
		}
		f.PassOfJudged = proportion(t.pass, t.pass+t.fail)
		f.PassOfAll = proportion(t.pass, all)
	}
	f.Spend = t.spend()
	if priced && t.priced > 0 {
		f.CostUSD = ref(float64(t.costMicros) / 1e6)
		if t.accepted > 0 && t.unpricedAnswers == 0 {
			f.CostPerAcceptedUSD = ref(*f.Spend.USD / float64(t.accepted))
		}
	}
	return f
}

func count(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// known is the count, 0 where there is none. Negative counts are an endpoint's
// nonsense.
func known(n *int64) int64 {
	if n == nil || *n < 0 {
		return 0
	}
	return *n
}
