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

// maxPageBytes bounds a page once it is decompressed. Writers aim at 1 MiB or
// less; a page holds at least one row, whose largest value sets its size.
const maxPageBytes = 256 << 20

// checkPages walks the page headers of a row group before its rows are read.
// The format has checksums over the content of pages alone, and the library
// tries them for data pages alone, so it looks for what they do not cover: a
// dictionary that lost a bit would change every row that refers to the value,
// a header that lost one ends a column early and the next one is read in its
// place. It also refuses pages that claim to need more memory than they may.
func checkPages(file *parquet.File, group int) (err error) {
	defer guard(&err)
	rows := file.Metadata().RowGroups[group].NumRows
	for i := range file.Metadata().RowGroups[group].Columns {
		if err := checkColumn(file, &file.Metadata().RowGroups[group].Columns[i].MetaData, rows); err != nil {
			return fmt.Errorf("pages of column %d: %w", i, err)
		}
	}
	return nil
}

func checkColumn(file *parquet.File, chunk *format.ColumnMetaData, rows int64) error {
	at, size := chunk.DataPageOffset, chunk.TotalCompressedSize
	if d := chunk.DictionaryPageOffset; d > 0 && d < at {
		at = d
	}
	if at < 0 || size < 0 || at > file.Size() || size > file.Size()-at {
		return fmt.Errorf("%w: they would be outside of the file", ErrDamaged)
	}
	var values, pageRows int64
	allV2 := true
	in := io.NewSectionReader(file, at, size)
	buffer := bufio.NewReaderSize(in, 512)
	for pos := int64(0); pos < size && values < chunk.NumValues; {
		if _, err := in.Seek(pos, io.SeekStart); err != nil {
			return err
		}
		buffer.Reset(in)
		header, n, err := readHeader(buffer)
		if err != nil {
			return damaged(err)
		}
		body := int64(header.CompressedPageSize)
		switch {
		case body < 0 || header.UncompressedPageSize < 0 || body > size-pos-n:
			return fmt.Errorf("%w: a page of %d bytes ends outside of its column", ErrDamaged, body)
		case header.UncompressedPageSize > maxPageBytes:
			return fmt.Errorf("%w: a page of %d bytes is larger than the %d that are read", ErrDamaged, header.UncompressedPageSize, maxPageBytes)
		}
		switch header.Type {
		case format.DictionaryPage:
			if err := checkSum(io.NewSectionReader(in, pos+n, body), header.CRC); err != nil {
				return err
			}
		case format.DataPageV2:
			values += int64(header.DataPageHeaderV2.V.NumValues)
			pageRows += int64(header.DataPageHeaderV2.V.NumRows)
		case format.DataPage:
			values += int64(header.DataPageHeader.V.NumValues)
			allV2 = false
		}
		pos += n + body
	}
	if values != chunk.NumValues {
		return fmt.Errorf("%w: they hold %d values, the footer counts %d", ErrDamaged, values, chunk.NumValues)
	}
	if allV2 && pageRows != rows {
		return fmt.Errorf("%w: they hold %d rows of %d", ErrDamaged, pageRows, rows)
	}
	return nil
}

// readHeader decodes a page header and counts its bytes.
func readHeader(in *bufio.Reader) (*format.PageHeader, int64, error) {
	var header format.PageHeader
	var protocol thrift.CompactProtocol
	counted := &countingReader{r: in}
	err := thrift.NewDecoder(protocol.NewReader(counted)).Decode(&header)
	return &header, counted.n, err
}

// checkSum holds a page to its checksum; 0 says that its writer gave none.
func checkSum(body io.Reader, want int32) error {
	if want == 0 {
		return nil
	}
	sum := crc32.NewIEEE()
	if _, err := io.Copy(sum, body); err != nil {
		return damaged(err)
	}
	if sum.Sum32() != uint32(want) {
		return fmt.Errorf("%w: checksum mismatch in the dictionary", ErrDamaged)
	}
	return nil
}

// A countingReader counts what is read of a header. It offers ReadByte, so that
// the decoder reads no further than the header.
type countingReader struct {
	r *bufio.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

func (c *countingReader) ReadByte() (byte, error) {
	b, err := c.r.ReadByte()
	if err == nil {
		c.n++
	}
	return b, err
}
