package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// A Preference is what a judge said of two teachers' answers to one task.
type Preference struct {
	Task  string // judgements of one task are not independent of each other
	Judge string
	// A and B are the teachers. They may be one and the same, as where a
	// baseline is compared with itself.
	A, B string
	// Answers names the two answers where a teacher has several to one task.
	Answers string
	// Win is how sure the judge is that A's answer is better: 1 it is, 0 B's is,
	// 0.5 a tie.
	Win float64
	// Longer is the length of A's answer minus that of B's, in code points; nil
	// where it is not known.
	Longer *float64
	// Flipped says that the judge's outcome changed when the answers changed places;
	// nil where it read them in one order only.
	Flipped *bool
	// SameFamily says that the judge is of the family of A or B.
	SameFamily bool
}

// Preferences are what judges prefer.
type Preferences struct {
	Judges    []JudgePreferences `json:"judges" jsonschema:"description=by name"`
	Agreement []JudgeAgreement   `json:"agreement,omitempty" jsonschema:"description=between judges and with the verifier; on what both said something of"`
	Fleiss    *float64           `json:"fleiss,omitempty" jsonschema:"description=kappa of all judges over the comparisons that all of them judged"`
	Alpha     *float64           `json:"krippendorff,omitempty" jsonschema:"description=alpha of all judges over all comparisons; nominal; judges may be missing"`
}

// JudgePreferences are one judge's.
type JudgePreferences struct {
	Judge       string    `json:"judge"`
	Comparisons int64     `json:"comparisons"`
	Flipped     *float64  `json:"position_flip_rate,omitempty" jsonschema:"description=share of the comparisons read in both orders whose outcome was another once the answers changed places"`
	SameFamily  int64     `json:"same_family,omitempty" jsonschema:"description=comparisons of an answer by a model of the judge's own family"`
	Matches     []Matches `json:"matches" jsonschema:"description=by pair of teachers"`
	Ratings     []Rating  `json:"ratings,omitempty" jsonschema:"description=Bradley-Terry strengths; natural logarithm; mean 0; a tie is half a win of each; absent where they are undefined"`
	Undefined   string    `json:"ratings_undefined,omitempty" jsonschema:"description=why there are no ratings"`

	RatingsNoTies   []Rating `json:"ratings_ties_dropped,omitempty" jsonschema:"description=the same without the comparisons that are ties; absent where they are undefined"`
	UndefinedNoTies string   `json:"ratings_ties_dropped_undefined,omitempty" jsonschema:"description=why there are no ratings without the ties"`
}

// Matches are the comparisons of one teacher with another.
type Matches struct {
	Teacher       string    `json:"teacher"`
	Against       string    `json:"against"`
	Comparisons   int64     `json:"comparisons"`
	WinRate       float64   `json:"win_rate" jsonschema:"description=mean preference; ties at a half"`
	StandardError *float64  `json:"standard_error,omitempty" jsonschema:"description=n-1 in the denominator"`
	Wins          int64     `json:"wins"`
	Losses        int64     `json:"losses"`
	Draws         int64     `json:"draws"`
	Controlled    *Estimate `json:"length_controlled,omitempty" jsonschema:"description=win rate at equal length by a logistic model over tanh of the standardised difference of lengths; not AlpacaEval's figure; absent where lengths are not known or the model has no finite fit"`
}

