package activities

import (
	"context"
	"fmt"
	"iter"
)

// mergeFanIn is how many cells are merged at once. Each holds some rows and
// megabytes of its file; where there are more, some are merged on disk first.
const mergeFanIn = 16

// A rowStream is staged rows in the order of their task ids.
type rowStream = iter.Seq2[stagedRow, error]

// tasks yields the refined tasks of all cells in the order of their ids.
// Intermediate files go to dir.
func (s *seal) tasks(ctx context.Context, dir string) (iter.Seq2[refinedTask, error], error) {
	streams, err := s.cells(ctx)
	if err != nil {
		return nil, err
	}
	m := sortedMerge[stagedRow]{
		id: (*stagedRow).task, fanIn: mergeFanIn, dir: dir, name: "merged-*.parquet", options: stageGroup,
		note: func(left int) { s.note(fmt.Sprintf("merging: %d cells are left", left)) },
	}
	rows, err := m.all(ctx, streams)
	if err != nil {
		return nil, fmt.Errorf("merge refined tasks: %w", err)
	}
	return unstaged[refinedTask](rows), nil
}

// cells are the refined rows in streams that are sorted by task id.
func (s *seal) cells(ctx context.Context) ([]rowStream, error) {
	groups, err := s.sortedFiles(ctx, stageRefined)
	if err != nil {
		return nil, err
	}
	var cells []rowStream
	for _, files := range groups {
		cells = append(cells, func(yield func(stagedRow, error) bool) {
			for _, f := range files {
				for row, err := range stagedRows(ctx, s.a.Bucket, f.key, f.size) {
					if !yield(row, err) || err != nil {
						return
					}
				}
			}
		})
	}
	return cells, nil
}
