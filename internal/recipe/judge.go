package recipe

import (
	"fmt"
	"math"
	"path"
	"slices"
	"strings"
)

// Verifiers that ask a teacher what it thinks of an answer. They cost money, and
// see only what the free ones have left.
const (
	VerifierJudge  = "judge"
	VerifierReward = "reward"
)

// Modes of a judge.
const (
	JudgeScore    = "score"    // a number on a scale, by the rubric
	JudgePairwise = "pairwise" // against the gold answer, in both orders
)

// What a judge's tie with the reference means.
const (
	TiesPass    = "pass"
	TiesFail    = "fail"
	TiesUnknown = "unknown"
)

// RewardForms are the wire forms of scoring endpoints.
var RewardForms = []string{"vllm-score", "vllm-pooling", "vllm-classify", "tei-rerank"}

// Bounds of what a recipe may ask of judges.
const (
	MaxRubric   = 64 << 10 // bytes
	maxOpinions = 16       // of one judge on one answer
)

// A Judging is a judge or a reward verifier as a recipe has it.
type Judging struct {
	Verifier string // VerifierJudge or VerifierReward
	Teacher  string // that is asked
	Effort   string // whose parameters it is asked with

	// Of a judge.
	Rubric   string // its text; "" where it is a file
	File     string // relative to the recipe's folder
	Mode     string
	Samples  int // opinions on each answer
	Min, Max float64
	Ties     string // what a tie with the reference means
	Guard    bool   // an answer that speaks to its judge never passes

	// Of a reward model.
	Form   string
	Class  int
	Params map[string]any

	PassAt *float64 // least score that passes; nil: see Threshold
}

// Paid tells whether a verifier asks a teacher.
func Paid(verifier string) bool { return verifier == VerifierJudge || verifier == VerifierReward }

// Threshold is the least score that passes: what the recipe says, or for a judge
// two thirds of the way up its scale (7 of 1 to 10). The scale of a reward model
// is its own: without pass_at every score that it gives passes.
func (j *Judging) Threshold() (least float64, declared bool) {
	switch {
	case j.PassAt != nil:
		return *j.PassAt, true
	case j.Verifier == VerifierJudge:
		return j.Min + (j.Max-j.Min)*2/3, true
	}
	return math.Inf(-1), false
}

// A judgingFault is what is wrong with one option; key is "" for all together.
type judgingFault struct{ key, msg, hint string }

// Judging reads the options of a judge or a reward verifier.
func (c *Check) Judging() (*Judging, error) {
	j, faults := readJudging(c)
	if len(faults) > 0 {
		f := faults[0]
		return nil, fmt.Errorf("%s: %s %s; %s", c.Verifier, f.key, f.msg, f.hint)
	}
	return j, nil
}

// A judgingReader reads options, each once.
type judgingReader struct {
	given  map[string]any
	known  []string
	faults []judgingFault
}

func (r *judgingReader) fault(key, msg, hint string) {
	r.faults = append(r.faults, judgingFault{key, msg, hint})
}

func (r *judgingReader) take(key string) (any, bool) {
	r.known = append(r.known, key)
	v, ok := r.given[key]
	if ok && v == nil {
		r.fault(key, "is empty", "give it a value or remove the key")
		return nil, false
	}
	return v, ok
}

func (r *judgingReader) text(key, def string, of ...string) string {
	v, ok := r.take(key)
	if !ok {
		return def
	}
	s, ok := v.(string)
	switch {
	case !ok:
		r.fault(key, "is no text", "put it in quotes")
	case s == "":
		r.fault(key, "is empty", "give it a value or remove the key")
	case len(of) > 0 && !slices.Contains(of, s):
		r.fault(key, quote(s)+" is none of "+strings.Join(of, ", "), didYouMean(s, of))
	default:
		return s
	}
	return def
}