// A Rating is a Bradley-Terry strength with its 95 % interval, whose standard
// error is robust to several comparisons of one task.
type Rating struct {
	Teacher string  `json:"teacher"`
	Value   float64 `json:"value"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// A JudgeAgreement is how far two judges agree: on a's answer being better, b's
// being better, or a tie.
type JudgeAgreement struct {
	A           string   `json:"a"`
	B           string   `json:"b" jsonschema:"description=a judge or the word verifier"`
	Comparisons int64    `json:"comparisons"`
	Agreed      float64  `json:"agreed" jsonschema:"description=share that both judge alike"`
	Cohen       *float64 `json:"cohen,omitempty" jsonschema:"description=kappa; absent where it is undefined"`
}

// Verifier is the name of the judge that the verifier is taken for: where one of
// two answers passes and the other fails it prefers that one.
const Verifier = "verifier"

// MaxPreferences bounds the judgements that are kept.
const MaxPreferences = 4_000_000

// ErrPreferences says that there are more judgements than a report takes.
var ErrPreferences = errors.New("more than 4,000,000 judgements: report on a part of them")

// A jury collects judgements.
type jury struct {
	list []Preference
	kept map[string]string // one copy of each name
}

// AddPreference adds one judgement.
func (a *Aggregator) AddPreference(p Preference) error {
	if len(a.jury.list) >= MaxPreferences {
		return ErrPreferences
	}
	if p.Win < 0 || p.Win > 1 || math.IsNaN(p.Win) {
		return fmt.Errorf("a preference of %v; it must be between 0 and 1", p.Win)
	}
	p.Task, p.Answers = bounded(p.Task), bounded(p.Answers)
	p.Judge, p.A, p.B = a.jury.keep(p.Judge), a.jury.keep(p.A), a.jury.keep(p.B)
	a.jury.list = append(a.jury.list, p)
	return nil
}

// longestTask is how long a task's name may be that is kept as it is: where a
// file of judgements names none, it is the whole instruction.
const longestTask = 80

// bounded is a name to be told from others by, in a copy of its own.
func bounded(name string) string {
	if len(name) <= longestTask {
		return strings.Clone(name)
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (j *jury) keep(name string) string {
	if j.kept == nil {
		j.kept = map[string]string{}
	}
	if s, ok := j.kept[name]; ok {
		return s
	}
	s := strings.Clone(name)
	j.kept[s] = s
	return s
}

// outcome is a Win as what was said: 0 a is better, 1 b is, 2 a tie.
func outcome(win float64) int {
	switch {
	case win > 0.5:
		return 0
	case win < 0.5:
		return 1
	}
	return 2
}

// preferences is nil where nobody judged. Teachers are in the order of infos.
func (j *jury) preferences(infos []TeacherInfo) *Preferences {
	if len(j.list) == 0 {
		return nil
	}
	place := map[string]int{}
	for _, info := range infos {
		place[info.ID] = len(place)
	}
	for _, name := range slices.Sorted(maps.Keys(j.kept)) {
		if _, ok := place[name]; !ok {
			place[name] = len(place)
		}
	}
	by := map[string][]Preference{}
	for _, p := range j.list {
		by[p.Judge] = append(by[p.Judge], p)
	}
	out := &Preferences{}
	judges := slices.Sorted(maps.Keys(by))
	for _, judge := range judges {
		if judge != Verifier {
			out.Judges = append(out.Judges, preferencesOf(judge, by[judge], place))
		}
	}
	j.agree(out, judges)
	return out
}

// matchKey is a pair of teachers in the order of the report; a baseline that is
// compared in one order only keeps it.
type matchKey struct{ teacher, against string }

func preferencesOf(judge string, list []Preference, place map[string]int) JudgePreferences {
	out := JudgePreferences{Judge: judge, Comparisons: int64(len(list))}
	// Task by task, so that the figures do not depend on the order of rows.
	list = slices.Clone(list)
	slices.SortFunc(list, comparePreferences)
	var read, flipped int64
	matches := map[matchKey][]stats.Match{}
	known := map[matchKey]bool{} // all lengths are
	for _, p := range list {
		key, m := matchKey{p.A, p.B}, stats.Match{Preference: p.Win}
		if p.Longer != nil {
			m.Longer = *p.Longer
		}
		if place[p.A] > place[p.B] {
			key, m = matchKey{p.B, p.A}, stats.Match{Preference: 1 - p.Win, Longer: -m.Longer}
		}
		if _, ok := matches[key]; !ok {
			known[key] = true
		}
		matches[key] = append(matches[key], m)
		known[key] = known[key] && p.Longer != nil
		if p.Flipped != nil {
			read++
			if *p.Flipped {
				flipped++
			}
		}
		if p.SameFamily {
			out.SameFamily++
		}
	}
	if read > 0 {
		out.Flipped = ref(float64(flipped) / float64(read))
	}
	keys := slices.SortedFunc(maps.Keys(matches), func(a, b matchKey) int {
		return cmp.Or(cmp.Compare(place[a.teacher], place[b.teacher]), cmp.Compare(place[a.against], place[b.against]))
	})
	for _, key := range keys {
		out.Matches = append(out.Matches, matchesOf(key, matches[key], known[key]))
	}
	out.rate(list, place)
	return out
}

// comparePreferences orders judgements by what figures are of.
func comparePreferences(a, b Preference) int {
	return cmp.Or(
		cmp.Compare(a.Task, b.Task), cmp.Compare(a.A, b.A), cmp.Compare(a.B, b.B), cmp.Compare(a.Answers, b.Answers),
		cmp.Compare(a.Judge, b.Judge), cmp.Compare(a.Win, b.Win), cmp.Compare(longer(&a), longer(&b)))
}

func longer(p *Preference) float64 {
	if p.Longer == nil {
		return 0
	}
	return *p.Longer
}

func matchesOf(key matchKey, list []stats.Match, known bool) Matches {
	w := stats.WinRateOf(list)
	m := Matches{
		Teacher: key.teacher, Against: key.against, Comparisons: int64(len(list)),
		WinRate: w.Rate, Wins: w.Wins, Losses: w.Losses, Draws: w.Draws,
	}
	if !math.IsNaN(w.SE) {
		m.StandardError = &w.SE
	}
	if known {
		if rate, lo, hi, ok := stats.LengthControlled(list); ok {
			m.Controlled = &Estimate{rate, lo, hi, "robust_logit"}
		}
	}
	return m
}

// agree compares the judges on the comparisons that they share.
func (j *jury) agree(out *Preferences, judges []string) {
	if len(judges) < 2 {
		return
	}
	type comparison struct{ task, answers, a, b string }
	said := map[comparison][]verdicts{} // by judge
	number := map[string]int{}
	for i, judge := range judges {
		number[judge] = i
	}
	for _, p := range j.list {
		key, win := comparison{p.Task, p.Answers, p.A, p.B}, p.Win
		if p.A > p.B {
			key, win = comparison{p.Task, p.Answers, p.B, p.A}, 1-p.Win
		}
		if said[key] == nil {
			said[key] = make([]verdicts, len(judges))
		}
		said[key][number[p.Judge]].add(outcome(win))
	}
	items := make([][]int, 0, len(said)) // by judge: 1 + outcome; 0 nothing
	for _, of := range said {
		item := make([]int, len(judges))
		for i := range of {
			item[i] = of[i].most()
		}
		items = append(items, item)
	}
	// Of a map in no order, into one: sums of floats depend on it.
	slices.SortFunc(items, slices.Compare[[]int])
	for x := range judges {
		for y := x + 1; y < len(judges); y++ {
			table := [][]int64{{0, 0, 0}, {0, 0, 0}, {0, 0, 0}}
			var n, same int64
			for _, s := range items {
				if s[x] > 0 && s[y] > 0 {
					table[s[x]-1][s[y]-1]++
					n++
					if s[x] == s[y] {
						same++
					}
				}
			}
			if n > 0 {
				out.Agreement = append(out.Agreement, JudgeAgreement{judges[x], judges[y], n, float64(same) / float64(n), finite(stats.Cohen(table))})
			}
		}
	}
	var all, some [][]int64
	for _, s := range items {
		counts := make([]int64, 3)
		n := 0
		for i, o := range s {
			if o > 0 && judges[i] != Verifier {
				counts[o-1]++
				n++
			}
		}
		some = append(some, counts)
		if n == len(out.Judges) {
			all = append(all, counts)
		}
	}
	if len(out.Judges) > 1 {
		out.Fleiss, out.Alpha = finite(stats.Fleiss(all)), finite(stats.Krippendorff(some))
	}
}

// verdicts count what one judge said of one comparison, by outcome: it may have
// been asked more than once.
type verdicts [3]int64

func (v *verdicts) add(outcome int) { v[outcome]++ }

// most is 1 and what it said most often, a tie where nothing is; 0 for nothing.
func (v *verdicts) most() int {
	switch a, b, tie := v[0], v[1], v[2]; {
	case a+b+tie == 0:
		return 0
	case a > b && a > tie:
		return 1
	case b > a && b > tie:
		return 2
	}
	return 3
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// SetPreferences puts judgements that were made elsewhere into a report, in the
// place of its own.
func (r *Report) SetPreferences(list []Preference) error {
	infos := make([]TeacherInfo, len(r.Teachers))
	for i := range r.Teachers {
		infos[i].ID = r.Teachers[i].Teacher
	}
	a := New(infos)
	for _, p := range list {
		if err := a.AddPreference(p); err != nil {
			return err
		}
	}
	r.Preferences = a.jury.preferences(infos)
	return nil
}

// PreferenceOf is a stored judgement as a preference; ok is false where it says
// nothing. Lengths are those of the two answers, in code points.
func PreferenceOf(j *datasets.Judgement, lengthA, lengthB *int64, sameFamily bool) (p Preference, ok bool) {
	p = Preference{
		Task: j.TaskID, Judge: j.Judge, A: j.TeacherA, B: j.TeacherB, SameFamily: sameFamily,
		Answers: min(j.SampleA, j.SampleB) + " " + max(j.SampleA, j.SampleB),
	}
	switch j.Outcome {
	case datasets.JudgedA:
		p.Win = 1
	case datasets.JudgedB:
		p.Win = 0
	case datasets.JudgedTie:
		p.Win = 0.5
	default:
		return p, false
	}
	if lengthA != nil && lengthB != nil {
		p.Longer = ref(float64(*lengthA - *lengthB))
	}
	if j.AFirst != "" && j.BFirst != "" && j.AFirst != datasets.Unknown && j.BFirst != datasets.Unknown {
		p.Flipped = ref(j.AFirst != j.BFirst)
	}
	return p, true
}
