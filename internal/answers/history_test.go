package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// told spells a history: the record, then the others.
func told(h History) string {
	spell := func(r *Record) string {
		switch {
		case r == nil:
			return "-"
		case r.Complete:
			return string(r.Raw)
		}
		return "!" + r.ErrorClass
	}
	words := []string{spell(h.Record)}
	for _, r := range h.Others {
		words = append(words, spell(r))
	}
	return strings.Join(words, " ")
}

func TestHistoryTellsAllThatWasPaidFor(t *testing.T) {
	at := func(i int, limit int64) Ask { return askFor(endpointA, i, limit) }
	begun := answerTo(at(0, 0), "", "").Started
	when := func(r *Record, seconds int) *Record {
		r.Started = begun.Add(time.Duration(seconds) * time.Second)
		return r
	}
	records := []*Record{
		when(failureOf(at(1, 100), begun, "cut"), -2),
		when(failureOf(at(1, 100), begun, "cut again"), -1),
		answerTo(at(1, 100), "stop", "one"),
		when(answerTo(at(1, 100), "stop", "one-of-another-home"), 3),
		when(failureOf(at(2, 100), begun, "early"), 1),
		when(failureOf(at(2, 100), begun, "late"), 2),
		answerTo(at(3, 100), "length", "three-at-100"),
		when(answerTo(at(3, 200), "stop", "three-at-200"), 1),
	}
	asks := []Ask{at(1, 100), at(2, 100), at(3, 100), at(3, 200), at(3, 300), at(4, 100)}
	want := []string{
		"one !cut !cut again one-of-another-home",
		"!late !early",
		"three-at-100", "three-at-200", "three-at-200",
		"-",
	}
	s := opened(t, memBucket(), t.TempDir(), func(tune *tuning) { tune.smallMost, tune.grace = leastRun-1, 0 })
	check := func(when string) {
		t.Helper()
		histories, err := s.History(context.Background(), time.Now(), asks)
		if err != nil {
			t.Fatal(err)
		}
		for i := range asks {
			if got := told(histories[i]); got != want[i] {
				t.Errorf("%s: ask %d: %q, want %q", when, i, got, want[i])
			}
		}
		found, err := s.Lookup(context.Background(), asks)
		if err != nil {
			t.Fatal(err)
		}
		for i := range asks {
			if diff := cmp.Diff(found[i], histories[i].Record); diff != "" {
				t.Errorf("%s: ask %d: the record is not what a lookup returns (-lookup +history):\n%s", when, i, diff)
			}
		}
	}
	for _, r := range records { // a segment each
		mustAppend(t, s, r)
		mustFlush(t, s)
	}
	check("in many segments")
	if err := s.compact(context.Background(), rangeID{endpoint: endpointA}); err != nil {
		t.Fatal(err)
	}
	check("merged")
}

func TestHistoryFollowsSplitRanges(t *testing.T) {
	s := opened(t, memBucket(), t.TempDir(), func(tune *tuning) { tune.closeRows = 4 })
	asks := make([]Ask, 40)
	for round := range 3 {
		for i := range asks {
			asks[i] = askFor(endpointA, i, 0)
			r := failureOf(asks[i], time.Unix(int64(round), 0), fmt.Sprint("f", round))
			if round == 2 {
				r = answerTo(asks[i], "stop", "done")
			}
			mustAppend(t, s, r)
		}
		mustFlush(t, s)
	}
	slices.Reverse(asks)
	histories, err := s.History(context.Background(), time.Now(), asks)
	if err != nil {
		t.Fatal(err)
	}
	for i := range histories {
		if got := told(histories[i]); got != "done !f0 !f1" {
			t.Errorf("ask %d: %q", i, got)
		}
	}
}

