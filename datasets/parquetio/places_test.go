package parquetio_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/internal/testdata"
)

// few is a projection of a row of train.
type few struct {
	PromptID string `parquet:"prompt_id"`
	Teacher  string `parquet:"teacher,dict"`
}

// A way of reading a file gives what it read as text, to be compared.
var ways = map[string]func(data []byte) (string, error){
	"rows": func(data []byte) (string, error) {
		rows, err := read[datasets.Row](data)
		return text(rows), err
	},
	"columns": func(data []byte) (string, error) {
		rows, err := read[few](data)
		return text(rows), err
	},
	"maps": func(data []byte) (string, error) {
		var out []any
		for row, err := range parquetio.Maps(context.Background(), bytes.NewReader(data), int64(len(data))) {
			if err != nil {
				return "", err
			}
			out = append(out, row)
		}
		return fmt.Sprint(out), nil
	},
	"count": func(data []byte) (string, error) {
		counts, err := parquetio.Count(bytes.NewReader(data), int64(len(data)), "teacher")
		return fmt.Sprint(counts), err
	},
}

// A byte that changed anywhere in a file, at 160 places over
// all of its parts, is an error or changes nothing, in every way of reading it.
// The rows are never others and never fewer. The footer has no checksum: of
// places there it may only be said that nothing panics and that Check or the
// file's digest, which the catalog holds every file to, tells.
func TestAByteThatChangedAnywhere(t *testing.T) {
	testdata.Heavy(t)
	data := write(t, many(120), parquetio.Options{RowGroupRows: 50, SortedBy: "prompt_id"})
	footer := len(data) - 8 - int(binary.LittleEndian.Uint32(data[len(data)-8:]))
	for name, way := range ways {
		want, err := way(data)
		if err != nil || len(want) < 20 {
			t.Fatal(name, err)
		}
		found := 0
		const places = 160
		for i := range places {
			at := i * len(data) / places
			for _, with := range []byte{0x01, 0x80, 0xff} {
				bad := bytes.Clone(data)
				bad[at] ^= with
				got, err := way(bad)
				switch {
				case err != nil:
					found++
					if !errors.Is(err, parquetio.ErrDamaged) && !errors.Is(err, parquetio.ErrSchema) {
						t.Errorf("%s, byte %d ^ %#x: %v says neither damage nor schema", name, at, with, err)
					}
				case got != want && at < footer:
					t.Errorf("%s: byte %d ^ %#x of %d, before the footer at %d: other rows without an error", name, at, with, len(data), footer)
				}
			}
		}
		t.Logf("%s: %d of %d changes are errors", name, found, 3*places)
		if found < places && name != "count" && name != "columns" {
			t.Errorf("%s: only %d of %d changes were found", name, found, 3*places)
		}
	}
}

// A file that ends early is an error wherever it ends, in every way of reading.
func TestAFileThatEndsEarly(t *testing.T) {
	data := write(t, many(60), parquetio.Options{RowGroupRows: 25})
	for name, way := range ways {
		for i := range 200 {
			n := i * len(data) / 200
			if _, err := way(data[:n]); !errors.Is(err, parquetio.ErrDamaged) {
				t.Errorf("%s, %d bytes of %d: got %v, want ErrDamaged", name, n, len(data), err)
			}
		}
	}
	// And one whose middle is gone, with its footer whole.
	for _, cut := range []int{1, 100, 1000} {
		bad := append(bytes.Clone(data[:len(data)/3]), data[len(data)/3+cut:]...)
		for name, way := range ways {
			if _, err := way(bad); err == nil {
				t.Errorf("%s: %d bytes of the middle are gone and nobody says so", name, cut)
			}
		}
	}
}

func text(rows any) string { return fmt.Sprintf("%+v", deref(rows)) }

// zeros reads as zeros, however much is asked of it.
type zeros struct{ size int64 }

func (z zeros) ReadAt(p []byte, off int64) (int, error) {
	if off >= z.size {
		return 0, io.EOF
	}
	n := int(min(int64(len(p)), z.size-off))
	clear(p[:n])
	return n, nil
}

// allocated is what a call allocates, in bytes.
func allocated(call func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	call()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// A large file of nothing costs nothing.
func TestAFileOfZeros(t *testing.T) {
	size := int64(1) << 40
	took := allocated(func() {
		if _, err := parquetio.Open[datasets.Row](zeros{size}, size); !errors.Is(err, parquetio.ErrDamaged) {
			t.Errorf("got %v", err)
		}
	})
	if took > 1<<20 {
		t.Errorf("%d bytes were allocated", took)
	}
}

// deref makes rows comparable as text: JSON follows pointers.
func deref(rows any) string {
	b, err := json.Marshal(rows)
	if err != nil {
		panic(err)
	}
	return string(b)
}