func numberOf(v any) (float64, bool) {
	switch n := v.(type) {
	case int:
		return float64(n), true
	case int64:
		return float64(n), true
	case uint64:
		return float64(n), true
	case float64:
		return n, !math.IsNaN(n) && !math.IsInf(n, 0)
	}
	return 0, false
}

func (r *judgingReader) number(key string) *float64 {
	v, ok := r.take(key)
	if !ok {
		return nil
	}
	n, ok := numberOf(v)
	if !ok {
		r.fault(key, "is no number", "write it without quotes")
		return nil
	}
	return &n
}

func (r *judgingReader) whole(key string, def, least, most int) int {
	n := r.number(key)
	if n == nil {
		return def
	}
	if *n != math.Trunc(*n) || *n < float64(least) || *n > float64(most) {
		r.fault(key, fmt.Sprintf("%v is not a whole number from %d to %d", *n, least, most), fmt.Sprintf("write a number from %d to %d", least, most))
		return def
	}
	return int(*n)
}

func (r *judgingReader) yes(key string, def bool) bool {
	v, ok := r.take(key)
	if !ok {
		return def
	}
	b, ok := v.(bool)
	if !ok {
		r.fault(key, "is neither true nor false", "write true or false without quotes")
	}
	return b
}

// scale is {min: …, max: …} or a list of two numbers.
func (r *judgingReader) scale() (least, most float64) {
	least, most = 1, 10
	v, ok := r.take("scale")
	if !ok {
		return least, most
	}
	list, isList := v.([]any)
	if isList && len(list) == 2 {
		a, okA := numberOf(list[0])
		b, okB := numberOf(list[1])
		if okA && okB && a < b && !math.IsInf(b-a, 0) {
			return a, b
		}
	}
	r.fault("scale", "is no range of scores", "write the least and the most, such as scale: [1, 10]")
	return least, most
}

func readJudging(c *Check) (*Judging, []judgingFault) {
	r := &judgingReader{given: c.Options}
	j := &Judging{Verifier: c.Verifier, Teacher: r.text("teacher", ""), Effort: r.text("effort", DefaultName), Samples: 1}
	if _, ok := c.Options["teacher"]; !ok {
		r.fault("teacher", "is missing", "name the teacher that judges: teacher: ID")
	}
	j.PassAt = r.number("pass_at")
	if c.Verifier == VerifierReward {
		r.reward(j)
	} else {
		r.judge(j)
	}
	if c.Timeout != 0 {
		r.fault("timeout", "is no option of "+c.Verifier, "set the teacher's limits: {total: …}")
	}
	for _, key := range sortedNames(c.Options) {
		if !slices.Contains(r.known, key) {
			r.fault(key, "is no option of "+c.Verifier, didYouMean(key, r.known))
		}
	}
	return j, r.faults
}

func (r *judgingReader) judge(j *Judging) {
	text := r.text("rubric", "")
	switch _, given := r.given["rubric"]; {
	case !given:
		r.fault("rubric", "is missing", "name a file, rubric: rubric.md, or write what counts")
	case rubricFile(text):
		j.File = text
	case strings.TrimSpace(text) == "":
		r.fault("rubric", "is empty", "name a file, rubric: rubric.md, or write what counts")
	case len(text) > MaxRubric:
		r.fault("rubric", fmt.Sprintf("has more than %d bytes", MaxRubric), "shorten it")
	default:
		j.Rubric = text
	}
	j.Mode = r.text("mode", JudgeScore, JudgeScore, JudgePairwise)
	j.Samples = r.whole("samples", 1, 1, maxOpinions)
	j.Guard = r.yes("guard", true)
	if j.Mode == JudgePairwise {
		j.Min, j.Max = 0, 1
		j.Ties = r.text("ties", TiesUnknown, TiesPass, TiesFail, TiesUnknown)
		if j.PassAt != nil {
			r.fault("pass_at", "is no option where answers are compared", "remove it: a win passes, and ties says what a tie is")
		}
		return
	}
	j.Min, j.Max = r.scale()
	if j.PassAt != nil && (*j.PassAt < j.Min || *j.PassAt > j.Max) {
		r.fault("pass_at", fmt.Sprintf("%v is not on the scale from %v to %v", *j.PassAt, j.Min, j.Max), "write a score of the scale")
	}
}

