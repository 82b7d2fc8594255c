package report

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// A FitAnswer is what the student said of one accepted answer: how likely it is
// to it, token by token, summed up.
type FitAnswer struct {
	Task    string
	Sample  string // its sample id
	Teacher string
	Domain  string
	Effort  string
	NLL     float64 // sum of the tokens' negative log-likelihoods, in nats
	Tokens  int64   // of the student's tokenizer
	// Why says why it is not known; "" where it is.
	Why string
}

// StudentFit is how likely the teachers' accepted answers are to the student
// before it is trained.
type StudentFit struct {
	Student string           `json:"student" jsonschema:"description=the model that scored"`
	From    string           `json:"from" jsonschema:"description=endpoint or file that the figures are from"`
	Scopes  []FitScope       `json:"scopes" jsonschema:"description=all tasks first and then each domain and effort"`
	Unknown map[string]int64 `json:"unknown,omitempty" jsonschema:"description=answers that could not be scored by reason"`
}

// A FitScope is the fit over some tasks: all, or those of one domain and effort.
type FitScope struct {
	Domain   string    `json:"domain" jsonschema:"description=empty for all tasks"`
	Effort   string    `json:"effort" jsonschema:"description=empty for all tasks"`
	Family   int       `json:"family" jsonschema:"description=tests that Holm's adjustment of these p values is over"`
	Teachers []Fit     `json:"teachers"`
	Pairs    []FitPair `json:"pairs"`
}

// A Fit is one teacher's.
type Fit struct {
	Teacher    string    `json:"teacher"`
	Tasks      int64     `json:"tasks"`
	Answers    int64     `json:"answers" jsonschema:"description=accepted answers that were scored"`
	Tokens     int64     `json:"tokens" jsonschema:"description=of the student's tokenizer"`
	NLL        *Estimate `json:"nll,omitempty" jsonschema:"description=mean negative log-likelihood per token in nats: the sum over all tokens by their number; the interval is over tasks; absent over fewer than two"`
	Perplexity *float64  `json:"perplexity,omitempty" jsonschema:"description=exp of it"`
}

// A FitPair compares two teachers on the tasks of which an answer of both was
// scored.
type FitPair struct {
	A          string    `json:"a"`
	B          string    `json:"b"`
	Common     int64     `json:"common" jsonschema:"description=tasks of which an answer of both was scored"`
	Difference *Estimate `json:"difference,omitempty" jsonschema:"description=mean negative log-likelihood per token of a minus that of b on the common tasks; negative where a is closer to the student"`
	Test       string    `json:"test,omitempty" jsonschema:"description=exchange_sampled: the two are exchanged at random task by task; or student_t of the same variance as the interval: where exchanges would be too many"`
	P          *float64  `json:"p,omitempty" jsonschema:"description=two-sided"`
	PHolm      *float64  `json:"p_holm,omitempty" jsonschema:"description=adjusted over the family"`
	Finding    string    `json:"finding" jsonschema:"description=a or b where it is closer to the student and that survives the adjustment; else no_difference_shown or not_comparable"`
}

// Tests of a difference in student fit.
const (
	TestExchange = "exchange_sampled"
	TestStudent  = "student_t"
)

// MaxFit bounds the answers of which the student's word is kept.
const MaxFit = 1_000_000

// maxNats bounds what one token's likelihood may be: no softmax in any
// precision says less.
const maxNats = 1000

// ErrFit says that there is more than a report takes.
var ErrFit = errors.New("more than 1,000,000 scored answers: report on a part of them")

// A fitting collects what the student said.
type fitting struct {
	student, from string
	rows          []FitAnswer
	unknown       map[string]int64
	kept          map[string]string // one copy of each name
	samples       map[string]bool
}

func (f *fitting) keep(s string) string {
	if f.kept == nil {
		f.kept = map[string]string{}
	}
	if k, ok := f.kept[s]; ok {
		return k
	}
	s = strings.Clone(s)
	f.kept[s] = s
	return s
}

// Check refuses what no model can have said.
func (a *FitAnswer) Check() error {
	switch {
	case a.Why != "":
		return nil
	case math.IsNaN(a.NLL) || math.IsInf(a.NLL, 0):
		return fmt.Errorf("nll %v is no number", a.NLL)
	case a.NLL < 0:
		return fmt.Errorf("nll %v is negative: a log-likelihood is at most 0, and nll is its negative", a.NLL)
	case a.Tokens <= 0:
		return fmt.Errorf("tokens %d: want 1 or more", a.Tokens)
	case a.NLL > maxNats*float64(a.Tokens):
		return fmt.Errorf("nll %v over %d tokens: more than %d nats a token; nll is the sum over the tokens, in nats", a.NLL, a.Tokens, maxNats)
	}
	return nil
}

// SetStudent says who scores and where from. Without it a report has no fit.
func (a *Aggregator) SetStudent(student, from string) { a.fit.student, a.fit.from = student, from }

// AddFit adds what the student said of one accepted answer. Each answer is added
// once; the order decides nothing.
func (a *Aggregator) AddFit(f FitAnswer) error { return a.fit.add(f) }

func (f *fitting) add(one FitAnswer) error {
	if err := one.Check(); err != nil {
		return err
	}
	if one.Why != "" {
		if f.unknown == nil {
			f.unknown = map[string]int64{}
		}
		countName(f.unknown, one.Why)
		return nil
	}
	if len(f.rows) >= MaxFit {
		return ErrFit
	}
	if f.samples == nil {
		f.samples = map[string]bool{}
	}
	if one.Sample != "" {
		if f.samples[one.Sample] {
			return fmt.Errorf("sample %s is scored twice", clean(one.Sample))
		}
		f.samples[strings.Clone(one.Sample)] = true
	}
	one.Task, one.Sample, one.Teacher, one.Domain, one.Effort = bounded(one.Task), "", f.keep(one.Teacher), f.keep(one.Domain), f.keep(one.Effort)
	f.rows = append(f.rows, one)
	return nil
}

