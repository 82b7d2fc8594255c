package parquetio_test

import (
	"bytes"
	"context"
	"io"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets"
	"github.com/stillhouse-data/stillhouse/datasets/parquetio"
)

const benchRows = 5000

func BenchmarkWrite(b *testing.B) {
	rows := many(benchRows)
	b.ReportAllocs()
	for b.Loop() {
		w, err := parquetio.NewWriter[datasets.Row](io.Discard, parquetio.Options{})
		if err != nil {
			b.Fatal(err)
		}
		if err := w.Write(rows); err != nil {
			b.Fatal(err)
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
		b.SetBytes(w.Bytes())
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkRead(b *testing.B) {
	data := write(b, many(benchRows), parquetio.Options{})
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		if rows, err := read[datasets.Row](data); err != nil || len(rows) != benchRows {
			b.Fatal(len(rows), err)
		}
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkMaps(b *testing.B) {
	data := write(b, many(benchRows), parquetio.Options{})
	b.ReportAllocs()
	for b.Loop() {
		for _, err := range parquetio.Maps(context.Background(), bytes.NewReader(data), int64(len(data))) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}

func BenchmarkCheck(b *testing.B) {
	data := write(b, many(benchRows), parquetio.Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parquetio.Check(bytes.NewReader(data), int64(len(data))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(benchRows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
}
