package diff

import (
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/merge"
)

// compare counts one task.
func (k *comparison) compare(t *task) {
	for _, table := range []string{datasets.TableTrain, datasets.TableTest} {
		if !k.counts[table].identical {
			k.compareRecords(t, table, t.rows)
		}
	}
	if !k.counts[datasets.TablePairs].identical {
		k.compareRecords(t, datasets.TablePairs, t.pairs)
	}
	if !k.counts[datasets.TablePrompts].identical {
		k.comparePrompts(t)
	}
}

// compareRecords counts the rows of a task in one table. all are those of its
// rows in every table of the kind, by which a row that moved is known.
func (k *comparison) compareRecords(t *task, table string, all [2][]record) {
	var left [2][]*record
	old := of(all[0], table)
	for _, b := range of(all[1], table) {
		i := slices.IndexFunc(old, func(a *record) bool { return a.Key == b.Key })
		if i < 0 {
			left[1] = append(left[1], b)
			continue
		}
		k.compareSame(t, table, old[i], b)
		old = slices.Delete(old, i, i+1)
	}
	left[0] = old
	// What moved to the other split is in none of these any more.
	for i := range left {
		left[i] = slices.DeleteFunc(left[i], func(r *record) bool {
			if !slices.ContainsFunc(all[1-i], func(o record) bool { return o.Key == r.Key }) {
				return false
			}
			k.count(table, i, r, t, WhySplit, "")
			return true
		})
	}
	// One answer in the place of another.
	for len(left[0]) > 0 && len(left[1]) > 0 {
		a, b := left[0][0], left[1][0]
		left[0], left[1] = left[0][1:], left[1][1:]
		why, detail := k.whyAbsent(t, 1, a)
		if why == WhyChoice || why == WhyUnknown {
			if came, more := k.whyAbsent(t, 0, b); came != WhyUnknown {
				why, detail = came, more
			}
		}
		k.changed(table, a, b, why, detail)
	}
	for i := range left {
		for _, r := range left[i] {
			why, detail := k.whyAbsent(t, 1-i, r)
			k.count(table, i, r, t, why, detail)
		}
	}
}

func of(rows []record, table string) []*record {
	var out []*record
	for i := range rows {
		if rows[i].Table == table {
			out = append(out, &rows[i])
		}
	}
	return out
}

// compareSame compares two rows of the same sample.
func (k *comparison) compareSame(t *task, table string, a, b *record) {
	fields := a.Rest.differing(b.Rest)
	switch {
	case a.Verdict != b.Verdict:
		k.changed(table, a, b, WhyVerdict, arrow(a.Verdict, b.Verdict))
	case a.Answer != b.Answer:
		k.changed(table, a, b, WhyAnswer, "")
	case fields != "":
		k.changed(table, a, b, WhyFields, fields)
	default:
		k.counts[table].same++
	}
}

func arrow(a, b string) string {
	name := func(s string) string {
		if s == "" {
			return "none"
		}
		return s
	}
	return name(a) + " → " + name(b)
}

// whyAbsent says why a row is not in the table of the version at: by its task,
// its teacher, and what became of the same ask there.
func (k *comparison) whyAbsent(t *task, at int, r *record) (why, detail string) {
	prompts := len(k.sides[at].manifest.TableFiles(datasets.TablePrompts)) > 0
	switch {
	case prompts && len(t.prompts[at]) == 0:
		return WhyPrompt, ""
	case prompts && (t.prompts[at][0].Status == datasets.StatusDuplicate || t.prompts[at][0].Status == datasets.StatusDirty):
		return WhyPromptFilter, t.prompts[at][0].Status
	case !k.candidates[at]:
		return WhyUnknown, ""
	}
	why, detail = k.whyLeft(t, at, r.Sample, r.Teacher, r.Verdict)
	if r.Other != "" && why == WhyChoice { // of a pair: the rejected answer
		if other, more := k.whyLeft(t, at, r.Other, "", ""); other != WhyFilter {
			why, detail = other, more
		}
	}
	return why, detail
}

func (k *comparison) whyLeft(t *task, at int, sample, teacher, verdict string) (why, detail string) {
	i := slices.IndexFunc(t.candidates[at], func(c candidateRow) bool { return c.SampleID == sample })
	if i < 0 {
		if teacher != "" && !k.sides[at].teachers[teacher] {
			return WhyTeacher, teacher
		}
		return WhyNotAsked, ""
	}
	c := &t.candidates[at][i]
	switch {
	case c.Error != nil:
		return WhyFailed, *c.Error
	case teacher != "" && text(c.Verdict) != verdict:
		if at == 1 {
			return WhyVerdict, arrow(verdict, text(c.Verdict))
		}
		return WhyVerdict, arrow(text(c.Verdict), verdict)
	case !c.Accepted:
		return WhyFilter, strings.Join(c.RejectReasons, ", ")
	case c.Unselected != nil && ofMixture(*c.Unselected):
		return WhyMixture, *c.Unselected
	}
	return WhyChoice, text(c.Unselected)
}

