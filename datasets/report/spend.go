package report

import (
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// A Spend is all that was spent for a teacher's answers, by what it was spent
// on: rejected answers too, requests that brought nothing, and what judges were
// asked about them.
type Spend struct {
	USD *float64 `json:"usd" jsonschema:"nullable,description=sum of the parts as far as they are priced; null where nothing is"`

	Answers SpentOn `json:"answers" jsonschema:"description=requests that brought an answer; accepted or rejected"`
	Failed  SpentOn `json:"failed" jsonschema:"description=requests of asks that never brought an answer"`
	Retried SpentOn `json:"retried" jsonschema:"description=requests beside the one that brought the answer: those that failed before it and answers that came twice"`
	Judged  SpentOn `json:"judged" jsonschema:"description=what judges and reward models were asked about its answers; of a comparison half of everything but requests"`

	SharedUSD float64 `json:"shared_usd,omitempty" jsonschema:"description=of answers.usd: what is counted once more because one answer serves several tasks"`
}

// SpentOn is what one kind of requests cost.
type SpentOn struct {
	Requests         int64    `json:"requests"`
	USD              *float64 `json:"usd" jsonschema:"nullable,description=null where no request is priced"`
	Unpriced         int64    `json:"unpriced,omitempty" jsonschema:"description=requests that are not in usd because nobody states a price"`
	PromptTokens     int64    `json:"prompt_tokens"`
	CachedTokens     int64    `json:"cached_tokens" jsonschema:"description=of prompt_tokens"`
	CompletionTokens int64    `json:"completion_tokens" jsonschema:"description=reasoning included"`
	ReasoningTokens  int64    `json:"reasoning_tokens" jsonschema:"description=of completion_tokens"`
	Seconds          float64  `json:"seconds" jsonschema:"description=from each request to the end of its response; one after the other"`
}

// Unattributed is what was spent beside the answers: for no teacher's row.
type Unattributed struct {
	What string `json:"what" jsonschema:"description=what it was for"`
	SpentOn
}

// Kinds of what is spent beside answers.
const (
	spentFailed = iota
	spentRetried
	spentJudged
	spentKinds
)

// A spentTally adds up one kind.
type spentTally struct {
	requests, unpriced, priced, micros, ms int64
	prompt, cached, completion, reasoning  int64
}

func (t *spentTally) merge(o *spentTally) {
	t.requests += o.requests
	t.unpriced += o.unpriced
	t.priced += o.priced
	t.micros += o.micros
	t.ms += o.ms
	t.prompt += o.prompt
	t.cached += o.cached
	t.completion += o.completion
	t.reasoning += o.reasoning
}

// spentOf is what one row of the ledger cost. Endpoints' nonsense counts as
// nothing.
func spentOf(row *datasets.Attempt) spentTally {
	t := spentTally{
		requests: int64(row.Times), micros: known(row.CostMicros), ms: known(row.LatencyMS),
		prompt: known(row.PromptTokens), cached: known(row.CachedTokens),
		completion: known(row.CompletionTokens), reasoning: known(row.ReasoningTokens),
	}
	switch {
	case row.CostMicros != nil:
		t.priced = t.requests
	case row.Billable:
		t.unpriced = t.requests
	}
	return t
}

// part is the share from of to units of whole: parts that follow each other add
// up to the whole, to the last micro-dollar. Each counts all requests.
func (t *spentTally) part(from, to, whole int64) spentTally {
	of := func(n int64) int64 { return n/whole*(to-from) + n%whole*to/whole - n%whole*from/whole }
	return spentTally{
		requests: t.requests, unpriced: t.unpriced, priced: t.priced,
		micros: of(t.micros), ms: of(t.ms), prompt: of(t.prompt), cached: of(t.cached), completion: of(t.completion), reasoning: of(t.reasoning),
	}
}

func (t *spentTally) figures() SpentOn {
	out := SpentOn{
		Requests: t.requests, Unpriced: t.unpriced, PromptTokens: t.prompt, CachedTokens: t.cached,
		CompletionTokens: t.completion, ReasoningTokens: t.reasoning, Seconds: float64(t.ms) / 1e3,
	}
	if t.priced > 0 {
		out.USD = ref(float64(t.micros) / 1e6)
	}
	return out
}

// A ledger attributes requests to the answers of the task that is being added.
type ledger struct {
	task    string
	samples map[string]placed   // by sample id
	about   map[string][]string // sample ids that a judge's ask is about, by ask id
	prompt  string
	asks    map[string]bool // answers of that prompt

	first, last int64 // when requests were sent: microseconds since 1970
	beside      []Unattributed
	lost        spentTally // requests that belong to no answer
}

// placed is where an answer is counted.
type placed struct {
	ask  string
	cell *tally
	grid *gridCell // nil: in no comparison
	row  int
}

// place notes where a candidate was counted.
func (l *ledger) place(c *datasets.Candidate, at placed) {
	if l.samples == nil {
		l.samples, l.about, l.asks = map[string]placed{}, map[string][]string{}, map[string]bool{}
	}
	if c.TaskID != l.task {
		l.task = strings.Clone(c.TaskID)
		clear(l.samples)
		clear(l.about)
	}
	if c.PromptID != l.prompt {
		l.prompt = strings.Clone(c.PromptID)
		clear(l.asks)
	}
	at.ask = strings.Clone(c.AskID)
	l.samples[strings.Clone(c.SampleID)] = at
	if c.AskID == "" || c.CostMicros == nil {
		return
	}
	if l.asks[at.ask] {
		at.cell.sharedMicros += known(c.CostMicros)
	}
	l.asks[at.ask] = true
}

// AddJudgeRow says which answers a judge was asked about, so that its requests
// are counted for them. It follows the candidates of its task.
func (a *Aggregator) AddJudgeRow(row *datasets.JudgeRow) {
	l := &a.ledger
	if row.AskID == nil || row.TaskID != l.task || l.about == nil {
		return
	}
	// In halves: of one answer both are its own.
	second := row.SampleA
	if row.SampleB != nil {
		second = *row.SampleB
	}
	ask := strings.Clone(*row.AskID)
	l.about[ask] = append(l.about[ask], strings.Clone(row.SampleA), strings.Clone(second))
}

// AddAttempt counts one request. It follows the candidates of its task, and the
// rows of judges; the order of both decides nothing. It keeps nothing of it.
func (a *Aggregator) AddAttempt(row *datasets.Attempt) {
	l := &a.ledger
	if at := known(row.StartedUS); at > 0 {
		if l.first == 0 || at < l.first {
			l.first = at
		}
		l.last = max(l.last, at)
	}
	spent := spentOf(row)
	if own, ok := l.samples[row.SampleID]; ok && own.ask == row.AskID {
		a.requestsOf(row.Teacher).count(row)
		switch row.Outcome {
		case datasets.OutcomeAnswer, datasets.OutcomeRecovered: // the candidate tells of it
		case datasets.OutcomeUndone:
			own.spend(spentFailed, &spent)
		default:
			own.spend(spentRetried, &spent)
		}
		return
	}
	about := l.about[row.AskID]
	if len(about) == 0 {
		l.lost.merge(&spent)
		return
	}
	whole := int64(len(about))
	counted := map[*tally]bool{} // nil: of answers that are gone
	for i, sample := range about {
		part := spent.part(int64(i), int64(i)+1, whole)
		at, ok := l.samples[sample]
		if counted[at.cell] { // one request about it, in parts
			part.requests, part.unpriced, part.priced = 0, 0, 0
		}
		counted[at.cell] = true
		if !ok {
			l.lost.merge(&part)
			continue
		}
		at.spend(spentJudged, &part)
	}
}

// spend counts what was spent on an answer.
func (p *placed) spend(kind int, t *spentTally) {
	p.cell.spent[kind].merge(t)
	if p.grid != nil {
		row := &p.grid.rows[p.row]
		row.micros += t.micros
		row.tokens += t.prompt + t.completion
		row.ms += t.ms
	}
}

// AddUnattributed counts requests that are for no teacher's answers, by what
// they are for, such as "probes for drift".
func (a *Aggregator) AddUnattributed(what string, rows ...datasets.Attempt) {
	var sum spentTally
	for i := range rows {
		t := spentOf(&rows[i])
		sum.merge(&t)
	}
	if sum.requests == 0 {
		return
	}
	for i := range a.ledger.beside {
		if u := &a.ledger.beside[i]; u.What == what {
			u.add(&sum)
			return
		}
	}
	a.ledger.beside = append(a.ledger.beside, Unattributed{What: what, SpentOn: sum.figures()})
}

func (u *Unattributed) add(t *spentTally) {
	more := t.figures()
	u.Requests += more.Requests
	u.Unpriced += more.Unpriced
	u.PromptTokens += more.PromptTokens
	u.CachedTokens += more.CachedTokens
	u.CompletionTokens += more.CompletionTokens
	u.ReasoningTokens += more.ReasoningTokens
	u.Seconds += more.Seconds
	switch {
	case more.USD == nil:
	case u.USD == nil:
		u.USD = more.USD
	default:
		u.USD = ref(*u.USD + *more.USD)
	}
}

// unattributed lists what is in nobody's figures.
func (l *ledger) unattributed() []Unattributed {
	out := append([]Unattributed(nil), l.beside...)
	if l.lost.requests > 0 || l.lost.micros > 0 {
		out = append(out, Unattributed{What: "requests that belong to no answer of this version", SpentOn: l.lost.figures()})
	}
	return out
}

// spend is what a cell's answers cost in all.
func (t *tally) spend() *Spend {
	answers := spentTally{
		requests: t.answers, priced: t.priced, unpriced: t.unpricedAnswers, micros: t.costMicros, ms: t.ms,
		prompt: t.prompt, cached: t.cached, completion: t.completion, reasoning: t.reasoning,
	}
	s := &Spend{
		Answers: answers.figures(), Failed: t.spent[spentFailed].figures(), Retried: t.spent[spentRetried].figures(),
		Judged: t.spent[spentJudged].figures(), SharedUSD: float64(t.sharedMicros) / 1e6,
	}
	micros, priced := answers.micros, answers.priced
	for i := range t.spent {
		micros += t.spent[i].micros
		priced += t.spent[i].priced
	}
	if priced > 0 {
		s.USD = ref(float64(micros) / 1e6)
	}
	return s
}

// parts are the kinds in the order in which they are told.
func (s *Spend) parts() []*SpentOn { return []*SpentOn{&s.Answers, &s.Failed, &s.Retried, &s.Judged} }

// tokens are all of a spend's, prompts and completions.
func (s *Spend) tokens() (prompt, cached, completion, reasoning int64, seconds float64) {
	for _, p := range s.parts() {
		prompt += p.PromptTokens
		cached += p.CachedTokens
		completion += p.CompletionTokens
		reasoning += p.ReasoningTokens
		seconds += p.Seconds
	}
	return prompt, cached, completion, reasoning, seconds
}
