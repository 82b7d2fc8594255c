//go:build parquetbench

package parquetbench

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

// few are the columns of the projected read: what a mixture is weighed by.
type few struct {
	PromptID         string `parquet:"prompt_id"`
	Domain           string `parquet:"domain,dict"`
	Teacher          string `parquet:"teacher,dict"`
	CompletionTokens *int64 `parquet:"completion_tokens,optional"`
}

const repeats = 3

// TestBesidePyarrow prints the measures of either side and their ratios.
func TestBesidePyarrow(t *testing.T) {
	n := 20_000
	if s := os.Getenv("STILLHOUSE_BENCH_ROWS"); s != "" {
		var err error
		if n, err = strconv.Atoi(s); err != nil {
			t.Fatal(err)
		}
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	rows := corpus(t, n)
	dir := t.TempDir()
	file := filepath.Join(dir, "ours.parquet")

	var ours measures
	ours.write = least(t, func() { ours.bytes = writeRows(t, file, rows) })
	rows = nil
	runtime.GC()
	ours.read = least(t, func() { readRows[datasets.Row](t, file, n) })
	ours.checked = least(t, func() { readChecked[datasets.Row](t, file, n) })
	ours.columns = least(t, func() { readRows[few](t, file, n) })

	theirs := pyarrow(t, file, filepath.Join(dir, "theirs.parquet"))
	rate := func(seconds float64) float64 { return float64(n) / seconds }
	line := func(what string, ours, theirs float64, whose string) {
		t.Logf("%-32s %12.0f %12.0f  %.2f  %s", what, ours, theirs, ours/theirs, whose)
	}
	t.Logf("%d rows, pyarrow %s, one core; rows per CPU second, bytes", n, theirs.Version)
	t.Logf("%-32s %12s %12s  ratio", "", "ours", "pyarrow")
	line("write", rate(ours.write), rate(theirs.Write), "its defaults, zstd 3, from an Arrow table")
	line("write", rate(ours.write), rate(theirs.WriteSame), "with page index, checksums, dictionaries of enums")
	line("write", rate(ours.write), rate(theirs.WriteObjects), "from Python objects")
	line("read, rows", rate(ours.read), rate(theirs.Objects), "to Python objects")
	line("read, rows", rate(ours.read), rate(theirs.Read), "to an Arrow table")
	line("read, rows", rate(ours.read), rate(theirs.ReadOurs), "our file to an Arrow table")
	line("read, untrusted", rate(ours.checked), rate(theirs.ReadChecked), "to an Arrow table, checksums tried")
	line("read, four columns", rate(ours.columns), rate(theirs.Columns), "its file")
	line("read, four columns", rate(ours.columns), rate(theirs.ColumnsOurs), "our file")
	line("size", float64(ours.bytes), float64(theirs.Bytes), "its defaults")
	line("size", float64(ours.bytes), float64(theirs.BytesSame), "with what ours has")
}

type measures struct {
	write, read, checked, columns float64
	bytes                         int64
}

type theirMeasures struct {
	Version      string  `json:"pyarrow"`
	Rows         int     `json:"rows"`
	Write        float64 `json:"write"`
	WriteSame    float64 `json:"write_same"`
	WriteObjects float64 `json:"write_objects"`
	Read         float64 `json:"read"`
	ReadSame     float64 `json:"read_same"`
	ReadOurs     float64 `json:"read_ours"`
	ReadChecked  float64 `json:"read_checked"`
	Columns      float64 `json:"columns"`
	ColumnsOurs  float64 `json:"columns_ours"`
	Objects      float64 `json:"objects"`
	Bytes        int64   `json:"bytes"`
	BytesSame    int64   `json:"bytes_same"`
}

func pyarrow(t *testing.T, file, out string) theirMeasures {
	t.Helper()
	python := os.Getenv("STILLHOUSE_PYTHON")
	if python == "" {
		python = "python3"
	}
	cmd := exec.CommandContext(t.Context(), python, "pyarrow_bench.py", file, out, strconv.Itoa(parquetio.DefaultRowGroupRows), strconv.Itoa(repeats),
		"prompt_id", "domain", "teacher", "completion_tokens")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	data, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var m theirMeasures
	if err := json.Unmarshal(data, &m); err != nil {
		t.Fatalf("%v in %.500s", err, data)
	}
	return m
}

// least is the least CPU time of a few runs, in seconds.
func least(t *testing.T, work func()) float64 {
	t.Helper()
	var best time.Duration
	for i := range repeats {
		runtime.GC()
		began := cpu(t)
		work()
		if took := cpu(t) - began; i == 0 || took < best {
			best = took
		}
	}
	return best.Seconds()
}

// cpu is the time that all threads of this process have computed.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func writeRows(t *testing.T, file string, rows []datasets.Row) int64 {
	t.Helper()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := parquetio.NewWriter[datasets.Row](f, parquetio.Options{SortedBy: "prompt_id"})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

func readRows[T any](t *testing.T, file string, want int) {
	t.Helper()
	consume(t, file, want, parquetio.OpenTrusted[T])
}

func readChecked[T any](t *testing.T, file string, want int) {
	t.Helper()
	consume(t, file, want, parquetio.Open[T])
}

func consume[T any](t *testing.T, file string, want int, open func(io.ReaderAt, int64) (*parquetio.Reader[T], error)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	stat, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	r, err := open(f, stat.Size())
	if err != nil {
		t.Fatal(err)
	}
	var n int
	for _, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != want {
		t.Fatalf("%d rows of %d", n, want)
	}
}
