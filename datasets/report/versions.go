package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/invopop/jsonschema"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// A VersionInfo is a version as a comparison of several names it.
type VersionInfo struct {
	Ref       string    `json:"ref" jsonschema:"description=such as maths@3"`
	Dataset   string    `json:"dataset"`
	Number    int64     `json:"version"`
	Published time.Time `json:"published"`
	// Checks name the verifiers that judged, with versions and options.
	Checks []string `json:"checks,omitempty" jsonschema:"description=verifiers that judged its answers; where they differ so may verdicts of one answer"`
	// Conditions are what the version's costs and durations are of.
	Conditions *Conditions `json:"conditions,omitempty" jsonschema:"description=what its costs and durations are of; absent where that was not recorded"`
}

// Versions compares the teachers of several versions: what each version's own
// comparison says beside the others', one teacher in two versions on common
// tasks, and different teachers of different versions on common prompts.
type Versions struct {
	FormatVersion int              `json:"format_version" jsonschema:"description=rises only when a field changes its meaning"`
	Seed          uint64           `json:"seed" jsonschema:"description=of everything here that is drawn by chance"`
	Level         float64          `json:"level" jsonschema:"description=chance of any false finding in a family of tests"`
	Versions      []VersionFigures `json:"versions" jsonschema:"description=in the order in which they were named"`
	// Same is one teacher in two versions.
	Same       []Across `json:"same" jsonschema:"description=one teacher in two versions; on the tasks that it was asked at first hand in both"`
	SameFamily int      `json:"same_family" jsonschema:"description=tests of same that Holm's adjustment is over: of passes and lengths and reasoning"`
	Different  []Across `json:"different" jsonschema:"description=different teachers of different versions; on the prompts that both were asked at first hand: at whatever domain and effort"`
	// DifferentFamily counts tests of passes alone: that others answer at other
	// lengths is no finding.
	DifferentFamily int      `json:"different_family" jsonschema:"description=tests of different that Holm's adjustment is over"`
	Notes           []string `json:"notes"`
}

// VersionFigures are the figures of one version's teachers.
type VersionFigures struct {
	VersionInfo
	Tasks    int64     `json:"tasks" jsonschema:"description=tasks that any teacher was asked at first hand"`
	Teachers []Teacher `json:"teachers" jsonschema:"description=as the version's own comparison has them"`
}

// Across compares two teachers of two versions.
type Across struct {
	AVersion string `json:"a_version"`
	ATeacher string `json:"a_teacher"`
	AModel   string `json:"a_model,omitempty"`
	BVersion string `json:"b_version"`
	BTeacher string `json:"b_teacher"`
	BModel   string `json:"b_model,omitempty"`
	Unit     string `json:"unit" jsonschema:"description=what common counts: tasks or prompts"`
	// Reused are those of the common tasks on which nothing was asked anew.
	Reused int64 `json:"reused" jsonschema:"description=common tasks whose answers are the very same ones in both versions; only where one teacher is compared with itself. They differ in verdicts at most and decide no test"`
	Versus
	Length    *LengthShift `json:"length,omitempty" jsonschema:"description=of answers in code points; mean over the samples of a task; absent for different teachers"`
	Reasoning *LengthShift `json:"reasoning,omitempty" jsonschema:"description=of reasoning in tokens where the endpoint counted them in both and else in code points; absent where neither is known"`
	Models    []DriftName  `json:"models,omitempty" jsonschema:"description=common tasks that were asked anew by the models that answered; where both are known"`
	Systems   []DriftName  `json:"fingerprints,omitempty" jsonschema:"description=the same by the fingerprints of the systems that answered"`
}

