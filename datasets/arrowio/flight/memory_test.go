package flight_test

import (
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// answers are rows with 64 kB of reasoning.
func answers(n int) []datasets.Row {
	out := rows(0, n, "k3")
	for i := range out {
		out[i].Messages[1].ReasoningContent = chat.Text(strings.Repeat(fmt.Sprintf("Let x be %d; then 3x = %d. ", i, 3*i), 2400))
	}
	return out
}

// TestMemoryIsThatOfABatch streams hundreds of megabytes over loopback, to a
// client in the same process, in memory that does not grow with them. With -v
// it says how fast.
func TestMemoryIsThatOfABatch(t *testing.T) {
	testdata.Heavy(t)
	h := open(t, 4)
	const files, perFile = 5, 1500
	var all [][]datasets.Row
	for range files {
		all = append(all, answers(perFile))
	}
	publish(t, h.c, "b1", map[string]string{"k3": catalog.TrainingAllowed}, map[string][][]datasets.Row{"train": all})
	clear(all) // the store has them
	ctx := with(t)
	info, err := h.client.GetFlightInfo(ctx, path("maths"))
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var before, now runtime.MemStats
	runtime.ReadMemStats(&before)
	var bytes, peak int64
	begun := time.Now()
	for _, e := range info.Endpoint {
		stream, err := h.client.DoGet(ctx, e.Ticket)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ {
			data, err := stream.Recv()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			bytes += int64(len(data.DataBody))
			if i%8 == 0 {
				runtime.ReadMemStats(&now)
				peak = max(peak, int64(now.HeapInuse)-int64(before.HeapInuse))
			}
		}
	}
	if bytes < files*perFile*60_000 {
		t.Errorf("only %d bytes came", bytes)
	}
	if peak > 160<<20 {
		t.Errorf("the heap grew by %d MiB for %d MiB of rows", peak>>20, bytes>>20)
	}
	took := time.Since(begun).Seconds()
	t.Logf("%d MiB in %.1f s, %.0f MB/s, at most %d MiB of heap beside the store", bytes>>20, took, float64(bytes)/1e6/took, peak>>20)
}