func (r *judgingReader) reward(j *Judging) {
	j.Form = r.text("form", "", RewardForms...)
	if _, ok := r.given["form"]; !ok {
		r.fault("form", "is missing", "name the endpoint's form, one of "+strings.Join(RewardForms, ", "))
	}
	j.Class = r.whole("class", 0, -1, 1<<20)
	if v, ok := r.take("params"); ok {
		params, isMap := v.(map[string]any)
		if !isMap {
			r.fault("params", "is no map", "write the request's further members, such as params: {truncate_prompt_tokens: 4096}")
		}
		j.Params = params
	}
}

// rubricFile tells whether a rubric is the name of a file: one word that ends
// in .md or .txt. Anything else is the rubric itself.
func rubricFile(s string) bool {
	ext := strings.ToLower(path.Ext(s))
	return (ext == ".md" || ext == ".txt") && !strings.ContainsAny(s, " \t\r\n")
}

func sortedNames(m map[string]any) []string {
	out := make([]string, 0, len(m))
	for name := range m {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// judging checks a judge or a reward verifier.
func (c *checker) judging(ch *Check, at string) {
	j, faults := readJudging(ch)
	for _, f := range faults {
		where := at + "." + f.key
		if f.key == "" || !c.has(where) {
			where, f.msg = at, f.key+" "+f.msg
		}
		c.fault(where, f.msg, f.hint)
	}
	c.judgeTeacher(j.Teacher, at+".teacher")
	if j.Mode == JudgePairwise && !slices.ContainsFunc(c.r.Prompts, func(p PromptSource) bool { return p.Fields.Gold != "" }) {
		c.fault(at+".mode", "pairwise compares with a gold answer and no prompts have one", "add fields: {gold: …} to the prompts, or remove mode")
	}
}

// judgeTeacher checks that a teacher can be asked what it thinks of answers.
func (c *checker) judgeTeacher(id, at string) {
	if id == "" {
		return
	}
	t := c.r.Teacher(id)
	if t == nil {
		ids := make([]string, len(c.r.Teachers))
		for i := range c.r.Teachers {
			ids[i] = c.r.Teachers[i].ID
		}
		c.fault(at, "no teacher has the id "+quote(id), didYouMean(id, ids))
		return
	}
	switch t.API {
	case APIRecorded:
		c.fault(at, "teacher "+quote(id)+" is recorded, and nothing can be asked of it", "name a teacher with an endpoint")
	case APIOpenAIBatch, APIAnthropicBatch:
		c.fault(at, "teacher "+quote(id)+" is asked through a batch API, and a judge sees what is left of each shard as it comes", "add a teacher of the same model with api: "+strings.TrimSuffix(t.API, "-batch"))
	}
}

// eachCheck visits every verifier of the recipe with its place, those in groups
// too.
func (r *Recipe) eachCheck(visit func(c *Check, at string)) { eachOf(r.Check, "check", visit) }

// Judges are the ids of the teachers that judge answers, in the recipe's order.
func (r *Recipe) Judges() []string {
	var out []string
	for i := range r.Teachers {
		if id := r.Teachers[i].ID; r.judges[id] {
			out = append(out, id)
		}
	}
	return out
}

func (r *Recipe) judgeSet() map[string]bool {
	named := map[string]bool{}
	r.eachCheck(func(c *Check, _ string) {
		if Paid(c.Verifier) {
			if id, ok := c.Options["teacher"].(string); ok {
				named[id] = true
			}
		}
	})
	if j := r.Merge.Judge; j != nil {
		named[j.Teacher] = true
	}
	if s := r.StudentScore(); s != nil {
		named[s.Teacher] = true
	}
	return named
}

// OnlyJudges tells whether a teacher judges answers and is asked no tasks: a
// teacher that a verifier names gives answers of its own only where it says what
// it serves.
func (r *Recipe) OnlyJudges(id string) bool {
	t := r.Teacher(id)
	return t != nil && len(t.Serves) == 0 && r.judges[id]
}

// A MergeJudge compares the accepted answers to a task, for policy pairwise.
type MergeJudge struct {
	// Teacher that compares.
	Teacher string `yaml:"teacher" required:"true"`
	// What counts: a file (one word that ends in .md or .txt), or the text itself.
	Rubric string `yaml:"rubric" required:"true"`
	// Effort whose parameters it is asked with.
	Effort string `yaml:"effort" default:"default"`
	// Most answers of one task that are compared with each other, each pair in both orders: the best by score, then teacher order, then id.
	Most int `yaml:"most" min:"2" max:"16" default:"4"`
}

// RubricFile is the file that holds the rubric, "" where the recipe does.
func (j *MergeJudge) RubricFile() string {
	if rubricFile(j.Rubric) {
		return j.Rubric
	}
	return ""
}

func (c *checker) mergeJudge() {
	j := c.r.Merge.Judge
	switch {
	case j == nil && c.r.Merge.Policy == Pairwise:
		c.fault("merge.policy", "pairwise needs a judge", "add judge: {teacher: ID, rubric: …} under merge")
	case j == nil:
	case c.r.Merge.Policy != Pairwise:
		c.fault("merge.judge", "stands without policy: pairwise", "add policy: pairwise, or remove it")
	default:
		c.judgeTeacher(j.Teacher, "merge.judge.teacher")
		if len(j.Rubric) > MaxRubric || strings.TrimSpace(j.Rubric) == "" {
			c.fault("merge.judge.rubric", fmt.Sprintf("is empty or has more than %d bytes", MaxRubric), "write what counts")
		}
	}
}

// RubricFiles are the files that hold rubrics, each with the place that names
// it first.
func (r *Recipe) RubricFiles() (files []string, at map[string]string) {
	at = map[string]string{}
	add := func(file, where string) {
		if _, ok := at[file]; !ok && file != "" {
			at[file] = where
			files = append(files, file)
		}
	}
	r.eachCheck(func(c *Check, where string) {
		if text, ok := c.Options["rubric"].(string); ok && c.Verifier == VerifierJudge && rubricFile(text) {
			add(text, where+".rubric")
		}
	})
	if j := r.Merge.Judge; j != nil {
		add(j.RubricFile(), "merge.judge.rubric")
	}
	return files, at
}

// hasFreeVerifier tells whether any verifier is declared that asks nobody.
func (r *Recipe) hasFreeVerifier() bool {
	free := false
	r.eachCheck(func(c *Check, _ string) { free = free || !Paid(c.Verifier) })
	return free
}

// howToServe says what to do where no teacher serves a task.
func (r *Recipe) howToServe() string {
	for i := range r.Teachers {
		if id := r.Teachers[i].ID; r.OnlyJudges(id) {
			return "teacher " + id + " only judges: say what it serves, or add a teacher"
		}
	}
	return "add it to a teacher's serves, or remove serves to serve everything"
}

// JudgeEfforts are the efforts that a teacher is asked at as a judge, in the
// recipe's order. A reward model is asked at none: it writes nothing.
func (r *Recipe) JudgeEfforts(teacher string) []string {
	var out []string
	add := func(effort string) {
		if !slices.Contains(out, effort) {
			out = append(out, effort)
		}
	}
	r.eachCheck(func(c *Check, _ string) {
		if j, faults := readJudging(c); c.Verifier == VerifierJudge && len(faults) == 0 && j.Teacher == teacher {
			add(j.Effort)
		}
	})
	if j := r.Merge.Judge; j != nil && j.Teacher == teacher {
		add(j.Effort)
	}
	return out
}