// A LengthShift compares lengths in pairs.
type LengthShift struct {
	Unit    string   `json:"unit" jsonschema:"description=code_points or tokens"`
	Tasks   int64    `json:"tasks" jsonschema:"description=common tasks where both lengths are known"`
	A       float64  `json:"a" jsonschema:"description=mean over these tasks"`
	B       float64  `json:"b"`
	Longer  int64    `json:"longer" jsonschema:"description=tasks where it is longer in b"`
	Shorter int64    `json:"shorter"`
	P       float64  `json:"p" jsonschema:"description=exact sign test of longer against shorter; two-sided"`
	PHolm   *float64 `json:"p_holm,omitempty" jsonschema:"description=adjusted over the family"`
}

const (
	unitTasks   = "tasks"
	unitPrompts = "prompts"
	// MaxVersions bounds the versions of one comparison: pairs grow with their
	// square.
	MaxVersions = 16
	// maxModels bounds the names of models and systems that are told apart.
	maxModels = 1000
)

// A VersionsAggregator collects the candidates of several versions. It keeps of
// each task and teacher some 100 bytes. It is not safe for use by several
// goroutines.
type VersionsAggregator struct {
	versions []*versionRows
	names    map[string]uint16 // of models and systems
	list     []string
}

// A versionRows is one version at work.
type versionRows struct {
	info     VersionInfo
	figures  []Teacher
	teachers []string
	by       map[string]*acrossRows
	last     string
	task     uint64
	prompt   uint64
	tasks    int64
}

type acrossRows struct {
	id    string
	model string
	rows  []acrossRow
}

// A counted is the verdicts of all samples of one teacher for one task or
// prompt, by a hash of its id.
type counted struct {
	id                           uint64
	samples, pass, fail, unknown uint16
	errored                      uint16
}

// row is what the comparison of two teachers takes.
func (c *counted) row() gridRow {
	return gridRow{task: c.id, samples: c.samples, pass: c.pass, fail: c.fail, unknown: c.unknown, errored: c.errored}
}

// An acrossRow is all samples of one teacher for one task. There are as many as
// tasks, so that it is small.
type acrossRow struct {
	counted
	prompt        uint64
	answers       uint64 // which they are, in any order
	length        lengthSum
	thought       lengthSum
	tokens        lengthSum // of the reasoning
	model, system uint16    // of the first answer; 0 where it does not say
}

// A lengthSum is of up to 65,535 samples; lengths beyond four billion stay
// there.
type lengthSum struct {
	sum uint32
	n   uint16
}

func (l *lengthSum) add(v int64) {
	l.sum = uint32(min(int64(l.sum)+min(v, math.MaxUint32), math.MaxUint32))
	l.n++
}

func (l lengthSum) mean() float64 { return float64(l.sum) / float64(l.n) }

// NewVersions makes an aggregator.
func NewVersions() *VersionsAggregator {
	return &VersionsAggregator{names: map[string]uint16{"": 0}, list: []string{""}}
}

// Begin starts a version with the figures of its own comparison: what is added
// from here on is of this one.
func (a *VersionsAggregator) Begin(info VersionInfo, figures []Teacher) {
	a.versions = append(a.versions, &versionRows{info: info, figures: figures, by: map[string]*acrossRows{}})
}

// Add counts a candidate of the version that was begun last. It keeps nothing of
// it but numbers. Candidates of one task are to follow each other; the order of
// tasks decides nothing.
func (a *VersionsAggregator) Add(c *datasets.Candidate) {
	v := a.versions[len(a.versions)-1]
	if !firstHand(c) || !answerable(c) {
		return
	}
	// Those after it were asked because those before did not pass.
	if of := v.info.Conditions; of != nil && of.Least > 0 && int(c.SampleIndex) >= of.Least {
		return
	}
	if c.TaskID != v.last || v.tasks == 0 {
		v.last = strings.Clone(c.TaskID)
		v.tasks++
		v.task, v.prompt = hashOf(c.TaskID), hashOf(c.PromptID)
	}
	t := v.by[c.Teacher]
	if t == nil {
		t = &acrossRows{id: strings.Clone(c.Teacher), model: strings.Clone(c.ModelAsked)}
		v.by[t.id] = t
		v.teachers = append(v.teachers, t.id)
	}
	if n := len(t.rows); n == 0 || t.rows[n-1].id != v.task {
		t.rows = append(t.rows, acrossRow{counted: counted{id: v.task}, prompt: v.prompt})
	}
	t.rows[len(t.rows)-1].add(a, c)
}