func ofMixture(left string) bool {
	return left == merge.LeftMix || left == merge.LeftMixWeight || strings.HasPrefix(left, merge.LeftCapPrefix)
}

// count counts a row that is in one version alone: 0 for out, 1 for in.
func (k *comparison) count(table string, i int, r *record, t *task, why, detail string) {
	e := Example{Table: table, Why: why, Detail: detail, TaskID: r.Task, Prompt: r.Ask}
	if i == 0 {
		e.Change, e.TeacherA, e.SampleA, e.VerdictA, e.AnswerA = Out, r.Teacher, r.Sample, r.Verdict, r.Text
	} else {
		e.Change, e.TeacherB, e.SampleB, e.VerdictB, e.AnswerB = In, r.Teacher, r.Sample, r.Verdict, r.Text
	}
	k.add(e, r.Domain)
}

func (k *comparison) changed(table string, a, b *record, why, detail string) {
	k.add(Example{
		Table: table, Change: Changed, Why: why, Detail: detail, TaskID: b.Task, Prompt: b.Ask,
		TeacherA: a.Teacher, SampleA: a.Sample, VerdictA: a.Verdict, AnswerA: a.Text,
		TeacherB: b.Teacher, SampleB: b.Sample, VerdictB: b.Verdict, AnswerB: b.Text,
	}, b.Domain)
}

// add counts a row by everything that it is counted by.
func (k *comparison) add(e Example, domain string) {
	c := k.counts[e.Table]
	bump := func(t *Tally, change string) {
		switch change {
		case In:
			t.In++
		case Out:
			t.Out++
		default:
			t.Changed++
		}
	}
	bump(&c.sum, e.Change)
	why := [2]string{e.Why, e.Detail}
	if c.why[why] == nil && len(c.why) >= maxReasons {
		why[1] = "others"
	}
	if c.why[why] == nil {
		c.why[why] = &Tally{Name: why[0], Detail: why[1]}
	}
	bump(c.why[why], e.Change)
	bump(named(c.domains, domain), e.Change)
	switch {
	case e.TeacherA != "" && e.TeacherB != "" && e.TeacherA != e.TeacherB:
		bump(named(c.teachers, e.TeacherA), Out)
		bump(named(c.teachers, e.TeacherB), In)
	case e.TeacherA != "":
		bump(named(c.teachers, e.TeacherA), e.Change)
	case e.TeacherB != "":
		bump(named(c.teachers, e.TeacherB), e.Change)
	}
	at := e.Table + " " + e.Why + " " + e.Change
	if k.shown[at] < k.opt.Examples {
		k.shown[at]++
		k.examples = append(k.examples, e)
	}
}

// maxReasons bounds the details that are counted apart: reject reasons come in
// many combinations.
const maxReasons = 200

func named(m map[string]*Tally, name string) *Tally {
	if m[name] == nil {
		m[name] = &Tally{Name: name}
	}
	return m[name]
}

// comparePrompts counts a task in the prompts tables.
func (k *comparison) comparePrompts(t *task) {
	a, b := t.prompts[0], t.prompts[1]
	for len(a) > 0 && len(b) > 0 {
		k.comparePrompt(&a[0], &b[0])
		a, b = a[1:], b[1:]
	}
	for i := range a {
		k.add(Example{Table: datasets.TablePrompts, Change: Out, Why: WhyPrompt, TaskID: t.id, Prompt: a[i].Ask}, a[i].Domain)
	}
	for i := range b {
		k.add(Example{Table: datasets.TablePrompts, Change: In, Why: WhyPrompt, TaskID: t.id, Prompt: b[i].Ask}, b[i].Domain)
	}
}

func (k *comparison) comparePrompt(a, b *promptRecord) {
	e := Example{Table: datasets.TablePrompts, Change: Changed, TaskID: b.Task, Prompt: b.Ask}
	fields := a.Rest.differing(b.Rest)
	switch {
	case a.Status != b.Status:
		e.Why, e.Detail = WhyPromptFilter, arrow(a.Status, b.Status)
		if a.Status == datasets.StatusUnanswered || b.Status == datasets.StatusUnanswered {
			e.Why = WhyFailed
		}
	case a.Split != b.Split:
		e.Why, e.Detail = WhySplit, arrow(a.Split, b.Split)
	case a.Route != b.Route:
		e.Why, e.Detail = WhyRoute, arrow(a.Route, b.Route)
	case fields != "":
		e.Why, e.Detail = WhyFields, fields
	default:
		k.counts[datasets.TablePrompts].same++
		return
	}
	k.add(e, b.Domain)
}
