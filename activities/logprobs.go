package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/recipe"
	"github.com/stillhouse-data/stillhouse/teachers"
)

// stageLogprobs is the stage of the logprobs table's rows, a file per shard.
const stageLogprobs = "logprobs"

const (
	// logprobBytes is about what the logprobs of the answers that are refined at
	// once may take, and of the raw answers that are read at once.
	logprobBytes = 128 << 20
	// rawEntry is what a token or an alternative takes in a raw answer, and
	// rowEntry in a row of the table.
	rawEntry, rowEntry = 130, 24
	// mostSlots bounds a row's slots of alternatives, as many for each token as the
	// widest has: one token with millions of them must not make millions of slots
	// for every other.
	mostSlots = 200_000 * 21
	// logprobCap stands for the token cap of a teacher that has none.
	logprobCap = 32768
)

// logprobGroup bounds the row groups of a staged file and of the table.
var logprobGroup = parquetio.Options{SortedBy: "prompt_id", RowGroupRows: 256, RowGroupBytes: tableGroup}

// askLogprobs prepares a recipe's teachers to be asked for logprobs. It fails
// where none of them gives any.
func (rt *runtime) askLogprobs() error {
	if rt.recipe.Logprobs == nil {
		return nil
	}
	able := 0
	for _, t := range rt.teachers {
		if t.config == nil {
			continue
		}
		if t.logprobs, t.gives = t.config.LogprobParams(rt.recipe.Logprobs.Top); t.gives {
			able++
		}
	}
	if able == 0 {
		return rt.recipe.ErrorAt("logprobs", "no teacher of this recipe gives logprobs", "remove it, or add a teacher that does, such as one served by vLLM")
	}
	return nil
}

// logprobNotes tell, a sentence each, what a recipe that asks for logprobs will
// not get.
func (rt *runtime) logprobNotes() []string {
	want := rt.recipe.Logprobs
	if want == nil {
		return nil
	}
	var out []string
	for i := range rt.recipe.Teachers {
		t := rt.teachers[rt.recipe.Teachers[i].ID]
		switch {
		case t.config == nil:
			out = append(out, fmt.Sprintf("teacher %s: recorded answers have no logprobs; it has no rows in the logprobs table", t.spec.ID))
		case !t.gives:
			out = append(out, fmt.Sprintf("teacher %s: its endpoint gives no logprobs for %s; it is asked without, and has no rows in the logprobs table", t.spec.ID, t.spec.Model))
		default:
			if most := t.config.MostLogprobs(); most >= 0 && want.Top > most {
				out = append(out, fmt.Sprintf("teacher %s: such an endpoint gives at most %d alternatives unless it was started for more; logprobs.top asks for %d", t.spec.ID, most, want.Top))
			}
		}
	}
	return out
}

// Notes tell, a sentence each, what the recipe asks for and will not get.
func (c *Counter) Notes() []string { return c.rt.logprobNotes() }

// params are the request parameters at an effort: the recipe's, over those that
// ask for logprobs.
func (t *teacher) params(effort string) map[string]any {
	params := t.spec.ParamsFor(effort)
	for name, value := range t.logprobs {
		if _, own := params[name]; !own {
			params[name] = value
		}
	}
	return params
}

// refineChunk is how many tasks with so many answers each are refined at once.
func (rt *runtime) refineChunk(answers int) int {
	if rt.recipe.Logprobs == nil {
		return chunkOf(answers)
	}
	return max(1, min(chunkOf(answers), rt.logprobsAtOnce(rowEntry)/max(1, answers)))
}

// lookupAnswers is how many raw answers are in memory at once.
func (rt *runtime) lookupAnswers() int {
	if rt.recipe.Logprobs == nil {
		return lookupAnswers
	}
	return min(lookupAnswers, rt.logprobsAtOnce(rawEntry))
}

