package answers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	endpointA = "0123456789abcdef0123456789abcdef"
	endpointB = "fedcba9876543210fedcba9876543210"
)

// askFor is the ask of prompt i with a token cap.
func askFor(endpoint string, i int, limit int64) Ask {
	return Identify(Identity{
		Endpoint: endpoint, Epoch: 1, CapField: "max_tokens", Cap: limit,
		Body: fmt.Appendf(nil, `{"messages":[{"content":"%d","role":"user"}],"model":"m"}`, i),
	})
}

// answerTo is a record that ended for the given reason; text tells it from
// others.
func answerTo(a Ask, finish, text string) *Record {
	return &Record{
		Ask: a, Teacher: "t", Model: "m", Complete: true, Finish: finish, Format: "openai-sse",
		Raw: []byte(text), Status: 200, Headers: map[string]string{"x-request-id": text},
		Started: time.Date(2026, 11, 30, 12, 0, 0, 123456000, time.UTC),
		TTFT:    20 * time.Millisecond, Latency: 3 * time.Second, Attempts: 1,
	}
}

func failureOf(a Ask, started time.Time, class string) *Record {
	return &Record{Ask: a, Teacher: "t", Model: "m", Status: 500, Started: started, Attempts: 3, ErrorClass: class, ErrorText: "upstream said no", Raw: []byte("half an ans")}
}

