package activities

import (
	"bytes"
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
	Data   string `parquet:"data"` // JSON
}

func (r *stagedRow) task() string { return r.TaskID }

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
var stageGroup = parquetio.Options{RowGroupRows: 256, RowGroupBytes: 4 << 20, Passing: true}

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
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	for i := range values {
		text.Reset()
		if err := enc.Encode(&values[i]); err != nil {
			return err
		}
		row := stagedRow{TaskID: id(&values[i]), Data: text.String()}
		if err := s.w.Write([]stagedRow{row}); err != nil {
			return err
		}
	}
	return nil
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

// stagedRows streams the rows of a staged file from the store; size is the
// object's.
func stagedRows(ctx context.Context, b objstore.Bucket, key string, size int64) iter.Seq2[stagedRow, error] {
	return func(yield func(stagedRow, error) bool) {
		r, err := parquetio.Open[stagedRow](objstore.NewReaderAt(ctx, b, key, size), size)
		if err != nil {
			yield(stagedRow{}, fmt.Errorf("read %s: %w", key, err))
			return
		}
		for row, err := range r.All() {
			if err != nil {
				err = fmt.Errorf("read %s: %w", key, err)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// unstaged decodes staged rows.
func unstaged[T any](rows iter.Seq2[stagedRow, error]) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for row, err := range rows {
			var v T
			if err == nil {
				if err = json.Unmarshal([]byte(row.Data), &v); err != nil {
					err = fmt.Errorf("read what was staged for %s: %w", row.TaskID, err)
				}
			}
			if !yield(v, err) || err != nil {
				return
			}
		}
	}
}

// shardCache keeps the tasks of the shards that were read last: the batches of
// a shard and its teachers read the same ones, at about the same time.
type shardCache struct {
	mu    sync.Mutex
	bytes int64
	order list.List // of *cachedShard, newest first
}

// A cachedShard is locked by whoever reads it first.
type cachedShard struct {
	key string

	mu    sync.Mutex
	tasks []datasets.Task

	bytes   int64 // as the cache counts it, under the cache's lock like dropped
	dropped bool
}

// shardBytes bounds the tasks in memory; the shard that was used last stays
// however large it is.
const shardBytes = 32 << 20

// entry is the cache's place for a shard.
func (c *shardCache) entry(key string) *cachedShard {
	c.mu.Lock()
	defer c.mu.Unlock()
	for e := c.order.Front(); e != nil; e = e.Next() {
		if s := e.Value.(*cachedShard); s.key == key {
			c.order.MoveToFront(e)
			return s
		}
	}
	s := &cachedShard{key: key}
	c.order.PushFront(s)
	return s
}

// filled counts what a shard holds, and drops those used longest ago.
func (c *shardCache) filled(s *cachedShard, bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.dropped {
		return
	}
	s.bytes = bytes
	c.bytes += bytes
	for c.bytes > shardBytes && c.order.Len() > 1 {
		last := c.order.Remove(c.order.Back()).(*cachedShard)
		last.dropped = true
		c.bytes -= last.bytes
	}
}

// tasks reads the tasks of a shard. They are shared and not to be changed.
func (a *Activities) tasks(ctx context.Context, plan *Plan, shard int) ([]datasets.Task, error) {
	return a.shardTasks(ctx, plan.Shards[shard], fmt.Sprintf("shard %d", shard))
}

// shardTasks reads the tasks of a shard, by what it is called in errors.
func (a *Activities) shardTasks(ctx context.Context, s Shard, what string) ([]datasets.Task, error) {
	cached := a.shards.entry(s.Key)
	cached.mu.Lock()
	defer cached.mu.Unlock()
	if cached.tasks != nil {
		return cached.tasks, nil
	}
	at, err := a.Bucket.Head(ctx, s.Key)
	if err != nil {
		return nil, fmt.Errorf("read the tasks of %s: %w", what, err)
	}
	tasks := make([]datasets.Task, 0, s.Tasks)
	var bytes int64
	for t, err := range unstaged[datasets.Task](stagedRows(ctx, a.Bucket, s.Key, at.Size)) {
		if err != nil {
			return nil, fmt.Errorf("read the tasks of %s: %w", what, err)
		}
		tasks = append(tasks, t)
		bytes += taskBytes(&t)
	}
	if len(tasks) != s.Tasks {
		return nil, fmt.Errorf("%s holds %d tasks, and the plan says %d", what, len(tasks), s.Tasks)
	}
	cached.tasks = tasks
	a.shards.filled(cached, bytes)
	return tasks, nil
}

// taskBytes is about what a task holds in memory.
func taskBytes(t *datasets.Task) int64 {
	return int64(promptBytes(&t.Prompt) + textBytes(t.Gold) + textBytes(t.Tests) + len(t.Meta) + 200)
}