// logprobsAtOnce is how many answers with logprobs fit logprobBytes, at the
// largest token cap that a teacher has and so many bytes for each entry.
func (rt *runtime) logprobsAtOnce(entry int) int {
	most := int64(1)
	for _, t := range rt.teachers {
		if t.gives {
			most = max(most, t.mostTokens())
		}
	}
	return int(max(1, logprobBytes/(most*int64(rt.recipe.Logprobs.Top+1)*int64(entry))))
}

// mostTokens is the largest token cap that a teacher is asked with.
func (t *teacher) mostTokens() int64 {
	most := int64(0)
	efforts := slices.Collect(maps.Keys(t.spec.ParamsBy.Effort))
	for _, effort := range append(efforts, recipe.DefaultName) {
		b, err := t.builder(effort)
		if err != nil || b.Cap() == 0 {
			return logprobCap
		}
		most = max(most, b.Cap())
	}
	return most
}

// takeLogprobs takes the logprobs of the answer that the task's last candidate
// is made of.
func (rt *runtime) takeLogprobs(t *teacher, task *refinedTask, ask *asked) {
	if rt.recipe.Logprobs == nil {
		return
	}
	c := &task.Candidates[len(task.Candidates)-1]
	row, ok := logprobRow(t.spec, c, ask.logprobs)
	ask.logprobs = nil
	if !ok {
		task.logprobs = append(task.logprobs, nil)
		if t.gives && c.Error == nil && !slices.Contains(c.Flags, teachers.FlagLogprobGap) {
			// They were asked for, and none came.
			c.Flags = append(slices.Clone(c.Flags), teachers.FlagLogprobGap)
			slices.Sort(c.Flags)
		}
		return
	}
	task.logprobs = append(task.logprobs, &row)
}

// logprobRow is a candidate's row of the logprobs table; ok is false where its
// answer has none. It shares the bytes of the answer's tokens.
func logprobRow(spec *recipe.Teacher, c *datasets.Candidate, l *teachers.Logprobs) (row datasets.LogprobRow, ok bool) {
	if l == nil || l.Len() == 0 {
		return row, false
	}
	n := l.Len()
	widest := l.K()
	k := min(widest, max(1, mostSlots/n))
	row = datasets.LogprobRow{
		SampleID: c.SampleID, TaskID: c.TaskID, PromptID: c.PromptID, Domain: c.Domain, Effort: c.Effort, Split: c.Split,
		Teacher: c.Teacher, TeacherModel: c.ModelAsked, Source: datasets.LogprobsGenerated,
		Tokens: int32(n), Gaps: int32(l.Gaps()), TopK: int32(k),
		Complete: k == widest && !slices.Contains(c.Flags, teachers.FlagLogprobGap), Tokenizer: optional(spec.Weights),
		TokenizerSHA256: optional(spec.TokenizerSHA256), PromptTokenIDs: wholePrompt(l.PromptIDs),
	}
	row.TokenIDs = tokenIDs(&l.Tokens, n, func(i int) int { return i })
	row.TokenBytes = tokenBytes(&l.Tokens, n, func(i int) int { return i })
	row.Logprobs = floats(l.Logprob, n, func(i int) int { return i })
	if k == 0 {
		return row, true
	}
	at := func(i int) int { // of a slot of the flat lists
		start, end := l.TopOf(i / k)
		if start += i % k; start < end { // what is beyond the slots is left out
			return start
		}
		return -1
	}
	row.TopTokenIDs = noneKnown(tokenIDs(&l.Top, n*k, at))
	row.TopTokenBytes = noneKnown(tokenBytes(&l.Top, n*k, at))
	row.TopLogprobs = floats(l.TopLogprob, n*k, at)
	row.TailLogmass = tails(l)
	return row, true
}

// wholePrompt is the prompt's ids; nil where one of them is not known.
func wholePrompt(ids []int32) []int32 {
	if len(ids) == 0 || slices.Min(ids) < 0 {
		return nil
	}
	return ids
}

