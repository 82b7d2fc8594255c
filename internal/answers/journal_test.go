package answers

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func memBucket() *mem.Bucket { return mem.New("t") }

// journalOf is a piece with the records, and where each of them ends.
func journalOf(t testing.TB, records ...*Record) (data []byte, ends []int) {
	t.Helper()
	for _, r := range records {
		var err error
		if data, err = appendFrame(data, r.normal()); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(data))
	}
	return data, ends
}

func scanned(t testing.TB, data []byte) ([]*Record, frameReport) {
	t.Helper()
	var got []*Record
	report, err := scanFrames(data, func(off, n int, r *Record) error {
		again, err := decodeFrame(wholeFrame(data[off : off+n]))
		if err != nil || !cmp.Equal(again, r, sameBytes) {
			t.Errorf("record at %d, %d bytes, reads back as %v, %v", off, n, again, err)
		}
		got = append(got, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return got, report
}

func someRecords() []*Record {
	odd := &Record{Ask: Ask{Endpoint: endpointB, Sample: -1}}
	retried := answerTo(askFor(endpointA, 4, 0), "stop", "four")
	retried.Ledger = `{"earlier":[{"class":"rate_limited","status":429,"sent":[[1,2]]}]}`
	records := []*Record{
		answerTo(askFor(endpointA, 1, 0), "stop", "one"),
		failureOf(askFor(endpointA, 2, 7), time.Unix(1, 0), "http_500"),
		answerTo(askFor(endpointB, 3, 9), "length", string(bytes.Repeat([]byte{0xff, 0, '\n'}, 100))),
		odd,
		retried,
	}
	for i, r := range records {
		records[i] = r.normal()
	}
	return records
}

func TestJournalReadsBack(t *testing.T) {
	want := someRecords()
	data, _ := journalOf(t, want...)
	got, report := scanned(t, data)
	if diff := cmp.Diff(want, got, sameBytes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if report != (frameReport{end: len(data)}) {
		t.Errorf("report %+v of an undamaged piece of %d bytes", report, len(data))
	}
	r, err := zstd.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if plain, err := io.ReadAll(r); err != nil || !bytes.Contains(plain, []byte("upstream said no")) {
		t.Errorf("a piece is no .zst file: %v", err)
	}
}

func TestTornJournalKeepsWhatIsWhole(t *testing.T) {
	want := someRecords()
	data, ends := journalOf(t, want...)
	for n := range len(data) + 1 {
		whole, _ := slices.BinarySearch(ends, n+1)
		for name, tail := range map[string][]byte{"cut": nil, "zeros": make([]byte, 50), "noise": bytes.Repeat([]byte{0x5a, 0x2a, 0x4d, 0x18, 8, 0, 0, 0}, 5)} {
			if name == "zeros" && whole < len(ends) && len(bytes.Trim(data[n:ends[whole]], "\x00")) == 0 {
				continue // the record ends with these very zeros: it is whole
			}
			got, report := scanned(t, append(data[:n:n], tail...))
			if diff := cmp.Diff(want[:whole], got, sameBytes); diff != "" && !(whole == 0 && len(got) == 0) {
				t.Fatalf("%s at byte %d (-want +got):\n%s", name, n, diff)
			}
			if end := append([]int{0}, ends...)[whole]; report.end != end || report.damaged != n-end+len(tail) {
				t.Fatalf("%s at byte %d: report %+v, want the end at %d", name, n, report, end)
			}
		}
	}
}

func TestDamageInTheMiddleCostsOneRecord(t *testing.T) {
	want := someRecords()
	data, ends := journalOf(t, want...)
	for at := range data {
		damaged := bytes.Clone(data)
		damaged[at] ^= 0x40
		hit, _ := slices.BinarySearch(ends, at+1)
		got, report := scanned(t, damaged)
		if diff := cmp.Diff(slices.Delete(slices.Clone(want), hit, hit+1), got, sameBytes); diff != "" {
			t.Fatalf("byte %d (-want +got):\n%s", at, diff)
		}
		if report.damaged == 0 {
			t.Fatalf("byte %d: no damage was reported", at)
		}
	}
}

func TestNewerJournalIsNotDropped(t *testing.T) {
	payload := appendRecord(nil, someRecords()[0])
	payload[0] = ledgerVersion + 1
	frame := append(make([]byte, frameHeader), encoder().EncodeAll(payload, nil)...)
	binary.LittleEndian.PutUint32(frame[0:], frameMagic)
	binary.LittleEndian.PutUint32(frame[4:], 8)
	binary.LittleEndian.PutUint32(frame[8:], uint32(len(frame)-frameHeader))
	binary.LittleEndian.PutUint32(frame[12:], frameCRC(frame))

	dir := t.TempDir()
	path := filepath.Join(dir, "journal", pieceName(1)+pieceSuffix)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, frame, 0o600)); err != nil {
		t.Fatal(err)
	}
	if s, err := reopen(memBucket(), dir, nil); !errors.Is(err, errRecordVersion) {
		t.Errorf("Open: %v, %v", s, err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Errorf("the piece is gone: %v", err)
	}
}

// TestRecoveryFromEveryTear opens a home whose journal was cut at every
// record's end and around it.
func TestRecoveryFromEveryTear(t *testing.T) {
	asks := []Ask{askFor(endpointA, 1, 0), askFor(endpointA, 2, 0), askFor(endpointB, 3, 9)}
	texts := []string{"one", "two", "three"}
	var records []*Record
	for i, a := range asks {
		records = append(records, answerTo(a, "stop", texts[i]))
	}
	data, ends := journalOf(t, records...)
	for _, end := range append([]int{0}, ends...) {
		for n := max(end-1, 0); n <= min(end+frameHeader+1, len(data)); n += 1 + frameHeader/2 {
			bucket, dir := memBucket(), t.TempDir()
			path := filepath.Join(dir, "journal", pieceName(7)+pieceSuffix)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data[:n], 0o600)); err != nil {
				t.Fatal(err)
			}
			whole, _ := slices.BinarySearch(ends, n+1)
			want := append(slices.Clone(texts[:whole]), slices.Repeat([]string{"-"}, 3-whole)...)
			s := opened(t, bucket, dir, nil)
			wantTexts(t, s, asks, want...)
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("cut at %d: the indexed piece is still there: %v", n, err)
			}
		}
	}
}

