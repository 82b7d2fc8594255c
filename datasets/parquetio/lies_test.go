package parquetio

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// swapped is a file whose content changes after its footer was read.
type swapped struct{ data []byte }

func (s *swapped) ReadAt(p []byte, off int64) (int, error) {
	return bytes.NewReader(s.data).ReadAt(p, off)
}

// Headers of pages that lie, with a checksum that is right or without one, are
// refused before anything is allocated for what they claim.
func TestPageHeadersThatLie(t *testing.T) {
	type row struct {
		Text []string `parquet:"text,list"`
	}
	var buf bytes.Buffer
	w, err := NewWriter[row](&buf, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write([]row{{[]string{"a"}}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	v2 := func(change func(*format.PageHeader, *format.DataPageHeaderV2)) format.PageHeader {
		h := format.PageHeader{Type: format.DataPageV2, UncompressedPageSize: 10, CompressedPageSize: 10}
		data := format.DataPageHeaderV2{NumValues: 1, NumRows: 1, Encoding: format.Plain, IsCompressed: thrift.New(false)}
		change(&h, &data)
		h.DataPageHeaderV2 = thrift.New(data)
		return h
	}
	for name, header := range map[string]format.PageHeader{
		"values without end":       v2(func(_ *format.PageHeader, d *format.DataPageHeaderV2) { d.NumValues = 1<<31 - 1 }),
		"less than no values":      v2(func(_ *format.PageHeader, d *format.DataPageHeaderV2) { d.NumValues = -5 }),
		"two gigabytes":            v2(func(h *format.PageHeader, _ *format.DataPageHeaderV2) { h.UncompressedPageSize = 1<<31 - 1 }),
		"less than nothing":        v2(func(h *format.PageHeader, _ *format.DataPageHeaderV2) { h.UncompressedPageSize = -1 }),
		"a body of two gigabytes":  v2(func(h *format.PageHeader, _ *format.DataPageHeaderV2) { h.CompressedPageSize = 1<<31 - 1 }),
		"a body of less than none": v2(func(h *format.PageHeader, _ *format.DataPageHeaderV2) { h.CompressedPageSize = -1 }),
		"levels without end": v2(func(_ *format.PageHeader, d *format.DataPageHeaderV2) {
			d.DefinitionLevelsByteLength, d.RepetitionLevelsByteLength = 1<<31-1, 1<<31-1
		}),
		"more rows than there are": v2(func(_ *format.PageHeader, d *format.DataPageHeaderV2) { d.NumRows = 1 << 30 }),
		"another checksum":         v2(func(h *format.PageHeader, _ *format.DataPageHeaderV2) { h.CRC = 1 }),
		"a dictionary without end": {Type: format.DictionaryPage, UncompressedPageSize: 10, CompressedPageSize: 10,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: 1<<31 - 1})},
	} {
		in := &swapped{bytes.Clone(buf.Bytes())}
		file, err := openFile(in, int64(len(in.data)))
		if err != nil {
			t.Fatal(err)
		}
		var page bytes.Buffer
		var protocol thrift.CompactProtocol
		if err := thrift.NewEncoder(protocol.NewWriter(&page)).Encode(&header); err != nil {
			t.Fatal(err)
		}
		page.Write(make([]byte, 10))
		copy(in.data[4:], page.Bytes())
		chunk := &format.ColumnMetaData{DataPageOffset: 4, TotalCompressedSize: int64(page.Len()), NumValues: 1, Codec: format.Zstd}
		if header.Type == format.DictionaryPage {
			chunk.DataPageOffset, chunk.DictionaryPageOffset = 5, 4
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err = checkColumn(file, chunk, 1)
		runtime.ReadMemStats(&after)
		if !errors.Is(err, ErrDamaged) || errors.Is(err, io.EOF) {
			t.Errorf("%s: got %v, want ErrDamaged", name, err)
		}
		if took := after.TotalAlloc - before.TotalAlloc; took > 1<<20 {
			t.Errorf("%s: %d bytes were allocated", name, took)
		}
	}
}
