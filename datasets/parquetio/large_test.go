package parquetio_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/chat"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// An answer may have reasoned for a million tokens and more: 4 MiB and 64 MiB in
// one value, between rows as they usually are. Nothing of it is in the footer,
// and row groups stay apart.
func TestReasoningOf64MiBInOneRow(t *testing.T) {
	testdata.Heavy(t)
	random := rand.New(rand.NewPCG(1, 2))
	var words strings.Builder
	for words.Len() < 64<<20 {
		fmt.Fprintf(&words, "step %d: carry %d, ", random.IntN(1000), random.IntN(10))
	}
	rows := many(50)
	for i, n := range map[int]int{10: 4 << 20, 20: 64 << 20, 30: 4 << 20} {
		reasoning := words.String()[:n]
		rows[i].Messages = append([]chat.Message{}, rows[i].Messages...)
		rows[i].Messages[1].ReasoningContent = &reasoning
	}
	data := write(t, rows, parquetio.Options{SortedBy: "prompt_id"})
	if footer := binary.LittleEndian.Uint32(data[len(data)-8:]); footer > 128<<10 {
		t.Errorf("the footer has %d bytes", footer)
	}
	info, err := parquetio.Check(bytes.NewReader(data), int64(len(data)))
	if err != nil || info.Rows != 50 || info.RowGroups < 3 {
		t.Fatalf("%+v, %v", info, err)
	}
	r, err := parquetio.Open[datasets.Row](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for row, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		want := rows[n].Messages[1].ReasoningContent
		if got := row.Messages[1].ReasoningContent; row.PromptID != rows[n].PromptID || *got != *want {
			t.Errorf("row %d came back with %d bytes of reasoning, not %d", n, len(*got), len(*want))
		}
		n++
	}
	if n != len(rows) {
		t.Errorf("%d rows of %d", n, len(rows))
	}
}
