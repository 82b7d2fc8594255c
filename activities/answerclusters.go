package activities

import (
	"cmp"
	"slices"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/dedup"
)

// nearAnswersMemory bounds what is held of the answers to one task while they
// are compared: those of a thousand samples with long reasoning.
const nearAnswersMemory = 256 << 20

// newNearAnswers compares answers to one task where the recipe wants answers
// that are nearly equal to count once; nil where it does not.
func (rt *runtime) newNearAnswers() (*dedup.AnswerComparer, error) {
	least := rt.recipe.Merge.NearDuplicates
	if least == nil {
		return nil, nil
	}
	near, err := dedup.NewAnswerComparer(dedup.NearOptions{Jaccard: *least, Memory: nearAnswersMemory})
	if err != nil {
		return nil, rt.recipe.ErrorAt("merge.near_duplicates", err.Error(), "")
	}
	return near, nil
}

// clusterAnswers says of every answer to a task which others say the same: they
// have one cluster. Where answers that are nearly equal count once, an answer is
// in the cluster of the first that it is near to, in the order of teachers and
// samples. Which of a cluster become rows is the merge policy's business.
func (rt *runtime) clusterAnswers(t *refinedTask) {
	order := make([]*datasets.Candidate, len(t.Candidates))
	for i := range t.Candidates {
		order[i] = &t.Candidates[i]
	}
	slices.SortFunc(order, func(a, b *datasets.Candidate) int {
		return cmp.Or(rt.compareTeachers(a.Teacher, b.Teacher), cmp.Compare(a.SampleID, b.SampleID))
	})
	var first []*datasets.Candidate // of each cluster
	for _, c := range order {
		key, ok := dedup.AnswerKey(c)
		if !ok {
			continue
		}
		cluster := key.String()
		c.AnswerCluster = &cluster
		if rt.near == nil {
			continue
		}
		i := slices.IndexFunc(first, func(f *datasets.Candidate) bool {
			return *f.AnswerCluster == cluster || rt.near.Near(f, c)
		})
		if i < 0 {
			first = append(first, c)
		} else {
			c.AnswerCluster = first[i].AnswerCluster
		}
	}
}

// compareTeachers orders teachers as the recipe does.
func (rt *runtime) compareTeachers(a, b string) int {
	place := func(id string) int {
		for i := range rt.recipe.Teachers {
			if rt.recipe.Teachers[i].ID == id {
				return i
			}
		}
		return len(rt.recipe.Teachers)
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a, b))
}
