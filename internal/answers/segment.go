package answers

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/stillhouse-data/stillhouse/internal/pagezstd"
)

// This file is the second door to parquet-go, next to datasets/parquetio:
// reading one record by its row number needs row groups and pages, which the
// tables of a dataset have no use for.

// A segmentRow is a record as a segment holds it. The endpoint is in the key.
// The columns that a key file is made from come first and so lie together.
type segmentRow struct {
	Key        [32]byte `parquet:"key"`
	Cap        int64    `parquet:"cap"`
	Complete   bool     `parquet:"complete"`
	Finish     string   `parquet:"finish,dict"`
	Started    int64    `parquet:"started,timestamp(microsecond)"`
	CRC        uint32   `parquet:"crc32c"` // of the record as a journal holds it
	AskID      string   `parquet:"ask_id"`
	Sample     int64    `parquet:"sample"`
	Teacher    string   `parquet:"teacher,dict"`
	Model      string   `parquet:"model,dict"`
	Format     string   `parquet:"format,dict"`
	Status     int64    `parquet:"status"`
	Headers    string   `parquet:"headers"` // JSON text
	TTFTMS     int64    `parquet:"ttft_ms"`
	LatencyMS  int64    `parquet:"latency_ms"`
	Attempts   int32    `parquet:"attempts"`
	ErrorClass string   `parquet:"error_class,dict"`
	ErrorText  string   `parquet:"error_text"`
	Raw        []byte   `parquet:"raw"`
	Ledger     string   `parquet:"ledger,optional"` // JSON text; null for most
}

const (
	// Pages are what reading one record decodes, one per column: a few
	// answers, and as many of the short columns as cost about the same.
	pageBytes = 64 << 10
	pageRows  = 512
	// A row group is what writing holds in memory.
	rowGroupRows  = 16 << 10
	rowGroupBytes = 32 << 20
	// nonceKey makes every file that is written another one, so that whoever
	// wrote a segment may delete it while no index names it.
	nonceKey = "stillhouse.answers.nonce"
)

func toRow(r *Record) (segmentRow, error) {
	headers := "{}"
	if len(r.Headers) > 0 {
		text, err := json.Marshal(r.Headers)
		if err != nil {
			return segmentRow{}, err
		}
		headers = string(text)
	}
	row := segmentRow{
		Key: r.Key, Cap: r.Cap, Complete: r.Complete, Finish: r.Finish,
		Started: micros(r.Started), CRC: r.checksum(),
		AskID: r.ID, Sample: int64(r.Sample), Teacher: r.Teacher, Model: r.Model,
		Format: r.Format, Status: int64(r.Status), Headers: headers,
		TTFTMS: r.TTFT.Milliseconds(), LatencyMS: r.Latency.Milliseconds(), Attempts: r.Attempts,
		ErrorClass: r.ErrorClass, ErrorText: r.ErrorText, Raw: r.Raw, Ledger: r.Ledger,
	}
	return row, nil
}

func (row *segmentRow) record(endpoint string) (*Record, error) {
	r := &Record{
		Ask:     Ask{Endpoint: endpoint, Key: row.Key, ID: row.AskID, Cap: row.Cap, Sample: int(row.Sample)},
		Teacher: row.Teacher, Model: row.Model, Complete: row.Complete, Finish: row.Finish, Format: row.Format,
		Status: int(row.Status), Started: time.UnixMicro(row.Started).UTC(),
		TTFT: time.Duration(row.TTFTMS) * time.Millisecond, Latency: time.Duration(row.LatencyMS) * time.Millisecond,
		Attempts: row.Attempts, ErrorClass: row.ErrorClass, ErrorText: row.ErrorText, Ledger: row.Ledger,
	}
	if len(row.Raw) > 0 {
		r.Raw = row.Raw
	}
	if row.Headers != "" && row.Headers != "{}" {
		if err := json.Unmarshal([]byte(row.Headers), &r.Headers); err != nil {
			return nil, fmt.Errorf("answer %s: headers: %w", row.AskID, err)
		}
	}
	if got := r.checksum(); got != row.CRC {
		return nil, fmt.Errorf("answer %s: CRC-32C is %08x, was %08x when it was written", row.AskID, got, row.CRC)
	}
	return r, nil
}

func (row *segmentRow) meta() keyRow {
	r := Record{Complete: row.Complete, Finish: row.Finish}
	return keyRow{cap: row.Cap, kind: r.kind(), started: row.Started, crc: row.CRC}
}

