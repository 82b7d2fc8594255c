package activities

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"pgregory.net/rapid"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func rowsOf(ids ...string) rowStream {
	return func(yield func(stagedRow, error) bool) {
		for _, id := range ids {
			if !yield(stagedRow{TaskID: id, Data: "{}"}, nil) {
				return
			}
		}
	}
}

func idsOf(rows rowStream) (ids []string, err error) {
	for row, err := range rows {
		if err != nil {
			return ids, err
		}
		ids = append(ids, row.TaskID)
	}
	return ids, nil
}

func TestMergeRowsSorts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		streams := rapid.SliceOfN(rapid.SliceOfN(rapid.StringMatching(`[a-c]{0,3}`), 0, 10), 0, 20).Draw(t, "streams")
		var want []string
		var in []rowStream
		for _, ids := range streams {
			slices.Sort(ids)
			want = append(want, ids...)
			in = append(in, rowsOf(ids...))
		}
		slices.Sort(want)
		got, err := idsOf(mergeSorted(in, (*stagedRow).task))
		if err != nil || !slices.Equal(got, want) {
			t.Fatalf("%q %v, want %q", got, err, want)
		}
		// Whoever stops early leaves nothing running.
		for range mergeSorted(in, (*stagedRow).task) {
			break
		}
	})
}

func TestMergeRowsEndsAtAnError(t *testing.T) {
	broken := fmt.Errorf("broken")
	failing := func(yield func(stagedRow, error) bool) {
		if yield(stagedRow{TaskID: "b"}, nil) {
			yield(stagedRow{}, broken)
		}
	}
	got, err := idsOf(mergeSorted([]rowStream{rowsOf("a", "c"), failing}, (*stagedRow).task))
	if err != broken || !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("%q %v", got, err)
	}
	if _, err := idsOf(mergeSorted([]rowStream{iter.Seq2[stagedRow, error](func(yield func(stagedRow, error) bool) { yield(stagedRow{}, broken) })}, (*stagedRow).task)); err != broken {
		t.Errorf("%v", err)
	}
}

// Many cells are merged on disk first; what is published is the same.
func TestSealOfManyCells(t *testing.T) {
	const domains = 3*mergeFanIn + 5
	w := newWorld(t)
	var problems strings.Builder
	for i := range 4 * domains {
		fmt.Fprintf(&problems, `{"question":"%d+%d=","gold":"%d","domain":"d%d","a":"A: %d","b":"A: 0"}`+"\n", i, i+1, 2*i+1, i%domains, 2*i+1)
	}
	w.file("sums.jsonl", problems.String())
	r := w.start(recordedSumsRecipe).ask()
	if r.plan.Shards != 2*domains {
		t.Fatalf("%d shards", r.plan.Shards)
	}
	r.refine()
	out, result := r.seal()
	if out.Version != 1 || result.Rows["train"]+result.Rows["test"] != 2*4*domains {
		t.Errorf("%+v", result)
	}
	prompts := rows[datasets.PromptRow](w, "sums", datasets.TablePrompts)
	if len(prompts) != 2*4*domains || !slices.IsSortedFunc(prompts, func(a, b datasets.PromptRow) int { return strings.Compare(a.TaskID, b.TaskID) }) {
		t.Errorf("%d prompts", len(prompts))
	}
	w.verify("sums")
}

// The batches of all teachers ask for a shard at about the same time.
func TestAShardIsReadOnce(t *testing.T) {
	bucket := mem.New("t")
	var reads atomic.Int64
	bucket.Fault = func(op, key string) error {
		if strings.Contains(key, "/"+stageTasks+"/") && op == mem.OpHead {
			reads.Add(1)
		}
		return nil
	}
	w := newWorldOn(t, bucket)
	recordedSums(w, 30)
	r := w.start(recordedSumsRecipe)
	plan := r.planned()
	var wg sync.WaitGroup
	for range 20 {
		for shard := range plan.Shards {
			wg.Go(func() {
				if tasks, err := w.a.tasks(context.Background(), plan, shard); err != nil || len(tasks) != plan.Shards[shard].Tasks {
					t.Errorf("%d tasks, %v", len(tasks), err)
				}
			})
		}
	}
	wg.Wait()
	if n := reads.Load(); n != int64(len(plan.Shards)) {
		t.Errorf("%d reads of %d shards", n, len(plan.Shards))
	}
}

func TestShardCacheIsBounded(t *testing.T) {
	var c shardCache
	fill := func(key string, bytes int64) *cachedShard {
		s := c.entry(key)
		s.tasks = make([]datasets.Task, 1)
		c.filled(s, bytes)
		return s
	}
	first := fill("first", shardBytes/2)
	fill("second", shardBytes/2)
	if c.entry("first") != first {
		t.Error("the first shard is gone though there is room")
	}
	fill("third", shardBytes/2)
	if c.entry("first") != first || c.entry("second").tasks != nil {
		t.Error("the shard that was used longest ago is not the one that went")
	}
	huge := fill("huge", 10*shardBytes)
	if c.entry("huge") != huge || c.order.Len() != 1 || c.bytes != 10*shardBytes {
		t.Errorf("%d shards of %d bytes", c.order.Len(), c.bytes)
	}
	// A shard that went while it was being read is not counted.
	slow := c.entry("slow")
	fill("next", shardBytes)
	if slow.dropped {
		c.filled(slow, shardBytes)
	}
	var sum int64
	for e := c.order.Front(); e != nil; e = e.Next() {
		sum += e.Value.(*cachedShard).bytes
	}
	if sum != c.bytes {
		t.Errorf("it counts %d bytes and holds %d", c.bytes, sum)
	}
}
