package batches

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/stillhouse-data/stillhouse/internal/answers"
	"github.com/stillhouse-data/stillhouse/internal/objstore"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

const endpoint = "0123456789abcdef0123456789abcdef"

// filled is a file of the asks with these numbers.
func filled(t testing.TB, numbers ...int) *File {
	t.Helper()
	f, err := NewFile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Discard)
	for _, n := range numbers {
		body := fmt.Sprintf(`{"messages":"question %d"}`, n)
		ask := Ask{Ask: answers.Identify(answers.Identity{Endpoint: endpoint, Body: []byte(body), CapField: "max_tokens", Cap: 64}), Body: BodyDigest([]byte(body)), BodyBytes: len(body), Most: int64(n)}
		row := fmt.Sprintf(`{"custom_id":"%s","body":%s}`+"\n", DraftID(ask.ID, ask.Body), body)
		if err := f.Add(ask, []byte(row)); err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func open(t testing.TB, s *Store, l *List, f *File) (*State, *List) {
	t.Helper()
	st, next, err := s.Make(context.Background(), l, f, Record{API: "openai-batch", Teacher: "t", Model: "m", BuildID: "b"})
	if err != nil {
		t.Fatal(err)
	}
	return st, next
}

func list(t testing.TB, s *Store) *List {
	t.Helper()
	l, err := s.List(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestABatchIsNamedByItsContent(t *testing.T) {
	a := Key(endpoint, "openai-batch", 0, []string{"x", "y"})
	if a != Key(endpoint, "openai-batch", 0, []string{"y", "x"}) || len(a) != 32 {
		t.Errorf("the order of the asks is in the name %s", a)
	}
	for _, other := range []string{
		Key(endpoint, "openai-batch", 1, []string{"x", "y"}), Key(endpoint, "openai-batch", 0, []string{"x"}),
		Key(endpoint, "anthropic-batch", 0, []string{"x", "y"}), Key(strings.Repeat("f", 32), "openai-batch", 0, []string{"x", "y"}),
	} {
		if a == other {
			t.Errorf("two batches have the name %s", a)
		}
	}
}

func TestAFileComesBackAsItWasMade(t *testing.T) {
	ctx := context.Background()
	b := mem.New("t")
	s := Open(b, endpoint)
	f := filled(t, 3, 1, 2)
	if f.Rows() != 3 || f.Most() != 6 || f.Bytes() == 0 {
		t.Errorf("%d rows, %d at most, %d bytes", f.Rows(), f.Most(), f.Bytes())
	}
	st, l := open(t, s, list(t, s), f)
	if st.State != Prepared || st.Rows != 3 || st.Bytes != f.Bytes() || !slices.Equal(l.Keys, []string{st.Key}) {
		t.Errorf("%+v %+v", st, l)
	}
	var ids []string
	if err := s.Asks(ctx, st.Key, func(a Ask) error {
		ids = append(ids, CustomID(a.ID, a.Body, st.Key))
		if a.Cap != 64 || a.Endpoint != endpoint || a.Most == 0 || a.BodyBytes == 0 {
			t.Errorf("%+v", a)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	path, err := s.Requests(ctx, &st.Record, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		if !strings.HasPrefix(line, `{"custom_id":"`+ids[i]+`"`) {
			t.Errorf("row %d is %s, want id %s", i, line, ids[i])
		}
		if why := Misfit(ids[i], strings.Repeat("0", 32), nil); why != "it is of another batch" {
			t.Errorf("%s: %s", ids[i], why)
		}
	}
	if err := s.Close(ctx, st.Key); err != nil {
		t.Fatal(err)
	}
	if len(list(t, s).Keys) != 0 {
		t.Error("a closed batch is on the list")
	}
	if err := s.Asks(ctx, st.Key, func(Ask) error { return nil }); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("its asks are left: %v", err)
	}
	if _, err := s.Load(ctx, st.Key); err != nil {
		t.Errorf("its record is gone: %v", err)
	}
}

// A step that died after it had written its files makes the same batch again;
// after that batch is over, the same asks make another.
func TestTheSameAsksAgain(t *testing.T) {
	ctx := context.Background()
	s := Open(mem.New("t"), endpoint)
	empty := list(t, s)
	first, _ := open(t, s, empty, filled(t, 1, 2))
	// The list moved on: nothing may be made of what it said before.
	if _, _, err := s.Make(ctx, empty, filled(t, 3), Record{API: "openai-batch"}); !errors.Is(err, ErrRaced) {
		t.Errorf("%v", err)
	}
	third, _ := open(t, s, list(t, s), filled(t, 3)) // what was left behind is taken up
	if third.Round != 0 {
		t.Errorf("%+v", third)
	}
	if _, _, err := s.Make(ctx, list(t, s), filled(t, 2, 1), Record{API: "openai-batch"}); !errors.Is(err, ErrRaced) {
		t.Errorf("asks of an open batch made another: %v", err)
	}
	first.State = Collected
	if err := s.Save(ctx, first); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(ctx, first.Key); err != nil {
		t.Fatal(err)
	}
	again, _ := open(t, s, list(t, s), filled(t, 2, 1))
	if again.Round != 1 || again.Key == first.Key {
		t.Errorf("%+v", again)
	}
}

// An open batch that the list has lost comes back on it.
func TestALostListHeals(t *testing.T) {
	ctx := context.Background()
	b := mem.New("t")
	s := Open(b, endpoint)
	st, _ := open(t, s, list(t, s), filled(t, 1))
	st.State = Submitted
	if err := s.Save(ctx, st); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(ctx, "batches/"+endpoint+"/open.json"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Make(ctx, list(t, s), filled(t, 1), Record{API: "openai-batch"}); !errors.Is(err, ErrRaced) {
		t.Errorf("%v", err)
	}
	if l := list(t, s); !slices.Equal(l.Keys, []string{st.Key}) {
		t.Errorf("%+v", l)
	}
}

func TestOnlyOneMovesARecordOn(t *testing.T) {
	ctx := context.Background()
	b := mem.New("t")
	s := Open(b, endpoint)
	st, _ := open(t, s, list(t, s), filled(t, 1))
	var wg sync.WaitGroup
	won := make(chan int, 8)
	for i := range 8 {
		wg.Go(func() {
			mine, err := s.Load(ctx, st.Key)
			if err != nil {
				t.Error(err)
				return
			}
			mine.State, mine.Try = Submitting, fmt.Sprint(i)
			switch err := s.Save(ctx, mine); {
			case err == nil:
				won <- i
			case !errors.Is(err, ErrMoved):
				t.Error(err)
			}
		})
	}
	wg.Wait()
	close(won)
	now, err := s.Load(ctx, st.Key)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for range won {
		n++ // more than one where one has loaded what another saved
	}
	if n == 0 || now.State != Submitting {
		t.Errorf("%d moved it to %+v", n, now.Record)
	}
	// A write whose answer is lost is known for our own.
	b.Lost = func(op, key string) error {
		if op == mem.OpPut {
			return objstore.ErrUnavailable
		}
		return nil
	}
	now.State = Submitted
	if err := s.Save(ctx, now); err != nil {
		t.Errorf("%v", err)
	}
}

func TestMisfits(t *testing.T) {
	key := strings.Repeat("a", 32)
	asks := map[string]bool{strings.Repeat("1", 32): true}
	for id, want := range map[string]string{
		"":                        "it is no id of ours",
		strings.Repeat("x", 58):   "it is no id of ours",
		strings.Repeat("x", 5000): "it is no id of ours",
		CustomID(strings.Repeat("1", 64), strings.Repeat("2", 16), strings.Repeat("b", 32)): "it is of another batch",
		CustomID(strings.Repeat("1", 64), strings.Repeat("2", 16), key):                     "the digest of its prompt is another",
		CustomID(strings.Repeat("3", 64), strings.Repeat("2", 16), key):                     "its ask is not in this batch",
	} {
		if got := Misfit(id, key, asks); got != want {
			t.Errorf("%.70s: %s, want %s", id, got, want)
		}
	}
}

// FuzzAsks reads files of asks that somebody else may have written.
func FuzzAsks(f *testing.F) {
	f.Add([]byte(`{"i":"` + strings.Repeat("a", 64) + `","k":"` + strings.Repeat("b", 64) + `","c":5,"b":"0123456789abcdef","n":7}` + "\n"))
	f.Add([]byte("{}\n"))
	f.Add([]byte(`{"i":7}`))
	f.Add(bytes.Repeat([]byte("x"), 5000))
	f.Fuzz(func(t *testing.T, lines []byte) {
		b := mem.New("t")
		s := Open(b, endpoint)
		var packed bytes.Buffer
		z, err := zstd.NewWriter(&packed)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(z, bytes.NewReader(lines)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		key := strings.Repeat("c", 32)
		if _, err := objstore.PutBytes(context.Background(), b, s.asksKey(key), packed.Bytes(), objstore.PutOptions{}); err != nil {
			t.Fatal(err)
		}
		_ = s.Asks(context.Background(), key, func(a Ask) error {
			if len(CustomID(a.ID, a.Body, key)) != CustomIDLength {
				t.Errorf("%+v", a)
			}
			return nil
		})
	})
}
