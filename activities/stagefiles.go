package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A stagedFile is the file of one shard at some stage.
type stagedFile struct {
	key  string
	size int64
}

// sortedFiles are the shards' files of a stage in groups, each of which is
// sorted by task id when its files are read one after the other: one group of
// each cell, and one of each shard whose tasks are ordered by what they share.
func (s *seal) sortedFiles(ctx context.Context, stage string) ([][]stagedFile, error) {
	files := make([]stagedFile, len(s.plan.Shards))
	prefix := workPrefix(s.in.Dataset, s.in.BuildID, stage)
	for at, err := range s.a.Bucket.List(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		number, _, _ := strings.Cut(strings.TrimPrefix(at.Key, prefix), "-")
		i, err := strconv.Atoi(number)
		// A refinement that ran twice left two files of the same tasks; the
		// first in order is as good as the other.
		if err == nil && i >= 0 && i < len(files) && files[i].key == "" {
			files[i] = stagedFile{at.Key, at.Size}
		}
	}
	byCell := make([][]int, len(s.plan.Cells)) // shards that follow each other
	for i, shard := range s.plan.Shards {
		if files[i].key == "" {
			return nil, fmt.Errorf("shard %d was refined, but its file under %s is gone", i, prefix)
		}
		if shard.Shared != nil {
			byCell = append(byCell, []int{i})
			continue
		}
		byCell[shard.Cell] = append(byCell[shard.Cell], i)
	}
	var out [][]stagedFile
	for _, shards := range byCell {
		if len(shards) == 0 {
			continue
		}
		slices.SortFunc(shards, func(a, b int) int { return cmp.Compare(s.plan.Shards[a].Seq, s.plan.Shards[b].Seq) })
		group := make([]stagedFile, len(shards))
		for i, shard := range shards {
			group[i] = files[shard]
		}
		out = append(out, group)
	}
	return out, nil
}
