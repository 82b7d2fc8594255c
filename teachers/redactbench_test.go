package teachers

import (
	"fmt"
	"strings"
	"testing"
)

// What it costs to look for twenty keys in a megabyte of a stream that holds none.
func BenchmarkSearchForKeys(b *testing.B) {
	event := "data: {\"id\":\"chatcmpl-1\",\"model\":\"m\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\" a \\u003cb\\u003e of 100%\\n\"},\"finish_reason\":null}]}\n\n"
	raw := []byte(strings.Repeat(event, (1<<20)/len(event)))
	var s secrets
	for i := range 20 {
		s = append(s, fmt.Sprintf("sk-%02d-%s", i, canaryKey))
	}
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if got := s.answer(raw); len(got) != len(raw) {
			b.Fatal("something was found")
		}
	}
}
