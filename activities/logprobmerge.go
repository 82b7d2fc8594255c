package activities

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// logprobMergeFanIn is how many cells' rows are merged at once: a long answer's
// row takes megabytes, and each cell has a row group in memory.
const logprobMergeFanIn = 4

// A logprobStream is rows of the logprobs table in the order of their tasks.
type logprobStream = iter.Seq2[datasets.LogprobRow, error]

// writeLogprobs merges the shards' rows, in the order of task ids, into the
// table. Intermediate files go to dir.
func (s *seal) writeLogprobs(ctx context.Context, dir string, mix *mixture, to *tableWriter[datasets.LogprobRow]) error {
	streams, err := s.logprobCells(ctx)
	if err != nil {
		return err
	}
	options := logprobGroup
	options.Passing = true
	m := sortedMerge[datasets.LogprobRow]{
		id:    func(r *datasets.LogprobRow) string { return r.TaskID },
		fanIn: logprobMergeFanIn, dir: dir, name: "logprobs-*.parquet", options: options,
	}
	rows, err := m.all(ctx, streams)
	if err != nil {
		return fmt.Errorf("merge logprobs: %w", err)
	}
	if mix != nil {
		if rows, err = mix.left.from(rows); err != nil {
			return fmt.Errorf("write the logprobs table: %w", err)
		}
	}
	n := 0
	for row, err := range rows {
		if n++; n%64 == 0 {
			s.note(fmt.Sprintf("wrote the logprobs of %d answers", n))
			err = errors.Join(err, ctx.Err())
		}
		if err == nil {
			err = to.add(row)
		}
		if err != nil {
			return fmt.Errorf("write the logprobs table: %w", err)
		}
	}
	return to.close()
}

// logprobCells are the staged rows in streams that are sorted by task id.
func (s *seal) logprobCells(ctx context.Context) ([]logprobStream, error) {
	groups, err := s.sortedFiles(ctx, stageLogprobs)
	if err != nil {
		return nil, err
	}
	var cells []logprobStream
	for _, files := range groups {
		cells = append(cells, func(yield func(datasets.LogprobRow, error) bool) {
			for _, f := range files {
				r, err := parquetio.Open[datasets.LogprobRow](objstore.NewReaderAt(ctx, s.a.Bucket, f.key, f.size), f.size)
				if err != nil {
					yield(datasets.LogprobRow{}, fmt.Errorf("read %s: %w", f.key, err))
					return
				}
				for row, err := range r.All() {
					if !yield(row, err) || err != nil {
						return
					}
				}
			}
		})
	}
	return cells, nil
}
