//go:build readers

package readers

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/arrowio"
	"github.com/stillhouse-data/stillhouse/datasets/views"
)

// TestEveryReaderReadsArrow holds the streams of every kind of row to our own
// reading of the same rows in Parquet.
func TestEveryReaderReadsArrow(t *testing.T) {
	needPyarrow(t)
	dir := t.TempDir()
	files := map[string]string{} // a stream, and the same rows in Parquet
	files[stream(t, dir, "train", trainRows())] = write(t, dir, "train", trainRows())
	files[stream(t, dir, "pairs", pairs())] = write(t, dir, "pairs", pairs())
	files[stream(t, dir, "candidates", candidates())] = write(t, dir, "candidates", candidates())
	files[stream(t, dir, "prompts", promptRows())] = write(t, dir, "prompts", promptRows())
	files[stream(t, dir, "logprobs", logprobRows())] = write(t, dir, "logprobs", logprobRows())
	files[stream(t, dir, "many", manyRows(500))] = write(t, dir, "many", manyRows(500))
	files[stream(t, dir, "only_nulls", trainRows()[:1])] = write(t, dir, "only_nulls", trainRows()[:1])
	var paths []string
	for path := range files {
		paths = append(paths, path)
	}
	slices.Sort(paths)
	var got map[string]map[string]reading
	python(t, &got, nil, append([]string{"arrow.py"}, paths...)...)
	for _, path := range paths {
		compare(t, path, got[path], ours(t, files[path]), "pyarrow", "polars", "duckdb", "datasets")
	}
}

// TestACutStreamIsRefusedByEveryReader holds other libraries to what our own
// tests hold Go's to.
func TestACutStreamIsRefusedByEveryReader(t *testing.T) {
	needPyarrow(t)
	var took []string
	python(t, &took, nil, "arrow.py", "cut", stream(t, t.TempDir(), "many", manyRows(200)))
	for _, what := range took {
		t.Error(what)
	}
}

func stream[T any](t *testing.T, dir, name string, rows []T) string {
	t.Helper()
	var out bytes.Buffer
	w, err := arrowio.NewWriter(&out, reflect.TypeFor[T](), arrowio.Options{BatchRows: 64})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		if err := w.Write(&rows[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, name+".arrow")
	if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// needPyarrow skips where it is not installed, and fails where it has to be.
func needPyarrow(t *testing.T) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), interpreter(), "-c", "import pyarrow").Run(); err != nil {
		missing(t, "pyarrow")
	}
}

func interpreter() string {
	if python := os.Getenv("STILLHOUSE_PYTHON"); python != "" {
		return python
	}
	return "python3"
}

// python runs a script of this folder and reads its JSON.
func python(t *testing.T, into any, stdin []byte, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), interpreter(), args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if stdin != nil {
		cmd.Stdin = bytes.NewReader(stdin)
	}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	if err := json.Unmarshal(out, into); err != nil {
		t.Fatalf("%v in %.500s", err, out)
	}
}

// TestDatasetsKnowsJSONAndImagesOfAStream: what stands as text and bytes in the
// columns is read as values and pictures, by what the schema says of them.
func TestDatasetsKnowsJSONAndImagesOfAStream(t *testing.T) {
	needPyarrow(t)
	type row struct {
		ID    string                         `parquet:"id"`
		Tools *views.JSON                    `parquet:"tools,optional"`
		Calls []views.ToolCallOf[views.JSON] `parquet:"calls,list,optional"`
		views.ImageColumn
	}
	pixel, err := base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
	if err != nil {
		t.Fatal(err)
	}
	rows := []row{
		{ID: "a"},
		{
			ID: "b", Tools: ptr(views.JSON(`[{"type":"function","function":{"name":"mul","parameters":{"a":null}}}]`)),
			Calls:       []views.ToolCallOf[views.JSON]{{ID: "c", Function: views.FunctionOf[views.JSON]{Name: "mul", Arguments: `{"a":7,"b":null}`}}},
			ImageColumn: views.ImageColumn{Images: []views.Image{{Bytes: pixel, Path: "images/x.png"}}},
		},
	}
	var got any
	python(t, &got, nil, "arrow.py", "features", stream(t, t.TempDir(), "features", rows))
	want := map[string]any{
		"tools":     []any{nil, []any{map[string]any{"type": "function", "function": map[string]any{"name": "mul", "parameters": map[string]any{"a": nil}}}}},
		"arguments": []any{nil, map[string]any{"a": 7.0, "b": nil}},
		"image":     []any{nil, []any{1.0, 1.0}},
	}
	if !reflect.DeepEqual(got, any(want)) {
		t.Errorf("got %v, want %v", got, want)
	}
}