// opened is a store that is closed at the end of the test.
func opened(t testing.TB, bucket objstore.Bucket, dir string, change func(*tuning)) *Store {
	t.Helper()
	s, err := reopen(bucket, dir, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func reopen(bucket objstore.Bucket, dir string, change func(*tuning)) (*Store, error) {
	tune := defaults()
	if change != nil {
		change(&tune)
	}
	return Open(context.Background(), Options{Bucket: bucket, Dir: dir, tune: &tune})
}

func mustAppend(t testing.TB, s *Store, records ...*Record) {
	t.Helper()
	for _, r := range records {
		if err := s.Append(context.Background(), r); err != nil {
			t.Fatal(err)
		}
	}
}

func mustFlush(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Flush(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// sameBytes compares bytes at once, and tells nil from empty.
var sameBytes = cmp.Comparer(func(a, b []byte) bool { return bytes.Equal(a, b) && (a == nil) == (b == nil) })

type looker interface {
	Lookup(context.Context, []Ask) ([]*Record, error)
	Answered(context.Context, []Ask) ([]bool, error)
}

// texts looks asks up and returns what their answers say; "-" is none, and a
// failure is "!" and its class.
func texts(t testing.TB, s looker, asks ...Ask) []string {
	t.Helper()
	records, err := s.Lookup(context.Background(), asks)
	if err != nil {
		t.Fatal(err)
	}
	answered, err := s.Answered(context.Background(), asks)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]string, len(asks))
	for i, r := range records {
		switch {
		case r == nil:
			out[i] = "-"
		case r.Complete:
			out[i] = string(r.Raw)
		default:
			out[i] = "!" + r.ErrorClass
		}
		if want := r != nil && r.Complete; answered[i] != want {
			t.Errorf("ask %d: Answered says %v, Lookup found %q", i, answered[i], out[i])
		}
	}
	return out
}

func wantTexts(t testing.TB, s looker, asks []Ask, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, texts(t, s, asks...)); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

func keysUnder(t testing.TB, b objstore.Bucket, prefix string) (keys []string) {
	t.Helper()
	for attr, err := range b.List(context.Background(), prefix, "") {
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, attr.Key)
	}
	return keys
}

func TestAnswersSurviveWhatTheyGoThrough(t *testing.T) {
	bucket := mem.New("t")
	dir := t.TempDir()
	s := opened(t, bucket, dir, nil)
	a, b, c := askFor(endpointA, 1, 100), askFor(endpointA, 2, 0), askFor(endpointB, 1, 100)
	want := []*Record{answerTo(a, "stop", "one"), answerTo(b, "length", strings.Repeat("two ", 40_000)), failureOf(c, time.UnixMicro(7).UTC(), "http_500")}
	want[0].Sample = 3
	mustAppend(t, s, want...)
	mustFlush(t, s)

	check := func(name string, s looker) {
		t.Helper()
		got, err := s.Lookup(context.Background(), []Ask{a, b, c, askFor(endpointB, 9, 0)})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(append(want[:3:3], nil), got, sameBytes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check("from memory", s)
	cold, err := OpenReader(bucket, "")
	if err != nil {
		t.Fatal(err)
	}
	check("from the store", cold)
	if err := cold.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(cold.cache.dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary cache is still there: %v", err)
	}
	warm, err := OpenReader(bucket, filepath.Join(dir, "cache"))
	if err != nil {
		t.Fatal(err)
	}
	defer warm.Close()
	check("from the cache", warm)
}

func TestAppendRefusesWhatHasNoKey(t *testing.T) {
	s := opened(t, mem.New("t"), t.TempDir(), nil)
	for _, r := range []*Record{{}, {Ask: Ask{Endpoint: "../../etc"}}, {Ask: Ask{Endpoint: endpointA, Cap: -1}}} {
		if err := s.Append(context.Background(), r); err == nil {
			t.Errorf("Append(%+v) succeeded", r.Ask)
		}
		if _, err := s.Lookup(context.Background(), []Ask{r.Ask}); err == nil {
			t.Errorf("Lookup(%+v) succeeded", r.Ask)
		}
	}
}

func TestLookupSeesWhatIsNotFlushedYet(t *testing.T) {
	s := opened(t, mem.New("t"), t.TempDir(), nil)
	a := askFor(endpointA, 1, 0)
	mustAppend(t, s, answerTo(a, "stop", "one"))
	wantTexts(t, s, []Ask{a}, "one")
}

func TestHomeIsUsedByOneStoreAtATime(t *testing.T) {
	bucket, dir := mem.New("t"), t.TempDir()
	s := opened(t, bucket, dir, nil)
	if _, err := reopen(bucket, dir, nil); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("second Open: %v", err)
	}
	worker := s.Worker()
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if again := opened(t, bucket, dir, nil); again.Worker() != worker {
		t.Errorf("worker was %s, is %s", worker, again.Worker())
	}
	if other := opened(t, bucket, t.TempDir(), nil); other.Worker() == worker {
		t.Errorf("two homes are both %s", worker)
	}
	if _, err := Open(context.Background(), Options{Bucket: bucket, Dir: t.TempDir(), Worker: "../x"}); err == nil {
		t.Error("a worker name with a slash was taken")
	}
}

func TestClosedStoreRefuses(t *testing.T) {
	s, err := reopen(mem.New("t"), t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := s.Append(context.Background(), answerTo(askFor(endpointA, 1, 0), "stop", "x")); !errors.Is(err, errClosed) {
		t.Errorf("Append after Close: %v", err)
	}
	if err := s.Close(context.Background()); err != nil {
		t.Errorf("second Close: %v", err)
	}
}

func TestCloseLeavesNoJournal(t *testing.T) {
	bucket, dir := mem.New("t"), t.TempDir()
	s := opened(t, bucket, dir, nil)
	mustAppend(t, s, answerTo(askFor(endpointA, 1, 0), "stop", "one"))
	if err := s.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "journal", "*")); len(files) > 0 {
		t.Errorf("local journal holds %v", files)
	}
	if keys := keysUnder(t, bucket, journalPrefix); len(keys) > 0 {
		t.Errorf("the store's journal holds %v", keys)
	}
}

func TestDiskErrorsLatch(t *testing.T) {
	for _, op := range []string{"create", "write", "sync"} {
		t.Run(op, func(t *testing.T) {
			bucket, dir := mem.New("t"), t.TempDir()
			s, err := reopen(bucket, dir, nil)
			if err != nil {
				t.Fatal(err)
			}
			full := false
			s.jrnl.fault = func(at string) error {
				if full && at == op {
					return syscall.ENOSPC
				}
				return nil
			}
			kept, lost := askFor(endpointA, 1, 0), askFor(endpointA, 2, 0)
			if op != "create" { // the piece is begun by the first record
				mustAppend(t, s, answerTo(kept, "stop", "kept"))
			}
			full = true
			if err := s.Append(context.Background(), answerTo(lost, "stop", "lost")); !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("Append on a full disk: %v", err)
			}
			full = false
			if err := s.Append(context.Background(), answerTo(lost, "stop", "lost")); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Append after it: %v", err)
			}
			if err := s.Flush(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Flush after it: %v", err)
			}
			if err := s.Close(context.Background()); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Close after it: %v", err)
			}
			again := opened(t, bucket, dir, nil)
			if op != "create" {
				wantTexts(t, again, []Ask{kept}, "kept")
			}
		})
	}
}