var (
	rowSchema      = parquet.SchemaOf(segmentRow{})
	segmentColumns = len(rowSchema.Columns())
	// firstColumns are those of the first segments that were written. Later
	// columns are optional, and null where a segment has none of them.
	firstColumns = segmentColumns - 1
)

var writers = sync.Pool{New: func() any {
	return parquet.NewGenericWriter[segmentRow](io.Discard,
		// Small segments are merged soon and often, so speed is worth more than
		// the last tenth of their size.
		parquet.Compression(pagezstd.Fastest),
		parquet.PageBufferSize(pageBytes),
		parquet.MaxRowsPerRowGroup(rowGroupRows),
		parquet.DataPageStatistics(false),
		parquet.CreatedBy("stillhouse", "answers", "1"),
		parquet.SkipPageBounds("raw"), parquet.SkipPageStatistics("raw"),
		parquet.SkipPageBounds("error_text"), parquet.SkipPageStatistics("error_text"),
		parquet.SkipPageBounds("headers"), parquet.SkipPageStatistics("headers"),
		parquet.SkipPageBounds("ask_id"), parquet.SkipPageStatistics("ask_id"),
		parquet.SkipPageBounds("ledger"), parquet.SkipPageStatistics("ledger"),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending("key"))),
	)
}}

// A segmentWriter writes a segment and its key file. Rows must come sorted by
// key; within a key their order is the order of precedence.
type segmentWriter struct {
	w       *parquet.GenericWriter[segmentRow]
	sum     hash.Hash
	count   *countingWriter
	keys    *keyWriter
	batch   []segmentRow
	pending int // bytes in batch
	group   int // bytes in the open row group
	page    int // rows in the open pages of short columns
	rows    int64
	min     Key
	max     Key
}

func newSegmentWriter(segment, keys io.Writer) *segmentWriter {
	s := &segmentWriter{
		w:    writers.Get().(*parquet.GenericWriter[segmentRow]),
		sum:  sha256.New(),
		keys: newKeyWriter(keys),
	}
	s.count = &countingWriter{w: io.MultiWriter(segment, s.sum)}
	s.w.Reset(s.count)
	return s
}

func (s *segmentWriter) add(row segmentRow) error {
	if s.rows == 0 {
		s.min = row.Key
	} else if bytes.Compare(row.Key[:], s.max[:]) < 0 {
		return fmt.Errorf("write segment: key %x after %x", row.Key, s.max)
	}
	s.max = row.Key
	s.rows++
	if err := s.keys.add(row.Key, row.meta()); err != nil {
		return err
	}
	s.batch = append(s.batch, row)
	s.pending += len(row.Raw) + len(row.Ledger) + 64
	if s.pending < pageBytes/2 {
		return nil
	}
	return s.write()
}

// write hands the batch over. The writer looks at page sizes once per call, so
// a batch is never more than about half a page or one answer.
func (s *segmentWriter) write() error {
	if len(s.batch) == 0 {
		return nil
	}
	if _, err := s.w.Write(s.batch); err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	s.group += s.pending
	if s.page += len(s.batch); s.page >= pageRows {
		s.page = 0
		if err := s.endPages(); err != nil {
			return err
		}
	}
	clear(s.batch)
	s.batch, s.pending = s.batch[:0], 0
	if s.group >= rowGroupBytes {
		s.group, s.page = 0, 0
		if err := s.w.Flush(); err != nil {
			return fmt.Errorf("write segment: %w", err)
		}
	}
	return nil
}

// endPages begins a new page in every column.
func (s *segmentWriter) endPages() error {
	for _, column := range s.w.ColumnWriters() {
		if err := column.Flush(); err != nil {
			return fmt.Errorf("write segment: %w", err)
		}
	}
	return nil
}

// close ends the files and describes the segment.
func (s *segmentWriter) close() (segmentRef, error) {
	if err := s.write(); err != nil {
		return segmentRef{}, err
	}
	s.w.SetKeyValueMetadata(nonceKey, rand.Text())
	if err := s.w.Close(); err != nil {
		return segmentRef{}, fmt.Errorf("write segment: %w", err)
	}
	s.w.Reset(io.Discard)
	writers.Put(s.w)
	if err := s.keys.close(); err != nil {
		return segmentRef{}, err
	}
	return segmentRef{
		Name:  hex.EncodeToString(s.sum.Sum(nil)),
		Rows:  s.rows,
		Bytes: s.count.n,
		Min:   s.min.String(),
		Max:   s.max.String(),
	}, nil
}