// SetStudentFit puts what a student said elsewhere into a report, in the place
// of its own.
func (r *Report) SetStudentFit(student, from string, list []FitAnswer) error {
	f := fitting{student: student, from: from}
	for _, one := range list {
		if err := f.add(one); err != nil {
			return err
		}
	}
	infos := make([]TeacherInfo, len(r.Teachers))
	for i := range r.Teachers {
		infos[i].ID = r.Teachers[i].Teacher
	}
	r.StudentFit = f.report(infos)
	r.Notes = slices.DeleteFunc(r.Notes, func(n string) bool { return n == fitNote })
	r.Notes = append(r.Notes, r.StudentFit.notes()...)
	return nil
}

// report is nil where there is no student.
func (f *fitting) report(infos []TeacherInfo) *StudentFit {
	if f.student == "" {
		return nil
	}
	place := map[string]int{}
	for _, info := range infos {
		place[info.ID] = len(place)
	}
	for _, name := range slices.Sorted(maps.Keys(f.kept)) {
		if _, ok := place[name]; !ok {
			place[name] = len(place)
		}
	}
	rows := slices.Clone(f.rows)
	slices.SortFunc(rows, func(a, b FitAnswer) int {
		return cmp.Or(cmp.Compare(a.Task, b.Task), cmp.Compare(place[a.Teacher], place[b.Teacher]), cmp.Compare(a.NLL, b.NLL), cmp.Compare(a.Tokens, b.Tokens))
	})
	cells := map[cellName][]FitAnswer{}
	for _, row := range rows {
		key := cellName{row.Domain, row.Effort}
		cells[key] = append(cells[key], row)
	}
	out := &StudentFit{Student: f.student, From: f.from, Unknown: maps.Clone(f.unknown), Scopes: []FitScope{}}
	names := slices.SortedFunc(maps.Keys(cells), func(a, b cellName) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.effort, b.effort))
	})
	if len(names) > maxCompared {
		names = names[:maxCompared]
	}
	pairs := max(1, len(infos)*(len(infos)-1)/2)
	out.Scopes = append(out.Scopes, fitScope(cellName{}, rows, place, pairs))
	for _, key := range names {
		out.Scopes = append(out.Scopes, fitScope(key, cells[key], place, pairs*len(names)))
	}
	adjustFit(out.Scopes[:1])
	adjustFit(out.Scopes[1:])
	return out
}

// fitScope is the fit over rows that are sorted by task and teacher.
func fitScope(name cellName, rows []FitAnswer, place map[string]int, family int) FitScope {
	s := FitScope{Domain: name.domain, Effort: name.effort, Teachers: []Fit{}, Pairs: []FitPair{}}
	type byTask struct {
		tasks  []string
		scored []stats.Scored
	}
	all := map[string]*byTask{}
	fits := map[string]*Fit{}
	for _, row := range rows {
		t, f := all[row.Teacher], fits[row.Teacher]
		if t == nil {
			t, f = &byTask{}, &Fit{Teacher: row.Teacher}
			all[row.Teacher], fits[row.Teacher] = t, f
		}
		if n := len(t.tasks); n == 0 || t.tasks[n-1] != row.Task {
			t.tasks, t.scored = append(t.tasks, row.Task), append(t.scored, stats.Scored{})
			f.Tasks++
		}
		last := &t.scored[len(t.scored)-1]
		last.NLL += row.NLL
		last.Tokens += row.Tokens
		f.Answers++
		f.Tokens += row.Tokens
	}
	ids := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(place[a], place[b]) })
	for _, id := range ids {
		f := fits[id]
		if i := stats.MeanNLL(all[id].scored); f.Tokens > 0 {
			f.NLL, f.Perplexity = estimate(i), ref(math.Exp(i.Value))
			if f.NLL != nil {
				f.NLL.Low = max(0, f.NLL.Low)
			}
		}
		s.Teachers = append(s.Teachers, *f)
	}
	for i := range ids {
		for j := i + 1; j < len(ids); j++ {
			a, b := all[ids[i]], all[ids[j]]
			var x, y []stats.Scored
			for m, n := 0, 0; m < len(a.tasks) && n < len(b.tasks); {
				switch c := cmp.Compare(a.tasks[m], b.tasks[n]); {
				case c < 0:
					m++
				case c > 0:
					n++
				default:
					x, y = append(x, a.scored[m]), append(y, b.scored[n])
					m, n = m+1, n+1
				}
			}
			p := FitPair{A: ids[i], B: ids[j], Common: int64(len(x))}
			if len(x) > 1 {
				d, v, exchange := stats.NLLDifference(x, y, family, compareSeed)
				p.Difference, p.P, p.Test = estimate(d), &v, TestStudent
				if exchange {
					p.Test = TestExchange
				}
			}
			s.Pairs = append(s.Pairs, p)
		}
	}
	return s
}

// adjustFit gives the pairs of some scopes, one family, their findings.
func adjustFit(family []FitScope) {
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
			if v.P == nil || v.Difference == nil {
				v.Finding = NotComparable
				if v.P != nil {
					at++
				}
				continue
			}
			v.PHolm = &adjusted[at]
			at++
			switch {
			case *v.PHolm >= compareLevel:
				v.Finding = NoneShown
			case v.Difference.Value < 0:
				v.Finding = FavoursA
			default:
				v.Finding = FavoursB
			}
		}
	}
}
