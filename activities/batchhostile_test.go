package activities

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/internal/wire"
	"github.com/stillhouse-data/stillhouse/teachers"
	"github.com/stillhouse-data/stillhouse/teachers/teacherstest"
)

// A file of results may hold any number of rows that are not ours, each under an
// id of any length: what is remembered of them is bounded.
func TestStrangeRowsDoNotFillTheMemory(t *testing.T) {
	r := &batchReading{seen: map[[16]byte]bool{}}
	const rows = mostSeen + mostSeen/4
	long := strings.Repeat("x", 1<<8)
	for i := range rows {
		row := &teachers.BatchRow{Line: i, CustomID: long, Raw: fmt.Append(nil, long, i)}
		r.refuse(row, "it is no id of ours")
		r.refuse(row, "it is no id of ours") // the file is read again
		if i == 0 && r.outcome.Refused != 1 {
			t.Fatalf("a row that is read again counts %d times", r.outcome.Refused)
		}
	}
	if len(r.seen) > mostSeen || r.refused.Len() > refusedBytes || r.outcome.Refused < rows {
		t.Errorf("%d rows are remembered in %d bytes, and %d are counted", len(r.seen), r.refused.Len(), r.outcome.Refused)
	}
}

// A batch API that is busy may name any time: no build stands still for a year.
func TestABusyEndpointNamesAYear(t *testing.T) {
	server := teacherstest.NewBatch(t, answers42, teacherstest.BatchOptions{Fault: func(op string, n int) teacherstest.BatchFault {
		if op == teacherstest.OpSubmit && n == 0 {
			return teacherstest.BatchFault{Status: 429, Message: "slow down", Retry: 365 * 24 * time.Hour}
		}
		return teacherstest.BatchFault{}
	}})
	w := newWorld(t)
	w.file("p.jsonl", sums(2))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, ""))
	key := b.prepare(false).Submit[0]
	out := do[wire.BatchSubmitOutput](b, wire.ActivityBatchSubmit, b.in(key))
	if wait := time.Duration(out.WaitMS) * time.Millisecond; wait <= 0 || wait > 24*time.Hour {
		t.Errorf("it is asked again in %s", wait)
	}
}

// A model's name comes from the endpoint, and what is to be written into a recipe
// because of it stays one value there.
func TestANameToBeCopiedIsQuoted(t *testing.T) {
	server := teacherstest.NewBatch(t, func(teacherstest.Request) teacherstest.Reply {
		return teacherstest.Reply{Content: "42", Model: "x, api_key_file: /etc/shadow\n\x1b[2J"}
	}, teacherstest.BatchOptions{})
	w := newWorld(t)
	w.file("p.jsonl", sums(2))
	b := w.startBatches(batchRecipe("a", teachers.APIOpenAIBatch, server.URL, "")).all(2)
	if b.stopped == nil || !strings.Contains(b.stopped.Text, `answers_as: ["x, api_key_file: /etc/shadow\n\x1b[2J"]`) || strings.ContainsAny(b.stopped.Text, "\x1b\n") {
		t.Errorf("%+v", b.stopped)
	}
}