func TestMoverCopiesFinishedPieces(t *testing.T) {
	bucket, dir := memBucket(), t.TempDir()
	uploaded := make(chan string, 10)
	bucket.Lost = func(op, key string) error {
		if op == mem.OpPut && bytes.HasPrefix([]byte(key), []byte(journalPrefix)) {
			uploaded <- key
		}
		return nil
	}
	s := opened(t, bucket, dir, func(tune *tuning) { tune.pieceAge = time.Millisecond })
	a := askFor(endpointA, 1, 0)
	mustAppend(t, s, answerTo(a, "stop", "one"))
	key := <-uploaded
	if keys := keysUnder(t, bucket, journalPrefix); !slices.Equal(keys, []string{key}) {
		t.Fatalf("the store's journal holds %v, want %s", keys, key)
	}

	// Another home, after this one burnt down.
	other := opened(t, bucket, t.TempDir(), nil)
	if n, err := other.AdoptOrphans(context.Background(), func(w string) bool { return w == s.Worker() }); n != 0 || err != nil {
		t.Errorf("adopted %d of a live worker, %v", n, err)
	}
	wantTexts(t, other, []Ask{a}, "-")
	if n, err := other.AdoptOrphans(context.Background(), func(string) bool { return false }); n != 1 || err != nil {
		t.Errorf("adopted %d, %v, want 1", n, err)
	}
	wantTexts(t, other, []Ask{a}, "one")
	if keys := keysUnder(t, bucket, journalPrefix); len(keys) > 0 {
		t.Errorf("the store's journal still holds %v", keys)
	}
	if n, err := other.AdoptOrphans(context.Background(), func(string) bool { return false }); n != 0 || err != nil {
		t.Errorf("adopted %d again, %v", n, err)
	}
}