func TestStoreOutageLosesNothing(t *testing.T) {
	bucket, dir := mem.New("t"), t.TempDir()
	var mu sync.Mutex
	down := false
	bucket.Fault = func(op, key string) error {
		mu.Lock()
		defer mu.Unlock()
		if down {
			return objstore.ErrUnavailable
		}
		return nil
	}
	set := func(d bool) { mu.Lock(); down = d; mu.Unlock() }
	// No memory for what waits: it must come back from the journal.
	s, err := reopen(bucket, dir, func(tune *tuning) { tune.spillBytes = 1000; tune.pieceBytes = 2000 })
	if err != nil {
		t.Fatal(err)
	}
	set(true)
	var asks []Ask
	var want []string
	for i := range 50 {
		asks = append(asks, askFor(endpointA, i, 0))
		want = append(want, fmt.Sprint("answer ", i))
		mustAppend(t, s, answerTo(asks[i], "stop", want[i]))
	}
	if err := s.Flush(context.Background()); !errors.Is(err, objstore.ErrUnavailable) {
		t.Fatalf("Flush without a store: %v", err)
	}
	set(false)
	mustFlush(t, s)
	wantTexts(t, s, asks, want...)

	set(true)
	asks, want = append(asks, askFor(endpointA, 50, 0)), append(want, "late")
	mustAppend(t, s, answerTo(asks[50], "stop", "late"))
	if err := s.Close(context.Background()); !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("Close without a store: %v", err)
	}
	if _, err := reopen(bucket, dir, nil); !errors.Is(err, objstore.ErrUnavailable) {
		t.Errorf("Open without a store: %v", err)
	}
	set(false)
	wantTexts(t, opened(t, bucket, dir, nil), asks, want...)
}

func TestManyCallersShareCommits(t *testing.T) {
	bucket := mem.New("t")
	var mu sync.Mutex
	indexWrites := 0
	bucket.Fault = func(op, key string) error {
		if op == mem.OpPut && strings.HasSuffix(key, "index.json") {
			mu.Lock()
			indexWrites++
			mu.Unlock()
		}
		return nil
	}
	s := opened(t, bucket, t.TempDir(), nil)
	const callers, each = 32, 20
	var wg sync.WaitGroup
	for c := range callers {
		wg.Go(func() {
			for i := range each {
				a := askFor(endpointA, c*each+i, 0)
				want := fmt.Sprint("answer ", c*each+i)
				mustAppend(t, s, answerTo(a, "stop", want))
				mustFlush(t, s)
				wantTexts(t, s, []Ask{a}, want)
			}
		})
	}
	wg.Wait()
	if indexWrites >= callers*each {
		t.Errorf("%d index writes for %d flushes: none was shared", indexWrites, callers*each)
	}
}

// TestFirstWinsForEveryone lets stores with homes of their own answer the same
// asks at once: all must see one answer, and see it for ever.
func TestFirstWinsForEveryone(t *testing.T) {
	bucket := mem.New("t")
	small := func(tune *tuning) { tune.closeRows = 60; tune.smallMost = 6 }
	stores := []*Store{opened(t, bucket, t.TempDir(), small), opened(t, bucket, t.TempDir(), small), opened(t, bucket, t.TempDir(), small)}
	const asks = 200
	var mu sync.Mutex
	seen := make(map[int]string)
	look := func(s *Store, i int) {
		got := texts(t, s, askFor(endpointA, i, 0))[0]
		mu.Lock()
		defer mu.Unlock()
		if seen[i] == "" {
			seen[i] = got
		}
		if got != seen[i] || got == "-" {
			t.Errorf("ask %d: %q, was %q", i, got, seen[i])
		}
	}
	var wg sync.WaitGroup
	for n, s := range stores {
		for g := range 4 {
			wg.Go(func() {
				order := rand.New(rand.NewPCG(uint64(n), uint64(g)))
				for range 60 {
					i := order.IntN(asks)
					mustAppend(t, s, answerTo(askFor(endpointA, i, 0), "stop", fmt.Sprint(n, " ", g, " ", i)))
					mustFlush(t, s)
					look(s, i)
				}
			})
		}
	}
	wg.Wait()
	fresh := opened(t, bucket, t.TempDir(), small)
	for i := range seen {
		for _, s := range append(stores, fresh) {
			look(s, i)
		}
	}
}

func TestLogIsOptional(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	bucket := mem.New("t")
	bucket.Fault = func(op, key string) error {
		if op == mem.OpPut {
			return objstore.ErrUnavailable
		}
		return nil
	}
	s, err := Open(context.Background(), Options{Bucket: bucket, Dir: t.TempDir(), Log: log})
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, s, answerTo(askFor(endpointA, 1, 0), "stop", "secret answer"))
	s.Flush(context.Background())
	s.Close(context.Background())
	if !strings.Contains(out.String(), "they stay in the journal") {
		t.Errorf("the log does not say that the answers are safe:\n%s", out.String())
	}
	if strings.Contains(out.String(), "secret answer") {
		t.Errorf("the log holds an answer:\n%s", out.String())
	}
}
