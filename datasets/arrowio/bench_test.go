package arrowio_test

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/stillhouse-data/stillhouse/datasets/arrowio"
)

type turns struct {
	Messages []message `parquet:"messages,list"`
	Tools    *string   `parquet:"tools,optional"`
}

type message struct {
	Role      string  `parquet:"role"`
	Content   *string `parquet:"content,optional"`
	Reasoning *string `parquet:"reasoning_content,optional"`
	Calls     []call  `parquet:"calls,list,optional"`
}

// BenchmarkWrite makes streams of conversations of about 1.4 kB and of answers
// with 64 kB of reasoning, in bytes and rows a second.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1000, 64 << 10} {
		b.Run(fmt.Sprintf("reasoning=%d", size), func(b *testing.B) {
			reasoning := strings.Repeat("Let x be 7; then 3x = 21. ", size/26)
			row := turns{Messages: []message{
				{Role: "user", Content: ptr(strings.Repeat("What is 3 times 7? ", 10))},
				{Role: "assistant", Content: ptr("21, since three sevens are twenty-one."), Reasoning: &reasoning},
			}}
			w, err := arrowio.NewWriter(io.Discard, reflect.TypeFor[turns](), arrowio.Options{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := w.Write(&row); err != nil {
					b.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(w.Bytes() / w.Rows())
			b.ReportMetric(float64(w.Rows())/b.Elapsed().Seconds(), "rows/s")
		})
	}
}