func (r *acrossRow) add(a *VersionsAggregator, c *datasets.Candidate) {
	if r.samples == 1<<16-1 {
		return
	}
	r.samples++
	r.answers += hashOf(c.AskID)
	switch {
	case c.Error != nil:
		r.errored++
		return
	case c.Verdict == nil:
	case *c.Verdict == datasets.Pass:
		r.pass++
	case *c.Verdict == datasets.Fail:
		r.fail++
	default:
		r.unknown++
	}
	if c.ReasoningTokens != nil {
		r.tokens.add(known(c.ReasoningTokens))
	}
	if m := c.Answer(); m != nil {
		r.length.add(int64(utf8.RuneCountInString(c.Content())))
		if m.ReasoningContent != nil {
			r.thought.add(int64(utf8.RuneCountInString(*m.ReasoningContent)))
		}
	}
	if r.model == 0 && c.ModelAnswered != nil {
		r.model = a.number(*c.ModelAnswered)
	}
	if r.system == 0 && c.Fingerprint != nil {
		r.system = a.number(*c.Fingerprint)
	}
}

// number interns a name; what comes too late is [Other].
func (a *VersionsAggregator) number(name string) uint16 {
	n, ok := a.names[name]
	if ok {
		return n
	}
	if len(a.list) >= maxModels {
		name = Other
		if n, ok := a.names[name]; ok {
			return n
		}
	}
	n = uint16(len(a.list))
	a.list = append(a.list, strings.Clone(name))
	a.names[a.list[n]] = n
	return n
}

func hashOf(s string) uint64 {
	sum := sha256.Sum256([]byte(s))
	return binary.BigEndian.Uint64(sum[:])
}

// A contender is a teacher of a version.
type contender struct {
	version *versionRows
	rows    *acrossRows
	tasks   []acrossRow // by task
	prompts []counted   // by prompt
}

// Report compares what was added.
func (a *VersionsAggregator) Report() *Versions {
	r := &Versions{FormatVersion: FormatVersion, Seed: compareSeed, Level: compareLevel, Versions: []VersionFigures{}, Same: []Across{}, Different: []Across{}}
	var all []*contender
	for _, v := range a.versions {
		f := VersionFigures{VersionInfo: v.info, Tasks: v.tasks, Teachers: v.figures}
		if f.Teachers == nil {
			f.Teachers = []Teacher{}
		}
		r.Versions = append(r.Versions, f)
		for _, id := range v.order() {
			all = append(all, newContender(v, v.by[id]))
		}
	}
	left := 0
	for i, x := range all {
		for _, y := range all[i+1:] {
			switch {
			case x.version == y.version:
			case len(r.Same)+len(r.Different) >= maxPairs:
				left++
			case x.rows.id == y.rows.id:
				r.Same = append(r.Same, a.across(x, y, len(all)))
			default:
				r.Different = append(r.Different, a.across(x, y, len(all)*len(all)/2))
			}
		}
	}
	slices.SortStableFunc(r.Same, func(x, y Across) int { return cmp.Compare(place(all, x.ATeacher), place(all, y.ATeacher)) })
	r.SameFamily, r.DifferentFamily = adjustAcross(r.Same), adjustAcross(r.Different)
	r.Notes = r.notes(left)
	return r
}

// place keeps teachers in the order in which they first come.
func place(all []*contender, teacher string) int {
	return slices.IndexFunc(all, func(c *contender) bool { return c.rows.id == teacher })
}

// order is the version's teachers as its own comparison lists them, and then
// those that only candidates name.
func (v *versionRows) order() []string {
	var out []string
	listed := map[string]bool{}
	for i := range v.figures {
		if id := v.figures[i].Teacher; v.by[id] != nil && !listed[id] {
			listed[id] = true
			out = append(out, id)
		}
	}
	rest := slices.DeleteFunc(slices.Clone(v.teachers), func(id string) bool { return listed[id] })
	slices.Sort(rest)
	return append(out, rest...)
}

