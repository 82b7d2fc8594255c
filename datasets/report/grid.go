package report

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"maps"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// maxCompared bounds the cells that teachers are compared in: tests of more are
// a fishing trip, and each costs pairs of teachers.
const maxCompared = 200

// A grid keeps, of every task and teacher, the few numbers that comparisons in
// pairs need: some 50 bytes.
type grid struct {
	cells map[cellName]*gridCell
	last  string // task that candidates are being added of
	at    *gridCell
	task  uint64
	rows  map[int]int // by teacher: place of its row of that task
	lost  bool        // some cells came too late to be compared
	least int32       // samples of a task that rates are of; 0 for all
}

type cellName struct{ domain, effort string }

type gridCell struct {
	rows   []gridRow
	judged bool // a verifier judged something in it
}

// A gridRow is all samples of one teacher for one task.
type gridRow struct {
	task                         uint64 // hash of its id: resampling must not depend on the order
	teacher                      int32
	samples, pass, fail, unknown uint16
	errored, truncated, refused  uint16
	accepted                     uint16
	first                        bool // the first sample passed
	solved                       bool // any sample passed, those too that no rate is of
	unpriced                     bool
	micros, tokens, ms           int64
}

func (g *grid) add(c *datasets.Candidate, teacher int) {
	if g.cells == nil {
		g.cells, g.rows = map[cellName]*gridCell{}, map[int]int{}
	}
	if c.TaskID != g.last || g.at == nil {
		g.begin(c)
	}
	if g.at == nil {
		return
	}
	i, ok := g.rows[teacher]
	if !ok {
		i = len(g.at.rows)
		g.rows[teacher] = i
		g.at.rows = append(g.at.rows, gridRow{task: g.task, teacher: int32(teacher)})
	}
	row := &g.at.rows[i]
	if row.samples == 1<<16-1 {
		return
	}
	if g.least == 0 || c.SampleIndex < g.least {
		row.rate(c)
	}
	row.solved = row.solved || c.Error == nil && c.Verdict != nil && *c.Verdict == datasets.Pass
	g.at.judged = g.at.judged || c.Verdict != nil
	if c.Accepted {
		row.accepted++
	}
	if c.CostMicros == nil {
		row.unpriced = row.unpriced || c.Error == nil
	} else {
		row.micros += *c.CostMicros
	}
	row.tokens += known(c.PromptTokens) + known(c.CompletionTokens)
	row.ms += known(c.LatencyMS)
}

// rate counts a sample that rates are of.
func (row *gridRow) rate(c *datasets.Candidate) {
	row.samples++
	switch {
	case c.Error != nil:
		row.errored++
	case c.Verdict == nil:
	case *c.Verdict == datasets.Pass:
		row.pass++
		row.first = row.first || c.SampleIndex == 0
	case *c.Verdict == datasets.Fail:
		row.fail++
	default:
		row.unknown++
	}
	if c.Error == nil && truncated(c) {
		row.truncated++
	}
	if refused(c) {
		row.refused++
	}
}

// begin starts a task. Candidates of one task follow each other.
func (g *grid) begin(c *datasets.Candidate) {
	g.last = strings.Clone(c.TaskID)
	clear(g.rows)
	sum := sha256.Sum256([]byte(g.last))
	g.task = binary.BigEndian.Uint64(sum[:])
	name := cellName{c.Domain, c.Effort}
	if g.at = g.cells[name]; g.at != nil {
		return
	}
	if len(g.cells) >= maxCompared {
		g.lost = true
		return
	}
	g.at = &gridCell{}
	g.cells[cellName{strings.Clone(c.Domain), strings.Clone(c.Effort)}] = g.at
}

// names are the cells, by domain and effort.
func (g *grid) names() []cellName {
	return slices.SortedFunc(maps.Keys(g.cells), func(a, b cellName) int {
		return cmp.Or(cmp.Compare(a.domain, b.domain), cmp.Compare(a.effort, b.effort))
	})
}

// maxPairs bounds the pairs of teachers of all domains and efforts: a report is
// to be read, and fifty teachers are 1,225 pairs each time.
const maxPairs = 20_000

// largest keeps of the judged cells those with the most rows for which there is
// room, in the order of cells, and says how many that leaves out.
func (g *grid) largest(cells []cellName, teachers []int) (kept []cellName, left int) {
	var judged []cellName
	for _, name := range cells {
		if g.cells[name].judged {
			judged = append(judged, name)
		}
	}
	slices.SortStableFunc(judged, func(a, b cellName) int { return cmp.Compare(len(g.cells[b].rows), len(g.cells[a].rows)) })
	pairs, room := 0, map[cellName]bool{}
	for _, name := range judged {
		seen, n := make([]bool, len(teachers)), 0
		for _, row := range g.cells[name].rows {
			if !seen[row.teacher] {
				seen[row.teacher] = true
				n++
			}
		}
		if pairs += n * (n - 1) / 2; pairs > maxPairs {
			break
		}
		room[name] = true
	}
	for _, name := range cells {
		if room[name] {
			kept = append(kept, name)
		}
	}
	return kept, len(judged) - len(kept)
}

// refused tells whether a filter found that the answer refuses.
func refused(c *datasets.Candidate) bool {
	return slices.ContainsFunc(c.RejectReasons, func(r string) bool { return r == "refusal" || strings.HasPrefix(r, "refusal:") })
}

func truncated(c *datasets.Candidate) bool {
	return c.FinishReason != nil && (*c.FinishReason == "length" || *c.FinishReason == "max_tokens" || *c.FinishReason == "model_context_window_exceeded")
}

// answerable tells whether a candidate says anything of what its teacher can do.
// An ask that was never made, as where a budget ended first, is no failure of
// the teacher's, and neither is an answer that was purged.
func answerable(c *datasets.Candidate) bool {
	if c.Error == nil {
		return true
	}
	switch *c.Error {
	case datasets.ErrorNotAsked, datasets.ErrorNotRecorded, datasets.ErrorPurged:
		return false
	}
	return true
}

// unasked tells whether an ask was never made.
func unasked(c *datasets.Candidate) bool {
	return c.Error != nil && (*c.Error == datasets.ErrorNotAsked || *c.Error == datasets.ErrorNotRecorded)
}

// firstHand tells whether the teacher was asked because the route says so, and
// not because others had failed: tasks that are chosen by failure are no sample
// of what a teacher can do.
func firstHand(c *datasets.Candidate) bool { return !slices.Contains(c.Flags, datasets.FlagEscalated) }
