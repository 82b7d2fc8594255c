//go:build readers

package readers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/catalog"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
	"github.com/stillhouse-data/stillhouse/internal/objstore/mem"
)

// A reading is what a reader says of a file.
type reading struct {
	Columns []string `json:"columns"`
	Rows    int64    `json:"rows"`
	Digest  string   `json:"digest"`
	Error   string   `json:"error"`
}

func TestEveryReaderReadsEveryTable(t *testing.T) {
	dir := t.TempDir()
	var files []string
	add := func(path string) { files = append(files, path) }
	add(write(t, dir, "train", trainRows()))
	add(write(t, dir, "pairs", pairs()))
	add(write(t, dir, "candidates", candidates()))
	add(write(t, dir, "prompts", promptRows()))
	add(write(t, dir, "logprobs", logprobRows()))
	add(write(t, dir, "long_logprobs", longLogprobs()))
	add(write(t, dir, "attempts", attempts()))
	add(write(t, dir, "comparison", asks()))
	add(write(t, dir, "no_rows", candidates()[:0]))
	add(write(t, dir, "only_nulls", trainRows()[:1]))
	add(write(t, dir, "many_groups", manyRows(500)))
	exported := map[string]string{} // a folder and our reading of the same rows
	for _, form := range []string{views.Parquet, views.JSONL} {
		folder, file := export(t, dir, form)
		exported[folder] = file
	}

	got := run(t, slices.Concat(files, slices.Collect(maps.Keys(exported))))
	for _, file := range files {
		readers := []string{"pyarrow", "duckdb", "polars", "datasets"}
		if strings.Contains(file, "no_rows") { // to datasets, no rows are no split
			readers = readers[:3]
		}
		compare(t, file, got[file], ours(t, file), readers...)
	}
	for folder, file := range exported {
		compare(t, folder, got[folder], ours(t, file), "datasets")
	}
}

func compare(t *testing.T, file string, got map[string]reading, want reading, readers ...string) {
	t.Helper()
	for _, reader := range readers {
		r, ok := got[reader]
		if !ok {
			continue // told of in run
		}
		name := filepath.Base(file) + " by " + reader
		switch {
		case r.Error != "":
			t.Errorf("%s: %s", name, r.Error)
		case !slices.Equal(r.Columns, want.Columns):
			t.Errorf("%s: columns %v, want %v", name, r.Columns, want.Columns)
		case r.Rows != want.Rows:
			t.Errorf("%s: %d rows, want %d", name, r.Rows, want.Rows)
		case r.Digest != want.Digest:
			t.Errorf("%s: other values than were written", name)
		}
	}
}

// run reads the paths with every reader that is installed.
func run(t *testing.T, paths []string) map[string]map[string]reading {
	t.Helper()
	python := os.Getenv("STILLHOUSE_PYTHON")
	if python == "" {
		python = "python3"
	}
	cmd := exec.CommandContext(t.Context(), python, append([]string{"check.py"}, paths...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		missing(t, "python3")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(out, &raw); err != nil {
		t.Fatalf("%v in %.500s", err, out)
	}
	var absent []string
	if err := json.Unmarshal(raw["missing"], &absent); err != nil {
		t.Fatal(err)
	}
	got := map[string]map[string]reading{}
	for path, data := range raw {
		if path == "missing" {
			continue
		}
		var readings map[string]reading
		if err := json.Unmarshal(data, &readings); err != nil {
			t.Fatal(err)
		}
		got[path] = readings
	}
	if len(absent) == 4 {
		missing(t, absent...)
	}
	if len(absent) > 0 {
		if required() {
			t.Errorf("not installed: %s", strings.Join(absent, ", "))
		}
		t.Logf("not installed, so not tried: %s", strings.Join(absent, ", "))
	}
	return got
}

func required() bool { return os.Getenv("STILLHOUSE_REQUIRE_READERS") == "1" }

func missing(t *testing.T, what ...string) {
	t.Helper()
	text := "not installed: " + strings.Join(what, ", ") + "; see test/readers/requirements.txt and STILLHOUSE_PYTHON"
	if required() {
		t.Fatal(text)
	}
	t.Skip(text)
}

func write[T any](t *testing.T, dir, name string, rows []T) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name+".parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w, err := parquetio.NewWriter[T](f, parquetio.Options{SortedBy: "prompt_id", RowGroupRows: 64})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Write(rows), w.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// export publishes the train rows and exports them; file holds the same rows
// of the view.
func export(t *testing.T, dir, form string) (folder, file string) {
	t.Helper()
	c := catalog.Open(mem.New("b"))
	var rows []datasets.Row
	for _, r := range trainRows() {
		r.Images = nil
		rows = append(rows, r)
	}
	ref, err := c.Stage(t.Context(), "maths", "b1", "train", "train", 0, write(t, dir, "stage_"+form, rows))
	if err != nil {
		t.Fatal(err)
	}
	m := catalog.Manifest{Dataset: "maths", BuildID: "b1", Files: []catalog.FileRef{ref}}
	folder = filepath.Join(dir, "hub_"+form)
	if _, err := views.Export(t.Context(), c, &m, views.ViewMessages, views.Folder(folder), views.Options{Form: form}); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(folder, "data", "train-00000-of-00001.parquet")
	if form == views.JSONL { // the rows of the Parquet form
		_, file = export(t, filepath.Join(dir, "jsonl"), views.Parquet)
	}
	return folder, file
}

// ours is our own reading of a file.
func ours(t *testing.T, path string) reading {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := parquetio.Inspect(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	r := reading{Columns: []string{}}
	for _, c := range info.Columns {
		r.Columns = append(r.Columns, c.Name)
	}
	h := sha256.New()
	r.Rows = feedFile(t, h, path)
	r.Digest = hex.EncodeToString(h.Sum(nil))
	return r
}

// feedFile feeds the rows of a file and counts them.
func feedFile(t *testing.T, w io.Writer, path string) (n int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for row, err := range parquetio.Maps(context.Background(), bytes.NewReader(data), int64(len(data))) {
		if err != nil {
			t.Fatal(err)
		}
		feed(w, row)
		n++
	}
	return n
}

// feed writes the canonical form of check.py.
func feed(w io.Writer, v any) {
	switch v := v.(type) {
	case nil:
		io.WriteString(w, "n")
	case bool:
		if v {
			io.WriteString(w, "t")
		} else {
			io.WriteString(w, "f")
		}
	case int64:
		fmt.Fprintf(w, "i%d;", v)
	case float64:
		fmt.Fprintf(w, "d%x;", binary.BigEndian.AppendUint64(nil, math.Float64bits(v)))
	case string:
		fmt.Fprintf(w, "s%d:%s", len(v), v)
	case []byte: // that is no UTF-8
		fmt.Fprintf(w, "b%d:%s", len(v), v)
	case []any:
		fmt.Fprintf(w, "l%d;", len(v))
		for _, e := range v {
			feed(w, e)
		}
	case map[string]any:
		fmt.Fprintf(w, "o%d;", len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			feed(w, k)
			feed(w, v[k])
		}
	default:
		panic(fmt.Sprintf("a value of type %T", v))
	}
}
