package parquetio

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/stillhouse-data/stillhouse/datasets"
)

// What docs/parquet.md says of every file holds for the files of every table.
func TestWhatIsInEveryFile(t *testing.T) {
	inFile[datasets.Row](t)
	inFile[datasets.Candidate](t)
	inFile[datasets.Pair](t)
	inFile[datasets.PromptRow](t)
	inFile[datasets.Attempt](t)
	inFile[datasets.LogprobRow](t)
	inFile[datasets.JudgeRow](t)
}

func inFile[T any](t *testing.T) {
	t.Helper()
	rows := make([]T, 90)
	name := reflect.TypeFor[T]().Name()
	random := rand.New(rand.NewPCG(5, 6))
	for i := range rows {
		fillValue(reflect.ValueOf(&rows[i]).Elem(), random, 0)
	}
	key, err := stringColumn[T]("prompt_id")
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	w, err := NewWriter[T](&buf, Options{SortedBy: "prompt_id", RowGroupRows: 40})
	if err != nil {
		t.Fatal(err)
	}
	Sorted(rows, key)
	if err := w.Write(rows); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(buf.Bytes()), int64(buf.Len()))
	if err != nil {
		t.Fatal(err)
	}
	meta := file.Metadata()
	if meta.CreatedBy != createdBy || len(meta.RowGroups) != 3 {
		t.Errorf("%s: by %q, %d row groups", name, meta.CreatedBy, len(meta.RowGroups))
	}
	for _, key := range []string{KeySchema, KeyFingerprint, KeyFeatures} {
		if v, ok := file.Lookup(key); !ok || v == "" {
			t.Errorf("%s: the footer has no %s", name, key)
		}
	}
	if v, _ := file.Lookup(KeyFeatures); strings.Contains(v, `"null"`) {
		t.Errorf("%s: a feature without a type: %s", name, v)
	}
	for i := range meta.RowGroups {
		g := &meta.RowGroups[i]
		if len(g.SortingColumns) != 1 || g.SortingColumns[0].Descending || g.Columns[g.SortingColumns[0].ColumnIdx].MetaData.PathInSchema[0] != "prompt_id" {
			t.Errorf("%s: row group %d is sorted by %v", name, i, g.SortingColumns)
		}
		for j := range g.Columns {
			inColumn(t, name, file, &g.Columns[j])
		}
	}
}

func inColumn(t *testing.T, table string, file *parquet.File, c *format.ColumnChunk) {
	t.Helper()
	path := c.MetaData.PathInSchema
	name := table + ", column " + strings.Join(path, ".")
	leaf, ok := file.Schema().Lookup(path...)
	if !ok {
		t.Fatalf("%s is not in the schema", name)
	}
	if c.MetaData.Codec != format.Zstd {
		t.Errorf("%s is compressed with %s", name, c.MetaData.Codec)
	}
	if c.OffsetIndexOffset == 0 || c.OffsetIndexLength == 0 || c.ColumnIndexOffset == 0 {
		t.Errorf("%s has no page index", name)
	}
	if id := len(path) == 1 && ids[path[0]]; id != (c.MetaData.BloomFilterOffset != 0) {
		t.Errorf("%s: is an id: %t, has a bloom filter at %d", name, id, c.MetaData.BloomFilterOffset)
	} else if id && (len(c.MetaData.Statistics.MinValue) == 0 && len(c.MetaData.Statistics.MaxValue) == 0) {
		t.Errorf("%s is an id and has no bounds", name)
	}
	if isText(path, leaf.Node) && !(len(path) == 1 && ids[path[0]]) && len(c.MetaData.Statistics.MinValue)+len(c.MetaData.Statistics.MaxValue) > 0 {
		t.Errorf("%s is text and has bounds in the footer", name)
	}
	pages := 0
	for pos := int64(0); pos < c.MetaData.TotalCompressedSize; {
		start := c.MetaData.DataPageOffset
		if d := c.MetaData.DictionaryPageOffset; d > 0 {
			start = min(start, d)
		}
		header, n, err := readHeader(file, start+pos, c.MetaData.TotalCompressedSize-pos)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if header.CRC == 0 {
			t.Errorf("%s: page %d has no checksum", name, pages)
		}
		if !slices.Contains([]format.PageType{format.DataPageV2, format.DictionaryPage}, header.Type) {
			t.Errorf("%s: page %d is a %s", name, pages, header.Type)
		}
		pos += n + int64(header.CompressedPageSize)
		pages++
	}
	if pages == 0 {
		t.Errorf("%s has no pages", name)
	}
}
