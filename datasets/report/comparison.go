package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// A Comparison sets the teachers against each other on the tasks that they
// were asked at first hand: over all of them, and in each domain at each
// effort.
type Comparison struct {
	Seed   uint64  `json:"seed" jsonschema:"description=of everything here that is drawn by chance"`
	Level  float64 `json:"level" jsonschema:"description=chance of any false finding in a family of tests"`
	Scopes []Scope `json:"scopes" jsonschema:"description=all tasks first and then each domain and effort"`

	left int // domains and efforts that are not compared, for want of room
}

// A Scope is some tasks: all, or those of one domain and effort.
type Scope struct {
	Domain   string     `json:"domain" jsonschema:"description=empty for all tasks"`
	Effort   string     `json:"effort" jsonschema:"description=empty for all tasks"`
	Tasks    int64      `json:"tasks" jsonschema:"description=that any teacher was asked at first hand"`
	Family   int        `json:"family" jsonschema:"description=tests that Holm's adjustment of these p values is over: all pairs of this scope where it is all tasks; else all pairs of all domains and efforts"`
	Teachers []Standing `json:"teachers" jsonschema:"description=in the report's order; only those that were asked here"`
	Coverage [][]int64  `json:"coverage" jsonschema:"description=tasks that both teachers of row and column were asked; in the order of teachers"`
	Pairs    []Versus   `json:"pairs"`
	Together *Together  `json:"together,omitempty" jsonschema:"description=on the tasks that all teachers of the scope were asked; absent where there are none or one teacher"`
}

