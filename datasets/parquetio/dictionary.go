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

// checkDictionaries holds the dictionary pages of a row group to their
// checksums. The library does that for data pages alone, so that a flipped bit
// in a dictionary would change every row that refers to the value, unnoticed.
func checkDictionaries(file *parquet.File, group int) (err error) {
	defer guard(&err)
	for i := range file.Metadata().RowGroups[group].Columns {
		chunk := &file.Metadata().RowGroups[group].Columns[i].MetaData
		if chunk.DictionaryPageOffset <= 0 {
			continue
		}
		if err := checkDictionary(file, chunk); err != nil {
			return fmt.Errorf("dictionary of column %d: %w", i, err)
		}
	}
	return nil
}

func checkDictionary(file *parquet.File, chunk *format.ColumnMetaData) error {
	at, size := chunk.DictionaryPageOffset, chunk.TotalCompressedSize
	if size < 0 || at > file.Size() || size > file.Size()-at {
		return fmt.Errorf("%w: it would be outside of the file", ErrDamaged)
	}
	in := bufio.NewReader(io.NewSectionReader(file, at, size))
	var header format.PageHeader
	var protocol thrift.CompactProtocol
	if err := thrift.NewDecoder(protocol.NewReader(in)).Decode(&header); err != nil {
		return damaged(err)
	}
	if header.Type != format.DictionaryPage || header.CRC == 0 {
		return nil // some writers set the offset without a dictionary, or write no checksums
	}
	if header.CompressedPageSize < 0 || int64(header.CompressedPageSize) > size {
		return fmt.Errorf("%w: a page of %d bytes in a column of %d", ErrDamaged, header.CompressedPageSize, size)
	}
	sum := crc32.NewIEEE()
	if _, err := io.CopyN(sum, in, int64(header.CompressedPageSize)); err != nil {
		return damaged(err)
	}
	if sum.Sum32() != uint32(header.CRC) {
		return fmt.Errorf("%w: checksum mismatch", ErrDamaged)
	}
	return nil
}
