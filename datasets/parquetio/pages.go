package parquetio

import (
	"bufio"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"
)

// Bounds of a page once it is decompressed. Writers aim at 1 MiB or less; a page
// holds at least one row, whose largest value sets its size. Runs of one level
// take no room, so values are counted too: their levels are bytes in memory.
const (
	maxPageBytes  = 256 << 20
	maxPageValues = 64 << 20
	// maxOpenBytes bounds the largest pages of all columns together: a reader
	// of rows is in a page of each at once.
	maxOpenBytes = 1 << 30
)

// checkPages walks the page headers of a row group before its rows are read.
// The format has checksums over the content of pages alone, and the library
// tries them for data pages alone, so it looks for what they do not cover: a
// dictionary that lost a bit would change every row that refers to the value,
// a header that lost one ends a column early and the next one is read in its
// place. It also refuses pages that would need more memory than they may.
// Columns that are not read are left out; nil reads all.
func checkPages(file *parquet.File, group int, read map[int]bool) (err error) {
	defer guard(&err)
	rows := file.Metadata().RowGroups[group].NumRows
	var open int64
	for i := range file.Metadata().RowGroups[group].Columns {
		if read != nil && !read[i] {
			continue
		}
		largest, err := checkColumn(file, &file.Metadata().RowGroups[group].Columns[i].MetaData, rows)
		if err != nil {
			return fmt.Errorf("pages of column %d: %w", i, err)
		}
		if open += largest; open > maxOpenBytes {
			return fmt.Errorf("%w: its columns have pages of %d bytes together, larger than the %d that are read", ErrDamaged, open, maxOpenBytes)
		}
	}
	return nil
}

// checkColumn checks the pages of a column and gives the size of the largest,
// once it is decompressed.
func checkColumn(file *parquet.File, chunk *format.ColumnMetaData, rows int64) (largest int64, err error) {
	at, size := chunk.DataPageOffset, chunk.TotalCompressedSize
	if d := chunk.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	if at < 0 || size < 0 || at > file.Size() || size > file.Size()-at {
		return 0, fmt.Errorf("%w: they would be outside of the file", ErrDamaged)
	}
	var values, pageRows int64
	allV2 := true
	in := io.NewSectionReader(file, at, size)
	for pos := int64(0); pos < size && values < chunk.NumValues; {
		header, n, err := readHeader(in, pos, size-pos)
		if err != nil {
			return 0, err
		}
		body := int64(header.CompressedPageSize)
		switch {
		case body < 0 || header.UncompressedPageSize < 0 || body > size-pos-n:
			return 0, fmt.Errorf("%w: a page of %d bytes ends outside of its column", ErrDamaged, body)
		case header.UncompressedPageSize > maxPageBytes || body > maxPageBytes:
			return 0, fmt.Errorf("%w: a page of %d bytes is larger than the %d that are read", ErrDamaged, header.UncompressedPageSize, maxPageBytes)
		}
		page := make([]byte, body)
		if _, err := in.ReadAt(page, pos+n); err != nil {
			return 0, damaged(err)
		}
		if err := checkPage(header, chunk.Codec, page); err != nil {
			return 0, err
		}
		var inPage int64
		largest = max(largest, int64(header.UncompressedPageSize))
		switch header.Type {
		case format.DataPageV2:
			inPage = int64(header.DataPageHeaderV2.V.NumValues)
			pageRows += int64(header.DataPageHeaderV2.V.NumRows)
		case format.DataPage:
			inPage = int64(header.DataPageHeader.V.NumValues)
			allV2 = false
		case format.DictionaryPage:
			inPage = int64(header.DictionaryPageHeader.V.NumValues)
		}
		if inPage < 0 || inPage > maxPageValues {
			return 0, fmt.Errorf("%w: a page of %d values", ErrDamaged, inPage)
		}
		if header.Type != format.DictionaryPage {
			values += inPage
		}
		pos += n + body
	}
	if values != chunk.NumValues {
		return 0, fmt.Errorf("%w: they hold %d values, the footer counts %d", ErrDamaged, values, chunk.NumValues)
	}
	if allV2 && pageRows != rows {
		return 0, fmt.Errorf("%w: they hold %d rows of %d", ErrDamaged, pageRows, rows)
	}
	return largest, nil
}

// readHeader decodes a page header and counts its bytes.
func readHeader(column io.ReaderAt, pos, left int64) (*format.PageHeader, int64, error) {
	const usual = 256 // bytes; longer ones are read on
	n, err := scanThrift(bufio.NewReaderSize(io.NewSectionReader(column, pos, left), usual), left)
	if err != nil {
		return nil, 0, err
	}
	var header format.PageHeader
	var protocol thrift.CompactProtocol
	in := bufio.NewReaderSize(io.NewSectionReader(column, pos, n), usual)
	return &header, n, damaged(thrift.NewDecoder(protocol.NewReader(in)).Decode(&header))
}

// checkPage holds one page to its checksum, where it has one, and to a size
// that memory has room for.
func checkPage(header *format.PageHeader, codec format.CompressionCodec, page []byte) error {
	if header.CRC != 0 && crc32.ChecksumIEEE(page) != uint32(header.CRC) {
		return fmt.Errorf("%w: checksum mismatch", ErrDamaged)
	}
	if v2 := header.DataPageHeaderV2; header.Type == format.DataPageV2 && v2.Valid {
		levels := int64(v2.V.RepetitionLevelsByteLength) + int64(v2.V.DefinitionLevelsByteLength)
		if v2.V.RepetitionLevelsByteLength < 0 || v2.V.DefinitionLevelsByteLength < 0 || levels > int64(len(page)) {
			return fmt.Errorf("%w: the levels of a page are longer than the page", ErrDamaged)
		}
		page = page[levels:] // the levels are never compressed
		if v2.V.IsCompressed.Valid && !v2.V.IsCompressed.V || len(page) == 0 {
			return nil
		}
	}
	return checkExpansion(codec, page)
}