// An Estimate is a figure with its 95 % interval and the method of that.
type Estimate struct {
	Value  float64 `json:"value"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
	Method string  `json:"method" jsonschema:"description=of the interval: wilson or wilson_effective or cluster_bootstrap or cluster_delta or newcombe or mover_wilson_effective"`
}

// A Standing is how one teacher did in a scope.
type Standing struct {
	Teacher   string `json:"teacher"`
	Tasks     int64  `json:"tasks"`
	Samples   int64  `json:"samples"`
	Pass      int64  `json:"pass"`
	Fail      int64  `json:"fail"`
	Unknown   int64  `json:"unknown"`
	Errored   int64  `json:"errored"`
	Truncated int64  `json:"truncated"`
	Refused   int64  `json:"refused"`
	Accepted  int64  `json:"accepted"`

	// Rate is by intention to treat; Judged is conditional on a verdict.
	Rate   *Estimate  `json:"rate,omitempty" jsonschema:"description=mean over tasks of pass/samples: failed asks and unknown verdicts count as not passed"`
	Judged *Estimate  `json:"judged,omitempty" jsonschema:"description=pass/(pass+fail) by task: conditional on an answer that could be judged"`
	Bounds []float64  `json:"bounds,omitempty" jsonschema:"description=means over tasks of pass/samples and (pass+unknown)/samples: where the rate is if every unknown verdict failed or passed"`
	PassAt []PassRate `json:"pass_at,omitempty" jsonschema:"description=chance that one of k samples passes; mean over the tasks that have so many"`

	USDPerAccepted     *Estimate `json:"usd_per_accepted,omitempty" jsonschema:"description=all that was spent for its answers here over the accepted ones: rejected answers and failed and retried requests and judges too; absent where it is not priced or so few are accepted that no interval can be told"`
	TokensPerAccepted  *Estimate `json:"tokens_per_accepted,omitempty" jsonschema:"description=prompt and completion tokens of the same requests"`
	SecondsPerAccepted *Estimate `json:"seconds_per_accepted,omitempty" jsonschema:"description=time of the same requests one after the other over the accepted rows"`
}

// A PassRate is pass@k.
type PassRate struct {
	K     int     `json:"k"`
	Tasks int64   `json:"tasks"`
	Value float64 `json:"value"`
}

// What a comparison of two teachers says.
const (
	FavoursA      = "a"
	FavoursB      = "b"
	NoneShown     = "no_difference_shown" // which is not: they are equal
	NotComparable = "not_comparable"      // no task that both were asked and that was judged
)

// Tests of a difference.
const (
	TestMcNemar         = "mcnemar_exact"
	TestSignFlip        = "sign_flip_exact"
	TestSignFlipSampled = "sign_flip_sampled"
)

// Versus compares two teachers on the tasks that both were asked.
type Versus struct {
	A      string `json:"a"`
	B      string `json:"b"`
	Common int64  `json:"common" jsonschema:"description=tasks that both were asked"`

	// Of one sample each.
	Both    *int64 `json:"both,omitempty" jsonschema:"description=tasks that both passed; only where each has one sample"`
	AOnly   *int64 `json:"a_only,omitempty"`
	BOnly   *int64 `json:"b_only,omitempty"`
	Neither *int64 `json:"neither,omitempty"`

	Difference *Estimate `json:"difference,omitempty" jsonschema:"description=rate of a minus rate of b on the common tasks"`
	Test       string    `json:"test,omitempty"`
	P          *float64  `json:"p,omitempty" jsonschema:"description=two-sided"`
	PHolm      *float64  `json:"p_holm,omitempty" jsonschema:"description=adjusted over the family"`
	Detectable *float64  `json:"detectable,omitempty" jsonschema:"description=smallest difference that so many tasks show with a power of 80 % at a level of 5 % if as many differ as did; absent where none could be shown"`
	Finding    string    `json:"finding" jsonschema:"description=a or b where its lead survives the adjustment; else no_difference_shown or not_comparable"`
}

const (
	compareSeed  = 7
	compareLevel = 0.05
	comparePower = 0.8
)

// shown are the scopes that a reader is shown: one domain at one effort is all
// tasks, and need not be told twice.
func (c *Comparison) shown() []Scope {
	switch {
	case c == nil:
		return nil
	case len(c.Scopes) == 2:
		return c.Scopes[:1]
	}
	return c.Scopes
}

// comparison is nil where nothing was judged.
func (a *Aggregator) comparison(infos []TeacherInfo) *Comparison {
	c := &Comparison{Seed: compareSeed, Level: compareLevel}
	names := make(map[string]int, len(infos))
	for i, info := range infos {
		names[info.ID] = i
	}
	order := make([]int, len(a.gridTeachers)) // from the grid's numbers to the report's
	for id, i := range a.gridTeachers {
		order[i] = names[id]
	}
	var all []gridRow
	cells := a.grid.names()
	judged := 0
	for _, name := range cells {
		if cell := a.grid.cells[name]; cell.judged {
			all = append(all, cell.rows...)
			judged++
		}
	}
	if judged == 0 {
		return nil
	}
	cells, c.left = a.grid.largest(cells, order)
	// Tests that are drawn by chance must be fine enough for their family.
	pairs := len(infos) * (len(infos) - 1) / 2
	c.Scopes = append(c.Scopes, newScope(cellName{}, all, order, infos, pairs))
	for _, name := range cells {
		if cell := a.grid.cells[name]; cell.judged {
			c.Scopes = append(c.Scopes, newScope(name, cell.rows, order, infos, judged*pairs))
		}
	}
	adjust(c.Scopes[:1])
	adjust(c.Scopes[1:])
	return c
}

// adjust gives the pairs of some scopes, one family, their adjusted p values
// and their findings.
func adjust(family []Scope) {
	var p []float64
	for i := range family {
		for _, v := range family[i].Pairs {
			if v.P != nil {
				p = append(p, *v.P)
			}
		}
	}
	adjusted := stats.Holm(p)
	at := 0
	for i := range family {
		family[i].Family = len(p)
		for j := range family[i].Pairs {
			v := &family[i].Pairs[j]
			if v.P == nil {
				v.Finding = NotComparable
				continue
			}
			v.PHolm = &adjusted[at]
			at++
			switch {
			case *v.PHolm >= compareLevel:
				v.Finding = NoneShown
			case v.Difference.Value > 0:
				v.Finding = FavoursA
			default:
				v.Finding = FavoursB
			}
		}
	}
}

// A scoped is the rows of one scope by teacher, each list by task.
type scoped struct {
	ids      []string // of the teachers that were asked
	infos    []TeacherInfo
	rows     [][]gridRow
	tasks    int64
	family   int          // tests that there may be in the family
	each     int          // intervals of single teachers that there may be
	everyone [][]*gridRow // by task: the rows of all, where all were asked
}

func newScope(name cellName, rows []gridRow, order []int, infos []TeacherInfo, family int) Scope {
	by := make([][]gridRow, len(infos))
	for _, row := range rows {
		if row.samples > 0 {
			i := order[row.teacher]
			by[i] = append(by[i], row)
		}
	}
	// Three each of every teacher in every scope: two rates, and costs.
	s := &scoped{family: family, each: 3 * 2 * family / max(1, len(infos)-1)}
	for i, list := range by {
		if len(list) > 0 {
			slices.SortFunc(list, func(a, b gridRow) int { return cmp.Compare(a.task, b.task) })
			s.ids, s.infos, s.rows = append(s.ids, infos[i].ID), append(s.infos, infos[i]), append(s.rows, list)
		}
	}
	s.align()
	out := Scope{Domain: name.domain, Effort: name.effort, Tasks: s.tasks, Teachers: []Standing{}, Pairs: []Versus{}}
	for i := range s.ids {
		out.Teachers = append(out.Teachers, s.standing(i))
		row := make([]int64, len(s.ids))
		for j := range s.ids {
			s.common(i, j, func(_, _ *gridRow) { row[j]++ })
		}
		out.Coverage = append(out.Coverage, row)
	}
	for i := range s.ids {
		for j := i + 1; j < len(s.ids); j++ {
			out.Pairs = append(out.Pairs, s.versus(i, j))
		}
	}
	out.Together = s.together()
	return out
}

// align counts the tasks and finds those that everyone was asked.
func (s *scoped) align() {
	at := make([]int, len(s.rows))
	for {
		task, met := uint64(math.MaxUint64), 0
		for i, list := range s.rows {
			if at[i] < len(list) {
				task = min(task, list[at[i]].task)
			}
		}
		if task == math.MaxUint64 {
			return
		}
		s.tasks++
		group := make([]*gridRow, 0, len(s.rows))
		for i, list := range s.rows {
			if at[i] < len(list) && list[at[i]].task == task {
				group = append(group, &list[at[i]])
				at[i]++
				met++
			}
		}
		if met == len(s.rows) {
			s.everyone = append(s.everyone, group)
		}
	}
}

// common visits the rows of two teachers for each task that both were asked.
func (s *scoped) common(i, j int, visit func(a, b *gridRow)) {
	a, b := s.rows[i], s.rows[j]
	for x, y := 0, 0; x < len(a) && y < len(b); {
		switch {
		case a[x].task < b[y].task:
			x++
		case a[x].task > b[y].task:
			y++
		default:
			visit(&a[x], &b[y])
			x++
			y++
		}
	}
}

// passK are the k of pass@k that are told.
var passK = []int{1, 2, 4, 8, 16, 32, 64}

func (s *scoped) standing(i int) Standing {
	rows := s.rows[i]
	st := Standing{Teacher: s.ids[i], Tasks: int64(len(rows))}
	clusters, decided := make([]stats.Cluster, len(rows)), make([]stats.Cluster, 0, len(rows))
	upper := make([]stats.Cluster, len(rows)) // every unknown passes
	usd, tokens, seconds := make([]float64, len(rows)), make([]float64, len(rows)), make([]float64, len(rows))
	accepted := make([]float64, len(rows))
	priced, timed, most := s.infos[i].Priced, false, 0
	for k, r := range rows {
		st.Samples += int64(r.samples)
		st.Pass += int64(r.pass)
		st.Fail += int64(r.fail)
		st.Unknown += int64(r.unknown)
		st.Errored += int64(r.errored)
		st.Truncated += int64(r.truncated)
		st.Refused += int64(r.refused)
		st.Accepted += int64(r.accepted)
		clusters[k] = stats.Cluster{Pass: int64(r.pass), Samples: int64(r.samples)}
		upper[k] = stats.Cluster{Pass: int64(r.pass) + int64(r.unknown), Samples: int64(r.samples)}
		if n := int64(r.pass) + int64(r.fail); n > 0 {
			decided = append(decided, stats.Cluster{Pass: int64(r.pass), Samples: n})
		}
		accepted[k] = float64(r.accepted)
		usd[k], tokens[k], seconds[k] = float64(r.micros)/1e6, float64(r.tokens), float64(r.ms)/1e3
		priced = priced && !r.unpriced
		timed = timed || r.ms > 0
		most = max(most, int(r.samples))
	}
	if st.Pass+st.Fail+st.Unknown > 0 {
		st.Rate = s.rate(clusters)
		st.Bounds = []float64{st.Rate.Value, stats.MacroRate(upper)}
		st.PassAt = passAt(rows, most)
	}
	if len(decided) > 0 {
		st.Judged = s.rate(decided)
	}
	if st.Accepted > 0 {
		r := stats.Ratios([][]float64{tokens, usd, seconds}, accepted, s.each, compareSeed)
		st.TokensPerAccepted = estimate(r[0])
		if priced {
			st.USDPerAccepted = estimate(r[1])
		}
		if timed {
			st.SecondsPerAccepted = estimate(r[2])
		}
	}
	return st
}

func (s *scoped) rate(clusters []stats.Cluster) *Estimate {
	lo, hi, method := stats.MacroInterval(clusters, s.each, compareSeed)
	return &Estimate{stats.MacroRate(clusters), lo, hi, method}
}

func estimate(i stats.Interval) *Estimate {
	if math.IsNaN(i.Value) || math.IsNaN(i.Low) || math.IsNaN(i.High) {
		return nil
	}
	return &Estimate{i.Value, i.Low, i.High, i.Method}
}

func passAt(rows []gridRow, most int) []PassRate {
	var out []PassRate
	for _, k := range passK {
		if k > most {
			break
		}
		var sum float64
		var n int64
		for _, r := range rows {
			if int(r.samples) >= k {
				sum += stats.PassAtK(int(r.samples), int(r.pass), k)
				n++
			}
		}
		out = append(out, PassRate{K: k, Tasks: n, Value: sum / float64(n)})
	}
	return out
}

// versus compares two teachers.
func (s *scoped) versus(i, j int) Versus {
	v := Versus{A: s.ids[i], B: s.ids[j]}
	single, judged := true, false
	var both, first, second, neither int64
	var samples []int64
	seen := map[int64]bool{}
	s.common(i, j, func(a, b *gridRow) {
		v.Common++
		single = single && a.samples == 1 && b.samples == 1
		judged = judged || a.pass+a.fail+a.unknown+b.pass+b.fail+b.unknown > 0
		for _, n := range []int64{int64(a.samples), int64(b.samples)} {
			if !seen[n] {
				seen[n] = true
				samples = append(samples, n)
			}
		}
		switch {
		case a.pass > 0 && b.pass > 0:
			both++
		case a.pass > 0:
			first++
		case b.pass > 0:
			second++
		default:
			neither++
		}
	})
	if v.Common == 0 || !judged {
		return v
	}
	if single {
		v.Both, v.AOnly, v.BOnly, v.Neither = &both, &first, &second, &neither
		lo, hi := stats.Newcombe(both, first, second, neither, stats.Z95)
		p := stats.McNemar(first, second)
		v.Difference = &Estimate{float64(first-second) / float64(v.Common), lo, hi, "newcombe"}
		v.Test, v.P = TestMcNemar, &p
		v.Detectable = detectable(v.Common, float64(first+second)/float64(v.Common))
		return v
	}
	s.severalSamples(i, j, &v, samples)
	return v
}

// severalSamples compares the rates of tasks.
func (s *scoped) severalSamples(i, j int, v *Versus, samples []int64) {
	scale, ok := stats.Scale(samples)
	if !ok {
		scale = 1_000_000 // rates to a millionth
	}
	units := func(r *gridRow) int64 {
		if ok {
			return int64(r.pass) * (scale / int64(r.samples))
		}
		return int64(math.Round(float64(r.pass) * float64(scale) / float64(r.samples)))
	}
	diffs := make([]int64, 0, v.Common)
	one, two := make([]stats.Cluster, 0, v.Common), make([]stats.Cluster, 0, v.Common)
	var square float64
	s.common(i, j, func(a, b *gridRow) {
		d := units(a) - units(b)
		diffs = append(diffs, d)
		square += float64(d) / float64(scale) * float64(d) / float64(scale)
		one = append(one, stats.Cluster{Pass: int64(a.pass), Samples: int64(a.samples)})
		two = append(two, stats.Cluster{Pass: int64(b.pass), Samples: int64(b.samples)})
	})
	p, exact := stats.SignFlip(diffs, s.family, compareSeed)
	v.Difference = estimate(stats.MacroDifference(one, two, s.family, compareSeed))
	v.Test, v.P = TestSignFlipSampled, &p
	if exact {
		v.Test = TestSignFlip
	}
	// The mean square of the differences takes the place of the share that is
	// discordant, of which it is the same thing where samples are one.
	v.Detectable = detectable(v.Common, square/float64(len(diffs)))
}

func detectable(n int64, discordant float64) *float64 {
	d := stats.DetectableDifference(int(n), discordant, compareLevel, comparePower)
	if math.IsInf(d, 0) {
		return nil
	}
	return &d
}

// notes say how the comparison was made.
func (c *Comparison) notes(lost bool) []string {
	if c == nil {
		return nil
	}
	notes := []string{
		"Teachers are compared in pairs on the tasks that both were asked at first hand; answers of a fallback, which was asked because others had failed, are in no rate of the comparison, and in the counts of the tables above it. Failed asks and unknown verdicts count as not passed (intention to treat); bounds say where the rate is if every unknown passed.",
		fmt.Sprintf("With one sample a task: McNemar's exact test and Newcombe's interval (method 10, uncorrected). With several: sign-flip test of the tasks' rates and bootstrap over tasks (%d resamples, seed %d), Wilson at the effective sample size (for differences, variances recovered from it) below 100 tasks or near 0 and 1, and the normal interval over tasks above 5,000, or above fewer where there are many of them to make (each says by which it is). P values are two-sided and adjusted by Holm over the family that is named; a lead is a lead where the adjusted p is below %g.", stats.Resamples, c.Seed, c.Level),
		"\"No difference shown\" is not \"equal\": \"shows from\" is the smallest difference that so many tasks show with a power of 80 %.",
	}
	if c.left > 0 {
		notes = append(notes, fmt.Sprintf("A comparison has room for %s pairs of teachers: the %d domains and efforts with the fewest asks are in that of all tasks alone.", grouped(maxPairs), c.left))
	}
	if lost {
		notes = append(notes, fmt.Sprintf("More than %d domains and efforts: what came later is not in the comparison.", maxCompared))
	}
	return notes
}