func newContender(v *versionRows, t *acrossRows) *contender {
	c := &contender{version: v, rows: t, tasks: t.rows, prompts: make([]counted, len(t.rows))}
	slices.SortFunc(c.tasks, func(a, b acrossRow) int { return cmp.Compare(a.id, b.id) })
	for i := range c.tasks {
		c.prompts[i] = c.tasks[i].counted
		c.prompts[i].id = c.tasks[i].prompt
	}
	slices.SortFunc(c.prompts, func(a, b counted) int { return cmp.Compare(a.id, b.id) })
	c.prompts = joined(c.prompts)
	return c
}

// joined makes one row of those of one prompt.
func joined(rows []counted) []counted {
	out := rows[:0]
	for _, row := range rows {
		n := len(out)
		if n == 0 || out[n-1].id != row.id || int(out[n-1].samples)+int(row.samples) >= 1<<16 {
			out = append(out, row)
			continue
		}
		one := &out[n-1]
		one.samples += row.samples
		one.pass += row.pass
		one.fail += row.fail
		one.unknown += row.unknown
		one.errored += row.errored
	}
	return out
}

// label names a teacher of a version.
func label(teacher, ref string) string { return teacher + " " + ref }

// across compares two teachers; family is how many tests there may be.
func (a *VersionsAggregator) across(x, y *contender, family int) Across {
	out := Across{
		AVersion: x.version.info.Ref, ATeacher: x.rows.id, AModel: x.rows.model,
		BVersion: y.version.info.Ref, BTeacher: y.rows.id, BModel: y.rows.model, Unit: unitPrompts,
	}
	same := x.rows.id == y.rows.id
	s := &scoped{ids: []string{label(x.rows.id, x.version.info.Ref), label(y.rows.id, y.version.info.Ref)}, infos: make([]TeacherInfo, 2), family: family, rows: make([][]gridRow, 2)}
	var length, thought, tokens shift
	models, systems := map[DriftName]int64{}, map[DriftName]int64{}
	take := func(p, q *counted) {
		s.rows[0], s.rows[1] = append(s.rows[0], p.row()), append(s.rows[1], q.row())
	}
	if !same {
		commonOf(x.prompts, y.prompts, func(c *counted) uint64 { return c.id }, take)
		out.Versus = s.versus(0, 1)
		return out
	}
	out.Unit = unitTasks
	commonOf(x.tasks, y.tasks, func(r *acrossRow) uint64 { return r.id }, func(p, q *acrossRow) {
		take(&p.counted, &q.counted)
		// An ask that failed is made anew by the next build.
		if p.answers == q.answers && p.samples == q.samples && p.errored+q.errored == 0 {
			out.Reused++
		} else {
			countNames(models, a.list[p.model], a.list[q.model])
			countNames(systems, a.list[p.system], a.list[q.system])
		}
		length.add(p.length, q.length)
		thought.add(p.thought, q.thought)
		tokens.add(p.tokens, q.tokens)
	})
	out.Versus = s.versus(0, 1)
	out.Length = length.told("code_points")
	if out.Reasoning = tokens.told("tokens"); out.Reasoning == nil {
		out.Reasoning = thought.told("code_points")
	}
	out.Models, out.Systems = listNames(models), listNames(systems)
	return out
}

// commonOf visits what two sorted lists have of one id.
func commonOf[T any](a, b []T, id func(*T) uint64, visit func(p, q *T)) {
	for x, y := 0, 0; x < len(a) && y < len(b); {
		switch i, j := id(&a[x]), id(&b[y]); {
		case i < j:
			x++
		case i > j:
			y++
		default:
			visit(&a[x], &b[y])
			x++
			y++
		}
	}
}

// A shift compares mean lengths in pairs.
type shift struct {
	tasks, longer, shorter int64
	a, b                   float64
}

