package parquetio_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

// A flipped bit in a page is an error, or it changed nothing that is read. The
// format has no checksum over page headers and footer, so a flip there may give
// other rows, as when a page seems to have fewer values than it has: Check finds
// the former, and whoever keeps files keeps their digests, as the catalog does.
// Nothing panics.
func TestAFlippedByteIsNeverOtherRows(t *testing.T) {
	rows := many(90)
	data := write(t, rows, parquetio.Options{RowGroupRows: 40})
	whole, err := read[datasets.Row](data)
	if err != nil {
		t.Fatal(err)
	}
	want, random := encode(t, whole), rand.New(rand.NewPCG(1, 2))
	footer := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	var found int
	for range 300 {
		bad := bytes.Clone(data)
		at := random.IntN(len(bad))
		bad[at] ^= 1 << random.IntN(8)
		got, err := read[datasets.Row](bad)
		if err != nil {
			found++
			if !errors.Is(err, parquetio.ErrDamaged) && !errors.Is(err, parquetio.ErrSchema) {
				t.Errorf("the error %v says neither damage nor schema", err)
			}
			continue
		}
		_, checked := parquetio.Check(bytes.NewReader(bad), int64(len(bad)))
		if at < footer && checked == nil && !bytes.Equal(encode(t, got), want) {
			t.Fatal("other rows were read without an error after a flip at ", at, " of ", footer, cmp.Diff(rows, got, cmpopts.EquateEmpty()))
		}
	}
	if found < 100 {
		t.Errorf("only %d of 300 flips were found", found)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestCheckFindsWhatReadingFinds(t *testing.T) {
	data := write(t, many(400), parquetio.Options{RowGroupRows: 150})
	info, err := parquetio.Check(bytes.NewReader(data), int64(len(data)))
	if err != nil || info.Rows != 400 {
		t.Fatalf("%v rows, %v", info, err)
	}
	bad := bytes.Clone(data)
	bad[len(bad)/3] ^= 1
	if _, err := parquetio.Check(bytes.NewReader(bad), int64(len(bad))); !errors.Is(err, parquetio.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
}

func TestACutFileIsDamaged(t *testing.T) {
	data := write(t, many(200), parquetio.Options{})
	for _, n := range []int{0, 1, 4, 8, 11, 12, 100, len(data) / 2, len(data) - 9, len(data) - 1} {
		if _, err := read[datasets.Row](data[:n]); !errors.Is(err, parquetio.ErrDamaged) {
			t.Errorf("%d bytes of %d: got %v, want ErrDamaged", n, len(data), err)
		}
	}
}

// A length field must not make us allocate what is not there.
func TestALyingFooterLengthCostsNothing(t *testing.T) {
	data := bytes.Clone(write(t, many(10), parquetio.Options{}))
	binary.LittleEndian.PutUint32(data[len(data)-8:], 1<<31)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := read[datasets.Row](data); !errors.Is(err, parquetio.ErrDamaged) {
		t.Fatalf("got %v, want ErrDamaged", err)
	}
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	if allocated > 64<<20 {
		t.Errorf("%d bytes were allocated", allocated)
	}
}

var errNetwork = errors.New("connection reset")

type broken struct {
	r    io.ReaderAt
	from int64
}

func (b broken) ReadAt(p []byte, off int64) (int, error) {
	if off < b.from {
		return 0, errNetwork
	}
	return b.r.ReadAt(p, off)
}

// A store that breaks is not a damaged file: the one is tried again, the other
// is not.
func TestAReadErrorIsNotDamage(t *testing.T) {
	data := write(t, many(2000), parquetio.Options{RowGroupRows: 500})
	for _, from := range []int64{100, int64(len(data)) / 2, int64(len(data)) - 8, int64(len(data))} {
		r, err := parquetio.Open[datasets.Row](broken{bytes.NewReader(data), from}, int64(len(data)))
		if err == nil {
			for _, e := range r.All() {
				err = e
			}
		}
		if !errors.Is(err, errNetwork) || errors.Is(err, parquetio.ErrDamaged) {
			t.Errorf("broken below byte %d: got %v, want the connection's error", from, err)
		}
	}
}

// The caller's own panic is not taken for damage.
func TestThePanicOfACallerPasses(t *testing.T) {
	data := write(t, many(3), parquetio.Options{})
	r, err := parquetio.Open[datasets.Row](bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != "mine" {
			t.Errorf("recovered %v", p)
		}
	}()
	for range r.All() {
		panic("mine")
	}
}

func FuzzRead(f *testing.F) {
	f.Add(write(f, many(5), parquetio.Options{}))
	f.Add(write(f, awkward()[:1], parquetio.Options{}))
	f.Add([]byte("PAR1PAR1PAR1"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := read[datasets.Row](data)
		if err != nil && !errors.Is(err, parquetio.ErrDamaged) && !errors.Is(err, parquetio.ErrSchema) {
			t.Errorf("typed: %v", err)
		}
		for _, err := range parquetio.Maps(context.Background(), bytes.NewReader(data), int64(len(data))) {
			if err != nil && !errors.Is(err, parquetio.ErrDamaged) && !errors.Is(err, parquetio.ErrSchema) {
				t.Errorf("maps: %v", err)
			}
		}
		_, _ = parquetio.Check(bytes.NewReader(data), int64(len(data)))
	})
}
