package activities

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"sync"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
)

// Stages of a build's work in the store.
const (
	stagePlan    = "plan"
	stageTasks   = "tasks"
	stageRefined = "refined"
)

// A stagedRow is one task, or one refined task, between two stages.
type stagedRow struct {
	TaskID string `parquet:"task_id"`
	Data   string `parquet:"data,zstd"` // JSON
}

func workPrefix(dataset, buildID, stage string) string {
	return "datasets/" + dataset + "/work/" + buildID + "/" + stage + "/"
}

// stageKey names a staged file by its content, so that a step that runs again
// writes the same key.
func stageKey(dataset, buildID, stage, name string, data []byte, ext string) string {
	sum := sha256.Sum256(data)
	return workPrefix(dataset, buildID, stage) + name + "-" + hex.EncodeToString(sum[:]) + ext
}

// stageGroup bounds the row groups of a staged file, so that reading one back
// in order holds little of it.
var stageGroup = parquetio.Options{RowGroupRows: 64, RowGroupBytes: 4 << 20}

// A stageFile is a staged file on its way to the store.
type stageFile[T any] struct {
	file *os.File
	w    *parquetio.Writer[stagedRow]
}

func newStageFile[T any](dir string) (*stageFile[T], error) {
	f, err := os.CreateTemp(dir, "stage-*.parquet")
	if err != nil {
		return nil, err
	}
	w, err := parquetio.NewWriter[stagedRow](f, stageGroup)
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	return &stageFile[T]{f, w}, nil
}

// write appends values; id gives each one's task.
func (s *stageFile[T]) write(values []T, id func(*T) string) error {
	rows := make([]stagedRow, len(values))
	for i := range values {
		text, err := json.Marshal(&values[i])
		if err != nil {
			return err
		}
		rows[i] = stagedRow{TaskID: id(&values[i]), Data: string(text)}
	}
	return s.w.Write(rows)
}

// upload ends the file and names it by its content, so that a step that runs
// again writes the same key.
func (s *stageFile[T]) upload(ctx context.Context, b objstore.Bucket, dataset, buildID, stage, name string) (key string, err error) {
	if err := errors.Join(s.w.Close(), s.file.Close()); err != nil {
		return "", err
	}
	key = workPrefix(dataset, buildID, stage) + name + "-" + s.w.SHA256() + ".parquet"
	if _, err := objstore.CreateFileOrSame(ctx, b, key, s.file.Name()); err != nil {
		return "", fmt.Errorf("write %s: %w", key, err)
	}
	return key, nil
}

func (s *stageFile[T]) discard() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}

// readStaged streams a staged file from the store.
func readStaged[T any](ctx context.Context, b objstore.Bucket, key string) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var zero T
		at, err := b.Head(ctx, key)
		if err != nil {
			yield(zero, err)
			return
		}
		r, err := parquetio.Open[stagedRow](objstore.NewReaderAt(ctx, b, key, at.Size), at.Size)
		if err != nil {
			yield(zero, fmt.Errorf("read %s: %w", key, err))
			return
		}
		for row, err := range r.All() {
			var v T
			if err == nil {
				err = json.Unmarshal([]byte(row.Data), &v)
			}
			if err != nil {
				yield(zero, fmt.Errorf("read %s: %w", key, err))
				return
			}
			if !yield(v, nil) {
				return
			}
		}
	}
}

// shardCache keeps the tasks of the shards that were read last: the batches of
// a shard and its teachers read the same ones.
type shardCache struct {
	mu    sync.Mutex
	order list.List // of *cachedShard, newest first
}

type cachedShard struct {
	key   string
	tasks []datasets.Task
}

// keptShards bounds the shards in memory, at about 1 KiB a task.
const keptShards = 24

func (c *shardCache) get(key string) []datasets.Task {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*cachedShard); s.key == key {
			c.order.MoveToFront(e)
			return s.tasks
		}
	}
	return nil
}

func (c *shardCache) put(key string, tasks []datasets.Task) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.order.PushFront(&cachedShard{key, tasks})
	if c.order.Len() > keptShards {
		c.order.Remove(c.order.Back())
	}
}

// tasks reads the tasks of a shard. They are shared and not to be changed.
func (a *Activities) tasks(ctx context.Context, plan *Plan, shard int) ([]datasets.Task, error) {
	s := plan.Shards[shard]
	if tasks := a.shards.get(s.Key); tasks != nil {
		return tasks, nil
	}
	tasks := make([]datasets.Task, 0, s.Tasks)
	for t, err := range readStaged[datasets.Task](ctx, a.Bucket, s.Key) {
		if err != nil {
			return nil, fmt.Errorf("read the tasks of shard %d: %w", shard, err)
		}
		tasks = append(tasks, t)
	}
	if len(tasks) != s.Tasks {
		return nil, fmt.Errorf("shard %d holds %d tasks, and the plan says %d", shard, len(tasks), s.Tasks)
	}
	a.shards.put(s.Key, tasks)
	return tasks, nil
}