func (s *shift) add(a, b lengthSum) {
	if a.n == 0 || b.n == 0 {
		return
	}
	s.tasks++
	s.a += a.mean()
	s.b += b.mean()
	// In whole numbers: two means that are equal must be so.
	left, right := int64(a.sum)*int64(b.n), int64(b.sum)*int64(a.n)
	s.longer += count(right > left)
	s.shorter += count(right < left)
}

func (s *shift) told(unit string) *LengthShift {
	if s.tasks == 0 {
		return nil
	}
	n := float64(s.tasks)
	return &LengthShift{Unit: unit, Tasks: s.tasks, A: s.a / n, B: s.b / n, Longer: s.longer, Shorter: s.shorter, P: stats.McNemar(s.longer, s.shorter)}
}

// adjustAcross adjusts all tests of a list, one family, and gives its size.
func adjustAcross(list []Across) int {
	var p []float64
	var adjusted []**float64
	for i := range list {
		x := &list[i]
		if x.P != nil {
			p, adjusted = append(p, *x.P), append(adjusted, &x.PHolm)
		}
		for _, s := range []*LengthShift{x.Length, x.Reasoning} {
			if s != nil {
				p, adjusted = append(p, s.P), append(adjusted, &s.PHolm)
			}
		}
	}
	for i, v := range stats.Holm(p) {
		*adjusted[i] = &v
	}
	for i := range list {
		x := &list[i]
		switch {
		case x.P == nil:
			x.Finding = NotComparable
		case *x.PHolm >= compareLevel:
			x.Finding = NoneShown
		case x.Difference.Value > 0:
			x.Finding = FavoursA
		default:
			x.Finding = FavoursB
		}
	}
	return len(p)
}

// notes say how the comparison was made.
func (r *Versions) notes(left int) []string {
	notes := []string{
		"One teacher in two versions is compared on the tasks (prompt, domain and effort) that it was asked at first hand in both, different teachers of different versions on the prompts that both were asked at first hand, with all their samples at any effort. Failed asks and unknown verdicts count as not passed. Teachers of one version are compared in that version's own comparison.",
		"Passes by McNemar's exact test with Newcombe's interval where each has one sample, else by sign flips over tasks with an interval over tasks; lengths by the exact sign test. P values are two-sided and adjusted by Holm: all tests of one teacher in two versions (passes, lengths, reasoning) are one family, all tests of different teachers another. \"No difference shown\" is not \"equal\".",
		"Answers that two versions share were bought once and are the same in both: they can differ in their verdict alone, and the more there are, the smaller a difference of the rates is. What a teacher answers today shows only where it was asked anew.",
	}
	first := r.Versions
	for i := 1; i < len(first); i++ {
		if !slices.Equal(first[0].Checks, first[i].Checks) {
			notes = append(notes, fmt.Sprintf("The answers of %s and of %s were checked by different means (%s; %s): a verdict of one answer may differ for that alone.",
				clean(first[0].Ref), clean(first[i].Ref), checksWords(first[0].Checks), checksWords(first[i].Checks)))
		}
	}
	if left > 0 {
		notes = append(notes, fmt.Sprintf("A comparison has room for %s pairs: %s are left out.", grouped(maxPairs), grouped(int64(left))))
	}
	return notes
}

func checksWords(checks []string) string {
	if len(checks) == 0 {
		return "none"
	}
	return clean(strings.Join(checks, ", "))
}

// VersionsSchema is the JSON Schema of a comparison of several versions.
func VersionsSchema() ([]byte, error) {
	r := jsonschema.Reflector{AllowAdditionalProperties: true}
	s := r.Reflect(&Versions{})
	s.ID = "https://stillhouse-data.github.io/schema/versions.schema.json"
	s.Title = "Teachers of several versions"
	s.Description = "The teachers' figures of several versions side by side, one teacher in two versions on common tasks, and different teachers of different versions on common prompts."
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// JSON writes the comparison.
func (r *Versions) JSON(w io.Writer) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}