type countingWriter struct {
	w io.Writer
	n int64
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// A segmentFile reads the rows of a segment. It is safe for concurrent use.
type segmentFile struct {
	file   *parquet.File
	groups []parquet.RowGroup
	starts []int64 // first row of each group, and the end
}

func openSegment(r io.ReaderAt, size int64) (*segmentFile, error) {
	f, err := parquet.OpenFile(r, size, parquet.SkipBloomFilters(true), parquet.ReadBufferSize(16<<10))
	if err != nil {
		return nil, err
	}
	if err := checkColumns(f.Schema()); err != nil {
		return nil, err
	}
	s := &segmentFile{file: f, groups: f.RowGroups()}
	rows := int64(0)
	for _, g := range s.groups {
		s.starts = append(s.starts, rows)
		rows += g.NumRows()
	}
	s.starts = append(s.starts, rows)
	return s, nil
}

// checkColumns wants the columns that this program writes, in their order,
// perhaps without the later ones or with more behind them.
func checkColumns(got *parquet.Schema) error {
	want := rowSchema.Columns()
	if len(got.Columns()) < firstColumns {
		return fmt.Errorf("it has %d columns, want %d", len(got.Columns()), firstColumns)
	}
	for i, path := range want[:min(len(want), len(got.Columns()))] {
		if !slices.Equal(got.Columns()[i], path) {
			return fmt.Errorf("column %d is %s, want %s", i, strings.Join(got.Columns()[i], "."), path[0])
		}
		have, need := got.Fields()[i], rowSchema.Fields()[i]
		if !have.Leaf() || have.Required() != need.Required() || have.Repeated() || have.Type().Kind() != need.Type().Kind() || have.Type().Length() != need.Type().Length() {
			return fmt.Errorf("column %s is %s, want %s", path[0], have, need)
		}
	}
	return nil
}

func (s *segmentFile) rows() int64 { return s.starts[len(s.starts)-1] }

// read returns the rows with the given numbers, which must be ascending.
// room, where it is not nil, is how many bytes of raw answers may be read; what
// is beyond it is an ErrLarge.
func (s *segmentFile) read(numbers []int64, room *atomic.Int64) (rows []segmentRow, err error) {
	rows = make([]segmentRow, len(numbers))
	group := 0
	for i := 0; i < len(numbers); {
		for group < len(s.groups) && numbers[i] >= s.starts[group+1] {
			group++
		}
		if group == len(s.groups) {
			return nil, fmt.Errorf("row %d of %d", numbers[i], s.rows())
		}
		end := i
		for end < len(numbers) && numbers[end] < s.starts[group+1] {
			end++
		}
		if err := s.readGroup(group, numbers[i:end], rows[i:end], room); err != nil {
			return nil, err
		}
		i = end
	}
	return rows, nil
}

// readGroup reads rows of one group, column by column: from each the page that
// holds the row, and of it one value.
func (s *segmentFile) readGroup(group int, numbers []int64, rows []segmentRow, room *atomic.Int64) (err error) {
	chunks := s.groups[group].ColumnChunks()
	chunks = chunks[:min(len(chunks), segmentColumns)]
	values := make(parquet.Row, len(rows)*segmentColumns) // row by row
	for c := range segmentColumns {
		if c >= len(chunks) || c >= firstColumns && allNull(chunks[c]) {
			for i := range rows {
				values[i*segmentColumns+c] = parquet.NullValue().Level(0, 0, c)
			}
			continue
		}
		if err := readColumn(chunks[c], c, numbers, s.starts[group], values, segmentColumns, room); err != nil {
			return fmt.Errorf("column %d: %w", c, err)
		}
	}
	for i := range rows {
		if err := rowSchema.Reconstruct(&rows[i], values[i*segmentColumns:][:segmentColumns]); err != nil {
			return fmt.Errorf("row %d: %w", numbers[i], err)
		}
	}
	return nil
}

// allNull tells whether a column holds nothing, by its index: most segments
// have no ledgers, and reading an answer should not cost a page for that.
func allNull(chunk parquet.ColumnChunk) bool {
	index, err := chunk.ColumnIndex()
	if err != nil || index == nil || index.NumPages() == 0 {
		return false
	}
	for page := range index.NumPages() {
		if !index.NullPage(page) {
			return false
		}
	}
	return true
}

func readColumn(chunk parquet.ColumnChunk, column int, numbers []int64, first int64, values parquet.Row, stride int, room *atomic.Int64) (err error) {
	pages := chunk.Pages()
	defer func() { err = errors.Join(err, pages.Close()) }()
	for i := 0; i < len(numbers); {
		from := numbers[i] - first
		if err := pages.SeekToRow(from); err != nil {
			return fmt.Errorf("row %d: %w", numbers[i], err)
		}
		page, err := pages.ReadPage() // from that row to the page's end
		if err != nil {
			return fmt.Errorf("row %d: %w", numbers[i], noEOF(err))
		}
		// A page is unpacked once for all of its rows that are wanted.
		end := i + 1
		for end < len(numbers) && numbers[end]-first < from+page.NumRows() {
			end++
		}
		for ; i < end && err == nil; i++ {
			to := &values[i*stride+column]
			if err = readValue(page, numbers[i]-first-from, to); err == nil && room != nil && to.Kind() == parquet.ByteArray &&
				room.Add(-int64(len(to.ByteArray()))) < 0 {
				err = ErrLarge
			}
		}
		parquet.Release(page)
		if err != nil {
			return fmt.Errorf("row %d: %w", numbers[i-1], noEOF(err))
		}
	}
	return nil
}

// readValue reads the value of one row of a page of a flat column that is
// never null.
func readValue(page parquet.Page, row int64, to *parquet.Value) error {
	one := page.Slice(row, row+1)
	var v [1]parquet.Value
	got, err := one.Values().ReadValues(v[:])
	if got != 1 {
		return noEOF(err)
	}
	*to = v[0].Clone()
	return nil
}

// each visits all rows in order. A row must not be kept.
func (s *segmentFile) each(visit func(*segmentRow) error) (err error) {
	r := parquet.NewGenericReader[segmentRow](s.file)
	defer func() { err = errors.Join(err, r.Close()) }()
	rows := make([]segmentRow, 32)
	for {
		clear(rows) // texts of the last ones may still be in use
		n, err := r.Read(rows)
		for i := range rows[:n] {
			if err := visit(&rows[i]); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		case n == 0:
			return io.ErrUnexpectedEOF
		}
	}
}

// keyColumns are the first columns of segmentRow: what a key file is made from.
const keyColumns = 6

// writeKeys makes a segment's key file. It reads those columns alone.
func (s *segmentFile) writeKeys(w io.Writer) error {
	keys := newKeyWriter(w)
	for n, group := range s.groups {
		if err := writeGroupKeys(keys, group); err != nil {
			return fmt.Errorf("row group %d: %w", n, err)
		}
	}
	return keys.close()
}

func writeGroupKeys(keys *keyWriter, group parquet.RowGroup) (err error) {
	var columns [keyColumns]columnValues
	for i, chunk := range group.ColumnChunks()[:keyColumns] {
		columns[i].pages = chunk.Pages()
		defer func() { err = errors.Join(err, columns[i].close()) }()
	}
	for range group.NumRows() {
		var v [keyColumns]parquet.Value
		for i := range columns {
			if v[i], err = columns[i].next(); err != nil {
				return err
			}
		}
		key := v[0].ByteArray()
		if len(key) != len(Key{}) {
			return fmt.Errorf("a key of %d bytes", len(key))
		}
		row := segmentRow{Cap: v[1].Int64(), Complete: v[2].Boolean(), Finish: string(v[3].ByteArray()), Started: v[4].Int64(), CRC: v[5].Uint32()}
		if err := keys.add(Key(key), row.meta()); err != nil {
			return err
		}
	}
	return nil
}

// columnValues yields the values of a flat column that is never null.
type columnValues struct {
	pages  parquet.Pages
	page   parquet.Page
	values parquet.ValueReader
	buf    [64]parquet.Value
	ready  []parquet.Value
}

func (c *columnValues) next() (parquet.Value, error) {
	for len(c.ready) == 0 {
		if c.page == nil {
			page, err := c.pages.ReadPage()
			if err != nil {
				return parquet.Value{}, noEOF(err)
			}
			c.page, c.values = page, page.Values()
		}
		n, err := c.values.ReadValues(c.buf[:])
		c.ready = c.buf[:n]
		if err == io.EOF {
			err = nil
			if n == 0 {
				parquet.Release(c.page)
				c.page = nil
			}
		}
		if err != nil {
			return parquet.Value{}, err
		}
	}
	v := c.ready[0]
	c.ready = c.ready[1:]
	return v, nil
}

func (c *columnValues) close() error {
	if c.page != nil {
		parquet.Release(c.page)
	}
	return c.pages.Close()
}

func noEOF(err error) error {
	if err == nil || err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