func TestAdoptionKeepsTheFirstAnswer(t *testing.T) {
	bucket := memBucket()
	a, b, c := askFor(endpointA, 1, 0), askFor(endpointA, 2, 0), askFor(endpointA, 3, 0)
	data, _ := journalOf(t, answerTo(a, "stop", "orphan a"), answerTo(b, "stop", "orphan b"), answerTo(b, "stop", "orphan b again"),
		failureOf(a, time.Unix(5, 0), "old"), failureOf(c, time.Unix(5, 0), "older"))
	s := opened(t, bucket, t.TempDir(), nil)
	mustAppend(t, s, answerTo(a, "stop", "first a"), failureOf(c, time.Unix(6, 0), "newer"))
	mustFlush(t, s)
	put(t, bucket, journalPrefix+"gone/"+pieceName(1)+".zst", append(data, "torn"...))
	if n, err := s.AdoptOrphans(context.Background(), func(string) bool { return false }); n != 5 || err != nil {
		t.Errorf("adopted %d, %v; want all five: each was paid for", n, err)
	}
	wantTexts(t, s, []Ask{a, b, c}, "first a", "orphan b", "!newer")

	// The same piece again, as where its deletion was lost.
	put(t, bucket, journalPrefix+"gone/"+pieceName(1)+".zst", data)
	if n, err := s.AdoptOrphans(context.Background(), func(string) bool { return false }); n != 0 || err != nil {
		t.Errorf("adopted %d of the same records again, %v", n, err)
	}
}

func TestRestoredHomeFindsItsPiecesInTheStore(t *testing.T) {
	bucket, dir := memBucket(), t.TempDir()
	s := opened(t, bucket, dir, nil)
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	a := askFor(endpointA, 1, 0)
	data, _ := journalOf(t, answerTo(a, "stop", "one"))
	put(t, bucket, s.pieceKey(99), data)
	again := opened(t, bucket, dir, nil)
	wantTexts(t, again, []Ask{a}, "one")
	if keys := keysUnder(t, bucket, journalPrefix); len(keys) > 0 {
		t.Errorf("the store's journal still holds %v", keys)
	}
}

func TestTwoCopiesOfAHomeKeepBothJournals(t *testing.T) {
	bucket, dir := memBucket(), t.TempDir()
	s := opened(t, bucket, dir, nil)
	a := askFor(endpointA, 1, 0)
	mustAppend(t, s, answerTo(a, "stop", "one"))
	s.mu.Lock()
	p := s.pieces[0]
	s.mu.Unlock()
	put(t, bucket, s.pieceKey(p.seq), []byte("the other copy's"))
	if err := s.uploadPiece(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	if keys := keysUnder(t, bucket, journalPrefix); len(keys) != 2 {
		t.Errorf("the store's journal holds %v, want both", keys)
	}
	bucket.Delete(context.Background(), s.pieceKey(p.seq))
}

func FuzzScanFrames(f *testing.F) {
	data, _ := journalOf(f, someRecords()...)
	f.Add(data)
	f.Add(data[:len(data)/2])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		report, err := scanFrames(data, func(off, n int, r *Record) error {
			if off < 0 || n <= frameHeader || off+n > len(data) {
				return fmt.Errorf("record at %d, %d bytes, in a piece of %d", off, n, len(data))
			}
			return r.validate()
		})
		if err != nil && !errors.Is(err, errRecordVersion) {
			t.Fatal(err)
		}
		if report.end > len(data) || report.damaged > len(data) {
			t.Fatalf("report %+v of %d bytes", report, len(data))
		}
	})
}

func FuzzDecodeRecord(f *testing.F) {
	for _, r := range someRecords() {
		f.Add(appendRecord(nil, r))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r, err := decodeRecord(data)
		if err != nil {
			return
		}
		again, err := decodeRecord(appendRecord(nil, r))
		if err != nil {
			t.Fatalf("what was read can't be read back: %v", err)
		}
		if diff := cmp.Diff(r, again); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
	})
}
