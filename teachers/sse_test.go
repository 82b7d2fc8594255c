package teachers

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func readEvents(raw string, step int) []string {
	var s sseReader
	var out []string
	buf := make([]byte, 0, len(raw))
	for at := 0; ; at = min(at+step, len(raw)) {
		buf = append(buf, raw[len(buf):at]...)
		for {
			name, data, ok := s.next(buf, at == len(raw))
			if !ok {
				break
			}
			out = append(out, fmt.Sprintf("%s|%s", name, data))
		}
		if at == len(raw) {
			return out
		}
	}
}

func TestSSE(t *testing.T) {
	for name, c := range map[string]struct {
		raw  string
		want []string
	}{
		"plain":                 {"data: a\n\ndata: b\n\n", []string{"|a", "|b"}},
		"no space, CRLF":        {"data:a\r\n\r\ndata:b\r\n\r\n", []string{"|a", "|b"}},
		"two spaces":            {"data:  a\n\n", []string{"| a"}},
		"no blank line at end":  {"data: a\n\ndata: b", []string{"|a", "|b"}},
		"comments":              {": x\n\n:\ndata: a\n: y\n\n", []string{"|a"}},
		"names":                 {"event: error\ndata: a\n\ndata: b\n\n", []string{"error|a", "|b"}},
		"several lines":         {"data: a\ndata: b\ndata\ndata: c\n\n", []string{"|a\nb\n\nc"}},
		"other fields":          {"id: 1\nretry: 5\nfoo: bar\ndata: a\n\n", []string{"|a"}},
		"no data":               {"event: x\n\ndata: a\n\n", []string{"|a"}},
		"empty data":            {"data:\n\n", []string{"|"}},
		"byte order mark":       {"\xEF\xBB\xBFdata: a\n\n", []string{"|a"}},
		"nothing":               {"", nil},
		"blank lines in a row":  {"\n\n\ndata: a\n\n\n\n", []string{"|a"}},
		"a colon in the data":   {"data: a: b\n\n", []string{"|a: b"}},
		"a field without value": {"data\n\n", []string{"|"}},
	} {
		for _, step := range []int{1, 2, 3, 7, 1000} {
			if got := readEvents(c.raw, step); !slices.Equal(got, c.want) {
				t.Errorf("%s, %d bytes at a time: %q, want %q", name, step, got, c.want)
			}
		}
	}
}

// However the bytes are cut into reads, the events are the same.
func FuzzSSE(f *testing.F) {
	f.Add("event: x\r\ndata:a\r\ndata: b\n\n: c\n\ndata: d", 3)
	f.Add("\xEF\xBB\xBFdata\n\n\n", 1)
	f.Add("\xEF\xBB", 1)
	f.Fuzz(func(t *testing.T, raw string, step int) {
		if step <= 0 || len(raw) > 1<<16 {
			return
		}
		whole := readEvents(raw, max(len(raw), 1))
		if cut := readEvents(raw, step); !slices.Equal(whole, cut) {
			t.Fatalf("%d bytes at a time: %q, all at once: %q", step, cut, whole)
		}
	})
}

func TestSniff(t *testing.T) {
	for raw, want := range map[string]bodyKind{
		"": bodyUnknown, " \n": bodyUnknown, ": keep": bodyUnknown, "da": bodyUnknown, "data: x": bodyStream, "event: x": bodyStream,
		"\n\n{": bodyJSON, "[": bodyJSON, ": x\n\n{": bodyJSON, "\xEF\xBB\xBF{": bodyJSON, "<html>": bodyOther, "Bad gateway": bodyOther, ": x\ndata:": bodyStream,
	} {
		if got, _ := sniff([]byte(raw), 0, false); got != want {
			t.Errorf("%q is %d, want %d", raw, got, want)
		}
	}
	if got, _ := sniff([]byte("da"), 0, true); got != bodyOther {
		t.Errorf("a body of two letters is %d", got)
	}
}

// What encoding/json reads, the scanner reads, and to the same values.
func FuzzScan(f *testing.F) {
	f.Add(`{"a":[1,2.5e-3,{"b":"\u00e9\n\ud83d\ude00"}],"c":null,"d":true}`)
	f.Add(`[`)
	f.Add(`{"a":"\\"}`)
	f.Add(`{"a" :1,}`)
	f.Fuzz(func(t *testing.T, raw string) {
		b := []byte(strings.TrimSpace(raw))
		end, err := skipValue(b, 0, 0)
		if err == nil && (end <= 0 || end > len(b)) {
			t.Fatalf("the value ends at %d of %d", end, len(b))
		}
		var want any
		if len(raw) > 1<<12 || strings.Count(raw, "[")+strings.Count(raw, "{") >= maxDepth || json.Unmarshal(b, &want) != nil {
			return
		}
		if err != nil || end != len(b) {
			t.Fatalf("%q: encoding/json reads it, we stop at %d: %v", raw, end, err)
		}
		compare(t, b, want)
	})
}

func compare(t *testing.T, value []byte, want any) {
	t.Helper()
	switch want := want.(type) {
	case string:
		if !utf8.Valid(value) {
			return // encoding/json replaces byte by byte, we join halves first
		}
		if got := textOf(value); got != want && !strings.Contains(want, "\uFFFD") {
			t.Fatalf("%q reads as %q, want %q", value, got, want)
		}
	case []any:
		c := walk(value)
		for _, w := range want {
			if !c.next() {
				t.Fatalf("%q has fewer elements than %d: %v", value, len(want), c.err)
			}
			compare(t, c.value, w)
		}
		if c.next() {
			t.Fatalf("%q has more elements than %d", value, len(want))
		}
	case map[string]any:
		n := 0
		c := walk(value)
		for c.next() {
			n++
		}
		if c.err != nil || n < len(want) {
			t.Fatalf("%q has %d members, want at least %d: %v", value, n, len(want), c.err)
		}
	}
}

// A body that comes in pieces is what it is in one piece.
func TestSniffGoesOn(t *testing.T) {
	for _, body := range []string{"", "\xEF\xBB\xBF {\"a\":1}", " \r\n\t[1]", ": a\n:b\n\n  data: x\n", ": never ends", "ev", "event: x", "\n<html>", "plain", "  retry", "\xEF\xBB\xBF: c\nid: 1\n"} {
		kind, start := sniff([]byte(body), 0, true)
		at, gone := bodyUnknown, 0
		for n := min(3, len(body)); n <= len(body) && at == bodyUnknown; n++ { // a mark comes whole
			at, gone = sniff([]byte(body[:n]), gone, n == len(body))
		}
		if at != kind || at != bodyUnknown && gone != start {
			t.Errorf("%q: kind %d at %d in pieces, %d at %d in one", body, at, gone, kind, start)
		}
	}
}