// tokenIDs gives n ids of a list of tokens, null where the slot or the id is
// not known.
func tokenIDs(t *teachers.Tokens, n int, at func(int) int) []*int32 { return known(n, at, t.ID) }

func tokenBytes(t *teachers.Tokens, n int, at func(int) int) []*[]byte { return known(n, at, t.Bytes) }

func floats(p []float32, n int, at func(int) int) []*float32 {
	return known(n, at, func(j int) (float32, bool) { return p[j], p[j] == p[j] })
}

// known gives n values, null where at has no place for one or it is not known.
func known[T any](n int, at func(int) int, get func(int) (T, bool)) []*T {
	out, values := make([]*T, n), make([]T, n)
	for i := range out {
		j := at(i)
		if j < 0 {
			continue
		}
		if v, ok := get(j); ok {
			values[i] = v
			out[i] = &values[i]
		}
	}
	return out
}

// noneKnown is an empty list for one that holds nulls alone.
func noneKnown[T any](list []*T) []*T {
	if slices.ContainsFunc(list, func(p *T) bool { return p != nil }) {
		return list
	}
	return nil
}

// leastTail is the smallest tail mass that sums of 32-bit logprobs can show.
const leastTail = 1.0 / (1 << 24)

// tails is the log of the mass outside each token's alternatives.
func tails(l *teachers.Logprobs) []*float32 {
	out, values := make([]*float32, l.Len()), make([]float32, l.Len())
	for i := range out {
		start, end := l.TopOf(i)
		sum := 0.0
		for _, p := range l.TopLogprob[start:end] {
			sum += math.Exp(float64(p))
		}
		if start == end || sum != sum {
			continue
		}
		values[i] = float32(math.Log(max(1-sum, leastTail)))
		out[i] = &values[i]
	}
	return out
}

// A logprobStage is a shard's rows of the logprobs table on their way to the
// store; nil where the recipe asks for none.
type logprobStage struct {
	file *os.File
	w    *parquetio.Writer[datasets.LogprobRow]
}

func (rt *runtime) logprobStage(dir string) (*logprobStage, error) {
	if rt.recipe.Logprobs == nil {
		return nil, nil
	}
	f, err := os.CreateTemp(dir, "logprobs-*.parquet")
	if err != nil {
		return nil, err
	}
	options := logprobGroup
	options.Passing = true
	w, err := parquetio.NewWriter[datasets.LogprobRow](f, options)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &logprobStage{f, w}, nil
}

// add writes the rows of refined tasks and takes them off their memory.
func (s *logprobStage) add(tasks []refinedTask) error {
	if s == nil {
		return nil
	}
	for i := range tasks {
		t := &tasks[i]
		for j := range t.Candidates {
			if j >= len(t.logprobs) || t.logprobs[j] == nil {
				continue
			}
			row := t.logprobs[j]
			row.Accepted, row.Selected = t.Candidates[j].Accepted, t.Candidates[j].Selected
			if err := s.w.Write([]datasets.LogprobRow{*row}); err != nil {
				return fmt.Errorf("write logprobs: %w", err)
			}
		}
		t.logprobs = nil
	}
	return nil
}

// upload ends the file. A shard without rows has one too, so that the seal can
// tell it from one that is gone.
func (s *logprobStage) upload(ctx context.Context, b objstore.Bucket, dataset, buildID, name string) error {
	if s == nil {
		return nil
	}
	if err := errors.Join(s.w.Close(), s.file.Close()); err != nil {
		return err
	}
	key := workPrefix(dataset, buildID, stageLogprobs) + name + "-" + s.w.SHA256() + ".parquet"
	if _, err := objstore.CreateFileOrSame(ctx, b, key, s.file.Name()); err != nil {
		return fmt.Errorf("write %s: %w", key, err)
	}
	return nil
}

func (s *logprobStage) discard() {
	if s == nil {
		return
	}
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}
