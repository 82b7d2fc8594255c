package parquetio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"
)

// zstdBomb is a frame without a content size whose blocks are one byte each in
// the file and 128 KiB in memory.
func zstdBomb(blocks int) []byte {
	b := []byte{0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58}
	for i := range blocks {
		header := 128<<10<<3 | 1<<1
		if i == blocks-1 {
			header |= 1
		}
		b = append(b, byte(header), byte(header>>8), byte(header>>16), 'a')
	}
	return b
}

func TestPagesThatExpandWithoutBoundsAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		codec format.CompressionCodec
		body  []byte
	}{
		"zstd":             {format.Zstd, zstdBomb(maxPageBytes/(128<<10) + 1)},
		"zstd, two frames": {format.Zstd, append(zstdBomb(1100), zstdBomb(1100)...)},
		"zstd, a content size": {format.Zstd, binary.LittleEndian.AppendUint64(
			[]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, maxPageBytes+1)},
		"zstd, cut": {format.Zstd, zstdBomb(3)[:12]},
		"snappy":    {format.Snappy, binary.AppendUvarint(nil, maxPageBytes+1)},
		"no gzip":   {format.Gzip, []byte("no gzip")},
		"no brotli": {format.Brotli, []byte("no brotli")},
	} {
		if err := checkExpansion(tc.codec, tc.body); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: got %v, want ErrDamaged", name, err)
		}
	}
}

func TestZstdPagesOfEveryShapePass(t *testing.T) {
	for _, options := range [][]zstd.EOption{nil, {zstd.WithSingleSegment(true)}, {zstd.WithEncoderCRC(false)}, {zstd.WithEncoderLevel(zstd.SpeedBestCompression)}} {
		w, err := zstd.NewWriter(nil, options...)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 1, 300, 1 << 20} {
			for _, s := range []string{strings.Repeat("a", n), fmt.Sprint(make([]int, n/2))} {
				var stream bytes.Buffer
				w.Reset(&stream)
				if _, err := w.Write([]byte(s)); err != nil {
					t.Fatal(err)
				}
				if err := w.Close(); err != nil {
					t.Fatal(err)
				}
				for kind, body := range map[string][]byte{"whole": w.EncodeAll([]byte(s), nil), "stream": stream.Bytes()} {
					if err := checkZstd(body); err != nil {
						t.Errorf("%s, %d bytes: %v", kind, len(s), err)
					}
				}
			}
		}
	}
}

// LZ4 is refused with a next step rather than read wrong.
func TestLZ4IsRefused(t *testing.T) {
	type row struct {
		Text string `parquet:"text"`
	}
	var buf bytes.Buffer
	w := parquet.NewGenericWriter[row](&buf, parquet.Compression(&parquet.Lz4Raw))
	if _, err := w.Write([]row{{strings.Repeat("a", 1000)}}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open[row](bytes.NewReader(buf.Bytes()), int64(buf.Len())); !errors.Is(err, ErrSchema) || !strings.Contains(err.Error(), "zstd") {
		t.Errorf("got %v, want ErrSchema and the advice to use zstd", err)
	}
}

// Files of others come in every compression and both versions of pages.
func TestEveryCompressionIsRead(t *testing.T) {
	type row struct {
		Text string   `parquet:"text"`
		List []string `parquet:"list,list,optional"`
	}
	for name, codec := range map[string]compress.Codec{
		"none": &parquet.Uncompressed, "snappy": &parquet.Snappy, "gzip": &parquet.Gzip,
		"brotli": &parquet.Brotli, "zstd": &parquet.Zstd,
	} {
		for version := 1; version <= 2; version++ {
			var buf bytes.Buffer
			w := parquet.NewGenericWriter[row](&buf, parquet.Compression(codec), parquet.DataPageVersion(version))
			rows := make([]row, 500)
			for i := range rows {
				rows[i] = row{Text: strings.Repeat(fmt.Sprint(i), 30), List: []string{"x", fmt.Sprint(i)}}
			}
			if _, err := w.Write(rows); err != nil {
				t.Fatal(err)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			n := 0
			for m, err := range Maps(context.Background(), bytes.NewReader(buf.Bytes()), int64(buf.Len())) {
				if err != nil {
					t.Fatalf("%s, pages of version %d: %v", name, version, err)
				}
				if m["text"] != rows[n].Text {
					t.Fatalf("%s: row %d is %v", name, n, m)
				}
				n++
			}
			if n != len(rows) {
				t.Errorf("%s: %d rows", name, n)
			}
		}
	}
}

// A dictionary lets a page of some bytes stand for any number of copies of a long
// text: what a row makes of them is counted while it is made.
func TestARowIsBounded(t *testing.T) {
	type lists struct {
		A []string          `parquet:"a,list,dict"`
		M map[string]string `parquet:"m" parquet-value:",dict"`
		N []int64           `parquet:"n,list"`
	}
	row := func(texts, entries, numbers int) lists {
		l := lists{M: map[string]string{}, N: make([]int64, numbers)}
		for range texts {
			l.A = append(l.A, strings.Repeat("x", 100<<10))
		}
		for i := range entries {
			l.M[fmt.Sprint(i)] = strings.Repeat("y", 100<<10)
		}
		return l
	}
	for name, tc := range map[string]struct {
		row lists
		ok  bool
	}{
		"few": {row(4, 4, 1000), true}, "a list": {row(20, 0, 0), false}, "a map": {row(0, 20, 0), false}, "small values": {row(0, 0, 30_000), false},
	} {
		var b bytes.Buffer
		w := parquet.NewGenericWriter[lists](&b)
		if _, err := w.Write([]lists{tc.row}); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		file, err := openFile(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		root, err := planOf(file)
		if err != nil {
			t.Fatal(err)
		}
		rows := file.RowGroups()[0].Rows()
		buf := make([]parquet.Row, 1)
		if n, _, err := readRows(rows, buf); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		got, err := mapOf(root, make([][]parquet.Value, root.last), buf[0], 1<<20)
		if tc.ok != (err == nil) || err != nil && !errors.Is(err, ErrDamaged) {
			t.Errorf("%s: %v", name, err)
		}
		if tc.ok && len(got["a"].([]any)) != 4 {
			t.Errorf("%s: %v", name, got)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
