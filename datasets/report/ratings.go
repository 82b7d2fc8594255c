package report

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/stillhouse-data/stillhouse/datasets/report/stats"
)

// A tieConvention says what a tie counts for in Bradley-Terry ratings, which
// have none of their own.
type tieConvention int

const (
	tiesHalf    tieConvention = iota // half a win of each
	tiesDropped                      // nothing: the comparison is left out
)

// rate fits the ratings, once with each convention for ties.
func (j *JudgePreferences) rate(list []Preference, place map[string]int) {
	ids := rated(list, place)
	j.Ratings, j.Undefined = ratings(list, ids, tiesHalf)
	j.RatingsNoTies, j.UndefinedNoTies = ratings(list, ids, tiesDropped)
}

// rated are the teachers that are compared with another one, in the order of
// the report.
func rated(list []Preference, place map[string]int) []string {
	var ids []string
	seen := map[string]bool{}
	for _, p := range list {
		for _, id := range []string{p.A, p.B} {
			if p.A != p.B && !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Compare(place[a], place[b]) })
	return ids
}

// ratings are the maximum likelihood fit over comparisons that are sorted by
// task. Where it is undefined there is none, and why.
func ratings(list []Preference, ids []string, ties tieConvention) (out []Rating, undefined string) {
	number := make(map[string]int, len(ids))
	wins := make(stats.Wins, len(ids))
	for i, id := range ids {
		number[id], wins[i] = i, make([]float64, len(ids))
	}
	var tasks [][]stats.Bout
	last := ""
	for _, p := range list {
		if p.A == p.B || ties == tiesDropped && p.Win == 0.5 {
			continue
		}
		b := stats.Bout{I: number[p.A], J: number[p.B], Win: p.Win}
		wins[b.I][b.J] += b.Win
		wins[b.J][b.I] += 1 - b.Win
		if p.Task != last || len(tasks) == 0 {
			tasks = append(tasks, nil)
			last = p.Task
		}
		tasks[len(tasks)-1] = append(tasks[len(tasks)-1], b)
	}
	r, err := stats.BradleyTerry(wins)
	if err != nil {
		return nil, err.Error()
	}
	if r.Cluster(wins, tasks); math.IsNaN(r.SE[0]) {
		return nil, oneTask
	}
	for i, id := range ids {
		out = append(out, Rating{id, r.Value[i], r.Value[i] - stats.Z95*r.SE[i], r.Value[i] + stats.Z95*r.SE[i]})
	}
	return out, ""
}

// SolvedRatings rate teachers by what they solve, each task being a comparison
// of every two: who solves it beats who does not, and else it is a tie.
type SolvedRatings struct {
	TiesHalf    []Rating `json:"ties_half,omitempty" jsonschema:"description=Bradley-Terry strengths where a tie is half a win of each; natural logarithm; mean 0; intervals over tasks; absent where they are undefined"`
	Undefined   string   `json:"ties_half_undefined,omitempty" jsonschema:"description=why there are none"`
	TiesDropped []Rating `json:"ties_dropped,omitempty" jsonschema:"description=the same over the comparisons that are no ties"`
	NoneLeft    string   `json:"ties_dropped_undefined,omitempty" jsonschema:"description=why there are none"`
}

// solvedRatings rates n teachers. Tasks that the same ones solve are alike, so
// that it is as much work for a million tasks as for a thousand.
func solvedRatings(solved stats.Solved, ids []string) *SolvedRatings {
	out := &SolvedRatings{}
	out.TiesHalf, out.Undefined = ratingsOfSolved(solved, ids, tiesHalf)
	out.TiesDropped, out.NoneLeft = ratingsOfSolved(solved, ids, tiesDropped)
	return out
}

func ratingsOfSolved(solved stats.Solved, ids []string, ties tieConvention) (out []Rating, undefined string) {
	n := len(ids)
	wins := make(stats.Wins, n)
	for i := range wins {
		wins[i] = make([]float64, n)
	}
	var tasks [][]stats.Bout
	var counts []int64
	for _, set := range slices.Sorted(maps.Keys(solved)) {
		var bouts []stats.Bout
		for i := range n {
			for j := i + 1; j < n; j++ {
				win := 0.5 + float64(set>>i&1)/2 - float64(set>>j&1)/2
				if ties == tiesDropped && win == 0.5 {
					continue
				}
				bouts = append(bouts, stats.Bout{I: i, J: j, Win: win})
				wins[i][j] += win * float64(solved[set])
				wins[j][i] += (1 - win) * float64(solved[set])
			}
		}
		if len(bouts) > 0 {
			tasks, counts = append(tasks, bouts), append(counts, solved[set])
		}
	}
	r, err := stats.BradleyTerry(wins)
	if err != nil {
		return nil, err.Error()
	}
	if r.ClusterCounted(wins, tasks, counts); math.IsNaN(r.SE[0]) {
		return nil, oneTask
	}
	for i, id := range ids {
		out = append(out, Rating{id, r.Value[i], r.Value[i] - stats.Z95*r.SE[i], r.Value[i] + stats.Z95*r.SE[i]})
	}
	return out, ""
}

// Lines say how teachers are rated by what they solve.
func (r *SolvedRatings) Lines() []string {
	if r == nil {
		return nil
	}
	j := JudgePreferences{Ratings: r.TiesHalf, Undefined: r.Undefined, RatingsNoTies: r.TiesDropped, UndefinedNoTies: r.NoneLeft}
	out := j.ratingLines()
	for i := range out {
		out[i] = "By who solves what another does not: " + out[i]
	}
	return out
}

// oneTask is why ratings have no intervals.
const oneTask = "all comparisons are of one task, which says nothing of how sure a rating is"

// ratingLines say how teachers are rated, by each convention for ties.
func (j *JudgePreferences) ratingLines() []string {
	var out []string
	for _, one := range []struct {
		ratings              []Rating
		undefined, ties, how string
	}{
		{j.Ratings, j.Undefined, "a tie half a win of each", "with ties as half a win of each"},
		{j.RatingsNoTies, j.UndefinedNoTies, "without the ties", "without the ties"},
	} {
		switch {
		case len(one.ratings) > 0:
			words := make([]string, len(one.ratings))
			for i, r := range one.ratings {
				words[i] = fmt.Sprintf("%s %+.2f (%+.2f to %+.2f)", name(r.Teacher), r.Value, r.Low, r.High)
			}
			out = append(out, "Bradley-Terry ratings, "+one.ties+": "+strings.Join(words, ", ")+".")
		case one.undefined != "":
			out = append(out, "No Bradley-Terry ratings "+one.how+": "+one.undefined+".")
		}
	}
	return out
}