// TestLedgerIsKept follows a record with a ledger, among others without,
// through journal, segment and merge.
func TestLedgerIsKept(t *testing.T) {
	ledger := Ledger{
		Earlier: []Run{{Class: "rate_limited", Status: 429, Words: "slow down", Sent: []Sent{At(time.Unix(7, 5000), 30*time.Millisecond), {8_000_000, 1}}, More: 2}},
		ShareUS: 1500, Batch: "batch_1",
	}
	text, err := ledger.Text()
	if err != nil {
		t.Fatal(err)
	}
	bucket, dir := memBucket(), t.TempDir()
	change := func(tune *tuning) { tune.smallMost, tune.grace = leastRun-1, 0 }
	s := opened(t, bucket, dir, change)
	var asks []Ask
	for i := range 600 { // more than a page of short columns
		r := answerTo(askFor(endpointA, i, 0), "stop", fmt.Sprint("answer ", i))
		if i == 77 {
			r.Ledger = text
		}
		asks = append(asks, r.Ask)
		mustAppend(t, s, r)
		if i%100 == 99 {
			mustFlush(t, s)
		}
	}
	mustFlush(t, s)
	check := func() {
		t.Helper()
		s.mu.Lock()
		s.Reader.recent = newLRU[recordKey, *Record](1, nil) // nothing from memory
		s.mu.Unlock()
		records, err := s.Lookup(context.Background(), asks)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range records {
			want := ""
			if i == 77 {
				want = text
			}
			if r == nil || r.Ledger != want {
				t.Fatalf("answer %d: ledger %+v, want %q", i, r, want)
			}
		}
	}
	check()
	if err := s.compact(context.Background(), rangeID{endpoint: endpointA}); err != nil {
		t.Fatal(err)
	}
	check()
	got, err := ReadLedger(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&ledger, got); diff != "" {
		t.Errorf("the ledger changed (-want +got):\n%s", diff)
	}
	if got.Earlier[0].Requests() != 4 || got.Earlier[0].Sent[0].Started() != time.Unix(7, 5000).UTC() || got.Earlier[0].Sent[0].Latency() != 30*time.Millisecond {
		t.Errorf("the run reads %+v", got.Earlier[0])
	}
}

// TestFirstFormatsStillRead reads a segment and a journal piece as the first
// version wrote them, before there were ledgers.
func TestFirstFormatsStillRead(t *testing.T) {
	segment, err := os.ReadFile("testdata/v1/segment.parquet")
	if err != nil {
		t.Fatal(err)
	}
	piece, err := os.ReadFile("testdata/v1/piece.zst")
	if err != nil {
		t.Fatal(err)
	}
	var journalled []*Record
	report, err := scanFrames(piece, func(_, _ int, r *Record) error {
		journalled = append(journalled, r)
		return nil
	})
	if err != nil || report.damaged != 0 || len(journalled) != 3 {
		t.Fatalf("the piece holds %d records, %+v, %v", len(journalled), report, err)
	}
	file, err := openSegment(bytes.NewReader(segment), int64(len(segment)))
	if err != nil {
		t.Fatal(err)
	}
	read, err := file.read([]int64{0, 1, 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var each []segmentRow
	if err := file.each(func(row *segmentRow) error { each = append(each, *row); return nil }); err != nil {
		t.Fatal(err)
	}
	for i, want := range journalled {
		if want.Teacher != "k3" || want.Attempts != int32(i+1) || want.Complete != (i != 2) || want.Started.UnixMicro() != 1_790_000_000_123_456+int64(i)*1_000_000 {
			t.Errorf("record %d of the piece reads %+v", i, want)
		}
		for _, row := range []segmentRow{read[i], each[i]} {
			got, err := row.record("0123456789abcdef0123456789abcdef")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("row %d (-piece +segment):\n%s", i, diff)
			}
		}
	}
	// What has no ledger is still written in the first version's form.
	frame, err := appendFrame(nil, journalled[0])
	if err != nil || !bytes.Equal(frame, wholeFrame(piece)) {
		t.Errorf("the first record is written differently now (%v)", err)
	}
}

// Many large answers are refused at once, and read by a few.
func TestHistoryOfManyLargeAnswersIsRefused(t *testing.T) {
	s := opened(t, memBucket(), t.TempDir(), func(tune *tuning) { tune.fetchBytes, tune.recentBytes = 100<<10, 0 })
	var asks []Ask
	for i := range AtOnce + 8 {
		r := answerTo(askFor(endpointA, i, 0), "stop", strings.Repeat(string(rune('a'+i%26)), 8<<10))
		if err := s.Append(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		asks = append(asks, r.Ask)
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.History(t.Context(), time.Now(), asks); !errors.Is(err, ErrLarge) {
		t.Errorf("more than fits is no ErrLarge: %v", err)
	}
	found, err := s.History(t.Context(), time.Now(), asks[:AtOnce])
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		if r := found[i].Record; r == nil || len(r.Raw) != 8<<10 || r.Raw[0] != byte('a'+i%26) {
			t.Errorf("ask %d: %+v", i, r)
		}
	}
}
